"""Progress bars of tqdm: they show how far something is, and nothing is computed from them.

As an input a bar counts by what it goes through, what it says and where it stands. That it has moved on is no change
that would have to be saved: the bar that is there is put where it was (`where`, `put`). One that is closed can be
saved, and comes back showing nothing, and without what it went through.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from nbcheckpoint.whose import package_of

PREFIX = "bar:"
"""Under this and its name is kept where a bar stands. No variable can be called that."""
_CLASSES = {
    "tqdm.std": "tqdm",
    "tqdm.asyncio": "tqdm_asyncio",
    "tqdm.notebook": "tqdm_notebook",
    "tqdm.auto": "tqdm",
    "tqdm.rich": "tqdm_rich",
}
_SAID = ("n", "total", "desc", "postfix", "unit")


def is_bar(value: Any) -> bool:
    return package_of(type(value)) == "tqdm" and hasattr(value, "iterable") and hasattr(value, "disable")


def identities() -> dict[type, Callable[[Any], Any]]:
    """What a bar counts by, as `__reduce__` would say it, for each class of bars there is."""
    return dict.fromkeys(_kinds(), _identity)


def reducers() -> dict[type, Callable[[Any], Any]]:
    """How a bar is saved. Each raises PicklingError for one that is not closed."""
    return dict.fromkeys(_kinds(), _reduced)


def _kinds() -> tuple[type, ...]:
    return _of(tuple(module in sys.modules for module in _CLASSES)) if "tqdm" in sys.modules else ()


@lru_cache
def _of(loaded: tuple[bool, ...]) -> tuple[type, ...]:
    there = ((m, name) for (m, name), is_there in zip(_CLASSES.items(), loaded, strict=True) if is_there)
    found = (getattr(sys.modules[module], name, None) for module, name in there)
    return tuple(dict.fromkeys(kind for kind in found if isinstance(kind, type)))


def _said(bar: Any) -> dict[str, Any]:
    return {name: getattr(bar, name, None) for name in _SAID}


def _identity(bar: Any) -> Any:
    return _made, (type(bar), bool(bar.disable), _said(bar), bar.iterable)


def _reduced(bar: Any) -> Any:
    if not bar.disable:
        raise pickle.PicklingError("a progress bar that is not closed")
    return _made, (type(bar), True, _said(bar), None)


def _made(kind: Any, disable: bool, said: dict[str, Any], iterable: Any) -> Any:
    made = kind(iterable, disable=disable)
    vars(made).update(said)
    return made


def where(bar: Any) -> tuple[float, bool]:
    """How far it is, and whether it is closed."""
    return bar.n, bool(bar.disable)


def put(bar: Any, at: tuple[float, bool]) -> None:
    """Where another one stood that was made like it."""
    if not is_bar(bar) or bar.disable:
        return
    n, closed = at
    with suppress(Exception):  # whatever it shows itself by: nothing depends on it
        bar.n = bar.last_print_n = n
        if hasattr(bar, "container"):
            bar.refresh()
        if closed:
            bar.leave = True
            bar.close()


def wrap(bar: Any, items: Iterator[Any], done: int) -> Iterator[Any]:
    """The bar again, over what is left, standing where it stood. It goes on having what it was made of."""
    bar.iterable = _Once(bar, items)
    bar.initial += done
    bar.n = bar.last_print_n = bar.initial
    return iter(bar)


class _Once:
    """What a bar goes through this time."""

    def __init__(self, bar: Any, items: Iterator[Any]) -> None:
        self._bar, self._of, self._items = bar, bar.iterable, items

    def __iter__(self) -> Iterator[Any]:
        self._bar.iterable = self._of
        return iter(self._items)

"""Lists, dicts and tuples that hold nothing but text, numbers and each other, as data that was read from JSON.

There may be millions of them, and each would be looked at by itself wherever values are looked at. Where none of them
is held twice, nothing about any of them is special. That can be told without running a line for each: level by level,
all that a level holds at once.
"""

from __future__ import annotations

import datetime
import decimal
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import compress
from operator import not_
from typing import Any

ATOMS = frozenset({str, bytes, int, float, complex, bool, type(None)})
WORTH_A_LOOK = 256
"""Items. Below that it takes no time to look at each."""
_KINDS = frozenset({list, dict, tuple})
_AT_ONCE = 1 << 16
"""Objects that are asked for what they hold between two looks at the clock."""


class _Here(threading.local):
    found: dict[int, dict[int, Any]] | None = None


_here = _Here()


@contextmanager
def remembered() -> Iterator[None]:
    """As long as nothing of the user's runs, what was found holds."""
    before, _here.found = _here.found, {}
    try:
        yield
    finally:
        _here.found = before


def inside(root: Any, *, go_on: Callable[[], object] = lambda: None) -> dict[int, Any] | None:
    """The root and every container below it by id, in an order that follows from their content, if that is all there is
    and each is held once. Tuples with nothing but atoms in them are left out: nobody can tell which one it is.

    `go_on` is called now and then, and may raise.
    """
    if type(root) not in _KINDS:
        return None
    known = _here.found.get(id(root)) if _here.found is not None else None
    if known is not None:
        return known
    met = _inside(root, go_on)
    if _here.found is not None and met is not None:  # of which it is the first: nobody else gets its id
        _here.found[id(root)] = met
    return met


def _inside(root: Any, go_on: Callable[[], object]) -> dict[int, Any] | None:
    met: dict[int, Any] = {id(root): root}
    level = [root] if not holds_atoms(root) else []
    while level:
        found: list[Any] = []
        for at in range(0, len(level), _AT_ONCE):
            go_on()
            held = gc.get_referents(*level[at : at + _AT_ONCE])
            found += compress(held, map(not_, map(ATOMS.__contains__, map(type, held))))
        kinds = set(map(type, found))
        if not kinds <= _KINDS:
            found = _but_leaves(found, kinds)
            kinds = set(map(type, found))
        if not kinds <= _KINDS:
            return None
        if tuple in kinds:
            found = [one for one in found if type(one) is not tuple or not ATOMS.issuperset(map(type, one))]
        before = len(met)
        met.update(zip(map(id, found), found, strict=True))
        if len(met) < before + len(found):
            return None
        level = found
    return met


def _but_leaves(found: list[Any], kinds: set[type]) -> list[Any]:
    """Without numbers of NumPy's, dates and the like: they lead nowhere, and cannot be changed."""
    leaves = {kind for kind in kinds if kind in _LEAVES or _is_number(kind)}
    with_zones = leaves & _WITH_ZONES
    zones = {one.tzinfo for one in found if type(one) in with_zones} if with_zones else set()
    if not zones <= {None, datetime.timezone.utc}:
        leaves -= _WITH_ZONES
    return [one for one in found if type(one) not in leaves]


def _is_number(kind: type) -> bool:
    """One of NumPy's own? Their classes are called what their kind is called."""
    numpy: Any = sys.modules.get("numpy")
    numbers = getattr(numpy, "number", None)
    return numbers is not None and issubclass(kind, (numbers, numpy.bool_)) and kind.__module__ == "numpy"


_WITH_ZONES = frozenset({datetime.datetime, datetime.time})
_LEAVES = _WITH_ZONES | {datetime.date, datetime.timedelta, decimal.Decimal, range}


def holds_atoms(container: Any) -> bool:
    """Text and numbers only?"""
    inside = container.values() if type(container) is dict else container
    keys = container if type(container) is dict else ()
    return ATOMS.issuperset(map(type, inside)) and ATOMS.issuperset(map(type, keys))

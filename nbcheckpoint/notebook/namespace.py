"""The user's variables: what a cell bound, and which variables share objects.

The namespace stays the plain dict it is. It is looked at before and after a cell, nothing is put into it.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import re
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from nbcheckpoint import tensors, unpickled
from nbcheckpoint.fingerprint.code import is_user_code
from nbcheckpoint.fingerprint.values import is_mutable

_HISTORY = re.compile(r"_(i?\d*|i+|_+|ih|oh|dh|exit_code)\Z|In\Z|Out\Z")
_DUNDER = re.compile(r"__\w+__\Z|__vsc_ipynb_file__\Z|__session__\Z")
_IPYTHON_NAMES = frozenset({"get_ipython", "exit", "quit", "open", "__builtin__"})
_CODE = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType),
    *(property, classmethod, staticmethod),
)
_IMMUTABLE = (str, bytes, int, float, complex, bool, type(None), range, slice, type(...))
MAX_WALK = 2_000_000
"""Objects looked at before sharing is taken for granted: about two seconds."""
_PLAIN = frozenset(_IMMUTABLE)
_PLAIN_SHARE = 16
"""So many strings or numbers in one container are passed in the time one object is looked at."""


@lru_cache(maxsize=1 << 16)
def is_user_name(name: str) -> bool:
    """Set by the user, rather than by IPython for its own use?"""
    return not (name in _IPYTHON_NAMES or _HISTORY.match(name) or _DUNDER.match(name))


def is_history(name: str) -> bool:
    """One of IPython's names for earlier inputs and results?"""
    return bool(_HISTORY.match(name))


def snapshot(namespace: dict[str, Any]) -> dict[str, Any]:
    """The user's names and what they are bound to; holding the values keeps their ids their own."""
    return {name: value for name, value in namespace.items() if is_user_name(name)}


def rebound(before: dict[str, Any], namespace: dict[str, Any]) -> set[str]:
    """Names that are new or bound to another object than before."""
    missing = object()
    return {n for n, v in namespace.items() if is_user_name(n) and before.get(n, missing) is not v}


def deleted(before: dict[str, Any], namespace: dict[str, Any]) -> set[str]:
    """Names that are gone."""
    return {name for name in before if name not in namespace}


def sharing(
    names: Iterable[str], namespace: dict[str, Any], *, roots: Iterable[Any] = (), walk: int = MAX_WALK
) -> set[str] | None:
    """The other names whose values share a mutable object with one of these, or with a root that has no name.

    None if that is too much to tell.
    """
    wanted = set(names)
    budget = [walk]
    mine = _reachable([*roots, *(namespace[name] for name in wanted if name in namespace)], budget)
    if not mine:
        return None if mine is None else set()
    touches = tensors.touching(mine.values())
    found = set()
    for name, value in (*namespace.items(), *_user_modules()):
        if name in wanted or not is_user_name(name) or type(value) in _PLAIN:
            continue
        theirs = _reachable([value], budget)
        if theirs is None:
            return None
        if not mine.keys().isdisjoint(theirs.keys()) or touches(theirs.values()):
            found.add(name)
    return found


_judged: dict[str, tuple[Any, bool]] = {}
"""Modules by name, and whether they are the user's: there are thousands, and they hardly ever change."""
_there: list[Any] = []
"""All modules there were at the last look."""
_own: list[tuple[str, types.ModuleType]] = []


def _user_modules() -> list[tuple[str, types.ModuleType]]:
    """Modules of the user's: they hold objects whether or not the notebook has a name for them."""
    global _there, _own
    there = list(sys.modules.values())
    if len(there) != len(_there) or any(map(operator.is_not, there, _there)):
        _there, _own = there, list(_judge())
    return _own


def _judge() -> Iterator[tuple[str, types.ModuleType]]:
    for name, module in list(sys.modules.items()):
        known = _judged.get(name)
        if known is None or known[0] is not module:
            own = isinstance(module, types.ModuleType) and name != "__main__" and is_user_code(module)
            known = _judged[name] = (module, own)
        if known[1]:
            yield f"module {name}", module


def _reachable(values: list[Any], budget: list[int]) -> dict[int, Any] | None:
    """id -> object for every mutable object reachable as data. Holds them while comparing."""
    found: dict[int, Any] = {}
    passed: dict[int, Any] = {id(found): found for _, found in unpickled.global_generators()}  # they are everybody's
    tensor = tensors.kind()
    stack = list(values)
    while stack:
        obj = stack.pop()
        if type(obj) in weakref.ProxyTypes:
            found[id(obj)] = obj
            stack.extend(_behind(obj))
            continue
        if isinstance(obj, _IMMUTABLE) or id(obj) in found or id(obj) in passed:
            continue
        budget[0] -= 1 + _length(obj) // _PLAIN_SHARE
        if budget[0] < 0:
            return None
        if isinstance(obj, _CODE):
            passed[id(obj)] = obj
            found.update((id(part), part) for part in _made_at_run_time(obj))
            stack.extend(_held_by(obj))
            continue
        (found if is_mutable(type(obj)) else passed)[id(obj)] = obj
        if _is_array(obj):
            # The collector does not look into arrays.
            stack.extend(_not_plain(obj.ravel().tolist()) if obj.dtype.kind == "O" else ())
            if obj.base is not None:
                stack.append(obj.base)
        stack.extend(_not_plain(gc.get_referents(obj)))
        if isinstance(obj, weakref.ref):
            stack.append(obj())
        if tensor is not None and isinstance(obj, tensor):
            stack.extend(tensors.parts(obj))
    return found


def _behind(proxy: Any) -> Iterator[Any]:
    """What a weak proxy passes for, if that is still there: whatever it is asked, its object answers."""
    with contextlib.suppress(ReferenceError):
        yield proxy.__init__.__self__


def _made_at_run_time(obj: Any) -> Iterator[Any]:
    """A lambda or inner function, which no definition makes again, and the variables it shares with others."""
    if isinstance(obj, types.FunctionType) and "<" in obj.__qualname__ and is_user_code(obj):
        yield obj
        yield from (c for n, c in zip(obj.__code__.co_freevars, obj.__closure__ or (), strict=True) if n != "__class__")


def _length(obj: Any) -> int:
    """How many objects it holds directly, as far as that is a matter of looking."""
    if type(obj) in (list, tuple, dict, set, frozenset):
        return len(obj)
    return int(obj.size) if _is_array(obj) and obj.dtype.kind == "O" else 0


def _not_plain(items: Sequence[Any]) -> Sequence[Any]:
    """What is held by a container, or nothing if that is strings and numbers only."""
    return () if _PLAIN.issuperset(map(type, items)) else items


def _held_by(obj: Any) -> Iterator[Any]:
    """The data that hangs on code: not its globals, which is everything."""
    if isinstance(obj, types.FunctionType):
        yield from (cell.cell_contents for cell in obj.__closure__ or () if _filled(cell))
        yield from obj.__defaults__ or ()
        yield from (obj.__kwdefaults__ or {}).values()
        yield from vars(obj).values()
    elif isinstance(obj, (types.BuiltinFunctionType, types.MethodType)):
        yield obj.__self__
    elif isinstance(obj, (type, types.ModuleType)) and is_user_code(obj) and obj.__name__ != "__main__":
        yield from (value for name, value in vars(obj).items() if not name.startswith("__"))


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # asking is the only way to know
    except ValueError:
        return False
    return True


def _is_array(obj: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


def closed(names: set[str], namespace: dict[str, Any]) -> set[str] | None:
    """The names and all that share objects with them, and all that share with those."""
    together = {name for name in names if name in namespace}
    while True:
        more = sharing(together, namespace)
        if more is None:
            return None
        if more <= together:
            return together
        together |= more

"""The user's variables: what a cell bound, and which variables share objects.

The namespace stays the plain dict it is. It is looked at before and after a cell, nothing is put into it.
"""

from __future__ import annotations

import gc
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

from nbcheckpoint.fingerprint.values import is_mutable

_IPYTHON_OWN = re.compile(r"_(i?\d*|i+|_+|ih|oh|dh|exit_code|_session__)\Z")
_IPYTHON_NAMES = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open", "__builtins__", "__builtin__"})
_SHARED_BY_ALL = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)
_IMMUTABLE = (str, bytes, int, float, complex, bool, type(None), range, slice, type(...))
MAX_WALK = 2_000_000
"""Objects looked at before sharing is taken for granted: about two seconds."""


def is_user_name(name: str) -> bool:
    """Set by the user, rather than by IPython for its own use?"""
    return not (name in _IPYTHON_NAMES or _IPYTHON_OWN.match(name) or name.startswith("__"))


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


def sharing(names: Iterable[str], namespace: dict[str, Any]) -> set[str] | None:
    """The other names whose values share a mutable object with one of these; None if that is too much to tell."""
    wanted = set(names)
    budget = [MAX_WALK]
    mine = _reachable([namespace[name] for name in wanted if name in namespace], budget)
    if not mine:
        return None if mine is None else set()
    found = set()
    for name, value in namespace.items():
        if name in wanted or not is_user_name(name) or isinstance(value, (*_SHARED_BY_ALL, *_IMMUTABLE)):
            continue
        theirs = _reachable([value], budget)
        if theirs is None:
            return None
        if not mine.keys().isdisjoint(theirs.keys()):
            found.add(name)
    return found


def _reachable(values: list[Any], budget: list[int]) -> dict[int, Any] | None:
    """id -> object for every mutable object reachable without going through code. Holds them while comparing."""
    found: dict[int, Any] = {}
    passed: dict[int, Any] = {}
    stack = list(values)
    while stack:
        obj = stack.pop()
        if isinstance(obj, (*_IMMUTABLE, *_SHARED_BY_ALL)) or id(obj) in found or id(obj) in passed:
            continue
        budget[0] -= 1
        if budget[0] < 0:
            return None
        (found if is_mutable(type(obj)) else passed)[id(obj)] = obj
        base = getattr(obj, "base", None) if _is_array(obj) else None
        if base is not None:
            stack.append(base)
        stack.extend(gc.get_referents(obj))
    return found


def _is_array(obj: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)

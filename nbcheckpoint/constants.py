"""What a library has among its own: values that are attributes of its classes, and everybody's.

Gradient boosting keeps the range of its predictions like that: two models refer to the same object, and share nothing.
Only what is compared by what it holds counts as such a value. The one instance of a class that there is, and that its
class keeps, is no constant: who has that shares it.
"""

from __future__ import annotations

import sys
import types
from typing import Any, NamedTuple

from nbcheckpoint.whose import is_user_code, package_of

_OTHERWISE = frozenset({"", "builtins", "__main__", "numpy", "pandas", "torch"})
"""Packages whose objects are known by other rules, or are nobody's constants."""


class _Known(NamedTuple):
    loaded: int
    """How many modules there were, of all packages."""
    modules: int
    own: dict[int, Any]


_known: dict[str, _Known] = {}


def is_of_library(obj: Any) -> bool:
    """Is it among what its library has for itself?"""
    return id(obj) in of_package(package_of(type(obj)))


def of_package(package: str) -> dict[int, Any]:
    """id -> object, for those of a package's own classes. Looked for once, and again when more of it is loaded."""
    if package in _OTHERWISE:
        return {}
    loaded, known = len(sys.modules), _known.get(package)
    if known is not None and known.loaded == loaded:
        return known.own
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    own = known.own if known is not None and known.modules == len(modules) else _look(package, modules)
    _known[package] = _Known(loaded, len(modules), own)
    return own


def _look(package: str, modules: list[Any]) -> dict[int, Any]:
    spaces = [vars(m) for m in modules if isinstance(m, types.ModuleType) and not is_user_code(m)]
    found = (value for space in spaces for value in list(space.values()) if isinstance(value, type))
    classes = [cls for cls in found if package_of(cls) == package]
    held = ((cls, value) for cls in classes for value in list(vars(cls).values()))
    return {id(value): value for cls, value in held if package_of(type(value)) == package and _is_value(value, cls)}


def _is_value(obj: Any, holder: type) -> bool:
    kind = type(obj)
    compares = any("__eq__" in vars(cls) for cls in type.mro(kind)[:-1])
    return compares and not issubclass(kind, (type, holder))

"""Whose code is it: the user's, or Python's and that of installed packages?

The user's is followed wherever it leads, and counts line by line. Of all other code the versions are recorded.
"""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys
import sysconfig
import types
from functools import lru_cache
from typing import Any


def home_of(thing: Any) -> str:
    """The module that a class, a function or a module says it comes from, or nothing. Never raises.

    Classes are asked through Python itself: a metaclass may answer anything. But where that gives no text, as with the
    functions of Cython, the metaclass is the one who knows.
    """
    try:
        found = _MODULE_OF.__get__(thing) if isinstance(thing, type) else None
        if isinstance(thing, types.ModuleType):
            found = vars(thing).get("__name__")
        elif not isinstance(found, str):
            found = thing.__module__
    except Exception:  # whatever stands there
        return ""
    return found if isinstance(found, str) else ""


def package_of(thing: Any) -> str:
    """The package at the root of that: `pandas`."""
    return home_of(thing).partition(".")[0]


def name_of(kind: type) -> str:
    """What a class is called, where it comes from, whatever its metaclass says."""
    return str(_NAME_OF.__get__(kind))


_MODULE_OF: Any = type.__dict__["__module__"]
_NAME_OF: Any = type.__dict__["__qualname__"]


def is_user_code(thing: types.FunctionType | type | types.ModuleType) -> bool:
    """Written by the user (the notebook, or a module outside of Python and its installed packages)?"""
    if isinstance(thing, types.ModuleType):
        return _is_own(thing)
    name = home_of(thing)
    if isinstance(thing, types.FunctionType) and name != reads_from(thing) and _is_known_as_own(reads_from(thing)):
        return True  # it says that it is another's: `functools.wraps`
    if not name or name == "__main__":
        return True
    module = sys.modules.get(name)
    if module is None:
        return isinstance(thing, types.FunctionType) or _by_a_statement(thing)
    return _is_own(module)


def reads_from(function: types.FunctionType) -> str:
    """The module whose variables it reads, whatever it says of itself."""
    return function.__globals__.get("__name__") or home_of(function) or "__main__"


def is_users_namespace(function: types.FunctionType) -> bool:
    """Are the variables it reads those of the notebook, or of a module of the user's?"""
    return _is_known_as_own(reads_from(function))


def _is_known_as_own(name: str) -> bool:
    module = sys.modules.get(name)
    return name == "__main__" or (module is not None and _is_own(module))


def _by_a_statement(cls: type) -> bool:
    """Was it made by a class statement, as far as one can tell? Those of C mostly have no place for attributes."""
    return not {"__dict__", "__weakref__", "__slots__"}.isdisjoint(vars(cls))


def _is_own(module: types.ModuleType) -> bool:
    """A module that has no file is a package without an `__init__`, part of Python, made by a library, or by hand."""
    held = vars(module)  # what it would make up when asked is not to be asked for
    path = held.get("__file__")
    if isinstance(path, str) and path:
        return is_user_file(path)
    folders = held.get("__path__")
    if folders:
        return any(is_user_file(os.path.join(str(folder), "__init__.py")) for folder in list(folders))
    name = home_of(module)
    if name == "__main__":
        return True
    if held.get("__spec__") is not None or name in sys.builtin_module_names:
        return False
    above = sys.modules.get(name.rpartition(".")[0])
    return _is_own(above) if above is not None else sys.modules.get(name) is not module


def is_user_module(name: str) -> bool:
    """The same of a module that may not have been imported yet."""
    top = name.partition(".")[0]
    if not top:
        return True  # relative: its own package, so it depends on whose code asks; in doubt the user's
    module = sys.modules.get(top)
    if module is not None:
        return is_user_code(module)
    try:
        spec = importlib.machinery.PathFinder.find_spec(top)
    except (ImportError, ValueError):
        return True
    if spec is None:
        return False
    folders = [os.path.join(folder, "__init__.py") for folder in spec.submodule_search_locations or ()]
    return any(map(is_user_file, [spec.origin] if spec.origin else folders))


@lru_cache(maxsize=4096)
def is_user_file(path: str) -> bool:
    """Neither Python's nor installed?"""
    if not path or path.startswith("<"):
        return False  # built in or frozen
    folder, name = os.path.split(path)
    real = os.path.realpath(path) if os.path.islink(path) else os.path.join(_real_folder(folder), name)
    return not real.startswith(_installed()) and not any(part in real for part in _INSTALLED)


_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
"""What pip installs lies in one of these, also where one environment sees what is installed in another."""


@lru_cache(maxsize=1024)
def _real_folder(path: str) -> str:
    """Asked once for all modules in it: following links takes a system call for each part of the path."""
    return os.path.realpath(path)


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    """Where Python and what pip installs live. Their versions are recorded, their code is not followed."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {site.getusersitepackages(), *(getattr(site, "getsitepackages", list)())}
    paths.add(os.path.dirname(os.path.abspath(__file__)))
    return tuple(os.path.realpath(path) + os.sep for path in paths if path)

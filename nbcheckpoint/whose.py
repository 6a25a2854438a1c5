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


def is_user_code(thing: types.FunctionType | type | types.ModuleType) -> bool:
    """Written by the user (the notebook, or a module outside of Python and its installed packages)?"""
    if isinstance(thing, types.ModuleType):
        return _is_own(thing)
    name = getattr(thing, "__module__", None)
    if isinstance(thing, types.FunctionType) and name != home_of(thing) and _is_known_as_own(home_of(thing)):
        return True  # it says that it is another's: `functools.wraps`
    if not name or name == "__main__":
        return True
    module = sys.modules.get(name)
    if module is None:
        return isinstance(thing, types.FunctionType) or _by_a_statement(thing)
    return _is_own(module)


def home_of(function: types.FunctionType) -> str:
    """The module whose variables it reads, whatever it says of itself."""
    return function.__globals__.get("__name__") or function.__module__ or "__main__"


def _is_known_as_own(name: str) -> bool:
    module = sys.modules.get(name)
    return name == "__main__" or (module is not None and _is_own(module))


def _by_a_statement(cls: type) -> bool:
    """Was it made by a class statement, as far as one can tell? Those of C mostly have no place for attributes."""
    return not {"__dict__", "__weakref__", "__slots__"}.isdisjoint(vars(cls))


def _is_own(module: types.ModuleType) -> bool:
    """A module that has no file is a package without an `__init__`, part of Python, made by a library, or by hand."""
    path = getattr(module, "__file__", None)
    if path:
        return is_user_file(path)
    folders = getattr(module, "__path__", None)
    if folders:
        return any(is_user_file(os.path.join(folder, "__init__.py")) for folder in list(folders))
    name = module.__name__
    if name == "__main__":
        return True
    if getattr(module, "__spec__", None) is not None or name in sys.builtin_module_names:
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

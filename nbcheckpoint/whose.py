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
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None)
    if not name or name == "__main__":
        return True
    module = sys.modules.get(name)
    if module is None:
        return isinstance(thing, types.FunctionType)
    return is_user_file(getattr(module, "__file__", None) or "")


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
    return spec is not None and is_user_file(spec.origin or "<namespace>")


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

"""The surroundings of a run: Python, the machine, the packages its notebook uses; written down, and compared later.

They are no part of what identifies a result. Whoever runs writes them into the run's `meta`; whoever looks, in another
process and perhaps another environment, reads what is installed *there* now, from files, without importing any of it.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import Distribution
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from nbcheckpoint.model import Record
from nbcheckpoint.whose import package_of

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

MOST_PACKAGES = 100


class Different(Record, frozen=True, kw_only=True):
    """Something around a run that is not what it was."""

    name: str
    then: str
    now: str
    """Empty where it is not installed any more."""


class Environment(Record, frozen=True, kw_only=True):
    """The surroundings of a run: name -> version, or whatever there is to say."""

    then: dict[str, str]
    now: dict[str, str]
    differs: tuple[Different, ...]


# In the process that runs


def here(namespace: Iterable[Any]) -> dict[str, str]:
    """As a run of a notebook writes it down. `namespace`: the values in whose modules to look for packages."""
    plain = {"python": platform.python_version(), "host": platform.node(), "prefix": sys.prefix}
    return {**plain, **packages(namespace)}


def packages(namespace: Iterable[Any]) -> dict[str, str]:
    """Package -> version of the modules, functions and classes among these values."""
    found: set[str] = set()
    for value in list(namespace):
        # By type, so that no attribute of the user's own objects is asked for: a weak proxy's may be gone.
        kind = type(value)
        if issubclass(kind, (ModuleType, FunctionType, type)):
            found.add(package_of(value))
    installed = {name: _installed(name, _site()) for name in sorted(found - sys.stdlib_module_names)[:MOST_PACKAGES]}
    return {name: version for name, version in installed.items() if version}


def _site() -> str:
    return sysconfig.get_path("purelib")


@lru_cache(maxsize=1024)  # asked after every cell; within a process nothing is installed behind our back that counts
def _installed(name: str, site: str) -> str:
    return version_in(name, site)


# In the process that looks


def environment(store: Store, id: str) -> Environment:
    """Raises NotFound. What was not written down then is not looked for now."""
    meta = store.run(id).meta
    written = meta.get("environment")
    found = written if isinstance(written, dict) else {name: meta[name] for name in ("python", "host") if name in meta}
    then = {str(name): str(what) for name, what in found.items()}
    now = _now(then)
    changed = (name for name in then if name in now and now[name] != then[name])
    return Environment(
        then=then,
        now={name: what for name, what in now.items() if what},
        differs=tuple(Different(name=name, then=then[name], now=now[name]) for name in changed),
    )


def _now(then: Mapping[str, str]) -> dict[str, str]:
    """As far as it can be told here. Packages, only where the environment they were in is still there."""
    now = {"host": platform.node(), "system": platform.platform(terse=True)}
    prefix = then.get("prefix", "")
    python = _python_in(prefix)
    if python:
        now |= {"python": python, "prefix": prefix}
    site = _site_in(prefix, then.get("python", ""))
    if site:
        now |= {name: version_in(name, site) for name in then if name not in (*now, "commit", "python", "prefix")}
    return {name: now[name] for name in then if name in now}


def _site_in(prefix: str, python: str) -> str:
    """Where an environment keeps its packages; "" where there is none of that kind."""
    if not os.path.isabs(prefix) or not re.fullmatch(r"\d+\.\d+\.\d+\w*", python):
        return ""
    names = {"base": prefix, "platbase": prefix, "py_version_short": ".".join(python.split(".")[:2])}
    site = sysconfig.get_path("purelib", "nt" if os.name == "nt" else "posix_prefix", vars=names)
    return site if os.path.isdir(site) else ""


def _python_in(prefix: str) -> str:
    """The version of the Python of an environment; "" where that cannot be told."""
    if prefix == sys.prefix:
        return platform.python_version()
    try:
        lines = (Path(prefix) / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return ""
    facts = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    return ".".join((facts.get("version_info") or facts.get("version") or "").split(".")[:3])


def version_in(name: str, site: str) -> str:
    """The version of what is installed under that name, or holds a module of that name; "" where there is none."""
    try:
        for found in Distribution.discover(name=name, path=[site]):
            return str(found.version)
        for found in Distribution.discover(path=[site]):
            if name in (found.read_text("top_level.txt") or "").split():
                return str(found.version)
    except (OSError, ValueError, TypeError):
        pass  # metadata that cannot be read is none
    return ""

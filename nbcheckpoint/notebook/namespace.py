"""The user's variables: which names are theirs, and what a cell bound and deleted.

The namespace stays the plain dict it is. It is looked at before and after a cell, nothing is put into it. A thread of
the user's may put something in at any moment: so it is copied, which is one step to Python, before it is gone through.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from itertools import compress, filterfalse, repeat
from operator import is_not
from typing import Any

_HISTORY = re.compile(r"_(i?\d*|i+|_+|ih|oh|dh|exit_code)\Z|In\Z|Out\Z")
_DUNDER = re.compile(r"__\w+__\Z|__vsc_ipynb_file__\Z|__session__\Z")
_GIVEN = re.compile(r"__(name|doc|package|loader|spec|file|builtins?|annotations|vsc_ipynb_file|session)__\Z")
_IPYTHON_NAMES = frozenset({"get_ipython", "exit", "quit", "open", "__builtin__"})


@lru_cache(maxsize=1 << 16)
def is_user_name(name: str) -> bool:
    """Set by the user, rather than by IPython for its own use?"""
    return not (name in _IPYTHON_NAMES or _HISTORY.match(name) or _DUNDER.match(name))


def is_given(name: str) -> bool:
    """There from the start, or kept by IPython or Python? Any other name was set by somebody: `__version__`, too."""
    return name in _IPYTHON_NAMES or bool(_HISTORY.match(name) or _GIVEN.match(name))


def is_history(name: str) -> bool:
    """One of IPython's names for earlier inputs and results?"""
    return bool(_HISTORY.match(name))


def rebound(before: dict[str, Any], namespace: dict[str, Any], written: Collection[str] = ()) -> set[str]:
    """Names that are new or bound to another object than before.

    A name that the user's code has `written` is the user's, also where IPython has a use for it: `for _ in …`. There
    may be thousands, after each of thousands of statements: so no line is run for each.
    """
    missing = object()
    now = namespace.copy()
    others = compress(now, map(is_not, map(before.get, now, repeat(missing)), now.values()))
    return {name for name in others if is_user_name(name) or name in written}


def deleted(before: dict[str, Any], namespace: dict[str, Any], written: Collection[str] = ()) -> set[str]:
    """Names that are gone."""
    gone = filterfalse(namespace.__contains__, before)
    return {name for name in gone if is_user_name(name) or name in written}

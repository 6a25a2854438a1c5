"""Forking with open stores.

Theory of operation. A process may be copied at any moment, by the user's `multiprocessing` as well as by us.
No thread may be inside SQLite then, or the child inherits its mutexes locked; so the forking thread first takes
the locks of every open store. The child starts with nothing of its parent's: connections are left behind
unclosed, locks are new, and the stores open again when they are next used.

The same goes for Python's own locks: nothing below a store imports a module at the time it is used, because a child
copied during another thread's import waits for that import for ever.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something with connections that must not be in use while the process is copied."""

    def freeze(self) -> None:
        """Wait until no thread is using a connection, and let none begin."""

    def thaw(self) -> None:
        """Go on."""

    def forget(self) -> None:
        """In the child: nothing of it is ours."""


_open: weakref.WeakSet[Forkable] = weakref.WeakSet()
_frozen: list[Forkable] = []
_one_at_a_time = threading.Lock()
opening = threading.RLock()
"""Held while a store is being opened, when it is not registered yet."""


def register(store: Forkable) -> None:
    _open.add(store)


def _before() -> None:
    _one_at_a_time.acquire()  # two forking threads, each with half of the locks, would wait for ever
    opening.acquire()
    for store in list(_open):
        store.freeze()
        _frozen.append(store)


def _in_parent() -> None:
    while _frozen:
        _frozen.pop().thaw()
    opening.release()
    _one_at_a_time.release()


def _in_child() -> None:
    try:
        while _frozen:
            _frozen.pop().forget()
    finally:
        opening.release()
        _one_at_a_time.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

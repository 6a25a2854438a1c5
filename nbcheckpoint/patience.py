"""Patience with the user's own `__reduce__`, `__getstate__` and the like, which may never come to an end.

While we look at values or save them, their methods are called. A watcher sees, once in a while, whether the same call
of a method of the user's is still going on; after some seconds it raises TookTooLong in there. From then on instances
of that class are left alone. What a library does may take as long as it likes, and so may the user's code when it is
its turn. One that waits for a lock or sleeps is woken by a signal that otherwise means nothing; only what keeps to
itself in C, or waits in another thread than the main one, is waited for.

The watcher never raises anything outside of `limited`: whether somebody is in there, and whether something is on its
way to be raised, is settled under one lock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import sysconfig
import threading
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 5.0
LOOK_SECONDS = 0.5
WAKING = getattr(signal, "SIGURG", None)
"""Nobody minds it by default, and hardly anybody uses it. Windows has none."""
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

endless: set[type] = set()
"""Classes whose instances took too long."""


class TookTooLong(Exception):
    """Raised inside of a method that does not come to an end."""


def check(kind: type) -> None:
    """Raises TookTooLong for a class that is known for it."""
    if kind in endless:
        raise TookTooLong("it does not come to an end")


class Patience:
    """One watcher for all threads that look at values; it starts when the first does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0
        """Who is in there, if somebody is."""
        self._raised = False
        self._watcher: threading.Thread | None = None
        self._pid = 0

    @contextmanager
    def limited(self) -> Iterator[None]:
        """In here, a method of the user's is not waited for for ever."""
        if self._watcher is None or self._pid != os.getpid():
            self._start()
        outer, self._thread = self._thread, threading.get_ident()
        try:
            yield
        finally:
            with self._lock:
                self._thread = outer
                if self._raised:  # and perhaps not arrived yet: then it never will
                    _raise_in(threading.get_ident(), None)
                    self._raised = False

    @property
    def is_here(self) -> bool:
        """Is this thread in there? Then what is called is called for us."""
        return self._thread != 0 and self._thread == threading.get_ident()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """In here it is as if it were not."""
        with self._lock:
            here, self._thread = self._thread, 0
        try:
            yield
        finally:
            self._thread = here

    def _start(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._watcher = threading.Thread(target=self._watch, name="nbcheckpoint-patience", daemon=True)
        self._watcher.start()
        here = threading.current_thread() is threading.main_thread()
        if here and WAKING is not None and signal.getsignal(WAKING) is signal.SIG_DFL:
            signal.signal(WAKING, self._woken)

    def _woken(self, _: int, frame: types.FrameType | None) -> None:
        """The main thread has been woken. Where it is no more in a method that we have called, that came too late."""
        if self._raised and _called_from(frame) is not None:
            _raise_in(threading.get_ident(), None)
            raise TookTooLong("it does not come to an end")

    def _watch(self) -> None:
        seen: tuple[types.FrameType, float] | None = None
        while True:
            time.sleep(LOOK_SECONDS)
            frame = _called_by_us(self._thread) if self._thread else None
            if frame is None or seen is None or seen[0] is not frame:
                seen = (frame, time.monotonic()) if frame is not None else None
            elif time.monotonic() - seen[1] >= SECONDS:
                self._end(frame)
                seen = None

    def _end(self, frame: types.FrameType) -> None:
        with self._lock:
            if self._thread and _called_by_us(self._thread) is frame:
                if "self" in frame.f_locals:
                    endless.add(type(frame.f_locals["self"]))
                self._raised = True
                _raise_in(self._thread, TookTooLong)
                handler: Any = signal.getsignal(WAKING) if WAKING is not None else None
                if WAKING is not None and handler == self._woken and self._thread == threading.main_thread().ident:
                    signal.pthread_kill(self._thread, WAKING)


def _called_by_us(thread: int) -> types.FrameType | None:
    """The user's function that our code has called in that thread and that has not returned, if there is one."""
    return _called_from(sys._current_frames().get(thread))


def _called_from(frame: types.FrameType | None) -> types.FrameType | None:
    last = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_OURS):
            return last
        if not name.startswith((*_LIBRARIES, "<frozen")) and not any(part in name for part in _INSTALLED):
            last = frame  # pickle itself, and cloudpickle, may be in between
        frame = frame.f_back
    return None


def _raise_in(thread: int, what: type[BaseException] | None) -> None:
    given = ctypes.py_object(what) if what is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), given)


shared = Patience()
"""One for the process: its watcher stays, however often the extension is loaded."""

"""Calls that come later unless they are called off: one thread for all of them.

A thread for each would be two switches of threads at every cell, which on a busy machine are milliseconds. Asking for a
call and calling it off takes a lock; the thread is woken only for a call that comes before the one it waits for.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

_log = logging.getLogger("nbcheckpoint")


class Call:
    """Something to be called, once, in a thread that is not the caller's. What it raises is logged."""

    __slots__ = ("_work",)

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Callable[[], object] | None = work

    def call_off(self) -> None:
        """It does not begin from here on. It may be under way."""
        self._work = None

    def _make(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            try:
                work()
            except Exception:
                _log.exception("a fault in the background")


class _Alarm:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()
        self._wakes = 0.0
        """When the thread will look again by itself."""
        self._thread: threading.Thread | None = None

    def later(self, seconds: float, call: Call) -> None:
        with self._changed:
            when = time.monotonic() + seconds
            heapq.heappush(self._calls, (when, next(self._numbers), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="nbcheckpoint-alarm", daemon=True)
                self._thread.start()
            elif when < self._wakes:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next()._make()

    def _next(self) -> Call:
        with self._changed:
            while True:
                now = time.monotonic()
                if self._calls and self._calls[0][0] <= now:
                    self._wakes = now  # whoever asks meanwhile need not wake it: it looks again
                    return heapq.heappop(self._calls)[2]
                self._wakes = self._calls[0][0] if self._calls else float("inf")
                self._changed.wait(self._wakes - now if self._calls else None)


_alarm = _Alarm()


def later(seconds: float, work: Callable[[], object]) -> Call:
    """Have something called after so many seconds. Nothing of it happens in a forked child."""
    call = Call(work)
    _alarm.later(seconds, call)
    return call


def _after_fork() -> None:
    global _alarm
    _alarm = _Alarm()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

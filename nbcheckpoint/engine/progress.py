"""How far something slow has come, for whoever is watching: a bar on a terminal, or what somebody else shows.

A watcher is told (name, done, total, failed, seconds left or None), not more than a few times a second, and once at the
end. One that raises is told nothing more.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Watcher = Callable[[str, int, int, int, "float | None"], Any]
watchers: list[Watcher] = []
"""Whoever shows progress by itself: a notebook. With none, a terminal gets a bar."""
_OFTEN_SECONDS = 0.2


class Progress:
    """Of one map."""

    def __init__(self, name: str, total: int, done: int, *, quiet: bool) -> None:
        self.name, self.total, self.done, self.failed = name, total, done, 0
        self._at_first, self._began = done, time.monotonic()
        self._told = 0.0
        self._quiet = quiet
        self._bar: Any = None

    @property
    def left(self) -> float | None:
        """Seconds, from what the items of this session took."""
        made = self.done - self._at_first
        spent = time.monotonic() - self._began
        return spent / made * (self.total - self.done) if made else None

    def step(self, *, failed: bool = False) -> None:
        self.done += 1
        self.failed += failed
        if time.monotonic() - self._told >= _OFTEN_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Say how far it is."""
        self._told = time.monotonic()
        if self._quiet:
            return
        for watcher in tuple(watchers):
            try:
                watcher(self.name, self.done, self.total, self.failed, self.left)
            except Exception:  # whoever watches must not disturb the work
                watchers.remove(watcher)
        if not watchers and sys.stderr.isatty():
            self._draw()

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        if self._bar is None:
            bar = Bar(console=Console(stderr=True), transient=True)
            self._bar = bar, bar.add_task(self.name, total=self.total)
            bar.start()
        bar, task = self._bar
        bar.update(task, completed=self.done)

    def close(self) -> None:
        self.tell()
        if self._bar is not None:
            self._bar[0].stop()

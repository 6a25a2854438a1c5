"""Files a step's body opens, when several bodies run at once.

The hook behind `FileWatch` sees every opening in the process. What another step opens is that one's matter; what is
opened by a thread that belongs to no step could be anybody's, and counts for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nbcheckpoint.fingerprint import files

_mine: ContextVar[object] = ContextVar("nbcheckpoint_watch", default=None)


class StepWatch(files.FileWatch):
    """What one step opens."""

    def note(self, path: str, *, reads: bool, writes: bool, appends: bool = False) -> None:
        if _mine.get() in (self, None):
            super().note(path, reads=reads, writes=writes, appends=appends)

    def note_change(self, path: str, *, made: bool) -> None:
        if _mine.get() in (self, None):
            super().note_change(path, made=made)


@contextmanager
def watching(ignore: Iterable[str]) -> Iterator[StepWatch]:
    """Note what is opened in here, in this thread or task and those that take its context along."""
    watch = StepWatch(ignore)
    token = _mine.set(watch)
    files.start(watch)
    try:
        yield watch
    finally:
        files.stop(watch)
        _mine.reset(token)

"""Files a step's body opens and random generators it draws from, when several bodies run at once.

The hook behind `FileWatch` sees every opening in the process. What another step opens is that one's matter, and that of
the steps it is part of; what is opened by a thread that belongs to no step could be anybody's, and counts for all.
Of generators it is known only where they were before and behind a body, and whether others ran beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nbcheckpoint.engine import shown
from nbcheckpoint.engine.strands import Strand
from nbcheckpoint.fingerprint import files, programs, rng
from nbcheckpoint.model import FileSeen

_mine: ContextVar[StepWatch | None] = ContextVar("nbcheckpoint_watch", default=None)


class StepWatch(files.FileWatch):
    """What one step opens, and what the steps inside of it do."""

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        super().__init__(ignore)
        self.outer = _mine.get()
        self.strand = Strand()
        self.random: Mapping[str, Any] = {}
        self.random_after: Mapping[str, Any] = {}
        self.shown: Callable[[], shown.Outputs] = list
        """What it has shown."""

    def concerns(self) -> bool:
        """Is what happens now, in this thread or task, the step's doing?"""
        return _mine.get() is None or _is_within(self)

    def note(self, path: str, *, reads: bool, writes: bool, appends: bool = False) -> None:
        if self.concerns():
            super().note(path, reads=reads, writes=writes, appends=appends)

    def note_told(self, told: programs.Told) -> None:
        if self.concerns():
            super().note_told(told)

    def note_change(self, path: str, *, made: bool) -> None:
        if self.concerns():
            super().note_change(path, made=made)

    def include(self, files: Iterable[FileSeen]) -> None:
        if self.concerns():
            super().include(files)


class LoopWatch(StepWatch):
    """What is opened while a loop goes on, by the step it stands in; outside of every step, by anybody."""

    def concerns(self) -> bool:
        return self.outer is None or self.outer.concerns()


def _is_within(watch: StepWatch) -> bool:
    now = _mine.get()
    while now is not None and now is not watch:
        now = now.outer
    return now is watch


@contextmanager
def watching(watch: StepWatch) -> Iterator[None]:
    """Note what is opened in here, in this thread or task and those that take its context along, and what is drawn."""
    token = _mine.set(watch)
    files.start(watch)
    watch.random = rng.states()
    try:
        with shown.recording() as watch.shown:
            yield
    finally:
        watch.random_after = rng.states()
        files.stop(watch)
        _mine.reset(token)

"""Which bodies run beside each other, and so may draw from the same random generator.

What a step drew is a function of where the generator was only if nobody else drew meanwhile. So every body is a
*strand* as long as it runs. It is *shared* if another one, that neither called it nor was called by it, ran in the
same time; or if it runs in another thread or task than whoever called it, who may then do anything. A body that
starts others beside itself is not: all they draw is its own doing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

Place = tuple[int, Any]
"""A thread, and the task that runs in it."""


@dataclass(eq=False, slots=True)
class Strand:
    """One body, from its beginning to its end."""

    shared: bool = False
    outer: Strand | None = None
    place: Place = field(default_factory=lambda: _here())


_now: ContextVar[Strand | None] = ContextVar("nbcheckpoint_strand", default=None)
_place: ContextVar[Place | None] = ContextVar("nbcheckpoint_place", default=None)
_running: set[Strand] = set()
_lock = threading.Lock()


def place() -> Place:
    """Where the caller runs: where a helper thread works for somebody, that is where he is."""
    return _place.get() or _here()


def _here() -> Place:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop is running
        task = None
    return threading.get_ident(), task


def work_for(somebody: Place) -> None:
    """This thread's context is a copy, made to do something for somebody who waits."""
    _place.set(somebody)


@contextmanager
def running(strand: Strand, called_from: Place) -> Iterator[None]:
    """A body runs in here."""
    outer = _now.get()
    strand.outer, strand.place = outer, _here()
    beside = called_from != outer.place if outer is not None else called_from[0] != threading.main_thread().ident
    with _lock:
        strand.shared = beside or (outer is not None and outer.shared)
        for other in _running.difference(_above(strand)):
            other.shared = strand.shared = True
        _running.add(strand)
    tokens = _now.set(strand), _place.set(None)
    try:
        yield
    finally:
        _now.reset(tokens[0])
        _place.reset(tokens[1])
        with _lock:
            _running.discard(strand)


def is_alone() -> bool:
    """May the caller move a random generator, and nobody else will meanwhile?"""
    mine = _now.get()
    with _lock:
        if mine is None:
            return not _running and place()[0] == threading.main_thread().ident
        return not mine.shared and mine.place == place() and _running <= {mine, *_above(mine)}


def _above(strand: Strand) -> Iterator[Strand]:
    while strand.outer is not None:
        strand = strand.outer
        yield strand

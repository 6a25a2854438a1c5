"""One step in another process: reads what it was sent, runs the body, saves the result and writes the completion.

It works with a store of its own, opened by URL. Whoever sent it may be gone by then: the result is in the store, and
whoever resumes the run finds it. If somebody has taken the step over meanwhile, the completion is refused (fenced).
What it has read counts for the steps it is part of, in the process that sent it: it stands in the checkpoint, or goes
back with the result, or with the error, which may be caught there.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import cloudpickle

from nbcheckpoint.engine.calling import Call
from nbcheckpoint.engine.context import Frame
from nbcheckpoint.engine.effects import drive
from nbcheckpoint.engine.journal import Journal, Ticket
from nbcheckpoint.engine.watching import watching
from nbcheckpoint.model import FileSeen, Run, Step
from nbcheckpoint.store import Store, open_store

_stores: dict[tuple[int, str], Store] = {}


class Done(NamedTuple):
    """What came of it."""

    step: bytes
    """The step's record, as the worker wrote it."""
    checkpoint: str
    value: bytes
    """The result itself, only where it was not saved."""
    files: tuple[FileSeen, ...] = ()
    """What it has read and written, only then as well: else that stands in the checkpoint."""


_FILES = "__nbcheckpoint_files__"
"""An attribute of errors: what was read and written before they were raised."""
UNKNOWN = (FileSeen(path=""),)
"""Of a worker that has died, or whose error does not carry what it is given: that never matches."""


def read_before(error: BaseException) -> tuple[FileSeen, ...]:
    """What a worker had read and written when it raised this. Taken off it: it is nobody else's."""
    found: tuple[FileSeen, ...] = vars(error).pop(_FILES, UNKNOWN)
    return found


def packed(call: Call) -> bytes:
    """A call as bytes: the function by value, because the worker does not have the notebook's definitions."""
    assert call.parent is not None
    assert call.ticket is not None
    journal = call.parent.journal
    order = {
        "url": call.store.url,
        "run": journal.run.to_json(),
        "settings": dict(journal.settings),
        "since": journal.since,
        "forced": journal.is_forced(),
        "step": call.ticket.step.to_json(),
        "version": call.ticket.version,
        "spec": call.spec,
        "args": tuple(call.args),
        "kwargs": dict(call.kwargs),
        "reached": call.reached and call.reached._replace(values={}, code_inside={}),
        "identity": call.identity and call.identity._replace(values={}, code_inside={}),
    }
    found: bytes = cloudpickle.dumps(order, protocol=5)
    return found


def work(order: bytes) -> Done:
    """Carry a packed call out. Raises what the body raises, after that has been written down."""
    told: dict[str, Any] = cloudpickle.loads(order)
    store = _store(told["url"])
    step = Step.from_json(told["step"])
    inside = store.steps(step.run, inner=True, below=step.address)
    run = Run.from_json(told["run"])
    journal = Journal(store, run, settings=told["settings"], since=told["since"], steps=inside)
    journal.is_helper = True
    if told["forced"]:
        journal.start_at = str(step.meta["slot"])
    call = Call.__new__(Call)
    call.adopt(
        told["spec"],
        told["args"],
        told["kwargs"],
        Frame(journal, slot=str(step.meta["slot"]).rpartition("/")[0]),
        Ticket(step, told["version"]),
        told["reached"],
        told["identity"],
    )
    watch = call.watch()
    try:
        with watching(watch):
            outcome = drive(call.attempts())
    except BaseException as error:
        vars(error)[_FILES] = watch.seen()
        raise
    ended = outcome.step or call.ticket.step  # type: ignore[union-attr]  # it was adopted with one
    if outcome.checkpoint:
        return Done(ended.to_json(), outcome.checkpoint, b"")
    return Done(ended.to_json(), "", cloudpickle.dumps(outcome.value, protocol=5), watch.seen())


def _store(url: str) -> Store:
    """One store for all that this process is sent. A forked child opens its own."""
    key = os.getpid(), url
    if key not in _stores:
        _stores[key] = open_store(url)
    return _stores[key]

"""Facts, told to whoever listens. A listener that raises disturbs nobody: neither the work nor the other listeners.

Who tells what: the store tells what its records say (`run_*`, `step_*` by status, `checkpoint_*`, `store_error`), each
after it has been written, whoever wrote it. The engine tells what only it knows: retries, pauses, branches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol

from nbcheckpoint.model import Event, utc_now
from nbcheckpoint.redact import redact

EventType = Literal[
    "run_started",
    "run_resumed",
    "run_paused",
    "run_completed",
    "run_failed",
    "run_interrupted",
    "run_cancelled",
    "run_forked",
    "step_started",
    "step_completed",
    "step_failed",
    "step_retried",
    "step_interrupted",
    "step_skipped",
    "step_restored",
    "step_invalidated",
    "step_fenced",
    "checkpoint_saved",
    "checkpoint_failed",
    "checkpoint_restored",
    "checkpoint_pruned",
    "pause_opened",
    "pause_answered",
    "edge_evaluated",
    "cycle_detected",
    "graph_completed",
    "store_error",
]
"""Everything that can be told."""

Listener = Callable[[Event], Any]


class Tracer(Protocol):
    """Gives what happens in a run a name in somebody's traces."""

    def trace_of(self, run: str) -> str:
        """What this session of the run is called there, to be kept with the run; "" if it is called nothing."""

    def link(self, run: str, trace: str) -> None:
        """This session goes on from the one that was called that."""


tracers: list[Tracer] = []
"""Asked by whoever begins or resumes a run."""

_log = logging.getLogger("nbcheckpoint.events")
_listeners: list[Listener] = []


def subscribe(listener: Listener) -> Callable[[], None]:
    """Be told every event from here on. Returns the function that ends it.

    Events come in the thread in which they happen, some of them in the background.

    >>> stop = subscribe(lambda event: print(event.type, event.data))
    >>> emit("run_started", run="20260101T120000000-0a1b2c", workflow="train.ipynb")
    run_started {'workflow': 'train.ipynb'}
    >>> stop()
    """
    _listeners.append(listener)

    def unsubscribe() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return unsubscribe


def emit(type: EventType, *, run: str = "", step: str = "", **data: Any) -> None:
    """Tell a fact. Never raises."""
    told = {name: redact(value) if isinstance(value, str) else value for name, value in data.items()}
    event = Event(type=type, time=utc_now(), run=run, step=step, data=told)
    _log.debug("%s %s %s %s", event.type, event.run, event.step, event.data)
    for listener in tuple(_listeners):
        try:
            listener(event)
        except Exception:  # the listener's own fault
            _log.exception("a listener failed on %s", event.type)

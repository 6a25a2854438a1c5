"""Ready-made listeners: events as lines of JSON, as Jupyter events, as OpenTelemetry spans.

    stop = observers.to_file("events.jsonl")
    stop = observers.to_telemetry()

Each returns the function that ends it. By default events go to the log `nbcheckpoint.events`, and nowhere else. A
listener that raises disturbs nobody (see `events.py`); one that cannot begin says so when it is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbcheckpoint.errors import MissingExtra
from nbcheckpoint.events import subscribe, tracers
from nbcheckpoint.model import Event

Stop = Callable[[], None]

SCHEMA_ID = "urn:nbcheckpoint:events:v1"
SCHEMA: dict[str, Any] = {
    "$id": SCHEMA_ID,
    "version": "1",
    "title": "Checkpoint events",
    "description": "What happens in runs, steps and checkpoints.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "title": "Type"},
        "time": {"type": "string", "title": "Time"},
        "run": {"type": "string", "title": "Run"},
        "step": {"type": "string", "title": "Step"},
        "data": {"type": "object", "title": "Data"},
    },
    "required": ["type", "time"],
}


def to_file(path: str | os.PathLike[str]) -> Stop:
    """Append every event to a file, one line of JSON each. Whole lines, also from several processes.

    >>> stop = to_file("events.jsonl")
    >>> stop()
    """
    target = Path(path)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    lock = threading.Lock()

    def write(event: Event) -> None:
        with lock:
            os.write(handle, event.to_json() + b"\n")  # one write of one line: the system keeps it whole

    unsubscribe = subscribe(write)

    def stop() -> None:
        unsubscribe()
        with lock:
            os.close(handle)

    return stop


def to_jupyter(logger: Any) -> Stop:
    """Emit every event through a `jupyter_events.EventLogger`, as a server or a kernel has one."""
    if SCHEMA_ID not in logger.schemas:
        logger.register_event_schema(SCHEMA)
    return subscribe(lambda event: logger.emit(schema_id=SCHEMA_ID, data=event.to_dict()))


def to_telemetry(tracer: Any = None) -> Stop:
    """Runs and steps as OpenTelemetry spans: one root span for each session of a run in this process, its steps below.

    A resumed run begins a trace of its own, linked to the one before, in whichever process that was: whoever runs it
    keeps the trace's name with the run (see `events.tracers`).
    """
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise MissingExtra("opentelemetry-api", "otel") from error
    spans = _Spans(tracer or trace.get_tracer("nbcheckpoint"), trace)
    unsubscribe = subscribe(spans.told)
    tracers.append(spans)

    def stop() -> None:
        unsubscribe()
        tracers.remove(spans)
        spans.close()

    return stop


_BEGIN_RUN = ("run_started", "run_resumed")
_END_RUN = ("run_completed", "run_failed", "run_interrupted", "run_paused", "run_cancelled")
_END_STEP = ("step_completed", "step_failed", "step_interrupted", "step_skipped")
_FAILED = ("run_failed", "step_failed")


class _Spans:
    """The open spans of this process."""

    def __init__(self, tracer: Any, trace: Any) -> None:
        self._tracer, self._trace = tracer, trace
        self._runs: dict[str, Any] = {}
        self._steps: dict[tuple[str, str], Any] = {}
        self._lock = threading.RLock()

    def told(self, event: Event) -> None:
        with self._lock:
            if event.type in _BEGIN_RUN:
                self._begin_run(event)
            elif event.type == "step_started":
                self._begin_step(event)
            elif event.type in _END_STEP:
                self._end(self._steps.pop((event.run, event.step), None), event)
            elif event.type in _END_RUN:
                self._end_run(event)
            elif event.run in self._runs:
                span = self._steps.get((event.run, event.step), self._runs[event.run])
                span.add_event(event.type, _plain(event.data))

    def _begin_run(self, event: Event) -> None:
        self._end_run(event)
        name = str(event.data.get("workflow") or "run")
        attributes = {"nbcheckpoint.run": event.run, "nbcheckpoint.resumed": event.type == "run_resumed"}
        self._runs[event.run] = self._tracer.start_span(name, context=self._nothing(), attributes=attributes)

    def trace_of(self, run: str) -> str:
        """`trace id-span id` of the run's root span, in hex; "" if there is none."""
        with self._lock:
            context = self._runs[run].get_span_context() if run in self._runs else None
        return f"{context.trace_id:032x}-{context.span_id:016x}" if context is not None else ""

    def link(self, run: str, trace: str) -> None:
        """The run's root span goes on from that one."""
        try:
            trace_id, span_id = (int(part, 16) for part in trace.split("-"))
        except ValueError:
            return  # not ours
        before = self._trace.SpanContext(trace_id, span_id, is_remote=True)
        with self._lock:
            if run in self._runs:
                self._runs[run].add_link(before)

    def _nothing(self) -> Any:
        """No parent, whatever span may be current."""
        return self._trace.set_span_in_context(self._trace.INVALID_SPAN)

    def _begin_step(self, event: Event) -> None:
        parent = self._steps.get((event.run, event.step.rpartition(".")[0])) or self._runs.get(event.run)
        if parent is not None:
            self._steps[event.run, event.step] = self._tracer.start_span(
                str(event.data.get("name") or event.step),
                context=self._trace.set_span_in_context(parent),
                attributes={"nbcheckpoint.run": event.run, "nbcheckpoint.step": event.step},
            )

    def _end_run(self, event: Event) -> None:
        for run, step in [key for key in self._steps if key[0] == event.run]:
            self._end(self._steps.pop((run, step)), event)
        self._end(self._runs.pop(event.run, None), event)

    def _end(self, span: Any, event: Event) -> None:
        if span is None:
            return
        span.add_event(event.type, _plain(event.data))
        if event.type in _FAILED:
            text = str(event.data.get("error", ""))
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, text))
        span.end()

    def close(self) -> None:
        with self._lock:
            for span in (*self._steps.values(), *self._runs.values()):
                span.end()
            self._steps.clear()
            self._runs.clear()


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """As attributes of a span: strings and numbers."""
    return {key: value if isinstance(value, (str, int, float, bool)) else str(value) for key, value in data.items()}

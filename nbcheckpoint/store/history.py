"""What happened in a run, told from its records.

Events are not stored: they would be written for every step, and read by hardly anybody. Each one follows from a record
that is there anyway, with the time it was written down.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from nbcheckpoint.model import Event, Run, Step, shaped
from nbcheckpoint.store.telling import RUN_EVENTS, STEP_EVENTS

if TYPE_CHECKING:
    from nbcheckpoint.store import Store


def events(store: Store, run: str) -> list[Event]:
    """Of the run and all its steps, oldest first."""
    found = store.run(run)
    told = [*_of_run(found), *(event for step in store.steps(run, inner=True) for event in _of_step(step))]
    told = sorted(told, key=lambda event: event.time or found.created)  # stable: what has no time stays in order
    return [*told, *_end(found)]


def _of_run(run: Run) -> Iterator[Event]:
    forked = shaped(run.meta.get("forked"), dict[str, Any], {})
    kind = "run_forked" if forked else "run_started"
    yield Event(type=kind, time=run.created, run=run.id, data=dict(forked or {"workflow": run.workflow}))
    for moment in shaped(run.meta.get("resumed"), list[str], []):
        yield Event(type="run_resumed", time=moment, run=run.id)


def _end(run: Run) -> Iterator[Event]:
    if run.status != "running":
        yield Event(type=RUN_EVENTS[run.status], time=run.updated, run=run.id)


def _of_step(step: Step) -> Iterator[Event]:
    def told(type: str, time: str, /, **data: Any) -> Event:
        return Event(type=type, time=time, run=step.run, step=step.address, data={"name": step.name, **data})

    ended = _later(step.started, step.seconds)
    if "pause" in step.meta:
        yield told("pause_opened", step.started, prompt=_part(step, "pause").get("prompt", ""))
        if "answer" in step.meta:
            yield told("pause_answered", str(_part(step, "answer").get("at", ended)))
        return
    if step.started and step.status != "restored":
        yield told("step_started", step.started)
    for tried in shaped(step.meta.get("retried"), list[dict[str, Any]], []):
        yield told("step_retried", str(tried.get("at", "")), error=tried.get("error", ""))
    if step.status in STEP_EVENTS and step.status != "running":
        more = {"error": step.error} if step.error else {}
        yield told(STEP_EVENTS[step.status], ended, **more)
    if step.checkpoint and step.status == "completed":
        yield told("checkpoint_saved", ended, checkpoint=step.checkpoint, bytes=step.bytes)
    for way in shaped(step.meta.get("edges"), list[dict[str, Any]], []):
        yield told("edge_evaluated", ended, **way)


def _part(step: Step, name: str) -> dict[str, Any]:
    return shaped(step.meta.get(name), dict[str, Any], {})


def _later(moment: str, seconds: float) -> str:
    try:
        then = datetime.fromisoformat(moment.replace("Z", "+00:00")) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return moment
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")

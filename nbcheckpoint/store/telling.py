"""Which event a record's change is: one table for runs, one for steps, and what an error tells."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbcheckpoint.errors import ChunkPruned, Error, StoreError
from nbcheckpoint.events import EventType, emit
from nbcheckpoint.model import Run, RunStatus, Step, StepStatus
from nbcheckpoint.store.liveness import seen

RUN_EVENTS: dict[RunStatus, EventType] = {
    "running": "run_resumed",
    "completed": "run_completed",
    "failed": "run_failed",
    "interrupted": "run_interrupted",
    "paused": "run_paused",
    "cancelled": "run_cancelled",
}
STEP_EVENTS: dict[StepStatus, EventType] = {
    "running": "step_started",
    "completed": "step_completed",
    "restored": "step_restored",
    "failed": "step_failed",
    "interrupted": "step_interrupted",
    "skipped": "step_skipped",
}
"""A step that is pending has not happened, and a pause is told by whoever opens it."""


def tell_started(run: Run) -> None:
    emit("run_started", run=run.id, workflow=run.workflow)


def tell_changed(before: Run, after: Run) -> None:
    """That a run has another status. One that was interrupted is told so by whoever resumes it: it could not itself."""
    found = seen(before).status
    if found == after.status:
        return
    if found != before.status:
        emit(RUN_EVENTS[found], run=after.id, workflow=after.workflow)
    emit(RUN_EVENTS[after.status], run=after.id, workflow=after.workflow)


def tell_step(step: Step) -> None:
    if step.status in STEP_EVENTS:
        more = {"error": step.error} if step.error else {}
        emit(STEP_EVENTS[step.status], run=step.run, step=step.address, name=step.name, **more)


def tell_error(error: Error, **more: Any) -> None:
    emit("store_error", error=str(error), kind=type(error).__name__, key=getattr(error, "key", ""), **more)


@contextmanager
def telling() -> Iterator[None]:
    """Tells what goes wrong with the store meanwhile. A chunk that was pruned is no fault: it is put again."""
    try:
        yield
    except ChunkPruned:
        raise
    except StoreError as error:
        tell_error(error)
        raise


def tell_damage(name: str, problem: str) -> None:
    """What a backend calls that has found damage by itself, in the background."""
    logging.getLogger("nbcheckpoint").warning("%s", problem)
    emit("store_error", error=problem, kind="StoreDamaged", key=name)

"""Which status may follow which: the whole life of a step and of a run, as two tables.

A step that is `completed` or `restored` runs again only when what it depends on has changed. `interrupted` is never
written by whoever is interrupted by death: it is what others see when the owner of something running is gone.
"""

from __future__ import annotations

from nbcheckpoint.errors import Error
from nbcheckpoint.model import RunStatus, StepStatus

STEP: dict[StepStatus, frozenset[StepStatus]] = {
    "pending": frozenset({"running", "restored", "skipped", "paused", "completed"}),
    "running": frozenset({"running", "completed", "restored", "failed", "interrupted", "skipped", "paused"}),
    "completed": frozenset({"running", "restored", "skipped", "completed"}),
    "restored": frozenset({"running", "restored", "skipped"}),
    "failed": frozenset({"running", "restored", "skipped", "failed"}),
    "interrupted": frozenset({"running", "restored", "skipped", "paused", "failed"}),
    "paused": frozenset({"paused", "completed", "running", "restored", "skipped"}),
    "skipped": frozenset({"skipped", "running", "restored"}),
}

RUN: dict[RunStatus, frozenset[RunStatus]] = {
    "running": frozenset({"running", "completed", "failed", "interrupted", "paused", "cancelled"}),
    "completed": frozenset({"running", "completed"}),
    "failed": frozenset({"running"}),
    "interrupted": frozenset({"running"}),
    "paused": frozenset({"running", "cancelled"}),
    "cancelled": frozenset({"running"}),
}

RESUMABLE: frozenset[RunStatus] = frozenset({"interrupted", "failed", "paused"})
"""A run with one of these is continued by calling its flow again with the same inputs."""


def step_may(before: StepStatus, after: StepStatus) -> StepStatus:
    """`after`, if it may follow. Raises Error: that is a fault of ours."""
    if after not in STEP[before]:
        raise Error(f"a step that is {before} cannot become {after}")
    return after

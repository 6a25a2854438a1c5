"""How a run without a front end is asked for, what becomes of it, and who is told meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nbcheckpoint.errors import Error, UsageError
from nbcheckpoint.model import Run, RunStatus
from nbcheckpoint.notebook.runner import GRACE_SECONDS, KernelDied
from nbcheckpoint.notebook.session import UNATTENDED
from nbcheckpoint.redact import HIDDEN, is_secret


@dataclass(frozen=True)
class Request:
    """A run as it was asked for. All of it but the store is kept in the run's record."""

    notebook: Path
    out: Path
    parameters: Mapping[str, Any] = field(default_factory=dict)
    kernel: str = ""
    store: str | None = None
    cwd: Path | None = None
    timeout: float | None = None
    allow_errors: bool = False
    fresh: bool = False
    restarts: int = 0
    grace: float = GRACE_SECONDS
    auto: tuple[str, ...] = ()
    """As behind `%checkpoint auto`."""

    def to_meta(self) -> dict[str, Any]:
        """What the record keeps. Parameters are the run's inputs."""
        found = asdict(replace(self, parameters={}))
        found = {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}
        found = {name: value for name, value in found.items() if name not in ("parameters", "store", "fresh")}
        return {**found, "floats": [name for name, value in self.parameters.items() if _is_endless(value)]}

    def inputs(self) -> dict[str, Any]:
        """The parameters as the record shows them. JSON has no NaN and nothing without end: `floats` names those."""
        plain = {name: str(value) if _is_endless(value) else value for name, value in self.parameters.items()}
        return {name: HIDDEN if is_secret(name) else value for name, value in plain.items()}

    @classmethod
    def of_run(cls, run: Run, store: str | None) -> Request:
        """The same again. Raises UsageError, NotFound."""
        meta = run.meta.get(UNATTENDED)
        if run.kind != "notebook" or not isinstance(meta, dict) or not run.trusted:
            raise UsageError(
                f"{run.workflow} {run.id} was not run by `nbcheckpoint run`", hint="nbcheckpoint run NOTEBOOK runs one"
            )
        hidden = [name for name, value in run.inputs.items() if is_secret(name) and value == HIDDEN]
        if hidden:
            raise UsageError(
                f"{', '.join(hidden)} was not written down: its name says that it is a secret",
                hint=f"nbcheckpoint run {meta['notebook']} -p {hidden[0]} … goes on with it",
            )
        known = {name: meta[name] for name in cls.__dataclass_fields__ if name in meta}
        paths = {name: Path(known[name]) for name in ("notebook", "out", "cwd") if known.get(name)}
        given = {**run.inputs, **{name: float(run.inputs[name]) for name in meta.get("floats", ())}}
        return cls(**{**known, **paths, "parameters": given, "store": store, "auto": tuple(known.get("auto", ()))})


def _is_endless(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


@dataclass(frozen=True)
class CellOutcome:
    """What became of one cell."""

    cell: int
    """Its number, as in `In [3]`."""
    id: str
    name: str
    """Its first line of code."""
    status: str
    """`restored`, `resumed`, `computed`, `paused`, `failed` or `interrupted`."""
    seconds: float
    line: str
    """What nbcheckpoint says about it, if anything."""


@dataclass(frozen=True)
class Outcome:
    """What became of the run."""

    notebook: str
    out: str
    status: RunStatus
    cells: tuple[CellOutcome, ...]
    """As far as the last kernel came."""
    total: int
    """Of how many."""
    seconds: float
    deaths: int
    """Kernels that died."""
    run: Run | None
    error: Error | None

    def count(self, status: str) -> int:
        return sum(cell.status == status for cell in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """As `--json` and `--report json` show it."""
        plain = {name: getattr(self, name) for name in ("notebook", "out", "status", "total", "seconds", "deaths")}
        error = self.error
        return {
            **plain,
            **{status: self.count(status) for status in ("restored", "resumed", "computed", "failed")},
            "spared_seconds": self.run.spared_seconds if self.run else 0.0,
            "cells": [asdict(cell) for cell in self.cells],
            "error": {"type": type(error).__name__, "text": str(error), "hint": error.hint} if error else None,
            "run": self.run.to_dict() if self.run else None,
        }


class Watcher:
    """Who is told what happens. Each method may be left as it is."""

    wants_forecast = False

    def begins(self, total: int, run: Run | None) -> None:
        """So many cells, in this run."""

    def expects(self, seconds: Mapping[int, float]) -> None:
        """How long the cells will take, as far as that is known, if that is wanted."""

    def starts(self, number: int, name: str) -> None:
        """A cell."""

    def goes_on(self, done: int, total: int, left: float | None) -> None:
        """The loop in that cell: `total` is 0 and `left` None where nobody knows."""

    def ends(self, cell: CellOutcome) -> None:
        """A cell."""

    def dies(self, error: KernelDied, left: int) -> None:
        """A kernel; so many may still be started."""

    def stops(self, number: int) -> None:
        """It was asked to, by this signal."""

    def note(self, text: str) -> None:
        """Something to know that is no error."""

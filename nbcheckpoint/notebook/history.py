"""What the cells of a run did, read back from the store: each cell with its statements and their checkpoints.

Only records are read, nothing is unpickled.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nbcheckpoint.errors import Error, NotFound
from nbcheckpoint.model import Checkpoint, Run, Step
from nbcheckpoint.notebook.session import Session
from nbcheckpoint.store import Store

UNFINISHED = ("running", "failed", "interrupted", "paused", "pending")
ALIKE = 0.5
"""Two statements of one cell at least so much alike count as versions of each other."""
ALIKE_ELSEWHERE = 0.8
"""The same for statements of different cells: one may have been moved, or its cell renamed."""
COMPARED = 200
"""So many of the newest are compared letter by letter."""


@dataclass(frozen=True)
class Statement:
    """One statement of a cell that ran."""

    step: Step
    checkpoint: Checkpoint | None
    gone: str = ""
    """Why its checkpoint cannot be read, if it left one."""

    @property
    def source(self) -> str:
        return self.checkpoint.source if self.checkpoint else str(self.step.meta.get("source", ""))

    @property
    def problem(self) -> str:
        """Why it left no checkpoint."""
        return str(self.step.meta.get("problem", ""))


@dataclass(frozen=True)
class CellRun:
    """One cell that ran, or was running when its kernel died."""

    step: Step
    statements: tuple[Statement, ...]

    @property
    def session(self) -> int:
        """Which of the run's kernels it ran in."""
        found = self.step.meta.get("session", 0)
        return found if isinstance(found, int) else 0

    @property
    def finished(self) -> bool:
        return self.step.status not in UNFINISHED


def existing_store(session: Session) -> Store:
    """The notebook's store, with all that was saved so far in it. Looking does not make one: raises NotFound."""
    if not session.opened:
        from nbcheckpoint.store import open_store

        session.fetch()
        open_store(session.location, create=False).close()
    session.store.flush()
    return session.store


def latest_run(session: Session, store: Store) -> Run:
    """The run this kernel works on, else the last one of this notebook. Raises NotFound."""
    if session.begun is not None:
        return store.run(session.begun.id)
    found = store.runs(workflow=session.workflow, limit=1)
    if not found:
        raise NotFound(f"{session.workflow} has not been run yet", hint="begin a cell with %%checkpointed")
    return found[0]


def cells_of(store: Store, run: str) -> list[CellRun]:
    """The cells of a run in the order they ran."""
    cells: dict[str, Step] = {}
    inner: dict[str, list[Step]] = {}
    for step in store.steps(run, inner=True):
        cell, _, rest = step.address.partition(".")
        if not rest:
            cells[cell] = step
        elif "." not in rest:
            inner.setdefault(cell, []).append(step)
    lost = [address for address, step in cells.items() if step.status == "running" and address not in inner]
    for step in _left_behind(store, run, lost) if lost else ():
        inner.setdefault(step.address.partition(".")[0], []).append(step)
    for address, step in cells.items():
        inner.setdefault(address, []).extend(_brought_back(step))
    known: dict[str, Checkpoint] = {}
    return [
        CellRun(step, tuple(_statement(store, known, item) for item in inner.get(address, ())))
        for address, step in cells.items()
    ]


def _left_behind(store: Store, run: str, addresses: Sequence[str]) -> list[Step]:
    """Statements of cells whose kernel died before they were written down: their checkpoints tell of them."""
    pattern = re.compile(rf"(?:{'|'.join(map(re.escape, addresses))})\.\d+")
    mine = [c for c in checkpoints(store) if c.run == run and c.trusted and c.progress is None]
    found = [c for c in mine if pattern.fullmatch(c.step)]
    kept = sorted(found, key=lambda c: c.step)
    common: Any = {"run": run, "kind": "statement", "status": "completed"}
    return [Step(address=c.step, name=c.name, seconds=c.seconds, checkpoint=c.id, **common) for c in kept]


def _brought_back(step: Step) -> list[Step]:
    """What `%checkpoint restore` and `resume` bound, as if statements had been restored there."""
    found = step.meta.get("restored")
    common: Any = {"run": step.run, "name": step.name, "kind": "statement", "status": "restored"}
    return [
        Step(address=f"{step.address}.{at:03d}", checkpoint=id, meta={"names": names}, trusted=step.trusted, **common)
        for at, (id, names) in enumerate(found.items() if isinstance(found, dict) else ())
        if isinstance(names, list)
    ]


def _statement(store: Store, known: dict[str, Checkpoint], step: Step) -> Statement:
    if not step.checkpoint:
        return Statement(step, None)
    if step.checkpoint not in known:
        try:
            known[step.checkpoint] = store.checkpoint(step.checkpoint)
        except NotFound:
            return Statement(step, None, "its checkpoint has been pruned or deleted")
        except Error as error:
            return Statement(step, None, str(error))
    return Statement(step, known[step.checkpoint])


def checkpoints(store: Store) -> list[Checkpoint]:
    """Every checkpoint whose record can be read."""
    found = []
    for entry in store.backend.scan("checkpoint/"):
        try:
            found.append(store._open(Checkpoint, entry.key, entry.value))
        except Error:
            continue  # `verify` tells
    return found


def nearest(
    source: str, cell: str, workflow: str, earlier: Iterable[Checkpoint], *, code: str = ""
) -> Checkpoint | None:
    """The earlier version of a statement: of the same code, else of the same place, else the most alike. Pure."""
    mine = [c for c in earlier if c.trusted and c.meta.get("workflow", workflow) == workflow]
    mine.sort(key=lambda c: c.created, reverse=True)
    same = [c for c in mine if code and c.code == code]
    if same:
        return same[0]
    place = cell.rpartition("#")[0]
    here = [c for c in mine if place and str(c.meta.get("cell", "")).rpartition("#")[0] == place]
    for group, enough in ((here, ALIKE), (mine[:COMPARED], ALIKE_ELSEWHERE)):
        scored = [(_likeness(source, c.source), c.meta.get("cell") == cell, c.created, c.id, c) for c in group]
        best = max(scored, key=lambda row: row[:4], default=None)
        if best is not None and best[0] >= enough:
            return best[4]
    return next((c for c in here if c.meta.get("cell") == cell), None)


def _likeness(a: str, b: str) -> float:
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if len(a) * len(b) > 1_000_000 or matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
        return 1.0 if a == b else 0.0
    return matcher.ratio()


def first_line(source: str, width: int = 60) -> str:
    """What a statement or cell is shown as."""
    lines = [line.strip() for line in source.splitlines() if line.strip() and not line.lstrip().startswith("%%")]
    code = [line for line in lines if not line.startswith("#")]
    text = (code or lines or [""])[0]
    return text if len(text) <= width else text[: width - 1] + "…"


def own_names(names: Iterable[str]) -> list[str]:
    """The variables among the names a checkpoint holds."""
    return [name for name in names if ":" not in name]


def to_dict(statement: Statement) -> dict[str, Any]:
    """A statement as plain data."""
    step = statement.step
    return {
        "statement": int(step.address.rpartition(".")[2]) + 1,
        "source": statement.source,
        "status": "restored" if step.status == "restored" else "computed",
        "seconds": step.seconds,
        "checkpoint": step.checkpoint,
        "reason": step.reason.to_dict() if step.reason else None,
        "problem": statement.problem or statement.gone,
    }

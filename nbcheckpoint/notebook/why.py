"""`%checkpoint why`: what became of each statement of a cell, and what exactly was different from before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbcheckpoint.errors import NotFound, UsageError
from nbcheckpoint.model import Checkpoint, Step
from nbcheckpoint.notebook.answer import Answer, diff_lines
from nbcheckpoint.notebook.history import (
    CellRun,
    Statement,
    cells_of,
    checkpoints,
    first_line,
    latest_run,
    nearest,
    to_dict,
)
from nbcheckpoint.notebook.line import when
from nbcheckpoint.notebook.session import Session
from nbcheckpoint.store import Store
from nbcheckpoint.store.compare import Diff, Difference, compare
from nbcheckpoint.units import say_duration


def why(session: Session, store: Store, cell: str = "", *, now: Step | None = None) -> Answer:
    """Explain a cell of the latest run. `now` is the step that asks, if it is one: not the one meant."""
    run = latest_run(session, store)
    cells = [
        c for c in cells_of(store, run.id) if now is None or c.step.address != now.address or c.step.run != now.run
    ]
    found = choose(cells, cell)
    everything = checkpoints(store)
    parts: list[Any] = [_headline(found)]
    rows = []
    for statement in found.statements:
        difference = _difference(statement, found, everything)
        parts += _paragraph(statement, difference)
        rows.append({**to_dict(statement), "difference": difference.to_dict() if difference else None})
    if not found.statements:
        parts.append("None of its statements has ended.")
    return Answer(parts, {**found.step.to_dict(), "statements": rows})


def choose(cells: Sequence[CellRun], text: str) -> CellRun:
    """The cell meant: the last, the nth from the end, or by name or id. Pure. Raises NotFound, UsageError."""
    if not cells:
        raise NotFound("no cell has been checkpointed yet", hint="begin a cell with %%checkpointed")
    if not text:
        return cells[-1]
    named = [c for c in cells if text in (c.step.name, c.step.cell)]
    if named:
        return named[-1]
    if text.lstrip("-").isdigit():
        back = abs(int(text))
        if 1 <= back <= len(cells):
            return cells[-back]
        raise NotFound(f"there is no cell {text}", hint=f"1 is the last one, {len(cells)} the first of this run")
    partly = {c.step.cell or c.step.name: c for c in cells if text in c.step.name or c.step.cell.startswith(text)}
    if len(partly) == 1:
        return next(iter(partly.values()))
    names = ", ".join(dict.fromkeys(first_line(c.step.name, 30) for c in reversed(partly.values() or cells)))
    if partly:
        raise UsageError(f"{text} could be any of {len(partly)} cells", hint=f"they are: {names}")
    raise NotFound(f"no cell {text} in this run", hint=f"it has: {names[:200]}")


def _headline(cell: CellRun) -> str:
    step = cell.step
    took = f" in {say_duration(step.seconds)}" if step.seconds else ""
    began = f", {when(step.started)}" if step.started else ""
    return f"{step.name}: {step.status}{took}{began}" + (f" · {step.error}" if step.error else "")


def _difference(statement: Statement, cell: CellRun, everything: Sequence[Checkpoint]) -> Diff | None:
    """Against the nearest earlier checkpoint, if the statement was computed and saved."""
    mine = statement.checkpoint
    if mine is None or statement.step.status == "restored":
        return None
    # The other statements of the cell are what they are, not what this one was.
    others = {other.checkpoint.code for other in cell.statements if other.checkpoint is not None} - {mine.code}
    earlier = [c for c in everything if c.created < mine.created and c.id != mine.id and c.code not in others]
    place, workflow = str(mine.meta.get("cell", "")), str(mine.meta.get("workflow", ""))
    before = nearest(mine.source, place, workflow, earlier, code=mine.code)
    return compare(before, mine) if before is not None else None


def _paragraph(statement: Statement, difference: Diff | None) -> list[Any]:
    from rich.text import Text

    step = statement.step
    number = int(step.address.rpartition(".")[2]) + 1
    head = Text(f"{number:>3}  {first_line(statement.source) or step.name}", style="bold")
    parts: list[Any] = [head, f"     {_outcome(statement, difference)}"]
    if difference is not None:
        parts += _inputs(difference.inputs)
        if difference.code and not difference.same_code:
            parts += ["     code:", diff_lines(difference.code, indent="       ")]
    return parts


def _outcome(statement: Statement, difference: Diff | None) -> str:
    step, checkpoint = statement.step, statement.checkpoint
    reason = step.reason.text if step.reason else ""
    if step.status == "restored":
        since = f" from {when(checkpoint.created)}" if checkpoint else ""
        spared = f" · spared {say_duration(checkpoint.seconds)}" if checkpoint else ""
        return f"restored{since}: {reason}{spared}"
    if not reason:
        changed = difference is not None and not difference.same_code
        reason = "its code changed" if changed else "the first time" if not statement.problem else ""
    text = f"computed {say_duration(step.seconds)}" + (f": {reason}" if reason else "")
    if statement.problem or statement.gone:
        text += f" · not saved: {statement.problem}" if statement.problem else f" · {statement.gone}"
    lost = [f"{item.name} ({item.type}: {item.why})" for item in checkpoint.not_saved] if checkpoint else []
    return text + (f" · not saved: {'; '.join(lost)}" if lost else "")


def _inputs(changed: Sequence[Difference]) -> list[Any]:
    from nbcheckpoint.cli.base import table

    if not changed:
        return []
    rows = [("    ", _noun(row), row.before or "–", row.after or "–") for row in changed]
    return [table(("    ", "input", "was", "now"), rows)]


def _noun(row: Difference) -> str:
    same = row.change == "changed" and row.before == row.after
    return f"{row.name} (looks the same, is not)" if same else row.name

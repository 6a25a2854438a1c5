"""Runs, steps and checkpoints as a notebook shows them: HTML tables, in the colours of whatever theme there is.

Everything in a record may be a stranger's: all of it is escaped, nothing in it becomes markup, and what turns text
around is taken out. Pure: text in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from nbcheckpoint.units import ago, say_duration, say_size

if TYPE_CHECKING:
    from nbcheckpoint.model import Checkpoint, Run, Step

MOST = 200
"""Rows of one table. Whoever wants to read more has a list to go through."""
LONGEST = 300
"""Characters of one field."""

COLOURS = {
    "running": "var(--jp-info-color1, #00838f)",
    "completed": "var(--jp-success-color1, #2e7d32)",
    "restored": "var(--jp-success-color1, #2e7d32)",
    "failed": "var(--jp-error-color1, #c62828)",
    "interrupted": "var(--jp-warn-color1, #b26a00)",
    "paused": "var(--jp-brand-color1, #7b1fa2)",
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_CELL = "text-align: left; vertical-align: top; padding: 2px 12px 2px 0; overflow-wrap: anywhere;"
_HEAD = "text-align: left; vertical-align: top; padding: 2px 12px 2px 0; overflow-wrap: normal;"
_FAINT = "color: var(--jp-ui-font-color2, #616161);"
_CODE = "font-family: var(--jp-code-font-family, monospace); white-space: pre-wrap; margin: 4px 0;"


def clean(text: str) -> str:
    """Without the characters that steer terminals or turn text around."""
    return _CONTROL.sub("", text)


class RunList(list["Run"]):
    """Runs, as a list; in a notebook, as a table."""

    def _repr_html_(self) -> str:
        return runs_html(self)


class StepList(list["Step"]):
    """Steps, as a list; in a notebook, as a table."""

    def _repr_html_(self) -> str:
        return steps_html(self)


def runs_html(runs: Sequence[Run]) -> str:
    if not runs:
        return _paragraph("No runs yet. A cell that begins with %%checkpointed makes the first.")
    columns = ("run", "notebook", "status", "last seen", "computed", "restored", "saved", "spared", "note")
    return _table(columns, [_run_row(run) for run in runs[:MOST]]) + _more(len(runs))


def _run_row(run: Run) -> list[str]:
    trust = "" if run.trusted else " (untrusted)"
    return [
        _word(run.id.rpartition("-")[2], title=run.id),
        _text(run.workflow + trust),
        _status(run.status),
        _word(ago(run.updated), title=run.updated),
        _word(f"{run.counts.get('completed', 0):,}"),
        _word(f"{run.counts.get('restored', 0):,}"),
        _word(say_size(run.bytes)),
        _word(say_duration(run.spared_seconds) if run.spared_seconds else ""),
        _text(("pinned " if run.pinned else "") + run.note),
    ]


def run_html(run: Run) -> str:
    return runs_html([run])


def steps_html(steps: Sequence[Step]) -> str:
    if not steps:
        return _paragraph("No steps.")
    return _table(("step", "status", "took", "saved", "why"), [_step_row(step) for step in steps[:MOST]]) + _more(
        len(steps)
    )


def _step_row(step: Step) -> list[str]:
    inner = step.address.count(".")
    return [
        _text("\u2003" * inner + step.name, title=step.address),
        _status(step.status),
        _word(say_duration(step.seconds) if step.seconds else ""),
        _word(say_size(step.bytes) if step.bytes else ""),
        _text(step.error or (step.reason.text if step.reason else "")),
    ]


def checkpoint_html(checkpoint: Checkpoint) -> str:
    values = [value for value in checkpoint.values if ":" not in value.name]
    head = f"{checkpoint.name or checkpoint.step} · saved {ago(checkpoint.created)} · {say_size(checkpoint.size)}"
    took = f" · took {say_duration(checkpoint.seconds)}" if checkpoint.seconds else ""
    trust = "" if checkpoint.trusted else " · not signed by you: it is not loaded"
    rows = [[_text(part) for part in (value.name, value.type, value.shape, value.preview)] for value in values[:MOST]]
    lost = "; ".join(f"{item.name} ({item.type}: {item.why})" for item in checkpoint.not_saved)
    return "".join(
        (
            _paragraph(f"{head}{took}{trust}"),
            f'<pre style="{_CODE}">{_text(checkpoint.source, most=5000)}</pre>' if checkpoint.source else "",
            _table(("name", "type", "shape", "value"), rows) + _more(len(values)) if rows else "",
            _paragraph(f"not saved: {lost}") if lost else "",
        )
    )


def _table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """`rows` is markup, of our own making."""
    head = "".join(f'<th style="{_HEAD}">{escape(column)}</th>' for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td style={_QUOTED_CELL} dir=auto>{cell}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<table class="nbcheckpoint-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


_QUOTED_CELL = f'"{_CELL}"'


def _status(word: str) -> str:
    return f'<span style="color: {COLOURS.get(word, "inherit")}; white-space: nowrap">{_text(word)}</span>'


def _text(value: Any, *, title: str = "", most: int = LONGEST) -> str:
    text = clean(str(value))
    shown = escape(text if len(text) <= most else text[: most - 1] + "…")
    return f'<span title="{escape(clean(title))}">{shown}</span>' if title else shown


def _word(value: Any, *, title: str = "") -> str:
    """What is short, and not broken to make room for what is long."""
    return f'<span style="white-space: nowrap">{_text(value, title=title)}</span>' if value != "" else ""


def _paragraph(text: str) -> str:
    return f'<p style="{_FAINT} margin: 4px 0;">{_text(text, most=2000)}</p>'


def _more(count: int) -> str:
    return _paragraph(f"… and {count - MOST:,} more") if count > MOST else ""

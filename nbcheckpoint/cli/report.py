"""`--report`: what happened to a run's cells, as a file beside what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from nbcheckpoint.cli.base import table
from nbcheckpoint.cli.watch import COLOURS, summary
from nbcheckpoint.errors import UsageError
from nbcheckpoint.notebook.answer import render
from nbcheckpoint.notebook.request import Outcome
from nbcheckpoint.units import say_duration

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>nbcheckpoint</title></head>
<body style="margin: 2em; font-size: 14px;">{body}</body></html>
"""


def write(outcome: Outcome, kind: str) -> Path:
    """`done.report.html` or `done.report.json` for `done.ipynb`. Raises UsageError."""
    path = Path(outcome.out).with_suffix(f".report.{kind}")
    try:
        path.write_text(_PAGE.format(body=_html(outcome)) if kind == "html" else _json(outcome), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="is there room?") from error
    return path


def _json(outcome: Outcome) -> str:
    return msgspec.json.format(msgspec.json.encode(outcome.to_dict()), indent=2).decode() + "\n"


def _html(outcome: Outcome) -> str:
    rows = [
        (str(cell.cell), cell.name, f"[{COLOURS[cell.status]}]{cell.status}[/]", say_duration(cell.seconds), cell.line)
        for cell in outcome.cells
    ]
    parts: list[Any] = [summary(outcome), "", table(("cell", "code", "status", "took", "what"), rows)]
    if outcome.error is not None:
        parts += ["", f"{outcome.error} · {outcome.error.hint}"]
    return render(parts, width=160)[1]

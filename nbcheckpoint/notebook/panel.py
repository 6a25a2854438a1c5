"""`%checkpoint panel`: the runs of this notebook's store, to look at and to act upon, wherever widgets work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbcheckpoint.errors import MissingExtra, NotFound, UsageError
from nbcheckpoint.notebook.answer import Answer, untouched_random
from nbcheckpoint.notebook.history import existing_store
from nbcheckpoint.notebook.link import MOST_RUNS, link_of
from nbcheckpoint.showing import runs_html

if TYPE_CHECKING:
    from nbcheckpoint.notebook.cells import CellCheckpointer
    from nbcheckpoint.showing import RunList

HELP = """\
usage: %checkpoint panel

The runs of this notebook's store: steps, previews, restore, answer, delete.

Example: %checkpoint panel"""


class Static:
    """The same as a table that does nothing, where no widgets are."""

    def __init__(self, runs: RunList, why: str) -> None:
        self._runs = runs
        self._why = why
        self.data = [run.to_dict() for run in runs]

    def __repr__(self) -> str:
        lines = [f"{run.id}  {run.status:<12} {run.workflow}" for run in self._runs]
        return "\n".join([*(lines or ["No runs yet."]), *([self._why] if self._why else [])])

    def _repr_html_(self) -> str:
        from html import escape

        why = f"<p>{escape(self._why)}</p>" if self._why else ""
        return runs_html(self._runs) + why


def word(checkpointer: CellCheckpointer, words: list[str]) -> Any:
    """runs, steps and previews to click on, where widgets work; a table elsewhere"""
    if "--help" in words or "-h" in words:
        return Answer([HELP])
    if words:
        raise UsageError(f"%checkpoint panel takes no {words[0]!r}", hint="%checkpoint panel alone shows it")
    with untouched_random():
        runs = _runs(checkpointer)
        if getattr(checkpointer.shell, "kernel", None) is None:
            return Static(runs, "")  # a terminal
        try:
            from nbcheckpoint.widget import Panel
        except ImportError:
            return Static(runs, MissingExtra("anywidget", "widget").hint)
        return Panel(link_of(checkpointer).answer, fallback=Static(runs, ""))


def _runs(checkpointer: CellCheckpointer) -> RunList:
    from nbcheckpoint.showing import RunList

    try:
        return RunList(existing_store(checkpointer.session).runs(limit=MOST_RUNS))
    except NotFound:
        return RunList()

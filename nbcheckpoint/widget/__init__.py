"""The panel as a widget: a page of our own (`panel.js`), and a line to whoever answers.

The page asks `{"id", "ask", "args"}` and is sent `{"id", "answer"}`, in the words of `notebook/link.py`. Its only state
are the runs there were when it was made: a notebook that is read later, where no kernel answers, shows those. Importing
it needs the extra `widget`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

__all__ = ["Panel"]

Answerer = Callable[[object, object], dict[str, Any]]
"""Is given a word and its arguments. MUST NOT raise."""

HERE = Path(__file__).parent
MOST_KEPT = 50
"""Runs that are kept in a notebook with the widget."""
KEPT = ("id", "workflow", "status", "updated", "pinned", "note")


class Panel(anywidget.AnyWidget):
    """Runs, steps, previews; restore, answer, delete."""

    _esm = HERE / "panel.js"
    _css = HERE / "panel.css"

    first: Any = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(self, answerer: Answerer, *, fallback: Any) -> None:
        """`fallback` has the runs as `data`, and a text and an HTML face, for where no widgets are."""
        super().__init__(first=[{name: run[name] for name in KEPT} for run in fallback.data[:MOST_KEPT]])
        self._answerer = answerer
        self._fallback = fallback
        self.on_msg(self._asked)

    def _asked(self, widget: Any, content: Any, buffers: Any) -> None:
        given = content if isinstance(content, dict) else {}
        self.send({"id": given.get("id"), "answer": self._answerer(given.get("ask"), given.get("args") or {})})

    def __repr__(self) -> str:
        return repr(self._fallback)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        made = super()._repr_mimebundle_(**kwargs)
        if made is not None:
            made[0]["text/html"] = self._fallback._repr_html_()
        return made

"""The panel as a widget: a page of our own (`panel.js`), and a line to whoever answers.

It has no state but what is on the screen. The page asks `{"id", "ask", "args"}` and is sent `{"id", "answer"}`, in the
words of `notebook/link.py`; what is answered there is all it knows. Importing it needs the extra `widget`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget

__all__ = ["Panel"]

Answerer = Callable[[object, object], dict[str, Any]]
"""Is given a word and its arguments. MUST NOT raise."""

HERE = Path(__file__).parent


class Panel(anywidget.AnyWidget):
    """Runs, steps, previews; restore, answer, delete."""

    _esm = HERE / "panel.js"
    _css = HERE / "panel.css"

    def __init__(self, answerer: Answerer, *, fallback: Any) -> None:
        """`fallback` has a text and an HTML face, for where no widgets are."""
        super().__init__()
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

"""What a word of `%checkpoint` answers: a page with a text and an HTML face, and the records it was made from.

Everything on a page may be the user's, or a stranger's whose archive was imported: no markup in it is obeyed, all of
it is escaped, and control characters are taken out.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nbcheckpoint.showing import clean

WIDTH = 120
_FRAME = (
    '<pre class="nbcheckpoint-answer" style="font-family: var(--jp-code-font-family, monospace); '
    'white-space: pre; overflow-x: auto; line-height: 1.4; margin: 0;">{code}</pre>'
)


class Answer:
    """Shows itself as text in a terminal and as HTML in a notebook; `data` is the same as plain dicts and lists."""

    def __init__(self, parts: Sequence[Any], data: Any = None) -> None:
        """`parts` are lines of text and rich renderables, in order."""
        self.data = data
        self.parts = tuple(parts)
        with untouched_random():
            self._text, self._html = render(parts)

    def __repr__(self) -> str:
        return self._text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self._text)

    def _repr_html_(self) -> str:
        return self._html


@contextmanager
def untouched_random() -> Iterator[None]:
    """Looking draws no random numbers of the user's: rich does, when it is imported."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def warm_up() -> None:
    """Import now what draws when it is imported, rather than behind a word that brings the random state back."""
    with untouched_random():
        import rich.console
        import rich.table
        import rich.text  # noqa: F401


def render(parts: Sequence[Any], *, width: int = WIDTH) -> tuple[str, str]:
    """(text, HTML) of a page."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        record=True,
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        force_jupyter=False,
        force_interactive=False,
        color_system="truecolor",
        legacy_windows=False,
    )
    for part in parts:
        # A line of text is longer than the page rather than broken: the reader's window folds it, or scrolls.
        console.print(Text(clean(part)) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))
    text = clean(console.export_text(clear=False))
    html = console.export_html(inline_styles=True, code_format=_FRAME)
    return "\n".join(line.rstrip() for line in text.splitlines()), clean(html)


def diff_lines(lines: Sequence[str], *, indent: str = "    ") -> Any:
    """A unified diff in colours, without its two lines of file names."""
    from rich.text import Text

    colours = {"+": "green", "-": "red", "@": "cyan"}
    body = [line for line in lines if not line.startswith(("---", "+++"))]
    return Text("\n").join(Text(indent + clean(line), style=colours.get(line[:1], "")) for line in body)

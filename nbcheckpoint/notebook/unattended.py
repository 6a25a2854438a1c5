"""A kernel nobody sits in front of: what it is told before the first cell, and how it tells how far it is.

`begin` is called by a silent request, which leaves no name, no output and no number behind. Whoever started the kernel
(`runner.py`, papermill, nbconvert) takes what is told here out of the outputs again: a notebook run unattended shows
what it would show without us.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from nbcheckpoint.engine import context
from nbcheckpoint.errors import Fenced, StoreError
from nbcheckpoint.notebook import outputs
from nbcheckpoint.notebook.auto import switch
from nbcheckpoint.notebook.line import PROGRESS
from nbcheckpoint.notebook.magics import load

MAX_TEXT = 1 << 24
"""Stream text kept per statement. More than where a reader has seen it already: it is all there is of it."""


def begin(*, run: str = "", holder: str = "", since: str = "", words: tuple[str, ...] = ()) -> None:
    """Save by itself from here on. `run`: the one to work on, handed over by the `holder` of that lease, who will tell
    its end. `since`: what is older is not used. `words`: as behind `%checkpoint auto`."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    checkpointer = load(shell)
    session = checkpointer.session
    session.ends_in_failure = True
    if run:
        try:
            session.adopt(run, holder)
        except (StoreError, Fenced):
            pass  # a full or read-only disk, or somebody else is at it: what was saved is restored all the same
    switch(checkpointer, list(words))
    checkpointer.since = since
    context.count_from(since)
    checkpointer.unattended = True
    outputs.MAX_TEXT = MAX_TEXT
    session.on_progress = _teller(shell.kernel)
    shell.events.register("pre_run_cell", Turns().take)


def _teller(kernel: Any) -> Callable[[int, int, float | None], None]:
    def tell(done: int, total: int, left: float | None) -> None:
        """Straight to the front end: what goes through `display` would be recorded as the cell's."""
        ours = {PROGRESS: {"done": done, "total": total, "left": left}}
        content = {"data": {}, "metadata": ours, "transient": {}}
        kernel.send_response(kernel.iopub_socket, "display_data", content)

    return tell


class Turns:
    """What was written to one stream comes out before what is written to the other one later.

    ipykernel sends either when it has waited for a while, so that their order is a matter of luck: it would be
    another one when outputs are shown again.
    """

    def __init__(self) -> None:
        self._last: Any = None

    def take(self, info: Any = None) -> None:
        """Before every cell: IPython puts the streams' `write` back behind it."""
        for stream in (sys.stdout, sys.stderr):
            if not hasattr(stream.write, "takes_turns"):
                stream.write = self._in_turn(stream, stream.write)  # type: ignore[method-assign]

    def _in_turn(self, stream: Any, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*text: Any) -> Any:
            before, self._last = self._last, stream
            if before is not None and before is not stream:
                before.flush()
            return write(*text)

        setattr(written, "takes_turns", True)  # noqa: B010  # a function has no such attribute, says mypy
        return written

"""Figures that pyplot has open while a statement runs.

With the inline backend they stay open until the cell ends, and are shown then; with others (Agg, ipympl) until somebody
closes them, and what is drawn in one cell is asked for, or saved as a picture, in another. What is drawn on them is
nobody's variable, so a statement that draws cannot be brought back by binding names. One that does not may stand
between those that do: `plt.figure()`, an hour of work, `plt.plot(result)`.

Every artist that changes tells its figure that it is *stale*. The mark is taken off while a statement runs, and put
back behind it; a figure that has got it meanwhile was drawn on.
"""

from __future__ import annotations

import sys
from typing import Any


class Figures:
    """Those that are open now; looked at again when a statement has run."""

    def __init__(self) -> None:
        self._before = [(manager, manager.canvas.figure) for manager in _managers()]
        self._marked = [figure for _, figure in self._before if figure.stale]
        for figure in self._marked:
            figure.stale = False

    @property
    def open(self) -> bool:
        """Was there one, or is there one now?"""
        return bool(self._before or _managers())

    @property
    def touched(self) -> bool:
        """Was one opened, closed, chosen or drawn on?"""
        now = _managers()
        same = len(now) == len(self._before) and all(m is n for m, (n, _) in zip(now, self._before, strict=True))
        return not same or any(figure.stale for _, figure in self._before)

    def release(self) -> None:
        """The marks are put back. Releasing twice is fine."""
        while self._marked:
            self._marked.pop().stale = True


def _managers() -> list[Any]:
    """In the order pyplot keeps: the current one comes last."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return list(helpers.Gcf.figs.values()) if helpers is not None else []

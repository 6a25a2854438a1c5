"""What a run shows while it goes on: a live display on a terminal, a line per cell in a log, nothing for `--json`."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from nbcheckpoint.cli.base import hush
from nbcheckpoint.model import Run
from nbcheckpoint.notebook.request import CellOutcome, Outcome, Watcher
from nbcheckpoint.notebook.runner import KernelDied
from nbcheckpoint.units import say_duration

COLOURS = {
    "restored": "green",
    "resumed": "green",
    "computed": "cyan",
    "paused": "magenta",
    "failed": "red",
    "interrupted": "yellow",
}
NAME_WIDTH = 48
"""Characters of a cell's first line that stand before what became of it."""


def watcher(*, quiet: bool) -> Watcher:
    """Whichever suits."""
    if quiet:
        return Watcher()
    return Live() if sys.stderr.isatty() else Lines()


@contextmanager
def going_on() -> Iterator[None]:
    """Whoever read the log is gone, or its disk is full. That is no reason to stop: what the notebook does goes to its
    file."""
    try:
        yield
    except OSError:
        hush(sys.stderr)


class Lines(Watcher):
    """For a log: what is over stands on a line of its own."""

    name_width = NAME_WIDTH

    def __init__(self) -> None:
        self._total = 0

    def begins(self, total: int, run: Run | None) -> None:
        self._total = total
        if run is not None and run.sessions > 1:
            self.say(f"going on with {run.workflow} {run.id}")

    def ends(self, cell: CellOutcome) -> None:
        text = cell.line or f"{cell.status} {say_duration(cell.seconds)}"
        width = len(str(self._total))
        room = self.name_width
        self.say(f"[{cell.cell:>{width}}/{self._total}] {cell.name[:room]:<{room}}  {text}", cell.status)

    def dies(self, error: KernelDied, left: int) -> None:
        self.say(f"{error}" + (f"; starting another one ({left} left)" if left else ""), "failed")

    def stops(self, number: int) -> None:
        self.say(f"{signal.Signals(number).name}: stopping where nothing is lost; once more to stop at once")

    def note(self, text: str) -> None:
        self.say(text, "interrupted")

    def say(self, text: str, status: str = "") -> None:
        with going_on():
            click.echo(text, err=True)


class Live(Lines):
    """For a terminal: the same lines, and below them how far it is."""

    wants_forecast = True

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True, highlight=False)
        self.name_width = min(NAME_WIDTH, max(16, self._console.width - 60))
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
            console=self._console,
            transient=True,
        )
        self._counts: Counter[str] = Counter()
        self._expected: Mapping[int, float] = {}
        self._number, self._began = 0, 0.0
        self._cells = self._progress.add_task("cells", total=None, now="")
        self._loop = self._progress.add_task("", total=None, now="", visible=False)

    def begins(self, total: int, run: Run | None) -> None:
        super().begins(total, run)
        self._progress.update(self._cells, total=total)
        self._progress.start()

    def expects(self, seconds: Mapping[int, float]) -> None:
        self._expected = seconds
        self._progress.update(self._cells, now=self._now())

    def starts(self, number: int, name: str) -> None:
        self._number, self._began = number, time.monotonic()
        self._progress.update(self._cells, completed=number - 1, now=self._now())
        title = f"{_plain(f'[{number}]')} {_plain(name)[:40]}"
        self._progress.remove_task(self._loop)
        self._loop = self._progress.add_task(title, total=None, now="")

    def goes_on(self, done: int, total: int, left: float | None) -> None:
        now = f"{say_duration(left)} left" if left is not None else ""
        self._progress.update(self._loop, completed=done, total=total or None, now=now)
        self._progress.update(self._cells, now=self._now(left))

    def ends(self, cell: CellOutcome) -> None:
        self._counts[cell.status] += 1
        super().ends(cell)
        self._progress.update(self._cells, completed=cell.cell, now=self._now())
        self._progress.update(self._loop, visible=False)

    def dies(self, error: KernelDied, left: int) -> None:
        self._counts.clear()
        super().dies(error, left)

    def _now(self, left: float | None = None) -> str:
        counts = [f"{number} {status}" for status, number in self._counts.items()]
        seconds = time_left(self._expected, self._number, time.monotonic() - self._began, left)
        return ", ".join([*counts, *([f"about {say_duration(seconds)} left"] if seconds >= 1 else [])])

    def say(self, text: str, status: str = "") -> None:
        with going_on():
            self._console.print(_plain(text), style=COLOURS.get(status, ""))

    def close(self) -> None:
        with going_on():
            self._progress.stop()


def time_left(expected: Mapping[int, float], number: int, elapsed: float, left: float | None) -> float:
    """Of the cell that is running, by what its loop says or what it took before, and of those behind it."""
    here = left if left is not None else max(0.0, expected.get(number, 0.0) - elapsed)
    return here + sum(seconds for cell, seconds in expected.items() if cell > number)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def summary(outcome: Outcome) -> str:
    """`completed: 9 cells, 5 restored, 1 resumed, 3 computed · 12m 04s · spared 2h 14m · analysis.out.ipynb`"""
    counts = [f"{outcome.count(status)} {status}" for status in COLOURS if outcome.count(status)]
    cells = f"{len(outcome.cells)} of {outcome.total} cells"
    spared = outcome.run.spared_seconds if outcome.run else 0.0
    parts = [f"{outcome.status}: {', '.join([cells, *counts])}", say_duration(outcome.seconds)]
    parts += [f"spared {say_duration(spared)}"] if spared >= 0.05 else []
    return " · ".join([*parts, outcome.out])

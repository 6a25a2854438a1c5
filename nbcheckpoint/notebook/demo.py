"""`nbcheckpoint demo`: a notebook of slow cells, killed in the middle and run again."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from nbcheckpoint.errors import MissingExtra
from nbcheckpoint.notebook.runner import Headless, KernelDied, Listener
from nbcheckpoint.units import say_duration

CELLS = (
    "%load_ext nbcheckpoint",
    """%%checkpointed measurements
import random, time
random.seed(42)
readings = []
for day in range(20):
    time.sleep(0.1)                                  # a slow instrument
    readings.append([random.gauss(20, 5) for _ in range(2000)])
print(f"{len(readings)} days, {sum(map(len, readings)):,} readings")""",
    """%%checkpointed cleaning
def plausible(value):
    return 5 < value < 35

clean = []
for day in readings:
    time.sleep(0.1)                                  # a slow filter
    clean.append([value for value in day if plausible(value)])
print(f"dropped {sum(map(len, readings)) - sum(map(len, clean))} implausible values")""",
    """%%checkpointed model --every 5
means = [sum(day) / len(day) for day in clean]
guess = 0.0
for step in range(30):
    time.sleep(0.1)                                  # a slow fit
    guess += 0.2 * (sum(means) / len(means) - guess) + random.gauss(0, 0.001)
print(f"estimate after {step + 1} steps: {guess:.6f}")""",
    """%%checkpointed report
spread = max(means) - min(means)
print(f"estimate {guess:.6f}, spread {spread:.6f}, next random number {random.random():.6f}")""",
)
KILLED_IN = 3


def run_demo(*, quiet: bool = False) -> dict[str, Any]:
    """Kill, run again, compare with a run that nobody killed. Returns what was seen."""
    try:
        from nbformat import v4
    except ImportError as error:
        raise MissingExtra("nbformat", "run") from error
    make: Any = v4

    def notebook() -> Any:
        return make.new_notebook(cells=[make.new_code_cell(source) for source in CELLS])

    with tempfile.TemporaryDirectory(prefix="nbcheckpoint-demo-") as folder:
        show = _Progress(quiet)
        killed, straight = Path(folder, "killed"), Path(folder, "straight")
        for place in (killed, straight):
            place.mkdir()
            # A store of its own for each, whatever project this is started in.
            (place / ".nbcheckpoint").mkdir(mode=0o700)
        with show.part("1. first run: its kernel will be killed with -9") as part:
            first = notebook()
            _run_and_kill(first, killed / "demo.ipynb", part)
        with show.part("2. the same notebook again, in a new kernel") as part:
            second = notebook()
            started = time.perf_counter()
            Headless(second, killed / "demo.ipynb", listener=part.listener).run()
            took, lines = time.perf_counter() - started, part.lines
        with show.part("3. for comparison: a run nobody killed") as part:
            third = notebook()
            Headless(third, straight / "demo.ipynb", listener=part.listener).run()
    outcome = _outcome(second, third, lines, took)
    show.tell(outcome)
    return outcome


def _run_and_kill(notebook: Any, path: Path, part: _Part) -> None:
    """Kill the kernel once the fourth cell has been running for two seconds: in the middle of its loop."""

    def starts(index: int) -> None:
        part.starts(index)
        if index == KILLED_IN:
            timer = threading.Timer(2.0, running.kill)
            timer.daemon = True
            timer.start()

    running = Headless(notebook, path, listener=Listener(starts=starts, ends=part.ends))
    try:
        running.run()
    except KernelDied as death:
        part.died(death.cell)


def _outcome(second: Any, straight: Any, lines: dict[int, dict[str, Any]], took: float) -> dict[str, Any]:
    steps = [
        {"cell": CELLS[at].splitlines()[0].split()[1], "status": said["status"], "line": said["text"]}
        for at, said in lines.items()
    ]
    return {
        "steps": steps,
        "restored": [step["cell"] for step in steps if step["status"] == "restored"],
        "resumed": [step["cell"] for step in steps if step["status"] == "resumed"],
        "computed": [step["cell"] for step in steps if step["status"] == "computed"],
        "seconds": took,
        "results": _shown(second.cells[-1]),
        "equal": [_shown(cell) for cell in second.cells] == [_shown(cell) for cell in straight.cells],
    }


def _shown(cell: Any) -> str:
    return "".join(out["text"] for out in cell.outputs if out.output_type == "stream" and out["name"] == "stdout")


class _Progress:
    """The demo's own voice: rich on a terminal, plain lines elsewhere, nothing when quiet."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console

        self.console = Console(quiet=quiet, highlight=False)

    def part(self, title: str) -> _Part:
        return _Part(self.console, title)

    def tell(self, outcome: dict[str, Any]) -> None:
        from rich.markup import escape

        say = self.console.print
        say()
        for step in outcome["steps"]:
            colour = "cyan" if step["status"] == "computed" else "green"
            say(f"  {step['cell']:<13} [{colour}]{escape(step['line'])}[/]")
        say()
        told = [f"{word}: {', '.join(outcome[word])}" for word in ("restored", "resumed", "computed") if outcome[word]]
        say(f"  {'; '.join(told)}", end="")
        say(f" · the second run took {say_duration(outcome['seconds'])}")
        say(f"  {outcome['results'].strip()}")
        verdict = "[bold green]equal[/] to" if outcome["equal"] else "[bold red]NOT equal[/] to"
        say(f"  Every output is {verdict} that of the run nobody killed, random numbers included.")


class _Part:
    def __init__(self, console: Any, title: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
            console=console,
            disable=console.quiet or not console.is_terminal,
        )
        self._title = title
        self.lines: dict[int, dict[str, Any]] = {}
        """What was said about each cell."""
        self.listener = Listener(starts=self.starts, told=self.lines.__setitem__, ends=self.ends)
        self._task = self._progress.add_task(title, total=len(CELLS), now="")

    def __enter__(self) -> _Part:
        self._progress.start()
        if not self._console.is_terminal:
            self._console.print(self._title)
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.update(self._task, now="")
        self._progress.stop()

    def starts(self, index: int) -> None:
        self._progress.update(self._task, now=CELLS[index].splitlines()[0])

    def ends(self, index: int, seconds: float, cut: bool) -> None:
        self._progress.update(self._task, completed=index + 1)

    def died(self, number: int) -> None:
        self._console.print(f"   [red]kernel killed with -9[/] in cell {number} ({CELLS[number - 1].splitlines()[0]})")

"""What automatic mode costs: `python benchmarks/overhead.py [--quick] [--only NAME] [--rounds N] [--json FILE]`.

The overhead rows of DESIGN.md section 11. Real kernels run the same notebook side by side, cell by cell: one without
any extension, one with `%checkpoint auto`, and Kishu where there is a Python that has it (`--kishu PYTHON`). A round
is a fresh kernel for everyone; whose turn is first changes from cell to cell, so a noisy neighbour hits all alike.

A cell's time is what the user waits: from the request to `idle`. Noise only ever adds, so the verdicts go by
the sum of every cell's least time over the rounds; medians and the CPU seconds of the kernels, added up likewise,
stand beside it. Where others use the machine, only the latter mean anything.

Slow cells are another matter: what is to be measured is smaller than the noise, which is of three kinds. Within seconds
a processor becomes faster or slower: so two kernels compute at the same moment, each on a core of its own (on one core
they would disturb each other, and not to the same degree). Of two kernels one is faster by up to a fifth as long as it
lives, by where its code and data happen to lie: so both have the extension, and they change parts, automatic mode on
and off, as well as cores. And a heap in which nothing has happened yet is lucky, as that of no notebook in use is: so
the notebook has been through once before it counts. Every round has kernels of its own; what counts are all rounds.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bench_measure as measure
import bench_notebooks as notebooks
from bench_show import OURS, show_timings, show_verdicts
from rich.console import Console

import nbcheckpoint
from tests.kernels import Kernel

PLAIN, KISHU = "no extension", "Kishu"
AUTO = "%load_ext nbcheckpoint\n%checkpoint auto"
USE_KISHU = "from kishu import init_kishu\ninit_kishu({notebook!r})"


@dataclass
class Rounds:
    """One contender's measurements: for every round, seconds and CPU seconds of each cell, and peak memory in MB."""

    cells: list[list[float]] = field(default_factory=list)
    cpu: list[list[float]] = field(default_factory=list)
    peak: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return sum(min(times) for times in zip(*self.cells, strict=True))

    @property
    def least_cpu(self) -> float:
        return sum(min(times) for times in zip(*self.cpu, strict=True))

    @property
    def median(self) -> float:
        return sum(statistics.median(times) for times in zip(*self.cells, strict=True))

    @property
    def totals(self) -> list[float]:
        return [sum(times) for times in self.cells]


def timed(kernel: Kernel, cell: str) -> tuple[float, float]:
    """Seconds on the wall and of the processor."""
    started, busy = time.perf_counter(), cpu_seconds(kernel.pid)
    kernel.run(cell)
    return time.perf_counter() - started, cpu_seconds(kernel.pid) - busy


def cpu_seconds(pid: int) -> float:
    """What the threads of a process have had of the processor, to the nanosecond: `stat` counts hundredths."""
    spent = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            spent += int((thread / "schedstat").read_text().split()[0])
        except OSError:
            pass  # it has just ended
    return spent / 1e9


def keep_to(core: int, pid: int) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def peak_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class Bench:
    """Runs notebooks side by side."""

    def __init__(self, report: measure.Report, folder: Path, *, rounds: int, kishu: str) -> None:
        self.report, self.folder, self.rounds, self.kishu = report, folder, rounds, kishu
        self._number = 0

    def start(self, who: str) -> Kernel:
        """A kernel of its own, in a folder of its own, with a new store."""
        self._number += 1
        folder = self.folder / f"k{self._number}"
        folder.mkdir(parents=True)
        env = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "KISHU_PATH_ROOT": str(folder)}
        kernel = Kernel(folder, env=env, python=self.kishu if who == KISHU else sys.executable)
        if who == OURS:
            kernel.run(AUTO)
        elif who == KISHU:
            # Its own callback fails in the very cell that begins it, and works from the next one on.
            kernel.run(USE_KISHU.format(notebook=_empty_notebook(folder)), fails=True)
        return kernel

    def run(
        self, setup: Sequence[str], cells: Sequence[str], also: Sequence[str] = (), rounds: int = 0
    ) -> dict[str, Rounds]:
        """The cells of `setup`, then those that count, so many times; by those in `also` once, since they take long."""
        found = {who: Rounds() for who in (PLAIN, OURS, *also)}
        for number in range(rounds or self.rounds):
            with ExitStack() as stack:
                here = [who for who in found if number == 0 or who not in also]
                kernels = {who: stack.enter_context(self.start(who)) for who in here}
                for kernel in kernels.values():
                    for cell in setup:
                        kernel.run(cell)
                times: dict[str, list[tuple[float, float]]] = {who: [] for who in here}
                for at, cell in enumerate(cells):
                    for who in sorted(kernels, reverse=bool((at + number) % 2)):
                        times[who].append(timed(kernels[who], cell))
                for who, kernel in kernels.items():
                    found[who].cells.append([wall for wall, _ in times[who]])
                    found[who].cpu.append([busy for _, busy in times[who]])
                    found[who].peak.append(peak_megabytes(kernel.pid))
        return found

    def run_in_turns(
        self, setup: Sequence[str], cells: Callable[[int], Sequence[str]], rounds: int
    ) -> list[tuple[float, float]]:
        """Seconds with automatic mode and without, in every round: each kernel in each part on each core."""
        found: list[tuple[float, float]] = []
        cores, turns = sorted(os.sched_getaffinity(0)), itertools.count()
        for number in range(rounds):
            with ExitStack() as stack:
                pair = [stack.enter_context(self.start(OURS)) for _ in range(2)]
                threads = stack.enter_context(ThreadPoolExecutor(2))
                for kernel in pair:
                    for cell in (*setup, *cells(next(turns))):
                        kernel.run(cell)
                seconds = [0.0, 0.0]
                for turn, (first_is_on, swapped) in enumerate(itertools.product((True, False), repeat=2)):
                    for at, kernel in enumerate(pair):
                        keep_to(cores[(at + swapped) % len(cores)], kernel.pid)
                        kernel.run(f"%checkpoint auto {'on' if first_is_on == (at == 0) else 'off'}")
                    for at, cell in enumerate(cells(next(turns))):
                        order = [0, 1] if (at + turn + number) % 2 else [1, 0]
                        both = threads.map(timed, (pair[which] for which in order), (cell, cell))
                        for which, (took, _) in zip(order, both, strict=True):
                            seconds[0 if first_is_on == (which == 0) else 1] += took
                found.append((seconds[0], seconds[1]))
        return found

    def judge(self, work: str, found: dict[str, Rounds], bar: float) -> None:
        ours, plain = found[OURS], found[PLAIN]
        how = f"no extension, by least times; medians {ours.median / plain.median:.3f}x"
        how += f", CPU {ours.least_cpu / plain.least_cpu:.3f}x"
        self.report.judge(work, ours.least / plain.least, "<=", bar, "x", how)

    # The rows

    def slow(self) -> None:
        found = self.run_in_turns([notebooks.IMPORTS], notebooks.slow, 2 * self.rounds)
        on, off = ([seconds[part] for seconds in found] for part in (0, 1))
        self.report.add("four notebooks of slow cells", {OURS: on, f"{OURS}, switched off": off})
        ratios = sorted(a / b for a, b in found)
        how = f"switched off, in two kernels that change parts; rounds {ratios[0]:.3f} to {ratios[-1]:.3f}x"
        self.report.judge("auto mode on a notebook of slow cells", sum(on) / sum(off), "<=", 1.03, "x", how)

    def state(self, megabytes: int, objects: int) -> None:
        also = [KISHU] if self._kishu_works() else []
        making, cells = notebooks.state(megabytes, objects), [*notebooks.QUICK, *notebooks.QUICK]
        whole = self.run([], [*making, *cells], also)
        first = len(making)
        found = {
            who: Rounds([c[first:] for c in r.cells], [c[first:] for c in r.cpu], r.peak) for who, r in whole.items()
        }
        section = f"{len(cells)} quick cells over {megabytes / 1024:g} GB of arrays, a frame and {objects:,} objects"
        self.report.add(section, {who: r.totals for who, r in found.items()})
        self.report.add(f"{section}, and making those", {who: r.totals for who, r in whole.items()})
        self.report.add(f"{section}: peak memory in MB", {who: r.peak for who, r in found.items()})
        # Of the cells alone: making the state is slow work, of which results are saved.
        self.judge("big state with 40 quick cells", found, 1.1)
        peak = statistics.median(found[OURS].peak) / statistics.median(found[PLAIN].peak)
        self.report.judge("big state with 40 quick cells: peak memory", peak, "<=", 1.1, "x", "no extension")
        if KISHU in found:
            self._tell_kishu(found)
        worst = _worst(cells, found)
        self.report.notes.append(f"big state, the cells that cost most: {worst}")

    def _tell_kishu(self, found: dict[str, Rounds]) -> None:
        theirs, plain = found[KISHU], found[PLAIN]
        peak = statistics.median(theirs.peak) / statistics.median(plain.peak)
        said = f"{theirs.least / plain.least:.2f}x by least times, CPU {theirs.least_cpu / plain.least_cpu:.2f}x"
        self.report.notes.append(
            f"big state with 40 quick cells, Kishu: {said}, peak memory {peak:.2f}x of no extension"
        )

    def statement(self) -> None:
        found = self.run([notebooks.IMPORTS, "x = 0"], [notebooks.statements()] * 3)
        self.report.add(f"{notebooks.STATEMENTS} statements `x = N` in a cell", {w: r.totals for w, r in found.items()})
        each = (found[OURS].least - found[PLAIN].least) / (3 * notebooks.STATEMENTS) * 1e6
        self.report.judge("one statement `x = 1` in auto mode", each, "<=", 500, "µs", "over no extension; our own bar")

    def tight(self) -> None:
        found = self.run([], [notebooks.TIGHT] * 7)
        self.report.add("tight loop: for i in range(2_000_000): s += i", {w: r.totals for w, r in found.items()})
        self.judge("a tight loop at the top level of a cell (our own bar)", found, 1.1)
        for what, cell in (("a list", notebooks.TIGHT_LIST), ("enumerate", notebooks.TIGHT_PAIRS)):
            found = self.run([notebooks.WORDS], [cell] * 7)
            self.report.add(f"tight loop: {cell.splitlines()[-1]}", {w: r.totals for w, r in found.items()})
            self.judge(f"a tight loop over {what} (our own bar)", found, 1.5)

    def _kishu_works(self) -> bool:
        if not self.kishu:
            self.report.notes.append("Kishu is not measured: name a Python that has it with --kishu")
            return False
        try:
            with self.start(KISHU) as kernel:
                kernel.run("a = [1]")
                kernel.run("a.append(2)")
                if not (kernel.folder / "work.kishudb").exists():
                    raise FileNotFoundError("it has saved nothing")
        except Exception as error:  # whatever its versions and ours make of each other
            self.report.notes.append(f"Kishu does not work here: {type(error).__name__}: {str(error)[-200:]}")
            return False
        return True


def _worst(cells: Sequence[str], found: dict[str, Rounds]) -> str:
    """The five cells with the most overhead, in ms."""
    least = {who: [min(times) * 1000 for times in zip(*found[who].cells, strict=True)] for who in (OURS, PLAIN)}
    costs = sorted(
        ((o - p, p, cell) for o, p, cell in zip(least[OURS], least[PLAIN], cells, strict=True)), reverse=True
    )
    return "; ".join(f"{cell.splitlines()[0][:40]} {plain:.0f} + {cost:.1f} ms" for cost, plain, cell in costs[:5])


def _empty_notebook(folder: Path) -> str:
    path = folder / "work.ipynb"
    path.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smaller state, two rounds")
    parser.add_argument("--rounds", type=int, help="fresh kernels for everyone, so many times (default 3, quick 2)")
    parser.add_argument("--only", action="append", choices=("slow", "state", "statement", "tight"))
    parser.add_argument("--kishu", default=os.environ.get("NBCHECKPOINT_KISHU", ""), metavar="PYTHON",
                        help="a Python with kishu, ipykernel, numpy and pandas")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample and verdict there as well")
    options = parser.parse_args()
    console, report = Console(width=max(150, Console().width)), measure.Report()
    console.print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    console.print(f"Measuring {Path(nbcheckpoint.__file__).parent}")
    with measure.workspace() as folder:
        bench = Bench(report, folder, rounds=options.rounds or (2 if options.quick else 3), kishu=options.kishu)
        size = (256, 100_000) if options.quick else (1024, 300_000)
        work: dict[str, Callable[[], None]] = {
            "slow": bench.slow,
            "state": lambda: bench.state(*size),
            "statement": bench.statement,
            "tight": bench.tight,
        }
        for name, section in work.items():
            if not options.only or name in options.only:
                started = time.perf_counter()
                section()
                console.print(f"  {name}: {time.perf_counter() - started:.0f} s", style="dim")
    if os.getloadavg()[0] > 1.0:
        report.notes.append(f"others were using this machine (load {os.getloadavg()[0]:.1f}): run it again when quiet")
    show_timings(console, report)
    show_verdicts(console, report)
    for note in report.notes:
        console.print(f"Note: {note}", markup=False)
    if options.json:
        report.write_json(options.json)


if __name__ == "__main__":
    main()

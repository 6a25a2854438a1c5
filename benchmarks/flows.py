"""What flows cost: `python benchmarks/flows.py [--quick] [--json FILE]`.

Saving a step when the run has a thousand, planning such a run, the size of a run's records, and maps of ten thousand
items against the bare executor. README.md, beside this file, says how to read the tables.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bench_measure as measure
from bench_show import show_timings, show_verdicts
from rich.console import Console

import nbcheckpoint as nbc
from nbcheckpoint.engine import context
from nbcheckpoint.store import Store

OURS, RESUMED = "nbcheckpoint", "nbcheckpoint, all of them saved"
STOP_AT: list[int] = []


@nbc.step
def tiny(n: int) -> dict[str, Any]:
    return {"answer": n, "why": "because"}


@nbc.step
def square(n: int) -> int:
    return n * n


@nbc.flow
def many(count: int) -> int:
    for n in range(count):
        tiny(n)
    if STOP_AT:
        raise InterruptedError("stopped here")
    return count


@nbc.flow
def typical(rows: int) -> float:
    """Ten steps with a few kilobytes between them."""
    found = [float(n) for n in range(rows)]
    for n in range(10):
        found = stage(found, n)
    return sum(found)


@nbc.step
def stage(found: list[float], n: int) -> list[float]:
    return [value + n for value in found]


class Bench:
    def __init__(self, report: measure.Report, folder: Path, *, quick: bool) -> None:
        self.report, self.folder = report, folder
        self.steps, self.items, self.rounds = (300, 2_000, 3) if quick else (1_000, 10_000, 5)

    def store(self, name: str) -> Store:
        opened = nbc.open_store(self.folder / name)
        context.use(opened)
        return opened

    def saving(self) -> None:
        """Each step of a long run by itself: from its call to its return."""
        store = self.store("saving")
        taken: list[float] = []

        @nbc.flow
        def long(count: int) -> None:
            for n in range(count):
                tiny(n)
            for n in range(count, count + 200):
                taken.append(measure.timed(lambda n=n: tiny(n))[0])  # type: ignore[misc]  # n of now

        long(self.steps)
        section = f"a step of a run that has {self.steps:,}"
        self.report.add(section, {OURS: taken})
        worst = self.report.p95(section, OURS) * 1000
        self.report.judge(f"{section}: p95", worst, "<=", 50, "ms", "its call, with intent and completion")
        store.close()

    def planning(self) -> None:
        """Of a run that was stopped: the plan, and coming back to where it was."""
        store = self.store("planning")
        STOP_AT.append(1)
        self._stopped()
        taken = [measure.timed(many.plan)[0] for _ in range(20)]
        section = f"plan of a run of {self.steps:,} steps"
        self.report.add(section, {OURS: taken})
        worst = self.report.p95(section, OURS) * 1000
        self.report.judge(f"{section}: p95", worst, "<=", 100, "ms", "nothing is executed")
        again = [measure.timed(self._stopped)[0] for _ in range(self.rounds)]
        self.report.add(f"resuming a run of {self.steps:,} steps, all of them saved", {OURS: again})
        STOP_AT.clear()
        store.close()

    def _stopped(self) -> None:
        try:
            many(self.steps)
        except InterruptedError:
            pass

    def size(self) -> None:
        """Records, not values: what is read to list and to plan."""
        store = self.store("size")
        typical(100)
        run = store.runs(limit=1)[0]
        entries = [*store.backend.scan(f"step/{run.id}/"), *store.backend.scan(f"run/{run.id}")]
        records = sum(len(entry.value) for entry in entries) / 1000
        kept = sum(len(entry.value) for entry in store.backend.scan("checkpoint/")) / 1000
        self.report.judge("records of a typical run (ten steps)", records, "<=", 100, "KB", "run and steps")
        self.report.judge("with the records of its checkpoints", records + kept, "<=", 100, "KB", "small values inside")
        store.close()

    def maps(self) -> None:
        """Items that do nothing: all of it is overhead. Each round in a store of its own."""
        samples: dict[str, list[float]] = {}
        for number in range(self.rounds):
            for name, seconds in self._round(number).items():
                samples.setdefault(name, []).append(seconds)
        section = f"a map of {self.items:,} items that do nothing"
        self.report.add(section, samples)
        for how in ("inline", "threads"):
            bare, ours = self.report.median(section, f"bare, {how}"), self.report.median(section, f"{OURS}, {how}")
            each = (ours - bare) / self.items * 1e6
            self.report.judge(f"overhead of one item, {how}", each, "<=", 1000, "µs", "over the bare executor; our bar")
        again = self.report.median(section, RESUMED)
        self.report.judge(f"resume of {self.items:,} finished items", again, "<=", 5, "s", "in seconds; our own bar")

    def _round(self, number: int) -> dict[str, float]:
        items, found = range(self.items), {}
        plain = square.spec.function
        found["bare, inline"] = measure.timed(lambda: [plain(n) for n in items])[0]
        with ThreadPoolExecutor(4) as pool:
            found["bare, threads"] = measure.timed(lambda: list(pool.map(plain, items)))[0]
        for how, options in (("inline", {}), ("threads", {"concurrency": 4})):
            store = self.store(f"map {how} {number}")

            @nbc.flow(name="mapping")
            def mapping(options: dict[str, Any]) -> int:
                return len(square.map(items, progress=False, **options))

            found[f"{OURS}, {how}"] = measure.timed(lambda: mapping(options))[0]  # noqa: B023  # called here
            if how == "inline":
                run = store.update_run(store.runs(limit=1)[0].id, status="interrupted", owner=None)
                again = measure.timed(lambda: mapping(options))  # noqa: B023  # called here
                assert again[1] == self.items
                assert store.run(run.id).sessions == 2
                found[RESUMED] = again[0]
            store.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and items")
    parser.add_argument("--only", action="append", choices=("saving", "planning", "size", "maps"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample and verdict there as well")
    options = parser.parse_args()
    console, report = Console(width=max(150, Console().width)), measure.Report()
    load = os.getloadavg()[0]
    console.print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    console.print(f"Measuring {Path(nbc.__file__).parent}")
    with measure.workspace() as folder:
        bench = Bench(report, folder, quick=options.quick)
        work: dict[str, Callable[[], None]] = {
            "saving": bench.saving,
            "planning": bench.planning,
            "size": bench.size,
            "maps": bench.maps,
        }
        for name, section in work.items():
            if not options.only or name in options.only:
                started = time.perf_counter()
                section()
                console.print(f"  {name}: {time.perf_counter() - started:.0f} s", style="dim")
    if max(load, os.getloadavg()[0]) > 1.0:
        report.notes.append("others were using this machine: trust min and spread, not medians")
    show_timings(console, report)
    show_verdicts(console, report)
    if options.json:
        report.write_json(options.json)


if __name__ == "__main__":
    main()

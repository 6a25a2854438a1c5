"""The store against its peers: `python benchmarks/store.py [--quick] [--size-mb N] [--json FILE] [--big]`.

Measures the store's rows of DESIGN.md section 11 and says for each whether its bar is met. README.md, beside this
file, says how to read the tables.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import bench_measure as measure
import bench_process
import bench_records
import bench_values
from bench_show import show_timings, show_verdicts
from rich.console import Console

import nbcheckpoint

SECTIONS = ("array", "frame", "objects", "step", "runs", "peak", "extension", "cell")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller data, three rounds: minutes less, noisier")
    parser.add_argument("--size-mb", type=int, help="size of the big array (default 1024, quick 256)")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 5, quick 3)")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="just this section (repeatable)")
    parser.add_argument("--big", action="store_true", help="instead: 10 GB of state in a process limited to 1.1x")
    parser.add_argument("--big-mb", type=int, default=10 * 1024, help="size for --big")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample and verdict there as well")
    return parser.parse_args()


def plan(options: argparse.Namespace, folder: Path, report: measure.Report) -> dict[str, Callable[[], None]]:
    """What to run, by name, in order."""
    quick = options.quick
    rounds = options.rounds or (3 if quick else 5)
    megabytes = options.size_mb or (256 if quick else 1024)
    if options.big:
        return {"big": lambda: bench_process.big(report, folder / "big", megabytes=options.big_mb)}
    rows, steps, runs, peak = (500_000, 60, 20_000, 512) if quick else (5_000_000, 200, 100_000, 2048)
    work: dict[str, Callable[[], None]] = {
        "array": lambda: bench_values.big_array(report, folder / "array", megabytes=megabytes, rounds=rounds),
        "frame": lambda: bench_values.frame(report, folder / "frame", rows=rows, rounds=rounds),
        "objects": lambda: bench_values.objects(report, folder / "objects", rounds=rounds),
        "step": lambda: bench_records.tiny_step(report, folder / "step", count=steps),
        "runs": lambda: bench_records.many_runs(report, folder / "runs", count=runs, rounds=rounds),
        "peak": lambda: bench_process.peak_memory(report, folder / "peak", megabytes=peak, rounds=rounds),
        "extension": lambda: bench_process.extension(report, rounds=rounds),
        "cell": lambda: bench_process.restored_cell(report, folder / "cell", rounds=rounds),
    }
    return {name: function for name, function in work.items() if not options.only or name in options.only}


def main() -> None:
    options = parse()
    # Not narrower than the tables need, also when the output goes to a file.
    console = Console(width=max(150, Console().width))
    report = measure.Report()
    load = os.getloadavg()[0]
    console.print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f} at the start")
    console.print(f"Measuring {Path(nbcheckpoint.__file__).parent}")
    with measure.workspace() as folder:
        console.print(f"Working in {folder} ({_file_system(folder)}). Caches are warm unless a row says cold.")
        for name, work in plan(options, folder, report).items():
            started = time.perf_counter()
            work()
            console.print(f"  {name}: {time.perf_counter() - started:.0f} s", style="dim")
            if options.json:
                report.write_json(options.json)  # after each section: a run that is cut short is not lost
    busy = max(load, os.getloadavg()[0])
    if busy > 1.0:
        report.notes.append(
            f"others were using this machine (load up to {busy:.1f}): trust min and spread, not medians"
        )
    show_timings(console, report)
    show_verdicts(console, report)
    for note in report.notes:
        console.print(f"Note: {note}")
    if options.json:
        report.write_json(options.json)


def _file_system(folder: Path) -> str:
    mounts = (line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines())
    holding = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(holding)[1] if holding else "?"


if __name__ == "__main__":
    main()

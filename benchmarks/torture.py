"""The long form of `tests/crash`: every fault an embedded store has to survive, with its count.

    python benchmarks/torture.py            a few minutes: about a twentieth of the full counts
    python benchmarks/torture.py --full     the counts of the design (an hour or more)
    python benchmarks/torture.py kill forks just these
    python benchmarks/torture.py --json     one JSON array instead of a table

Prints how many rounds were run and how many values were lost, damaged, wrong or stuck; ends with an error unless all
of these are zero. Power cuts and full disks need root and loop devices, failed system calls need strace; what cannot
be run here is named and counts as an error with `--full`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.crash.faults import (
    clocks,
    crowd,
    disks,
    flips,
    forks,
    frozen,
    gone,
    kill,
    modes,
    planted,
    power,
    pruning,
    secrets,
    space,
    syscalls,
)
from tests.crash.faults.ledger import Tally
from tests.properties import program_host


@dataclass(frozen=True)
class Fault:
    """One thing that can go wrong, and how often it is to."""

    run: Callable[..., Tally]
    short: int
    full: int
    needs: str = ""
    unit: str = "rounds"


FAULTS: dict[str, Fault] = {
    "kill": Fault(kill.run, 100, 2000),
    "syscalls": Fault(syscalls.run, 120, 100_000, needs="strace"),
    "power": Fault(power.run, 25, 300, needs="mount"),
    "flips-packs": Fault(flips.in_packs, 100, 2000),
    "flips-index": Fault(flips.in_index, 200, 2000),
    "full-disk": Fault(space.full, 10, 60, needs="mount"),
    "read-only": Fault(space.read_only, 6, 30, needs="mount"),
    "crowd": Fault(crowd.run, 10, 60, unit="seconds"),
    "forks": Fault(forks.during_writes, 50, 500),
    "orphans": Fault(forks.orphaned, 5, 50),
    "programs": Fault(program_host.torture, 30, 3000),
    "gone": Fault(gone.run, 20, 100),
    "frozen": Fault(frozen.run, 60, 600),
    "clocks": Fault(clocks.run, 20, 200),
    "pruning": Fault(pruning.run, 60, 500),
    "planted": Fault(planted.run, len(planted.PLANTED), 10 * len(planted.PLANTED)),
    "modes": Fault(modes.run, 6, 60),
    "secrets": Fault(secrets.run, 50, 200, unit="secrets"),
}
COUNTED = ("lost", "damaged", "wrong", "stuck")


def main() -> int:
    arguments = _arguments()
    console = Console(stderr=arguments.json)
    tallies, skipped = [], []
    with tempfile.TemporaryDirectory(prefix="torture-", dir=arguments.place) as folder, _bars(console) as bars:
        for name in arguments.faults or FAULTS:
            place = Path(folder) / name
            place.mkdir()
            reason = _missing(FAULTS[name].needs, place)
            if reason:
                skipped.append((name, reason))
            else:
                tallies.append(_run(name, place, arguments, bars))
    if arguments.json:
        print(json.dumps([_as_json(tally) for tally in tallies], indent=1))
    else:
        _show(tallies, skipped, console)
    return 0 if all(tally.clean for tally in tallies) and not (skipped and arguments.full) else 1


def _run(name: str, place: Path, arguments: argparse.Namespace, bars: Progress) -> Tally:
    fault = FAULTS[name]
    rounds = arguments.rounds or (fault.full if arguments.full else fault.short)
    options: dict[str, int] = {}
    if name == "syscalls":
        options["stride"] = 1 if arguments.full else 11
        rounds = min(rounds, syscalls.planned(place, options["stride"]))
    else:
        options["seed"] = arguments.seed
    task = bars.add_task(name, total=rounds)
    return fault.run(place, rounds, progress=lambda n: bars.update(task, advance=n), **options)


def _missing(need: str, place: Path) -> str:
    """What this machine lacks for it, or nothing."""
    if need == "strace" and not syscalls.available():
        return "strace is not installed"
    if need == "mount" and (os.name != "posix" or os.geteuid() != 0 or not disks.available(place)):
        return "needs root and loop devices"
    return ""


def _show(tallies: list[Tally], skipped: list[tuple[str, str]], console: Console) -> None:
    table = Table("test", *("rounds", *COUNTED, "seconds"))
    for column in table.columns[1:]:
        column.justify = "right"
    for tally in tallies:
        counts = [f"[red]{n}[/]" if n else "0" for n in (getattr(tally, what) for what in COUNTED)]
        table.add_row(tally.name, str(tally.rounds), *counts, f"{tally.seconds:.1f}")
    console.print(table)
    for tally in tallies:
        for note in () if tally.clean else tally.notes:
            console.print(f"{tally.name}: {note}", markup=False)
    for name, reason in skipped:
        console.print(f"{name}: not run, {reason}")


def _as_json(tally: Tally) -> dict[str, object]:
    names = ("name", "rounds", *COUNTED, "seconds", "checked", "notes")
    return {name: getattr(tally, name) for name in names}


def _bars(console: Console) -> Progress:
    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"any of: {' '.join(FAULTS)}")
    parser.add_argument("--full", action="store_true", help="the counts of the design")
    parser.add_argument("--rounds", type=int, help="this many of each instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--place", help="where to work; a real disk, not a tmpfs")
    arguments = parser.parse_args()
    unknown = set(arguments.faults) - set(FAULTS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())

"""A notebook run to its end, and the same one killed at random moments and run again: what comes out is compared.

The variables a notebook ends with are printed by a last cell, so they are part of what comes out. Processes are forked
from one that has imported everything: most of the time goes into the notebooks themselves.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbcheckpoint.notebook.client  # noqa: F401  # so that nobody has to import it after a fork
from nbcheckpoint.cli import main
from tests.headless import write
from tests.notebooks.test_everyday import ADDRESS, DESCRIBE, FOLDER, Notebook

EXAMPLES = Path(__file__).parents[2] / "notebooks"
EVERYTHING = ("--min-seconds", "0s")
WAYS = ("runner", "kernel", "both", "SIGTERM", "SIGINT")
CODES = {"runner": (9,), "kernel": (1,), "both": (9,), "SIGTERM": (143, 15), "SIGINT": (130, 2)}
"""How it may end: a signal that comes before the command has begun to mind signals ends it as it ends anything."""


@dataclass
class Tally:
    """What happened to one notebook."""

    name: str
    kills: dict[str, int] = field(default_factory=dict)
    finished: int = 0
    restored: int = 0
    differences: list[str] = field(default_factory=list)


def names() -> list[str]:
    everyday = sorted(path.stem for path in FOLDER.glob("*.py"))
    return [*everyday, *sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))]


def lay_out(name: str, folder: Path) -> None:
    """The notebook and a store of its own in a folder."""
    folder.mkdir(parents=True)
    example = EXAMPLES / f"{name}.ipynb"
    if example.exists():
        shutil.copy(example, folder / "work.ipynb")
        (folder / ".nbcheckpoint").mkdir(mode=0o700)
        return
    notebook = Notebook.read(FOLDER / f"{name}.py")
    # Or most moments would be those in which the kernel starts.
    cells = [cell if "__future__" in cell else f"import time\ntime.sleep(0.2)\n{cell}" for cell in notebook.cells]
    write(folder / "work.ipynb", *cells, DESCRIBE.replace("RESULTS", notebook.results))


def torment(name: str, folder: Path, kills: int, seed: str = "") -> Tally:
    """Kill it so many times, at random moments and in different ways, each time going on from what is there."""
    chance = random.Random(f"{name} {seed}")
    tally = Tally(name)
    lay_out(name, folder / "straight")
    began = time.monotonic()
    assert _wait(_forked(folder / "straight")) == 0, f"{name} does not run at all"
    took = time.monotonic() - began
    wanted = shown(folder / "straight" / "out.ipynb")
    place, turn = folder / "0", 0
    lay_out(name, place)
    while sum(tally.kills.values()) < kills:
        how = chance.choice(WAYS)
        code = _cut(place, how, chance.uniform(0.2, took))
        if code != 0:
            tally.kills[how] = tally.kills.get(how, 0) + 1
            assert code in CODES[how], (name, how, code, (place / "said.txt").read_text())
            continue
        _compare(tally, place, wanted)
        turn += 1
        place = folder / str(turn)
        lay_out(name, place)
    assert _wait(_forked(place)) == 0, f"{name} does not come to its end"
    _compare(tally, place, wanted)
    return tally


def _compare(tally: Tally, place: Path, wanted: Any) -> None:
    tally.finished += 1
    report = json.loads((place / "out.report.json").read_text())
    tally.restored += report["restored"] + report["resumed"]
    found = shown(place / "out.ipynb")
    if found != wanted:
        at = next((n for n, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b), -1)
        tally.differences.append(f"cell {at + 1}: {str(found[at])[:300]} instead of {str(wanted[at])[:300]}")


PASSING = re.compile(r"NBVAL_IGNORE_OUTPUT|\bstore\.run\(")
"""In a cell that shows what is another thing every time: times, or how a run stands, which has gone on since."""


def shown(path: Path) -> list[Any]:
    """All of what came out, but for addresses in memory, and cells that say what is another thing every time."""
    cells = json.loads(ADDRESS.sub("0x", path.read_text()))["cells"]
    tagged = (cell for cell in cells if "nbval-ignore-output" not in cell["metadata"].get("tags", ()))
    return [cell for cell in tagged if not PASSING.search("".join(cell["source"]))]


def _forked(folder: Path) -> int:
    """`nbcheckpoint run` in a process of its own, that has nothing left to import."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
        os.chdir(folder)
        quiet = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        words = ["run", "work.ipynb", "-o", "out.ipynb", "--report", "json", "--grace", "4s", *EVERYTHING]
        main.main(words, standalone_mode=True)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(99)


def _wait(child: int) -> int:
    """Its exit code; the signal that ended it as a number."""
    return _code(os.waitpid(child, 0)[1])


def _code(status: int) -> int:
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else os.WTERMSIG(status)


def _cut(folder: Path, how: str, after: float) -> int:
    """Run it, and kill it after a while if it is still there. Returns its exit code."""
    child = _forked(folder)
    deadline = time.monotonic() + after
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _code(status)
        time.sleep(0.01)
    _WAYS[how](child)
    return _wait(child)


def _children(parent: int) -> list[int]:
    with suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return []


def _kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _kill_kernels(runner: int) -> None:
    for kernel in _children(runner):
        _kill(kernel)


def _kill_both(runner: int) -> None:
    kernels = _children(runner)
    _kill(runner)
    for kernel in kernels:
        _kill(kernel)


_WAYS: dict[str, Callable[[int], None]] = {
    "runner": _kill,
    "kernel": _kill_kernels,
    "both": _kill_both,
    "SIGTERM": lambda runner: _kill(runner, signal.SIGTERM),
    "SIGINT": lambda runner: _kill(runner, signal.SIGINT),
}

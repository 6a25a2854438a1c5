"""Work repeated after a kill: `python benchmarks/repeated.py [--minutes 10] [--kills 50] [--at-once 25] [--json]`.

A notebook of slow statements and loops, in automatic mode and without a word about checkpoints in its cells, is
killed with -9 at a random moment and run again to its end in a new kernel. A plain statement takes six seconds: what
takes longer stands in loops, one of them inside of another. Its work is waiting, a tenth of a second at a time, each
noted in a file when it is done: so as many kernels as there is memory for can run at once, and what was done twice can
be counted. Every result is compared with that of an uninterrupted run.

The bar: no more than 10 seconds or 3 % of the run, whichever is more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.progress import Progress

from tests.kernels import Kernel

UNIT = 0.1
"""Seconds of one piece of work."""

SETUP = """%load_ext nbcheckpoint
%checkpoint auto
import os, random, time
os.dup2(os.open("tally.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 200)
def work(units, what):
    for _ in range(units):
        time.sleep({unit})
        os.write(200, what.encode() + b"\\n")
    return units
random.seed(7)
import numpy as np
np.random.seed(7)
"""

PLAIN = "part_{n} = float((data * {n}).sum()) + work({units}, 'part {n}')"
LOOPS = [
    "weights = np.zeros(1000); history = []\n"
    "for fold in range(3):\n"
    "    print('fold', fold)\n"
    "    for epoch in range({epochs} // 3):\n"
    "        work(8, f'epoch {{fold}} {{epoch}}')\n"
    "        weights += np.random.randn(1000) * 0.1\n"
    "        history.append(float(weights.sum()))\n"
    "        if epoch % 50 == 0:\n"
    "            print(epoch, history[-1])",
    "scores = []; n = 0\n"
    "while n < {epochs}:\n"
    "    scores.append((n, random.random(), work(2, f'score {{n}}')))\n"
    "    n += 1\n"
    "    if n % 50 == 0:\n"
    "        print(n)",
]
LOOK = "repr((parts, history, float(weights.sum()), scores, random.random(), np.random.rand()))"
ATOM = 60
"""Units in one plain statement, which cannot be cut: six seconds."""


@dataclass
class Outcome:
    """What one kill cost."""

    killed_after: float
    repeated: float
    same: bool
    problem: str = ""


def shape(minutes: float) -> tuple[int, int]:
    """How many plain statements and how many epochs: a quarter of the work is in the former."""
    units = minutes * 60 / UNIT
    return max(1, int(units * 0.25 / ATOM)), 3 * int(units * 0.25 / 10)


def cells(minutes: float) -> list[str]:
    """A notebook of about so many minutes of work."""
    plain_ones, epochs = shape(minutes)
    parts = [PLAIN.format(n=n, units=ATOM) for n in range(plain_ones)]
    together = "parts = [" + ", ".join(f"part_{n}" for n in range(plain_ones)) + "]"
    loops = [loop.format(epochs=epochs) for loop in LOOPS]
    return ["data = np.random.rand(200_000)", *parts[: plain_ones // 2], *loops, *parts[plain_ones // 2 :], together]


def one(folder: Path, minutes: float, after: float, wanted: str) -> Outcome:
    """Run, kill after so many seconds, run again."""
    notebook = [SETUP.format(unit=UNIT), *cells(minutes)]
    folder.mkdir()
    try:
        with Kernel(folder) as kernel:
            timer = threading.Timer(after, os.kill, [kernel.pid, 9])
            timer.start()
            _run_until_killed(kernel, notebook)
            timer.join()
            kernel.kill_again()
            kernel.start()
            for cell in notebook:
                kernel.run(cell)
            same = kernel.run(LOOK).result == wanted
    except Exception as error:  # one kernel's trouble is not the others'
        return Outcome(after, 0.0, False, f"{type(error).__name__}: {error}"[:300])
    done = (folder / "tally.txt").read_text().splitlines()
    return Outcome(after, UNIT * (len(done) - total_units(minutes)), same)


def _run_until_killed(kernel: Kernel, notebook: list[str]) -> None:
    for cell in notebook:
        request = kernel.client.execute(cell)
        while True:
            try:
                message = kernel.client.get_iopub_msg(timeout=1)
            except Exception:  # nothing came: is it still there?
                if not kernel.manager.is_alive():
                    return
                continue
            content = message["content"]
            mine = message["parent_header"].get("msg_id") == request
            if mine and message["msg_type"] == "status" and content["execution_state"] == "idle":
                break


def total_units(minutes: float) -> int:
    plain_ones, epochs = shape(minutes)
    return ATOM * plain_ones + (8 + 2) * epochs


def plain(folder: Path, minutes: float) -> str:
    """The result of a run nobody disturbs: without us, and without the waiting."""
    folder.mkdir()
    setup = SETUP.format(unit=0).replace("%load_ext nbcheckpoint\n%checkpoint auto\n", "")
    with Kernel(folder) as kernel:
        for cell in [setup, *cells(minutes)]:
            kernel.run(cell)
        return kernel.run(LOOK).result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the notebook takes")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=25, help="kernels at a time: about 120 MB each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    console, chance = Console(stderr=options.json), random.Random(options.seed)
    seconds = total_units(options.minutes) * UNIT
    bar = max(10.0, 0.03 * seconds)
    moments = [chance.uniform(0.02, 0.98) * seconds for _ in range(options.kills)]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="repeated-") as place, Progress(console=console) as progress:
        wanted = plain(Path(place) / "plain", options.minutes)
        task = progress.add_task("kills", total=options.kills)

        def go(number: int) -> Outcome:
            outcome = one(Path(place) / f"n{number}", options.minutes, moments[number], wanted)
            progress.advance(task)
            return outcome

        with ThreadPoolExecutor(options.at_once) as pool:
            outcomes = list(pool.map(go, range(options.kills)))
    costs = sorted(outcome.repeated for outcome in outcomes)
    wrong = [outcome for outcome in outcomes if not outcome.same]
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    console.print(
        f"{len(outcomes)} kills in runs of {seconds:.0f} s: repeated median {statistics.median(costs):.1f} s,"
        f" p95 {costs[int(0.95 * (len(costs) - 1))]:.1f} s, most {costs[-1]:.1f} s; bar {bar:.1f} s;"
        f" different results {len(wrong)}; {time.monotonic() - began:.0f} s in all"
    )
    for outcome in wrong:
        console.print(f"killed after {outcome.killed_after:.1f} s: {outcome.problem or 'another result'}", markup=False)
    return 0 if costs[-1] <= bar and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())

"""Example and everyday notebooks, killed at random moments: `python benchmarks/kills.py [--kills 20] [NAME …]`.

Each is run by `nbcheckpoint run`, its runner, its kernel or both killed, or asked to stop, and run again until it has
come to its end. What comes out, the variables it ends with included, is compared with a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.notebooks import kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which notebooks; all by default")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", default="")
    asked = parser.parse_args()
    known = kills.names()
    unknown = set(asked.names) - set(known)
    if unknown:
        parser.error(f"no notebook {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(f"{'notebook':20} {'kills':>5} {'ends':>5} {'cells restored':>14}  equal", flush=True)
    wrong = total = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nbcheckpoint-kills-") as folder:
        os.environ |= {"JUPYTER_DATA_DIR": f"{folder}/jupyter", "IPYTHONDIR": f"{folder}/ipython"}
        for name in asked.names or known:
            tally = kills.torment(name, Path(folder, name), asked.kills, asked.seed)
            ways = ", ".join(f"{number} {how}" for how, number in sorted(tally.kills.items()))
            killed = sum(tally.kills.values())
            verdict = "NO" if tally.differences else "yes"
            print(f"{name:20} {killed:5} {tally.finished:5} {tally.restored:14}  {verdict:5}  {ways}", flush=True)
            for difference in tally.differences:
                print(f"    {difference}", flush=True)
            wrong += len(tally.differences)
            total += killed
    print(f"{total} kills, {wrong} differences, {time.monotonic() - began:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

"""How the benchmarks measure: interleaved rounds, medians with their spread, and verdicts against the bars.

Contenders take turns within a round (A B C, A B C, ...), so that a noisy neighbour, a filling disk or a warming
cache hits all of them alike. A contender is a function that does its own untimed preparation and returns the
seconds that count. Every ratio is one of medians within the same run; absolute times mean nothing on another day.
"""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent

Contender = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Timing:
    """One contender's rounds, in seconds (or bytes, or whatever the section measures)."""

    section: str
    contender: str
    samples: tuple[float, ...]
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        return sorted(self.samples)[min(len(self.samples) - 1, int(len(self.samples) * 0.95))]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar of DESIGN.md section 11 and what was measured against it."""

    work: str
    measured: float
    sense: Literal["<=", ">=", "<"]
    bar: float
    unit: str
    """`x` for ratios, else a unit of time or size."""
    how: str = ""

    @property
    def met(self) -> bool:
        return self.measured >= self.bar if self.sense == ">=" else self.measured <= self.bar


@dataclass(slots=True)
class Report:
    """What a run of the benchmarks has found so far."""

    timings: list[Timing] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, section: str, samples: dict[str, list[float]], notes: dict[str, str] | None = None) -> None:
        for name, values in samples.items():
            known = tuple(value for value in values if not math.isnan(value))
            if known:
                self.timings.append(Timing(section, name, known, (notes or {}).get(name, "")))
            if len(known) < len(values):
                lost = f"{len(values) - len(known)} of {len(values)}"
                self.notes.append(f"{section}: {name} had lost the value by then, {lost} times")

    def median(self, section: str, contender: str) -> float:
        return self._one(section, contender).median

    def p95(self, section: str, contender: str) -> float:
        return self._one(section, contender).p95

    def ratio(self, section: str, above: str, below: str) -> float:
        return self.median(section, above) / self.median(section, below)

    def judge(
        self, work: str, measured: float, sense: Literal["<=", ">=", "<"], bar: float, unit: str, how: str = ""
    ) -> None:
        self.verdicts.append(Verdict(work, measured, sense, bar, unit, how))

    def _one(self, section: str, contender: str) -> Timing:
        return next(t for t in self.timings if (t.section, t.contender) == (section, contender))

    def write_json(self, path: Path) -> None:
        verdicts = [{**asdict(v), "met": v.met} for v in self.verdicts]
        timings = [{**asdict(t), "median": t.median} for t in self.timings]
        path.write_text(json.dumps({"verdicts": verdicts, "timings": timings, "notes": self.notes}, indent=1) + "\n")


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder on the repository's own disk (never tmpfs), gone afterwards. Our signing key lives in it too."""
    temporary = Path(tempfile.gettempdir())
    parent = temporary if temporary.stat().st_dev == HERE.stat().st_dev else HERE
    path = Path(tempfile.mkdtemp(prefix=".nbcheckpoint-bench-", dir=parent))
    os.environ["JUPYTER_DATA_DIR"] = str(path / "jupyter")
    os.environ["IPYTHONDIR"] = str(path / "ipython")
    # Children find compiled modules, as in any installed package, whatever the environment says about writing them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(path / "pycache")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds it took, and what it returned."""
    gc.collect()
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def interleave(rounds: int, contenders: dict[str, Contender], *, few: Iterable[str] = ()) -> dict[str, list[float]]:
    """Each contender once per round. Those in `few` sit out after three rounds: they are slow, not close."""
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, contender in contenders.items():
            if number < 3 or name not in few:
                samples[name].append(contender())
    return samples


def settle() -> None:
    """Nobody pays for the dirty pages another one left."""
    os.sync()
    gc.collect()


def forget_cached(folder: Path) -> None:
    """Drop the folder's files, and only those, from the page cache. They must be clean."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def allocated(folder: Path) -> int:
    """Bytes the folder's files take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def child(*arguments: str, cwd: Path | None = None) -> dict[str, Any]:
    """Run a script of ours in a process of its own; its last line of output is its answer, as JSON."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*(p for p in sys.path if p), str(HERE)])}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)[:80]} failed: {done.stderr[-800:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer

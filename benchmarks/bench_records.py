"""Records through the store: one tiny step, a run of a thousand of them, a hundred thousand runs."""

from __future__ import annotations

import shutil
import sqlite3
import time
from pathlib import Path

import bench_measure as measure
import bench_peers as peers
from bench_values import OURS, draft
from msgspec.structs import replace

from nbcheckpoint.model import Owner, Run, Step, utc_now
from nbcheckpoint.store import Store, open_store

SQLITE = "one SQLite commit (WAL, FULL)"
WITH_COUNTS = "nbcheckpoint, with the run's counters"


class Steps:
    """Tiny steps in one run, as `notebook/session.py` writes them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._run = store.begin_run("bench.ipynb").id
        self._next = 0

    def fill(self, count: int) -> None:
        for _ in range(count):
            self._store.put_step(self._step("completed"))

    def _step(self, status: str) -> Step:
        self._next += 1
        return Step(run=self._run, address=f"{self._next:06d}", name="tiny", status=status, started=utc_now())  # type: ignore[arg-type]

    def one(self, *, counters: bool = False) -> None:
        """Intent, a small value, completion; `counters` adds what the session writes into the run."""
        step = self._step("running")
        self._store.put_step(step)
        saved = self._store.save(draft(self._run, step.address), {"x": {"answer": self._next, "why": "because"}})
        self._store.put_step(replace(step, status="completed", seconds=0.1, checkpoint=saved.checkpoint.id))
        if counters:
            run = self._store.run(self._run)
            counts = {"completed": run.counts.get("completed", 0) + 1}
            self._store.update_run(self._run, counts=counts, bytes=run.bytes + saved.checkpoint.bytes)


def tiny_step(report: measure.Report, folder: Path, *, count: int) -> None:
    folder.mkdir(parents=True)
    commits = sqlite3.connect(folder / "peer.db", isolation_level=None)
    commits.execute("PRAGMA journal_mode=WAL")
    commits.execute("PRAGMA synchronous=FULL")
    commits.execute("CREATE TABLE t (key TEXT PRIMARY KEY, value BLOB)")
    payload = b"x" * 600  # about what a small checkpoint's record takes
    joblib = peers.Joblib()
    store, long_store = open_store(folder / "short"), open_store(folder / "long")
    steps, many = Steps(store), Steps(long_store)
    many.fill(1000)
    numbers = iter(range(10**9))

    def commit() -> None:
        commits.execute("INSERT INTO t VALUES (?, ?)", (f"k{next(numbers)}", payload))

    def cached() -> None:
        key = next(numbers)
        peers.HELD[key] = {"answer": key, "why": "because"}
        joblib.save(folder / "joblib", key)

    section = "one tiny step, intent + completion"
    work = {
        SQLITE: commit,
        OURS: steps.one,
        WITH_COUNTS: lambda: steps.one(counters=True),
        "nbcheckpoint, 1,000 steps in the run": many.one,
        joblib.name: cached,
    }
    contenders: dict[str, measure.Contender] = {name: lambda f=f: _seconds(f) for name, f in work.items()}  # type: ignore[misc]
    measure.interleave(5, contenders)  # imports, first commits
    report.add(section, measure.interleave(count, contenders), {joblib.name: "not durable"})
    peers.HELD.clear()
    report.judge("one tiny step", report.ratio(section, OURS, SQLITE), "<=", 2, "x", "of one SQLite commit")
    report.judge("one tiny step", report.ratio(section, joblib.name, OURS), ">=", 10, "x", "faster than joblib")
    p95 = report.p95(section, OURS) * 1000
    report.judge("one tiny step, p95", p95, "<", 50, "ms")
    p95 = report.p95(section, "nbcheckpoint, 1,000 steps in the run") * 1000
    report.judge("one tiny step, p95, 1,000 steps in the run", p95, "<", 50, "ms")
    store.close()
    long_store.close()
    commits.close()
    shutil.rmtree(folder, ignore_errors=True)


def _seconds(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


def fill_runs(store: Store, count: int) -> None:
    """Runs of a hundred notebooks; one in a hundred was interrupted, which the reader has to find out."""
    gone = Owner(host="", pid=1, started="0", boot="another boot")
    for number in range(count):
        made = time.strftime("%Y%m%dT%H%M%S", time.gmtime(1_700_000_000 + number * 60))
        when = f"{made[:4]}-{made[4:6]}-{made[6:8]}T{made[9:11]}:{made[11:13]}:{made[13:]}.000Z"
        run = Run(
            id=f"{made}000-{number:06x}",
            workflow=f"projects/notebook{number % 100}.ipynb",
            status="running" if number % 100 == 0 else "completed",
            owner=gone if number % 100 == 0 else None,
            created=when,
            updated=when,
            meta={"python": "3.12.1", "host": "workstation"},
            counts={"completed": 12, "restored": 3},
            bytes=412_000_000,
            computed_seconds=724.5,
        )
        key = f"run/{run.id}"
        store.backend.put(key, store._signer.seal(key, run.to_json()), durable=False)


def many_runs(report: measure.Report, folder: Path, *, count: int, rounds: int) -> None:
    store = open_store(folder / "store")
    started = time.perf_counter()
    fill_runs(store, count)
    report.notes.append(f"{count:,} runs written one by one, not durable: {time.perf_counter() - started:.0f} s")
    store.close()

    def opened() -> float:
        seconds, other = measure.timed(lambda: open_store(folder / "store"))
        other.close()
        return seconds

    def first_listing() -> float:
        with open_store(folder / "store") as other:
            return measure.timed(other.runs)[0]

    with open_store(folder / "store") as store:
        store.runs()
        contenders: dict[str, measure.Contender] = {
            "newest 50": lambda: measure.timed(lambda: store.runs(limit=50))[0],
            "list all": lambda: measure.timed(store.runs)[0],
            "list all, first time": first_listing,
            "open": opened,
            "newest 50 of one workflow": lambda: measure.timed(
                lambda: store.runs(workflow="projects/notebook7.ipynb", limit=50)
            )[0],
        }
        section = f"{count:,} runs"
        notes = {"list all": "again: only what changed is read", "list all, first time": "nothing remembered"}
        report.add(section, measure.interleave(max(rounds, 7), contenders), notes)
    for what, bar in [("newest 50", 5.0), ("list all", 250.0), ("open", 5.0)]:
        report.judge(f"{section}: {what}", report.median(section, what) * 1000, "<", bar, "ms")
    shutil.rmtree(folder, ignore_errors=True)

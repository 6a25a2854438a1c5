"""Many at once: processes with threads that count by compare-and-swap, and put, read and delete the same chunks.

No count may be lost, no read may give anything but the right bytes or "not found", and nobody may wait for ever.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Conflict, Error, NotFound, StoreError, StoreLocked
from tests.crash.faults.kill import drain
from tests.crash.faults.ledger import Progress, Tally, content, name_of, no_progress

COUNTERS = 4
POOL = 24
"""So few chunks that everybody meets everybody."""


def run(
    place: Path,
    rounds: int,
    *,
    processes: int = 8,
    threads: int = 4,
    seed: int = 1,
    progress: Progress = no_progress,
) -> Tally:
    """`rounds` is how many seconds to go on."""
    tally = Tally(f"{processes} processes x {threads} threads")
    directory = place / "store"
    with_store = DiskBackend(directory)
    for counter in range(COUNTERS):
        with_store.put(f"n/{counter}", b"0")
    with_store.close()
    workers = [_spawn(directory, seed * 100 + i, threads, rounds) for i in range(processes)]
    sums = [0] * COUNTERS
    for pid, pipe in workers:
        report = _collect(pid, pipe, rounds + 60, tally)
        sums = [a + b for a, b in zip(sums, report.get("counted", [0] * COUNTERS), strict=True)]
        tally.rounds += report.get("steps", 0)
        for what, text in report.get("notes", []):
            tally.note(what, text)
        tally.notes.append(f"longest wait {report.get('longest', 0):.1f} s")
    progress(rounds)
    backend = DiskBackend(directory)
    for counter, total in enumerate(sums):
        found = backend.get(f"n/{counter}")
        if found is None or int(found.value) != total:
            tally.note("wrong", f"counter {counter} is {found and found.value}, counted {total}")
    for name, problem in backend.verify_chunks():
        if problem != "orphan":
            tally.note("damaged", f"{name[:12]}: {problem}")
    backend.close()
    return tally.done()


def _spawn(directory: Path, seed: int, threads: int, seconds: float) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        member = Member(DiskBackend(directory, wait=30.0), seconds)
        crowd = [threading.Thread(target=member.work, args=(seed * 10 + i,)) for i in range(threads)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        os.write(writing, json.dumps(member.report()).encode())
        status = 0
        member.backend.close()
    finally:
        os._exit(status)


def _collect(pid: int, pipe: int, patience: float, tally: Tally) -> dict[str, object]:
    timer = threading.Timer(patience, lambda: os.kill(pid, signal.SIGKILL))
    timer.start()
    said = drain(pipe)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    timer.cancel()
    if status != 0:
        tally.note("stuck" if status == -signal.SIGKILL else "wrong", f"a process ended with {status}")
    return json.loads(said) if said else {}


class Member:
    """One process of the crowd."""

    def __init__(self, backend: DiskBackend, seconds: float) -> None:
        self.backend = backend
        self.until = time.monotonic() + seconds
        self.counted = [0] * COUNTERS
        self.steps = 0
        self.longest = 0.0
        self.notes: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    def report(self) -> dict[str, object]:
        return {"counted": self.counted, "steps": self.steps, "longest": self.longest, "notes": self.notes[:20]}

    def work(self, seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < self.until:
            step = chance.choice([self.count, self.count, self.save, self.read, self.read, self.map, self.delete])
            began = time.monotonic()
            try:
                step(chance)
            except StoreLocked as error:
                self.notes.append(("stuck", f"{step.__name__}: {error}"))
            except StoreError as error:
                if "save again" not in error.hint:  # pruned in between, and told: that is allowed
                    self.notes.append(("damaged", f"{step.__name__}: {error!r}"))
            except Error as error:
                self.notes.append(("wrong", f"{step.__name__}: {error!r}"))
            except BaseException as error:
                self.notes.append(("wrong", f"{step.__name__}: {error!r}"))
            with self.lock:
                self.steps += 1
                self.longest = max(self.longest, time.monotonic() - began)

    def count(self, chance: random.Random) -> None:
        which = chance.randrange(COUNTERS)
        found = self.backend.get(f"n/{which}")
        assert found is not None
        try:
            durable = chance.random() < 0.3
            value = b"%d" % (int(found.value) + 1)
            self.backend.put(f"n/{which}", value, expect=found.version, durable=durable)
        except Conflict:
            return
        with self.lock:
            self.counted[which] += 1

    def save(self, chance: random.Random) -> None:
        for seed in chance.sample(range(POOL), 3):
            self.backend.put_chunk(name_of(seed), content(seed))
        self.backend.sync()

    def read(self, chance: random.Random) -> None:
        seed = chance.randrange(POOL)
        try:
            if self.backend.read_chunk(name_of(seed)) != content(seed):
                self.notes.append(("wrong", f"chunk {seed}"))
        except NotFound:
            pass

    def map(self, chance: random.Random) -> None:
        seeds = chance.sample(range(POOL), 3)
        whole = b"".join(map(content, seeds))
        try:
            if bytes(self.backend.map_chunks([name_of(seed) for seed in seeds], len(whole))) != whole:
                self.notes.append(("wrong", f"chunks {seeds}, mapped"))
        except NotFound:
            pass

    def delete(self, chance: random.Random) -> None:
        self.backend.delete_chunk(name_of(chance.randrange(POOL)))
        if chance.random() < 0.1:
            self.backend.sweep(0)

"""Every system call that writes, failed once: `strace` is attached to a scripted session and makes the N-th call
of a kind return an error, for every N there is.

The session goes on after an error, as a notebook would. Whatever it was told is saved must be there afterwards,
and what it is told otherwise must be one of our own errors.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Error
from tests.crash.faults.kill import drain
from tests.crash.faults.ledger import Ledger, Progress, Tally, check_store, content, name_of, no_progress, record, sayer

CALLS = (
    *("write", "pwrite64", "fsync", "fdatasync", "openat", "ftruncate", "fallocate", "unlink", "unlinkat"),
    *("mkdir", "link", "rename", "lseek", "sync_file_range", "chmod", "fchmod"),
)
ERRORS = ("ENOSPC", "EIO", "EINTR")
PATIENCE = 60.0


def available() -> bool:
    return shutil.which("strace") is not None


def session(directory: Path, pipe: int) -> None:
    """One of everything. Each operation that fails is tried once more."""
    say = sayer(pipe)
    backend = _retried(lambda: DiskBackend(directory))
    if backend is None:
        return
    for number in range(1, 5):
        key = f"save/{number}"
        seeds = [number * 6 + i for i in (0, 1, 2, 3, 4)]
        say(f"begin {key} {number}")

        def save(key: str = key, number: int = number, seeds: list[int] = seeds) -> bool:
            for seed in seeds:
                backend.put_chunk(name_of(seed), content(seed))
            backend.put(key, record(key, number))
            return True

        if _retried(save):
            say(f"done {key} {number} " + " ".join(map(str, seeds)))
        _retried(lambda number=number: backend.put(f"loose/{number}", b"x", durable=False))
        _retried(lambda number=number: backend.delete(f"loose/{number}"))
    spare = name_of(1000)
    _retried(lambda: backend.put_chunk(spare, content(1000)))
    _retried(backend.sync)
    _retried(lambda: backend.delete_chunk(spare))
    _retried(lambda: backend.sweep(0))
    _retried(backend.close)


def _retried(step):  # type: ignore[no-untyped-def]
    for _ in range(2):
        try:
            return step()
        except Error:
            continue
    return None


def run(place: Path, rounds: int, *, progress: Progress = no_progress, stride: int = 1) -> Tally:
    """`rounds` is a limit; with `stride`, only every so many-th call is failed."""
    tally = Tally("failed system calls")
    store = place / "store"
    for call, error, when in _plan(place, stride):
        if tally.rounds >= rounds:
            break
        shutil.rmtree(store, ignore_errors=True)
        _round(store, f"{call}:error={error}:when={when}", tally)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _plan(place: Path, stride: int) -> Iterator[tuple[str, str, int]]:
    """Which call, which error, the how-manieth. How many there are, a session without errors tells."""
    counts = count(place)
    for call, total in counts.items():
        for error in ERRORS:
            for when in range(1, total + 1, stride):
                yield call, error, when


def count(place: Path) -> dict[str, int]:
    """How often a session makes each call."""
    log = place / "strace.log"
    _traced(place / "counted", ["-e", "trace=" + ",".join(CALLS), "-o", str(log)])
    lines = [line.split(" ", 1)[-1].strip() for line in log.read_text(errors="replace").splitlines()]
    return {call: n for call in CALLS if (n := sum(line.startswith(call + "(") for line in lines))}


def planned(place: Path, stride: int = 1) -> int:
    return sum(-(-total // stride) * len(ERRORS) for total in count(place).values())


def _round(store: Path, injection: str, tally: Tally) -> None:
    call = injection.partition(":")[0]
    said, status = _traced(store, ["-e", f"trace={call}", "-e", f"inject={injection}", "-o", os.devnull])
    if status is None:
        tally.note("stuck", injection)
    elif status != 0:
        tally.note("wrong", f"{injection}: the session ended with {status}: {said[-300:]!r}")
    ledger = Ledger()
    ledger.read(line for line in said.splitlines() if line.split()[:1] != [b"error"])
    before = len(tally.notes)
    if ledger.done:
        check_store(store, ledger, tally)
    tally.notes[before:] = [f"{injection}: {note}" for note in tally.notes[before:]]


def _traced(store: Path, options: list[str]) -> tuple[bytes, int | None]:
    """Run a session under strace. Returns what it said and its exit status, None if it hung."""
    go_read, go_write = os.pipe()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 9
        try:
            os.close(go_write)
            os.read(go_read, 1)
            session(store, writing)
            status = 0
        except BaseException as error:
            os.write(writing, f"error {error!r}".encode()[:500])
        finally:
            os._exit(status)
    os.close(writing)
    os.close(go_read)
    tracer = subprocess.Popen(["strace", "-f", "-p", str(pid), *options], stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    while b"attached" not in tracer.stderr.readline():
        pass
    os.write(go_write, b".")
    os.close(go_write)
    status = _wait(pid, reading)
    said = drain(reading)
    tracer.wait()
    tracer.stderr.close()
    return said, status


def _wait(pid: int, pipe: int) -> int | None:
    deadline = time.monotonic() + PATIENCE
    fd = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([fd], [], [], deadline - time.monotonic())
    finally:
        os.close(fd)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if ended else None

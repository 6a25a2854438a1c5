"""kill -9 at random points of a writer."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import time
from pathlib import Path

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Error
from tests.crash.faults.ledger import Ledger, Progress, Tally, Work, check_store, no_progress, sayer


def spawn(directory: Path, seed: int, steps: int) -> tuple[int, int]:
    """A writer in a child process. Returns its pid and the pipe it talks through."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        work = Work(DiskBackend(directory), sayer(writing), seed)
        for _ in range(steps):
            work.step()
        work.backend.close()
        status = 0
    except Error:
        pass  # told in our own words; a disk that was pulled out is none
    except BaseException as error:
        os.write(writing, f"begin unexpected:{type(error).__name__} 0\n".encode())
    finally:
        os._exit(status)


def listen(fd: int, until: float) -> bytes:
    """What the writer says until that moment, or until it ends."""
    said = b""
    while (left := until - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0]:
            break
        part = os.read(fd, 1 << 16)
        if not part:
            break
        said += part
    return said


def drain(fd: int) -> bytes:
    said = b""
    while part := os.read(fd, 1 << 16):
        said += part
    os.close(fd)
    return said


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("kill -9"), random.Random(seed)
    ledger, directory = Ledger(), place / "store"
    for number in range(rounds):
        if number % 25 == 0:  # a new store: its creation is to be killed too
            shutil.rmtree(directory, ignore_errors=True)
            ledger = Ledger()
        pid, pipe = spawn(directory, seed * 10_000 + number + 1, steps=10_000)
        said = listen(pipe, time.monotonic() + chance.uniform(0.0, 0.06))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        ledger.read(iter((said + drain(pipe)).splitlines()))
        check_store(directory, ledger, tally)
        tally.rounds += 1
        progress(1)
    return tally.done()

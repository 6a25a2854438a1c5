"""Power cuts: the file system is shut down under a writer, without flushing anything, and mounted again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

from nbcheckpoint.backend.disk_files import fsync_path
from tests.crash.faults.disks import disk, mount, pull_the_plug, unmount
from tests.crash.faults.kill import drain, listen, spawn
from tests.crash.faults.ledger import Ledger, Progress, Tally, check_store, no_progress


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("power cut"), random.Random(seed)
    with disk(place, megabytes=400) as point:
        ledger, directory = Ledger(loose_counts=False), point / "store"
        for number in range(rounds):
            if number % 20 == 0:
                shutil.rmtree(directory, ignore_errors=True)
                fsync_path(point)  # or the cut may bring the old one back, with blocks of the new one in it
                ledger = Ledger(loose_counts=False)
            pid, pipe = spawn(directory, seed * 10_000 + number + 1, steps=10_000)
            said = listen(pipe, time.monotonic() + chance.uniform(0.0, 0.25))
            # Said before the cut was done before the cut. What is said after it is a lie of the dead disk's cache.
            said += _rest(pipe)
            pull_the_plug(point)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            ledger.read(iter(said.splitlines()))
            _begun_only(ledger, drain(pipe))
            unmount(point)
            mount(place / "disk.img", point)
            check_store(directory, ledger, tally)
            tally.rounds += 1
            progress(1)
    return tally.done()


def _rest(pipe: int) -> bytes:
    """What is in the pipe already."""
    os.set_blocking(pipe, False)
    said = b""
    try:
        while part := os.read(pipe, 1 << 16):
            said += part
    except BlockingIOError:
        pass
    os.set_blocking(pipe, True)
    return said


def _begun_only(ledger: Ledger, said: bytes) -> None:
    """After the cut: whatever was begun may or may not be there."""
    words = [line.decode().split() for line in said.splitlines()]
    ledger.read(f"begin {w[1]} {w[2]}".encode() for w in words if len(w) > 2)
    ledger.read(b"delete " + w[1].encode() for w in words if w and w[0] == "delete")

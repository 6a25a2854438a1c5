"""The folder is deleted underneath a running process, and perhaps made anew by another."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Error, StoreError, StoreGone
from tests.crash.faults.ledger import Ledger, Progress, Tally, Work, check_store, no_progress


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("folder deleted underneath"), random.Random(seed)
    for number in range(rounds):
        directory = place / f"store-{number}"
        _round(directory, seed + number, chance, tally)
        shutil.rmtree(directory, ignore_errors=True)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _round(directory: Path, seed: int, chance: random.Random, tally: Tally) -> None:
    said: list[str] = []
    backend = DiskBackend(directory)
    work = Work(backend, said.append, seed)
    for _ in range(chance.randrange(8)):
        work.step()
    staged = chance.random() < 0.5
    if staged:
        backend.put_chunk("00" * 32, bytes(100_000))
    shutil.rmtree(directory)
    fresh = DiskBackend(directory) if chance.random() < 0.5 else None
    said.clear()
    told = False
    began = time.monotonic()
    for _ in range(12):
        try:
            work.step()
        except StoreGone:
            told = True
        except StoreError as error:
            tally.note("wrong", f"told as {error!r}")
    if any(line.startswith("done") for line in said):
        tally.note("lost", "a save into a deleted folder was acknowledged")
    if not told:
        tally.note("wrong", "nobody noticed")
    if time.monotonic() - began > 30:
        tally.note("stuck", "it took too long")
    _check_fresh(directory, fresh, tally)
    try:
        backend.close()
    except Error:
        pass


def _check_fresh(directory: Path, fresh: DiskBackend | None, tally: Tally) -> None:
    """A new store in the same place is not disturbed by the one that was deleted."""
    if fresh is None:
        if (directory / "cache.db").exists():
            tally.note("wrong", "the deleted store came back by itself")
        return
    ledger = Ledger()
    work = Work(fresh, lambda text: ledger.read(iter([text.encode()])), 77)
    for _ in range(5):
        work.step()
    fresh.close()
    check_store(directory, ledger, tally)

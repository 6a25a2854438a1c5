"""Pruning, killed (-9) before each call it makes to the backend in turn, and at random moments inside of them.

Nothing that is kept is lost, nothing that is left is damaged, and the next pruning leaves no orphans.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nbcheckpoint.errors import Error
from nbcheckpoint.model import Step
from nbcheckpoint.store import Store
from nbcheckpoint.store.upkeep import delete_run, prune
from nbcheckpoint.store.verify import verify
from tests.crash.faults.children import Interrupting, Say, die, open_store, start
from tests.crash.faults.ledger import Progress, Tally, content, no_progress
from tests.stores import add_run, add_step, days_ago


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("pruning killed"), random.Random(seed)
    directory, at = place / "store", 0
    for number in range(rounds):
        kept, doomed = _fill(directory)
        by_name = number % 4 == 3  # deleting a run is the same with another beginning
        if number % 2 == 0:
            survived = _killed_at(directory, at, doomed if by_name else "", tally)
            at = 0 if survived else at + 1
        else:
            _killed_some_time(directory, chance.random(), doomed if by_name else "", tally)
        _check(directory, kept, tally)
        shutil.rmtree(directory)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _fill(directory: Path) -> tuple[dict[str, dict[str, Any]], str]:
    """An old run and the latest, which share a checkpoint and chunks, and have others of their own.

    Returns what is kept (checkpoint -> values), and the run that goes.
    """
    with open_store(directory) as store:
        old = add_run(store, updated=days_ago(40), status="failed")
        shared = content(5)
        add_step(store, old, {"mine": content(11), "shared": shared}, created=days_ago(40))
        both = add_step(store, old, {"both": content(4)}, name="load", created=days_ago(40))
        for spare in range(3):
            add_step(store, old, {"spare": content(100 + spare)}, name="spare", created=days_ago(40))
        new = add_run(store)
        fit = add_step(store, new, {"other": content(17), "shared": shared}, name="fit")
        step = Step(run=new.id, address="000001", name="load", status="restored", checkpoint=both.id)
        store.put_step(step, durable=True)
        return {id: store.restore(id) for id in (both.id, fit.id)}, old.id


def _prune(store: Store, run: str) -> None:
    if run:
        delete_run(store, run, grace_seconds=0)
    prune(store, grace_seconds=0)


def _killed_at(directory: Path, at: int, run: str, tally: Tally) -> bool:
    """True if it came through, because it makes fewer calls than that."""

    def body(say: Say, wait: Callable[[], None]) -> None:
        store = open_store(directory)
        store.backend = Interrupting(store.backend, die, at=at)
        _prune(store, run)
        say("done")

    return b"done" in start(body).rest(tally)


def _killed_some_time(directory: Path, when: float, run: str, tally: Tally) -> None:
    """Somewhere inside of a call, or between two."""

    def body(say: Say, wait: Callable[[], None]) -> None:
        store = open_store(directory)
        store.backend = Interrupting(store.backend, partial(say, "call"), at=int(when * 60))
        _prune(store, run)

    child = start(body)
    child.hear(1)
    select.select([], [], [], when % 0.003)
    os.kill(child.pid, signal.SIGKILL)
    child.rest(tally)


def _check(directory: Path, kept: dict[str, dict[str, Any]], tally: Tally) -> None:
    with open_store(directory) as store:
        _check_kept(store, kept, tally)
        prune(store, grace_seconds=0)
        _check_kept(store, kept, tally)
        if orphans := verify(store).orphans:
            tally.note("wrong", f"{orphans} orphaned chunks after the next pruning")
        files = [what for what, problem in store.backend.verify_chunks() if problem == "orphan"]  # type: ignore[attr-defined]
        if files:
            tally.note("wrong", f"{len(files)} orphaned packs after the next pruning")
        if len(store.runs()) != 1:
            tally.note("wrong", f"{len(store.runs())} runs are left of one")
        if {entry.key.split("/")[1] for entry in store.backend.scan("step/")} != {store.runs()[0].id}:
            tally.note("wrong", "steps of a run that is gone")


def _check_kept(store: Store, kept: dict[str, dict[str, Any]], tally: Tally) -> None:
    for id, values in kept.items():
        tally.checked += 1
        try:
            if store.restore(id) != values:
                tally.note("wrong", f"checkpoint {id}")
        except Error as error:
            tally.note("lost", f"checkpoint {id}: {error}")
    for problem in verify(store).problems:
        tally.note("damaged", problem.text)

"""The clock jumps by ten years, forwards and backwards, while somebody saves and somebody else prunes.

In a process of its own each, the clock everybody can set is moved; the files keep the times they have. That is at
least as bad as the real thing, where files written after the jump would at least agree with the clock.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from blake3 import blake3

from nbcheckpoint.errors import Error
from nbcheckpoint.model import Run
from nbcheckpoint.store import Store
from nbcheckpoint.store.background import Background
from nbcheckpoint.store.upkeep import prune
from nbcheckpoint.store.verify import verify
from tests.crash.faults.children import Child, Interrupting, Say, open_store, start
from tests.crash.faults.ledger import Progress, Tally, no_progress
from tests.stores import add_run, add_step, draft

TEN_YEARS = timedelta(days=3652)
WORKFLOWS = ("a.ipynb", "b.ipynb")


def jump(by: timedelta) -> None:
    """From here on this process believes in another time. What it reads of a clock nobody can set stays."""

    class Jumped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Jumped:  # type: ignore[override]  # a datetime all the same
            return cls.fromtimestamp(time.time(), tz)

    real = time.time
    time.time = lambda: real() + by.total_seconds()
    for name, module in list(sys.modules.items()):
        if name.startswith("nbcheckpoint") and getattr(module, "datetime", None) is datetime:
            module.datetime = Jumped  # type: ignore[attr-defined]


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally = Tally("clock jumps of ten years")
    for number in range(seed, seed + rounds):
        _round(place / "store", number, tally)
        shutil.rmtree(place / "store")
        tally.rounds += 1
        progress(1)
    return tally.done()


def _round(directory: Path, number: int, tally: Tally) -> None:
    by = TEN_YEARS if number % 2 else -TEN_YEARS
    values = {"x": _bytes(number, 300_000), "y": _bytes(number + 1, 40_000)}
    with open_store(directory) as store:
        stays = _fill(store, number)
        Background(store).prune_if_due()  # somebody has looked at the right time
        before = {run.id for run in store.runs()}
    saver = start(partial(_save, directory, values, by if number % 4 < 2 else timedelta()))
    saver.hear(1)  # its chunks are there, its record is not
    _in_another_time(directory, by, _prune_in_the_background, tally)
    with open_store(directory) as store:
        if missing := before - {run.id for run in store.runs()}:
            tally.note("lost", f"{by}: {len(missing)} runs to a clock that had only just leapt")
    _in_another_time(directory, by, _prune, tally)
    saver.go()
    said = saver.rest(tally)
    with open_store(directory) as store:
        _check_saved(store, said, values, tally, by)
        _check_kept(store, stays, tally, by)


def _fill(store: Store, number: int) -> dict[str, dict[str, Any]]:
    """Runs of two notebooks. Returns those that stay whatever the clock says: checkpoint -> its values."""
    stays: dict[str, dict[str, Any]] = {}
    for workflow in WORKFLOWS:
        runs: list[Run] = [add_run(store, workflow, status="failed") for _ in range(4)]
        runs += [add_run(store, workflow), add_run(store, workflow, status="failed")]  # last success, latest
        for at, run in enumerate(runs):
            values = {"v": _bytes(number * 100 + at, 30_000)}
            saved = add_step(store, run, values, name=f"{workflow} {at}")
            if at == 0:
                store.pin(run.id)
            if at in (0, 4, 5):
                stays[saved.id] = values
    return stays


def _save(directory: Path, values: dict[str, Any], by: timedelta, say: Say, wait: Callable[[], None]) -> None:
    """A save that is held up between its chunks and its record, with the clock perhaps leaping meanwhile."""
    with open_store(directory) as store:
        inner = store.backend

        def hold() -> None:
            say("staged")
            wait()
            jump(by)

        store.backend = Interrupting(inner, hold, method="put")
        try:
            say(f"saved {store.save(draft(run='r', name='held'), values).checkpoint.id}")
        except Error as error:
            say(f"told {error}")
        store.backend = inner
        run = store.begin_run("c.ipynb")  # and life goes on in the other time
        saved = add_step(store, run, values)
        store.update_run(run.id, status="completed", durable=True)
        say(f"saved {saved.id}")


def _in_another_time(directory: Path, by: timedelta, what: Callable[[Store], None], tally: Tally) -> None:
    def body(say: Say, wait: Callable[[], None]) -> None:
        jump(by)
        with open_store(directory) as store:
            what(store)

    child: Child = start(body)
    child.rest(tally)


def _prune_in_the_background(store: Store) -> None:
    Background(store).prune_if_due()


def _prune(store: Store) -> None:
    prune(store)


def _check_saved(store: Store, said: list[bytes], values: dict[str, Any], tally: Tally, by: timedelta) -> None:
    for word, _, rest in (line.decode().partition(" ") for line in said):
        tally.checked += 1
        if word == "told":
            tally.note("lost", f"{by}: a save in progress was pruned: {rest}")
        elif word == "saved":
            _check_restores(store, rest, values, tally)
    if sum(line.startswith(b"saved") for line in said) + sum(line.startswith(b"told") for line in said) != 2:
        tally.note("wrong", f"{by}: said {said!r}")


def _check_kept(store: Store, stays: dict[str, dict[str, Any]], tally: Tally, by: timedelta) -> None:
    for id, values in stays.items():
        tally.checked += 1
        _check_restores(store, id, values, tally)
    for problem in verify(store).problems:
        tally.note("damaged", f"{by}: {problem.text}")


def _check_restores(store: Store, id: str, values: dict[str, Any], tally: Tally) -> None:
    try:
        if store.restore(id) != values:
            tally.note("wrong", f"checkpoint {id}")
    except Error as error:
        tally.note("lost", f"checkpoint {id}: {error}")


def _bytes(seed: int, size: int) -> bytes:
    return blake3(b"%d" % seed).digest(length=size)

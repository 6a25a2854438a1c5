"""An umask of 000: every file and folder of a store is still the user's alone, through all of its life.

A life: created, saved into, read, pruned, swept, damaged, repaired, exported, imported, copied, salvaged, killed in the
middle of each. The keys, which lie outside of the store, are looked at as well.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nbcheckpoint import config
from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.background import Background
from tests.crash.faults.children import Interrupting, Say, die, start
from tests.crash.faults.ledger import Progress, Tally, content, no_progress
from tests.stores import add_run, add_step, days_ago


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("umask 000"), random.Random(seed)
    for number in range(rounds):
        scene = place / "scene"
        scene.mkdir(mode=0o700)
        for life in (_life, partial(_killed, chance.randrange(60))):
            start(partial(_live, scene, life, number)).rest(tally)
        _check(scene, tally)
        shutil.rmtree(scene)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _live(scene: Path, life: Callable[[Path, int], None], number: int, say: Say, wait: Callable[[], None]) -> None:
    os.umask(0)
    os.environ["JUPYTER_DATA_DIR"] = str(scene / "jupyter")
    life(scene, number)


def _life(scene: Path, number: int) -> None:
    with open_store(scene / "store", encrypt=number % 3 == 2) as store:
        _fill(store, number)
        Background(store).prune_if_due()
        store.prune(grace_seconds=0)
        run = store.runs()[0]
        store.export(run.id, scene / "run.zip")
        store.copy_to(str(scene / "copy"))
    _damage(scene / "copy")
    with open_store(scene / "copy") as copy:
        copy.verify(repair=True)
    with open_store(scene / "imported", encrypt=number % 3 > 0) as store:
        store.import_(scene / "run.zip", trust=True)
    config.signing_key()
    config.encryption_key(create=True)
    DiskBackend.salvage(scene / "imported")
    open_store(scene / "imported").close()


def _killed(at: int, scene: Path, number: int) -> None:
    """The log and its shared memory stay, and what was being written."""
    store = open_store(scene / "killed")
    store.backend = Interrupting(store.backend, die, at=at)
    _fill(store, number)
    store.prune(grace_seconds=0)
    die()


def _fill(store: Store, number: int) -> None:
    for updated in (40, 20, 0):
        run = add_run(store, updated=days_ago(updated))
        for at in range(3):
            add_step(store, run, {"v": content(number * 6 + at + 3)}, name=f"s{at}", created=days_ago(updated))


def _damage(directory: Path) -> None:
    pack = next(directory.glob("??/*.pack"), None)
    if pack is not None:
        with pack.open("r+b") as file:
            file.write(b"damage")


def _check(scene: Path, tally: Tally) -> None:
    for path in sorted(scene.rglob("*")):
        status = path.lstat()
        wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        tally.checked += 1
        if path == scene / "jupyter":
            continue  # Jupyter's own folder, which may be anybody's work; what we put into it counts
        if stat.S_IMODE(status.st_mode) != wanted:
            tally.note("wrong", f"{path.relative_to(scene)} has mode {stat.S_IMODE(status.st_mode):o}")

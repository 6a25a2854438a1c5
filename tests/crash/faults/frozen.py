"""A writer that is frozen (SIGSTOP, a suspended machine), and thawed after others have gone on without it.

What it then writes is refused and told, or correct. There are three ways to be frozen: between reading a record and
replacing it; at each call of a save in turn; and at any moment, also inside of SQLite and holding its lock.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nbcheckpoint.backend.base import ABSENT
from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Conflict, Error, NotFound, StoreLocked
from nbcheckpoint.model import Step
from nbcheckpoint.store import Store
from nbcheckpoint.store.upkeep import delete_run, prune
from nbcheckpoint.store.verify import verify
from tests.crash.faults.children import Child, Interrupting, Say, freeze, open_store, start
from tests.crash.faults.ledger import (
    Ledger,
    Progress,
    Tally,
    Work,
    check_store,
    content,
    name_of,
    no_progress,
    number_in,
    record,
)
from tests.stores import draft

STEPS = 60
TAKEN = 900_000_000
"""Numbers from here on are those of whoever took over."""


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("frozen and thawed"), random.Random(seed)
    kinds = (_stale_versions, _in_a_save, _at_any_moment)
    for number in range(rounds):
        kinds[number % len(kinds)](place / "store", number // len(kinds), chance, tally)
        shutil.rmtree(place / "store")
        tally.rounds += 1
        progress(1)
    return tally.done()


def _close(what: Store | DiskBackend, say: Say) -> None:
    try:
        what.close()
    except Error as error:
        say(f"told {error}")


def _thaw(child: Child) -> None:
    os.kill(child.pid, signal.SIGCONT)


# Between reading a record and replacing it


def _stale_versions(directory: Path, number: int, chance: random.Random, tally: Tally) -> None:
    with_store = DiskBackend(directory)
    for key in ("swapped", "deleted", "anew"):
        with_store.put(key, b"before")
    child = start(partial(_write_late, directory, chance.random() < 0.5))
    child.stopped()
    with_store.put("swapped", b"taken")
    with_store.delete("deleted")
    with_store.delete("anew")
    with_store.put("anew", b"before")  # the same bytes, but not the same record
    with_store.put("absent", b"taken")
    _thaw(child)
    said = child.rest(tally)
    tally.checked += len(said)
    if said != [b"refused"] * 6:
        tally.note("wrong", f"late writes: {said!r}")
    found = {entry.key: entry.value for entry in with_store.scan()}
    if found != {"swapped": b"taken", "anew": b"before", "absent": b"taken"}:
        tally.note("lost", f"what was taken over is {found!r}")
    with_store.close()


def _write_late(directory: Path, durable: bool, say: Say, wait: Callable[[], None]) -> None:
    backend = DiskBackend(directory)
    versions = {key: found.version for key in ("swapped", "deleted", "anew") if (found := backend.get(key))}
    freeze()
    for key, expect in (*versions.items(), ("absent", ABSENT)):
        _try(say, lambda key=key, expect=expect: backend.put(key, b"late", expect=expect, durable=durable))
    for key in ("swapped", "anew"):
        _try(say, lambda key=key: backend.delete(key, expect=versions[key]))
    backend.close()


def _try(say: Say, step: Callable[[], object]) -> None:
    try:
        step()
        say("written")
    except Conflict:
        say("refused")


# At each call of a save


def _in_a_save(directory: Path, number: int, chance: random.Random, tally: Tally) -> None:
    with open_store(directory) as store:
        run = store.begin_run("nb.ipynb")
        child = start(partial(_save, directory, run.id, number % 17))
        stopped = child.stopped()
        deleted = number % 2 == 0
        try:
            status = store.run(run.id).status
            if status != "running":
                tally.note("wrong", f"a frozen run is {status}")
            if deleted:
                delete_run(store, run.id, grace_seconds=0)
            else:
                store.note(run.id, "taken over")
            prune(store, grace_seconds=0)
        finally:
            if stopped:
                _thaw(child)
        said = child.rest(tally, gone=not stopped)
        for word, _, rest in (line.decode().partition(" ") for line in said):
            tally.checked += 1
            if word == "saved" and not (deleted and rest.startswith("early")):
                _check_restores(store, rest.split()[-1], tally)
        if not deleted and store.run(run.id).note != "taken over":
            tally.note("lost", "what was written meanwhile")
        for problem in verify(store).problems:
            tally.note("damaged", problem.text)
        prune(store, grace_seconds=0)
        if orphans := verify(store).orphans:
            tally.note("wrong", f"{orphans} orphans after pruning")


VALUES = {"x": content(5), "y": content(4)}


def _save(directory: Path, run: str, at: int, say: Say, wait: Callable[[], None]) -> None:
    store = open_store(directory)
    thawed = False

    def stop() -> None:
        nonlocal thawed
        freeze()
        thawed = True

    store.backend = Interrupting(store.backend, stop, at=at)
    for number in range(2):
        address = f"{number:06d}"
        try:
            saved = store.save(draft(run=run, step=address, code=f"{number}" * 64), VALUES).checkpoint
            # Saved before it was frozen: whoever deleted the run had a right to that one.
            say(f"saved {'' if thawed else 'early '}{saved.id}")
            store.put_step(Step(run=run, address=address, name="s", status="completed", checkpoint=saved.id))
            store.update_run(run, computed_seconds=float(number))
        except Error as error:
            say(f"told {error}")
    _close(store, say)


def _check_restores(store: Store, id: str, tally: Tally) -> None:
    try:
        if store.restore(id) != VALUES:
            tally.note("wrong", f"checkpoint {id}")
    except NotFound as error:
        tally.note("lost", str(error))
    except Error as error:
        tally.note("damaged", str(error))


# At any moment


def _at_any_moment(directory: Path, number: int, chance: random.Random, tally: Tally) -> None:
    seed, ledger = number + 1, Ledger()
    child = start(partial(_work, directory, seed))
    said = child.hear(chance.randrange(1, STEPS))
    os.kill(child.pid, signal.SIGSTOP)
    stopped = child.stopped()
    ledger.read(iter(said + child.heard()))
    taken = _take_over(directory, seed, ledger, tally)
    if stopped:
        _thaw(child)
    late = child.rest(tally, gone=not stopped)
    ledger.read(line for line in late if not _is_stale(line, taken, tally))
    check_store(directory, ledger, tally)


def _work(directory: Path, seed: int, say: Say, wait: Callable[[], None]) -> None:
    work = Work(DiskBackend(directory), say, seed)
    for _ in range(STEPS):
        try:
            work.step()
        except Error as error:
            say(f"told {error}")
    _close(work.backend, say)


Taken = dict[str, tuple[set[int], "int | None"]]
"""Key that was taken over -> the writer's numbers that were under way, and which one was found there."""


def _take_over(directory: Path, seed: int, ledger: Ledger, tally: Tally) -> Taken:
    """Swap its records, prune what no record names. It may hold the lock: then that is told, in bounded time."""
    taken: Taken = {}
    backend = DiskBackend(directory, wait=0.2)
    try:
        for which in range(4):
            key = f"swap/{seed}/{which}"
            found = backend.get(key)
            under_way = set(ledger.open.get(key, ()))
            backend.put(key, record(key, TAKEN + which), expect=found.version if found else ABSENT)
            taken[key] = under_way, number_in(key, found.value) if found else None
            ledger.read(iter([f"begin {key} {TAKEN + which}".encode(), f"done {key} {TAKEN + which}".encode()]))
        live = _live(backend, ledger)
        for name, _, _ in list(backend.scan_chunks()):
            if name not in live:
                backend.delete_chunk(name)
        backend.sweep(0)
    except StoreLocked:
        tally.checked += 1  # told
    try:
        backend.close()
    except StoreLocked:
        pass
    return taken


def _live(backend: DiskBackend, ledger: Ledger) -> set[str]:
    """Chunks of every record that is there, said or not."""
    numbers = [key.partition("/")[2] for key in ledger.open if key.startswith("save/") and backend.get(key)]
    return {name_of(seed) for seed in ledger.chunks} | {name_of(int(n) * 10 + i) for n in numbers for i in range(6)}


def _is_stale(line: bytes, taken: Taken, tally: Tally) -> bool:
    """Said late about a put from before. It must have been done before, too: since then the record is another's."""
    word, *rest = line.decode().split()
    if word != "done" or rest[0] not in taken:
        return False
    under_way, found = taken[rest[0]]
    if int(rest[1]) not in under_way:
        return False
    if int(rest[1]) != found:
        tally.note("wrong", f"{rest[0]}: a put from before the takeover was acknowledged after it")
    return True

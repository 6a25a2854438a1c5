"""Bit flips at rest: in packs, in the index, in its log, in the witness.

After each flip the store is opened as the next process would, and asked for everything that was saved. It may
answer rightly or say that something is damaged. It may not answer wrongly, and not say "there is no such thing".
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Error, NotFound, StoreError
from tests.crash.faults.ledger import Progress, Tally, content, name_of, no_progress, number_in, record

KEYS = [f"{kind}/{i:04}" for kind in ("run", "step", "checkpoint") for i in range(40)]
SEEDS = range(60)


def make(directory: Path, *, closed: bool) -> None:
    """A store with some of everything. Not `closed`: as a killed process leaves it, with its log full."""
    for seed in SEEDS:
        name_of(seed)  # remembered here, for all the children to come
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        return
    try:
        backend = DiskBackend(directory)
        for number, key in enumerate(KEYS):
            backend.put(key, record(key, number), durable=number % 5 == 0)
        for seed in SEEDS:
            backend.put_chunk(name_of(seed), content(seed))
            if seed % 7 == 0:
                backend.sync()
        backend.sync()
        if closed:
            backend.close()
        os._exit(0)
    except BaseException:
        os._exit(1)


def flip(path: Path, chance: random.Random, *, below: int | None = None) -> int:
    """Flip one bit; returns where."""
    where = chance.randrange(min(below or 1 << 60, path.stat().st_size))
    with path.open("r+b") as file:
        file.seek(where)
        (byte,) = file.read(1)
        file.seek(where)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return where


def in_packs(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("bit flips in packs"), random.Random(seed)
    pristine = place / "pristine"
    make(pristine, closed=True)
    store = place / "store"
    for _ in range(rounds):
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(pristine, store, copy_function=_link_or_copy)
        packs = sorted(store.glob("??/*.pack"))
        pack = chance.choices(packs, [path.stat().st_size for path in packs])[0]
        _unlink_copy(pack)
        flip(pack, chance)
        _ask(store, tally, _ask_chunks)
        tally.rounds += 1
        progress(1)
    return tally.done()


def in_index(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally, chance = Tally("bit flips in the index"), random.Random(seed)
    for closed in (True, False):
        make(place / f"pristine-{closed}", closed=closed)
    store = place / "store"
    for number in range(rounds):
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(place / f"pristine-{number % 3 == 0}", store, copy_function=_link_or_copy)
        names = ["cache.db", "cache.db-wal", "cache.db-wal", "cache.db-wal", "witness"]
        path = store / chance.choice([name for name in names if (store / name).stat().st_size])
        label = f"{path.name} at {flip(path, chance)}: "
        _ask(store, tally, lambda backend, label=label: label + _ask_everything(backend))
        tally.rounds += 1
        progress(1)
    return tally.done()


def _link_or_copy(source: str, target: str) -> None:
    """Packs are never changed by the store, so the copies may share them; the index is copied."""
    if source.endswith(".pack"):
        os.link(source, target)
    else:
        shutil.copyfile(source, target)
        os.chmod(target, 0o600)


def _unlink_copy(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def _ask(store: Path, tally: Tally, question: Callable[[DiskBackend], str]) -> None:
    """Ask in a child: a crash of SQLite or a SIGBUS would be an answer too."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = "wrong no answer"
        try:
            answer = _answer(store, question)
        except BaseException as error:
            answer = f"wrong {error!r} is none of our errors"
        finally:
            os.write(writing, answer.encode()[:4000])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    if os.waitpid(pid, 0)[1] != 0:
        tally.note("wrong", "the process died")
    tally.checked += 1
    for bad in ("lost", "wrong"):
        if f"{bad} " in answer:
            tally.note(bad, answer)


def _answer(store: Path, question: Callable[[DiskBackend], str]) -> str:
    try:
        backend = DiskBackend(store)
    except StoreError:
        return "told"
    answer = question(backend)
    try:
        backend.close()
    except Error:
        pass
    return answer


def _ask_everything(backend: DiskBackend) -> str:
    return _ask_records(backend) or _ask_scan(backend) or _ask_chunks(backend) or _ask_write(backend)


def _ask_records(backend: DiskBackend) -> str:
    for number, key in enumerate(KEYS):
        try:
            found = backend.get(key)
        except StoreError:
            continue
        if found is None:
            return f"lost {key}"
        if number_in(key, found.value) != number:
            return f"wrong {key}"
    return ""


def _ask_scan(backend: DiskBackend) -> str:
    for prefix in ("run/", "step/", "checkpoint/"):
        try:
            found = {entry.key: entry.value for entry in backend.scan(prefix)}
        except StoreError:
            continue
        for number, key in enumerate(KEYS):
            if key.startswith(prefix) and key not in found:
                return f"lost {key} in a scan"
            if key.startswith(prefix) and number_in(key, found[key]) != number:
                return f"wrong {key} in a scan"
    return ""


def _ask_chunks(backend: DiskBackend) -> str:
    for seed in SEEDS:
        name, size = name_of(seed), len(content(seed))
        for ask in (backend.read_chunk, lambda name, size=size: bytes(backend.map_chunks([name], size))):
            try:
                if ask(name) != content(seed):
                    return f"wrong chunk {seed}"
            except NotFound:
                return f"lost chunk {seed}"
            except StoreError:
                continue
    return ""


def _ask_write(backend: DiskBackend) -> str:
    """Going on must not make it worse: what could be read is still there after some writing."""
    try:
        for i in range(20):
            backend.put(f"new/{i}", b"x" * 500)
    except StoreError:
        return ""
    return _ask_records(backend)

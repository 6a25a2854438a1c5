"""Who said what: the counts of a torture run, and what a store must hold after it.

A writer tells the ledger what it is about to do and, after a durable call has returned, that it is done. Afterwards
everything that was done must be there, bit for bit. What was under way may be there or not, but not half.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from blake3 import blake3

from nbcheckpoint.backend.base import Backend
from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Conflict, Error, NotFound, StoreDamaged, StoreError

SIZES = (10, 3_000, 30_000, 70_000, 300_000, 1 << 20)


@dataclass
class Tally:
    """What came of it. Everything but `rounds` has to be zero."""

    name: str
    rounds: int = 0
    lost: int = 0
    damaged: int = 0
    wrong: int = 0
    stuck: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    checked: int = 0
    _began: float = field(default_factory=time.monotonic)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.damaged or self.wrong or self.stuck)

    def note(self, what: str, text: str) -> None:
        setattr(self, what, getattr(self, what) + 1)
        if len(self.notes) < 20:
            self.notes.append(f"{what}: {text}")

    def done(self) -> Tally:
        self.seconds = time.monotonic() - self._began
        return self


Progress = Callable[[int], None]


def no_progress(rounds: int) -> None:
    """For tests."""


@lru_cache(maxsize=128)
def content(seed: int) -> bytes:
    """The bytes of chunk number `seed`. Every third one compresses."""
    size = SIZES[seed % len(SIZES)]
    if seed % 3 == 0:
        return (b"%d," % seed * (size // 2 + 1))[:size]
    return blake3(b"%d" % seed).digest(length=size)


@lru_cache(maxsize=4096)
def name_of(seed: int) -> str:
    return blake3(content(seed)).hexdigest()


def record(key: str, number: int) -> bytes:
    """A record's bytes, tied to its key and sealed, as the store above seals its own."""
    body = json.dumps({"key": key, "number": number, "pad": "x" * (number % 700)}).encode()
    return blake3(body).digest() + body


def number_in(key: str, value: bytes) -> int | None:
    """Which number was written, or None if this is not what anybody wrote under that key."""
    if blake3(value[32:]).digest() != value[:32]:
        return None
    body = json.loads(value[32:])
    return int(body["number"]) if body["key"] == key else None


@dataclass
class Ledger:
    """What the writers of one store have said so far."""

    done: dict[str, int] = field(default_factory=dict)
    """key -> number of the last put that returned."""
    open: dict[str, set[int]] = field(default_factory=dict)
    """key -> numbers that may be there as well."""
    chunks: set[int] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    """Keys whose deletion was begun."""
    loose_counts: bool = True
    """Must a put survive that was not durable? It does not have to survive a power cut."""

    def read(self, lines: Iterator[bytes]) -> None:
        """Lines of a writer: `begin KEY NUMBER`, `done|loose KEY NUMBER SEED…`, `delete KEY`."""
        for line in lines:
            word, *rest = line.decode().split()
            if word == "begin":
                self.open.setdefault(rest[0], set()).add(int(rest[1]))
            elif word == "delete":
                self.gone.add(rest[0])
            elif word == "done" or (word == "loose" and self.loose_counts):
                self.done[rest[0]] = int(rest[1])
                self.open[rest[0]] = set()
                self.chunks.update(map(int, rest[2:]))

    def check(self, backend: Backend, tally: Tally) -> None:
        """Count whatever is not as it was said."""
        for key, number in self.done.items():
            if key not in self.gone:
                self._check_record(backend, tally, key, number)
        for key in self.open:
            if key.startswith("unexpected:"):
                tally.note("wrong", f"a writer met {key[11:]}, which is none of our errors")
        for seed in self.chunks:
            self._check_chunk(backend, tally, seed)

    def _check_record(self, backend: Backend, tally: Tally, key: str, number: int) -> None:
        tally.checked += 1
        try:
            found = backend.get(key)
        except StoreError as error:
            return tally.note("damaged", f"{key}: {error}")
        if found is None:
            return tally.note("lost", f"{key}={number} is not there")
        if number_in(key, found.value) not in {number, *self.open.get(key, ())}:
            tally.note("wrong", f"{key} is {number_in(key, found.value)}, was {number}")
        return None

    def _check_chunk(self, backend: Backend, tally: Tally, seed: int) -> None:
        tally.checked += 1
        data = content(seed)
        try:
            same = backend.read_chunk(name_of(seed)) == data
            same = same and bytes(backend.map_chunks([name_of(seed)], len(data))) == data
        except NotFound:
            return tally.note("lost", f"chunk {seed} ({len(data)} bytes) is not there")
        except Error as error:
            return tally.note("damaged", f"chunk {seed}: {error}")
        if not same:
            tally.note("wrong", f"chunk {seed}")
        return None


class Work:
    """A writer: random puts, swaps, chunks and deletes, each told to the ledger before and after."""

    def __init__(self, backend: Backend, say: Callable[[str], None], seed: int) -> None:
        self.backend = backend
        self.say = say
        self.seed = seed
        self.random = random.Random(seed)
        self.number = seed * 1_000_000
        self.keys: list[str] = []

    def step(self) -> None:
        self.number += 1
        self.random.choice([self.put, self.put, self.swap, self.save, self.save, self.save, self.loose, self.delete])()

    def put(self) -> None:
        self._write(f"k/{self.number}", ())

    def swap(self) -> None:
        """Replace a value by compare-and-swap. The keys are this writer's: who was last is not in the ledger."""
        key = f"swap/{self.seed}/{self.random.randrange(4)}"
        found = self.backend.get(key)
        self.say(f"begin {key} {self.number}")
        try:
            self.backend.put(key, record(key, self.number), expect=found.version if found else "")
            self.say(f"done {key} {self.number}")
        except Conflict:
            pass

    def save(self) -> None:
        """As a checkpoint is saved: chunks first, then the record that makes them count."""
        seeds = [self.number * 10 + i for i in range(self.random.randrange(1, 6))]
        for seed in seeds:
            self.backend.put_chunk(name_of(seed), content(seed))
        self._write(f"save/{self.number}", tuple(seeds))

    def loose(self) -> None:
        """A put that is not durable by itself; it is made so by the next one."""
        key = f"loose/{self.number}"
        self.say(f"begin {key} {self.number}")
        self.backend.put(key, record(key, self.number), durable=False)
        self.say(f"loose {key} {self.number}")

    def delete(self) -> None:
        if self.keys:
            key = self.keys.pop(self.random.randrange(len(self.keys)))
            self.say(f"delete {key}")
            self.backend.delete(key)

    def _write(self, key: str, seeds: tuple[int, ...]) -> None:
        self.say(f"begin {key} {self.number}")
        self.backend.put(key, record(key, self.number))
        self.say(" ".join(map(str, ("done", key, self.number, *seeds))))
        self.keys.append(key)


def sayer(fd: int) -> Callable[[str], None]:
    """Tell the other end of a pipe, at once: what was said before a kill was said whole.

    By writev, which a store never uses, so that `syscalls` can fail every write but this.
    """

    def say(text: str) -> None:
        os.writev(fd, [text.encode() + b"\n"])

    return say


def check_store(directory: Path, ledger: Ledger, tally: Tally) -> None:
    """Open the store as the next process would, and hold it to what was said."""
    try:
        backend = DiskBackend(directory)
    except StoreError as error:
        return tally.note("damaged", f"cannot be opened: {error}")
    try:
        if backend.damage:
            tally.note("damaged", backend.damage)
        ledger.check(backend, tally)
        for problem in backend.verify_index():
            tally.note("damaged", f"index: {problem}")
        for name, problem in backend.verify_chunks():
            if problem != "orphan":
                tally.note("damaged", f"half visible: {name[:12]} {problem}")
    except StoreDamaged as error:
        tally.note("damaged", str(error))
    finally:
        backend.close()
    return None

"""A store in memory: for tests, for trying things out, and as the plainest reading of the contract.

Theory of operation. Two dictionaries under one lock, which a fork takes too. "Durable" means "as long as the
process", so `sync` only looks whether what was put is still there. `memory://` is a store of its own;
`memory://name` is the same store wherever that name is opened in this process, which is how a test restarts a
"kernel" on the same data.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from blake3 import blake3

from nbcheckpoint.backend.base import ABSENT, Entry, Versioned, check_chunk_name, check_key, is_key
from nbcheckpoint.errors import ChunkPruned, Conflict, NotFound, StoreDamaged, StoreError

SCHEME: Final = "memory://"


@dataclass(slots=True)
class _Shelf:
    """What one store holds. Several backends may stand in front of the same shelf."""

    records: dict[str, Versioned] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    """The keys of `records`, sorted, so that a scan costs what it returns."""
    chunks: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    versions: Iterator[int] = field(default_factory=lambda: itertools.count(1))


_named: dict[str, _Shelf] = {}
_lock = threading.RLock()

if hasattr(os, "register_at_fork"):  # a child must not inherit a shelf that a thread is just changing
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class MemoryBackend:
    """The backend protocol on two dictionaries."""

    read_only = False

    def __init__(self, name: str = "") -> None:
        self.url = SCHEME + name
        self._closed = False
        self._counted_on: set[str] = set()
        with _lock:
            self._shelf = _named.setdefault(name, _Shelf()) if name else _Shelf()

    @classmethod
    def from_url(cls, url: str) -> MemoryBackend:
        """`memory://` is a new private store, `memory://name` the one of that name in this process."""
        return cls(url.removeprefix(SCHEME))

    def get(self, key: str) -> Versioned | None:
        if not is_key(key):
            return None
        with self._open() as shelf:
            return shelf.records.get(key)

    def put(self, key: str, value: bytes, *, expect: str | None = None, durable: bool = True) -> str:
        check_key(key)
        with self._open() as shelf:
            _compare(shelf, key, expect)
            if durable:
                self._settle(shelf)
            if key not in shelf.records:
                shelf.keys.insert(bisect_left(shelf.keys, key), key)
            version = f"{next(shelf.versions):016x}"
            shelf.records[key] = Versioned(bytes(value), version)
            return version

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        check_key(key)
        with self._open() as shelf:
            _compare(shelf, key, expect)
            if shelf.records.pop(key, None) is None:
                return False
            del shelf.keys[bisect_left(shelf.keys, key)]
            return True

    def scan(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[Entry]:
        with self._open() as shelf:
            keys = _walk(shelf.keys, prefix, after, reverse)
            return [Entry(key, *shelf.records[key]) for key in itertools.islice(keys, limit)]

    def versions(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[tuple[str, str]]:
        with self._open() as shelf:
            keys = _walk(shelf.keys, prefix, after, reverse)
            return [(key, shelf.records[key].version) for key in itertools.islice(keys, limit)]

    def put_chunk(self, name: str, data: bytes | memoryview) -> int:
        check_chunk_name(name)
        with self._open() as shelf:
            now = time.monotonic()
            self._counted_on.add(name)
            if name in shelf.chunks:
                shelf.chunks[name] = (shelf.chunks[name][0], now)
                return 0
            shelf.chunks[name] = (bytes(data), now)
            return len(shelf.chunks[name][0])

    def put_chunks(self, chunks: Sequence[tuple[str, bytes | memoryview]]) -> int:
        return sum(self.put_chunk(name, data) for name, data in chunks)

    def has_chunk(self, name: str) -> bool:
        check_chunk_name(name)
        with self._open() as shelf:
            return name in shelf.chunks

    def read_chunk(self, name: str) -> bytes:
        check_chunk_name(name)
        with self._open() as shelf:
            if name not in shelf.chunks:
                raise NotFound(f"no chunk {name}")
            data, _ = shelf.chunks[name]
        if blake3(data).hexdigest() != name:
            raise StoreDamaged(f"chunk {name} is not what its name says", key=name)
        return data

    def map_chunks(self, names: Sequence[str], size: int) -> memoryview:
        joined = bytearray().join(self.read_chunk(name) for name in names)
        if len(joined) != size:
            raise StoreDamaged(f"{len(names)} chunks hold {len(joined)} bytes, not {size}")
        return memoryview(joined)

    def delete_chunk(self, name: str, *, min_age: float = 0.0) -> int:
        check_chunk_name(name)
        with self._open() as shelf:
            data, put_at = shelf.chunks.get(name, (b"", 0.0))
            if name not in shelf.chunks or time.monotonic() - put_at < min_age:
                return 0
            del shelf.chunks[name]
            if not min_age:
                self._counted_on.discard(name)
            return len(data)

    def scan_chunks(self, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, int, float]]:
        with self._open() as shelf:
            now = time.monotonic()
            rows = sorted((name, len(data), now - at) for name, (data, at) in shelf.chunks.items())
        return itertools.islice((row for row in rows if row[0] > after), limit)

    def sync(self) -> None:
        with self._open() as shelf:
            self._settle(shelf)

    def _settle(self, shelf: _Shelf) -> None:
        """What was put since the last time must still be there. Raises ChunkPruned, once."""
        missing, self._counted_on = self._counted_on - shelf.chunks.keys(), set()
        if missing:
            raise ChunkPruned(min(missing))

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def _open(self) -> Iterator[_Shelf]:
        if self._closed:
            raise StoreError(f"{self.url} is closed", hint="open the store again")
        with _lock:
            yield self._shelf


def _compare(shelf: _Shelf, key: str, expect: str | None) -> None:
    if expect is None:
        return
    current = shelf.records.get(key)
    if (current.version if current else ABSENT) != expect:
        raise Conflict(key)


def _walk(keys: list[str], prefix: str, after: str, reverse: bool) -> Iterator[str]:
    """The keys that start with prefix, behind `after` in the direction of the walk."""
    first = bisect_left(keys, prefix)
    # No character sorts behind U+10FFFF, and check_key's longest key bounds how many of them can follow.
    last = bisect_right(keys, prefix + "\U0010ffff" * 513)
    if after and not reverse:
        first = max(first, bisect_right(keys, after))
    if after and reverse:
        last = min(last, bisect_left(keys, after))
    span = range(first, last)
    return (keys[i] for i in (reversed(span) if reverse else span))

"""Whatever is done to a backend, in whatever order, it behaves like a dictionary with versions."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from nbcheckpoint.backend.base import ABSENT, Backend, Entry, Versioned
from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.backend.memory import MemoryBackend
from nbcheckpoint.errors import Conflict, NotFound

ALPHABET = "a/b0%_é\ud7ff\ue000\U0010ffff"
keys = st.text(ALPHABET, min_size=1, max_size=4)
prefixes = st.text(ALPHABET, max_size=3)
values = st.binary(max_size=40)
chunk_data = st.one_of(
    st.binary(max_size=64),
    st.builds(
        lambda seed, size: blake3(b"%d" % seed).digest(length=size),
        st.integers(0, 5),
        st.sampled_from([20_000, 65_536, 70_000, 131_072]),
    ),
    st.builds(
        lambda seed, size: b"%d" % seed * size, st.integers(0, 5), st.sampled_from([20_000, 65_536, 70_000, 131_072])
    ),
)


class BackendMachine(RuleBasedStateMachine):
    """The model is two dictionaries; `other` is a second opener that must see what is committed."""

    versions = Bundle("versions")

    def open(self) -> Backend:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.backend = self.open()
        self.records: dict[str, Versioned] = {}
        self.chunks: dict[str, bytes] = {}
        self.used: set[str] = set()

    @rule(target=versions, key=keys, value=values, durable=st.booleans())
    def put(self, key: str, value: bytes, durable: bool) -> str:
        return self._stored(key, value, self.backend.put(key, value, durable=durable))

    @rule(target=versions, key=keys, value=values, expect=st.one_of(st.just(ABSENT), versions))
    def swap(self, key: str, value: bytes, expect: str) -> str:
        try:
            version = self.backend.put(key, value, expect=expect, durable=False)
        except Conflict:
            assert self._version(key) != expect
            return expect
        assert self._version(key) == expect
        return self._stored(key, value, version)

    @rule(key=keys, expect=st.one_of(st.none(), st.just(ABSENT), versions))
    def delete(self, key: str, expect: str | None) -> None:
        try:
            deleted = self.backend.delete(key, expect=expect)
        except Conflict:
            assert expect is not None
            assert self._version(key) != expect
            return
        assert expect is None or self._version(key) == expect
        assert deleted == (self.records.pop(key, None) is not None)

    @rule(key=keys)
    def get(self, key: str) -> None:
        assert self.backend.get(key) == self.records.get(key)

    @rule(prefix=prefixes, after=prefixes, limit=st.one_of(st.none(), st.integers(0, 4)), reverse=st.booleans())
    def scan(self, prefix: str, after: str, limit: int | None, reverse: bool) -> None:
        expected = [
            Entry(key, *self.records[key])
            for key in sorted(self.records, reverse=reverse)
            if key.startswith(prefix) and (not after or (key < after if reverse else key > after))
        ]
        assert self.backend.scan(prefix, after=after, limit=limit, reverse=reverse) == expected[:limit]

    @rule(data=chunk_data)
    def put_chunk(self, data: bytes) -> None:
        name = blake3(data).hexdigest()
        written = self.backend.put_chunk(name, data)
        assert (written > 0) == (name not in self.chunks and bool(data))
        self.chunks[name] = data

    @rule(data=chunk_data)
    def delete_chunk(self, data: bytes) -> None:
        name = blake3(data).hexdigest()
        freed = self.backend.delete_chunk(name)
        assert (freed > 0) == (name in self.chunks and bool(data))
        self.chunks.pop(name, None)
        assert not self.backend.has_chunk(name)

    @rule(data=chunk_data)
    def read_chunk(self, data: bytes) -> None:
        name = blake3(data).hexdigest()
        assert self.backend.has_chunk(name) == (name in self.chunks)
        if name in self.chunks:
            assert self.backend.read_chunk(name) == data
        else:
            with pytest.raises(NotFound):
                self.backend.read_chunk(name)

    @rule(chance=st.randoms(use_true_random=False))
    def map_chunks(self, chance) -> None:  # type: ignore[no-untyped-def]
        names = sorted(self.chunks)
        chosen = [chance.choice(names) for _ in range(chance.randrange(5))] if names else []
        whole = b"".join(self.chunks[name] for name in chosen)
        view = self.backend.map_chunks(chosen, len(whole))
        assert bytes(view) == whole
        view[:] = bytes(len(whole))  # changes nobody else's copy

    @rule()
    def sync(self) -> None:
        self.backend.sync()
        assert [name for name, _, _ in self.backend.scan_chunks()] == sorted(self.chunks)

    @rule()
    def reopen(self) -> None:
        self.backend.close()
        self.backend = self.open()

    @rule(grace=st.just(0.0))
    def sweep(self, grace: float) -> None:
        if isinstance(self.backend, DiskBackend):
            self.backend.sweep(grace)
            assert not [what for what, _ in self.backend.verify_chunks()]

    @invariant()
    def versions_are_unique(self) -> None:
        if hasattr(self, "records"):
            assert len({record.version for record in self.records.values()}) == len(self.records)

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            self.backend.close()

    def _stored(self, key: str, value: bytes, version: str) -> str:
        assert version not in self.used
        self.used.add(version)
        self.records[key] = Versioned(value, version)
        return version

    def _version(self, key: str) -> str:
        return self.records[key].version if key in self.records else ABSENT


class MemoryMachine(BackendMachine):
    def open(self) -> Backend:
        return MemoryBackend(f"state-{id(self)}-{self.place()}")

    def place(self) -> int:
        """A name of its own for every example, the same one when it is opened again."""
        if not hasattr(self, "_place"):
            MemoryMachine._count += 1
            self._place = MemoryMachine._count
        return self._place

    _count = 0


class DiskMachine(BackendMachine):
    def open(self) -> Backend:
        if not hasattr(self, "folder"):
            self.folder = Path(tempfile.mkdtemp(prefix="nbcheckpoint-state-"))
        return DiskBackend(self.folder)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


MemoryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
DiskMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMemoryState = MemoryMachine.TestCase
TestDiskState = DiskMachine.TestCase

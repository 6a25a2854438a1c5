"""The backend contract as tests: what every store has to keep, to be run against any of them.

    from nbcheckpoint.testing import BackendContract

    class TestMine(BackendContract):
        def open(self, place):            # `place` is an empty folder; use it or ignore it
            return MyBackend(f"mine://{place.name}")

        def reopen(self, backend):        # the same store again, as another process would open it
            return MyBackend(backend.url)

        def damage(self, backend, name):  # optional: change a byte of a chunk behind the backend's back
            backend.bucket.overwrite(name, b"?")

pytest is imported only when this module is; nothing else in the package needs it.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from nbcheckpoint.backend.base import ABSENT, Backend, Entry, Versioned
from nbcheckpoint.errors import ChunkPruned, Conflict, NotFound, StoreDamaged, StoreError

KEYS = (
    "a",
    "a/",
    "a/1",
    "a/10",
    "a/2",
    "a%",
    "a_",
    "aa",
    "b",
    "é",
    "ﬀ",
    "\U0001f600",
    "\ud7ff",
    "\U0010ffff",
)
"""Keys whose order and prefixes are easily got wrong: by collation, by LIKE patterns, by UTF-16."""

SIZES = (0, 1, 255, 4096, 16_384, 16_385, 65_535, 65_536, 200_001, 1 << 20)
"""Chunk sizes around every threshold a backend may have."""


def chunk(seed: int, size: int) -> tuple[str, bytes]:
    """A chunk and its name. Odd seeds compress, even ones do not."""
    data = blake3(b"%d" % seed).digest(length=size) if seed % 2 == 0 else (b"%d " % seed * size)[:size]
    return blake3(data).hexdigest(), data


class BackendContract:
    """Inherit, say how to open your backend, and run pytest."""

    def open(self, place: Path) -> Backend:
        """A new, empty store."""
        raise NotImplementedError

    def reopen(self, backend: Backend) -> Backend:
        """The same store, as another process would open it."""
        raise NotImplementedError

    def damage(self, backend: Backend, name: str) -> None:
        """Change a byte of a synced chunk behind the backend's back. Without it, the tests of that are skipped."""
        pytest.skip("this backend does not say how to damage a chunk")

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        backend = self.open(tmp_path / "store")
        yield backend
        backend.close()

    # Records.

    def test_a_record_reads_back_and_its_absence_is_none(self, backend: Backend) -> None:
        version = backend.put("a", b"one")
        assert backend.get("a") == Versioned(b"one", version)
        assert backend.get("b") is None

    @pytest.mark.parametrize("value", [b"", b"\0", b"\x80\xff", b"{}" * 300_000])
    def test_any_bytes_are_a_value(self, backend: Backend, value: bytes) -> None:
        backend.put("a", value)
        found = backend.get("a")
        assert found is not None
        assert found.value == value
        assert type(found.value) is bytes

    @pytest.mark.parametrize("durable", [True, False])
    def test_a_put_replaces_and_is_seen_by_others(self, backend: Backend, durable: bool) -> None:
        backend.put("a", b"one", durable=durable)
        version = backend.put("a", b"two", durable=durable)
        other = self.reopen(backend)
        assert other.get("a") == Versioned(b"two", version)
        other.close()

    def test_expecting_absence_lets_one_writer_through(self, backend: Backend) -> None:
        backend.put("a", b"one", expect=ABSENT)
        with pytest.raises(Conflict):
            backend.put("a", b"two", expect=ABSENT)
        assert backend.get("a").value == b"one"  # type: ignore[union-attr]

    def test_expecting_a_version_lets_its_successor_through_once(self, backend: Backend) -> None:
        first = backend.put("a", b"one")
        second = backend.put("a", b"two", expect=first)
        with pytest.raises(Conflict) as caught:
            backend.put("a", b"three", expect=first)
        assert caught.value.key == "a"
        assert backend.get("a") == Versioned(b"two", second)

    def test_expecting_a_version_of_something_absent_conflicts(self, backend: Backend) -> None:
        version = backend.put("a", b"one")
        backend.delete("a")
        with pytest.raises(Conflict):
            backend.put("a", b"two", expect=version)
        assert backend.get("a") is None

    def test_versions_never_come_back(self, backend: Backend) -> None:
        versions = [backend.put("a", value) for value in (b"A", b"B", b"A", b"A")]
        backend.delete("a")
        versions.append(backend.put("a", b"A"))
        assert len(set(versions)) == len(versions)
        assert ABSENT not in versions

    def test_delete_says_whether_there_was_something(self, backend: Backend) -> None:
        backend.put("a", b"one")
        assert backend.delete("a") is True
        assert backend.delete("a") is False
        assert backend.get("a") is None

    def test_delete_compares_too(self, backend: Backend) -> None:
        old = backend.put("a", b"one")
        new = backend.put("a", b"two")
        with pytest.raises(Conflict):
            backend.delete("a", expect=old)
        assert backend.delete("a", expect=new) is True
        with pytest.raises(Conflict):
            backend.delete("a", expect=new)

    @pytest.mark.parametrize("key", ["", "x" * 513, "a\0b", "\ud800"])
    def test_a_key_that_is_none_is_refused(self, backend: Backend, key: str) -> None:
        with pytest.raises(ValueError):
            backend.put(key, b"")
        assert backend.get(key) is None

    def test_the_longest_key_is_taken(self, backend: Backend) -> None:
        backend.put("\U0001f600" * 512, b"x")
        assert [entry.value for entry in backend.scan("\U0001f600" * 511)] == [b"x"]

    # Scanning.

    def test_scan_is_in_code_point_order(self, backend: Backend) -> None:
        written = {key: Entry(key, key.encode(), backend.put(key, key.encode())) for key in KEYS}
        assert backend.scan() == [written[key] for key in sorted(KEYS)]
        assert backend.scan(reverse=True) == [written[key] for key in sorted(KEYS, reverse=True)]

    @pytest.mark.parametrize("prefix", [*KEYS, "a/1", "x", "\U0010ffff\U0010ffff", "%", "_", "*", "["])
    def test_prefix_means_starts_with(self, backend: Backend, prefix: str) -> None:
        for key in KEYS:
            backend.put(key, b"", durable=False)
        assert [e.key for e in backend.scan(prefix)] == sorted(k for k in KEYS if k.startswith(prefix))

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("limit", [1, 3, 100])
    def test_paging_with_after_visits_everything_once(self, backend: Backend, limit: int, reverse: bool) -> None:
        for key in KEYS:
            backend.put(key, b"", durable=False)
        seen: list[str] = []
        while page := backend.scan("a", after=seen[-1] if seen else "", limit=limit, reverse=reverse):
            assert len(page) <= limit
            seen += [entry.key for entry in page]
        assert seen == sorted((k for k in KEYS if k.startswith("a")), reverse=reverse)

    def test_after_need_not_exist_nor_match_the_prefix(self, backend: Backend) -> None:
        for key in ("a", "b/1", "b/2", "c"):
            backend.put(key, b"", durable=False)
        assert [e.key for e in backend.scan("b/", after="a5")] == ["b/1", "b/2"]
        assert [e.key for e in backend.scan("b/", after="b/11")] == ["b/2"]
        assert [e.key for e in backend.scan("b/", after="z")] == []
        assert [e.key for e in backend.scan("b/", after="z", reverse=True)] == ["b/2", "b/1"]

    def test_a_limit_of_nothing_is_nothing(self, backend: Backend) -> None:
        backend.put("a", b"")
        assert backend.scan(limit=0) == []

    @pytest.mark.parametrize("reverse", [False, True])
    def test_versions_are_those_of_a_scan(self, backend: Backend, reverse: bool) -> None:
        for key in KEYS:
            backend.put(key, key.encode(), durable=False)
        backend.put("a", b"changed", durable=False)
        for given in ({}, {"prefix": "a"}, {"after": "a"}, {"prefix": "a", "after": "a/", "limit": 2}):
            scanned: list[Entry] = backend.scan(**given, reverse=reverse)
            found = backend.versions(**given, reverse=reverse)
            assert found == [(entry.key, entry.version) for entry in scanned]

    def test_records_and_chunks_do_not_see_one_another(self, backend: Backend) -> None:
        name, data = chunk(2, 100)
        backend.put_chunk(name, data)
        backend.put("c/" + name, b"a record")
        backend.put(name, b"another")
        backend.sync()
        assert backend.read_chunk(name) == data
        assert [e.value for e in backend.scan()] == [b"another", b"a record"] or len(backend.scan()) == 2
        assert [row[0] for row in backend.scan_chunks()] == [name]

    # Chunks.

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("seed", [1, 2])
    def test_a_chunk_reads_back_before_and_after_sync(self, backend: Backend, seed: int, size: int) -> None:
        name, data = chunk(seed, size)
        backend.put_chunk(name, memoryview(data))
        assert backend.has_chunk(name)
        assert backend.read_chunk(name) == data
        backend.sync()
        assert backend.has_chunk(name)
        assert backend.read_chunk(name) == data
        other = self.reopen(backend)
        assert other.read_chunk(name) == data
        other.close()

    def test_a_durable_put_takes_the_chunks_along(self, backend: Backend) -> None:
        chunks = dict(chunk(seed, 3000 * seed * seed) for seed in range(8))
        for name, data in chunks.items():
            backend.put_chunk(name, data)
        backend.put("checkpoint", b"refers to them")
        other = self.reopen(backend)
        assert {name: other.read_chunk(name) for name in chunks} == chunks
        other.close()

    def test_the_second_put_of_a_chunk_writes_nothing(self, backend: Backend) -> None:
        name, data = chunk(2, 100_000)
        assert backend.put_chunk(name, data) > 0
        assert backend.put_chunk(name, data) == 0
        backend.sync()
        assert backend.put_chunk(name, data) == 0
        backend.sync()
        assert backend.read_chunk(name) == data

    def test_a_buffer_may_change_after_it_was_put(self, backend: Backend) -> None:
        for size in (100, 30_000, 100_000):
            name, data = chunk(2, size)
            buffer = bytearray(data)
            backend.put_chunk(name, memoryview(buffer))
            buffer[:] = bytes(size)
            assert backend.read_chunk(name) == data

    def test_several_chunks_are_put_like_one(self, backend: Backend) -> None:
        small, large, other = chunk(2, 100), chunk(4, 300_000), chunk(6, 200_000)
        assert backend.put_chunk(*large) > 0
        written = backend.put_chunks([small, large, other, other])
        assert backend.put_chunks([small, other]) == backend.put_chunks([]) == 0
        assert 0 < written < 300_000
        backend.sync()
        again = self.reopen(backend)
        assert [again.read_chunk(name) for name, _ in (small, large, other)] == [small[1], large[1], other[1]]
        again.close()

    def test_an_absent_chunk_is_not_found(self, backend: Backend) -> None:
        name, _ = chunk(1, 5)
        assert not backend.has_chunk(name)
        assert backend.delete_chunk(name) == 0
        with pytest.raises(NotFound):
            backend.read_chunk(name)
        with pytest.raises(NotFound):
            backend.map_chunks([name], 5)

    @pytest.mark.parametrize("name", ["", "x", "../" * 20 + "ab", "A" * 64, "0" * 63, "0" * 65, "0" * 64 + "\n"])
    def test_what_is_no_digest_is_no_chunk(self, backend: Backend, name: str) -> None:
        for call in (
            lambda: backend.put_chunk(name, b""),
            lambda: backend.has_chunk(name),
            lambda: backend.read_chunk(name),
            lambda: backend.delete_chunk(name),
            lambda: backend.map_chunks([name], 0),
        ):
            with pytest.raises(ValueError):
                call()

    @pytest.mark.parametrize("size", [10, 30_000, 300_000])
    def test_a_deleted_chunk_is_gone_and_can_come_back(self, backend: Backend, size: int) -> None:
        name, data = chunk(2, size)
        backend.put_chunk(name, data)
        backend.sync()
        assert backend.delete_chunk(name) > 0
        assert not backend.has_chunk(name)
        assert backend.delete_chunk(name) == 0
        with pytest.raises(NotFound):
            backend.read_chunk(name)
        assert backend.put_chunk(name, data) > 0
        backend.sync()
        assert backend.read_chunk(name) == data

    def test_a_young_chunk_survives_a_prune_with_grace(self, backend: Backend) -> None:
        name, data = chunk(2, 100_000)
        backend.put_chunk(name, data)
        backend.sync()
        assert backend.delete_chunk(name, min_age=3600) == 0
        assert backend.read_chunk(name) == data
        assert backend.delete_chunk(name) > 0

    @pytest.mark.parametrize("size", [100, 100_000])
    def test_nothing_is_committed_that_counts_on_a_chunk_pruned_meanwhile(self, backend: Backend, size: int) -> None:
        name, data = chunk(2, size)
        backend.put_chunk(name, data)
        backend.put("record", b"before")
        assert backend.put_chunk(name, data) == 0
        pruner = self.reopen(backend)
        assert pruner.delete_chunk(name) > 0
        with pytest.raises(ChunkPruned) as caught:
            backend.put("record", b"refers to it")
        assert caught.value.chunk == name
        assert backend.get("record").value == b"before"  # type: ignore[union-attr]
        assert backend.put_chunk(name, data) > 0  # told once; the next try is a new one
        backend.put("record", b"refers to it")
        assert pruner.read_chunk(name) == data
        pruner.close()

    def test_a_sync_tells_of_a_pruned_chunk_as_well_and_once_for_all_of_them(self, backend: Backend) -> None:
        chunks = dict(chunk(seed, 20_000 * seed) for seed in range(1, 6))
        for name, data in chunks.items():
            backend.put_chunk(name, data)
        backend.sync()
        for name, data in chunks.items():
            backend.put_chunk(name, data)
        pruner = self.reopen(backend)
        for name in chunks:
            pruner.delete_chunk(name)
        with pytest.raises(ChunkPruned) as caught:
            backend.sync()
        assert caught.value.chunk in chunks
        backend.sync()
        backend.put("record", b"counts on none of them")
        assert not any(backend.has_chunk(name) for name in chunks)
        pruner.close()

    def test_a_put_that_is_not_durable_commits_no_chunk_and_is_told_of_none(self, backend: Backend) -> None:
        name, data = chunk(2, 100_000)
        backend.put_chunk(name, data)
        backend.sync()
        backend.put_chunk(name, data)
        pruner = self.reopen(backend)
        pruner.delete_chunk(name)
        pruner.close()
        backend.put("record", b"has nothing to do with it", durable=False)
        with pytest.raises(ChunkPruned):
            backend.sync()

    @pytest.mark.parametrize("size", [100_000, 3 << 20])
    def test_a_damaged_chunk_is_told_by_its_name_and_never_read(self, backend: Backend, size: int) -> None:
        name, data = chunk(2, size)
        backend.put_chunk(name, data)
        backend.sync()
        self.damage(backend, name)
        for ask in (lambda: backend.read_chunk(name), lambda: backend.map_chunks([name], size)):
            with pytest.raises(StoreDamaged) as caught:
                ask()
            assert caught.value.key == name

    def test_a_staged_chunk_can_be_deleted(self, backend: Backend) -> None:
        for size in (10, 300_000):
            name, data = chunk(2, size)
            backend.put_chunk(name, data)
            assert backend.delete_chunk(name) > 0
            assert not backend.has_chunk(name)
            backend.sync()
            assert not backend.has_chunk(name)

    def test_scan_chunks_is_ordered_and_pages(self, backend: Backend) -> None:
        chunks = dict(chunk(seed, 1000 * seed) for seed in range(30))
        for name, data in chunks.items():
            backend.put_chunk(name, data)
        backend.sync()
        names = [name for name, size, age in backend.scan_chunks() if size >= 0 and age >= 0]
        assert names == sorted(chunks)
        assert [row[0] for row in backend.scan_chunks(after=names[9], limit=5)] == names[10:15]
        assert list(backend.scan_chunks(limit=0)) == []

    def test_the_age_of_a_chunk_counts_from_its_last_put(self, backend: Backend) -> None:
        name, data = chunk(2, 100_000)
        backend.put_chunk(name, data)
        backend.sync()
        ((_, _, age),) = backend.scan_chunks()
        assert 0 <= age < 300

    # Mapping.

    def test_mapped_chunks_stand_behind_one_another(self, backend: Backend) -> None:
        chunks = [chunk(seed, size) for seed, size in enumerate((65_536, 1 << 20, 4096, 70_000, 3, 1 << 17, 9))]
        for name, data in chunks:
            backend.put_chunk(name, data)
        whole = b"".join(data for _, data in chunks)
        names = [name for name, _ in chunks]
        assert bytes(backend.map_chunks(names, len(whole))) == whole
        backend.sync()
        assert bytes(backend.map_chunks(names, len(whole))) == whole

    @pytest.mark.parametrize("seed", range(20))
    def test_any_order_of_mapped_chunks_is_kept(self, backend: Backend, seed: int) -> None:
        """Sizes that fill whole pages invite a backend to map several at once: also across what lies between?"""
        chance = random.Random(seed)
        chunks = [chunk(2 * i, chance.choice((65_536, 1 << 17, 4096, 100))) for i in range(12)]
        for name, data in chunks:
            backend.put_chunk(name, data)
        if chance.random() < 0.7:
            backend.sync()
        for _ in range(5):
            first = chance.randrange(10)
            chosen = [*chunks[first : first + chance.randrange(6)], *chance.choices(chunks, k=chance.randrange(6))]
            chosen = [pair for pair in chosen if chance.random() < 0.8]
            whole = b"".join(data for _, data in chosen)
            assert bytes(backend.map_chunks([name for name, _ in chosen], len(whole))) == whole

    def test_the_same_chunk_may_come_twice(self, backend: Backend) -> None:
        name, data = chunk(2, 1 << 17)
        backend.put_chunk(name, data)
        backend.sync()
        assert bytes(backend.map_chunks([name, name], 1 << 18)) == data * 2

    def test_writing_to_a_mapped_buffer_changes_nothing_else(self, backend: Backend) -> None:
        name, data = chunk(2, 1 << 17)
        backend.put_chunk(name, data)
        backend.sync()
        view = backend.map_chunks([name, name], 1 << 18)
        assert not view.readonly
        assert view.format == "B"
        view[0 : 1 << 17] = bytes(1 << 17)
        assert bytes(view[1 << 17 :]) == data
        assert backend.read_chunk(name) == data

    def test_a_mapped_buffer_outlives_the_chunk_and_the_backend(self, tmp_path: Path) -> None:
        backend = self.open(tmp_path / "store")
        name, data = chunk(2, 1 << 20)
        backend.put_chunk(name, data)
        backend.sync()
        view = backend.map_chunks([name], 1 << 20)
        backend.delete_chunk(name)
        backend.sync()
        backend.close()
        assert bytes(view) == data

    def test_nothing_maps_to_an_empty_buffer(self, backend: Backend) -> None:
        assert len(backend.map_chunks([], 0)) == 0

    @pytest.mark.parametrize("wrong", [-1, 1, 4096])
    def test_a_wrong_total_size_is_an_error(self, backend: Backend, wrong: int) -> None:
        name, data = chunk(2, 1 << 17)
        backend.put_chunk(name, data)
        backend.sync()
        with pytest.raises(StoreError):
            backend.map_chunks([name], len(data) + wrong)

    # Several at once.

    def test_threads_that_compare_and_swap_lose_no_count(self, backend: Backend) -> None:
        backend.put("n", b"0")
        failures: list[BaseException] = []

        def count() -> None:
            try:
                for _ in range(10):
                    _increment(backend, "n")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert backend.get("n").value == b"40"  # type: ignore[union-attr]

    def test_two_openers_see_one_another(self, backend: Backend) -> None:
        other = self.reopen(backend)
        version = backend.put("a", b"one")
        assert other.put("a", b"two", expect=version)
        with pytest.raises(Conflict):
            backend.put("a", b"three", expect=version)
        other.close()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_can_use_it(self, backend: Backend) -> None:
        name, data = chunk(2, 100_000)
        backend.put_chunk(name, data)
        backend.put("a", b"one")
        pid = os.fork()
        if pid == 0:
            try:
                fine = backend.get("a").value == b"one" and backend.read_chunk(name) == data  # type: ignore[union-attr]
                backend.put("b", b"two")
                os._exit(0 if fine else 1)
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        backend.put("c", b"three")
        assert backend.get("a").value == b"one"  # type: ignore[union-attr]

    # The end.

    def test_closing_twice_is_fine_and_further_calls_are_told(self, tmp_path: Path) -> None:
        backend = self.open(tmp_path / "store")
        name, data = chunk(2, 100)
        backend.put_chunk(name, data)
        backend.put("a", b"one", durable=False)
        again = self.reopen(backend)
        backend.close()
        backend.close()
        assert again.get("a").value == b"one"  # type: ignore[union-attr]
        assert again.read_chunk(name) == data
        again.close()
        for call in (
            lambda: backend.get("a"),
            lambda: backend.put("a", b""),
            lambda: backend.delete("a"),
            backend.scan,
            backend.versions,
            lambda: backend.put_chunk(name, data),
            lambda: backend.put_chunks([(name, data)]),
            lambda: backend.has_chunk(name),
            lambda: backend.read_chunk(name),
            lambda: backend.map_chunks([name], 100),
            lambda: backend.delete_chunk(name),
            lambda: list(backend.scan_chunks()),
            backend.sync,
        ):
            with pytest.raises(StoreError):
                call()


def _increment(backend: Backend, key: str) -> None:
    while True:
        found = backend.get(key)
        assert found is not None
        try:
            backend.put(key, b"%d" % (int(found.value) + 1), expect=found.version)
            return
        except Conflict:
            continue

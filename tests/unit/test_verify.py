"""Going through everything, and setting aside what is not what was written."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.errors import NotFound, StoreDamaged, StoreLocked, StoreReadOnly
from nbcheckpoint.model import FORMAT, Checkpoint
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.upkeep import prune
from nbcheckpoint.store.verify import needs_salvage, salvage, verify
from tests.stores import Crash, Crashing, add_run, add_step, chunk_count, draft


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with open_store("memory://" if request.param == "memory" else tmp_path / "store") as store:
        yield store


def damage(store: Store, checkpoint: Checkpoint) -> str:
    """Flip a byte of the first chunk of a checkpoint, behind the store's back."""
    assert checkpoint.stream is not None
    name = checkpoint.stream.chunks[0]
    backend: Any = store.backend
    if store.url.startswith("memory:"):
        data, age = backend._shelf.chunks[name]
        backend._shelf.chunks[name] = (data[:-1] + bytes([data[-1] ^ 1]), age)
        return name
    content = backend.read_chunk(name)
    for path in backend.directory.glob("[0-9a-f][0-9a-f]/*"):
        stored = path.read_bytes()
        if content in stored:
            path.write_bytes(stored.replace(content, content[:-1] + bytes([content[-1] ^ 1])))
            return name
    raise AssertionError("not found in any file")


def saved(store: Store, letter: str, **fields: Any) -> Checkpoint:
    return store.save(draft(**fields), {letter: letter * 100_000}).checkpoint


def test_damage_says_what_it_has_hit(store: Store) -> None:
    flipped, gone, odd = saved(store, "a"), saved(store, "b", code="d" * 64), saved(store, "c", code="e" * 64)
    name = damage(store, flipped)
    with pytest.raises(StoreDamaged) as caught:
        store.load(flipped.id)
    assert caught.value.key == name
    assert gone.stream is not None
    store.backend.delete_chunk(gone.stream.chunks[0])
    with pytest.raises(StoreDamaged, match="missing") as caught:
        store.load(gone.id)
    assert caught.value.key == gone.stream.chunks[0]
    store.backend.put(f"checkpoint/{odd.id}", b"{")
    with pytest.raises(StoreDamaged) as caught:
        store.checkpoint(odd.id)
    assert caught.value.key == f"checkpoint/{odd.id}"


def test_one_row_that_is_not_what_was_written_hides_no_other(tmp_path: Path) -> None:
    """Everything behind it, and much before it, was taken for missing: and a repair would have set that aside."""
    frame = {"big": "x" * 10_000}
    with open_store(tmp_path / "store") as store:
        base = store.save(draft(code="f" * 64), {"frame": frame}).checkpoint
        refs = {id(frame): Reference(base.id, "frame")}
        store.save(draft(code="a" * 64), {"box": [frame]}, references=refs)
        bad = saved(store, "x", code="b" * 64)
        runs = [add_run(store).id for _ in range(5)]
        add_step(store, store.run(runs[0]), {"y": 1}, code="c" * 64)
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / "cache.db")) as index:
        index.execute("UPDATE Cache SET value = value || ' ' WHERE key = ?", (f"r/checkpoint/{bad.id}",))
        index.commit()
    with open_store(tmp_path / "store") as store:
        with pytest.raises(StoreDamaged) as caught:
            store.checkpoint(bad.id)
        assert caught.value.key == f"checkpoint/{bad.id}"
        found = verify(store)
        assert [problem.key for problem in found.problems] == [f"checkpoint/{bad.id}"]
        assert found.records == 5 + 1 + 4
        assert needs_salvage(found)
        verify(store, repair=True)
        assert store.checkpoint(base.id)
    salvage(str(tmp_path / "store"))
    with open_store(tmp_path / "store") as store:
        assert verify(store).clean
        assert {run.id for run in store.runs()} == set(runs)


def test_a_rebuilding_waits_for_who_only_looks_and_not_for_who_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panel that lists the runs has the store open for a moment, every now and then."""
    looking = open_store(tmp_path / "store")
    monkeypatch.setattr("nbcheckpoint.store.verify.time.sleep", lambda seconds: looking.close())
    assert "rebuilt" in salvage(str(tmp_path / "store"))
    monkeypatch.undo()
    monkeypatch.setattr("nbcheckpoint.store.verify.LOOK_SECONDS", 0.0)
    with open_store(tmp_path / "store"), pytest.raises(StoreLocked):
        salvage(str(tmp_path / "store"))


def test_where_the_walk_ends_early_nothing_is_said_to_be_missing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = {"big": "x" * 10_000}
    base = store.save(draft(code="f" * 64), {"frame": frame}).checkpoint
    refs = {id(frame): Reference(base.id, "frame")}
    top = store.save(draft(code="a" * 64), {"box": [frame]}, references=refs).checkpoint
    real = store.backend.scan

    def scan(*args: Any, after: str = "", limit: int | None = None, **kwargs: Any) -> Any:
        if limit != 1 or after:
            raise StoreDamaged("page 9 is not what it was")
        return real(*args, after=after, limit=limit, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "scan", scan)
        assert [problem.kind for problem in verify(store, repair=True).problems] == ["index"]
    assert store.restore(top.id) == {"box": [frame]}


def test_a_sound_store_is_clean_and_counted(store: Store) -> None:
    run = add_run(store)
    add_step(store, run, {"x": "x" * 100_000})
    seen: list[tuple[int, int]] = []
    result = verify(store, progress=lambda done, total: seen.append((done, total)))
    assert result.clean
    assert result.problems == ()
    assert (result.records, result.chunks) == (3, chunk_count(store))
    assert result.bytes >= 100_000
    assert seen[-1] == (result.chunks, result.chunks)


def test_a_flipped_bit_is_found_and_repair_sets_aside_what_needs_it(store: Store) -> None:
    bad, good = saved(store, "a"), saved(store, "b", code="d" * 64)
    name = damage(store, bad)
    found = verify(store)
    assert [(problem.kind, problem.key) for problem in found.problems] == [
        ("chunk", name),
        ("missing", f"checkpoint/{bad.id}"),
    ]
    assert not found.clean
    assert store.checkpoint(bad.id), "looking changes nothing"

    repaired = verify(store, repair=True)
    assert repaired.clean
    assert all(problem.repaired for problem in repaired.problems)
    with pytest.raises(NotFound):
        store.checkpoint(bad.id)
    assert store.restore(good.id) == {"b": "b" * 100_000}
    assert [entry.key.endswith(bad.id) for entry in store.backend.scan("quarantine/")] == [True]
    again = verify(store)
    assert again.clean
    assert again.problems == ()
    assert store.restore(saved(store, "a").id) == {"a": "a" * 100_000}, "saving it again heals it"


def test_a_missing_chunk_is_a_checkpoint_that_cannot_be_restored(store: Store) -> None:
    broken = saved(store, "a")
    assert broken.stream is not None
    store.backend.delete_chunk(broken.stream.chunks[0])
    found = verify(store)
    assert [(problem.kind, problem.key) for problem in found.problems] == [("missing", f"checkpoint/{broken.id}")]
    assert "cannot be restored" in found.problems[0].text
    assert verify(store, repair=True).clean
    assert verify(store).problems == ()


def test_a_missing_list_of_chunks_as_well(store: Store) -> None:
    data = b"".join(bytes([n]) * (1 << 20) for n in range(40))
    broken = store.save(draft(), {"x": data}).checkpoint
    (index,) = [blob.index for blob in (broken.stream, *broken.buffers) if blob is not None and blob.index]
    store.backend.delete_chunk(index)
    found = verify(store)
    assert [(problem.kind, problem.key) for problem in found.problems] == [("missing", f"checkpoint/{broken.id}")]
    assert "no chunk was removed" in prune(store, grace_seconds=0).notes[0]
    assert verify(store, repair=True).clean
    assert verify(store).clean


def test_what_builds_upon_a_broken_checkpoint_is_broken_too(store: Store) -> None:
    data = ["x" * 100_000]
    base = store.save(draft(), {"data": data}).checkpoint
    reference = {id(data): Reference(base.id, "data")}
    built = store.save(draft(code="d" * 64), {"view": {"data": data}}, references=reference).checkpoint
    assert built.needs == (base.id,)
    damage(store, base)
    keys = {problem.key for problem in verify(store).problems if problem.kind == "missing"}
    assert keys == {f"checkpoint/{base.id}", f"checkpoint/{built.id}"}
    assert verify(store, repair=True).clean
    assert verify(store).clean


@pytest.mark.parametrize("key", ["checkpoint/x", "run/x", "step/x/000000"])
def test_a_record_that_cannot_be_read_is_set_aside_and_prune_works_again(store: Store, key: str) -> None:
    store.backend.put(key, b"not a record")
    found = verify(store)
    assert [(problem.kind, problem.key) for problem in found.problems] == [("record", key)]
    assert prune(store).notes
    assert verify(store, repair=True).clean
    assert store.backend.get(key) is None
    (moved,) = store.backend.scan("quarantine/")
    assert (moved.key.endswith(key), moved.value) == (True, b"not a record")
    assert prune(store).notes == ()
    prune(store, now=datetime.now(timezone.utc) + timedelta(days=29))
    assert store.backend.scan("quarantine/") == [moved]
    prune(store, now=datetime.now(timezone.utc) + timedelta(days=31))
    assert store.backend.scan("quarantine/") == []


def test_a_very_long_key_can_be_set_aside(store: Store) -> None:
    store.backend.put("run/" + "x" * 500, b"not a record")
    assert verify(store, repair=True).clean
    assert len(store.backend.scan("quarantine/")) == 1


def test_what_others_signed_and_what_is_too_new_is_told_and_left_alone(store: Store) -> None:
    foreign = saved(store, "a")
    store.backend.put(f"checkpoint/{foreign.id}", foreign.to_json())
    later = saved(store, "b", code="d" * 64, format=FORMAT + 1)
    result = verify(store, repair=True)
    assert {problem.kind: problem.key for problem in result.problems} == {
        "untrusted": f"checkpoint/{foreign.id}",
        "too new": f"checkpoint/{later.id}",
    }
    assert result.untrusted == 1
    assert not store.checkpoint(foreign.id).trusted
    assert store.backend.get(f"checkpoint/{later.id}") is not None
    assert store.backend.scan("quarantine/") == []


def test_orphans_are_counted_and_repair_removes_the_old_ones(store: Store) -> None:
    gone = saved(store, "a")
    store.backend.delete(f"checkpoint/{gone.id}")
    found = verify(store)
    assert found.clean
    assert found.orphans == 1
    assert verify(store, repair=True).removed_chunks == 0, "a save may be about to name it"
    assert verify(store, repair=True, grace_seconds=0).removed_chunks == 1


def test_nothing_is_unpickled(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = saved(store, "a")
    damage(store, bad)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    verify(store)
    verify(store, repair=True)


def test_a_repair_killed_anywhere_is_finished_by_the_next() -> None:
    rounds = 0
    while True:
        with open_store("memory://") as store:
            bad, good = saved(store, "a"), saved(store, "b", code="d" * 64)
            damage(store, bad)
            inner = store.backend
            store.backend = Crashing(inner, rounds)  # type: ignore[assignment]
            try:
                verify(store, repair=True)
                survived = True
            except Crash:
                survived = False
            store.backend = inner
            assert store.restore(good.id) == {"b": "b" * 100_000}
            assert verify(store, repair=True).clean
            assert verify(store).problems == ()
            assert any(entry.key.endswith(bad.id) for entry in store.backend.scan("quarantine/"))
        if survived:
            break
        rounds += 1
    assert rounds > 5


def test_a_damaged_index_is_told_and_acknowledged(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        kept = saved(store, "a")
        backend: Any = store.backend
        backend._soundness.refute("page 7 is not what it was")
        found = verify(store)
        assert [problem.kind for problem in found.problems][:1] == ["index"]
        assert "page 7" in found.problems[0].text
        assert verify(store, repair=True).clean
        assert verify(store).problems == ()
        assert store.restore(kept.id)


def test_a_store_that_cannot_be_written_can_be_verified_but_not_repaired(store: Store) -> None:
    class ReadOnly(Crashing):
        read_only = True

    kept = saved(store, "a")
    store.backend = ReadOnly(store.backend, -1)  # type: ignore[assignment]
    assert verify(store).clean
    with pytest.raises(StoreReadOnly):
        verify(store, repair=True)
    assert replace(store.checkpoint(kept.id)) == kept

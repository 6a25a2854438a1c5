"""Making room without losing anything that is kept."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.errors import NotFound, StoreError, StoreReadOnly
from nbcheckpoint.events import subscribe
from nbcheckpoint.model import FORMAT, Checkpoint, Event, Run, Step, utc_now
from nbcheckpoint.retention import Policy, decide
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store import background as background_module
from nbcheckpoint.store.background import KEY, Background
from nbcheckpoint.store.upkeep import delete_run, prune
from nbcheckpoint.store.verify import verify
from tests.stores import Crash, Crashing, add_run, add_step, chunk_count, days_ago, draft

NONE = Policy(runs=0, max_age_seconds=None, versions=0)
"""Keeps only what always stays."""


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with open_store("memory://" if request.param == "memory" else tmp_path / "store") as store:
        yield store


def megabytes(letter: str, count: int) -> bytes:
    """That many chunks, all different."""
    return b"".join((letter * 1023 + str(n)).encode() * 1024 for n in range(count))


def old_and_new(store: Store) -> tuple[Run, Run]:
    """An old run and the latest; they share a checkpoint and some chunks, and have some of their own."""
    old = add_run(store, updated=days_ago(40), status="failed")
    shared = megabytes("s", 3)
    add_step(store, old, {"mine": megabytes("o", 2), "shared": shared}, created=days_ago(40))
    both = add_step(store, old, {"both": b"b" * 50_000}, name="load", created=days_ago(40))
    new = add_run(store)
    add_step(store, new, {"other": megabytes("n", 2), "shared": shared}, name="fit")
    store.put_step(Step(run=new.id, address="000001", name="load", status="restored", checkpoint=both.id))
    return old, new


def restorable(store: Store) -> dict[str, Any]:
    return {e.key: store.restore(e.key.partition("/")[2]) for e in store.backend.scan("checkpoint/")}


def test_what_the_policy_does_not_keep_goes_and_its_chunks_with_it(store: Store) -> None:
    old, new = old_and_new(store)
    report = prune(store, grace_seconds=0)
    assert [gone.id for gone in report.runs] == [old.id]
    assert [gone.code for gone in report.checkpoints] == ["age"]
    assert report.chunks > 0
    assert report.bytes >= 40_000
    assert [run.id for run in store.runs()] == [new.id]
    assert store.steps(old.id) == []
    assert sorted(name for values in restorable(store).values() for name in values) == ["both", "other", "shared"]
    again = prune(store, grace_seconds=0)
    assert (again.runs, again.checkpoints, again.chunks, again.bytes) == ((), (), 0, 0)
    result = verify(store)
    assert result.clean
    assert result.orphans == 0


def test_a_dry_run_foretells_it_and_changes_nothing(store: Store) -> None:
    old_and_new(store)
    before = [(entry.key, entry.version) for entry in store.backend.scan()]
    foretold = prune(store, grace_seconds=0, dry_run=True)
    assert [(entry.key, entry.version) for entry in store.backend.scan()] == before
    done = prune(store, grace_seconds=0)
    assert foretold.dry_run
    assert (foretold.runs, foretold.checkpoints, foretold.chunks, foretold.bytes) == (
        done.runs,
        done.checkpoints,
        done.chunks,
        done.bytes,
    )


def test_the_report_is_plain_data(store: Store) -> None:
    old_and_new(store)
    shown = msgspec.json.decode(msgspec.json.encode(prune(store, grace_seconds=0).to_dict()))
    assert shown.keys() == {"runs", "checkpoints", "chunks", "bytes", "swept_bytes", "dry_run", "unread", "notes"}
    assert shown["runs"][0].keys() == {"id", "code", "why"}


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_killed_anywhere_it_loses_nothing_and_the_next_one_finishes(tmp_path: Path, kind: str) -> None:
    """Dies instead of its first backend call, its second, … until it gets through."""
    rounds = 0
    while True:
        with open_store("memory://" if kind == "memory" else tmp_path / str(rounds)) as store:
            _, new = old_and_new(store)
            kept = {s.checkpoint: store.restore(s.checkpoint) for s in store.steps(new.id)}
            inner = store.backend
            store.backend = Crashing(inner, rounds)  # type: ignore[assignment]
            try:
                prune(store, grace_seconds=0)
                survived = True
            except Crash:
                survived = False
            store.backend = inner
            assert {id: store.restore(id) for id in kept} == kept
            assert verify(store).clean
            restorable(store)
            prune(store, grace_seconds=0)
            result = verify(store)
            assert (result.clean, result.orphans) == (True, 0)
            assert [run.id for run in store.runs()] == [new.id]
            assert {e.key.split("/")[1] for e in store.backend.scan("step/")} == {new.id}
        if survived:
            break
        rounds += 1
    assert rounds > 15, "otherwise there was nothing to interrupt"


def test_young_chunks_stay_for_the_save_that_is_about_to_name_them(store: Store) -> None:
    saved = store.save(draft(), {"x": b"x" * 100_000}).checkpoint
    store.backend.delete(f"checkpoint/{saved.id}")
    assert prune(store).chunks == 0
    assert chunk_count(store) > 0
    assert prune(store, grace_seconds=0).chunks > 0
    assert chunk_count(store) == 0


def test_a_chunk_a_save_found_present_is_young_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a save's chunks and its record, a prune comes by."""
    add_run(store)
    first = store.save(draft(), {"x": b"x" * 100_000}).checkpoint
    store.backend.delete(f"checkpoint/{first.id}")
    real = store._commit

    def prune_first(record: Any) -> None:
        prune(store)
        real(record)

    monkeypatch.setattr(store, "_commit", prune_first)
    second = store.save(draft(), {"x": b"x" * 100_000}).checkpoint
    assert store.restore(second.id) == {"x": b"x" * 100_000}
    assert verify(store).clean


def test_the_age_is_looked_at_again_when_the_chunk_is_deleted(store: Store) -> None:
    """Somebody puts the chunk again between our look and our delete."""

    class Stale(Crashing):
        def scan_chunks(self) -> Iterator[tuple[str, int, float]]:
            return ((name, size, 1e9) for name, size, _ in self._inner.scan_chunks())

    saved = store.save(draft(), {"x": b"x" * 100_000}).checkpoint
    store.backend.delete(f"checkpoint/{saved.id}")
    inner = store.backend
    store.backend = Stale(inner, -1)  # type: ignore[assignment]
    assert prune(store).chunks == 0
    store.backend = inner
    assert chunk_count(store) > 0


@pytest.mark.parametrize("how", ["a step was restored from it", "a save built upon it"])
def test_what_came_into_use_since_the_decision_stays(store: Store, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    old, new = add_run(store, updated=days_ago(50)), add_run(store)
    data = [1, 2, 3]
    base = add_step(store, old, {"data": data}, created=days_ago(50))

    def late(*args: Any, **kwargs: Any) -> Any:
        verdict = decide(*args, **kwargs)
        assert [gone.id for gone in verdict.checkpoints] == [base.id]
        used = base
        if how == "a save built upon it":
            reference = {id(data): Reference(base.id, "data")}
            used = store.save(draft(run=new.id), {"view": [data]}, references=reference).checkpoint
            assert used.needs == (base.id,)
        else:
            step = Step(run=new.id, address="000000", name="x", status="restored", checkpoint=used.id)
            store.put_step(step)
        return verdict

    monkeypatch.setattr("nbcheckpoint.store.upkeep.decide", late)
    assert prune(store, grace_seconds=0).checkpoints == ()
    assert store.restore(base.id) == {"data": [1, 2, 3]}
    assert verify(store).clean


def test_a_fresh_checkpoint_stays_though_no_step_refers_to_it_yet(store: Store) -> None:
    saved = store.save(draft(), {"x": 1}).checkpoint
    prune(store, NONE)
    assert store.restore(saved.id) == {"x": 1}
    prune(store, NONE, grace_seconds=0)
    with pytest.raises(NotFound):
        store.checkpoint(saved.id)


def test_a_run_that_was_resumed_meanwhile_stays_with_its_checkpoints(store: Store) -> None:
    old, _ = old_and_new(store)

    class Resuming(Crashing):
        def delete(self, key: str, **kwargs: Any) -> bool:
            store.backend = inner
            if key == f"run/{old.id}":
                store.update_run(old.id, status="running")
            store.backend = self  # type: ignore[assignment]
            return bool(inner.delete(key, **kwargs))

    inner = store.backend
    store.backend = Resuming(inner, -1)  # type: ignore[assignment]
    report = prune(store, grace_seconds=0)
    store.backend = inner
    assert (report.runs, report.checkpoints) == ((), ())
    assert [step.checkpoint for step in store.steps(old.id)]
    assert len(restorable(store)) == 3


def test_what_a_kept_checkpoint_builds_upon_is_kept(store: Store) -> None:
    old, new = add_run(store, updated=days_ago(50)), add_run(store)
    data = [1, 2, 3]
    base = add_step(store, old, {"data": data}, created=days_ago(50))
    built = store.save(
        draft(run=new.id, step="000000"),
        {"view": {"data": data}},
        references={id(data): Reference(base.id, "data")},
    ).checkpoint
    assert built.needs == (base.id,)
    store.put_step(Step(run=new.id, address="000000", name="x", status="completed", checkpoint=built.id))
    assert prune(store, NONE, grace_seconds=0).checkpoints == ()
    assert store.restore(built.id) == {"view": {"data": [1, 2, 3]}}
    delete_run(store, new.id, grace_seconds=0)
    assert prune(store, NONE, grace_seconds=0).checkpoints != ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("checkpoint/x", b"not json"),
        ("run/x", b"{}"),
        ("step/x/1", b"[]"),
        ("checkpoint/later", draft(format=FORMAT + 1).to_json()),
    ],
)
def test_while_something_cannot_be_read_nothing_goes(store: Store, key: str, value: bytes) -> None:
    old_and_new(store)
    chunks = chunk_count(store)
    store.backend.put(key, value)
    report = prune(store, NONE, grace_seconds=0)
    assert (report.runs, report.checkpoints, report.chunks) == ((), (), 0)
    assert "nothing was removed" in report.notes[0]
    assert chunk_count(store) == chunks


def test_untrusted_checkpoints_keep_their_chunks(store: Store) -> None:
    run = add_run(store)
    saved = add_step(store, run, {"x": b"x" * 100_000})
    store.backend.put(f"checkpoint/{saved.id}", saved.to_json())
    assert not store.checkpoint(saved.id).trusted
    assert prune(store, grace_seconds=0).chunks == 0
    store._put(f"checkpoint/{saved.id}", saved, durable=True)
    assert store.restore(saved.id) == {"x": b"x" * 100_000}


def test_a_name_that_is_no_chunks_is_not_believed(store: Store) -> None:
    saved = store.save(draft(), {"x": b"x" * 100_000}).checkpoint
    assert saved.stream is not None
    for names in ({"index": "../../etc/passwd"}, {"chunks": ("../x",)}):
        evil = msgspec.structs.replace(saved, stream=msgspec.structs.replace(saved.stream, **names))
        store.backend.put(f"checkpoint/{saved.id}", evil.to_json())
        assert "no chunk was removed" in prune(store, grace_seconds=0).notes[0]


def test_records_of_a_kind_unknown_here_keep_the_chunks_they_mention(store: Store) -> None:
    values = [bytes([n]) * (1 << 20) for n in range(40)]
    saved = store.save(draft(), {"x": b"".join(values)}).checkpoint
    indexed = [blob for blob in (saved.stream, *saved.buffers) if blob is not None and blob.index]
    assert indexed, "so long that its chunks are listed in a chunk"
    store.backend.put("progress/loop", saved.to_json())
    store.backend.delete(f"checkpoint/{saved.id}")
    before = chunk_count(store)
    assert prune(store, NONE, grace_seconds=0).chunks == 0
    assert chunk_count(store) == before


def test_the_size_limit_counts_shared_chunks_once(store: Store) -> None:
    old_and_new(store)
    size = sum(size for _, size, _ in store.backend.scan_chunks())
    loose = Policy(max_age_seconds=None, max_size=size)
    assert prune(store, loose, grace_seconds=0).runs == ()
    tight = Policy(max_age_seconds=None, max_size=size - 1)
    report = prune(store, tight, grace_seconds=0)
    assert [gone.code for gone in report.runs] == ["size"]
    assert sum(size for _, size, _ in store.backend.scan_chunks()) < size


def test_deleting_a_run_frees_what_only_it_used(store: Store) -> None:
    old, new = old_and_new(store)
    report = delete_run(store, old.id, grace_seconds=0)
    assert [gone.id for gone in report.runs] == [old.id]
    assert len(report.checkpoints) == 1
    assert report.bytes > 0
    assert len(restorable(store)) == 2
    assert [run.id for run in store.runs()] == [new.id]
    with pytest.raises(NotFound):
        delete_run(store, old.id)


def test_every_pruned_checkpoint_is_told(store: Store) -> None:
    """000-7."""
    old_and_new(store)
    told: list[Event] = []
    unsubscribe = subscribe(told.append)
    report = prune(store, grace_seconds=0)
    unsubscribe()
    pruned = [event for event in told if event.type == "checkpoint_pruned"]
    assert [event.data["checkpoint"] for event in pruned] == [gone.id for gone in report.checkpoints]


def test_a_store_that_cannot_be_written_says_so(store: Store) -> None:
    class ReadOnly(Crashing):
        read_only = True

    store.backend = ReadOnly(store.backend, -1)  # type: ignore[assignment]
    with pytest.raises(StoreReadOnly):
        prune(store)
    assert prune(store, dry_run=True).dry_run


# In the background


def test_it_prunes_in_the_background_once_an_hour_for_all_processes(store: Store) -> None:
    """000-13, 002-5."""
    old, _ = old_and_new(store)
    background, other = Background(store), Background(store)
    background.saved()
    background.wait()
    assert old.id not in {run.id for run in store.runs()}
    late = add_run(store, updated=days_ago(40))
    for again in (background, other):
        again.saved()
        again.wait()
    assert late.id in {run.id for run in store.runs()}


def test_a_clock_that_leapt_is_not_believed_at_once(store: Store) -> None:
    store.backend.put(KEY, days_ago(3650).encode())
    background = Background(store, every_seconds=0)
    assert not background.prune_if_due()
    assert background.prune_if_due()
    store.backend.put(KEY, days_ago(-3650).encode())
    assert not background.prune_if_due()
    assert background.prune_if_due()


def test_nothing_it_meets_reaches_the_user(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """000-13."""

    class Failing(Crashing):
        error: Exception = StoreError("the disk is on fire")

        def scan(self, *args: Any, **kwargs: Any) -> Any:
            raise self.error

    store.backend = failing = Failing(store.backend, -1)  # type: ignore[assignment]
    for error in (StoreError("the disk is on fire"), ZeroDivisionError("a fault of ours")):
        failing.error = error
        background = Background(store, every_seconds=0)
        with caplog.at_level(logging.WARNING, "nbcheckpoint"):
            background.saved()
            background.wait()
        assert str(error) in caplog.text


def test_an_unreadable_time_of_the_last_pruning_does_not_stop_it_for_ever(store: Store) -> None:
    store.backend.put(KEY, b"\xff tomorrow")
    assert Background(store).prune_if_due()
    assert utc_now()[:10] in store.backend.get(KEY).value.decode()  # type: ignore[union-attr]


def test_what_loops_superseded_is_collected_before_the_hour_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "LITTER", 1_000_000)
    monkeypatch.setattr(background_module, "LITTER_SECONDS", 0.0)
    monkeypatch.setattr(background_module, "LITTER_GRACE", 0.0)
    background = Background(store)
    draft = Checkpoint(id="", created="", run="", step="", code="c" * 64)
    first, second = (store.save(draft, {"x": bytes([n]) * 700_000}).checkpoint for n in (1, 2))
    store.delete_checkpoint(first.id)
    before = {name for name, _, _ in store.backend.scan_chunks()}
    background.superseded(first.bytes)
    assert {name for name, _, _ in store.backend.scan_chunks()} == before, "so little is not worth it"
    background.superseded(400_000)
    background.wait()
    assert len(list(store.backend.scan_chunks())) < len(before)
    assert store.restore(second.id)["x"] == b"\2" * 700_000

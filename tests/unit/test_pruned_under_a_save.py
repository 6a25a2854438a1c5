"""Chunks that a save found present and that are gone when it commits: it puts them again, once, and never lies.

All of it with a real prune: another opener of the same store, without grace, between the staging and the commit.
"""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbcheckpoint.errors import ChunkPruned, StoreError
from nbcheckpoint.events import subscribe
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.upkeep import prune
from nbcheckpoint.store.verify import verify
from tests.stores import Crash, draft

LARGE = b"x" * 3_000_000
"""Several chunks, all in a pack."""
Prune = Callable[[], None]


@pytest.fixture(params=["memory", "disk"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{tmp_path}" if request.param == "memory" else str(tmp_path / "store")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """With chunks in it that no record names: the next save of the same bytes counts on them."""
    with open_store(url) as store:
        for values in ({"x": LARGE}, {"x": np.arange(300_000)}, {"x": b"y" * 10_000}):
            store.backend.delete(f"checkpoint/{store.save(draft(), values).checkpoint.id}")
        yield store


@pytest.fixture
def pruned(url: str) -> Prune:
    def now() -> None:
        with open_store(url) as other:
            assert prune(other, grace_seconds=0).chunks > 0

    return now


@pytest.fixture
def told() -> Iterator[list[str]]:
    heard: list[str] = []
    stop = subscribe(lambda event: heard.append(event.type))
    yield heard
    stop()


def before_commit(store: Store, do: Callable[[], Any]) -> None:
    """Have something happen once, after the next save has put its chunks and before it commits."""
    real = store._commit

    def commit(batch: Any) -> None:
        store._commit = real  # type: ignore[method-assign]
        do()
        real(batch)

    store._commit = commit  # type: ignore[method-assign]


@pytest.mark.parametrize("value", [LARGE, b"y" * 10_000, np.arange(300_000)], ids=["packed", "small", "array"])
@pytest.mark.parametrize("wait", [True, False])
def test_a_save_puts_again_what_was_pruned(
    store: Store, pruned: Prune, told: list[str], url: str, value: Any, wait: bool
) -> None:
    before_commit(store, pruned)
    saved = store.save(draft(), {"x": value}, wait=wait)
    saved.done.result(60)
    store.flush()
    assert [event for event in told if event.startswith("checkpoint_")][-1] == "checkpoint_saved"
    with open_store(url) as other:
        assert np.array_equal(other.restore(saved.checkpoint.id)["x"], value)
        assert verify(other).clean
        assert other.checkpoint(saved.checkpoint.id).bytes > 0, "it was written after all"


def test_so_do_saves_that_were_deferred(store: Store, pruned: Prune, url: str) -> None:
    saved = [store.save(draft(), {"x": value}, defer=True) for value in (LARGE, b"y" * 10_000, 1)]
    pruned()
    store.flush()
    with open_store(url) as other:
        assert [other.restore(item.checkpoint.id)["x"] for item in saved] == [LARGE, b"y" * 10_000, 1]
        assert verify(other).clean
    assert all(item.done.done() for item in saved)


def test_values_that_have_changed_since_are_not_saved_in_place_of_the_old_ones(
    store: Store, pruned: Prune, told: list[str], url: str
) -> None:
    array = np.arange(300_000)
    changed = store.save(draft(), {"x": array}, defer=True)
    kept = store.save(draft(), {"x": LARGE}, defer=True)
    array[7] = -1
    pruned()
    with pytest.raises(ChunkPruned) as caught:
        store.flush()
    assert caught.value.hint
    assert isinstance(changed.done.exception(), ChunkPruned)
    assert told == ["checkpoint_failed", "checkpoint_saved"]
    with open_store(url) as other:
        assert [found.id for found in other.find("c" * 64)] == [kept.checkpoint.id]
        assert verify(other).clean
    store.flush()
    assert store.restore(store.save(draft(), {"x": array}).checkpoint.id)["x"][7] == -1


def test_what_has_been_let_go_is_freed_and_its_save_fails(store: Store, pruned: Prune, url: str) -> None:
    value = np.arange(300_000)
    alive = weakref.ref(value)
    saved = store.save(draft(), {"x": value}, defer=True)
    store.let_go({"x": value})
    del value
    assert alive() is not None
    store.let_go({})
    assert alive() is None
    pruned()
    with pytest.raises(ChunkPruned):
        store.flush()
    assert isinstance(saved.done.exception(), ChunkPruned)
    with open_store(url) as other:
        assert not other.find("c" * 64)
        assert verify(other).clean


def test_it_tries_again_once_only(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(url) as store:
        tries: list[str] = []

        def put(key: str, *args: Any, **kwargs: Any) -> str:
            tries.append(key)
            raise ChunkPruned("0" * 64)

        with monkeypatch.context() as patch:
            patch.setattr(store.backend, "put", put)
            with pytest.raises(ChunkPruned):
                store.save(draft(), {"x": LARGE})
        assert len(tries) == 2
        assert store.find("c" * 64) == []


def test_whoever_is_told_of_a_lost_chunk_the_save_that_counts_on_it_notices(
    store: Store, pruned: Prune, url: str
) -> None:
    """The backend tells of a loss once, to whoever syncs next: pinning a run, or the prune itself."""
    run = store.begin_run("nb.ipynb")

    def somebody_else() -> None:
        pruned()
        store.update_run(run.id, note="durable", durable=True)

    before_commit(store, somebody_else)
    saved = store.save(draft(), {"x": LARGE})
    with open_store(url) as other:
        assert other.restore(saved.checkpoint.id)["x"] == LARGE
        assert other.run(run.id).note == "durable"


def test_a_save_beside_a_prune_by_the_same_process(store: Store) -> None:
    before_commit(store, lambda: prune(store, grace_seconds=0))
    assert store.restore(store.save(draft(), {"x": LARGE}).checkpoint.id)["x"] == LARGE
    assert verify(store).clean


def test_a_deferred_checkpoint_is_not_seen_before_its_chunks(tmp_path: Path) -> None:
    """Its record was written first and not durably: a kernel killed then left a checkpoint without its bytes."""
    store = open_store(tmp_path / "store")
    store.save(draft(), {"x": b"1" * 100_000}, defer=True)
    store.save(draft(), {"x": b"2" * 100_000}, defer=True)
    real, puts = store.backend.put, []

    def killed(*args: Any, **kwargs: Any) -> str:
        if puts:
            raise Crash
        puts.append(args)
        return real(*args, **kwargs)

    store.backend.put = killed  # type: ignore[method-assign]
    with pytest.raises(Crash):
        store.flush()
    with open_store(tmp_path / "store") as other:
        assert len(other.find("c" * 64)) == 1
        assert verify(other).clean


def test_saved_means_durable(tmp_path: Path, told: list[str]) -> None:
    with open_store(tmp_path / "store") as store:
        saved = [store.save(draft(), {"x": n}, defer=True) for n in range(3)]
        real, puts = store.backend.put, []

        def full_in_the_end(*args: Any, **kwargs: Any) -> str:
            puts.append(kwargs["durable"])
            if kwargs["durable"]:
                raise StoreError("no")
            return real(*args, **kwargs)

        store.backend.put = full_in_the_end  # type: ignore[method-assign]
        with pytest.raises(StoreError):
            store.flush()
        store.backend.put = real  # type: ignore[method-assign]
    assert puts == [False, False, True]
    assert told == ["checkpoint_failed"] * 3
    assert all(isinstance(item.done.exception(), StoreError) for item in saved)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_save_and_leaves_what_the_parent_deferred_to_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.save(draft(), {"x": 1})  # its writer thread is there, and will not be in the child
        mine = store.save(draft(code="p" * 64), {"x": 2}, defer=True)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                store.save(draft(code="k" * 64), {"x": 3})
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [len(store.find(code * 64)) for code in "ckp"] == [1, 1, 0]
        store.flush()
        assert store.restore(mine.checkpoint.id) == {"x": 2}

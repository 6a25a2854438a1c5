"""Every fact about a store is told, once, in order, and only after it is one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import nbcheckpoint
from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import StoreDamaged, StoreFull
from nbcheckpoint.events import EventType, subscribe
from nbcheckpoint.model import Event, Owner, Step
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.background import Background
from nbcheckpoint.store.liveness import this_process
from tests.stores import draft

OF_THE_ENGINE = {
    "step_retried step_invalidated step_fenced run_forked pause_opened pause_answered edge_evaluated cycle_detected "
    "graph_completed"
}
"""Facts about how steps are run, which no store knows of."""


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


@pytest.fixture
def told() -> Iterator[list[Event]]:
    heard: list[Event] = []
    stop = subscribe(heard.append)
    yield heard
    stop()


def types(told: list[Event]) -> list[str]:
    found = [event.type for event in told]
    told.clear()
    return found


def test_a_run_is_told_from_its_beginning_to_its_end(store: Store, told: list[Event]) -> None:
    run = store.begin_run("nb.ipynb")
    assert (told[0].run, told[0].data["workflow"]) == (run.id, "nb.ipynb")
    assert types(told) == ["run_started"]
    store.update_run(run.id, bytes=7)
    store.note(run.id, "nothing has happened to it")
    assert types(told) == []
    for status in ("paused", "running", "failed", "running", "cancelled", "running", "completed"):
        store.update_run(run.id, status=status)
    assert types(told) == [
        *("run_paused", "run_resumed", "run_failed", "run_resumed", "run_cancelled", "run_resumed", "run_completed"),
    ]
    store.update_run(run.id, status="completed")
    assert types(told) == []


def test_that_a_run_was_interrupted_is_told_when_it_is_resumed(store: Store, told: list[Event]) -> None:
    run = store.begin_run("nb.ipynb")
    me = this_process()
    dead = Owner(host=me.host, pid=me.pid, started="1", boot=me.boot)
    store.update_run(run.id, owner=dead)
    store.runs()
    assert types(told) == ["run_started"], "looking announces nothing"
    store.update_run(run.id, owner=me, status="running")
    assert types(told) == ["run_interrupted", "run_resumed"]


def test_steps_are_told(store: Store, told: list[Event]) -> None:
    for status in ("pending", "running", "completed", "restored", "failed", "interrupted", "skipped"):
        store.put_step(Step(run="r", address="000003", name="train", status=status, error="boom"))
    assert (told[0].run, told[0].step, told[0].data["name"]) == ("r", "000003", "train")
    assert told[3].data["error"] == "boom"
    assert types(told) == [
        *("step_started", "step_completed", "step_restored", "step_failed", "step_interrupted", "step_skipped"),
    ]


def test_nothing_is_told_that_was_not_written(store: Store, told: list[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> str:
        raise StoreFull("no space")

    run = store.begin_run("nb.ipynb")
    types(told)
    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "put", full)
        for write in (
            lambda: store.begin_run("nb.ipynb"),
            lambda: store.update_run(run.id, status="completed"),
            lambda: store.put_step(Step(run="r", address="000000", name="a", status="running")),
        ):
            with pytest.raises(StoreFull):
                write()
            assert (told[0].data["error"], told[0].data["kind"]) == ("no space", "StoreFull")
            assert types(told) == ["store_error"]
    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "put_chunk", full)
        with pytest.raises(StoreFull):
            store.save(draft(), {"x": b"x" * 10_000})
    assert types(told) == ["checkpoint_failed"]


def test_damage_met_on_the_way_is_told_with_its_place(store: Store, told: list[Event]) -> None:
    saved = store.save(draft(), {"x": b"x" * 10_000}).checkpoint
    assert saved.stream is not None
    store.backend.delete_chunk(saved.stream.chunks[0])
    types(told)
    with pytest.raises(StoreDamaged):
        store.load(saved.id)
    assert told[0].data["key"] == saved.stream.chunks[0]
    assert types(told) == ["store_error"]


def test_damage_found_in_the_background_is_told(tmp_path: Path, told: list[Event]) -> None:
    with open_store(tmp_path / "store") as store:
        backend = store.backend
        assert isinstance(backend, DiskBackend)
        backend._found_damage("0" * 64, "its bytes are not those that were written")
    assert (told[0].data["key"], types(told)) == ("0" * 64, ["store_error"])


def test_a_prune_that_fails_in_the_background_is_told(store: Store, told: list[Event]) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise StoreFull("no space")

    store.backend.get = broken  # type: ignore[method-assign]
    assert not Background(store).prune_if_due()
    assert types(told) == ["store_error"]


def test_the_types_are_those_that_are_told_and_no_others() -> None:
    """004-10: mypy refuses a type that is none; this finds one that nobody tells."""
    used: set[str] = set()
    for path in Path(nbcheckpoint.__file__).parent.rglob("*.py"):
        used |= {
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and path.name != "events.py"
        }
    engine = set(" ".join(OF_THE_ENGINE).split())
    assert set(get_args(EventType)) - used <= engine
    assert len(get_args(EventType)) == 27

"""The routes over a real store on disk: what is listed, what is not trusted, and that looking changes nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from nbcheckpoint.model import Checkpoint, Step
from nbcheckpoint.store import Store, open_store
from tests.integration.server import Server


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.trace,)


def test_a_run_is_listed_as_soon_as_it_is_written(server: Server, store: Store) -> None:
    assert server.ask("runs")[2]["runs"] == []
    run = store.begin_run("a.ipynb")
    store.put_step(Step(run=run.id, address="000000", name="load", status="completed", seconds=1.5))
    _, headers, body = server.ask("runs", path="a.ipynb")
    assert [record["id"] for record in body["runs"]] == [run.id]
    assert body["workflow"] == "a.ipynb"
    assert body["store"] == store.url
    assert server.ask("runs", path="a.ipynb", headers={"If-None-Match": headers["Etag"]})[0] == 304
    store.update_run(run.id, status="failed", owner=None)
    status, _, body = server.ask("runs", path="a.ipynb", headers={"If-None-Match": headers["Etag"]})
    assert (status, body["runs"][0]["status"]) == (200, "failed")
    assert server.ask(f"runs/{run.id}")[2]["steps"][0]["name"] == "load"


def test_pages_of_a_real_store_neither_repeat_nor_lose_a_run(server: Server, store: Store) -> None:
    made = [store.begin_run("a.ipynb" if n % 3 else "b.ipynb").id for n in range(23)]
    seen: list[str] = []
    query: dict[str, str] = {}
    while True:
        body = server.ask("runs", limit="5", **query)[2]
        seen += [record["id"] for record in body["runs"]]
        if body["next"] is None:
            break
        query = {"before": body["next"]}
    assert seen == sorted(made, reverse=True)
    assert len(server.ask("runs", workflow="b.ipynb")[2]["runs"]) == 8


def test_a_notebook_in_a_folder_with_a_store_of_its_own_is_served_from_there(server: Server, store: Store) -> None:
    store.begin_run("outer.ipynb")
    (server.root / "inner" / "deep").mkdir(parents=True)
    with open_store(server.root / "inner" / ".nbcheckpoint") as inner:
        inner.begin_run("deep/x.ipynb")
    body = server.ask("runs", path="inner/deep/x.ipynb")[2]
    assert [record["workflow"] for record in body["runs"]] == ["deep/x.ipynb"]
    assert body["workflow"] == "deep/x.ipynb"


def test_a_run_signed_by_somebody_else_is_listed_as_untrusted(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as somebody_else:
        somebody_else.setenv("JUPYTER_DATA_DIR", str(tmp_path / "somebody else"))
        with open_store(server.root / ".nbcheckpoint") as foreign:
            run = foreign.begin_run("theirs.ipynb")
    assert [record["trusted"] for record in server.ask("runs")[2]["runs"]] == [False]
    assert server.ask(f"runs/{run.id}")[2]["run"]["trusted"] is False


def test_nothing_is_unpickled_by_looking(server: Server, store: Store, tmp_path: Path) -> None:
    trace = tmp_path / "it was unpickled"
    run = store.begin_run("a.ipynb")
    draft = Checkpoint(id="", run=run.id, step="000000", code="0" * 64, created="")
    saved = store.save(draft, {"bomb": Bomb(trace)})
    step = Step(run=run.id, address="000000", name="x", checkpoint=saved.checkpoint.id, status="completed")
    store.put_step(step)
    server.ask("runs")
    assert server.ask(f"runs/{run.id}")[2]["steps"][0]["checkpoint"] == saved.checkpoint.id
    assert not trace.exists()
    pickle.loads(pickle.dumps(Bomb(trace)))
    assert trace.exists(), "the bomb itself was a dud, so this test proved nothing"


def test_looking_creates_no_store(server: Server) -> None:
    (server.root / "a").mkdir()
    for path in ("", "a/x.ipynb", "gone/x.ipynb"):
        assert server.ask("runs", path=path)[2]["store"] is None
    assert server.ask("runs/20200101T000000000-ffffff")[0] == 404
    assert sorted(entry.name for entry in server.root.rglob("*")) == ["a"]


def test_a_folder_that_is_no_store_is_left_as_it_is(server: Server) -> None:
    (server.root / ".nbcheckpoint").mkdir()
    (server.root / ".nbcheckpoint" / "notes.txt").write_text("mine")
    assert server.ask("runs")[2] == {"runs": [], "store": None, "workflow": None, "next": None}
    assert [entry.name for entry in (server.root / ".nbcheckpoint").iterdir()] == ["notes.txt"]

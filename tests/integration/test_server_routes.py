"""The routes of the server extension, asked over HTTP of a real Jupyter server whose store is a list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from nbcheckpoint.errors import NotFound, StoreDamaged, StoreLocked, UsageError
from nbcheckpoint.model import Run, Step
from nbcheckpoint.server.app import NbcheckpointApp
from nbcheckpoint.server.stores import Stores, shown
from nbcheckpoint.store.listing import Wanted
from nbcheckpoint.store.looking import Going
from tests.integration.server import Server, serving

WIRE = Path(__file__).parents[1] / "data" / "wire"


def wire(name: str) -> Any:
    return json.loads((WIRE / f"{name}.json").read_text())


@dataclass
class ListStore:
    """The reading half of a store, over records in memory. Like the real one it is newest first."""

    url: str
    records: list[Run]
    step_records: list[Step] = field(default_factory=list)
    opened_in: list[str] = field(default_factory=list)
    closed: int = 0

    def runs(
        self,
        *,
        workflow: str | None = None,
        status: str | None = None,
        text: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[Run]:
        wanted = Wanted(workflow=workflow, status=status, text=text, tag=tag)
        found = [run for run in self.records if wanted.has(run) and (before is None or run.id < before)]
        return found[:limit]

    def going(self, runs: Sequence[str]) -> dict[str, Going]:
        return {run["id"]: Going(**run["progress"]) for run in wire("runs")["runs"] if run["progress"]}

    def run(self, run: str, /) -> Run:
        for record in self.records:
            if record.id == run:
                return record
        raise NotFound(f"no run {run}", hint="list them with: nbcheckpoint runs")

    def steps(self, run: str, /, *, inner: bool = False, after: str = "", limit: int | None = None) -> list[Step]:
        return [step for step in self.step_records if step.run == run and step.address > after][:limit]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("root"), home=tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def server(running_server: Server) -> Iterator[Server]:
    """The server, put back after each test as it was before."""
    settings = running_server.app.web_app.settings
    before = dict(settings)
    yield running_server
    settings.update(before)


@pytest.fixture
def store(server: Server) -> ListStore:
    """The store of the wire files, in place of whatever the server would find."""
    runs, run = wire("runs"), wire("run")
    fake = ListStore(
        url=runs["store"],
        records=[Run.from_json(json.dumps(record)) for record in runs["runs"]],
        step_records=[Step.from_json(json.dumps(record)) for record in run["steps"]],
    )

    def opener(where: str | Path) -> ListStore:
        fake.opened_in.append(threading.current_thread().name)
        return fake

    # As if the server's root were the store's parent, so that the path of a notebook is its workflow.
    fake.url = str(server.root / ".nbcheckpoint")
    server.stores = replace(server.stores, url=fake.url, opener=opener)
    return fake


# ---- the shapes -------------------------------------------------------------------------------------------


def test_the_list_is_the_wire_file(server: Server, store: ListStore) -> None:
    status, headers, body = server.ask("runs", path="analysis/train.ipynb")
    assert status == 200
    assert headers["Content-Type"].startswith("application/json")
    assert body == wire("runs") | {"store": store.url, "next": None}


def test_a_run_is_the_wire_file_and_its_fencing_token_stays_on_the_server(server: Server, store: ListStore) -> None:
    store.step_records = [
        Step.from_json(json.dumps(step.to_dict() | {"token": "a-capability"})) for step in store.step_records
    ]
    status, _, body = server.ask(f"runs/{store.records[0].id}")
    assert (status, body) == (200, wire("run"))


def test_a_refusal_is_the_wire_file(server: Server, store: ListStore) -> None:
    assert server.ask("runs", limit="0")[::2] == (400, wire("refusal"))


# ---- asking -----------------------------------------------------------------------------------------------


def test_pages_follow_each_other_until_next_is_null(server: Server, store: ListStore) -> None:
    seen, before, pages = [], {}, 0
    while True:
        _, _, body = server.ask("runs", limit="2", **before)
        seen += [run["id"] for run in body["runs"]]
        pages += 1
        if body["next"] is None:
            break
        before = {"before": body["next"]}
    assert seen == [run.id for run in store.records]
    assert pages == 2


def test_a_page_that_just_fits_has_no_next(server: Server, store: ListStore) -> None:
    assert server.ask("runs", limit=str(len(store.records)))[2]["next"] is None


def test_status_workflow_text_and_tag_narrow_the_list(server: Server, store: ListStore) -> None:
    assert [run["status"] for run in server.ask("runs", status="failed")[2]["runs"]] == ["failed"]
    assert [run["note"] for run in server.ask("runs", text="NEW feat")[2]["runs"]] == ["before the new features"]
    assert [run["tags"] for run in server.ask("runs", tag="baseline")[2]["runs"]] == [["baseline"]]
    assert len(server.ask("runs", workflow="analysis/train.ipynb")[2]["runs"]) == 2


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "many"},
        {"limit": "-1"},
        {"limit": "1001"},
        {"limit": "10000000000000000000001"},
        {"limit": "²"},
        {"status": "fine"},
        {"status": "null"},
        {"before": "../../etc"},
        {"path": "../outside.ipynb"},
        {"path": "a/../../outside.ipynb"},
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(server: Server, store: ListStore, query: dict[str, str]) -> None:
    status, _, body = server.ask("runs", **query)
    assert status == 400
    assert body["message"]
    assert body["hint"]
    assert store.opened_in == []


def test_an_unknown_run_is_404_with_the_stores_own_hint(server: Server, store: ListStore) -> None:
    status, _, body = server.ask("runs/20200101T000000000-ffffff")
    assert status == 404
    assert body["hint"] == "list them with: nbcheckpoint runs"


@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "a%20b", "%3Cscript%3E"])
def test_what_cannot_be_a_run_id_is_refused(server: Server, store: ListStore, name: str) -> None:
    status, _, body = server.ask(f"runs/{name}")
    assert status == 400
    assert body["hint"]
    assert store.opened_in == []


def test_polling_an_idle_store_costs_an_empty_304(server: Server, store: ListStore) -> None:
    _, headers, _ = server.ask("runs")
    tag = {"If-None-Match": headers["Etag"]}
    assert server.ask("runs", headers=tag)[::2] == (304, None)
    store.records = store.records[1:]
    status, headers, _ = server.ask("runs", headers=tag)
    assert status == 200
    assert headers["Etag"] != tag["If-None-Match"]


# ---- the store --------------------------------------------------------------------------------------------


def test_no_store_yet_is_an_empty_list_and_none_is_made(server: Server) -> None:
    def opener(where: str | Path) -> ListStore:
        raise NotFound(f"no store at {where}")

    for stores in (server.stores, replace(server.stores, url="nowhere", opener=opener)):
        server.stores = stores
        status, _, body = server.ask("runs", path="a.ipynb")
        assert (status, body) == (200, {"runs": [], "store": None, "workflow": None, "next": None})
    assert list(server.root.iterdir()) == []


@pytest.mark.parametrize(("error", "expected"), [(StoreLocked("busy"), 503), (StoreDamaged("three bytes differ"), 500)])
def test_a_store_in_trouble_says_what_to_do(server: Server, error: Exception, expected: int) -> None:
    def opener(where: str | Path) -> ListStore:
        raise error

    server.stores = replace(server.stores, url="anything", opener=opener)
    status, _, body = server.ask("runs")
    assert status == expected
    assert body == {"message": str(error), "hint": error.hint}  # type: ignore[attr-defined]


def test_a_fault_nobody_foresaw_tells_no_internals(server: Server) -> None:
    def opener(where: str | Path) -> ListStore:
        raise RuntimeError("password=hunter2")

    server.stores = replace(server.stores, url="anything", opener=opener)
    status, _, body = server.ask("runs")
    assert status == 500
    assert "hunter2" not in json.dumps(body)
    assert body["hint"]


def test_the_store_is_read_off_the_event_loop_and_closed(server: Server, store: ListStore) -> None:
    server.ask("runs")
    server.ask(f"runs/{store.records[0].id}")
    server.ask("runs/unknown")
    assert len(store.opened_in) == store.closed == 3
    assert "jupyter-server" not in store.opened_in


def test_the_server_answers_others_while_a_store_is_slow(server: Server, store: ListStore) -> None:
    arrived, gate = threading.Event(), threading.Event()
    quick = store.runs

    def slow(**query: Any) -> list[Run]:
        arrived.set()
        assert gate.wait(60), "nobody opened the gate: the event loop waits for the store"
        return quick(**query)

    store.runs = slow  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as asking:
        waiting = asking.submit(server.ask, "runs")
        assert arrived.wait(60)
        assert server.ask(f"runs/{store.records[0].id}")[0] == 200
        assert not waiting.done()
        gate.set()
        assert waiting.result()[0] == 200


def test_a_notebook_is_served_from_the_nearest_store_above_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in (tmp_path / ".nbcheckpoint", root / "a" / ".nbcheckpoint", root / "a" / "b", root / "c"):
        folder.mkdir(parents=True)
    stores = Stores(root=root)
    assert stores.locate("a/b/x.ipynb") == root / "a" / ".nbcheckpoint"
    assert stores.locate("c/x.ipynb") == tmp_path / ".nbcheckpoint"
    assert stores.locate() == tmp_path / ".nbcheckpoint"
    assert Stores(root=root, url="redis://cache").locate("a/b/x.ipynb") == "redis://cache"


def test_a_workflow_is_named_from_the_stores_parent(tmp_path: Path) -> None:
    stores = Stores(root=tmp_path / "root")
    (tmp_path / "root").mkdir()
    inside = str(tmp_path / "root" / "a" / ".nbcheckpoint")
    above = (tmp_path / ".nbcheckpoint").as_uri()
    assert stores.workflow("a/b/x y.ipynb", inside) == "b/x y.ipynb"
    assert stores.workflow("a/b/x.ipynb", above) == "root/a/b/x.ipynb"
    assert stores.workflow("a/b/x.ipynb", "redis://cache/0") == "x.ipynb"


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret" / ".nbcheckpoint").mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError):
        Stores(root=tmp_path / "root").locate("link/x.ipynb")


@pytest.mark.parametrize(
    "path", ["nul\0/x.ipynb", f"{'long' * 2000}/x.ipynb", "loop/x.ipynb"], ids=["nul", "long", "loop"]
)
def test_a_path_the_system_cannot_follow_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError):
        Stores(root=tmp_path).locate(path)


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://ada:pw@db:5432/x?sslpassword=pw", "postgresql://ada@db:5432/x"),
        ("redis://:pw@cache/0", "redis://cache/0"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("/home/ada/a?b/.nbcheckpoint", "/home/ada/a?b/.nbcheckpoint"),
    ],
)
def test_a_password_in_the_stores_url_is_not_shown(url: str, seen: str) -> None:
    assert shown(url) == seen


def test_nor_is_it_in_the_answer(server: Server, store: ListStore) -> None:
    store.url = "postgresql://ada:hunter2@db/x"
    _, _, body = server.ask("runs")
    assert body["store"] == "postgresql://ada@db/x"


def test_polling_does_not_keep_an_idle_server_alive(server: Server, store: ListStore) -> None:
    settings = server.app.web_app.settings
    before = settings.get("api_last_activity")
    server.ask("runs")
    assert settings.get("api_last_activity") == before


# ---- configuration ----------------------------------------------------------------------------------------


def test_configuration_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCHECKPOINT_STORE", "memory://environment")
    assert NbcheckpointApp().store_url == "memory://environment"
    configured = NbcheckpointApp(config=Config({"NbcheckpointApp": {"store_url": "memory://configured"}}))
    assert configured.store_url == "memory://configured"

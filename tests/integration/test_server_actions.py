"""What the routes do to a real store on disk, and what they show of it: the same as the command line, and no more."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as with_
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jupyter_server.auth import Authorizer
from msgspec.structs import replace

from nbcheckpoint import errors
from nbcheckpoint.cli import main
from nbcheckpoint.model import Step
from nbcheckpoint.server import handler
from nbcheckpoint.server.stores import open_existing
from nbcheckpoint.store import Store, open_store
from tests.integration.server import TOKEN, Server, at
from tests.stores import add_run, add_step, draft

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror=hacked()>"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()

_unpickled: list[Any] = []


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        _unpickled.append(args)


sys.addaudithook(_hear)


class Point:
    """To look it up, `pickle` has to look up its class: that is heard."""


@pytest.fixture(autouse=True)
def _nothing_is_unpickled() -> Iterator[None]:
    """In none of these tests, whatever is asked, is a single name looked up by `pickle`."""
    before = len(_unpickled)
    yield
    assert _unpickled[before:] == []


@pytest.fixture
def server(running: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("root", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    with at(running, tmp_path / "root") as server:
        yield server
    assert list((tmp_path / "scratch").iterdir()) == [], "something was left behind"


def told(server: Server, path: str, /, **how: Any) -> Any:
    status, _, body = server.ask(path, **how)
    assert status == 200, body
    return body


def from_cli(store: Store, *words: str) -> Any:
    """What the command line prints with `--json`."""
    result = CliRunner().invoke(main, [*words, "--store", store.url, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# ---- looking ----------------------------------------------------------------------------------------------


def test_ten_thousand_steps_come_in_pages(server: Server, store: Store) -> None:
    run = add_run(store)
    for cell in range(500):
        store.put_step(Step(run=run.id, address=f"{cell:06d}", name="cell", status="completed"))
        for inner in range(3):
            store.put_step(Step(run=run.id, address=f"{cell:06d}.{inner:03d}", name="statement", status="completed"))
    for asked, expected in (({"limit": "300", "inner": "1"}, 2000), ({"limit": "90"}, 500)):
        seen: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = told(server, f"runs/{run.id}/steps", **asked, **after)
            assert len(page["steps"]) <= int(asked["limit"])
            seen += [step["address"] for step in page["steps"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert seen == sorted(set(seen))
        assert len(seen) == expected


def test_what_a_checkpoint_left_is_shown_as_text_whoever_made_it(server: Server, store: Store) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": SCRIPT},
        {"output_type": "display_data", "data": {"text/html": SCRIPT, "text/plain": "a table"}, "metadata": {}},
        {"output_type": "display_data", "data": {"text/html": SCRIPT}, "metadata": {}},
        {"output_type": "execute_result", "data": {"image/png": PNG, "text/plain": "<Figure>"}, "metadata": {}},
        {"output_type": "display_data", "data": {"image/png": f"{PNG}'{SCRIPT}", "text/plain": "no picture"}},
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[31mred\x1b[0m"]},
        {"output_type": "execute_result", "data": [SCRIPT]},
        {"something": "else"},
    ]
    made = draft(run=add_run(store).id, source=f"x = {SCRIPT!r}")
    id = store.save(made, {"x": SCRIPT, "p": Point()}, outputs=outputs).checkpoint.id
    status, headers, body = server.ask(f"checkpoints/{id}/preview")
    assert status == 200
    assert [(output["kind"], output["text"], bool(output["data"])) for output in body["outputs"]] == [
        ("text", SCRIPT, False),
        ("text", "a table", False),
        ("text", "(text/html)", False),
        ("image/png", "<Figure>", True),
        ("text", "no picture", False),
        ("error", "red", False),
    ]
    assert [value["name"] for value in body["values"]] == ["x", "p"]
    assert SCRIPT in body["source"]
    # And should a browser be sent here: it is data, to be taken for nothing else, and nothing in it may run.
    assert headers["Content-Type"].startswith("application/json")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_a_checkpoint_is_shown_without_the_bytes_of_its_values(server: Server, store: Store) -> None:
    id = add_step(store, add_run(store), {"word": "a-password-of-mine"}).id
    shown = told(server, f"checkpoints/{id}")["checkpoint"]
    assert shown["stream"]["size"] > 0
    assert "data" not in shown["stream"]
    assert base64.b64encode(b"a-password-of-mine").decode()[2:-2] not in json.dumps(shown["stream"])
    (listed,) = from_cli(store, "list")
    assert shown == listed


def test_what_happened_is_told_and_drawn(server: Server, store: Store) -> None:
    run = store.begin_run(SCRIPT)
    add_step(store, run, {"x": 1}, name=SCRIPT)
    events = told(server, f"runs/{run.id}/events")["events"]
    assert [event["type"] for event in events] == ["run_started", "step_completed", "checkpoint_saved"]
    (node,) = told(server, f"runs/{run.id}/graph")["nodes"]
    assert node["status"] == "completed"


def test_the_surroundings_of_a_run_and_what_is_different(server: Server, store: Store) -> None:
    then = {"python": "3.9.1", "host": "elsewhere", "prefix": sys.prefix}
    run = add_run(store, meta={"environment": then})
    body = told(server, f"runs/{run.id}/environment")
    assert body["then"] == then
    assert {item["name"] for item in body["differs"]} == {"python", "host"}
    assert all(item["now"] == body["now"][item["name"]] for item in body["differs"])


def test_runs_are_found_by_text_and_tag(server: Server, store: Store) -> None:
    add_run(store, "analysis/Größe.ipynb", note="With Old prices", tags=("nightly",))
    other = add_run(store, "etl.ipynb")
    for text, expected in (
        ("old PRICES", 1),
        ("GRÖSSE", 0),
        ("größe", 1),
        ("GRÖßE", 1),
        (other.id[4:], 1),
        ("%", 0),
        ("null", 0),
    ):
        assert len(told(server, "runs", text=text)["runs"]) == expected, text
    assert [run["tags"] for run in told(server, "runs", tag="nightly")["runs"]] == [["nightly"]]
    assert told(server, "runs", tag="night")["runs"] == []
    add_run(store, status="failed", inputs={"status": "completed"})
    store.begin_run("running.ipynb", inputs={"status": "failed"})
    for status, expected in (("completed", 2), ("failed", 1), ("running", 1), ("interrupted", 0), ("paused", 0)):
        assert len(told(server, "runs", status=status)["runs"]) == expected, status
    assert from_cli(store, "runs", "--text", "OLD", "--tag", "nightly")[0]["note"] == "With Old prices"


def test_a_running_run_says_how_far_it_is(server: Server, store: Store) -> None:
    run = store.begin_run("a.ipynb")
    progress = {"done": 3, "total": 9, "left": 1.5, "inside": [[21, 100]]}
    step = Step(run=run.id, address="000000", name="train", status="running", meta=progress)
    store.put_step(step)
    (shown,) = told(server, "runs")["runs"]
    assert shown["progress"] == {"name": "train", **progress}
    store.put_step(replace(step, meta={"done": 3, "total": SCRIPT}))
    assert told(server, "runs")["runs"][0]["progress"] is None


def test_what_a_dead_kernel_was_at_is_no_progress(server: Server, store: Store) -> None:
    """The next kernel goes on with the run; the step its predecessor died in stays as it was."""
    run = store.begin_run("a.ipynb")
    meta = {"done": 3, "total": 9, "left": 1.5, "session": 1}
    store.put_step(Step(run=run.id, address="000000", name="train", status="running", meta=meta))
    store.put_step(Step(run=run.id, address="000001", name="train", status="completed", meta={"session": 2}))
    assert told(server, "runs")["runs"][0]["progress"] is None


# ---- doing ------------------------------------------------------------------------------------------------


def test_pin_unpin_and_note(server: Server, store: Store) -> None:
    id = add_run(store).id
    assert told(server, f"runs/{id}/pin", method="POST")["run"]["pinned"] is True
    assert told(server, f"runs/{id}/unpin", method="POST", body={})["run"]["pinned"] is False
    assert told(server, f"runs/{id}/note", method="POST", body={"text": SCRIPT})["run"]["note"] == SCRIPT
    assert store.run(id).note == SCRIPT
    assert told(server, f"runs/{id}/note", method="POST", body={"text": ""})["run"]["note"] == ""


def test_a_question_is_answered_once(server: Server, store: Store) -> None:
    run = add_run(store, status="paused")
    asked = {"pause": {"name": "gate", "prompt": "Go on?", "choices": ["yes", "no"]}}
    store.put_step(Step(run=run.id, address="000000", name="gate", kind="pause", status="paused", meta=asked))
    path = f"runs/{run.id}/answer"
    status, _, body = server.ask(path, method="POST", body={"pause": "gate", "value": "perhaps"})
    assert (status, body["hint"]) == (400, "one of: 'yes', 'no'")
    assert server.ask(path, method="POST", body={"pause": "gaet", "value": "yes"})[0] == 404
    assert told(server, path, method="POST", body={"pause": "gate", "value": "yes"})["run"]["id"] == run.id
    assert store.steps(run.id)[0].meta["answer"]["value"] == "yes"
    assert server.ask(path, method="POST", body={"pause": "gate", "value": "no"})[0] == 400


def test_diff_prune_verify_and_delete_answer_as_the_command_line_does(server: Server, store: Store) -> None:
    run = add_run(store)
    a, b = add_step(store, run, {"x": 1}), add_step(store, run, {"x": 2}, source="x = 2")
    assert told(server, "diff", a=a.id, b=b.id) == from_cli(store, "diff", a.id, b.id)
    # A cell is all of its statements: what the second of them changed is there, and so is the code of both.
    c = add_step(store, run, {"y": 1}, source="y = 1")
    cells = told(server, "diff", a=f"{a.id},{c.id}", b=f"{b.id},{c.id}")
    assert [item["name"] for item in cells["values"]] == ["x"]
    assert " y = 1" in cells["code"]
    spoken = {"older_than": "7d", "keep": 3, "max_size": "1GB"}
    expected = from_cli(store, "prune", "--dry-run", "--older-than", "7d", "--keep", "3", "--max-size", "1GB")
    assert told(server, "prune", method="POST", body={"dry_run": True, **spoken}) == expected
    assert told(server, "prune", method="POST", body={"dry_run": False, **spoken})["dry_run"] is False
    assert told(server, "verify", method="POST") == from_cli(store, "verify")
    assert told(server, "verify", method="POST", body={"repair": True}) == from_cli(store, "verify", "--repair")
    other = add_run(store)
    like = from_cli(store, "delete", other.id, "--yes")
    assert told(server, f"runs/{run.id}", method="DELETE").keys() == like.keys()
    assert store.runs() == []


def test_a_limit_that_makes_no_sense_is_refused(server: Server, store: Store) -> None:
    add_run(store)
    for body in ({"older_than": "soon"}, {"max_size": "much"}, {"keep": -1}, {"keep": 1.5}):
        status, _, answer = server.ask("prune", method="POST", body={"dry_run": False, **body})
        assert (status, bool(answer["hint"])) == (400, True)
    assert len(store.runs()) == 1


def test_others_are_answered_while_everything_is_read(server: Server, store: Store) -> None:
    arrived, gate = threading.Event(), threading.Event()

    def slow(where: str | Path) -> Store:
        opened = open_existing(where)
        if threading.current_thread().name.startswith("nbcheckpoint-long"):
            arrived.set()
            assert gate.wait(60), "nobody opened the gate: the event loop waits for the store"
        return opened

    server.stores = with_(server.stores, opener=slow)
    with ThreadPoolExecutor(1) as asking:
        waiting = asking.submit(told, server, "verify", method="POST")
        assert arrived.wait(60)
        for _ in range(20):
            told(server, "runs")
        assert not waiting.done()
        gate.set()
        assert waiting.result()["clean"] is True


def test_two_browsers_at_once(server: Server, store: Store) -> None:
    runs = [add_run(store) for _ in range(4)]

    def browse(number: int) -> None:
        for turn in range(10):
            id = runs[(number + turn) % len(runs)].id
            told(server, "runs")
            told(server, f"runs/{id}")
            told(server, f"runs/{id}/note", method="POST", body={"text": f"{number} {turn}"})
            told(server, f"runs/{id}/{'pin' if turn % 2 else 'unpin'}", method="POST")

    with ThreadPoolExecutor(4) as browsers:
        list(browsers.map(browse, range(4)))
    assert all(run.note for run in store.runs())


# ---- archives ---------------------------------------------------------------------------------------------


def exported(server: Server, store: Store) -> tuple[str, bytes]:
    run = add_run(store)
    add_step(store, run, {"x": os.urandom(3 << 20), "p": Point()})
    status, headers, body = server.ask(f"runs/{run.id}/export")
    assert status == 200
    assert headers["Content-Type"] == "application/zip"
    assert headers["Content-Disposition"] == f'attachment; filename="nbcheckpoint-{run.id}.zip"'
    return run.id, body


def test_a_run_goes_out_and_comes_in_again(server: Server, store: Store, tmp_path: Path) -> None:
    run, archive = exported(server, store)
    (tmp_path / "run.zip").write_bytes(archive)
    assert zipfile.ZipFile(tmp_path / "run.zip").testzip() is None
    (server.root / "new").mkdir()
    body = told(server, "import", method="POST", body=archive, path="new/x.ipynb")
    assert (body["run"], body["trusted"]) == (run, True), "it carries this user's own signature"
    with open_store(server.root / ".nbcheckpoint", create=False) as here:
        assert [found.id for found in here.runs()] == [run], "the nearest store is where a kernel would look for it"


def test_an_archive_makes_a_store_where_there_is_none(server: Server, tmp_path: Path) -> None:
    with open_store(tmp_path / "elsewhere") as other:
        run = add_run(other)
        other.export(run.id, tmp_path / "run.zip")
    told(server, "import", method="POST", body=(tmp_path / "run.zip").read_bytes(), path="a.ipynb")
    assert [found["id"] for found in told(server, "runs", path="a.ipynb")["runs"]] == [run.id]


def test_what_somebody_else_signed_is_listed_and_never_trusted(
    server: Server, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as somebody_else:
        somebody_else.setenv("JUPYTER_DATA_DIR", str(tmp_path / "somebody else"))
        with open_store(tmp_path / "theirs") as theirs:
            run = add_run(theirs, SCRIPT)
            id = add_step(theirs, run, {"p": Point()}, name=SCRIPT).id
            theirs.export(run.id, tmp_path / "run.zip")
    body = told(server, "import", method="POST", body=(tmp_path / "run.zip").read_bytes())
    assert (body["run"], body["trusted"]) == (run.id, False)
    assert [found["trusted"] for found in told(server, "runs")["runs"]] == [False]
    for path in ("", "/steps", "/events", "/graph", "/environment"):
        told(server, f"runs/{run.id}{path}")
    assert told(server, f"checkpoints/{id}/preview")["values"][0]["name"] == "p"
    told(server, "diff", a=id, b=id)
    status, _, refused = server.ask(f"runs/{run.id}/pin", method="POST")
    assert (status, bool(refused["hint"])) == (403, True)
    with pytest.raises(errors.Untrusted):
        store.load(id)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "not a zip"])
def test_what_is_no_archive_leaves_nothing_behind(server: Server, store: Store, tmp_path: Path, damage: str) -> None:
    run = add_run(store)
    add_step(store, run, {"x": os.urandom(100_000)})
    store.export(run.id, tmp_path / "run.zip")
    store.delete_run(run.id)
    archive = bytearray((tmp_path / "run.zip").read_bytes())
    archive[len(archive) // 2] ^= 1
    sent = {"cut": archive[:-100], "flipped": archive, "empty": b"", "not a zip": b"<html>" * 1000}[damage]
    status, _, body = server.ask("import", method="POST", body=bytes(sent))
    assert status == 400, body
    assert body["hint"]
    assert str(tmp_path) not in body["message"]
    assert store.runs() == []


def test_an_upload_that_breaks_off_leaves_nothing_behind(server: Server, store: Store, tmp_path: Path) -> None:
    """The fixture looks for what is left in the folder for temporary files; the server goes on."""
    head = f"POST /nbcheckpoint/api/import HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += f"Authorization: token {TOKEN}\r\nContent-Length: {8 << 20}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + b"x" * (3 << 20))
    assert told(server, "runs")["runs"] == []


class Deny(Authorizer):
    """Nobody may do anything."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return False


def test_an_upload_is_not_kept_for_those_who_may_not_import(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused before a byte of it is written, strangers as well as users without that right."""
    kept: list[object] = []
    monkeypatch.setattr(handler.tempfile, "TemporaryFile", lambda: kept.append(1))
    assert server.ask("import", method="POST", body=b"x" * 1000, token=None)[0] == 403
    server.app.web_app.settings["authorizer"] = Deny(parent=server.app)
    assert server.ask("import", method="POST", body=b"x" * 1000)[0] == 403
    assert kept == []


def test_an_export_that_cannot_be_finished_does_not_look_finished(server: Server, store: Store) -> None:
    run = add_run(store)
    add_step(store, run, {"x": os.urandom(100_000)})
    lost = next(name for name, _, _ in store.backend.scan_chunks())
    store.backend.delete_chunk(lost)
    store.backend.sync()
    with pytest.raises((http.client.IncompleteRead, ConnectionError, http.client.RemoteDisconnected)):
        server.ask(f"runs/{run.id}/export")


# ---- a store in trouble -----------------------------------------------------------------------------------

TROUBLES = [
    (errors.StoreLocked("busy"), 503),
    (errors.StoreGone("gone"), 503),
    (errors.StoreDamaged("three bytes differ"), 500),
    (errors.StoreTooNew("from the future", version=99), 409),
    (errors.StoreReadOnly("read-only"), 409),
    (errors.StoreFull("full"), 507),
    (errors.Conflict("run/x"), 409),
]


@pytest.mark.parametrize(("error", "expected"), TROUBLES, ids=lambda value: type(value).__name__)
def test_a_store_in_trouble_says_so_in_one_sentence_with_a_hint(
    server: Server, store: Store, error: errors.Error, expected: int
) -> None:
    def opener(where: str | Path) -> Store:
        raise error

    server.stores = with_(server.stores, opener=opener)
    for path, method in (("runs", "GET"), ("runs/x/pin", "POST"), ("verify", "POST"), ("runs/x/export", "GET")):
        status, _, body = server.ask(path, method=method)
        if path == "verify" and isinstance(error, errors.StoreDamaged):  # that is what it is asked for
            assert (status, body["clean"], body["problems"][0]["text"]) == (200, False, str(error))
            continue
        assert (status, body) == (expected, {"message": str(error), "hint": error.hint})
        assert error.hint


def test_an_index_that_is_damaged_is_told_and_repaired(server: Server, store: Store) -> None:
    add_run(store)
    store.close()
    index = server.root / ".nbcheckpoint" / "cache.db"
    index.write_bytes(b"not a database at all" * 1000)
    status, _, body = server.ask("runs")
    assert (status, body["hint"]) == (500, "run: nbcheckpoint verify --repair")
    found = told(server, "verify", method="POST")
    assert (found["clean"], [problem["kind"] for problem in found["problems"]]) == (False, ["index"])
    assert index.read_bytes()[:3] == b"not", "looking at it changes nothing"
    body = told(server, "verify", method="POST", body={"repair": True})
    assert (body["clean"], body["problems"]) == (True, [])
    assert "nothing of it could be read" in body["notes"][0]
    told(server, "runs")


def test_a_store_from_the_future_is_left_alone(server: Server, store: Store) -> None:
    run = add_run(store)
    store.backend.put("format", b'{"format":99,"encrypted":false}')
    for path, method in ((f"runs/{run.id}/pin", "POST"), (f"runs/{run.id}", "DELETE")):
        status, _, body = server.ask(path, method=method)
        assert (status, body["hint"]) == (409, "format 99 is needed: pip install --upgrade nbcheckpoint")
    assert told(server, "runs")["runs"][0]["id"] == run.id


def test_a_store_that_vanishes_between_two_questions(server: Server, store: Store) -> None:
    add_run(store)
    told(server, "runs")
    store.close()
    shutil.rmtree(server.root / ".nbcheckpoint")
    assert told(server, "runs")["store"] is None
    assert server.ask("verify", method="POST")[0] == 404


ODD: list[Any] = [None, 7, "text", [1], {"a": 1}, [{"at": 3}], [[]]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_records_of_another_shape_than_ours_are_shown_as_far_as_they_go(server: Server, store: Store, odd: Any) -> None:
    """What stands in the free parts of a record may come from anywhere: it must not keep the rest from being seen."""
    meta = dict.fromkeys(("pause", "answer", "retried", "edges", "after", "done", "total", "left", "session"), odd)
    around = dict.fromkeys(("environment", "resumed", "forked", "graph", "python", "packages"), odd)
    run = add_run(store, meta=around, inputs={"x": odd}, status="running")
    for number, kind in enumerate(("cell", "pause", "node")):
        step = Step(run=run.id, address=f"{number:06d}", name="x", status="running", kind=kind, meta=meta, started="no")
        store.put_step(step)
    for path in ("", "/steps", "/events", "/graph", "/environment"):
        status, _, body = server.ask(f"runs/{run.id}{path}")
        assert status == 200, (path, body)
    assert len(told(server, "runs")["runs"]) == 1
    assert server.ask(f"runs/{run.id}/answer", method="POST", body={"pause": "x", "value": 1})[0] in (400, 404)

"""Waiting for news: told at once when something has changed, also when nobody wrote anything, and cheaply."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from nbcheckpoint.model import Step
from nbcheckpoint.server import watching
from nbcheckpoint.server.watching import Watcher, Watchers
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.liveness import this_process
from nbcheckpoint.store.watching import Mark
from tests.integration.server import TOKEN, Server
from tests.stores import add_run, add_step


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """Those who wait. Their time is never over: who is not told waits until the test gives up, and has failed."""
    real = Watcher._told

    async def told(self: Watcher, since: str, seconds: float, gone: Any) -> None:
        vars(self)["patient"] = vars(self).get("patient", 0) + 1
        await real(self, since, 1000 * seconds, gone)

    monkeypatch.setattr(Watcher, "_told", told)
    with ThreadPoolExecutor(12) as pool:
        yield pool


def token(server: Server, **query: str) -> str:
    status, _, body = server.ask("wait", **query)
    assert status == 200, body
    return str(body["token"])


def until(true: Callable[[], bool]) -> None:
    """Until something is so that another thread does; who waits for it for a minute has lost it."""
    for _ in range(6000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


def watchers(server: Server) -> Watchers:
    found: Watchers = server.app.web_app.settings["nbcheckpoint_watchers"]
    return found


def waiting(server: Server, pool: ThreadPoolExecutor, since: str, count: int = 1, **query: str) -> list[Future[str]]:
    """So many waits that are under way, none of which is still looking for itself."""
    asked = [pool.submit(token, server, since=since, seconds="30", **query) for _ in range(count)]
    until(lambda: sum(vars(watcher).get("patient", 0) for watcher in watchers(server)._watchers.values()) == count)
    return asked


def test_without_a_token_the_answer_comes_at_once_and_is_the_same_while_nothing_happens(
    server: Server, store: Store
) -> None:
    add_run(store)
    first = token(server)
    assert token(server) == first
    assert token(server, since=first, seconds="0") == first
    assert token(server, since=first, seconds="0.2") == first
    for _ in range(3):  # looking is not news
        server.ask("runs")
    assert token(server) == first


CHANGES: dict[str, Callable[[Store, Any], object]] = {
    "begun": lambda store, run: store.begin_run("b.ipynb"),
    "noted": lambda store, run: store.note(run.id, "good"),
    "ended": lambda store, run: store.update_run(run.id, status="completed", owner=None),
    "deleted": lambda store, run: store.delete_run(run.id),
    "a step": lambda store, run: store.put_step(Step(run=run.id, address="000001", name="x", status="running")),
    "progress": lambda store, run: store.put_step(
        Step(run=run.id, address="000000", name="x", status="running", meta={"done": 2})
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_wakes_everybody(server: Server, store: Store, pool: ThreadPoolExecutor, change: str) -> None:
    run = store.begin_run("a.ipynb")
    store.put_step(Step(run=run.id, address="000000", name="x", status="running", meta={"done": 1}))
    before = token(server)
    asked = waiting(server, pool, before, count=4)
    CHANGES[change](store, run)
    answers = {future.result(timeout=60) for future in asked}
    assert len(answers) == 1
    assert before not in answers


def test_a_process_that_dies_is_news_though_nothing_is_written(
    server: Server, store: Store, pool: ThreadPoolExecutor
) -> None:
    """Its run is interrupted, which nobody can write down."""
    code = "import sys; from nbcheckpoint.store import open_store\n"
    code += "store = open_store(sys.argv[1]); print(store.begin_run('a.ipynb').id, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, store.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        id = child.stdout.readline().strip()
        before = token(server)
        (asked,) = waiting(server, pool, before)
        child.kill()
        assert asked.result(timeout=60) != before
    assert server.ask(f"runs/{id}")[2]["run"]["status"] == "interrupted"


def test_a_store_that_appears_is_news(server: Server, pool: ThreadPoolExecutor) -> None:
    before = token(server, path="x.ipynb")
    (asked,) = waiting(server, pool, before, path="x.ipynb")
    with open_store(server.root / ".nbcheckpoint") as store:
        store.begin_run("x.ipynb")
    assert asked.result(timeout=60) != before


def test_a_store_in_trouble_is_news(server: Server, store: Store, pool: ThreadPoolExecutor) -> None:
    add_run(store)
    before = token(server)
    (asked,) = waiting(server, pool, before)
    store.close()
    (server.root / ".nbcheckpoint" / "cache.db").write_bytes(b"no database" * 1000)
    assert asked.result(timeout=60) != before


def test_ten_browsers_cost_what_one_does(
    server: Server, store: Store, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One watcher, which opens the store only when something was written."""
    add_step(store, add_run(store), {"x": 1})
    before = token(server)
    glances, opened = [], []
    real_glance, real_mark = watching.glance, Store.mark
    monkeypatch.setattr(watching, "glance", lambda where: glances.append(where) or real_glance(where))
    monkeypatch.setattr(Store, "mark", lambda store: opened.append(store) or real_mark(store))
    asked = waiting(server, pool, before, count=10)
    assert len(watchers(server)._watchers) == 1
    seen = len(glances)
    until(lambda: len(glances) >= seen + 4)
    assert len(opened) == 1, "the store was opened though nothing had been written"
    store.begin_run("b.ipynb")
    assert before not in {future.result(timeout=60) for future in asked}
    until(lambda: watchers(server)._watchers == {})


def test_who_goes_away_is_not_waited_for(server: Server, store: Store) -> None:
    add_run(store)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    address = f"/nbcheckpoint/api/wait?since={token(server)}&seconds=30"
    connection.request("GET", address, headers={"Authorization": f"token {TOKEN}"})
    until(lambda: bool(watchers(server)._watchers))
    connection.close()
    until(lambda: watchers(server)._watchers == {})


def test_this_process_is_alive() -> None:
    """Or the test of one that dies would prove nothing."""
    assert Mark(owners=(this_process(),)).stands

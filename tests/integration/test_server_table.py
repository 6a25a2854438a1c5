"""What holds for every route of the table: who may ask, what an id may be, and that the description tells the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jupyter_server.auth import Authorizer

from nbcheckpoint.server.asking import MAX_BODY, Route
from nbcheckpoint.server.openapi import description
from nbcheckpoint.server.routes import ROUTES
from nbcheckpoint.store import open_store
from tests.integration.server import Server, serving
from tests.stores import add_run, add_step

WIRE = Path(__file__).parents[1] / "data" / "wire"
UNKNOWN = "20200101T000000000-ffffff"
BODIES: dict[str, Any] = {
    "runs/{run}/answer": {"pause": "gate", "value": "yes"},
    "runs/{run}/note": {"text": "good"},
    "prune": {"dry_run": True},
    "import": b"no archive",
}
QUERIES: dict[str, dict[str, str]] = {"diff": {"a": UNKNOWN, "b": UNKNOWN}, "wait": {"seconds": "0"}}
WIRES = {
    "runs": "runs",
    "runs/{run}": "run",
    "runs/{run}/steps": "steps",
    "runs/{run}/events": "events",
    "runs/{run}/graph": "graph",
    "runs/{run}/environment": "environment",
    "runs/{run}/answer": "changed",
    "runs/{run}/pin": "changed",
    "runs/{run}/unpin": "changed",
    "runs/{run}/note": "changed",
    "checkpoints/{checkpoint}": "checkpoint",
    "checkpoints/{checkpoint}/preview": "preview",
    "diff": "diff",
    "prune": "pruned",
    "verify": "verified",
    "import": "imported",
    "wait": "wait",
}
"""Which file is held up to the answers of which route; DELETE answers like prune."""


def name_of(route: Route) -> str:
    return f"{route.method} {route.address}"


def wire_of(route: Route) -> Any:
    name = "pruned" if route.method == "DELETE" else WIRES[route.address]
    return json.loads((WIRE / f"{name}.json").read_text())


every_route = pytest.mark.parametrize("route", ROUTES, ids=name_of)
every_change = pytest.mark.parametrize("route", [r for r in ROUTES if r.method != "GET"], ids=name_of)
every_id = pytest.mark.parametrize("route", [r for r in ROUTES if r.ids], ids=name_of)
every_record = pytest.mark.parametrize("route", [r for r in ROUTES if isinstance(r.answer, type)], ids=name_of)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("root"), home=tmp_path_factory.mktemp("home")) as server:
        with open_store(server.root / ".nbcheckpoint") as store:
            add_step(store, add_run(store), {"x": 1})
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """The server, put back after each test as it was before; nothing that was refused has changed its store."""
    settings = running.app.web_app.settings
    before = dict(settings)
    store = sorted((path.name, path.stat().st_size) for path in (running.root / ".nbcheckpoint").rglob("*"))
    yield running
    settings.update(before)
    assert store == sorted((path.name, path.stat().st_size) for path in (running.root / ".nbcheckpoint").rglob("*"))


def ask(server: Server, route: Route, id: str = UNKNOWN, **how: Any) -> tuple[int, dict[str, str], Any]:
    address = route.address
    for name in route.ids:
        address = address.replace(f"{{{name}}}", id)
    how = {"method": route.method, "body": BODIES.get(route.address), **QUERIES.get(route.address, {}), **how}
    return server.ask(address, **how)


def assert_refused(answer: tuple[int, dict[str, str], Any], *codes: int) -> None:
    status, headers, body = answer
    assert status in codes
    assert headers["Content-Type"].startswith("application/json")
    assert body.keys() == {"message", "hint"}
    assert body["message"]
    assert body["hint"]


# ---- who may ask ------------------------------------------------------------------------------------------


@every_route
@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_a_valid_token_nothing_is_told(server: Server, route: Route, token: str | None) -> None:
    assert_refused(ask(server, route, token=token), 403)


@every_change
def test_a_change_asked_for_from_another_site_is_refused(server: Server, route: Route) -> None:
    """A browser sends its cookies along whoever asks; only our own pages know the other token."""
    cookies = server.log_in()
    assert server.ask("openapi.json", token=None, headers=cookies)[0] == 200, "not logged in: this proves nothing"
    assert_refused(ask(server, route, token=None, headers=cookies), 403)


class Deny(Authorizer):
    """Refuses us alone, and remembers what it was asked."""

    asked: list[tuple[str, str]]

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.asked = [*getattr(self, "asked", []), (action, resource)]
        return resource != "nbcheckpoint"


@every_route
def test_an_authoriser_that_refuses_nbcheckpoint_is_obeyed(server: Server, route: Route) -> None:
    deny = Deny(parent=server.app)
    server.app.web_app.settings["authorizer"] = deny
    assert_refused(ask(server, route), 403)
    assert set(deny.asked) == {("read" if route.method == "GET" else "write", "nbcheckpoint")}


@every_route
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_is_not_in_the_table_cannot_be_done(server: Server, route: Route, method: str) -> None:
    if any(other.address == route.address and other.method == method for other in ROUTES):
        return
    assert_refused(ask(server, route, method=method, body=None), 405)
    assert_refused(ask(server, route, method=method, body=None, token=None), 403)


def test_an_address_nobody_knows_is_refused_in_words(server: Server) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert_refused(server.ask("nothing/of/the/kind", method=method), 404)
        assert_refused(server.ask("nothing/of/the/kind", method=method, token=None), 403)


@every_route
def test_asking_does_not_keep_an_idle_server_alive(server: Server, route: Route) -> None:
    settings = server.app.web_app.settings
    before = settings.get("api_last_activity")
    ask(server, route)
    assert settings.get("api_last_activity") == before


# ---- what may be sent -------------------------------------------------------------------------------------


@every_id
@pytest.mark.parametrize(
    "id", ["..%2F..%2Fetc", "a%20b", "%3Cscript%3E", "a%0A", "%00", "x" * 129, "%C3%A9", "a%5Cb"], ids=str
)
def test_what_is_no_id_is_refused(server: Server, route: Route, id: str) -> None:
    assert_refused(ask(server, route, id), 400)


@every_id
@pytest.mark.parametrize("id", [UNKNOWN, ".", "..", "..."])
def test_an_id_nobody_has_is_not_found(server: Server, route: Route, id: str) -> None:
    assert_refused(ask(server, route, id), 404)


@every_route
@pytest.mark.parametrize("path", ["../outside.ipynb", "a/../../outside.ipynb"])
def test_a_path_out_of_the_servers_root_is_refused(server: Server, route: Route, path: str) -> None:
    if route.answer != "openapi":  # which is about no store
        assert_refused(ask(server, route, path=path), 400)


@every_change
def test_a_body_is_bounded(server: Server, route: Route) -> None:
    server.app.web_app.settings["nbcheckpoint_max_upload"] = MAX_BODY
    if route.body is not None:
        assert_refused(ask(server, route, body=b" " * (MAX_BODY + 1)), 413)


@every_change
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'"x"', b"\xff", {"surprise": 1}, {"text": 1, "dry_run": 1, "repair": 1}]
)
def test_a_body_that_makes_no_sense_is_refused(server: Server, route: Route, body: Any) -> None:
    if route.body is not None:
        assert_refused(ask(server, route, body=body), 400)


# ---- the shapes -------------------------------------------------------------------------------------------


@every_record
def test_the_wire_file_is_what_the_route_answers(route: Route) -> None:
    assert isinstance(route.answer, type)
    expected = wire_of(route)
    assert route.answer.from_json(json.dumps(expected)).to_dict() == expected


@every_record
def test_the_wire_file_is_as_described(route: Route) -> None:
    told = description(ROUTES)
    operation = told["paths"][f"/nbcheckpoint/api/{route.address}"][route.method.lower()]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(wire_of(route), {**schema, "components": told["components"]})
    assert operation["summary"]


def test_the_description_is_served_and_is_about_every_route(server: Server) -> None:
    status, _, told = server.ask("openapi.json")
    assert status == 200
    assert told == json.loads(json.dumps(description(ROUTES)))
    assert {(method.upper(), path) for path, methods in told["paths"].items() for method in methods} == {
        (route.method, f"/nbcheckpoint/api/{route.address}") for route in ROUTES
    }

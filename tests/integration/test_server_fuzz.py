"""The description tells the truth: what schemathesis makes of it is asked of a real server, and every answer checked.

Of each route a few questions, good and bad ones; `NBCHECKPOINT_FUZZ=500` asks so many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.openapi import from_dict

from nbcheckpoint.server.openapi import description
from nbcheckpoint.server.routes import ROUTES
from nbcheckpoint.store import open_store
from tests.integration.server import TOKEN, Server, serving
from tests.stores import add_run, add_step

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("NBCHECKPOINT_FUZZ") or 8)

schema = from_dict(description(ROUTES))
# Whatever else stands in an address is left alone: front ends put numbers there to get around caches.
schema.config.generation.update(allow_extra_parameters=False, with_security_parameters=False)
load_all_checks()
CHECKED = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "unsupported_method",
        "ignored_auth",
    )
]
known: dict[str, list[str]] = {"run": [], "checkpoint": []}
"""Ids there are: what nobody has is soon found out."""


@schemathesis.serializer("application/zip")
def _as_bytes(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schema.hook
def map_case(context: Any, case: Case) -> Case:
    if case.operation.path.endswith("/wait") and isinstance(case.query, dict) and "seconds" in case.query:
        case.query["seconds"] = min(case.query["seconds"], 0.01) if type(case.query["seconds"]) is float else "x"
    return case


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("root"), home=tmp_path_factory.mktemp("home")) as running:
        with open_store(running.root / ".nbcheckpoint") as store:
            for _ in range(4):
                run = add_run(store)
                known["checkpoint"].append(add_step(store, run, {"x": 1}, source="x = 1").id)
                known["run"].append(run.id)
        yield running


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES < 100,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case: Case, server: Server) -> None:
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{server.port}", headers={"Authorization": f"token {TOKEN}"}, checks=CHECKED
    )


def test_what_there_is_is_described_too(server: Server) -> None:
    """Random ids are nobody's: here every GET is asked about something that exists."""
    for route in ROUTES:
        if route.method != "GET" or not route.ids:
            continue
        for number in range(4):
            operation = schema[f"/nbcheckpoint/api/{route.address}"]["GET"]
            ids = {name: known[name][number] for name in route.ids}
            answer = operation.Case(path_parameters=ids).call_and_validate(
                base_url=f"http://127.0.0.1:{server.port}", headers={"Authorization": f"token {TOKEN}"}, checks=CHECKED
            )
            assert answer.status_code in (200, 404)  # an earlier question may have deleted it

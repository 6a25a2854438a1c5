"""The OpenAPI 3.1 description of the routes, made from their table and from the types they take and answer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, get_type_hints

import msgspec

from nbcheckpoint.model import Record
from nbcheckpoint.server.asking import Id, Refusal, Route, field_schemas

REFERENCE = "#/components/schemas/{name}"
REFUSED = {
    "400": "It makes no sense, or is no archive.",
    "403": "Not logged in, not allowed, a cross-site request, or not trusted.",
    "404": "There is no such thing.",
    "409": "The store cannot be changed, or was meanwhile.",
    "413": "More than may be sent.",
    "500": "The store is damaged, or a fault of ours.",
    "503": "The store is busy, or not there right now.",
    "507": "No space is left.",
}
"""By status, what else may be answered."""


def description(routes: Sequence[Route]) -> dict[str, Any]:
    """All of it."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(f"/nbcheckpoint/api/{route.address}", {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nbcheckpoint",
            "version": version("nbcheckpoint"),
            "description": "What the sidebar asks. Every answer is a record as `nbcheckpoint --json` prints it.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(routes),
            "responses": {f"Refused{code}": _refused(text) for code, text in REFUSED.items()},
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "token TOKEN"}
            },
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": getattr(route.call, "__name__", route.address),
        "summary": route.summary,
        "parameters": [*(_id(name) for name in route.ids), *_query(route)],
        "responses": {
            "200": {"description": "Done.", "content": _content(route)},
            **{code: {"$ref": f"#/components/responses/Refused{code}"} for code in REFUSED},
        },
    }
    if route.body == "archive":
        found["requestBody"] = {"required": True, "content": {"application/zip": {}}}
    elif route.body is not None:
        needed = any(field.required for field in msgspec.structs.fields(route.body))
        found["requestBody"] = {"required": needed, "content": {"application/json": {"schema": _reference(route.body)}}}
    return found


def _id(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(Id)}


def _query(route: Route) -> list[dict[str, Any]]:
    needed = {field.name for field in msgspec.structs.fields(route.query) if field.required}
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": schema}
        for name, schema in field_schemas(route.query).items()
    ]


def _content(route: Route) -> dict[str, Any]:
    if route.answer == "archive":
        return {"application/zip": {}}
    if route.answer == "openapi":
        return {"application/json": {"schema": {"type": "object"}}}
    assert isinstance(route.answer, type)
    return {"application/json": {"schema": _reference(route.answer)}}


def _refused(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": _reference(Refusal)}}}


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": REFERENCE.format(name=kind.__name__)}


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    answers = [route.answer for route in routes if isinstance(route.answer, type)]
    bodies = [route.body for route in routes if isinstance(route.body, type)]
    _, found = msgspec.json.schema_components([*answers, *bodies, Refusal], ref_template=REFERENCE)
    for kind in _records(Record):
        if kind.__name__ in found:
            _as_shown(kind, found[kind.__name__])
    return found


def _records(kind: type[Record]) -> list[type[Record]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _records(child))]


def _as_shown(kind: type[Record], schema: dict[str, Any]) -> None:
    """A record is shown whole: every field that is not hidden, and what is derived from them."""
    properties = schema["properties"]
    for name in kind.hidden:
        properties.pop(name, None)
    for name in kind.derived:
        properties[name] = msgspec.json.schema(get_type_hints(getattr(kind, name).fget)["return"])
    schema["required"] = list(properties)

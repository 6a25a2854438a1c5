"""Answering a question a run waits with.

The answer stands in the step that asks, written by compare-and-swap: so of two answers given at once one is the answer
and the other is told, and whoever goes on with the run finds it there. Nobody has to be running for it.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from nbcheckpoint.errors import Conflict, NotFound, Untrusted, UsageError
from nbcheckpoint.events import emit
from nbcheckpoint.model import Pause, Step, shaped, utc_now

if TYPE_CHECKING:
    from nbcheckpoint.store import Store


def question(step: Step) -> Pause | None:
    """What a step asks, if it is one that asks."""
    try:
        return msgspec.convert(step.meta["pause"], Pause) if "pause" in step.meta else None
    except msgspec.ValidationError:
        return None  # nothing of ours


def answer(store: Store, run: str, pause: str, value: Any) -> Step:
    """Write the answer down. See `Store.answer`."""
    if not store.run(run).trusted:
        raise Untrusted(f"run {run} does not carry your signature")
    address = _find(store, run, pause).address
    while True:
        step, version = store.step(run, address)
        asked = question(step)
        if asked is None or "answer" in step.meta:
            given = shaped(step.meta.get("answer"), dict[str, Any], {}).get("value")
            if asked is not None and _is_same(given, value):
                return step  # said again, perhaps by a cell that was killed and runs again
            raise UsageError(f"{pause!r} has been answered already: {given!r}", hint="the first answer is the answer")
        check(asked, value)
        said = {**step.meta, "answer": {"value": value, "at": utc_now()}}
        try:
            store.put_step(replace(step, status="completed", meta=said), expect=version, durable=True)
        except Conflict:
            continue  # somebody else was at it: look what they did
        emit("pause_answered", run=run, step=address, name=pause)
        store.update_run(run)
        return store.step(run, address)[0]


def _is_same(given: Any, value: Any) -> bool:
    try:
        return msgspec.json.encode(given) == msgspec.json.encode(value)
    except (TypeError, ValueError):
        return False


def _find(store: Store, run: str, pause: str) -> Step:
    asking = {asked.name: step for step in store.steps(run, inner=True) if (asked := question(step))}
    if pause in asking:
        return asking[pause]
    near = difflib.get_close_matches(pause, asking, n=1) or list(asking)[:1]
    hint = f"it asks {', '.join(map(repr, near))}" if near else "nbcheckpoint show lists its steps"
    raise NotFound(f"run {run} asks nothing called {pause!r}", hint=hint)


def check(asked: Pause, value: Any) -> None:
    """Raises UsageError for an answer the question does not take."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"an answer must be plain data: {error}") from error
    if asked.choices is not None and value not in asked.choices:
        raise UsageError(
            f"{value!r} is no answer to {asked.name!r}", hint=f"one of: {', '.join(map(repr, asked.choices))}"
        )
    if asked.schema is not None:
        _check_schema(asked, value)


def _check_schema(asked: Pause, value: Any) -> None:
    """By the library for it, where it is installed; whoever asked checks once more in any case."""
    try:
        from jsonschema import ValidationError, validate
    except ImportError:
        return
    try:
        validate(value, asked.schema)
    except ValidationError as error:
        raise UsageError(f"{value!r} is no answer to {asked.name!r}: {error.message}") from error

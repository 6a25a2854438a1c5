"""Answering a question a run waits with.

The answer stands in the step that asks, written by compare-and-swap: so of two answers given at once one is the answer
and the other is told, and whoever goes on with the run finds it there. Nobody has to be running for it.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from nbcheckpoint.errors import Conflict, NotFound, Untrusted, UsageError
from nbcheckpoint.events import emit
from nbcheckpoint.model import Pause, Step, shaped, utc_now
from nbcheckpoint.typed import convert

if TYPE_CHECKING:
    from nbcheckpoint.store import Store


def question(step: Step) -> Pause | None:
    """What a step asks, if it is one that asks."""
    try:
        return convert(step.meta["pause"], Pause) if "pause" in step.meta else None
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
        said = {**step.meta, "answer": {"value": check(asked, value), "at": utc_now()}}
        try:
            store.put_step(replace(step, status="completed", meta=said), expect=version, durable=True)
        except Conflict:
            continue  # somebody else was at it: look what they did
        emit("pause_answered", run=run, step=address, name=pause)
        store.update_run(run)
        return store.step(run, address)[0]


def _is_same(given: Any, value: Any) -> bool:
    try:
        return msgspec.json.encode(given) == msgspec.json.encode(plain(value))
    except UsageError:
        return False


def _find(store: Store, run: str, pause: str) -> Step:
    asking = {asked.name: step for step in store.steps(run, inner=True) if (asked := question(step))}
    if pause in asking:
        return asking[pause]
    near = difflib.get_close_matches(pause, asking, n=1) or list(asking)[:1]
    hint = f"it asks {', '.join(map(repr, near))}" if near else "nbcheckpoint show lists its steps"
    raise NotFound(f"run {run} asks nothing called {pause!r}", hint=hint)


def plain(value: Any) -> Any:
    """A value as records keep it. Raises UsageError for what they cannot: also NaN, and numbers without end."""
    try:
        written = msgspec.to_builtins(value, str_keys=True)
        json.dumps(written, allow_nan=False)
        return msgspec.json.decode(msgspec.json.encode(written))
    except (TypeError, ValueError) as error:
        raise UsageError(f"an answer must be plain data: {error}") from error


def check(asked: Pause, value: Any) -> Any:
    """The answer as it is written down. Raises UsageError for one the question does not take."""
    written = plain(value)
    if asked.choices is not None and written not in asked.choices:
        raise UsageError(
            f"{value!r} is no answer to {asked.name!r}", hint=f"one of: {', '.join(map(repr, asked.choices))}"
        )
    if asked.schema is not None:
        _check_schema(asked, written)
    elif asked.choices is None and not _comes_back(value):
        hint = "pause(…, schema=…) says what it is to be read as"
        raise UsageError(f"an answer must be plain data: {value!r} would come back as {written!r}", hint=hint)
    return written


def _comes_back(value: Any) -> bool:
    """Is what is written down the same as what was given? Tuples are taken for lists."""
    if isinstance(value, (list, tuple)):
        return all(map(_comes_back, value))
    if isinstance(value, dict):
        return all(type(name) is str and _comes_back(item) for name, item in value.items())
    return value is None or isinstance(value, (str, int, float))


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

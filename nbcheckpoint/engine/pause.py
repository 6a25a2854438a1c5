"""`nbc.pause`: a run waits for an answer, for as long as it takes. The process may end meanwhile.

A question is a step. It is told apart by its name, not by its order, and its answer stands in its record (see
`store/pauses.py`): so it can be answered from anywhere, the first answer is the answer, and a run that is resumed
finds it there and does not ask again. A run that was forked does.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
from msgspec.structs import replace

from nbcheckpoint.engine import context
from nbcheckpoint.engine.context import Frame
from nbcheckpoint.errors import Conflict, Paused, UsageError
from nbcheckpoint.events import emit
from nbcheckpoint.model import Pause, Step, utc_now
from nbcheckpoint.store import Store
from nbcheckpoint.store.pauses import check, plain
from nbcheckpoint.typed import convert
from nbcheckpoint.units import parse_age

_NOTHING: Any = object()
openers: list[Callable[[Store, str, Pause], Any]] = []
"""Told of a question that is being asked: whoever has a way to show it. They must not raise."""
_LONGEST_NAME = 200


def pause(
    prompt: str = "",
    *,
    name: str,
    choices: Any = None,
    schema: Any = None,
    default: Any = _NOTHING,
    timeout: str | float | None = None,
    reask: bool = False,
) -> Any:
    """Stop until somebody has answered, and return the answer.

    `choices`: the answers there are. `schema`: a type (`int`, `list[str]`, a dataclass, …) the answer must have.
    `default`: what an answer could be; with `timeout` ("2h"), what it is when nobody has answered by then.
    `reask=True`: a resumed run asks again what it has asked before.

    In a script, and headless, it raises `Paused`: call the flow again once it is answered. In a notebook the cell stops
    there, and shows how to answer.
    """
    if not name or len(name) > _LONGEST_NAME or "\0" in name:
        raise UsageError("a pause needs a name", hint='pause("Go on?", name="gate")')
    if timeout is not None and default is _NOTHING:
        raise UsageError(f"pause {name!r} has a timeout and no default", hint="say what the answer is then: default=…")
    here = context.frame()
    if here is None:
        if not context.ambient:
            raise UsageError("pause is for use inside of a flow", hint="call it in a function with @flow above it")
        here = context.ambient[0]()
        context.asked.append(here.journal.run_id)
    chosen = tuple(choices) if choices is not None else None
    return ask(here, name, prompt, chosen, schema=schema, default=default, timeout=timeout, reask=reask)


def ask(
    here: Frame,
    name: str,
    prompt: str,
    choices: tuple[Any, ...] | None = None,
    *,
    schema: Any = None,
    default: Any = _NOTHING,
    timeout: str | float | None = None,
    reask: bool = False,
    about: str = "",
) -> Any:
    """The answer to a question of this frame. Raises Paused as long as there is none.

    `about` is the slot of the step it concerns, where it is no question of the program's own.
    """
    journal = here.journal
    slot = here.next_slot(name, is_slot=bool(about))
    address = journal.address(slot, here.address)
    journal.arrive(slot)
    here.asked = here.asked or not about
    shown = _shown(here, name, slot)
    question = Pause(
        name=shown,
        prompt=prompt,
        choices=tuple(map(plain, choices)) if choices is not None else None,
        schema=msgspec.json.schema(schema) if schema is not None else None,
        until=_until(journal.recorded(slot), timeout),
    )
    if default is not _NOTHING:
        question = replace(question, default=_checked(question, default, schema))
    step = _opened(here, slot, address, question, reask=reask, about=about)
    if "answer" not in step.meta and question.until and question.until <= utc_now():
        step = _answer_by_default(here, address, question)
    if "answer" not in step.meta:
        for tell in tuple(openers):
            tell(journal.store, step.run, question)
        emit("pause_opened", run=step.run, step=address, name=shown, prompt=prompt)
        raise Paused(step.run, shown, prompt, choices=question.choices)
    return _taken(here, step, question, schema, choices)


def _checked(question: Pause, default: Any, schema: Any) -> Any:
    """A default is an answer: that it is none is better known before it is needed. Raises UsageError."""
    try:
        written = check(question, default)
        if schema is not None:
            convert(written, schema, str_keys=True)
    except (UsageError, msgspec.ValidationError) as error:
        raise UsageError(f"pause {question.name!r}: its default is no answer: {error}") from error
    return written


def _shown(here: Frame, name: str, slot: str) -> str:
    """By which name it is answered: its own, unless another question of the run goes by that."""
    short = name if slot.endswith("#1") else f"{name}#{slot.rpartition('#')[2]}"
    return short if here.journal.asked_by(short) in ("", slot) else slot


def _until(before: Step | None, timeout: str | float | None) -> str:
    """When the default becomes the answer: counted from when it was first asked."""
    if timeout is None:
        return ""
    if before is not None and before.meta.get("pause", {}).get("until"):
        return str(before.meta["pause"]["until"])
    seconds = parse_age(timeout) if isinstance(timeout, str) else float(timeout)
    then = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _opened(here: Frame, slot: str, address: str, question: Pause, *, reask: bool, about: str) -> Step:
    """The step that asks, as it is now; written if it is not there."""
    journal = here.journal
    while True:
        before = journal.recorded(slot)
        version = ""
        if before is not None:
            before, version = journal.store.step(before.run, before.address)
        if before is not None and "answer" in before.meta and not (reask and before.meta.get("taken")):
            return before
        asked = msgspec.to_builtins(question)
        if before is not None and before.meta.get("pause") == asked and before.status == "paused":
            return before
        step = Step(
            run=journal.run_id,
            address=address,
            name=question.name,
            kind="pause",
            status="paused",
            started=before.started if before is not None and before.started else utc_now(),
            token=secrets.token_hex(8),
            meta={"slot": slot, "pause": asked, **({"about": about} if about else {})},
        )
        try:
            journal.store.put_step(step, expect=version, durable=True)
        except Conflict:
            journal.reload(slot, address)
            continue  # answered in this very moment
        journal.reload(slot, address)
        return step


def _answer_by_default(here: Frame, address: str, question: Pause) -> Step:
    """Nobody has answered in time. Somebody may in this very moment: then that is the answer."""
    try:
        return here.journal.store.answer(here.journal.run_id, question.name, question.default)
    except UsageError:
        return here.journal.store.step(here.journal.run_id, address)[0]


def _taken(here: Frame, step: Step, question: Pause, schema: Any, choices: tuple[Any, ...] | None) -> Any:
    """The answer, if it is one; else the question is asked again, with what was wrong."""
    journal, value = here.journal, step.meta["answer"]["value"]
    try:
        check(question, value)
        value = convert(value, schema, str_keys=True) if schema is not None else _chosen(value, choices)
    except (UsageError, msgspec.ValidationError) as error:
        meta = {key: found for key, found in step.meta.items() if key not in ("answer", "taken")}
        journal.store.put_step(replace(step, status="paused", meta=meta), durable=True)
        raise Paused(step.run, question.name, f"{question.prompt} ({error})", choices=question.choices) from error
    if not step.meta.get("taken"):
        journal.store.put_step(replace(step, meta={**step.meta, "taken": True}))
    journal.reload(str(step.meta["slot"]), step.address)
    here.made(step.address, value, gate=True)
    return value


def _chosen(value: Any, choices: tuple[Any, ...] | None) -> Any:
    """The very choice that was made: a tuple or a member of an enum is written down as something else."""
    made = [choice for choice in choices or () if plain(choice) == value]
    return next((choice for choice in made if type(choice) is type(value)), made[0] if made else value)

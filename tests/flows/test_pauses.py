"""A gate holds a run until somebody has answered, from anywhere; once is enough."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any

import pytest
from msgspec.structs import replace

import nbcheckpoint as nbc
from nbcheckpoint.errors import UsageError
from nbcheckpoint.events import subscribe
from nbcheckpoint.store import Store
from tests.flows.bodies import note
from tests.flows.test_flows import latest


@nbc.step
def before() -> int:
    note("before")
    return 1


@nbc.step
def behind(said: Any) -> Any:
    note("behind")
    return said


@nbc.flow
def gated(**options: Any) -> Any:
    before()
    return behind(nbc.pause("Go on?", name="gate", **options))


def asked(flow: Any, *args: Any, **kwargs: Any) -> nbc.Paused:
    with pytest.raises(nbc.Paused) as told:
        flow(*args, **kwargs)
    return told.value


@pytest.mark.parametrize("answer", ["yes", "", 0, False, None, [], {"rows": [1, 2]}])
def test_the_answer_is_what_the_pause_returns(store: Store, ran: list[Any], answer: Any) -> None:
    """000-1, 000-10, 000-22: also the empty answer is an answer."""
    paused = asked(gated)
    assert latest(store).status == "paused"
    assert paused.hint == f"answer with: nbcheckpoint answer {paused.run} gate VALUE"
    store.answer(paused.run, "gate", answer)
    assert gated() == answer
    assert ran == ["before", "behind"]
    assert latest(store).status == "completed"


def test_it_asks_until_somebody_has_answered(store: Store, ran: list[Any]) -> None:
    first, second = asked(gated), asked(gated)
    assert first.run == second.run
    assert ran == ["before"]
    assert len([step for step in latest(store).steps() if step.kind == "pause"]) == 1


def test_it_is_never_asked_again_on_resume(store: Store, ran: list[Any]) -> None:
    """001-17."""
    store.answer(asked(gated).run, "gate", "yes")
    gated()
    assert gated.resume(latest(store).id, start_at="behind") == "yes"


def test_a_fork_asks_again(store: Store, ran: list[Any]) -> None:
    store.answer(asked(gated).run, "gate", "yes")
    gated()
    made = store.fork(latest(store).id, at="before")
    assert asked(gated.resume, made.id).run == made.id
    store.answer(made.id, "gate", "no")
    assert gated.resume(made.id) == "no"


def test_reask_asks_again_what_it_has_asked(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    def careful() -> Any:
        said = nbc.pause("Sure?", name="sure", reask=True)
        nbc.pause("And now?", name="now")
        return said

    run = asked(careful).run
    store.answer(run, "sure", 1)
    assert asked(careful).pause == "now"
    assert asked(careful).pause == "sure", "it was taken once, so it is asked again"
    store.answer(run, "sure", 2)
    store.answer(run, "now", 0)
    assert careful() == 2


def test_gates_are_told_apart_by_name_not_by_order(store: Store) -> None:
    """Asked in another order after an edit, each gets its own answer."""

    def make(names: list[str]) -> Any:
        @nbc.flow(name="two")
        def two() -> dict[str, Any]:
            return {name: nbc.pause("?", name=name) for name in names}

        return two

    run = asked(make(["a", "b"])).run
    store.answer(run, "a", 1)
    asked(make(["a", "b"]))
    store.answer(run, "b", 2)
    assert make(["b", "a"])() == {"b": 2, "a": 1}


def test_a_gate_in_a_loop_asks_every_time(store: Store) -> None:
    @nbc.flow
    def rounds() -> list[Any]:
        return [nbc.pause(f"round {n}?", name="round") for n in range(3)]

    for expected in ("round", "round#2", "round#3"):
        paused = asked(rounds)
        assert paused.pause == expected
        store.answer(paused.run, paused.pause, expected)
    assert rounds() == ["round", "round#2", "round#3"]


def test_choices_and_types_are_held_to(store: Store) -> None:
    paused = asked(gated, choices=["yes", "no"])
    assert "(yes / no)" in str(paused)
    with pytest.raises(UsageError, match="'maybe' is no answer"):
        store.answer(paused.run, "gate", "maybe")

    @dataclass
    class Order:
        rows: int
        note: str = ""

    @nbc.flow
    def order() -> Any:
        return nbc.pause("How many?", name="order", schema=Order)

    run = asked(order).run
    with pytest.raises(UsageError, match="is no answer"):
        store.answer(run, "order", {"rows": "many"})
    store.answer(run, "order", {"rows": 3})
    assert order() == Order(3)


class Size(Enum):
    S = "small"


@pytest.mark.parametrize(
    ("options", "said", "got"),
    [
        ({"choices": [(1, 2), Size.S]}, (1, 2), (1, 2)),
        ({"choices": [(1, 2), Size.S]}, [1, 2], (1, 2)),
        ({"choices": [(1, 2), Size.S]}, Size.S, Size.S),
        ({"choices": [(1, 2), Size.S]}, "small", Size.S),
        ({"choices": [1, True]}, True, True),
        ({"schema": dict[int, float]}, {1: 2.0}, {1: 2.0}),
        ({"schema": Size}, Size.S, Size.S),
        ({}, (1, None), [1, None]),
        ({}, float("nan"), UsageError),
        ({}, [float("inf")], UsageError),
        ({"schema": float}, float("inf"), UsageError),
        ({}, {1: 2}, UsageError),
        ({}, b"bytes", UsageError),
        ({}, {"a": Size.S}, UsageError),
    ],
)
def test_an_answer_is_what_was_answered_or_none(store: Store, options: Any, said: Any, got: Any) -> None:
    """NaN came back as None, bytes as text; a choice that was a tuple could not be made."""

    @nbc.flow
    def ask() -> Any:
        return nbc.pause("?", name="a", **options)

    run = asked(ask).run
    if got is UsageError:
        with pytest.raises(UsageError):
            store.answer(run, "a", said)
    else:
        store.answer(run, "a", said)
        found = ask()
        assert (found, type(found)) == (got, type(got))


def test_an_answer_that_got_past_the_door_is_asked_again(store: Store) -> None:
    """Whoever answered had no way to check; whoever asked has."""

    @nbc.flow
    def count() -> Any:
        return nbc.pause("How many?", name="count", schema=int)

    run = asked(count).run
    step = next(step for step in store.steps(run) if step.kind == "pause")
    meta = {**step.meta, "answer": {"value": "many", "at": ""}}
    store.put_step(replace(step, status="completed", meta=meta))
    assert "'many' is no answer" in str(asked(count))
    store.answer(run, "count", 4)
    assert count() == 4


def test_after_the_timeout_the_default_is_the_answer(store: Store, ran: list[Any]) -> None:
    options = {"default": "no", "timeout": "1h"}
    asked(gated, **options)
    step = next(step for step in latest(store).steps() if step.kind == "pause")
    past = datetime.fromtimestamp(time.time() - 1, timezone.utc).isoformat(timespec="milliseconds")
    pause = {**step.meta["pause"], "until": past.replace("+00:00", "Z")}
    store.put_step(replace(step, meta={**step.meta, "pause": pause}))
    assert gated(**options) == "no"


def test_before_the_timeout_an_answer_counts(store: Store) -> None:
    options = {"default": "no", "timeout": "1h"}
    paused = asked(gated, **options)
    until = next(step for step in latest(store).steps() if step.kind == "pause").meta["pause"]["until"]
    asked(gated, **options)
    again = next(step for step in latest(store).steps() if step.kind == "pause").meta["pause"]["until"]
    assert again == until, "asking again does not begin the hour anew"
    store.answer(paused.run, "gate", "yes")
    assert gated(**options) == "yes"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a", "timeout": 5}, "a timeout and no default"),
        ({"name": "a", "choices": [1, 2], "default": 3}, "its default is no answer"),
        ({"name": "a", "schema": int, "default": 3.0}, "its default is no answer"),
        ({"name": "a", "default": float("nan")}, "its default is no answer"),
        ({"name": "a", "choices": [1, object()]}, "plain data"),
    ],
)
def test_a_question_that_makes_no_sense(store: Store, options: Any, said: str) -> None:
    @nbc.flow
    def ask() -> Any:
        return nbc.pause("?", **options)

    with pytest.raises(UsageError, match=said):
        ask()


def test_a_pause_outside_of_a_flow(store: Store) -> None:
    with pytest.raises(UsageError, match="inside of a flow"):
        nbc.pause("?", name="a")
    with pytest.raises(UsageError, match="inside of a step"):
        nbc.mark(a=1)


def test_a_pause_inside_of_a_step(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def review(x: int) -> Any:
        note("review")
        return x, nbc.pause("Fine?", name="fine")

    @nbc.flow
    def reviewed() -> Any:
        return review(1)

    paused = asked(reviewed)
    assert [step.status for step in latest(store).steps()] == ["paused", "paused"]
    store.answer(paused.run, "fine", True)
    assert reviewed() == (1, True)


def test_two_questions_of_one_name_in_different_steps(store: Store) -> None:
    @nbc.step
    def review(n: int) -> Any:
        return nbc.pause(f"Is {n} fine?", name="fine")

    @nbc.flow
    def both() -> Any:
        return [review(1), review(2)]

    run = asked(both).run
    store.answer(run, "fine", "a")
    second = asked(both)
    assert second.pause == "review#2/fine#1"
    store.answer(run, second.pause, "b")
    assert both() == ["a", "b"]


def test_what_happens_is_told(store: Store) -> None:
    told: list[str] = []
    stop = subscribe(lambda event: told.append(event.type))
    paused = asked(gated)
    store.answer(paused.run, "gate", 1)
    stop()
    assert [type for type in told if "pause" in type] == ["pause_opened", "run_paused", "pause_answered"]

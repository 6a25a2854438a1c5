"""What was asked of runs, steps, pauses, events and retention, row by row, where no other test says it already.

The number in a docstring names the row.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.errors import NotFound, StoreFull
from nbcheckpoint.events import Event, subscribe
from nbcheckpoint.model import Run
from nbcheckpoint.store import Store
from tests.flows.bodies import note

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@nbc.step
def double(n: int) -> int:
    note(f"double {n}")
    return n * 2


@nbc.step
def add(a: int, b: int) -> int:
    note(f"add {a} {b}")
    return a + b


@nbc.flow(tags=("nightly",))
def sums(n: int) -> int:
    return add(double(n), double(n + 1))


@nbc.flow
def other(n: int) -> int:
    return double(n)


def latest(store: Store) -> Run:
    return store.runs(limit=1)[0]


def test_everything_a_run_was_and_made_is_kept(store: Store) -> None:
    """000-3, 002-1, 003-9: the inputs, what every step returned, the result; all of it can be loaded again."""
    assert sums(3) == 14
    flow, *steps = latest(store).steps()
    assert store.restore(flow.checkpoint) == {"args": (3,), "kwargs": {}, "result": 14}
    assert [store.restore(step.checkpoint)["result"] for step in steps] == [6, 8, 14]


def test_workflows_of_one_store_keep_to_themselves(store: Store) -> None:
    """000-4: each has its runs and its steps, and resumes its own."""

    @nbc.flow
    def broken(n: int) -> int:
        raise OSError(str(double(n)))

    sums(1)
    with pytest.raises(OSError, match="8"):
        broken(4)
    other(9)
    assert {run.workflow: len(run.steps()) for run in store.runs()} == {"sums": 4, "broken": 2, "other": 2}
    assert len({run.id for run in store.runs()}) == 3
    with pytest.raises(NotFound, match="no run of sums waits"):
        sums.resume()


def test_a_question_has_a_name_a_prompt_and_an_answer(store: Store) -> None:
    """000-6, 000-8, 002-9: and they stand in the record of a step of a run with an id of its own."""

    @nbc.flow
    def gate() -> Any:
        return nbc.pause("Go on?", name="gate", choices=["yes", "no"])

    with pytest.raises(nbc.Paused) as asked:
        gate()
    step = latest(store).steps()[1]
    assert (asked.value.run, asked.value.pause) == (latest(store).id, "gate")
    assert (step.kind, step.status, step.meta["pause"]["prompt"]) == ("pause", "paused", "Go on?")
    assert "answer" not in step.meta
    store.answer(asked.value.run, "gate", "no")
    answer = latest(store).steps()[1].meta["answer"]
    assert answer["value"] == "no"
    assert TIME.fullmatch(answer["at"])


def test_what_the_store_does_with_what_is_not_there(store: Store) -> None:
    """000-7, 004-2: looking for it is an error that names it, deleting it is none."""
    with pytest.raises(NotFound, match="no checkpoint nothing"):
        store.checkpoint("nothing")
    assert store.delete_checkpoint("nothing") is False
    with pytest.raises(NotFound, match="no run nothing"):
        store.run("nothing")
    assert store.runs(workflow="nothing") == []
    assert len(store.prune().runs) == 0


def test_runs_are_found_by_what_is_known_of_them(store: Store) -> None:
    """000-21, 001-14: by workflow, status, tag and text, the newest first."""
    sums(1)
    other(1)
    other(2)
    assert [run.workflow for run in store.runs()] == ["other", "other", "sums"]
    assert [run.inputs for run in store.runs(workflow="other")] == [{"n": "2"}, {"n": "1"}]
    assert [run.workflow for run in store.runs(tag="nightly")] == ["sums"]
    assert store.runs(status="failed") == []
    assert len(store.runs(status="completed", limit=2)) == 2
    assert [run.workflow for run in store.runs(text="SUM")] == ["sums"]


def test_a_later_edge_is_not_reached_twice(store: Store, ran: list[Any]) -> None:
    """002-13, 003-19: stopped behind the second of four, it goes on with the third: none skipped, none repeated."""
    stops = [2, 3, 1]

    @nbc.flow
    def four() -> list[int]:
        done = []
        for n in range(4):
            done.append(double(n))
            if stops and n + 1 == stops[0]:
                stops.pop(0)
                raise InterruptedError(n)
        return done

    for seen in (["double 0", "double 1"], ["double 2"]):
        ran.clear()
        with pytest.raises(InterruptedError):
            four()
        assert ran == seen
    stops.clear()
    ran.clear()
    assert four() == [0, 2, 4, 6]
    assert ran == ["double 3"]


def test_ids_can_be_put_in_order(store: Store) -> None:
    """002-2: an id tells when; nothing else has to be read for that."""
    for n in range(5):
        other(n)
    made = [run.id for run in store.runs()]
    assert made == sorted(made, reverse=True)
    assert len(set(made)) == 5


def test_what_is_saved_and_what_is_not_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """002-10, 002-11, C1: checkpoint_saved, checkpoint_failed; and the flow goes on."""
    told: list[Event] = []
    stop = subscribe(told.append)
    other(1)
    saved = [event for event in told if event.type == "checkpoint_saved" and event.step == "000001"]
    assert len(saved) == 1
    assert saved[0].data["checkpoint"] == latest(store).steps()[1].checkpoint
    assert TIME.fullmatch(saved[0].time)
    told.clear()

    def full(*args: Any, **kwargs: Any) -> Any:
        raise StoreFull("no space left")

    monkeypatch.setattr(store, "_stage", full)
    with pytest.warns(UserWarning, match="no space left"):
        assert other(2) == 4
    stop()
    assert {event.data["error"] for event in told if event.type == "checkpoint_failed"} == {"no space left"}
    step = latest(store).steps()[1]
    assert (step.status, step.checkpoint) == ("completed", "")
    assert "no space left" in step.meta["problem"]


def test_a_record_says_by_itself_what_it_is(store: Store) -> None:
    """003-2, 003-4, 004-1: read without loading a value: step, attempt, how long, when in UTC, and the marks."""

    @nbc.step
    def stage() -> bytes:
        nbc.mark(stage="validated")
        return b"x" * 100_000

    @nbc.flow
    def marked() -> int:
        return len(stage())

    marked()
    run = latest(store)
    step = run.steps()[1]
    kept = store.checkpoint(step.checkpoint)
    assert (kept.run, kept.step, kept.name, step.attempt) == (run.id, step.address, "stage", 1)
    assert kept.meta["marks"] == step.meta["marks"] == {"stage": "validated"}
    assert kept.seconds == step.seconds > 0
    assert TIME.fullmatch(kept.created)
    assert TIME.fullmatch(step.started)
    assert TIME.fullmatch(run.created)
    assert len(step.to_json()) + len(kept.to_json()) < 10_000, "the value is not in it"


def test_a_loop_saves_now_and_then_and_stops_when_it_is_good_enough(store: Store, ran: list[Any]) -> None:
    """003-12, 003-13: every ten epochs, until the accuracy is reached; the counter goes on after an interruption."""

    @nbc.flow
    def train() -> tuple[int, float]:
        state = {"accuracy": 0.0, "epochs": 0}
        for epoch in nbc.loop(range(1000), name="train", state=state, every=10):
            if note(epoch) == 26:
                raise InterruptedError
            state["accuracy"] += 0.02
            state["epochs"] += 1
            if state["accuracy"] >= 0.95:
                break
        return int(state["epochs"]), round(state["accuracy"], 2)

    with pytest.raises(InterruptedError):
        train()
    assert ran[-1] == 25
    ran.extend(ran)  # it counts them
    assert train() == (48, 0.96)
    assert ran[52] == 20


def test_what_a_step_was_given_is_not_what_is_kept(store: Store) -> None:
    """000-22, 004-12: changing it afterwards changes no checkpoint."""

    @nbc.step
    def rows(n: int) -> list[int]:
        return [n]

    @nbc.flow
    def changing() -> list[int]:
        found = rows(1)
        found.append(2)
        return found

    assert changing() == [1, 2]
    step = latest(store).steps()[1]
    assert store.restore(step.checkpoint)["result"] == [1]
    assert changing() == [1, 2]

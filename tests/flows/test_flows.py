"""A flow goes on where it was: after a failure, an interrupt, a pause, an edit, a fork."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.engine import policy
from nbcheckpoint.errors import Changed, Interrupted, NotFound, RunBusy, StoreDamaged, Untrusted, UsageError
from nbcheckpoint.events import subscribe
from nbcheckpoint.model import Run, Step
from nbcheckpoint.store import Store
from tests.flows.bodies import note

TROUBLE: dict[str, BaseException] = {}
"""Step -> what it raises. Not an input of any step: looked up behind their backs."""


def trouble(name: str) -> None:
    import sys

    error = sys.modules["tests.flows.test_flows"].TROUBLE.get(name)
    if error is not None:
        raise error


@pytest.fixture(autouse=True)
def _no_trouble() -> Any:
    TROUBLE.clear()
    yield
    TROUBLE.clear()


@nbc.step
def work(n: int) -> int:
    note(n)
    trouble(f"work{n}")
    return n * 10


@nbc.flow
def ten(count: int = 10) -> list[int]:
    return [work(n) for n in range(1, count + 1)]


def latest(store: Store) -> Run:
    return store.runs(limit=1)[0]


class RateLimit(Exception):
    status_code = 429


def test_ten_steps_the_ninth_fails_and_only_nine_and_ten_run(store: Store, ran: list[Any]) -> None:
    """001-1: the headline."""
    TROUBLE["work9"] = RateLimit("slow down")
    with pytest.raises(RateLimit) as told:
        ten()
    run = latest(store)
    assert run.status == "failed"
    assert told.value.__notes__ == [  # type: ignore[attr-defined]  # 3.11 has it on all exceptions
        f"nbcheckpoint: 8 finished steps are saved; to go on from there: call it again, or ten.resume({run.id!r})"
    ]
    TROUBLE.clear()
    ran.clear()
    assert ten() == [n * 10 for n in range(1, 11)]
    assert ran == [9, 10]
    again = latest(store)
    assert (again.id, again.status, again.sessions, again.counts) == (run.id, "completed", 2, {"completed": 10})


def test_a_finished_run_is_not_continued_but_shares_what_it_has(store: Store, ran: list[Any]) -> None:
    ten(2)
    ten(2)
    ten(3)
    assert ran == [1, 2, 3]
    assert len({run.id for run in store.runs()}) == 3


def test_resuming_a_finished_run_returns_its_result(store: Store, ran: list[Any]) -> None:
    """004-8, C8: no error, no work; strict says so."""
    ten(2)
    assert ten.resume(latest(store).id) == [10, 20]
    assert ran == [1, 2]
    with pytest.raises(UsageError, match="is complete"):
        ten.resume(latest(store).id, strict=True)


def test_resuming_by_id_uses_the_inputs_of_then(store: Store, ran: list[Any]) -> None:
    """002-3, 003-9."""
    TROUBLE["work2"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        ten(3)
    run = latest(store).id
    TROUBLE.clear()
    ten(1)
    assert ten.resume(run) == [10, 20, 30]


def test_the_inputs_of_then_are_those_before_the_flow_has_changed_them(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def size(rows: list[int]) -> int:
        return len(rows)

    @nbc.flow
    def growing(rows: list[int], *, more: list[int]) -> list[int]:
        rows.append(size(rows))
        more.append(9)
        return rows + more

    assert growing([1, 2], more=[8]) == [1, 2, 2, 8, 9]
    run = latest(store).id
    assert growing.resume(run, start_at="size") == [1, 2, 2, 8, 9]
    assert growing.resume(store.fork(run, at="size").id) == [1, 2, 2, 8, 9]
    assert growing.resume(run) == [1, 2, 2, 8, 9]


def test_resuming_by_name_takes_the_latest_that_is_not_complete(store: Store, ran: list[Any]) -> None:
    with pytest.raises(NotFound, match="no run of ten waits"):
        ten.resume()
    TROUBLE["work2"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        ten(2)
    ten(1)
    TROUBLE.clear()
    assert ten.resume() == [10, 20]


class Trainer:
    def __init__(self, rate: int) -> None:
        self.rate = rate

    @nbc.flow
    def train(self, n: int) -> int:
        return work(n) * self.rate


def test_a_flow_may_be_a_method(store: Store, ran: list[Any]) -> None:
    TROUBLE["work4"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        Trainer(2).train(4)
    TROUBLE.clear()
    assert Trainer(2).train(4) == 80
    assert len(store.runs()) == 1
    assert Trainer(3).train(4) == 120, "another instance is another input"
    assert len(store.runs()) == 2


def test_the_run_to_continue_is_found_behind_many_others(store: Store, ran: list[Any]) -> None:
    TROUBLE["work2"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        ten(2)
    waiting = latest(store).id
    for _ in range(120):
        store.update_run(store.begin_run("ten", kind="flow").id, status="completed", owner=None)
    TROUBLE.clear()
    assert ten(2) == [10, 20]
    assert store.run(waiting).status == "completed"


def test_an_unknown_run_and_one_of_another_flow(store: Store) -> None:
    """000-9."""
    with pytest.raises(NotFound, match="no run 20260101"):
        ten.resume("20260101T000000000-000000")
    other = store.begin_run("other", kind="flow")
    with pytest.raises(UsageError, match="is one of other, not of ten"):
        ten.resume(other.id)


def test_a_run_somebody_is_working_on_is_left_alone(store: Store, ran: list[Any]) -> None:
    TROUBLE["work2"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        ten(2)
    from nbcheckpoint.store.liveness import this_process

    run = store.update_run(latest(store).id, status="running", owner=this_process())
    with pytest.raises(RunBusy, match="is at work on run"):
        ten.resume(run.id)
    TROUBLE.clear()
    assert ten(2) == [10, 20], "calling it begins another"
    assert latest(store).id != run.id


def test_a_run_signed_by_a_stranger_is_refused(store: Store, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ten(1)
    run = latest(store).id
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "stranger"))
    with nbc.open_store(tmp_path / "store") as other, pytest.raises(Untrusted):
        ten.options(store=other).resume(run)


def test_what_was_saved_is_damaged_and_computed_anew(store: Store, ran: list[Any], monkeypatch: Any) -> None:
    """002-12."""
    TROUBLE["work2"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        ten(2)
    TROUBLE.clear()
    ran.clear()
    real = store.restore

    def damaged(id: str, *args: Any, **kwargs: Any) -> Any:
        if store.checkpoint(id).name == "work":
            raise StoreDamaged("bit rot")
        return real(id, *args, **kwargs)

    monkeypatch.setattr(store, "restore", damaged)
    assert ten(2) == [10, 20]
    assert ran == [1, 2]


def test_what_a_flow_ignores_is_no_input_of_it(store: Store, ran: list[Any]) -> None:
    """A connection, a client: another one goes on with the same run, and may change while it is used."""

    @nbc.step(ignore=("client",))
    def ask(n: int, client: list[int]) -> int:
        note(n)
        client.append(n)
        if len(client) > 2:
            raise OSError("enough")
        return n

    @nbc.flow(ignore=("client",))
    def asking(client: list[int]) -> list[int]:
        return [ask(n, client) for n in range(4)]

    with pytest.raises(OSError, match="enough"):
        asking([])
    assert asking([]) == [0, 1, 2, 3]
    assert ran == [0, 1, 2, 2, 3]
    assert len(store.runs()) == 1


def test_fresh_computes_everything(store: Store, ran: list[Any]) -> None:
    ten(2)
    assert ten.fresh(2) == [10, 20]
    assert ran == [1, 2, 1, 2]


def test_fresh_goes_on_where_it_was_too(store: Store, ran: list[Any]) -> None:
    ten(2)
    TROUBLE["work2"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        ten.fresh(2)
    TROUBLE.clear()
    ran.clear()
    assert ten(2) == [10, 20]
    assert ran == [2], "what the fresh run has computed counts for it; what came before does not"


def test_an_interrupt_is_written_down(store: Store, ran: list[Any]) -> None:
    """001-2: Ctrl-C, then resume."""
    TROUBLE["work2"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ten(2)
    assert latest(store).status == "interrupted"
    assert [step.status for step in latest(store).steps()] == ["interrupted", "completed", "interrupted"]
    TROUBLE.clear()
    assert ten(2) == [10, 20]


def test_start_at_takes_what_was_before_and_computes_the_rest(store: Store, ran: list[Any]) -> None:
    """003-11."""

    @nbc.step
    def a() -> int:
        note("a")
        return 1

    @nbc.step
    def b(x: int) -> int:
        note("b")
        return x + 1

    @nbc.flow
    def both() -> int:
        return b(a())

    both()
    ran.clear()
    assert both.resume(latest(store).id, start_at="b") == 2
    assert ran == ["b"]


def test_starting_at_a_step_that_failed_computes_what_is_behind_it_too(store: Store, ran: list[Any]) -> None:
    TROUBLE["work2"] = OSError("gone")
    with pytest.warns(UserWarning, match="goes on without"):
        ten.options(on_failure="continue")(3)
    TROUBLE.clear()
    ran.clear()
    assert ten.resume(latest(store).id, start_at="work#2") == [10, 20, 30]
    assert ran == [2, 3]


def test_starting_at_what_is_no_step_says_what_there_is(store: Store, ran: list[Any]) -> None:
    ten(2)
    run = latest(store)
    with pytest.raises(UsageError, match=f"run {run.id} has no step 'wrok'") as told:
        ten.resume(run.id, start_at="wrok")
    assert told.value.hint == "its steps are: work"
    assert latest(store) == run, "nothing was touched"


@nbc.step
def item(n: int) -> int:
    note(f"item {n}")
    return n * n


@nbc.step
def total(parts: list[int]) -> int:
    note("total")
    return sum(parts)


@nbc.flow
def mapped(count: int) -> int:
    return total(item.map(range(work(count) // 10), progress=False))


@pytest.mark.parametrize("start", ["item", "item[]#1", "000002"])
def test_starting_at_a_map_computes_all_its_items_and_what_is_behind(store: Store, ran: list[Any], start: str) -> None:
    """003-11."""
    assert mapped(3) == 5
    assert ran == [3, "item 0", "item 1", "item 2", "total"]
    ran.clear()
    assert mapped.resume(latest(store).id, start_at=start) == 5
    assert ran == ["item 0", "item 1", "item 2", "total"]
    ran.clear()
    assert mapped.resume(latest(store).id, start_at="total") == 5
    assert ran == ["total"]


@nbc.step(scope="run")
def inner(n: int) -> int:
    note(f"inner {n}")
    return n


@nbc.step(scope="run")
def outer(n: int) -> int:
    note("outer")
    return inner(n) + inner(n + 1)


@nbc.flow
def nesting() -> int:
    return work(1) + outer(1) + inner(9)


def test_starting_inside_of_a_step_runs_that_step_up_to_there(store: Store, ran: list[Any]) -> None:
    assert nesting() == 22
    ran.clear()
    assert nesting.resume(latest(store).id, start_at="outer#1/inner#2") == 22
    assert ran == ["outer", "inner 2", "inner 9"]


def test_starting_at_a_question_keeps_its_answer(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    def asking() -> Any:
        return work(1), nbc.pause(name="gate"), work(2)

    with pytest.raises(nbc.Paused):
        asking()
    store.answer(latest(store).id, "gate", "yes")
    assert asking() == (10, "yes", 20)
    ran.clear()
    assert asking.resume(latest(store).id, start_at="gate") == (10, "yes", 20)
    assert ran == [2]


def test_a_loop_behind_the_start_begins_anew(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def train(n: int) -> int:
        state = {"sum": 0}
        for k in nbc.loop(range(n), name="train", state=state, every=1):
            note(k)
            state["sum"] += k
        return state["sum"]

    @nbc.flow
    def training() -> int:
        return train(3)

    assert training() == 3
    assert training.resume(latest(store).id, start_at="train") == 3
    assert ran == [0, 1, 2, 0, 1, 2]


def test_a_start_that_is_not_reached_is_told(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    def either() -> int:
        return work(1) if sys.modules["tests.flows.test_flows"].TROUBLE else item(1)

    TROUBLE["another way"] = OSError()
    either()
    TROUBLE.clear()
    with pytest.warns(UserWarning, match="work#1 was not called"):
        assert either.resume(latest(store).id, start_at="work") == 1


def test_branches_and_loops_are_python(store: Store, ran: list[Any]) -> None:
    @nbc.step(scope="run")
    def coin(n: int) -> bool:
        note(("coin", n))
        return n < 3

    @nbc.flow
    def walk() -> int:
        n = 0
        while coin(n):
            n += 1
            trouble(f"walk{n}")
        return n

    TROUBLE["walk2"] = ValueError("stumbled")
    with pytest.raises(ValueError, match="stumbled"):
        walk()
    TROUBLE.clear()
    ran.clear()
    assert walk() == 3
    assert ran == [("coin", 2), ("coin", 3)]


def test_scope_run_makes_each_call_its_own(store: Store, ran: list[Any]) -> None:
    @nbc.step(scope="run")
    def roll() -> int:
        return note("roll")

    @nbc.flow
    def game() -> list[int]:
        return [roll(), roll()]

    assert game() == [1, 2]
    assert game() == [3, 4], "another run is another game"
    assert game.resume(latest(store).id) == [3, 4]


def test_nested_flows_are_steps_of_the_outer_one(store: Store, ran: list[Any]) -> None:
    """003-18."""

    @nbc.flow
    def inner(n: int) -> int:
        return work(n) + work(n + 1)

    @nbc.flow
    def outer() -> int:
        return inner(1) + inner(5)

    TROUBLE["work6"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        outer()
    TROUBLE.clear()
    ran.clear()
    assert outer() == 140
    assert ran == [6]
    assert len(store.runs()) == 1
    shown = [(step.address, step.name) for step in latest(store).steps(inner=True)]
    assert shown == [
        ("000000", "outer"),
        ("000001", "inner"),
        ("000001.000000", "work"),
        ("000001.000001", "work"),
        ("000002", "inner"),
        ("000002.000000", "work"),
        ("000002.000001", "work"),
    ]


def test_a_step_that_is_inserted_leaves_the_others_where_they_were(store: Store, ran: list[Any]) -> None:
    """002-12, 003-16: the graph may change between two sessions."""
    TROUBLE["work3"] = OSError("gone")

    def make(more: bool) -> Any:
        @nbc.step(scope="run")
        def new() -> int:
            note("new")
            return 0

        @nbc.flow(name="edited")
        def edited() -> list[int]:
            return [*([new()] if more else []), work(1), work(2), work(3)]

        return edited

    with pytest.raises(OSError, match="gone"):
        make(False)()
    TROUBLE.clear()
    ran.clear()
    assert make(True)() == [0, 10, 20, 30]
    assert ran == ["new", 3]


def test_a_step_that_is_gone_stays_listed_as_detached(store: Store, ran: list[Any]) -> None:
    def make(names: list[int]) -> Any:
        @nbc.flow(name="edited")
        def edited() -> list[int]:
            return [work.options(name=f"work {n}")(n) for n in names]

        return edited

    TROUBLE["work3"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        make([1, 2, 3])()
    TROUBLE.clear()
    make([1, 3])()
    found = {step.name: bool(step.meta.get("detached")) for step in latest(store).steps()}
    assert found == {"edited": False, "work 1": False, "work 2": True, "work 3": False}


# Changed code


def edited(factor: int, *, then: BaseException | None = None, **policies: Any) -> Any:
    space: dict[str, Any] = {"nbc": nbc, "note": note, "__name__": "tests.flows.made", "trouble": trouble}
    exec(
        f"""
@nbc.step
def scale(x):
    note('scale')
    return x * {factor}

@nbc.step
def sign(x):
    note('sign')
    return x > 0

@nbc.step
def report(positive):
    note('report')
    trouble('report')
    return f'positive: {{positive}}'

@nbc.flow(**policies)
def analysis(x):
    return report(sign(scale(x)))
""",
        space | {"policies": policies},
        space := space | {"policies": policies},
    )
    for name in ("scale", "sign", "report"):
        space["analysis"].spec.function.__globals__[name] = space[name]
    return space["analysis"]


def interrupted_analysis(ran: list[Any]) -> None:
    TROUBLE["report"] = OSError("printer")
    with pytest.raises(OSError, match="printer"):
        edited(2)(4)
    TROUBLE.clear()
    ran.clear()


def test_changed_code_is_computed_anew_and_no_more_than_that(store: Store, ran: list[Any]) -> None:
    """C10 invalidate, with early cut-off: what `sign` returns is what it was, so nothing behind it runs for that."""
    interrupted_analysis(ran)
    told: list[str] = []
    stop = subscribe(lambda event: told.append(f"{event.type} {event.data.get('name')}"))
    assert edited(3)(4) == "positive: True"
    stop()
    assert ran == ["scale", "sign", "report"]
    assert "step_invalidated scale" in told
    reason = next(step.reason for step in latest(store).steps() if step.name == "scale")
    assert reason is not None
    assert (reason.code, reason.text) == ("code", "scale() changed")


def test_early_cut_off(store: Store, ran: list[Any]) -> None:
    interrupted_analysis(ran)
    assert edited("2 + 0")(4) == "positive: True"
    assert ran == ["scale", "report"], "it returns what it returned before, so what follows is what it was"


def test_strict_stops_at_changed_code(store: Store, ran: list[Any]) -> None:
    interrupted_analysis(ran)
    with pytest.raises(Changed, match=r"scale of run .* is not what it was: scale\(\) changed"):
        edited(3, on_change="strict")(4)
    assert ran == []


def test_trust_takes_what_was_saved(store: Store, ran: list[Any]) -> None:
    interrupted_analysis(ran)
    assert edited(-1, on_change="trust")(4) == "positive: True"
    assert ran == ["report"]


def test_trust_minds_no_argument_that_is_ignored(store: Store, ran: list[Any]) -> None:
    def make(text: str) -> Any:
        space: dict[str, Any] = {"nbc": nbc, "note": note, "trouble": trouble, "__name__": "tests.flows.made"}
        exec(f"@nbc.step(ignore=('log',))\ndef f(x, log):\n    note('f')\n    return {text}", space)
        exec("@nbc.flow(ignore=('log',))\ndef g(x, log):\n    y = f(x, log)\n    trouble('g')\n    return y", space)
        return space["g"]

    TROUBLE["g"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        make("x")(1, "first")
    TROUBLE.clear()
    ran.clear()
    assert make("-x").options(on_change="trust")(1, "second") == 1
    assert ran == []


def test_trust_is_for_code_not_for_arguments(store: Store, ran: list[Any]) -> None:
    interrupted_analysis(ran)
    assert edited(-1, on_change="trust")(5) == "positive: False"


# Failures


def test_continue_goes_on_without_the_result(store: Store, ran: list[Any]) -> None:
    """001-9, C12."""
    TROUBLE["work2"] = OSError("gone")
    with pytest.warns(UserWarning, match="the flow goes on without its result"):
        assert ten.options(on_failure="continue")(3) == [10, None, 30]
    assert [step.status for step in latest(store).steps()] == ["completed", "completed", "failed", "completed"]


def test_rollback_leaves_nothing(store: Store, ran: list[Any]) -> None:
    TROUBLE["work2"] = OSError("gone")
    with pytest.raises(OSError, match="gone") as told:
        ten.options(on_failure="rollback")(2)
    assert "rolled back" in told.value.__notes__[0]  # type: ignore[attr-defined]
    assert store.runs() == []
    assert store.backend.scan("checkpoint/") == []


def test_on_success_delete_leaves_nothing(store: Store, ran: list[Any]) -> None:
    """004-6, C3."""
    assert ten.options(on_success="delete")(2) == [10, 20]
    assert store.runs() == []


@pytest.mark.parametrize(("every", "saved"), [(1, 6), (3, 2), (0, 0), ("1h", 0)])
def test_every_says_how_often_to_save(store: Store, ran: list[Any], every: Any, saved: int) -> None:
    """003-17, C5."""
    ten.options(every=every)(6)
    done = [step for step in latest(store).steps() if step.name == "work"]
    assert sum(bool(step.checkpoint) for step in done) == saved
    ran.clear()
    assert ten.resume(latest(store).id) == [n * 10 for n in range(1, 7)], "the end is always saved"
    assert ran == []


def test_manual_saves_what_is_marked(store: Store, ran: list[Any]) -> None:
    """001-3, 003-1: deferred, with the metadata."""

    @nbc.step
    def stage(n: int) -> int:
        note(n)
        if n == 2:
            nbc.mark(stage="validated", rows=7)
        return n

    @nbc.flow(granularity="manual")
    def stages() -> list[int]:
        return [stage(n) for n in (1, 2, 3)]

    stages()
    steps = latest(store).steps()[1:]
    assert [bool(step.checkpoint) for step in steps] == [False, True, False]
    assert steps[1].meta["marks"] == {"stage": "validated", "rows": 7}
    assert store.checkpoint(steps[1].checkpoint).meta["marks"] == {"stage": "validated", "rows": 7}


def test_a_step_that_fails_has_marked_nothing(store: Store) -> None:
    @nbc.step
    def stage() -> None:
        nbc.mark(stage="validated")
        raise OSError("gone")

    @nbc.flow
    def stages() -> None:
        stage()

    with pytest.raises(OSError, match="gone"):
        stages()
    assert "marks" not in latest(store).steps()[1].meta


# Interrupted steps: as another process would find them


def cut_short(store: Store, ran: list[Any], flow: Any, step: str) -> None:
    """The record of that step says it is running, and whoever ran it is gone."""
    run = latest(store)
    found = next(s for s in run.steps() if s.name == step)
    from msgspec.structs import replace

    store.put_step(replace(found, status="running", checkpoint="", error=""))
    store.update_run(run.id, status="interrupted", owner=None)
    ran.clear()


def charging(**options: Any) -> Any:
    @nbc.step(**options)
    def charge() -> str:
        note("charge")
        trouble("charge")
        return "paid"

    @nbc.flow
    def shop() -> Any:
        return charge()

    TROUBLE["charge"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        shop()
    TROUBLE.clear()
    return shop


@pytest.mark.parametrize(
    ("options", "result", "bodies"),
    [
        ({}, "paid", 1),
        ({"on_interrupted": "rerun", "side_effects": True}, "paid", 1),
        ({"on_interrupted": "skip"}, None, 0),
    ],
)
def test_a_step_that_was_running_when_its_process_died(
    store: Store, ran: list[Any], options: Any, result: Any, bodies: int
) -> None:
    """001-6, C2."""
    shop = charging(**options)
    cut_short(store, ran, shop, "charge")
    assert shop() == result
    assert len(ran) == bodies


def test_fail_refuses_to_repeat(store: Store, ran: list[Any]) -> None:
    shop = charging(on_interrupted="fail")
    cut_short(store, ran, shop, "charge")
    with pytest.raises(Interrupted, match="charge of run"):
        shop()
    assert ran == []


@pytest.mark.parametrize(("answer", "result", "bodies"), [("rerun", "paid", 1), ("skip", None, 0)])
def test_side_effects_are_not_repeated_without_asking(
    store: Store, ran: list[Any], answer: str, result: Any, bodies: int
) -> None:
    shop = charging(side_effects=True)
    cut_short(store, ran, shop, "charge")
    with pytest.raises(nbc.Paused, match="may have done its work") as asked:
        shop()
    assert ran == []
    store.answer(asked.value.run, asked.value.pause, answer)
    assert shop() == result
    assert len(ran) == bodies


def test_the_idempotency_key_is_the_same_for_every_attempt(store: Store, ran: list[Any]) -> None:
    @nbc.step(side_effects=True, on_interrupted="rerun")
    def charge(n: int) -> None:
        here = nbc.current()
        assert here is not None
        note((n, here.idempotency_key, here.attempt))
        trouble(f"charge{n}")

    @nbc.flow
    def shop() -> None:
        charge(1)
        charge(2)

    TROUBLE["charge2"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        shop()
    TROUBLE.clear()
    shop()
    first, second, again = ran
    assert (first[0], second[0], again[0]) == (1, 2, 2)
    assert second[1] == again[1] != first[1]
    assert again[2] == second[2] + 1
    shop()
    assert ran[-1][1] != again[1], "another run is another order"


# Looking


def test_data_flow_is_recorded(store: Store) -> None:
    @nbc.step
    def part(n: int) -> list[int]:
        return [n]

    @nbc.step
    def join(a: list[int], b: dict[str, list[int]]) -> int:
        return len(a) + len(b)

    @nbc.flow
    def diamond() -> int:
        return join(part(1), {"b": part(2)})

    diamond()
    drawn = {(edge.source, edge.target) for edge in latest(store).graph.edges}
    assert drawn == {("000001", "000002"), ("000001", "000003"), ("000002", "000003")}


def test_arrays_and_tables_go_from_step_to_step(store: Store, ran: list[Any]) -> None:
    """What a step returns is looked for among the arguments of the next, and an array compares itself item by item."""
    import numpy as np
    import pandas as pd

    @nbc.step
    def rows(n: int) -> Any:
        note("rows")
        return np.arange(n)

    @nbc.step
    def table(values: Any) -> Any:
        note("table")
        return pd.DataFrame({"a": values})

    @nbc.step
    def column(frame: Any) -> Any:
        note("column")
        return frame["a"]

    @nbc.flow
    def analysis() -> int:
        found = column(table(rows(4)))
        if note("behind") == 4:
            raise OSError("gone")
        return int(found.sum())

    with pytest.raises(OSError, match="gone"):
        analysis()
    assert analysis() == 6
    assert ran == ["rows", "table", "column", "behind", "behind"]
    edges = [(edge.source, edge.target) for edge in latest(store).graph.edges]
    assert edges == [("000001", "000002"), ("000002", "000003")]


def test_the_record_of_a_run_says_with_what_it_was_made(store: Store) -> None:
    """000-5, 001-11, 002-1, 004-13."""
    ten(1)
    run = latest(store)
    assert run.kind == "flow"
    assert run.inputs == {"count": "1"}
    assert run.meta["environment"]["python"]
    step = run.steps()[1]
    assert {"slot", "host", "pid", "after"} <= step.meta.keys()
    assert isinstance(step, Step)
    assert step.seconds > 0


def test_settings_come_from_the_nearest_that_has_them(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """001-8: Call > step > flow > notebook > project > environment > default."""
    monkeypatch.chdir(tmp_path)
    assert policy.resolve().on_failure == "pause"
    monkeypatch.setenv("NBCHECKPOINT_ON_FAILURE", "continue")
    assert policy.resolve().on_failure == "continue"
    (tmp_path / "pyproject.toml").write_text('[tool.nbcheckpoint]\non_failure = "rollback"\n')
    assert policy.resolve().on_failure == "rollback"
    monkeypatch.setattr(policy, "notebooks", [lambda: {"on_failure": "pause"}])
    assert policy.resolve().on_failure == "pause"
    flow, step, call = {"on_failure": "continue"}, {"on_failure": "rollback"}, {"on_failure": "pause"}
    assert policy.resolve(flow).on_failure == "continue"
    assert policy.resolve(step, flow).on_failure == "rollback"
    assert policy.resolve(call, step, flow).on_failure == "pause"
    monkeypatch.setenv("NBCHECKPOINT_ON_FAILURE", "explode")
    with pytest.raises(UsageError, match="in the environment on_failure is 'explode'"):
        policy.resolve()


def test_cancelling_stops_before_the_next_step(store: Store, ran: list[Any]) -> None:
    """004-11."""

    @nbc.flow
    def long() -> list[int]:
        done = []
        for n in range(5):
            done.append(work(n))
            if n == 2:
                here = nbc.current()
                assert here is not None
                store.cancel(here.run)
                store_noted(here.run)
        return done

    def store_noted(run: str) -> None:
        from nbcheckpoint.engine.context import frame

        here = frame()
        assert here is not None
        here.journal._noted = 0.0

    from nbcheckpoint.errors import Cancelled

    with pytest.raises(Cancelled):
        long()
    assert latest(store).status == "cancelled"
    assert ran == [0, 1, 2]
    ten(1)
    complete = latest(store).id
    with pytest.raises(UsageError, match="is complete"):
        store.cancel(complete)


def test_plan_says_beforehand_what_would_run(store: Store, ran: list[Any]) -> None:
    interrupted_analysis(ran)
    rows = {row.name: (row.action, row.why) for row in edited(2).plan()}
    assert rows["scale"][0] == rows["sign"][0] == "restore"
    assert rows["report"] == ("run", "it failed: OSError: printer")
    rows = {row.name: (row.action, row.why) for row in edited(3).plan()}
    assert rows["scale"] == ("run", "scale() changed")
    assert rows["sign"][0] == "may run"
    assert ran == []

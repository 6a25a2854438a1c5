"""A graph walks from node to node, and goes on behind the last one it finished."""

from __future__ import annotations

import random
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.errors import Cancelled, Changed, GraphError, NotFound, UsageError
from nbcheckpoint.events import subscribe
from nbcheckpoint.store import Store
from tests.flows.bodies import note
from tests.flows.test_flows import TROUBLE, latest, trouble

State = dict[str, Any]


@pytest.fixture(autouse=True)
def _no_trouble() -> Any:
    TROUBLE.clear()
    yield
    TROUBLE.clear()


def validate(state: State) -> State:
    note("validate")
    return {**state, "ok": state["id"] > 0}


def pay(state: State) -> None:
    note("pay")
    state["paid"] = True
    trouble("pay")


def ship(state: State) -> State:
    note("ship")
    trouble("ship")
    return {**state, "shipped": True}


def reject(state: State) -> State:
    note("reject")
    return {**state, "rejected": True}


def orders(**options: Any) -> nbc.Graph:
    g = nbc.Graph("orders", **options)
    g.node("validate", validate)
    g.node("pay", pay)
    g.node("ship", ship)
    g.node("reject", reject)
    g.edge("validate", "pay", when=lambda s: s["ok"]).edge("validate", "reject").edge("pay", "ship")
    return g.entry("validate").exit("ship", "reject")


def test_the_first_edge_that_is_true_is_taken(store: Store, ran: list[Any]) -> None:
    assert orders().run({"id": 7}) == {"id": 7, "ok": True, "paid": True, "shipped": True}
    assert orders().run({"id": -1}) == {"id": -1, "ok": False, "rejected": True}
    assert ran == ["validate", "pay", "ship", "validate", "reject"]
    assert latest(store).kind == "graph"


def test_it_resumes_at_the_next_node(store: Store, ran: list[Any]) -> None:
    """004-4, 004-7, 000-22: neither skipped nor repeated."""
    TROUBLE["ship"] = OSError("no truck")
    with pytest.raises(OSError, match="no truck"):
        orders().run({"id": 7})
    run = latest(store)
    assert run.status == "failed"
    TROUBLE.clear()
    ran.clear()
    assert orders().resume(run.id)["shipped"]
    assert ran == ["ship"]


def test_running_it_again_goes_on_too(store: Store, ran: list[Any]) -> None:
    TROUBLE["ship"] = OSError("no truck")
    with pytest.raises(OSError, match="no truck"):
        orders().run({"id": 7})
    TROUBLE.clear()
    ran.clear()
    orders().run({"id": 7})
    assert ran == ["ship"]


def test_a_node_that_fails_half_way_leaves_the_state_as_it_was(store: Store, ran: list[Any]) -> None:
    """`pay` writes into its state, and then fails: the next attempt is given the state from before."""
    seen: list[Any] = []
    g = nbc.Graph("retry")
    g.node("pay", lambda s: _pay_twice(s), retries=1, backoff=0.001)
    g.entry("pay").exit("pay")
    assert g.run({"tries": 0}) == {"tries": 1}
    assert seen == []


_fails = [1]


def _pay_twice(state: State) -> State:
    import sys

    state["tries"] += 1
    left = sys.modules["tests.flows.test_graphs"]._fails
    if left:
        left.pop()
        raise TimeoutError("slow")
    return state


def test_the_state_given_is_not_touched(store: Store) -> None:
    given = {"id": 7, "items": []}
    orders().run(given)
    assert given == {"id": 7, "items": []}


def counting(limit: int = 1000, until: int = 10) -> nbc.Graph:
    g = nbc.Graph("count", max_iterations=limit)

    def add(state: State) -> State:
        note(state["n"] + 1)
        trouble(f"add{state['n'] + 1}")
        return {"n": state["n"] + 1}

    g.node("add", add)
    g.node("done", lambda s: s)
    g.edge("add", "done", when=lambda s: s["n"] >= until, label="enough").edge("add", "add", label="again")
    return g.entry("add").exit("done")


def test_cycles_are_walked_and_told(store: Store, ran: list[Any]) -> None:
    """004-9, 004-10."""
    told: list[str] = []
    stop = subscribe(lambda event: told.append(event.type))
    assert counting().run({"n": 0}) == {"n": 10}
    stop()
    assert told.count("cycle_detected") == 1
    assert told.count("graph_completed") == 1
    assert told.count("edge_evaluated") == 19


def test_counters_survive_a_resume(store: Store, ran: list[Any]) -> None:
    """003-12, 004-14: the limit is for the whole run, not for each session."""
    TROUBLE["add6"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        counting(limit=8).run({"n": 0})
    TROUBLE.clear()
    with pytest.raises(GraphError, match="came to no end in 8 iterations"):
        counting(limit=8).resume()
    assert ran == [1, 2, 3, 4, 5, 6, 6, 7, 8]
    assert counting(limit=20).resume() == {"n": 10}
    assert ran[-2:] == [9, 10]


@pytest.mark.parametrize(("every", "again"), [(1, [8]), (3, [7, 8]), (5, [6, 7, 8]), (0, [1, 2, 3, 4, 5, 6, 7, 8])])
def test_the_interval_says_what_is_walked_again(store: Store, ran: list[Any], every: int, again: list[int]) -> None:
    """004-3: 0 is off."""
    TROUBLE["add8"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        counting().run({"n": 0}, every=every)
    TROUBLE.clear()
    ran.clear()
    assert counting().resume(every=every) == {"n": 10}
    assert ran == [*again, 9, 10]


@pytest.mark.parametrize("every", [0, 4])
def test_the_last_state_is_always_saved(store: Store, ran: list[Any], every: int) -> None:
    """004-14."""
    counting().run({"n": 0}, every=every)
    ran.clear()
    assert counting().resume(latest(store).id) == {"n": 10}
    assert ran == []


def test_preserve_false_removes_a_run_that_came_to_its_end(store: Store) -> None:
    assert counting().run({"n": 0}, preserve=False) == {"n": 10}
    assert store.runs() == []


def test_a_decision_is_kept_unless_the_edges_are_others(store: Store, ran: list[Any]) -> None:
    """004-7: recorded; asked again only if the code has changed."""

    def make(text: str) -> nbc.Graph:
        space: dict[str, Any] = {"note": note, "__name__": "tests.flows.made"}
        exec(f"def ask(s):\n    note('ask')\n    return {text}", space)
        g = nbc.Graph("asked")
        g.node("a", lambda s: s)
        g.node("b", lambda s: trouble("b") or {**s, "at": "b"})
        g.node("c", lambda s: {**s, "at": "c"})
        g.edge("a", "b", when=space["ask"]).edge("a", "c")
        return g.entry("a").exit("b", "c")

    TROUBLE["b"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        make("True").run({})
    TROUBLE.clear()
    ran.clear()
    failed = latest(store).id
    again = store.fork(failed, at="a")
    assert make("True").resume(failed) == {"at": "b"}
    assert ran == []
    assert make("False").resume(again.id) == {"at": "c"}
    assert ran == ["ask"]


def scaled(factor: int) -> nbc.Graph:
    space: dict[str, Any] = {"note": note, "trouble": trouble, "__name__": "tests.flows.made"}
    exec(f"def scale(s):\n    note('scale')\n    return {{**s, 'x': s['x'] * {factor}}}", space)
    g = nbc.Graph("scaled")
    g.node("read", lambda s: {**s, "x": 5 + 0 * note("read")})
    g.node("scale", space["scale"])
    g.node("high", lambda s: {**s, "high": True})
    g.node("low", lambda s: trouble("low") or {**s, "low": True})
    g.node("report", lambda s: trouble("report") or {**s, "done": True})
    g.edge("read", "scale").edge("scale", "high", when=lambda s: s["x"] > 12).edge("scale", "low")
    return g.edge("high", "report").edge("low", "report").entry("read").exit("report")


@pytest.mark.parametrize(
    ("said", "x", "bodies"), [("invalidate", 15, ["scale"]), ("trust", 10, []), ("strict", None, [])]
)
def test_a_node_whose_code_has_changed(store: Store, ran: list[Any], said: str, x: Any, bodies: list[str]) -> None:
    """C10: what it has led to no longer holds; what came before it does."""
    TROUBLE["report"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        scaled(2).run({})
    TROUBLE.clear()
    ran.clear()
    if said == "strict":
        with pytest.raises(Changed, match=r"scale\(\) changed"):
            scaled(3).resume(on_change=said)
    else:
        assert scaled(3).resume(on_change=said)["x"] == x
    assert ran == bodies


def test_what_a_changed_node_had_led_to_is_never_gone_on_from(store: Store, ran: list[Any]) -> None:
    """The first walk came as far as `high`. The second takes the other way and dies there: the third must not go on
    behind `high`, though that is the later visit and its code is what it was."""
    TROUBLE["report"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        scaled(3).run({})
    TROUBLE["low"] = OSError("gone again")
    with pytest.raises(OSError, match="gone again"):
        scaled(2).resume()
    TROUBLE.clear()
    assert scaled(2).resume() == {"x": 10, "low": True, "done": True}


def lottery() -> nbc.Graph:
    g = nbc.Graph("lottery")
    g.node("begin", lambda s: {**s, "begun": bool(note("begin"))})
    g.node("draw", lambda s: {**s, "drawn": [*s["drawn"], random.random() + 0 * note("draw")]})
    g.node("end", lambda s: trouble("end") or {**s, "last": random.random()})
    g.edge("begin", "draw").edge("draw", "draw", when=lambda s: len(s["drawn"]) < 2).edge("draw", "end")
    return g.entry("begin").exit("end")


@pytest.mark.parametrize(("seed", "again"), [(1, []), (2, ["draw", "draw"])])
def test_random_numbers_go_on_where_they_were(store: Store, ran: list[Any], seed: int, again: list[str]) -> None:
    """With another seed, what was drawn is drawn again."""
    before = random.getstate()
    for say in (OSError("gone"), OSError("gone again")):
        random.seed(1)
        TROUBLE["end"] = say
        with pytest.raises(OSError, match="gone"):
            lottery().run({"drawn": []})
    assert ran == ["begin", "draw", "draw"]
    TROUBLE.clear()
    ran.clear()
    random.seed(seed)
    found = lottery().run({"drawn": []})
    random.seed(seed)
    assert [*found["drawn"], found["last"]] == [random.random() for _ in range(3)]
    assert ran == again
    random.setstate(before)


def test_cancelling_is_heard_between_nodes(store: Store, ran: list[Any]) -> None:
    """004-11."""
    g = nbc.Graph("long")

    def first(state: State) -> State:
        here = nbc.current()
        assert here is not None
        nbc.open_store(state["url"]).cancel(here.run)
        return state

    g.node("first", first)
    g.node("second", lambda s: note("second"))
    g.edge("first", "second").entry("first").exit("second")
    with pytest.raises(Cancelled):
        g.run({"url": store.url})
    assert latest(store).status == "cancelled"
    assert ran == []
    g.resume(latest(store).id)
    assert ran == ["second"]


def test_going_on_after_a_failure_with_the_state_from_before(store: Store, ran: list[Any]) -> None:
    TROUBLE["pay"] = OSError("declined")
    with pytest.warns(UserWarning, match="goes on without its result"):
        assert orders().run({"id": 7}, on_failure="continue") == {"id": 7, "ok": True, "shipped": True}


def test_a_gate_in_a_node(store: Store, ran: list[Any]) -> None:
    g = nbc.Graph("reviewed")
    g.node("a", lambda s: {**s, "a": 1})
    g.node("review", lambda s: {**s, "said": nbc.pause("Fine?", name="fine")})
    g.edge("a", "review").entry("a").exit("review")
    with pytest.raises(nbc.Paused) as asked:
        g.run({})
    store.answer(asked.value.run, "fine", "yes")
    assert g.resume(asked.value.run) == {"a": 1, "said": "yes"}


def test_a_fork_takes_another_way(store: Store, ran: list[Any]) -> None:
    orders().run({"id": 7})
    made = store.fork(latest(store).id, at="validate", edits={"validate": {"id": 7, "ok": False}})
    assert orders().resume(made.id) == {"id": 7, "ok": False, "rejected": True}


def test_the_picture_has_what_was_not_reached(store: Store) -> None:
    orders().run({"id": 7})
    found = {node.label: node.status for node in latest(store).graph.nodes}
    assert found == {"validate": "completed", "pay": "completed", "ship": "completed", "reject": "pending"}
    assert "<svg" in orders()._repr_svg_()


def test_an_unknown_run(store: Store) -> None:
    with pytest.raises(NotFound):
        orders().resume("20260101T000000000-000000")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda g: g, "it has no nodes"),
        (lambda g: g.node("a", id).exit("a"), "it has no entry"),
        (lambda g: g.node("a", id).entry("a"), "it has no exit"),
        (lambda g: g.node("a", id).entry("b").exit("a"), "there is no node 'b'"),
        (lambda g: g.node("a", id).node("b", id).entry("a").exit("a"), "nothing leads to 'b'"),
        (
            lambda g: g.node("a", id).node("b", id).edge("a", "b").entry("a").exit("a"),
            "is an exit, and yet edges lead on",
        ),
        (
            lambda g: g.node("a", id).node("b", id).node("c", id).edge("a", "b").entry("a").exit("c"),
            "no exit can be reached",
        ),
    ],
)
def test_a_graph_that_cannot_be_run(build: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        build(nbc.Graph("wrong")).validate()
    with pytest.raises(GraphError, match="two nodes called 'a'"):
        nbc.Graph("wrong").node("a", id).node("a", id)


def test_no_edge_is_true(store: Store) -> None:
    g = nbc.Graph("stuck")
    g.node("a", lambda s: s)
    g.node("b", lambda s: s)
    g.edge("a", "b", when=lambda s: False).entry("a").exit("b")
    with pytest.raises(GraphError, match="no edge leads on from 'a'"):
        g.run({})


def test_it_can_be_started_again_at_a_node(store: Store, ran: list[Any]) -> None:
    """003-11: with the state as it was there; a visit of a cycle is named by its number."""

    def add(state: int) -> int:
        note(f"add {state}")
        return state + 1

    def end(state: int) -> int:
        note(f"end {state}")
        return state

    graph = nbc.Graph("adding").node("add", add).node("end", end)
    graph.edge("add", "end", when=lambda state: state > 2).edge("add", "add").entry("add").exit("end")
    assert graph.run(0) == 3
    run = latest(store).id
    for start, again in (
        ("add#3", ["add 2", "end 3"]),
        ("end", ["end 3"]),
        ("add", ["add 0", "add 1", "add 2", "end 3"]),
    ):
        ran.clear()
        assert graph.resume(run, start_at=start) == 3
        assert ran == again
    with pytest.raises(UsageError, match="has no step 'pay'"):
        graph.resume(run, start_at="pay")

"""What was found wrong when flows were killed in every way there is: each fault with its story."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.errors import NotFound, StoreFull
from nbcheckpoint.model import Run, Step
from nbcheckpoint.store import Store, open_store
from tests.flows.bodies import note

TROUBLE: dict[str, list[BaseException]] = {}
"""Step -> what it raises, one after the other. Looked up behind the back of everything that looks for inputs."""


def trouble(name: str) -> None:
    note(name)
    left = sys.modules["tests.flows.test_recovery"].TROUBLE.get(name)
    if left:
        raise left.pop(0)


@pytest.fixture(autouse=True)
def _no_trouble() -> None:
    TROUBLE.clear()


def latest(store: Store) -> Run:
    return store.runs(limit=1)[0]


def steps(store: Store, name: str) -> list[Step]:
    return [step for step in latest(store).steps(inner=True) if step.name == name]


@nbc.step(side_effects=True)
def charge(n: int) -> str:
    trouble(f"charge {n}")
    return "paid"


@nbc.step
def work(n: int) -> int:
    trouble(f"work {n}")
    return n * 10


@nbc.flow
def shop() -> Any:
    return [charge(1), work(1)]


def cut(flow: Any, *args: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        flow(*args)


def test_what_was_skipped_stays_skipped(store: Store, ran: list[Any]) -> None:
    """Somebody said: it was paid, skip it. The run failed later, was resumed, and paid once more."""
    TROUBLE.update({"charge 1": [KeyboardInterrupt()], "work 1": [OSError("gone")]})
    cut(shop)
    with pytest.raises(nbc.Paused) as asked:
        shop()
    store.answer(asked.value.run, asked.value.pause, "skip")
    with pytest.raises(OSError, match="gone"):
        shop()
    assert shop() == [None, 10]
    assert ran.count("charge 1") == 1


def test_every_attempt_that_is_cut_short_is_asked_about(store: Store, ran: list[Any]) -> None:
    """One yes was a yes for ever: the second time it was repeated without asking."""
    TROUBLE["charge 1"] = [KeyboardInterrupt(), KeyboardInterrupt()]
    cut(shop)
    for _ in range(2):
        with pytest.raises(nbc.Paused) as asked:
            shop()
        store.answer(asked.value.run, asked.value.pause, "rerun")
        if len(TROUBLE["charge 1"]):
            cut(shop)
    assert shop() == ["paid", 10]
    assert ran.count("charge 1") == 3
    assert steps(store, "charge")[0].attempt == 3


def test_items_with_effects_are_asked_about(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    def all_of_them() -> Any:
        return charge.map([1, 2, 3])

    TROUBLE["charge 2"] = [KeyboardInterrupt()]
    cut(all_of_them)
    with pytest.raises(nbc.Paused, match="may have done its work") as asked:
        all_of_them()
    assert ran == ["charge 1", "charge 2"]
    store.answer(asked.value.run, asked.value.pause, "rerun")
    assert all_of_them() == ["paid"] * 3
    assert sorted(ran) == ["charge 1", "charge 2", "charge 2", "charge 3"]


def test_a_node_with_effects_is_asked_about(store: Store, ran: list[Any]) -> None:
    """One that was cut short counted as visited, so its next visit was another step, of which nobody knew anything."""
    graph = nbc.Graph("order")
    graph.node("check", lambda state: state).node("pay", lambda state: trouble("pay"), side_effects=True)
    graph.edge("check", "pay").entry("check").exit("pay")
    TROUBLE["pay"] = [KeyboardInterrupt()]
    cut(graph.run, {})
    with pytest.raises(nbc.Paused, match="may have done its work") as asked:
        graph.run({})
    assert ran == ["pay"]
    store.answer(asked.value.run, asked.value.pause, "rerun")
    assert graph.run({}) == {}
    assert steps(store, "pay")[0].attempt == 2


def test_a_graph_inside_of_a_flow_goes_on_where_it_was(store: Store, ran: list[Any]) -> None:
    """It looked for its nodes among the steps of the flow, found none, and began anew."""
    graph = nbc.Graph("inside")
    for name in ("a", "b"):
        graph.node(name, lambda state, name=name: trouble(name))
    graph.edge("a", "b").entry("a").exit("b")

    @nbc.flow
    def outer() -> Any:
        return graph.run({"n": 1})

    TROUBLE["b"] = [OSError("gone")]
    with pytest.raises(OSError, match="gone"):
        outer()
    assert outer() == {"n": 1}
    assert ran == ["a", "b", "b"]


def test_the_steps_of_a_nested_flow_that_is_restored_are_not_gone(store: Store) -> None:
    """They were listed as detached, because nobody called them."""

    @nbc.flow
    def inner() -> int:
        return work(1)

    @nbc.flow
    def outer() -> Any:
        return [inner(), work(2)]

    TROUBLE["work 2"] = [OSError("gone")]
    with pytest.raises(OSError, match="gone"):
        outer()
    assert outer() == [10, 20]
    assert not any(step.meta.get("detached") for step in latest(store).steps(inner=True))


def test_attempts_never_go_back(store: Store) -> None:
    """They began at one again after a failure, and when a result was found whose end had not been written down."""
    TROUBLE["work 1"] = [OSError("gone"), OSError("gone")]
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            shop()
    shop()
    assert steps(store, "work")[0].attempt == 3


def test_the_retries_of_an_item_survive(store: Store, ran: list[Any]) -> None:
    """Of items nothing was written before they were done: so each session tried them as often as the first."""

    @nbc.step(retries=2, backoff=0.0)
    def flaky(n: int) -> int:
        trouble(f"flaky {n}")
        return n

    @nbc.flow
    def all_of_them() -> Any:
        return flaky.map([1, 2], min_success=1)

    TROUBLE["flaky 2"] = [TimeoutError(), KeyboardInterrupt(), TimeoutError(), TimeoutError(), TimeoutError()]
    cut(all_of_them)
    assert all_of_them() == [1, None]
    assert ran.count("flaky 2") == 4, "three attempts, and the one that was cut short"


def test_items_are_known_by_what_they_are(store: Store, ran: list[Any]) -> None:
    """Their records stood where they had been in the list; moved, they were somebody else's."""

    @nbc.flow
    def all_of_them(reverse: bool) -> Any:
        items = [1, 2, 3, 3]
        return charge.map(reversed(items) if reverse else items)

    TROUBLE["charge 3"] = [KeyboardInterrupt()]
    cut(all_of_them, False)
    run = latest(store).id
    before = {step.address: step.meta["slot"] for step in steps(store, "charge") if step.kind == "item"}

    @nbc.flow(name="all_of_them")
    def changed(reverse: bool) -> Any:
        return charge.map([3, 2, 1, 3])

    with pytest.raises(nbc.Paused) as asked:
        changed.resume(run)
    store.answer(run, asked.value.pause, "rerun")
    assert changed.resume(run) == ["paid"] * 4
    assert sorted(ran) == ["charge 1", "charge 2", "charge 3", "charge 3", "charge 3"]
    now = {step.address: step.meta["slot"] for step in steps(store, "charge") if step.kind == "item"}
    assert before.items() <= now.items()


def test_a_map_says_what_it_could_not_save(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said nothing at all: the items were just computed again next time."""

    @nbc.flow
    def all_of_them(policy: str) -> Any:
        return work.options(on_save_error=policy).map([1, 2])

    def full(*args: Any) -> None:
        raise StoreFull("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(store, "flush", full)
        with pytest.warns(UserWarning, match="2 of 2 items are not saved: no space left"):
            assert all_of_them("warn") == [10, 20]
        with pytest.raises(StoreFull), pytest.warns(UserWarning, match="its arguments could not be saved"):
            all_of_them("fail")


def test_a_run_that_failed_can_be_forked(store: Store, ran: list[Any]) -> None:
    """The record with its arguments was left behind, because the run was not complete."""

    @nbc.flow
    def chain(n: int) -> int:
        return work(work(n))

    TROUBLE["work 10"] = [OSError("gone")]
    with pytest.raises(OSError, match="gone"):
        chain(1)
    made = store.fork(latest(store).id, at="000001", edits={"000001": 7})
    assert chain.resume(made.id) == 70
    assert ran == ["work 1", "work 10", "work 7"]
    made = store.fork(made.meta["forked"]["run"], at="work", edits={"work": 5})
    assert chain.resume(made.id) == 5, "what had failed can be given"
    assert len(ran) == 3


def test_an_edit_counts_or_is_refused(store: Store, ran: list[Any]) -> None:
    """One of a step behind the fork was dropped without a word."""

    @nbc.flow
    def chain(n: int) -> Any:
        return [work(n), work.options(name="other")(n), work(n + 1)]

    chain(1)
    origin = latest(store).id
    made = store.fork(origin, at="other", edits={"work": 7})
    assert chain.resume(made.id) == [7, 10, 20], "the last one up to there"
    for name, at in [("other", "000001"), ("chain", "other"), ("000003", "other")]:
        with pytest.raises(NotFound, match="up to where"):
            store.fork(origin, at=at, edits={name: 7})


def test_a_fork_shares_the_items_of_a_map(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    def chain() -> int:
        return work(sum(work.map([1, 2])))

    chain()
    made = store.fork(latest(store).id, at="000001")
    assert chain.resume(made.id) == 300
    assert ran == ["work 1", "work 2", "work 30", "work 30"]


def test_a_loop_uses_the_store_of_its_flow(store: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "other") as other:

        @nbc.flow(store=other)
        def looping() -> int:
            state = {"n": 0}
            for _ in nbc.loop(range(3), name="counting", state=state, every=1):
                state["n"] += 1
            return state["n"]

        assert looping() == 3
        assert looping.fresh() == 3
        assert any("counting" in str(entry.value) for entry in other.backend.scan("checkpoint/"))
    assert store.backend.scan("checkpoint/") == []


@nbc.step(side_effects=True)
def dying(n: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return n


def test_a_worker_that_dies_is_written_down(store: Store) -> None:
    """Its step was said to be running for ever, though the run had failed."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:

        @nbc.flow
        def outer() -> Any:
            return dying.submit(1, executor=pool).result()

        with pytest.raises(BrokenProcessPool):
            outer()
        assert [step.status for step in steps(store, "dying")] == ["interrupted"]
        with pytest.raises(nbc.Paused, match="may have done its work"):
            outer()
    assert latest(store).status == "paused"


def test_options_of_libraries_count_as_inputs(store: Store, ran: list[Any]) -> None:
    """They were compared and not recorded: with any of them set, nothing was ever restored."""
    import numpy

    before = numpy.seterr(all="raise")
    try:
        assert [work(1), work(1)] == [10, 10]
        assert ran == ["work 1"]
        numpy.seterr(**before)
        assert work(1) == 10
        assert ran == ["work 1", "work 1"]
    finally:
        numpy.seterr(**before)


@nbc.step(scope="run")
def told(n: int) -> str:
    here = nbc.current()
    assert here is not None
    note(here.idempotency_key)
    trouble(f"told {n}")
    return here.idempotency_key


def named(name: str) -> Any:
    return told.options(name=name)


@nbc.step(scope="run", name="b")
def around(n: int) -> Any:
    return named("a")(n), nbc.pause("Well?", name="a#1/c", default=1, timeout=1e-9)


@nbc.flow
def odd() -> Any:
    calls = [named(name)(1) for name in ("a", "/a", "//a", "b#1/a", "b#1%2Fa", "a[]", "a%5B]", "")]
    return [*calls, around(1), *named("a").map([1], progress=False), named("c")(2)]


def test_no_two_steps_share_a_place_whatever_they_are_called(store: Store, ran: list[Any]) -> None:
    """A step `b#1/a` stood where the `a` inside of the first `b` does, and `/a` where `a` does: of the same record
    each took the other's for its own, and a service asked once with the key of one never did the work of the other."""
    TROUBLE["told 2"] = [KeyboardInterrupt()]
    cut(odd)
    found = odd()
    assert (len(set(ran) - {"told 1", "told 2"}), ran.count("told 1")) == (11, 10)
    assert len(set(found[:8])) == 8
    slots = [step.meta["slot"] for step in latest(store).steps(inner=True)]
    assert len(slots) == len(set(slots)) == 15


class Place:
    """Looks around when it is asked."""

    def where(self) -> str:
        return os.environ.get("NBC_TEST_WHERE", "-")


HERE = Place()


@nbc.step
def asked(place: Any) -> str:
    return place[0].where() if isinstance(place, list) else place()


@nbc.step
def at_hand() -> str:
    return HERE.where()


def test_what_methods_of_arguments_and_globals_look_at_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for where in "ab":
        monkeypatch.setenv("NBC_TEST_WHERE", where)
        found.append((asked([Place()]), asked(lambda: os.environ["NBC_TEST_WHERE"]), at_hand()))
    assert found == [("a",) * 3, ("b",) * 3]

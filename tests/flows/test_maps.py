"""A map saves every item as it finishes, and knows an item by what it is."""

from __future__ import annotations

import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.engine import context, progress
from nbcheckpoint.errors import MapFailed, UsageError
from nbcheckpoint.store import Store, open_store
from tests.flows.bodies import note
from tests.flows.test_flows import TROUBLE, latest, trouble


@pytest.fixture(autouse=True)
def _no_trouble() -> Any:
    TROUBLE.clear()
    yield
    TROUBLE.clear()


@nbc.step
def clean(x: int, factor: int = 2) -> int:
    note(x)
    trouble(f"clean{x}")
    return x * factor


@nbc.flow
def pipeline(items: list[int], **options: Any) -> list[int]:
    found: list[int] = clean.map(items, **options)
    return found


def test_results_come_in_the_order_of_the_items(store: Store, ran: list[Any]) -> None:
    assert pipeline([3, 1, 2]) == [6, 2, 4]
    assert clean.map([1, 2], factor=10) == [10, 20]


def test_reordering_and_appending_keeps_what_is_finished(store: Store, ran: list[Any]) -> None:
    """001-16: keyed by item."""
    pipeline([1, 2, 3])
    ran.clear()
    assert pipeline([3, 4, 1, 2]) == [6, 8, 2, 4]
    assert ran == [4]


def test_an_item_and_a_call_are_the_same_thing(store: Store, ran: list[Any]) -> None:
    clean(7)
    assert clean.map([7, 8]) == [14, 16]
    clean(8)
    assert ran == [7, 8]


def test_one_failed_item_costs_one(store: Store, ran: list[Any]) -> None:
    """001-15, 003-15: members are recorded by themselves."""
    TROUBLE["clean5"] = OSError("gone")
    with pytest.raises(MapFailed, match=r"1 of 8 items of clean failed; item 4: OSError: gone") as told:
        pipeline([1, 2, 3, 4, 5, 6, 7, 8])
    assert isinstance(told.value.failures[4], OSError)
    steps = latest(store).steps(inner=True)
    assert [step.status for step in steps if step.kind == "item"].count("failed") == 1
    TROUBLE.clear()
    ran.clear()
    assert pipeline([1, 2, 3, 4, 5, 6, 7, 8]) == [2, 4, 6, 8, 10, 12, 14, 16]
    assert ran == [5]
    assert {step.status for step in latest(store).steps(inner=True)} == {"completed"}


def test_stop_begins_no_more(store: Store, ran: list[Any]) -> None:
    TROUBLE["clean2"] = OSError("gone")
    with pytest.raises(MapFailed):
        pipeline([1, 2, 3, 4], on_item_failure="stop")
    assert ran == [1, 2]


@pytest.mark.parametrize(("needed", "fails"), [(3, False), (4, True), (0.75, False), (0.76, True), (0, False)])
def test_min_success_lets_some_fail(store: Store, ran: list[Any], needed: float, fails: bool) -> None:
    TROUBLE["clean2"] = OSError("gone")
    if fails:
        with pytest.raises(MapFailed):
            pipeline([1, 2, 3, 4], min_success=needed)
    else:
        assert pipeline([1, 2, 3, 4], min_success=needed) == [2, None, 6, 8]


def test_items_are_tried_again_by_themselves(store: Store, ran: list[Any]) -> None:
    class Flaky:
        left = 2

    @nbc.step(retries=3, backoff=0.001)
    def fetch(x: int) -> int:
        note(x)
        _flaky(x)
        return x

    assert fetch.map([1, 2, 3]) == [1, 2, 3]
    assert ran == [1, 2, 2, 2, 3]


_LEFT = {2: 2}


def _flaky(x: int) -> None:
    import sys

    left = sys.modules["tests.flows.test_maps"]._LEFT
    if left.get(x, 0):
        left[x] -= 1
        raise TimeoutError("slow")


def test_threads_run_beside_each_other(store: Store, ran: list[Any]) -> None:
    """Four items that can only end together."""
    meeting = threading.Barrier(4, timeout=60)

    def meet() -> None:
        meeting.wait()

    together = {"meet": meet}

    @nbc.step(ignore=("x",))
    def wait(n: int, x: Any = None) -> int:
        x["meet"]()
        return n

    assert wait.map([1, 2, 3, 4], concurrency=4, x=together) == [1, 2, 3, 4]
    meeting.reset()
    with ThreadPoolExecutor(4) as pool:
        assert wait.options(expire=0).map([1, 2, 3, 4], executor=pool, x=together) == [1, 2, 3, 4]


def test_concurrency_is_a_limit(store: Store) -> None:
    busy: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    @nbc.step(ignore=("seen",))
    def work(n: int, seen: Any = None) -> int:
        with lock_of(seen):
            busy_of(seen).append(n)
            most_of(seen).append(len(busy_of(seen)))
        with lock_of(seen):
            busy_of(seen).remove(n)
        return n

    work.map(range(40), concurrency=3, seen=(lock, busy, most))
    assert max(most) <= 3


def lock_of(seen: Any) -> Any:
    return seen[0]


def busy_of(seen: Any) -> Any:
    return seen[1]


def most_of(seen: Any) -> Any:
    return seen[2]


@nbc.step
def in_a_process(x: int) -> tuple[int, int]:
    import os

    if x == 13:
        raise ValueError("unlucky")
    return x * 2, os.getpid()


@nbc.flow
def processes(items: list[int], pool: Any = None) -> Any:
    return in_a_process.map(items, executor=POOL[0])


POOL: list[Any] = []


@pytest.mark.slow
def test_processes_save_by_themselves(store: Store) -> None:
    import os

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        POOL[:] = [pool]
        found = processes([1, 2, 3])
        assert [value for value, _ in found] == [2, 4, 6]
        assert os.getpid() not in {pid for _, pid in found}
        items = [step for step in latest(store).steps(inner=True) if step.kind == "item"]
        assert len(items) == 3
        assert all(step.checkpoint and step.status == "completed" for step in items)
        with pytest.raises(MapFailed, match="item 1: ValueError: unlucky"):
            processes([1, 13])
        assert processes([1, 2, 3]) == found, "restored: another process would have another number"


def test_a_store_in_memory_is_not_for_processes() -> None:
    """003-14."""
    with open_store("memory://") as store, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        context.use(store)
        try:
            with pytest.raises(UsageError, match="cannot reach a store in memory"):
                clean.map([1], executor=pool)
        finally:
            context.use(None)


def test_what_is_no_executor(store: Store) -> None:
    with pytest.raises(UsageError, match="cannot run steps"):
        clean.map([1], executor="threads")
    with pytest.raises(UsageError, match="concurrency is 0"):
        clean.map([1], concurrency=0)
    with pytest.raises(UsageError, match="on_item_failure is 'explode'"):
        clean.map([1], on_item_failure="explode")
    with pytest.raises(UsageError, match="min_success is -1"):
        clean.map([1], min_success=-1)


def test_an_interrupt_keeps_what_is_done(store: Store, ran: list[Any]) -> None:
    TROUBLE["clean3"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        pipeline([1, 2, 3, 4])
    assert latest(store).status == "interrupted"
    TROUBLE.clear()
    ran.clear()
    assert pipeline([1, 2, 3, 4]) == [2, 4, 6, 8]
    assert ran == [3, 4]


def test_the_members_of_a_group_are_saved_together(store: Store, ran: list[Any]) -> None:
    """001-3: granularity group."""
    TROUBLE["clean3"] = KeyboardInterrupt()
    flow = pipeline.options(granularity="group")
    commits: list[int] = []
    real = store.flush

    def counted() -> None:
        commits.append(1)
        real()

    store.flush = counted  # type: ignore[method-assign]
    TROUBLE.clear()
    flow([1, 2, 3])
    assert len([step for step in latest(store).steps(inner=True) if step.kind == "item" and step.checkpoint]) == 3


def test_quick_items_do_not_wait_for_a_slow_one(store: Store, ran: list[Any]) -> None:
    """What is finished is saved while the next item takes its time."""
    seen: list[int] = []

    @nbc.step(ignore=("look",))
    def work(n: int, look: Any = None) -> int:
        if n == 2:
            look()
        return n

    def wait_until_saved() -> None:
        while len(seen) < 1:
            seen.extend([1] if len(store.backend.scan("checkpoint/")) >= 2 else [])

    work.map([0, 1, 2], look=wait_until_saved)


def test_progress_is_told(store: Store) -> None:
    told: list[tuple[Any, ...]] = []
    progress.watchers.append(lambda *facts: told.append(facts))
    try:
        pipeline([1, 2, 3])
    finally:
        progress.watchers.clear()
    assert told[-1][:4] == ("clean", 3, 3, 0)


def test_a_watcher_that_raises_disturbs_nothing(store: Store) -> None:
    def raises(*facts: Any) -> None:
        raise ValueError("no")

    progress.watchers.append(raises)
    assert pipeline([1]) == [2]
    assert progress.watchers == []


def test_nothing_to_do(store: Store) -> None:
    assert pipeline([]) == []
    assert pipeline([], min_success=0.5) == []


def test_an_item_that_is_changed_in_place_is_told(store: Store) -> None:
    @nbc.step
    def spoil(row: list[int]) -> int:
        row.append(1)
        return len(row)

    with pytest.warns(UserWarning, match="row was changed in place"):
        assert spoil.map([[1], [2, 3]]) == [2, 3]


def test_a_thousand_items_resume_without_running_one(store: Store, ran: list[Any]) -> None:
    items = list(range(1000))
    pipeline(items)
    ran.clear()
    TROUBLE["clean1000"] = OSError("gone")
    with pytest.raises(MapFailed):
        pipeline([*items, 1000])
    assert ran == [1000]


def test_retention_keeps_every_item_of_a_run_that_stays(store: Store, ran: list[Any], tmp_path: Path) -> None:
    pipeline(list(range(30)))
    store.prune(grace_seconds=0)
    ran.clear()
    assert pipeline(list(range(30))) == [n * 2 for n in range(30)]
    assert ran == []


# Other results, in a fork


@nbc.step
def scaled(n: int) -> int:
    note(n)
    return n * 10


@nbc.step
def added(parts: list[int]) -> int:
    note("added")
    return sum(parts)


@nbc.flow
def scaling() -> int:
    return added(scaled.map([1, 2, 3], progress=False))


def test_a_fork_can_have_other_results_of_a_map(store: Store, ran: list[Any]) -> None:
    """All of them, by the map's name or address; or one, by that of its item."""
    assert scaling() == 60
    run = latest(store).id
    whole, item, *_ = (step.address for step in store.steps(run, inner=True) if step.name == "scaled")
    for edits, expected in (({"scaled": [5, 6, 7]}, 18), ({whole: (5, 6, 7)}, 18), ({item: 100}, 150)):
        ran.clear()
        other = store.fork(run, at="scaled", edits=edits)
        assert scaling.resume(other.id) == expected
        assert ran == ["added"]
        assert scaling.resume(other.id, start_at="added") == expected, "and they stay"
    assert scaling.resume(run) == 60


@pytest.mark.parametrize(("results", "what"), [([5, 6], "2 results"), (5, "a int")])
def test_a_fork_with_too_few_results_says_so(store: Store, ran: list[Any], results: Any, what: str) -> None:
    scaling()
    run = latest(store).id
    with pytest.raises(UsageError, match=f"map scaled has 3 items, and was given {what}") as told:
        store.fork(run, at="scaled", edits={"scaled": results})
    assert "000001.000000" in told.value.hint
    assert len(store.runs()) == 1


def test_a_fork_whose_map_has_other_items_than_it_was_edited_for_says_so(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    def counted(n: int) -> int:
        found: list[int] = scaled.map(range(added([n])), progress=False)
        return len(found)

    assert counted(2) == 2
    other = store.fork(latest(store).id, at="scaled", edits={"added": 3, "scaled": [1, 2]})
    with pytest.raises(UsageError, match="map scaled was edited to 2 results, and has 3 items"):
        counted.resume(other.id)

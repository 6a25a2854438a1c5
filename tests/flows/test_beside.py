"""Steps that run beside each other, async ones, and trying again."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.engine import retry
from nbcheckpoint.errors import UsageError
from nbcheckpoint.events import subscribe
from nbcheckpoint.store import Store
from tests.flows.bodies import note
from tests.flows.test_flows import TROUBLE, latest, trouble


@pytest.fixture(autouse=True)
def _no_trouble() -> Any:
    TROUBLE.clear()
    LEFT.clear()
    yield
    TROUBLE.clear()


@nbc.step
def part(n: int) -> list[int]:
    note(n)
    trouble(f"part{n}")
    return [n]


@nbc.step
def join(*parts: list[int]) -> list[int]:
    note("join")
    return [x for found in parts for x in found]


@nbc.flow
def fan(count: int) -> list[int]:
    parts = [part.submit(n) for n in range(count)]
    found: list[int] = join.submit(*parts).result()
    return found


def test_what_is_ready_runs_together(store: Store, ran: list[Any]) -> None:
    """Steps that can only end together, without anybody naming threads."""
    meeting = threading.Barrier(3, timeout=60)

    @nbc.step(ignore=("at",))
    def meet(n: int, at: Any = None) -> int:
        at[0].wait()
        return n

    @nbc.flow
    def ready() -> int:
        return sum(future.result() for future in [meet.submit(n, at=(meeting,)) for n in range(3)])

    assert ready() == 3


def test_a_step_waits_for_the_results_among_its_arguments(store: Store, ran: list[Any]) -> None:
    assert fan(4) == [0, 1, 2, 3]
    assert ran[-1] == "join"
    edges = {(edge.source, edge.target) for edge in latest(store).graph.edges}
    assert {("000001", "000005"), ("000004", "000005")} <= edges


def test_one_failed_member_costs_one_and_what_needs_it(store: Store, ran: list[Any]) -> None:
    """001-15, 003-15: siblings are finished and saved."""
    TROUBLE["part2"] = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        fan(8)
    status = {step.address: step.status for step in latest(store).steps()}
    assert [status[f"{n:06d}"] for n in range(1, 10)].count("completed") == 7
    assert status["000003"] == "failed"
    assert status["000009"] == "skipped"
    TROUBLE.clear()
    ran.clear()
    assert fan(8) == list(range(8))
    assert ran == [2, "join"]


def test_what_nobody_waits_for_is_waited_for(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    def forgetful() -> str:
        part.submit(1)
        part.submit(2)
        return "done"

    assert forgetful() == "done"
    assert sorted(ran) == [1, 2]
    TROUBLE["part3"] = OSError("gone")

    @nbc.flow
    def careless() -> str:
        part.submit(3)
        return "done"

    with pytest.raises(OSError, match="gone"):
        careless()
    assert latest(store).status == "failed"


def test_the_highest_priority_goes_first(store: Store, ran: list[Any]) -> None:
    gate = threading.Event()

    @nbc.step(ignore=("gate",))
    def hold(gate: Any = None) -> None:
        gate[0].wait(60)

    with ThreadPoolExecutor(1) as pool:

        @nbc.flow
        def ordered() -> None:
            first = hold.submit(gate=(gate,), executor=pool)
            rest = [part.submit(n, executor=pool, priority=n) for n in (1, 3, 2)]
            gate.set()
            for future in (first, *rest):
                future.result()

        ordered()
    assert ran == [3, 2, 1]


def test_speculation_leaves_nothing_until_it_is_confirmed(store: Store, ran: list[Any]) -> None:
    """002-8."""

    @nbc.flow
    def guess(keep: bool) -> Any:
        future = part.submit(5, speculative=True)
        future.result()
        written = [step.name for step in store_of().steps(run_of()) if not step.meta.get("flow")]
        if keep:
            future.confirm()
        else:
            future.discard()
        return written

    assert guess(False) == []
    assert [step.name for step in latest(store).steps()] == ["guess"]
    ran.clear()
    assert guess(True) == []
    assert [step.name for step in latest(store).steps()] == ["guess", "part"]
    assert ran == [5]
    guess.fresh(True)
    ran.clear()
    part(5)
    assert ran == [], "what was confirmed is found like anything else"


def store_of() -> Store:
    from nbcheckpoint.engine.context import current_store

    return current_store()


def run_of() -> str:
    here = nbc.current()
    assert here is not None
    return here.run


@nbc.step
def elsewhere(x: Any) -> Any:
    import os

    return x, os.getpid()


POOL: list[Any] = []


@nbc.flow
def spread() -> Any:
    first = elsewhere.submit(1, executor=POOL[0])
    return elsewhere.submit(first, executor=POOL[0]).result()


@pytest.mark.slow
def test_another_process_writes_the_completion_itself(store: Store) -> None:
    import os

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        POOL[:] = [pool]
        (first, pid), other = spread()
    assert first == 1
    assert os.getpid() not in (pid, other)
    done = [step for step in latest(store).steps() if step.name == "elsewhere"]
    assert [step.status for step in done] == ["completed", "completed"]
    assert spread.resume(latest(store).id) == ((1, pid), other)


@nbc.step
def below(n: int) -> tuple[int, int]:
    import os

    return n, os.getpid()


@nbc.step
def above(n: int) -> tuple[int, int]:
    return below(n)


@nbc.flow
def deep() -> tuple[int, int]:
    found: tuple[int, int] = above.submit(1, executor=POOL[0]).result()
    return found


@pytest.mark.slow
def test_what_is_to_be_computed_anew_is_also_in_another_process(store: Store) -> None:
    """By a fresh run, and by one that is to start there: also the steps inside of the step that was sent."""
    pids = set()
    for again in (deep, deep.fresh, lambda: deep.resume(latest(store).id, start_at="above")):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            POOL[:] = [pool]
            pids.add(again()[1])
    assert len(pids) == 3


# Async


@nbc.step(retries=1, backoff=0.001)
async def fetch(n: int) -> int:
    note(n)
    await asyncio.sleep(0)
    trouble(f"fetch{n}")
    return n * 10


@nbc.flow
async def gather(count: int) -> list[int]:
    first = await fetch(0)
    rest = await asyncio.gather(*(fetch(n) for n in range(1, count)))
    return [first, *rest]


def test_async_flows_go_on_too(store: Store, ran: list[Any]) -> None:
    """001-12."""
    TROUBLE["fetch3"] = ValueError("gone")
    with pytest.raises(ValueError, match="gone"):
        asyncio.run(gather(5))
    assert latest(store).status == "failed"
    TROUBLE.clear()
    ran.clear()
    assert asyncio.run(gather(5)) == [0, 10, 20, 30, 40]
    assert 3 in ran
    assert 0 not in ran, "which of those beside it were done is a matter of luck"


def test_the_loop_is_never_kept_waiting_by_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    real = store.put_step

    def seen(*args: Any, **kwargs: Any) -> str:
        threads.add(threading.current_thread().name)
        return real(*args, **kwargs)

    monkeypatch.setattr(store, "put_step", seen)
    asyncio.run(gather(2))
    assert threads
    assert threading.main_thread().name not in threads


def test_async_maps_and_submits(store: Store, ran: list[Any]) -> None:
    @nbc.flow
    async def both() -> Any:
        mapped = await fetch.map([1, 2, 3], concurrency=2)
        future = fetch.submit(4)
        return [*mapped, await future]

    assert asyncio.run(both()) == [10, 20, 30, 40]
    ran.clear()
    assert asyncio.run(both()) == [10, 20, 30, 40]
    assert ran == []
    with pytest.raises(UsageError, match="is async"):
        fetch.submit(1)


def test_an_async_pause(store: Store) -> None:
    @nbc.flow
    async def gated() -> Any:
        await fetch(1)
        return nbc.pause("Go on?", name="gate")

    with pytest.raises(nbc.Paused):
        asyncio.run(gated())
    store.answer(latest(store).id, "gate", "yes")
    assert asyncio.run(gated()) == "yes"


def test_a_cancelled_task_is_an_interrupted_run(store: Store) -> None:
    @nbc.step
    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    @nbc.flow
    async def long() -> None:
        await forever.options(ignore=())()

    begun = asyncio.Event()

    async def cancel() -> None:
        task = asyncio.ensure_future(long())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert latest(store).status == "interrupted"


# Trying again

LEFT: dict[str, int] = {}


def fails(name: str, times: int, error: type[BaseException]) -> None:
    left = sys.modules["tests.flows.test_beside"].LEFT
    if left.setdefault(name, times):
        left[name] -= 1
        raise error(name)


class TooMany(Exception):
    status_code = 429


class Unavailable(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.response = type("Response", (), {"status_code": 503, "headers": {"Retry-After": "0.001"}})()


@pytest.mark.parametrize("error", [TimeoutError, ConnectionResetError, TooMany, Unavailable])
def test_what_may_pass_is_tried_again(store: Store, ran: list[Any], error: type[BaseException]) -> None:
    @nbc.step(retries=3, backoff=0.001)
    def call(kind: str) -> str:
        note(kind)
        fails(kind, 2, ERRORS[kind])
        return kind

    told: list[str] = []
    stop = subscribe(lambda event: told.append(event.type))

    @nbc.flow
    def once() -> str:
        return call(error.__name__)

    assert once() == error.__name__
    stop()
    assert len(ran) == 3
    assert told.count("step_retried") == 2
    step = latest(store).steps()[1]
    assert step.attempt == 3
    assert [tried["error"] for tried in step.meta["retried"]] == [f"{error.__name__}: {error.__name__}"] * 2
    assert [event.type for event in store.events(step.run)].count("step_retried") == 2


ERRORS: dict[str, type[BaseException]] = {
    kind.__name__: kind for kind in (TimeoutError, ConnectionResetError, TooMany, Unavailable)
}


def test_what_will_not_pass_is_not(store: Store, ran: list[Any]) -> None:
    @nbc.step(retries=3, backoff=0.001)
    def broken() -> None:
        note("ran")
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        broken()
    assert len(ran) == 1
    for chosen in (ValueError, (KeyError, ValueError), lambda error: "wrong" in str(error)):
        ran.clear()
        with pytest.raises(ValueError, match="wrong"):
            broken.options(retry_on=chosen)()
        assert len(ran) == 4


def test_attempts_that_failed_before_a_crash_count(store: Store, ran: list[Any]) -> None:
    """003-5: remaining retries are restored."""

    @nbc.step(retries=3, backoff=0.001)
    def call() -> None:
        note("ran")
        trouble("call")

    @nbc.flow
    def once() -> None:
        call()

    TROUBLE["call"] = TimeoutError("slow")
    with pytest.raises(TimeoutError):
        once()
    assert len(ran) == 4
    from msgspec.structs import replace

    run = latest(store)
    step = run.steps()[1]
    tried = [{"at": "", "error": "TimeoutError: slow", "wait": 0.0}] * 2
    store.put_step(replace(step, status="running", attempt=3, meta={**step.meta, "retried": tried}))
    store.update_run(run.id, status="interrupted")
    ran.clear()
    with pytest.raises(TimeoutError):
        once()
    assert len(ran) == 2, "two of three retries were used up"
    ran.clear()
    with pytest.raises(TimeoutError):
        once()
    assert len(ran) == 4, "whoever calls it again after a failure wants it tried as before"


def test_a_timeout_ends_the_waiting(store: Store) -> None:
    held = threading.Event()

    @nbc.step(timeout=0.05, ignore=("held",))
    def slow(held: Any = None) -> None:
        held[0].wait(60)

    with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"):
        slow(held=(held,))
    held.set()

    @nbc.step(timeout="1m")
    def quick(x: int) -> int:
        return x

    assert quick(3) == 3

    @nbc.step(timeout=0.05)
    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"):
        asyncio.run(forever())  # type: ignore[arg-type]  # a coroutine


def test_waits_grow_and_stay_bounded() -> None:
    waits = [retry.seconds_until_next(n, 1.0, ValueError()) for n in range(1, 12)]
    assert all(0.75 * min(60, 2 ** (n - 1)) <= wait <= min(60, 2 ** (n - 1)) for n, wait in enumerate(waits, 1))
    assert retry.seconds_until_next(1, 1.0, Unavailable("x")) == 0.001

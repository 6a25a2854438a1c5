"""The store's face for event loops: the loop goes on whatever the disk does."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nbcheckpoint.errors import NotFound, StoreError
from nbcheckpoint.model import Step
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.aio import AsyncStore, open_async_store
from tests.stores import draft

PATIENCE = 60.0
"""Seconds after which a gate that nobody opens is an error: the loop itself must have been held up."""


class Gated:
    """A backend that is as slow as the test wants: the calls named wait at a gate."""

    def __init__(self, inner: Any, *names: str) -> None:
        self._inner = inner
        self._names = names
        self.arrived = threading.Event()
        self.gate = threading.Event()
        self.order: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.order.append(str(args[0]) if args else name)
            self.arrived.set()
            assert self.gate.wait(PATIENCE), "nobody opened the gate: the event loop waits for the disk"
            return found(*args, **kwargs)

        return call


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


def gated(store: Store, *names: str) -> Gated:
    slow = Gated(store.backend, *names)
    store.backend = slow  # type: ignore[assignment]  # stands in for one
    return slow


async def ticking(slow: Gated, work: asyncio.Task[Any]) -> Any:
    """Let the loop run while `work` waits at the gate, and only then open it."""
    await asyncio.to_thread(slow.arrived.wait, PATIENCE)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not work.done()
    slow.gate.set()
    return await work


@pytest.mark.parametrize(
    ("slow_call", "ask"),
    [
        ("scan", lambda store: store.runs()),
        ("get", lambda store: store.checkpoint("none")),
        ("scan", lambda store: store.steps("r")),
        ("versions", lambda store: store.find("c" * 64)),
        ("put", lambda store: store.begin_run("nb.ipynb")),
        ("put", lambda store: store.save(draft(), {"x": 1})),
        ("put_chunks", lambda store: store.save(draft(), {"x": b"x" * 10_000})),
        ("scan", lambda store: store.prune()),
        ("scan", lambda store: store.verify()),
        ("close", lambda store: store.close()),
    ],
)
def test_the_loop_goes_on_while_the_disk_does_not(slow_call: str, ask: Callable[[AsyncStore], Any]) -> None:
    async def main() -> None:
        store = open_store("memory://")
        slow = gated(store, slow_call)
        try:
            await ticking(slow, asyncio.ensure_future(ask(AsyncStore(store))))
        except NotFound:
            pass  # an answer as good as any

    asyncio.run(main())


def test_it_says_what_the_store_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with await open_async_store(tmp_path / "store") as store:
            run = await store.begin_run("nb.ipynb")
            saved = await store.save(draft(run=run.id), {"x": [1, 2]})
            await store.put_step(Step(run=run.id, address="000000", name="a", checkpoint=saved.checkpoint.id))
            assert [found.id for found in await store.runs(limit=1)] == [run.id]
            assert [step.checkpoint for step in await store.steps(run.id)] == [saved.checkpoint.id]
            assert [found.id for found in await store.find("c" * 64)] == [saved.checkpoint.id]
            assert (await store.load(saved.checkpoint.id)).values == {"x": [1, 2]}
            assert (await store.pin(run.id)).pinned
            assert (await store.delete_run(run.id)).runs[0].id == run.id
            with pytest.raises(NotFound):
                await store.run(run.id)
            assert store.url == str(tmp_path / "store")
        with pytest.raises(NotFound):
            await open_async_store(tmp_path / "none", create=False)

    asyncio.run(main())


def test_writes_keep_their_order_also_when_they_are_not_awaited_one_by_one(store: Store) -> None:
    async def main() -> None:
        slow = gated(store, "put")
        face = AsyncStore(store)
        steps = [Step(run="r", address=f"{n:06d}", name="a") for n in range(20)]
        writes = asyncio.gather(*(face.put_step(step) for step in steps))
        await ticking(slow, asyncio.ensure_future(writes))
        assert slow.order == [f"step/r/{n:06d}" for n in range(20)]
        await face.close()

    asyncio.run(main())


def test_readers_do_not_wait_for_a_writer(store: Store) -> None:
    async def main() -> None:
        run = store.begin_run("nb.ipynb")
        slow = gated(store, "put")
        face = AsyncStore(store)
        write = asyncio.ensure_future(face.note(run.id, "slow"))
        await asyncio.to_thread(slow.arrived.wait, PATIENCE)
        assert [found.id for found in await face.runs()] == [run.id]
        assert not write.done()
        slow.gate.set()
        assert (await write).note == "slow"
        await face.close()

    asyncio.run(main())


def test_a_cancelled_write_that_has_begun_is_whole_and_one_that_has_not_does_not_happen(store: Store) -> None:
    async def main() -> None:
        slow = gated(store, "put")
        face = AsyncStore(store)
        begun = asyncio.ensure_future(face.put_step(Step(run="r", address="000000", name="begun")))
        queued = asyncio.ensure_future(face.put_step(Step(run="r", address="000001", name="queued")))
        await asyncio.to_thread(slow.arrived.wait, PATIENCE)
        for task in (begun, queued):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        slow.gate.set()
        await face.put_step(Step(run="r", address="000002", name="later"))
        assert [step.name for step in await face.steps("r")] == ["begun", "later"]
        await face.close()

    asyncio.run(main())


def test_closing_waits_for_what_is_under_way_and_cannot_be_cancelled_half_way(store: Store) -> None:
    async def main() -> None:
        slow = gated(store, "put")
        face = AsyncStore(store)
        write = asyncio.ensure_future(face.put_step(Step(run="r", address="000000", name="a")))
        await asyncio.to_thread(slow.arrived.wait, PATIENCE)
        closing = asyncio.ensure_future(face.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        slow.gate.set()
        await write
        await face.close()
        with pytest.raises(StoreError, match="closed"):
            store.backend.get("format")
        for ask in (face.runs, face.flush):
            with pytest.raises(StoreError, match="closed"):
                await ask()

    asyncio.run(main())


def test_a_store_whose_opening_was_cancelled_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, gate, closed = threading.Event(), threading.Event(), threading.Event()

    class Closing(Store):
        def close(self) -> None:
            super().close()
            closed.set()

    def slow_open(*args: Any, **kwargs: Any) -> Store:
        arrived.set()
        assert gate.wait(PATIENCE)
        found = open_store("memory://")
        found.__class__ = Closing
        return found

    monkeypatch.setattr("nbcheckpoint.store.aio.open_store", slow_open)

    async def main() -> None:
        opening = asyncio.ensure_future(open_async_store("memory://"))
        await asyncio.to_thread(arrived.wait, PATIENCE)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        gate.set()
        assert await asyncio.to_thread(closed.wait, PATIENCE)

    asyncio.run(main())


def test_every_method_of_a_store_has_its_counterpart() -> None:
    def methods(kind: type) -> dict[str, Any]:
        return {n: f for n, f in inspect.getmembers(kind, inspect.isfunction) if not n.startswith("_")}

    mine, theirs = methods(AsyncStore), methods(Store)
    assert mine.keys() == theirs.keys() - {"let_go", "private_digest", "resolver"}, "these wait for nothing"
    for name, method in mine.items():
        assert inspect.iscoroutinefunction(method), name
        assert method.__doc__, name

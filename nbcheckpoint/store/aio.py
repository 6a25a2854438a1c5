"""The store for event loops: the same methods, to be awaited. No loop ever waits on a disk.

Theory of operation. Two small pools of threads stand in front of one store. What only reads, and the long upkeep that
is safe beside everything else, runs in one of four threads. What writes runs in a thread of its own, one after the
other in the order it was asked for: so a caller's writes keep their order, also when they are not awaited one by one.

A call whose task is cancelled before its turn came does not happen. One that has begun happens as a whole: a thread
cannot be stopped half-way, and the next write waits for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from nbcheckpoint.errors import StoreError
from nbcheckpoint.store import Store, open_store

__all__ = ["AsyncStore", "open_async_store"]

P = ParamSpec("P")
T = TypeVar("T")

READERS = 4


def _beside(
    method: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[Any, Any, T]]:
    """A method of the store that may run beside any other."""

    @wraps(method)
    async def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(self._beside, getattr(self._store, method.__name__), args, kwargs)

    return call


def _in_turn(
    method: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[Any, Any, T]]:
    """A method of the store that writes, and takes its turn."""

    @wraps(method)
    async def call(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(self._in_turn, getattr(self._store, method.__name__), args, kwargs)

    return call


class AsyncStore:
    """A store whose methods are awaited. It takes the store over: closing one closes the other.

    Values that are being saved must not be changed until `save` has returned.

    >>> import asyncio
    >>> async def newest(url):
    ...     async with await open_async_store(url) as store:
    ...         await store.begin_run("train.ipynb")
    ...         return [run.workflow for run in await store.runs(limit=1)]
    >>> asyncio.run(newest("memory://"))
    ['train.ipynb']
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._beside = ThreadPoolExecutor(READERS, thread_name_prefix="nbcheckpoint-read")
        self._in_turn = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-write")
        self._closing: Future[None] | None = None

    @property
    def url(self) -> str:
        """How to open the same store again."""
        return self._store.url

    def __repr__(self) -> str:
        return f"<nbcheckpoint.AsyncStore {self.url}>"

    runs = _beside(Store.runs)
    run = _beside(Store.run)
    steps = _beside(Store.steps)
    step = _beside(Store.step)
    events = _beside(Store.events)
    graph = _beside(Store.graph)
    checkpoint = _beside(Store.checkpoint)
    find = _beside(Store.find)
    restore = _beside(Store.restore)
    load = _beside(Store.load)
    outputs = _beside(Store.outputs)
    diff = _beside(Store.diff)
    preview = _beside(Store.preview)
    environment = _beside(Store.environment)
    going = _beside(Store.going)
    mark = _beside(Store.mark)
    prune = _beside(Store.prune)
    verify = _beside(Store.verify)
    export = _beside(Store.export)
    copy_to = _beside(Store.copy_to)

    begin_run = _in_turn(Store.begin_run)
    put_run = _in_turn(Store.put_run)
    take = _in_turn(Store.take)
    renew = _in_turn(Store.renew)
    update_run = _in_turn(Store.update_run)
    put_step = _in_turn(Store.put_step)
    answer = _in_turn(Store.answer)
    fork = _in_turn(Store.fork)
    cancel = _in_turn(Store.cancel)
    save = _in_turn(Store.save)
    flush = _in_turn(Store.flush)
    pin = _in_turn(Store.pin)
    unpin = _in_turn(Store.unpin)
    note = _in_turn(Store.note)
    delete_checkpoint = _in_turn(Store.delete_checkpoint)
    delete_run = _in_turn(Store.delete_run)
    import_ = _in_turn(Store.import_)
    trust = _in_turn(Store.trust)

    async def archive(self, run: str) -> AsyncIterator[bytes]:
        """What `export` writes, piece by piece: each is made when the one before has been taken. Raises like it."""
        return self._taken(await self._run(self._beside, self._store.archive, (run,), {}))

    async def _taken(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (piece := await self._run(self._beside, next, (pieces, None), {})) is not None:
            yield piece

    async def close(self) -> None:
        """Wait for what is under way, then let go of everything. Goes on to its end also when it is cancelled."""
        if self._closing is None:
            self._closing = self._in_turn.submit(self._close)
            self._in_turn.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(self._closing))

    def _close(self) -> None:
        self._beside.shutdown()
        self._store.close()

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _run(self, pool: Executor, work: Callable[..., T], args: Any, kwargs: Any) -> T:
        if self._closing is not None:
            raise StoreError(f"{self.url} is closed", hint="open the store again")
        context = contextvars.copy_context()
        return await asyncio.wrap_future(pool.submit(context.run, partial(work, *args, **kwargs)))


async def open_async_store(
    url: str | os.PathLike[str] | None = None, *, create: bool = True, encrypt: bool | None = None
) -> AsyncStore:
    """`open_store` for event loops.

    >>> import asyncio
    >>> asyncio.run(open_async_store("memory://"))
    <nbcheckpoint.AsyncStore memory://>
    """
    return await opened(lambda: open_store(url, create=create, encrypt=encrypt))


async def opened(opener: Callable[[], Store]) -> AsyncStore:
    """What `opener` opens, in a thread. Opened for nobody, because its task was cancelled meanwhile, it is closed."""
    opening = asyncio.ensure_future(asyncio.to_thread(opener))
    try:
        return AsyncStore(await asyncio.shield(opening))
    except asyncio.CancelledError:
        opening.add_done_callback(_close_again)
        raise


def _close_again(opening: asyncio.Future[Store]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, opening.result().close)


async def aside(work: Callable[[], T]) -> T:
    """What `work` gives, done in a thread of its own: for what takes so long that it must not take one from others."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-long")
    try:
        return await asyncio.wrap_future(pool.submit(work))
    finally:
        pool.shutdown(wait=False)

"""Waiting for news: one watcher for each store somebody waits for, however many wait.

Theory of operation. Twice a second a watcher glances at the files of its store, without opening it, and at the
processes that work on runs. Only when either says that something may be different is the store opened and its mark
taken; only when the mark is another one is everybody told. A store that cannot be glanced at (a database somewhere) is
asked for its mark instead, less often. Nobody waits: nobody watches.

A token says how the runs stand and nothing about who asked, so it outlives this server and is the same in two browsers.
A store in trouble has a token too: what it will be asked next says what the trouble is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from blake3 import blake3

from nbcheckpoint.errors import Error
from nbcheckpoint.server.stores import Stores
from nbcheckpoint.store.watching import Mark, glance

GLANCE_SECONDS = 0.5
ASK_SECONDS = 3.0
"""Between two questions to a store that cannot be glanced at."""


class Watchers:
    """The watchers of one server."""

    def __init__(self) -> None:
        self._watchers: dict[str, Watcher] = {}

    async def wait(self, stores: Stores, path: str, since: str, seconds: float, gone: Awaitable[None]) -> str:
        """The token of the store for the notebook at `path`: as soon as it is not `since`, or after so long.

        Raises UsageError when `path` leaves the server's root.
        """
        where = await asyncio.to_thread(stores.locate, path)
        # Where there is no store yet, each folder is watched for itself: one may appear in it.
        watcher = self._watchers.setdefault(str(where or f"none: {Path(path).parent}"), Watcher(stores, path))
        try:
            return await watcher.wait(since, seconds, gone)
        finally:
            self._watchers = {key: other for key, other in self._watchers.items() if other.waiting}

    def close(self) -> None:
        """Everybody is answered now."""
        for watcher in self._watchers.values():
            watcher.close()


class Watcher:
    """Looks at one store for everybody who waits for it."""

    def __init__(self, stores: Stores, path: str) -> None:
        self.waiting = 0
        self._stores = stores
        self._path = path
        self._mark = Mark()
        self._glance: object = None
        self._looked = 0.0
        self._news = asyncio.Event()
        self._looking, self._beginning = asyncio.Lock(), asyncio.Lock()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, since: str, seconds: float, gone: Awaitable[None]) -> str:
        self.waiting += 1
        try:
            await self._begin()
            if since == self._mark.token and seconds:
                await self._told(since, seconds, asyncio.ensure_future(gone))
                await self._look_now(time.monotonic())
            return self._mark.token
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.stop()

    async def _begin(self) -> None:
        """Look at the store, unless it is being watched and nothing has happened to it."""
        async with self._beginning:
            if self._task is None:
                await self._look_now(time.monotonic())
                self._task = asyncio.ensure_future(self._watch())
                return
        if await asyncio.to_thread(self._may_be_different):
            await self._look_now(time.monotonic())

    async def _told(self, since: str, seconds: float, gone: asyncio.Future[None]) -> None:
        until = time.monotonic() + seconds
        over: set[asyncio.Future[Any]] = {gone, self._closed}
        while self._mark.token == since and (left := until - time.monotonic()) > 0:
            news: asyncio.Future[Any] = asyncio.ensure_future(self._news.wait())
            await asyncio.wait({news, *over}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            if any(end.done() for end in over):
                return

    def close(self) -> None:
        self.stop()
        self._closed.cancel()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(GLANCE_SECONDS)
            if await asyncio.to_thread(self._may_be_different):
                await self._look_now(time.monotonic())

    def _may_be_different(self) -> bool:
        try:
            now = self._glanced()
        except Error:
            return True
        if now is None:
            return time.monotonic() - self._looked > ASK_SECONDS
        return now != self._glance or not self._mark.stands

    def _glanced(self) -> object:
        where = self._stores.locate(self._path)
        return "no store" if where is None else glance(where)

    async def _look_now(self, asked: float) -> None:
        """Take the mark, unless somebody has begun to since it was asked for."""
        async with self._looking:
            if self._looked > asked:
                return
            started = time.monotonic()
            try:
                # First the glance: what is written in between is then seen by the next one.
                self._glance = await asyncio.to_thread(self._glanced)
                mark = await self._taken()
            except Error as error:
                mark = Mark(token=blake3(f"{type(error).__name__}: {error}".encode()).hexdigest(16))
            self._looked = started
            if mark.token != self._mark.token:
                self._news.set()
                self._news = asyncio.Event()
            self._mark = mark

    async def _taken(self) -> Mark:
        store = await self._stores.open(self._path)
        if store is None:
            return Mark(token="0")
        async with store:
            return await store.mark()

"""The one handler behind all routes: who may ask, how much may be sent, and how things that go wrong are told.

Invariants: every method of every route is authenticated, authorised (resource `nbcheckpoint`) and, where it changes
anything, checked for cross-site requests, before a byte of a body is taken. A body is bounded; an archive goes to a
nameless temporary file, which is gone with the request, however that ends. The event loop never waits for a disk.
Tornado hashes each answer into an ETag, so that polling an idle store is answered by an empty 304.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING, Any

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async
from tornado import web
from tornado.iostream import StreamClosedError

from nbcheckpoint.errors import (
    ArchiveDamaged,
    Conflict,
    Error,
    MissingExtra,
    NotFound,
    StoreFull,
    StoreGone,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    Untrusted,
    UsageError,
)
from nbcheckpoint.model import Record
from nbcheckpoint.server.asking import MAX_BODY, Download, Id, Question, Route, parse, parse_body
from nbcheckpoint.server.routes import ROUTES, no_store
from nbcheckpoint.server.stores import Stores

if TYPE_CHECKING:
    from nbcheckpoint.store.aio import AsyncStore

STATUS_CODES: tuple[tuple[type[Error], int], ...] = (
    (UsageError, 400),
    (ArchiveDamaged, 400),
    (Untrusted, 403),
    (NotFound, 404),
    (Conflict, 409),
    (StoreReadOnly, 409),
    (StoreTooNew, 409),
    (StoreFull, 507),
    (StoreLocked, 503),
    (StoreGone, 503),
    (MissingExtra, 503),
    (Error, 500),
)

HINTS = {
    403: "log in again, or ask who runs this server",
    404: "is the page older than the server? reload it",
    405: "is the page older than the server? reload it",
    413: "an archive too large for the browser can be imported with: nbcheckpoint import",
}

SPOOL = 1 << 20
"""Bytes of an archive that are collected before they are written."""


class IdGiven(msgspec.Struct):
    """An id in an address."""

    id: Id


@web.stream_request_body
class Handler(APIHandler):
    """Answers whatever the table has for one address."""

    auth_resource = "nbcheckpoint"
    # A sidebar that polls must not keep an idle server from being culled.
    _track_activity = False

    def initialize(self, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.received = bytearray()
        self.size = 0
        self.too_much = False
        self.upload: IO[bytes] | None = None

    @property
    def stores(self) -> Stores:
        found: Stores = self.settings["nbcheckpoint_stores"]
        return found

    # Who may ask, and how much may be sent

    async def prepare(self) -> None:  # type: ignore[override]  # as APIHandler does
        await super().prepare()
        route = self.routes.get(self.request.method or "")
        if route is None or route.body is None or self._finished:
            return
        await self._check_sender()
        self._count(int(self.request.headers.get("Content-Length") or 0))
        if route.body == "archive" and not self.too_much:
            self.request.connection.set_max_body_size(self.most)  # type: ignore[union-attr]  # always set by then
            self.upload = await asyncio.to_thread(tempfile.TemporaryFile)

    async def _check_sender(self) -> None:
        """The guards of `post`, which is called when the body is here. Then it would be too late."""
        user = self.current_user
        allowed = user and await ensure_async(self.authorizer.is_authorized(self, user, "write", self.auth_resource))
        if not allowed:
            raise web.HTTPError(403)

    @property
    def most(self) -> int:
        route = self.routes[self.request.method or ""]
        most: int = self.settings["nbcheckpoint_max_upload"] if route.body == "archive" else MAX_BODY
        return most

    def _count(self, size: int) -> None:
        """More than may be sent is read, as far as the server goes along, and dropped: who does not listen to the
        end only sees a broken connection."""
        if size > self.most:
            self.too_much = True
            self.received.clear()

    async def data_received(self, chunk: bytes) -> None:
        if self.routes.get(self.request.method or "") is None or self._finished:
            return  # it will be refused
        self.size += len(chunk)
        self._count(self.size)
        if self.too_much:
            return
        self.received += chunk
        if self.upload is not None and len(self.received) >= SPOOL:
            await self._spool()

    async def _spool(self) -> None:
        assert self.upload is not None
        data, self.received = self.received, bytearray()
        try:
            await asyncio.to_thread(self.upload.write, data)
        except OSError as error:
            raise web.HTTPError(507, f"the archive could not be kept: {error.strerror}") from error

    def on_connection_close(self) -> None:
        self._let_go()

    def on_finish(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if self.upload is not None:
            self.upload.close()

    @web.authenticated
    @authorized
    async def get(self, *ids: str) -> None:
        await self.answer(ids)

    @web.authenticated
    @authorized
    async def post(self, *ids: str) -> None:
        await self.answer(ids)

    @web.authenticated
    @authorized
    async def delete(self, *ids: str) -> None:
        await self.answer(ids)

    # Answering

    async def answer(self, ids: Sequence[str]) -> None:
        route = self.routes.get(self.request.method or "")
        if route is None:
            raise web.HTTPError(405 if self.routes else 404)
        if self.too_much:
            raise web.HTTPError(413, f"that is more than the {self.most:,} bytes that may be sent")
        try:
            question = await self._question(route, ids)
            async with self._calling(route, question) as answer:
                await self._send(await answer)
        except Error as error:
            self.refuse(error)
        except StreamClosedError:
            pass  # nobody is there any more

    async def _question(self, route: Route, ids: Sequence[str]) -> Question:
        if self.upload is not None:
            await self._spool()
            await asyncio.to_thread(self.upload.seek, 0)
        given = {name: self.get_query_arguments(name, strip=False)[-1:] for name in route.query.__struct_fields__}
        return Question(
            ids={name: parse(IdGiven, {"id": id}, strict=True).id for name, id in zip(route.ids, ids, strict=True)},
            query=parse(route.query, {name: texts[0] for name, texts in given.items() if texts}, strict=False),
            body=parse_body(route.body, bytes(self.received)) if isinstance(route.body, type) else None,
            upload=self.upload,
            stores=self.stores,
            watchers=self.settings["nbcheckpoint_watchers"],
            gone=self.gone,
        )

    @asynccontextmanager
    async def _calling(
        self, route: Route, question: Question
    ) -> AsyncIterator[Awaitable[Record | Download | dict[str, Any]]]:
        """The store is closed afterwards: its folder may vanish or be replaced between two questions."""
        if route.opens == "nothing":
            yield route.call(question)
            return
        store: AsyncStore | None = await self.stores.open(question.query.path)
        if store is None:
            if route.opens == "store":
                raise no_store()
            yield route.call(question, None)
            return
        async with store:
            yield route.call(question, store)

    async def _send(self, answer: Record | Download | dict[str, Any]) -> None:
        self.set_header("Cache-Control", "private, no-cache")
        if isinstance(answer, Download):
            await self._send_file(answer)
        else:
            # Of a thousand records that takes a while, so it is not done on the event loop either.
            self.finish(await asyncio.to_thread(_encoded, answer))

    async def _send_file(self, file: Download) -> None:
        first = await anext(file.pieces)  # what is wrong from the beginning is refused in words
        self.set_header("Content-Type", "application/zip")
        self.set_header("Content-Disposition", f'attachment; filename="{file.name}"')
        self.write(first)
        try:
            async for piece in file.pieces:
                self.write(piece)
                await self.flush()  # waits for the receiver: no more than a piece is in memory
        except Error as error:
            self.log.warning("an export was broken off: %s", error)
            self.request.connection.stream.close()  # type: ignore[union-attr]  # so that it does not look complete
            return
        self.finish(set_content_type="application/zip")

    def refuse(self, error: Error) -> None:
        self.set_status(next(code for kind, code in STATUS_CODES if isinstance(error, kind)))
        self.finish(msgspec.json.encode({"message": str(error), "hint": error.hint}))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """What nobody foresaw, in the shape of all refusals. The traceback stays in the server's log."""
        error = kwargs.get("exc_info", (None, None))[1]
        message = error.log_message if isinstance(error, web.HTTPError) else None
        if status_code == 405:
            self.set_header("Allow", ", ".join(sorted(self.routes)))
        hint = "the server's log says more" if status_code >= 500 else HINTS.get(status_code, "")
        self.finish(msgspec.json.encode({"message": message or self._reason, "hint": hint}))


def _encoded(answer: Record | dict[str, Any]) -> bytes:
    return msgspec.json.encode(answer.to_dict() if isinstance(answer, Record) else answer)


def handlers() -> list[tuple[str, type[Handler], dict[str, Any]]]:
    """As a server wants them: one for each address, and one for all others below ours."""
    by_pattern: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_pattern.setdefault(route.pattern, {})[route.method] = route
    by_pattern["/nbcheckpoint/api/.*"] = {}
    return [(pattern, Handler, {"routes": routes}) for pattern, routes in by_pattern.items()]

"""What the sidebar may ask. Parse, call, show: no logic of its own, and the words are the command line's.

    GET nbcheckpoint/api/runs        {"runs": [Run], "store": URL, "workflow": name, "next": id}
    GET nbcheckpoint/api/runs/{id}   {"run": Run, "steps": [Step]}

Both take `path`, the notebook on whose behalf is asked: it decides the store (see `stores.py`), and
`workflow` answers by which name that notebook's runs go there. The list also takes `limit`, `before` (the
`next` of the page before), `status` and `workflow`. What there is none of is null. A refusal is
`{"message", "hint"}`.

Invariants: every route is authenticated and authorised (resource `nbcheckpoint`), only reads, never keeps the
event loop waiting, and never unpickles: it serves records, and those are JSON. Tornado hashes each answer into an
ETag, so that polling an idle store is answered by an empty 304.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from nbcheckpoint.errors import (
    Error,
    MissingExtra,
    NotFound,
    StoreGone,
    StoreLocked,
    Untrusted,
    UsageError,
)
from nbcheckpoint.model import Record, RunStatus
from nbcheckpoint.server.stores import Stores, shown

if TYPE_CHECKING:
    from nbcheckpoint.store.aio import AsyncStore

DEFAULT_LIMIT = 50
MAX_LIMIT = 1000
RUN_ID = r"[A-Za-z0-9._-]{1,128}"

_STATUS_CODES: tuple[tuple[type[Error], int], ...] = (
    (UsageError, 400),
    (Untrusted, 403),
    (NotFound, 404),
    (StoreLocked, 503),
    (StoreGone, 503),
    (MissingExtra, 503),
    (Error, 500),
)


class Handler(APIHandler):
    """Base of all our routes: the guard, the store, and how errors are told."""

    auth_resource = "nbcheckpoint"
    # A sidebar that polls must not keep an idle server from being culled.
    _track_activity = False

    @property
    def stores(self) -> Stores:
        found: Stores = self.settings["nbcheckpoint_stores"]
        return found

    async def answer(self, work: Awaitable[dict[str, Any]]) -> None:
        """Sends what `work` comes to. It awaits the store: that may be slow, and the server is shared."""
        try:
            body = await work
        except Error as error:
            self.refuse(error)
        else:
            self.set_header("Cache-Control", "private, no-cache")
            self.finish(json.dumps(body, ensure_ascii=False, separators=(",", ":")))

    def refuse(self, error: Error) -> None:
        self.set_status(next(code for kind, code in _STATUS_CODES if isinstance(error, kind)))
        self.finish(json.dumps({"message": str(error), "hint": error.hint}))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """What nobody foresaw, in the shape of all refusals. The traceback stays in the server's log."""
        error = kwargs.get("exc_info", (None, None))[1]
        message = error.log_message if isinstance(error, web.HTTPError) else None
        if status_code >= 500:
            hint = "the server's log says more"
        else:
            hint = "log in again, or ask who runs this server" if status_code == 403 else ""
        self.finish(json.dumps({"message": message or self._reason, "hint": hint}))

    @asynccontextmanager
    async def opened(self, path: str) -> AsyncIterator[AsyncStore | None]:
        """The store for `path`. Closed afterwards: its folder may vanish or be replaced between two polls."""
        store = await self.stores.open(path)
        try:
            yield store
        finally:
            if store is not None:
                await store.close()


class RunsHandler(Handler):
    """Runs, newest first."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(self.list_runs(self.get_query_argument("path", "", strip=False)))

    async def list_runs(self, path: str) -> dict[str, Any]:
        count = parse_limit(self.get_query_argument("limit", str(DEFAULT_LIMIT)))
        status = parse_status(self.get_query_argument("status", ""))
        workflow = self.get_query_argument("workflow", "", strip=False) or None
        before = parse_id(self.get_query_argument("before", ""))
        async with self.opened(path) as store:
            if store is None:
                return {"runs": [], "store": None, "workflow": None, "next": None}
            # One more than asked for tells whether there is a next page.
            runs = await store.runs(workflow=workflow, status=status, limit=count + 1, before=before)
            return {
                "runs": await plain(runs[:count]),
                "store": shown(store.url),
                "workflow": await asyncio.to_thread(self.stores.workflow, path, store.url) if path else None,
                "next": runs[count - 1].id if len(runs) > count else None,
            }


class RunHandler(Handler):
    """One run with its steps."""

    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        await self.answer(self.show_run(run_id, self.get_query_argument("path", "", strip=False)))

    async def show_run(self, run_id: str, path: str) -> dict[str, Any]:
        async with self.opened(path) as store:
            if store is None:
                raise NotFound("there is no store here yet", hint="run a cell with %%checkpointed first")
            run = await store.run(run_id)
            return {"run": run.to_dict(), "steps": await plain(await store.steps(run.id))}


async def plain(records: Sequence[Record]) -> list[dict[str, Any]]:
    """As JSON shows them. Of a thousand that takes a while, so it is not done on the event loop either."""
    return await asyncio.to_thread(lambda: [record.to_dict() for record in records])


def parse_limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise UsageError(f"limit is {text!r}", hint=f"give a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def parse_status(text: str) -> str | None:
    words = get_args(RunStatus)
    if text and text not in words:
        raise UsageError(f"there is no status {text!r}", hint=f"one of: {', '.join(words)}")
    return text or None


def parse_id(text: str) -> str | None:
    if text and not re.fullmatch(RUN_ID, text):
        raise UsageError(f"not a run id: {text!r}", hint="give the `next` of the page before")
    return text or None


HANDLERS: list[tuple[str, type[Handler]]] = [
    (r"/nbcheckpoint/api/runs", RunsHandler),
    (rf"/nbcheckpoint/api/runs/({RUN_ID})", RunHandler),
]

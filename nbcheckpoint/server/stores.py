"""Which store a request is about.

An explicit URL (configuration, then `NBCHECKPOINT_STORE`) always wins: kernels started by this server see
the same variable, so both sides mean the same store. Without one, the store is found as a kernel of that
notebook would find it: the nearest `.nbcheckpoint/` from the notebook's folder upwards.

Invariant: what a client sends only ever chooses among folders inside the server's root. Above it, the
root's own ancestors are looked at, and those no client can influence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from nbcheckpoint.config import find_store, store_location
from nbcheckpoint.errors import NotFound, UsageError

if TYPE_CHECKING:
    from nbcheckpoint.store import Store
    from nbcheckpoint.store.aio import AsyncStore


StoreOpener = Callable[["str | Path"], "Store"]
"""Opens an existing store. MUST raise `NotFound` where there is none, and create nothing."""


def open_existing(where: str | Path) -> Store:
    from nbcheckpoint.store import open_store  # only once somebody asks: server start-up stays fast

    return open_store(where, create=False)


def open_or_make(where: str | Path) -> Store:
    from nbcheckpoint.store import open_store  # as above

    return open_store(where)


@dataclass(frozen=True, slots=True)
class Stores:
    """Finds and opens the store a request is about."""

    root: Path
    """The server's root folder."""
    url: str = ""
    """The explicitly configured store, if any."""
    opener: StoreOpener = field(default=open_existing)
    maker: Callable[[str | Path], Store] = field(default=open_or_make)

    async def open(self, path: str = "") -> AsyncStore | None:
        """The store for the notebook at `path` (the server's own, if empty); None where there is none yet.

        Raises `UsageError` when `path` leaves the server's root.
        """
        where, opened = await asyncio.to_thread(self._prepare, path)
        if where is None:
            return None
        try:
            return await opened(lambda: self.opener(where))
        except NotFound:
            return None

    async def make(self, path: str = "") -> AsyncStore:
        """The same; where there is none, it is made where a kernel of that notebook would make it."""
        where, opened = await asyncio.to_thread(self._prepare, path)
        return await opened(lambda: self.maker(where or store_location(start=self._folder(path))))

    def _prepare(self, path: str) -> tuple[str | Path | None, Callable[[Callable[[], Store]], Awaitable[AsyncStore]]]:
        """What looks at the disk before a store is opened: for the folder, and for the code that opens it."""
        from nbcheckpoint.store.aio import opened

        return self.locate(path), opened

    def locate(self, path: str = "") -> str | Path | None:
        folder = self._folder(path)
        if self.url:
            return self.url
        try:
            return find_store(folder)
        except OSError as error:
            raise _refusal(path) from error

    def workflow(self, path: str, url: str) -> str:
        """The name a kernel of the notebook at `path` gives its runs: its path from the folder the store is in."""
        notebook = self._folder(path) / PurePosixPath(path).name
        home = Path(url.removeprefix("file://")).parent
        return notebook.relative_to(home).as_posix() if notebook.is_relative_to(home) else notebook.name

    def _folder(self, path: str) -> Path:
        """The folder a kernel of that notebook starts in; the root for no notebook."""
        root = self.root.resolve()
        try:
            folder = (root / PurePosixPath(path.strip("/")).parent).resolve()
            # Since Python 3.13 a loop of links is left in the path.
            is_loop = any(part.is_symlink() for part in (folder, *folder.parents))
        except (OSError, ValueError, RuntimeError) as error:  # a NUL, a loop of links
            raise _refusal(path) from error
        if is_loop or not folder.is_relative_to(root):
            raise _refusal(path)
        return folder


def _refusal(path: str) -> UsageError:
    return UsageError(
        f"not a path inside the server's root folder: {path[:200]!r}",
        hint="give the notebook's path as the file browser shows it, with / between folders",
    )


def shown(url: str) -> str:
    """A store's URL as a person may see it: without password and options."""
    if "://" not in url:
        return url  # a folder, whose name may well contain ? and @
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return urlunsplit((parts.scheme, f"{name}@{host}" if name else host, parts.path, "", ""))

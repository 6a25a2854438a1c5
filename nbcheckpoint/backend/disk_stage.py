"""Chunks on their way into the index: staged, made durable, committed; and files on their way out.

Theory of operation. A staged chunk is a file without a row, or bytes in memory when they are few. A commit has
three acts, called by `disk.py` in this order: `prepare` (fsync everything staged; no lock of SQLite's is held),
`insert` (inside the transaction: one row each), `settle` (after a durable commit: forget what was staged, unlink
what was deleted). Whatever fails, the staged chunks stay staged and the next commit tries again.

A file whose fsync failed is never simply fsynced again, because the kernel may say "fine" after throwing the
bytes away: it is read back, checked against its digest, and written anew.

A file may have been swept as an orphan by another process before it got its row. Both sides settle this inside
a transaction: the sweeper looks for the row and unlinks, `insert` looks for the file and adds the row.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from blake3 import blake3

from nbcheckpoint.backend.disk_files import ChunkFiles, Suspicious, fsync_path
from nbcheckpoint.backend.disk_rows import CHUNK, SELECT_CHUNK, Staged, chunk_row, chunk_tag, stage_inline
from nbcheckpoint.errors import StoreError

INLINE_LIMIT: Final = 8 << 20
"""Bytes of small chunks kept in memory before they are committed without being asked."""


class Transaction(Protocol):
    """What `insert` needs of the index, inside a transaction."""

    def add(self, key: str, value: object, *, tag: str) -> bool: ...
    def set(self, key: str, value: object, *, tag: str) -> bool: ...
    def select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...


@dataclass(slots=True)
class Batch:
    """What one commit takes along."""

    staged: list[Staged] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    doomed: list[str] = field(default_factory=list)


class Stage:
    """What this process has put and not committed, or deleted and not unlinked."""

    def __init__(self, directory: Path, files: ChunkFiles) -> None:
        self._directory = directory
        self._files = files
        self.forget()

    def forget(self) -> None:
        """After a fork: what the parent staged is the parent's to commit."""
        self.flushing = threading.Lock()
        """Held from `prepare` to `settle`, so that a commit never overtakes another one's fsync."""
        self._staged: dict[str, Staged] = {}
        self._touched: dict[str, None] = {}
        self._replace: set[str] = set()
        self._doomed: list[str] = []

    # Coming in.

    def add(self, name: str, data: memoryview, *, replace: bool) -> int:
        """Stage a chunk. `replace`: what the index has under this name is damaged. Raises OSError."""
        staged = stage_inline(name, data)
        if staged is None:
            staged = Staged(name, len(data), filename=self._files.write(name, data))
        if replace:
            self._replace.add(name)
        self._touched.pop(name, None)
        self._staged[name] = staged
        return staged.size

    def touch(self, name: str) -> None:
        """It is in the index already: it must still be there at the commit, and counts as new from then on."""
        self._touched[name] = None

    def get(self, name: str) -> Staged | None:
        return self._staged.get(name)

    def drop(self, name: str) -> int:
        """Forget a chunk that was staged. Returns the bytes freed."""
        self._touched.pop(name, None)
        item = self._staged.pop(name, None)
        if item is not None and item.filename is not None:
            self._unlink(item.filename)
        return item.size if item is not None else 0

    @property
    def overfull(self) -> bool:
        """Are so many small chunks waiting in memory that it is time to commit them?"""
        return sum(item.size for item in list(self._staged.values()) if item.value) > INLINE_LIMIT

    # The three acts.

    def prepare(self) -> Batch:
        """fsync everything staged. Raises OSError or Suspicious; nothing is forgotten then."""
        self._files.rotate()
        batch = Batch(list(self._staged.values()), list(self._touched), list(self._doomed))
        todo = [item for item in batch.staged if item.filename and not item.mark]
        try:
            self._flush(todo)
        except OSError:
            self._flush(todo)  # once more, with what failed written anew
        return batch

    def _flush(self, todo: list[Staged]) -> None:
        for item in todo:
            if item.suspect:
                self._rewrite(item)
        try:
            marks = [self._files.flush(str(item.filename)) for item in todo]
            self._flush_folders({str(item.filename)[:2] for item in todo})
        except OSError:
            for item in todo:
                item.suspect = True
            raise
        for item, mark in zip(todo, marks, strict=True):
            item.mark = mark

    def _flush_folders(self, folders: set[str]) -> None:
        for folder in folders:
            fsync_path(self._directory / folder)
        if folders:
            fsync_path(self._directory)  # a folder may be new itself

    def _rewrite(self, item: Staged) -> None:
        """The disk refused this file: what the page cache still has goes into a new one."""
        old = str(item.filename)
        try:
            data = self._files.read(old)
        except FileNotFoundError:
            data = b""
        if blake3(data).hexdigest() != item.name:
            self._staged.pop(item.name, None)
            raise Suspicious(f"chunk {item.name} was lost by the disk before it was saved")
        item.filename = self._files.write(item.name, memoryview(data))
        item.suspect = False
        self._unlink(old)

    def insert(self, index: Transaction, batch: Batch) -> None:
        """Inside the transaction: give every staged chunk its row."""
        for item in batch.staged:
            if item.filename is not None and not os.path.exists(self._directory / item.filename):
                self._staged.pop(item.name, None)
                raise StoreError(f"chunk {item.name} was swept while it was being saved", hint="save again")
            # With `add` a row of somebody else's for the same content stays, and our file goes; `set` replaces.
            store = index.set if item.name in self._replace else index.add
            store(CHUNK + item.name, item, tag=item.tag)
        for name in batch.touched:
            self._renew(index, name)

    def _renew(self, index: Transaction, name: str) -> None:
        rows = index.select(SELECT_CHUNK, (CHUNK + name,))
        if not rows:
            self._touched.pop(name, None)
            raise StoreError(f"chunk {name} was pruned while it was being saved", hint="save again")
        row = chunk_row(rows[0])
        tag = chunk_tag(row.kind, row.mark)
        index.select("UPDATE Cache SET tag = ? WHERE raw = 1 AND key = ?", (tag, CHUNK + name))

    def settle(self, batch: Batch) -> None:
        """After a durable commit."""
        for item in batch.staged:
            if self._staged.get(item.name) is item:
                del self._staged[item.name]
            self._replace.discard(item.name)
        for name in batch.touched:
            self._touched.pop(name, None)
        for filename in batch.doomed:
            self._unlink(filename)
            self._doomed.remove(filename)

    # Going out.

    def doom(self, filename: str) -> int:
        """Its row is gone; the file goes as soon as that is durable. Returns how many are waiting."""
        self._doomed.append(filename)
        return len(self._doomed)

    def _unlink(self, filename: str) -> None:
        try:
            self._files.remove(filename)
        except (OSError, Suspicious):
            pass  # an orphan, for `sweep`

"""Chunks on their way into the index: staged, made durable, committed; and packs on their way out.

Theory of operation. A staged chunk is in a pack but has no row, or it is in memory when it is small. A commit has
three acts, called by `disk.py` in this order: `prepare` (fsync everything staged; no lock of SQLite's is held),
`insert` (inside the transaction: one row each), `settle` (after a durable commit: forget what was staged, unlink
the packs that have become empty). Whatever fails, the staged chunks stay staged and the next commit tries again.

All rows of a pack are inserted by one transaction: writing to a pack and remembering the chunk is one step under
`_writing`, and so is beginning a new batch. Hence a pack whose last row has been deleted will never get another
one, and can be unlinked without looking again.

A pack whose fsync failed is never simply fsynced again, because the kernel may say "fine" after throwing the bytes
away: its chunks are read back, checked against their digests, and written to a new one.

A pack may have been swept as an orphan by another process before its chunks got their rows. Both sides settle this
inside a transaction: the sweeper looks for rows and unlinks, `insert` looks for the pack and adds the rows.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from blake3 import blake3

from nbcheckpoint.backend.disk_files import Packs, Suspicious, fsync_path
from nbcheckpoint.backend.disk_rows import (
    CHUNK,
    PAGE,
    SELECT_CHUNK,
    ChunkRow,
    Staged,
    chunk_row,
    select_chunks,
    stage_inline,
)
from nbcheckpoint.errors import ChunkPruned

INLINE_LIMIT: Final = 8 << 20
"""Bytes of small chunks kept in memory before they are committed without being asked."""

YOUNG_SECONDS: Final = 60.0
"""A chunk put (again) so recently is not written down as new once more; `delete_chunk` adds this to its grace."""


class Transaction(Protocol):
    """What is needed of the index, inside a transaction."""

    def add(self, key: str, value: object, *, tag: str) -> bool: ...
    def set(self, key: str, value: object, *, tag: str) -> bool: ...
    def delete(self, key: str) -> bool: ...
    def select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...
    def change(self, sql: str, values: Sequence[Any] = ()) -> int: ...


@dataclass(slots=True)
class Batch:
    """What one commit takes along."""

    staged: list[Staged]
    touched: list[str]
    doomed: list[str]
    emptied: set[str] = field(default_factory=set)
    """Packs without a row, once this is committed."""


class Stage:
    """What this process has put and not committed, or deleted and not unlinked."""

    def __init__(self, directory: Path, packs: Packs) -> None:
        self._directory = directory
        self._packs = packs
        self.forget()

    def forget(self) -> None:
        """After a fork: what the parent staged is the parent's to commit."""
        self.flushing = threading.Lock()
        """Held from `prepare` to `settle`, so that a commit never overtakes another one's fsync."""
        self._writing = threading.Lock()
        self._staged: dict[str, Staged] = {}
        self._touched: dict[str, None] = {}
        self._replace: set[str] = set()
        self._doomed: list[str] = []
        self._inline = 0
        self._abandoned = False
        self._packs.forget()

    # Coming in.

    def add(self, name: str, data: memoryview, *, replace: bool = False, instead_of: str | None = None) -> int:
        """Stage a chunk. `replace`: what the index has under this name is damaged. Raises OSError."""
        with self._writing:
            item = stage_inline(name, data)
            if item is None:
                filename, offset = self._packs.write(data)
                item = Staged(name, len(data), filename=filename, offset=offset)
            item.instead_of = instead_of
            if replace:
                self._replace.add(name)
            self._touched.pop(name, None)
            self._staged[name] = item
            self._inline += len(item.value or b"")
            return item.size

    def touch(self, name: str) -> None:
        """It is in the index already: it must still be there at the commit, and counts as new from then on."""
        item = self._staged.get(name)
        if item is None:
            self._touched[name] = None
        else:
            item.instead_of = None  # it was only being moved; now somebody counts on it

    def get(self, name: str) -> Staged | None:
        return self._staged.get(name)

    def packs(self) -> set[str]:
        """The packs our staged chunks are in."""
        return {item.filename for item in list(self._staged.values()) if item.filename is not None}

    def drop(self, name: str) -> int:
        """Forget a chunk that was staged. Returns the bytes it took; its pack may become an orphan."""
        self._touched.pop(name, None)
        item = self._staged.pop(name, None)
        if item is None:
            return 0
        self._inline -= len(item.value or b"")
        return item.size

    def abandon(self) -> None:
        """The disk is full. What is staged belongs to saves that cannot succeed: give its space back.

        Somebody's durable put may still count on it; so the next one raises.
        """
        with self._writing:
            self._packs.rotate()
            for filename in self.packs():
                self._abandoned = True
                self._unlink(filename)
            self._staged = {name: item for name, item in self._staged.items() if item.filename is None}

    @property
    def overfull(self) -> bool:
        """Are so many small chunks waiting in memory that it is time to commit them?"""
        return self._inline > INLINE_LIMIT

    # The three acts.

    def prepare(self) -> Batch:
        """fsync everything staged. Raises OSError or Suspicious; nothing is forgotten then."""
        with self._writing:
            self._packs.rotate()
            batch = Batch(list(self._staged.values()), list(self._touched), list(self._doomed))
            if self._abandoned:
                self._abandoned = False
                raise OSError(errno.ENOSPC, "chunks of a save had to be given up when the disk was full")
        todo = [item for item in batch.staged if item.filename and not item.mark]
        try:
            self._flush(todo)
        except OSError:
            self._flush(todo)  # once more, with what failed written anew
        return batch

    def _flush(self, todo: list[Staged]) -> None:
        self._rewrite([item for item in todo if item.suspect])
        names = {str(item.filename) for item in todo}
        try:
            marks = {name: self._packs.flush(name) for name in sorted(names)}
            self._flush_folders({name[:2] for name in names})
        except OSError:
            for item in todo:
                item.suspect = True
            raise
        for item in todo:
            item.mark = marks[str(item.filename)]

    def _flush_folders(self, folders: set[str]) -> None:
        for folder in folders:
            fsync_path(self._directory / folder)
        if folders:
            fsync_path(self._directory)  # a folder may be new itself

    def _rewrite(self, suspects: list[Staged]) -> None:
        """The disk refused their packs: what the page cache still has goes into new ones."""
        for item in suspects:
            try:
                data = self._packs.read(str(item.filename), item.offset, item.size)
            except FileNotFoundError as error:
                raise self.swept(item) from error
            if blake3(data).hexdigest() != item.name:
                self._staged.pop(item.name, None)
                raise Suspicious(f"chunk {item.name} was lost by the disk before it was saved")
            with self._writing:
                item.filename, item.offset = self._packs.write(memoryview(data))
            item.suspect = False
        if suspects:
            with self._writing:
                self._packs.rotate()

    def insert(self, index: Transaction, batch: Batch) -> None:
        """Inside the transaction: give every staged chunk its row."""
        packs = {item.filename for item in batch.staged if item.filename is not None}
        missing = {name for name in packs if not (self._directory / name).exists()}
        used: set[str | None] = set()
        batch.emptied.clear()
        for item in batch.staged:
            if item.filename in missing:
                raise self.swept(item)
            if self._insert_one(index, batch, item):
                used.add(item.filename)
        batch.emptied |= packs - used
        pruned: list[str] = []
        for start in range(0, len(batch.touched), PAGE):
            pruned += self._renew(index, batch.touched[start : start + PAGE])
        for name in pruned:
            self._touched.pop(name, None)  # all of them: the next try is a new one
        if pruned:
            raise ChunkPruned(pruned[0])

    def _insert_one(self, index: Transaction, batch: Batch, item: Staged) -> bool:
        """False if a row for another pack stays: somebody else's for the same content is as good."""
        key = CHUNK + item.name
        if item.name not in self._replace and item.instead_of is None and index.add(key, item, tag=item.tag):
            return True
        old = index.select("SELECT filename FROM Cache WHERE raw = 1 AND key = ?", (key,))
        if item.filename is not None and old == [(item.filename,)]:
            return True  # an earlier commit went through after all, and was interrupted before it was told
        if item.name not in self._replace and item.instead_of is None:
            return False
        if item.instead_of is not None and old != [(item.instead_of,)]:
            return False
        index.set(key, item, tag=item.tag)
        if old and old[0][0] and is_empty(index, old[0][0]):
            batch.emptied.add(old[0][0])
        return True

    def _renew(self, index: Transaction, names: Sequence[str]) -> list[str]:
        """Those that are not there any more."""
        rows = {row.name: row for row in map(chunk_row, index.select(*select_chunks(names)))}
        for row in rows.values():
            if row.age >= YOUNG_SECONDS:
                values = row.renewed(), CHUNK + row.name
                index.change("UPDATE Cache SET tag = ? WHERE raw = 1 AND key = ?", values)
        return [name for name in names if name not in rows]

    def settle(self, batch: Batch) -> None:
        """After a durable commit."""
        for item in batch.staged:
            if self._staged.get(item.name) is item:
                del self._staged[item.name]
                self._replace.discard(item.name)
            self._inline -= len(item.value or b"")
        for name in batch.touched:
            self._touched.pop(name, None)
        for filename in (*batch.doomed, *batch.emptied):
            self._unlink(filename)
        self._doomed = [filename for filename in self._doomed if filename not in batch.doomed]

    def swept(self, item: Staged) -> ChunkPruned:
        """Another process took its pack for an orphan: somebody sweeps without grace. All that was in it is gone."""
        for name in [name for name, other in self._staged.items() if other.filename == item.filename]:
            del self._staged[name]
        return ChunkPruned(item.name, "swept")

    # Going out.

    def doom(self, filename: str) -> int:
        """It has no rows any more; it goes as soon as that is durable. Returns how many are waiting."""
        self._doomed.append(filename)
        return len(self._doomed)

    def _unlink(self, filename: str) -> None:
        try:
            self._packs.remove(filename)
        except (OSError, Suspicious):
            pass  # an orphan, for `sweep`


def is_empty(index: Transaction, filename: str) -> bool:
    """Inside a transaction: has this pack no rows left?"""
    return not index.select("SELECT 1 FROM Cache WHERE filename = ? LIMIT 1", (filename,))


def renew_marks(index: Transaction, rows: Sequence[ChunkRow]) -> None:
    """Inside a transaction: these were read and found right; so their packs can be trusted as they are now."""
    for row in rows:
        found = index.select(SELECT_CHUNK, (CHUNK + row.name,))
        if found and chunk_row(found[0])[:5] == row[:5]:
            index.change("UPDATE Cache SET tag = ? WHERE raw = 1 AND key = ?", (row.renewed(), CHUNK + row.name))

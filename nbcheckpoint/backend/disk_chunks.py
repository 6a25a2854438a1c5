"""The chunk plane of the embedded store: staging, committing, reading and mapping.

Theory of operation. `put` stages: the bytes are in a file without a row, or in memory when they are few. A
commit has three acts, called by `disk.py` in this order: `prepare` (fsync everything staged; no lock of SQLite's
is held), `insert` (inside the transaction: one row each), `settle` (after the commit: forget what was staged,
unlink what was deleted). Whatever fails, the staged chunks stay staged and the next commit tries again. A file
whose fsync failed is never fsynced a second time, because the kernel may say "fine" after throwing the bytes
away: it is read back, checked, and written anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from blake3 import blake3

from nbcheckpoint.backend.base import check_chunk_name
from nbcheckpoint.backend.disk_files import ChunkFiles, Suspicious, fingerprint, fsync_folder
from nbcheckpoint.backend.disk_index import DB, translate, translated
from nbcheckpoint.backend.disk_rows import (
    CHUNK,
    CHUNK_COLUMNS,
    ChunkRow,
    Staged,
    chunk_tag,
    inline_bytes,
    stage_inline,
)
from nbcheckpoint.backend.mapping import Region
from nbcheckpoint.errors import NotFound, StoreDamaged, StoreError

Select = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

_BY_KEY: Final = f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE raw = 1 AND key IN "
_AT_ONCE: Final = 500
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


class Chunks:
    """The chunks of one store, as this process sees them."""

    def __init__(self, directory: Path, select: Select, missed: Callable[[], None]) -> None:
        self.files = ChunkFiles(directory)
        self.damaged: set[str] = set()
        """Names found damaged, by reading or in the background; a new put of one of them replaces it."""
        self.flushing = threading.Lock()
        """Held from `prepare` to `settle`, so that a commit never overtakes another one's fsync."""
        self._directory = directory
        self._db = directory / DB
        self._select = select
        self._missed = missed
        self._sound: dict[str, str] = {}
        self.forget()

    def forget(self) -> None:
        """After a fork: what the parent staged is the parent's to commit."""
        self.flushing = threading.Lock()
        self._staged: dict[str, Staged] = {}
        self._touched: dict[str, None] = {}
        self._doomed: list[str] = []

    # Putting.

    def put(self, name: str, data: bytes | memoryview) -> int:
        """Stage it unless it is there and sound. Returns the bytes newly written."""
        check_chunk_name(name)
        if name in self._staged and name not in self.damaged:
            return 0
        if name not in self.damaged and self._is_sound(name):
            self._touched[name] = None
            return 0
        view = memoryview(data)
        view = view.cast("B") if view.nbytes else memoryview(b"")
        staged = stage_inline(name, view)
        if staged is None:
            with translated(self._db):
                staged = Staged(name, len(view), filename=self.files.write(name, view))
        self._staged[name] = staged
        return staged.size

    @property
    def overfull(self) -> bool:
        """Are so many small chunks waiting in memory that it is time to commit them?"""
        return sum(item.size for item in list(self._staged.values()) if item.value) > INLINE_LIMIT

    def _is_sound(self, name: str) -> bool:
        """Is it in the index, and will it read back? A save must not lean on a chunk that is damaged."""
        row = self._rows([name]).get(name)
        if row is None:
            return False
        if row.filename is None or self._untouched(row) or self._sound.get(name) == row.filename:
            return True
        try:
            self._content(row)
        except StoreDamaged:
            return False
        self._sound[name] = row.filename
        return True

    # Committing.

    def prepare(self) -> Batch:
        """fsync everything staged. Raises StoreError; nothing is forgotten then."""
        batch = Batch(list(self._staged.values()), list(self._touched), list(self._doomed))
        self.files.rotate()
        with translated(self._db):
            try:
                self._flush(batch.staged)
            except OSError:
                self._flush(batch.staged)
        return batch

    def _flush(self, staged: list[Staged]) -> None:
        todo = [item for item in staged if item.filename and not item.mark]
        for item in todo:
            if item.suspect:
                self._rewrite(item)
        marks = {}
        try:
            for item in todo:
                marks[item.name] = self.files.flush(item.filename or "")
            self._flush_folders(todo)
        except OSError:
            for item in todo:
                item.suspect = True
            raise
        for item in todo:
            item.mark = marks[item.name]

    def _flush_folders(self, todo: list[Staged]) -> None:
        folders = {(item.filename or "")[:2] for item in todo}
        for folder in folders:
            fsync_folder(self._directory / folder)
        if folders:
            fsync_folder(self._directory)  # a folder may be new itself

    def _rewrite(self, item: Staged) -> None:
        """The disk refused this file: what the page cache still has goes into a new one."""
        old = item.filename or ""
        try:
            data = self.files.read(old)
        except FileNotFoundError:
            data = b""
        if blake3(data).hexdigest() != item.name:
            self._staged.pop(item.name, None)
            raise Suspicious(f"chunk {item.name} was lost by the disk before it was saved")
        item.filename = self.files.write(item.name, memoryview(data))
        item.suspect = False
        self.files.remove(old)

    def insert(self, index: Transaction, batch: Batch) -> None:
        """Inside the transaction: give every staged chunk its row."""
        for item in batch.staged:
            # With `add` a row of somebody else's for the same content stays, and our file goes; `set` replaces.
            store = index.set if item.name in self.damaged else index.add
            store(CHUNK + item.name, item, tag=item.tag)
        for name in batch.touched:
            self._touch(index, name)

    def _touch(self, index: Transaction, name: str) -> None:
        """It was there when we were asked to put it. It must still be, and is not old any more."""
        rows = index.select(_BY_KEY + "(?)", (CHUNK + name,))
        if not rows:
            self._touched.pop(name, None)
            raise StoreError(f"chunk {name} was pruned while it was being saved", hint="save again")
        row = ChunkRow(*rows[0])
        tag = chunk_tag(row.kind, row.mark)
        index.select("UPDATE Cache SET tag = ? WHERE raw = 1 AND key = ?", (tag, CHUNK + name))

    def settle(self, batch: Batch) -> None:
        """After a durable commit."""
        for item in batch.staged:
            if self._staged.get(item.name) is item:
                del self._staged[item.name]
            self.damaged.discard(item.name)
        for name in batch.touched:
            self._touched.pop(name, None)
        for filename in batch.doomed:
            self._unlink(filename)
            self._doomed.remove(filename)

    def unstage(self, name: str) -> int:
        """Forget a chunk that was put and not committed yet. Returns the bytes freed."""
        self._touched.pop(name, None)
        item = self._staged.pop(name, None)
        if item is None:
            return 0
        if item.filename is not None:
            self._unlink(item.filename)
        return item.size

    def doom(self, row: ChunkRow) -> int:
        """Its row is gone; its file goes as soon as that is durable. Returns how many are waiting."""
        self._sound.pop(row.name, None)
        self.damaged.discard(row.name)
        if row.filename is not None:
            self._doomed.append(row.filename)
        return len(self._doomed)

    def _unlink(self, filename: str) -> None:
        try:
            self.files.remove(filename)
        except (OSError, Suspicious):
            pass  # an orphan, for `sweep`

    # Reading.

    def has(self, name: str) -> bool:
        check_chunk_name(name)
        return name in self._staged or name in self._rows([name])

    def read(self, name: str) -> bytes:
        check_chunk_name(name)
        return self._content(self._locate([name])[name])

    def map(self, names: Sequence[str], size: int) -> tuple[memoryview, list[ChunkRow]]:
        """The buffer, and the chunks in it that were taken at their fingerprint's word."""
        for name in names:
            check_chunk_name(name)
        found = self._locate(names)
        region, offset, unread = Region(size), 0, []
        for name in names:
            length, trusted = self._place(region, offset, size, found[name])
            offset += length
            if trusted is not None:
                unread.append(trusted)
        if offset != size:
            raise StoreDamaged(f"{len(names)} chunks hold {offset} bytes, not {size}")
        return region.view, unread

    def _place(
        self, region: Region, offset: int, size: int, chunk: Staged | ChunkRow
    ) -> tuple[int, ChunkRow | None]:
        length = chunk.size
        if chunk.filename and self._untouched(chunk) and region.can_lay(offset, length):
            if self._lay(region, offset, chunk):
                return length, chunk if isinstance(chunk, ChunkRow) else None
        data = self._content(chunk)
        if offset + len(data) > size:
            raise StoreDamaged(f"chunk {chunk.name} does not fit into {size} bytes")
        region.view[offset : offset + len(data)] = data
        return len(data), None

    def _lay(self, region: Region, offset: int, chunk: Staged | ChunkRow) -> bool:
        try:
            fd, status = self.files.open(chunk.filename or "")
        except (OSError, Suspicious) as error:
            raise self._bad(chunk, error) from error
        try:
            if status.st_size != chunk.size:
                raise self._bad(chunk, f"its file has {status.st_size} bytes, not {chunk.size}")
            return region.lay(fd, offset, chunk.size)
        finally:
            os.close(fd)

    def _untouched(self, chunk: Staged | ChunkRow) -> bool:
        """Has nobody written to its file through the file system since its bytes were fsynced?"""
        if isinstance(chunk, Staged):
            return not chunk.suspect  # we wrote it ourselves, a moment ago
        try:
            return fingerprint(self.files.status(chunk.filename or "")) == chunk.mark
        except (OSError, Suspicious):
            return False

    def _content(self, chunk: Staged | ChunkRow) -> bytes:
        """Its bytes, checked. Raises StoreDamaged; NotFound only if it was deleted a moment ago."""
        try:
            if chunk.filename is None:
                data = inline_bytes(chunk.kind, chunk.value)
            else:
                data = self.files.read(chunk.filename)
        except (OSError, Suspicious, ValueError) as error:
            self._gone_meanwhile(chunk)
            raise self._bad(chunk, error) from error
        if blake3(data).hexdigest() != chunk.name:
            raise self._bad(chunk, "its bytes are not those that were written")
        return data

    def _gone_meanwhile(self, chunk: Staged | ChunkRow) -> None:
        """A file that is not there is damage, unless its row has gone as well since we looked."""
        now = self._rows([chunk.name]).get(chunk.name)
        if isinstance(chunk, ChunkRow) and (now is None or now.filename != chunk.filename):
            raise NotFound(f"chunk {chunk.name} was deleted while it was being read")

    def _bad(self, chunk: Staged | ChunkRow, why: object) -> StoreError:
        if isinstance(why, OSError) and not isinstance(why, FileNotFoundError):
            error = translate(why, self._db)
            if not self._db.exists():
                return error
        self.damaged.add(chunk.name)
        return StoreDamaged(f"chunk {chunk.name} is damaged: {why}")

    # Looking up.

    def _locate(self, names: Sequence[str]) -> dict[str, Staged | ChunkRow]:
        found: dict[str, Staged | ChunkRow] = dict(self._rows(names))
        for name in names:
            if name in self._staged:
                found[name] = self._staged[name]
            elif name not in found:
                self._missed()
                raise NotFound(f"no chunk {name}")
        return found

    def _rows(self, names: Sequence[str]) -> dict[str, ChunkRow]:
        rows: dict[str, ChunkRow] = {}
        for start in range(0, len(names), _AT_ONCE):
            keys = [CHUNK + name for name in names[start : start + _AT_ONCE]]
            marks = ",".join("?" * len(keys))
            for values in self._select(f"{_BY_KEY}({marks})", keys):
                row = ChunkRow(*values)
                rows[row.name] = row
        return rows

    def scan(self, after: str, limit: int | None) -> Iterator[ChunkRow]:
        """Every row, ordered by name, a page at a time."""
        sql = f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE raw = 1 AND key > ? AND key < ? ORDER BY key LIMIT ?"
        last, left = CHUNK + after, limit
        while left is None or left > 0:
            page = self._select(sql, (last, "c0", _AT_ONCE if left is None else min(left, _AT_ONCE)))
            for values in page:
                yield ChunkRow(*values)
            if len(page) < _AT_ONCE:
                return
            last = page[-1][0]
            left = None if left is None else left - len(page)

"""Reading chunks back: found in the index or on the stage, checked against their name, mapped where possible.

Theory of operation. `read` always hashes what it returns. `map` may take a file at its fingerprint's word: where
`stat` says what it said when the file had just been fsynced, nobody has touched it through the file system, and
mapping it costs microseconds. Such files are handed to the auditor, which reads them afterwards. Anything else
(a copied store, a restored backup, a flipped bit) is read and hashed before `map` returns. A row whose file is
missing, short or altered is damage, never "not found".
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from blake3 import blake3

from nbcheckpoint.backend.base import check_chunk_name
from nbcheckpoint.backend.disk_files import ChunkFiles, Folders, Suspicious, fingerprint
from nbcheckpoint.backend.disk_index import DB, translate
from nbcheckpoint.backend.disk_rows import CHUNK, CHUNK_COLUMNS, ChunkRow, Staged, chunk_row, inline_bytes
from nbcheckpoint.backend.disk_stage import Stage
from nbcheckpoint.backend.mapping import Region
from nbcheckpoint.errors import NotFound, StoreDamaged, StoreError, StoreGone

Select = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Chunk = Staged | ChunkRow

PAGE: Final = 500

_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM})
"""Errors of our own situation: the file may be perfectly fine."""


class Chunks:
    """The chunks of one store, as this process sees them."""

    def __init__(
        self, directory: Path, files: ChunkFiles, stage: Stage, select: Select, missed: Callable[[], None]
    ) -> None:
        """`missed` is called before saying "not found", and raises if the index cannot be trusted with that."""
        self.damaged: set[str] = set()
        """Names found damaged so far; a new put of one of them replaces it."""
        self._db = directory / DB
        self._files = files
        self._stage = stage
        self._select = select
        self._missed = missed
        self._seen_sound: dict[str, str] = {}

    def has(self, name: str) -> bool:
        return self._stage.get(name) is not None or bool(self.rows([name]))

    def read(self, name: str) -> bytes:
        return self.content(self._locate([name])[name])

    def is_sound(self, name: str) -> bool:
        """Is it there, and will it read back? A save must not lean on a chunk that is damaged."""
        if name in self.damaged:
            return False
        if self._stage.get(name) is not None:
            return True
        row = self.rows([name]).get(name)
        if row is None:
            return False
        if row.filename is not None and self._seen_sound.get(name) != row.filename:
            try:
                if not self._untouched(row):
                    self.content(row)
            except (StoreDamaged, NotFound):
                return False
            self._seen_sound[name] = row.filename
        return True

    # Mapping.

    def map(self, names: Sequence[str], size: int) -> tuple[memoryview, list[ChunkRow]]:
        """The buffer, and the chunks in it that were taken at their fingerprint's word."""
        for name in names:
            check_chunk_name(name)
        found = self._locate(names)
        region, offset, unread = Region(size), 0, []
        with self._files.folders() as folders:
            for name in names:
                chunk = found[name]
                if self._lay(region, offset, chunk, folders):
                    offset += chunk.size
                    if isinstance(chunk, ChunkRow):
                        unread.append(chunk)
                else:
                    offset += self._copy(region, offset, chunk)
        if offset != size:
            raise StoreDamaged(f"{len(names)} chunks hold {offset} bytes, not {size}")
        return region.view, unread

    def _lay(self, region: Region, offset: int, chunk: Chunk, folders: Folders) -> bool:
        """Map its file if that is possible and the file provably untouched."""
        if chunk.filename is None or not region.can_lay(offset, chunk.size):
            return False
        try:
            fd, status = folders.open(chunk.filename)
        except (OSError, Suspicious):
            return False  # reading it will tell what is wrong
        try:
            # The size as well: a page behind the end of a file is a SIGBUS.
            return (
                status.st_size == chunk.size
                and (isinstance(chunk, Staged) or fingerprint(status) == chunk.mark)
                and region.lay(fd, offset, chunk.size)
            )
        finally:
            os.close(fd)

    def _copy(self, region: Region, offset: int, chunk: Chunk) -> int:
        data = self.content(chunk)
        if offset + len(data) > region.size:
            raise StoreDamaged(f"chunk {chunk.name} does not fit into {region.size} bytes")
        region.view[offset : offset + len(data)] = data
        return len(data)

    # Checking.

    def content(self, chunk: Chunk) -> bytes:
        """Its bytes, checked. Raises StoreDamaged; NotFound only if it was deleted a moment ago."""
        try:
            data = self._raw(chunk)
        except (OSError, Suspicious, ValueError) as error:
            raise self._explain(chunk, error) from error
        if blake3(data).hexdigest() != chunk.name:
            raise self._explain(chunk, "its bytes are not those that were written")
        return data

    def _raw(self, chunk: Chunk) -> bytes:
        if chunk.filename is None:
            return inline_bytes(chunk.kind, chunk.value)
        return self._files.read(chunk.filename)

    def _explain(self, chunk: Chunk, why: object) -> NotFound | StoreError:
        """Damage, unless the store is gone, the disk refused, or somebody deleted the chunk meanwhile."""
        if isinstance(chunk, ChunkRow):
            now = self.rows([chunk.name]).get(chunk.name)  # raises StoreGone itself
            if now is None or now.filename != chunk.filename:
                return NotFound(f"chunk {chunk.name} was deleted while it was being read")
        if isinstance(why, OSError) and not isinstance(why, FileNotFoundError):
            error = translate(why, self._db)
            if isinstance(error, StoreGone) or why.errno in _OURS:
                return error
        self.damaged.add(chunk.name)
        return StoreDamaged(f"chunk {chunk.name} is damaged: {why}")

    def _untouched(self, row: ChunkRow) -> bool:
        try:
            return fingerprint(self._files.status(str(row.filename))) == row.mark
        except (OSError, Suspicious):
            return False

    # Looking up.

    def _locate(self, names: Sequence[str]) -> dict[str, Chunk]:
        staged = {name: item for name in names if (item := self._stage.get(name)) is not None}
        found: dict[str, Chunk] = {**self.rows([name for name in names if name not in staged]), **staged}
        for name in names:
            if name not in found:
                self._missed()
                raise NotFound(f"no chunk {name}")
        return found

    def rows(self, names: Sequence[str]) -> dict[str, ChunkRow]:
        found: dict[str, ChunkRow] = {}
        for start in range(0, len(names), PAGE):
            keys = [CHUNK + name for name in names[start : start + PAGE]]
            marks = ",".join("?" * len(keys))
            sql = f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE raw = 1 AND key IN ({marks})"
            for row in map(chunk_row, self._select(sql, keys)):
                found[row.name] = row
        return found

    def scan(self, after: str = "", limit: int | None = None) -> Iterator[ChunkRow]:
        """Every row, ordered by name."""
        return map(chunk_row, self._pages(CHUNK_COLUMNS, after, limit))

    def names(self) -> Iterator[str]:
        """Every chunk's name, also of rows that make no sense otherwise."""
        return (str(key)[len(CHUNK) :] for (key,) in self._pages("key", "", None))

    def _pages(self, columns: str, after: str, limit: int | None) -> Iterator[tuple[Any, ...]]:
        sql = f"SELECT {columns} FROM Cache WHERE raw = 1 AND key > ? AND key < ? ORDER BY key LIMIT ?"
        last, left = CHUNK + after, limit
        while left is None or left > 0:
            count = PAGE if left is None else min(left, PAGE)
            page = self._select(sql, (last, "c0", count))
            yield from page
            if len(page) < count:
                return
            last = page[-1][0]
            left = None if left is None else left - count

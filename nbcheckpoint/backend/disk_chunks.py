"""Reading chunks back: found in the index or on the stage, checked against their name, mapped where possible.

Theory of operation. `read` always hashes what it returns. `map` may take a pack at its fingerprint's word: where
`stat` says what it said when the pack had just been fsynced, nobody has touched it through the file system. Chunks
that lie behind one another in such a pack are mapped as one run, so a gigabyte takes some sixty calls. They are
handed to the auditor, which reads them afterwards. Anything else (a copied store, a restored backup, a flipped
bit) is read and hashed before `map` returns. A row whose bytes are missing, too few or altered is damage, never
"not found".
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from blake3 import blake3

from nbcheckpoint.backend.base import check_chunk_name
from nbcheckpoint.backend.disk_files import Packs, Suspicious, fingerprint
from nbcheckpoint.backend.disk_index import DB, translate
from nbcheckpoint.backend.disk_rows import (
    CHUNK,
    CHUNK_COLUMNS,
    PAGE,
    ChunkRow,
    Staged,
    chunk_row,
    inline_bytes,
    select_chunks,
)
from nbcheckpoint.backend.disk_stage import Stage
from nbcheckpoint.backend.mapping import Region
from nbcheckpoint.errors import NotFound, StoreDamaged, StoreError, StoreGone

Select = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Chunk = Staged | ChunkRow

_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM})
"""Errors of our own situation: the file may be perfectly fine."""


class Mapped(NamedTuple):
    """What `map` gives."""

    view: memoryview
    unread: list[ChunkRow]
    """Chunks in it that were taken at their fingerprint's word."""
    stale: list[ChunkRow]
    """Chunks whose pack had another fingerprint but whose bytes were right, with the fingerprint it has now."""


class Chunks:
    """The chunks of one store, as this process sees them."""

    def __init__(self, directory: Path, packs: Packs, stage: Stage, select: Select, missed: Callable[[], None]) -> None:
        """`missed` is called before saying "not found", and raises if the index cannot be trusted with that."""
        self.damaged: set[str] = set()
        """Names found damaged so far; a new put of one of them replaces it."""
        self._db = directory / DB
        self._packs = packs
        self._stage = stage
        self._select = select
        self._missed = missed
        self._sound_packs: set[tuple[str, str]] = set()
        self._sound_chunks: set[str] = set()

    def has(self, name: str) -> bool:
        return self._stage.get(name) is not None or bool(self.rows([name]))

    def read(self, name: str) -> bytes:
        return self.content(self._locate([name])[name])

    def sound(self, names: Sequence[str]) -> set[str]:
        """Those that are there and will read back. A save must not lean on a chunk that is damaged."""
        asked = [name for name in names if name not in self.damaged]
        found = {name for name in asked if self._stage.get(name) is not None}
        rows = self.rows([name for name in asked if name not in found])
        return found | {name for name, row in rows.items() if self._is_sound(row)}

    def _is_sound(self, row: ChunkRow) -> bool:
        if row.filename is None or (row.filename, row.mark) in self._sound_packs or row.name in self._sound_chunks:
            return True
        if self._untouched(row):
            self._sound_packs.add((row.filename, row.mark))
            return True
        try:
            self.content(row)
        except (StoreDamaged, NotFound):
            return False
        self._sound_chunks.add(row.name)
        return True

    # Mapping.

    def map(self, names: Sequence[str], size: int) -> Mapped:
        """The chunks behind one another in a buffer."""
        for name in names:
            check_chunk_name(name)
        found = self._locate(names)
        region, offset = Region(size), 0
        mapped = Mapped(region.view, [], [])
        with _Laying(self._packs, region) as laying:
            for chunk in map(found.__getitem__, names):
                laid = laying.add(offset, chunk)
                offset += chunk.size if laid else self._copy(region, offset, chunk)
                if type(chunk) is ChunkRow:
                    if laid:
                        mapped.unread.append(chunk)
                    elif mark := laying.marks.get(str(chunk.filename)):
                        mapped.stale.append(chunk._replace(mark=mark))
            for start, chunk in laying.finish():
                self._copy(region, start, chunk)
        if offset != size:
            raise StoreDamaged(f"{len(names)} chunks hold {offset} bytes, not {size}")
        return mapped

    def _copy(self, region: Region, offset: int, chunk: Chunk) -> int:
        data = self.content(chunk)
        if offset + len(data) > region.size:
            raise StoreDamaged(f"chunk {chunk.name} does not fit into {region.size} bytes", key=chunk.name)
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
        return self._packs.read(chunk.filename, chunk.offset, chunk.size)

    def _explain(self, chunk: Chunk, why: object) -> NotFound | StoreError:
        """Damage, unless the store is gone, the disk refused, or somebody deleted the chunk meanwhile."""
        if isinstance(chunk, ChunkRow):
            now = self.rows([chunk.name]).get(chunk.name)  # raises StoreGone itself
            if now is None or now.filename != chunk.filename:
                return NotFound(f"chunk {chunk.name} was deleted while it was being read")
        elif isinstance(why, FileNotFoundError):
            return self._stage.swept(chunk)
        if isinstance(why, OSError) and not isinstance(why, FileNotFoundError):
            error = translate(why, self._db)
            if isinstance(error, StoreGone) or why.errno in _OURS:
                return error
        self.damaged.add(chunk.name)
        self._sound_chunks.discard(chunk.name)
        return StoreDamaged(f"chunk {chunk.name} is damaged: {why}", key=chunk.name)

    def _untouched(self, row: ChunkRow) -> bool:
        try:
            return fingerprint(self._packs.status(str(row.filename))) == row.mark
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
            for row in map(chunk_row, self._select(*select_chunks(names[start : start + PAGE]))):
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


class _Laying:
    """Maps chunks over a region, joining those that lie behind one another in their pack to one run."""

    def __init__(self, packs: Packs, region: Region) -> None:
        self._folders = packs.folders()
        self._region = region
        self._open: dict[str, tuple[int, int, str]] = {}
        """Pack -> descriptor, size, fingerprint."""
        self._run: list[tuple[int, Chunk]] = []
        self._filename, self._mark, self._next, self._limit, self._shift = "", "", 0, 0, 0
        """The pack the run is in, where it would go on, where the pack ends, and how far it is from the region."""
        self._refused: list[tuple[int, Chunk]] = []
        self.marks: dict[str, str] = {}
        """The fingerprints of packs that have another one than the index says, taken before they are read."""

    def add(self, offset: int, chunk: Chunk) -> bool:
        """False if this one has to be read: it is not in a pack, or the pack is not provably untouched."""
        filename, end = chunk.filename, chunk.offset + chunk.size
        if filename is None:
            return False
        # It goes on in the pack, and in the region too: something else may have come in between there.
        follows = chunk.offset == self._next and chunk.offset - offset == self._shift
        if follows and filename == self._filename and chunk.mark == self._mark:
            fits = chunk.offset < end <= self._limit
        else:
            self._lay()
            fits = self._begin(filename, chunk)
            self._shift = chunk.offset - offset
        if fits:
            self._run.append((offset, chunk))
            self._next = end
        return fits

    def _begin(self, filename: str, chunk: Chunk) -> bool:
        if filename not in self._open:
            try:
                fd, status = self._folders.open(filename)
            except (OSError, Suspicious):
                return False  # reading it will tell what is wrong
            self._open[filename] = fd, status.st_size, fingerprint(status)
        _, size, mark = self._open[filename]
        if type(chunk) is ChunkRow and chunk.mark != mark:  # what we staged ourselves we wrote a moment ago
            self.marks[filename] = mark
            return False
        if not 0 <= chunk.offset < chunk.offset + chunk.size <= size:  # behind its end a page is a SIGBUS
            return False
        self._filename, self._mark, self._limit = filename, chunk.mark, size
        return True

    def _lay(self) -> None:
        """Map the run that has come to its end; what cannot be mapped will have to be read."""
        run, self._run = self._run, []
        if run:
            offset, first = run[0]
            fd, _, _ = self._open[self._filename]
            if not self._region.lay(fd, first.offset, offset, self._next - first.offset):
                self._refused += run
        self._filename = ""

    def finish(self) -> list[tuple[int, Chunk]]:
        """Map the last run; returns what was promised by `add` but could not be mapped after all."""
        self._lay()
        return self._refused

    def __enter__(self) -> _Laying:
        return self

    def __exit__(self, *error: object) -> None:
        for fd, _, _ in self._open.values():
            os.close(fd)
        self._folders.close()

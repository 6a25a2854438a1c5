"""Looking after a store: giving space back, and going through everything.

`sweep` and `verify` meet other processes at work. A pack without rows may be about to get them, so a sweeper looks
for rows and unlinks inside one transaction (see `disk_stage` for the other side). And rows may have been deleted
by a commit that a power cut can still undo, so only what was already an orphan before a durable commit of our own
is removed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from nbcheckpoint.backend.disk_chunks import Chunks, Select
from nbcheckpoint.backend.disk_files import (
    FILENAME,
    QUARANTINE,
    Packs,
    Suspicious,
    age_of,
    fingerprint,
    make_private,
    write_new,
)
from nbcheckpoint.backend.disk_rows import CHUNK, CHUNK_COLUMNS, SELECT_CHUNK, ChunkRow, chunk_row
from nbcheckpoint.backend.disk_stage import Stage, Transaction, is_empty
from nbcheckpoint.errors import NotFound, StoreDamaged

ASIDE: Final = ".new-"
"""Prefix of the folders in which a store is built before it gets its name."""

SPARSE: Final = 0.5
"""A pack of which less than this is still in use is emptied by `sweep`."""

_AT_ONCE: Final = 64


class Upkeep:
    """Sweeping and verifying the chunks of one store."""

    def __init__(self, directory: Path, packs: Packs, stage: Stage, chunks: Chunks, select: Select) -> None:
        self._directory = directory
        self._packs = packs
        self._stage = stage
        self._chunks = chunks
        self._select = select

    def orphans(self, grace_seconds: float) -> list[str]:
        """Packs older than that without a row, and not on our own stage."""
        ours, used = self._stage.packs(), self._used()
        return [
            filename
            for filename, status in self._packs.every()
            if FILENAME.match(filename) and filename not in used and filename not in ours
            if age_of(filename, status) >= grace_seconds
        ]

    def remove(self, filenames: list[str], commit: Callable[[Callable[[Transaction], int]], int]) -> int:
        """Unlink those that are still orphans. Returns the bytes freed."""
        freed = 0
        for start in range(0, len(filenames), _AT_ONCE):
            some = filenames[start : start + _AT_ONCE]
            freed += commit(lambda index, some=some: sum(self._remove(index, name) for name in some))  # type: ignore[misc]  # mypy: no default in a lambda's type
        return freed

    def _remove(self, index: Transaction, filename: str) -> int:
        try:
            return self._packs.remove(filename) if is_empty(index, filename) else 0
        except (OSError, Suspicious):
            return 0

    def sparse(self, grace_seconds: float) -> list[str]:
        """Packs that are mostly dead, and have been left alone for that long."""
        used = self._used()
        return [
            filename
            for filename, status in self._packs.every()
            if filename in used and used[filename] < SPARSE * status.st_size
            if age_of(filename, status) >= grace_seconds
        ]

    def move_out(self, filename: str) -> int:
        """Stage what is left in a pack, to be committed in its place. Returns the bytes that will be freed."""
        sql = f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE filename = ?"
        try:
            rows = [chunk_row(values) for values in self._select(sql, (filename,))]
            size = self._packs.status(filename).st_size
            for row in rows:
                if self._stage.get(row.name) is None:
                    self._stage.add(row.name, memoryview(self._chunks.content(row)), instead_of=filename)
        except (NotFound, StoreDamaged, FileNotFoundError, Suspicious):
            return 0  # deleted meanwhile, or for `verify`
        return max(0, size - sum(row.size for row in rows))

    def _used(self) -> dict[str, int]:
        """Bytes in use, of every pack that has a row."""
        sql = "SELECT filename, sum(size) FROM Cache WHERE filename IS NOT NULL GROUP BY filename"
        return {str(filename): int(size) for filename, size in self._select(sql, ())}

    def remove_asides(self, grace_seconds: float) -> None:
        """What is left of stores that were being created when their process died."""
        before = time.time() - grace_seconds
        for entry in os.scandir(self._directory):
            ours = entry.name.startswith(ASIDE) and entry.is_dir(follow_symlinks=False)
            if ours and entry.stat(follow_symlinks=False).st_mtime <= before:
                shutil.rmtree(entry.path, ignore_errors=True)

    def problems(self, stale: list[ChunkRow]) -> Iterator[tuple[str, str]]:
        """Reads every chunk; gives the names of those that are missing or damaged, and why.

        Those that are right, in a pack that was touched (a copied store), are added to `stale`.
        """
        for name in self._chunks.names():
            try:
                row = self._chunks.rows([name]).get(name)
                if row is not None:
                    mark = self._mark(row)
                    self._chunks.content(row)
                    if mark not in (None, row.mark):
                        stale.append(row._replace(mark=str(mark)))
            except StoreDamaged as error:
                yield name, str(error)
            except NotFound:
                continue  # deleted meanwhile

    def _mark(self, row: ChunkRow) -> str | None:
        try:
            return None if row.filename is None else fingerprint(self._packs.status(row.filename))
        except (OSError, Suspicious):
            return None

    def quarantine(self, name: str, index: Transaction) -> None:
        """Inside a transaction: the row goes; what can be read of its bytes is kept aside."""
        try:
            for values in index.select(SELECT_CHUNK, (CHUNK + name,)):
                self._set_aside(chunk_row(values))
        except (StoreDamaged, OSError, Suspicious):
            pass  # nothing that could be kept
        index.change("DELETE FROM Cache WHERE raw = 1 AND key = ?", (CHUNK + name,))

    def _set_aside(self, row: ChunkRow) -> None:
        data = row.value if row.filename is None else self._packs.read(row.filename, row.offset, row.size)
        make_private(self._directory / QUARANTINE)
        write_new(self._directory / QUARANTINE / row.name, bytes(data or b""))

"""Looking after a store: giving space back, and going through everything.

`sweep` and `verify` meet other processes at work. A file without a row may be about to get one, so a sweeper looks
for the row and unlinks inside one transaction (see `disk_stage` for the other side). And a row may have been
deleted by a commit that a power cut can still undo, so only what was already an orphan before a durable commit
of our own is removed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from nbcheckpoint.backend.disk_chunks import Chunks
from nbcheckpoint.backend.disk_files import FILENAME, ChunkFiles, Suspicious
from nbcheckpoint.backend.disk_rows import CHUNK, SELECT_CHUNK, chunk_row
from nbcheckpoint.backend.disk_stage import Stage, Transaction
from nbcheckpoint.errors import NotFound, StoreDamaged

ASIDE: Final = ".new-"
"""Prefix of the folders in which a store is built before it gets its name."""

_AT_ONCE: Final = 64


class Upkeep:
    """Sweeping and verifying the chunks of one store."""

    def __init__(self, directory: Path, files: ChunkFiles, stage: Stage, chunks: Chunks) -> None:
        self._directory = directory
        self._files = files
        self._stage = stage
        self._chunks = chunks

    def orphans(self, grace_seconds: float) -> list[str]:
        """Files older than that without a row, and not on our own stage."""
        before = time.time() - grace_seconds
        files = (
            (match[1], filename)
            for filename, status in self._files.every()
            if status.st_mtime <= before and (match := FILENAME.match(filename))
        )
        found = []
        for name, filename in files:
            staged, row = self._stage.get(name), self._chunks.rows([name]).get(name)
            if filename not in (staged and staged.filename, row and row.filename):
                found.append(filename)
        return found

    def remove(self, filenames: list[str], commit: Callable[[Callable[[Transaction], int]], int]) -> int:
        """Unlink those that are still orphans. Returns the bytes freed."""
        freed = 0
        for start in range(0, len(filenames), _AT_ONCE):
            some = filenames[start : start + _AT_ONCE]
            freed += commit(lambda index, some=some: sum(self._remove(index, name) for name in some))  # type: ignore[misc]  # mypy: no default in a lambda's type
        return freed

    def _remove(self, index: Transaction, filename: str) -> int:
        rows = index.select(SELECT_CHUNK, (CHUNK + filename[3:67],))
        if rows and chunk_row(rows[0]).filename == filename:
            return 0
        try:
            return self._files.remove(filename)
        except (OSError, Suspicious):
            return 0

    def remove_asides(self, grace_seconds: float) -> None:
        """What is left of stores that were being created when their process died."""
        before = time.time() - grace_seconds
        for entry in os.scandir(self._directory):
            ours = entry.name.startswith(ASIDE) and entry.is_dir(follow_symlinks=False)
            if ours and entry.stat(follow_symlinks=False).st_mtime <= before:
                shutil.rmtree(entry.path, ignore_errors=True)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Reads every chunk; gives the names of those that are missing or damaged, and why."""
        for name in self._chunks.names():
            try:
                row = self._chunks.rows([name]).get(name)
                if row is not None:
                    self._chunks.content(row)
            except StoreDamaged as error:
                yield name, str(error)
            except NotFound:
                continue  # deleted meanwhile

    def quarantine(self, name: str, index: Transaction) -> None:
        """Inside a transaction: the row goes, and its file out of the way, unless it was replaced meanwhile."""
        try:
            rows = [chunk_row(row) for row in index.select(SELECT_CHUNK, (CHUNK + name,))]
            if rows and rows[0].filename is not None:
                self._files.quarantine(rows[0].filename)
        except (StoreDamaged, OSError, Suspicious):
            pass  # missing, or nothing we would touch
        index.select("DELETE FROM Cache WHERE raw = 1 AND key = ?", (CHUNK + name,))

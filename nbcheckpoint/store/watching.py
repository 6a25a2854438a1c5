"""Has anything changed? A question cheap enough to be asked twice a second, and an exact one for when it may have.

A *glance* looks at the files of a store without opening it: equal glances mean that nothing was written meanwhile. A
*mark* is what the records themselves say. And a run can end without a word: its process dies, and nothing is written.
So a mark names the owners of the runs that seem to be running; as long as they live, it stands.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from nbcheckpoint.model import Owner, Record
from nbcheckpoint.store.liveness import is_alive

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

NEWEST = 5000
"""Runs that are looked at: further down a list nobody waits for news."""
READ = 200
"""Those of them among which running ones are looked for."""
STEPS = 100
"""Steps of a running run that are looked at, the last ones."""


class Mark(Record, frozen=True, kw_only=True):
    """How the runs of a store stand."""

    token: str = ""
    owners: tuple[Owner, ...] = ()
    """The processes that work on runs now."""

    @property
    def stands(self) -> bool:
        """Are all of them still there? If not, a run has been interrupted."""
        return all(map(is_alive, self.owners))


def mark(store: Store) -> Mark:
    """Reads versions, and the records of running runs only."""
    found = blake3()
    for key, version in store.backend.versions("run/", limit=NEWEST, reverse=True):
        found.update(f"{key} {version}\n".encode())
    owners: dict[Owner, None] = {}
    for run in store.runs(limit=READ):
        found.update(f"{run.id} {run.status}\n".encode())
        if run.status != "running":
            continue
        for key, version in store.backend.versions(f"step/{run.id}/", limit=STEPS, reverse=True):
            found.update(f"{key} {version}\n".encode())
        if run.owner is not None:
            owners[run.owner] = None
    return Mark(token=found.hexdigest(16), owners=tuple(owners))


def glance(where: str | os.PathLike[str]) -> object:
    """Different if something may have been written to the store in this folder; None where that cannot be told."""
    text = os.fspath(where)
    if "://" in text and not text.startswith("file://"):
        return None
    index = Path(text.removeprefix("file://")) / "cache.db"
    return [_look(index), _look(index.with_name("cache.db-wal"))]


def _look(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    # A log without entries comes and goes with whoever has the store open, also to read.
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found.st_size else None

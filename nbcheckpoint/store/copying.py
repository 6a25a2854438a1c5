"""From any store to any store, resumable.

Per checkpoint: its chunks, then its record; then the steps of a run; the run itself last. So wherever it was
stopped, what is listed at the other side is whole, and doing it again goes on from there. Records travel with their
seal: the same user trusts them at both ends, anybody else at neither.

A chunk is skipped only when a record at the other side names it (or this copy has just put it): one that merely lies
there may be about to be pruned, and putting it again makes it young.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nbcheckpoint.backend.base import ABSENT
from nbcheckpoint.errors import Conflict, NotFound, StoreDamaged, StoreReadOnly, UsageError
from nbcheckpoint.model import Record, Run
from nbcheckpoint.store.survey import Survey, survey

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

Progress = Callable[[int, int], object]
"""Called with (checkpoints done, of how many)."""


class Copied(Record, frozen=True, kw_only=True):
    """What was copied. What was there already is not counted."""

    url: str
    records: int = 0
    chunks: int = 0
    bytes: int = 0
    notes: tuple[str, ...] = ()


def copy_to(store: Store, url: str, *, progress: Progress | None = None) -> Copied:
    """Copy everything to the store at `url`, which is made if need be."""
    from nbcheckpoint.store import open_store

    with open_store(url, encrypt=store._cipher is not None) as target:
        if target.url == store.url and not url.startswith("memory:"):
            raise UsageError(f"{url} is the store itself")
        if (target._cipher is None) != (store._cipher is None):
            raise UsageError("one of the two stores is encrypted, the other is not")
        if target.backend.read_only:
            raise StoreReadOnly(f"{url} cannot be written")
        return _Copy(store, target).run(progress)


class _Copy:
    """One copy under way."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source = source
        self._target = target
        self._found: Survey = survey(source)
        self._there: set[str] = survey(target).live
        self._records = self._chunks = self._bytes = 0
        self._notes = [f"not copied: {problem.text}" for problem in self._found.unread]

    def run(self, progress: Progress | None) -> Copied:
        # Oldest first: what a checkpoint builds upon is older than itself.
        checkpoints = sorted(self._found.checkpoints.items(), key=lambda item: (item[1][0].created, item[0]))
        for number, (id, _) in enumerate(checkpoints, 1):
            if id in self._found.chunks:
                self._copy_checkpoint(id)
            if progress is not None:
                progress(number, len(checkpoints))
        for id, (run, _) in self._found.runs.items():
            self._copy_run(id, run)
        self._target.backend.sync()
        return Copied(
            url=self._target.url,
            records=self._records,
            chunks=self._chunks,
            bytes=self._bytes,
            notes=tuple(self._notes),
        )

    def _copy_checkpoint(self, id: str) -> None:
        key = f"checkpoint/{id}"
        if self._target.backend.get(key) is not None:
            return  # never changes, and was written after its chunks
        try:
            for name in self._found.chunks[id] - self._there:
                data = self._source.backend.read_chunk(name)
                self._bytes += self._target.backend.put_chunk(name, data)
                self._chunks += 1
                self._there.add(name)
        except (NotFound, StoreDamaged) as error:
            self._notes.append(f"not copied: checkpoint {id} ({error})")
            return
        self._put(key, durable=True)

    def _copy_run(self, id: str, run: Run) -> None:
        """A run there that was changed later than ours stays, and so do its steps."""
        try:
            if self._target.run(id).updated > run.updated:
                return
        except NotFound:
            pass
        for key in (*self._steps(id), f"run/{id}"):
            self._put(key, durable=False)

    def _steps(self, run: str) -> Iterator[str]:
        return (key for key, _ in self._found.steps.get(run, ()))

    def _put(self, key: str, *, durable: bool) -> None:
        ours, theirs = self._source.backend.get(key), self._target.backend.get(key)
        if ours is None or (theirs is not None and theirs.value == ours.value):
            return
        try:
            expect = theirs.version if theirs is not None else ABSENT
            self._target.backend.put(key, ours.value, expect=expect, durable=durable)
            self._records += 1
        except Conflict:
            self._notes.append(f"{key} was changed at the other side meanwhile, and stays as it is there")

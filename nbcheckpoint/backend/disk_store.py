"""The embedded store: the backend protocol, put together from its parts.

| part | does |
|---|---|
| `disk_place` | the folder: labels, reserve, file system |
| `disk_index`, `disk_writer` | reading and writing `cache.db` |
| `disk_witness` | is the index what it was? |
| `disk_records`, `disk_rows` | what rows mean |
| `disk_files`, `disk_stage`, `disk_chunks`, `mapping` | packs: writing, committing, reading, mapping |
| `disk_upkeep`, `disk_audit`, `disk_fork` | sweeping and verifying, checking in the background, forking |

How they play together is told in `disk.py`.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from nbcheckpoint import errors
from nbcheckpoint.backend import disk_fork, disk_index, disk_place
from nbcheckpoint.backend.base import ABSENT, Entry, Versioned, check_chunk_name, check_key, is_key
from nbcheckpoint.backend.disk_audit import Auditor
from nbcheckpoint.backend.disk_chunks import Chunks
from nbcheckpoint.backend.disk_files import Packs
from nbcheckpoint.backend.disk_index import DB, translated
from nbcheckpoint.backend.disk_records import compare, entries, new_version, select_range
from nbcheckpoint.backend.disk_rows import CHUNK, RECORD, SELECT_CHUNK, ChunkRow, chunk_row
from nbcheckpoint.backend.disk_stage import YOUNG_SECONDS, Stage, Transaction, is_empty, renew_marks
from nbcheckpoint.backend.disk_upkeep import Upkeep
from nbcheckpoint.backend.disk_witness import Soundness, Witness
from nbcheckpoint.backend.disk_writer import OpenIndex, Writer
from nbcheckpoint.collecting import gc_paused

FORMAT: Final = 1
"""Version of the layout described in FORMAT.md."""

UNLINK_AT_ONCE: Final = 64
"""Empty packs that may wait for the next durable commit."""

MOST_ANSWERS: Final = 100

T = TypeVar("T")


class Answers(NamedTuple):
    """What `versions` has said, as long as the reader's connection sees no other commit."""

    at: int
    """The connection's `data_version`."""
    rows: dict[tuple[Any, ...], list[tuple[Any, ...]]]


class EmbeddedStore(ABC):
    """The backend protocol on a folder. `DiskBackend` adds what is diskcache's part of it."""

    def __init__(self, directory: str | os.PathLike[str], *, wait: float = 10.0) -> None:
        """Open the store in `directory`, creating it if need be. `wait`: seconds to wait for other writers."""
        self.directory: Final = Path(os.path.abspath(os.path.expanduser(directory)))
        self.url = str(self.directory)
        self.on_damage: Callable[[str, str], None] = _log_damage
        """Called, in a background thread, with a chunk's name ("" for the index) and what is wrong with it."""
        self._db: Final = self.directory / DB
        self._db_name: Final = str(self._db)
        self._closed = False
        self._loose = False
        """Has something been put or deleted that only the next durable commit makes last?"""
        with disk_fork.opening:
            self._open()
            self._assemble(wait)
            disk_fork.register(self)

    def _open(self) -> None:
        if disk_place.is_closed(self.directory):
            hint = "it is somebody else's: another one is chosen by --store or NBCHECKPOINT_STORE"
            raise errors.StoreError(f"{self.directory} may not be read by you", hint=hint)
        witness = Witness(self.directory)
        witnessed = witness.sequence  # before anything else is read: it is written last
        there = os.path.exists(self._db)
        with translated(self._db if there else self.directory.parent):
            fresh = not there and self._create()
            self._reader, self._held = self._open_reader()
        try:
            self._identity = _identity(self._db_name)
            self._soundness = Soundness(witness, self.verify_index)
            self._soundness.opened(sequence=self._check_format(), witnessed=witnessed, fresh=fresh)
        except BaseException:
            self._let_go_of_reader()
            raise

    def _open_reader(self) -> tuple[disk_index.Reader, tuple[int, int] | None]:
        self.read_only = not disk_place.is_writeable(self.directory)
        if disk_place.is_full(self.directory):
            disk_place.give_up_reserve(self.directory)
        try:
            return disk_index.open_reader(self._db, writeable=not self.read_only)
        finally:
            if not self.read_only:
                disk_place.keep_reserve(self.directory)

    def _assemble(self, wait: float) -> None:
        packs = Packs(self.directory)
        self._answers = Answers(0, {})
        self._writer = Writer(self.directory, wait, self._open_index, self._check_there)
        self._stage = Stage(self.directory, packs)
        self._chunks = Chunks(self.directory, packs, self._stage, self._select, self._believe_miss)
        self._auditor = Auditor(self._db, self._chunks.content, self._found_damage)
        self._upkeep = Upkeep(self.directory, packs, self._stage, self._chunks, self._select)

    @abstractmethod
    def _open_index(self) -> OpenIndex:
        """The index, opened for writing."""

    @abstractmethod
    def _create(self) -> bool:
        """Make a new store in the folder. False if somebody else was faster."""

    # Records.

    def get(self, key: str) -> Versioned | None:
        if not is_key(key):
            return None
        rows = self._select("SELECT value, tag FROM Cache WHERE raw = 1 AND key = ?", (RECORD + key,))
        if not rows:
            self._believe_miss()
            return None
        (entry,) = entries([(RECORD + key, *rows[0])])
        return Versioned(entry.value, entry.version)

    def put(self, key: str, value: bytes, *, expect: str | None = None, durable: bool = True) -> str:
        check_key(key)
        value = bytes(value)
        version = new_version(key, value)

        def work(index: Transaction) -> None:
            if expect == ABSENT:
                if not index.add(RECORD + key, value, tag=version):
                    raise errors.Conflict(key)
                return
            compare(index, key, expect)
            index.set(RECORD + key, value, tag=version)

        if durable:
            self._commit_all(work)
        else:
            self._commit(work)
        return version

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        check_key(key)

        def work(index: Transaction) -> bool:
            compare(index, key, expect)
            return bool(index.delete(RECORD + key))

        return self._making_room(lambda: self._commit(work))

    def scan(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[Entry]:
        sql, values = select_range("key, value, tag", prefix, after, reverse)
        with gc_paused():
            found = entries(self._select(sql, (*values, -1 if limit is None else limit)))
        self._believe_miss()  # whatever is not among them is a miss
        return found

    def versions(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[tuple[str, str]]:
        sql, values = select_range(f"substr(key, {len(RECORD) + 1}), tag", prefix, after, reverse)
        question = (sql, *values, -1 if limit is None else limit)
        ((now,),) = self._select("PRAGMA data_version")  # before the rows: they may only be newer than it says
        if now != self._answers.at or len(self._answers.rows) > MOST_ANSWERS:
            self._answers = Answers(now, {})
        answers = self._answers.rows
        rows = answers.get(question)
        if rows is None:
            with gc_paused():
                rows = answers[question] = self._select(sql, question[1:])
        self._believe_miss()
        return list(rows)  # SQLite gives text for `key`: anything else is not in this range

    # Chunks.

    def put_chunk(self, name: str, data: bytes | memoryview) -> int:
        return self.put_chunks([(name, data)])

    def put_chunks(self, chunks: Sequence[tuple[str, bytes | memoryview]]) -> int:
        for name, _ in chunks:
            check_chunk_name(name)
        self._check_writeable()
        self._loose = True
        sound = self._chunks.sound([name for name, _ in chunks])
        written = 0
        for name, data in chunks:
            if name in sound:
                self._stage.touch(name)
            else:
                written += self._put_new(name, data)
                sound.add(name)  # the same may come twice
        return written

    def _put_new(self, name: str, data: bytes | memoryview) -> int:
        view = memoryview(data)
        view = view.cast("B") if view.nbytes else memoryview(b"")
        try:
            with translated(self._db):
                written = self._stage.add(name, view, replace=name in self._chunks.damaged)
        except errors.StoreFull:
            self._stage.abandon()
            raise
        self._chunks.damaged.discard(name)
        if self._stage.overfull:
            self.sync()
        return written

    def has_chunk(self, name: str) -> bool:
        check_chunk_name(name)
        return self._chunks.has(name)

    def read_chunk(self, name: str) -> bytes:
        check_chunk_name(name)
        return self._chunks.read(name)

    def map_chunks(self, names: Sequence[str], size: int) -> memoryview:
        mapped = self._chunks.map(names, size)
        self._auditor.add(mapped.unread)
        self._renew_marks(mapped.stale)
        return mapped.view

    def delete_chunk(self, name: str, *, min_age: float = 0.0) -> int:
        """As in the protocol. With `min_age`, a chunk put (or put again) in the last so many seconds stays."""
        check_chunk_name(name)

        def work(index: Transaction) -> tuple[int, str | None]:
            rows = [chunk_row(row) for row in index.select(SELECT_CHUNK, (CHUNK + name,))]
            if not rows or (min_age and rows[0].age < min_age + YOUNG_SECONDS):
                return 0, None
            index.change("DELETE FROM Cache WHERE raw = 1 AND key = ?", (CHUNK + name,))
            pack = rows[0].filename
            return rows[0].size, pack if pack is not None and is_empty(index, pack) else None

        with self._stage.flushing:  # not while somebody is giving it a row
            freed = self._stage.drop(name) if not min_age else 0
            size, pack = self._making_room(lambda: self._commit(work))
            waiting = self._stage.doom(pack) if pack is not None else 0
        self._chunks.damaged.discard(name)
        if waiting >= UNLINK_AT_ONCE or (waiting and disk_place.is_short(self.directory)):
            self._making_room(self.sync)
        return freed + size

    def scan_chunks(self, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, int, float]]:
        self._believe_miss()
        return ((row.name, row.size, row.age) for row in self._chunks.scan(after, limit))

    def _renew_marks(self, stale: list[ChunkRow]) -> None:
        """A copied store has to be read in full, but only once. If that cannot be noted, so be it."""
        if not stale or self.read_only:
            return
        try:
            self._commit(lambda index: renew_marks(index, stale))
        except errors.Error:
            pass

    # Committing.

    def sync(self) -> None:
        self._commit_all(lambda index: None)

    def _commit_all(self, work: Callable[[Transaction], T]) -> T:
        """A durable commit, together with every chunk staged before it."""
        self._check_writeable()
        with self._stage.flushing, self._firming():
            with translated(self._db):
                self._check_there()
                batch = self._stage.prepare()

            def everything(index: Transaction) -> T:
                result = work(index)
                self._stage.insert(index, batch)
                return result

            result = self._commit(everything, durable=True)
            self._stage.settle(batch)
            return result

    @contextmanager
    def _firming(self) -> Iterator[None]:
        """What is loose before this is firm after it; what others put meanwhile is not."""
        self._loose = False
        try:
            yield
        except BaseException:
            self._loose = True
            raise

    def _commit(self, work: Callable[[Transaction], T], *, durable: bool = False) -> T:
        self._check_writeable()
        self._soundness.require()
        result, number = self._writer.commit(work, durable=durable)
        self._loose = self._loose or not durable
        self._soundness.vouch(number if durable else None)
        return result

    def _making_room(self, step: Callable[[], T]) -> T:
        """A delete must work on a full disk too: the log is emptied for it, then the reserve given up."""
        try:
            return step()
        except errors.StoreFull:
            self._writer.empty_log()
        try:
            return step()
        except errors.StoreFull:
            disk_place.give_up_reserve(self.directory)
            self._writer.empty_log()
        try:
            return step()
        finally:
            self._writer.empty_log()
            disk_place.keep_reserve(self.directory)

    @property
    def warnings(self) -> list[str]:
        """What the user should know about the place, in whole sentences."""
        return disk_place.warnings_about(self.directory)

    # Being sure.

    @property
    def damaged(self) -> set[str]:
        """Names of the chunks found damaged so far, by reading or in the background."""
        return set(self._chunks.damaged)

    @property
    def damage(self) -> str:
        """What is known to be wrong with the index; while this says something, no miss is believed."""
        return self._soundness.damage

    def acknowledge_damage(self) -> None:
        """The user knows that something was lost: what is left is what there is."""
        self._check_writeable()
        self._soundness.acknowledge()

    def verify_index(self) -> list[str]:
        """Go through the whole index; returns what is wrong with it."""
        try:
            rows = self._select("PRAGMA integrity_check(10)")
        except errors.StoreDamaged as error:
            return [str(error)]
        return [str(text) for (text,) in rows if text != "ok"]

    def verify_chunks(self, *, repair: bool = False, grace_seconds: float = 0.0) -> Iterator[tuple[str, str]]:
        """Read every chunk; gives (name, problem) for each missing or damaged one, and (file, "orphan").

        A pack without rows that is younger than the grace may be a save in progress, and is not mentioned.
        `repair` removes the chunk from the index and keeps what is left of it in `quarantine/`.
        """
        stale: list[ChunkRow] = []
        for name, problem in self._upkeep.problems(stale):
            if repair:
                self._commit(lambda index, name=name: self._upkeep.quarantine(name, index))  # type: ignore[misc]  # mypy: no default in a lambda's type
                self._chunks.damaged.discard(name)
            yield name, problem
        for filename in self._upkeep.orphans(grace_seconds):
            yield filename, "orphan"
        self._renew_marks(stale)

    def sweep(self, grace_seconds: float = 3600.0) -> int:
        """Remove what dead processes left behind more than so long ago. Returns the bytes freed."""
        self._check_writeable()
        with translated(self._db):
            orphans = self._upkeep.orphans(grace_seconds)
            self.sync()  # whatever made them orphans is durable now
            self._upkeep.remove_asides(grace_seconds)
            freed = self._upkeep.remove(orphans, self._commit)
            freed += sum(self._upkeep.move_out(pack) for pack in self._upkeep.sparse(grace_seconds))
            self.sync()
        self._commit(lambda index: index.select("PRAGMA incremental_vacuum(10000)"))
        return freed

    def finish_audit(self, timeout: float | None = None) -> bool:
        """Read now what was mapped unread. True when that is done; see `damaged` and `damage`."""
        return self._auditor.finish(timeout)

    def _believe_miss(self) -> None:
        """Something is not in the index. Raises StoreDamaged unless the index can be trusted with that."""
        self._soundness.believe_miss()
        if not self._soundness.checked:
            self._auditor.add_index()

    def _found_damage(self, name: str, problem: str) -> None:
        if not name:
            self._soundness.refute(problem)
        self.on_damage(name, problem)

    # Reading, opening, closing.

    def _select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._check_open()
        with translated(self._db):
            self._check_there()
            return self._reader.select(sql, values)

    def _check_format(self) -> int:
        """Is it a store this version understands? Returns the number of its last transaction."""
        with translated(self._db):
            disk_index.check_schema(self._reader.select("SELECT name, sql FROM sqlite_master"))
            rows = dict(self._reader.select("SELECT name, value FROM nbcheckpoint"))
        version, sequence = rows.get("format"), rows.get("sequence")
        if not isinstance(version, int) or not isinstance(sequence, int) or version < 1:
            raise errors.StoreDamaged(f"{self._db} does not say which format it has")
        if version > FORMAT:
            raise errors.StoreTooNew(f"{self.directory} has format {version}", version=version)
        return sequence

    def _check_open(self) -> None:
        if self._closed:
            raise errors.StoreError(f"{self.url} is closed", hint="open the store again")

    def _check_writeable(self) -> None:
        self._check_open()
        if self.read_only:
            raise errors.StoreReadOnly(f"{self.directory} cannot be written")
        if self._held is None:
            raise errors.StoreFull(f"there was no space to open {self.directory} for writing")

    def _check_there(self) -> None:
        """Raises StoreGone when the index is not the file we opened: SQLite would go on in a deleted one."""
        if _identity(self._db_name) != self._identity:
            raise errors.StoreGone(f"{self.directory} was replaced by another store")

    def freeze(self) -> None:
        self._auditor.freeze()
        self._writer.lock.acquire()
        self._reader.lock.acquire()

    def thaw(self) -> None:
        self._reader.lock.release()
        self._writer.lock.release()
        self._auditor.thaw()

    def forget(self) -> None:
        self._answers = Answers(0, {})  # another connection counts anew
        self._auditor.forget()
        self._writer.forget()
        self._reader.forget()
        self._stage.forget()

    def close(self) -> None:
        if self._closed:
            return
        try:
            self._check_there()
            if self._loose and not self.read_only and self._held is not None:
                self.sync()
        finally:
            self._let_go()
        if not self.read_only:
            self._soundness.vouch(None)

    def _let_go(self) -> None:
        self._closed = True
        self._auditor.stop()
        self._writer.close()
        self._let_go_of_reader()

    def _let_go_of_reader(self) -> None:
        self._reader.close()
        held, self._held = self._held, None
        if held is not None:
            disk_index.holds.drop(held)  # last: it drops SQLite's own locks as well

    def __del__(self) -> None:
        # Forgotten rather than closed: nothing is synced, but descriptors are not to leak.
        if not getattr(self, "_closed", True) and hasattr(self, "_auditor"):
            self._let_go()


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise errors.StoreGone(f"{os.path.dirname(path)} is not there any more") from error
    return status.st_dev, status.st_ino


def _log_damage(name: str, problem: str) -> None:
    logging.getLogger("nbcheckpoint").warning("%s", problem)

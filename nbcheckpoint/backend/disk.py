"""The embedded store: a diskcache directory, made to keep its word.

Theory of operation. diskcache is SQLite plus files. As it comes it evicts silently, never fsyncs its files,
unpickles what it finds and hangs in forked children; here it gets one connection that we open, settings that
keep everything, and a `Disk` that knows only text keys, bytes, and files of one strict shape. FORMAT.md
describes what is on the disk.

- *Reading* goes through `disk_index.Reader`, a connection of our own.
- *Writing a chunk* (`put_chunk`) puts bytes into a pack nobody knows yet, and remembers it as staged.
- *Committing* (`sync`, a durable `put`) fsyncs the staged packs and their folder, and then, in one short
  transaction with a synchronous log, inserts their rows and the record. SQLite's lock is never held while a
  file is written or fsynced. A put that is not durable is the same transaction without the fsync; a later
  durable one covers it, because the log is one sequence.
- *Deleting* a chunk removes its row first; a pack without rows is unlinked after a durable commit, so that a power
  cut never leaves a row without its pack.
- *A miss* is believed, and a transaction built, only upon an index known to be sound (`disk_witness`): a flipped
  bit in it would otherwise make finished work look "never computed".
- *Waiting* for SQLite's lock is bounded and never done with our own locks held, so a fork, which takes them,
  is not held up either.
- *A full disk*: a small file is kept in reserve, and given up so that a delete has room to be written.

Savers in several threads may interleave. A durable put that finds a chunk of this process lost (the disk refused
it, or another process pruned it in between) raises, once; whoever has a save open then has to start it anew.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import diskcache

from nbcheckpoint import errors
from nbcheckpoint.backend import disk_fork, disk_index, disk_place
from nbcheckpoint.backend.base import ABSENT, Entry, Versioned, check_chunk_name, check_key
from nbcheckpoint.backend.disk_audit import Auditor
from nbcheckpoint.backend.disk_chunks import Chunks
from nbcheckpoint.backend.disk_files import Packs, fsync_path
from nbcheckpoint.backend.disk_index import DB, translated
from nbcheckpoint.backend.disk_rows import (
    CHUNK,
    RECORD,
    SELECT_CHUNK,
    Staged,
    chunk_row,
    intact,
    new_version,
)
from nbcheckpoint.backend.disk_stage import Stage, is_empty
from nbcheckpoint.backend.disk_upkeep import ASIDE, Upkeep
from nbcheckpoint.backend.disk_witness import WITNESS, Soundness, Witness

FORMAT: Final = 1
"""Version of the layout described in FORMAT.md."""

SETTINGS: Final[dict[str, Any]] = {
    "statistics": 0,
    "tag_index": 0,
    "eviction_policy": "none",
    "size_limit": 1 << 62,
    "cull_limit": 0,
    "disk_min_file_size": 1 << 40,
    "sqlite_auto_vacuum": 2,  # incremental: `sweep` gives space back, a delete does not shuffle pages
    "sqlite_cache_size": 1 << 13,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 0,  # a damaged disk would be a SIGBUS instead of an error
    "sqlite_synchronous": 2,
}
"""diskcache keeps settings in the store, where any other opener can change them; they are forced when we write."""

ATTEMPT_SECONDS: Final = 0.1
"""How long one attempt waits for SQLite's lock while holding ours."""

UNLINK_AT_ONCE: Final = 64
"""Empty packs that may wait for the next durable commit."""

T = TypeVar("T")


class TextAndBytes(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Text keys, bytes values, files of our own making. Pickle neither goes in nor comes out."""

    def put(self, key: object) -> tuple[str, bool]:
        if type(key) is not str:
            raise TypeError(f"keys are text, not {type(key).__name__}")
        return key, True

    def get(self, key: object, raw: object) -> str:
        if not raw or type(key) is not str:
            raise errors.StoreDamaged("a key in the index is not text")
        return key

    def store(self, value: object, read: bool, key: object = None) -> tuple[int, int, str | None, bytes | None]:
        if isinstance(value, Staged):
            mode = diskcache.core.MODE_RAW if value.filename is None else diskcache.core.MODE_BINARY
            return value.size, mode, value.filename, value.value
        if type(value) is not bytes or read:
            raise TypeError(f"values are bytes, not {type(value).__name__}")
        return 0, diskcache.core.MODE_RAW, None, value

    def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> bytes:
        if mode == diskcache.core.MODE_RAW and type(value) is bytes and filename is None:
            return value
        raise errors.StoreDamaged("a value in the index is not bytes, or not to be read this way")

    def filename(self, key: object = None, value: object = None) -> tuple[str, str]:
        raise TypeError("files are made by put_chunk only")

    def remove(self, file_path: str) -> None:
        """Nothing: a pack holds other chunks too, and a name in the index is not to be trusted."""


class Index(diskcache.Cache):  # type: ignore[misc]  # diskcache has no types
    """diskcache's Cache on an existing store, with a single connection that the caller guards with a lock.

    Its own constructor writes forty times, waits up to a minute, and obeys whatever settings the folder holds.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._timeout = ATTEMPT_SECONDS
        self._txn_id = None
        self._disk = TextAndBytes(str(directory))
        self.__dict__.update(SETTINGS)
        self._only = disk_index.connect(directory / DB, mode="rw", wait=ATTEMPT_SECONDS)
        self._durable: bool | None = None
        self._doubtful = False
        for name in ("cache_size", "mmap_size"):
            self._only.execute(f"PRAGMA {name}={SETTINGS['sqlite_' + name]}")

    @property
    def _con(self) -> sqlite3.Connection:
        return self._only

    def select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._only.execute(sql, values).fetchall()

    def durability(self, durable: bool) -> None:
        """Does a commit wait for the disk? FULL makes SQLite fsync its log at each commit, NORMAL does not."""
        if durable is not self._durable:
            self._only.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        if durable and self._doubtful:
            self.checkpoint("FULL")
            self._doubtful = False

    def checkpoint(self, how: str) -> None:
        """Bring the log into the database. Raises OperationalError if somebody is in the way."""
        ((busy, frames, done),) = self.select(f"PRAGMA wal_checkpoint({how})")
        if busy or frames != done:
            raise sqlite3.OperationalError("database is locked")

    def count_up(self) -> int:
        """The number of this transaction."""
        self.select("UPDATE nbcheckpoint SET value = value + 1 WHERE name = 'sequence'")
        ((number,),) = self.select("SELECT value FROM nbcheckpoint WHERE name = 'sequence'")
        return int(number)

    def force_settings(self) -> None:
        found = dict(self.select("SELECT key, value FROM Settings"))
        if any(found.get(key) != value for key, value in SETTINGS.items()):
            with self.transact():
                self._only.executemany("INSERT OR REPLACE INTO Settings VALUES (?, ?)", SETTINGS.items())

    def recover(self) -> None:
        """After an error: SQLite may have left the transaction open, and diskcache forgot about it.

        Where an fsync of the log failed, the kernel may have dropped earlier commits from memory unwritten
        and will not say so again. So before the next durable commit the log goes into the database.
        """
        self._txn_id = None
        self._doubtful = True
        if self._only.in_transaction:
            self._only.rollback()

    def forget(self) -> None:
        disk_index.leak(self._only)

    def close(self) -> None:
        self._only.close()


class Writer:
    """Transactions, one at a time, through an index that is opened with the first of them."""

    def __init__(self, directory: Path, wait: float, ready: Callable[[], None]) -> None:
        """`ready` is called before and after each transaction, and raises if the store is not what it was."""
        self._directory = directory
        self._wait = wait
        self._ready = ready
        self._index: Index | None = None
        self.lock = threading.RLock()

    def commit(self, work: Callable[[Index], T], *, durable: bool) -> tuple[T, int]:
        """What `work` returned, and the number of the transaction. Raises StoreLocked after `wait` seconds.

        Waiting for other processes is done in short attempts, between which our lock is free for a fork.
        """
        deadline = time.monotonic() + self._wait
        while True:
            with self.lock:
                try:
                    return self._attempt(work, durable)
                except errors.StoreLocked:
                    if time.monotonic() >= deadline:
                        raise

    def _attempt(self, work: Callable[[Index], T], durable: bool) -> tuple[T, int]:
        with translated(self._directory / DB):
            self._ready()
            index = self._index = self._index or self._open()
            try:
                index.durability(durable)
                with index.transact():
                    result, number = work(index), index.count_up()
            except diskcache.Timeout as error:
                # diskcache says Timeout whatever went wrong with BEGIN; what it was is the context.
                index.recover()
                raise error.__context__ or error from error
            except errors.Error:
                raise  # `work` said no, and the transaction was rolled back
            except BaseException:
                index.recover()
                raise
            self._ready()
        return result, number

    def _open(self) -> Index:
        index = Index(self._directory)
        index.force_settings()
        return index

    def empty_log(self) -> None:
        """Bring the log into the database and give its space back, as far as others let us."""
        with self.lock:
            if self._index is not None:
                try:
                    self._index.checkpoint("TRUNCATE")
                except sqlite3.Error:
                    pass  # the log is as good a place

    def forget(self) -> None:
        """After a fork."""
        self.lock = threading.RLock()
        if self._index is not None:
            self._index.forget()
            self._index = None

    def close(self) -> None:
        with self.lock:
            self.empty_log()
            if self._index is not None:
                self._index.close()
                self._index = None


class DiskBackend:
    """The backend protocol on a diskcache directory. See the module's theory of operation."""

    def __init__(self, directory: str | os.PathLike[str], *, wait: float = 10.0) -> None:
        """Open the store in `directory`, creating it if need be. `wait`: seconds to wait for other writers."""
        self.directory: Final = Path(os.path.abspath(os.path.expanduser(directory)))
        self.url = str(self.directory)
        self.on_damage: Callable[[str, str], None] = _log_damage
        """Called, in a background thread, with a chunk's name ("" for the index) and what is wrong with it."""
        self._db: Final = self.directory / DB
        self._closed = False
        self._identity = (0, 0)
        witness = Witness(self.directory)
        witnessed = witness.sequence
        with translated(self._db if self._db.exists() else self.directory.parent):
            fresh = not self._db.exists() and _create(self.directory)
            self.read_only = not disk_place.is_writeable(self.directory)
            if disk_place.is_full(self.directory):
                disk_place.give_up_reserve(self.directory)
            self._reader, held = disk_index.open_reader(self._db, writeable=not self.read_only)
            self._identity = _identity(self._db)
            if not self.read_only:
                disk_place.keep_reserve(self.directory)
        self._still = held is None
        self.warnings = disk_place.warnings_about(self.directory)
        """What the user should know about the place, in whole sentences."""
        self._soundness = Soundness(witness, self.verify_index)
        self._soundness.opened(sequence=self._check_format(), witnessed=witnessed, fresh=fresh)
        self._assemble(wait)
        self._let_go = weakref.finalize(self, _let_go, self._reader, self._writer, held)
        self._let_go.atexit = False
        disk_fork.register(self)

    def _assemble(self, wait: float) -> None:
        packs = Packs(self.directory)
        self._writer = Writer(self.directory, wait, self._check_there)
        self._stage = Stage(self.directory, packs)
        self._chunks = Chunks(self.directory, packs, self._stage, self._select, self._believe_miss)
        self._auditor = Auditor(self._db, self._chunks.content, self._found_damage)
        self._upkeep = Upkeep(self.directory, packs, self._stage, self._chunks, self._select)

    @classmethod
    def from_url(cls, url: str) -> DiskBackend:
        """A plain path, or `file:` followed by one."""
        return cls(unquote(urlsplit(url).path) if url.startswith("file:") else url)

    # Records.

    def get(self, key: str) -> Versioned | None:
        check_key(key)
        rows = self._select("SELECT value, tag FROM Cache WHERE raw = 1 AND key = ?", (RECORD + key,))
        if not rows:
            self._believe_miss()
            return None
        return Versioned(*_checked(key, *rows[0]))

    def put(self, key: str, value: bytes, *, expect: str | None = None, durable: bool = True) -> str:
        check_key(key)
        value = bytes(value)
        version = new_version(key, value)

        def work(index: Index) -> None:
            _compare(index, key, expect)
            index.set(RECORD + key, value, tag=version)

        if durable:
            self._commit_all(work)
        else:
            self._commit(work)
        return version

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        check_key(key)

        def work(index: Index) -> bool:
            _compare(index, key, expect)
            return bool(index.delete(RECORD + key))

        return self._making_room(lambda: self._commit(work))

    def scan(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[Entry]:
        sql, values = _range(prefix, after, reverse)
        rows = self._select(sql, (*values, -1 if limit is None else limit))
        if limit is None or len(rows) < limit:
            self._believe_miss()
        return [Entry(key, *_checked(key, value, tag)) for key, value, tag in rows]

    # Chunks.

    def put_chunk(self, name: str, data: bytes | memoryview) -> int:
        check_chunk_name(name)
        self._check_writeable()
        if self._chunks.is_sound(name):
            self._stage.touch(name)
            return 0
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
        view, unread = self._chunks.map(names, size)
        self._auditor.add(unread)
        return view

    def delete_chunk(self, name: str, *, min_age: float = 0.0) -> int:
        """As in the protocol. With `min_age`, a chunk put (or put again) in the last so many seconds stays."""
        check_chunk_name(name)

        def work(index: Index) -> tuple[int, str | None]:
            rows = [chunk_row(row) for row in index.select(SELECT_CHUNK, (CHUNK + name,))]
            if not rows or rows[0].age < min_age:
                return 0, None
            index.select("DELETE FROM Cache WHERE raw = 1 AND key = ?", (CHUNK + name,))
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

    # Committing.

    def sync(self) -> None:
        self._commit_all(lambda index: None)

    def _commit_all(self, work: Callable[[Index], T]) -> T:
        """A durable commit, together with every chunk staged before it."""
        self._check_writeable()
        with self._stage.flushing:
            with translated(self._db):
                self._check_there()
                batch = self._stage.prepare()

            def everything(index: Index) -> T:
                result = work(index)
                self._stage.insert(index, batch)
                return result

            result = self._commit(everything, durable=True)
            self._stage.settle(batch)
            return result

    def _commit(self, work: Callable[[Index], T], *, durable: bool = False) -> T:
        self._check_writeable()
        self._soundness.require()
        result, number = self._writer.commit(work, durable=durable)
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

    def verify_chunks(self, *, repair: bool = False) -> Iterator[tuple[str, str]]:
        """Read every chunk; gives (name, problem) for each missing or damaged one, and (file, "orphan").

        `repair` removes the chunk from the index and moves its file to `quarantine/`.
        """
        for name, problem in self._upkeep.problems():
            if repair:
                self._commit(lambda index, name=name: self._upkeep.quarantine(name, index))  # type: ignore[misc]  # mypy: no default in a lambda's type
                self._chunks.damaged.discard(name)
            yield name, problem
        for filename in self._upkeep.orphans(grace_seconds=0):
            yield filename, "orphan"

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
        if self._still:
            raise errors.StoreFull(f"there was no space to open {self.directory} for writing")

    def _check_there(self) -> None:
        """Raises StoreGone when the index is not the file we opened: SQLite would go on in a deleted one."""
        if _identity(self._db) != self._identity:
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
        self._auditor.forget()
        self._writer.forget()
        self._reader.forget()
        self._stage.forget()

    def close(self) -> None:
        if self._closed:
            return
        try:
            if not self.read_only and not self._still:
                self.sync()
        finally:
            self._closed = True
            self._auditor.stop()
            self._let_go()
        if not self.read_only:
            self._soundness.vouch(None)


def _let_go(reader: disk_index.Reader, writer: Writer, held: tuple[int, int] | None) -> None:
    reader.close()
    writer.close()
    if held is not None:
        disk_index.holds.drop(held)  # last: it drops SQLite's locks as well


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise errors.StoreGone(f"{path.parent} is not there any more") from error
    return status.st_dev, status.st_ino


def _log_damage(name: str, problem: str) -> None:
    logging.getLogger("nbcheckpoint").warning("%s", problem)


def _checked(key: str, value: Any, version: Any) -> tuple[bytes, str]:
    if not intact(key, value, version):
        raise errors.StoreDamaged(f"the record {key} is not what was written")
    return value, version


def _compare(index: Index, key: str, expect: str | None) -> None:
    if expect is None:
        return
    rows = index.select("SELECT tag FROM Cache WHERE raw = 1 AND key = ?", (RECORD + key,))
    if (rows[0][0] if rows else ABSENT) != expect:
        raise errors.Conflict(key)


def _range(prefix: str, after: str, reverse: bool) -> tuple[str, list[str]]:
    """A walk along the index on (key, raw): SQLite compares text as UTF-8, which is code-point order."""
    values = [RECORD + prefix, _successor(RECORD + prefix)]
    where = "raw = 1 AND key >= ? AND key < ?"
    if after:
        where += f" AND key {'<' if reverse else '>'} ?"
        values.append(RECORD + after)
    order = "DESC" if reverse else "ASC"
    return f"SELECT substr(key, 3), value, tag FROM Cache WHERE {where} ORDER BY key {order} LIMIT ?", values


def _successor(prefix: str) -> str:
    """The first text that sorts behind everything that starts with prefix."""
    prefix = prefix.rstrip("\U0010ffff")
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if following == 0xD800 else following)


def _create(directory: Path) -> bool:
    """Build a store aside and give it its name in one step: nobody ever sees half of one. True if it is ours."""
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / WITNESS).exists():
        raise errors.StoreDamaged(f"{directory} is a store whose index ({DB}) is missing")
    os.chmod(directory, 0o700)
    aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=directory))
    try:
        _build(aside)
        os.link(aside / DB, directory / DB)
    except FileExistsError:
        return False  # somebody else was faster; theirs is as good
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    disk_place.label(directory)
    fsync_path(directory)
    fsync_path(directory.parent)
    return True


def _build(aside: Path) -> None:
    diskcache.Cache(str(aside), disk=TextAndBytes, **SETTINGS).close()
    con = disk_index.connect(aside / DB, mode="rw")
    con.execute(disk_index.SCHEMA["nbcheckpoint"])
    con.execute(disk_index.SCHEMA["nbcheckpoint_filename"])
    con.execute("INSERT INTO nbcheckpoint VALUES ('format', ?), ('sequence', 1)", (FORMAT,))
    con.close()  # the last connection: brings the log into the database and removes it
    os.chmod(aside / DB, 0o600)
    fsync_path(aside / DB)

"""The embedded store: a diskcache directory, made to keep its word.

Theory of operation. diskcache is SQLite plus files. As it comes it evicts silently, never fsyncs its files,
unpickles what it finds and hangs in forked children; here it gets one connection that we open, settings that
keep everything, and a `Disk` that knows only text keys, bytes, and files of one strict shape.

- *Reading* goes through `disk_index.Reader`, a connection of our own.
- *Writing a chunk* (`put_chunk`) puts bytes into a file nobody knows yet, and remembers it as staged.
- *Committing* (`sync`, a durable `put`) fsyncs the staged files and their folder, and then, in one short
  transaction with a synchronous log, inserts their rows and the record. SQLite's lock is never held while a
  file is written or fsynced. A put that is not durable is the same transaction without the fsync; a later
  durable one covers it, because the log is one sequence.
- *Deleting* a chunk removes its row first; its file is unlinked after a durable commit, so that a power cut
  never leaves a row without its file.
- *A miss* is believed only from an index known to be sound (`disk_witness`), because a flipped bit in it would
  otherwise make finished work look "never computed".
- *Waiting* for SQLite's lock is bounded and never done with our own locks held, so a fork, which takes them,
  is not held up either.

Savers in several threads may interleave. A durable put that finds a chunk of this process lost (the disk refused
it, or another process pruned it in between) raises, once; whoever has a save open then has to start it anew.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import diskcache
from blake3 import blake3

from nbcheckpoint import errors
from nbcheckpoint.backend import disk_files, disk_index
from nbcheckpoint.backend.base import ABSENT, Entry, Versioned, check_chunk_name, check_key
from nbcheckpoint.backend.disk_chunks import Chunks
from nbcheckpoint.backend.disk_files import ChunkFiles, Suspicious
from nbcheckpoint.backend.disk_index import DB, Reader, translated
from nbcheckpoint.backend.disk_rows import (
    CHUNK,
    CHUNK_COLUMNS,
    RECORD,
    ChunkRow,
    Staged,
    inline_bytes,
    intact,
    new_version,
    stage_inline,
)
from nbcheckpoint.backend.disk_witness import Testimony, Witness
from nbcheckpoint.backend.mapping import Region

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
"""diskcache keeps settings in the store, where any other opener can change them; they are forced when we open."""

ATTEMPT_SECONDS: Final = 0.1
"""How long one attempt waits for SQLite's lock while holding ours."""

UNLINK_AT_ONCE: Final = 64
"""Deleted chunk files that may wait for the next durable commit."""

LABELS: Final = {
    ".gitignore": "*\n",
    "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n# Checkpoints of nbcheckpoint.\n",
}

T = TypeVar("T")


class TextAndBytes(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Text keys, bytes values, files of our own making. Pickle neither goes in nor comes out."""

    def __init__(self, directory: str, min_file_size: int = 0, pickle_protocol: int = 0) -> None:
        super().__init__(directory, min_file_size, pickle_protocol)
        self._files = ChunkFiles(Path(directory))

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
        if mode == diskcache.core.MODE_RAW and type(value) is bytes:
            return value
        if mode == diskcache.core.MODE_BINARY and filename is not None and not read:
            with translated(Path(self._directory) / DB):
                return self._files.read(filename)
        raise errors.StoreDamaged("a value in the index is not bytes")

    def filename(self, key: object = None, value: object = None) -> tuple[str, str]:
        raise TypeError("files are made by put_chunk only")

    def remove(self, file_path: str) -> None:
        try:
            self._files.remove(file_path)
        except (OSError, Suspicious):
            pass  # not a file of ours, or one we may not remove: at worst an orphan, for `sweep`


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
        for name in ("cache_size", "mmap_size"):
            self._only.execute(f"PRAGMA {name}={SETTINGS['sqlite_' + name]}")

    @property
    def _con(self) -> sqlite3.Connection:
        return self._only

    def durability(self, durable: bool) -> None:
        """Does a commit wait for the disk? FULL makes SQLite fsync its log at each commit, NORMAL does not."""
        if durable is not self._durable:
            self._only.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._only.execute(sql, values).fetchall()

    def count_up(self) -> int:
        """The number of this transaction."""
        self._only.execute("UPDATE nbcheckpoint SET value = value + 1 WHERE name = 'sequence'")
        ((number,),) = self.select("SELECT value FROM nbcheckpoint WHERE name = 'sequence'")
        return int(number)

    def force_settings(self) -> None:
        found = dict(self.select("SELECT key, value FROM Settings"))
        if any(found.get(key) != value for key, value in SETTINGS.items()):
            with self.transact():
                self._only.executemany("INSERT OR REPLACE INTO Settings VALUES (?, ?)", SETTINGS.items())

    def recover(self) -> None:
        """After an error: SQLite may have left the transaction open, and diskcache forgot about it."""
        self._txn_id = None
        if self._only.in_transaction:
            self._only.rollback()

    def forget(self) -> None:
        disk_index.leak(self._only)

    def close(self) -> None:
        self._only.close()


class DiskBackend:
    """The backend protocol on a diskcache directory. See the module's theory of operation."""

    def __init__(self, directory: str | os.PathLike[str], *, wait: float = 10.0) -> None:
        """Open the store in `directory`, creating it if need be. `wait`: seconds to wait for other writers."""
        self.directory: Final = Path(os.path.abspath(os.path.expanduser(directory)))
        self.url = str(self.directory)
        self.wait = wait
        self.warnings: list[str] = []
        """What the user should know about the place: network file systems and the like."""
        self._db: Final = self.directory / DB
        self._closed = False
        self._index: Index | None = None
        self._lock = threading.RLock()
        self._witness = Witness(self.directory)
        fresh = self._ensure()
        self._open_reader(fresh)
        self._chunks = Chunks(self.directory, self._select, self._believe_miss)
        _alive.add(self)

    @classmethod
    def from_url(cls, url: str) -> DiskBackend:
        """A plain path, or `file:` followed by one."""
        if not url.startswith("file:"):
            return cls(url)
        return cls(unquote(urlsplit(url).path))

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

        self._commit_all(work) if durable else self._commit(work, durable=False)
        return version

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        check_key(key)

        def work(index: Index) -> bool:
            _compare(index, key, expect)
            return bool(index.delete(RECORD + key))

        return self._commit(work, durable=False)

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
        self._check_writeable()
        written = self._chunks.put(name, data)
        if self._chunks.overfull:
            self.sync()
        return written

    def has_chunk(self, name: str) -> bool:
        return self._chunks.has(name)

    def read_chunk(self, name: str) -> bytes:
        return self._chunks.read(name)

    def map_chunks(self, names: Sequence[str], size: int) -> memoryview:
        view, unread = self._chunks.map(names, size)
        return view

    def delete_chunk(self, name: str, *, min_age: float = 0.0) -> int:
        """As in the protocol. With `min_age`, a chunk put (or put again) in the last so many seconds stays."""
        check_chunk_name(name)

        def work(index: Index) -> ChunkRow | None:
            sql = f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE raw = 1 AND key = ?"
            rows = [ChunkRow(*row) for row in index.select(sql, (CHUNK + name,))]
            if not rows or rows[0].age < min_age:
                return None
            # Not Cache.delete: it would remove the file right away, before the row's absence is durable.
            index.select("DELETE FROM Cache WHERE raw = 1 AND key = ?", (CHUNK + name,))
            return rows[0]

        with self._chunks.flushing:  # not while somebody is giving it a row
            freed = self._chunks.unstage(name)
            row = self._commit(work, durable=False)
        if row is None:
            return freed
        if self._chunks.doom(row) >= UNLINK_AT_ONCE:
            self.sync()
        return freed + row.size

    def scan_chunks(self, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, int, float]]:
        return ((row.name, row.size, row.age) for row in self._chunks.scan(after, limit))

    # Committing.

    def sync(self) -> None:
        self._commit_all(lambda index: None)

    def _commit_all(self, work: Callable[[Index], T]) -> T:
        """A durable commit, together with every chunk staged before it."""
        self._check_writeable()
        with self._chunks.flushing:
            batch = self._chunks.prepare()

            def everything(index: Index) -> T:
                result = work(index)
                self._chunks.insert(index, batch)
                return result

            result = self._commit(everything, durable=True)
            self._chunks.settle(batch)
            return result

    def _commit(self, work: Callable[[Index], T], *, durable: bool) -> T:
        """One transaction. Waits for other writers, but never with our lock held: a fork wants it too."""
        self._check_writeable()
        deadline = time.monotonic() + self.wait
        while True:
            with self._lock:
                try:
                    return self._try_commit(work, durable)
                except errors.StoreLocked:
                    if time.monotonic() >= deadline:
                        raise

    def _try_commit(self, work: Callable[[Index], T], durable: bool) -> T:
        with translated(self._db):
            self._check_there()
            index = self._index or self._open_index()
            try:
                index.durability(durable)
                with index.transact():
                    result = work(index)
                    sequence = index.count_up()
            except diskcache.Timeout as error:
                # diskcache says Timeout whatever went wrong with BEGIN; what it was is the context.
                raise error.__context__ or error from error
            except BaseException:
                index.recover()
                raise
            self._check_there()
        self._vouch(sequence if durable else None)
        return result

    def _open_index(self) -> Index:
        index = Index(self.directory)
        index.force_settings()
        self._index = index
        return index

    # Being sure.

    def _vouch(self, sequence: int | None) -> None:
        """Tell the witness about a commit; about the files only if we know the index to be sound."""
        self._sequence = max(self._sequence, sequence or 0)
        self._witness.write(Testimony(self._sequence, self._witness.files() if self._sound else ""))

    def _believe_miss(self) -> None:
        """Something is not in the index. Raises StoreDamaged unless the index can be trusted with that."""
        if self.damage:
            raise errors.StoreDamaged(self.damage)
        if not self._sound:
            problems = self._select("PRAGMA integrity_check(3)")
            if problems != [("ok",)]:
                raise errors.StoreDamaged(f"{self._db}: {problems[0][0]}")
            self._sound = True

    def acknowledge_damage(self) -> None:
        """The user knows that commits were lost: what is left is what there is."""
        self._witness.acknowledge()
        self.damage = ""

    # Opening and closing.

    def _ensure(self) -> bool:
        """Create the store unless it is there. True if it is new."""
        if self._db.exists():
            return False
        with translated(self.directory.parent):
            self.directory.mkdir(parents=True, exist_ok=True)
            create(self.directory)
        return True

    def _open_reader(self, fresh: bool) -> None:
        testimony = self._witness.read()
        with translated(self._db):
            self._reader = Reader(self._db)
            disk_index.check_schema(self._reader.select("SELECT name, sql FROM sqlite_master"))
            rows = dict(self._reader.select("SELECT name, value FROM nbcheckpoint"))
            self._identity = disk_index.holds.take(self._db)
        if rows.get("format") != FORMAT:
            raise errors.StoreTooNew(f"{self.directory} has format {rows.get('format')}", version=FORMAT)
        self._sequence = int(rows["sequence"])
        self.read_only = not os.access(self.directory, os.W_OK)
        self._sound = fresh or testimony.files == self._witness.files()
        self.damage = self._witness.complaint()
        if self._sequence < testimony.sequence:
            self.damage = "lost"
            self._witness.complain(self.damage)

    def _select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._closed:
            raise errors.StoreError(f"{self.url} is closed", hint="open the store again")
        with translated(self._db):
            self._check_there()
            return self._reader.select(sql, values)

    def _check_there(self) -> None:
        """Raises StoreGone when the index is not the file we opened: SQLite would go on in a deleted one."""
        try:
            status = os.stat(self._db)
        except FileNotFoundError as error:
            raise errors.StoreGone(f"{self.directory} is not there any more") from error
        if (status.st_dev, status.st_ino) != self._identity:
            raise errors.StoreGone(f"{self.directory} was replaced by another store")

    def _check_writeable(self) -> None:
        if self._closed:
            raise errors.StoreError(f"{self.url} is closed", hint="open the store again")
        if self.read_only:
            raise errors.StoreReadOnly(f"{self.directory} cannot be written")

    def _forget(self) -> None:
        """In a forked child: connections, locks and staged chunks are the parent's."""
        self._lock = threading.RLock()
        self._reader.forget()
        self._chunks.forget()
        if self._index is not None:
            self._index.forget()
            self._index = None

    def close(self) -> None:
        if self._closed:
            return
        if not self.read_only:
            self.sync()
        self._closed = True
        with self._lock:
            self._reader.close()
            if self._index is not None:
                self._index.close()
        disk_index.holds.drop(self._identity)


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


def create(directory: Path) -> None:
    """Build a store aside and give it its name in one step: nobody ever sees half of one."""
    os.chmod(directory, 0o700)
    aside = Path(tempfile.mkdtemp(prefix=".new-", dir=directory))
    try:
        diskcache.Cache(str(aside), disk=TextAndBytes, **SETTINGS).close()
        con = disk_index.connect(aside / DB, mode="rw")
        con.execute(disk_index.SCHEMA["nbcheckpoint"])
        con.execute("INSERT INTO nbcheckpoint VALUES ('format', ?), ('sequence', 1)", (FORMAT,))
        con.close()
        os.chmod(aside / DB, 0o600)
        disk_files.fsync_file(aside / DB)
        try:
            os.link(aside / DB, directory / DB)
        except FileExistsError:
            pass  # somebody else was faster; theirs is as good
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for name, text in LABELS.items():
        disk_files.write_new(directory / name, text)
    disk_files.fsync_folder(directory)
    disk_files.fsync_folder(directory.parent)


# Forking. No thread may be inside SQLite when the process is copied, and the copy starts with nothing of it.

_alive: weakref.WeakSet[DiskBackend] = weakref.WeakSet()
_frozen: list[DiskBackend] = []


def _before_fork() -> None:
    for backend in list(_alive):
        backend._lock.acquire()
        backend._reader.lock.acquire()
        _frozen.append(backend)


def _after_in_parent() -> None:
    while _frozen:
        backend = _frozen.pop()
        backend._reader.lock.release()
        backend._lock.release()


def _after_in_child() -> None:
    disk_index.holds.renew_lock()
    while _frozen:
        _frozen.pop()._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )

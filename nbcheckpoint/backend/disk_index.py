"""Reading `cache.db`: our own read-only connection, the schema it must have, and what its errors mean.

Theory of operation. diskcache writes the index; we read it ourselves, because `Cache.get` reports a missing
value file as "never stored" and `iterkeys` takes seconds. The connection is read-only, never trusts the schema
it finds, and is used under one lock, which a fork takes too, so that no child ever inherits a connection in
mid-use.

*Holding.* SQLite tracks its file locks per process in memory that a forked child inherits, although the locks
themselves stay with the parent. A child that opens the index again is believed by its own SQLite to hold the
locks that say "somebody is using this": when the parent dies, the next opener finds no lock, resets the shared
memory and recovers the log under the feet of the child. So every process takes those two shared locks once more
as *open file description* locks, which do travel through `fork` and live as long as the last process that
inherited them. As a side effect nobody deletes the log while somebody has the store open. (Tried without: a
worker that outlived its killed kernel lost what it had been told was saved when the next kernel opened the store.)
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sqlite3
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

if sys.platform != "win32":
    import fcntl

from nbcheckpoint import errors
from nbcheckpoint.backend import disk_fork
from nbcheckpoint.backend.disk_files import Suspicious

DB: Final = "cache.db"

SCHEMA: Final = {
    "Cache": "CREATE TABLE Cache ( rowid INTEGER PRIMARY KEY, key BLOB, raw INTEGER, store_time REAL,"
    " expire_time REAL, access_time REAL, access_count INTEGER DEFAULT 0, tag BLOB, size INTEGER DEFAULT 0,"
    " mode INTEGER DEFAULT 0, filename TEXT, value BLOB)",
    "Cache_key_raw": "CREATE UNIQUE INDEX Cache_key_raw ON Cache(key, raw)",
    "Cache_expire_time": "CREATE INDEX Cache_expire_time ON Cache (expire_time)",
    "Settings": "CREATE TABLE Settings ( key TEXT NOT NULL UNIQUE, value)",
    "Settings_count_insert": "CREATE TRIGGER Settings_count_insert AFTER INSERT ON Cache FOR EACH ROW BEGIN"
    ' UPDATE Settings SET value = value + 1 WHERE key = "count"; END',
    "Settings_count_delete": "CREATE TRIGGER Settings_count_delete AFTER DELETE ON Cache FOR EACH ROW BEGIN"
    ' UPDATE Settings SET value = value - 1 WHERE key = "count"; END',
    "Settings_size_insert": "CREATE TRIGGER Settings_size_insert AFTER INSERT ON Cache FOR EACH ROW BEGIN"
    ' UPDATE Settings SET value = value + NEW.size WHERE key = "size"; END',
    "Settings_size_update": "CREATE TRIGGER Settings_size_update AFTER UPDATE ON Cache FOR EACH ROW BEGIN"
    ' UPDATE Settings SET value = value + NEW.size - OLD.size WHERE key = "size"; END',
    "Settings_size_delete": "CREATE TRIGGER Settings_size_delete AFTER DELETE ON Cache FOR EACH ROW BEGIN"
    ' UPDATE Settings SET value = value - OLD.size WHERE key = "size"; END',
    "nbcheckpoint_filename": "CREATE INDEX nbcheckpoint_filename ON Cache (filename) WHERE filename IS NOT NULL",
    "nbcheckpoint": "CREATE TABLE nbcheckpoint (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
}
"""What diskcache 5.6 creates, plus our own table and index. An index with anything else in it is damaged or planted:
a changed name would make everything look "never stored", a foreign trigger could change what we write."""

TOLERATED: Final = frozenset({"Cache_store_time", "Cache_access_time", "Cache_access_count", "Cache_tag_rowid"})
"""Indexes that a plain diskcache adds to suit its own settings, should somebody open the folder with it."""


class Reader:
    """One read-only connection, shared by the threads of this process."""

    def __init__(self, path: Path, *, immutable: bool = False, home: object = None) -> None:
        """`home` is kept alive as long as the reader: the temporary folder of a copy."""
        self._path = path
        self._immutable = immutable
        self._home = home
        self._con: sqlite3.Connection | None = None
        self.lock = threading.RLock()

    def select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows at once: a cursor left open would hold the log, and other threads, back."""
        with self.lock:
            if self._con is None:
                self._con = connect(self._path, mode="ro", immutable=self._immutable)
            return self._con.execute(sql, values).fetchall()

    def forget(self) -> None:
        """After a fork: the connection belongs to the parent. Even closing it here would do harm."""
        leak(self._con)
        self._con = None
        self.lock = threading.RLock()

    def close(self) -> None:
        with self.lock:
            if self._con is not None:
                self._con.close()
                self._con = None


def open_reader(path: Path, *, writeable: bool) -> tuple[Reader, tuple[int, int] | None]:
    """A reader that works, and the hold that makes it one of the live index (None: of what it is now, for good).

    The log needs a small file of shared memory. Where the disk is so full that it cannot be made, or the log
    cannot be read without it, the index is read as it lies, together with its log.
    """
    held, reader = None, Reader(path)
    try:
        held = holds.take(path) if writeable else None
        ((mode,),) = reader.select("PRAGMA journal_mode")
        reader.select("SELECT 1 FROM sqlite_master LIMIT 1")
        if mode != "wal":  # it would not look into the log
            raise errors.StoreDamaged(f"{path} has forgotten that it has a log")
    except BaseException as error:
        reader.close()
        if held is not None:
            holds.drop(held)
        if isinstance(error, (sqlite3.OperationalError, OSError)):
            return _open_still(path), None
        raise
    return reader, held


def _open_still(path: Path) -> Reader:
    log = path.with_name(DB + "-wal")
    if not log.exists() or not log.stat().st_size:
        reader = Reader(path, immutable=True)
    else:
        # "Immutable" would ignore the log, and what is in it was reported as saved.
        home = tempfile.TemporaryDirectory(prefix="nbcheckpoint-")
        for file in (path, log):
            shutil.copyfile(file, Path(home.name) / file.name)
        reader = Reader(Path(home.name) / DB, home=home)
    reader.select("SELECT 1 FROM sqlite_master LIMIT 1")
    return reader


def connect(path: Path, *, mode: str, wait: float = 5.0, immutable: bool = False) -> sqlite3.Connection:
    """A connection that autocommits, trusts no schema and may be used by any thread, one at a time.

    It MUST be closed explicitly, while the index is held: the last connection to close deletes the log, by its path.
    One that the garbage collector finds later, after the folder was deleted and made anew, would delete the log of
    the new store (this happened).
    """
    uri = f"file:{quote(str(path))}?mode={mode}" + ("&immutable=1" if immutable else "")
    con = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        if sys.version_info >= (3, 12):
            con.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)  # do not even try
        con.execute("PRAGMA trusted_schema=OFF")
        con.execute("PRAGMA cell_size_check=ON")
        con.execute("PRAGMA fullfsync=ON")  # macOS: down to the medium
    except BaseException:
        con.close()
        raise
    return con


_leaked: list[sqlite3.Connection] = []


def leak(con: sqlite3.Connection | None) -> None:
    """Keep it from being closed by the garbage collector, for as long as this process lives."""
    if con is not None:
        _leaked.append(con)


def check_schema(rows: Sequence[tuple[Any, ...]]) -> None:
    """`rows` of `SELECT name, sql FROM sqlite_master`. Raises StoreDamaged for anything but a store of ours."""
    found = {str(name): " ".join(str(sql).split()) for name, sql in rows if sql is not None}
    wanted = {name: " ".join(sql.split()) for name, sql in SCHEMA.items()}
    extra = {name: found.pop(name) for name in TOLERATED & found.keys()}
    if found != wanted or any(not sql.startswith("CREATE INDEX ") for sql in extra.values()):
        odd = sorted(set(found.items()) ^ set(wanted.items()))
        raise errors.StoreDamaged(f"{DB} does not have the tables of a store (see {odd[0][0][:60]!r})")


class translated:  # reads as a word, like those of contextlib
    """Everything that can go wrong below, in the words of `nbcheckpoint.errors`."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, OSError, Suspicious)):
            raise translate(error, self._path) from error
        if isinstance(error, UnicodeDecodeError):
            # SQLite quotes names of the damaged schema in its message, and Python cannot decode the message.
            raise errors.StoreDamaged(f"{self._path.parent}: the index is damaged ({error.reason})") from error


def translate(error: sqlite3.Error | OSError | Suspicious, path: Path) -> errors.StoreError:
    """The error of ours that says what happened. `path` is the index; its absence explains most of them."""
    text = f"{path.parent}: {error}"
    if isinstance(error, Suspicious):
        return errors.StoreDamaged(text)
    forbidden = isinstance(error, OSError) and error.errno in _READ_ONLY  # then nobody can tell what is there
    if not forbidden and not os.path.exists(path):
        return errors.StoreGone(f"{path.parent} is not there any more")
    if isinstance(error, OSError):
        return _from_errno(error, text)
    return _from_sqlite(error, text, path)


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def _from_errno(error: OSError, text: str) -> errors.StoreError:
    if error.errno in _FULL:
        return errors.StoreFull(text)
    if error.errno in _READ_ONLY:
        return errors.StoreReadOnly(text)
    return errors.StoreError(text)


def _from_sqlite(error: sqlite3.Error, text: str, path: Path) -> errors.StoreError:
    # Python 3.10 has no sqlite_errorcode; SQLite's English messages are the same in all versions.
    message = str(error)
    if "locked" in message:
        return errors.StoreLocked(text)
    refusal = _try_writing(path.parent) if "disk I/O" in message else None
    if "readonly" in message or refusal in _READ_ONLY:
        return errors.StoreReadOnly(text)
    if "is full" in message or refusal in _FULL:
        return errors.StoreFull(text)
    if any(word in message for word in ("disk I/O", "unable to open", "interrupted", "too big")):
        return errors.StoreError(text)
    return errors.StoreDamaged(text)


def _try_writing(directory: Path) -> int | None:
    """SQLite says "disk I/O error" for all kinds of things. What does the disk say to us?"""
    path = directory / f".probe-{secrets.token_hex(8)}"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, bytes(128 << 10))
        finally:
            os.close(fd)
            os.unlink(path)
    except OSError as error:
        return error.errno
    return None


# The bytes SQLite locks: in os_unix.c and os.h, "SHARED_FIRST", "SHARED_SIZE" and "UNIX_SHM_DMS".
_SHARED: Final = (0x40000002, 510)
_DEADMAN: Final = (128, 1)

_HEADER: Final = 136
"""Two copies of WalIndexHdr and one WalCkptInfo, in wal.c."""

SHARED_MEMORY: Final = 64 << 10
"""Enough for a log of thirty megabytes; ours is brought into the database at four."""


class _Holds:
    """Which indexes this process holds, and how often. Closing a descriptor of a database drops SQLite's own
    locks on it in this process, so it is done only when the last store on it closes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], tuple[int, list[int]]] = {}

    def take(self, path: Path) -> tuple[int, int]:
        """Before SQLite opens it. Raises OSError, above all when there is no room for the shared memory."""
        status = os.stat(path)
        which = (status.st_dev, status.st_ino)
        with self._lock:
            count, fds = self._held.get(which, (0, []))
            if not count and sys.platform.startswith("linux"):
                fds = _hold(path)
            self._held[which] = (count + 1, fds)
        return which

    def has(self, path: Path) -> bool:
        status = os.stat(path)
        return (status.st_dev, status.st_ino) in self._held

    def drop(self, which: tuple[int, int]) -> None:
        with self._lock:
            count, fds = self._held.pop(which, (0, []))
            if count > 1:
                self._held[which] = (count - 1, fds)
                return
            for fd in fds:
                os.close(fd)

    def freeze(self) -> None:
        self._lock.acquire()

    def thaw(self) -> None:
        self._lock.release()

    def forget(self) -> None:
        """After a fork the locks are still held: that is the point of them. Only our own is new."""
        self._lock = threading.Lock()


def is_in_use(path: Path) -> bool:
    """Has any process this index open? Not known without such locks."""
    if not path.exists():
        return False
    memory = path.with_name(DB + "-shm")
    if holds.has(path):  # and closing a descriptor of our own would drop SQLite's locks
        return True
    if not sys.platform.startswith("linux") or not memory.exists():
        return False
    fd = os.open(memory, os.O_RDWR | os.O_CLOEXEC)
    try:
        return not _lock(fd, "write", _DEADMAN)
    finally:
        os.close(fd)


def _hold(path: Path) -> list[int]:
    """Descriptors of the database and of its shared memory, each with its lock."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(fd, "read", _SHARED)
        return [fd, _hold_memory(path.with_name(DB + "-shm"))]
    except BaseException:
        os.close(fd)
        raise


def _hold_memory(path: Path) -> int:
    """The shared memory, with all its blocks on the disk.

    SQLite maps this file, and touches one byte of each page to have it allocated. Where blocks are smaller than
    pages that is not enough: on a full disk the next write to it is a SIGBUS. So whoever is first allocates it
    properly, and does what SQLite does in that place: it wipes what a crash may have left, so that the log is read
    anew. SQLite truncates the file for that. We clear the header, which says the same to everybody, and harms nobody
    who should still have the file mapped.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if _lock(fd, "write", _DEADMAN):
            os.posix_fallocate(fd, 0, SHARED_MEMORY)
            os.pwrite(fd, bytes(_HEADER), 0)
        while not _lock(fd, "read", _DEADMAN):
            time.sleep(0.001)  # somebody else is just doing the same
    except OSError:
        os.close(fd)
        raise
    return fd


def _lock(fd: int, kind: str, span: tuple[int, int]) -> bool:
    """A lock of this open file description's own. False if others are in the way."""
    wanted = fcntl.F_WRLCK if kind == "write" else fcntl.F_RDLCK
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", wanted, os.SEEK_SET, *span, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        # There are no such locks on this file system. Then SQLite's own have to do.
        return kind == "read"
    return True


holds: Final = _Holds()
disk_fork.register(holds)

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
inherited them. As a side effect nobody deletes the log while somebody has the store open.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from nbcheckpoint import errors
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


def open_reader(path: Path) -> tuple[Reader, bool]:
    """A reader that works, and whether it reads the live index (False: what it is now, for good).

    The log needs a small file of shared memory. Where the disk is read-only, or so full that it cannot be
    made, the index is read as it lies, together with its log.
    """
    reader = Reader(path)
    try:
        ((mode,),) = reader.select("PRAGMA journal_mode")
        reader.select("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.OperationalError:
        reader.close()
        return _open_still(path), False
    if mode != "wal":  # it would not look into the log
        raise errors.StoreDamaged(f"{path} has forgotten that it has a log")
    return reader, True


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
    """A connection that autocommits, trusts no schema and may be used by any thread, one at a time."""
    uri = f"file:{quote(str(path))}?mode={mode}" + ("&immutable=1" if immutable else "")
    con = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)
    con.execute("PRAGMA trusted_schema=OFF")
    con.execute("PRAGMA cell_size_check=ON")
    con.execute("PRAGMA fullfsync=ON")  # macOS: down to the medium
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


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Everything that can go wrong below, in the words of `nbcheckpoint.errors`."""
    try:
        yield
    except (sqlite3.Error, OSError, Suspicious) as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error | OSError | Suspicious, path: Path) -> errors.StoreError:
    """The error of ours that says what happened. `path` is the index; its absence explains most of them."""
    text = f"{path.parent}: {error}"
    if isinstance(error, Suspicious):
        return errors.StoreDamaged(text)
    if not path.exists():
        return errors.StoreGone(f"{path.parent} is not there any more")
    if isinstance(error, OSError):
        return _from_errno(error, text)
    return _from_sqlite(error, text, path)


def _from_errno(error: OSError, text: str) -> errors.StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return errors.StoreFull(text)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return errors.StoreReadOnly(text)
    return errors.StoreError(text)


def _from_sqlite(error: sqlite3.Error, text: str, path: Path) -> errors.StoreError:
    # Python 3.10 has no sqlite_errorcode; SQLite's English messages are the same in all versions.
    message = str(error)
    if "locked" in message:
        return errors.StoreLocked(text)
    if "readonly" in message:
        return errors.StoreReadOnly(text)
    if "is full" in message or ("disk I/O" in message and no_space(path)):
        return errors.StoreFull(text)
    if any(word in message for word in ("disk I/O", "unable to open", "interrupted", "too big")):
        return errors.StoreError(text)
    return errors.StoreDamaged(text)


def no_space(path: Path) -> bool:
    """Is there so little room that SQLite could not even make its shared memory?"""
    if not hasattr(os, "statvfs"):
        return False
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize < 128 * 1024


# The bytes SQLite locks: sqlite3.c, "The following constants ... SHARED_FIRST" and "UNIX_SHM_DMS".
_SHARED: Final = (0x40000002, 510)
_DEADMAN: Final = (128, 1)


class _Holds:
    """Which indexes this process holds, and how often. Closing a descriptor of a database drops SQLite's own
    locks on it in this process, so it is done only when the last store on it closes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], tuple[int, list[int]]] = {}

    def take(self, path: Path) -> tuple[int, int]:
        status = os.stat(path)
        which = (status.st_dev, status.st_ino)
        with self._lock:
            count, fds = self._held.get(which, (0, []))
            if not count:
                fds = [_hold(path, _SHARED), _hold(path.with_name(DB + "-shm"), _DEADMAN)]
            self._held[which] = (count + 1, fds)
        return which

    def drop(self, which: tuple[int, int]) -> None:
        with self._lock:
            count, fds = self._held.get(which, (0, []))
            if count > 1:
                self._held[which] = (count - 1, fds)
                return
            self._held.pop(which, None)
            for fd in fds:
                if fd >= 0:
                    os.close(fd)

    def renew_lock(self) -> None:
        self._lock = threading.Lock()


def _hold(path: Path, span: tuple[int, int]) -> int:
    """A descriptor with a shared lock of its own on the span, or -1 where there is no such lock."""
    if not sys.platform.startswith("linux"):
        return -1
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
    request = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, *span, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
    except OSError:
        # Not on this file system. Keep the descriptor: closing it would drop SQLite's locks.
        pass
    return fd


holds: Final = _Holds()

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

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import diskcache

from nbcheckpoint import errors
from nbcheckpoint.backend import disk_index, disk_place, disk_salvage
from nbcheckpoint.backend.disk_files import fsync_path
from nbcheckpoint.backend.disk_index import DB
from nbcheckpoint.backend.disk_rows import Staged
from nbcheckpoint.backend.disk_salvage import Salvaged
from nbcheckpoint.backend.disk_store import FORMAT, EmbeddedStore
from nbcheckpoint.backend.disk_upkeep import ASIDE
from nbcheckpoint.backend.disk_witness import WITNESS
from nbcheckpoint.backend.disk_writer import ATTEMPT_SECONDS
from nbcheckpoint.naming import give_name

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


_INSERT: Final = (
    "INSERT INTO Cache (key, raw, store_time, access_time, tag, size, mode, filename, value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE: Final = (
    "SET store_time = excluded.store_time, tag = excluded.tag, size = excluded.size, mode = excluded.mode,"
    " filename = excluded.filename, value = excluded.value"
)
"""Without the columns diskcache has an index on and we never set: an update leaves those indexes alone."""


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
        self._disk = TextAndBytes(str(directory))
        self.__dict__.update(SETTINGS)
        self._only = disk_index.connect(directory / DB, mode="rw", wait=ATTEMPT_SECONDS)
        self._durable: bool | None = None
        self._doubtful = False
        try:
            for name in ("cache_size", "mmap_size"):
                self._only.execute(f"PRAGMA {name}={SETTINGS['sqlite_' + name]}")
            self._force_settings()
        except BaseException:
            self.close()
            raise

    @property
    def _con(self) -> sqlite3.Connection:
        return self._only

    def select(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._only.execute(sql, values).fetchall()

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Returns the number of rows changed."""
        return self._only.execute(sql, values).rowcount

    # diskcache's `transact`, `add`, `set` and `delete`, with one statement each instead of up to four. It would also
    # say Timeout whatever went wrong, and look for files to remove.

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. Raises sqlite3.Error."""
        try:
            self._only.execute("BEGIN IMMEDIATE")
            yield
            self._only.execute("COMMIT")
        except BaseException as error:
            self._doubtful = self._doubtful or "disk I/O" in str(error)
            if self._only.in_transaction:  # SQLite may have rolled it back already, or left a failed COMMIT open
                self._only.rollback()
            raise

    def add(self, key: str, value: object, *, tag: str) -> bool:
        """False if it is there already."""
        return self.change(f"{_INSERT} ON CONFLICT (key, raw) DO NOTHING", self._columns(key, value, tag)) > 0

    def set(self, key: str, value: object, *, tag: str) -> bool:
        return self.change(f"{_INSERT} ON CONFLICT (key, raw) DO UPDATE {_UPDATE}", self._columns(key, value, tag)) > 0

    def delete(self, key: str) -> bool:
        return self.change("DELETE FROM Cache WHERE key = ? AND raw = 1", (key,)) > 0

    def _columns(self, key: str, value: object, tag: str) -> tuple[Any, ...]:
        stored, raw = self._disk.put(key)
        now = time.time()
        return stored, raw, now, now, tag, *self._disk.store(value, False, key=key)

    def durability(self, durable: bool) -> None:
        """Does a commit wait for the disk? FULL makes SQLite fsync its log at each commit, NORMAL does not.

        Where such an fsync has failed, the kernel may have dropped earlier commits from memory unwritten and
        will not say so again. So before the next durable commit all of the log goes into the database.
        """
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

    def _force_settings(self) -> None:
        found = dict(self.select("SELECT key, value FROM Settings"))
        if any(found.get(key) != value for key, value in SETTINGS.items()):
            with self.transaction():
                self._only.executemany("INSERT OR REPLACE INTO Settings VALUES (?, ?)", SETTINGS.items())

    def forget(self) -> None:
        disk_index.leak(self._only)

    def close(self) -> None:
        self._only.close()


class DiskBackend(EmbeddedStore):
    """The backend protocol on a diskcache directory."""

    @classmethod
    def from_url(cls, url: str) -> DiskBackend:
        """A plain path, or `file:` followed by one."""
        return cls(unquote(urlsplit(url).path) if url.startswith("file:") else url)

    @classmethod
    def salvage(cls, directory: str | os.PathLike[str]) -> Salvaged:
        """Make a store whose index is damaged usable again, with every record and chunk that is still whole.

        The old index stays in `quarantine/`. What was lost is computed again. Raises StoreLocked if it is in use.
        """
        folder = Path(os.path.abspath(os.path.expanduser(directory)))
        aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=folder))
        try:
            with disk_index.translated(folder / DB):
                return disk_salvage.salvage(folder, _build, aside)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _open_index(self) -> Index:
        return Index(self.directory)

    def _create(self) -> bool:
        return create(self.directory)


def create(directory: Path) -> bool:
    """Build a store aside and give it its name in one step: nobody ever sees half of one. True if it is ours."""
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / WITNESS).exists():
        raise errors.StoreDamaged(f"{directory} is a store whose index ({DB}) is missing")
    os.chmod(directory, 0o700)
    aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=directory))
    try:
        _build(aside)
        give_name(aside / DB, directory / DB)
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
    try:
        con.execute(disk_index.SCHEMA["nbcheckpoint"])
        con.execute(disk_index.SCHEMA["nbcheckpoint_filename"])
        con.execute("INSERT INTO nbcheckpoint VALUES ('format', ?), ('sequence', 1)", (FORMAT,))
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # everything is in the one file that gets linked
    finally:
        con.close()
    os.chmod(aside / DB, 0o600)
    fsync_path(aside / DB)

"""Getting out of a damaged index what can still be read.

Theory of operation. Every row carries its own checksum, so each can be judged alone: those that check are copied to a
new index, which then takes the place of the old one; that one is kept in `quarantine/`. Rows are fetched by number,
around the key index, because it is often just that index that is damaged. Where a page cannot be read, the numbers
on it are skipped, first one by one and then in growing steps.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from nbcheckpoint.backend.disk_files import QUARANTINE, fsync_path, make_private
from nbcheckpoint.backend.disk_index import DB, connect, is_in_use
from nbcheckpoint.backend.disk_records import entries
from nbcheckpoint.backend.disk_rows import CHUNK, RECORD, chunk_row
from nbcheckpoint.backend.disk_witness import DAMAGED, WITNESS
from nbcheckpoint.errors import StoreDamaged, StoreLocked

COLUMNS: Final = "key, raw, store_time, access_time, tag, size, mode, filename, value"
_ONE_BY_ONE: Final = 1000
_FARTHEST: Final = 1 << 40


class Salvaged(NamedTuple):
    """What came of it."""

    kept: int
    """Rows that are what was written."""
    lost: int
    """Rows that are not, and rows that could not be found."""
    is_exact: bool = True
    """Does the index say how many there were? If not, more may be lost than that."""


def salvage(directory: Path, build: Callable[[Path], None], aside: Path) -> Salvaged:
    """Replace the index of a store nobody has open. `build` makes an empty one in the folder `aside`."""
    if is_in_use(directory / DB):
        raise StoreLocked(f"{directory} is in use", hint="shut down the kernels that use this store first")
    build(aside)
    there = _number_of_rows(directory / DB)
    kept = lost = 0
    new = connect(aside / DB, mode="rw")
    try:
        new.execute("BEGIN")
        for row in _rows(directory / DB):
            if _is_intact(row):
                new.execute(f"INSERT OR IGNORE INTO Cache ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
                kept += 1
            else:
                lost += 1
        new.execute("COMMIT")
        _into_one_file(new)
    finally:
        new.close()
    _exchange(directory, aside)
    return Salvaged(kept, max(lost, (there or 0) - kept), there is not None)


def _into_one_file(con: sqlite3.Connection) -> None:
    """Out of the log, which stays behind when the index gets its name. Closing does so only before Python 3.12."""
    ((busy, _, _),) = con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if busy:
        raise StoreLocked("the new index is in use", hint="try again")


def _number_of_rows(db: Path) -> int | None:
    """As the index itself counts them; None where that cannot be read."""
    if not db.exists():
        return None
    con = connect(db, mode="ro")
    try:
        ((found,),) = con.execute("SELECT value FROM Settings WHERE key = 'count'").fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError, ValueError):
        return None
    finally:
        con.close()
    return found if type(found) is int and found >= 0 else None


def _rows(db: Path) -> Iterator[tuple[Any, ...]]:
    if not db.exists():
        return
    con = connect(db, mode="ro")
    sql = f"SELECT rowid, {COLUMNS} FROM Cache NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT 1"
    last, failures = 0, 0
    try:
        while last < _FARTHEST:
            try:
                found = con.execute(sql, (last,)).fetchone()
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                failures += 1
                last += 1 if failures < _ONE_BY_ONE else 1 << min(40, failures - _ONE_BY_ONE)
                continue
            if found is None:
                return
            last = found[0]
            yield found[1:]
    finally:
        con.close()


def _is_intact(row: tuple[Any, ...]) -> bool:
    key, raw, stored, _, tag, size, _, filename, value = row
    try:
        if raw == 1 and str(key).startswith(RECORD):
            return bool(entries([(key, value, tag)]))
        return raw == 1 and str(key).startswith(CHUNK) and bool(chunk_row((key, size, filename, value, tag, stored)))
    except StoreDamaged:
        return False


def _exchange(directory: Path, aside: Path) -> None:
    """The old index goes to quarantine with its log, which must never meet the new one."""
    fsync_path(aside / DB)
    kept = directory / QUARANTINE / time.strftime("index-%Y%m%dT%H%M%S", time.gmtime())
    make_private(directory / QUARANTINE)
    make_private(kept)
    for name in (DB + "-wal", DB, WITNESS, DAMAGED):
        if (directory / name).exists():
            shutil.copyfile(directory / name, kept / name)
            os.chmod(kept / name, 0o600)
    for name in (DB + "-wal", DB + "-shm"):
        (directory / name).unlink(missing_ok=True)
    os.replace(aside / DB, directory / DB)
    for name in (WITNESS, DAMAGED):
        (directory / name).unlink(missing_ok=True)
    fsync_path(directory)

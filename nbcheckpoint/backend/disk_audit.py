"""Afterwards, in the background: reading what was taken at its fingerprint's word.

Theory of operation. A file nobody has touched may still have rotted on the medium. So what was mapped or believed
without being read is read later, by one daemon thread of low priority per store, which ends when there is
nothing left to do and never keeps the process alive. What it finds goes to `found`: the value may be in use
already, so all that can be done is to say so, and to have it replaced by the next save.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nbcheckpoint.backend.disk_index import connect
from nbcheckpoint.backend.disk_rows import ChunkRow
from nbcheckpoint.errors import Error, StoreDamaged

DELAY_SECONDS: Final = 2.0
"""Leave the disk to the restore that has just begun."""
MOST: Final = 100_000
"""Chunks waiting at most; beyond that, `verify` is the tool."""


class Auditor:
    """Checks chunks, and the index once, behind the user's back."""

    def __init__(self, db: Path, read: Callable[[ChunkRow], object], found: Callable[[str, str], None]) -> None:
        """`read` raises StoreDamaged; `found` takes what is damaged (a chunk's name, or "") and why."""
        self._db = db
        self._read = read
        self._found = found
        self._seen: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """After a fork: threads stay with the parent."""
        self._lock = threading.Lock()
        """Held while the thread is inside SQLite."""
        self._waiting: deque[ChunkRow] = deque(maxlen=MOST)
        self._index_waiting = False
        self._con: sqlite3.Connection | None = None
        self._hurry = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, rows: list[ChunkRow]) -> None:
        """Read these chunks' files some time."""
        new = [row for row in rows if row.name not in self._seen]
        self._seen.update(row.name for row in new)
        self._waiting.extend(new)
        if new:
            self._start()

    def add_index(self) -> None:
        """Go through the index some time."""
        self._index_waiting = True
        self._start()

    def finish(self, timeout: float | None = None) -> bool:
        """Do it now. True when everything has been read."""
        self._hurry.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return thread is None or not thread.is_alive()

    def stop(self) -> None:
        """Let the thread end as soon as it can; on return it has no connection any more."""
        self._stopped = True
        self._waiting.clear()
        self._hurry.set()
        self._interrupt()
        with self._lock:
            pass

    def freeze(self) -> None:
        self._interrupt()
        self._lock.acquire()

    def thaw(self) -> None:
        self._lock.release()

    def _interrupt(self) -> None:
        con = self._con
        if con is not None:
            con.interrupt()

    def _start(self) -> None:
        if self._stopped or (self._thread is not None and self._thread.is_alive()):
            return
        self._hurry.clear()
        self._thread = threading.Thread(target=self._run, name="nbcheckpoint-audit", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._hurry.wait(DELAY_SECONDS)
        _lower_priority()
        for _ in range(5):  # a fork interrupts it; try again, but not for ever
            if self._index_waiting and not self._stopped:
                self._check_index()
        while self._waiting and not self._stopped:
            row = self._waiting.popleft()
            try:
                self._read(row)
            except StoreDamaged as error:
                self._found(row.name, str(error))
            except Error:
                pass  # deleted, or the whole store is gone: nothing to tell

    def _check_index(self) -> None:
        try:
            with self._lock:
                if self._stopped:
                    return
                con = self._con = connect(self._db, mode="ro")
                try:
                    ((answer,), *_) = con.execute("PRAGMA integrity_check(1)").fetchall()
                finally:
                    self._con = None
                    con.close()
        except sqlite3.OperationalError:
            return  # interrupted, or busy
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            answer = str(error)
        self._index_waiting = False
        if answer != "ok":
            self._found("", str(answer))


def _lower_priority() -> None:
    if sys.platform.startswith("linux"):
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)  # on Linux: this thread only
        except OSError:
            pass

"""Writing to the index: one transaction at a time, with bounded waiting.

Other processes hold SQLite's lock for as long as a commit takes. Waiting for it is done in short attempts, between
which our own lock is free: a fork takes that lock, and must not be held up for long.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol, TypeVar

from nbcheckpoint.backend.disk_index import DB, translated
from nbcheckpoint.backend.disk_stage import Transaction
from nbcheckpoint.errors import StoreLocked

ATTEMPT_SECONDS: Final = 0.1
"""How long one attempt waits for SQLite's lock while holding ours."""

T = TypeVar("T")


class OpenIndex(Transaction, Protocol):
    """The index, opened for writing."""

    def transaction(self) -> AbstractContextManager[None]: ...
    def durability(self, durable: bool) -> None: ...
    def checkpoint(self, how: str) -> None: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...


class Writer:
    """Transactions through an index that is opened with the first of them."""

    def __init__(
        self, directory: Path, wait: float, open_index: Callable[[], OpenIndex], ready: Callable[[], None]
    ) -> None:
        """`ready` is called before and after each transaction, and raises if the store is not what it was."""
        self._db = directory / DB
        self._wait = wait
        self._open_index = open_index
        self._ready = ready
        self._index: OpenIndex | None = None
        self._number = 0
        """Of our last transaction. 0: not known, or nobody knows whether it was committed."""
        self.lock = threading.RLock()

    def commit(self, work: Callable[[Transaction], T], *, durable: bool) -> tuple[T, int]:
        """What `work` returned, and the number of the transaction. Raises StoreLocked after `wait` seconds."""
        deadline = time.monotonic() + self._wait
        while True:
            with self.lock:
                try:
                    return self._attempt(work, durable)
                except StoreLocked:
                    if time.monotonic() >= deadline:
                        raise

    def _attempt(self, work: Callable[[Transaction], T], durable: bool) -> tuple[T, int]:
        with translated(self._db):
            self._ready()
            index = self._opened()
            index.durability(durable)
            last, self._number = self._number, 0
            with index.transaction():
                result = work(index)
                number = _count_up(index, last)
            self._number = number
            self._ready()
        return result, number

    def _opened(self) -> OpenIndex:
        if self._index is None:  # not `or`: diskcache calls an empty index false
            self._index = self._open_index()
        return self._index

    def empty_log(self) -> None:
        """Bring the log into the database and give its space back, as far as others let us.

        Truncating it is not durable. After a power cut a file system that hands freed blocks out at once (ext4 with
        data=writeback) can show the old log with its tail overwritten, and SQLite would replay what is left of it:
        the database goes back in time. So the log is first begun anew, by one durable transaction in its first
        blocks. Whatever a cut leaves of that one is all or nothing. (Tried without: 1 cut in 200 lost work.)
        """
        with self.lock:
            if self._index is None:
                return
            try:
                self._index.checkpoint("RESTART")
                self._index.durability(True)
                with self._index.transaction():
                    _count_up(self._index, 0)
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


def _count_up(index: Transaction, last: int) -> int:
    """The number of this transaction. Mostly the one after our `last`, and then one statement is enough."""
    count = "UPDATE nbcheckpoint SET value = value + 1 WHERE name = 'sequence'"
    if last and index.change(f"{count} AND value = ?", (last,)):
        return last + 1
    index.change(count)
    ((number,),) = index.select("SELECT value FROM nbcheckpoint WHERE name = 'sequence'")
    return int(number)

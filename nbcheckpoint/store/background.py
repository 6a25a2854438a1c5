"""Pruning behind the user's back: after saves, at most hourly, in a daemon thread, never raising into anybody's code.

When it was last done stands in the store (the record `upkeep`), so that ten kernels do it once an hour together and
not ten times. A clock that seems to have leapt is not believed at once: everything would look too old. The first
look then only notes the new time; retention goes by it an hour later, if it still holds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from nbcheckpoint.backend.base import ABSENT
from nbcheckpoint.errors import Conflict, Error
from nbcheckpoint.model import utc_now
from nbcheckpoint.retention import DAY, Policy
from nbcheckpoint.store.telling import tell_error
from nbcheckpoint.store.upkeep import collect, prune

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

KEY = "upkeep"
EVERY_SECONDS = 3600.0
LITTER = 256 << 20
"""Bytes of superseded checkpoints that are worth collecting before the hour is over: a long loop leaves many."""
LITTER_SECONDS = 120.0
LITTER_GRACE = 60.0
"""What is put and not yet named by a record is younger than this, or is put again (see `upkeep`)."""
LEAP_SECONDS = 7 * DAY
"""A store nobody pruned for that long was left alone, or the clock leapt: one cannot tell which."""

_log = logging.getLogger("nbcheckpoint")


class Background:
    """Prunes one store now and then. Call `saved` after each save; it returns at once."""

    def __init__(self, store: Store, policy: Policy | None = None, *, every_seconds: float = EVERY_SECONDS) -> None:
        self._store = store
        self._policy = policy or Policy()
        self._every = every_seconds
        self._next = float("-inf")
        self._litter = 0
        self._next_collect = time.monotonic() + LITTER_SECONDS
        self._thread: threading.Thread | None = None

    def saved(self) -> None:
        """Something was saved: start pruning if it is time. Never raises, never waits."""
        if time.monotonic() >= self._next and self._start(self.prune_if_due):
            self._next = time.monotonic() + self._every

    def superseded(self, size: int) -> None:
        """A checkpoint for which so many bytes were written is not needed any more. Never raises, never waits."""
        self._litter += size
        if self._litter >= LITTER and time.monotonic() >= self._next_collect and self._start(self.collect):
            self._litter, self._next_collect = 0, time.monotonic() + LITTER_SECONDS

    def _start(self, work: Callable[[], object]) -> bool:
        if self._thread is not None and self._thread.is_alive():
            return False
        thread = threading.Thread(target=work, name="nbcheckpoint-prune", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False  # no more threads, or the interpreter is ending: another time
        self._thread = thread
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Until the pruning under way, if any, is done."""
        if self._thread is not None:
            self._thread.join(timeout)

    def collect(self) -> int:
        """Give the bytes of superseded checkpoints back. Returns how many. Never raises."""
        freed = 0

        def work() -> None:
            nonlocal freed
            _, freed, _ = collect(self._store, LITTER_GRACE)
            self._store._sync()

        return freed if self._quietly(work) else 0

    def prune_if_due(self) -> bool:
        """Prune unless somebody did so lately. True if it was done. Never raises."""
        done = False

        def work() -> None:
            nonlocal done
            if self._store.backend.read_only or not self._claim():
                return
            for note in prune(self._store, self._policy).notes:
                _log.warning("pruning: %s", note)
            done = True

        return self._quietly(work) and done

    def _quietly(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except Error as error:
            _log.warning("old checkpoints were not pruned: %s", error)
            tell_error(error)
            return False
        except Exception:  # a fault of ours must not reach the user's code
            _log.exception("old checkpoints were not pruned")
            return False
        return True

    def _claim(self) -> bool:
        """Is it time, and are we the one to do it?"""
        backend = self._store.backend
        found = backend.get(KEY)
        since = _seconds_since(found.value) if found else None
        if since is not None and 0 <= since < self._every:
            return False
        try:
            backend.put(KEY, utc_now().encode(), expect=found.version if found else ABSENT, durable=False)
        except Conflict:
            return False  # another process is at it
        return since is None or 0 <= since < LEAP_SECONDS


def _seconds_since(moment: bytes) -> float | None:
    try:
        then = datetime.fromisoformat(moment.decode().replace("Z", "+00:00"))
        return (datetime.now(timezone.utc) - then).total_seconds()
    except (ValueError, TypeError):
        return None

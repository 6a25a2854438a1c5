"""Who may write a run: a lease, taken by compare-and-swap, renewed by a heartbeat, lost to whoever takes the run over.

How a caller uses it:

    run = store.begin_run("train")              # a new run is ours; its owner has a lease: `run.owner.lease`
    run = store.take(id)                        # or one that was cut short, paused or has failed; raises RunBusy
    heart = Heartbeat(store, run)               # says that we are there, in a thread of its own
    store.update_run(run.id, holder=run.owner.lease, …)      # raises Fenced if the run is not ours any more
    heart.stop()                                # before the run is given back: update_run(…, owner=None, status=…)

*Taking* is one compare-and-swap on the run's record: of two who try, one gets it and the other RunBusy. *Renewing* is
the same, without waiting for the disk. *Losing* it is never announced: a process that was frozen, or cut off, for
longer than LEASE_SECONDS finds somebody else's lease in the record and is refused with Fenced from there on;
`heart.lost` says so, too. Whoever changes other records of the run as well writes them with `expect=` the version it
has written itself, so that a process frozen between asking and writing is refused there.

On the same machine the clock does not matter: there the process itself is looked for (`liveness.py`), so that a
suspended laptop or a stopped process loses nothing. Other machines go by `renewed`, read with their own clock. One
that is wrong by more than the lease takes a living run over; that costs its owner the run, never a value.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nbcheckpoint.errors import Error, Fenced
from nbcheckpoint.model import Owner, Run, utc_now

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

LEASE_SECONDS = 60.0
HEARTBEAT_SECONDS = 20.0
ABSURD_SECONDS = 86_400.0
"""A lease renewed that far in the future says that a clock was wrong, not that somebody is there."""

_log = logging.getLogger("nbcheckpoint")


def leased(owner: Owner) -> Owner:
    """The owner with a lease of its own."""
    return replace(owner, lease=secrets.token_hex(16), renewed=utc_now())


def is_held(owner: Owner) -> bool:
    """Has it been renewed lately, by this machine's clock? What cannot be read has not."""
    try:
        renewed = datetime.fromisoformat(owner.renewed.replace("Z", "+00:00"))
        age = (datetime.now(timezone.utc) - renewed).total_seconds()
    except (ValueError, TypeError):
        return False
    return -ABSURD_SECONDS <= age <= LEASE_SECONDS


def check(run: Run, holder: str) -> None:
    """Raises Fenced unless the run's lease is that one."""
    if run.owner is not None and run.owner.lease == holder:
        return
    who = f"by process {run.owner.pid} on {run.owner.host}" if run.owner is not None else "and given back"
    raise Fenced(f"run {run.id} has been taken over {who}")


class Heartbeat:
    """Renews the lease of one run until it is stopped or lost. Never raises; a full disk makes it try again later.

    In a forked child nobody renews anything: the run is the parent's.
    """

    def __init__(self, store: Store, run: Run, *, every_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._store = store
        self._run = run.id
        self._lease = run.owner.lease if run.owner is not None else ""
        self._every = every_seconds
        self._pid = os.getpid()
        self._stopped = threading.Event()
        self.lost = False
        """Has somebody else taken the run over?"""
        self._thread = threading.Thread(target=self._beat, name="nbcheckpoint-lease", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            pass  # no more threads: other machines will take us for dead, and this one will not

    def _beat(self) -> None:
        # By a clock that nobody sets and that stands still while the machine sleeps.
        while not self._stopped.wait(self._every):
            if not self.renew():
                return

    def renew(self) -> bool:
        """Say that we are there. False if the run is not ours any more."""
        try:
            self._store.renew(self._run, self._lease)
        except Fenced:
            self.lost = not self._stopped.is_set()  # whoever stops it gives the run back next
            return False
        except Error as error:
            _log.debug("the lease of run %s was not renewed: %s", self._run, error)
        except Exception:  # a fault of ours must not end up on the user's screen
            _log.exception("the lease of run %s was not renewed", self._run)
        return True

    def stop(self) -> None:
        """Before the run is given back or the store is closed. Waits for a renewal under way."""
        if os.getpid() != self._pid:
            return  # the parent's thread may have held the event's lock when we were copied
        self._stopped.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

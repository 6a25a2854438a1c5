"""Committing what the items of a map have left: quick ones together, several times a second; a slow one at once.

First what they left, durably, then that they are done: so a record that says so is never wrong. An item that was said
to run, because it has effects or has failed before, is said to be done at once, over the very record that said so.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from nbcheckpoint.engine.journal import Journal, Ticket, write
from nbcheckpoint.errors import Fenced, StoreError, tell
from nbcheckpoint.model import Checkpoint, Step, StepStatus, utc_now
from nbcheckpoint.store import Store

if TYPE_CHECKING:
    from nbcheckpoint.engine.calling import Call

_TOGETHER, _TOGETHER_SECONDS, _SLOW_SECONDS = 512, 0.25, 0.1


class Committer:
    """Commits what items have left: quick ones together, a slow one at once."""

    def __init__(self, store: Store, journal: Journal | None, known: dict[str, Step], *, at_the_end: bool) -> None:
        """`known` are the steps recorded so far, by address."""
        self._store, self._journal, self._known, self._at_the_end = store, journal, known, at_the_end
        self._waiting: list[tuple[Step, Ticket | None]] = []
        self._lock = threading.RLock()
        self._last = time.monotonic()
        self._bell: threading.Timer | None = None
        self._fenced: Fenced | None = None
        self.problem: StoreError | None = None
        """The first thing that kept something from being saved."""
        self.lost = 0
        """Items that concerns."""

    def add(self, call: Call, saved: Checkpoint | None, seconds: float, problem: str) -> None:
        """An item is done; its checkpoint is staged."""
        step = self._step(call, "completed", seconds=seconds, checkpoint=saved.id if saved else "")
        if saved is not None:
            step = replace(step, bytes=saved.bytes)
        if problem:
            step = replace(step, meta={**step.meta, "problem": problem})
        with self._lock:
            self._waiting.append((step, call.ticket))
            waited = time.monotonic() - self._last
            many = len(self._waiting) >= _TOGETHER or waited >= _TOGETHER_SECONDS
            said_to_run = call.ticket is not None
            if self._at_the_end:
                return
            if many or said_to_run or seconds >= _SLOW_SECONDS:
                self.commit()
            elif self._bell is None:
                # The next item may take hours: this one does not wait for it.
                self._bell = threading.Timer(_TOGETHER_SECONDS, self._ring)
                self._bell.daemon, self._bell.name = True, "nbcheckpoint-commit"
                self._bell.start()

    def failed(self, call: Call, error: BaseException) -> None:
        self._write(self._step(call, "failed", error=tell(error)[:2000]), call.ticket)

    def restored(self, call: Call, checkpoint: Checkpoint) -> None:
        """Written only where the record says something else."""
        before = self._known.get(call.address)
        if before is None or before.checkpoint != checkpoint.id or before.status not in ("completed", "restored"):
            step = self._step(call, "restored", seconds=checkpoint.seconds, checkpoint=checkpoint.id)
            retried = before.meta.get("retried") if before is not None else None
            meta = {**step.meta, **({"retried": retried} if retried else {})}
            self._write(replace(step, started="", attempt=before.attempt if before is not None else 1, meta=meta))

    def _step(self, call: Call, status: StepStatus, **fields: Any) -> Step:
        """What its record is to be: the one that says it has begun goes on, where there is one."""
        if call.ticket is not None:
            return replace(call.ticket.step, status=status, **fields)
        before, started = self._known.get(call.address), utc_now() if status != "restored" else ""
        tried = before is not None and (before.started or before.attempt > 1)
        return Step(
            run=call.run,
            address=call.address,
            name=call.spec.name,
            kind="item",
            status=status,
            started=started,
            attempt=before.attempt + 1 if before is not None and tried else 1,
            meta={"slot": call.slot},
            **fields,
        )

    def _ring(self) -> None:
        try:
            self.commit()
        except Fenced as error:
            self._fenced = error  # told to whoever commits next: nobody listens here

    def commit(self) -> None:
        """Durably: first what they left, then that they are done. What cannot be saved is told once."""
        with self._lock:
            if self._fenced is not None:
                raise self._fenced
            waiting, self._waiting = self._waiting, []
            self._last = time.monotonic()
            if self._bell is not None:
                self._bell.cancel()
                self._bell = None
            try:
                self._store.flush()
            except StoreError as error:
                self.problem, self.lost = self.problem or error, self.lost + len(waiting)
                return
            for step, ticket in waiting:
                self._write(step, ticket)

    def _write(self, step: Step, ticket: Ticket | None = None) -> None:
        if self._journal is None:
            return
        try:
            if ticket is not None:
                ticket.step = step
                write(self._store, ticket)
            else:
                self._store.put_step(step)
        except StoreError as error:
            self.problem, self.lost = self.problem or error, self.lost + 1
        if step.status == "completed":
            self._journal.count(step)

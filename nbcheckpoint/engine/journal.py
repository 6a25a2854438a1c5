"""The records of one run, as the process that works on it writes them.

Protocol of a step: *intent* (`begin`: compare-and-swap to `running` with a fresh token), body, chunks and checkpoint,
*completion* (`end`: compare-and-swap from that very record). Whoever takes a step over writes a new intent, so the
completion of a process that was thought dead fails: it is *fenced*.

An intent survives the death of the process at once. It is also synced to the disk where it decides something (a step
that must not be repeated unasked); elsewhere a power cut may take it, and the step just runs again.

What the `meta` of a step says:

    slot                    its place, by name: see `context.py`
    after                   the steps it came behind: whose results it was given, or the one before
    host, pid               where it runs or ran
    flow, trace             it is the flow itself; what its session is called in somebody's traces
    retried                 the attempts that failed, with time, error and wait
    marks, problem          what its body has marked; why it is not saved
    done, total, failed, restored, left     of a map: how far it is
    pause, answer, taken    of a question: what is asked, what was answered, that it has been read
    iteration, next, edges, ways, code      of a node: which visit, where it led, why, and by what code
    random                  of a node: generators drawn from up to there, as they were when the walk began
    edited, detached        its result was put there by a fork; the flow came to its end without it
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from msgspec.structs import replace

from nbcheckpoint.engine.policy import Policies, interval
from nbcheckpoint.engine.states import step_may
from nbcheckpoint.errors import Cancelled, Conflict, Fenced, NotFound, UsageError
from nbcheckpoint.events import emit
from nbcheckpoint.model import Reason, Run, RunStatus, Step, StepKind, StepStatus, utc_now
from nbcheckpoint.store import Store

_TAKEN = "step {} of run {} was taken over by another process"
_NOTING_SECONDS = 1.0
"""Between two updates of the run's own record."""


@dataclass
class Ticket:
    """The right to complete a step: its record as we wrote it, and the version it got."""

    step: Step
    version: str


class Journal:
    """One run, being worked on by this process."""

    def __init__(
        self, store: Store, run: Run, *, settings: dict[str, Any], since: str = "", steps: Sequence[Step] | None = None
    ) -> None:
        """`steps` are those recorded so far, where the caller knows them."""
        self.store = store
        self.run = run
        self.settings = settings
        """The policies of the flow, for its steps to inherit."""
        self.since = since
        """Checkpoints of other runs count only from then on: a run that is to compute everything has a beginning."""
        self.start_at = ""
        """Restore whatever is recorded before the step of that slot, compute everything from there on."""
        self.started = True
        self.unseen: Collection[int] = ()
        """Sessions before this one of which nobody has seen what they showed: see `shown.py`."""
        self.begun = utc_now()
        """When this session began."""
        self.finished = 0
        """Steps this session has computed or restored."""
        self.computed = self.spared = 0.0
        self.bytes = 0
        self.saves, self.saved_at = 0, time.monotonic()
        self._steps = store.steps(run.id, inner=True) if steps is None else steps
        made = [step for step in self._steps if step.status == "completed"]
        self._before = (
            max(run.bytes, sum(step.bytes for step in made)),
            max(run.computed_seconds, sum(step.seconds for step in made if not step.meta.get("flow"))),
        )
        """Bytes and seconds of the sessions before. A run's own record may lack what it did just before it died."""
        self._slots = {str(step.meta["slot"]): step for step in self._steps if "slot" in step.meta}
        self._next: dict[str, int] = {}
        """Of each step, the number the next one below it gets."""
        for step in self._steps:
            parent, _, number = step.address.rpartition(".")
            self._next[parent] = max(self._next.get(parent, 0), int(number) + 1)
        self._seen: set[str] = set()
        self._whole: set[str] = set()
        """Steps that were restored, or carried out elsewhere: what they consist of is not looked at here."""
        self._lock = threading.RLock()
        self._noted = time.monotonic()
        self.is_helper = False
        """Does this process carry out one step for the one that has the run?"""
        self.beside: list[Any] = []
        """Submitted steps whose end nobody has waited for."""

    @property
    def holder(self) -> str | None:
        """Our lease: with it the run's record is changed only as long as the run is ours."""
        return self.run.owner.lease if self.run.owner is not None else None

    @property
    def run_id(self) -> str:
        return self.run.id

    def recorded(self, slot: str) -> Step | None:
        """What an earlier session of this run wrote about a step."""
        self._seen.add(slot)
        return self._slots.get(slot)

    def steps_below(self, address: str) -> dict[str, Step]:
        """Address -> step, of the members of a map."""
        return {step.address: step for step in self._steps if step.address.startswith(f"{address}.")}

    def steps_at(self, address: str) -> list[Step]:
        """The steps right below one, as the sessions before left them; "": those of the flow itself."""
        return [step for step in self._steps if step.address.rpartition(".")[0] == address]

    def address(self, slot: str, parent: str) -> str:
        """Where the step of a slot stands: where it stood, or behind all others."""
        known = self._slots.get(slot)
        if known is not None:
            return known.address
        with self._lock:
            number = self._next.get(parent, 0)
            self._next[parent] = number + 1
            return f"{parent}.{number:06d}" if parent else f"{number:06d}"

    def asked_by(self, name: str) -> str:
        """The slot of the question that goes by that name; "" if none does."""
        asking = (slot for slot, step in self._slots.items() if step.meta.get("pause", {}).get("name") == name)
        return next(asking, "")

    def reopen(self, steps: Sequence[Step]) -> None:
        """These no longer hold, and are to be done again. Durably: nobody may take them for done after a crash."""
        for step in steps:
            left = {key: value for key, value in step.meta.items() if key in ("slot", "after", "iteration")}
            open_again = replace(step, status="pending", checkpoint="", meta=left)
            self.store.put_step(open_again, durable=step is steps[-1])
            self._slots[str(step.meta["slot"])] = open_again

    def reload(self, slot: str, address: str) -> None:
        """Look again what is written about a step: others write answers."""
        self._slots[slot] = self.store.step(self.run.id, address)[0]
        self._seen.add(slot)

    # Where it is to start, if somebody has said so

    def start(self, slot: str) -> None:
        """Begin at the step of that slot; "": wherever there is something left to do."""
        self.start_at, self.started = slot, not slot

    def arrive(self, slot: str) -> None:
        """The step of that slot is reached."""
        self.started = self.started or slot == self.start_at

    def is_forced(self, slot: str = "") -> bool:
        """Is what is done now to be computed, because the run was to start here, before, or inside of this step?"""
        inside = bool(slot) and self.start_at.startswith(f"{slot}/")
        return bool(self.start_at) and (self.started or inside)

    # One step

    def begin(self, slot: str, address: str, name: str, *, kind: StepKind, durable: bool, **fields: Any) -> Ticket:
        """Intent: from here on the step is ours."""
        before = self._slots.get(slot)
        meta = {"slot": slot, "host": socket.gethostname(), "pid": os.getpid(), **fields.pop("meta", {})}
        step = Step(
            run=self.run.id,
            address=address,
            name=name,
            kind=kind,
            status=step_may(before.status, "running") if before is not None else "running",
            started=utc_now(),
            token=secrets.token_hex(8),
            meta=meta,
            **fields,
        )
        expect = self._version(before)
        try:
            version = self.store.put_step(step, expect=expect, durable=durable)
        except Conflict:
            self.reload(slot, address)
            raise
        self._slots[slot] = step
        return Ticket(step, version)

    def _version(self, before: Step | None) -> str:
        """What the record must still be: as we read it. Raises Fenced if somebody else is at work, and Conflict if a
        worker of the session before has gone on with it: then it is to be looked at again.
        """
        if before is None:
            return ""
        try:
            now, version = self.store.step(before.run, before.address)
        except NotFound:
            return ""
        if now.token != before.token:
            raise Fenced(_TAKEN.format(before.name, before.run))
        if (now.status, now.attempt) != (before.status, before.attempt):
            self._slots[str(now.meta["slot"])] = now
            raise Conflict(f"step/{before.run}/{before.address}")
        return version

    def again(self, ticket: Ticket, **fields: Any) -> None:
        """The same step goes on with its next attempt."""
        meta = {**ticket.step.meta, **fields.pop("meta", {})}
        ticket.step = replace(ticket.step, meta=meta, **fields)
        ticket.version = write(self.store, ticket)

    def end(self, ticket: Ticket, status: StepStatus, **fields: Any) -> Step:
        """Completion, or another end. Raises Fenced if the step is no longer ours."""
        meta = {**ticket.step.meta, **fields.pop("meta", {})}
        ticket.step = replace(ticket.step, status=step_may(ticket.step.status, status), meta=meta, **fields)
        write(self.store, ticket)
        self.ended(ticket.step)
        return ticket.step

    def ended(self, step: Step) -> None:
        """Count a step that is over, whoever wrote it down."""
        self.count(step)
        self.note()

    def ended_elsewhere(self, step: Step) -> None:
        self._whole.add(str(step.meta["slot"]))
        self.ended(step)

    def count(self, step: Step) -> None:
        with self._lock:
            self._slots[str(step.meta["slot"])] = step
            self.finished += step.status == "completed"
            self.bytes += step.bytes
            if step.status == "completed":
                self.computed += step.seconds

    def restored(self, slot: str, address: str, name: str, kind: StepKind, **fields: Any) -> None:
        """A step was not run, because its result was there. Nothing is written where that is known already."""
        before = self._slots.get(slot)
        with self._lock:
            self._whole.add(slot)
            self.finished += 1
            self.spared += float(fields.get("seconds", 0.0))
        same = before is not None and before.checkpoint == fields.get("checkpoint")
        if same and before is not None and before.status in ("completed", "restored"):
            emit("step_restored", run=self.run.id, step=address, name=name)
        else:
            status = step_may(before.status, "restored") if before is not None else "restored"
            tried = before.meta.get("retried") if before is not None else None
            meta = {"slot": slot, **({"retried": tried} if tried else {}), **fields.pop("meta", {})}
            step = Step(run=self.run.id, address=address, name=name, kind=kind, status=status, meta=meta, **fields)
            step = replace(step, attempt=before.attempt) if before is not None else step
            self.store.put_step(step)
            self._slots[slot] = step
        self.note()

    def skip(self, slot: str, address: str, name: str, kind: StepKind, reason: Reason) -> None:
        before = self._slots.get(slot)
        status = step_may(before.status, "skipped") if before is not None else "skipped"
        step = Step(run=self.run.id, address=address, name=name, kind=kind, status=status, reason=reason)
        attempt = before.attempt if before is not None else 1
        self._slots[slot] = replace(step, attempt=attempt, meta={"slot": slot})
        self.store.put_step(self._slots[slot])

    # The run

    def note(self, *, now: bool = False) -> None:
        """Keep the run's record up to date, without writing it for every step; and hear whether it was cancelled."""
        moment = time.monotonic()
        if self.is_helper:
            return  # it knows one step; the run's record is written by whoever knows them all
        if not now and moment - self._noted < _NOTING_SECONDS:
            return
        self._noted = moment
        found = self.store.update_run(self.run.id, holder=self.holder, **self.totals())
        if found.meta.get("cancel"):
            raise Cancelled(self.run.id)

    def finish(self, status: RunStatus) -> None:
        """The last word about a run, for now: durably, and with it all that was written before."""
        totals = self.totals()
        self.store.update_run(self.run.id, holder=self.holder, status=status, owner=None, durable=True, **totals)

    def settle(self, *, quietly: bool = False) -> None:
        """Wait for what is still running beside the flow: what is finished is saved, whatever else happens.

        Raises what one of them raised that nobody has asked about, unless `quietly`.
        """
        while self.beside:
            future = self.beside.pop(0)
            error = future.settled()
            if error is not None and not quietly:
                raise error

    def check_cancelled(self) -> None:
        """Raises Cancelled if somebody has called the run off."""
        if self.store.run(self.run.id).meta.get("cancel"):
            raise Cancelled(self.run.id)

    def totals(self) -> dict[str, Any]:
        return {
            "counts": dict(Counter(step.status for step in self._slots.values() if _is_counted(step))),
            "bytes": self._before[0] + self.bytes,
            "computed_seconds": self._before[1] + self.computed,
            "spared_seconds": self.run.spared_seconds + self.spared,
        }

    def detach(self) -> None:
        """The flow came to its end without calling these: they are gone from the code, and stay listed as such."""
        for slot, step in self._slots.items():
            named = slot in self._seen or step.meta.get("about") in self._seen
            lost = not named and not step.meta.get("detached") and not step.meta.get("flow")
            if lost and not any(above in self._whole for above in _above(slot)):
                status: StepStatus = "interrupted" if step.status == "running" else step.status
                self._slots[slot] = replace(step, status=status, meta={**step.meta, "detached": True})
                self.store.put_step(self._slots[slot])

    def should_save(self, policies: Policies, marked: bool) -> bool:
        """Is this the step to save, as `every` and `granularity` say?"""
        if policies.granularity == "manual":
            return marked
        steps, seconds = interval(policies.every)
        with self._lock:
            self.saves += 1
            due = bool(steps) and self.saves % steps == 0
            if seconds:
                due = time.monotonic() - self.saved_at >= seconds
            if due:
                self.saved_at = time.monotonic()
            return due


def _is_counted(step: Step) -> bool:
    """What a step consists of is that step's matter: the items of a map are counted by the map."""
    return "." not in step.address and not step.meta.get("flow")


def _above(slot: str) -> Iterator[str]:
    """The steps a step is part of."""
    while "/" in slot:
        slot = slot.rpartition("/")[0]
        yield slot


def find_start(steps: Sequence[Step], run: str, name: str) -> str:
    """The slot of the first step of that name, slot or address. Raises UsageError, with the names there are.

    What a map or a visit of a node consists of is done anew as a whole: naming a part of it is naming it.
    """
    placed = {str(step.meta["slot"]): step for step in steps if "slot" in step.meta and not step.meta.get("flow")}
    names = ((slot, (slot, unquote(slot), step.name, step.address)) for slot, step in placed.items())
    found = next((slot for slot, known in names if name in known), None)
    if found is None:
        there = ", ".join(dict.fromkeys(step.name for step in placed.values())) or "none"
        raise UsageError(f"run {run} has no step {name!r}", hint=f"its steps are: {there}")
    whole = [above for above in (found, *_above(found)) if above in placed and placed[above].kind in ("map", "node")]
    return whole[-1] if whole else found


def write(store: Store, ticket: Ticket, *, durable: bool = False) -> str:
    """Write a step that is ours. Raises Fenced if it no longer is."""
    try:
        ticket.version = store.put_step(ticket.step, expect=ticket.version, durable=durable)
    except Conflict as error:
        emit("step_fenced", run=ticket.step.run, step=ticket.step.address, name=ticket.step.name)
        raise Fenced(_TAKEN.format(ticket.step.name, ticket.step.run)) from error
    return ticket.version


def moments_ago(seconds: float) -> str:
    """The time so long ago, as records write it."""
    then = datetime.fromtimestamp(time.time() - seconds, timezone.utc)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""One call of a step: restored, or run and saved.

The order matters, and each gap is one in which the process may die:
- before the intent: nobody knows the step was about to run; it runs when the flow is resumed;
- after the intent: it is known to have begun; `on_interrupted` decides;
- after the checkpoint: its result is found by code and inputs, and the body does not run again;
- after the completion: the same.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.engine import aside, context, policy, shown, strands
from nbcheckpoint.engine.arguments import (
    RETURNED,
    Reach,
    arguments_of,
    changed_in_place,
    files_among,
    given,
    identify,
    reach_of,
    result_of,
    source_of,
)
from nbcheckpoint.engine.context import Frame, current_store, frame
from nbcheckpoint.engine.drawn import drawn_since
from nbcheckpoint.engine.effects import Body, Protocol, Wait
from nbcheckpoint.engine.identity import Identity, is_ordered, match
from nbcheckpoint.engine.journal import Ticket, moments_ago
from nbcheckpoint.engine.retry import is_worth_a_retry, seconds_until_next
from nbcheckpoint.engine.watching import StepWatch, watching
from nbcheckpoint.errors import (
    Cancelled,
    Changed,
    Conflict,
    Error,
    Fenced,
    Interrupted,
    NotSaveable,
    Paused,
    StoreError,
    tell,
)
from nbcheckpoint.events import emit
from nbcheckpoint.fingerprint import explain, files, rng
from nbcheckpoint.model import Checkpoint, Reason, Step, StepKind, StepStatus, utc_now
from nbcheckpoint.store import Store
from nbcheckpoint.store.forking import RESULT
from nbcheckpoint.units import say_size

if TYPE_CHECKING:
    from nbcheckpoint.engine.committing import Committer
    from nbcheckpoint.engine.step import Spec

STOPS = (Paused, Cancelled, Fenced)
"""What ends a body without being an error of it."""
ASKED = "asked"
"""In a checkpoint's meta: there is an answer in it, and this is the run it was given to."""


@dataclass(slots=True)
class Outcome:
    """What a call came to, for whoever waits for it elsewhere."""

    value: Any
    step: Step | None = None
    checkpoint: str = ""


class Call:
    """One call of a step. Made where the call stands, carried out there or elsewhere."""

    def __init__(
        self,
        spec: Spec,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        kind: StepKind = "call",
        reached: Reach | None = None,
        at: str = "",
    ) -> None:
        """`at` is its address, where that is not simply the next one."""
        self.spec, self.args, self.kwargs, self.kind = spec, args, kwargs, kind
        self.reached = reached
        self.parent = frame()
        self.slot = self.address = at
        if self.parent is not None and not at:
            self.slot = self.parent.next_slot(spec.name)
            self.address = self.parent.journal.address(self.slot, self.parent.address)
        self.after: list[str] = []
        self.reason = Reason(code="first", text="")
        self.identity: Identity | None = None
        self.ticket: Ticket | None = None
        self.speculative = False
        self.is_apart = False
        """Was it run in another process, or before it was asked for? Then its random numbers are not the flow's."""
        self.committer: Committer | None = None
        self.meta: dict[str, Any] = {}
        """What its record says besides."""
        self.outputs: shown.Outputs = []
        self._asked = ""
        self._tried: list[Any] = []

    def adopt(
        self,
        spec: Spec,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        parent: Frame,
        ticket: Ticket,
        reached: Reach,
        identity: Identity,
    ) -> None:
        """Be a call that was begun in another process."""
        self.spec, self.args, self.kwargs, self.kind = spec, args, kwargs, ticket.step.kind
        self.parent, self.ticket, self.identity = parent, ticket, identity
        self.slot, self.address = str(ticket.step.meta["slot"]), ticket.step.address
        self.after, self.reason, self.speculative, self._tried = [], Reason(code="first", text=""), False, []
        self.committer, self.meta, self._asked, self.is_apart = None, {}, "", True
        self.reached, self.outputs = reached, []

    # Surroundings

    @property
    def store(self) -> Store:
        return self.parent.journal.store if self.parent is not None else current_store()

    @functools.cached_property
    def policies(self) -> policy.Policies:
        inherited = self.parent.journal.settings if self.parent is not None else {}
        return policy.resolve(self.spec.settings, inherited, side_effects=self.spec.side_effects)

    @property
    def run(self) -> str:
        return self.parent.journal.run_id if self.parent is not None else ""

    def _salt(self) -> str:
        return f"{self.run} {self.slot}" if self.spec.scope == "run" and self.parent is not None else ""

    # The protocol

    def protocol(self) -> Protocol:
        """Restore, or run and save."""
        if self.parent is not None:
            self.parent.journal.note()
            self.after = self.parent.led_to([*self.args, *self.kwargs.values()])
        found = self.ready()
        if found is None:
            found = yield from self.attempts()
        if self.parent is not None:
            self.parent.made(self.address, found.value)
        return found.value

    def ready(self) -> Outcome | None:
        """What there is already; None once it is written down that it is about to run."""
        while True:
            found = self.look_up()
            if found is None and self.is_left_out():
                found = Outcome(None)
            if found is not None:
                return found
            try:
                self.begin()
            except Conflict:
                continue  # a worker that outlived its parent has just written something: it may be the result
            return None

    def attempts(self) -> Protocol:
        """The body, as often as it takes; then the end."""
        here, questions = self._frame(), len(context.asked)
        while True:
            started, watch = time.perf_counter(), self.watch()
            try:
                value = yield Body(
                    *(self.spec.function, self.prepared(), here, self.kwargs),
                    timeout=self.spec.timeout,
                    around=functools.partial(watching, watch),
                    strand=watch.strand,
                )
            except BaseException as error:
                wait = self.failed(error, time.perf_counter() - started)
                if wait is None:
                    return Outcome(None)
                if here is not None:
                    here.attempt += 1
                yield Wait(wait)
                continue
            self._asked = context.asked[-1] if self.parent is None and len(context.asked) > questions else ""
            return self.finish(value, time.perf_counter() - started, watch, here)

    def prepared(self) -> Sequence[Any]:
        """The arguments of the next attempt."""
        return self.args

    def _frame(self) -> Frame | None:
        if self.parent is None:
            return None
        attempt = self.ticket.step.attempt if self.ticket is not None else 1
        return Frame(self.parent.journal, self.slot, self.address, attempt=attempt)

    def watch(self) -> StepWatch:
        return StepWatch([self.store.url.removeprefix("file://")])

    # Is it there already?

    def look_up(self) -> Outcome | None:
        """What an earlier call with the same code and inputs left, if it may be used."""
        arguments = arguments_of(self.spec.function, self.args, self.kwargs)
        if self.reached is None:
            self.reached = reach_of(
                self.spec.function, salt=self._salt(), files=self.spec.files, private=self.store.private_digest
            )
        self.identity = identify(self.reached, arguments, self.spec.ignore, private=self.store.private_digest)
        recorded = self.parent.journal.recorded(self.slot) if self.parent is not None else None
        if self.parent is not None:
            self.parent.journal.arrive(self.slot)
        if recorded is not None and recorded.checkpoint and self._is_settled(recorded):
            return self._restored(self.store.checkpoint(recorded.checkpoint), "as it was")
        if self.parent is not None and self.parent.journal.is_forced(self.slot):
            self.reason = explain.simple("forced", "started here on purpose")
            return None
        expired = moments_ago(self.spec.expire) if self.spec.expire is not None else ""
        found = match(self.store, self.identity, expired_before=expired)
        self.reason = found.reason
        if found.checkpoint is not None and self._counts(found.checkpoint):
            return self._restored(found.checkpoint, found.reason.text)
        return self._changed(recorded) if recorded is not None else None

    def _is_settled(self, recorded: Step) -> bool:
        """Taken as it is, whatever code and inputs say: it was edited, or comes before where the run is to start."""
        assert self.parent is not None
        journal = self.parent.journal
        return bool(recorded.meta.get("edited")) or not (journal.started or journal.is_forced(self.slot))

    def _counts(self, found: Checkpoint) -> bool:
        """A run that is to compute everything uses only what it has computed itself; and each asks for itself."""
        since, own = context.since, is_answered_here(found)
        if self.parent is not None:
            recorded = self.parent.journal.recorded(self.slot)
            own = found.run == self.run or (recorded is not None and recorded.checkpoint == found.id)
            since = self.parent.journal.since
        if not own and found.meta.get(ASKED):
            self.reason = explain.simple("forced", "it asks a question, and that was answered for another run")
            return False
        if is_ordered(found) and not strands.is_alone():
            self.reason = explain.simple("random", "others may draw random numbers beside it")
            return False
        if not own and found.created < since:
            self.reason = explain.simple("forced", "a fresh run computes everything")
            return False
        return True

    def _changed(self, recorded: Step) -> Outcome | None:
        """It was done, and what it depends on is not what it was."""
        if not recorded.checkpoint or recorded.status not in ("completed", "restored"):
            return None
        try:
            then = self.store.checkpoint(recorded.checkpoint)
        except Error:
            self.reason = explain.simple("damaged", "what was saved is gone")
            return None
        assert self.identity is not None
        if then.code != self.identity.code:
            self.reason = explain.simple("code", f"{self.spec.name}() changed", source=then.source)
        elif then.inputs_digest != self.identity.digest:
            self.reason = explain.changed_inputs(then.inputs, self.identity.inputs)
        if self.policies.on_change == "strict":
            raise Changed(self.run, self.spec.name, self.reason.text)
        old, new = ({item.name: item.digest for item in found.inputs} for found in (then, self.identity))
        if self.policies.on_change == "trust" and all(old.get(name) == new.get(name) for name in self.identity.values):
            return self._restored(then, f"trusted, though {self.reason.text}")
        emit("step_invalidated", run=self.run, step=self.address, name=self.spec.name, reason=self.reason.text)
        return None

    def _restored(self, checkpoint: Checkpoint, why: str) -> Outcome | None:
        assert self.identity is not None
        try:
            values = result_of(self.store, checkpoint, self.identity)
        except Error as error:
            self.reason = explain.simple("damaged", f"what was saved cannot be used: {error}")
            return None
        given_back(checkpoint, values)
        if self.parent is None and checkpoint.meta.get(ASKED):
            context.asked.append(checkpoint.meta[ASKED])
        if self.parent is not None:
            self.parent.asked |= bool(checkpoint.meta.get(ASKED))
            self.show_again(checkpoint)
            self.parent.journal.restored(
                *(self.slot, self.address, self.spec.name, self.kind),
                checkpoint=checkpoint.id,
                reason=explain.simple("restored", why, checkpoint=checkpoint.id),
                seconds=checkpoint.seconds,
                meta={"after": self.after} if self.after else {},
            )
        return Outcome(values[RESULT], checkpoint=checkpoint.id)

    def show_again(self, checkpoint: Checkpoint) -> None:
        """What it has shown, if it was this run's and nobody has seen it."""
        if self.parent is not None and checkpoint.run == self.run:
            shown.again(self.store, checkpoint, self.parent.journal.unseen)

    # It was running when its process died

    def is_left_out(self) -> bool:
        """Is it not to be run, because it was cut short and is skipped now, or was before?"""
        recorded = self.parent.journal.recorded(self.slot) if self.parent is not None else None
        if recorded is None:
            return False
        if recorded.status == "skipped" and recorded.reason is not None and recorded.reason.code == "interrupted":
            return self.policies.on_interrupted in ("skip", "ask")
        return recorded.status in ("running", "interrupted") and not self.may_repeat(recorded)

    def may_repeat(self, recorded: Step) -> bool:
        """As `on_interrupted` says. False: it is skipped. Raises Interrupted, or Paused until somebody has said."""
        assert self.parent is not None
        said: str = self.policies.on_interrupted
        if said == "ask":
            from nbcheckpoint.engine.pause import ask

            question = f"{self.spec.name} was running when its process died, and may have done its work. Run it again?"
            # Every attempt that is cut short is a question of its own: a yes is not a yes for ever.
            name = f"{self.slot} again" if recorded.attempt == 1 else f"{self.slot} again after {recorded.attempt}"
            said = ask(self.parent, name, question, choices=("rerun", "skip", "fail"), about=self.slot)
        if said == "fail":
            raise Interrupted(self.run, self.spec.name)
        if said == "skip":
            reason = explain.simple("interrupted", "it was running when its process died, and is skipped")
            self.parent.journal.skip(self.slot, self.address, self.spec.name, self.kind, reason)
            return False
        self.reason = explain.simple("interrupted", "it was running when its process died")
        return True

    # Intent, failure, completion

    def begin(self, *, whatever: bool = False) -> None:
        """Say what is about to run. Raises Conflict if somebody else has just written about it.

        Of the items of a map that is not said, because there are many, and it would decide nothing: unless they have
        effects, or have failed before and are tried again.
        """
        if self.parent is None or self.speculative:
            return
        decides = self.policies.on_interrupted != "rerun"
        recorded = self.parent.journal.recorded(self.slot)
        cut = recorded is not None and recorded.status in ("running", "interrupted")
        kept = {"retried": recorded.meta["retried"]} if recorded and cut and recorded.meta.get("retried") else {}
        if self.committer is not None and not (decides or kept or whatever):
            return
        tried = recorded is not None and (recorded.started or recorded.attempt > 1)
        meta = {**kept, **self.meta, "after": self.after}
        try:
            self.ticket = self.parent.journal.begin(
                *(self.slot, self.address, self.spec.name),
                kind=self.kind,
                durable=decides,
                attempt=recorded.attempt + 1 if recorded is not None and tried else 1,
                reason=self.reason,
                meta=meta,
            )
        except StoreError as error:
            if self.policies.on_save_error == "fail" or decides:
                raise
            self.warn(f"that it runs could not be written down: {error}")

    def failed(self, error: BaseException, seconds: float) -> float | None:
        """Write an error down. Returns how long to wait before trying again, or None to go on without a result."""
        told = tell(error)
        stopped = not isinstance(error, Exception) or isinstance(error, STOPS)
        if self.ticket is None and self.committer is not None and self.spec.retries and not stopped:
            self.begin(whatever=True)
        tried = self._tried if self.ticket is None else list(self.ticket.step.meta.get("retried", ()))
        if not stopped and len(tried) < self.spec.retries and is_worth_a_retry(error, self.spec.retry_on):
            wait = seconds_until_next(len(tried) + 1, self.spec.backoff, error)
            tried.append({"at": utc_now(), "error": told[:300], "wait": round(wait, 3)})
            self._tried = tried
            emit("step_retried", run=self.run, step=self.address, name=self.spec.name, error=told, wait=wait)
            if self.ticket is not None and self.parent is not None:
                attempt = self.ticket.step.attempt + 1
                self.parent.journal.again(self.ticket, attempt=attempt, meta={"retried": tried})
            return wait
        status: StepStatus = "paused" if isinstance(error, Paused) else "interrupted" if stopped else "failed"
        if self.ticket is not None and self.parent is not None and not isinstance(error, Fenced):
            # Whoever resumes after a failure wants it tried as often as the first time.
            meta: dict[str, Any] = {"retried": []} if status == "failed" else {}
            try:
                self.parent.journal.end(self.ticket, status, error=told[:2000], seconds=seconds, meta=meta)
            except StoreError as problem:
                self.warn(f"its failure could not be written down: {problem}")
        if not stopped and self.policies.on_failure == "continue":
            self.warn(f"it failed, and the flow goes on without its result: {told}")
            return None
        raise error

    def finish(self, value: Any, seconds: float, watch: StepWatch, here: Frame | None) -> Outcome:
        """Save what the body returned, and write the completion."""
        marks = dict(here.marks) if here is not None else {}
        self.outputs = watch.shown() if self.parent is not None else []
        if here is not None and here.asked and self.parent is not None:
            self._asked, self.parent.asked = self.run, True
        problem, saved = "", None
        if self.is_due(bool(marks)):
            try:
                saved, problem = self.save(value, seconds, watch, marks)
            except Fenced:
                raise
            except Error as error:
                if self.policies.on_save_error == "fail":
                    self._close(None, seconds, marks, str(error), failed=True)
                    raise
                problem = str(error)
        done = self._close(saved, seconds, marks, problem)
        if problem:
            self.warn(f"it is not saved: {problem}")
        return Outcome(value, done, saved.id if saved else "")

    def is_due(self, marked: bool) -> bool:
        """Is it to be saved, as `every` and `granularity` say?"""
        return self.parent is None or self.parent.journal.should_save(self.policies, marked)

    def _close(
        self, saved: Checkpoint | None, seconds: float, marks: Mapping[str, Any], problem: str, *, failed: bool = False
    ) -> Step | None:
        if self.committer is not None:
            self.committer.add(self, saved, seconds, problem)
            return None
        if self.ticket is None or self.parent is None:
            return None
        meta = {**self.meta, **({"marks": dict(marks)} if marks else {}), **({"problem": problem} if problem else {})}
        try:
            return self.parent.journal.end(
                self.ticket,
                "failed" if failed else "completed",
                seconds=seconds,
                checkpoint=saved.id if saved is not None else "",
                bytes=saved.bytes if saved is not None else 0,
                error=problem if failed else "",
                meta=meta,
            )
        except StoreError as error:
            self.warn(f"its end could not be written down: {error}")
            return None

    def save(
        self, value: Any, seconds: float, watch: StepWatch, marks: Mapping[str, Any]
    ) -> tuple[Checkpoint | None, str]:
        """The checkpoint, or why there is none. Raises what the store raises."""
        identity, reached = self.identity, self.reached
        assert identity is not None
        assert reached is not None
        if identity.unidentified:
            return None, "; ".join(identity.unidentified)
        changed = changed_in_place(identity, reached)
        if changed:
            return None, f"{', '.join(changed)} was changed in place; return what is new instead"
        drawn, moved = drawn_since(watch.random, reached.mentions, now=watch.random_after)
        # One that nobody has seeded is left as it is when the result is given back: put back out of order, it would
        # hand out numbers that others have got already.
        moved = {name: state for name, state in moved.items() if not rng.is_pristine(name, state)}
        apart = self.is_apart or watch.strand.shared
        if apart and (moved or any(item.type != rng.PRISTINE for item in drawn)):
            return None, "it drew from a seeded generator, apart from the flow; give it one of its own"
        spoken = [text for text in identity.values.values() if type(text) is str]
        watch.mention([*spoken, *reached.named], absent=reached.looks)
        seen = watch.seen()
        files.include((*seen, *files_among(identity.inputs)))  # whatever this is a part of depends on them too
        draft = self.draft(
            identity.code,
            seconds,
            inputs_digest=identity.digest,
            source=source_of(self.spec.function),
            inputs=identity.inputs,
            random=drawn,
            files=seen,
            folder=os.getcwd() if seen else "",
            settings=reached.settings,
            environment={"python": sys.version.partition(" ")[0]},
            meta=self._described(marks),
        )
        references = given(identity)
        if id(value) in references:
            draft = replace(draft, meta={**draft.meta, RETURNED: references[id(value)].name})
            value = None
        return self.committed(draft, {RESULT: value, **moved}, references)

    def draft(self, code: str, seconds: float, **fields: Any) -> Checkpoint:
        """What it is about to leave."""
        if self.outputs and self.parent is not None:
            fields["meta"] = {**fields["meta"], shown.SESSION: self.parent.journal.run.sessions}
        own: dict[str, Any] = {"run": self.run, "step": self.address, "name": self.spec.name, **fields}
        return Checkpoint(id="", created="", code=code, seconds=seconds, **own)

    def committed(
        self, draft: Checkpoint, values: Mapping[str, Any], references: Mapping[int, Reference] | None = None
    ) -> tuple[Checkpoint | None, str]:
        """Saved durably; or, where there is a committer, when that says so."""
        defer = self.committer is not None
        saved = self.store.save(draft, values, references=references, outputs=self.outputs, defer=defer).checkpoint
        lost = [item for item in saved.not_saved if item.name == RESULT]
        if lost:
            what = NotSaveable("its result", lost[0].type, lost[0].why, path=lost[0].path)
            if self.policies.on_save_error == "fail":
                raise what
            return None, str(what)
        limit = policy.size(self.policies.warn_size)
        if limit and saved.size > limit:
            self.warn(f"its result takes {say_size(saved.size)}")
        return saved, ""

    def _described(self, marks: Mapping[str, Any]) -> dict[str, Any]:
        """What the checkpoint says about where it came from, and what retention tells versions of a step by."""
        assert self.identity is not None
        workflow = self.parent.journal.run.workflow if self.parent is not None else "nbcheckpoint.step"
        inputs = self.identity.digest[:16] if self.spec.scope == "store" else self.slot
        meta: dict[str, Any] = {"workflow": workflow, "cell": f"{self.spec.name} {inputs}"}
        if self.ticket is not None:
            meta["attempt"] = self.ticket.step.attempt
        if self._asked:
            meta[ASKED] = self._asked
        return {**meta, "marks": dict(marks)} if marks else meta

    def warn(self, text: str) -> None:
        aside.warn(f"step {self.spec.name}: {text}")


def is_answered_here(found: Checkpoint) -> bool:
    """Outside of every flow: is there an answer in it, and was it given to the run that would ask now?"""
    return frame() is None and bool(found.meta.get(ASKED)) and found.meta[ASKED] == context.ambient_run()


def given_back(checkpoint: Checkpoint, values: dict[str, Any]) -> None:
    """A result was restored: generators go on as if it had been computed, and whatever it is a part of has read what
    it had read. Takes the generators out of `values`."""
    for name in [name for name in values if name.startswith(rng.PREFIX)]:
        rng.restore(name, values.pop(name))
    files.include((*checkpoint.files, *files_among(checkpoint.inputs)))

"""`@nbc.flow`: a function whose run outlives the process.

    @nbc.flow
    def pipeline(path, n):
        raw = load(path)
        ...

A flow is ordinary Python. Resuming it means calling it again: what its steps have left is given back where they are
called, so the body comes to where it was, and goes on. Branches and loops need no more than that.

The flow itself is the first step of its run. It keeps the arguments, so that a run can be resumed by its id alone, and
in the end the result.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, ParamSpec, TypeVar

from msgspec.structs import replace as replace_record

from nbcheckpoint.codec.preview import preview, shape_of
from nbcheckpoint.engine import aside, context, policy, shown
from nbcheckpoint.engine.arguments import arguments_of, source_of
from nbcheckpoint.engine.calling import Call
from nbcheckpoint.engine.context import Frame
from nbcheckpoint.engine.effects import Body, Protocol, drive, drive_async
from nbcheckpoint.engine.environment import snapshot
from nbcheckpoint.engine.identity import digest_inputs, look
from nbcheckpoint.engine.journal import Journal, Ticket, find_start, write
from nbcheckpoint.engine.states import RESUMABLE
from nbcheckpoint.engine.step import Spec
from nbcheckpoint.errors import Cancelled, Error, Fenced, NotFound, Paused, StoreError, Untrusted, UsageError, tell
from nbcheckpoint.events import tracers
from nbcheckpoint.fingerprint.values import Digester
from nbcheckpoint.model import Checkpoint, Run, RunKind, RunStatus, Step, StepStatus, utc_now
from nbcheckpoint.store import Store
from nbcheckpoint.store.forking import RESULT
from nbcheckpoint.store.lease import Heartbeat

P = ParamSpec("P")
T = TypeVar("T")

SELF = "."
"""The slot of the flow itself. No step can be called that."""
_ARGS, _KWARGS = "args", "kwargs"
_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpec:
    """What `@flow` was told."""

    function: Callable[..., Any]
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    store: Store | None = None
    kind: RunKind = "flow"
    origin: str = ""
    """Where it is defined: two scripts may each have one of the same name."""
    meta: Mapping[str, Any] = field(default_factory=dict)


class FlowFunction(Generic[P, T]):
    """A function that goes on where it was. Call it like the function it was made from."""

    def __init__(self, spec: FlowSpec) -> None:
        functools.update_wrapper(self, spec.function)
        self.spec = spec

    @property
    def __nbcheckpoint_code__(self) -> Callable[..., Any]:
        return self.spec.function

    @property
    def name(self) -> str:
        """The name its runs go by."""
        return self.spec.name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A flow may be a method: the instance is an argument like any other."""
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<flow {self.spec.name}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return str(self.spec.function.__qualname__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it. If its latest run with these inputs was interrupted, failed or is paused, that is continued."""
        if context.frame() is not None:
            return self._driven(self._nested(args, kwargs))
        return self._driven(self._called(args, kwargs, fresh=False))

    def fresh(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """A new run that computes everything, whatever came before."""
        return self._driven(self._called(args, kwargs, fresh=True))

    def resume(self, run: str | None = None, *, start_at: str = "", strict: bool = False, **policies: Any) -> T:
        """Continue that very run with its recorded inputs; without an id, the latest that is not complete.

        A complete one returns its result; with `strict`, it raises. `start_at`: take what is recorded before the first
        step of that name as it is, and compute everything from there on: also all items of a map, if it is one. Of
        several calls of a step, `"clean#2"` is the second. Answers stay. The rest are policies, as `on_change="trust"`;
        where nothing else is said, those the run began with.
        """
        changed = self.options(**policies) if policies else self
        return self._driven(changed._resumed(run, start_at, strict))

    def options(self, **changes: Any) -> FlowFunction[P, T]:
        """The same flow with other policies, `tags`, `ignore`, or another `store`."""
        own = {name: changes.pop(name) for name in ("tags", "ignore", "store") if name in changes}
        settings = {**self.spec.settings, **policy.checked(changes, f"flow {self.name}: ")}
        return FlowFunction(replace(self.spec, settings=settings, **own))

    def plan(self, run: str | None = None) -> Any:
        """What resuming a run would restore and what it would run, with reasons; nothing is executed."""
        from nbcheckpoint.engine.plan import plan_of

        found = self._find(run)
        return plan_of(self._store, found, self.spec.function)

    # How

    @property
    def _store(self) -> Store:
        return self.spec.store or context.current_store()

    def _driven(self, protocol: Protocol) -> T:
        is_async = inspect.iscoroutinefunction(self.spec.function)
        found: T = drive_async(protocol) if is_async else drive(protocol)  # type: ignore[assignment]  # then T is a coroutine
        return found

    def _nested(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Protocol:
        """Inside of another flow it is a step of that, with steps of its own."""
        spec = Spec(function=self.spec.function, name=self.name, scope="run", settings=self.spec.settings)
        return Call(spec, args, kwargs).protocol()

    def _called(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, fresh: bool) -> Protocol:
        arguments = arguments_of(self.spec.function, args, kwargs)
        looked, unidentified, _ = look(Digester(), arguments, self.spec.ignore)
        inputs = [item for item in looked if item.name not in self.spec.ignore]
        digest = digest_inputs(inputs) if not unidentified else ""
        store = self._store
        found = None if fresh or not digest else self._latest(store, digest)
        if found is not None:
            return (yield from self._work(_taken_over(store, found), args, kwargs))
        told = {name: _shown(name, value) for name, value in arguments.items()}
        meta = {"inputs_digest": digest, "origin": self.spec.origin, "environment": snapshot(), **self.spec.meta}
        meta["policies"] = dict(self.spec.settings)
        meta = shown.noted(meta, session=1)
        if fresh or context.since:
            meta["since"] = utc_now() if fresh else context.since
        run = store.begin_run(self.name, kind=self.spec.kind, inputs=told, meta=meta, tags=self.spec.tags)
        return (yield from self._work(run, args, kwargs))

    def _latest(self, store: Store, digest: str) -> Run | None:
        """The latest run with these inputs, if it can be continued."""
        for run in _newest_first(store, self.name):
            same = run.meta.get("inputs_digest") == digest and run.meta.get("origin") == self.spec.origin
            if same and run.trusted and not run.meta.get("forked"):
                nobodys = run.status == "completed" and shown.cut_off(run)
                counts = (run.status in RESUMABLE or nobodys) and run.created >= context.since
                return run if counts else None
        return None

    def _find(self, run: str | None) -> Run:
        if run is not None:
            found = self._store.run(run)
            if found.workflow != self.name:
                raise UsageError(f"run {run} is one of {found.workflow}, not of {self.name}")
        else:
            waiting = (r for r in _newest_first(self._store, self.name) if r.status in (*RESUMABLE, "cancelled"))
            latest = next(waiting, None)
            if latest is None:
                raise NotFound(f"no run of {self.name} waits to be resumed", hint=f"call {self.name}(…) to begin one")
            found = latest
        if not found.trusted:
            raise Untrusted(f"run {found.id} does not carry your signature")
        return found

    def _resumed(self, run: str | None, start_at: str, strict: bool) -> Protocol:
        found = self._find(run)
        kept = _kept(self._store, found)
        if found.status == "completed" and not start_at:
            if strict:
                raise UsageError(f"run {found.id} is complete", hint="without strict=True its result is returned")
            if RESULT in kept:
                return kept[RESULT]
        if _ARGS not in kept:
            raise NotFound(f"the inputs of run {found.id} were not saved", hint=f"call {self.name}(…) with them again")
        start = find_start(self._store.steps(found.id, inner=True), found.id, start_at) if start_at else ""
        run_now = _taken_over(self._store, found)
        begun_with = {**found.meta.get("policies", {}), **self.spec.settings}
        return (yield from self.options(**begun_with)._work(run_now, kept[_ARGS], kept[_KWARGS], start))

    def _work(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any], start_at: str = "") -> Protocol:
        settings = dict(self.spec.settings)
        since = run.created if run.meta.get("forked") else str(run.meta.get("since", ""))
        journal = Journal(self._store, run, settings=settings, since=since)
        journal.unseen = shown.cut_off(run)
        shown.begun(self._store, run)
        journal.start(start_at)
        context.note_call(context.Called(self.name, str(run.meta.get("inputs_digest", "")), run.id))
        work = _Work(journal, self.spec, policy.resolve(settings), args, kwargs)
        return (yield from work.protocol())


class _Work:
    """One session of a run: from taking it up to its end, whatever that is."""

    def __init__(
        self,
        journal: Journal,
        spec: FlowSpec,
        policies: policy.Policies,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self.journal, self.spec, self.policies = journal, spec, policies
        self.args, self.kwargs = args, kwargs
        self.ticket: Ticket | None = None
        self.started = time.perf_counter()

    def protocol(self) -> Protocol:
        journal = self.journal
        heart = Heartbeat(journal.store, journal.run)
        try:
            self.begin()
            value = yield Body(self.spec.function, self.args, Frame(journal), self.kwargs)
            journal.settle()
            if not journal.started:
                self._warn(f"{journal.start_at} was not called, so nothing was computed anew")
        except Fenced:
            heart.stop()
            raise  # another process has this run now
        except BaseException as error:
            journal.settle(quietly=True)
            heart.stop()
            self.stopped(error)
            raise
        heart.stop()
        self.complete(value)
        return value

    def begin(self) -> None:
        journal = self.journal
        before = journal.recorded(SELF)
        checkpoint = before.checkpoint if before is not None else ""
        address = journal.address(SELF, "")
        meta = {"flow": True, **_traced(journal.run_id, before)}
        ticket = journal.begin(
            *(SELF, address, self.spec.name), kind="call", durable=False, meta=meta, checkpoint=checkpoint
        )
        self.ticket = ticket
        if not checkpoint:
            saved = self._save({})
            if saved is not None:
                journal.again(ticket, checkpoint=saved.id, bytes=saved.bytes)

    def _save(self, result: Mapping[str, Any]) -> Checkpoint | None:
        """Arguments, and at the end the result with them. What cannot be saved is told, and costs only itself."""
        journal = self.journal
        draft = Checkpoint(
            id="",
            created="",
            run=journal.run_id,
            step="000000",
            name=self.spec.name,
            code="0" * 64,
            source=source_of(self.spec.function),
            meta={"workflow": self.spec.name, "cell": journal.run_id},
        )
        values = {**self._given(), **result}
        try:
            saved = journal.store.save(draft, values).checkpoint
        except StoreError as error:
            if self.policies.on_save_error == "fail":
                raise
            self._warn(f"its {'result' if result else 'arguments'} could not be saved: {error}")
            return None
        for item in saved.not_saved:
            self._warn(f"{item.name} cannot be saved ({item.type}: {item.why})")
        return saved

    def _given(self) -> dict[str, Any]:
        """The arguments as they were at the beginning: the body may have changed them."""
        kept = self.ticket.step.checkpoint if self.ticket is not None else ""
        if kept:
            try:
                found = self.journal.store.load(kept, tell=False).values
                return {name: found[name] for name in (_ARGS, _KWARGS) if name in found}
            except Error as error:
                self._warn(f"what it was given cannot be read any more: {error}")
        return {_ARGS: tuple(self.args), _KWARGS: dict(self.kwargs)}

    def _warn(self, text: str) -> None:
        aside.warn(f"flow {self.spec.name}: {text}")

    def complete(self, value: Any) -> None:
        journal = self.journal
        if self.policies.on_success == "delete":
            self._end("completed", "completed")
            journal.store.delete_run(journal.run_id)
            return
        saved = self._save({RESULT: value})
        fields = {"checkpoint": saved.id, "bytes": saved.bytes} if saved is not None else {}
        journal.detach()
        self._end("completed", "completed", **fields)

    def stopped(self, error: BaseException) -> None:
        """Whatever ended it: everything that was finished stays, and the error says how to go on."""
        run = self.journal.run_id
        if isinstance(error, Paused):
            self._end("paused", "paused")
        elif isinstance(error, Cancelled):
            self._end("interrupted", "cancelled")
        elif not isinstance(error, Exception):
            self._end("interrupted", "interrupted")
        elif self.policies.on_failure == "rollback":
            self._end("failed", "failed", error=tell(error)[:2000])
            self.journal.store.delete_run(run)
            _add_note(error, f"nbcheckpoint: the run was rolled back, nothing of {run} is kept")
        else:
            self._end("failed", "failed", error=tell(error)[:2000])
            done = self.journal.finished
            saved = f"{done} finished {'step is' if done == 1 else 'steps are'} saved"
            again = f"call it again, or {self.spec.name}.resume({run!r})"
            _add_note(error, f"nbcheckpoint: {saved}; to go on from there: {again}")

    def _end(self, step: StepStatus, run: RunStatus, **fields: Any) -> None:
        journal = self.journal
        try:
            if self.ticket is not None:
                # The flow's own step is no work of its own: it is not counted.
                seconds = time.perf_counter() - self.started
                self.ticket.step = replace_record(self.ticket.step, status=step, seconds=seconds, **fields)
                write(journal.store, self.ticket)
            journal.finish(run)
        except StoreError as error:
            self._warn(f"its end could not be written down: {error}")


def _newest_first(store: Store, workflow: str) -> Iterator[Run]:
    """Page by page: what is looked for is mostly among the newest, and there may be a hundred thousand."""
    page = store.runs(workflow=workflow, limit=_PAGE)
    while page:
        yield from page
        page = store.runs(workflow=workflow, limit=_PAGE, before=page[-1].id) if len(page) == _PAGE else []


def _taken_over(store: Store, run: Run) -> Run:
    """Make a run ours. Raises RunBusy if somebody is at work on it."""
    taken = store.take(run.id)
    meta = {key: value for key, value in taken.meta.items() if key != "cancel"}
    meta["resumed"] = [*taken.meta.get("resumed", ()), utc_now()][-50:]
    meta = shown.noted(meta, taken.sessions)
    return store.update_run(run.id, holder=taken.owner.lease if taken.owner else None, meta=meta)


def _traced(run: str, before: Step | None) -> dict[str, str]:
    """What this session is called in somebody's traces, linked to the session before."""
    for tracer in tracers:
        if before is not None and before.meta.get("trace"):
            tracer.link(run, str(before.meta["trace"]))
    name = next((found for tracer in tracers if (found := tracer.trace_of(run))), "")
    return {"trace": name} if name else {}


def _kept(store: Store, run: Run) -> dict[str, Any]:
    """The arguments of a run, and its result if it has one."""
    own = [step for step in store.steps(run.id) if step.meta.get("flow") and step.checkpoint]
    if not own:
        return {}
    try:
        return dict(store.load(own[0].checkpoint).values)
    except (NotFound, StoreError) as error:
        raise Error(f"what run {run.id} was given cannot be read: {error}", hint="nbcheckpoint verify") from error


def _shown(name: str, value: Any) -> str:
    return shape_of(value) or preview(value, name)


def origin_of(function: Callable[..., Any]) -> str:
    """The module, script or notebook a function stands in."""
    module = getattr(function, "__module__", "") or ""
    if module != "__main__":
        return module
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(file) if file else os.environ.get("JPY_SESSION_NAME", "__main__")


def _add_note(error: BaseException, text: str) -> None:
    """As `add_note` does, which Python 3.10 has not. An error that takes none is raised without."""
    notes = getattr(error, "__notes__", [])
    with contextlib.suppress(Exception):
        setattr(error, "__notes__", [*notes, text])  # noqa: B010  # no attribute mypy knows


def flow(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A function that goes on where it was when its process died.

    Calling it runs it; if its latest run with the same inputs was interrupted, failed or waits for an answer, that
    is continued. `name`: what its runs are called. `tags`: to find them by. `ignore`: arguments that do not count as
    inputs. `store`: another than the default one. The rest are policies: `on_failure`, `on_change`, `every`, … (see
    `nbcheckpoint.engine.policy`).
    """
    if function is not None:
        return _decorated(function, options)
    return functools.partial(_decorated, options=options)


def _decorated(function: Callable[..., Any], options: Mapping[str, Any]) -> FlowFunction[Any, Any]:
    if not callable(function) or isinstance(function, FlowFunction):
        raise UsageError(f"flow: {function!r} is not a plain function", hint="put @flow above a def")
    given = dict(options)
    name = given.pop("name", None) or getattr(function, "__name__", type(function).__name__)
    tags, ignore, store = tuple(given.pop("tags", ())), tuple(given.pop("ignore", ())), given.pop("store", None)
    policy.checked(given, f"flow {name}: ")
    spec = FlowSpec(function=function, name=name, settings=given, tags=tags, ignore=ignore, store=store)
    spec = replace(spec, origin=origin_of(function))
    return FlowFunction(spec)

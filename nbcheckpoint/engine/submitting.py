"""`step.submit`: steps that run beside each other, each as soon as what it needs is there.

A submitted step waits for the futures among its arguments, not for its turn in the program: so whatever is ready runs
together. Each is recorded by itself; one that fails costs itself and what needs it. Of those that are ready, the one
with the highest priority goes first, and no more are handed to an executor than it can run.
"""

from __future__ import annotations

import contextvars
import heapq
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import TYPE_CHECKING, Any

import cloudpickle

from nbcheckpoint.engine import executors, strands
from nbcheckpoint.engine.calling import Call, Outcome, given_back
from nbcheckpoint.engine.context import inside
from nbcheckpoint.engine.effects import drive, drive_async
from nbcheckpoint.engine.journal import Ticket
from nbcheckpoint.engine.watching import watching
from nbcheckpoint.engine.worker import Done, packed, read_before, work
from nbcheckpoint.errors import UsageError
from nbcheckpoint.fingerprint import files
from nbcheckpoint.model import Step
from nbcheckpoint.store.forking import RESULT

if TYPE_CHECKING:
    from nbcheckpoint.engine.step import Spec


class Submitted:
    """The result of a step that may not be there yet. `result()` waits; so does `await`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._future: Future[Any] = Future()
        self._asked = False
        self._draft: Callable[[], Any] | None = None

    def __repr__(self) -> str:
        state = "done" if self._future.done() else "running"
        return f"<{self._call.spec.name}: {state}>"

    def result(self, timeout: float | None = None) -> Any:
        """What the step returned. Raises what it raised."""
        self._asked = True
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._asked = True
        return self._future.exception(timeout)

    def done(self) -> bool:
        return self._future.done()

    def confirm(self) -> Any:
        """Keep what a speculative step has computed: from here on it is a step of the run like any other."""
        value = self.result()
        draft, self._draft = self._draft, None
        if draft is not None:
            draft()
        return value

    def discard(self) -> None:
        """Forget what a speculative step has computed. Nothing of it was written anywhere."""
        self._asked, self._draft = True, None

    def settled(self) -> BaseException | None:
        """Wait for its end. What it raised, if nobody has asked."""
        error = self._future.exception()
        return None if self._asked else error

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        self._asked = True
        return asyncio.wrap_future(self._future).__await__()


def submit(
    spec: Spec, args: Sequence[Any], kwargs: Mapping[str, Any], *, executor: Executor | None, priority: int
) -> Submitted:
    """Run a step as soon as the futures among its arguments have results."""
    given = dict(kwargs)
    speculative = bool(given.pop("speculative", False))
    call = Call(spec, args, given)
    call.speculative = speculative
    made = Submitted(call)
    if call.parent is not None:
        call.parent.journal.beside.append(made)
    if spec.is_async:
        _as_task(made)
        return made
    chosen = executors.check(executor, call.store) if executor is not None else executors.threads()
    if executors.is_elsewhere(chosen) and (speculative or call.parent is None):
        what = "a speculative step" if speculative else "a step outside of a flow"
        raise UsageError(f"{what} cannot run in another process", hint="use threads, or call it inside of a flow")
    context = contextvars.copy_context()
    crew = _crew_of(chosen)
    _when_ready(_futures((args, given)), lambda: crew.add(priority, made, context))
    return made


def _futures(value: Any, depth: int = 3) -> Iterator[Submitted]:
    """The futures among arguments, also inside of lists and dicts."""
    if isinstance(value, Submitted):
        yield value
    elif depth and isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _futures(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from _futures(list(value.values()), depth)


def _filled(value: Any, depth: int = 3) -> Any:
    """The same with their results."""
    if isinstance(value, Submitted):
        return value.result()
    if depth and type(value) in (list, tuple, set):
        return type(value)(_filled(item, depth - 1) for item in value)
    if depth and type(value) is dict:
        return {key: _filled(item, depth - 1) for key, item in value.items()}
    return value


def _when_ready(needed: Iterator[Submitted], go: Callable[[], None]) -> None:
    """Call `go` once all of these are done; at once if there are none."""
    waiting = list({id(item): item for item in needed}.values())
    left = itertools.count(len(waiting) - 1, -1)
    lock = threading.Lock()

    def one_less(_: Any) -> None:
        with lock:
            last = next(left) == 0
        if last:
            go()

    for item in waiting:
        item._future.add_done_callback(one_less)
    if not waiting:
        go()


class _Crew:
    """Everything that waits for one executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._ready: list[tuple[int, int, Submitted, contextvars.Context]] = []
        self._number = itertools.count()
        self._free = executors.capacity(executor)
        self._lock = threading.Lock()
        self._broken: BrokenExecutor | None = None
        """Why it takes nothing more. Whoever is told so holds the executor's lock: asking it once more there would
        wait for ever."""

    def add(self, priority: int, made: Submitted, context: contextvars.Context) -> None:
        with self._lock:
            heapq.heappush(self._ready, (-priority, next(self._number), made, context))
        self._go_on()

    def _go_on(self) -> None:
        """Hand over as much as there is room for."""
        while True:
            with self._lock:
                if not self._ready or not self._free:
                    return
                self._free -= 1
                _, _, made, context = heapq.heappop(self._ready)
            try:
                self._start(made, context)
            except BaseException as error:
                self._over(made, error)

    def _start(self, made: Submitted, context: contextvars.Context) -> None:
        call = made._call
        try:
            call.args, call.kwargs = _filled(tuple(call.args)), _filled(dict(call.kwargs))
        except BaseException as error:
            context.run(_skip, call, error)
            raise
        if executors.is_elsewhere(self._executor):
            self._send(made, context)
            return
        work = self._executor.submit(context.run, _carried_out, made)
        work.add_done_callback(lambda done: self._over(made, done.exception(), done))

    def _send(self, made: Submitted, context: contextvars.Context) -> None:
        """To another process: looked up and begun here, carried out and completed there."""
        outcome = context.run(_begun, made._call)
        if outcome is not None:
            self._over(made, None, outcome)
            return
        try:
            if self._broken is not None:
                raise self._broken
            sent = self._executor.submit(work, packed(made._call))
        except BaseException:
            came_to_nothing(made._call)
            raise
        sent.add_done_callback(lambda done: self._came_back(made, done))

    def _came_back(self, made: Submitted, done: Future[Done]) -> None:
        try:
            outcome = received(made._call, done)
        except BaseException as error:
            if isinstance(error, BrokenExecutor):
                self._broken = error
            self._over(made, error)
        else:
            self._over(made, None, outcome)

    def _over(self, made: Submitted, error: BaseException | None, found: Any = None) -> None:
        with self._lock:
            self._free += 1
        if error is not None:
            made._future.set_exception(error)
        else:
            value = found.result() if isinstance(found, Future) else found.value
            made._future.set_result(value)
        self._go_on()


_crews: weakref.WeakKeyDictionary[Any, _Crew] = weakref.WeakKeyDictionary()
_crews_lock = threading.Lock()


def _crew_of(executor: Executor) -> _Crew:
    with _crews_lock:
        if executor not in _crews:
            _crews[executor] = _Crew(executor)
        return _crews[executor]


def _carried_out(made: Submitted) -> Any:
    call = made._call
    if not call.speculative:
        return drive(call.protocol())
    found = call.look_up()
    if found is not None:
        return found.value
    started, watch = time.perf_counter(), call.watch()
    # Its own steps are no part of the run: that it was tried is nobody's business yet.
    with inside(None), strands.running(watch.strand, strands.place()), watching(watch):
        value = call.spec.function(*call.args, **call.kwargs)
    seconds = time.perf_counter() - started

    def keep() -> None:
        call.speculative, call.is_apart = False, True
        call.begin()
        call.finish(value, seconds, watch, None)

    made._draft = keep
    return value


def _begun(call: Call) -> Outcome | None:
    """What there is already; None once it is written down that it is about to run."""
    assert call.parent is not None
    call.after = call.parent.led_to([*call.args, *call.kwargs.values()])
    return call.ready()


def received(call: Call, answer: Future[Done]) -> Outcome:
    """What a worker has made: read from the store, where it is for everybody. Raises what its body raised."""
    assert call.parent is not None
    try:
        done = answer.result()
    except BaseException as error:
        files.include(read_before(error))
        came_to_nothing(call)
        raise
    step = Step.from_json(done.step)
    call.parent.journal.ended_elsewhere(step)
    if done.checkpoint:
        values = call.store.restore(done.checkpoint)
        given_back(call.store.checkpoint(done.checkpoint), values)
        value = values[RESULT]
    else:  # what is not in the store comes straight from our own worker's hands
        value = cloudpickle.loads(done.value)
        files.include(done.files)
    call.parent.made(call.address, value)
    return Outcome(value, step, done.checkpoint)


def came_to_nothing(call: Call) -> None:
    """A worker has raised something, and has written that down; or it has died, and then we do."""
    if call.parent is None or call.ticket is None:
        return
    journal, token = call.parent.journal, call.ticket.step.token
    journal.reload(call.slot, call.address)
    call.ticket = Ticket(*journal.store.step(journal.run_id, call.address))
    if call.ticket.step.status == "running" and call.ticket.step.token == token:
        journal.end(call.ticket, "interrupted", error="the process that ran it has died")


def _skip(call: Call, error: BaseException) -> None:
    """What it needs is not there: it is not run, and that is written down."""
    from nbcheckpoint.fingerprint import explain

    if call.parent is not None:
        why = explain.simple("skipped", f"what it needs failed: {type(error).__name__}: {error}")
        call.parent.journal.skip(call.slot, call.address, call.spec.name, call.kind, why)


def _as_task(made: Submitted) -> None:
    """A coroutine function: a task of the loop that is running."""
    import asyncio

    call = made._call

    async def go() -> Any:
        for item in _futures((call.args, call.kwargs)):
            await item
        call.args, call.kwargs = _filled(tuple(call.args)), _filled(dict(call.kwargs))
        return await drive_async(call.protocol())

    try:
        task = asyncio.get_running_loop().create_task(go())
    except RuntimeError as error:
        raise UsageError(f"{call.spec.name} is async: submit it inside of an async flow") from error

    def over(done: Any) -> None:
        if done.cancelled():
            made._future.cancel()
        elif done.exception() is not None:
            made._future.set_exception(done.exception())
        else:
            made._future.set_result(done.result())

    task.add_done_callback(over)

"""How a protocol that is the same for functions and coroutine functions is carried out.

A protocol is a generator: it yields what it wants done (run the body, wait) and is sent what came of it. Everything
else it does by itself, and that may wait for the disk. So the driver for event loops lets it run in a thread between
two of its wishes, and does those itself, in the task: no loop ever waits on a disk, and the order is the same.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbcheckpoint.engine import strands
from nbcheckpoint.engine.context import Frame, inside
from nbcheckpoint.engine.strands import Place, Strand


@dataclass(frozen=True, slots=True)
class Body:
    """Run the user's function, inside of its frame."""

    function: Callable[..., Any]
    args: Sequence[Any]
    frame: Frame | None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    around: Callable[[], Any] | None = None
    """Makes a context manager that is entered around the body."""
    strand: Strand = field(default_factory=Strand)
    """Says afterwards whether others ran beside it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for so many seconds."""

    seconds: float


Protocol = Generator[Any, Any, Any]


def drive(protocol: Protocol) -> Any:
    """Carry a protocol out, here and now."""
    send: Callable[[Any], Any] = protocol.send
    value: Any = None
    while True:
        try:
            wish = send(value)
        except StopIteration as done:
            return done.value
        except RuntimeError as error:
            if isinstance(value, StopIteration) and error.__cause__ is value:
                raise value from None  # the body's own: a generator cannot let it pass
            raise
        try:
            send, value = protocol.send, _perform(wish)
        except BaseException as error:  # the user's own, also KeyboardInterrupt: the protocol decides
            send, value = protocol.throw, error


def _perform(wish: Body | Wait) -> Any:
    if isinstance(wish, Wait):
        return time.sleep(wish.seconds)
    if wish.timeout is not None:
        return _limited(wish)
    return _run(wish, strands.place())


def _run(wish: Body, called_from: Place) -> Any:
    with inside(wish.frame), strands.running(wish.strand, called_from):
        if wish.around is None:
            return wish.function(*wish.args, **wish.kwargs)
        with wish.around():
            return wish.function(*wish.args, **wish.kwargs)


def _limited(wish: Body) -> Any:
    """In a thread of its own, which cannot be stopped, only left alone: what it comes to is nobody's any more."""
    outcome: list[Any] = []
    context, here = contextvars.copy_context(), strands.place()

    def work() -> None:
        try:
            outcome.extend((True, context.run(_run, wish, here)))
        except BaseException as error:
            outcome.extend((False, error))

    thread = threading.Thread(target=work, name="nbcheckpoint-timeout", daemon=True)
    thread.start()
    thread.join(wish.timeout)
    if not outcome:
        raise TimeoutError(f"it took longer than {wish.timeout:g} s")
    if not outcome[0]:
        raise outcome[1]
    return outcome[1]


async def drive_async(protocol: Protocol) -> Any:
    """Carry a protocol out whose body is a coroutine function."""
    value: Any = None
    failed = False
    while True:
        done, wish = await asyncio.to_thread(_step, protocol, value, failed, strands.place())
        if done:
            return wish
        try:
            value, failed = await _perform_async(wish), False
        except BaseException as error:
            value, failed = error, True


def _step(protocol: Protocol, value: Any, failed: bool, task: Place) -> tuple[bool, Any]:
    """(is it over, its result or its next wish): StopIteration cannot pass through a future."""
    strands.work_for(task)
    try:
        return False, protocol.throw(value) if failed else protocol.send(value)
    except StopIteration as done:
        return True, done.value


async def _perform_async(wish: Body | Wait) -> Any:
    if isinstance(wish, Wait):
        return await asyncio.sleep(wish.seconds)
    work: Coroutine[Any, Any, Any] = _run_async(wish, strands.place())
    if wish.timeout is None:
        return await work
    started = time.monotonic()
    try:
        return await asyncio.wait_for(work, wish.timeout)
    except asyncio.TimeoutError as error:  # before Python 3.11 that is another class than TimeoutError
        if time.monotonic() - started < wish.timeout:
            raise  # the body's own
        raise TimeoutError(f"it took longer than {wish.timeout:g} s") from error


async def _run_async(wish: Body, called_from: Place) -> Any:
    with inside(wish.frame), strands.running(wish.strand, called_from):
        if wish.around is None:
            return await wish.function(*wish.args, **wish.kwargs)
        with wish.around():
            return await wish.function(*wish.args, **wish.kwargs)

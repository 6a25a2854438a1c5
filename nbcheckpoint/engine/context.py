"""Where the code that is running stands: in which run, in which step, with which store.

A frame is a place steps can be called in: the body of a flow, or of a step. Steps are told apart within it by their
name and how often that was called before: their *slot*. It does not depend on what else is called in between, so a
step that is inserted or removed leaves the others where they were. A name may be any text: what a slot is put together
with (`/`, `#`, the `[]` of a map) is written as in addresses of the web where it is part of a name, so no two places
share a slot. The frame travels with the context of the thread or task (`contextvars`).
"""

from __future__ import annotations

import atexit
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from blake3 import blake3

from nbcheckpoint.config import store_location
from nbcheckpoint.store import Store, open_store

if TYPE_CHECKING:
    from nbcheckpoint.engine.journal import Journal

_UNTOLD = (type(None), bool, type(...))


@dataclass
class Frame:
    """The body of a flow or step: where steps are called."""

    journal: Journal
    slot: str = ""
    """Of the step whose body it is; "" for the flow itself."""
    address: str = ""
    marks: dict[str, Any] = field(default_factory=dict)
    attempt: int = 1
    asked: bool = False
    """A question was asked in it, or in a step of it."""
    _counts: Counter[str] = field(default_factory=Counter)
    _made: dict[int, tuple[str, Any]] = field(default_factory=dict)
    _last: str = ""
    _gate: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_slot(self, name: str, *, kind: str = "", is_slot: bool = False) -> str:
        """The place of the next call of that name: `clean#2`, or `train#1/clean#2` below a step.

        `kind` tells a map from a call. `is_slot`: the name is that of a step's place, as of a question about it.
        """
        place = (name if is_slot else _quoted(name)) + kind
        with self._lock:
            self._counts[place] += 1
            return f"{self.slot}/{place}#{self._counts[place]}".removeprefix("/")

    def led_to(self, arguments: Any) -> list[str]:
        """The steps whose results are among these arguments; failing that, the one before."""
        found = {self._made[id(item)][0] for item in _parts(arguments) if id(item) in self._made}
        gate = {self._gate} if self._gate else set()
        return sorted(found | gate) or ([self._last] if self._last else [])

    def made(self, address: str, result: Any, *, gate: bool = False) -> None:
        """A step of this frame is done. Its result is held, so that its id is nobody else's. What comes behind a
        `gate` comes because of it."""
        with self._lock:
            self._last = address
            if gate:
                self._gate = address
            for item in _parts([result]):
                self._made[id(item)] = address, item


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F").replace("#", "%23").replace("[]", "%5B]")


def _parts(value: Any, depth: int = 2) -> Iterator[Any]:
    """The objects in which a result could be recognised: small numbers and the like are everybody's."""
    if isinstance(value, (list, tuple)) and len(value) <= 1000:
        if type(value) is not tuple or value:
            yield value
        if depth:
            for item in value:
                yield from _parts(item, depth - 1)
    elif isinstance(value, dict) and len(value) <= 1000:
        yield value
        if depth:
            for item in value.values():
                yield from _parts(item, depth - 1)
    elif not isinstance(value, _UNTOLD) and not _is_small(value):
        yield value


def _is_small(value: Any) -> bool:
    """Of its type first: an array compares itself with anything, item by item."""
    if isinstance(value, int):
        return -6 < value < 257
    return isinstance(value, (str, bytes)) and not value


_frame: ContextVar[Frame | None] = ContextVar("nbcheckpoint_frame", default=None)


def frame() -> Frame | None:
    """The frame the caller stands in; None outside of every flow and step."""
    return _frame.get()


@contextmanager
def inside(entered: Frame | None) -> Iterator[None]:
    token = _frame.set(entered)
    try:
        yield
    finally:
        _frame.reset(token)


@dataclass(frozen=True, slots=True)
class Current:
    """What a step's body may want to know about itself."""

    run: str
    step: str
    """Its address in the run."""
    attempt: int
    idempotency_key: str
    """The same for every attempt at this step of this run, also after a crash, and for no other: give it to services
    that accept one, and they act once however often they are asked."""


def current() -> Current | None:
    """The step that is running, or None.

    >>> current() is None
    True
    """
    here = _frame.get()
    if here is None:
        return None
    key = blake3(f"{here.journal.run_id} {here.slot}".encode()).hexdigest()[:32]
    return Current(here.journal.run_id, here.address, here.attempt, key)


# The store of this process

_chosen: list[Store] = []
_own: list[Store] = []
ambient: list[Callable[[], Frame]] = []
"""How to get a frame where there is no flow: a notebook has a run of its own. Filled in by whoever has one."""
asked: list[str] = []
"""Runs in which questions were asked outside of every flow, or their answers given back, in order."""


def ambient_run() -> str:
    """The run in which questions are asked outside of every flow; "" where there is none."""
    return ambient[0]().journal.run_id if ambient else ""


marks: dict[str, Any] = {}
"""What was marked where there is no step, but a cell: it stands with what that cell leaves."""


class Called(NamedTuple):
    """A flow that was called, and the run that was begun or continued by it."""

    workflow: str
    inputs: str
    """Their digest. "" stands for all calls of the flow."""
    run: str
    before: str = ""
    """The run of these that this process had worked on last; "" if on none."""
    before_any: str = ""
    """The same, with whatever inputs."""


called: list[Called] = []
"""What this process has worked on, or what it has restored instead, in order."""
_latest: dict[tuple[str, str], str] = {}


def note_call(call: Called) -> None:
    before, before_any = (_latest.get((call.workflow, inputs), "") for inputs in (call.inputs, ""))
    called.append(call._replace(before=before, before_any=before_any))
    _latest[call.workflow, call.inputs] = _latest[call.workflow, ""] = call.run


def is_latest(call: Called) -> bool:
    """Is the run of the flow with these inputs that this process has worked on last the one it was then, if any?"""
    now = _latest.get((call.workflow, call.inputs))
    return now is None or now in (call.run, call.before)


since = ""
"""What is older does not count in this process: it was begun to compute everything. See `count_from`."""


def count_from(moment: str) -> None:
    """Let nothing count that was saved before this moment; "": let everything."""
    global since
    since = moment


def use(store: Store | None) -> None:
    """Work with this store from here on; None: with the one that `open_store()` finds."""
    _chosen[:] = [store] if store is not None else []


def current_store() -> Store:
    """The store in use, opened if need be. Inside of a flow it is the flow's."""
    here = _frame.get()
    if here is not None:
        return here.journal.store
    if _chosen:
        return _chosen[0]
    location = store_location()
    for store in _own:
        if store.url == location or store.url == f"file://{location}":
            return store
    _own.append(open_store(location))
    return _own[-1]


def _close() -> None:
    while _own:
        _own.pop().close()


atexit.register(_close)

"""`nbc.loop`: the loop that goes on where it was, for use inside functions.

    def train(model, data, epochs):
        state = {"model": model, "history": []}
        for epoch in nbc.loop(range(epochs), name="train", state=state, every="30s"):
            ...

Plain loops of a cell need nothing of this. A function's variables cannot be put back from outside; so here the caller
says what the loop changes, the `state`, and that is put back in place. The rest is the same: between two iterations
the state, the random numbers and the place are saved; a loop that is begun with the same code and the same variables
goes on from there; a changed argument, helper or item begins it anew.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import Future
from typing import Any

from blake3 import blake3

from nbcheckpoint.engine import context, strands
from nbcheckpoint.engine.context import current_store, frame
from nbcheckpoint.engine.identity import obstacle, settings_now
from nbcheckpoint.engine.pace import Pace
from nbcheckpoint.engine.trail import Draws, NotMade, Trail, follow
from nbcheckpoint.engine.watching import LoopWatch
from nbcheckpoint.errors import Error, UsageError
from nbcheckpoint.fingerprint import files, rng
from nbcheckpoint.fingerprint.code import digest_code
from nbcheckpoint.fingerprint.reach import reach, reads_of
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Input, Progress
from nbcheckpoint.store import Saved
from nbcheckpoint.units import parse_age

_STATE, _START = "state", "loop:start"
_OVER: Any = object()


def loop(iterable: Iterable[Any], *, name: str, state: Any = None, every: str | float | None = None) -> ExplicitLoop:
    """Go through `iterable`, and go on where it was when the process died.

    `state` is what the loop changes: a dict, list, set, array or object, changed in place. Models and optimizers with
    `state_dict` may be values of the dict. `every`: `"30s"`, or a number of iterations; by default as often as
    costs 3 % of the time at the most. Whatever keeps it from being saved is a warning, and the loop just runs.
    """
    if not name:
        raise UsageError("nbcheckpoint.loop needs a name", hint='loop(items, name="train", state=state)')
    frame = sys._getframe(1)
    return ExplicitLoop(iterable, name, state, _parse(every), frame)


def _parse(every: str | float | None) -> float | int | None:
    if isinstance(every, str):
        return int(every) if every.isdigit() else parse_age(every)
    return every


class ExplicitLoop:
    """An iterator over what is left."""

    def __init__(
        self, iterable: Iterable[Any], name: str, state: Any, every: float | int | None, frame: types.FrameType
    ) -> None:
        self._name, self._state, self._every = name, state, every
        self._total = len(iterable) if isinstance(iterable, Sized) else 0
        self._pace = Pace()
        self._due, self._at = False, -1
        self._timer: threading.Timer | None = None
        self._done = 0
        self._trail, self._draws = Trail(), Draws()
        self._watch = LoopWatch([current_store().url.removeprefix("file://")])
        self._start = rng.states()
        self._by_chance = {name for name, state in self._start.items() if rng.is_pristine(name, state)}
        """Generators nobody had seeded when it began; in whichever process that was."""
        self._last = ""
        self._before: list[str] = []
        self._pending: Future[None] | None = None
        self._seconds = 0.0
        self._problem = ""
        try:
            self._code, self._inputs = _identify(frame, name, state)
            earlier = self._find()
        except Unidentified as problem:
            earlier = None
            self._give_up(str(problem))
        except Error as error:
            earlier = None
            self._give_up(str(error))
        self._items = self._walk(self._resumed(iterable, earlier))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._items)

    def _give_up(self, why: str) -> None:
        self._problem = why
        warnings.warn(f"loop {self._name!r} is not saved: {why}", stacklevel=4)

    # Going on

    def _find(self) -> Checkpoint | None:
        here = frame()
        since = here.journal.since if here is not None else context.since  # a fresh run begins its loops anew
        if here is not None and here.journal.is_forced():
            since = here.journal.begun
        found = current_store().find(self._code, self._inputs, limit=1)
        usable = found and found[0].progress is not None and found[0].created >= since
        # Its generators are put back: one that was seeded not under the eyes of others.
        usable = usable and (strands.is_alone() or all(item.type == rng.PRISTINE for item in found[0].random))
        return found[0] if usable and obstacle(found[0], "") is None else None

    def _resumed(self, iterable: Iterable[Any], earlier: Checkpoint | None) -> Iterator[Any]:
        """What is left of it, with the state put back."""
        if earlier is None or earlier.progress is None:
            return iter(iterable)
        try:
            loaded = current_store().restore(earlier.id)
        except Error as error:
            warnings.warn(f"loop {self._name!r} begins anew: {error}", stacklevel=4)
            return iter(iterable)
        alone = strands.is_alone()
        for name, state in loaded[_START].items() if alone else ():
            rng.restore(name, state)
        start, progress, drawing = rng.states(), earlier.progress, alone and bool(earlier.random)
        try:
            made = follow(iter(iterable), progress.done, progress.trail, drawing=drawing, left=loaded)
        except NotMade as error:
            raise error.__cause__ or error from None
        items, trail, _ = made
        if trail is None:  # other items than before, or they are drawn and the loop draws too
            for name, state in start.items() if alone else ():
                rng.restore(name, state)
            return items
        self._trail, self._done, self._last = trail, earlier.progress.done, earlier.id
        files.note_left(earlier.files, open_ended=True)
        self._watch.adopt(earlier.files)
        files.include(earlier.files)  # what it stands in has read them too
        self._seconds, self._start = earlier.seconds, {**self._start, **loaded[_START]}
        self._by_chance -= {item.name for item in earlier.random if item.type != rng.PRISTINE}
        self._by_chance |= {item.name for item in earlier.random if item.type == rng.PRISTINE}
        put_back(self._state, loaded[_STATE])
        for name, state in loaded.items():
            if alone and name.startswith(rng.PREFIX):
                rng.restore(name, state)
        return items

    def _walk(self, items: Iterator[Any]) -> Iterator[Any]:
        self._arm(0.0)
        began, saving = time.perf_counter() - self._seconds, 0.0
        files.start(self._watch)
        try:
            while True:
                self._draws.asked()
                item = next(items, _OVER)
                if item is _OVER:
                    break
                self._draws.made(item)
                self._trail.note(item)
                yield item
                self._done += 1
                if self._due or self._done == self._at:
                    started = time.perf_counter()
                    self._save(started - began - saving)
                    saving += time.perf_counter() - started
                    self._arm(time.perf_counter() - started)
            self._save(time.perf_counter() - began - saving, unfinished=False)
        finally:  # also where it is left half-way
            files.stop(self._watch)
            if self._timer is not None:
                self._timer.cancel()

    # Saving

    def _arm(self, cost: float) -> None:
        self._due = False
        if isinstance(self._every, int):
            self._at = self._done + self._every
            return
        seconds = self._every if self._every is not None else self._pace.interval(cost)
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.name, self._timer.daemon = "nbcheckpoint-loop", True
        self._timer.start()

    def _ring(self) -> None:
        self._due = True

    def _save(self, seconds: float, *, unfinished: bool = True) -> None:
        if not self._problem and self._trail.problem:
            self._give_up(self._trail.problem)
        if not self._problem and strands.is_alone() and self._draws.by_both():
            self._give_up("what it goes through draws random numbers, and so does the loop")
        if self._problem:
            return
        progress = Progress(done=self._done, total=self._total, trail=self._trail.digest)
        seen, moved = self._watch.seen(unfinished=unfinished), self._random()
        files.note_left(seen, open_ended=True)  # a traceback may hold it, so that it is not told of its end
        draft = Checkpoint(
            id="",
            created="",
            run="",
            step="",
            name=self._name,
            code=self._code,
            inputs_digest=self._inputs,
            seconds=seconds,
            progress=progress,
            random=tuple(self._drawn(name, state) for name, state in moved[_START].items()),
            files=seen,
            folder=os.getcwd() if seen else "",
            settings=settings_now(),
            meta={"workflow": "nbcheckpoint.loop", "cell": self._name},
        )
        try:
            saved = current_store().save(draft, {_STATE: take(self._state), **moved}, wait=False)
            if saved.checkpoint.not_saved:
                item = saved.checkpoint.not_saved[0]
                self._give_up(f"{item.name} ({item.type}{' at ' + item.path if item.path else ''}: {item.why})")
            else:
                self._supersede(saved)
        except Error as error:
            self._give_up(str(error))

    def _random(self) -> dict[str, Any]:
        """Generators it has drawn from, as they were at its beginning and as they are. Others are not its matter."""
        now = rng.states()
        still = {name for name, state in self._start.items() if rng.digest(state) == rng.digest(now[name])}
        start = {name: state for name, state in self._start.items() if name not in still}
        return {_START: start, **{name: state for name, state in now.items() if name not in still}}

    def _drawn(self, name: str, start: Any) -> Input:
        kind = rng.PRISTINE if name in self._by_chance else "seeded"
        return Input(name=name, digest=rng.digest(start), type=kind)

    def _supersede(self, saved: Saved) -> None:
        """The one before is kept until this one is certain to be there."""
        if self._pending is not None and self._pending.done() and self._pending.exception() is None:
            for id in self._before:
                current_store().delete_checkpoint(id)
            self._before = []
        self._before += [self._last] if self._last else []
        self._last, self._pending = saved.checkpoint.id, saved.done


def _identify(frame: types.FrameType, name: str, state: Any) -> tuple[str, str]:
    """(code, inputs): the function the loop stands in, and every variable it has or reads. Raises Unidentified."""
    code, variables = frame.f_code, dict(reach(reads_of(frame.f_code, frame.f_globals)))
    if frame.f_locals is not frame.f_globals:
        variables |= {f"local {key}": value for key, value in frame.f_locals.items()}
    variables["the state"] = state
    digester = Digester()
    found = [f"{label}={digester.digest(label, value)}" for label, value in sorted(variables.items())]
    key = blake3(f"loop {name} {digest_code(code)}".encode()).hexdigest()
    return key, blake3("\n".join(found).encode()).hexdigest()


def take(state: Any) -> Any:
    """What is saved of the state: of models and optimizers what they say themselves."""
    if type(state) is dict:
        return {key: _Said(value.state_dict()) if _says(value) else value for key, value in state.items()}
    return _Said(state.state_dict()) if _says(state) else state


class _Said:
    """What an object with `state_dict` and `load_state_dict` says its state is."""

    def __init__(self, state: Any) -> None:
        self.state = state


def _says(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def put_back(state: Any, saved: Any) -> None:
    """Make the live state what the saved one was, without making it another object."""
    if isinstance(saved, _Said):
        state.load_state_dict(saved.state)
    elif isinstance(state, dict):
        for key, value in saved.items():
            if isinstance(value, _Said):
                state[key].load_state_dict(value.state)
        kept = {key: state[key] if isinstance(value, _Said) else value for key, value in saved.items()}
        state.clear()
        state.update(kept)
    elif isinstance(state, list):
        state[:] = saved
    elif isinstance(state, set):
        state.clear()
        state.update(saved)
    elif hasattr(state, "__array_interface__"):
        state[...] = saved
    elif hasattr(state, "__dict__"):
        vars(state).clear()
        vars(state).update(vars(saved))
    elif state is not None:
        raise UsageError(f"a {type(state).__name__} cannot be put back in place", hint="keep it in a dict")

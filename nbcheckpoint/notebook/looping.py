"""The hooks a woven loop calls: it is about to begin, or is between two iterations (`loops.py` says what a loop is)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from nbcheckpoint import bars
from nbcheckpoint.codec import frames
from nbcheckpoint.engine.identity import is_missed
from nbcheckpoint.engine.loop import ExplicitLoop
from nbcheckpoint.engine.pace import TOLD_AFTER_SECONDS, TOLD_EVERY_SECONDS, price, seconds_left
from nbcheckpoint.engine.trail import NotMade, advance, both_drawn, iterator_of, moved_since
from nbcheckpoint.errors import Error
from nbcheckpoint.fingerprint import explain, files, rng, settings
from nbcheckpoint.model import Checkpoint, Progress
from nbcheckpoint.notebook import around, conditions, leaves, line
from nbcheckpoint.notebook.cell import INTERRUPT, Cell, hint, likely_objects, quick_size
from nbcheckpoint.notebook.hooks import Hooks
from nbcheckpoint.notebook.items import raising, unwrap_bar
from nbcheckpoint.notebook.leaves import Running
from nbcheckpoint.notebook.loop import ITERATOR, NEEDED, Loop
from nbcheckpoint.notebook.loops import Loops
from nbcheckpoint.notebook.outputs import beyond, replay

OTHER = "the file it writes is not as it had left it"


class _BeginsAnew(Exception):
    """It cannot go on, and what it goes through is to be made once more."""


class Before:
    """Names, options and random state as they are now."""

    def __init__(self, shell: Any) -> None:
        self._names, self._history = dict(shell.user_ns), dict(shell.user_ns.get("Out") or {})
        self._settings = settings.states()
        self.random = rng.states()

    def put_back(self, shell: Any) -> None:
        names, history = shell.user_ns, shell.user_ns.get("Out")
        for name in names.keys() - self._names.keys():
            del names[name]
        names.update(self._names)
        if isinstance(history, dict):
            history.update(self._history)
        for name, options in settings.moved(settings.states(), self._settings).items():
            settings.restore(name, options)
        for name, state in self.random.items():
            rng.restore(name, state)


class LoopHooks(Hooks):
    """The part of a cell's hooks that loops need."""

    def within(self, number: int, manager: Any) -> Any:
        """A `with` around a loop is about to be entered with this."""
        loops_ = self._loops(number)
        if loops_ is not None:
            loops_.within(manager)
        return manager

    def opener(self, number: int, name: str, function: Any) -> Any:
        """What is to be called instead of that, by a `with` around a loop that binds this name."""
        loops_ = self._loops(number)
        return function if loops_ is None else loops_.opener(name, function, lambda: self._opens_other(loops_))

    def _opens_other(self, loops_: Loops) -> None:
        """It cannot go on with what is there."""
        running = self._cell.running
        if running is not None:
            running.reason = explain.simple("input", OTHER)
        loops_.forget()

    def starts(self, number: int, which: int) -> bool:
        """Does it begin with what it goes through? Not if it goes on: with the iterator that was saved, or behind the
        items that are done."""
        try:
            loops_ = self._loops(number)
            if loops_ is None or not loops_[which].is_watched:
                return True
            loop = loops_[which]
            progress = loops_.resumes(loop) or loops_.reenters(loop)
            if progress is None:
                loop.start = rng.states()
                return True
            if progress.by == "position":
                return not self._has_gone_on(loops_, loop, lambda: self._as_it_began(loops_, loop))
            if self._has_gone_on(loops_, loop, lambda: self._take_iterator(loops_, loop)):
                return False
            loop.rest = self._go_on_roughly(loops_, loop, iter(())) if loop.is_inner else None
            return loop.rest is None
        except KeyboardInterrupt:
            return INTERRUPT  # type: ignore[no-any-return]  # here and below: something that raises in the user's line

    def remakes(self, number: int, which: int) -> bool:
        """It goes on. Is what it goes through to be made again for that?"""
        loops_ = self._loops(number)
        return loops_ is not None and loops_[which].rest is None

    def skips(self, number: int, which: int, iterable: Iterable[Any]) -> bool:
        """Does it go on behind the items that are done? If not, what it goes through is made once more."""
        loops_ = self._loops(number)
        assert loops_ is not None  # or it would have started
        loop = loops_[which]
        try:
            return self._has_gone_on(loops_, loop, lambda: self._skip(loops_, loop, iterable))
        except NotMade as error:
            return raising(error.__cause__ or error)  # type: ignore[no-any-return]
        except KeyboardInterrupt:
            return INTERRUPT  # type: ignore[no-any-return]

    def rest(self, number: int, which: int) -> Iterable[Any]:
        """What the loop still has to go through."""
        loops_ = self._loops(number)
        assert loops_ is not None
        rest, loops_[which].rest = loops_[which].rest, None
        assert rest is not None
        return rest

    def items(self, number: int, which: int, iterable: Iterable[Any]) -> Iterable[Any]:
        """What the loop goes through, from its beginning."""
        try:
            loops_ = self._loops(number)
            if loops_ is None or issubclass(type(iterable), ExplicitLoop) or not loops_[which].is_watched:
                return iterable
            bar, inside = unwrap_bar(iterable)
            if not _is_iterable(inside):
                return iterable  # the loop says so itself
            made = iter(inside)
            items = self._walk(loops_, loops_[which], made, inside, in_bar=bar is not None)
            return bars.wrap(bar, items, loops_[which].done) if bar is not None else items
        except BaseException as error:
            return raising(error)  # type: ignore[no-any-return]

    def _walk(
        self, loops_: Loops, loop: Loop, made: Iterator[Any], inside: Iterable[Any], *, in_bar: bool
    ) -> Iterator[Any]:
        if loop.is_inner and (loops_.resumes(loop) or loops_.reenters(loop)):
            return self._go_on_roughly(loops_, loop, made)
        try:
            loop.begin(made, inside, self.shell.user_ns, in_bar=in_bar)
            self._begin(loops_, loop)
            return loop.walk(lambda: self._between(loops_, loop), self._fault)
        except Exception as error:
            self._fault(error)
            loops_.forget()
            loop.stop()
            return made

    def turn(self, number: int, which: int) -> bool:
        """Between two iterations of a `while`. True: its condition was asked before, it goes on inside of it."""
        try:
            running = self._cell.running
            loops_ = running.loops if running is not None and running.number == number else None
            if loops_ is None:
                return False
            loop = loops_[which]
            if loop.is_inner and not loop.is_watched:
                return False
            if not loop.begun:
                loop.begun = True
                return self._begin_while(loops_, loop)
            loop.done += 1
            if loop.rung or loop.done == loop.at or (loop.inner and loop.is_deep):
                loop.turned()
                if loop.rung or loop.done == loop.at:
                    loop.rung = False
                    if self._between(loops_, loop):
                        return INTERRUPT  # type: ignore[no-any-return]
        except KeyboardInterrupt:
            return INTERRUPT  # type: ignore[no-any-return]
        except NotMade as error:
            return raising(error.__cause__ or error)  # type: ignore[no-any-return]
        except Exception as error:
            self._fault(error)
        return False

    def _begin_while(self, loops_: Loops, loop: Loop) -> bool:
        """Does it go on in the middle of an iteration?"""
        around = loops_.reenters(loop)
        if around is None and loops_.resumes(loop) is None:
            try:
                self._begin(loops_, loop)
            except Exception as error:
                self._fault(error)
                loop.stop()
        elif not self._has_gone_on(loops_, loop, lambda: self._go_on_while(loops_, loop)):
            if not loop.is_inner:
                return False
            try:
                self._go_on_roughly(loops_, loop, iter(()))
            except Exception as error:  # the body must not go on with what it does not have
                return raising(error)  # type: ignore[no-any-return]
        return around is not None

    def anew(self, number: int, which: int) -> None:
        """A `while` inside of a loop is about to begin, once more."""
        loops_ = self._loops(number)
        if loops_ is not None:
            loops_[which].begun, loops_[which].done = False, 0

    def passes(self, number: int, first: int, end: int) -> bool:
        """Are statements to be run that stand before loops with these numbers? Not if one of those is to go on."""
        loops_ = self._loops(number)
        progress = loops_.resume.progress if loops_ is not None and loops_.resume is not None else None
        return progress is None or not first <= progress.loop < end

    def _loops(self, number: int) -> Loops | None:
        running = self._cell.running
        return running.loops if running is not None and running.number == number else None

    def _begin(self, loops_: Loops, loop: Loop) -> None:
        running = self._cell.running
        assert running is not None
        loops_.current = loop
        loop.start = {**(loop.start or rng.states()), **loops_.drawn_from(loop)}
        loop.dive()
        if loop.is_inner:
            return loop.begin_inner()
        loops_.note_entered(self.shell.user_ns)
        values = running.identity.values.values()
        loop.arm(self.pace.cost(sum(map(quick_size, values)), sum(map(likely_objects, values))))
        if self._is_watched(self._cell):
            loop.tell_in(TOLD_AFTER_SECONDS)
        return None

    # Going on

    def _has_gone_on(self, loops_: Loops, loop: Loop, work: Callable[[], None]) -> bool:
        """Do what it takes to go on with a loop. False: that failed, and all is as it was before it.

        Then the loop begins anew. One inside of others does not, because what stands before it has been passed by.
        """
        loops_.before = before = loops_.before or Before(self.shell)
        outputs = loops_.outputs
        try:
            work()
            if loops_.resumed is not None:  # last of all: it cannot be taken back
                self._show_again(outputs)
            return True
        except Exception as error:
            if isinstance(error, NotMade):
                before.put_back(self.shell)
                raise
            if not isinstance(error, _BeginsAnew):
                self._fault(error)
            if not loop.is_inner:
                before.put_back(self.shell)
                loops_.begin_anew(loop, before.random)
            return False
        except BaseException:
            before.put_back(self.shell)
            raise

    def _as_it_began(self, loops_: Loops, loop: Loop) -> None:
        for name, state in loops_.drawn_from(loop).items():
            rng.restore(name, state)  # as it was when its items were first made

    def _take_iterator(self, loops_: Loops, loop: Loop) -> None:
        """Go on with the iterator that was saved."""
        around, progress = loops_.reenters(loop), loops_.resumes(loop)
        if around is not None:
            loop.take_iterator(*loops_.saved_around(loop, around))
            self._begin(loops_, loop)
        else:
            assert progress is not None
            loop.take_iterator(loops_.loaded[ITERATOR], progress)
            self._begin(loops_, loop)
            self._bind_progress(loops_, loop)
        loop.rest = loop.walk(lambda: self._between(loops_, loop), self._fault)

    def _go_on_while(self, loops_: Loops, loop: Loop) -> None:
        self._begin(loops_, loop)
        around = loops_.reenters(loop)
        if around is not None:
            loop.done = around.done
        else:
            self._bind_progress(loops_, loop)

    def _skip(self, loops_: Loops, loop: Loop, iterable: Iterable[Any]) -> None:
        """Go behind the items that are done."""
        bar, inside = unwrap_bar(iterable)
        if not _is_iterable(inside):
            raise _BeginsAnew  # the loop says so itself
        loop.begin(iterator_of(inside), inside, self.shell.user_ns, in_bar=bar is not None)
        self._begin(loops_, loop)
        around, progress = loops_.reenters(loop), loops_.resumes(loop)
        if around is not None:
            loop.reenter(around)
        else:
            assert progress is not None
            self._skip_done(loops_, loop, progress)
        items = loop.walk(lambda: self._between(loops_, loop), self._fault)
        loop.rest = bars.wrap(bar, items, loop.done) if bar is not None else items

    def _skip_done(self, loops_: Loops, loop: Loop, progress: Progress) -> None:
        """Skip what is done, and bind what it had left; or begin anew and say why.

        Where items that were made draw random numbers, or show something, they cannot be given again: what it goes
        through is made once more. Not where making it changes what it is made of; then nothing is skipped at all.
        """
        running, checkpoint = self._cell.running, loops_.resume
        assert running is not None
        assert checkpoint is not None
        drawing = bool(checkpoint.random) and loop.may_draw
        once = drawing and any(leaves.changed_inputs(running, self.shell.user_ns))
        started = rng.states()
        why = "making what it goes through draws random numbers, and changes what it is made of"
        kept: list[Callable[[], object]] = []
        if not once:
            why = "what it goes through comes in another order than before"
            same, kept = self._skipped(running, loop, progress, drawing=drawing)
            made = rng.states()
            drawn = moved_since(started, made)
            both = both_drawn(started, made, loops_.loaded if progress.trail else {})
            if same and not both:
                return self._bind_progress(loops_, loop)
            why = "what it goes through draws random numbers, and so does the loop" if both else why
            if drawn:
                self.session.forget(checkpoint)  # whatever comes of it: it is of no use to anybody
            once = not drawn and (not kept or any(leaves.changed_inputs(running, self.shell.user_ns)))
        running.reason = explain.simple("input", why)
        if not once:
            raise _BeginsAnew
        for name, state in started.items():
            rng.restore(name, state)
        loops_.begin_anew(loop, loop.start)
        for show in kept:
            show()
        return None

    def _skipped(
        self, running: Running, loop: Loop, progress: Progress, *, drawing: bool
    ) -> tuple[bool, list[Callable[[], object]]]:
        """Were they what they had been? And what they have shown: that is part of what is shown again anyhow."""
        kept: list[Callable[[], object]] = []
        try:
            with running.recorder.keeping_back(kept):
                return loop.skip(progress, drawing=drawing), kept
        except NotMade:
            for show in kept:
                show()
            raise

    def _bind_progress(self, loops_: Loops, loop: Loop) -> None:
        checkpoint, running = loops_.resume, self._cell.running
        assert checkpoint is not None
        if not loops_.opens_again(self.shell.user_ns):
            if running is not None:
                running.reason = explain.simple("input", "the `with` around it has opened something else")
            raise _BeginsAnew
        self._bind_state(loops_, loop, checkpoint)
        if running is not None:
            # It is the same work now, under the inputs it began with: in the kernel it was cut in they have changed.
            running.identity = running.identity._replace(inputs=checkpoint.inputs, digest=checkpoint.inputs_digest)
            running.watch.adopt(checkpoint.files)
            conditions.adopt_calls(checkpoint)
        loops_.gone_on(loop)
        if loop.is_inner:
            loop.begin_inner()
        elif loop.at >= 0:
            loop.arm(0.0)  # it counts from where it is

    def _bind_state(self, loops_: Loops, loop: Loop, checkpoint: Checkpoint) -> None:
        progress = checkpoint.progress
        assert progress is not None
        live: dict[str, Any] = {}
        for one, its in zip(loop.chain, (*progress.around, progress), strict=True):
            held = its.at_hand if its.by == "position" else ()
            live |= {name: part for name, part in one.parts().items() if name in held and loops_.is_as_left(name, part)}
        for name in conditions.not_there(checkpoint):  # the loops around it have bound theirs on the way here
            self.shell.user_ns.pop(name, None)
        running = self._cell.running
        self._bind(checkpoint, {**loops_.loaded, **live}, running.own.writes if running is not None else ())

    def _show_again(self, outputs: list[dict[str, Any]]) -> None:
        running = self._cell.running
        try:
            # What stands before the loop in its `if` or `with` has run once more, and has shown the first of it.
            replay(self.shell, beyond(outputs, running.recorder.so_far() if running is not None else []))
        except Exception as error:  # what it has computed counts
            self._fault(error)

    def _go_on_roughly(self, loops_: Loops, loop: Loop, made: Iterator[Any]) -> Iterator[Any]:
        """A fault of ours inside of another loop, whose body has been passed by as far as here, so that it cannot begin
        anew: it goes on, by as little as that takes, and nothing of it is saved any more."""
        running, checkpoint = self._cell.running, loops_.resume
        assert running is not None
        assert checkpoint is not None
        running.problem = "a fault of nbcheckpoint"
        around, progress = loops_.reenters(loop), loops_.resumes(loop)
        if around is not None:
            loop.begun, loop.done = True, around.done
            self.deep.add(loop.key)
            if around.by != "iterator":
                return advance(made, around.done)  # type: ignore[no-any-return]  # an iterator
            iterator, _, item = loops_.saved_around(loop, around)
            return itertools.chain([item], iterator)
        assert progress is not None
        items = loops_.loaded[ITERATOR] if progress.by == "iterator" else loop.pass_by(made, progress)
        outputs = loops_.outputs
        if not loops_.opens_again(self.shell.user_ns):
            raise RuntimeError(OTHER)  # on no account with a file that stands elsewhere
        self._bind_state(loops_, loop, checkpoint)
        loops_.files.have_gone_on()
        loops_.forget()
        self._show_again(outputs)
        return items

    # Between two iterations

    def _between(self, loops_: Loops, loop: Loop) -> bool:
        """It is time. Is it to be interrupted, in the user's line?"""
        try:
            self._boundary(loops_, loop)
        except KeyboardInterrupt:
            return True
        except NotMade:
            raise
        except Exception as error:
            self._fault(error)
            loop.stop()
        return False

    def _fault(self, error: Exception) -> None:
        self._cell.note = f"not saved, a fault of nbcheckpoint: {type(error).__name__}: {error}"

    def _boundary(self, loops_: Loops, loop: Loop) -> None:
        """Between two iterations, and it is time: save how far it has come. Raises only what it is asked to."""
        cell = self._cell
        running = cell.running
        if running is None or running.loops is not loops_:
            return loop.stop()  # a generator somebody kept
        if loop.to_tell:
            self._tell(cell, running, loops_, loop)
        if not loop.to_save:
            return None
        if loops_.is_saving and cell.chosen is not None and cell.chosen.every is None:
            return loop.chain[0].arm_soon()  # the disk is slow: rather a little later than wait for it
        started, busy = time.perf_counter(), time.thread_time()
        loops_.current, stopped = loop, False
        try:
            with self._patience.limited(), files.unnoticed():
                problem = running.problem or self._save_progress(cell, running, loops_, loop)
        except Error as error:
            problem = f"{error}{hint(error)}"
        except NotMade:  # what the user has written could not be: that is the user's matter
            raise
        except Exception as error:
            problem = f"a fault of nbcheckpoint: {type(error).__name__}: {error}"
        except KeyboardInterrupt:  # raised anew below: where we were is of no use to anybody
            problem, stopped = "", True
        waited, worked = time.perf_counter() - started, time.thread_time() - busy
        loops_.saving_seconds += waited
        if cell.asked or stopped:
            running.interrupted = True
            raise KeyboardInterrupt
        if loop.is_inner and problem:
            loops_.inner_problem = problem
            return loop.stay_outside()  # the next opportunity is between two iterations around it
        loops_.problem = problem
        return loop.give_up() if problem else loop.saved_in(price(waited, worked))

    def _save_progress(self, cell: Cell, running: Running, loops_: Loops, loop: Loop) -> str:
        problem = leaves.obstacle(running, around.look())
        if problem:
            return problem
        seconds = _worked(running, loops_)
        draft = leaves.draft(running, self.shell.user_ns, self._place(cell, running), seconds)
        if draft.checkpoint is None:
            return draft.problem
        counted = {**draft.checkpoint.meta, **loops_.counted}
        unfinished = replace(draft.checkpoint, progress=loop.progress(self.shell.user_ns), meta=counted)
        assert cell.chosen is not None
        outputs = [] if cell.chosen.no_output else running.recorder.so_far()
        store = self.session.store
        with frames.beside(running.counts):
            result = store.save(
                unfinished, {**draft.values, **loop.extra(), **loops_.opened}, outputs=outputs, wait=False
            )
        saved = result.checkpoint
        lost = [item for item in saved.not_saved if is_missed(item.name) or item.name.startswith(NEEDED)]
        if lost:
            store.flush()
            store.delete_checkpoint(saved.id)
            named = (item if ":" not in item.name else replace(item, name="what it goes through") for item in lost)
            return "; ".join(map(line.not_saved, named))
        loops_.saved_one(result, self.session.forget)
        if cell.step is not None:
            top, *inner = loop.chain
            left = seconds_left(top.done, top.total, seconds, loops_.earlier_seconds)
            inside = [(one.done, one.total) for one in inner]
            self.session.note_progress(cell.step, top.done, top.total, seconds, left, inside)
        return ""

    # Telling

    def _is_watched(self, cell: Cell) -> bool:
        """Does somebody see the line while it runs? A terminal would show a new one each time."""
        quiet = cell.chosen is None or cell.chosen.quiet
        return not quiet and hasattr(self.shell, "kernel") and self.session.on_progress is None

    def _tell(self, cell: Cell, running: Running, loops_: Loops, loop: Loop) -> None:
        """Say how far it is, unless it says so itself. Never raises: it is not worth the loop."""
        loop.tell_in(TOLD_EVERY_SECONDS)
        if running.recorder.has_recorded and not cell.shown:
            return
        seconds = _worked(running, loops_)
        left = seconds_left(loop.done, loop.total, seconds, loops_.earlier_seconds)
        try:
            with running.recorder.unrecorded():
                cell.shown = line.show_progress(
                    self.shell, loop.done, loop.total, left, problem=_why_not(running, loops_), display=cell.shown
                )
        except Exception:  # whatever is in the place of the front end
            loop.to_tell = False


def _is_iterable(thing: Any) -> bool:
    return hasattr(type(thing), "__iter__") or hasattr(type(thing), "__getitem__")


def _why_not(running: Running, loops_: Loops) -> str:
    """Why how far it has come is not being saved, if it is not. What to do about it says more than what went wrong."""
    return running.reason.text if loops_.problem and running.reason.code == "unidentified" else loops_.problem


def _worked(running: Running, loops_: Loops) -> float:
    """Seconds of the loop's own work so far, here and before."""
    return loops_.before_seconds + time.perf_counter() - running.started - loops_.saving_seconds

"""One loop on its way: where it is, when it is to be saved next, and how to go on with it.

What it is all about is told in `loops.py`.
"""

from __future__ import annotations

import ast
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from nbcheckpoint import tensors
from nbcheckpoint.engine import alarm
from nbcheckpoint.engine.pace import Pace
from nbcheckpoint.engine.trail import PLAIN, TOUCHED, Draws, NotMade, Trail, advance, asked, follow, made
from nbcheckpoint.fingerprint.code import bound_by_target
from nbcheckpoint.model import Progress
from nbcheckpoint.notebook import sharing
from nbcheckpoint.notebook.items import (
    MADE_BEFORE,
    entered_with,
    holds,
    is_ordered,
    length_of,
    makes_iterator,
    names_of,
    parts_of,
    raising,
    read_by,
    sources,
)
from nbcheckpoint.notebook.reentered import gives_a_file
from nbcheckpoint.notebook.rows import are_new, at_rest
from nbcheckpoint.notebook.stretch import NOTHING, UNKNOWN, Items, Numbers, Stretch

ITERATOR = "loop:iterator"
START = "loop:start"
ITEM = "loop:item"
NEEDED = (ITERATOR, ITEM)
"""Under these the iterator and the random state at the loop's beginning are kept, and the item a loop around it is at.
For those around it their number is added. No variable can be called that."""

_STRETCH = 1 << 14
_SOON_SECONDS = 0.2
_DEEP_SHARE = 0.5
"""Of the least time that is worth saving: an iteration that takes longer is saved in its middle too."""


class Loop:
    """One loop on its way: where it is, when it is to be saved next, and how to go on with it."""

    inner_every: int | None = None
    """Iterations of a loop inside of another after which it is saved; None: when the outermost is to be."""

    def __init__(
        self,
        number: int,
        node: ast.For | ast.While,
        user_ns: dict[str, Any],
        inside: Collection[str],
        pace: Pace,
        every: float | int | None,
    ) -> None:
        """`inside`: names bound by the statement around it. `every`: seconds as a float, iterations as an int."""
        self.number = number
        self.chain: tuple[Loop, ...] = (self,)
        """The loops around it, the outermost first, and itself."""
        self.is_inner = False
        """Is it inside of another loop?"""
        self.inner: list[Loop] = []
        """The loops inside of it."""
        self.heads: dict[ast.expr, list[Any]] = {}
        """Of the `with`s between it and the loop around it, and what they would have been entered with at first."""
        self._deep: set[int] = set()
        self.key = -1
        self._shallow = isinstance(every, int) and self.inner_every is None
        """Are the loops inside of it never to be watched?"""
        self._judged = False
        self._turned = 0.0
        """When the iteration it is in began, if anybody wants to know."""
        self._rang = 0.0
        """When it was found to be time to save, if that was in this iteration."""
        self._made_of = names_of(node)
        target = node.target if isinstance(node, ast.For) and is_ordered(node.iter, user_ns, inside) else None
        self._ordered = target is not None
        """Is the order of its items certain?"""
        self._target = node.target if isinstance(node, ast.For) else None
        self._once = any(tensors.is_loader(user_ns.get(name)) for name in names_of(node))
        """May an item made again be another one? The order of a data loader is certain, what it draws there is not."""
        self._last: Any = UNKNOWN
        """The item it had come to when it was saved, until it has gone on."""
        self.items_at_hand = bound_by_target(target) if target is not None and not self._once else set()
        """Names of the item it is at, which comes from where the next one does: if that is all it shares with other
        variables, they need not be saved with it."""
        self._pace = pace
        self._every = every
        self._bell: alarm.Call | None = None
        self._watch: alarm.Call | None = None
        self.rung = False
        """Is there anything at all to be done before the next item?"""
        self.to_tell = False
        """Is somebody to be told how far it is?"""
        self.at = -1
        """Save when so many iterations are done; -1: by the clock."""
        self.begun = False
        self.due = False
        self.open = False
        """Has it begun, and not come to its end yet?"""
        self.is_over = False
        """Has it come to the end of its items?"""
        self.left_in = 0
        """The turn it was left in, by a `break`, counted from one."""
        self.done = 0
        self.total = 0
        self.start: dict[str, Any] = {}
        """The random state before it began."""
        self._iterator: Any = None
        self.kept_with: set[str] = set()
        """Names at hand of it, or of loops inside of it, whose values are saved with others that share them."""
        self._is_new = False
        """Had none of what it is made of given anything when the loop began?"""
        self._is_own = False
        """Has nobody else that iterator?"""
        self._is_numbers = False
        """Was it made of a range, here?"""
        self._node = node
        self._stretch: Stretch = NOTHING
        """The items being given out."""
        self._trail: Trail | None = None
        self._draws: Draws | None = None
        """Who draws random numbers, where making an item may."""
        self._as_made = False
        """Are its items as they were made by whoever may hold them, all of them?"""
        self._by = "condition"
        self._given = False
        """Is the iterator one that was saved?"""
        self._insists = False
        """Is it to be saved with the iterator of another loop?"""
        self.rest: Iterable[Any] | None = None
        """What it still has to go through, once that is known and until it does."""
        self._again: list[Any] = []
        """The item to begin with, if it is not what the iterator gives next."""

    # Where it is

    @property
    def is_watched(self) -> bool:
        """Is it to be saved between its iterations, this time? One inside of others only where theirs take long."""
        return all(loop.is_deep for loop in self.chain[:-1])

    @property
    def is_deep(self) -> bool:
        """Are the loops inside of it watched?"""
        return self.key in self._deep

    @property
    def body_reads(self) -> set[str]:
        """Names that what is done in the outermost one mentions, other than what it goes through."""
        node = self.chain[0]._node
        asked = [] if isinstance(node, ast.For) else [node.test]
        parts = (part for whole in (*asked, *node.body) for part in ast.walk(whole))
        return {part.id for part in parts if isinstance(part, ast.Name)}

    @property
    def may_draw(self) -> bool:
        """May making its items draw random numbers?"""
        return self._draws is not None

    def progress(self, user_ns: dict[str, Any]) -> Progress:
        """How far it has come, and those around it."""
        return replace(self._where(user_ns), around=tuple(loop._where(user_ns) for loop in self.chain[:-1]))

    def _where(self, user_ns: dict[str, Any]) -> Progress:
        trail = self._trail.digest if self._trail is not None and self._by == "position" else ""
        trail += TOUCHED if trail and not self._as_made else ""
        by: Any = self._by
        held = tuple(sorted(self._bound(user_ns) - self.chain[0].kept_with)) if not self._once else ()
        return Progress(done=self.done, total=self.total, trail=trail, by=by, loop=self.number, at_hand=held)

    @property
    def _item(self) -> Any:
        """The item it is at."""
        return self._stretch.last if self._stretch.given else self._last

    def parts(self) -> dict[str, Any]:
        """Name -> what it was bound to by the item it is at, where that is plain to see."""
        item = self._item
        return parts_of(self._target, item) if item is not UNKNOWN else {}

    def held(self, user_ns: dict[str, Any]) -> set[str]:
        """Those of the names at hand that are still bound to the item, or to a part of it, itself."""
        bound = self._bound(user_ns)
        return bound if self._as_made else bound & self.items_at_hand

    def _bound(self, user_ns: dict[str, Any]) -> set[str]:
        """Names that are bound to the item it is at, or to a part of it."""
        return {n for n, part in self.parts().items() if user_ns.get(n, self) is part}

    def all_held(self, user_ns: dict[str, Any]) -> set[str]:
        """Those of all loops around it too. The first to be asked between two iterations."""
        for loop in self.chain:
            if loop._trail is not None and loop._draws is not None:
                loop._trail.look(loop._holds)
                loop._as_made = not (loop._trail.touched or loop._trail.problem)
        return set().union(*(loop.held(user_ns) for loop in self.chain))

    def extra(self) -> dict[str, Any]:
        """What is saved with the variables."""
        more: dict[str, Any] = {START: self.start}
        if self._by == "iterator":
            more[ITERATOR] = self._at_rest()
        for loop in self.chain[:-1]:
            more[of_loop(START, loop)] = loop.start
            if loop._by == "iterator":
                more |= {of_loop(ITERATOR, loop): loop._at_rest(more=1), of_loop(ITEM, loop): loop._item}
        return more

    def _at_rest(self, more: int = 0) -> Any:
        """What its iterator has yet to give behind the items that are done, and so many more."""
        return at_rest(self._iterator, self.done + more if self._is_new else None)

    def take_along(
        self, together: set[str], user_ns: dict[str, Any], lookers_on: Sequence[dict[Any, Any]] = ()
    ) -> tuple[set[str], str]:
        """Which variables go with the iterators as well, and why it cannot be gone on with, if so."""
        for loop in self.chain:
            loop._insists = False
            if loop._target is not None and loop is not self and _sets_inside(loop._target):
                return together, f"`for {ast.unparse(loop._target)} in …` around it would undo what came after"
            for head, at_first in loop.heads.items():
                now = entered_with(head, user_ns)
                if not now or list(map(id, now)) != list(map(id, at_first)):
                    return together, f"`with {ast.unparse(head)}` may not be the same when it is entered again"
        while True:
            before, insisting = together, [loop._insists for loop in self.chain]
            for loop in self.chain:
                together, problem = loop._take_along(together, user_ns, self, lookers_on)
                if problem:
                    return together, problem
            if self.is_inner and any(loop._by == "iterator" for loop in self.chain):
                for loop in self.chain:  # what one holds may be part of another's item: all of it in one pickle
                    loop._insists = type(loop._item) not in PLAIN
            if together == before and insisting == [loop._insists for loop in self.chain]:
                return together, ""

    def _take_along(
        self, together: set[str], user_ns: dict[str, Any], saved: Loop, lookers_on: Sequence[dict[Any, Any]]
    ) -> tuple[set[str], str]:
        if self._iterator is None:
            return together, ""
        roots = sources(self._iterator)
        own = self._is_own and roots == [self._iterator]
        related = sharing.sharing((), user_ns, roots=roots, private=own, lookers_on=lookers_on)
        if related is None:
            return together, "too many objects to tell which variables share them"
        uncertain = self.is_inner and (not self._ordered or bool(self._made_of & together))
        apart = self._bound(user_ns) if self._once else self.held(user_ns)
        draws = self._draws is not None and bool(self._draws.by_both())
        if self._given or self._insists or uncertain or draws or related & together - apart:
            self._by = "iterator"
            # The item it is at is no longer at hand, but in the pickle: so is whoever has it, or a part of it.
            more = sharing.closed(together | related | self._bound(user_ns), user_ns, lookers_on)
            return more or together, "" if more is not None else "too many objects to tell which variables share them"
        reads = read_by(self._iterator) & together
        if reads:
            return together, f"what it goes through reads {', '.join(sorted(reads))}, which it changes"
        if self._trail is not None and self is not saved:
            return together, "what goes on around it comes in no certain order"
        if self._trail is not None and self._trail.problem:
            return together, self._trail.problem
        self._by = "position"
        return together, ""

    # Going through it

    def begin(
        self, iterator: Iterator[Any], iterable: Iterable[Any], user_ns: dict[str, Any], *, in_bar: bool = False
    ) -> None:
        """What it goes through has been made, and given an iterator."""
        self._iterator = iterator
        self._is_own = not in_bar and makes_iterator(self._node, iterable, user_ns)
        self.done, self.is_over, self.left_in = 0, False, 0  # it may have failed and be tried again
        self._given, self._again = False, []
        self.total = length_of(iterable)
        self._is_new = are_new(iterator)
        self._is_numbers = type(iterable) is range
        certain = self._ordered or all(map(gives_a_file, sources(iterator)))
        self._trail = None if certain else Trail()
        self._draws = Draws() if self._trail is not None and type(self._iterator) not in MADE_BEFORE else None
        self._by = "position"

    @property
    def is_through(self) -> bool:
        """Is there no item left, as far as can be known beforehand, and nothing around it?"""
        return not self.is_inner and 0 < self.total <= self.done

    def skip(self, progress: Progress, *, drawing: bool) -> bool:
        """Go behind the items that are done. False: they are not what they were, and it is at its beginning again.

        `drawing`: making them may draw random numbers.
        """
        if self._trail is None and not progress.trail:
            self._iterator = self.pass_by(self._iterator, progress)
            return True
        digest = progress.trail.removesuffix(TOUCHED)
        self._iterator, trail, self._last = follow(self._iterator, progress.done, digest, drawing=drawing)
        self._trail = trail or Trail()
        self._trail.touched = trail is not None and progress.trail.endswith(TOUCHED)
        return trail is not None

    def pass_by(self, iterator: Iterator[Any], progress: Progress) -> Iterator[Any]:
        """The iterator behind the items that are done, whatever they are."""
        iterator = advance(iterator, progress.done - 1)
        self._last = made(iterator)
        return iterator

    def reenter(self, progress: Progress) -> None:
        """Go behind the items that are done, to the one whose iteration is to go on."""
        self._iterator = advance(self._iterator, progress.done)
        self.done = progress.done

    def take_iterator(self, iterator: Any, progress: Progress, *again: Any) -> None:
        """Go on with the one that was saved, from the item it was at, if that is given."""
        self._iterator, self._by, self._given, self._again = iterator, "iterator", True, list(again)
        self.done, self.total = progress.done, progress.total
        self._is_own = self._is_numbers = self._is_new = False

    def walk(self, boundary: Callable[[], object], fault: Callable[[Exception], object] | None = None) -> Iterator[Any]:
        """The items, with a call of `boundary` between two of them whenever the loop is to be saved.

        Where that says so, there is an interrupt instead of the next item. `fault` is told what went wrong here; then
        the items that are left come as they are.
        """
        return itertools.chain.from_iterable(self._stretches(boundary, fault))

    def _stretches(
        self, boundary: Callable[[], object], fault: Callable[[Exception], object] | None
    ) -> Iterator[Iterable[Any]]:
        numbers: range | None = None
        items: Any = asked(self._iterator)
        items = itertools.chain(self._again, items) if self._again else items
        try:
            try:
                numbers = _rest_of(self._iterator) if self._is_range() else None
                self._again, self._last = [], UNKNOWN
                while True:
                    length = self._length()
                    if numbers is not None:
                        self._stretch, self._iterator = Numbers(numbers[:length]), iter(numbers[length:])
                    else:
                        self._stretch = Items(self._noted(items), length)
                    if self.rung and length > 1:
                        self._stretch.cut()  # the bell rang between the two, and saw the one before
                    yield self._stretch
                    given, is_at_the_end = self._stretch.given, self._stretch.is_at_the_end
                    self.done += given
                    if is_at_the_end:
                        self.is_over = True
                        return self.stop()
                    if numbers is not None:
                        numbers = numbers[given:]
                        self._iterator = iter(numbers)
                    if given:
                        self.turned()
                        if self.rung or self.done == self.at:
                            self.rung = False
                            if boundary():
                                raise KeyboardInterrupt
            except GeneratorExit:
                self.left_in = self.done + self._stretch.given
                raise
            except KeyboardInterrupt as error:
                left = raising(error.with_traceback(None))
            except NotMade as error:
                left = raising(error.__cause__ or error)
            except Exception as error:  # of ours: items are made outside of this frame
                if fault is None:
                    raise
                fault(error)
                self.stop()
                left = numbers if numbers is not None else items
            yield left
        finally:
            left = items = self._iterator = None  # a generator that is left by `break` is closed, as without us
            self._stretch = NOTHING

    def _is_range(self) -> bool:
        """Is what is left as good as a range? Not if somebody else has the iterator, and may ask it for an item."""
        return self._is_numbers and self._trail is None and not self._again

    def _noted(self, items: Iterator[Any]) -> Iterator[Any]:
        """Each of them noted, if their order is not certain and noting them does not take too long."""
        if self._trail is None or self._trail.problem:
            return items
        if self._draws is None:
            return map(self._trail.note, items)
        return map(self._noted_made, map(self._asked, itertools.repeat(None)), items)

    def _asked(self, _: None) -> None:
        assert self._draws is not None
        assert self._trail is not None
        self._trail.done_with(self._holds)
        self._draws.asked()

    def _holds(self, item: Any) -> bool:
        return holds(self._iterator, item)

    def _noted_made(self, _: None, item: Any) -> Any:
        assert self._draws is not None
        assert self._trail is not None
        self._draws.made(item)
        return self._trail.note(item)

    def _length(self) -> int:
        """Of the next stretch. A loop that is to be saved, or has loops inside that are watched, comes back at once."""
        if self.rung or self.is_deep:
            return 1
        return min(_STRETCH, self.at - self.done) if self.at > self.done else _STRETCH

    # Loops inside of it

    def lies_in(self, outer: Loop | None, deep: set[int], key: int) -> None:
        """Where it is among the loops of its statement."""
        self._deep, self.key = deep, key
        if outer is not None:
            self.chain, self.is_inner = (*outer.chain, self), True
            for around in outer.chain:
                around.inner.append(self)

    def dive(self) -> None:
        """It begins: its first iteration may take long, for all one knows."""
        self._turned = time.perf_counter()
        if self.inner and not self._shallow and not self._judged:
            self._deep.add(self.key)

    def turned(self) -> None:
        """An iteration is over. Is the next one likely to take long?"""
        if not (self.is_deep or self._rang):
            return
        now, enough = time.perf_counter(), _DEEP_SHARE * self._pace.min_seconds
        if self.is_deep:
            if now - self._turned < enough:
                self._deep.discard(self.key)
        elif self.inner and not self._shallow and now - self._rang >= enough:
            self._deep.add(self.key)
        self._judged, self._turned, self._rang = True, now, 0.0

    def begin_inner(self) -> None:
        """It begins inside of another one, which has the bell."""
        self.open, self.rung, self.due = True, self.chain[0].due, False
        self.at = self.done + self.inner_every if self.inner_every is not None else -1

    def stay_outside(self) -> None:
        """It cannot be saved between its iterations: only those around it can be."""
        for loop in self.chain[:-1]:
            loop._shallow = True
            loop._deep.discard(loop.key)

    # When

    def arm(self, cost: float) -> None:
        """Be due again in time, when a save takes that long."""
        self.due, self.open = False, True
        if isinstance(self._every, int):
            self.at = self.done + self._every
        else:
            self._ring_in(self._every if self._every is not None else self._pace.interval(cost))

    def saved_in(self, cost: float) -> None:
        """That took so long. It is due again when the outermost one is."""
        if self.is_inner:
            self.at = self.done + self.inner_every if self.inner_every is not None else -1
        if not self.is_inner or self.chain[0].at < 0:
            self.chain[0].arm(cost)

    def arm_soon(self) -> None:
        """It was not possible just now."""
        self.due = False
        self._ring_in(_SOON_SECONDS)

    def _ring_in(self, seconds: float) -> None:
        self._bell = alarm.later(seconds, self.ring)

    def ring(self) -> None:
        """It is time to save: between two iterations of whichever is first."""
        self.due = True
        self._rang = self._rang or time.perf_counter()
        for loop in self.inner:
            if loop.open:
                loop._stop_short()
        self._stop_short()

    def tell_in(self, seconds: float) -> None:
        """Come back in so many seconds to tell how far it is."""
        self.to_tell = False
        self._watch = alarm.later(seconds, self._tell)

    def _tell(self) -> None:
        self.to_tell = True
        self._stop_short()

    def _stop_short(self) -> None:
        """Come back before the very next item. Last of all: what it is for must be known by then."""
        self.rung = True
        self._stretch.cut()

    @property
    def to_save(self) -> bool:
        """Is it time, or are so many done?"""
        return self.chain[0].due or self.done == self.at

    def give_up(self) -> None:
        """It is not to be saved any more."""
        if self._bell is not None:
            self._bell.call_off()
        self.due, self.at, self.open = False, -1, False

    def stop(self) -> None:
        """It has come to its end."""
        self.give_up()
        if self._watch is not None:
            self._watch.call_off()
        self.to_tell = self.rung = False

    def let_go(self) -> None:
        """Nothing is saved of it any more. The loops of a statement know each other: what they hold would stay."""
        self._last, self._trail, self._draws, self.start, self.heads = UNKNOWN, None, None, {}, {}


def of_loop(key: str, loop: Loop) -> str:
    return f"{key}:{loop.number}"


def _rest_of(iterator: Any) -> range:
    """What a range's iterator has yet to give."""
    of, position = iterator.__reduce__()[1][0], (*iterator.__reduce__(), 0)[2]
    rest: range = of[position:] if position else of
    return rest


def _sets_inside(target: ast.expr) -> bool:
    """Does it bind more than variables: `for box.n in …`? That is done once more when the loop is entered again."""
    return any(isinstance(part, (ast.Attribute, ast.Subscript)) for part in ast.walk(target))

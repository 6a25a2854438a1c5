"""Telling whether a loop goes through the same items again, and getting behind those that are done.

Items may be made while the loop goes on (by a generator, say), and making them may draw random numbers. If the body of
the loop draws from the same generator, items made one behind the other are not those of a run: that is noticed too.
"""

from __future__ import annotations

import itertools
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import xxhash

from nbcheckpoint.errors import Unrepeatable
from nbcheckpoint.fingerprint import rng
from nbcheckpoint.fingerprint.values import Digester, Unidentified

T = TypeVar("T")
PLAIN = (int, float, complex, str, bytes, bool, type(None))
_INDEXED: tuple[Any, ...] = (type(iter([])), type(iter(range(0))))
_OVER: Any = object()
_SHARE = 0.02
_FREE_SECONDS = 0.01
_PLAIN_SECONDS = 0.5e-6
"""What noting a number or a short string takes."""


TOUCHED = "*"
"""Behind a digest: items were not left as they were made, as far as is known."""


class Trail:
    """A running digest of the items gone through. Gives up where that would take too much of the loop's time.

    And whether the loop has left each of them as it was: whoever makes the items may still hold them, and makes others
    if they were changed (`dirs.remove(…)` in a loop over `os.walk`).
    """

    def __init__(self) -> None:
        self._hasher = xxhash.xxh3_128()
        self._spent = 0.0
        self._plain = 0
        self._began = time.perf_counter()
        self.problem = ""
        self.touched = False
        """Was an item changed by the time the next was asked for? True also if that would take too long to tell."""
        self._at: tuple[Any, str] | None = None
        """The item noted last, and what it was then, if it can change."""
        self._looking = 0.0
        self._is_dear = False

    def note(self, item: T) -> T:
        """The item itself, noted."""
        if not self.problem:
            self._add(item)
        return item

    def _add(self, item: Any) -> None:
        if type(item) in PLAIN:
            said = hex(item) if type(item) is int else repr(item)  # not every number has digits Python would write
            self._hasher.update(f"{type(item).__name__} {said};".encode("utf-8", "surrogatepass"))
            self._plain += 1
            if self._plain % 4096 == 0:
                self._check(time.perf_counter())
            return
        started = time.perf_counter()
        try:
            found = Digester().digest("item", item)
            self._at = item, found
            self._hasher.update(found.encode())
        except Unidentified as error:
            self.problem = f"its items cannot be compared ({error.why})"
        except Exception as error:  # of an item's own: the loop goes on with it
            self.problem = f"its items cannot be compared ({type(error).__name__})"
        now = time.perf_counter()
        self._spent += now - started
        self._check(now)
        if self.problem:  # nobody will tell it that the item is over
            self._at = None

    def done_with(self, holds: Callable[[Any], bool]) -> None:
        """The next item is about to be made."""
        self.look(holds)
        self._at = None

    def look(self, holds: Callable[[Any], bool]) -> None:
        """At the item it is at: was it changed? And is it one that whoever makes them `holds`?"""
        if self._at is None or self.problem or self._is_dear:
            return
        started = time.perf_counter()
        item, found = self._at
        try:
            changed = Digester().digest("item", item) != found
        except Exception:  # one more that cannot be compared
            changed = True
        if changed and holds(item):
            self.problem = "it changes items that are still in use where they come from: put them in a list first"
        now = time.perf_counter()
        self._looking += now - started
        self._is_dear = self._looking > _FREE_SECONDS + _SHARE * (now - self._began)
        self.touched = self.touched or changed or self._is_dear

    def _check(self, now: float) -> None:
        spent = self._spent + self._plain * _PLAIN_SECONDS
        if not self.problem and spent > _FREE_SECONDS + _SHARE * (now - self._began):
            self.problem = "telling its items apart would take too long"

    @property
    def digest(self) -> str:
        return self._hasher.hexdigest()


class Draws:
    """Which random generators are drawn from while an item is made, and which between an item and the next.

    Looking costs more than most items do. So it is done for the first, and for as many as take a small share of the
    loop's time: this is to know early, `both_drawn` is what is certain.
    """

    def __init__(self) -> None:
        self._state: Mapping[str, Any] | None = None
        """At the last look, if that was just now."""
        self._passes = self._passing = 0
        self._spent = 0.0
        self._began = time.perf_counter()
        self._by_items: set[str] = set()
        self._between: set[str] = set()

    def asked(self, _: object = None) -> None:
        """The loop is done with an item, and asks for another."""
        if self._state is not None:
            self._look(self._between)
            self._rest()
        elif self._passing:
            self._passing -= 1
        else:
            self._look(None)

    def made(self, _: object) -> None:
        """There it is."""
        if self._state is not None:
            self._look(self._by_items)

    def by_both(self) -> set[str]:
        """Generators drawn from on either side, as far as was looked. Between two items."""
        if self._state is not None:
            self._look(self._between)
            self._state = None
        return self._by_items & self._between

    def _look(self, moved: set[str] | None) -> None:
        started = time.perf_counter()
        before, self._state = self._state, rng.states()
        if moved is not None and before is not None:
            moved |= moved_since(before, self._state)
        self._spent += time.perf_counter() - started

    def _rest(self) -> None:
        """Is it too early for the next look?"""
        if self._spent <= _FREE_SECONDS + _SHARE * (time.perf_counter() - self._began):
            self._passes = 0
        else:
            self._passes = 2 * self._passes + 1
            self._state, self._passing = None, self._passes


def moved_since(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Random generators that are not in the state they were in."""
    return {name for name, state in now.items() if name not in before or not rng.same(before[name], state)}


def both_drawn(before: Mapping[str, Any], made: Mapping[str, Any], left: Mapping[str, Any]) -> set[str]:
    """Generators drawn from by items and between them, by their states: at the loop's beginning, when nothing but
    its first items was made from there, and where the loop had left them when it had come to the last of those."""
    return {name for name in moved_since(before, made) if name in left and not rng.same(made[name], left[name])}


def follow(
    iterator: Iterator[Any], done: int, digest: str, *, drawing: bool = False, left: Mapping[str, Any] | None = None
) -> tuple[Iterator[Any], Trail | None, Any]:
    """The iterator behind so many items, and the last of them, if those are the ones with that digest, and making them
    draws nothing that was drawn elsewhere too, as is seen from where the loop had `left` the random state.

    Else it gives them again, and there is no trail; with `drawing`, as if each were made when the loop asks for it.
    Raises NotMade.
    """
    trail = Trail()
    passed: list[tuple[Any, _Drawn]] = []
    start = state = rng.states() if drawing else {}
    first = itertools.islice(asked(iterator), done)
    while (item := made(first, _OVER)) is not _OVER:
        before, state = state, rng.states() if drawing else {}
        passed.append((item, [(name, before[name], state[name]) for name in moved_since(before, state)]))
        trail.note(item)
        if trail.problem.startswith("telling"):
            trail.problem = ""  # as much time as it takes
    if len(passed) == done and trail.digest == digest and not both_drawn(start, state, left or {}):
        return iterator, trail, passed[-1][0] if passed else None
    return given_again(passed, iterator), None, None


_Drawn: TypeAlias = "list[tuple[str, Any, Any]]"
"""Generators drawn from to make an item, with their states before and after."""


def given_again(passed: list[tuple[Any, _Drawn]], rest: Iterator[Any]) -> Iterator[Any]:
    """Items that were made ahead of time, each leaving the random state that making it left, and those behind them.

    Raises Unrepeatable where that is not possible: somebody else drew before, and the item would be another one.
    """
    for item, drawn in passed:
        now = rng.states() if drawn else {}
        for name, before, after in drawn:
            if not rng.same(now[name], before):
                raise Unrepeatable
            rng.restore(name, after)
        yield item
    yield from asked(rest)


def asked(iterator: Iterator[Any]) -> Iterator[Any]:
    """Its items, without asking it for an iterator as `for` has done already: one of the user's may begin anew then, or
    have nothing but a `__next__`. Nothing of ours runs for each item."""
    if isinstance(getattr(type(iterator), "__iter__", None), types.WrapperDescriptorType):
        return iterator  # made of C: it gives itself
    return itertools.starmap(next, itertools.repeat((iterator,)))


def advance(iterator: Any, done: int) -> Any:
    """The iterator behind so many items, whatever they are. Raises NotMade."""
    if type(iterator) in _INDEXED and iterator.__reduce__()[-1] == 0:
        iterator.__setstate__(done)  # not one by one: there may be a thousand million
    else:
        made(itertools.islice(asked(iterator), done, done))
    return iterator


def iterator_of(iterable: Any) -> Iterator[Any]:
    """Raises NotMade."""
    try:
        return iter(iterable)
    except BaseException as error:
        raise NotMade from error


class NotMade(Exception):
    """Making an item has failed, by its cause."""


def made(iterator: Iterator[Any], default: Any = None) -> Any:
    """The next item. Raises NotMade where that raises: it is the user's matter, and not a fault of ours."""
    try:
        return next(iterator, default)
    except BaseException as error:
        raise NotMade from error

"""Stretches of a loop: items that Python goes through without coming back to us, until they are cut short.

Asking a generator of ours for every item would cost a loop with a short body half of its time. So a loop is given a
stretch of its items at a time, as an iterator made of nothing but C. When the loop is to be saved, another thread cuts
the stretch: the loop comes back to us before its next item, and no item is lost or taken ahead of time.
"""

from __future__ import annotations

import gc
import itertools
import operator
from collections.abc import Iterator
from typing import Any, Protocol

UNKNOWN: Any = object()

_SECOND = operator.itemgetter(1)


class Stretch(Protocol):
    """So many items, at the most."""

    def __iter__(self) -> Iterator[Any]: ...

    def cut(self) -> None:
        """Give no more items. Any thread may ask for it, at any time."""

    @property
    def given(self) -> int:
        """How many items have been given."""

    @property
    def last(self) -> Any:
        """The item given last, or UNKNOWN."""

    @property
    def is_at_the_end(self) -> bool:
        """Was there no item where one was asked for?"""


class Items:
    """Of any iterator. It is asked for an item when the loop asks, by the loop's thread, and not before.

    An item comes through a gate, and is counted behind it: `zip` asks the gate, the iterator and the counter one after
    the other, and ends with the first that has nothing to give. A gate is cut by emptying it into a list, which is one
    step to Python, so what went through it is known exactly.
    """

    def __init__(self, items: Iterator[Any], length: int) -> None:
        self._length = length
        self._gate, self._counter = itertools.repeat(None, length), itertools.repeat(None, length)
        self._zipped = zip(self._gate, items, self._counter, strict=False)
        self._cut: list[None] = []

    def __iter__(self) -> Iterator[Any]:
        return map(_SECOND, self._zipped)

    def cut(self) -> None:
        self._cut.extend(self._gate)

    @property
    def given(self) -> int:
        return self._length - operator.length_hint(self._counter)

    @property
    def last(self) -> Any:
        """`zip` keeps the tuple it made last, to use it again: nothing else need be done for each item to know it."""
        if self.given:
            for kept in gc.get_referents(self._zipped):
                if type(kept) is tuple and kept[0] is None:
                    return kept[1]
        return UNKNOWN

    @property
    def is_at_the_end(self) -> bool:
        return self._length - len(self._cut) - operator.length_hint(self._gate) > self.given


class Numbers:
    """Of a range: its iterator is its own gate."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self._gate = iter(numbers)
        self._cut: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return self._gate

    def cut(self) -> None:
        self._cut.extend(self._gate)

    @property
    def given(self) -> int:
        return len(self._numbers) - len(self._cut) - operator.length_hint(self._gate)

    @property
    def last(self) -> Any:
        return self._numbers[0] if self.given == len(self._numbers) == 1 else UNKNOWN

    @property
    def is_at_the_end(self) -> bool:
        return not self._numbers


NOTHING = Numbers(range(0))

"""Which of the mutable objects that are met are one object, and which arrays lie in one memory.

They are numbered as they are met, across all inputs of a step, and a second meeting tells the number.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from nbcheckpoint import bases

_MANY, _MOST_TREES = 4096, 16
"""So many objects that were met together are not numbered before somebody asks."""


class Meetings:
    """Those of one step."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """id -> number, in the order in which they were met."""
        self._met: list[Any] = []
        """The objects themselves: as long as one is held, its id is not given to another."""
        self._trees: list[tuple[int, dict[int, Any]]] = []
        """The same of those that have yet to be numbered, and the number of the first."""
        self._count = 0
        self._starts: list[int] = []
        self._labels: list[str] = []
        """From which number on they were met in which input."""
        self._roots: dict[int, tuple[str, int, int, Any]] = {}
        self._parts: dict[int, list[tuple[int, int, Any]]] = {}
        """id of an owner of several pieces of memory -> where arrays were met in there."""

    def meet(self, label: str, obj: Any) -> tuple[str, int] | None:
        """Number a mutable object on its first meeting (None); say which one it was on the next."""
        known = self.met(obj)
        if known is None:
            self._begin(label)
            self._numbers[id(obj)] = self._count
            self._count += 1
            self._met.append(obj)
        return known

    def met(self, obj: Any) -> tuple[str, int] | None:
        """Which one is it, if it has been met?"""
        number = self._numbers.get(id(obj))
        if number is None and self._trees and any(id(obj) in tree for _, tree in self._trees):
            self._number_all()
            number = self._numbers[id(obj)]
        return None if number is None else (self._labels[bisect_right(self._starts, number) - 1], number)

    def meet_all(self, label: str, objects: dict[int, Any]) -> bool:
        """The same for many, by id; or nothing happens, because one has been met before."""
        known = (self._numbers, *(tree for _, tree in self._trees))
        are_new = all(not some or some.keys().isdisjoint(objects) for some in known)
        if are_new and len(objects) >= _MANY and len(self._trees) < _MOST_TREES:
            self._begin(label)
            self._trees.append((self._count, objects))
            self._count += len(objects)
        elif are_new:
            self._number(label, objects)
        return are_new

    def _begin(self, label: str) -> None:
        if not self._labels or self._labels[-1] != label:
            self._starts.append(self._count)
            self._labels.append(label)

    def _number(self, label: str, objects: dict[int, Any]) -> None:
        self._begin(label)
        self._numbers.update(zip(objects, range(self._count, self._count + len(objects)), strict=True))
        self._count += len(objects)
        self._met += objects.values()

    def _number_all(self) -> None:
        """Mostly nobody asks for the numbers of what there are many of."""
        for first, tree in self._trees:
            self._numbers.update(zip(tree, range(first, first + len(tree)), strict=True))
            self._met += tree.values()
        self._trees.clear()

    def meet_memory(self, label: str, array: Any) -> tuple[str, int, int] | None:
        """The same for the memory of an array: views of one array share theirs."""
        root, at = bases.owner_of(array), bases.address(array)
        if not bases.is_one_block(root):
            root = self._met_there(root, array)
        known = self._roots.get(id(root))
        if known is None:
            self._roots[id(root)] = label, len(self._roots), at, root
            return None
        return known[0], known[1], at - known[2]

    def _met_there(self, owner: Any, array: Any) -> Any:
        """The first array that was met in the same part of what its owner has: maybe this one."""
        met = self._parts.setdefault(id(owner), [])
        low, high = bases.bounds(array)
        for first, last, known in met:
            if first < high and low < last:
                return known
        met.append((low, high, array))
        return array

"""Telling whether a loop goes through the same items again, and getting behind those that are done."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import xxhash

from nbcheckpoint.fingerprint.values import Digester, Unidentified

T = TypeVar("T")
PLAIN = (int, float, complex, str, bytes, bool, type(None))
_INDEXED: tuple[Any, ...] = (type(iter([])), type(iter(range(0))))
_SHARE = 0.02
_FREE_SECONDS = 0.01
_PLAIN_SECONDS = 0.5e-6
"""What noting a number or a short string takes."""


class Trail:
    """A running digest of the items gone through. Gives up where that would take too much of the loop's time."""

    def __init__(self) -> None:
        self._hasher = xxhash.xxh3_128()
        self._spent = 0.0
        self._plain = 0
        self._began = time.perf_counter()
        self.problem = ""

    def note(self, item: T) -> T:
        """The item itself, noted."""
        if not self.problem:
            self._add(item)
        return item

    def _add(self, item: Any) -> None:
        if type(item) in PLAIN:
            self._hasher.update(f"{type(item).__name__} {item!r};".encode("utf-8", "surrogatepass"))
            self._plain += 1
            if self._plain % 4096 == 0:
                self._check(time.perf_counter())
            return
        started = time.perf_counter()
        try:
            self._hasher.update(Digester().digest("item", item).encode())
        except Unidentified as error:
            self.problem = f"its items cannot be compared ({error.why})"
        now = time.perf_counter()
        self._spent += now - started
        self._check(now)

    def _check(self, now: float) -> None:
        spent = self._spent + self._plain * _PLAIN_SECONDS
        if not self.problem and spent > _FREE_SECONDS + _SHARE * (now - self._began):
            self.problem = "telling its items apart would take too long"

    @property
    def digest(self) -> str:
        return self._hasher.hexdigest()


def follow(iterator: Iterator[Any], done: int, digest: str) -> tuple[Iterator[Any], Trail | None, Any]:
    """The iterator behind so many items, and the last of them, if those are the ones with that digest.

    Else it is where it was, and there is no trail.
    """
    trail, passed = Trail(), []
    for item in itertools.islice(iterator, done):
        passed.append(item)
        trail.note(item)
        if trail.problem.startswith("telling"):
            trail.problem = ""  # as much time as it takes
    if len(passed) == done and trail.digest == digest:
        return iterator, trail, passed[-1] if passed else None
    return itertools.chain(passed, iterator), None, None


def advance(iterator: Any, done: int) -> Any:
    """The iterator behind so many items, whatever they are."""
    if type(iterator) in _INDEXED and iterator.__reduce__()[-1] == 0:
        iterator.__setstate__(done)  # not one by one: there may be a thousand million
    else:
        next(itertools.islice(iterator, done, done), None)
    return iterator

"""A loop comes back between two items when it is to be saved, and not else."""

from __future__ import annotations

import ast
import itertools
import pickle
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from nbcheckpoint.engine.pace import Pace
from nbcheckpoint.notebook.loop import Loop


def loop_over(items: Any, source: str = "for i in items: pass") -> Loop:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.For)
    loop = Loop(0, node, {"items": items}, (), Pace(), 1000.0)
    loop.begin(iter(items), items, {})
    return loop


@pytest.fixture
def no_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "arm", lambda self, cost: setattr(self, "due", False))


@pytest.mark.usefixtures("no_timers")
@pytest.mark.parametrize(
    "items",
    [range(10), range(50_000), range(7, -50, -3), range(0), list(range(20)), [], [[n] for n in range(50_000)], "abcd"],
    ids=lambda items: f"{type(items).__name__} of {len(items)}",
)
@pytest.mark.parametrize("rings", [(), (0,), (3,), (3, 4, 9), (16_383,), (16_384,), (16_385, 40_000)])
def test_a_loop_stops_at_the_very_next_item_when_it_is_due(items: Any, rings: tuple[int, ...]) -> None:
    """Whenever the clock rings, all that was given out is done, nothing else, and the iterator has the rest."""
    loop = loop_over(items)
    seen: list[Any] = []
    saved: list[int] = []

    def boundary() -> None:
        saved.append(loop.done)
        assert loop.done == len(seen)
        rest = pickle.loads(pickle.dumps(loop._iterator))
        assert list(rest) == list(itertools.islice(items, loop.done, None))
        assert type(items) is range or loop.parts()["i"] is items[loop.done - 1]
        loop.arm(0.0)

    for item in loop.walk(boundary):
        seen.append(item)
        if len(seen) - 1 in rings:
            loop.ring()
    assert seen == list(items)
    assert saved == [at + 1 for at in rings if at < len(items)]
    assert loop.done == len(items)


@pytest.mark.parametrize("items", [range(5), [0, 1, 2, 3, 4]])
def test_a_bell_before_the_first_item_is_heard_after_it(items: Any) -> None:
    """There is no item that it is at before."""
    loop = loop_over(items)
    saved: list[int] = []
    walk = loop.walk(lambda: (saved.append(loop.done), setattr(loop, "due", False))[0])
    loop.ring()
    assert list(walk) == [0, 1, 2, 3, 4]
    assert saved == [1]


@pytest.mark.parametrize("items", [range(40_000), list(range(40_000))])
@pytest.mark.parametrize("every", [1, 7, 16_384, 16_385, 40_000, 50_000])
def test_a_loop_that_is_saved_by_number_stops_at_each(items: Any, every: int) -> None:
    loop = loop_over(items)
    loop._every = every
    loop.arm(0.0)
    saved: list[int] = []
    walk = loop.walk(lambda: (saved.append(loop.done), loop.arm(0.0))[0])
    assert sum(1 for _ in walk) == 40_000
    assert saved == list(range(every, 40_001, every))


def test_an_iterator_that_has_ended_is_not_asked_again() -> None:
    """It might have something to give by then, as a file that grows has."""
    lives = [iter([0, 1, 2]), iter([3])]

    class Again:
        def __iter__(self) -> Again:
            return self

        def __next__(self) -> int:
            for number in lives[0]:
                return number
            lives.pop(0)
            raise StopIteration

    for rings in range(4):
        lives[:] = [iter([0, 1, 2]), iter([3])]
        loop, seen = loop_over(Again()), []
        for item in loop.walk(partial(loop.arm, 0.0)):
            seen.append(item)
            if item == rings:
                loop.ring()
        assert seen == [0, 1, 2]
        assert len(lives) == 1


def test_no_item_is_made_before_the_loop_asks_for_it() -> None:
    made: list[int] = []
    loop = loop_over(made.append(n) or n for n in range(100))
    for item in loop.walk(lambda: loop.arm(0.0)):
        assert made[-1] == item
        if item % 10 == 0:
            loop.ring()
            assert made[-1] == item


def test_what_raises_between_two_items_is_raised_as_it_is() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    walk = loop_over(items()).walk(lambda: None)
    assert next(walk) == 1
    with pytest.raises(LookupError, match="no more"):
        next(walk)


@pytest.mark.usefixtures("no_timers")
@pytest.mark.parametrize("items", [range(10**12), itertools.count(), (n for n in itertools.count())])
def test_no_number_is_lost_or_given_twice_when_the_bell_rings_in_another_thread(items: Any) -> None:
    """At any moment: between asking and answering, between two stretches."""
    loop = loop_over(items)
    over, saved, expected = threading.Event(), 0, 0

    def ring() -> None:
        while not over.is_set():
            loop.ring()

    def boundary() -> None:
        nonlocal saved
        saved += 1
        assert loop.done == expected
        loop.arm(0.0)

    ringer = threading.Thread(target=ring)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        ringer.start()
        for item in loop.walk(boundary):
            assert item == expected
            expected += 1
            if saved == 300:
                break
    finally:
        sys.setswitchinterval(before)
        over.set()
        ringer.join()


def test_no_item_is_kept_longer_than_the_loop_itself_keeps_it() -> None:
    """They may be large."""

    class Chunk:
        alive = 0

        def __init__(self) -> None:
            Chunk.alive += 1

        def __del__(self) -> None:
            Chunk.alive -= 1

    loop = loop_over(Chunk() for _ in range(20))
    most: list[int] = []
    for number, chunk in enumerate(loop.walk(lambda: loop.arm(0.0))):
        most.append(chunk.alive)
        if number % 3 == 0:
            loop.ring()
    del chunk
    assert max(most) == 1
    assert not Chunk.alive


def test_a_generator_that_is_left_is_closed_at_once() -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    loop = loop_over(items())
    for item in loop.walk(lambda: None):
        if item == 3:
            break
    assert closed

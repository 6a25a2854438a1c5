"""Items of a loop that are made again: whether they are the same, and what random numbers have to do with it."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator

import pytest

from nbcheckpoint.engine import trail
from nbcheckpoint.engine.trail import Draws, Trail, both_drawn, follow
from nbcheckpoint.errors import Unrepeatable
from nbcheckpoint.fingerprint import rng

RANDOM = rng.PREFIX + "random"


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    mine = random.getstate()
    random.seed(3)
    yield
    random.setstate(mine)


def drawn() -> Iterator[float]:
    for _ in range(6):
        yield random.random()


def watched(items: Iterator[float], body: bool) -> Draws:
    draws = Draws()
    while True:
        draws.asked()
        item = next(items, None)
        if item is None:
            return draws
        draws.made(item)
        if body:
            random.random()


def test_who_draws_is_known() -> None:
    assert watched(drawn(), body=True).by_both() == {RANDOM}
    assert watched(drawn(), body=False).by_both() == set()
    assert watched(iter([1.0, 2.0]), body=True).by_both() == set()


def test_looking_takes_a_small_share_of_the_time_and_notices_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    looks = 0

    def states() -> dict[str, object]:
        nonlocal looks
        looks += 1
        return {RANDOM: rng.packed(random.getstate())}

    monkeypatch.setattr(trail.time, "perf_counter", lambda: float(next(clock)))  # type: ignore[attr-defined]
    monkeypatch.setattr(trail.rng, "states", states)  # type: ignore[attr-defined]
    draws = watched((random.random() for _ in range(10_000)), body=True)
    assert looks < 200
    assert draws.by_both() == {RANDOM}


@pytest.mark.parametrize("body", [True, False])
def test_two_states_say_whether_both_drew(body: bool) -> None:
    """Without having looked at any item: those made again alone do not lead to where the loop has left it."""
    before = rng.states()
    for _ in itertools.islice(drawn(), 3):
        if body:
            random.random()
    left = rng.states()
    rng.restore(RANDOM, before[RANDOM])
    list(itertools.islice(drawn(), 3))
    assert both_drawn(before, rng.states(), left) == ({RANDOM} if body else set())


def test_items_made_ahead_leave_the_random_state_they_would_leave() -> None:
    before = random.getstate()
    wanted = [(item, random.getstate()) for item in drawn()]
    random.setstate(before)
    items, found, _ = follow(drawn(), 4, "another", drawing=True)
    assert found is None
    random.setstate(before)
    assert [(item, random.getstate()) for item in items] == wanted


def test_an_item_made_ahead_is_not_given_if_it_would_be_another() -> None:
    before = random.getstate()
    items, _, _ = follow(drawn(), 4, "another", drawing=True)
    random.setstate(before)
    next(items)
    random.random()
    with pytest.raises(Unrepeatable, match="draws random numbers"):
        next(items)


def test_items_that_are_the_same_are_passed() -> None:
    wanted = list(drawn())
    noted = Trail()
    for item in wanted[:3]:
        noted.note(item)
    random.seed(3)
    rest, found, last = follow(drawn(), 3, noted.digest, drawing=True)
    assert found is not None
    assert [last, *rest] == wanted[2:]


def test_whatever_an_item_is_it_passes() -> None:
    class Odd:
        def __reduce__(self) -> str:
            raise KeyError("mine")

    noted = Trail()
    for item in (10**5000, -(10**5000), Odd()):
        assert noted.note(item) is item
    assert noted.problem.startswith("its items cannot be compared")


def test_who_has_given_up_noting_items_holds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody tells it any more that the loop is done with one. They may be large."""
    monkeypatch.setattr(trail, "_FREE_SECONDS", -1.0)
    monkeypatch.setattr(trail, "_SHARE", 0.0)
    noted, item = Trail(), {1, 2}
    held = sys.getrefcount(item)
    noted.note(item)
    assert noted.problem
    assert sys.getrefcount(item) == held

"""States of random generators."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from nbcheckpoint.fingerprint import rng

RANDOM = rng.PREFIX + "random"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    mine, theirs = random.getstate(), np.random.get_state()
    yield
    random.setstate(mine)
    np.random.set_state(theirs)


def test_a_generator_goes_on_from_a_state_it_had() -> None:
    random.seed(3)
    np.random.seed(4)
    random.gauss(0, 1)  # it has a second one at hand, which is part of the state
    before = rng.states()
    wanted = [random.gauss(0, 1), random.random(), np.random.rand()]
    for name, state in before.items():
        rng.restore(name, state)
    assert [random.gauss(0, 1), random.random(), np.random.rand()] == wanted


def test_states_are_the_same_if_they_give_the_same() -> None:
    random.seed(3)
    first = rng.states()[RANDOM]
    random.random()
    assert not rng.same(first, rng.states()[RANDOM])
    assert rng.digest(first) != rng.digest(rng.states()[RANDOM])
    random.seed(3)
    assert rng.same(first, rng.states()[RANDOM])
    assert rng.digest(first) == rng.digest(rng.states()[RANDOM]) == rng.digest(rng.packed(random.getstate()))


def test_a_state_that_was_not_packed_is_understood() -> None:
    random.seed(3)
    state = random.getstate()
    wanted = random.random()
    rng.restore(RANDOM, state)
    assert random.random() == wanted


def test_what_nobody_has_seeded_is_followed_and_a_seed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rng._start, "random", rng._words(rng.states()[RANDOM]))
    assert rng.is_pristine(RANDOM, rng.states()[RANDOM])
    for _ in range(2000):
        random.random()
    assert rng.is_pristine(RANDOM, rng.states()[RANDOM]), "three turns later"
    random.seed(3)
    monkeypatch.setattr(rng, "MAX_TURNS", 5)
    assert not rng.is_pristine(RANDOM, rng.states()[RANDOM])


def test_keeping_a_state_keeps_no_numbers() -> None:
    """Hundreds of small objects, held while the user's code runs, make that slower."""
    rng.states()
    before = sys.getallocatedblocks()
    kept = [rng.states() for _ in range(20)]
    assert sys.getallocatedblocks() - before < 20 * 60
    assert len(kept) == 20

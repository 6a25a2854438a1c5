"""How often a loop is saved: what that costs, and how much work may be lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcheckpoint.engine.pace import FLOOR_SECONDS, FREQUENT_SECONDS, LEAST_SECONDS, LONGEST_WAIT, Pace, price

COSTS = st.floats(0.0001, 100)
SHARES = st.floats(0.001, 0.5)


@given(COSTS, SHARES)
def test_saving_never_takes_more_than_its_share(cost: float, overhead: float) -> None:
    assert cost <= overhead * Pace(overhead=overhead).interval(cost) * 1.000001


@given(COSTS, SHARES)
def test_no_more_work_is_at_stake_than_the_budget_asks_for_or_ten_seconds(cost: float, overhead: float) -> None:
    assert Pace(overhead=overhead).interval(cost) <= max(LEAST_SECONDS, FREQUENT_SECONDS, cost / overhead)


def test_saves_that_are_close_together_leave_half_of_the_budget_to_others() -> None:
    pace = Pace(overhead=0.03)
    assert pace.interval(0.06) == 4.0
    assert pace.interval(0.001) == LEAST_SECONDS
    assert pace.interval(0.2) == FREQUENT_SECONDS
    assert pace.interval(0.6) == 20.0, "rather all of it than more lost work"


def test_without_a_budget_nothing_is_saved() -> None:
    assert Pace(overhead=0.0).interval(0.01) == float("inf")


def test_a_busy_machine_counts_and_a_single_stall_does_not() -> None:
    assert price(0.06, 0.02) == 0.06
    assert price(5.0, 0.02) == LONGEST_WAIT * 0.02
    assert price(0.02, 0.02) == 0.02


def test_more_may_be_spent_on_looking_before_a_loop_and_all_of_it_only_once() -> None:
    pace = Pace()
    assert pace.allowance() < pace.allowance(loop=True)
    pace.looked = 1.0
    assert pace.allowance() == pace.allowance(loop=True) == FLOOR_SECONDS
    pace.worked = 100.0
    assert pace.allowance(loop=True) == pytest.approx(3.0)

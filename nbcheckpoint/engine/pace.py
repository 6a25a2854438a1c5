"""How often, and whether at all: what saving may cost. Pure: seconds and bytes in, decisions out.

The budget is a share of the time the user's own code takes. A loop's next save comes after `cost / overhead` seconds,
so that saving takes that share at most; and not more often than once a second, because less work than that is not
worth bringing back. This is what is known as Young's and Daly's rule, with "how much may it cost" given instead of
"how often does it crash". Up to ten seconds apart, saves of loops take half of the budget only: the other half is for
looking at inputs and for what statements leave.
"""

from __future__ import annotations

from dataclasses import dataclass

OVERHEAD = 0.03
LEAST_SECONDS = 1.0
"""Between two saves of a loop."""
FREQUENT_SECONDS = 10.0
"""Less work than that may be lost. Saves that are no further apart need not take all of the budget."""
LOOPS_SHARE = 0.5
"""What they take of it."""
CAPITAL_SECONDS, LOOPS_CAPITAL_SECONDS = 0.25, 1.0
"""What may be spent before the user's code has run for long: the first statements of a notebook load its data. More
before a loop, which mostly is what takes long, and mostly changes what it works on: a model."""
NAMING_SHARE = 0.8
"""Of that, on what is large and may be changed: looked at too late, nobody can tell what it was."""
FLOOR_SECONDS = 0.005
"""Enough for what is not large."""
WORTH = 0.25
"""A result is kept if saving it takes less than this share of computing it."""
LONGEST_WAIT = 4.0
"""As a multiple of the work: who waits longer has met with something that need not come again."""
TOLD_AFTER_SECONDS, TOLD_EVERY_SECONDS = 2.0, 1.0
"""A loop that takes longer says how far it is, and not more often than that."""
OBJECT_SECONDS = 2e-7
"""What saving an object takes, at the least."""
FIRST_RATE = 500e6
"""Bytes per second a save is taken to manage before one was measured."""


@dataclass
class Pace:
    """The budget of one kernel."""

    overhead: float = OVERHEAD
    min_seconds: float = 1.0
    """Statements quicker than this are not worth a checkpoint: in automatic mode they just run again."""
    worked: float = 0.0
    looked: float = 0.0
    """Spent on looking at inputs of statements nothing was known about."""
    rate: float = FIRST_RATE

    def allowance(self, *, loop: bool = False) -> float:
        """Seconds that may be spent now on looking at the inputs of a statement nothing is known about."""
        capital = LOOPS_CAPITAL_SECONDS if loop else CAPITAL_SECONDS
        return max(FLOOR_SECONDS, capital + self.overhead * self.worked - self.looked)

    def saved(self, size: int, seconds: float) -> None:
        """Learn from a save. Small ones say nothing about the rate."""
        if size > 10_000_000 and seconds > 0:
            self.rate = 0.5 * self.rate + 0.5 * size / seconds

    def cost(self, size: int, objects: int = 0) -> float:
        """Seconds it will take to save so many bytes of arrays, and objects besides."""
        return 0.005 + size / self.rate + objects * OBJECT_SECONDS

    def is_worth(self, seconds: float, size: int, objects: int = 0) -> bool:
        """Is a result that took so long and is so large to be saved?"""
        if not self.min_seconds:
            return True  # everything was asked for
        if seconds < self.min_seconds:
            return False
        return self.cost(size, objects) <= WORTH * seconds

    def interval(self, cost: float) -> float:
        """Seconds until a loop saves again, when one save takes that long."""
        if self.overhead <= 0:
            return float("inf")
        most = cost / self.overhead
        return max(LEAST_SECONDS, most, min(FREQUENT_SECONDS, most / LOOPS_SHARE))


def price(waited: float, worked: float) -> float:
    """What a save cost the loop that waited for it so long, while the processor worked on it for so long.

    On a busy machine both take longer, the loop and what saves it: so it is the waiting that counts. But a single long
    wait says nothing about the next one.
    """
    return min(waited, LONGEST_WAIT * worked)


def seconds_left(done: int, total: int, seconds: float, earlier: float = 0.0) -> float | None:
    """How long a loop will still take, when so many of its items took so long; None where nobody knows.

    `earlier` is what all of it took the last time. In the beginning that says more than the first few items do.
    """
    if not total:
        return earlier - seconds if earlier > seconds else None
    share = min(1.0, done / total)
    own = seconds / done * (total - done) if done else None
    if not earlier:
        return own
    then = earlier * (1 - share)
    return then if own is None else share * own + (1 - share) * then

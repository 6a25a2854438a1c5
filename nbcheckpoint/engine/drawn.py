"""Random generators something drew from: their state before as inputs, their state after as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from nbcheckpoint.fingerprint import rng
from nbcheckpoint.fingerprint.code import Names
from nbcheckpoint.model import Input

_SEEDING = re.compile(r"seed|set_?state|set_rng_state")
"""In the names of everything that sets a random generator."""


def drawn_since(
    before: Mapping[str, Any], mentions: Names, now: Mapping[str, Any] | None = None
) -> tuple[tuple[Input, ...], dict[str, Any]]:
    """(generators with their state then, the same with their state now), of those that moved.

    One that was seeded to the very state it had has not moved, and yet that state is what the step leaves: it is to
    be used again only where the generator still has it.
    """
    drawn, moved = [], {}
    may_seed = any(_SEEDING.search(name) for name in mentions.reads | mentions.attributes)
    for name, state in (rng.states() if now is None else now).items():
        earlier = before.get(name)
        still = earlier is not None and rng.same(earlier, state)
        if still and not may_seed:
            continue
        pristine = earlier is None or rng.is_pristine(name, earlier)
        if still and pristine:
            continue  # nobody seeded it: no seed leads there
        digest = rng.digest(earlier) if earlier is not None else ""
        drawn.append(Input(name=name, digest=digest, type=rng.PRISTINE if pristine else "seeded"))
        moved[name] = state
    return tuple(drawn), moved


def drawn_before(
    earlier: Iterable[Input], drawn: Iterable[Input], moved: Mapping[str, Any]
) -> tuple[tuple[Input, ...], dict[str, Any]]:
    """The same of a step that has gone on with what it drew `earlier`: from the states those had at its beginning."""
    then = {item.name: item for item in earlier}
    now = rng.states() if then else {}
    since = (item for item in drawn if item.name not in then)
    return (*then.values(), *since), {**{name: now[name] for name in then if name in now}, **moved}

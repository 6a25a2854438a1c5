"""Where bodies say that they have run: outside of everything that counts as an input of theirs."""

from __future__ import annotations

import sys

RAN: list[object] = []


def note(what: object) -> int:
    """Returns how many have said so by now."""
    said: list[object] = sys.modules["tests.flows.bodies"].RAN
    said.append(what)
    return len(said)

"""Weak references and proxies on their way into a pickle: they come back as such, and hold nothing.

What one leads to has to be held by something else that comes back, or it would be gone at once. Who holds what is known
when all has been written: so a stream with weak references in it is written twice, first without them.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Collection
from typing import Any

from nbcheckpoint import unpickled

KINDS = frozenset({weakref.ref, *weakref.ProxyTypes})


class Weak:
    """What the weak references in one stream lead to."""

    def __init__(self, *, held: bool = False) -> None:
        self.held = held
        """Is all of that known to be held by something else?"""
        self.led_to: dict[int, Any] = {}

    def reduce(self, reference: Any) -> Any:
        """What `__reduce_ex__` would return."""
        make = weakref.ref if type(reference) is weakref.ref else weakref.proxy
        target = reference() if make is weakref.ref else unpickled.behind(reference)
        if target is None:
            return _gone, (make,)
        if make is weakref.ref and reference.__callback__ is not None:
            raise pickle.PicklingError("a weak reference that tells somebody when it is gone")
        self.led_to[id(target)] = target
        return (make, (target,)) if self.held else (_gone, (make,))

    def check(self, written: Collection[int]) -> None:
        """Raise PicklingError unless all of it is among what was written, by ids."""
        for key, target in self.led_to.items():
            if key not in written:
                raise pickle.PicklingError(
                    f"a weak reference to a {type(target).__name__} that nothing else here holds"
                )


class _Short:
    """Lives only as long as it takes to refer to it."""


def _gone(make: Any) -> Any:
    return make(_Short())

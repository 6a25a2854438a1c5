"""What pickle leaves out: attributes that NumPy and pandas do not write, and that a generator is everybody's.

An attribute the user has put on a data frame, or that a class of arrays has for all of them, is not in their pickles;
code that reads it depends on it all the same. And a copy of the generator behind `random.random` or `np.random.rand` is
not that generator: what was drawn from one would not be missing in the other.
"""

from __future__ import annotations

import random
import sys
from typing import Any

_IN_THE_STATE = frozenset({"_mask", "_basedict", "_fill_value"})
"""What a masked array does write."""


def attributes_of(obj: Any) -> dict[str, Any]:
    """Those of an array or a frame that its own pickle does not hold."""
    kind = type(obj)
    if kind.__module__ == "builtins":
        return {}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(obj, numpy.ndarray):
        own = kind.__reduce__ in (numpy.ndarray.__reduce__, numpy.ma.MaskedArray.__reduce__)
        if kind is numpy.ndarray or not own or isinstance(obj, numpy.memmap):
            return {}
        return {name: value for name, value in vars(obj).items() if name not in _IN_THE_STATE}
    if is_frame(kind):
        known = kind._accessors | set(kind._metadata)
        return {n: v for n, v in vars(obj).items() if not n.startswith("_") and n not in known}
    return {}


def is_frame(kind: Any) -> bool:
    """A data frame, a column, or something of the user's that is one."""
    pandas: Any = sys.modules.get("pandas")
    return hasattr(pandas, "Series") and issubclass(kind, (pandas.DataFrame, pandas.Series))


def global_generators() -> list[tuple[str, Any]]:
    """Those that everybody draws from, by the module they are in."""
    found: list[tuple[str, Any]] = [("random", random._inst)]  # its methods are what `random` offers
    mtrand: Any = sys.modules.get("numpy.random.mtrand")
    return [*found, ("numpy", mtrand._rand)] if hasattr(mtrand, "_rand") else found


def global_generator(name: str) -> Any:
    """The one of that name, in this process."""
    if name == "numpy":
        import numpy.random  # noqa: F401  # it is there from then on
    return dict(global_generators())[name]

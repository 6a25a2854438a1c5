"""A look at a value, made while it is alive, so that nobody has to unpickle anything to see it.

Looking must be harmless: user classes have `__repr__`s that raise, take minutes, print a gigabyte or
change the object. So only types known to be quick are asked for their repr; everything else is described
by its type and size. And what is called a secret is not shown at all.
"""

from __future__ import annotations

import reprlib
import sys
from itertools import islice
from typing import Any

from nbcheckpoint.redact import HIDDEN, is_secret, redact
from nbcheckpoint.whose import name_of, package_of

MAX_TEXT = 200

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, dict, set, frozenset)


class _Hidden:
    """Stands for a secret inside of something that is shown."""


class _Short(reprlib.Repr):
    """reprlib, but an unknown object is named by its type: its own `__repr__` is not called."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxother = 60
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 6

    def repr1(self, x: Any, level: int) -> str:
        if type(x) in _PLAIN or type(x) in _CONTAINERS:
            return super().repr1(x, level)
        return HIDDEN if x is _Hidden else f"<{type_name(x)}>"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        some = islice(x.items(), self.maxdict + 1)  # one more than is shown, so that it ends with dots
        shown = {key: _Hidden if type(key) is str and is_secret(key) else value for key, value in some}
        return super().repr_dict(shown, level)

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print integers of thousands of digits, and takes its time before that.
        return super().repr_int(x, level) if x.bit_length() < 1024 else f"<int of {x.bit_length()} bits>"


_short = _Short()


def type_name(value: object) -> str:
    """`DataFrame` of pandas is `pandas.DataFrame`, a notebook's own class is just `Model`."""
    cls = type(value)
    package, name = package_of(cls), name_of(cls)
    return name if package in ("builtins", "__main__") else f"{package}.{name}"


def shape_of(value: object) -> str:
    """`1,000 × 3` for whatever has a shape, `12 items` for whatever has a cheap length, else nothing."""
    try:
        shape = getattr(value, "shape", None) if _is_from(value, "numpy", "pandas", "polars", "torch") else None
    except ValueError:  # an iterator of NumPy's that is over
        shape = None
    if shape is not None:
        return " × ".join(f"{n:,}" for n in shape)
    if type(value) in _CONTAINERS:
        return f"{len(value):,} items"  # type: ignore[arg-type]  # the containers above all have a length
    return ""


def preview(value: object, name: str = "") -> str:
    """At most MAX_TEXT characters of what it is, unless its name says that it is a secret. Never raises."""
    if is_secret(name):
        return HIDDEN
    try:
        return redact(_preview(value))[:MAX_TEXT]
    except Exception:  # a subclass with a hostile attribute: its type name is the preview
        return f"<{type_name(value)}>"


def _preview(value: Any) -> str:
    if type(value) in _PLAIN or type(value) in _CONTAINERS:
        return _short.repr(value)
    if _is_from(value, "pandas", "polars") and name_of(type(value)) == "DataFrame":  # a lazy one would work it out
        return ", ".join(str(column) for column in list(value.columns)[:12])
    if _is_from(value, "numpy") and hasattr(value, "dtype"):
        head = _short.repr(value.ravel()[:6].tolist()) if value.size and value.dtype.kind in "biuf" else ""
        return f"{value.dtype} {head}".rstrip()
    return f"<{type_name(value)}>"


def _is_from(value: object, *packages: str) -> bool:
    package = package_of(type(value))
    return package in packages and package in sys.modules

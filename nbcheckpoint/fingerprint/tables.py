"""What a large table was before a statement that changed it, told afterwards.

To name a gigabyte takes a third of a second, which is too much before a statement that may well be quick. But most
of what changes a table leaves nearly all of its memory alone: `df["score"] = slow(df)` adds a column. So what is noted
beforehand is what pickle says of the table, which is little, and which memory belongs to it. Afterwards the table is
put together again in that same memory. If it is recognised there, nothing of it has changed, and it can be named now.
"""

from __future__ import annotations

import io
import pickle
import types
from typing import Any, NamedTuple

from nbcheckpoint import bases
from nbcheckpoint.fingerprint import values
from nbcheckpoint.trees import ATOMS
from nbcheckpoint.whose import is_user_code, package_of

_MOST_SAID = 1 << 20
"""Bytes of what pickle says, besides the memory. What takes more is no table of numbers."""
_MOST_COPIED = 1 << 23
"""Bytes of what is small, and copied: it may be changed in place."""
_DEPTH = 3


class Noted(NamedTuple):
    """Holds the memory, not the table: whoever counts who has a column must not find one more."""

    said: bytes
    memory: list[Any]


class _NoTable(Exception):
    """It says too much, or has parts of the user's: to put those together would run code of theirs."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> None:
        code = obj if isinstance(obj, (type, types.FunctionType)) else type(obj)
        if type(obj) not in ATOMS and is_user_code(code):
            raise _NoTable

    def reducer_override(self, obj: Any) -> Any:
        """Dates would be copied into what pickle says: NumPy lends nobody their memory."""
        if bases.is_array(obj) and obj.dtype.kind in "mM" and obj.flags.c_contiguous:
            return _as_dates, (obj.view("i8"), obj.dtype)
        return NotImplemented


def _as_dates(numbers: Any, dtype: Any) -> Any:
    return numbers.view(dtype)


class _Little(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + len(data) > _MOST_SAID:
            raise _NoTable
        return super().write(data)


def note(value: Any) -> Noted | None:
    """What it takes to put it together again; None if it is no table, nor made of tables."""
    if not _is_of_tables(value, _DEPTH):
        return None
    memory: list[Any] = []
    copied = [0]

    def take(buffer: pickle.PickleBuffer) -> None:
        raw = buffer.raw()
        if raw.nbytes >= values.LARGE:
            if not _keeps_itself(raw.obj):
                raise _NoTable
            memory.append(buffer)
            return
        copied[0] += raw.nbytes
        if copied[0] > _MOST_COPIED:
            raise _NoTable
        memory.append(bytes(raw) if raw.readonly else bytearray(raw))

    said = _Little()
    try:
        _Pickler(said, protocol=5, buffer_callback=take).dump(value)
    except Exception:  # whatever pickling may raise: then it has to be named beforehand
        return None
    return Noted(said.getvalue(), memory)


def put_together(noted: Noted) -> Any:
    """The table as it was, if its memory is what it was."""
    return pickle.loads(noted.said, buffers=noted.memory)  # noqa: S301  # it was written by this process


def _keeps_itself(exporter: Any) -> bool:
    """Is it NumPy's or Arrow's own memory? A file that is mapped cannot be closed, and a bytearray not become longer,
    as long as somebody looks into it."""
    if package_of(type(exporter)) == "pyarrow":
        return True
    owner: Any = bases.owner_of(exporter) if bases.is_array(exporter) else None
    return bases.is_array(owner) and bool(owner.flags.owndata)


def _is_of_tables(value: Any, depth: int) -> bool:
    """Is it an array, a frame or a column, or a few of those in a dict or list?"""
    kind = type(value)
    if kind in ATOMS:
        return True
    if kind in (dict, list, tuple):
        inside = value.values() if kind is dict else value
        few = depth > 0 and len(value) <= 100
        return few and all(_is_of_tables(part, depth - 1) for part in (*inside, *(value if kind is dict else ())))
    named = kind.__name__ in ("DataFrame", "Series", "ndarray")
    return named and package_of(kind) in ("pandas", "numpy")

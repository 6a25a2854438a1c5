"""Encoders that beat pickle clearly for one type.

Arrays of Python strings (the object columns of a DataFrame): pickle writes and reads them one by one, Arrow all at
once. Used only when every element is exactly a `str` or `None`, so that what comes back is what went in, and only
when pyarrow is installed; anything else is left to pickle.
"""

from __future__ import annotations

import pickle
from typing import Any

from nbcheckpoint.codec.pickle import register_reducer

MANY = 10_000
"""Fewer strings than this are not worth importing pyarrow for."""


def register() -> None:
    """What the entry point calls."""
    register_reducer("numpy.ndarray", reduce_strings)


def reduce_strings(array: Any) -> Any:
    """An object array of strings as Arrow buffers, which leave the pickle stream like any other buffer."""
    if array.dtype.kind != "O" or array.size < MANY:
        return NotImplemented
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    flat = array.ravel(order=order)
    if not set(map(type, flat)) <= {str, type(None)}:
        return NotImplemented
    try:
        import pyarrow as pa

        column = pa.array(flat, type=pa.large_string(), from_pandas=False)
    except (ImportError, UnicodeError, ValueError, TypeError):  # lone surrogates are not UTF-8
        return NotImplemented
    buffers = [None if buffer is None else pickle.PickleBuffer(buffer) for buffer in column.buffers()]
    made = (array.shape, order, len(column), column.null_count, column.offset, buffers)
    return _strings, made if array.flags.writeable else (*made, False)


def _strings(
    shape: tuple[int, ...],
    order: Any,
    length: int,
    nulls: int,
    offset: int,
    buffers: list[Any],
    writeable: bool = True,
) -> Any:
    import pyarrow as pa

    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    column = pa.Array.from_buffers(pa.large_string(), length, held, null_count=nulls, offset=offset)
    made = column.to_numpy(zero_copy_only=False).reshape(shape, order=order)
    made.flags.writeable = writeable
    return made

"""What an array lies in: the way from a view to whom its memory belongs, also where that leads through something else.

A row of a structured array is a scalar, and a view all the same: writing to it shows in the array.
"""

from __future__ import annotations

import sys
from typing import Any


def is_array(obj: Any) -> bool:
    """An array of NumPy's, or of a class made from it. NumPy is never imported for this."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


def is_of_rows(kind: type) -> bool:
    """Are its instances rows of structured arrays, or what became of them?"""
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.void)


def is_row(obj: Any) -> bool:
    """A row that is a view of a structured array."""
    return is_of_rows(type(obj)) and is_array(obj.base)


def as_array(row: Any) -> Any:
    """A row as an array without axes, in the same memory: indexed with `()`, it is that row."""
    import numpy

    root = root_of(row)
    made = numpy.ndarray((), row.dtype, buffer=in_order(root)[0], offset=address(row) - address(root))
    if not row.flags.writeable:
        made.flags.writeable = False
    return made


def base_of(array: Any) -> Any:
    """The array it is a view of; else what its memory belongs to; None if that is itself."""
    base = array.base
    while base is not None and not is_array(base):
        behind = _behind(base, array)
        if behind is None:
            return base
        base = behind
    return base


def root_of(array: Any) -> Any:
    """The last array on the way."""
    base = base_of(array)
    return root_of(base) if is_array(base) else array


def owner_of(array: Any) -> Any:
    """What the memory belongs to: that array, or what it was laid over."""
    root = root_of(array)
    base = base_of(root)
    return root if base is None else base


def is_one_block(owner: Any) -> bool:
    """Is that memory, so that the distance between two places in it means something? An object of a library's may have
    several blocks of it, which lie elsewhere next time: a tree of scikit-learn's."""
    if is_array(owner):
        return True
    try:
        memoryview(owner).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def without_padding(array: Any) -> Any:
    """The bytes that count of an array of `longdouble`: most processors compute with ten, which lie sixteen apart, and
    nobody writes to those between."""
    import numpy

    wide = numpy.dtype(numpy.longdouble)
    used = 10 if numpy.finfo(wide).nmant == 63 else wide.itemsize
    return numpy.ascontiguousarray(array.view(numpy.ndarray)).view("u1").reshape(-1, wide.itemsize)[:, :used].copy()


def address(array: Any) -> int:
    """Where its first item lies."""
    return int(array.__array_interface__["data"][0])


def in_order(array: Any) -> tuple[Any, tuple[int, ...]]:
    """The same array with its axes in the order of memory, and the axes that undo this."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return array.transpose(order), tuple(order.index(axis) for axis in range(array.ndim))


def lies_in(array: Any, other: Any) -> bool:
    """Is all of its memory within that of the other?"""
    (low, high), (first, last) = bounds(array), bounds(other)
    return first <= low and high <= last


def bounds(array: Any) -> tuple[int, int]:
    """Where its memory begins, and where it has ended."""
    low = high = address(array)
    if not array.size:
        return low, low
    for count, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, (count - 1) * stride), high + max(0, (count - 1) * stride)
    return low, high + int(array.itemsize)


def _behind(base: Any, array: Any) -> Any:
    """An array that is held by something that is none: NumPy's windows, its iterators, a view of memory."""
    import numpy

    if isinstance(base, numpy.nditer):
        return _operand(base, array)
    held = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return held if is_array(held) else None


def _operand(iterator: Any, array: Any) -> Any:
    """What an iterator goes through there; None if it goes through a copy, or is closed."""
    try:
        operands = iterator.operands
    except ValueError:  # closed
        return None
    return next((one for one in operands if lies_in(array, one)), None)

"""Arrays on their way into a pickle: how they lie in memory, and which of them share it, comes back with them.

Both can be seen. Writing through one view shows in the other; and whether `a.reshape(-1)` is a view or a copy, so
whether a write to it shows in `a`, follows from the strides of `a`. NumPy's own pickle keeps neither: every array
comes back alone, and contiguous.

- An array with gaps or in an unusual order is written densely, with its strides, and laid out again.
- Arrays that share memory are written as views of one *anchor*: the array that owns the memory, or the one inside of a
  data frame. That there are two of them shows only at the second, so then everything is written once more.
- Frames share memory with each other and copy it on writing; they keep count of who shares, so each gets its own.
- What cannot be brought back this way raises Unshareable, and is named: rather not saved than saved as something else.

Not kept: the array a view was cut from, where nothing but the view's own `base` refers to it any more.
"""

from __future__ import annotations

import array as builtin_array
import operator
import pickle
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from nbcheckpoint import tensors, unpickled
from nbcheckpoint.bases import address, as_array, in_order, is_array, lies_in, root_of
from nbcheckpoint.codec.faithful import with_attributes

SMALL = 1 << 16
"""Below this an array that owned its memory does so again (and can be resized). Larger ones may be mapped files."""


class Unshareable(pickle.PicklingError):
    """Memory that would have to be shared with something in a way that cannot be written down."""


class Anchors(NamedTuple):
    """What the first pass has found out for the second."""

    of: dict[int, Any]
    """Id of the array that owns some memory -> the array whose views lie in it."""
    apart: dict[int, Any]
    """Arrays inside of frames, by id."""


NOTHING_YET = Anchors({}, {})


class Memory:
    """The arrays one pickler has met, by the memory they lie in."""

    def __init__(self, anchors: Anchors = NOTHING_YET) -> None:
        self._anchors = anchors
        self._apart = dict(anchors.apart)
        self._met: dict[int, tuple[Any, dict[int, Any]]] = {}
        """Id of the array that owns the memory -> it, and the arrays met in it, all held so that ids stay theirs."""
        self._in_frames: dict[int, dict[int, Any]] = {}
        """The same -> arrays of frames that nobody else shares."""
        self.of_tensors: list[Any] = []
        """Memory of torch's that was met."""

    def anchors(self) -> Anchors:
        """Everything that has to be written as views, as far as this pass could tell."""
        found = dict(self._anchors.of)
        for key, (root, arrays) in self._met.items():
            frames = tuple(self._in_frames.get(key, {}).values())
            if len(frames) == 1:
                found[key] = frames[0]
            elif len(arrays) > 1:
                # What is in a frame that others share stays its own: the rest are views of the same once more.
                found[key] = root.view() if id(root) in self._apart else root
        return Anchors(found, self._apart)

    def check(self) -> None:
        """All is written. Raises Unshareable if an array lies in the memory of a tensor, or the other way round, or in
        that of another array, and nothing says how that comes."""
        roots = [root for root, _ in self._met.values()]
        if self.of_tensors and tensors.touching(self.of_tensors)([*roots, *self._apart.values()]):
            raise Unshareable("an array and a tensor share memory")
        if not all(root.flags.owndata for root in roots) and _overlap(roots):
            raise Unshareable("two arrays share memory")

    def meet_frame(self, part: Any) -> None:
        """A part of a frame or a column: its arrays are not to be views of anything, if it is copied on writing."""
        if not _copies_on_write():
            return
        if type(part).__name__ == "SingleBlockManager":  # of a column; it writes what is in its block, not the block
            part = part.blocks[0]
        is_block = type(part).__name__.endswith("Block")
        for name in ("_values", "values") if is_block else ("_data", "_ndarray"):
            found = getattr(part, name, None)
            if not is_array(found):
                continue
            self._apart[id(found)] = found
            refs = getattr(part, "refs", None)
            if is_block and refs is not None and not refs.has_reference():
                self._in_frames.setdefault(id(root_of(found)), {})[id(found)] = found

    def reduce(self, array: Any) -> Any:
        """What `__reduce_ex__` would return, or NotImplemented to leave it to NumPy."""
        import numpy

        root = root_of(array)
        if isinstance(root, numpy.memmap) and root.base is not None:
            written = getattr(root, "mode", None) in ("r+", "w+")
            raise Unshareable("an array mapped to a file it is written to" if written else "a view of a file")
        if isinstance(root.base, numpy.nditer):
            raise Unshareable("it lies in the memory of an iterator")
        if id(array) in self._apart:
            return self._laid_out(array)
        foreign = _foreign(array)
        if foreign is not None:
            return _view(foreign, _address_of(foreign), array)
        self._met.setdefault(id(root), (root, {}))[1][id(array)] = array
        anchor = self._anchors.of.get(id(root))
        if anchor is None or anchor is array:
            return self._laid_out(array)
        if not lies_in(array, anchor):
            raise Unshareable("it shares memory with something else")
        return _view(anchor, address(anchor), array)

    def reduce_row(self, row: Any) -> Any:
        """The same for a row that is a view of a structured array."""
        try:
            return operator.getitem, (as_array(row), ())
        except (TypeError, ValueError) as error:
            raise Unshareable("it shares memory with something else") from error

    def _laid_out(self, array: Any) -> Any:
        import numpy

        flags = array.flags
        if type(array) is not numpy.ndarray:
            more = unpickled.attributes_of(array)
            return with_attributes(array.__reduce__(), more) if more else NotImplemented
        if flags.c_contiguous or flags.f_contiguous:
            own = flags.owndata and flags.writeable and array.nbytes < SMALL
            return array.__reduce__() if own else NotImplemented
        dense, axes = in_order(array)
        if dense.flags.c_contiguous:
            self._apart[id(dense)] = dense  # it is the same array once more, not a view of it
            return _permute, (dense, axes)
        if array.dtype.hasobject and any(stride % array.itemsize for stride in array.strides):
            return NotImplemented
        once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
        dense = once.copy(order="C")
        self._apart[id(dense)] = dense
        return _spread, (dense, array.shape, array.strides, flags.writeable)


def _overlap(arrays: Iterable[Any]) -> bool:
    """Does one of them that can be written to lie in the memory of another?"""
    from numpy.lib.array_utils import byte_bounds

    spans = sorted((*byte_bounds(one), bool(one.flags.writeable)) for one in arrays if one.size)
    end, written_end = 0, 0
    for low, high, written in spans:
        if low < (end if written else written_end):
            return True
        end, written_end = max(end, high), max(written_end, high) if written else written_end
    return False


def _copies_on_write() -> bool:
    """As pandas does from 3 on. Before, frames and columns write into memory that they share, as arrays do."""
    pandas = sys.modules["pandas"]
    return not pandas.__version__.startswith(("1.", "2.")) or pandas.options.mode.copy_on_write is True


def _foreign(array: Any) -> Any:
    """What an array was laid over that is not an array: something that pickle writes, and others may hold too."""
    base = root_of(array).base
    owner = base.obj if isinstance(base, memoryview) else base
    return owner if isinstance(owner, (bytearray, builtin_array.array)) else None


def _address_of(foreign: Any) -> int:
    import numpy

    return address(numpy.frombuffer(foreign, dtype=numpy.uint8))


def _view(anchor: Any, start: int, array: Any) -> Any:
    import numpy

    known = type(array) in (numpy.ndarray, numpy.matrix, numpy.recarray)
    dense = not is_array(anchor) or in_order(anchor)[0].flags.c_contiguous
    alike = not array.dtype.hasobject or (is_array(anchor) and anchor.dtype == array.dtype)
    if not (known and dense and alike):
        raise Unshareable("it shares memory with something else")
    made = (anchor, array.shape, array.dtype, address(array) - start, array.strides, array.flags.writeable)
    return (_make_view, made) if type(array) is numpy.ndarray else (_make_view, (*made, type(array)))


def _make_view(
    anchor: Any, shape: Any, dtype: Any, offset: int, strides: Any, writeable: bool, kind: Any = None
) -> Any:
    import numpy

    memory = in_order(anchor)[0] if is_array(anchor) else anchor
    view = numpy.ndarray(shape, dtype, buffer=memory, strides=strides, offset=offset)
    if not writeable:
        view.flags.writeable = False
    elif not view.flags.writeable:
        raise Unshareable("it could be written to, unlike what it is a view of")
    return view if kind is None else view.view(kind)


def _permute(dense: Any, axes: tuple[int, ...]) -> Any:
    return dense.transpose(axes)


def _spread(dense: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool) -> Any:
    """The items of a dense array, laid out with those strides in memory of their own."""
    import numpy

    ends = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
    size, dtype = high - low + dense.itemsize, dense.dtype
    memory = numpy.empty(size // dense.itemsize, dtype) if dtype.hasobject else numpy.zeros(size, numpy.uint8)
    numpy.ndarray(dense.shape, dtype, buffer=memory, strides=strides, offset=-low)[...] = dense
    view = numpy.ndarray(shape, dtype, buffer=memory, strides=strides, offset=-low)
    view.flags.writeable = writeable
    return view

"""Arrays on their way into a pickle: how they lie in memory, and which of them share it, comes back with them.

Both can be seen. Writing through one view shows in the other; and whether `a.reshape(-1)` is a view or a copy, so
whether a write to it shows in `a`, follows from the strides of `a`. NumPy's own pickle keeps neither: every array
comes back alone, and contiguous.

- An array with gaps or in an unusual order is written densely, with its strides, and laid out again.
- Arrays that share memory are written as views of one *anchor*: the array that owns the memory, or the one inside of a
  data frame. That there are two of them shows only at the second, so then everything is written once more.
- Frames that share memory with each other and copy it on writing know of each other again (`frames.py`). They get each
  their own only where no array looks into it, and most of it is shown by none of them.
- What cannot be brought back this way raises Unshareable, and is named: rather not saved than saved as something else.

Not kept: the array a view was cut from, where nothing but the view's own `base` refers to it any more.
"""

from __future__ import annotations

import array as builtin_array
import operator
import pickle
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from nbcheckpoint import refusing, tensors, unpickled
from nbcheckpoint.bases import address, as_array, in_order, is_array, lies_in, root_of
from nbcheckpoint.codec import frames
from nbcheckpoint.codec.faithful import Reducer, with_attributes

SMALL = 1 << 16
"""Below this an array that owned its memory does so again (and can be resized). Larger ones may be mapped files."""


_ITS_OWN = 4
"""References to what a block holds that are nobody's: the block's, and those of who asks."""


class Unshareable(pickle.PicklingError):
    """Memory that would have to be shared with something in a way that cannot be written down."""


class Anchors(NamedTuple):
    """What the first pass has found out for the second."""

    of: dict[int, Any]
    """Array that owns some memory others are views of, by id."""
    joined: frozenset[int] = frozenset()
    """Ids of counts to which somebody belongs who is not written."""


NOTHING_YET = Anchors({})


class Memory:
    """The arrays one pickler has met, by the memory they lie in."""

    def __init__(self, anchors: Anchors = NOTHING_YET) -> None:
        self._anchors = anchors
        self._apart: dict[int, Any] = {}
        """Arrays that are not views of anything, whatever they lie in, by id."""
        self._met: dict[int, tuple[Any, dict[int, Any]]] = {}
        """Id of the array that owns the memory -> it, and the arrays met in it, all held so that ids stay theirs."""
        self._lent: dict[int, dict[int, Any]] = {}
        """The same -> arrays that blocks of frames, or indexes, lie in."""
        self._counted: dict[int, Any] = {}
        """Blocks and indexes that were met, by id."""
        self._counts: dict[int, set[int]] = {}
        """Id of the array that owns the memory -> the counts of the blocks in it."""
        self._exposed: set[int] = set()
        """The same: somebody besides a frame can look into it."""
        self._held: set[int] = set()
        """Ids of what blocks and indexes that were met hold as their values."""
        self.of_tensors: list[Any] = []
        """Memory of torch's that was met."""

    def anchors(self) -> Anchors:
        """Everything that has to be written as views, as far as this pass could tell."""
        found = dict(self._anchors.of)
        for key in self._met.keys() | self._lent.keys():
            root, seen = self._met.get(key, (None, {}))
            arrays = {**seen, **self._lent.get(key, {})}
            root = root_of(next(iter(arrays.values()))) if root is None else root
            exposed = seen or key in self._exposed or len(self._counts.get(key, ())) > 1
            if len(arrays) > 1 and (exposed or _is_shown(root, arrays.values())):
                found[key] = root
        return Anchors(found, frozenset(self._joined_by_others()))

    def _joined_by_others(self) -> Iterator[int]:
        counts = {id(count): count for count in map(frames.count_of, self._counted.values()) if count is not None}
        for key, count in counts.items():
            if any(id(one) not in self._counted for one in frames.members(count)):
                yield key

    def check(self) -> None:
        """All is written. Raises Unshareable if an array lies in the memory of a tensor, or the other way round, or in
        that of another array, and nothing says how that comes."""
        roots = [root for root, _ in self._met.values()]
        lent = [array for arrays in self._lent.values() for array in arrays.values()]
        if self.of_tensors and tensors.touching(self.of_tensors)([*roots, *lent]):
            raise Unshareable("an array and a tensor share memory")
        if not all(root.flags.owndata for root in roots) and _overlap(roots):
            raise Unshareable("two arrays share memory")

    def reduce_part(self, part: Any) -> Any:
        """The same as `reduce` for something of pandas', which may be a part of a frame."""
        if not frames.copy_on_write():
            return NotImplemented
        if frames.is_count(part):
            return frames.reduce_count(part, id(part) in self._anchors.joined)
        if frames.is_block(part):
            return part.__reduce__()  # `__reduce_ex__` makes a copy of what has gaps
        blocks = frames.blocks_of(part)
        for one in blocks or ((part,) if frames.is_index(part) else ()):
            self._meet(one, one.values if blocks else one._data)
        if id(part) not in self._held and frames.is_wrapped(part):
            self._exposed.update(id(root_of(array)) for array in frames.memory_of(part))
        return frames.reduce_counted(part) if blocks or frames.is_index(part) else NotImplemented

    def _meet(self, part: Any, values: Any) -> None:
        """A block or an index, and what it holds."""
        self._counted[id(part)] = part
        self._held.add(id(values))
        for array in frames.memory_of(values):
            key = id(root_of(array))
            self._lent.setdefault(key, {})[id(array)] = array
            self._counts.setdefault(key, set()).update({id(part.refs)} if frames.is_block(part) else ())
            if frames.is_wrapped(values) and sys.getrefcount(values) > _ITS_OWN:
                self._exposed.add(key)  # `s.array` is the very object the block holds

    def reduce(self, array: Any, typed: Reducer | None = None) -> Any:
        """What `__reduce_ex__` would return, or NotImplemented to leave it to NumPy. `typed` may know a better way to
        write one that is no view."""
        import numpy

        root = root_of(array)
        if isinstance(root, numpy.memmap) and root.base is not None:
            written = getattr(root, "mode", None) in ("r+", "w+")
            raise Unshareable("an array mapped to a file it is written to" if written else "a view of a file")
        if isinstance(root.base, numpy.nditer):
            raise Unshareable("it lies in the memory of an iterator")
        anchor = self._anchors.of.get(id(root))
        lent = id(array) in self._lent.get(id(root), {})
        if id(array) in self._apart or (lent and anchor is None):
            return self._laid_out(array, typed)
        foreign = _foreign(array)
        if foreign is not None:
            return _view(foreign, _address_of(foreign), array)
        if not lent:
            self._met.setdefault(id(root), (root, {}))[1][id(array)] = array
        if anchor is None or anchor is array:
            return self._laid_out(array, typed)
        if not lies_in(array, anchor):
            raise Unshareable("it shares memory with something else")
        return _view(anchor, address(anchor), array)

    def reduce_row(self, row: Any) -> Any:
        """The same for a row that is a view of a structured array."""
        try:
            return operator.getitem, (as_array(row), ())
        except (TypeError, ValueError) as error:
            raise Unshareable("it shares memory with something else") from error

    def _laid_out(self, array: Any, typed: Reducer | None) -> Any:
        import numpy

        flags = array.flags
        if type(array) is not numpy.ndarray:
            more = unpickled.attributes_of(array)
            if not flags.writeable:  # of which the pickles of other classes say nothing
                rebuild, given, state = refusing.reduce_array(array)
                return rebuild, given, (state, more), None, None, _fill_closed_kind
            return with_attributes(refusing.reduce_array(array), more) if more else NotImplemented
        if flags.c_contiguous or flags.f_contiguous:
            made = typed(array) if typed is not None else NotImplemented
            if made is not NotImplemented:
                return made
            if not flags.writeable:
                return self._closed(array)
            if array.nbytes < SMALL:
                return array.__reduce__() if flags.owndata else NotImplemented
            if array.dtype.kind in "mM":  # which NumPy shows to nobody as it is, so pickle would copy it
                numbers = array.view("i8")
                self._apart[id(numbers)] = numbers
                return numpy.ndarray.view, (numbers, array.dtype)
            return NotImplemented
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

    def _closed(self, array: Any) -> Any:
        """One that cannot be written to; but whose owner can say that it may be, if it can now."""
        open_ = array.view()
        try:
            open_.flags.writeable = True
        except ValueError:
            in_stream = array.dtype.hasobject or array.dtype.kind in "mM"  # NumPy's pickles of these do not say
            return (*array.__reduce__(), None, None, _fill_closed) if in_stream else NotImplemented
        self._apart[id(open_)] = open_
        return _close, (open_,)


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


def _foreign(array: Any) -> Any:
    """What an array was laid over that is not an array: something that pickle writes, and others may hold too."""
    base = root_of(array).base
    owner = base.obj if isinstance(base, memoryview) else base
    return owner if isinstance(owner, (bytearray, builtin_array.array)) else None


def _address_of(foreign: Any) -> int:
    import numpy

    return address(numpy.frombuffer(foreign, dtype=numpy.uint8))


def _is_shown(root: Any, arrays: Collection[Any]) -> bool:
    """Would writing all of the memory be no more than writing each of them?"""
    return root.nbytes <= sum(array.nbytes for array in arrays) and all(
        array is root or (lies_in(array, root) and _fits(root, array)) for array in arrays
    )


def _fits(anchor: Any, array: Any) -> bool:
    """Can it be made again as a view of that?"""
    import numpy

    known = type(array) in (numpy.ndarray, numpy.matrix, numpy.recarray)
    dense = not is_array(anchor) or in_order(anchor)[0].flags.c_contiguous
    alike = not array.dtype.hasobject or (is_array(anchor) and anchor.dtype == array.dtype)
    return known and dense and alike


def _view(anchor: Any, start: int, array: Any) -> Any:
    import numpy

    if not _fits(anchor, array):
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


def _close(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _fill_closed(array: Any, state: Any) -> None:
    array.__setstate__(state)
    array.flags.writeable = False


def _fill_closed_kind(array: Any, state: tuple[Any, dict[str, Any]]) -> None:
    _fill_closed(array, state[0])
    if state[1]:
        vars(array).update(state[1])


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

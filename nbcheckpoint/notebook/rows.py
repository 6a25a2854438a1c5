"""pandas' own iterators, in a form that can be saved.

`iterrows`, groups, indexes and columns of text are gone through by generators, which cannot be pickled. But it is known
what those of pandas hold: the frame they belong to, a copy or a view of its values, and how far they have come. So an
iterator is made of the very same objects that gives what they have yet to give. It is pickled together with the
variables, so that whatever they share stays shared: a row that would have shown what the loop writes goes on doing so.

What pandas does for each item is written out here once more. Where its code is not the one this was written after, the
generator stays what it is.
"""

from __future__ import annotations

import gc
import inspect
import operator
import sys
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

_STEPPED = (type(iter(range(0))), type(iter(type("sequence", (), {"__getitem__": None})())))
"""Iterators of ranges and arrays, which can be pickled."""
_ROWS_ASK: tuple[str, ...] = ("columns", "_constructor_sliced", "zip", "index", "values", "__finalize__")
_ROWS_ASK += ("_mgr", "is_single_block", "add_references")
_COLUMNS_ASK = ("enumerate", "columns", "_ixs")
_GROUPS_ASK: tuple[str, ...] = (
    "ngroups",
    "lib",
    "generate_slices",
    "_slabels",
    "_sorted_data",
    "type",
    "_sorted_cls",
    "bool",
    "attrs",
    "_flags",
    "_allows_duplicate_labels",
    "zip",
    "_chop",
    "slice",
)
"""What their code asks for: if it is that, it is the code which is written out here."""


class Rows:
    """What `DataFrame.iterrows` has yet to give."""

    def __init__(self, frame: Any, columns: Any, pairs: Iterator[Any]) -> None:
        self._frame, self._columns, self._pairs = frame, columns, pairs

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> Any:
        label, values = next(self._pairs)
        frame = self._frame
        row = frame._constructor_sliced(values, index=self._columns, name=label).__finalize__(frame)
        if frame._mgr.is_single_block:
            row._mgr.add_references(frame._mgr)
        return label, row


class Columns:
    """What `DataFrame.items` has yet to give: columns as they are when they are asked for."""

    def __init__(self, frame: Any, labels: Iterator[Any]) -> None:
        self._frame, self._labels = frame, labels

    def __iter__(self) -> Columns:
        return self

    def __next__(self) -> Any:
        at, label = next(self._labels)
        return label, self._frame._ixs(at, axis=1)


class Groups:
    """What the groups of a `groupby` have yet to be cut from, and where."""

    def __init__(self, cutter: Any, of: Any, finalize: bool, bounds: Iterator[Any]) -> None:
        self._cutter, self._of, self._finalize, self.bounds = cutter, of, finalize, bounds

    def __iter__(self) -> Groups:
        return self

    def __next__(self) -> Any:
        start, end = next(self.bounds)
        return self._cutter._chop(self._of, slice(start, end), self._finalize)


class Keyed:
    """Groups by a list of one key: it comes as a tuple."""

    def __init__(self, groups: Iterator[Any]) -> None:
        self._groups = groups

    def __iter__(self) -> Keyed:
        return self

    def __next__(self) -> Any:
        key, group = next(self._groups)
        return (key,), group


_OURS = (Rows, Columns, Groups, Keyed)


def are_new(iterator: Any) -> bool:
    """Has none of the generators that it asks given anything yet?"""
    if type(iterator) in (enumerate, map, zip):
        return all(map(are_new, iterator.__reduce__()[1]))
    return type(iterator) is not types.GeneratorType or inspect.getgeneratorstate(iterator) == inspect.GEN_CREATED


def at_rest(iterator: Any, given: int | None = None) -> Any:
    """An iterator that gives what this one has yet to give, and can be saved; or itself, if it is not known how.

    `given`: how many items it has given, and each of those it asks, if that is known. Who else holds one of them cannot
    be saved, as ever.
    """
    if type(iterator) in (enumerate, map, zip):
        return _asking(iterator, given)
    if type(iterator) is types.GeneratorType and _is_of_pandas(iterator):
        made = _of_generator(iterator, given)
        return iterator if made is None else made
    return iterator


def _asking(iterator: Any, given: int | None) -> Any:
    """The same that asks others which are at rest. If there are none, it stays the object it is: others may hold it."""
    kind, asked, *strict = iterator.__reduce__()
    if any(count > 1 for count in Counter(map(id, _generators(iterator))).values()):  # two would be made of one
        return iterator
    made = [at_rest(one, given) for one in asked]
    if all(map(operator.is_, made, asked)) or not all(map(_gives_itself, made)):
        return iterator
    return kind(*made, strict=True) if strict == [True] else kind(*made)


def _generators(iterator: Any) -> Iterator[Any]:
    """All that it asks, as often as it asks them."""
    if type(iterator) in (enumerate, map, zip):
        for one in iterator.__reduce__()[1]:
            yield from _generators(one)
    elif type(iterator) is types.GeneratorType:
        yield iterator


def _gives_itself(one: Any) -> bool:
    """When it is asked for an iterator? One of the user's may begin anew then."""
    asks = getattr(type(one), "__iter__", None)
    return asks is None or type(one) in _OURS or isinstance(asks, types.WrapperDescriptorType)


def _is_of_pandas(generator: Any) -> bool:
    """Of that pandas whose code is known here?"""
    pandas: Any = sys.modules.get("pandas")
    frame = generator.gi_frame
    if frame is None or not hasattr(pandas, "__version__"):
        return False
    home = str(frame.f_globals.get("__name__"))
    return home.startswith("pandas.core.") and pandas.__version__.partition(".")[0] == "3"


def _of_generator(generator: Any, given: int | None) -> Any:
    """The same at rest, or None."""
    name, asks, held = generator.__qualname__, generator.gi_code.co_names, _held_by(generator)
    if name == "RangeIndex.__iter__":
        return generator.gi_yieldfrom if type(generator.gi_yieldfrom) in _STEPPED else None
    if name == "ArrowExtensionArray.__iter__":
        return _texts(held, given)
    if name == "TimelikeOps.__iter__":
        return _times(generator, held)
    if name == "DataFrame.iterrows" and asks == _ROWS_ASK:
        return _rows(held)
    if name == "DataFrame.items" and asks == _COLUMNS_ASK:
        return _columns(held)
    if name == "DataSplitter.__iter__" and asks == _GROUPS_ASK:
        return _groups(held)
    if name == "BaseGrouper.get_iterator" and type(generator.gi_yieldfrom) is zip:
        return _keys_and_groups(*generator.gi_yieldfrom.__reduce__()[1])
    if name == "BaseGroupBy.__iter__.<locals>.<genexpr>":
        of = _only(held, types.GeneratorType)
        groups = at_rest(of)
        return Keyed(groups) if groups is not of else None
    return None


def _held_by(generator: Any) -> list[Any]:
    """What its variables and the loops in it refer to. Not asked by name: who asks a frame for its variables makes it
    keep them, and a row that somebody keeps has pandas copy what is written."""
    held = gc.get_referents(generator)
    return [*held, *(part for one in held if type(one) is types.FrameType for part in gc.get_referents(one))]


def _only(held: Sequence[Any], kinds: type | tuple[type, ...]) -> Any:
    """The one of that kind, if there is one, and no other."""
    found = {id(one): one for one in held if issubclass(type(one), kinds)}
    return next(iter(found.values())) if len(found) == 1 else None


def _rows(held: Sequence[Any]) -> Any:
    import pandas

    frame, columns, pairs = _only(held, pandas.DataFrame), _only(held, pandas.Index), _only(held, zip)
    if type(frame) is not pandas.DataFrame or columns is None or pairs is None:
        return None
    labels, values = pairs.__reduce__()[1]
    return Rows(frame, columns, zip(_labels(labels, _given_by(values)), values, strict=True))


def _columns(held: Sequence[Any]) -> Any:
    import pandas

    frame, labels = _only(held, pandas.DataFrame), _only(held, enumerate)
    if type(frame) is not pandas.DataFrame or labels is None:
        return None
    asked, count = labels.__reduce__()[1]
    return Columns(frame, enumerate(_labels(asked, count), count))


def _groups(held: Sequence[Any]) -> Any:
    import pandas
    from pandas.core.groupby.ops import DataSplitter

    splitter, of = _only(held, DataSplitter), _only(held, (pandas.DataFrame, pandas.Series))
    finalize, bounds = _only(held, bool), _only(held, zip)
    if splitter is None or of is None or finalize is None or bounds is None:
        return None
    cutter = object.__new__(type(splitter))  # what the other holds was needed to begin with
    return Groups(cutter, of, finalize, bounds)


def _keys_and_groups(keys: Any, groups: Any) -> Any:
    groups = at_rest(groups)
    return zip(_labels(keys, _given_by(groups.bounds)), groups, strict=True) if type(groups) is Groups else None


def _given_by(iterator: Any) -> int | None:
    """How many items something that goes through an array has given, or what goes through several at once."""
    if type(iterator) is zip:
        return _given_by(iterator.__reduce__()[1][0])
    how: tuple[Any, ...] = iterator.__reduce__() if type(iterator) in _STEPPED else ()
    return how[2] if len(how) == 3 else None


def _labels(iterator: Any, given: int | None) -> Any:
    """The same of an index: whose values nobody can change."""
    if type(iterator) is not types.GeneratorType or not _is_of_pandas(iterator) or given is None:
        return at_rest(iterator, given)
    import pandas

    array = _only(_held_by(iterator), pandas.api.extensions.ExtensionArray)
    gives = {"TimelikeOps.__iter__": "mM", "ArrowExtensionArray.__iter__": "O"}.get(iterator.__qualname__, "")
    known = array is not None and array.dtype.kind in gives and (gives != "O" or _is_text(array))
    return _behind(array, given) if known else at_rest(iterator, given)


def _texts(held: Sequence[Any], given: int | None) -> Any:
    """The same of text: that is never changed where it lies, but the array may hold another one by now."""
    import pandas

    array = _only(held, pandas.api.extensions.ExtensionArray)
    if array is None or given is None or not _is_text(array):
        return None
    inside = (part for one in held if "generator" in type(one).__name__ for part in gc.get_referents(one))
    goes_through = any(part is array._pa_array for one in inside for part in gc.get_referents(one))
    return _behind(array.copy(), given) if goes_through else None


def _times(generator: Any, held: Sequence[Any]) -> Any:
    """The same of dates and times, which are made of numbers so many at once: the rest of them, if those are all."""
    import pandas

    array = _only(held, pandas.api.extensions.ExtensionArray)
    made, at_once = generator.gi_yieldfrom, generator.gi_frame.f_globals.get("_ITER_CHUNKSIZE", 0)
    return made if array is not None and len(array) <= at_once and type(made) in _STEPPED else None


def _is_text(array: Any) -> bool:
    import pandas

    return isinstance(array.dtype, pandas.StringDtype)


def _behind(array: Any, given: int) -> Any:
    return map(array.__getitem__, range(given, len(array)))

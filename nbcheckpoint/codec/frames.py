"""Parts of data frames and columns on their way into a pickle: who lies in whose memory comes back with them.

From pandas 3 on, frames and columns that lie in the same memory keep count of each other, and who is about to write
copies it first if he is not alone. Whether he is can be seen: an array that looks into his memory shows what he writes
only as long as he is. pandas' own pickles leave the counts out, so whoever comes back would be alone.

A count is written as an object of its own, and all that belong to it join it again. They need not lie in the same
memory: as long as no array looks into it, only the count can be told. So those can join it, too, who come back beside
others that were not saved with them: what a statement has cut out of its inputs belongs to the counts of its inputs,
then and now (`beside`).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from nbcheckpoint.bases import is_array
from nbcheckpoint.unpickled import is_frame

MANY, MAX_LOOKED_AT = 100, 1000
"""Frames are looked for in containers that hold no more than this, and among so many objects."""
Counts = Mapping[str, Any]
_beside: ContextVar[Counts] = ContextVar("beside", default={})  # noqa: B039  # nobody writes to it


@contextmanager
def beside(counts: Counts) -> Iterator[None]:
    """What is written in here says which of these counts it belongs to, and what is restored joins them again."""
    token = _beside.set(counts)
    try:
        yield
    finally:
        _beside.reset(token)


def counts_in(values: Mapping[str, Any]) -> Counts:
    """The counts of frames and columns, by where they are; as far as a quick look finds them."""
    found: dict[str, Any] = {}
    if not copy_on_write():
        return found
    waiting = deque(values.items())
    for _ in range(MAX_LOOKED_AT):
        if not waiting:
            break
        path, value = waiting.popleft()
        if is_frame(type(value)):
            found.update({f"{path}/{at}": block.refs for at, block in enumerate(blocks_of(value._mgr))})
        else:
            waiting.extend((f"{path}/{key!r}", part) for key, part in _inside(value) if type(key) in (str, int))
    return found


def _inside(value: Any) -> Iterable[tuple[Any, Any]]:
    if type(value) in (list, tuple):
        return enumerate(value) if len(value) <= MANY else ()
    inside = value
    kind: Any = type(value)
    if kind.__getattribute__ is object.__getattribute__:  # nobody's code is to run for this
        inside = getattr(value, "__dict__", None)
    return inside.items() if type(inside) is dict and len(inside) <= MANY else ()


def copy_on_write() -> bool:
    """As pandas does from 3 on. Before, frames and columns write into memory that they share, as arrays do."""
    pandas: Any = sys.modules.get("pandas")
    if not hasattr(pandas, "Index"):
        return False
    return not pandas.__version__.startswith(("1.", "2.")) or pandas.options.mode.copy_on_write is True


def is_part(kind: type) -> bool:
    """Is it of those classes of pandas' that frames and columns consist of?"""
    pandas = sys.modules["pandas"]
    named = kind.__name__.endswith(("Block", "BlockManager", "BlockValuesRefs"))
    return named or issubclass(kind, (pandas.Index, pandas.api.extensions.ExtensionArray))


def blocks_of(part: Any) -> tuple[Any, ...]:
    """What the memory of a frame's or column's insides is divided into; none for anything else."""
    return tuple(part.blocks) if type(part).__name__ in ("BlockManager", "SingleBlockManager") else ()


def is_block(part: Any) -> bool:
    """One of those."""
    return type(part).__name__.endswith("Block")


def is_index(part: Any) -> bool:
    """An index that may lie in memory of a column's: not one that is computed, or made of several."""
    pandas = sys.modules["pandas"]
    return isinstance(part, pandas.Index) and not isinstance(part, (pandas.RangeIndex, pandas.MultiIndex))


def is_count(part: Any) -> bool:
    """What those who lie in the same memory keep count by."""
    return type(part).__name__ == "BlockValuesRefs"


def memory_of(values: Any) -> Iterator[Any]:
    """The arrays in which the values of a block or an index lie."""
    found = [values] if is_array(values) else [getattr(values, n, None) for n in ("_ndarray", "_data", "_mask")]
    return (array for array in found if is_array(array))


def is_wrapped(values: Any) -> bool:
    """An array of pandas' own: dates, categories, numbers that may be missing, or just one around an array."""
    return isinstance(values, sys.modules["pandas"].api.extensions.ExtensionArray)


def count_of(part: Any) -> Any:
    """The count a block or an index belongs to, if it is not alone in it. Indexes among themselves never write."""
    count = part._references if is_index(part) else part.refs
    there = count.referenced_blocks if count is not None else ()  # there may be thousands: the first will do
    others = (one() for one in there)
    written = is_block(part)
    return count if any(o is not None and o is not part and (written or is_block(o)) for o in others) else None


def members(count: Any) -> list[Any]:
    """Everybody who is in a count, and still there."""
    there = (one() for one in list(count.referenced_blocks)) if count is not None else ()
    return [one for one in there if one is not None]


def reduce_count(count: Any, others: bool) -> Any:
    """`others`: somebody is in it who does not come back with it, and stays."""
    where = next((where for where, known in _beside.get().items() if known is count), "")
    return _make_count, (others, where)


def reduce_counted(part: Any) -> Any:
    """What `__reduce_ex__` would return, with the counts of its blocks, or its own; NotImplemented if it is alone."""
    counts = [count_of(one) for one in blocks_of(part) or (part,)]
    if not any(count is not None for count in counts):
        return NotImplemented
    made = part.__reduce_ex__(5)
    return made[0], made[1], (made[2] if len(made) > 2 else None, counts), None, None, _join


def join(part: Any, count: Any) -> None:
    """From now on it belongs to this count."""
    if is_index(part):
        part._references = count
        count.add_index_reference(part)
    else:
        part.refs = count
        count.add_reference(part)


def _join(part: Any, state: tuple[Any, list[Any]]) -> None:
    own, counts = state
    if own is not None:
        part.__setstate__(own)
    for one, count in zip(blocks_of(part) or (part,), counts, strict=True):
        if count is not None:
            join(one, count)


def _make_count(others: bool, where: str) -> Any:
    from pandas._libs.internals import BlockValuesRefs

    if where in _beside.get():
        return _beside.get()[where]
    made = BlockValuesRefs()
    if others:
        made.add_index_reference(_somebody())
    return made


@lru_cache(maxsize=1)
def _somebody() -> Any:
    """Stands for whoever else is in a count, for good."""
    import pandas

    return pandas.Index([])

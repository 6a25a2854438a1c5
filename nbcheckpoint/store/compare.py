"""Two checkpoints side by side: which names, which code, which inputs differ. Nothing is unpickled.

Whether a value changed is read off what was written down when it was saved: its content digest where both have
one, else type, shape, size and preview. Where all of these agree and there is no digest, the value counts as
unchanged only if the two checkpoints hold the very same bytes; otherwise it is listed as `maybe`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Literal

from nbcheckpoint.model import Blob, Checkpoint, Input, Record, Value

if TYPE_CHECKING:
    from nbcheckpoint.store import Store


class Difference(Record, frozen=True, kw_only=True):
    """One name that is not the same in both."""

    name: str
    change: Literal["added", "removed", "changed", "maybe"]
    before: str = ""
    """What it was, in a few words."""
    after: str = ""


class Diff(Record, frozen=True, kw_only=True):
    """What differs between checkpoints `a` and `b`. Shows itself as text, and as HTML in a notebook."""

    a: str
    b: str
    values: tuple[Difference, ...] = ()
    inputs: tuple[Difference, ...] = ()
    code: tuple[str, ...] = ()
    """A unified diff of the sources, line by line; empty when they are equal."""
    same_code: bool = True
    """Also of every function the source reaches."""

    @property
    def empty(self) -> bool:
        return not (self.values or self.inputs or self.code) and self.same_code

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.empty:
            yield "no difference"
        for title, rows in (("values", self.values), ("inputs", self.inputs)):
            if rows:
                yield f"{title}:"
            for row in rows:
                yield f"  {_SIGNS[row.change]} {row.name}: {_arrow(row)}"
        if self.code:
            yield "code:"
            yield from (f"  {line}" for line in self.code)
        elif not self.same_code:
            yield "code: the same here, but something it calls has changed"

    def _repr_html_(self) -> str:
        """Everything in it is the user's, or a stranger's: escaped, all of it."""
        return f"<pre>{escape(str(self))}</pre>"


_SIGNS = {"added": "+", "removed": "-", "changed": "~", "maybe": "?"}


def _arrow(row: Difference) -> str:
    if row.change == "maybe":
        return f"{row.after} (cannot tell whether it changed)"
    return " -> ".join(part for part in (row.before, row.after) if part)


def diff(store: Store, a: str, b: str) -> Diff:
    """What differs between two checkpoints, from `a` to `b`. Raises NotFound. Untrusted ones may be compared."""
    return compare(store.checkpoint(a), store.checkpoint(b))


def compare(a: Checkpoint, b: Checkpoint) -> Diff:
    """The same, for records at hand. Pure."""
    same_bytes = (_identity(a.stream), *map(_identity, a.buffers)) == (_identity(b.stream), *map(_identity, b.buffers))
    lines = difflib.unified_diff(a.source.splitlines(), b.source.splitlines(), a.id, b.id, lineterm="")
    return Diff(
        a=a.id,
        b=b.id,
        values=tuple(_values(a, b, same_bytes)),
        inputs=tuple(_inputs(a, b)),
        code=tuple(lines),
        same_code=a.code == b.code,
    )


def _identity(blob: Blob | None) -> object:
    return blob and (blob.size, blob.data, blob.chunks, blob.index)


def _values(a: Checkpoint, b: Checkpoint, same_bytes: bool) -> Iterator[Difference]:
    before = {value.name: value for value in a.values}
    after = {value.name: value for value in b.values}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            change: Literal["added", "removed"] = "added" if old is None else "removed"
            yield Difference(name=name, change=change, before=_say(old), after=_say(new))
        elif verdict := _verdict(old, new, same_bytes):
            yield Difference(name=name, change=verdict, before=_say(old), after=_say(new))


def _verdict(old: Value, new: Value, same_bytes: bool) -> Literal["changed", "maybe"] | None:
    if old.digest and new.digest:
        return None if old.digest == new.digest else "changed"
    if _look(old) != _look(new):
        return "changed"
    return None if same_bytes else "maybe"


def _look(value: Value) -> tuple[object, ...]:
    return value.type, value.shape, value.size, value.preview


def _say(value: Value | None) -> str:
    if value is None:
        return ""
    return " ".join(part for part in (value.type, value.shape, value.preview) if part)


def _inputs(a: Checkpoint, b: Checkpoint) -> Iterator[Difference]:
    before, after = ({item.name: item for item in (*some.inputs, *some.random)} for some in (a, b))
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            change: Literal["added", "removed"] = "added" if old is None else "removed"
            yield Difference(name=name, change=change, before=_say_input(old), after=_say_input(new))
        elif old.digest != new.digest or not old.digest:
            yield Difference(name=name, change="changed", before=_say_input(old), after=_say_input(new))
    yield from _files(a, b)


def _files(a: Checkpoint, b: Checkpoint) -> Iterator[Difference]:
    before, after = ({file.path: file for file in some.files if not file.written} for some in (a, b))
    for path in sorted(before.keys() & after.keys()):
        if before[path].digest != after[path].digest:
            sizes = (f"file, {before[path].size:,} bytes", f"file, {after[path].size:,} bytes")
            yield Difference(name=path, change="changed", before=sizes[0], after=sizes[1])


def _say_input(item: Input | None) -> str:
    return "" if item is None else " ".join(part for part in (item.type, item.preview) if part)

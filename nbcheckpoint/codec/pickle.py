"""Values <-> one pickle stream and its buffers.

Theory of operation. All values of a checkpoint go into *one* stream, so that what they share stays shared:
`a is b` before means `a is b` after. Large buffers (arrays) leave the stream and become blobs of their own:
they are written straight from the live object, without a copy, and mapped back on restore.

Definitions travel by reference. A function or class that lives in the notebook under its own name is written
as that name, so that what comes back uses the live definition (`isinstance` holds, functions see the live
globals). A lambda or closure has no such name: its code travels, bound to the live globals of the notebook.
cloudpickle's way, a private copy of everything, is used only with `definitions="value"`, for a process that
has no such notebook.

One bad value costs only itself: when the stream fails, each value is tried alone, the bad ones are reported
with the path to what is wrong inside them, and the others are written without them.
"""

from __future__ import annotations

import io
import pickle
import sys
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import cloudpickle

from nbcheckpoint.codec.chunks import BlobWriter
from nbcheckpoint.codec.preview import type_name
from nbcheckpoint.model import Blob, NotSaved

OUT_OF_BAND = 1 << 16
"""Smaller buffers stay in the stream: a blob of their own would cost more than it saves."""

Definitions = Literal["reference", "value"]


class Encoded(NamedTuple):
    stream: Blob
    buffers: tuple[Blob, ...]
    names: tuple[str, ...]
    """Those that are in the stream."""
    failed: tuple[NotSaved, ...]


def encode(values: Mapping[str, Any], writer: BlobWriter, *, definitions: Definitions = "reference") -> Encoded:
    """Write the values through `writer`. Never raises for a value: those it cannot write are in `failed`."""
    good = dict(values)
    failed: list[NotSaved] = []
    while True:
        try:
            stream, buffers = _dump(good, writer, definitions)
            return Encoded(stream, buffers, tuple(good), tuple(failed))
        except Exception as error:  # whatever a user's __reduce__ may raise
            bad = _find_bad(good, definitions)
            if not bad:
                # Each is fine alone and all together are not: nothing can be told apart, so none is saved.
                bad = [NotSaved(name=n, type=type_name(v), why=_say(error)) for n, v in good.items()]
            failed += bad
            for item in bad:
                del good[item.name]


def decode(stream: bytes | memoryview, buffers: Iterable[Any]) -> dict[str, Any]:
    """The values. Only ever called with a stream whose digest an authenticated record names."""
    return cast("dict[str, Any]", pickle.loads(stream, buffers=buffers))  # noqa: S301  # authenticated, see above


def _dump(values: dict[str, Any], writer: BlobWriter, definitions: Definitions) -> tuple[Blob, tuple[Blob, ...]]:
    blobs: list[Blob] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < OUT_OF_BAND:
            return True
        blobs.append(writer.blob(raw))
        return False

    stream = writer.stream()
    _pickler(definitions)(stream, protocol=5, buffer_callback=take).dump(values)
    return stream.close(), tuple(blobs)


def _pickler(definitions: Definitions) -> Callable[..., pickle.Pickler]:
    return NotebookPickler if definitions == "reference" else cloudpickle.Pickler


class NotebookPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle ships no types
    """cloudpickle, but what is alive in the notebook under its own name is written as that name."""

    def reducer_override(self, obj: Any) -> Any:
        for reducer in _reducers:
            reduced = reducer(obj)
            if reduced is not NotImplemented:
                return reduced
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
            if is_live(obj):
                return NotImplemented  # pickle's own way: by reference
            if isinstance(obj, types.FunctionType) and obj.__globals__ is sys.modules["__main__"].__dict__:
                return _reduce_nameless(obj)
        return super().reducer_override(obj)


Reducer = Callable[[Any], Any]
_reducers: list[Reducer] = []


def register_reducer(reducer: Reducer) -> None:
    """Add a typed encoder: takes any object, returns a reduce tuple for those it knows, else NotImplemented."""
    if reducer not in _reducers:
        _reducers.append(reducer)


def is_live(obj: type | types.FunctionType) -> bool:
    """Does its module hold this very object under its own name?"""
    found: Any = sys.modules.get(obj.__module__)
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is obj


def _reduce_nameless(function: types.FunctionType) -> tuple[Any, ...]:
    state = {
        "defaults": function.__defaults__,
        "kwdefaults": function.__kwdefaults__,
        "closure": [_cell(cell) for cell in function.__closure__ or ()],
        "dict": function.__dict__,
        "annotations": function.__annotations__,
    }
    cells = len(function.__closure__ or ())
    # Made empty first and filled by the state, so that a function may be part of its own closure.
    return (
        _make_nameless,
        (function.__code__, function.__name__, function.__qualname__, cells),
        state,
        None,
        None,
        _fill_nameless,
    )


def _cell(cell: types.CellType) -> tuple[bool, Any]:
    try:
        return True, cell.cell_contents
    except ValueError:  # a cell that is not filled yet
        return False, None


def _make_nameless(code: types.CodeType, name: str, qualname: str, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells))
    function = types.FunctionType(code, sys.modules["__main__"].__dict__, name, None, closure)
    function.__qualname__ = qualname
    return function


def _fill_nameless(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__defaults__ = state["defaults"]
    function.__kwdefaults__ = state["kwdefaults"]
    function.__annotations__ = state["annotations"]
    function.__dict__.update(state["dict"])
    for cell, (filled, content) in zip(function.__closure__ or (), state["closure"], strict=True):
        if filled:
            cell.cell_contents = content


class _Nowhere(io.RawIOBase):
    """Takes everything, keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def _try(value: Any, definitions: Definitions) -> Exception | None:
    try:
        pickler = _pickler(definitions)(_Nowhere(), protocol=5, buffer_callback=lambda _: False)
        pickler.dump(value)
    except Exception as error:  # whatever a user's __reduce__ may raise
        return error
    return None


def _find_bad(values: Mapping[str, Any], definitions: Definitions) -> list[NotSaved]:
    bad = []
    for name, value in values.items():
        error = _try(value, definitions)
        if error is not None:
            path, culprit = _where(name, value, definitions)
            why = _say(_try(culprit, definitions) or error)
            bad.append(NotSaved(name=name, type=type_name(culprit), why=why, path=path if path != name else ""))
    return bad


def _where(name: str, value: Any, definitions: Definitions, *, seconds: float = 1.0) -> tuple[str, Any]:
    """The innermost part that fails, and the path to it. Gives up going deeper after a second."""
    until = time.monotonic() + seconds
    path = name
    for _ in range(20):
        for step, part in _parts(value):
            if time.monotonic() > until:
                return path, value
            if part is not value and _try(part, definitions) is not None:
                path, value = path + step, part
                break
        else:
            return path, value
    return path, value


def _parts(value: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{key!r:.40}]" if type(key) in (str, int) else "[…]", item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"[{at}]", item) for at, item in enumerate(value)]
    if isinstance(value, types.FunctionType):
        cells = (cell for cell in map(_cell, value.__closure__ or ()) if cell[0])
        return [(f" closure {n}", c[1]) for n, c in zip(value.__code__.co_freevars, cells, strict=False)]
    attributes = getattr(value, "__dict__", None)
    return [(f".{key}", item) for key, item in attributes.items()] if isinstance(attributes, dict) else ()


def _say(error: Exception) -> str:
    """pickle's messages, as a person would say them."""
    text = str(error).partition("\n")[0]
    if isinstance(error, RecursionError) or "recursion" in text:
        return "nested too deeply to be pickled"
    if "cannot pickle" in text or "Can't pickle" in text or "can't pickle" in text:
        return "cannot be pickled"
    return f"{type(error).__name__}: {text}"[:200] if text else type(error).__name__

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
with the path to what is wrong inside them, and the others are written without them. The same on the way back: a
class that no longer exists costs only the values that contain one.

An object that an earlier checkpoint holds already, unchanged, may be written as a reference to it. Whoever decodes
says what the reference stands for: the live object, or the one restored from there.
"""

from __future__ import annotations

import copyreg
import gc
import importlib
import io
import logging
import pickle
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import entry_points
from sys import getrefcount
from typing import Any, Literal, NamedTuple, cast

import cloudpickle

from nbcheckpoint import over, patience, tensors
from nbcheckpoint.bases import is_array, is_of_rows, is_row
from nbcheckpoint.codec import faithful, frames, weak
from nbcheckpoint.codec.arrays import NOTHING_YET, Anchors, Memory, Unshareable
from nbcheckpoint.codec.chunks import BlobWriter
from nbcheckpoint.codec.preview import type_name
from nbcheckpoint.codec.weak import Weak
from nbcheckpoint.errors import StoreError
from nbcheckpoint.model import Blob, NotSaved
from nbcheckpoint.patience import TookTooLong
from nbcheckpoint.whose import home_of, name_of, package_of

OUT_OF_BAND = 1 << 16
"""Smaller buffers stay in the stream: a blob of their own would cost more than it saves."""

Definitions = Literal["reference", "value"]


class Reference(NamedTuple):
    """An object as an earlier checkpoint holds it."""

    checkpoint: str
    """Its id; "": the caller has it, and gives it back when it resolves the reference."""
    name: str


class Encoded(NamedTuple):
    stream: Blob
    buffers: tuple[Blob, ...]
    names: tuple[str, ...]
    """Those that are in the stream."""
    failed: tuple[NotSaved, ...]
    referred: tuple[Reference, ...] = ()
    """The references that were written instead of objects."""
    live: tuple[str, ...] = ()
    """Functions and classes of the notebook that were written as their names."""


class Decoded(NamedTuple):
    values: dict[str, Any]
    failed: dict[str, str]
    """Name -> why it could not be made again."""


def encode(
    values: Mapping[str, Any],
    writer: BlobWriter,
    *,
    definitions: Definitions = "reference",
    references: Mapping[int, Reference] | None = None,
) -> Encoded:
    """Write the values through `writer`. Never raises for a value: those it cannot write are in `failed`. What the
    store behind `writer` raises is raised.

    `references` maps the id of a live object to where it is saved already. The values themselves are written in
    full even if they are in it: a reference is for what is found inside of them.
    """
    good = dict(values)
    failed: list[NotSaved] = []
    while True:
        try:
            written = _dump(good, writer, definitions, references or {})
            return written._replace(names=tuple(good), failed=tuple(failed))
        except StoreError:
            raise  # a full disk is no fault of any value
        except Exception as error:  # whatever a user's __reduce__ may raise
            bad = _find_bad(good, definitions)
            if not bad:
                # Each is fine alone and all together are not: nothing can be told apart, so none is saved.
                bad = [NotSaved(name=n, type=type_name(v), why=_say(error)) for n, v in good.items()]
            failed += bad
            for item in bad:
                del good[item.name]


def decode(stream: bytes, buffers: Sequence[Any], resolve: Resolve) -> Decoded:
    """The values. Only ever called with a stream whose digest an authenticated record names.

    Raises what unpickling raises, unless what is missing is a module or a name in one: then only the values that
    contain it fail.
    """
    try:
        plain = _Unpickler(io.BytesIO(stream), buffers=buffers)
        plain.resolve = resolve
        return Decoded(cast("dict[str, Any]", plain.load()), {})
    except (ImportError, AttributeError):
        tolerant = _TolerantUnpickler(io.BytesIO(stream), buffers=buffers)
        tolerant.resolve = resolve
        return _without_missing(cast("dict[str, Any]", tolerant.load()))


Resolve = Callable[[Reference], Any]


class _Unpickler(pickle.Unpickler):
    """pickle's own, with references to earlier checkpoints resolved by the caller."""

    resolve: Resolve

    def persistent_load(self, pid: Any) -> Any:
        return self.resolve(Reference(*pid))


class _Missing:
    """Stands where something was whose class or function no longer exists."""

    kept: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> _Missing:
        self = super().__new__(cls)
        self.kept = [args, kwargs]
        return self

    def __setstate__(self, state: Any) -> None:
        self.kept = [state]

    def _keep(self, *items: Any) -> None:
        self.kept.extend(items)

    append = extend = __setitem__ = add = update = _keep


class _TolerantUnpickler(_Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return type(name.rpartition(".")[2], (_Missing,), {"__module__": module, "__qualname__": name})


def _without_missing(values: dict[str, Any]) -> Decoded:
    failed: dict[str, str] = {}
    for name, value in values.items():
        missing = _find_missing(value)
        if missing is not None:
            failed[name] = f"{missing.__module__}.{missing.__qualname__} does not exist here"
    return Decoded({name: value for name, value in values.items() if name not in failed}, failed)


def _find_missing(value: Any) -> type | None:
    """The first stand-in inside of a value, at any depth."""
    seen: dict[int, Any] = {}
    stack = [value]
    while stack:
        obj = stack.pop()
        if id(obj) in seen or isinstance(obj, types.ModuleType):
            continue
        seen[id(obj)] = obj
        kind = obj if isinstance(obj, type) else type(obj)
        if issubclass(kind, _Missing):
            return kind
        if isinstance(obj, type):
            continue
        stack.extend(gc.get_referents(obj))
        if getattr(getattr(obj, "dtype", None), "kind", "") == "O" and hasattr(obj, "flat"):
            stack.extend(obj.flat)  # the garbage collector does not look into arrays
    return None


def _dump(
    values: dict[str, Any],
    writer: BlobWriter,
    definitions: Definitions,
    references: Mapping[int, Reference],
    anchors: Anchors = NOTHING_YET,
    weakly: Weak | None = None,
) -> Encoded:
    blobs: list[Blob] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < OUT_OF_BAND:
            return True
        blobs.append(writer.blob(raw))
        return False

    stream = writer.stream()
    if definitions == "value":
        cloudpickle.Pickler(stream, protocol=5, buffer_callback=take).dump(values)
        return Encoded(stream.close(), tuple(blobs), (), ())
    pickler = (ReferringPickler if references else NotebookPickler)(stream, protocol=5, buffer_callback=take)
    pickler.memory, pickler.weak = Memory(anchors), weakly or pickler.weak
    if isinstance(pickler, ReferringPickler):
        top = {id(value) for value in values.values()}
        pickler.references = {key: reference for key, reference in references.items() if key not in top}
    pickler.dump(values)
    pickler.memory.check()
    found_out = pickler.memory.anchors()
    if found_out.of.keys() != anchors.of.keys():  # then also who joined whom may matter
        pickler.clear_memo()  # which holds what it has met: the next one asks who else does
        return _dump(values, writer, definitions, references, found_out, weakly)
    if pickler.leads_weakly():
        pickler.clear_memo()
        return _dump(values, writer, definitions, references, anchors, Weak(held=True))
    found = tuple(sorted(pickler.used)), tuple(sorted(pickler.live))
    return Encoded(stream.close(), tuple(blobs), (), (), *found)


def _pickler(definitions: Definitions) -> Callable[..., pickle.Pickler]:
    return NotebookPickler if definitions == "reference" else cloudpickle.Pickler


class NotebookPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle ships no types
    """cloudpickle, but what is alive in the notebook under its own name is written as that name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # One plain dict: pickle looks into it for every object, and cloudpickle's ChainMap makes each miss a Python
        # call that raises. With this and `_plain`, 100,000 instances take 1.1x of pickle's time instead of 2.2x.
        self.dispatch_table = {**copyreg.dispatch_table, **cloudpickle.Pickler._dispatch_table}
        super().__init__(*args, **kwargs)
        self.live: set[str] = set()
        self.used: set[Reference] = set()
        self.memory = Memory()
        self.weak = Weak()

    def leads_weakly(self) -> bool:
        """Are there weak references, which have yet to be written? Raises PicklingError if one would lead nowhere."""
        if self.weak.held or not self.weak.led_to:
            return False
        self.weak.check(self.memo.copy())
        return True

    def reducer_override(self, obj: Any) -> Any:
        of: Any = type(obj)
        kind: type = of
        if kind in patience.endless:
            patience.check(kind)
        if kind in _with_attributes:  # as `shares_attributes` does, without a call for each of 100,000 instances
            return NotImplemented if getrefcount(obj.__dict__) <= faithful.ALONE else faithful.reduce_sharing(obj)
        if kind in _plain:
            return NotImplemented
        if kind in weak.KINDS:
            return self.weak.reduce(obj)
        reducer = _reducers[kind] if kind in _reducers else _find_reducer(kind)
        if is_array(obj):
            return self.memory.reduce(obj, reducer)
        if over.live_part(obj):
            raise pickle.PicklingError(f"it is at work: it has a {over.live_part(obj)}")
        if reducer is not None:
            if reducer is tensors.reduce_memory:
                self.memory.of_tensors.append(obj)
            reduced = reducer(obj)
            if reduced is not NotImplemented:
                return reduced
        if isinstance(obj, (type, types.FunctionType)):
            if is_live(obj):
                if home_of(obj) == "__main__":
                    self.live.add(obj.__qualname__)
                return NotImplemented  # pickle's own way: by reference
            place = faithful.held_as(obj) if isinstance(obj, types.FunctionType) else None
            if place is not None:
                return faithful.held_by, place
            if isinstance(obj, types.FunctionType) and _module_around(obj) is not None:
                return _reduce_nameless(obj)
            if isinstance(obj, type):
                return _reduce_nameless_class(obj, super().reducer_override(obj))
        if kind is types.CellType:
            return types.CellType, (), _cell(obj), None, None, _fill_cell
        if is_of_rows(kind):
            return self.memory.reduce_row(obj) if is_row(obj) else NotImplemented
        if package_of(kind) == "pandas" and frames.is_part(kind):
            made = self.memory.reduce_part(obj)
            if made is not NotImplemented:
                return made
        elif reducer is None and not issubclass(kind, (type, types.FunctionType)):
            to_be_asked = over.may_be_at_work(of)  # each of them, so none of the short ways above
            if kind not in self.dispatch_table and faithful.keeps_attributes(kind):
                if not to_be_asked:
                    _with_attributes.add(kind)
                return faithful.reduce_sharing(obj) if faithful.shares_attributes(obj) else NotImplemented
            if not to_be_asked:
                _plain.add(kind)
        return super().reducer_override(obj)


class ReferringPickler(NotebookPickler):
    """The same, with references. A class of its own, because `persistent_id` is called for every single object."""

    references: Mapping[int, Reference]

    def persistent_id(self, obj: Any) -> Any:
        reference = self.references.get(id(obj))
        if reference is None:
            return None
        self.used.add(reference)
        return tuple(reference)


Reducer = Callable[[Any], Any]
_reducers: dict[type, Reducer | None] = {}
_plain: set[type] = set()
"""Types whose instances are left to pickle."""
_with_attributes: set[type] = set()
"""The same, unless somebody else holds the dict of an instance's attributes."""
_registered: dict[str, Reducer] = {}


def register_reducer(type_path: str, reducer: Reducer) -> None:
    """Add a typed encoder for exactly this type, named like `numpy.ndarray`: the type need not be imported yet.

    It is given the object and returns what `__reduce_ex__` would, or NotImplemented to leave it to pickle.
    """
    _registered[type_path] = reducer
    _reducers.clear()
    _plain.clear()
    _with_attributes.clear()


def _find_reducer(kind: type) -> Reducer | None:
    load_plugins()
    found = _registered.get(f"{home_of(kind)}.{name_of(kind)}") or faithful.find(kind) or tensors.find(kind)
    _reducers[kind] = found
    return found


@lru_cache(maxsize=1)
def load_plugins() -> None:
    """Typed encoders of other packages: each entry point is called once and registers what it has.

    Looking for them takes a while: it is best done when nobody waits for a result.
    """
    for entry in entry_points(group="nbcheckpoint.codecs"):
        try:
            entry.load()()
        except Exception:  # a broken plugin must not cost anyone a checkpoint
            logging.getLogger("nbcheckpoint").exception("the codec %s could not be loaded", entry.name)


def _reduce_nameless_class(cls: type, made: Any) -> Any:
    """As cloudpickle has it, and with the place it was made in, which is part of its name."""
    if made is NotImplemented or len(made) != 6 or not isinstance(made[2], tuple):
        return made
    members, *slots = made[2]
    return *made[:2], ({**members, "__qualname__": cls.__qualname__}, *slots), *made[3:]


def is_live(obj: type | types.FunctionType) -> bool:
    """Does its module hold this very object under its own name?"""
    found: Any = sys.modules.get(home_of(obj))
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is obj


def _reduce_nameless(function: types.FunctionType) -> tuple[Any, ...]:
    """Its cells are objects of their own: two functions that share a variable go on sharing it."""
    state = (function.__defaults__, function.__kwdefaults__, function.__dict__, function.__annotations__)
    made = (function.__code__, function.__name__, function.__qualname__, function.__closure__)
    around = _module_around(function)
    whose = () if around == function.__module__ == "__main__" else (around, function.__module__)
    return _make_nameless, (*made, *whose), state, None, None, _fill_nameless


def _module_around(function: types.FunctionType) -> str | None:
    """The module whose globals it has. It need not be the one it says it is of: `functools.wraps` copies that."""
    name = function.__globals__.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is function.__globals__ else None


def _make_nameless(
    code: types.CodeType,
    name: str,
    qualname: str,
    closure: tuple[types.CellType, ...] | None,
    around: str = "__main__",
    module: str | None = "__main__",
) -> types.FunctionType:
    function = types.FunctionType(code, vars(importlib.import_module(around)), name, None, closure)
    function.__qualname__ = qualname
    function.__module__ = module  # type: ignore[assignment]  # whoever made it may have said None
    return function


def _fill_nameless(function: types.FunctionType, state: tuple[Any, ...]) -> None:
    function.__defaults__, function.__kwdefaults__, attributes, function.__annotations__ = state
    function.__dict__.update(attributes)


def _cell(cell: types.CellType) -> tuple[bool, Any]:
    try:
        return True, cell.cell_contents
    except ValueError:  # a cell that is not filled yet
        return False, None


def _fill_cell(cell: types.CellType, state: tuple[bool, Any]) -> None:
    """Filled after it was made, so that a function may be part of its own closure."""
    if state[0]:
        cell.cell_contents = state[1]


class _Nowhere(io.RawIOBase):
    """Takes everything, keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def _try(value: Any, definitions: Definitions) -> Exception | None:
    try:
        pickler = _pickler(definitions)(_Nowhere(), protocol=5, buffer_callback=lambda _: False)
        pickler.dump(value)
        if isinstance(pickler, NotebookPickler):
            pickler.leads_weakly()
    except Exception as error:  # whatever a user's __reduce__ may raise
        return error.with_traceback(None)  # whose frames hold the value, and each other
    return None


def _find_bad(values: Mapping[str, Any], definitions: Definitions) -> list[NotSaved]:
    bad = []
    for name, value in values.items():
        error = _try(value, definitions)
        if error is not None:
            path, culprit = name, value
            if not isinstance(error, Unshareable):
                path, culprit = _where(name, value, definitions)
            why = _say(_try(culprit, definitions) or error)
            bad.append(NotSaved(name=name, type=type_name(culprit), why=why, path=path if path != name else ""))
    return bad


def _where(name: str, value: Any, definitions: Definitions, *, seconds: float = 1.0) -> tuple[str, Any]:
    """The innermost part that fails, and the path to it. Gives up going deeper after a second."""
    until = time.monotonic() + seconds
    path, passed = name, [value]
    for _ in range(20):
        for step, part in _parts(value):
            if time.monotonic() > until:
                return path, value
            # Not back to where it has come by: there are circles.
            if all(part is not known for known in passed) and _try(part, definitions) is not None:
                path, value = path + step, part
                passed.append(part)
                break
        else:
            return path, value
    return path, value


def _parts(value: Any) -> Sequence[tuple[str, Any]]:
    if type(value) in weak.KINDS or type(value) in over.reducers():
        return ()  # they say themselves what is wrong
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
    if isinstance(error, TookTooLong):
        return "its pickling does not come to an end"
    if type(error) in (Unshareable, pickle.PicklingError) and "pickle" not in text:
        return text
    if "cannot pickle" in text or "Can't pickle" in text or "can't pickle" in text:
        return "cannot be pickled"
    return f"{type(error).__name__}: {text}"[:200] if text else type(error).__name__

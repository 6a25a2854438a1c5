"""What identifies one call of a function: its code with all it reaches, and the arguments.

The first part is the same for every item of a map, so it can be taken once. Both are taken before the body runs,
because that may change them; what it turns out to depend on besides (files, random numbers) is kept with the
checkpoint.
"""

from __future__ import annotations

import glob
import inspect
import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from blake3 import blake3

from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.engine.identity import (
    LOOKS_FOR_FILES,
    Identity,
    digest_inputs,
    look,
    mentioned,
    settings_now,
    surroundings,
    together,
)
from nbcheckpoint.fingerprint import files as disk
from nbcheckpoint.fingerprint.code import Names, digest_code
from nbcheckpoint.fingerprint.kinds import is_mutable
from nbcheckpoint.fingerprint.reach import code_of, reach, standing_for
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, FileSeen, Input
from nbcheckpoint.store import Store
from nbcheckpoint.store.forking import RESULT

_QUERIED = re.compile(r"@([^\W\d]\w*)")
"""A variable named inside of a string: `df.query("a > @k")`."""
RETURNED = "returned"
"""In a checkpoint's meta: the argument that is itself the result."""
_CODE = (types.FunctionType, types.MethodType, partial, type)
NO_NAMES = Names(*(frozenset[Any]() for _ in Names._fields))


class Reach(NamedTuple):
    """A function's code and everything it reads that is not an argument."""

    key: str
    inputs: tuple[Input, ...]
    values: dict[str, Any]
    code_inside: dict[int, tuple[str, Any]]
    mentions: Names
    unidentified: tuple[str, ...]
    settings: tuple[Input, ...] = ()
    """Options of libraries that are not at their default."""
    named: tuple[str, ...] = ()
    """Constants that name a file, or could name one that is looked for."""
    looks: bool = False
    """Does it ask whether files are there?"""


def reach_of(
    function: Callable[..., Any], *, salt: str = "", files: Sequence[str] = (), private: Callable[[str], str]
) -> Reach:
    """The part of a call's identity that does not depend on its arguments."""
    plain = _plain(function)
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    values = reach([(f"{name}()", plain)])
    codes = [code for value in values.values() for code, _, _ in code_of(value)]
    mentions = together([mentioned(code) for code in codes]) if codes else NO_NAMES
    spoken = {word for text in mentions.strings for word in _QUERIED.findall(text)}
    scope = getattr(plain, "__globals__", {})
    values |= reach([(word, scope[word]) for word in spoken if word in scope])
    called = [pattern for value in values.values() for pattern in _files_of(value)]
    digester = Digester()
    looked, unidentified, _ = look(digester, values, ())
    mentions = together([mentions, *_inside(digester, {})])
    around = surroundings(mentions, values, private)
    looks = bool(LOOKS_FOR_FILES & (mentions.attributes | mentions.reads))
    body = digest_code(plain.__code__) if isinstance(plain, types.FunctionType) else ""
    return Reach(
        key=blake3(f"step {name} {body} {salt}".encode()).hexdigest(),
        inputs=(*looked, *around, *_files(dict.fromkeys([*files, *called]))),
        values=values,
        code_inside=digester.code_inside(),
        mentions=mentions,
        unidentified=unidentified,
        settings=settings_now(),
        named=tuple(_named(mentions.strings | {text for text in values.values() if type(text) is str}, looks)),
        looks=looks,
    )


def _inside(digester: Digester, values: Mapping[str, Any]) -> list[Names]:
    """What is mentioned by methods of the instances that were met, by functions held somewhere in them, and by those
    among the values themselves."""
    functions = [(label, value) for label, value in values.items() if isinstance(value, _CODE)]
    codes = [code for value in reach(functions).values() for code, _, _ in code_of(value)] if functions else []
    return [mentioned(code) for code in (*codes, *(code for code, _ in digester.code))]


def _named(strings: Iterable[str], looks: bool) -> Iterator[str]:
    """Picked once for all calls: there may be many of both."""
    for text in sorted(strings):
        short = 0 < len(text) < 1024 and "\n" not in text and "\0" not in text
        if short and ((looks and ("." in text or "/" in text)) or os.path.isfile(text)):
            yield text


def _plain(function: Callable[..., Any]) -> Any:
    """Behind partials and bound methods counts what they are made of, as arguments: see `arguments_of`."""
    found = standing_for(function)
    while isinstance(found, (partial, types.MethodType)):
        found = standing_for(found.func if isinstance(found, partial) else found.__func__)
    return found


def _files_of(value: Any) -> Sequence[str]:
    """The files a step that is called is said to depend on: whoever calls it depends on them too."""
    found: Sequence[str] = value.__nbcheckpoint_files__ if hasattr(type(value), "__nbcheckpoint_files__") else ()
    return found


def _files(patterns: Iterable[str]) -> list[Input]:
    """Files that count as inputs because the user says so."""
    found: list[Input] = []
    for pattern in patterns:
        names = sorted(glob.glob(pattern, recursive=True))
        joined = "\0".join(names).encode("utf-8", "surrogatepass")
        found.append(Input(name=pattern, digest=blake3(joined).hexdigest(), type="files"))
        for name in names:
            seen = disk.look(name)
            found.append(Input(name=name, digest=seen.digest if seen else "-", type="file"))
    return found


def files_among(inputs: Iterable[Input]) -> Iterator[FileSeen]:
    """Those of `_files`, as if they had been opened."""
    for item in inputs:
        if item.type == "file":
            digest = item.digest if item.digest != "-" else disk.MISSING
            yield FileSeen(path=os.path.abspath(item.name), digest=digest)


@lru_cache(maxsize=4096)
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # built in: it does not say


def arguments_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> value: `f(1)`, `f(a=1)` and a default of 1 are one call. Raises TypeError as the call itself would."""
    found: dict[str, Any] = {}
    while isinstance(function, (partial, types.MethodType)):
        if isinstance(function, partial):
            args, kwargs, function = (*function.args, *args), {**function.keywords, **kwargs}, function.func
        else:
            args, function = (function.__self__, *args), function.__func__
    signature = _signature(standing_for(function))
    if signature is None:
        return {**{f"argument {at}": value for at, value in enumerate(args)}, **kwargs}
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    found.update(bound.arguments)
    return found


def identify(
    reached: Reach, arguments: Mapping[str, Any], ignore: Collection[str] = (), *, private: Callable[[str], str]
) -> Identity:
    """The whole identity of a call. `private` makes a digest of what is nobody's business."""
    clash = arguments.keys() & reached.values.keys()
    named = {f"argument {name}" if name in clash else name: value for name, value in arguments.items()}
    ignored = {f"argument {name}" if name in clash else name for name in ignore}
    digester = Digester()
    looked, unidentified, _ = look(digester, named, ignored)
    inputs = (*(item for item in looked if item.name not in ignored), *reached.inputs)
    inside = _inside(digester, named)
    if inside:
        around = surroundings(together(inside), named, private)
        inputs = (*inputs, *(item for item in around if item not in reached.inputs))
    problems = (*unidentified, *reached.unidentified)
    return Identity(
        code=reached.key,
        inputs=inputs,
        before={item.name: item.digest for item in (*looked, *reached.inputs)},
        values=named,
        code_inside=digester.code_inside(),
        mentions=reached.mentions,
        unidentified=problems,
        digest=digest_inputs(inputs),
    )


def changed_in_place(identity: Identity, reached: Reach) -> list[str]:
    """Arguments and globals that are not what they were before the body ran. What is ignored may change."""
    changed, counted = [], {item.name for item in identity.inputs}
    for values in (identity.values, reached.values):
        digester = Digester()
        for label, value in sorted(values.items()):
            try:
                now = digester.digest(label, value)
            except Unidentified:
                now = ""
            if label in counted and identity.before.get(label, now) != now:
                changed.append(label)
    return changed


def given(identity: Identity) -> dict[int, Reference]:
    """The arguments that can change, by their id: a result that holds one of them holds that very object."""
    code = (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)
    changing = {label: value for label, value in identity.values.items() if is_mutable(type(value))}
    return {id(value): Reference("", label) for label, value in changing.items() if not isinstance(value, code)}


def result_of(store: Store, checkpoint: Checkpoint, identity: Identity) -> dict[str, Any]:
    """What a call has left: its result, made of the arguments it is given now where it was made of those of then."""
    elsewhere = store.resolver()

    def resolve(reference: Reference) -> Any:
        return elsewhere(reference) if reference.checkpoint else identity.values[reference.name]

    values = store.restore(checkpoint.id, resolve=resolve)
    if RETURNED in checkpoint.meta:
        values[RESULT] = identity.values[checkpoint.meta[RETURNED]]
    return values


def source_of(function: Callable[..., Any]) -> str:
    """For people to read beside the result; "" where it is nowhere."""
    plain = _plain(function)
    code = getattr(plain, "__code__", None)
    return _source(code, code.co_filename) if isinstance(code, types.CodeType) else _source(plain)


@lru_cache(maxsize=256)  # for every item of a map it is the same, and takes a millisecond to find
def _source(found: Any, file: str = "") -> str:
    """The file is told, because equal code may stand in several."""
    try:
        return inspect.getsource(found)
    except (OSError, TypeError):
        return ""

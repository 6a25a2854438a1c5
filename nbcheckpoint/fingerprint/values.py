"""What identifies a value: a content digest that means the same in another process.

Theory of operation. Pickle knows how to walk any value, at C speed; its output is only not canonical. So this
is a pickler that writes into a hash, with the three things mended that make equal values differ:

- its memo is off (`fast`), because it encodes which equal strings happen to be one object;
- sets are sorted, because their order follows the hash seed;
- functions, classes and modules are identified by their code, not by their name.

What must *not* be lost with the memo is which **mutable** objects are one object: `[x] * 2` and `[x, copy(x)]`
are equal, but appending to the first element tells them apart. So those are numbered as they are met, across
all inputs of a step, and a second meeting writes the number. That also ends cycles. The same holds for arrays
that share memory.

A digest is never sampled and never approximate. What cannot be walked raises Unidentified.

Naming a gigabyte takes a third of a second, recognising it within this process a tenth of that. Before a statement
nothing is known about, only the latter is affordable: a *provisional* digest has a token of this process in place of
the name of each large buffer. If the statement turns out to be slow and has left the value alone, there is time
to name it then. An array of strings has such a token too: that of its pointers. As long as the strings are held no
other string can be where one of them is, so the same pointers mean the same strings.
"""

from __future__ import annotations

import abc
import copyreg
import enum
import gc
import marshal
import pickle
import sys
import time
import types
import weakref
from collections.abc import Callable, Collection
from typing import Any

from blake3 import blake3

from nbcheckpoint import bars, bases, over, patience, plots, refusing, tensors, trees, unpickled
from nbcheckpoint.digests import Recogniser
from nbcheckpoint.fingerprint.code import digest_code, functions_of
from nbcheckpoint.fingerprint.derived import has_derived, members_of, without_derived
from nbcheckpoint.fingerprint.kinds import (
    is_copy_on_write,
    is_mutable,
    is_of_its_class,
    is_offered,
    is_replaced,
    is_unread,
    writes_its_pickles,
)
from nbcheckpoint.fingerprint.meetings import Meetings
from nbcheckpoint.fingerprint.reach import (
    BY_ATTRS,
    code_of,
    dispatcher,
    dispatches,
    held_by,
    is_compiled,
    is_own_function,
    is_wrapper,
    reach,
    standing_for,
    within,
)
from nbcheckpoint.whose import home_of, is_user_code, name_of, package_of

HASH_SEED = hash("nbcheckpoint")
"""The hash of a text is another one in every process, unless PYTHONHASHSEED is set."""
_ATOMS = frozenset(
    {type(None), bool, int, float, complex, str, bytes, tuple, type(...), type(NotImplemented), range, slice}
)
_SORTABLE = (int, str, bytes)
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_CLASS_NOISE = frozenset(
    {"__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__"}
    | {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__qualname__"}
    | {"__abstractmethods__", "_abc_impl", "__slotnames__", "__dataclass_fields__", "__dataclass_params__"}
    | {f"__pydantic_{made}__" for made in ("core_schema", "serializer", "validator", "setattr_handlers", "complete")}
)
"""Made from what else is in the class, and not the same twice."""


_named = Recogniser()
"""Large inputs are looked at before and after every step; most have not changed since the last look."""


class Unidentified(Exception):
    """A value nothing is known to be equal to: it cannot be walked."""

    def __init__(self, label: str, why: str) -> None:
        super().__init__(f"{label}: {why}")
        self.label = label
        self.why = why


class Unaffordable(Unidentified):
    """There was no time to walk it."""

    def __init__(self, label: str) -> None:
        super().__init__(label, "it is too large to be looked at before every statement")


_ATOM_SECONDS = 3e-8
_SORTED = 60
"""To sort one takes as long as going through so many."""
SOME_POINTERS = 1 << 16
LARGE = 1 << 20
"""Buffers from here on get a token in a provisional digest."""
_TOKEN_RATE = 8e9
"""Bytes per second that can be recognised, at the least."""
_NAMING_RATE, _TEXT_BYTES = 2e9, 200
"""The same for naming them, and what a string of an array counts for."""
_OBJECT_SECONDS = 1e-7
"""What walking one object takes, at the least."""
_MUTABLE_SECONDS = 1e-6
"""One that can change takes longer: it is remembered."""
_POINTER_SECONDS = 2e-8
"""The same for one string of an array of strings."""


def likely_seconds(value: Any, depth: int = 3) -> float:
    """What looking at a value will take, told by its size and the first of its parts; rather less than more."""
    if type(value) in (list, tuple, dict, set, frozenset) and value:
        first = next(iter(value.values() if type(value) is dict else value))
        inside = likely_seconds(first, depth - 1) if depth else 0.0
        return len(value) * (_OBJECT_SECONDS + inside + _MUTABLE_SECONDS * (type(first) in (list, dict, set)))
    if _is_array(value) or package_of(type(value)) == "pandas":
        dtypes: Any = getattr(value, "dtypes", None)
        kinds = dtypes.tolist() if hasattr(dtypes, "tolist") else [getattr(value, "dtype", None)]
        objects = sum(getattr(kind, "kind", "") == "O" for kind in kinds)
        known = value.nbytes if _is_array(value) else 0
        size: Any = getattr(value, "size", 0)  # a method, if it is a groupby
        rows = size // max(1, len(kinds)) if isinstance(size, int) else 0
        return float(rows * objects * _POINTER_SECONDS + known / _TOKEN_RATE)
    return 0.0


def reads_data(code: Any) -> bool:
    """Does a function or class read variables whose values can change?"""
    reached = (value for label, value in reach(within(code)).items() if label)
    return any(is_mutable(type(v)) and not isinstance(v, (type, types.FunctionType, types.ModuleType)) for v in reached)


_abc_dump: Any = getattr(abc, "_get_dump", lambda cls: ((),))
"""There is no other way to ask an abstract class what was registered with it."""


def _registered(cls: type) -> str:
    """The classes that an abstract class was told are among it."""
    if not isinstance(cls, abc.ABCMeta):
        return ""
    registry = _abc_dump(cls)[0]
    known = [found for reference in registry if (found := reference()) is not None]
    return "".join(sorted(f"{home_of(found)}.{name_of(found)};" for found in known))


def _said_of_fields(cls: type) -> list[Any]:
    """What a dataclass tells about its fields and puts into none of its methods."""
    fields: Any = vars(cls).get("__dataclass_fields__")
    return [(name, dict(field.metadata)) for name, field in fields.items() if field.metadata] if fields else []


def _compiled_how(value: Any) -> str:
    """The options numba was given for a function, if it was."""
    return repr(sorted(dispatcher(value).targetoptions.items())) if is_compiled(type(value)) else ""


class Digester:
    """Digests the inputs of one step. One instance per step, because sharing between inputs counts."""

    def __init__(
        self,
        *,
        alone: Any = None,
        provisional: bool = False,
        unnamed: Collection[str] = (),
        deadline: float | None = None,
        spare: float = 0.0,
    ) -> None:
        """After `deadline` (of `time.thread_time`) everything is Unaffordable.

        A provisional one may spend `spare` seconds on naming large buffers all the same.
        `unnamed` are the tokens of an earlier look: what had a token then has it again, so that the two compare.
        """
        self.alone = alone
        """The one frame this digester is for, if it is for one."""
        self.provisional = provisional
        self.deadline = deadline
        self._spare = [spare]
        self.tokens: list[str] = []
        """Of the buffers that have no name so far."""
        self.gave_up = False
        """Was there no time to walk one of them?"""
        self.held: list[Any] = []
        """What must not be freed as long as tokens are to be compared."""
        self.unnamed = set(unnamed)
        self.meetings = Meetings()
        self.generators = {id(found): name for name, found in unpickled.global_generators()}
        self.code: list[tuple[types.CodeType, dict[str, Any]]] = []
        """The user's code inside of values, with the namespace it reads from."""
        self._deep: dict[int, tuple[str, Any]] = {}
        self._dispatch: dict[type, Any] = {}
        self._busy: set[int] = set()

    def inner(self, *, alone: Any = None) -> Digester:
        """One for a part that is looked at by itself."""
        made = Digester(alone=alone, provisional=self.provisional, deadline=self.deadline)
        made._spare, made._dispatch = self._spare, self._dispatch
        made.tokens, made.unnamed, made.held, made.code = self.tokens, self.unnamed, self.held, self.code
        return made

    def can_name(self, size: int) -> bool:
        """Is there time to name so many bytes? Then it is spent."""
        seconds = size / _NAMING_RATE
        if seconds > self._spare[0]:
            return False
        self._spare[0] -= seconds
        return True

    def digest(self, label: str, value: Any) -> str:
        """The identity of one input. A function or class by its own code only: `reach` lists what it reads."""
        try:
            how, value = _compiled_how(value), standing_for(value)
            if isinstance(value, types.FunctionType) and is_user_code(value):
                return self.function(label, value) + how
            if isinstance(value, type) and is_user_code(value):
                return self.cls(label, value)
            if isinstance(value, types.ModuleType):
                return blake3(f"module {home_of(value)}".encode()).hexdigest()
            if isinstance(value, types.FunctionType) and not value.__closure__:
                return blake3(f"function {value.__module__}.{value.__qualname__}".encode()).hexdigest()
            return self.data(label, value)
        except Unidentified:
            raise
        except Exception as error:  # whatever a user's __reduce__ may raise
            text = str(error).partition("\n")[0]
            raise Unidentified(label, f"{type(value).__name__}: {text[:120]}") from error

    def data(self, label: str, value: Any) -> str:
        """The identity of anything pickle can walk."""
        self.hurry(label)
        hasher = blake3()
        _DigestPickler(hasher, self, label).dump(value)
        return hasher.hexdigest()

    def hurry(self, label: str, atoms: int = 0) -> None:
        """Is there time to go through so many? Raises Unaffordable."""
        if self.deadline is not None and time.thread_time() + atoms * _ATOM_SECONDS > self.deadline:
            raise Unaffordable(label)

    @property
    def dispatch(self) -> dict[type, Any]:
        """How instances of these types are walked. Made once: there may be a million parts that are looked at alone."""
        if not self._dispatch:
            made = {**copyreg.dispatch_table, **over.reducers(), **refusing.shown(), **bars.identities()}
            self._dispatch.update(made | (tensors.reducers() if "torch" in sys.modules else {}))
        return self._dispatch

    def function(self, label: str, function: types.FunctionType) -> str:
        """Code, defaults and closure: what the function is, without what it reads from its module."""
        cells, attributes = list(held_by(function)), {} if dispatches(function) else dict(vars(function))
        if is_user_code(function):
            around = {id(held): self._around(label, held) for held in cells}
            cells = list(around.values())
            attributes = {name: around.get(id(held), held) for name, held in attributes.items()}  # `__wrapped__`
        parts = (function.__defaults__, function.__kwdefaults__, cells, attributes)
        notes = sorted((name, repr(note)) for name, note in function.__annotations__.items())
        # The parts are a temporary: what is alive is inside of it.
        inner = self.data(f"{label}()", parts) if any(parts) else ""
        whole = f"{digest_code(function.__code__)}{inner}{function.__qualname__}{notes}"
        return blake3(whole.encode("utf-8", "surrogatepass")).hexdigest()

    def _around(self, label: str, held: Any) -> Any:
        """A function of the user's that another one is made around, by its own code only: `reach` lists what it reads,
        so that a step which changes that has changed a variable, and not the function."""
        if not is_own_function(held):
            return held
        if id(held) in self._busy:
            return f"recursive {held.__qualname__}"
        self._busy.add(id(held))
        try:
            return ("around", self.function(label, held))
        finally:
            self._busy.discard(id(held))

    def cls(self, label: str, cls: type) -> str:
        """Everything the user wrote in the class and its bases."""
        hasher = blake3()
        for base in (*cls.__mro__, *type.mro(type(cls))):
            hasher.update(f"{home_of(base)}.{name_of(base)};".encode())
            if not is_user_code(base):
                continue
            notes = vars(base).get("__annotations__")
            notes = notes if isinstance(notes, dict) else {}  # those of C have a descriptor there
            hasher.update(repr([(name, repr(note)) for name, note in notes.items()]).encode("utf-8", "surrogatepass"))
            functions: dict[str, list[types.FunctionType]] = {}
            for name, function in functions_of(base):
                functions.setdefault(name, []).append(function)
            hasher.update(_registered(base).encode("utf-8", "surrogatepass"))
            fields = _said_of_fields(base)
            hasher.update(self.data(f"{label}.__dataclass_fields__", fields).encode() if fields else b"")
            for name, member in sorted(vars(base).items()):
                if name not in _CLASS_NOISE:
                    hasher.update(f"{name}={self._member(label, base, name, member, functions.get(name))};".encode())
        return hasher.hexdigest()

    def _member(self, label: str, cls: type, name: str, member: Any, functions: list[types.FunctionType] | None) -> str:
        if functions and name == "__hash__" and functions[0].__code__.co_filename.startswith(BY_ATTRS):
            return "hash"  # with the hash of a text in it
        if functions:
            return "".join(self.function(f"{label}.{name}", function) for function in functions)
        if isinstance(member, _DESCRIPTORS):
            return str(type(member))
        if name == "__attrs_attrs__":
            member = tuple(member)  # of a class that no pickle finds
        if name == "_value2member_map_" and issubclass(cls, enum.Flag):
            member = members_of(cls)
        return self.data(f"{label}.{name}", member)

    def deep(self, label: str, value: Any) -> str:
        """A function or class that sits inside a value: its own identity and that of all it reads."""
        known = self._deep.get(id(value))
        if known:
            return known[0]
        if id(value) in self._busy:
            return f"recursive {getattr(value, '__qualname__', '')}"
        self._busy.add(id(value))
        try:
            reached = sorted(reach(within(value)).items())
            self.code += [(code, namespace) for _, found in reached for code, namespace, _ in code_of(found)]
            whole = ";".join(f"{name}={self.digest(f'{label} {name}', found)}" for name, found in reached)
        finally:
            self._busy.discard(id(value))
        result = blake3(whole.encode()).hexdigest()
        self._deep[id(value)] = result, value
        return result

    def code_inside(self) -> dict[int, tuple[str, Any]]:
        """The code met inside of values, by object: a step that changes it changed more than data."""
        return dict(self._deep)


class _Buffers:
    """Takes the buffers of a pickle into the hash. Apart from the pickler: one that held its own method would keep all
    it has met until the collector comes by, and with it the memory of what the user has deleted."""

    def __init__(self, hasher: Any, digester: Digester, label: str) -> None:
        self._hasher, self._digester, self._label = hasher, digester, label

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        deadline = self._digester.deadline
        if deadline is not None and time.thread_time() + raw.nbytes / _TOKEN_RATE > deadline:
            raise Unaffordable(self._label)
        if self._digester.provisional and raw.nbytes >= LARGE:
            token, known = _named.token(raw)
            if known is None and token not in self._digester.unnamed and self._digester.can_name(raw.nbytes):
                known = _named.name(raw, token)
            name = token if known is None or token in self._digester.unnamed else known
            if name is token:
                self._digester.tokens.append(token)
        else:
            name = _named(raw)
        self._hasher.update(f"<{raw.nbytes} {name}>".encode())
        return False


class _DigestPickler(pickle.Pickler):
    def __init__(self, hasher: Any, digester: Digester, label: str) -> None:
        super().__init__(_Hashing(hasher), protocol=5, buffer_callback=_Buffers(hasher, digester, label).take)
        self.fast = True
        self.dispatch_table = digester.dispatch
        self._hasher = hasher
        self._digester = digester
        self._label = label
        self._deadline = digester.deadline
        self._met = 0

    def persistent_id(self, obj: Any) -> Any:
        """Called for every object there is: everything common must leave early."""
        kind = type(obj)
        if self._deadline is not None:
            self._met += 1
            if self._met & 255 == 0 and time.thread_time() > self._deadline:
                raise Unaffordable(self._label)
        if kind in _ATOMS:
            return None
        if (kind is list or kind is dict) and len(obj) >= trees.WORTH_A_LOOK:
            found = self._tree(obj)
            if found is not None:
                return found
        if kind in patience.endless:
            patience.check(kind)
        if kind is set or kind is frozenset:
            return self._sorted(obj)
        if isinstance(obj, (type, types.FunctionType)):
            if is_user_code(obj):
                found = self._digester.deep(self._label, obj)
                return ("code", found, "replaced") if is_replaced(obj) else ("code", found)
            if isinstance(obj, types.FunctionType):
                return (
                    ("library", self._digester.digest(self._label, obj)) if not obj.__closure__ else self._closure(obj)
                )
            return None
        if isinstance(obj, types.ModuleType):
            own = is_user_code(obj) and home_of(obj) != "__main__"
            return ("module", home_of(obj), self._digester.deep(self._label, obj) if own else "")
        if hasattr(kind, "__nbcheckpoint_code__") or is_compiled(kind):
            return ("code", _compiled_how(obj), self._digester.deep(self._label, standing_for(obj)))
        if is_wrapper(obj):
            if hasattr(obj, "cache_info") and obj.cache_info().currsize:
                raise Unidentified(self._label, "it remembers earlier results")
            return ("wrapper", kind.__name__, self._digester.deep(self._label, obj.__wrapped__))
        if obj is hash:
            return ("hash", HASH_SEED)
        if kind is weakref.ref:
            return ("weak", obj())
        if kind is types.MethodType and is_offered(obj):
            return ("library", package_of(type(obj.__self__)), obj.__name__)
        if kind is types.MethodType and not is_of_its_class(obj):
            return ("method", obj.__func__, obj.__self__)
        if kind is types.MappingProxyType:
            return ("proxy", gc.get_referents(obj)[0])
        if kind in _DESCRIPTORS:
            return ("descriptor", home_of(obj.__objclass__), name_of(obj.__objclass__), obj.__name__)
        if kind is property:
            return ("property", obj.fget, obj.fset, obj.fdel, obj.__doc__)
        if is_mutable(kind):
            return self._mutable(obj)
        return self._content(obj) if unpickled.container_of(kind) is not None else None

    def _tree(self, obj: Any) -> Any:
        """Strings, numbers and containers of those only, each held once: none of them needs a word of ours, so pickle
        goes through them by itself."""
        met = self._digester.meetings.met(obj)
        if met is not None:
            return ("again", *met)
        self._hurry(len(obj))
        inside = trees.inside(obj, go_on=self._hurry)
        if inside is None or not self._digester.meetings.meet_all(self._label, inside):
            return None
        self._hurry(len(obj) + len(inside))
        hasher = blake3()
        pickler = pickle.Pickler(_Hashing(hasher, self._hurry), protocol=5)
        pickler.fast = True
        pickler.dump(obj)
        return ("tree", type(obj).__name__, hasher.hexdigest())

    def _hurry(self, atoms: int = 0) -> None:
        self._digester.hurry(self._label, atoms)

    def _closure(self, function: types.FunctionType) -> Any:
        """A function some library made on the fly: what it was made from counts, not its name."""
        return ("closure", function.__module__, self._digester.function(self._label, function))

    def _mutable(self, obj: Any) -> Any:
        if type(obj) in weakref.ProxyTypes:
            return ("proxy", unpickled.behind(obj))
        if is_unread(obj):
            raise Unidentified(self._label, "it has yet to read its files")
        if over.live_part(obj):
            raise Unidentified(self._label, f"{type(obj).__name__} is at work: it has a {over.live_part(obj)}")
        if id(obj) in self._digester.generators:
            return ("generator", self._digester.generators[id(obj)])  # where it is counts if somebody draws from it
        met = self._digester.meetings.meet(self._label, obj)
        if met is not None:
            return ("again", *met)
        if obj is not self._digester.alone and is_copy_on_write(obj):
            # pandas shares memory between frames that behave as if they did not: look at each by itself.
            return ("frame", self._digester.inner(alone=obj).data(self._label, obj))
        self._hidden(obj)
        if unpickled.container_of(type(obj)) is not None:
            return self._content(obj)
        kind: Any = type(obj)
        if has_derived(kind):
            return ("made", without_derived(obj))
        if plots.is_plot(kind):
            return ("plot", *plots.reduce_plot(obj))
        if bases.is_row(obj):
            within = self._digester.meetings.meet_memory(self._label, obj) or ()
            return ("row", *within, self._digester.inner().data(self._label, bases.as_array(obj).copy()))
        if _is_array(obj):
            shared = self._digester.meetings.meet_memory(self._label, obj)
            if shared is not None:
                kind, content = type(obj).__qualname__, self._digester.inner().data(self._label, obj.copy())
                closed = () if obj.flags.writeable else ("read-only",)
                return ("view", *shared, kind, repr(obj.dtype.descr), obj.shape, obj.strides, content, *closed)
            if obj.dtype.char in "gG":
                way = (obj.flags.c_contiguous, obj.flags.f_contiguous, obj.strides, obj.flags.writeable)
                return ("wide", type(obj), obj.shape, way, bases.without_padding(obj))
            if self._digester.provisional and obj.dtype.kind == "O" and obj.nbytes >= SOME_POINTERS:
                return self._pointers(obj)
            if not (obj.flags.c_contiguous or obj.flags.f_contiguous):
                # Pickle does not say, but whether reshaping gives a view or a copy follows from it.
                used = [s for s, n in zip(obj.strides, obj.shape, strict=True) if n > 1]
                mark = "" if obj.flags.writeable else " read-only"
                self._hasher.update(f"<strides {used}{mark}>".encode())
        return None

    def _content(self, obj: Any) -> Any:
        """Of a class made from a dict, a list or a set: what is in it, whatever its methods show of that."""
        kind = type(obj)
        base = unpickled.container_of(kind)
        assert base is not None
        content: Any = unpickled.content_of(obj, base)
        if base in (set, frozenset):
            content = self._sorted(frozenset(content))
        attributes = () if writes_its_pickles(kind) else tuple(sorted(unpickled.own_attributes(obj).items()))
        return ("content", kind, unpickled.made_with(obj, base), content, attributes)

    def _hidden(self, obj: Any) -> None:
        """Attributes that are kept out of pickles: code that reads them depends on them.

        What among them cannot be identified (a lock, a handle) is what such methods are written for: not data.
        """
        kind = type(obj)
        hides = writes_its_pickles(kind)
        if hides:  # maybe also its class
            self._hasher.update(f"<{self._digester.deep(self._label, kind)}>".encode())
        hidden = unpickled.own_attributes(obj) if hides else unpickled.attributes_of(obj)
        for name, value in sorted(hidden.items()):
            try:
                found = self._digester.data(f"{self._label}.{name}", value)
            except Unaffordable:
                raise
            except Exception:
                found = "-"
            self._hasher.update(f"<{name} {found}>".encode())
        behind = unpickled.behind_exception(obj)
        if behind:
            self._hasher.update(f"<behind {self._digester.data(self._label, behind)}>".encode())

    def _pointers(self, array: Any) -> Any:
        """A token for an array of strings and the like, if that is what it is."""
        items = array.ravel(order="K")  # a view of its memory, or a copy if it is not in one piece
        if not trees.ATOMS.issuperset(map(type, items.tolist())) or self._digester.can_name(items.size * _TEXT_BYTES):
            return None
        held = items.copy()
        token, _ = _named.token(_pointers_of(held))
        self._digester.held.append(held)
        self._digester.tokens.append(token)
        return ("pointers", type(array).__qualname__, array.shape, array.strides, token)

    def _sorted(self, obj: Any) -> Any:
        if type(obj) is set:
            met = self._digester.meetings.meet(self._label, obj)
            if met is not None:
                return ("again", *met)
        kinds = {type(item) for item in obj}
        if len(kinds) == 1 and kinds <= set(_SORTABLE):
            return (type(obj).__name__, sorted(obj))
        self._hurry(_SORTED * len(obj))
        if kinds == {tuple} and _hold_atoms(obj):
            return (type(obj).__name__, sorted(obj, key=_in_some_order))
        return (type(obj).__name__, sorted(self._digester.data(self._label, item) for item in obj))


def _hold_atoms(tuples: Collection[Any]) -> bool:
    return all(trees.ATOMS.issuperset(map(type, one)) for one in tuples)


def _in_some_order(atoms: tuple[Any, ...]) -> bytes:
    """Of different ones it is different. The second version of it does not say which equal texts are one object."""
    return marshal.dumps(atoms, 2)


class _Hashing:
    """A write-only file in front of a hash."""

    def __init__(self, hasher: Any, go_on: Callable[[], object] = lambda: None) -> None:
        """`go_on` is called now and then, and may raise."""
        self._hasher, self._go_on = hasher, go_on

    def write(self, data: Any) -> int:
        self._go_on()
        self._hasher.update(data)
        return len(data)


def _is_array(obj: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


def _pointers_of(array: Any) -> memoryview:
    """The memory of an array of objects, which NumPy shows to nobody by itself."""
    import ctypes

    return memoryview((ctypes.c_char * array.nbytes).from_address(array.ctypes.data)).cast("B")

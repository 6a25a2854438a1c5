"""Values as text, to be compared between two processes: what is equal, what is one and the same, and nothing else."""

from __future__ import annotations

import array
import collections
import contextvars
import datetime
import enum
import functools
import gc
import hashlib
import io
import numbers
import pathlib
import random
import re
import threading
import types
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

OF_THE_USER = ("__main__", "lib", "kit", "kit.part")
"""Modules whose classes and variables are the program's own."""


class Describer:
    """Values as text that says what is equal and what is one and the same, and nothing about this process."""

    def __init__(self, user_ns: dict[str, Any]) -> None:
        self._user_ns = user_ns
        self._met: dict[int, tuple[int, Any]] = {}
        self._memory: dict[int, tuple[int, int, Any]] = {}

    def describe(self, value: Any) -> str:
        kind = type(value)
        if kind in weakref.ProxyTypes:
            return f"proxy {_alive(value)}"
        if value is None or kind in (bool, int, str, bytes, float, complex, range, slice):
            return repr(value)
        if kind is tuple:
            return f"({','.join(map(self.describe, value))})"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if not _is_mutable(value):
            return self._content(value)
        known = self._met.get(id(value))
        if known is not None:
            return f"#{known[0]}"
        number = len(self._met)
        self._met[id(value)] = number, value
        return f"#{number}={self._content(value)}"

    def _content(self, value: Any) -> str:
        import numpy as np
        import pandas as pd

        if type(value).__module__ in OF_THE_USER and isinstance(value, (list, dict, np.ndarray, pd.DataFrame)):
            own = {
                k: v
                for k, v in sorted(vars(value).items())
                if k not in ("_mgr", "_attrs", "_flags", "_typ", "_item_cache")
            }
            return f"{self.describe(type(value))} {self.describe(own)} {self._held(value)}"
        return self._held(value)

    def _held(self, value: Any) -> str:
        import numpy as np
        import pandas as pd

        if isinstance(value, list):
            return f"[{','.join(map(self.describe, list.__iter__(value)))}]"
        if isinstance(value, dict):
            kind = type(value).__name__ + str(getattr(value, "default_factory", ""))
            items = (collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict).items(value)
            return kind + "{{{}}}".format(",".join(f"{self.describe(k)}:{self.describe(v)}" for k, v in items))
        if isinstance(value, (set, frozenset)):
            return "{{{}}}".format(",".join(sorted(map(self.describe, value))))
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return f"{value.dtype} {value!r}"
        if isinstance(value, pd.DataFrame):
            columns = [
                f"{self.describe(n)} {value.dtypes.iloc[i]} {self._inside(value.iloc[:, i])}"
                for i, n in enumerate(value.columns)
            ]
            return f"frame {columns} {self._inside(value.index)} {value.attrs}"
        if isinstance(value, (pd.Series, pd.Index)):
            return f"{type(value).__name__} {value.dtype} {value.name!r} {self._inside(value)}"
        return self._code(value) or self._instance(value)

    def _inside(self, column: Any) -> str:
        return ",".join(self.describe(item) for item in column.tolist())

    def _array(self, value: Any) -> str:
        import numpy as np

        root = value
        while getattr(root, "base", None) is not None:
            root = root.base
        root = root.operands[0] if isinstance(root, np.nditer) else root
        while getattr(root, "base", None) is not None:
            root = root.base
        at = value.__array_interface__["data"][0]
        number, start, _ = self._memory.setdefault(id(root), (len(self._memory), at, root))
        plain = value.filled(0).view(type(root)) if hasattr(value, "mask") else value
        items = ",".join(map(self.describe, np.asarray(plain).ravel().tolist()))
        items += (
            f" masked {value.mask.tolist()} {value.fill_value} {value._sharedmask}" if hasattr(value, "mask") else ""
        )
        lies = [stride for stride, length in zip(value.strides, value.shape, strict=True) if length > 1]
        return f"array {value.dtype}{value.shape} {value.flags.writeable} {lies} memory{number}+{at - start} {items}"

    def _code(self, value: Any) -> str:
        if isinstance(value, types.FunctionType):
            mine = value.__globals__ is self._user_ns
            body = hashlib.sha1(repr(_plain_code(value.__code__)).encode()).hexdigest()[:8]
            cells = [self._cell(cell) for cell in value.__closure__ or ()]
            more = (value.__defaults__, value.__kwdefaults__, dict(sorted(vars(value).items())))
            return f"function {value.__qualname__} {body} {mine} {cells} {self.describe(tuple(more))}"
        if isinstance(value, type):
            if value.__module__ not in OF_THE_USER:
                return f"class {value.__module__}.{value.__qualname__}"
            noise = (
                "__dict__",
                "__weakref__",
                "__slotnames__",
                "__doc__",
                "__module__",
                "__dataclass_fields__",
                "__dataclass_params__",
            )
            inside = {k: v for k, v in sorted(vars(value).items()) if k not in noise}
            return f"class {value.__qualname__} {[self.describe(b) for b in value.__bases__]} {self.describe(inside)}"
        if isinstance(value, types.MethodType):
            return f"method {value.__func__.__qualname__} {self.describe(value.__self__)}"
        if isinstance(value, types.BuiltinMethodType):
            return f"builtin {value.__name__} {self.describe(value.__self__)}"
        if isinstance(value, property):
            return f"property {self.describe(value.fget)}"
        return ""

    def _cell(self, cell: Any) -> str:
        known = self._met.get(id(cell))
        if known is not None:
            return f"#{known[0]}"
        self._met[id(cell)] = len(self._met), cell
        try:
            return f"#{len(self._met) - 1} cell {self.describe(cell.cell_contents)}"
        except ValueError:
            return "empty"

    def _instance(self, value: Any) -> str:

        import numpy as np

        if isinstance(value, random.Random):
            return f"Random {digest(value.getstate())}"
        if isinstance(value, np.random.Generator):
            return f"Generator {value.bit_generator.state}"
        if isinstance(value, functools.partial):
            return f"partial {self.describe(value.func)} {self.describe(value.args)} {self.describe(value.keywords)}"
        if isinstance(value, _CACHED):  # not whoever answers to that name: some answer to every name
            return f"cached {value.cache_info()} {self.describe(value.__wrapped__)}"
        if isinstance(value, types.GeneratorType):
            return "generator"
        if isinstance(value, weakref.ref):
            return f"weak {self.describe(value())}"
        if isinstance(value, type(threading.Lock())):
            return f"lock {value.locked()}"
        if isinstance(value, Future):
            return f"future {self.describe(value.exception() or value.result())}"
        if isinstance(value, ThreadPoolExecutor):
            return f"executor {value._shutdown}"
        if isinstance(value, BaseException):
            behind = (value.__cause__, value.__context__, value.__suppress_context__)
            inside = (getattr(value, "exceptions", None), dict(sorted(vars(value).items())))
            return f"{type(value).__name__} {self.describe((value.args, behind, *inside))}"
        if isinstance(value, memoryview):
            try:
                return f"memory {value.readonly} {bytes(value)!r} {self.describe(value.obj)}"
            except ValueError:
                return "memory released"
        if isinstance(value, (type({}.keys()), type({}.values()), type({}.items()))):
            return f"{type(value).__name__} {self.describe(gc.get_referents(value)[0])}"
        if isinstance(value, (collections.deque, bytearray)):
            return f"{type(value).__name__} {getattr(value, 'maxlen', '')} [{','.join(map(self.describe, value))}]"
        if isinstance(value, collections.ChainMap):
            return f"chain {self.describe(value.maps)}"
        if isinstance(value, enum.Enum):
            own = {k: v for k, v in vars(value).items() if k != "__objclass__"}
            return f"{self.describe(type(value))} {value.name} {self.describe(own)}"
        if isinstance(value, tuple):
            return f"{self.describe(type(value))}({','.join(map(self.describe, value))})"
        if type(value).__module__ in OF_THE_USER:
            slots = {
                name: getattr(value, name)
                for kind in type(value).__mro__
                for name in getattr(kind, "__slots__", ())
                if hasattr(value, name)
            }
            return f"{self.describe(type(value))} {self.describe(dict(getattr(value, '__dict__', {}), **slots))}"
        told = self._of_a_library(value)
        if told:
            return told
        if isinstance(value, io.IOBase):
            return f"file {getattr(value, 'name', '')} {value.closed}"
        if hasattr(value, "__next__"):
            try:
                state = value.__reduce__()[1:]
                # One that is over and one that is at the beginning of a list nobody else has, and nobody fills.
                state = state[:1] if state == (([],), 0) else state
                return f"{type(value).__name__} {self.describe(state)}"
            except (RuntimeError, TypeError) as error:
                return f"{type(value).__name__} {error}"
        if isinstance(value, (datetime.date, datetime.timedelta, numbers.Number)) or "pandas" in type(value).__module__:
            return f"{type(value).__qualname__} {value!r}"
        return type(value).__qualname__

    def _of_a_library(self, value: Any) -> str:
        kind = type(value).__name__
        if isinstance(value, (staticmethod, classmethod)):
            return f"{kind} {self.describe(value.__func__)}"
        if isinstance(value, (functools.cached_property, functools.partialmethod)):
            return f"{kind} {self.describe(value.func)}"
        if isinstance(value, types.MappingProxyType):
            return f"proxy {self.describe(gc.get_referents(value)[0])}"
        if isinstance(value, (weakref.WeakValueDictionary, weakref.WeakKeyDictionary)):
            # Without classes: which of them singledispatch has met has no effect.
            return f"{kind} {sorted(f'{anywhere(repr(k))}' for k in value if not isinstance(k, type))}"
        if isinstance(value, weakref.WeakSet):
            held = sorted(f"{type(item).__name__} {getattr(item, 'n', None)}" for item in value)
            return f"{kind} {held}"
        if isinstance(value, weakref.finalize):
            return f"{kind} {value.alive}"
        if isinstance(value, (collections.UserList, collections.UserDict)):
            return f"{kind} {self.describe(value.data)}"
        if isinstance(value, (types.SimpleNamespace, threading.local)):
            return f"{kind} {self.describe(dict(vars(value)))}"
        if isinstance(value, array.array):
            return f"{kind} {value.typecode} {value.tolist()}"
        if isinstance(value, (io.StringIO, io.BytesIO)) and not value.closed:
            return f"{kind} {value.getvalue()!r} at {value.tell()}"
        if isinstance(value, contextvars.ContextVar):
            return f"{kind} {value.name} {self.describe(value.get(None))}"
        if isinstance(value, threading.Event):
            return f"{kind} {value.is_set()}"
        if isinstance(value, (pathlib.PurePath, re.Pattern, re.Match)) or kind == "Context":
            return f"{kind} {value!r}"
        if hasattr(type(value), "hexdigest"):
            return f"{kind} {value.hexdigest()}"
        return ""


def _alive(proxy: Any) -> str:
    try:
        return f"{proxy.n}"
    except (ReferenceError, AttributeError) as error:
        return type(error).__name__


def _is_mutable(value: Any) -> bool:
    """Does it matter which of two equal ones one has?"""
    import numpy as np

    if isinstance(value, (numbers.Number, datetime.date, datetime.timedelta, np.generic, tuple, frozenset)):
        return False
    return not getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False)


def _plain_code(code: types.CodeType) -> Any:
    constants = [_plain_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


_CACHED = type(functools.lru_cache(int))


def digest(value: Any) -> str:
    return hashlib.sha1(repr(value).encode()).hexdigest()[:12]


ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")


def anywhere(text: Any) -> Any:
    """A text without what differs from process to process: addresses, and the number of a cell's source."""
    if not isinstance(text, str):
        return text
    text = re.sub(r"0x[0-9a-f]{6,}|ipython-input-[\w-]+|/tmp/\w+|[\w./-]+/program\d+/(work|plain\d+)", "…", text)
    text = re.sub(r"(\x1b\[2K\r)+", "", text)
    text = re.sub(r"(CPU times|Wall time): .*|[\d.]+ \w+ ± .* per loop.*", "took", text)
    return re.sub(r"(?<={)('\w+'(?:, '\w+')+)(?=})", lambda found: ", ".join(sorted(found[1].split(", "))), text)


def rest_of(iterator: Any) -> list[Any]:
    found = []
    try:
        for item in iterator:
            found.append(item)
            if len(found) > 50:
                break
    except Exception as error:
        found.append(type(error).__name__)
    return found

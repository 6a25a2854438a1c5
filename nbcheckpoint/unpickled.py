"""What pickle leaves out: attributes that a library's class does not write, content that a class of the user's does not
show, and that a generator or the settings of a library are everybody's.

An attribute the user has put on a data frame, or that a class of arrays has for all of them, is not in their pickles,
nor are those of a class made from a date, a counter or a path; code that reads it depends on it all the same. A class
made from a dict or a list may show less than it holds: pickle asks its methods, so here nobody does.

And a copy of the generator behind `random.random` or `np.random.rand` is not that generator: what was drawn from one
would not be missing in the other. Nor does a copy of the settings set anything.
"""

from __future__ import annotations

import copyreg
import decimal
import enum
import os
import random
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

from nbcheckpoint import refusing
from nbcheckpoint.whose import is_user_code

_CONTENT: dict[type, Callable[[Any], Iterable[Any]]] = {
    OrderedDict: OrderedDict.items,
    defaultdict: defaultdict.items,
    dict: dict.items,
    list: list.__iter__,
    deque: deque.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
}
"""What holds other objects, and how to ask it for them whatever has been made of it. The first that fits is meant."""
_PICKLES = frozenset({"__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__"})
"""Who has these says what it is made from."""
_ASKED = frozenset({"__iter__", "__getitem__", "__setitem__", "items", "keys", "append", "extend", "add", "update"})
"""What pickle asks of a container, to write it or to make it again."""
T = TypeVar("T")


def _once(decide: Callable[[type], T]) -> Callable[[type], T]:
    """Decide of each class only once: objects are many, classes are few."""
    return lru_cache(maxsize=1024)(decide)


_LIBRARIES_OWN = ("numpy", "pandas", "torch", "enum")

_IN_THE_STATE = frozenset({"_mask", "_basedict", "_fill_value"})
"""What a masked array does write, unless it is yet to be made up, as the mask of one that has none: it comes back made
up."""


def attributes_of(obj: Any) -> dict[str, Any]:
    """Those of an array or a frame that its own pickle does not hold."""
    kind = type(obj)
    if kind.__module__ == "builtins":
        return {}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(obj, numpy.ndarray):
        own = kind.__reduce__ in (numpy.ndarray.__reduce__, numpy.ma.MaskedArray.__reduce__) or refusing.refuses(kind)
        if kind is numpy.ndarray or not own or isinstance(obj, numpy.memmap):
            return {}
        unmade = (None, numpy.ma.nomask)
        return {n: v for n, v in vars(obj).items() if n not in _IN_THE_STATE or any(v is none for none in unmade)}
    if is_frame(kind):
        known = kind._accessors | set(kind._metadata)
        return {n: v for n, v in vars(obj).items() if not n.startswith("_") and n not in known}
    return own_attributes(obj) if loses_attributes(kind) else {}


def behind_exception(obj: Any) -> tuple[Any, ...]:
    """The cause and context of an exception, and whether the latter is shown; nothing where there is neither."""
    if not isinstance(obj, BaseException):
        return ()
    cause, context, suppressed = obj.__cause__, obj.__context__, obj.__suppress_context__
    return (cause, context, suppressed) if suppressed or cause is not None or context is not None else ()


def own_attributes(obj: Any) -> dict[str, Any]:
    """All that the user's classes have given it, also in slots."""
    found = dict(getattr(obj, "__dict__", {}))
    for name, slot in _slots(type(obj)).items():
        try:
            found[name] = slot.__get__(obj)
        except AttributeError:  # not filled
            continue
    return found


def set_attributes(obj: Any, found: dict[str, Any]) -> None:
    """Give it those, whatever its class thinks of that."""
    slots = _slots(type(obj))
    for name, value in found.items():
        if name in slots:
            slots[name].__set__(obj, value)
        else:
            vars(obj)[name] = value


@_once
def _slots(kind: type) -> dict[str, Any]:
    own = (vars(cls) for cls in reversed(type.mro(kind)) if is_user_code(cls))
    return {n: s for members in own for n, s in members.items() if isinstance(s, types.MemberDescriptorType)}


@_once
def loses_attributes(kind: type) -> bool:
    """A class of the user's, made from one that is pickled without what the user's adds to it. Of a library's own
    attributes, the library knows which to keep; those of Python do not know that they have any."""
    if not is_user_code(kind) or kind in copyreg.dispatch_table or not (kind.__dictoffset__ or _slots(kind)):
        return False
    made_from = next(cls for cls in type.mro(kind) if _PICKLES & vars(cls).keys())
    top = str(made_from.__module__).partition(".")[0]
    if made_from is object or is_user_code(made_from) or top in _LIBRARIES_OWN or issubclass(kind, BaseException):
        return False
    return made_from.__dictoffset__ == 0 or top in sys.stdlib_module_names


@_once
def container_of(kind: type) -> type | None:
    """What a class of the user's was made from, if pickle would ask the user's class what is in it."""
    base = next((base for base in _CONTENT if issubclass(kind, base)), None)
    if base is None or kind in _CONTENT or not is_user_code(kind) or kind in copyreg.dispatch_table:
        return None
    own = [vars(cls) for cls in type.mro(kind) if is_user_code(cls)]
    others = [cls for cls in type.mro(kind) if not is_user_code(cls)]
    foreign = any(cls.__module__.partition(".")[0] not in sys.stdlib_module_names for cls in others)
    if foreign or any(_PICKLES & members.keys() for members in own) or issubclass(kind, enum.Enum):
        return None
    asks = base not in (dict, list) or issubclass(kind, Counter)  # they are made again by calling the class
    return base if asks or any(_ASKED & members.keys() for members in own) else None


def content_of(obj: Any, base: type) -> tuple[Any, ...]:
    """Everything in it."""
    return tuple(_CONTENT[base](obj))


def made_with(obj: Any, base: type) -> tuple[Any, ...]:
    """What else it takes to make one."""
    if base is deque:
        return (), vars(deque)["maxlen"].__get__(obj)
    return (vars(defaultdict)["default_factory"].__get__(obj),) if base is defaultdict else ()


def is_frame(kind: Any) -> bool:
    """A data frame, a column, or something of the user's that is one."""
    pandas: Any = sys.modules.get("pandas")
    return hasattr(pandas, "Series") and issubclass(kind, (pandas.DataFrame, pandas.Series))


def global_generators() -> list[tuple[str, Any]]:
    """Those that everybody draws from, by the module they are in."""
    found: list[tuple[str, Any]] = [("random", random._inst)]  # its methods are what `random` offers
    mtrand: Any = sys.modules.get("numpy.random.mtrand")
    return [*found, ("numpy", mtrand._rand)] if hasattr(mtrand, "_rand") else found


def global_generator(name: str) -> Any:
    """The one of that name, in this process."""
    if name == "numpy":
        import numpy.random  # noqa: F401  # it is there from then on
    return dict(global_generators())[name]


def global_settings() -> list[tuple[str, Any]]:
    """What sets something for everybody as long as it is that object, by name. What is in them is none of its value:
    the environment may hold secrets."""
    found: list[tuple[str, Any]] = [("decimal", decimal.getcontext()), ("environ", os.environ)]
    if os.supports_bytes_environ:
        found.append(("environb", os.environb))
    matplotlib: Any = sys.modules.get("matplotlib")
    return [*found, ("matplotlib", matplotlib.rcParams)] if hasattr(matplotlib, "rcParams") else found


def global_setting(name: str) -> Any:
    """The one of that name, in this process."""
    if name == "matplotlib":
        import matplotlib  # noqa: F401  # the same
    return dict(global_settings())[name]


def behind(proxy: Any) -> Any:
    """What a weak proxy passes for: whatever it is asked, its object answers. None if that is gone."""
    try:
        return proxy.__init__.__self__
    except ReferenceError:
        return None

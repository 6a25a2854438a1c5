"""Types whose own pickle brings back something that looks the same and behaves differently.

    for a view of a dict, a mapping proxy    cloudpickle writes a copy: keys added later would not show
    for an object whose `__dict__` somebody else holds, or that is its own    pickle gives it another dict
    for `weakref.finalize`    pickle writes a name for it: nothing would be done in the end
    for a dict's iterator     pickle writes a list: it would not notice that the dict has changed meanwhile
    for a list's iterator     pickle moves it back to the end of a list that has meanwhile become shorter
    for an exception          pickle leaves out its cause and context
    for `random`'s generator  pickle writes a copy: it would give the same numbers once more
    for `os.environ`, the context of decimals    pickle writes a copy: it would set nothing
    for a frame with attributes, an array of some class, a class made from a date    pickle leaves the attributes out
    for a class made from a dict or list    pickle asks its methods what is in it, and has them fill it again
    for a type variable of the notebook    cloudpickle makes one that says it is cloudpickle's
    for objects that all have one state, held by their class    pickle gives each a state of its own
    for an open file, a view of bytes    cloudpickle writes their content, as text and bytes
    for a closed file, a lock nobody holds, an executor that is shut down    it is refused, and need not be (`over.py`)
    for a class that keeps something out of its pickles and does not make it again    it would come back without that
    for a logger    pickle writes its name: who writes its log would go on with what the variables no longer hold
    for a handler that a logger has    pickle writes a copy: what is set there would not be set

Here they are written so that they come back as what they are, or they are refused, and then named. Tracebacks are not
kept.
"""

from __future__ import annotations

import array
import copyreg
import decimal
import gc
import importlib
import io
import itertools
import logging
import operator
import os
import pickle
import sys
import types
import typing
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from nbcheckpoint import loggers, over, plots, refusing, unpickled
from nbcheckpoint.whose import home_of, is_user_code

Reducer = Callable[[Any], Any]
_METHODS = ("keys", "values", "items")


def find(kind: type) -> Reducer | None:
    """How to write an instance of this type, if not pickle's or cloudpickle's way."""
    if kind in _exact:
        return _exact[kind]
    if kind in over.reducers():
        return over.reducers()[kind]
    if kind in refusing.reducers():
        return refusing.reducers()[kind]
    if issubclass(kind, BaseException):
        return _reduce_exception
    if issubclass(kind, logging.Logger):
        return _reduce_logger
    if issubclass(kind, logging.Handler):
        return _reduce_handler
    if kind.__name__ in ("Random", "RandomState"):
        return _reduce_generator
    if kind in (decimal.Context, type(os.environ)) or kind.__name__ == "RcParams":
        return _reduce_settings
    if unpickled.is_frame(kind):
        return _reduce_frame
    if plots.is_plot(kind):
        return plots.reduce_plot
    if unpickled.container_of(kind) is not None:
        return _reduce_container
    if unpickled.loses_attributes(kind):
        return _reduce_losing
    if _says_what_it_keeps(kind):
        return _reduce_kept
    if kind.__dictoffset__ and any(_shared_states(kind)):
        return _reduce_joint
    return _refuse_file if issubclass(kind, io.IOBase) and kind not in (io.StringIO, io.BytesIO) else None


def held_as(function: types.FunctionType) -> tuple[str, str] | None:
    """The module of a library that has it under another name than it says: `functools.wraps` around a class."""
    module = sys.modules.get(home_of(function))
    if module is None or is_user_code(module):
        return None
    name = next((name for name, held in list(vars(module).items()) if held is function), None)
    return (home_of(function), name) if name is not None else None


def held_by(module: str, name: str) -> Any:
    """What an installed module has under that name."""
    return getattr(importlib.import_module(module), name)


def _reduce_view(view: Any) -> Any:
    of = next(part for part in gc.get_referents(view) if isinstance(part, dict))
    return _view, (of, _view_names[type(view)])


def _view(of: dict[Any, Any], name: str) -> Any:
    return getattr(of, name)()


def _reduce_variable(variable: Any) -> Any:
    """Nobody would find it by its name in the module it says it comes from."""
    made = cloudpickle.CloudPickler.dispatch_table[typing.TypeVar](variable)
    return made if made[0] is getattr else (*made, variable.__module__, None, None, _say_module)


def _say_module(variable: Any, name: str) -> None:
    variable.__module__ = name


def _reduce_proxy(proxy: Any) -> Any:
    of = gc.get_referents(proxy)[0]
    if type(of) is dict and {"__module__", "__doc__"} <= of.keys():
        raise pickle.PicklingError("a view of the attributes of a class")
    return types.MappingProxyType, (of,)


def keeps_attributes(kind: type) -> bool:
    """Is the dict of its attributes what pickle writes of an instance, and fills another one with?"""
    says = {"__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"}
    others = any(says & vars(cls).keys() for cls in type.mro(kind) if cls is not object)
    return bool(kind.__dictoffset__) and not others


def shares_attributes(obj: Any) -> bool:
    """Is the dict of its attributes held by anybody else?"""
    return sys.getrefcount(obj.__dict__) > ALONE


def reduce_sharing(obj: Any) -> Any:
    """So that the dict of its attributes is that very dict again."""
    made = obj.__reduce_ex__(5)
    function, args, state, items, pairs = (*made, None, None, None)[:5]
    attributes = state[0] if isinstance(state, tuple) and len(state) == 2 else state
    try:
        if attributes is not obj.__dict__:
            raise TypeError
        object.__setattr__(obj, "__dict__", attributes)  # can it be given one?
    except (TypeError, AttributeError):
        raise pickle.PicklingError("something else holds the dict of its attributes") from None
    return function, args, state, items, pairs, _adopt


def _adopt(obj: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    object.__setattr__(obj, "__dict__", attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)


def _reduce_simple(obj: Any) -> Any:
    if shares_attributes(obj):
        raise pickle.PicklingError("something else holds the dict of its attributes")
    return NotImplemented


class _Alone:
    """One whose attributes nobody else has."""

    def __init__(self) -> None:
        self.there = True


_alone = _Alone()
ALONE = sys.getrefcount(_alone.__dict__)
"""References to the dict of attributes, as they are counted, if nobody but the object has it."""


def _reduce_iterator(iterator: Any) -> Any:
    name = _iterator_names[type(iterator)]
    there = [part for part in gc.get_referents(iterator) if isinstance(part, dict)]
    left = operator.length_hint(iterator)
    if not there:
        return _iterator, ({}, name, 0)  # it has come to its end, and let go of the dict
    if not left:
        iterator.__reduce__()  # raises if it is not at its end, but the dict has changed
    return _iterator, (there[0], name, len(there[0]) - left)


def _iterator(of: dict[Any, Any], name: str, passed: int) -> Any:
    made = iter(getattr(of, name)())
    next(itertools.islice(made, passed, passed), None)
    return made


def _reduce_place(iterator: Any) -> Any:
    let_go = all(isinstance(part, type) for part in gc.get_referents(iterator))
    made = iterator.__reduce__()
    # From Python 3.13 on, one that has gone backwards does not let go of its list; but its pickle has no place in it.
    if (let_go or len(made) == 2) and not operator.length_hint(iterator):  # it is over
        return _over, _places[type(iterator)]
    of, at = made[1][0], made[2] if len(made) > 2 else 0
    if at > len(of) - (made[0] is reversed):
        raise pickle.PicklingError("an iterator that is beyond the end of what has become shorter")
    return made


def _over(of: str, backwards: bool) -> Any:
    empty = {"list": [], "bytearray": bytearray(), "array": array.array("b")}[of]
    made: Any = reversed(empty) if backwards else iter(empty)
    next(made, None)
    return made


def _reduce_exception(error: BaseException) -> Any:
    behind = unpickled.behind_exception(error)
    if not behind:
        return NotImplemented
    made = error.__reduce_ex__(5)
    if not isinstance(made, tuple) or len(made) > 3:
        return NotImplemented
    return made[0], made[1], (made[2] if len(made) > 2 else None, behind), None, None, _fill_exception


def _fill_exception(error: BaseException, state: tuple[Any, tuple[Any, Any, bool]]) -> None:
    own, (cause, context, suppress) = state
    if own is not None:
        error.__setstate__(own)
    error.__cause__, error.__context__, error.__suppress_context__ = cause, context, suppress


def _reduce_generator(generator: Any) -> Any:
    name = next((name for name, found in unpickled.global_generators() if found is generator), "")
    return (unpickled.global_generator, (name,)) if name else NotImplemented


def _reduce_settings(settings: Any) -> Any:
    name = next((name for name, found in unpickled.global_settings() if found is settings), "")
    return (unpickled.global_setting, (name,)) if name else NotImplemented


def _reduce_logger(logger: Any) -> Any:
    """By its name, but for one whose handlers hold what has been logged, or have somebody's list or buffer filled."""
    if next(loggers.fills(logger), None) is not None:
        raise pickle.PicklingError("a logger that writes to something in memory")
    return NotImplemented


def _reduce_handler(handler: Any) -> Any:
    if loggers.has_handler(handler):
        raise pickle.PicklingError("a handler that a logger writes to")
    return NotImplemented


def _reduce_container(obj: Any) -> Any:
    kind = type(obj)
    base = unpickled.container_of(kind)
    assert base is not None
    content: tuple[Any, ...] = unpickled.content_of(obj, base)
    state = _state_of(obj)
    if base is frozenset:
        return frozenset.__new__, (kind, content), state, None, None, _set_state
    made = kind, base, unpickled.made_with(obj, base)
    adopts = state is not None and state is getattr(obj, "__dict__", None) and shares_attributes(obj)
    fill = _fill_adopting if adopts else _fill_container
    return _make_container, made, (base, content, state), None, None, fill


def _state_of(obj: Any) -> Any:
    """As pickle has it: attributes, or those and slots, or what the user's class says, if that is all of it."""
    if any("__getstate__" in vars(cls) for cls in type.mro(type(obj))[:-1]):
        state = obj.__getstate__()
        if _says_what_it_keeps(type(obj)):
            _check_kept(obj, state)
        return state
    attributes = getattr(obj, "__dict__", None)
    slots = {n: v for n, v in unpickled.own_attributes(obj).items() if n not in (attributes or {})}
    return (attributes, slots) if slots else attributes or None


def _set_state(obj: Any, state: Any) -> None:
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
        return
    for part in state if isinstance(state, tuple) else (state,):
        unpickled.set_attributes(obj, part or {})


def _make_container(kind: type, base: Any, made_with: tuple[Any, ...]) -> Any:
    """Not by calling its class, which may have other ideas of what it is made from."""
    made = base.__new__(kind)
    base.__init__(made, *made_with)
    return made


def _fill_container(obj: Any, state: tuple[Any, tuple[Any, ...], Any]) -> None:
    base, content, own = state
    if issubclass(base, dict):
        for key, value in content:
            base.__setitem__(obj, key, value)
    else:
        (base.update if base is set else base.extend)(obj, content)
    if own is not None:
        _set_state(obj, own)


def _fill_adopting(obj: Any, state: tuple[Any, tuple[Any, ...], Any]) -> None:
    base, content, attributes = state
    _fill_container(obj, (base, content, None))
    object.__setattr__(obj, "__dict__", attributes)


def _reduce_losing(obj: Any) -> Any:
    made, more = obj.__reduce_ex__(5), unpickled.own_attributes(obj)
    if not isinstance(made, tuple) or len(made) > 5:
        return made
    function, args, state, items, pairs = (*made, None, None, None)[:5]
    lost = {n: v for n, v in more.items() if not (isinstance(state, dict) and n in state)}
    return (function, args, (state, lost), items, pairs, _fill_losing) if lost else made


def _fill_losing(obj: Any, state: tuple[Any, dict[str, Any]]) -> None:
    if state[0] is not None:
        _set_state(obj, state[0])
    unpickled.set_attributes(obj, state[1])


def _reduce_frame(frame: Any) -> Any:
    more = unpickled.attributes_of(frame)
    unset = [name for name in frame._metadata if not hasattr(frame, name)]  # pandas writes None for them
    if not more and not unset:
        return NotImplemented
    made = frame.__reduce_ex__(5)
    for name in unset:
        made[2].pop(name, None)
    return with_attributes(made, more)


def _says_what_it_keeps(kind: type) -> bool:
    """Has the user written a `__getstate__` for it, and nothing that could make up for what that leaves out? Libraries
    know what they do: the parts of a plot forget whom to tell when they change, and are told again."""
    makes_up = {"__setstate__", "__reduce__", "__reduce_ex__", "__getattr__", "__getattribute__"}
    own = [vars(cls) for cls in type.mro(kind)[:-1]]
    if any(makes_up & members.keys() for members in own) or kind in copyreg.dispatch_table:
        return False
    found = next((members["__getstate__"] for members in own if "__getstate__" in members), None)
    return isinstance(found, types.FunctionType) and is_user_code(found)


def _reduce_kept(obj: Any) -> Any:
    made = obj.__reduce_ex__(5)
    _check_kept(obj, made[2] if len(made) > 2 else None)
    return made


def _check_kept(obj: Any, state: Any) -> None:
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    if not all(part is None or isinstance(part, dict) for part in parts) or parts == (None,):
        return
    kept = {name: value for part in parts for name, value in (part or {}).items()}
    for name, value in unpickled.own_attributes(obj).items():
        left_out = name not in kept
        has_default = left_out and any(
            name in vars(cls) and not _is_slot(vars(cls)[name]) for cls in type.mro(type(obj))
        )
        if not has_default and (left_out or not _is_kept(value, kept[name])):
            raise pickle.PicklingError(f"its __getstate__ does not keep {name}")


def _is_slot(member: Any) -> bool:
    return isinstance(member, types.MemberDescriptorType)


def _is_kept(value: Any, kept: Any) -> bool:
    """As far as a look can tell: a copy will do."""
    if type(value) in (bool, int, float, complex, str, bytes):
        return type(kept) is type(value) and (kept == value or value != value)
    return type(kept) is type(value)


def _shared_states(kind: type) -> Iterator[tuple[type, str]]:
    """Dicts that its classes hold, and that may be the attributes of all of its instances."""
    for cls in type.mro(kind):
        yield from ((cls, name) for name, held in vars(cls).items() if type(held) is dict and not name.startswith("__"))


def _reduce_joint(obj: Any) -> Any:
    state: Any = getattr(obj, "__dict__", None)
    for cls, name in _shared_states(type(obj)):
        if vars(cls)[name] is state:
            made = obj.__reduce_ex__(5)
            if len(made) > 2 and made[2] is state and not any(made[3:]):
                return _join, (made[0], made[1], cls, name), dict(state), None, None, _fill_joint
    return NotImplemented


def _join(make: Any, args: tuple[Any, ...], cls: type, name: str) -> Any:
    made = make(*args)
    made.__dict__ = vars(cls)[name]
    return made


def _fill_joint(obj: Any, state: dict[str, Any]) -> None:
    obj.__dict__.update(state)


def with_attributes(made: Any, more: dict[str, Any]) -> Any:
    """What `__reduce__` gave, and attributes to be set when that is done."""
    return made[0], made[1], (made[2], more), None, None, _fill


def _fill(obj: Any, state: tuple[Any, dict[str, Any]]) -> None:
    obj.__setstate__(state[0])
    vars(obj).update(state[1])


def _reduce_memory(view: memoryview) -> Any:
    of = view.obj
    if isinstance(of, (bytes, bytearray)) and view.format == "B" and view.nbytes == len(of) and view.contiguous:
        made = memoryview(of)
        if made.strides == view.strides and made.readonly == view.readonly:
            return memoryview, (of,)
    raise pickle.PicklingError("a view of some memory")


def _refuse(what: str) -> Reducer:
    def refuse(_: Any) -> Any:
        raise pickle.PicklingError(what)

    return refuse


_refuse_file = _refuse("an open file")


_dict: dict[Any, Any] = {}
_odict: OrderedDict[Any, Any] = OrderedDict()
_set: set[Any] = set()
_view_names: dict[type, str] = {type(getattr(of, name)()): name for of in (_dict, _odict) for name in _METHODS}
_iterator_names: dict[type, str] = {type(iter(getattr(_dict, name)())): name for name in _METHODS}
_backwards = (reversed(_dict), reversed(_dict.values()), reversed(_dict.items()), iter(_odict), reversed(_odict))
_places: dict[type, tuple[str, bool]] = {
    type(iter([])): ("list", False),
    type(reversed([])): ("list", True),
    type(iter(bytearray())): ("bytearray", False),
    type(reversed(bytearray())): ("bytearray", True),
    type(iter(array.array("b"))): ("array", False),
}
"""Iterators that stand at a place in something, and what one of them goes through, in which direction."""
_exact: dict[type, Reducer] = {
    **dict.fromkeys(_view_names, _reduce_view),
    **dict.fromkeys(map(type, _backwards), _refuse("an iterator over a dict")),
    **dict.fromkeys(_iterator_names, _reduce_iterator),
    **dict.fromkeys(_places, _reduce_place),
    type(iter(_set)): _refuse("an iterator over a set: its order is another one next time"),
    memoryview: _reduce_memory,
    types.MappingProxyType: _reduce_proxy,
    types.SimpleNamespace: _reduce_simple,
    typing.TypeVar: _reduce_variable,
    weakref.finalize: _refuse("something to be done when an object is gone"),
}

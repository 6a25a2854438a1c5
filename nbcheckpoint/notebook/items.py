"""What a loop goes through, read off its text and what its names stand for: is the order certain, what is behind it?

And whether a `with` around a loop can be entered once more as it was.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import operator
import types
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any

from nbcheckpoint import bars, tensors
from nbcheckpoint.engine.trail import PLAIN
from nbcheckpoint.fingerprint.reach import code_of, reach, reads_of
from nbcheckpoint.notebook.sharing import inside
from nbcheckpoint.whose import is_user_code, package_of

_ORDERED = (list, tuple, str, bytes, bytearray, dict, range, *PLAIN)
_LIBRARIES = ("numpy", "pandas")
_ORDERLY = frozenset({"range", "enumerate", "zip", "reversed", "sorted", "list", "tuple", "dict", "len", "min", "max"})
_TAKE_OUT = frozenset({"min", "max", "get", "pop", "popitem", "setdefault", "__getitem__"})
"""These give one of the things that are in another."""
_MANY = 1000
_DEPTH, _BREADTH = 4, 100
"""How far, and how many of each, the parts of an iterator are looked at for code."""
_GIVE_NEW_ITERATORS = (list, tuple, dict, set, frozenset, str, bytes, range)
_EMPTY: tuple[Iterable[Any], ...] = ([], (), {}, {}.values(), {}.items(), set(), "", b"", range(0))
MADE_BEFORE = tuple(type(iter(empty)) for empty in _EMPTY)
"""Iterators that give what is there: no code runs when they are asked."""
_NEW_ITERATORS = (enumerate, zip, map, filter)
"""Not `reversed`: that gives whatever a class has in store."""
_OURS = __name__.partition(".")[0] + "."
REENTERED = frozenset({"contextlib.suppress", "contextlib.nullcontext", *tensors.MODES})
"""Contexts that keep nothing of what was there when they were entered, or what is known to be there again."""


def names_of(node: ast.For | ast.While) -> set[str]:
    """The names in what a `for` goes through."""
    return (
        {part.id for part in ast.walk(node.iter) if isinstance(part, ast.Name)} if isinstance(node, ast.For) else set()
    )


def makes_iterator(node: ast.For | ast.While, iterable: Any, user_ns: dict[str, Any]) -> bool:
    """Is the iterator made for this loop, so that no variable can lead to it?"""
    if type(iterable) in _GIVE_NEW_ITERATORS:
        return True
    made = node.iter if isinstance(node, ast.For) else None
    by = made.func.id if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) else ""
    return type(iterable) in _NEW_ITERATORS and by not in user_ns and getattr(builtins, by, None) is type(iterable)


def parts_of(target: ast.expr | None, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    inside = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    if type(item) not in (tuple, list) or len(inside) != len(item):
        return {}
    found: dict[str, Any] = {}
    for one, part in zip(inside, item, strict=True):
        found |= parts_of(one, part)
    return found


def length_of(iterable: Any) -> int:
    """How many items it has, if that can be asked without running code of the user's; or 0."""
    if type(iterable) in (enumerate, zip):
        of = iterable.__reduce__()[1]
        return min(map(length_of, of[:1] if type(iterable) is enumerate else of), default=0)
    if type(iterable) in MADE_BEFORE:
        return operator.length_hint(iterable)
    if is_user_code(type(iterable)) or not hasattr(type(iterable), "__len__"):
        return 0
    try:
        return len(iterable)
    except Exception:  # a data loader of a stream has a length until it is asked for it
        return 0


def raising(error: BaseException) -> Any:
    """Raises that error when a `for` asks it for an iterator, or an `if` for its truth, in no frame of ours: by a
    generator that is over."""
    over = (item for item in "")
    over.close()
    throw = staticmethod(partial(over.throw, error.with_traceback(_beyond_us(error.__traceback__))))
    return type("raising", (), {"__iter__": throw, "__bool__": throw})()


def _beyond_us(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """What of a traceback is behind our own frames."""
    while traceback is not None and str(traceback.tb_frame.f_globals.get("__name__")).startswith(_OURS):
        traceback = traceback.tb_next
    return traceback


def unwrap_bar(iterable: Any) -> tuple[Any, Any]:
    """(the tqdm bar, what it goes through), or (None, the thing itself). A bar that is switched off shows nothing, and
    has nothing but what it goes through."""
    if not bars.is_bar(iterable) or iterable.iterable is None:
        return None, iterable
    return (None if iterable.disable else iterable), iterable.iterable


def is_ordered(node: ast.expr, user_ns: dict[str, Any], inside: Collection[str] = ()) -> bool:
    """Does the order of what this expression gives follow from the statement's inputs?

    True only where that is certain. Names bound `inside` the statement before the loop are not inputs.
    """
    if any(isinstance(part, ast.Name) and part.id in inside for part in ast.walk(node)):
        return False
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return _is_orderly(user_ns[node.id]) if node.id in user_ns else node.id in _ORDERLY
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(is_ordered(item, user_ns) for item in node.elts)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Slice, ast.Starred)):
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return _is_no_set(node, user_ns) and all(is_ordered(part, user_ns) for part in parts)
    if isinstance(node, ast.Call):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        ordered = _gives_order(node.func, user_ns) and all(is_ordered(part, user_ns) for part in given)
        return ordered and _is_no_set(node, user_ns)
    return isinstance(node, ast.Attribute) and is_ordered(node.value, user_ns)


def _is_no_set(node: ast.expr, user_ns: dict[str, Any]) -> bool:
    """Is it certain that parts which are ordered do not make a set here, or give one that they hold?"""
    if isinstance(node, ast.BinOp):  # what the keys of two have in common
        return not {_called(node.left), _called(node.right)} & {"keys", "items"}
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return True
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return _holds_order(node.value, user_ns)
    if isinstance(node, ast.Call) and _called(node) in _TAKE_OUT:
        if isinstance(node.func, ast.Attribute):
            return _holds_order(node.func.value, user_ns)
        return len(node.args) > 1 or all(_holds_order(one, user_ns) for one in node.args)
    return True


def _holds_order(node: ast.expr, user_ns: dict[str, Any]) -> bool:
    held = _stands_for(node, user_ns)
    return held is not None and all(_is_orderly(part) for one in held for part in _contents(one))


def _stands_for(node: ast.expr, user_ns: dict[str, Any]) -> list[Any] | None:
    """What an expression may stand for, or something of its kind, if that is plain to see."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return [user_ns.get(node.id)] if isinstance(node, ast.Name) else [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _stands_for(node.func, user_ns)
    if not isinstance(node, (ast.Subscript, ast.Attribute)):
        return None
    base = _stands_for(node.value, user_ns)
    if base is None or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)):
        return base
    if isinstance(node, ast.Attribute):
        return base if all(map(_is_of_library, base)) else None
    inside = [part for one in base for part in _contents(one)]
    return inside if len(inside) <= _MANY else None


def _contents(value: Any) -> Iterable[Any]:
    """Of a library's own: numbers, text, and things of its kind."""
    if type(value) in (list, tuple, dict):
        return itertools.islice(value.values() if type(value) is dict else value, _MANY + 1)
    return (value,)


def _called(node: ast.expr) -> str:
    """The name of the function or method an expression calls."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_orderly(value: Any) -> bool:
    return type(value) in _ORDERED or _is_of_library(value) or tensors.is_loader(value)


def _is_of_library(value: Any) -> bool:
    return package_of(type(value)) in _LIBRARIES


def _gives_order(function: ast.expr, user_ns: dict[str, Any]) -> bool:
    """A builtin, a bar, a method of something orderly, or a function of a library that does what it is told."""
    if isinstance(function, ast.Name):
        name, value = function.id, user_ns.get(function.id)
        module = package_of(value)
        return (name in _ORDERLY and name not in user_ns) or module in ("tqdm", "itertools")
    if not isinstance(function, ast.Attribute):
        return False
    base = function.value
    value = user_ns.get(base.id) if isinstance(base, ast.Name) else None
    if isinstance(value, types.ModuleType):
        return package_of(value) in ("itertools", "tqdm", "numpy", "math")
    return function.attr != "sample" and is_ordered(base, user_ns)


def read_by(iterator: Any) -> set[str]:
    """Everything that making the next item may read, as far as the user's own code leads."""
    found: list[tuple[types.CodeType, dict[str, Any], str]] = []
    for obj in _parts(iterator):
        if isinstance(obj, types.GeneratorType) and obj.gi_frame is not None:
            found.append((obj.gi_code, obj.gi_frame.f_globals, "__main__"))
        found += code_of(obj if isinstance(obj, types.FunctionType) else type(obj))
    return set(reach(item for code, globals_, _ in found for item in reads_of(code, globals_)))


def holds(iterator: Any, item: Any) -> bool:
    """Does it still hold an item it has given, or a part of it, as far as can be seen?"""
    parts = {id(part) for part in (item, *(item if type(item) in (tuple, list) else ())) if type(part) not in PLAIN}
    return any(id(obj) in parts for one in sources(iterator) for obj in _parts(one))


def sources(iterator: Any) -> list[Any]:
    """What an iterator asks for its items. `enumerate` and `zip` keep the tuple they made last, to use it again: they
    do not have it from there."""
    if type(iterator) not in (enumerate, zip):
        return [iterator]
    asked = iterator.__reduce__()[1]
    return [source for part in (asked[:1] if type(iterator) is enumerate else asked) for source in sources(part)]


def _parts(iterator: Any) -> Iterator[Any]:
    """What an iterator is made of: other iterators, functions, the object that gives the items."""
    seen: dict[int, Any] = {}
    level = [iterator]
    for _ in range(_DEPTH):
        fresh = [obj for obj in level if id(obj) not in seen and not isinstance(obj, (*PLAIN, type, types.ModuleType))]
        seen.update((id(obj), obj) for obj in fresh)
        yield from fresh
        deeper = (obj for obj in fresh if not isinstance(obj, types.FunctionType))
        level = [part for obj in deeper for part in list(inside(obj))[:_BREADTH]]


def entered_with(head: ast.expr, user_ns: dict[str, Any]) -> list[Any]:
    """What a `with` is entered with, if that is known to be the same in another kernel, in the middle of a loop; else
    nothing.

    Most are not: a fork of the random state gives back in the end what it found when it was entered.
    """
    if not isinstance(head, ast.Call):
        return []
    given = [part for part in (*head.args, *(k.value for k in head.keywords)) if not isinstance(part, ast.Constant)]
    meant, *others = (_meant(part, user_ns) for part in (head.func, *given))
    known = f"{getattr(meant, '__module__', '')}.{getattr(meant, '__qualname__', '')}" in REENTERED
    return [meant, *others] if known and all(map(_is_fixed, others)) else []


def _is_fixed(value: Any) -> bool:
    return isinstance(value, type) or type(value).__name__ == "dtype"


def _meant(node: ast.expr, user_ns: dict[str, Any]) -> Any:
    """What a name, or an attribute of a module, stands for."""
    if isinstance(node, ast.Name):
        return user_ns.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        base = _meant(node.value, user_ns)
        return getattr(base, node.attr, None) if isinstance(base, types.ModuleType) else None
    return None

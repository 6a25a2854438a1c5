"""What code reads, and where that leads: through functions, classes and modules of the user's to all that counts.

A library's own code is not looked into: it is given. What the user has put into it counts, and so does what a library
has put around a function of the user's.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from nbcheckpoint.fingerprint.code import Names, functions_of, names_in
from nbcheckpoint.whose import home_of, is_user_code, is_users_namespace, name_of, package_of, reads_from

BY_ATTRS = "<attrs generated"
"""Methods written by attrs, from the attributes of the class, which count themselves."""


def reads_of(
    code: types.CodeType, namespace: dict[str, Any], only: Collection[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """(label, value) of the globals a code object reads that exist; of the user's modules, what it reads there."""
    names = names_in(code)
    for name in sorted(names.reads if only is None else only):
        if name in namespace:
            yield from _expand(name, namespace[name], names)
    for name in sorted(names.imports) if only is None else ():
        for label, module in imported_by(name, namespace):
            yield from _expand(label, module, names, whole=name in names.handed_on)


def imported_by(name: str, namespace: dict[str, Any]) -> Iterator[tuple[str, types.ModuleType]]:
    """The user's modules that an import of this name leads to where it stands, as far as they are loaded."""
    if name.startswith("."):
        try:
            name = importlib.util.resolve_name(name, namespace.get("__package__") or "")
        except (ImportError, ValueError):
            return
    for found in dict.fromkeys((name.partition(".")[0], name)):
        module = sys.modules.get(found)
        if isinstance(module, types.ModuleType) and found != "__main__" and is_user_code(module):
            yield found, module


def _expand(
    label: str, value: Any, names: Names, *, whole: bool = False, path: tuple[Any, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """A value; of a module of the user's, what is read there; all of it, if it is handed on to somebody else."""
    yield label, value
    if not isinstance(value, types.ModuleType) or any(value is found for found in path):
        return
    held = vars(value)
    own = is_user_code(value) and home_of(value) != "__main__"
    whole = own and (whole or label.rpartition(".")[2] in names.handed_on or "__dict__" in names.attributes)
    for name in sorted(_content(value) if whole else names.attributes & held.keys()):
        if own or _may_be_put_there(name, held[name]):
            yield from _expand(f"{label}.{name}", held[name], names, whole=whole, path=(*path, value))
    if own and "__getattr__" in held:
        yield f"{label}.__getattr__", held["__getattr__"]


def _content(module: types.ModuleType) -> list[str]:
    """The names of what a module of the user's holds."""
    return [name for name in vars(module) if not name.startswith("__")]


def _may_be_put_there(name: str, found: Any) -> bool:
    """Of a library only what the user may have put into it: own code, functions under another name, plain constants."""
    if isinstance(found, (types.FunctionType, type)) and is_user_code(found):
        return True
    if isinstance(found, (types.FunctionType, types.BuiltinFunctionType)):
        return found.__name__ != name
    return type(found) in (int, float, complex, bool, str) and not name.startswith("__")


def reach(reads: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Everything those reads lead to through the user's functions and classes: label -> value."""
    reached: dict[str, Any] = {}
    queue = list(reads)
    while queue:
        label, value = queue.pop()
        if label in reached and reached[label] is not value and not isinstance(value, types.ModuleType):
            # The same name in another namespace (%run gives its functions one of their own): both count.
            label = next(f"{label}@{n}" for n in range(2, 10**6) if reached.get(f"{label}@{n}", value) is value)
        if label in reached:
            continue
        reached[label] = value
        for code, namespace, module in code_of(value):
            prefix = "" if module == "__main__" else f"{module}."
            queue.extend((prefix + name, found) for name, found in reads_of(code, namespace))
    return reached


def code_of(value: Any) -> Iterator[tuple[types.CodeType, dict[str, Any], str]]:
    """The code a function or class of the user's brings along, with the namespace it reads from."""
    value = getattr(value, "__wrapped__", value) if is_wrapper(value) else standing_for(value)
    if isinstance(value, types.FunctionType) and is_user_code(value):
        yield from _code_behind(value)
    elif isinstance(value, type) and is_user_code(value):
        for cls in (*value.__mro__, *type.mro(type(value))):
            if is_user_code(cls):
                for _, function in functions_of(cls):
                    if not function.__code__.co_filename.startswith(BY_ATTRS):
                        yield from _code_behind(function)


def _code_behind(function: types.FunctionType) -> Iterator[tuple[types.CodeType, dict[str, Any], str]]:
    """Its own code, and that of the functions it is made around. Of a library's wrapper (`contextlib.contextmanager`,
    the `__repr__` of a dataclass) only the latter: it is given, like all of its code, though it passes for the user's.
    """
    queue, met = [function], {id(function)}
    while queue:
        function = queue.pop()
        around = [held for held in held_by(function) if is_own_function(held) and id(held) not in met]
        met.update(map(id, around))
        queue.extend(around)
        if is_users_namespace(function) or not (around or len(met) > 1):
            yield function.__code__, function.__globals__, reads_from(function)


def held_by(function: types.FunctionType) -> Iterator[Any]:
    """What is in its closure. In that of `functools.singledispatch` the functions count that were registered, and for
    what; which of them were called so far does not."""
    if dispatches(function):
        yield from (part for registered in vars(function)["registry"].items() for part in registered)
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            yield None


def dispatches(function: types.FunctionType) -> bool:
    return "registry" in vars(function) and function.__globals__ is vars(functools)


def is_own_function(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and is_user_code(value)


def is_wrapper(value: Any) -> bool:
    """functools.lru_cache and friends: callables that are not functions but wrap one."""
    return home_of(type(value)) == "functools" and hasattr(value, "__wrapped__")


def standing_for(value: Any) -> Any:
    """What an object says its code is: a step or flow is the function it was made from, and so is what numba compiles:
    what that has made of it so far is not the same twice."""
    kind = type(value)
    if hasattr(kind, "__nbcheckpoint_code__"):
        return value.__nbcheckpoint_code__
    return dispatcher(value).py_func if is_compiled(kind) else value


def is_compiled(kind: type) -> bool:
    return package_of(kind) == "numba" and (hasattr(kind, "py_func") or name_of(kind) in ("CPUDispatcher", "DUFunc"))


def dispatcher(compiled: Any) -> Any:
    return getattr(compiled, "_dispatcher", compiled)  # that of a ufunc is inside of it


def within(value: Any) -> Iterable[tuple[str, Any]]:
    """What sits inside of a value: a function, a class, or a module, which is all it holds."""
    if not isinstance(value, types.ModuleType):
        return [("", value)]
    return [(name, vars(value)[name]) for name in _content(value)]

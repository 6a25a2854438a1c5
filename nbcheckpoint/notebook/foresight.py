"""What names will stand for when a notebook is run, as far as that can be told without running it.

Definitions without decorators, literals and imports of what is loaded are known by value; what a checkpoint will
bring back is known by the checkpoint; everything else is not known, with the reason.
"""

from __future__ import annotations

import ast
import builtins
import random
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nbcheckpoint.fingerprint import rng
from nbcheckpoint.fingerprint.code import compiled, names_in
from nbcheckpoint.whose import is_user_module


@dataclass(frozen=True)
class Known:
    """This very value, or one equal to it."""

    value: Any


@dataclass(frozen=True)
class Assumed:
    """Something a library provides under that name."""


@dataclass(frozen=True)
class Unknown:
    """Nobody knows."""

    why: str
    """The condition on which it is the same, as the reader is told it."""


@dataclass(frozen=True)
class Left:
    """What a statement leaves: restored from a checkpoint, or else computed."""

    by: str
    """The statement, in a few words."""
    checkpoint: str = ""
    """Empty if it will be computed."""
    doubt: str = ""
    """What that checkpoint's use depends on, if it is not certain."""


State = Known | Assumed | Unknown | Left


class Foresight:
    """The namespace to come. Statements are shown to it in order."""

    def __init__(self) -> None:
        self.names: dict[str, State] = {}
        self._globals: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}

    def set(self, name: str, state: State) -> None:
        self.names[name] = state
        if isinstance(state, Known):
            self._globals[name] = state.value
        else:
            self._globals.pop(name, None)

    def run(self, node: ast.stmt) -> None:
        """A statement that will run as it stands, without being a step."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found: Iterator[tuple[str, State]] = _imported(node)
        elif isinstance(node, ast.Expr):
            found = self._seeded(node.value)
        elif isinstance(node, ast.FunctionDef):
            found = iter([(node.name, self._function(node))])
        else:
            found = _bound(node)
        for name, state in found:
            self.set(name, state)

    def _seeded(self, call: ast.expr) -> Iterator[tuple[str, State]]:
        """`random.seed(1)` and `np.random.seed(1)`: the state that leaves is known beforehand."""
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1):
            return
        seed = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        root, _, rest = ast.unparse(call.func).partition(".")
        module = self.names.get(root)
        if type(seed) is not int or not isinstance(module, Known) or not isinstance(module.value, types.ModuleType):
            return
        full = f"{module.value.__name__}.{rest}"
        if full == "random.seed":
            yield rng.PREFIX + "random", Known(rng.packed(random.Random(seed).getstate()))
        elif full == "numpy.random.seed" and 0 <= seed < 1 << 32:
            yield rng.PREFIX + "numpy", Known(_numpy_state(seed))

    def _function(self, node: ast.FunctionDef) -> State:
        """The function this will define, made without running the definition."""
        why = Unknown(f"if {node.name}() is what it was")
        arguments = node.args
        everyone = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        annotated = node.returns is not None or any(one is not None and one.annotation is not None for one in everyone)
        if node.decorator_list or annotated or getattr(node, "type_params", None):
            return why
        try:
            defaults = tuple(ast.literal_eval(default) for default in arguments.defaults)
            pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            keywords = {one.arg: ast.literal_eval(default) for one, default in pairs if default is not None}
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return why
        module = compiled(ast.Module(body=[node], type_ignores=[]))
        code = next(c for c in module.co_consts if isinstance(c, types.CodeType) and c.co_name == node.name)
        if code.co_freevars:
            return why
        function = types.FunctionType(code, self._globals, node.name, defaults or None)
        function.__kwdefaults__ = keywords or None
        return Known(function)


def written_by(node: ast.stmt) -> frozenset[str]:
    """The names a statement may bind."""
    module = ast.Module(body=[node], type_ignores=[])
    return names_in(compiled(module)).writes


def _bound(node: ast.stmt) -> Iterator[tuple[str, State]]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        try:
            yield node.targets[0].id, Known(ast.literal_eval(node.value))
            return
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass  # not a literal
    kind = (
        "if class {} is what it was" if isinstance(node, ast.ClassDef) else "if {} is what it was: plain code sets it"
    )
    for name in written_by(node):
        yield name, Unknown(kind.format(name))


def _numpy_state(seed: int) -> dict[str, Any]:
    """What `numpy.random.seed` leaves, without importing numpy: the Mersenne twister's own initialisation."""
    words = [seed]
    for at in range(1, 624):
        words.append((1812433253 * (words[-1] ^ (words[-1] >> 30)) + at) & 0xFFFFFFFF)
    key = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}, "has_gauss": 0, "gauss": 0.0}


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, State]]:
    """What is loaded already is looked up; nothing is imported for the sake of looking."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            full = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or full, _module(full)
        return
    source = (
        _module(node.module or "") if not node.level else Unknown("if the package it is imported from is what it was")
    )
    for alias in node.names:
        name = alias.asname or alias.name
        if isinstance(source, Known) and hasattr(source.value, "__file__") and alias.name in vars(source.value):
            yield name, Known(vars(source.value)[alias.name])
        elif isinstance(source, Unknown):
            yield name, source
        else:
            yield name, Assumed()


def _module(name: str) -> State:
    if name in sys.modules:
        return Known(sys.modules[name])
    if is_user_module(name):
        return Unknown(f"if module {name} is what it was: it is not imported yet")
    return Known(types.ModuleType(name))  # a library is known by its name

"""What a statement will take at most, told from its operations and the size of what they work on.

Looking at a gigabyte before `frame.head()` takes longer than `frame.head()`. So where everything a statement does is
well known (lists, dicts, arrays, pandas, and what one usually asks them) and cannot take long, it just runs.

A guess is about time alone. A statement taken for quick runs as every quick one does; if it was not, it is not saved
this time, the line under the cell says so, and from then on it is looked at. So no guess leads to a wrong value: a
wrong one costs a save. Rather too much than too little: whatever is not listed here is not known.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from nbcheckpoint.whose import package_of

Kind = Literal["plain", "list", "dict", "array", "frame"]

_PLAIN: Final = frozenset({int, float, complex, bool, type(None), str, bytes, slice, type(...)})
_LISTS: Final = frozenset({list, tuple, set, frozenset})
_LONGEST_TEXT: Final = 1 << 20
_FRAMES: Final = frozenset({"DataFrame", "Series", "Index", "RangeIndex"})
_NUMBERS: Final = frozenset("biufcMm")
_FEW: Final = 1000

_OPERATION = 1e-7
"""Seconds of anything at all."""
_CALL = 1e-6
_SHOWING = 0.02
_EACH: Final[dict[tuple[Kind, int], float]] = {
    ("plain", 1): 1e-8,
    ("plain", 2): 1e-8,
    ("list", 1): 3e-8,
    ("list", 2): 1e-6,
    ("dict", 1): 5e-8,
    ("dict", 2): 1e-6,
    ("array", 1): 1e-9,
    ("array", 2): 1e-8,
    ("array", 3): 2e-7,
    ("frame", 1): 3e-8,
    ("frame", 2): 1e-7,
    ("frame", 3): 5e-7,
}
"""Kind and effort -> seconds for each element."""


class Effort(NamedTuple):
    """What a method takes and gives."""

    effort: int
    """0: the same however much there is."""
    gives: Literal["same", "few", "plain"] = "same"


def _methods(**groups: str) -> dict[str, Effort]:
    """`few2="describe info"`: few come out, with effort 2."""
    known = {"same": "same", "few": "few", "plain": "plain"}
    return {
        name: Effort(int(group[-1]), known[group[:-1]])  # type: ignore[arg-type]  # one of the three
        for group, names in groups.items()
        for name in names.split()
    }


_METHODS: Final[dict[Kind, dict[str, Effort]]] = {
    "plain": _methods(plain1="strip lower upper startswith endswith is_integer format replace title", few1="split"),
    "list": _methods(
        plain0="append pop clear insert add discard",
        same1="copy extend update",
        plain2="index count",
        same2="sort reverse",
    ),
    "dict": _methods(plain0="get pop setdefault", same1="copy update keys values items"),
    "array": _methods(
        same0="reshape ravel transpose view squeeze swapaxes diagonal",
        plain1="sum mean min max any all item argmax argmin",
        same1="copy flatten",
        plain2="std var prod ptp",
        same2="astype round clip cumsum",
        same3="tolist",
    ),
    "frame": _methods(
        few0="head tail",
        same0="rename",
        same1="copy reset_index",
        few2="mean sum min max median std var count any all idxmax idxmin info memory_usage",
        same2="isna isnull notna notnull fillna dropna abs round astype shift diff cumsum clip between drop",
        same3="value_counts unique nunique sort_values sort_index duplicated drop_duplicates isin nlargest nsmallest",
        few3="describe",
    ),
}
_ATTRIBUTES: Final[dict[Kind, dict[str, Effort]]] = {
    "array": _methods(plain0="shape size ndim dtype nbytes itemsize", same0="T real imag"),
    "frame": _methods(
        plain0="shape size ndim empty dtype name is_unique", few0="dtypes columns", same0="index iloc loc values T"
    ),
}
_FUNCTIONS: Final[dict[str, int]] = {
    **dict.fromkeys(("len", "type", "isinstance", "range", "enumerate", "zip", "bool", "id"), 0),
    **dict.fromkeys(("abs", "round", "int", "float", "sum", "min", "max", "any", "all", "list", "tuple", "set"), 1),
    **dict.fromkeys(("sorted", "dict", "print", "str", "repr", "display"), 2),
}
"""Builtins, and the effort they take for each element of what they are given."""
_SHOW = frozenset({"print", "str", "repr", "display"})
_GIVES_LISTS = frozenset({"range", "enumerate", "zip", "list", "tuple", "set", "dict", "sorted"})


class Thing(NamedTuple):
    """What is known about a value."""

    kind: Kind
    size: int = 1
    """How many elements, at most."""
    value: Any = None
    """The value itself, where it is there already."""
    shape: tuple[int, ...] | None = None
    """Of an array, where it is known."""

    def as_(self, gives: str) -> Thing:
        if gives == "plain":
            return Thing("plain")
        return Thing(self.kind, min(self.size, _FEW) if gives == "few" else self.size)


class _Unknown(Exception):
    """Nobody knows what that takes."""


def is_quick(statements: Sequence[ast.stmt], names: dict[str, Any], seconds: float) -> bool:
    """Certain, as far as one can be, that none of these takes that long?"""
    guess = _Guess(names, seconds)
    try:
        for node in statements:
            guess.spent = 0.0
            guess.statement(node)
    except (_Unknown, RecursionError):
        return False
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False  # what makes no sense to us will be told by the statement itself
    return True


def thing(value: Any) -> Thing:
    """What is known about a value. Raises _Unknown. It runs nothing of the value's but `size` of NumPy and pandas."""
    kind = type(value)
    if kind in _PLAIN:
        if kind in (str, bytes) and len(value) > _LONGEST_TEXT:
            raise _Unknown
        return Thing("plain", 1, value)
    if kind in _LISTS:
        return Thing("list", len(value), value)
    if kind is dict:
        return Thing("dict", len(value), value)
    library = package_of(kind)
    if library == "numpy":
        numpy = sys.modules["numpy"]
        if isinstance(value, numpy.generic):
            return Thing("plain")
        if kind is numpy.ndarray and value.dtype.kind in _NUMBERS:
            return Thing("array", value.size, value, value.shape)
    elif library == "pandas" and kind.__name__ in _FRAMES:
        return Thing("frame", value.size, value)
    raise _Unknown


class _Guess:
    """Adds up what a statement takes. Raises _Unknown when that is not known, or too much."""

    def __init__(self, names: dict[str, Any], most: float) -> None:
        self._names = names
        self._most = most
        self._bound: dict[str, Thing] = {}
        """By the statements so far, and around a comprehension's element."""
        self._times = 1
        self.spent = 0.0

    def take(self, seconds: float) -> None:
        self.spent += seconds * self._times
        if self.spent > self._most:
            raise _Unknown

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr):
            self._show(self.value(node.value))
        elif isinstance(node, ast.Assign):
            made = self.value(node.value)
            for target in node.targets:
                self._assign(target, made)
        elif isinstance(node, ast.AugAssign):
            loaded = _loaded(node.target)
            self._assign(node.target, self._combine(self.value(loaded), self.value(node.value), node.op))
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if not isinstance(target, ast.Name):
                    raise _Unknown
                self._bound.pop(target.id, None)
        elif not isinstance(node, ast.Pass):
            raise _Unknown

    def _assign(self, target: ast.expr, made: Thing) -> None:
        if isinstance(target, ast.Name):
            self._bound[target.id] = made
        elif isinstance(target, ast.Subscript):
            place = self.value(target.value)
            self.value(target.slice)
            self._work(made, 2 if place.kind in ("array", "frame") else 0)
        else:
            raise _Unknown

    def value(self, node: ast.expr) -> Thing:
        self.take(_OPERATION)
        known = _NODES.get(type(node))
        if known is None:
            raise _Unknown
        return known(self, node)

    def _work(self, on: Thing, effort: int) -> None:
        each = _EACH.get((on.kind, effort), 0.0) if effort else 0.0
        self.take(_CALL * bool(effort) + each * on.size)

    def _show(self, shown: Thing) -> None:
        """What IPython and `print` make of it: of frames and arrays the beginning and the end."""
        if shown.kind in ("list", "dict"):
            self._work(Thing("list", min(shown.size, _FEW) * 10), 2)
        elif shown.kind != "plain":
            self.take(_SHOWING)

    # Expressions

    def constant(self, node: ast.Constant) -> Thing:
        return thing(node.value)

    def name(self, node: ast.Name) -> Thing:
        if node.id in self._bound:
            return self._bound[node.id]
        if node.id not in self._names:
            raise _Unknown
        return thing(self._names[node.id])

    def display(self, node: ast.List | ast.Tuple | ast.Set) -> Thing:
        for item in node.elts:
            self.value(item)
        return Thing("list", len(node.elts))

    def dictionary(self, node: ast.Dict) -> Thing:
        for item in (*node.keys, *node.values):
            if item is None:
                raise _Unknown
            self.value(item)
        return Thing("dict", len(node.values))

    def text(self, node: ast.JoinedStr) -> Thing:
        for part in node.values:
            inside = part.value if isinstance(part, ast.FormattedValue) else part
            self._show(self.value(inside))
        return Thing("plain")

    def attribute(self, node: ast.Attribute) -> Thing:
        of = self.value(node.value)
        known = _ATTRIBUTES.get(of.kind, {}).get(node.attr)
        if known is None and of.kind == "frame" and not hasattr(type(of.value), node.attr):
            known = Effort(0)  # a column
        if known is None:
            raise _Unknown
        return of.as_(known.gives)

    def subscript(self, node: ast.Subscript) -> Thing:
        of, at = self.value(node.value), self.value(node.slice)
        if of.kind == "frame":
            self._work(of, 0 if at.kind == "plain" else 1)
            column = type(at.value) is str and of.value is not None
            return Thing("frame", len(of.value) if column else of.size)
        if of.kind == "array":
            self._work(Thing("array", max(of.size, at.size)), 0 if at.kind == "plain" else 2)
            return Thing("array", max(of.size, at.size if at.kind != "plain" else 0))
        if of.kind == "plain" or of.value is None:
            raise _Unknown
        return self._part(of, node.slice)

    def _part(self, of: Thing, at: ast.expr) -> Thing:
        """An item of a list or dict that is there, or some of its items."""
        if isinstance(at, ast.Slice):
            bounds = [_number(bound) for bound in (at.lower, at.upper, at.step)]
            if type(of.value) not in (list, tuple):
                raise _Unknown
            part = range(*slice(*bounds).indices(of.size))
            self._work(Thing("list", len(part)), 1)
            return Thing("list", len(part), of.value[part[0] : part[0] + 1] if part else [])
        key = _number(at) if not isinstance(at, ast.Constant) else at.value
        try:
            return thing(of.value[key])
        except (LookupError, TypeError) as error:
            raise _Unknown from error

    def slice(self, node: ast.Slice) -> Thing:
        for bound in (node.lower, node.upper, node.step):
            if bound is not None:
                self.value(bound)
        return Thing("plain")

    def index(self, node: ast.Tuple) -> Thing:
        """`[rows, columns]`: plain if all of it is."""
        parts = [self.value(item) for item in node.elts]
        return next((part for part in parts if part.kind != "plain"), Thing("plain"))

    def unary(self, node: ast.UnaryOp) -> Thing:
        of = self.value(node.operand)
        self._work(of, 2)
        return Thing(of.kind, of.size)

    def binary(self, node: ast.BinOp) -> Thing:
        return self._combine(self.value(node.left), self.value(node.right), node.op)

    def compare(self, node: ast.Compare) -> Thing:
        found = self.value(node.left)
        for operator, other in zip(node.ops, node.comparators, strict=True):
            found = self._combine(found, self.value(other), operator)
        return found

    def boolean(self, node: ast.BoolOp) -> Thing:
        if any(self.value(part).kind != "plain" for part in node.values):
            raise _Unknown
        return Thing("plain")

    def _combine(self, left: Thing, right: Thing, operator: ast.AST) -> Thing:
        large, small = (left, right) if left.size >= right.size else (right, left)
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return Thing("plain")
        if isinstance(operator, (ast.MatMult, ast.LShift)) or {left.kind, right.kind} & {"list", "dict"}:
            raise _Unknown
        if large.kind == "plain" and (isinstance(operator, (ast.Mult, ast.Pow)) and not _are_numbers(left, right)):
            raise _Unknown  # "-" * 10**9, 9**9**9
        if small.kind != "plain" and not _fit(left, right):
            raise _Unknown  # a column and a row make a table
        self._work(large, 2)
        return Thing(large.kind, large.size, shape=large.shape)

    def comprehension(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> Thing:
        one = node.generators[0]
        if len(node.generators) > 1 or one.is_async or not isinstance(one.target, ast.Name):
            raise _Unknown
        over = self.value(one.iter)
        if over.kind != "list" or not isinstance(over.value, (list, tuple)):
            raise _Unknown
        if over.value:
            hidden = self._bound.get(one.target.id)
            self._bound[one.target.id] = thing(over.value[0])
            self._times *= over.size
            for part in (*one.ifs, node.elt):
                self.value(part)
            self._times //= over.size
            if hidden is not None:
                self._bound[one.target.id] = hidden
            else:
                del self._bound[one.target.id]
        return Thing("list", over.size)

    def call(self, node: ast.Call) -> Thing:
        given = [self.value(part) for part in (*node.args, *(keyword.value for keyword in node.keywords))]
        if isinstance(node.func, ast.Attribute):
            of = self.value(node.func.value)
            known = _METHODS[of.kind].get(node.func.attr)
            if known is None:
                raise _Unknown
            self._work(of if of.size >= max((one.size for one in given), default=0) else given[0], known.effort)
            # `mean(axis=0)` gives many.
            return of.as_("same" if known.gives == "plain" and given and of.kind == "array" else known.gives)
        if not isinstance(node.func, ast.Name) or node.func.id in self._bound or node.func.id in self._names:
            raise _Unknown
        return self._builtin(node.func.id, given)

    def _builtin(self, name: str, given: list[Thing]) -> Thing:
        if name not in _FUNCTIONS or (name == "range" and any(one.value is None for one in given)):
            raise _Unknown
        for one in given:
            if name in _SHOW:
                self._show(one)
            else:
                self._work(one, _FUNCTIONS[name])
        if name in _GIVES_LISTS:
            size = (
                len(range(*(one.value for one in given)))
                if name == "range"
                else max((g.size for g in given), default=0)
            )
            self._work(Thing("list", size), 1 if name == "range" else 0)
            return Thing("list", size)
        return Thing("plain")


_NODES: Final[dict[type[ast.AST], Callable[[_Guess, Any], Thing]]] = {
    ast.Constant: _Guess.constant,
    ast.Name: _Guess.name,
    ast.List: _Guess.display,
    ast.Set: _Guess.display,
    ast.Tuple: _Guess.index,
    ast.Dict: _Guess.dictionary,
    ast.JoinedStr: _Guess.text,
    ast.Attribute: _Guess.attribute,
    ast.Subscript: _Guess.subscript,
    ast.Slice: _Guess.slice,
    ast.UnaryOp: _Guess.unary,
    ast.BinOp: _Guess.binary,
    ast.Compare: _Guess.compare,
    ast.BoolOp: _Guess.boolean,
    ast.GeneratorExp: _Guess.comprehension,
    ast.ListComp: _Guess.comprehension,
    ast.SetComp: _Guess.comprehension,
    ast.Call: _Guess.call,
}


def _loaded(target: ast.expr) -> ast.expr:
    """The target of `x += 1`, as it is read."""
    if isinstance(target, (ast.Name, ast.Subscript)):
        return target
    raise _Unknown


def _number(node: ast.expr | None) -> int | None:
    """A constant position, perhaps from the end. Raises _Unknown."""
    if node is None:
        return None
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return sign * node.value
    raise _Unknown


def _fit(left: Thing, right: Thing) -> bool:
    """Is what comes of the two as large as either?"""
    if left.kind == right.kind == "frame":
        return left.size == right.size
    return left.shape is not None and left.shape == right.shape


def _are_numbers(*things: Thing) -> bool:
    return all(type(one.value) in (int, float) and abs(one.value) < 1000 for one in things)

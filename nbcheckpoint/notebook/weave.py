"""A cell's tree, woven with the calls that make each of its statements a step.

    x = slow(df)        ->      if __nbcheckpoint__.enter(0):
                                    x = slow(df)
                                    __nbcheckpoint__.leave(0)

    x.mean()            ->      __nbcheckpoint__.leave(1, x.mean()) if __nbcheckpoint__.enter(1) else None

An expression stays an expression, so that IPython shows the value of the last one; a call of `settle` behind every
other one marks the moment when it has been shown. Definitions and imports are left as they are: they run every time,
in their place, so that functions see the live globals and instances belong to the live classes.

The hooks stand in `builtins`, not in the user's namespace. They take the line of the statement they belong to, so
tracebacks show the user's lines only. This module is pure: trees in, trees out.
"""

from __future__ import annotations

import ast
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound=ast.AST)

HOOKS = "__nbcheckpoint__"

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_CONFIGURING = frozenset({"matplotlib", "config", "load_ext", "reload_ext", "autoreload", "precision", "pylab"})
"""Line magics that set up the kernel rather than compute: they run again like imports."""
_TIMING = frozenset({"time", "timeit", "prun"})
"""Line magics that do nothing but run the Python they are given."""


class Woven(NamedTuple):
    tree: ast.Module
    steps: tuple[ast.stmt, ...]
    """The statements that are steps, in order: what the number in the calls counts."""


def weave(tree: ast.Module) -> Woven:
    """The tree to run, and the statements in it that are steps."""
    body: list[ast.stmt] = []
    steps: list[ast.stmt] = []
    for node in tree.body:
        if is_definition(node):
            body.append(node)
            continue
        number = len(steps)
        steps.append(node)
        if isinstance(node, ast.Expr):
            value = ast.IfExp(
                test=_call(node, "enter", number),
                body=_call(node, "leave", number, node.value),
                orelse=ast.Constant(None),
            )
            body.append(_placed(ast.Expr(value), node))
            if node is not tree.body[-1]:
                body.append(_placed(ast.Expr(_call(node, "settle")), node))
        else:
            done = _placed(ast.Expr(_call(node, "leave", number)), node)
            body.append(_placed(ast.If(test=_call(node, "enter", number), body=[node, done], orelse=[]), node))
    return Woven(ast.Module(body=body, type_ignores=[]), tuple(steps))


def _call(place: ast.stmt, name: str, *arguments: int | ast.expr) -> ast.expr:
    given = [argument if isinstance(argument, ast.expr) else ast.Constant(argument) for argument in arguments]
    function = ast.Attribute(ast.Name(HOOKS, ast.Load()), name, ast.Load())
    return _placed(ast.Call(function, given, []), place)


def _placed(new: T, like: ast.stmt) -> T:
    """The new node and what it is made of stand where the statement stands; what has a place keeps it."""
    for node in ast.walk(new):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, like)
    return new


def is_definition(node: ast.stmt) -> bool:
    """Runs every time: a definition, an import, or a magic that configures."""
    return isinstance(node, _DEFINITIONS) or magic_of(node) in _CONFIGURING


def magic_of(node: ast.stmt) -> str:
    """The line magic a statement consists of, or nothing."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return ""
    first = call.args[0] if call.args else None
    if call.func.attr == "run_line_magic" and isinstance(first, ast.Constant):
        return str(first.value)
    return ""


def changed_roots(node: ast.stmt) -> set[str]:
    """Names whose attributes, at any depth, a statement sets or deletes: `np` in `np.random.x = 1`."""
    roots = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and not isinstance(inner.ctx, ast.Load):
            base: ast.expr = inner
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name):
                roots.add(base.id)
    return roots


def foreign_magic(node: ast.stmt) -> str:
    """A line magic anywhere in a statement that may do anything at all: its name, or nothing."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Expr, ast.Assign)):
            value = inner.value
            name = magic_of(ast.Expr(value))
            if name and name not in _TIMING | _CONFIGURING:
                return name
    return ""

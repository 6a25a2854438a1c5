"""A cell's tree, woven with the calls that make each of its statements a step.

    x = slow(df)        ->      if __nbcheckpoint__.enter(0):
                                    x = slow(df)
                                    __nbcheckpoint__.leave(0)

    x.mean()            ->      __nbcheckpoint__.leave(1, x.mean()) if __nbcheckpoint__.enter(1) else None

    for x in items:     ->      for x in (__nbcheckpoint__.items(2, 0, items)
                                          if __nbcheckpoint__.starts(2, 0)
                                          or __nbcheckpoint__.remakes(2, 0) and not __nbcheckpoint__.skips(2, 0, items)
                                          else __nbcheckpoint__.rest(2, 0)):

    while busy():       ->      while __nbcheckpoint__.turn(3, 0) or busy():

    for x in items:     ->      for x in (as above):
        begin(x)                    if 2000 in __nbcheckpoint__.deep:
        for y in x:                     if __nbcheckpoint__.passes(2, 1, 2):
            ...                             begin(x)
        end(x)                          for y in (as above, with the number 1):
                                            ...
                                        end(x)
                                    else:
                                        begin(x)
                                        for y in x:
                                            ...
                                        end(x)

    x: int = slow()     ->      if __nbcheckpoint__.enter(4):
                                    x: int = slow()
                                    __nbcheckpoint__.leave(4)
                                elif __nbcheckpoint__.annotated(4, "x"):
                                    x: int

An expression stays an expression, so that IPython shows the value of the last one; a call of `settle` behind every
other one marks the moment when it has been shown. In a cell with `%%time` the `None` is `__nbcheckpoint__.kept(1)`.
Definitions and imports are left as they are: they run every time, in their place, so that functions see the live
globals and instances belong to the live classes.

The hooks stand in `builtins`, not in the user's namespace. They take the line of the statement they belong to, so
tracebacks show the user's lines only. This module is pure: trees in, trees out.
"""

from __future__ import annotations

import ast
import copy
from typing import NamedTuple, TypeAlias, TypeVar

from nbcheckpoint.fingerprint.code import bound_by_target

T = TypeVar("T", bound=ast.AST)
Loop: TypeAlias = "ast.For | ast.While"

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
    loops: tuple[tuple[LoopNode, ...], ...]
    """The loops in each of them: those inside of others behind those that are not."""


class LoopNode(NamedTuple):
    node: Loop
    around: int
    """The loop it is in, or -1."""
    heads: tuple[ast.expr, ...] = ()
    """Of the `with`s it is in that are in that loop, too: what they are entered with."""


def weave(tree: ast.Module, *, retries: bool = False, timed: bool = False) -> Woven:
    """The tree to run, and the statements in it that are steps. With `retries`, each may be attempted again.

    Where it is `timed`, the value of the last expression is passed on by `%%time`, which has something to say first:
    so it is given back rather than shown.
    """
    body: list[ast.stmt] = []
    steps: list[ast.stmt] = []
    loops: list[list[LoopNode]] = []
    for node in tree.body:
        if is_definition(node) or (retries and _jumps(node)):
            body.append(node)
            continue
        number = len(steps)
        steps.append(node)
        loops.append([])
        at = _Place(node)
        if retries:
            body += _retried(node, number, loops[number], at.instead(timed, number))
        elif isinstance(node, ast.Expr):
            done = at.call("leave", number, node.value)
            value = at.put(ast.IfExp(at.call("enter", number), done, at.instead(timed, number)))
            body.append(at.put(ast.Expr(value)))
            if node is not tree.body[-1]:
                body.append(at.put(ast.Expr(at.call("settle"))))
        else:
            inside = [_looped(node, number, loops[number]), at.put(ast.Expr(at.call("leave", number)))]
            body.append(
                at.put(ast.If(test=at.call("enter", number), body=inside, orelse=_annotated_again(node, number)))
            )
    return Woven(ast.Module(body=body, type_ignores=[]), tuple(steps), tuple(map(tuple, loops)))


def _jumps(node: ast.AST) -> bool:
    """Does a `break` or `continue` stand in it that is in no loop? Python is to say so: a loop of ours is none."""
    if isinstance(node, (*_DEFINITIONS, ast.Lambda)):
        return False
    inside = node.orelse if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) else ast.iter_child_nodes(node)
    return isinstance(node, (ast.Break, ast.Continue)) or any(map(_jumps, inside))


def _retried(node: ast.stmt, number: int, loops: list[LoopNode], instead: ast.expr) -> list[ast.stmt]:
    """A statement in a loop that ends when it has run, or when there are no attempts left.

    if HOOKS.enter(0):
        for HOOKS.attempt in HOOKS.attempts(0):
            try:
                HOOKS.value = EXPRESSION     # or any other statement
                break
            except HOOKS.Failure:
                if not HOOKS.again(0):
                    raise
        HOOKS.leave(0)                       # of an expression: behind the `if`, so that IPython shows it
    """
    at = _Place(node)
    if isinstance(node, ast.Expr):
        done: ast.stmt = at.put(ast.Assign([at.hook("value", ast.Store())], node.value))
    else:
        done = _looped(node, number, loops)
    give_up = at.put(ast.If(at.put(ast.UnaryOp(ast.Not(), at.call("again", number))), [at.put(ast.Raise())], []))
    handler = at.put(ast.ExceptHandler(at.hook("Failure", ast.Load()), None, [give_up]))
    attempt = at.put(ast.Try([done, at.put(ast.Break())], [handler], [], []))
    attempts = at.put(
        ast.For(target=at.hook("attempt", ast.Store()), iter=at.call("attempts", number), body=[attempt], orelse=[])
    )
    leave = at.put(ast.Expr(at.call("leave", number)))
    if not isinstance(node, ast.Expr):
        return [at.put(ast.If(at.call("enter", number), [attempts, leave], _annotated_again(node, number)))]
    shown = at.call("leave", number, at.hook("value", ast.Load()))
    value = at.put(ast.IfExp(at.call("is_running", number), shown, instead))
    return [at.put(ast.If(at.call("enter", number), [attempts], [])), at.put(ast.Expr(value))]


def _looped(node: ast.stmt, number: int, loops: list[LoopNode]) -> ast.stmt:
    """The statement with a hook between two iterations of its loops, which are added to the list.

    Those are loops that stand in it as statements do, in a `with`, an `if` or the body of a `try`, and loops that stand
    so in the body of another loop; there a `with` must not bind a name, which would be bound anew to go on.
    """
    woven: list[Loop] = []
    made = _outer(node, number, loops, woven)
    for which, loop in enumerate(woven):
        loop.body = _nested(loop, number, which, loops)
    return made


def _outer(node: ast.stmt, number: int, loops: list[LoopNode], woven: list[Loop], *, tried: bool = False) -> ast.stmt:
    """`tried`: it is in a `try`."""
    if isinstance(node, (ast.For, ast.While)):
        woven.append(_hooked(node, number, None, loops))
        return woven[-1]
    if isinstance(node, (ast.With, ast.AsyncWith, ast.If, ast.Try)):
        made = _Place(node).put(type(node)(**dict(ast.iter_fields(node))))
        before = len(woven)
        tried = tried or isinstance(node, ast.Try)
        made.body = [_outer(inner, number, loops, woven, tried=tried) for inner in node.body]
        if isinstance(made, (ast.With, ast.AsyncWith)) and len(woven) > before:
            certain = not tried and _comes_to_its_loops(node)
            made.items = [_entered(item, number, opens=certain) for item in made.items]
        if isinstance(made, ast.If):
            made.orelse = [_outer(inner, number, loops, woven, tried=tried) for inner in made.orelse]
        return made
    return node


def _entered(item: ast.withitem, number: int, *, opens: bool) -> ast.withitem:
    """What a `with` around a loop is entered with is shown to us: it goes on holding what it holds. Where it `opens` a
    file, we are asked by what."""
    made, name = item.context_expr, item.optional_vars
    at = _Place(made)
    if opens and isinstance(made, ast.Call) and _is_open(made.func) and isinstance(name, ast.Name):
        function = at.call("opener", number, at.put(ast.Constant(name.id)), made.func)
        made = ast.copy_location(ast.Call(function, made.args, made.keywords), made)
    call = at.call("within", number, made)
    return ast.withitem(ast.copy_location(call, item.context_expr), name)


def _is_open(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "open"


def _comes_to_its_loops(node: ast.stmt) -> bool:
    """Does a `with` come to every loop that stands in it as statements do, unless something fails?"""
    if isinstance(node, (ast.If, ast.Try)):
        return not any(isinstance(inner, (ast.For, ast.While)) for inner in ast.walk(node))
    return not isinstance(node, (ast.With, ast.AsyncWith)) or all(map(_comes_to_its_loops, node.body))


def names_entered(node: ast.stmt) -> set[str]:
    """Names bound by the `with`s around the outermost loops of a statement."""
    if not isinstance(node, (ast.With, ast.AsyncWith, ast.If, ast.Try)):
        return set()
    items = node.items if isinstance(node, (ast.With, ast.AsyncWith)) else []
    inside = [*node.body, *(node.orelse if isinstance(node, ast.If) else ())]
    bound = (bound_by_target(item.optional_vars) for item in items if item.optional_vars is not None)
    return set().union(*bound, *map(names_entered, inside))


def _hooked(node: Loop, number: int, inside: LoopNode | None, loops: list[LoopNode]) -> Loop:
    """The loop with its hook. Its body is the user's."""
    at = _Place(node)
    which = number, len(loops)
    loops.append(inside._replace(node=node) if inside is not None else LoopNode(node, -1))
    if isinstance(node, ast.While):
        test = at.put(ast.BoolOp(ast.Or(), [at.call("turn", *which), node.test]))
        return at.put(ast.While(test=test, body=node.body, orelse=node.orelse))
    made = at.call("items", *which, node.iter)
    # What it goes through stands there twice: where going on with it has failed, it is made anew to begin with.
    failed = at.put(ast.UnaryOp(ast.Not(), at.call("skips", *which, copy.deepcopy(node.iter))))
    remade = at.put(ast.BoolOp(ast.And(), [at.call("remakes", *which), failed]))
    anew = at.put(ast.BoolOp(ast.Or(), [at.call("starts", *which), remade]))
    items = ast.IfExp(test=anew, body=made, orelse=at.call("rest", *which))
    ast.copy_location(items, node.iter)  # there the loop asks for its iterator
    return at.put(ast.For(target=node.target, iter=items, body=node.body, orelse=node.orelse))


def _nested(loop: Loop, number: int, which: int, loops: list[LoopNode]) -> list[ast.stmt]:
    """The body of a loop, as it is and with its own loops hooked, whichever is wanted."""
    body = loop.body
    if not any(map(_has_loop, body)):
        return body
    at = _Place(body[0])
    key = at.put(ast.Constant(loop_key(number, which)))
    wanted = at.put(ast.Compare(key, [ast.In()], [at.hook("deep", ast.Load())]))
    plain = copy.deepcopy(body)
    return [at.put(ast.If(wanted, _block(body, number, LoopNode(loop, which), loops), plain))]


def _has_loop(node: ast.stmt) -> bool:
    """Is it a loop, or does one stand in it as statements do?"""
    if isinstance(node, ast.With):
        return all(item.optional_vars is None for item in node.items) and any(map(_has_loop, node.body))
    if isinstance(node, (ast.If, ast.Try)):
        return any(map(_has_loop, [*node.body, *(node.orelse if isinstance(node, ast.If) else ())]))
    return isinstance(node, (ast.For, ast.While))


def _block(body: list[ast.stmt], number: int, inside: LoopNode, loops: list[LoopNode]) -> list[ast.stmt]:
    """Statements in a loop with their loops hooked.

    What is done before a loop that goes on is passed by: whatever it has left was saved.
    """
    parts: list[tuple[list[ast.stmt], int]] = []
    """Statements, and the number of the first loop behind them."""
    plain: list[ast.stmt] = []
    for node in body:
        if _has_loop(node):
            parts.append((_hooked_inside(node, number, inside, loops), len(loops)))
            plain = []
        elif plain:
            plain.append(node)
        else:
            plain = [node]
            parts.append((plain, len(loops)))
    made: list[ast.stmt] = []
    for statements, behind in parts:
        if behind == len(loops):
            made += statements
        else:
            at = _Place(statements[0])
            made.append(at.put(ast.If(at.call("passes", number, behind, len(loops)), statements, [])))
    return made


def _hooked_inside(node: ast.stmt, number: int, inside: LoopNode, loops: list[LoopNode]) -> list[ast.stmt]:
    """A loop in a loop, or a statement in which one stands."""
    at, first = _Place(node), len(loops)
    if isinstance(node, (ast.For, ast.While)):
        loop = _hooked(node, number, inside, loops)
        loop.body = _nested(loop, number, first, loops)
        anew = [at.put(ast.Expr(at.call("anew", number, first)))] if isinstance(node, ast.While) else []
        return [*anew, loop]
    made = at.put(type(node)(**dict(ast.iter_fields(node))))
    if isinstance(node, ast.With):
        inside = inside._replace(heads=(*inside.heads, *(item.context_expr for item in node.items)))
    made.body = _block(node.body, number, inside, loops)  # type: ignore[attr-defined]  # they all have one
    if isinstance(made, ast.If):
        # Where a loop in it is to go on, the way was taken: the condition is not asked again.
        middle = len(loops)
        made.orelse = _block(made.orelse, number, inside, loops)
        not_in_body = at.call("passes", number, first, middle)
        asked = at.put(ast.BoolOp(ast.And(), [at.call("passes", number, middle, len(loops)), made.test]))
        made.test = at.put(ast.BoolOp(ast.Or(), [at.put(ast.UnaryOp(ast.Not(), not_in_body)), asked]))
    return [made]


def loop_key(number: int, which: int) -> int:
    """One number for the k-th loop of the n-th statement: looked for at every iteration around another loop."""
    return number * 1000 + which


class _Place:
    """New nodes stand where the statement stands, and what they call where it begins: a call is said to be where its
    function's name ends."""

    def __init__(self, like: ast.stmt | ast.expr) -> None:
        self._like = like

    def put(self, node: T) -> T:
        made = ast.copy_location(node, self._like)
        if isinstance(made, ast.expr):
            made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
        return made

    def hook(self, name: str, context: ast.expr_context) -> ast.expr:
        return self.put(ast.Attribute(self.put(ast.Name(HOOKS, ast.Load())), name, context))

    def instead(self, timed: bool, number: int) -> ast.expr:
        """The value of an expression that is restored."""
        return self.call("kept", number) if timed else self.put(ast.Constant(None))

    def call(self, name: str, *arguments: int | ast.expr) -> ast.expr:
        given = [a if isinstance(a, ast.expr) else self.put(ast.Constant(a)) for a in arguments]
        return self.put(ast.Call(self.hook(name, ast.Load()), given, []))


def is_definition(node: ast.stmt) -> bool:
    """Runs every time: a definition, an import, or a magic that configures."""
    return isinstance(node, _DEFINITIONS) or magic_of(node) in _CONFIGURING


def goes_through(node: ast.stmt) -> bool:
    """Is there a comprehension in it?"""
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return any(isinstance(inner, kinds) for inner in ast.walk(node))


def is_plain(node: ast.stmt) -> bool:
    """Nothing but names and constants: it runs no code, so it takes no time."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) for target in node.targets) and _is_plain_value(node.value)
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and _is_plain_value(node.value))


def _is_plain_value(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_plain_value, node.elts))
    if isinstance(node, ast.Dict):
        return all(isinstance(key, ast.Constant) for key in node.keys) and all(map(_is_plain_value, node.values))
    return isinstance(node, (ast.Constant, ast.Name))


def magic_of(node: ast.stmt) -> str:
    """The line magic a statement consists of, or nothing."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return ""
    first = call.args[0] if call.args else None
    if call.func.attr == "run_line_magic" and isinstance(first, ast.Constant):
        return str(first.value)
    return ""


def is_timed_cell(tree: ast.Module) -> bool:
    """Nothing but `%%time` or the like, which shows what it runs to the transformers too?"""
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return False
    call = tree.body[0].value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
        return False
    name = call.args[0]
    return call.func.attr == "run_cell_magic" and isinstance(name, ast.Constant) and name.value == "time"


def changed_roots(node: ast.stmt) -> set[str]:
    """Names whose attributes or items, at any depth, a statement sets or deletes: `plt` in `plt.rcParams["x"] = 1`."""
    roots = set()
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Attribute, ast.Subscript)) and not isinstance(inner.ctx, ast.Load):
            base: ast.expr = inner
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name):
                roots.add(base.id)
    return roots


def resized(node: ast.stmt) -> set[str]:
    """Names whose method `resize` a statement calls."""
    calls = (inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call))
    methods = (call for call in calls if isinstance(call, ast.Attribute) and call.attr == "resize")
    return {method.value.id for method in methods if isinstance(method.value, ast.Name)}


def changed_paths(tree: ast.Module) -> set[tuple[str, ...]]:
    """Attributes that a cell sets, each as a path from a name: `pd`, `DataFrame`, `mean`."""
    paths = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            base: ast.expr = node
            parts: list[str] = []
            while isinstance(base, ast.Attribute):
                parts.insert(0, base.attr)
                base = base.value
            if isinstance(base, ast.Name):
                paths.add((base.id, *parts))
    return paths


def annotations_in(node: ast.stmt) -> dict[str, list[ast.expr]]:
    """The names of the notebook a statement annotates, and with what: `x` and `int` in `x: int = 1`."""
    found: dict[str, list[ast.expr]] = {}
    stack: list[ast.AST] = [node]
    while stack:
        inner = stack.pop()
        if isinstance(inner, ast.AnnAssign) and inner.simple and isinstance(inner.target, ast.Name):
            found.setdefault(inner.target.id, []).append(inner.annotation)
        elif not isinstance(inner, (*_DEFINITIONS, ast.expr)):
            stack += ast.iter_child_nodes(inner)
    return found


def mentions(node: ast.stmt, name: str) -> bool:
    """Does it name that itself? What is annotated has to do with `__annotations__` too, and does not read it."""
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))


def annotates_anyhow(node: ast.stmt) -> str:
    """A name whose annotation cannot be made once more without the value: it runs code, or is one of several."""
    for name, said in annotations_in(node).items():
        runs = any(isinstance(inner, (ast.Call, ast.NamedExpr, ast.Await)) for one in said for inner in ast.walk(one))
        if runs or len(set(map(ast.dump, said))) > 1:
            return name
    return ""


def _annotated_again(node: ast.stmt, number: int) -> list[ast.stmt]:
    """What is done instead of a statement that is restored: `x: int = slow()` also says what x is."""
    at = _Place(node)
    made: list[ast.stmt] = []
    for name, (annotation, *_) in annotations_in(node).items():
        target = at.put(ast.Name(name, ast.Store()))
        bare = at.put(ast.AnnAssign(target=target, annotation=copy.deepcopy(annotation), value=None, simple=1))
        asked = at.call("annotated", number, at.put(ast.Constant(name)))
        made.append(at.put(ast.If(asked, [bare], [])))
    return made


def foreign_magic(node: ast.stmt) -> str:
    """A line magic anywhere in a statement that may do anything at all: its name, or nothing."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Expr, ast.Assign)):
            value = inner.value
            name = magic_of(ast.Expr(value))
            if name and name not in _TIMING | _CONFIGURING:
                return name
    return ""

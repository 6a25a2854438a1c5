"""What identifies code.

A *cell* is identified by its syntax tree in a form of our own: comments and layout are not in it, and neither
is anything that differs between Python versions (`ast.dump` and `ast.unparse` do differ).

A *function* is identified by its bytecode, because that is what runs: its source may be gone, or may have been
edited on disk since it was imported. Line numbers and file names are left out, sets among the constants are
sorted. Bytecode differs between Python versions; then work is repeated, never wrongly reused.

What code *reads* comes from bytecode as well, where Python itself has settled which names are global.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import itertools
import re
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Set
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from blake3 import blake3

_SKIPPED_FIELDS = frozenset({"ctx", "kind", "type_ignores", "type_comment"})


def digest_tree(tree: ast.AST) -> str:
    """The identity of a syntax tree. Equal for layouts and Python versions, different for different code."""
    hasher = blake3()
    # A stack instead of recursion: generated cells nest deeper than Python's recursion limit.
    stack: list[Any] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, _Mark):
            hasher.update(item.text)
        elif isinstance(item, ast.AST):
            hasher.update(f"({type(item).__name__}".encode())
            stack.append(_Mark(b")"))
            for name in reversed(item._fields):
                value = getattr(item, name, None)
                is_constant = isinstance(item, ast.Constant) and name == "value"  # None is a value there
                if is_constant or (name not in _SKIPPED_FIELDS and value is not None and value != []):
                    stack.append(value)
                    stack.append(_Mark(f".{name}=".encode()))
        elif isinstance(item, list):
            hasher.update(f"[{len(item)}:".encode())
            stack.extend(reversed(item))
        else:
            hasher.update(_constant(item))
    return hasher.hexdigest()


class _Mark(NamedTuple):
    """Punctuation between the nodes, which no constant can be mistaken for."""

    text: bytes


def digest_code(code: types.CodeType) -> str:
    """The identity of a code object: what it does, not where it stands."""
    return blake3(_constant(code)).hexdigest()


def _constant(value: Any) -> bytes:
    """A constant as unambiguous bytes. `1`, `1.0` and `True` are three different things, so are 0.0 and -0.0."""
    if isinstance(value, types.CodeType):
        parts = [
            value.co_code,
            getattr(value, "co_exceptiontable", b""),
            repr((value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)).encode(),
            repr((value.co_name, value.co_names, value.co_varnames)).encode(),
            repr((value.co_freevars, value.co_cellvars)).encode(),
            *map(_constant, value.co_consts),
        ]
        return b"code" + _joined(parts)
    if isinstance(value, tuple):
        return b"tuple" + _joined(list(map(_constant, value)))
    if isinstance(value, frozenset):
        return b"set" + _joined(sorted(map(_constant, value)))
    return _joined([type(value).__name__.encode(), repr(value).encode("utf-8", "surrogatepass")])


def _joined(parts: list[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


class Names(NamedTuple):
    """What a code object mentions, everything nested in it included."""

    reads: frozenset[str]
    """Global names it may read or delete."""
    writes: frozenset[str]
    """Global names it may bind or delete."""
    attributes: frozenset[str]
    """Attribute names, and constant strings: whatever `getattr` could be given."""
    strings: frozenset[str]
    imports: frozenset[str]
    """Modules it imports when it runs; relative ones with their dots."""
    handed_on: frozenset[str] = frozenset()
    """Of the global names, attributes and imports, those whose value is used otherwise than for an attribute of it."""


_READS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM"})
_LOCALS = frozenset({"LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_WRITES = frozenset({"STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL"})


@lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """The names a code object and all code inside it mention."""
    reads: set[str] = set()
    writes: set[str] = set()
    attributes: set[str] = set()
    strings: set[str] = set()
    imports: set[str] = set()
    handed_on: set[str] = set()
    stack = [(code, True)]
    while stack:
        current, is_module = stack.pop()
        instructions = [one for one in dis.get_instructions(current) if one.opname != "EXTENDED_ARG"]
        for instruction in instructions:
            name = instruction.argval
            if instruction.opname in _READS:
                reads.add(name)
            # STORE_NAME inside a class body binds an attribute of the class, not a global.
            if instruction.opname in _WRITES and (is_module or instruction.opname.endswith("GLOBAL")):
                writes.add(name)
        imports.update(_imported(instructions))
        handed_on.update(_handed_on(instructions))
        attributes.update(current.co_names)
        for constant in current.co_consts:
            if isinstance(constant, types.CodeType):
                stack.append((constant, False))
            else:
                strings.update(_strings_in(constant))
    found = (reads, writes, attributes | strings, strings, imports, handed_on)
    return Names(*map(frozenset, found))


def _imported(instructions: list[dis.Instruction]) -> Iterator[str]:
    for at, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            level = instructions[at - 2].argval if at > 1 else 0
            yield "." * (level if isinstance(level, int) else 0) + instruction.argval


def _handed_on(instructions: list[dis.Instruction]) -> Iterator[str]:
    held: dict[str, str] = {}  # variable -> the module that was imported as it
    for instruction, after in itertools.zip_longest(instructions, instructions[1:]):
        then = after.opname if after is not None else ""
        if instruction.opname == "IMPORT_NAME" and then.startswith("STORE_"):
            held[after.argval] = instruction.argval
        if then in _ATTRIBUTES:
            continue
        if instruction.opname in _READS or instruction.opname in ("LOAD_ATTR", "IMPORT_FROM"):
            yield instruction.argval
        if instruction.opname in _LOCALS or instruction.opname in _READS:
            yield held.get(instruction.argval, "")


_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_LOOKED_AT = "<looked at by nbcheckpoint>"
_UNSAID = ("ignore", None, Warning, re.compile(_LOOKED_AT), 0)
"""As `warnings.filterwarnings` would put it."""


def free_names(body: list[ast.stmt], bound: frozenset[str] = frozenset()) -> set[str]:
    """The names these top-level statements may read from before them.

    A name is not free once a statement has certainly bound it. What a function defined here reads counts as
    read where it is defined, because nobody knows when it is called.
    """
    return _free(body, set(bound), lambda names: names.reads)


def free_words(body: list[ast.stmt]) -> set[str]:
    """The same of the words in their constant strings, which may be names for whoever is given the string."""
    return _free(body, set(), lambda names: words_in(names.strings))


_WORD = re.compile(r"[^\W\d]\w*")
_LONGEST_STRING = 10_000


def words_in(strings: Iterable[str]) -> set[str]:
    """What could be a name in one of these."""
    return {word for text in strings if len(text) <= _LONGEST_STRING for word in _WORD.findall(text)}


@lru_cache(maxsize=4096)
def words_said_by(code: types.CodeType) -> frozenset[str]:
    """The words in the strings of a function that may be names around it: not those that its parameters have, unless it
    hands a string to IPython, which does not look there."""
    own = [constant for constant in code.co_consts if not isinstance(constant, types.CodeType)]
    words = words_in(itertools.chain.from_iterable(map(_strings_in, own)))
    if "get_ipython" not in code.co_names:
        words -= set(inspect.getargs(code).args)
    inside = (words_said_by(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(words).union(*inside)


_Said: TypeAlias = Callable[[Names], Set[str]]
"""What is looked for among all that code mentions."""


def _free(body: list[ast.stmt], bound: set[str], said: _Said) -> set[str]:
    """Adds to `bound` what is certainly bound afterwards."""
    free: set[str] = set()
    for node in body:
        if isinstance(node, ast.If):
            free |= _mentioned(node.test, said) - bound
            then, other = set(bound), set(bound)
            free |= _free(node.body, then, said) | _free(node.orelse, other, said)
            bound |= then & other
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            free |= (_mentioned(node.iter, said) | _mentioned_by_target(node.target, said)) - bound
            inside = bound | bound_by_target(node.target)
            free |= _free(node.body, inside, said) | _free(node.orelse, set(bound), said)
        elif isinstance(node, ast.While):
            free |= _mentioned(node.test, said) - bound
            free |= _free(node.body, set(bound), said) | _free(node.orelse, set(bound), said)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            inside = set(bound)
            for item in node.items:
                free |= _mentioned(item.context_expr, said) - inside
                if item.optional_vars is not None:
                    free |= _mentioned_by_target(item.optional_vars, said) - inside
                    inside |= bound_by_target(item.optional_vars)
            free |= _free(node.body, inside, said)  # may be left half-way by an exception that is swallowed
        elif isinstance(node, _TRIES):
            free |= _free(node.body, set(bound), said) | _free(node.orelse, set(bound), said)
            for handler in node.handlers:
                free |= (_mentioned(handler.type, said) if handler.type else set()) - bound
                free |= _free(handler.body, bound | ({handler.name} if handler.name else set()), said)
            free |= _free(node.finalbody, bound, said)
        else:
            names = names_in(_compiled(node))
            free |= said(names) - bound
            bound |= certainly_bound(node)
            if isinstance(node, ast.Delete):
                bound -= names.writes
    return free


_TRIES: Any = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)


def certainly_bound(node: ast.stmt) -> set[str]:
    """What a simple statement binds whatever happens: not a walrus behind an `and`, not a `global` in a function."""
    if isinstance(node, ast.Assign):
        return set().union(*map(bound_by_target, node.targets))
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        return bound_by_target(node.target)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names} - {"*"}
    return set()


def compiled(tree: ast.Module) -> types.CodeType:
    """The code of what is looked at and not run. What Python has to say about it, it says where it is run.

    The filter knows nothing but that name, and stays no longer than this takes; what was warned of before is not
    forgotten, as it would be by `warnings.catch_warnings`.
    """
    before = warnings.filters
    here = warnings.filters = [_UNSAID, *before]
    try:
        code: types.CodeType = compile(tree, _LOOKED_AT, "exec", flags=_FLAGS, dont_inherit=True)
    finally:
        if warnings.filters is here:  # another thread may be about to set its own
            warnings.filters = before
    return code


def names_in_tree(node: ast.stmt) -> Names:
    """The names a statement and all code inside it mention."""
    return names_in(_compiled(node))


def _compiled(node: ast.stmt) -> types.CodeType:
    # In a loop, because it may be a `break` or a `continue` taken out of one.
    loop = ast.copy_location(ast.While(test=ast.copy_location(ast.Constant(True), node), body=[node], orelse=[]), node)
    module = ast.Module(body=[loop], type_ignores=[])
    return compiled(module)


def _mentioned(expression: ast.expr, said: _Said) -> set[str]:
    return set(said(names_in(_compiled(ast.copy_location(ast.Expr(expression), expression)))))


def _mentioned_by_target(target: ast.expr, said: _Said) -> set[str]:
    """`for a[i] in …` reads a and i."""
    none = ast.copy_location(ast.Constant(None), target)
    names = names_in(_compiled(ast.copy_location(ast.Assign([target], none), target)))
    return set(said(names))


def bound_by_target(target: ast.expr) -> set[str]:
    """Names that assigning to it binds."""
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _strings_in(constant: Any) -> Iterator[str]:
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, (tuple, frozenset)):
        for item in constant:
            yield from _strings_in(item)


def functions_of(cls: type) -> Iterator[tuple[str, types.FunctionType]]:
    """The functions a class itself defines: methods, properties, class and static methods."""
    for name, member in sorted(vars(cls).items()):
        candidates: tuple[Any, ...] = (member,)
        if isinstance(member, property):
            candidates = (member.fget, member.fset, member.fdel)
        elif isinstance(member, (classmethod, staticmethod)):
            candidates = (member.__func__,)
        elif isinstance(member, functools.cached_property):
            candidates = (member.func,)
        for function in candidates:
            if isinstance(function, types.FunctionType):
                yield name, function

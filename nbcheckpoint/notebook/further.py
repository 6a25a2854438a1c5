"""A loop over a range that is made longer goes on where it ended: `for epoch in range(10)`, and then `range(20)`.

Theory of operation. What such a loop has done in its first ten turns does not depend on how many there are to be, as
long as nothing else asks for that number. So it is taken out of the statement before its code and inputs are
identified: where something else does ask for it, it is an input like any other, and the loop is another one. How far
the loop went is kept beside the checkpoint, and compared when the checkpoint is about to be used. As far as now: it is
restored. Not as far: it is taken for progress, of a loop that was cut short behind its last turn. Further: it is of
no use. One that was left by a `break` is left in the same turn again, if it comes to that.

Only the plainest form is looked at: the statement is the loop, the range is Python's own, its end a number or a
variable that holds one. There is no `else`, which would have run at the end.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from nbcheckpoint.fingerprint import explain
from nbcheckpoint.fingerprint.files import FOLDER, MISSING, THERE
from nbcheckpoint.model import Checkpoint, FileSeen, Progress, Reason

TURNS = "turns"
"""In the meta of a checkpoint: how many turns the loop had, which came to the end of its range."""
LEFT = "left"
"""The same: in which turn, counted from one, it was left by a `break`."""
SALT = " however far"
"""Part of the key of a statement without the end of its range."""
_RANGE = range


class Opened(NamedTuple):
    """A statement without the end of its range."""

    node: ast.stmt
    turns: int | None
    """How many it has; None: nobody knows yet."""
    end: str
    """The end of the range, as it stands there."""


def opened(node: ast.stmt, value_of: Callable[[str], Any]) -> Opened | None:
    """The statement without the end of its range, if it is a loop whose turns do not depend on that.

    `value_of` gives what a name stands for, or something that is no number.
    """
    if not isinstance(node, ast.For) or node.orelse or not isinstance(node.iter, ast.Call):
        return None
    called, given = node.iter.func, node.iter.args
    if not isinstance(called, ast.Name) or called.id != "range" or node.iter.keywords or not 0 < len(given) < 4:
        return None
    if value_of("range") is not _RANGE or builtins.range is not _RANGE or not all(map(_is_plain, given)):
        return None
    at = 0 if len(given) == 1 else 1
    numbers = [_number(one, value_of) for one in given]
    args = [*given[:at], ast.copy_location(ast.Constant(...), given[at]), *given[at + 1 :]]
    return Opened(_like(node, iter=_like(node.iter, args=args)), _turns(numbers), ast.unparse(given[at]))


_COUNTS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def _is_plain(node: ast.expr) -> bool:
    """Is it a number, a name, or a sum or product of these?"""
    if isinstance(node, ast.BinOp):
        return type(node.op) in _COUNTS and _is_plain(node.left) and _is_plain(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_plain(node.operand)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and type(node.value) is int)


def _number(node: ast.expr, value_of: Callable[[str], Any]) -> int | None:
    """What a plain one stands for."""
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left, value_of), _number(node.right, value_of)
        return _COUNTS[type(node.op)](left, right) if left is not None and right is not None else None
    if isinstance(node, ast.UnaryOp):
        number = _number(node.operand, value_of)
        return -number if number is not None else None
    value = value_of(node.id) if isinstance(node, ast.Name) else node.value  # type: ignore[attr-defined]  # a constant
    return value if type(value) is int else None


def _turns(numbers: Sequence[int | None]) -> int | None:
    if None in numbers:
        return None
    try:
        return len(range(*numbers))  # type: ignore[arg-type]  # looked at above
    except (ValueError, OverflowError):  # a step of nought, more turns than there are numbers for
        return None


def _like(node: Any, **changed: Any) -> Any:
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **changed}), node)


def says(turns: int | None, left: int) -> dict[str, int]:
    """What is kept with the checkpoint of a loop that is over. Neither: something of ours went wrong on the way, and
    nobody can use it."""
    return {TURNS: turns} if turns is not None else {LEFT: left} if left else {}


def went_all_the_way(checkpoint: Checkpoint) -> bool:
    """Is it what such a loop left in the end, whatever it is taken for now?"""
    return TURNS in checkpoint.meta or LEFT in checkpoint.meta


def fitting(candidate: Checkpoint, turns: int | None) -> Checkpoint | Reason:
    """What it is to a loop that goes so far: all of it, progress, or nothing, and why."""
    if turns is None:
        return candidate
    progress = candidate.progress
    if progress is not None:
        return _fitting(candidate, progress, turns)
    then, left = candidate.meta.get(TURNS, 0), candidate.meta.get(LEFT, 0)
    if (TURNS in candidate.meta and turns == then) or 0 < left <= turns:
        return candidate
    if 0 < then < turns and not candidate.not_saved:
        so_far = Progress(done=then, total=turns)
        return replace(candidate, progress=so_far, files=tuple(map(_may_be_written_again, candidate.files)))
    had = f"it was left in turn {left}" if left else f"it had {then} turns"
    return _no_use(f"{had}, and its range has {turns} now")


def _fitting(candidate: Checkpoint, progress: Progress, turns: int) -> Checkpoint | Reason:
    """`progress.around` begins with the loop over the range, which is in the middle of a turn then."""
    outermost = progress.around[0] if progress.around else progress
    if outermost.total == turns:
        return candidate
    if outermost.by != "position" or outermost.done + bool(progress.around) > turns:
        return _no_use(f"it had come to {outermost.done} of {outermost.total}, and its range has {turns} now")
    longer = replace(outermost, total=turns)
    whole = replace(progress, around=(longer, *progress.around[1:])) if progress.around else longer
    return replace(candidate, progress=whole)


def _may_be_written_again(file: FileSeen) -> FileSeen:
    """By the turns to come: it need not be in the end what it was behind those that are done."""
    kept = not file.written or file.appended or file.digest in (MISSING, FOLDER)
    return file if kept else replace(file, digest=THERE)


def _no_use(text: str) -> Reason:
    return explain.simple("input", text, names=["range"])

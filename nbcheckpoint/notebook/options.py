"""The first line of a cell: `%%checkpointed [NAME] [options]`.

The line is turned into a marker, a string in the same place, by a text transform that runs before IPython's
own: so line numbers hold, `await` works, and nothing but the marker differs from a plain cell. IPython calls
transforms several times per cell, also for completeness checks: this one has no effects.
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from functools import lru_cache
from typing import NoReturn

from nbcheckpoint.errors import UsageError
from nbcheckpoint.units import parse_age

MAGIC = "%%checkpointed"
_MARK = MAGIC
"""The marker is the line itself, as a string: that is what a traceback shows of it."""
_LINE = re.compile(r"(\s*)%%checkpointed(?:\s+(.*?))?\s*\Z", re.DOTALL)


def mark_cell(lines: list[str]) -> list[str]:
    """The text transform: the magic line becomes the marker."""
    for at, line in enumerate(lines):
        if not line.strip():
            continue
        found = _LINE.match(line)
        if found is None or _next_is_magic(lines[at + 1 :]):
            return lines
        ending = "\n" if line.endswith("\n") else ""
        return [*lines[:at], f"{found[1]}{_MARK + ' ' + (found[2] or '')!r}{ending}", *lines[at + 1 :]]
    return lines


def _next_is_magic(lines: list[str]) -> bool:
    """Another cell magic below ours: that cannot be Python, so the ordinary magic has to say so."""
    first = next((line for line in lines if line.strip()), "")
    return first.lstrip().startswith("%%")


def read_marker(tree: ast.Module) -> str | None:
    """The options text, if the tree begins with the marker."""
    if tree.body and isinstance(tree.body[0], ast.Expr):
        value = tree.body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.startswith(_MARK + " "):
            return value.value.removeprefix(_MARK + " ")
    return None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{MAGIC}: {message}", hint=f"{MAGIC}? shows all options")


def names(text: str) -> tuple[str, ...]:
    """`a,b` as two names."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in found:
        if not name.isidentifier():
            raise argparse.ArgumentTypeError(f"{name!r} is not a name")
    return found


def labels(text: str) -> tuple[str, ...]:
    """`client,tools.client` as two variables, one of them a module's."""
    for name in text.split("."):
        names(name)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _age(text: str) -> float:
    try:
        return parse_age(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of times")
    return int(text)


def _every(text: str) -> float | int:
    """A bare number counts iterations."""
    if text.isdigit():
        if int(text) < 1:
            raise argparse.ArgumentTypeError("a loop cannot be saved every 0 turns")
        return int(text)
    return _age(text)


@lru_cache(maxsize=1)
def parser() -> argparse.ArgumentParser:
    """The options of `%%checkpointed`, with their help."""
    p = _Parser(prog=MAGIC, add_help=False, description="Save what this cell leaves; restore it next time.")
    p.add_argument("name", nargs="?", default="", metavar="NAME", help="what to call this cell")
    p.add_argument("--save", type=names, default=(), metavar="a,b", help="save only these names")
    p.add_argument("--skip", type=names, default=(), metavar="c", help="do not save these names")
    p.add_argument("--ignore", type=labels, default=(), metavar="x", help="changes of these do not matter")
    p.add_argument("--depends", type=names, default=(), metavar="x,y", help="changes of these matter too")
    p.add_argument("--files", action="append", default=[], metavar="GLOB", help="changes of these files matter too")
    p.add_argument("--every", type=_every, metavar="30s|N", help="save a loop's progress so often (seconds, or turns)")
    p.add_argument("--retries", type=_count, default=0, metavar="N", help="try a statement that fails so often again")
    p.add_argument("--expire", type=_age, metavar="7d", help="compute anew when older than this")
    p.add_argument("--force", action="store_true", help="compute now, whatever is saved")
    p.add_argument("--no-output", action="store_true", help="do not keep what the cell shows")
    p.add_argument("--code", choices=("ast", "text", "ignore"), default="ast", help="what counts as the same code")
    p.add_argument("--quiet", action="store_true", help="no line under the cell")
    return p


@lru_cache(maxsize=4)
def automatic(ignore: tuple[str, ...] = ()) -> argparse.Namespace:
    """What holds for a cell that says nothing. Not to be changed."""
    chosen = parse("")
    chosen.automatic, chosen.ignore = True, ignore
    return chosen


def parse(text: str) -> argparse.Namespace:
    """Raises UsageError with one clear sentence."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise UsageError(f"{MAGIC}: {error}", hint="is a quote missing?") from error
    chosen = parser().parse_args(words)
    if chosen.code == "ignore" and not chosen.name:
        raise UsageError(f"{MAGIC}: --code ignore needs a NAME", hint="the name is all such a cell is known by")
    chosen.automatic = False
    return chosen

"""`%checkpoint WORD …`: the words of the command line, and those that need a kernel, in a notebook.

A word parses, calls and shows; what it does is elsewhere. Those the command line has are run by the command line's
own code, on this notebook's store. What goes wrong is one line, raised so that the cells below do not run on.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from nbcheckpoint.errors import Error, UsageError
from nbcheckpoint.notebook.answer import Answer, untouched_random, warm_up
from nbcheckpoint.notebook.history import existing_store
from nbcheckpoint.notebook.options import names
from nbcheckpoint.showing import clean

if TYPE_CHECKING:
    from nbcheckpoint.notebook.cells import CellCheckpointer

MAGIC = "%checkpoint"
Extra = Callable[["CellCheckpointer", list[str]], Any]
"""A word from elsewhere: is given what stands behind it. The first line of its docstring is its help."""

FROM_CLI = {
    "runs": "what ran, newest first",
    "list": "checkpoints, newest first",
    "show": "a run and its steps",
    "diff": "what differs between two checkpoints",
    "pin": "keep a run, whatever retention says",
    "unpin": "let retention have it again",
    "note": "write something beside a run",
    "answer": "what a run waits for",
    "delete": "a run, and what no other uses",
    "prune": "remove what is old",
    "verify": "read everything, say what is damaged",
    "export": "a run into one file",
    "import": "such a file",
    "trust": "let something be loaded that somebody else signed",
}
_EXAMPLE = f"""\
Example:
    {MAGIC} plan                  what would be restored if the notebook were run now
    {MAGIC} why                   why the last cell was computed, with a diff
    {MAGIC} resume                in a new kernel: the variables the last one had
    answer = {MAGIC} runs         keep the answer; answer.data are the records"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=f"{self.prog} --help shows what it takes")


class Word(NamedTuple):
    """A word of the notebook's own."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], object]
    run: Callable[[CellCheckpointer, argparse.Namespace], Any]
    example: str = ""
    """The word alone, if there is none."""


def line_magic(checkpointer: CellCheckpointer, extra: Mapping[str, Extra] | None = None) -> Callable[[str], Any]:
    """The function behind `%checkpoint`. `extra` words may be added to the mapping later, too."""
    others: Mapping[str, Extra] = extra if extra is not None else {}

    def checkpoint(line: str = "") -> Any:
        try:
            return answer(checkpointer, line, others)
        except Error as error:
            raise told(error) from None
        except Exception as error:
            raise told(Error(f"a fault of nbcheckpoint: {type(error).__name__}: {error}")) from error

    checkpoint.__doc__ = help_text(others)
    return checkpoint


def answer(checkpointer: CellCheckpointer, line: str, extra: Mapping[str, Extra]) -> Any:
    """What the line asks for. Raises our errors."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{MAGIC}: {error}", hint="is a quote missing?") from error
    if not words or words[0] in ("help", "--help", "-h"):
        return Answer([help_text(extra)], {"words": known_words(extra)})
    word, *rest = words
    if word in extra:
        return extra[word](checkpointer, rest)
    if word in OWN:
        warm_up()
        return _own(checkpointer, word, rest)
    if word in FROM_CLI:
        with untouched_random():
            return from_cli(checkpointer, word, rest)
    known = known_words(extra)
    meant = difflib.get_close_matches(word, known, 1)
    hint = f"did you mean {meant[0]}? " if meant else ""
    raise UsageError(f"{MAGIC}: no word {word!r}", hint=f"{hint}the words are: {' '.join(known)}")


def known_words(extra: Mapping[str, Extra]) -> list[str]:
    return list(dict.fromkeys((*extra, *OWN, *FROM_CLI)))


def help_text(extra: Mapping[str, Extra]) -> str:
    """All words, one line each, and an example."""
    others = {word: (function.__doc__ or "").strip().partition("\n")[0] for word, function in extra.items()}
    lines = {**others, **{word: own.help for word, own in OWN.items()}, **FROM_CLI}
    table = "\n".join(f"    {word:<10}{text}" for word, text in lines.items())
    return f"{MAGIC} WORD …\n\n{table}\n\n{MAGIC} WORD --help shows what a word takes.\n\n{_EXAMPLE}"


def _own(checkpointer: CellCheckpointer, word: str, rest: Sequence[str]) -> Any:
    own = OWN[word]
    example = f"Example: {MAGIC} {own.example or word}"
    parser = _Parser(prog=f"{MAGIC} {word}", description=own.help, epilog=example, add_help=False)
    own.arguments(parser)
    if "--help" in rest or "-h" in rest:
        return Answer([parser.format_help()])
    return own.run(checkpointer, parser.parse_args(list(rest)))


# Words the command line has


def from_cli(checkpointer: CellCheckpointer, word: str, rest: Sequence[str]) -> Answer:
    """Run the command of that name on this notebook's store, unless it is told another."""
    import click

    from nbcheckpoint.cli import main
    from nbcheckpoint.cli.base import captured

    session = checkpointer.session
    if session.location == "memory://":
        raise UsageError("this store has no name to open it by", hint="set NBCHECKPOINT_STORE=memory://NAME")
    if session.opened:
        session.store.flush()
    printed = io.StringIO()
    with captured() as capture, contextlib.redirect_stdout(printed):
        try:
            main.main([word, "--store", session.location, *rest], prog_name=MAGIC, standalone_mode=False)
        except click.ClickException as error:
            hint = f"{MAGIC} {word} --help shows what it takes"
            raise UsageError(f"{MAGIC} {word}: {error.format_message()}", hint=hint) from error
        except click.Abort as error:
            raise UsageError("nothing was changed") from error
        except SystemExit:
            pass  # the exit code says in one number what the page says in words
    parts = [in_notebook(part) if isinstance(part, str) else part for part in capture.parts]
    if printed.getvalue():
        parts.append(in_notebook(printed.getvalue().rstrip()))
    return Answer(parts, capture.data)


def in_notebook(text: str) -> str:
    """Advice for the command line, as advice for a notebook."""
    words = "|".join((*FROM_CLI, *OWN))
    return re.sub(rf"\bnbcheckpoint ({words})\b", rf"{MAGIC} \1", text)


def told(error: Error) -> Error:
    """The same error, which IPython shows as one line instead of a traceback."""
    # What is no text could not be sent, and the page would be told nothing.
    error.args = tuple(
        part.encode("utf-8", "replace").decode() if isinstance(part, str) else part for part in error.args
    )
    line = clean(in_notebook(f"nbcheckpoint: {error}" + (f" · {error.hint}" if error.hint else "")))
    setattr(error, "_render_traceback_", lambda: [line.replace("\n", " ")])  # noqa: B010  # IPython's, not ours
    return error


# Words of the notebook's own


def _status(checkpointer: CellCheckpointer, chosen: argparse.Namespace) -> Any:
    from nbcheckpoint.notebook.status import status

    return status(checkpointer.session, existing_store(checkpointer.session), list(checkpointer.notes))


def _config(checkpointer: CellCheckpointer, chosen: argparse.Namespace) -> Any:
    from nbcheckpoint.notebook.status import settings

    return settings(checkpointer.session)


def _why(checkpointer: CellCheckpointer, chosen: argparse.Namespace) -> Any:
    from nbcheckpoint.notebook.why import why

    session = checkpointer.session
    return why(session, existing_store(session), chosen.cell, now=checkpointer.step_now)


def _plan(checkpointer: CellCheckpointer, chosen: argparse.Namespace) -> Any:
    from nbcheckpoint.notebook.plan import plan

    session, shell = checkpointer.session, checkpointer.shell
    auto = checkpointer.automatic
    return plan(session, existing_store(session), shell.user_ns, shell.transform_cell, auto=auto)


def _restore(checkpointer: CellCheckpointer, chosen: argparse.Namespace) -> Any:
    from nbcheckpoint.notebook.timetravel import restore

    return restore(checkpointer, chosen.target, chosen.names, run=chosen.run)


def _resume(checkpointer: CellCheckpointer, chosen: argparse.Namespace) -> Any:
    from nbcheckpoint.notebook.timetravel import resume

    return resume(checkpointer, run=chosen.run)


def _nothing(parser: argparse.ArgumentParser) -> None:
    """It takes no arguments."""


def _why_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", nargs="?", default="", metavar="CELL", help="2: the last but one; or its name or id")


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="RUN|CHECKPOINT", help="its id, or a part of it that no other has")
    parser.add_argument("--names", type=names, default=None, metavar="a,b", help="only these variables")
    _run_argument(parser)


def _run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", action="store_true", help="run the statements again whose values could not be saved")


OWN = {
    "status": Word("store, run, what was saved and what was not", _nothing, _status),
    "why": Word("why a cell was restored or computed, with a diff", _why_arguments, _why, "why 2"),
    "plan": Word("what would be restored if the notebook were run now", _nothing, _plan),
    "restore": Word(
        "the variables as they were after a run or a checkpoint",
        _restore_arguments,
        _restore,
        "restore a9c1e2 --names model",
    ),
    "resume": Word("in a fresh kernel: what the last run left, and which cell is next", _run_argument, _resume),
    "config": Word("what is set", _nothing, _config),
}

"""What every command shares: the group, the options all of them take, errors as exit codes, and ways to show things.

A notebook shows the same commands under `%checkpoint`: inside of `captured` nothing is printed, but collected, with
the records it was made from, and errors are left to the caller.

Exit codes: 0 done, 1 the notebook failed, 2 usage, 3 not found, 4 paused and waiting, 5 store problem, 6 untrusted;
130 after Ctrl-C.

What is shown may be a stranger's, whose archive was imported: no markup in it is obeyed, and what steers terminals is
taken out.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, NoReturn, TextIO

import click
import msgspec

from nbcheckpoint import __version__
from nbcheckpoint.errors import Error, NotFound, Paused, StoreError, Untrusted, UsageError
from nbcheckpoint.model import Record, Run
from nbcheckpoint.showing import clean
from nbcheckpoint.store import Store

_EXIT = ((UsageError, 2), (NotFound, 3), (Paused, 4), (StoreError, 5), (Untrusted, 6))
_COLOURED = re.compile(r"\[(?:cyan|green|red|yellow|magenta|white)\]\w+\[/\]")
"""The only markup there is, and only around a single word: everything else is the user's, or a stranger's."""
_UNSAFE: Final = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What JSON need not escape, and a terminal should not see."""
SHORT: Final = 24
"""Characters of a column that is left whole."""
WIDEST: Final = 1000
"""Columns of a table that nobody looks at."""


@dataclass
class Captured:
    """What a command showed."""

    parts: list[Any] = field(default_factory=list)
    """Lines of text and rich tables, in order."""
    data: Any = None
    """The records it was made from, as `--json` prints them."""


_captured: ContextVar[Captured | None] = ContextVar("captured", default=None)


@contextmanager
def captured() -> Iterator[Captured]:
    """Collect what commands show in here instead of printing it."""
    capture = Captured()
    token = _captured.set(capture)
    try:
        yield capture
    finally:
        _captured.reset(token)


SECTIONS: Final = {
    "Run": ("run", "resume", "plan", "answer", "demo"),
    "Look": ("runs", "show", "list", "diff", "doctor", "verify"),
    "Keep": ("pin", "unpin", "note", "export", "import", "trust", "copy"),
    "Remove": ("delete", "clear", "prune"),
}
"""The commands as `--help` lists them."""


class Commands(click.Group):
    """All of them, by what they are for. Ctrl-C ends any of them in one line, with the exit code of a shell."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for title, words in SECTIONS.items():
            with formatter.section(title):
                rows = [(word.ljust(width), self.commands[word].get_short_help_str(limit=200)) for word in words]
                formatter.write_dl(rows)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        complete_streams()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            if _captured.get() is not None:
                raise
            click.echo("\nnbcheckpoint: stopped", err=True)
            ctx.exit(130)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="nbcheckpoint COMMAND --help shows what a command takes, with an example.",
)
@click.version_option(__version__)
def main() -> None:
    """Your notebook outlives its kernel."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """The options every command has, and our errors as one line and an exit code."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Error as error:
            if _captured.get() is not None:
                raise
            fail(error)

    wrapped = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(wrapped)
    return click.option("--store", metavar="URL", help="The store; by default the nearest .nbcheckpoint.")(wrapped)


def fail(error: Error) -> NoReturn:
    """One line, one hint, and the documented exit code."""
    click.echo(clean(f"nbcheckpoint: {error}"), err=True)
    if error.hint:
        click.echo(clean(f"  {error.hint}"), err=True)
    sys.exit(next((code for kind, code in _EXIT if isinstance(error, kind)), 1))


MAX_SHOWN = 80


def find_run(store: Store, text: str) -> Run:
    """The run with this id, or the only one whose id contains the text."""
    try:
        return store.run(text)
    except NotFound:
        matches = [run for run in store.runs() if text in run.id]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{text} could be any of {len(matches)} runs", hint="give more of the id")
    raise NotFound(f"no run {in_short(text)}", hint=_where_to_look(store, text))


def in_short(text: str) -> str:
    """What somebody has given for an id, as one line shows it."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _where_to_look(store: Store, text: str) -> str:
    """Whoever gives a notebook where a run is wanted is told how its runs are found."""
    named = {run.workflow for run in store.runs(text=text)} if text else set()
    if len(named) == 1:
        return f"nbcheckpoint runs --workflow {named.pop()} lists its runs"
    return "nbcheckpoint runs lists what there is"


def find_checkpoint(store: Store, text: str) -> str:
    """The checkpoint with this id, or the only one whose id contains the text."""
    if text and store.backend.get(f"checkpoint/{text}") is not None:
        return text
    matches = [entry.key.partition("/")[2] for entry in store.backend.scan("checkpoint/")]
    matches = [id for id in matches if text in id]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{text} could be any of {len(matches)} checkpoints", hint="give more of the id")
    raise NotFound(f"no checkpoint {in_short(text)}", hint="nbcheckpoint list shows what there is")


def confirm(question: str, *, yes: bool) -> None:
    """Something will be lost: ask. Where nobody can answer, `--yes` must have said so."""
    if yes:
        return
    if not _can_answer():
        raise UsageError(f"{question} Nobody is there to answer", hint="add --yes")
    if not click.confirm(clean(question), err=True):
        click.echo("Nothing was changed.", err=True)
        sys.exit(0)


def _can_answer() -> bool:
    return sys.stdin.isatty()


@contextmanager
def progress(label: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on the terminal, fed with (done, of how many); None where there is nobody to see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def say(text: Any) -> None:
    """One line for the reader, or several."""
    capture = _captured.get()
    if capture is None:
        _write(clean(text))
    else:
        capture.parts.append(text)


def _write(text: str) -> None:
    """To the standard output. Whoever has closed it has read enough: click ends quietly then."""
    try:
        click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        hush(sys.stdout)
        raise Error(f"the output cannot be written: {error.strerror}") from error


def hush(stream: TextIO) -> None:
    """Let go of a stream that cannot be written any more, or Python would fail when it flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complete_streams() -> None:
    """Open what whoever started us has closed. Else a file or a socket, ours or the kernel's, would get its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free: this one
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115  # as long as there is a process


def said_as_json(value: Any, as_json: bool) -> bool:
    """Print the records if that is what was asked for: then there is nothing more to say."""
    capture = _captured.get()
    if capture is not None:
        capture.data = plain(value)
    if as_json:
        print_json(value)
    return as_json


def print_json(value: Any) -> None:
    text = msgspec.json.format(msgspec.json.encode(plain(value)), indent=2).decode()
    say(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def plain(value: Any) -> Any:
    """Records as dicts, also in a list of them."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.to_dict() if isinstance(value, Record) else value


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    draw(table(columns, rows))


def draw(part: Any) -> None:
    """A line, or something rich has made: as wide as the terminal, or as it is where `grep` and `cut` read it."""
    from rich.console import Console
    from rich.measure import Measurement

    capture = _captured.get()
    if capture is not None or isinstance(part, str):
        say(part)
        return
    there, written = Console(), io.StringIO()
    room = there.width if there.is_terminal or "COLUMNS" in os.environ else WIDEST
    # Rather than that some of it is lost, the terminal folds it.
    least = Measurement.get(there, there.options.update(width=WIDEST), part).minimum
    Console(file=written, width=max(room, least), force_terminal=there.is_terminal).print(part)
    _write("\n".join(line.rstrip() for line in written.getvalue().splitlines()))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """A rich table in our style. Where it is too wide, long columns give way, and the last: others stay whole."""
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=None, header_style="bold", pad_edge=False, show_header=any(columns))
    for at, column in enumerate(columns, 1):
        short = all(len(row[at - 1]) <= SHORT for row in rows)
        made.add_column(column, overflow="fold", no_wrap=short and at < len(columns))
    for row in rows:
        made.add_row(*(cell if _COLOURED.fullmatch(cell) else escape(clean(cell)) for cell in row))
    return made

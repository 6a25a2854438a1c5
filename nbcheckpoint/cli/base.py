"""What every command shares: the group, the options all of them take, errors as exit codes, and ways to show things.

A notebook shows the same commands under `%checkpoint`: inside of `captured` nothing is printed, but collected, with
the records it was made from, and errors are left to the caller.

Exit codes: 0 done, 1 the notebook failed, 2 usage, 3 not found, 4 paused and waiting, 5 store problem, 6 untrusted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NoReturn

import click
import msgspec

from nbcheckpoint import __version__
from nbcheckpoint.errors import Error, NotFound, Paused, StoreError, Untrusted, UsageError
from nbcheckpoint.model import Record, Run
from nbcheckpoint.store import Store

_EXIT = ((UsageError, 2), (NotFound, 3), (Paused, 4), (StoreError, 5), (Untrusted, 6))
_COLOURED = re.compile(r"\[(?:cyan|green|red|yellow|magenta|white)\]\w+\[/\]")
"""The only markup there is, and only around a single word: everything else is the user's, or a stranger's."""


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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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
    click.echo(f"nbcheckpoint: {error}", err=True)
    if error.hint:
        click.echo(f"  {error.hint}", err=True)
    sys.exit(next((code for kind, code in _EXIT if isinstance(error, kind)), 1))


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
    raise NotFound(f"no run {text}", hint="nbcheckpoint runs lists what there is")


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
    raise NotFound(f"no checkpoint {text}", hint="nbcheckpoint list shows what there is")


def confirm(question: str, *, yes: bool) -> None:
    """Something will be lost: ask. Where nobody can answer, `--yes` must have said so."""
    if yes:
        return
    if not _can_answer():
        raise UsageError(f"{question} Nobody is there to answer", hint="add --yes")
    if not click.confirm(question, err=True):
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


def say(text: str) -> None:
    """One line for the reader."""
    capture = _captured.get()
    if capture is None:
        click.echo(text)
    else:
        capture.parts.append(text)


def said_as_json(value: Any, as_json: bool) -> bool:
    """Print the records if that is what was asked for: then there is nothing more to say."""
    capture = _captured.get()
    if capture is not None:
        capture.data = plain(value)
    if as_json:
        print_json(value)
    return as_json


def print_json(value: Any) -> None:
    say(msgspec.json.format(msgspec.json.encode(plain(value)), indent=2).decode())


def plain(value: Any) -> Any:
    """Records as dicts, also in a list of them."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.to_dict() if isinstance(value, Record) else value


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console

    capture = _captured.get()
    if capture is None:
        Console().print(table(columns, rows))
    else:
        capture.parts.append(table(columns, rows))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """A rich table in our style."""
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=None, header_style="bold", pad_edge=False, show_header=any(columns))
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(cell if _COLOURED.fullmatch(cell) else escape(cell) for cell in row))
    return made

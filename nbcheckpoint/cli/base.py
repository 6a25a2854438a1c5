"""What every command shares: the group, the options all of them take, errors as exit codes, and ways to show things.

Exit codes: 0 done, 1 the notebook failed, 2 usage, 3 not found, 4 paused and waiting, 5 store problem, 6 untrusted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import wraps
from typing import Any, NoReturn

import click
import msgspec

from nbcheckpoint import __version__
from nbcheckpoint.errors import Error, NotFound, StoreError, Untrusted, UsageError
from nbcheckpoint.model import Record, Run
from nbcheckpoint.store import Store
from nbcheckpoint.units import say_duration

_EXIT = ((UsageError, 2), (NotFound, 3), (StoreError, 5), (Untrusted, 6))


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


def print_json(value: Any) -> None:
    def plain(item: Any) -> Any:
        return item.to_dict() if isinstance(item, Record) else item

    value = [plain(item) for item in value] if isinstance(value, list) else plain(value)
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Only our own colour tags are markup: names, reasons and errors are the user's.
        table.add_row(*(cell if cell.endswith("[/]") and cell.startswith("[") else escape(cell) for cell in row))
    Console().print(table)


def ago(moment: str) -> str:
    """`3m 20s ago`; what is no time is shown as it is."""
    try:
        then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        seconds = max(0.0, (datetime.now(timezone.utc) - then).total_seconds())
    except (ValueError, TypeError):
        return moment
    return "just now" if seconds < 2 else f"{say_duration(seconds)} ago"

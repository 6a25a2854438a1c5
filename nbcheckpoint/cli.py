"""The command line: parse, call, show. Every command takes `--store` and `--json`.

Exit codes: 0 done, 1 the notebook failed, 2 usage, 3 not found, 5 store problem, 6 untrusted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import wraps
from typing import Any, NoReturn

import click
import msgspec

from nbcheckpoint import __version__
from nbcheckpoint.errors import Error, NotFound, StoreError, Untrusted, UsageError
from nbcheckpoint.model import Record, Run, Step
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.units import say_duration, say_size

_EXIT = ((UsageError, 2), (NotFound, 3), (StoreError, 5), (Untrusted, 6))
_COLOURS = {
    "running": "cyan",
    "completed": "green",
    "restored": "green",
    "failed": "red",
    "interrupted": "yellow",
    "paused": "magenta",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Your notebook outlives its kernel."""


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """The options every command has, and our errors as one line and an exit code."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Error as error:
            _fail(error)

    wrapped = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(wrapped)
    return click.option("--store", metavar="URL", help="The store; by default the nearest .nbcheckpoint.")(wrapped)


def _fail(error: Error) -> NoReturn:
    click.echo(f"nbcheckpoint: {error}", err=True)
    if error.hint:
        click.echo(f"  {error.hint}", err=True)
    sys.exit(next((code for kind, code in _EXIT if isinstance(error, kind)), 1))


@main.command(epilog="Example: nbcheckpoint runs --status interrupted")
@click.option("--workflow", metavar="NAME", help="Only runs of this notebook or flow.")
@click.option("--status", metavar="WORD", help="Only runs with this status.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@_command
def runs(workflow: str | None, status: str | None, limit: int, store: str | None, as_json: bool) -> None:
    """List runs, newest first."""
    with open_store(store, create=False) as opened:
        found = opened.runs(workflow=workflow, status=status, limit=limit)
    if as_json:
        _print_json(found)
    elif not found:
        click.echo("No runs yet. A cell that begins with %%checkpointed makes the first.")
    else:
        _print_table(
            ("run", "notebook", "status", "last seen", "computed", "restored", "saved", "spared"),
            [_run_row(run) for run in found],
        )


def _run_row(run: Run) -> tuple[str, ...]:
    return (
        run.id.rpartition("-")[2],
        run.workflow,
        f"[{_COLOURS.get(run.status, 'white')}]{run.status}[/]",
        _ago(run.updated),
        str(run.steps.get("completed", 0)),
        str(run.steps.get("restored", 0)),
        say_size(run.bytes),
        say_duration(run.spared_seconds) if run.spared_seconds else "",
    )


@main.command(epilog="Example: nbcheckpoint show a9c1e2")
@click.argument("run")
@_command
def show(run: str, store: str | None, as_json: bool) -> None:
    """Show a run and its steps. RUN is its id or any part of it that no other run has."""
    with open_store(store, create=False) as opened:
        found = find_run(opened, run)
        steps = opened.steps(found.id)
    if as_json:
        _print_json({**found.to_dict(), "steps_list": [step.to_dict() for step in steps]})
        return
    click.echo(f"{found.workflow} · {found.status} · {found.id} · {_ago(found.updated)}")
    _print_table(("step", "status", "took", "saved", "why"), [_step_row(step) for step in steps])


def _step_row(step: Step) -> tuple[str, ...]:
    return (
        step.name,
        f"[{_COLOURS.get(step.status, 'white')}]{step.status}[/]",
        say_duration(step.seconds) if step.seconds else "",
        say_size(step.bytes) if step.bytes else "",
        step.error or (step.reason.text if step.reason else ""),
    )


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


@main.command(epilog="Example: nbcheckpoint demo")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo(as_json: bool) -> None:
    """Kill a notebook's kernel half-way, run it again, and see that nothing was lost."""
    from nbcheckpoint.notebook.demo import run_demo

    try:
        outcome = run_demo(quiet=as_json)
    except Error as error:
        _fail(error)
    if as_json:
        _print_json(outcome)
    sys.exit(0 if outcome["equal"] and outcome["restored"] else 1)


def _print_json(value: Any) -> None:
    def plain(item: Any) -> Any:
        return item.to_dict() if isinstance(item, Record) else item

    value = [plain(item) for item in value] if isinstance(value, list) else plain(value)
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
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


def _ago(moment: str) -> str:
    then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    seconds = max(0.0, (datetime.now(timezone.utc) - then).total_seconds())
    return "just now" if seconds < 2 else f"{say_duration(seconds)} ago"

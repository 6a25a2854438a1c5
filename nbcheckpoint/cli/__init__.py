"""The command line: parse, call, show. Every command takes `--store` and `--json`.

Exit codes: 0 done, 1 the notebook failed, 2 usage, 3 not found, 4 paused and waiting, 5 store problem, 6 untrusted;
130 and 143 when a run was stopped by Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import sys
from typing import get_args

import click

from nbcheckpoint.cli.base import command, fail, find_run, main, print_json, print_table, said_as_json, say
from nbcheckpoint.errors import Error
from nbcheckpoint.model import Run, RunStatus, Step
from nbcheckpoint.store import open_store
from nbcheckpoint.units import ago, say_duration, say_size

__all__ = ["find_run", "main"]

_COLOURS = {
    "running": "cyan",
    "completed": "green",
    "restored": "green",
    "failed": "red",
    "interrupted": "yellow",
    "paused": "magenta",
}


@main.command(epilog="Example: nbcheckpoint runs --status interrupted")
@click.option("--workflow", metavar="NAME", help="Only runs of this notebook or flow.")
@click.option("--status", type=click.Choice(get_args(RunStatus)), metavar="WORD", help="Only runs with this status.")
@click.option("--text", help="Only runs with this in their name, id or note.")
@click.option("--tag", help="Only runs with this tag.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, metavar="N", show_default=True, help="At most so many."
)
@command
def runs(limit: int, store: str | None, as_json: bool, **wanted: str | None) -> None:
    """List runs, newest first."""
    with open_store(store, create=False) as opened:
        found = opened.runs(**wanted, limit=limit)
    if said_as_json(found, as_json):
        return
    if found:
        print_table(
            ("run", "notebook", "status", "last seen", "computed", "restored", "saved", "spared"),
            [_run_row(run) for run in found],
        )
    elif any(wanted.values()):
        say("No run is like that. nbcheckpoint runs lists them all.")
    else:
        say("No runs yet. A cell that begins with %%checkpointed makes the first.")


def _run_row(run: Run) -> tuple[str, ...]:
    return (
        run.id.rpartition("-")[2],
        "\n".join(part for part in (run.workflow, _beside(run)) if part),
        f"[{_COLOURS.get(run.status, 'white')}]{run.status}[/]",
        ago(run.updated),
        str(run.counts.get("completed", 0)),
        str(run.counts.get("restored", 0)),
        say_size(run.bytes) if run.bytes else "",
        say_duration(run.spared_seconds) if run.spared_seconds else "",
    )


def _beside(run: Run) -> str:
    """What somebody has put beside it."""
    return " · ".join(part for part in ("pinned" if run.pinned else "", run.note) if part)


@main.command(epilog="Example: nbcheckpoint show a9c1e2")
@click.argument("run")
@command
def show(run: str, store: str | None, as_json: bool) -> None:
    """Show a run and its steps. RUN is its id or any part of it that no other run has."""
    with open_store(store, create=False) as opened:
        found = find_run(opened, run)
        steps = opened.steps(found.id)
    if said_as_json({**found.to_dict(), "steps_list": [step.to_dict() for step in steps]}, as_json):
        return
    parts = (found.workflow, found.status, found.id, ago(found.updated), _beside(found))
    say(" · ".join(part for part in parts if part))
    print_table(("step", "status", "took", "saved", "why"), [_step_row(step) for step in steps])


def _step_row(step: Step) -> tuple[str, ...]:
    return (
        step.name,
        f"[{_COLOURS.get(step.status, 'white')}]{step.status}[/]",
        say_duration(step.seconds) if step.seconds else "",
        say_size(step.bytes) if step.bytes else "",
        step.error or (step.reason.text if step.reason else ""),
    )


@main.command(epilog="Example: nbcheckpoint demo")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo(as_json: bool) -> None:
    """Kill a notebook's kernel half-way, run it again, lose nothing."""
    from nbcheckpoint.notebook.demo import run_demo

    try:
        outcome = run_demo(quiet=as_json)
    except Error as error:
        fail(error)
    if as_json:
        print_json(outcome)
    sys.exit(0 if outcome["equal"] and outcome["restored"] else 1)


# Each module adds its commands to `main` when it is imported.
from nbcheckpoint.cli import headless, manage, transfer, upkeep  # noqa: E402, F401  # they need nothing from here

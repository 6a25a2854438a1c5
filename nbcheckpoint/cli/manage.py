"""Commands about single runs and checkpoints: list, pin, unpin, note, answer, delete, clear."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from nbcheckpoint.cli.base import command, confirm, find_run, main, print_table, said_as_json, say
from nbcheckpoint.errors import Error, NotFound
from nbcheckpoint.model import Checkpoint, Run, Step
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.upkeep import Pruned
from nbcheckpoint.units import ago, say_duration, say_size


@main.command("list", epilog="Example: nbcheckpoint list a9c1e2")
@click.argument("run", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, metavar="N", show_default=True, help="At most so many."
)
@command
def list_(run: str | None, limit: int, store: str | None, as_json: bool) -> None:
    """List checkpoints, newest first. With RUN, those it left or was restored from."""
    with open_store(store, create=False) as opened:
        found = _of_run(opened, find_run(opened, run)) if run else _all(opened)
    found = sorted(found, key=lambda checkpoint: checkpoint.created, reverse=True)[:limit]
    if said_as_json(found, as_json):
        return
    if not found:
        say("No checkpoints. A cell that begins with %%checkpointed leaves one.")
    else:
        print_table(("checkpoint", "step", "names", "saved", "size", "took"), [_row(item) for item in found])


def _of_run(store: Store, run: Run) -> list[Checkpoint]:
    ids = dict.fromkeys(step.checkpoint for step in store.steps(run.id, inner=True) if step.checkpoint)
    found = []
    for id in ids:
        try:
            found.append(store.checkpoint(id))
        except Error:
            continue  # pruned, or not to be read: `verify` tells
    return found


def _all(store: Store) -> list[Checkpoint]:
    found = []
    for entry in store.backend.scan("checkpoint/"):
        try:
            found.append(store._open(Checkpoint, entry.key, entry.value))
        except Error:
            continue  # as above
    return found


def _row(checkpoint: Checkpoint) -> tuple[str, ...]:
    trust = "" if checkpoint.trusted else " (untrusted)"
    return (
        checkpoint.id.rpartition("-")[2],
        (checkpoint.name or checkpoint.step) + trust,
        ", ".join(name for name in checkpoint.names if not name.startswith("_")),
        ago(checkpoint.created),
        say_size(checkpoint.size),
        say_duration(checkpoint.seconds) if checkpoint.seconds else "",
    )


@main.command(epilog="Example: nbcheckpoint pin a9c1e2")
@click.argument("run")
@command
def pin(run: str, store: str | None, as_json: bool) -> None:
    """Keep RUN, whatever retention says."""
    with open_store(store, create=False) as opened:
        changed = opened.pin(find_run(opened, run).id)
    _tell(changed, "is kept until it is unpinned", as_json)


@main.command(epilog="Example: nbcheckpoint unpin a9c1e2")
@click.argument("run")
@command
def unpin(run: str, store: str | None, as_json: bool) -> None:
    """Let retention have RUN again."""
    with open_store(store, create=False) as opened:
        changed = opened.unpin(find_run(opened, run).id)
    _tell(changed, "is not pinned any more", as_json)


@main.command(epilog='Example: nbcheckpoint note a9c1e2 "with the old prices"')
@click.argument("run")
@click.argument("text")
@command
def note(run: str, text: str, store: str | None, as_json: bool) -> None:
    """Write TEXT beside RUN; an empty TEXT takes the note away."""
    with open_store(store, create=False) as opened:
        changed = opened.note(find_run(opened, run).id, text)
    _tell(changed, f"is noted: {text}" if text else "has no note any more", as_json)


@main.command(epilog="Example: nbcheckpoint answer a9c1e2 gate yes")
@click.argument("run")
@click.argument("pause")
@click.argument("value")
@command
def answer(run: str, pause: str, value: str, store: str | None, as_json: bool) -> None:
    """Answer what RUN asks at PAUSE with VALUE: JSON, or else plain text. The first answer is the answer."""
    with open_store(store, create=False) as opened:
        found = find_run(opened, run)
        opened.answer(found.id, pause, _value(opened.steps(found.id, inner=True), pause, value))
        found = opened.run(found.id)
    _tell(found, f"is answered at {pause}; resume it to go on", as_json)


def _value(steps: Sequence[Step], pause: str, text: str) -> Any:
    """What was typed: one of the choices by its text, else JSON, else the text itself."""
    asked: dict[str, Any] = next(
        (step.meta["pause"] for step in steps if step.meta.get("pause", {}).get("name") == pause), {}
    )
    for choice in asked.get("choices") or ():
        if str(choice) == text:
            return choice
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tell(run: Run, what: str, as_json: bool) -> None:
    if not said_as_json(run, as_json):
        say(f"{run.workflow} {run.id} {what}")


@main.command(epilog="Example: nbcheckpoint delete a9c1e2 --yes")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command
def delete(run: str, yes: bool, store: str | None, as_json: bool) -> None:
    """Delete RUN and the checkpoints that no other run uses."""
    with open_store(store, create=False) as opened:
        found = find_run(opened, run)
        confirm(f"Delete the run {found.id} of {found.workflow}?", yes=yes)
        report = opened.delete_run(found.id)
    _tell_deleted(report, as_json)


@main.command(epilog="Example: nbcheckpoint clear analysis.ipynb --yes")
@click.argument("workflow")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command
def clear(workflow: str, yes: bool, store: str | None, as_json: bool) -> None:
    """Delete all runs of WORKFLOW, pinned ones too. What another workflow uses stays."""
    with open_store(store, create=False) as opened:
        found = opened.runs(workflow=workflow)
        if not found:
            raise NotFound(f"no run of {workflow}", hint="nbcheckpoint runs lists what there is")
        confirm(f"Delete {count(len(found), 'run')} of {workflow}?", yes=yes)
        reports = [opened.delete_run(run.id) for run in found]
    _tell_deleted(joined(reports), as_json)


def joined(reports: list[Pruned]) -> Pruned:
    """Several reports as one."""
    return Pruned(
        runs=tuple(gone for report in reports for gone in report.runs),
        checkpoints=tuple(gone for report in reports for gone in report.checkpoints),
        chunks=sum(report.chunks for report in reports),
        bytes=sum(report.bytes for report in reports),
        swept_bytes=sum(report.swept_bytes for report in reports),
        unread=max((report.unread for report in reports), default=0),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
    )


def _tell_deleted(report: Pruned, as_json: bool) -> None:
    if said_as_json(report, as_json):
        return
    say(summary(report))
    for sentence in report.notes:
        say(sentence)


def summary(report: Pruned) -> str:
    """`removed 3 runs and 7 checkpoints; 412 MB freed`"""
    verb, freed = ("would remove", "to be freed") if report.dry_run else ("removed", "freed")
    parts = [count(len(report.runs), "run"), count(len(report.checkpoints), "checkpoint")]
    return f"{verb} {' and '.join(parts)}; {say_size(report.bytes)} {freed}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

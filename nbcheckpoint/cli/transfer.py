"""Commands that compare, carry and vouch for checkpoints: diff, export, import, trust, copy."""

from __future__ import annotations

from pathlib import Path

import click

from nbcheckpoint.cli.base import command, confirm, find_checkpoint, find_run, main, progress, said_as_json, say
from nbcheckpoint.cli.manage import count
from nbcheckpoint.errors import NotFound, UsageError
from nbcheckpoint.store import open_store
from nbcheckpoint.store.archive import Moved
from nbcheckpoint.units import say_size


@main.command(epilog="Example: nbcheckpoint diff 5f0c91 77a2be")
@click.argument("a")
@click.argument("b")
@command
def diff(a: str, b: str, store: str | None, as_json: bool) -> None:
    """Show what differs between two checkpoints: names, inputs, code. A and B are ids or parts of them."""
    with open_store(store, create=False) as opened:
        found = opened.diff(find_checkpoint(opened, a), find_checkpoint(opened, b))
    if not said_as_json(found, as_json):
        say(str(found))


@main.command(epilog="Example: nbcheckpoint export a9c1e2 run.zip")
@click.argument("run")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Overwrite FILE without asking.")
@command
def export(run: str, file: Path, yes: bool, store: str | None, as_json: bool) -> None:
    """Write RUN with its steps, checkpoints and values into one FILE."""
    with open_store(store, create=False) as opened:
        found = find_run(opened, run)
        if file.exists():
            confirm(f"{file} exists. Overwrite it?", yes=yes)
        with progress("Exporting", quiet=as_json) as shown:
            report = opened.export(found.id, file, progress=shown)
    _tell(report, file, f"wrote {file}", as_json)


@main.command("import", epilog="Example: nbcheckpoint import run.zip --trust")
@click.argument("file", type=Path)  # click would look at it before we do, and knows no name with a NUL
@click.option("--trust", is_flag=True, help="You know where it comes from: let it be loaded.")
@command
def import_(file: Path, trust: bool, store: str | None, as_json: bool) -> None:
    """Read a FILE that `export` wrote. What others signed is listed, and not loaded until you trust it."""
    with open_store(store) as opened, progress("Importing", quiet=as_json) as shown:
        report = opened.import_(file, trust, progress=shown)
    _tell(report, file, f"imported run {report.run}", as_json)
    if not report.trusted and not as_json:
        say(f"It does not carry your signature. To let it be loaded: nbcheckpoint trust {report.run}")


def _tell(report: Moved, file: Path, what: str, as_json: bool) -> None:
    if said_as_json(report, as_json):
        return
    say(f"{what}: {count(report.records, 'record')}, {say_size(file.stat().st_size)}")
    for sentence in report.notes:
        say(sentence)


@main.command(epilog="Example: nbcheckpoint trust a9c1e2 --yes")
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command
def trust(id: str, yes: bool, store: str | None, as_json: bool) -> None:
    """Vouch for a run or checkpoint that somebody else signed. Loading it can run code of theirs."""
    with open_store(store, create=False) as opened:
        try:
            found = find_run(opened, id).id
        except NotFound:
            found = find_checkpoint(opened, id)
        confirm(f"Loading {found} may run code its author put there. Trust it?", yes=yes)
        report = opened.trust(found)
    if not said_as_json(report, as_json):
        names = f" ({', '.join(report.names)})" if report.names else ""
        say(f"trusted {count(len(report.checkpoints), 'checkpoint')}{names} of {found}")


@main.command(epilog="Example: nbcheckpoint copy .nbcheckpoint /mnt/backup/nbcheckpoint")
@click.argument("places", nargs=-1, required=True, metavar="[SRC] DST")
@command
def copy(places: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Copy everything in the store SRC to the store DST. DST is made if need be. Can be stopped and repeated."""
    if len(places) + (store is not None) > 2:
        raise UsageError("one store to copy from and one to copy to", hint="nbcheckpoint copy SRC DST")
    source = places[0] if len(places) == 2 else store
    with open_store(source, create=False) as opened, progress("Copying", quiet=as_json) as shown:
        report = opened.copy_to(places[-1], progress=shown)
    if said_as_json(report, as_json):
        return
    values = f" and {count(report.chunks, 'chunk')} ({say_size(report.bytes)})" if report.chunks else ""
    say(f"copied {count(report.records, 'record')}{values} to {report.url}")
    for sentence in report.notes:
        say(sentence)

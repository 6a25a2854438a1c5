"""Commands about the store as a whole: prune, verify, doctor."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from nbcheckpoint import __version__, config
from nbcheckpoint.cli.base import command, confirm, main, print_table, progress, said_as_json, say
from nbcheckpoint.cli.manage import count, summary
from nbcheckpoint.codec.sign import Signer
from nbcheckpoint.model import FORMAT
from nbcheckpoint.retention import Policy
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.upkeep import GRACE_SECONDS, Pruned
from nbcheckpoint.store.verify import Verified, verify_at
from nbcheckpoint.units import say_duration, say_size

_LABELS = {
    "store": "store",
    "runs": "runs",
    "checkpoints": "checkpoints",
    "bytes": "size",
    "free_bytes": "free",
    "key": "key",
    "key_file": "key file",
    "versions": "versions",
}
"""The facts a reader sees. What is wrong is said in sentences below them."""
_PACKAGES = ("ipython", "cloudpickle", "diskcache", "blake3", "msgspec", "jupyterlab", "jupyter_server")


@main.command(epilog="Example: nbcheckpoint prune --older-than 7d --max-size 20GB --dry-run")
@click.option("--older-than", metavar="AGE", help="Remove what is older, like 7d or 12h.  [default: 30d]")
@click.option("--keep", type=click.IntRange(min=0), default=10, show_default=True, help="Runs per workflow.")
@click.option("--versions", type=click.IntRange(min=0), default=5, show_default=True, help="Versions per step.")
@click.option("--max-size", metavar="SIZE", help="Of the whole store, like 20GB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@command
def prune(
    older_than: str | None,
    keep: int,
    versions: int,
    max_size: str | None,
    dry_run: bool,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Remove old runs and what nobody uses. The latest, the last successful and pinned runs always stay.

    Exit code 5 if something was left alone because not everything in the store can be read.
    """
    policy = Policy.said(older_than=older_than, keep=keep, versions=versions, max_size=max_size)
    with open_store(store, create=False) as opened:
        report = opened.prune(policy, dry_run=True)
        if not dry_run:
            if report.runs or report.checkpoints:
                confirm(f"This {summary(report)}. Go on?", yes=yes)
            report = opened.prune(policy)
    _tell_pruned(report, as_json)
    sys.exit(5 if report.unread else 0)


def _tell_pruned(report: Pruned, as_json: bool) -> None:
    if said_as_json(report, as_json):
        return
    rows = [(kind, gone.id, gone.why) for kind in ("run", "checkpoint") for gone in getattr(report, f"{kind}s")]
    if rows:
        print_table(("", "id", "why"), rows)
    say(summary(report))
    for sentence in report.notes:
        say(sentence)


@main.command(epilog="Example: nbcheckpoint verify --repair")
@click.option("--repair", is_flag=True, help="Set aside what is damaged.")
@command
def verify(repair: bool, store: str | None, as_json: bool) -> None:
    """Read everything in the store and say what is not as it was written. Exit code 5 if anything is damaged."""
    location = config.store_location(store)
    with progress("Reading", quiet=as_json) as shown:
        result = verify_at(lambda: open_store(location, create=False), location, repair=repair, progress=shown)
    for sentence in result.notes:
        click.echo(sentence, err=True)
    if not said_as_json(result, as_json):
        _tell_verified(result)
    sys.exit(0 if result.clean else 5)


def _tell_verified(result: Verified) -> None:
    if result.problems:
        rows = [(problem.kind, problem.text, "set aside" if problem.repaired else "") for problem in result.problems]
        print_table(("problem", "what", ""), rows)
    looked = f"{count(result.records, 'record')} and {count(result.chunks, 'chunk')} ({say_size(result.bytes)})"
    if result.clean:
        say(f"{looked}: all sound")
    else:
        say(f"{looked}: not all of it is sound. nbcheckpoint verify --repair sets the damaged parts aside")
    if result.removed_chunks:
        say(f"{count(result.removed_chunks, 'chunk')} no checkpoint uses: removed")
    if result.orphans:
        spare = f"{count(result.orphans, 'chunk')} no checkpoint uses"
        say(f"{spare}: nbcheckpoint prune removes those older than {say_duration(GRACE_SECONDS)}")


@main.command(epilog="Example: nbcheckpoint doctor")
@command
def doctor(store: str | None, as_json: bool) -> None:
    """Say where things are and whether they are well. Store, key, file system, space, versions."""
    with open_store(store, create=False) as opened:
        facts = {**_about_store(opened), **_about_key(), "versions": dict(_versions())}
        problems = list(_complaints(opened, facts))
    if not said_as_json({**facts, "problems": problems}, as_json):
        print_table(("", ""), [(_LABELS[name], _say(name, value)) for name, value in facts.items() if name in _LABELS])
        say("")
        for sentence in problems or ["All is well."]:
            say(sentence)
    sys.exit(5 if facts["damage"] else 0)


def _about_store(store: Store) -> dict[str, Any]:
    sizes = [size for _, size, _ in store.backend.scan_chunks()]
    folder = getattr(store.backend, "directory", None)
    return {
        "store": store.url,
        "read_only": store.backend.read_only,
        "runs": len(store.backend.scan("run/")),
        "checkpoints": len(store.backend.scan("checkpoint/")),
        "chunks": len(sizes),
        "bytes": sum(sizes),
        "free_bytes": shutil.disk_usage(folder).free if folder else None,
        "damage": str(getattr(store.backend, "damage", "")),
        "warnings": list(getattr(store.backend, "warnings", [])),
    }


def _about_key() -> dict[str, Any]:
    path = config.data_dir() / "nbcheckpoint" / "signing_key"
    return {"key": Signer(config.signing_key()).key_id, "key_file": str(path)}


def _versions() -> Iterator[tuple[str, str]]:
    yield "nbcheckpoint", __version__
    yield "format", str(FORMAT)
    yield "python", platform.python_version()
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _complaints(store: Store, facts: dict[str, Any]) -> Iterator[str]:
    yield from facts["warnings"]
    if facts["damage"]:
        yield f"The index is damaged: {facts['damage']}. nbcheckpoint verify --repair shows what is left."
    if store.version > FORMAT:
        yield f"A later nbcheckpoint has written it, in format {store.version}: pip install --upgrade nbcheckpoint"
    if store.backend.read_only:
        yield "The store cannot be written: what was saved restores, nothing new is saved."
    if facts["free_bytes"] is not None and facts["free_bytes"] < 1 << 30:
        yield f"Only {say_size(facts['free_bytes'])} are free. nbcheckpoint prune makes room."
    if os.name == "posix" and Path(facts["key_file"]).stat().st_mode & 0o077:
        yield f"Others can read the signing key: chmod 600 {facts['key_file']}"


def _say(name: str, value: Any) -> str:
    if name.endswith("bytes"):
        return "?" if value is None else say_size(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)

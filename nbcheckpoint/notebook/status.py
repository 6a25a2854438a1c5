"""`%checkpoint status` and `%checkpoint config`: where this notebook stands, and what is set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from nbcheckpoint import __version__, config
from nbcheckpoint.errors import NotFound
from nbcheckpoint.model import Run
from nbcheckpoint.notebook.answer import Answer
from nbcheckpoint.notebook.history import CellRun, cells_of, first_line, latest_run
from nbcheckpoint.notebook.session import Session
from nbcheckpoint.retention import DAY, Policy
from nbcheckpoint.store import Store
from nbcheckpoint.units import ago, say_duration, say_size

SHOWN = 5


def status(session: Session, store: Store, notes: Sequence[str] = ()) -> Answer:
    """The store, the run, what was saved, restored and spared, and the last things that were not saved."""
    from nbcheckpoint.cli.base import table

    try:
        run = latest_run(session, store)
    except NotFound as error:
        data = {"store": store.url, "notebook": session.workflow, "run": None}
        return Answer([f"store  {store.url}", f"run    {error}"], data)
    cells = cells_of(store, run.id)
    counts = _counts(cells)
    lost = list(_not_saved(cells))
    mine = session.begun is not None
    rows = [
        ("store", store.url),
        ("notebook", run.workflow),
        ("run", f"{run.id} · {run.status} · {ago(run.updated)}" + ("" if mine else " · not begun in this kernel")),
        ("kernels", str(run.sessions)),
        ("cells", _say_counts(run.counts) or "none yet"),
        ("statements", _say_counts(counts) or "none yet"),
        ("saved", say_size(run.bytes)),
        ("computed", say_duration(run.computed_seconds)),
        ("spared", say_duration(run.spared_seconds)),
    ]
    parts: list[Any] = [table(("", ""), rows)]
    if lost or notes:
        parts.append("not saved:")
        parts += [f"  {row['what']}: {row['why']}" for row in lost[-SHOWN:]]
        parts += [f"  {note}" for note in notes]
    return Answer(parts, _data(session, store, run, counts, lost, notes))


def _data(
    session: Session, store: Store, run: Run, counts: dict[str, int], lost: list[dict[str, str]], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "store": store.url,
        "notebook": run.workflow,
        "run": run.to_dict(),
        "begun": session.begun is not None,
        "statements": counts,
        "not_saved": lost,
        "notes": list(notes),
    }


def _counts(cells: Sequence[CellRun]) -> dict[str, int]:
    statements = [statement for cell in cells for statement in cell.statements]
    restored = sum(statement.step.status == "restored" for statement in statements)
    saved = sum(statement.step.status != "restored" and bool(statement.step.checkpoint) for statement in statements)
    return {"saved": saved, "restored": restored, "not saved": len(statements) - saved - restored}


def _say_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number)


def _not_saved(cells: Sequence[CellRun]) -> Iterator[dict[str, str]]:
    """Statements that were not saved and names that could not be, the latest last, each once."""
    found: dict[str, str] = {}
    for statement in (statement for cell in cells for statement in cell.statements):
        if statement.problem:
            what = first_line(statement.source) or statement.step.name
            found.pop(what, None)
            found[what] = statement.problem
        for item in statement.checkpoint.not_saved if statement.checkpoint else ():
            found.pop(item.name, None)
            found[item.name] = f"{item.type}{f' at {item.path}' if item.path else ''}: {item.why}"
    yield from ({"what": what, "why": why} for what, why in found.items())


def settings(session: Session) -> Answer:
    """What is set, and where that comes from."""
    from nbcheckpoint.cli.base import table

    policy = Policy()
    from_environment = bool(os.environ.get(config.ENV_STORE))
    data = {
        "store": session.location,
        "store_from": config.ENV_STORE if from_environment else "the notebook's folder",
        "copy": config.copy_location(),
        "notebook": str(session.notebook),
        "encrypt": bool(os.environ.get(config.ENV_ENCRYPT)),
        "warn_size": config.warn_size(),
        "keep_runs": policy.runs,
        "keep_versions": policy.versions,
        "keep_seconds": policy.max_age_seconds,
        "key_file": str(config.data_dir() / "nbcheckpoint" / "signing_key"),
        "version": __version__,
    }
    age = f"{policy.max_age_seconds / DAY:.0f} days" if policy.max_age_seconds else "for ever"
    rows = [
        ("store", f"{data['store']}", f"{data['store_from']}; set {config.ENV_STORE} to change it"),
        ("copy", f"{data['copy'] or 'none'}", f"{config.ENV_COPY} names a folder that outlives this machine"),
        ("encrypt", "new stores are" if data["encrypt"] else "no", f"{config.ENV_ENCRYPT}=1 makes new stores so"),
        ("warn size", say_size(config.warn_size()), f"{config.ENV_WARN_SIZE}"),
        ("kept", f"{policy.runs} runs, {policy.versions} versions of a step, {age}", "pinned runs stay"),
        ("key", f"{data['key_file']}", "yours alone; what it did not sign is not loaded"),
        ("version", __version__, ""),
    ]
    return Answer([table(("", "", ""), rows)], data)

"""`%checkpoint plan`: what would be restored if the notebook were run now, from its top, and what would run.

Theory of operation. The code of every statement gives the checkpoints it may be restored from. Whether one of them
will be depends on what the names it read will stand for. That is known for literals and plain definitions
(`foresight.py`), and for what an earlier step will bring back: if the checkpoint was made from that very value, which
the records of the run it was made in tell, it will be found again. For everything else the answer is `perhaps`.

It is a forecast: nothing is executed, nothing is imported, nothing is unpickled. The run itself looks at the values.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from nbcheckpoint.engine.identity import changed_setting, code_key, is_missed
from nbcheckpoint.engine.journal import moments_ago
from nbcheckpoint.fingerprint import explain, rng
from nbcheckpoint.fingerprint.files import unchanged
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Input, Reason
from nbcheckpoint.notebook import document, weave
from nbcheckpoint.notebook.answer import Answer
from nbcheckpoint.notebook.cell import lines_of, own_text, salt
from nbcheckpoint.notebook.conditions import ABSENT, ANSWER, FOUND, NAMED, RUN, calls_of, holds
from nbcheckpoint.notebook.document import CodeCell
from nbcheckpoint.notebook.foresight import Assumed, Foresight, Known, Left, Unknown, written_by
from nbcheckpoint.notebook.further import SALT, Opened, fitting, opened
from nbcheckpoint.notebook.history import (
    CellRun,
    Statement,
    cells_of,
    checkpoints,
    first_line,
    latest_run,
    nearest,
)
from nbcheckpoint.notebook.line import say_where
from nbcheckpoint.notebook.session import Session
from nbcheckpoint.store import Store
from nbcheckpoint.store.saving import definition_digest
from nbcheckpoint.units import say_duration

CANDIDATES = 20
MAX_DOUBTS = 3


@dataclass(frozen=True)
class Planned:
    """One statement, and what would become of it."""

    cell: int
    statement: int
    source: str
    action: str
    """`restore`, `run` or `perhaps`."""
    reason: str
    seconds: float | None = None
    """What it took when it was last computed, if it ever was."""
    checkpoint: str = ""
    cell_id: str = ""
    """The front end's."""
    stale: bool = False
    """It was saved, and something it depends on is not what it was."""


@dataclass(frozen=True)
class Verdict:
    """On one checkpoint."""

    action: str
    reason: str
    checkpoint: Checkpoint
    stale: bool = False


class Planner:
    """Goes through a notebook from its top."""

    def __init__(self, store: Store, workflow: str, namespace: dict[str, Any], *, here: bool = True) -> None:
        """`here`: it would be run in this process, so what is set here counts."""
        self._store = store
        self._here = here
        self._workflow = workflow
        self._namespace = namespace
        self._all = [c for c in checkpoints(store) if c.trusted]
        self._by_code: dict[str, list[Checkpoint]] = {}
        for checkpoint in sorted(self._all, key=lambda c: c.created, reverse=True):
            self._by_code.setdefault(checkpoint.code, []).append(checkpoint)
        self._runs: dict[str, list[CellRun]] = {}
        self._ahead = Foresight()
        self._live: dict[str, str] = {}
        self._called: dict[tuple[str, str], str] = {}
        """Flows that will have been called, with which inputs -> the run; "" where that is another one every time."""

    def plan(self, cells: Sequence[CodeCell]) -> list[Planned]:
        """Every step of the notebook, in order."""
        found = []
        for cell in cells:
            number = 0
            others = {self._code(cell, at, node)[0] for at, node in enumerate(cell.steps)}
            for node in cell.tree.body if cell.tree is not None else ():
                if cell.chosen is None or weave.is_definition(node):
                    self._ahead.run(node)
                    continue
                if cell.chosen.automatic and weave.is_plain(node):
                    self._ahead.run(node)  # it runs no code: nothing of it is ever saved
                else:
                    found.append(self._statement(cell, number, node, cell.chosen, others))
                number += 1
        return found

    def _code(self, cell: CodeCell, number: int, node: ast.stmt) -> tuple[str, Opened | None]:
        """The key of its code; and, where that does not say how far a loop goes, what is known of it."""
        assert cell.chosen is not None  # or it would have no steps
        own = own_text(cell.chosen, number, lines_of(cell.source, node))
        whole = own is None and not (cell.chosen.save or cell.chosen.skip)
        found = opened(node, self._value_of) if whole else None
        body = [found.node] if found is not None else [node]
        salted = salt(cell.chosen) + (SALT if found is not None else "")
        return code_key(ast.Module(body=body, type_ignores=[]), own, salted), found

    def _value_of(self, name: str) -> Any:
        state = self._ahead.names.get(name)
        if state is None:
            return self._namespace.get(name, getattr(builtins, name, None))
        return state.value if isinstance(state, Known) else None

    def _statement(
        self, cell: CodeCell, number: int, node: ast.stmt, chosen: argparse.Namespace, others: set[str]
    ) -> Planned:
        source = lines_of(cell.source, node)
        verdict = self._best(*self._code(cell, number, node), chosen)
        foreign = weave.foreign_magic(node)
        if foreign or verdict is None:
            versions = [item for item in self._all if item.code not in others]
            earlier = nearest(source, f"{cell.id or cell.name}#{number}", self._workflow, versions)
            reason = f"it runs %{foreign}" if foreign else "its code changed" if earlier else "nothing is saved for it"
            self._computed(node, source, earlier)
            if isinstance(node, ast.Expr):
                self._ahead.run(node)  # it may set a seed
            seconds, stale = earlier.seconds if earlier else None, earlier is not None and not foreign
            return Planned(cell.number, number + 1, source, "run", reason, seconds, cell_id=cell.id, stale=stale)
        checkpoint = verdict.checkpoint
        if verdict.action == "run":
            self._computed(node, source, checkpoint)
        else:
            self._restored(source, checkpoint, "" if verdict.action == "restore" else verdict.reason)
        id = checkpoint.id if verdict.action != "run" else ""
        return Planned(
            cell.number,
            number + 1,
            source,
            verdict.action,
            verdict.reason,
            checkpoint.seconds,
            id,
            cell_id=cell.id,
            stale=verdict.stale,
        )

    def _restored(self, source: str, checkpoint: Checkpoint, doubt: str) -> None:
        for name in checkpoint.deleted:
            self._ahead.set(name, Unknown(f"if {name} is what it was: it is deleted before"))
        for name in checkpoint.names:
            self._ahead.set(name, Left(first_line(source, 40), checkpoint.id, doubt))
        self._called |= {call[:2]: call.run for call in calls_of(checkpoint)}

    def _computed(self, node: ast.stmt, source: str, last: Checkpoint | None) -> None:
        """What it left last time is what it will leave, as far as names go."""
        for name in written_by(node) | set(last.names if last else ()):
            self._ahead.set(name, Left(first_line(source, 40)))
        self._called |= {call[:2]: "" for call in (calls_of(last) if last else ())}

    def _best(self, code: str, loop: Opened | None, chosen: argparse.Namespace) -> Verdict | None:
        verdicts = [self._judge(item, loop, chosen) for item in self._by_code.get(code, ())[:CANDIDATES]]
        order = {"restore": 0, "perhaps": 1, "run": 2}
        return min(verdicts, key=lambda verdict: order[verdict.action], default=None)

    def _judge(self, saved: Checkpoint, loop: Opened | None, chosen: argparse.Namespace) -> Verdict:
        checkpoint = fitting(saved, loop.turns) if loop is not None else saved
        if isinstance(checkpoint, Reason):
            return Verdict("run", checkpoint.text, saved)
        obstacle = "--force" if chosen.force else _obstacle(checkpoint, chosen.expire)
        if obstacle:
            stale = not chosen.force and not all(map(unchanged, checkpoint.files))
            return Verdict("run", obstacle, checkpoint, stale=stale)
        doubts: list[str] = []
        if loop is not None and loop.turns is None:
            doubts.append(f"if {loop.end} is what it was")
        for item in (*checkpoint.inputs, *checkpoint.conditions, *checkpoint.random):
            found = self._same(item, checkpoint)
            if isinstance(found, str):
                doubts += found.split("; ")
            elif not found:
                return Verdict("run", _say_changed(item), checkpoint, stale=True)
        doubts += [doubt for item in checkpoint.definitions if (doubt := self._defined(item))]
        changed = changed_setting(checkpoint) if self._here else ""
        doubts += [f"if the {explain.changed_setting(changed).text.replace('are not', 'are')}"] if changed else []
        if doubts and checkpoint.progress is not None:
            return Verdict("run", "its loop may go on where it was", checkpoint)
        if doubts:
            reasons = list(dict.fromkeys(doubts))
            return Verdict("perhaps", "; ".join(reasons[:MAX_DOUBTS]), checkpoint)
        if checkpoint.progress is not None:
            return Verdict("run", f"its loop goes on {say_where(checkpoint.progress)}", checkpoint)
        return Verdict("restore", "same code, same inputs", checkpoint)

    def _same(self, item: Input, checkpoint: Checkpoint) -> bool | str:
        """Will it be what it was? Yes, no, or why that cannot be told."""
        if item.type == "environment":
            value = os.environ.get(item.name)
            now = self._store.private_digest(f"{item.name}={value}") if value is not None else "-"
            return now == item.digest
        if item.type == RUN:
            ahead = self._called.get((item.name, item.preview))
            if ahead == "":
                return f"if {item.name} is not run anew before"
            found = next(call for call in calls_of(checkpoint) if call[:2] == (item.name, item.preview))
            return holds(item, self._namespace) if ahead is None else ahead in (found.run, found.before)
        if item.type == ANSWER:
            return (self._here and holds(item, self._namespace)) or "if it is the run that was answered"
        if item.type in (FOUND, NAMED):
            return holds(item, self._namespace) or f"if {item.name.rpartition(':')[2]} is what it was"
        if item.type == "folder":
            return blake3(os.fsencode(os.getcwd())).hexdigest() == item.digest
        root = item.name if item.name.startswith(rng.PREFIX) else item.name.partition("@")[0].partition(".")[0]
        state = self._ahead.names.get(root)
        if isinstance(state, Left):
            return self._same_as_left(item, root, state, checkpoint)
        if root.startswith(rng.PREFIX):
            return self._same_random(item, state) or "if the random state is what it was"
        if isinstance(state, Assumed):
            return True
        if isinstance(state, Known):
            return _digest(item.name, {**self._namespace, root: state.value}) == item.digest
        if state is None and item.digest == ABSENT and root not in self._namespace:
            return True
        if item.name not in self._live:
            self._live[item.name] = _digest(item.name, self._namespace)
        if self._live[item.name] == item.digest:
            return True  # it is now what it was
        return state.why if isinstance(state, Unknown) else f"if {root} is what it was: the notebook does not set it"

    def _same_random(self, item: Input, state: Known | Assumed | Unknown | None) -> bool:
        if isinstance(state, Known):
            return rng.digest(state.value) == item.digest
        now = rng.states().get(item.name)
        return item.type == rng.PRISTINE and (now is None or rng.is_pristine(item.name, now))

    def _same_as_left(self, item: Input, root: str, state: Left, checkpoint: Checkpoint) -> bool | str:
        if not state.checkpoint:
            return f"if {root} comes out the same: {state.by}"
        if self._producer(checkpoint, root) == state.checkpoint:
            return state.doubt or True
        if state.doubt:
            return f"if {root} comes out the same: {state.by}"
        values = {value.name: value for value in self._store.checkpoint(state.checkpoint).values}
        value = values.get(root)
        looks_other = (
            value is not None
            and item.preview
            and (value.type, value.shape or value.preview)
            != (
                item.type,
                item.preview,
            )
        )
        return False if looks_other else f"if {root} is what it was then"

    def _producer(self, checkpoint: Checkpoint, name: str) -> str:
        """The checkpoint whose value of that name this one was made from, by the records of its run."""
        if checkpoint.run not in self._runs:
            self._runs[checkpoint.run] = cells_of(self._store, checkpoint.run)
        cells = self._runs[checkpoint.run]
        own = next((cell for cell in cells if cell.step.address == checkpoint.step.partition(".")[0]), None)
        found = ""
        for cell in cells:
            for statement in cell.statements if own is not None and cell.session == own.session else ():
                if statement.step.checkpoint == checkpoint.id or cell.step.address > checkpoint.step:
                    return found
                if statement.checkpoint is not None and name in _given(statement):
                    found = statement.checkpoint.id
        return found

    def _defined(self, item: Input) -> str:
        """A doubt about a function or class that values refer to by name, or nothing."""
        root = item.name.partition(".")[0]
        state = self._ahead.names.get(root)
        if isinstance(state, Known):
            try:
                same = root == item.name and Digester().deep(item.name, state.value) == item.digest
            except Unidentified:
                same = False
            return "" if same else f"if {item.name} is what it was"
        doubt = state.why if isinstance(state, Unknown) else f"if {item.name} is what it was"
        return "" if definition_digest(item.name) == item.digest else doubt


def _given(statement: Statement) -> Sequence[str]:
    """The names a statement gave its checkpoint's values to."""
    only = statement.step.meta.get("names")
    names = statement.checkpoint.names if statement.checkpoint else ()
    return names if only is None else [name for name in names if name in only]


def _obstacle(checkpoint: Checkpoint, expire: float | None) -> str:
    """What keeps a checkpoint from being used, whatever the inputs are. It reads files, and nothing else."""
    lost = [item.name for item in checkpoint.not_saved if is_missed(item.name)]
    if lost:
        return f"{', '.join(lost)} could not be saved"
    if expire is not None and checkpoint.created < moments_ago(expire):
        return "the saved copy has expired"
    if checkpoint.folder and checkpoint.folder != os.getcwd():
        return "the working directory is another one"
    for file in checkpoint.files:
        if not unchanged(file):
            return explain.changed_file(file, exists=os.path.exists(file.path)).text
    return ""


def _say_changed(item: Input) -> str:
    if item.name.startswith(rng.PREFIX):
        return explain.changed_random(item.name).text
    return f"{explain.noun(item)} changed"


def _digest(label: str, namespace: dict[str, Any]) -> str:
    """The identity of what a label leads to, or nothing."""
    name, *path = label.partition("@")[0].split(".")
    if name not in namespace:
        # What a function of a module reads there goes by the module's name.
        whole = ".".join((name, *path[:-1]))
        if whole not in sys.modules or not path:
            return ""
        name, path, namespace = whole, path[-1:], dict(sys.modules)
    found = namespace[name]
    for part in path:
        if part not in getattr(found, "__dict__", {}):
            return ""
        found = vars(found)[part]
    try:
        return Digester().digest(label, found)
    except Unidentified:
        return ""


# The word


def plan(
    session: Session, store: Store, namespace: dict[str, Any], transform: Callable[[str], str], *, auto: bool = False
) -> Answer:
    """The forecast for this notebook: from its file, or from the last run where there is none."""
    cells = document.read_cells(session.notebook, transform, auto=auto)
    if cells is not None:
        found = Planner(store, session.workflow, namespace).plan(cells)
        return answer(session.workflow, session.notebook, cells, found)
    run = latest_run(session, store)
    found = list(of_records(cells_of(store, run.id)))
    return _answer(f"{run.workflow} as it was last run (there is no notebook file to read):", found, [], 0)


def answer(workflow: str, path: Path, cells: Sequence[CodeCell], found: Sequence[Planned]) -> Answer:
    """The forecast for the notebook in a file, as it is shown."""
    saved = time.strftime("%H:%M:%S", time.localtime(path.stat().st_mtime))
    problems = [f"{document.say(cell)} · {cell.problem}" for cell in cells if cell.problem]
    plain = sum(cell.chosen is None and not cell.problem for cell in cells)
    return _answer(f"{workflow} as it was saved at {saved}:", found, problems, plain)


def of_records(cells: Sequence[CellRun]) -> Iterator[Planned]:
    """The same from what was last run: its code is what it was, so what is saved and still stands is found again."""
    latest = {cell.step.cell or cell.step.name: cell for cell in cells if not cell.step.meta.get("restored")}
    for number, cell in enumerate(latest.values(), 1):
        for at, statement in enumerate(cell.statements, 1):
            checkpoint = statement.checkpoint
            reason = _obstacle(checkpoint, None) if checkpoint else statement.problem or statement.gone
            if checkpoint is not None and not checkpoint.trusted:
                reason = "it does not carry your signature"
            action = "restore" if checkpoint is not None and not reason else "run"
            seconds = checkpoint.seconds if checkpoint else statement.step.seconds
            id = checkpoint.id if checkpoint and action == "restore" else ""
            reason = reason or "same code, if its inputs are the same"
            yield Planned(number, at, statement.source, action, reason, seconds, id, cell_id=cell.step.cell)
        if not cell.finished:
            rest = f"the rest of it: {cell.step.status}"
            yield Planned(number, len(cell.statements) + 1, "…", "run", rest, cell_id=cell.step.cell)


_COLOURS = {"restore": "green", "perhaps": "cyan", "run": "yellow"}


def _answer(head: str, found: Sequence[Planned], problems: Sequence[str], plain: int) -> Answer:
    from nbcheckpoint.cli.base import table

    rows, last = [], 0
    for item in found:
        number = str(item.cell) if item.cell != last else ""
        took = say_duration(item.seconds) if item.seconds is not None else "?"
        action = f"[{_COLOURS[item.action]}]{item.action}[/]"
        rows.append((number, first_line(item.source, 48), action, took, item.reason))
        last = item.cell
    totals = total(found)
    parts: list[Any] = [head]
    parts += [table(("cell", "statement", "plan", "takes", "why"), rows)] if rows else ["No cell is checkpointed."]
    parts += [*problems, *(_say_total(totals) if rows else ())]
    if plain:
        parts.append(f"{plain} plain {'cell runs' if plain == 1 else 'cells run'} as always")
    return Answer(parts, {"statements": [asdict(item) for item in found], **totals, "plain_cells": plain})


def total(found: Sequence[Planned]) -> dict[str, Any]:
    """How many, and how long they took. Pure."""
    sums: dict[str, Any] = {}
    for action in ("restore", "perhaps", "run"):
        mine = [item for item in found if item.action == action]
        sums[action] = len(mine)
        sums[f"{action}_seconds"] = sum(item.seconds or 0.0 for item in mine)
    return {**sums, "unknown": sum(item.action == "run" and item.seconds is None for item in found)}


def _say_total(sums: dict[str, Any]) -> Iterator[str]:
    timed = [say_duration(sums["run_seconds"])] if sums["run"] > sums["unknown"] else []
    new = [f"{sums['unknown']} never timed"] if sums["unknown"] else []
    texts = {
        "restore": f"restore {sums['restore']}: spares {say_duration(sums['restore_seconds'])}",
        "perhaps": f"perhaps {sums['perhaps']}: {say_duration(sums['perhaps_seconds'])}",
        "run": f"run {sums['run']}: {' and '.join(timed + new)}",
    }
    yield " · ".join(text for action, text in texts.items() if sums[action])

"""`%checkpoint restore` and `%checkpoint resume`: the variables as they were, without running anything.

Theory of operation. The statements of a run, in order, say where the last value of every name is: in a checkpoint, or
nowhere, because it could not be saved or the statement that set it was not. Only those checkpoints are loaded, and
all of them before the first name is bound.

A name may have been changed by something that left no record: a plain cell, a statement that was not saved. A later
statement that read the name knows what it was by then: where the loaded value is not that, the name is not bound. A
name is never given an older value than the last it had.

Stored source is not executed, unless the user says `--run`; then only that of the statements whose values could not
be saved, in its place between the values, and it is shown first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from nbcheckpoint.errors import Error, NotFound, Untrusted, UsageError
from nbcheckpoint.fingerprint import rng, settings
from nbcheckpoint.fingerprint.code import compiled, names_in
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Input, Run, Step
from nbcheckpoint.notebook import document
from nbcheckpoint.notebook.answer import Answer
from nbcheckpoint.notebook.cells import CellCheckpointer
from nbcheckpoint.notebook.document import CodeCell, Transform
from nbcheckpoint.notebook.history import CellRun, Statement, cells_of, existing_store, first_line, own_names
from nbcheckpoint.notebook.leaves import RESULT
from nbcheckpoint.notebook.line import MAX_SOURCE
from nbcheckpoint.store import Store
from nbcheckpoint.store.liveness import is_this_process
from nbcheckpoint.store.saving import definition_digest
from nbcheckpoint.units import ago, say_size

MAX_NAMED = 12


@dataclass(frozen=True)
class Missing:
    """A name whose last value is nowhere."""

    why: str
    statements: tuple[Statement, ...] = ()
    """Those that set it and that had it in their hands since, if running them again would help."""


@dataclass
class Outline:
    """Where the last value of every name is."""

    last: dict[str, Checkpoint | Missing] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    witness: dict[str, tuple[Input, ...]] = field(default_factory=dict)
    """Name -> the inputs of the last statement that read it after its value was saved."""
    doubtful: dict[str, Statement] = field(default_factory=dict)
    """Name -> a statement without a record of its effects that had it in its hands since, and nobody read it since."""
    gone: list[str] = field(default_factory=list)
    """Sentences about checkpoints that are not there any more."""


@dataclass
class Outcome:
    """What came of it."""

    bound: dict[str, str] = field(default_factory=dict)
    """Name -> the checkpoint it came from."""
    random: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    missing: dict[str, Missing] = field(default_factory=dict)
    cautions: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    size: int = 0


# What there was: pure


def outline(cells: Sequence[CellRun], transform: Transform) -> Outline:
    """Where everything is after these cells. Pure."""
    found = Outline()
    for statement in (statement for cell in cells for statement in cell.statements):
        checkpoint = statement.checkpoint
        if checkpoint is None or not checkpoint.trusted or not statement.step.trusted:
            _unknown(found, statement, transform)
        else:
            _known(found, statement, checkpoint)
    return found


def _known(found: Outline, statement: Statement, checkpoint: Checkpoint) -> None:
    only = statement.step.meta.get("names")
    for item in checkpoint.inputs:
        if item.name in found.last and item.digest and only is None:
            found.witness[item.name] = checkpoint.inputs
            found.doubtful.pop(item.name, None)
    for name in checkpoint.deleted if only is None else ():
        found.last.pop(name, None)
        found.deleted.add(name)
    for name in checkpoint.names:
        if name != RESULT and (only is None or name in only):
            _set(found, name, checkpoint)
    for lost in checkpoint.not_saved if only is None else ():
        if ":" not in lost.name:
            why = f"{lost.type}{f' at {lost.path}' if lost.path else ''}: {lost.why}"
            before = found.last.get(lost.name)
            # What cannot be compared counts as changed by whoever reads it: that alone does not make it again.
            chain = before.statements if isinstance(before, Missing) and lost.name in checkpoint.mutated else ()
            _set(found, lost.name, Missing(why, (*chain, statement)))


def _unknown(found: Outline, statement: Statement, transform: Transform) -> None:
    """A statement whose effects are not there: what it set is not known, what it had in its hands is in doubt."""
    if statement.gone:
        found.gone.append(f"{statement.step.name}: {statement.gone}, so what it set may be older than it was")
    tree = document.parse(statement.source, transform) if len(statement.source) < MAX_SOURCE else None
    if tree is None:
        found.gone.append(f"{first_line(statement.source, 40)}: not saved, and what it set is not known")
        return
    names = names_in(compiled(tree))
    why = _why_unknown(statement)
    helps = statement.checkpoint is None and not statement.gone and statement.step.trusted
    for name in (*names.writes, *own_names(statement.checkpoint.names if statement.checkpoint else ())):
        _set(found, name, Missing(why, (statement,) if helps else ()))
    for name in (names.reads - names.writes) & found.last.keys():
        found.doubtful[name] = statement


def _why_unknown(statement: Statement) -> str:
    if statement.checkpoint is not None:
        return f"not signed by you: %checkpoint trust {statement.checkpoint.id}"
    return statement.gone or (f"not saved, because {statement.problem}" if statement.problem else "not saved")


def _set(found: Outline, name: str, where: Checkpoint | Missing) -> None:
    found.last.pop(name, None)  # so that they stand in the order in which they were last set
    found.last[name] = where
    found.deleted.discard(name)
    found.witness.pop(name, None)
    found.doubtful.pop(name, None)


# What there is now


class Traveller:
    """Brings values back into one kernel."""

    def __init__(self, checkpointer: CellCheckpointer, store: Store) -> None:
        self._shell = checkpointer.shell
        self._session = checkpointer.session
        self._store = store
        self._now = checkpointer.step_now

    def transform(self, source: str) -> str:
        return str(self._shell.transform_cell(source))

    def go(
        self, cells: Sequence[CellRun], names: Sequence[str] | None, *, run: bool, title: str, at: CellRun | None
    ) -> Outcome:
        """The namespace as it was after these cells; only `names`, if given. `at` is the cell that was reached."""
        started = time.perf_counter()
        found = outline(cells, self.transform)
        if names is not None:
            check_names(names, found)
        again = list(_to_run(found, names)) if run else []
        if again:
            print("These statements are run again, because their values could not be saved:")
            for statement in again:
                print("\n".join(f"    {line}" for line in statement.source.splitlines()))
        if again and names is None:
            outcome = self._in_order(cells, found, again)
        else:
            outcome = self._at_once(found, names)
            for statement in again:
                self._run_again(statement, found, outcome)
        self._remember(title, outcome, at, time.perf_counter() - started)
        return outcome

    def _at_once(self, found: Outline, names: Sequence[str] | None) -> Outcome:
        outcome = Outcome()
        values = self._load(found, names, outcome)
        user_ns = self._shell.user_ns
        if names is None:
            outcome.deleted = sorted(found.deleted & user_ns.keys())
            for name in outcome.deleted:
                del user_ns[name]
        self._bind(values, outcome)
        return outcome

    def _load(self, found: Outline, names: Sequence[str] | None, outcome: Outcome) -> dict[str, Any]:
        """The values to bind; what is missing goes into the outcome."""
        wanted = {name: where for name, where in found.last.items() if names is None or name in names}
        values: dict[str, Any] = {}
        for name, where in wanted.items():
            if isinstance(where, Missing):
                outcome.missing[name] = where
        saved = {name: where for name, where in wanted.items() if isinstance(where, Checkpoint)}
        for checkpoint in {where.id: where for where in saved.values()}.values():
            mine = [name for name, where in saved.items() if where.id == checkpoint.id]
            values |= self._load_one(checkpoint, mine, outcome)
        changed = [n for n in values if n in found.witness and not _as_read(n, found.witness[n], values)]
        for name in changed:
            del values[name]
            outcome.missing[name] = Missing("changed after it was saved, by something that was not saved")
        for name, statement in found.doubtful.items():
            if name in values:
                source = first_line(statement.source, 40)
                outcome.cautions.append(f"{name} may have been changed since by a statement not saved: {source}")
        outcome.cautions += found.gone
        outcome.bound = {name: where.id for name, where in saved.items() if name in values}
        return values

    def _load_one(self, checkpoint: Checkpoint, names: Sequence[str], outcome: Outcome) -> dict[str, Any]:
        try:
            loaded = self._store.load(checkpoint.id)
        except Error as error:
            outcome.missing |= {name: Missing(str(error)) for name in own_names(names)}
            return {}
        outcome.size += checkpoint.size
        for name in names:
            if name in loaded.failed:
                outcome.missing[name] = Missing(f"{loaded.failed[name]}: run the cell that defines it first")
        for definition in checkpoint.definitions:
            now = definition_digest(definition.name)
            if now is not None and now != definition.digest:
                outcome.cautions.append(f"{definition.name} is not defined as it was: {', '.join(own_names(names))}")
        return {name: loaded.values[name] for name in names if name in loaded.values}

    def _bind(self, values: Mapping[str, Any], outcome: Outcome) -> None:
        for name, value in values.items():
            if name.startswith(rng.PREFIX):
                rng.restore(name, value)
                outcome.random.append(name.removeprefix(rng.PREFIX))
            elif name.startswith(settings.PREFIX):
                settings.restore(name, value)
            elif ":" not in name:
                self._shell.user_ns[name] = value

    # With --run

    def _in_order(self, cells: Sequence[CellRun], found: Outline, again: Sequence[Statement]) -> Outcome:
        """Statement by statement: those that must run see everything as it was then."""
        outcome = Outcome()
        before: list[Statement] = []
        for statement in (statement for cell in cells for statement in cell.statements):
            if any(statement is other for other in again):
                self._bind_all(before, outcome)
                self._run_again(statement, found, outcome)
                before = [statement] if statement.checkpoint else []  # what of it was saved is as it was
            else:
                before.append(statement)
        self._bind_all(before, outcome)
        outcome.bound = {name: id for name, id in outcome.bound.items() if name in found.last}
        outcome.missing = {name: gone for name, gone in outcome.missing.items() if name in found.last}
        outcome.deleted = sorted(found.deleted & set(outcome.deleted))
        for name, where in found.last.items():
            if isinstance(where, Missing) and name not in outcome.bound:
                outcome.missing.setdefault(name, where)
        return outcome

    def _run_again(self, statement: Statement, found: Outline, outcome: Outcome) -> None:
        problem = self._execute(statement.source)
        outcome.ran.append(statement.source)
        for name in [name for name, where in found.last.items() if _is_of(where, statement)]:
            gone = outcome.missing.pop(name, None)
            if gone is not None and not gone.statements:
                outcome.missing[name] = gone  # an earlier one of its statements failed
            elif problem or name not in self._shell.user_ns:
                outcome.missing[name] = Missing(problem or "running it again did not set it")
            else:
                outcome.bound[name] = ""

    def _bind_all(self, statements: Sequence[Statement], outcome: Outcome) -> None:
        """What these left, before the next that must run."""
        part = outline([CellRun(statement.step, (statement,)) for statement in statements], self.transform)
        there = Outcome()
        values = self._load(part, None, there)
        for name in part.deleted & self._shell.user_ns.keys():
            del self._shell.user_ns[name]
            outcome.deleted.append(name)
        self._bind(values, there)
        for name in there.bound:
            outcome.missing.pop(name, None)
        outcome.bound |= there.bound
        outcome.missing |= {name: gone for name, gone in there.missing.items() if not gone.statements}
        outcome.random = list(dict.fromkeys([*outcome.random, *there.random]))
        outcome.cautions += there.cautions
        outcome.size += there.size

    def _execute(self, source: str) -> str:
        """Run it in the user's namespace. What is wrong with it, or nothing."""
        try:
            code = compile(self.transform(source), "<restored statement>", "exec", dont_inherit=True)
            exec(code, self._shell.user_ns)
        except SyntaxError:
            return "it cannot be run by itself: run its cell"
        except NameError as error:
            return f"{error}: run the cell that defines or imports it first"
        except Exception as error:
            return f"running it again failed: {type(error).__name__}: {error}"
        return ""

    def _remember(self, title: str, outcome: Outcome, at: CellRun | None, seconds: float) -> None:
        """A step of this run: what a later kernel finds when it asks what this one had."""
        restored: dict[str, list[str]] = {}
        for name, checkpoint in outcome.bound.items():
            restored.setdefault(checkpoint, []).append(name)
        restored.pop("", None)  # what was run again
        if not restored:
            return
        step = self._session.begin_step(title, self._now.cell if self._now else "")
        here = {"name": at.step.name, "cell": at.step.cell, "finished": at.finished} if at is not None else {}
        meta = {**step.meta, "restored": restored, "at": here}
        self._session.end_step(step, "restored", (), seconds=seconds, meta=meta)


def check_names(names: Sequence[str], found: Outline) -> None:
    unknown = [name for name in names if name not in found.last]
    if unknown:
        known = own_names(found.last)
        more = f" and {len(known) - MAX_NAMED} more" if len(known) > MAX_NAMED else ""
        hint = f"it had: {', '.join(sorted(known)[:MAX_NAMED])}{more}" if known else "it had no variables at all"
        raise NotFound(f"there was no {', '.join(unknown)} then", hint=hint)


def _is_of(where: Checkpoint | Missing, statement: Statement) -> bool:
    return isinstance(where, Missing) and any(statement is other for other in where.statements)


def _to_run(found: Outline, names: Sequence[str] | None) -> Iterator[Statement]:
    """The statements whose values are missing and that could make them again, each once, in order."""
    known: dict[tuple[str, str], Statement] = {}
    for name, where in found.last.items():
        if isinstance(where, Missing) and (names is None or name in names):
            known |= {(statement.step.run, statement.step.address): statement for statement in where.statements}
    yield from (statement for _, statement in sorted(known.items()))


def _as_read(name: str, inputs: Sequence[Input], values: Mapping[str, Any]) -> bool:
    """Is the value what the statement with these inputs found? In their order, because what they share counts."""
    digester = Digester()
    for item in inputs:
        if item.name not in values or not item.digest:
            continue
        try:
            same = digester.digest(item.name, values[item.name]) == item.digest
        except Unidentified:
            same = False
        if item.name == name:
            return same
    return True


# The words


def restore(checkpointer: CellCheckpointer, target: str, names: Sequence[str] | None, *, run: bool) -> Answer:
    """The namespace as it was after a run, or after the statement that left a checkpoint."""
    store = existing_store(checkpointer.session)
    found, cells = find(checkpointer, store, target)
    what = f"the end of run {found.id}" if isinstance(found, Run) else f"{first_line(found.source)} in run {found.run}"
    title, at = f"%checkpoint restore {found.id}", cells[-1] if cells else None
    outcome = Traveller(checkpointer, store).go(cells, names, run=run, title=title, at=at)
    return Answer([f"as of {what}:", *_tell(outcome, ran=run)], {"target": found.id, **_data(outcome)})


def find(checkpointer: CellCheckpointer, store: Store, target: str) -> tuple[Run | Checkpoint, list[CellRun]]:
    """The run or checkpoint with this id, or a part of it, and the cells up to there. Raises NotFound, Untrusted."""
    from nbcheckpoint.cli.base import find_checkpoint, find_run, in_short

    try:
        found: Run | Checkpoint = find_run(store, target)
    except NotFound:
        try:
            found = store.checkpoint(find_checkpoint(store, target))
        except NotFound as error:
            hint = "nbcheckpoint runs and nbcheckpoint list show what there is"
            raise NotFound(f"no run or checkpoint {in_short(target)}", hint=hint) from error
    if not found.trusted:
        raise Untrusted(f"{found.id} does not carry your signature", hint=f"nbcheckpoint trust {found.id}")
    begun = checkpointer.session.begun
    return found, _of_run(store, found, begun) if isinstance(found, Run) else _up_to(store, found)


def _of_run(store: Store, run: Run, begun: Run | None) -> list[CellRun]:
    """The cells of the run's last kernel, if there was one before this: what an earlier one had died with it."""
    cells = cells_of(store, run.id)
    return last_session(_earlier(begun, cells) or cells)


def last_session(cells: Sequence[CellRun]) -> list[CellRun]:
    """Pure."""
    last = max((cell.session for cell in cells if cell.statements), default=0)
    return [cell for cell in cells if cell.session == last]


def _up_to(store: Store, checkpoint: Checkpoint) -> list[CellRun]:
    """Everything in its kernel up to the statement that left it."""
    address, _, _ = checkpoint.step.partition(".")
    cells = cells_of(store, checkpoint.run)
    own = next((cell for cell in cells if cell.step.address == address), None)
    if own is None:
        step = Step(run=checkpoint.run, address=checkpoint.step, name=checkpoint.name, checkpoint=checkpoint.id)
        return [CellRun(step, (Statement(step, checkpoint),))]
    before = [cell for cell in cells if cell.session == own.session and cell.step.address < address]
    # By the checkpoint, not by number: statements that left no record are not counted.
    ids = [statement.step.checkpoint for statement in own.statements]
    if checkpoint.id not in ids:
        return [*before, CellRun(own.step, (Statement(own.step, checkpoint),))]
    return [*before, CellRun(own.step, own.statements[: ids.index(checkpoint.id) + 1])]


def resume(checkpointer: CellCheckpointer, *, run: bool = False, target: str = "") -> Answer:
    """What the last run of this notebook (or the run `target`) left, in a fresh kernel, and where it goes on."""
    session = checkpointer.session
    store = existing_store(session)
    last = store.run(target) if target else _last(checkpointer, store)
    if last.status == "running" and last.owner is not None and not is_this_process(last.owner):
        where = f"process {last.owner.pid} on {last.owner.host}, last seen {ago(last.updated)}"
        text = f"{last.workflow} is running in another kernel ({where}): nothing was done"
        return Answer([text], {"alive": True, "run": last.to_dict()})
    if not last.trusted:
        raise Untrusted(f"run {last.id} does not carry your signature", hint=f"nbcheckpoint trust {last.id}")
    traveller = Traveller(checkpointer, store)
    cells, stopped = split(last_session(_earlier(session.begun, cells_of(store, last.id))))
    _check_fresh(outline(cells, traveller.transform), checkpointer.shell.user_ns, last)
    document_cells = document.read_cells(session.notebook, traveller.transform) or []
    ahead = following(cells, stopped, document_cells)
    at = stopped or (cells[-1] if cells else None)
    outcome = traveller.go(cells, None, run=run, title=f"%checkpoint resume {last.id}", at=at)
    first = [f"{last.workflow}, run {last.id}, {last.status} {ago(last.updated)}:"]
    data = {"alive": False, "run": last.to_dict(), "next": ahead.data, **_data(outcome)}
    return Answer([*first, *_tell(outcome, ran=run), *ahead.lines], data)


def _last(checkpointer: CellCheckpointer, store: Store) -> Run:
    """The run to go on from: not the one this kernel has only just begun."""
    session = checkpointer.session
    begun = session.begun
    if begun is not None and begun.sessions > 1:
        return store.run(begun.id)
    others = [r for r in store.runs(workflow=session.workflow, limit=2) if begun is None or r.id != begun.id]
    if not others:
        raise NotFound(f"there is no earlier run of {session.workflow}", hint="nbcheckpoint runs lists what there is")
    return others[0]


def _earlier(begun: Run | None, cells: Sequence[CellRun]) -> list[CellRun]:
    """Without those of this very kernel."""
    return [cell for cell in cells if begun is None or cell.step.run != begun.id or cell.session < begun.sessions]


def split(cells: Sequence[CellRun]) -> tuple[list[CellRun], CellRun | None]:
    """(what counts, the cell to be run again). Pure.

    A cell that did not end is run again from its top, and finds its finished statements then. What they left is not
    bound before that: a list they appended to would be appended to twice.
    """
    if cells and not cells[-1].finished:
        return list(cells[:-1]), cells[-1]
    return list(cells), None


def _check_fresh(found: Outline, user_ns: Mapping[str, Any], last: Run) -> None:
    there = sorted(name for name in own_names(found.last) if name in user_ns)
    if there:
        names = ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
        hint = f"restart it; or have the old values after all: nbcheckpoint restore {last.id}"
        raise UsageError(f"this kernel is not a fresh one: {names} would be overwritten", hint=hint)


@dataclass(frozen=True)
class Ahead:
    """Where it goes on."""

    lines: tuple[str, ...]
    data: dict[str, Any] | None


def following(done: Sequence[CellRun], stopped: CellRun | None, cells: Sequence[CodeCell]) -> Ahead:
    """The cell that comes next, and those to run before it. Pure."""
    at = stopped.step if stopped else (done[-1].step if done else None)
    if at is None:
        return Ahead(("next: the first cell",), None)
    after = stopped is None
    if at.meta.get("at"):  # a resume, and nothing since: where it had got to still holds
        told = at.meta["at"]
        at, after = replace(at, name=str(told.get("name")), cell=str(told.get("cell"))), bool(told.get("finished"))
    place = document.place_of(at, cells)
    if place is None:
        text = f"next: the cell after: {at.name}" if after else f"next: {at.name}"
        return Ahead((text + _state(stopped),), {"name": at.name, "cell": at.cell, "after": after})
    ahead = place if not after else next((cell for cell in cells if cell.number > place.number), None)
    first = [cell for cell in cells if cell.defines and (ahead is None or cell.number < ahead.number)]
    numbers = ", ".join(str(cell.number) for cell in first)
    notes = [f"imports, definitions and plain code are not saved: run these cells first: {numbers}"] if first else []
    if ahead is None:
        return Ahead((f"next: nothing, {document.say(place)} was the last cell", *notes), None)
    data = {"name": ahead.name, "cell": ahead.id, "number": ahead.number, "source": ahead.source, "after": False}
    text = f"next: {document.say(ahead)}{_state(stopped)}"
    return Ahead((text, *notes), {**data, "run_first": [cell.number for cell in first]})


def _state(stopped: CellRun | None) -> str:
    if stopped is None:
        return ""
    return f" (it {'was running when its kernel died' if stopped.step.status == 'running' else stopped.step.status})"


def _tell(outcome: Outcome, *, ran: bool) -> Iterator[str]:
    names = own_names(outcome.bound)
    size = f" ({say_size(outcome.size)})" if outcome.size else ""
    yield f"  bound: {', '.join(names)}{size}" if names else "  bound: nothing"
    if outcome.random:
        yield f"  random state: {', '.join(outcome.random)}"
    if outcome.deleted:
        yield f"  deleted: {', '.join(outcome.deleted)}"
    for name, gone in outcome.missing.items():
        yield f"  not bound: {name} ({gone.why})"
    for caution in outcome.cautions:
        yield f"  caution: {caution}"
    again = {statement.source: None for gone in outcome.missing.values() for statement in gone.statements}
    if again and not ran:
        yield "  --run would run these again: " + "; ".join(first_line(source) for source in again)


def _data(outcome: Outcome) -> dict[str, Any]:
    return {
        "bound": {name: checkpoint for name, checkpoint in outcome.bound.items() if ":" not in name},
        "random": outcome.random,
        "deleted": outcome.deleted,
        "not_bound": {name: gone.why for name, gone in outcome.missing.items()},
        "cautions": outcome.cautions,
        "ran": outcome.ran,
        "bytes": outcome.size,
    }

"""A cell on its way: looked up, restored or run, and saved.

Theory of operation. IPython parses a cell, shows the tree to its AST transformers and runs what they return,
then tells everyone that the cell is done. Those two moments are ours:

    visit            the tree of a cell with our marker: identify it, look for a checkpoint. Found: bind its
                     values, replay its outputs, and return nothing to run. Not found: start watching, and
                     return the cell as it is.
    post_run_cell    what was watched is saved, and one line says what happened.

Definitions and imports are never restored: they run again, so that functions see the live globals and
instances belong to the live classes. They run *before* the values are bound, since unpickling needs them;
hence a cell whose definitions use values the same cell computes cannot be split that way and is not saved.

The user's cell comes first. Any fault of ours means that it runs untouched and that one line says so.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import glob
import os
import sys
import time
import types
from dataclasses import dataclass, field
from typing import Any

from nbcheckpoint.engine.identity import Identity, Match, identify, look_at, match
from nbcheckpoint.errors import Error, NotRestorable, StoreDamaged, UsageError
from nbcheckpoint.fingerprint import explain, files, rng
from nbcheckpoint.fingerprint.code import names_in
from nbcheckpoint.model import Checkpoint, Input, Reason, Step, StepStatus
from nbcheckpoint.notebook import line, namespace, options
from nbcheckpoint.notebook.outputs import Recorder, replay
from nbcheckpoint.notebook.session import Session

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_CONFIGURING = frozenset({"matplotlib", "config", "load_ext", "reload_ext", "autoreload", "precision", "pylab"})
"""Line magics that set up the kernel rather than compute: they run again like imports."""


@dataclass
class Pending:
    """A cell that is running and is to be saved."""

    chosen: argparse.Namespace
    name: str
    source: str
    identity: Identity
    reason: Reason
    step: Step
    definitions: frozenset[str]
    before: dict[str, Any]
    rng_before: dict[str, Any]
    surroundings: tuple[Any, ...]
    watch: files.FileWatch
    recorder: Recorder
    problem: str = ""
    started: float = field(default_factory=time.perf_counter)


@dataclass
class Cell:
    """A cell IPython is running, ours or not. They nest: `%run` and `run_cell` run cells inside of cells."""

    info: Any
    pending: Pending | None = None
    line: tuple[str, str, dict[str, Any]] | None = None

    @property
    def id(self) -> str:
        """The front end's id of it."""
        return getattr(self.info, "cell_id", "") or ""


class CellCheckpointer(ast.NodeTransformer):
    """The AST transformer and the end-of-cell hook, for one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.session = Session(shell.user_ns)
        self._cells: list[Cell] = []

    # What IPython calls

    def pre_run_cell(self, info: Any) -> None:
        self._cells.append(Cell(info))

    def visit(self, tree: Any) -> Any:
        """Never raises: a transformer that does is thrown out, and its cell does not run."""
        text = options.read_marker(tree) if isinstance(tree, ast.Module) else None
        if text is None:
            return tree
        rest = ast.Module(body=tree.body[1:], type_ignores=[])
        if not self._cells:
            return rest  # a silent request of the front end's: not a cell
        try:
            chosen = options.parse(text)
            return self._begin(rest, chosen)
        except UsageError as error:
            self._tell("note", f"{error} · {error.hint}. The cell ran without a checkpoint.")
        except Error as error:
            self._tell("note", f"not checkpointed: {error}{_hint(error)}")
        except Exception as error:
            self._tell("note", f"not checkpointed, a fault of nbcheckpoint: {type(error).__name__}: {error}")
        self._abandon()
        return rest

    def post_run_cell(self, result: Any) -> None:
        if not self._cells:
            return
        pending = self._cell.pending
        if pending is not None:
            try:
                self._end(pending, result)
            except Error as error:
                self._tell("note", f"not saved: {error}{_hint(error)}")
            except Exception as error:
                self._tell("note", f"not saved, a fault of nbcheckpoint: {type(error).__name__}: {error}")
            finally:
                files.stop(pending.watch)
                pending.recorder.stop()
        done = self._cells.pop()
        if done.line is not None:
            status, text, data = done.line
            line.show(self.shell, status, text, **data)

    @property
    def _cell(self) -> Cell:
        return self._cells[-1]

    # Before the cell runs

    def _begin(self, rest: ast.Module, chosen: argparse.Namespace) -> ast.Module:
        started = time.perf_counter()
        source = self._source()
        code = compile(rest, "<cell>", "exec", flags=_FLAGS, dont_inherit=True)
        identity = identify(
            rest,
            code,
            self.shell.user_ns,
            source=source,
            mode=chosen.code,
            name=chosen.name,
            ignore=chosen.ignore,
            depends=chosen.depends,
            builtin=_taken_for_granted(self.shell.user_ns),
            private=self.session.store.private_digest,
        )
        definitions, computing = _split(rest)
        step = self.session.begin_step(chosen.name or _title(rest), self._cell.id)
        found = self._look_up(identity, chosen)
        if found.checkpoint is not None:
            reason = self._restore(found.checkpoint, definitions, chosen, step, started)
            if reason is None:
                return ast.Module(body=[], type_ignores=[])
            found = Match(None, reason)
        self._watch(rest, chosen, identity, found.reason, step, source, definitions, computing)
        return rest

    def _look_up(self, identity: Identity, chosen: argparse.Namespace) -> Match:
        if chosen.force:
            return Match(None, explain.simple("forced", "--force"))
        expired = ""
        if chosen.expire:
            oldest = time.gmtime(time.time() - chosen.expire)
            expired = time.strftime("%Y-%m-%dT%H:%M:%S", oldest)
        return match(self.session.store, identity, expired_before=expired)

    def _restore(
        self,
        checkpoint: Checkpoint,
        definitions: ast.Module,
        chosen: argparse.Namespace,
        step: Step,
        started: float,
    ) -> Reason | None:
        """Bind what the checkpoint holds. Returns why not, if not; then nothing has been bound."""
        user_ns = self.shell.user_ns
        names = {name for name in checkpoint.names if not name.startswith(rng.PREFIX)}
        others = namespace.sharing(names & user_ns.keys(), user_ns) if names & user_ns.keys() else set()
        if others is None or others - names:
            who = ", ".join(sorted((others or set()) - names)) or "other variables"
            return explain.simple("shared", f"{who} now shares data with what this cell changes")
        try:
            self._run_definitions(definitions)
            values = self.session.store.restore(checkpoint.id)
            outputs = [] if chosen.no_output else self.session.store.outputs(checkpoint)
        except (StoreDamaged, NotRestorable) as error:
            return explain.simple("damaged", f"the saved copy cannot be used ({error})")
        for name in checkpoint.deleted:
            user_ns.pop(name, None)
        for name, value in values.items():
            if name.startswith(rng.PREFIX):
                rng.restore(name, value)
            else:
                user_ns[name] = value
        replay(self.shell, outputs)
        seconds = time.perf_counter() - started
        self.session.end_step(
            step,
            "restored",
            spared=checkpoint.seconds,
            seconds=seconds,
            checkpoint=checkpoint.id,
            reason=explain.restored(checkpoint),
        )
        if not chosen.quiet:
            self._tell("restored", line.restored(checkpoint, seconds), checkpoint=checkpoint.id)
        return None

    def _run_definitions(self, definitions: ast.Module) -> None:
        """Run them as part of this cell: tracebacks and `inspect` find their source."""
        number = self.shell.execution_count - 1
        raw = self._source()
        filename = self.shell.compile.get_code_name(raw, getattr(self._cell.info, "transformed_cell", raw), number)
        try:
            exec(compile(definitions, filename, "exec"), self.shell.user_ns)
        except Exception as error:  # the user's own decorators, defaults and imports
            raise NotRestorable("its definitions", f"{type(error).__name__}: {error}") from error

    def _watch(
        self,
        rest: ast.Module,
        chosen: argparse.Namespace,
        identity: Identity,
        reason: Reason,
        step: Step,
        source: str,
        definitions: ast.Module,
        computing: ast.Module,
    ) -> None:
        watch = files.FileWatch(ignore=[self.session.store.url.removeprefix("file://")])
        watch.mention(identity.strings)
        for pattern in chosen.files:
            watch.mention(glob.glob(pattern, recursive=True))
        self._cell.pending = Pending(
            chosen=chosen,
            name=step.name,
            source=source,
            identity=identity,
            reason=reason,
            step=step,
            definitions=names_in(compile(definitions, "<cell>", "exec", dont_inherit=True)).writes,
            before=namespace.snapshot(self.shell.user_ns),
            rng_before=rng.states(),
            surroundings=_surroundings(),
            watch=watch,
            recorder=Recorder(self.shell),
            problem=_tangled(definitions, computing),
        )
        files.start(watch)

    def _abandon(self) -> None:
        """Our own fault while starting: leave nothing switched on."""
        pending, self._cell.pending = self._cell.pending, None
        if pending is not None:
            files.stop(pending.watch)
            pending.recorder.stop()

    # After it ran

    def _end(self, pending: Pending, result: Any) -> None:
        seconds = time.perf_counter() - pending.started
        files.stop(pending.watch)
        outputs = pending.recorder.stop()
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            status: StepStatus = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            said = f"{type(error).__name__}: {error}"[:500]
            self.session.end_step(pending.step, status, seconds=seconds, error=said)
            return
        problem = pending.problem or self._obstacle(pending)
        checkpoint, save_seconds = None, 0.0
        if not problem:
            saving = time.perf_counter()
            checkpoint, problem = self._save(pending, seconds, outputs)
            save_seconds = time.perf_counter() - saving
        self.session.end_step(
            pending.step,
            "completed",
            seconds=seconds,
            checkpoint=checkpoint.id if checkpoint else "",
            bytes=checkpoint.bytes if checkpoint else 0,
            reason=pending.reason,
        )
        if not pending.chosen.quiet:
            text = line.computed(seconds, pending.reason, checkpoint, save_seconds, problem)
            self._tell("computed", text, checkpoint=checkpoint.id if checkpoint else "")

    def _obstacle(self, pending: Pending) -> str:
        """An effect that could not be brought back by binding names."""
        if pending.recorder.live:
            return "the cell shows live widgets"
        if _surroundings() != pending.surroundings:
            return "the cell changed the working directory, the environment or the import path"
        return ""

    def _save(self, pending: Pending, seconds: float, outputs: list[dict[str, Any]]) -> tuple[Checkpoint | None, str]:
        user_ns = self.shell.user_ns
        mutated, problem = self._mutated(pending)
        if problem:
            return None, problem
        bound = namespace.rebound(pending.before, user_ns) - pending.definitions
        if pending.chosen.save:
            unknown = [name for name in pending.chosen.save if name not in user_ns]
            if unknown:
                return None, f"--save names {', '.join(unknown)}, which does not exist"
            bound &= set(pending.chosen.save)
        bound = (bound | mutated) - set(pending.chosen.skip)
        together = _closed(bound, user_ns)
        if together is None:
            return None, "too many objects to tell which variables share them"
        values = {name: user_ns[name] for name in sorted(together - set(pending.chosen.skip))}
        drawn, moved = self._random(pending)
        draft = Checkpoint(
            id="",
            created="",
            run=pending.step.run,
            step=pending.step.address,
            name=pending.name,
            code=pending.identity.code,
            inputs_digest=pending.identity.digest,
            seconds=seconds,
            source=pending.source,
            inputs=pending.identity.inputs,
            random=drawn,
            files=pending.watch.seen(),
            mutated=tuple(sorted(mutated)),
            deleted=tuple(sorted(namespace.deleted(pending.before, user_ns))),
            environment={"python": sys.version.partition(" ")[0]},
        )
        kept = [] if pending.chosen.no_output else outputs
        saved = self.session.store.save(draft, {**values, **moved}, outputs=kept)
        return saved.checkpoint, ""

    def _mutated(self, pending: Pending) -> tuple[set[str], str]:
        """Inputs that are not what they were before the cell ran: by name, or a reason why that is too much."""
        before = {item.name: item for item in pending.identity.inputs}
        after, _ = look_at(pending.identity.values)
        changed = [item for item in after if item.digest != before[item.name].digest or not item.digest]
        for item in changed:
            if "." in item.name or item.type in ("function", "type"):
                return set(), f"the cell changed {item.name}, which cannot be restored by itself"
        # A name bound anew needs no comparison; one whose old value changed on the way is bound anew as well.
        return {item.name for item in changed if item.name in self.shell.user_ns}, ""

    def _random(self, pending: Pending) -> tuple[tuple[Input, ...], dict[str, Any]]:
        """Generators the cell moved: their state before as inputs, their state after as values."""
        drawn, moved = [], {}
        for name, state in rng.states().items():
            earlier = pending.rng_before.get(name)
            if earlier is not None and rng.digest(earlier) == rng.digest(state):
                continue
            pristine = earlier is None or rng.is_pristine(name, earlier)
            before = rng.digest(earlier) if earlier is not None else ""
            drawn.append(Input(name=name, digest=before, type=rng.PRISTINE if pristine else "seeded"))
            moved[name] = state
        return tuple(drawn), moved

    # Small things

    def _tell(self, status: str, text: str, **data: Any) -> None:
        self._cell.line = (status, text, data)

    def _source(self) -> str:
        raw = getattr(self._cell.info, "raw_cell", "") or ""
        first, _, rest = raw.lstrip("\n").partition("\n")
        return rest if first.lstrip().startswith(options.MAGIC) else raw


def _closed(names: set[str], user_ns: dict[str, Any]) -> set[str] | None:
    """The names and all that share objects with them, and all that share with those."""
    together = {name for name in names if name in user_ns}
    while True:
        more = namespace.sharing(together, user_ns)
        if more is None:
            return None
        if more <= together:
            return together
        together |= more


def _split(tree: ast.Module) -> tuple[ast.Module, ast.Module]:
    """(definitions and imports, everything else)"""
    definitions = [node for node in tree.body if _is_definition(node)]
    computing = [node for node in tree.body if not _is_definition(node)]
    return ast.Module(body=definitions, type_ignores=[]), ast.Module(body=computing, type_ignores=[])


def _is_definition(node: ast.stmt) -> bool:
    if isinstance(node, _DEFINITIONS):
        return True
    call = node.value if isinstance(node, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return False
    first = call.args[0] if call.args else None
    return call.func.attr == "run_line_magic" and isinstance(first, ast.Constant) and first.value in _CONFIGURING


def _tangled(definitions: ast.Module, computing: ast.Module) -> str:
    """Do definitions use, while being made, what the rest of the cell computes? Then they cannot go first."""
    if not definitions.body or not computing.body:
        return ""
    made = names_in(compile(computing, "<cell>", "exec", flags=_FLAGS, dont_inherit=True)).writes
    needed: set[str] = set()
    for node in definitions.body:
        code = compile(ast.Module(body=[node], type_ignores=[]), "<cell>", "exec", dont_inherit=True)
        for part in (code, *_class_bodies(code)):
            needed |= names_in(part.replace(co_consts=_without_code(part))).reads
    both = sorted(made & needed)
    return f"its definitions use {', '.join(both)} from the same cell: put them into two cells" if both else ""


def _class_bodies(code: types.CodeType) -> list[types.CodeType]:
    """Code that runs while a class is being made, rather than when something is called."""
    optimized = 0x0001  # CO_OPTIMIZED: functions have fast locals, class bodies have not
    bodies = [c for c in code.co_consts if isinstance(c, types.CodeType) and not c.co_flags & optimized]
    return bodies + [inner for body in bodies for inner in _class_bodies(body)]


def _without_code(code: types.CodeType) -> tuple[Any, ...]:
    return tuple(None if isinstance(constant, types.CodeType) else constant for constant in code.co_consts)


def _taken_for_granted(user_ns: dict[str, Any]) -> set[str]:
    """Names IPython itself provides: the same in every kernel."""
    return {name for name in user_ns if not namespace.is_user_name(name)} | vars(builtins).keys() - user_ns.keys()


def _surroundings() -> tuple[Any, ...]:
    return os.getcwd(), dict(os.environ), tuple(sys.path)


def _title(tree: ast.Module) -> str:
    """A name for a cell that was given none: its first line of code."""
    for node in [node for node in tree.body if not _is_definition(node)] or tree.body:
        return ast.unparse(node).partition("\n")[0][:60]
    return "empty cell"


def _hint(error: Error) -> str:
    return f" · {error.hint}" if error.hint else ""

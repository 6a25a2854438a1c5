"""A cell on its way: each of its statements looked up, restored or run, and saved.

Theory of operation. IPython parses a cell, shows the tree to its AST transformers and runs what they return, then
tells everyone that the cell is done. The transformer returns the cell woven with calls (`weave.py`):

    enter(n)         the n-th statement is about to run. Identify it, look for a checkpoint. Found: bind its values,
                     replay its outputs, and say "do not run". Not found: start watching, and say "run".
    leave(n)         it has run, without an exception.
    settle()         what it shows has been shown: save what it left.

    post_run_cell    the cell is over: one line says what happened to its statements.

A statement that took long is durable before the next one starts. Quick ones are committed together, at the latest
when the cell ends. A statement that raised is never saved.

The user's cell comes first. Any fault of ours means that it runs untouched and that one line says so.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import builtins
import glob
import os
import sys
import threading
import time
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from nbcheckpoint.engine.identity import LOOKS_FOR_FILES, Identity, Match, identify, look_again, match, never_saved
from nbcheckpoint.errors import Error, NotRestorable, StoreDamaged, UsageError
from nbcheckpoint.fingerprint import explain, files, rng
from nbcheckpoint.fingerprint.code import Names, certainly_bound, free_names, is_user_code, names_in
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Input, Reason, Step, StepStatus
from nbcheckpoint.notebook import line, namespace, options, weave
from nbcheckpoint.notebook.outputs import Recorder, replay
from nbcheckpoint.notebook.session import Session

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_NOT_DATA = (type, types.FunctionType, types.ModuleType, types.MethodType, types.BuiltinFunctionType)
_IPYTHONS_BUILTINS = frozenset({"_", "input", "getpass", "exit", "quit", "get_ipython", "display", "dreload"})
"""It puts these in and takes them out around every cell."""
RESULT = "result:"
"""Under this the value of a cell's last expression is kept. No variable can be called that."""
ALIAS_WALK = 20_000
"""Objects looked at to find other names of what a statement reads: about 20 ms."""
QUICK_SECONDS = 0.5
"""Work that is done again sooner than the disk syncs, all in all, may wait for the end of the cell."""


@dataclass
class Running:
    """A statement that is running and is to be saved."""

    number: int
    source: str
    own: Names
    identity: Identity
    reason: Reason
    problem: str
    certain: set[str]
    before: dict[str, Any]
    modules_before: dict[str, dict[str, Any]]
    rng_before: dict[str, Any]
    surroundings: tuple[Any, ...]
    watch: files.FileWatch
    recorder: Recorder
    started: float = field(default_factory=time.perf_counter)
    seconds: float | None = None
    """Set when it has run without an exception."""
    surroundings_after: tuple[Any, ...] = ()
    result: Any = None


@dataclass
class Cell:
    """A cell IPython is running, ours or not. They nest: `%run` and `run_cell` run cells inside of cells."""

    info: Any
    chosen: argparse.Namespace | None = None
    """Its options, if it is ours."""
    step: Step | None = None
    statements: tuple[ast.stmt, ...] = ()
    running: Running | None = None
    done: list[line.Done] = field(default_factory=list)
    waiting_seconds: float = 0.0
    """Work in statements whose checkpoints are not committed yet."""
    note: str = ""
    started: float = field(default_factory=time.perf_counter)

    @property
    def id(self) -> str:
        """The front end's id of it."""
        return getattr(self.info, "cell_id", "") or ""

    @property
    def raw(self) -> str:
        return getattr(self.info, "raw_cell", "") or ""


class CellCheckpointer(ast.NodeTransformer):
    """The AST transformer, the hooks in the woven cell, and the end of it, for one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.session = Session(shell.user_ns)
        self._cells: list[Cell] = []

    @property
    def _cell(self) -> Cell:
        return self._cells[-1]

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
            return self._weave(rest, options.parse(text))
        except UsageError as error:
            self._cell.note = f"{error} · {error.hint}. The cell ran without a checkpoint."
        except Error as error:
            self._cell.note = f"not checkpointed: {error}{_hint(error)}"
        except Exception as error:
            self._cell.note = f"not checkpointed, a fault of nbcheckpoint: {type(error).__name__}: {error}"
        return rest

    def post_run_cell(self, result: Any) -> None:
        if not self._cells:
            return
        cell = self._cell
        try:
            if cell.chosen is not None:
                self._end(cell, result)
        except Error as error:
            cell.note = f"not saved: {error}{_hint(error)}"
        except Exception as error:
            cell.note = f"not saved, a fault of nbcheckpoint: {type(error).__name__}: {error}"
        finally:
            self._stop_watching(cell)
            self._cells.pop()
        self._show(cell)

    # What the woven cell calls

    def enter(self, number: int) -> bool:
        """Is this statement to be run? Its values are bound if not."""
        self.settle()
        cell = self._cell
        if cell.note:
            return True
        try:
            return self._enter(cell, number)
        except Error as error:
            cell.note = f"not checkpointed: {error}{_hint(error)}"
        except Exception as error:
            cell.note = f"not checkpointed, a fault of nbcheckpoint: {type(error).__name__}: {error}"
        self._stop_watching(cell)
        return True

    def leave(self, number: int, *value: Any) -> Any:
        """It has run. An expression's value passes through, and has yet to be shown."""
        running = self._cell.running
        if running is not None and running.number == number:
            running.seconds = time.perf_counter() - running.started
            running.surroundings_after = _surroundings()
            running.result = value[0] if value else None
        if value:
            return value[0]
        self.settle()
        return None

    def settle(self) -> None:
        """If a statement has run and was shown, save what it left."""
        cell = self._cell
        running = cell.running
        if running is None or running.seconds is None:
            return
        try:
            self._save(cell, running, running.seconds)
        except Error as error:
            cell.note = f"not saved: {error}{_hint(error)}"
        except Exception as error:
            cell.note = f"not saved, a fault of nbcheckpoint: {type(error).__name__}: {error}"
        finally:
            self._stop_watching(cell)

    # Before

    def _weave(self, rest: ast.Module, chosen: argparse.Namespace) -> ast.Module:
        if self.shell.ast_node_interactivity == "last_expr_or_assign":
            raise UsageError("not checkpointed", hint="it does not go together with last_expr_or_assign")
        woven = weave.weave(rest)
        cell = self._cell
        cell.step = self.session.begin_step(chosen.name or _title(rest), cell.id)
        cell.chosen, cell.statements = chosen, woven.steps
        return woven.tree

    def _enter(self, cell: Cell, number: int) -> bool:
        assert cell.chosen is not None  # set before anything was woven
        started = time.perf_counter()
        node = cell.statements[number]
        tree = ast.Module(body=[node], type_ignores=[])
        code: types.CodeType = compile(tree, "<statement>", "exec", flags=_FLAGS, dont_inherit=True)
        own = names_in(code)
        identity = self._identify(cell, number, tree, code)
        free = free_names(tree.body)
        problem = never_saved(identity, self.shell.user_ns, own, {n for n in free if namespace.is_history(n)})
        foreign = weave.foreign_magic(node)
        problem = problem or (f"it runs %{foreign}" if foreign else "") or self._changes_code(node)
        found = self._look_up(identity, cell.chosen) if not problem else Match(None, explain.simple("never", ""))
        if found.checkpoint is not None:
            reason = self._restore(cell, found.checkpoint, started)
            if reason is None:
                return False
            found = Match(None, reason)
        self._watch(cell, number, own, identity, found.reason, problem)
        return True

    def _changes_code(self, node: ast.stmt) -> str:
        for name in sorted(weave.changed_roots(node)):
            if isinstance(self.shell.user_ns.get(name), (types.ModuleType, type)):
                return f"it changes {name}"
        return ""

    def _identify(self, cell: Cell, number: int, tree: ast.Module, code: types.CodeType) -> Identity:
        chosen = cell.chosen
        assert chosen is not None
        user_ns = self.shell.user_ns
        own_text = None
        if chosen.code == "text":
            own_text = _lines(cell.raw, cell.statements[number])
        elif chosen.code == "ignore":
            own_text = f"{chosen.name} {number}"
        globbed = sorted(path for pattern in chosen.files for path in glob.glob(pattern, recursive=True))
        return identify(
            tree,
            code,
            user_ns,
            own_text=own_text,
            salt=repr((chosen.save, chosen.skip, chosen.no_output, chosen.files, globbed)),
            ignore=chosen.ignore,
            depends=chosen.depends,
            builtin=self._taken_for_granted(),
            private=self.session.store.private_digest,
            aliases=lambda names: namespace.sharing(names, user_ns, walk=ALIAS_WALK) or set(),
        )

    def _taken_for_granted(self) -> set[str]:
        """Names IPython itself provides, as long as they are what it provided."""
        user_ns, given = self.shell.user_ns, self.shell.user_ns_hidden
        hidden = {n for n in user_ns if not namespace.is_user_name(n) and given.get(n, user_ns[n]) is user_ns[n]}
        taken: set[str] = hidden | (vars(builtins).keys() - user_ns.keys())
        return taken

    def _look_up(self, identity: Identity, chosen: argparse.Namespace) -> Match:
        if chosen.force:
            return Match(None, explain.simple("forced", "--force"))
        expired = ""
        if chosen.expire:
            expired = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - chosen.expire))
        found = match(self.session.store, identity, expired_before=expired)
        if found.checkpoint is None:
            return found
        for condition in found.checkpoint.conditions:
            if _digest_of(condition.name, self.shell.user_ns) != condition.digest:
                return Match(None, explain.changed_inputs([condition], [replace(condition, digest="")]))
        return found

    def _restore(self, cell: Cell, checkpoint: Checkpoint, started: float) -> Reason | None:
        """Bind what the checkpoint holds. Returns why not, if not; then nothing has been bound."""
        user_ns = self.shell.user_ns
        names = {name for name in checkpoint.names if ":" not in name}
        others = namespace.sharing(names & user_ns.keys(), user_ns) if names & user_ns.keys() else set()
        if others is None or others - names:
            who = ", ".join(sorted((others or set()) - names)) or "other variables"
            return explain.simple("shared", f"{who} now shares data with what this changes")
        try:
            values = self.session.store.load(checkpoint.id)
            outputs = self.session.store.outputs(checkpoint)
        except (StoreDamaged, NotRestorable) as error:
            return explain.simple("damaged", f"the saved copy cannot be used ({error})")
        failed = {name: why for name, why in values.failed.items() if name != RESULT}
        if failed:
            return explain.simple("damaged", "; ".join(f"{name}: {why}" for name, why in failed.items()))
        self._bind(checkpoint, values.values)
        replay(self.shell, outputs)
        seconds = time.perf_counter() - started
        cell.done.append(line.Done("restored", seconds, explain.restored(checkpoint), checkpoint))
        return None

    def _bind(self, checkpoint: Checkpoint, values: dict[str, Any]) -> None:
        user_ns = self.shell.user_ns
        for name in checkpoint.deleted:
            user_ns.pop(name, None)
        for name, value in values.items():
            if name.startswith(rng.PREFIX):
                rng.restore(name, value)
            elif name != RESULT:
                old = user_ns.get(name)
                user_ns[name] = value
                self._replace_in_history(old, value)
        if RESULT in values:
            self.shell.displayhook.update_user_ns(values[RESULT])

    def _replace_in_history(self, old: Any, new: Any) -> None:
        """`_` and `Out` hold results by the same object the variable had: they follow it."""
        if old is None or (not isinstance(old, (list, dict, set)) and not hasattr(old, "__dict__")):
            return
        user_ns = self.shell.user_ns
        for place in (user_ns.get("Out"), user_ns):
            if isinstance(place, dict):
                for key in [
                    k for k, v in place.items() if v is old and (place is not user_ns or namespace.is_history(k))
                ]:
                    place[key] = new

    def _watch(self, cell: Cell, number: int, own: Names, identity: Identity, reason: Reason, problem: str) -> None:
        assert cell.chosen is not None
        watch = files.FileWatch(ignore=[self.session.store.url.removeprefix("file://")])
        strings = identity.mentions.strings | set(_paths_in(identity.values.values()))
        watch.mention(strings, absent=bool(LOOKS_FOR_FILES & identity.mentions.attributes))
        for pattern in cell.chosen.files:
            watch.mention(glob.glob(pattern, recursive=True))
        cell.running = Running(
            number=number,
            source=_lines(cell.raw, cell.statements[number]),
            own=own,
            identity=identity,
            reason=reason,
            problem=problem,
            certain=certainly_bound(cell.statements[number]),
            before=namespace.snapshot(self.shell.user_ns),
            modules_before=_modules_in(identity),
            rng_before=rng.states(),
            surroundings=_surroundings(),
            watch=watch,
            recorder=Recorder(self.shell),
        )
        files.start(watch)

    def _stop_watching(self, cell: Cell) -> None:
        running, cell.running = cell.running, None
        if running is not None:
            files.stop(running.watch)
            running.recorder.stop()

    # After

    def _save(self, cell: Cell, running: Running, seconds: float) -> None:
        files.stop(running.watch)
        outputs = running.recorder.stop()
        problem = running.problem or self._obstacle(running)
        done = line.Done("computed", seconds, running.reason, None, problem=problem)
        if not problem:
            started = time.perf_counter()
            draft, values, done.problem = self._draft(cell, running, seconds)
            if draft is not None:
                assert cell.chosen is not None
                cell.waiting_seconds += seconds
                defer = cell.waiting_seconds < QUICK_SECONDS
                kept = [] if cell.chosen.no_output else outputs
                done.checkpoint = self.session.store.save(draft, values, outputs=kept, defer=defer).checkpoint
                cell.waiting_seconds *= defer
            done.save_seconds = time.perf_counter() - started
        cell.done.append(done)

    def _obstacle(self, running: Running) -> str:
        """An effect that could not be brought back by binding names."""
        if running.recorder.live:
            return "it shows live widgets"
        if running.surroundings_after != running.surroundings:
            return "it changed the working directory, the environment, the import path, builtins, threads or tasks"
        return ""

    def _draft(self, cell: Cell, running: Running, seconds: float) -> tuple[Checkpoint | None, dict[str, Any], str]:
        """What to save, or why not."""
        chosen, user_ns, identity = cell.chosen, self.shell.user_ns, running.identity
        assert chosen is not None
        assert cell.step is not None
        mutated, problem = self._mutated(running)
        if problem:
            return None, {}, problem
        bound = namespace.rebound(running.before, user_ns) | (running.certain & user_ns.keys())
        unknown = [n for n in chosen.save if n not in user_ns] if running.number == len(cell.statements) - 1 else []
        if unknown:
            return None, {}, f"--save names {', '.join(unknown)}, which does not exist"
        if chosen.save:
            bound &= set(chosen.save)
        wanted = (bound | mutated) - set(chosen.skip)
        together = _closed(wanted, user_ns)
        if together is None:
            return None, {}, "too many objects to tell which variables share them"
        strangers = together - wanted - identity.before.keys()
        holders = {n for n in together & user_ns.keys() - bound if isinstance(user_ns[n], _NOT_DATA)}
        if strangers or holders:
            who = ", ".join(sorted(strangers or holders))
            return None, {}, f"{who} shares objects with {', '.join(sorted(wanted))}"
        values = {name: user_ns[name] for name in sorted(together - set(chosen.skip))}
        drawn, moved = self._random(running)
        is_last = running.number == len(cell.statements) - 1
        shown = {RESULT: running.result} if is_last and running.result is not None else {}
        seen = running.watch.seen()
        draft = Checkpoint(
            id="",
            created="",
            run=cell.step.run,
            step=f"{cell.step.address}.{running.number:03d}",
            name=cell.step.name,
            code=identity.code,
            inputs_digest=identity.digest,
            seconds=seconds,
            source=running.source,
            inputs=identity.inputs,
            conditions=self._conditions(running, bound),
            random=drawn,
            files=seen,
            folder=os.getcwd() if seen else "",
            mutated=tuple(sorted(mutated)),
            deleted=tuple(sorted(namespace.deleted(running.before, user_ns))),
            environment={"python": sys.version.partition(" ")[0]},
            meta={"workflow": self.session.workflow, "cell": f"{cell.step.cell or cell.step.name}#{running.number}"},
        )
        return draft, {**values, **moved, **shown}, ""

    def _mutated(self, running: Running) -> tuple[set[str], str]:
        """Inputs that are not what they were before the statement ran, or a reason why that is too much."""
        user_ns, identity = self.shell.user_ns, running.identity
        looked, same_code = look_again(identity)
        if not same_code:
            return set(), "it changed a class or function behind one of its inputs"
        after = _modules_in(identity)
        for name, attributes in running.modules_before.items():
            if attributes.keys() != after[name].keys() or any(after[name][n] is not v for n, v in attributes.items()):
                return set(), f"it changed the module {name}"
        changed = [item.name for item in looked if item.digest != identity.before[item.name] or not item.digest]
        for name in changed:
            value = identity.values[name]
            if isinstance(value, _NOT_DATA) or "." in name or "@" in name:
                return set(), f"it changed {name}, which cannot be restored by itself"
            if user_ns.get(name) is not value:
                return set(), f"it changed {name} and then bound or deleted it"
        return set(changed), ""

    def _conditions(self, running: Running, bound: set[str]) -> tuple[Input, ...]:
        """Names it may have bound to the very object they had: to be used again only where they still have it."""
        user_ns = self.shell.user_ns
        codes = [v.__code__ for v in running.identity.values.values() if isinstance(v, types.FunctionType)]
        may = running.own.writes.union(*(names_in(c).writes for c in codes)) & running.before.keys() & user_ns.keys()
        names = sorted(may - bound - running.identity.before.keys())
        return tuple(Input(name=name, digest=_digest_of(name, user_ns)) for name in names)

    def _random(self, running: Running) -> tuple[tuple[Input, ...], dict[str, Any]]:
        """Generators it moved: their state before as inputs, their state after as values."""
        drawn, moved = [], {}
        for name, state in rng.states().items():
            earlier = running.rng_before.get(name)
            if earlier is not None and rng.digest(earlier) == rng.digest(state):
                continue
            pristine = earlier is None or rng.is_pristine(name, earlier)
            before = rng.digest(earlier) if earlier is not None else ""
            drawn.append(Input(name=name, digest=before, type=rng.PRISTINE if pristine else "seeded"))
            moved[name] = state
        return tuple(drawn), moved

    # At the end

    def _end(self, cell: Cell, result: Any) -> None:
        self.settle()
        if self.session.opened:
            self.session.store.flush()
        assert cell.step is not None
        error = result.error_before_exec or result.error_in_exec
        seconds = time.perf_counter() - cell.started
        if error is not None:
            status: StepStatus = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        else:
            all_restored = bool(cell.done) and all(done.status == "restored" for done in cell.done)
            status = "restored" if all_restored else "completed"
        self.session.end_step(
            cell.step,
            status,
            cell.done,
            seconds=seconds,
            error=f"{type(error).__name__}: {error}"[:500] if error is not None else "",
        )

    def _show(self, cell: Cell) -> None:
        if cell.note:
            line.show(self.shell, "note", cell.note)
        elif cell.chosen is not None and cell.done and not cell.chosen.quiet:
            status, text = line.summary(cell.done, len(cell.statements))
            checkpoint = cell.done[-1].checkpoint
            line.show(self.shell, status, text, checkpoint=checkpoint.id if checkpoint else "")


def _modules_in(identity: Identity) -> dict[str, dict[str, Any]]:
    """The user's modules among the inputs, and what their names are bound to."""
    modules = {n: v for n, v in identity.values.items() if isinstance(v, types.ModuleType) and is_user_code(v)}
    return {name: dict(vars(module)) for name, module in modules.items()}


def _paths_in(values: Iterable[Any]) -> Iterator[str]:
    """Strings and paths among values and directly inside of their containers: they may name files."""
    for value in values:
        inside = value.values() if type(value) is dict else value if type(value) in (list, tuple, set) else ()
        for item in (value, *(inside if len(inside) <= 10_000 else ())):
            if type(item) is str or isinstance(item, PurePath):
                yield str(item)


def _digest_of(name: str, user_ns: dict[str, Any]) -> str:
    try:
        return Digester().digest(name, user_ns[name]) if name in user_ns else "absent"
    except Unidentified:
        return "unidentified"


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


def _surroundings() -> tuple[Any, ...]:
    own = ("nbcheckpoint", "IPythonHistorySavingThread")
    threads = {thread.ident for thread in threading.enumerate() if not thread.name.startswith(own)}
    patched = {name: id(value) for name, value in vars(builtins).items() if name not in _IPYTHONS_BUILTINS}
    try:
        tasks = {id(task) for task in asyncio.all_tasks()}
    except RuntimeError:  # no loop is running
        tasks = set()
    return os.getcwd(), dict(os.environ), tuple(sys.path), threads, tasks, patched


def _title(tree: ast.Module) -> str:
    """A name for a cell that was given none: its first line of code."""
    for node in [node for node in tree.body if not weave.is_definition(node)] or tree.body:
        return ast.unparse(node).partition("\n")[0][:60]
    return "empty cell"


def _lines(raw: str, node: ast.stmt) -> str:
    """The statement as the user wrote it: the marker keeps every line in its place."""
    return "\n".join(raw.lstrip("\n").splitlines()[node.lineno - 1 : node.end_lineno])


def _hint(error: Error) -> str:
    return f" · {error.hint}" if error.hint else ""

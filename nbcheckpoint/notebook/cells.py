"""A cell on its way: each of its statements looked up, restored or run, and saved.

Theory of operation. IPython parses a cell, shows the tree to its AST transformers and runs what they return, then
tells everyone that the cell is done. The transformer returns the cell woven with calls (`weave.py`):

    enter(n)         the n-th statement is about to run. Identify it, look for a checkpoint. Found: bind its values,
                     replay its outputs, and say "do not run". Not found: start watching, and say "run".
    starts, items, rest, turn    a loop is about to begin, or is between two iterations (`loops.py`).
    leave(n)         it has run, without an exception.
    settle()         what it shows has been shown: save what it left (`leaves.py`).

    post_run_cell    the cell is over: one line says what happened to its statements.

A statement that took long is durable before the next one starts. Quick ones are committed together, at the latest
when the cell ends; in automatic mode they are not saved at all, and hardly looked at (`pace.py`). A statement that
raised is never saved; how far its loop had come is.

The user's cell comes first. Any fault of ours means that it runs untouched and that one line says so.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import glob
import itertools
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nbcheckpoint import config, patience
from nbcheckpoint.codec import frames
from nbcheckpoint.engine import context, shown
from nbcheckpoint.engine.identity import (
    LOOKS_FOR_FILES,
    TIMES_AND_MODES,
    Identity,
    Match,
    code_key,
    identify,
    match,
    never_saved,
    texts_in,
)
from nbcheckpoint.engine.journal import moments_ago
from nbcheckpoint.engine.pace import NAMING_SHARE, Pace
from nbcheckpoint.errors import Error, NotRestorable, StoreDamaged, StoreError, UsageError
from nbcheckpoint.fingerprint import explain, files, rng, settings
from nbcheckpoint.fingerprint.code import Names, certainly_bound, compiled, free_names, names_in
from nbcheckpoint.model import Checkpoint, Reason, Step, StepStatus
from nbcheckpoint.notebook import around, guess, leaves, line, namespace, options, sharing, tracebacks, weave
from nbcheckpoint.notebook.cell import (
    INTERRUPT,
    Cell,
    hint,
    id_of,
    line_of,
    lines_of,
    note_interrupts,
    own_text,
    paths_in,
    quick_size,
    salt,
    title,
)
from nbcheckpoint.notebook.figures import Figures
from nbcheckpoint.notebook.items import names_of
from nbcheckpoint.notebook.leaves import RESULT, Running
from nbcheckpoint.notebook.looping import LoopHooks
from nbcheckpoint.notebook.loops import COUNTED, Loops
from nbcheckpoint.notebook.outputs import Recorder, replay
from nbcheckpoint.notebook.session import Session
from nbcheckpoint.redact import is_secret, redact
from nbcheckpoint.units import say_duration, say_size
from nbcheckpoint.whose import home_of, is_user_code, name_of

ALIAS_WALK = 20_000
"""Objects looked at to find other names of what a statement reads: about 20 ms."""
QUICK_WALK = 1000
"""The same before a statement that is likely to be quick."""
QUICK_SECONDS = 0.5
"""Work that is done again sooner than the disk syncs, all in all, may wait for the end of the cell."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between the attempts of a statement that fails."""
GUESS_SHARE = 0.2
"""What is taken to need less than this share of the least time worth saving is not looked at."""
NOT_LOOKED_AT = (
    "nobody had looked at its inputs beforehand, for the sake of speed; in this kernel, next time they will be"
)
LOOK_SHARE = 0.5
"""Of the time a statement took before, so much may be spent on finding out whether it has to run."""


class CellCheckpointer(LoopHooks, ast.NodeTransformer):
    """The AST transformer, the hooks in the woven cell, and the end of it, for one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.session = Session(shell.user_ns)
        self.pace = Pace()
        self.automatic = False
        """Are cells saved that say nothing about it?"""
        self.since = ""
        """What was saved before that is not used."""
        self.unattended = False
        """Is nobody sitting in front of it? Then a first interrupt only asks to stop where nothing is lost."""
        self._cells: list[Cell] = []
        self._then: Callable[[], None] = lambda: None
        """What is to be done when no cell is running any more."""
        self._held: list[Cell] = []
        """Cells that are over, and about which nothing could be said yet."""
        self.deep: set[int] = set()
        self._slow: dict[str, float] = {}
        """Key -> seconds of statements that turned out to be slow when nobody had looked at their inputs."""
        self._cut: dict[str, tuple[str, str]] = {}
        """Key of a statement whose loop was cut short in this kernel -> its progress, and the inputs it left behind."""
        self._named: dict[str, tuple[str, str]] = {}
        """Name -> id and text of the cell that has it."""
        self._patience = patience.shared
        self._patched: set[tuple[str, ...]] = set()
        """Attributes that cells have set, as paths from a name. Those of libraries' classes anything may depend on."""
        self.notes: deque[str] = deque(maxlen=5)
        """What was last said about cells that could not be checkpointed or saved."""

    @property
    def step_now(self) -> Step | None:
        """The step of the cell that is running, if it is ours."""
        return self._cell.step if self._cells else None

    @property
    def cell_name(self) -> str:
        """What tells the cell that is running from others: the front end's id of it, else its text."""
        if not self._cells:
            return ""
        return self._cell.id or line.checksum(self._cell.raw)

    # What IPython calls

    def pre_run_cell(self, info: Any) -> None:
        self._cells.append(
            Cell(info, id_of(info, self.shell, inner=bool(self._cells)), undo=tracebacks.clean(self.shell))
        )
        everyone = self.shell.ast_transformers
        if self in everyone and everyone[-1] is not self:  # those of the user's are to see the user's code
            everyone.remove(self)
            everyone.append(self)

    def visit(self, tree: Any) -> Any:
        """Never raises: a transformer that does is thrown out, and its cell does not run."""
        text = options.read_marker(tree) if isinstance(tree, ast.Module) else None
        if self._cells and self._cell.chosen is None and isinstance(tree, ast.Module) and weave.is_timed_cell(tree):
            self._cell.timed = True
        self._patched |= weave.changed_paths(tree) if isinstance(tree, ast.Module) else set()
        if text is None and not (self.automatic and isinstance(tree, ast.Module)):
            return tree
        rest = ast.Module(body=tree.body[1:], type_ignores=[]) if text is not None else tree
        if not self._cells or self._cell.chosen is not None:
            return rest  # a silent request of the front end's: not a cell; or code inside of one, as of %time
        if text is None and (not rest.body or weave.is_timed_cell(rest)):
            return rest  # what it times is shown to us next
        cell = self._cell
        with self._telling(cell, "not checkpointed"):
            if text is None and self._seems_quick(cell, rest):
                return rest
            return self._weave(cell, rest, options.parse(text) if text is not None else options.automatic())
        return rest

    def post_run_cell(self, result: Any) -> None:
        if not self._cells:
            return
        cell = self._cell
        try:
            with self._telling(cell, "not saved"):
                if cell.chosen is not None and not cell.let_go:
                    self._end(cell, result)
        finally:
            self._stop_watching(cell)
            cell.undo()
            self._cells.pop()
        self._show(cell)
        if not self._cells:
            self._then()

    def let_go(self, then: Callable[[], None]) -> None:
        """Cells that are running come to their end as they would without us; `then` is called."""
        for cell in self._cells:
            with self._telling(cell, "not saved"):
                if cell.step is not None and not cell.let_go:
                    self._finish_saving(cell)
                    seconds = time.perf_counter() - cell.started
                    self.session.end_step(cell.step, "completed", cell.done, seconds=seconds)
            self._stop_watching(cell)
            cell.let_go = True
        self._then = then
        if not self._cells:
            then()

    def forked(self) -> None:
        """In a child of the kernel's process: whatever it makes of the cell, the parent's is the one that counts."""
        for cell in self._cells:
            cell.let_go, cell.running = True, None

    def take_over(self, other: CellCheckpointer) -> None:
        """The cells another one has let go call these hooks from now on."""
        self._cells = other._cells

    @contextmanager
    def _telling(self, cell: Cell, what: str) -> Iterator[None]:
        """Whatever goes wrong inside is ours: it becomes the line under the cell."""
        try:
            yield
        except UsageError as error:
            cell.note = f"{error} · {error.hint}. The cell ran without a checkpoint."
        except Error as error:
            cell.note = f"{what}: {error}{hint(error)}"
        except Exception as error:
            cell.note = f"{what}, a fault of nbcheckpoint: {type(error).__name__}: {error}"

    # What the woven cell calls

    def enter(self, number: int) -> bool:
        """Is this statement to be run? Its values are bound if not."""
        cell = self._cell
        try:
            self.settle()
            if self.session.opened:
                self.session.store.let_go(self.shell.user_ns)  # what the statement before has deleted is freed
            if not cell.asked and not cell.stopped:
                return self._entered(cell, number)
        except KeyboardInterrupt:
            self._stop_watching(cell)
        cell.stopped = False
        return INTERRUPT  # type: ignore[no-any-return]  # whose truth is asked at once, in the user's line

    def _entered(self, cell: Cell, number: int) -> bool:
        cell.entered = number
        if cell.note or cell.let_go:
            return True
        with self._telling(cell, "not checkpointed"), self._patience.limited():
            if self._enter(cell, number):
                return True
            cell.entered = -1
            return False
        self._stop_watching(cell)
        return True

    def leave(self, number: int, *value: Any) -> Any:
        """It has run. An expression's value passes through, and has yet to be shown."""
        cell = self._cell
        running = cell.running
        if running is not None and running.number == number:
            running.seconds = time.perf_counter() - running.started
            running.around_after = around.look() if self._may_be_saved(cell, running) else None
            running.result = value[0] if value else None
            if cell.timed:
                running.recorder.takes_text = False  # the times, which are others next time
        elif cell.passing is not None and cell.passing[0] == number:
            self._passed(cell, *cell.passing[1:])
        if value:
            return value[0]
        self.settle()
        return None

    def kept(self, number: int) -> Any:
        """The value of the expression that has just been restored, for `%%time` to pass on."""
        cell = self._cell
        value, cell.kept = cell.kept, None
        return value

    def settle(self) -> None:
        """If a statement has run and was shown, save what it left."""
        cell = self._cell
        running = cell.running
        if running is None or running.seconds is None:
            return
        try:
            with self._patience.limited():
                self._save(cell, running)
        except KeyboardInterrupt:
            cell.stopped = True  # where the next statement begins, or at the end
        except Exception as error:
            self._not_saved(cell, error)
        finally:
            self._stop_watching(cell)

    def _not_saved(self, cell: Cell, error: Exception) -> None:
        """Say so. Raises an Error if the user would rather have the cell fail."""
        cell.not_saved = True
        if not isinstance(error, Error):
            error = StoreError(f"a fault of nbcheckpoint: {type(error).__name__}: {error}")
        cell.note = f"not saved: {error}{hint(error)}"
        if cell.on_save_error == "fail":
            raise error

    Failure = Exception
    """What is worth another attempt: not an interrupt, not the end of the kernel."""
    attempt = 0
    value: Any = None

    def attempts(self, number: int) -> Iterator[int]:
        """One for each time the statement is to be tried."""
        return itertools.count()

    def again(self, number: int) -> bool:
        """It has failed. Is it to be tried once more? Waits a little, longer each time."""
        chosen = self._cell.chosen
        if chosen is None or self.attempt >= chosen.retries:
            return False
        error = sys.exc_info()[1]
        seconds = min(FIRST_WAIT * 2**self.attempt, LONGEST_WAIT)
        said = f"attempt {self.attempt + 1} of {chosen.retries + 1} failed: {type(error).__name__}: {error}"
        print(f"{said} · trying again in {say_duration(seconds)}", file=sys.stderr)
        time.sleep(seconds)
        return True

    def is_running(self, number: int) -> bool:
        """Was it entered, and is it to be left?"""
        cell = self._cell
        return cell.entered == number

    def annotated(self, number: int, name: str) -> bool:
        """Did the statement that has just been restored say what this name is?"""
        return name in self._cell.annotated

    # Before

    def _seems_quick(self, cell: Cell, tree: ast.Module) -> bool:
        """In automatic mode: a cell in which nothing takes long, as far as one can tell, is left as it is."""
        nodes = tuple(node for node in tree.body if not weave.is_definition(node))
        if not guess.is_quick(nodes, self.shell.user_ns, GUESS_SHARE * self.pace.min_seconds):
            return False
        chosen = options.automatic()
        cell.chosen, cell.statements = chosen, nodes
        keys = tuple(self._key(cell, n, ast.Module([node], [])) for n, node in enumerate(nodes))
        if any(key in self._slow or self.session.store.find(key, limit=1) for key in keys):
            cell.chosen, cell.statements = None, ()
            return False
        cell.untouched = keys
        return True

    def _weave(self, cell: Cell, rest: ast.Module, chosen: argparse.Namespace) -> ast.Module:
        if self.shell.ast_node_interactivity == "last_expr_or_assign":
            raise UsageError("not checkpointed", hint="it does not go together with last_expr_or_assign")
        self._check_name(cell, chosen.name)
        woven = weave.weave(rest, retries=bool(chosen.retries), timed=cell.timed)
        cell.on_save_error = config.on_save_error()
        config.warn_size()  # so that a setting which makes no sense is told now
        # A quick cell that nobody asked to be saved is not worth a record.
        after = self.pace.min_seconds if chosen.automatic else 0.0
        code = line.checksum(cell.raw)
        cell.step = self.session.begin_step(chosen.name or title(rest), cell.id, code, after=after)
        cell.chosen, cell.statements, cell.loops = chosen, woven.steps, woven.loops
        cell.ends_with_step = bool(woven.steps) and rest.body[-1] is woven.steps[-1]
        return woven.tree

    def _check_name(self, cell: Cell, name: str) -> None:
        """Two cells with one name and other code would take each other's results. Raises UsageError."""
        if name and cell.id:
            id, raw = self._named.setdefault(name, (cell.id, cell.raw))
            if id != cell.id and raw != cell.raw:
                raise UsageError(
                    f"{name!r} is the name of another cell, with other code", hint="give it one of its own"
                )
            self._named[name] = cell.id, cell.raw

    def _enter(self, cell: Cell, number: int) -> bool:
        assert cell.chosen is not None  # set before anything was woven
        started = time.perf_counter()
        node = cell.statements[number]
        if cell.chosen.automatic and weave.is_plain(node):
            cell.passing = number, "", lines_of(cell.raw, node), time.perf_counter()
            return True
        if self._resizes(node):
            self._let_go(cell, number)
            return True
        tree = ast.Module(body=[node], type_ignores=[])
        key = self._key(cell, number, tree)
        code = compiled(tree)
        own = names_in(code)
        if cell.waiting & own.writes:  # what it binds anew or deletes is to be freed
            self._flush(cell)
        known, thorough, allowance = True, True, None
        if cell.chosen.automatic:
            known, thorough, allowance = self._allowance(key, loop=bool(cell.loops[number]))
        if (
            not known
            and not thorough
            and guess.is_quick([node], self.shell.user_ns, GUESS_SHARE * self.pace.min_seconds)
        ):
            cell.passing = number, key, lines_of(cell.raw, node), time.perf_counter()
            return True
        looking = time.thread_time()
        identity = self._identify(cell, tree, code, key, allowance, thorough=thorough)
        if cell.chosen.automatic:
            self.pace.looked += time.thread_time() - looking
        if identity.unaffordable:
            cell.passing = number, key, lines_of(cell.raw, node), time.perf_counter()
            return True
        free = free_names(tree.body)
        problem = never_saved(identity, self.shell.user_ns, own, {n for n in free if namespace.is_history(n)})
        foreign = weave.foreign_magic(node)
        problem = problem or (f"it runs %{foreign}" if foreign else "") or self._changes_code(node)
        if weave.mentions(node, "__annotations__"):
            problem = problem or "it reads __annotations__, which nobody keeps track of"
        annotates = weave.annotates_anyhow(node)
        problem = problem or (f"what it says of {annotates} is found out by running it" if annotates else "")
        found = Match(None, explain.simple("never" if problem else "first", ""))
        if known and not problem:
            found = self._look_up(identity, cell.chosen)
        if found.checkpoint is None and found.progress is None and not problem and not cell.chosen.force:
            found = self._after_a_cut(identity, cell.loops[number]) or found
        if found.progress is not None and found.progress.meta.get(COUNTED, 1) != len(cell.loops[number]):
            found = Match(
                None, explain.simple("damaged", "its loops were counted in another way when it was cut short")
            )
        if found.progress is not None:  # it is the same work, under the inputs it began with
            original = found.progress
            identity = identity._replace(inputs=original.inputs, digest=original.inputs_digest)
        shows = self._shows(cell, number)
        if shows and found.checkpoint is not None and not found.checkpoint.meta.get("shows"):
            found = Match(None, explain.simple("unsaveable", "its value was not shown then, and not kept"))
        loaded: dict[str, Any] = {}
        outputs: list[dict[str, Any]] = []
        if found.checkpoint is not None or found.progress is not None:
            with frames.beside(frames.counts_in(identity.values)):
                loaded, outputs, reason = self._load(found.checkpoint or found.progress)
            if reason is not None:
                found = Match(None, reason)
        if found.checkpoint is not None:
            if not shows or cell.timed:
                kept = loaded.pop(RESULT, None)
                cell.kept = kept if shows else None
            self._bind(found.checkpoint, loaded)
            leaves.adopt_calls(found.checkpoint)
            cell.annotated = frozenset(found.checkpoint.meta.get(leaves.ANNOTATED, ()))
            shown_here = shows and cell.kept is None
            replay(self.shell, [one for one in outputs if shown_here or one["output_type"] != "execute_result"])
            seconds = time.perf_counter() - started
            cell.done.append(line.Done("restored", seconds, explain.restored(found.checkpoint), found.checkpoint))
            return False
        self._watch(cell, number, own, identity, found.reason, problem)
        if cell.running is not None:
            cell.running.shows = shows
        if cell.loops[number] and not problem and cell.running is not None:
            nodes = cell.loops[number]
            made = Loops(nodes, node, self.shell.user_ns, self.pace, cell.chosen.every, self.deep, number)
            made.resume, made.loaded, made.outputs = found.progress, loaded, outputs
            made.earlier_seconds = self._took_earlier(key)
            cell.running.loops = made
        return True

    def _resizes(self, node: ast.stmt) -> bool:
        numpy: Any = sys.modules.get("numpy")
        found = [self.shell.user_ns.get(name) for name in weave.resized(node)] if numpy is not None else []
        return any(isinstance(value, numpy.ndarray) for value in found)

    def _let_go(self, cell: Cell, number: int) -> None:
        """NumPy resizes an array in place only if nobody but the user refers to it: so nothing is watched, or waits."""
        source = lines_of(cell.raw, cell.statements[number])
        cell.passing = number, "", source, time.perf_counter()
        if self.session.opened:
            self._flush(cell)
        assert cell.chosen is not None
        if not cell.chosen.automatic:
            why = "it resizes an array in place, which only works as long as nobody else refers to it"
            cell.passing = None
            cell.done.append(line.Done("computed", 0.0, explain.simple("never", ""), None, problem=why, source=source))

    def _shows(self, cell: Cell, number: int) -> bool:
        """Is the value of this statement, or of one inside of it, shown where it stands now?"""
        node, mode = cell.statements[number], self.shell.ast_node_interactivity
        is_last = number == len(cell.statements) - 1 and cell.ends_with_step
        wanted = {"all": is_last or not cell.timed, "none": False}.get(mode, is_last)
        if not isinstance(node, ast.Expr):
            inside = mode in ("all", "last") and not cell.timed
            return wanted and inside and any(isinstance(inner, ast.Expr) for inner in ast.walk(node))
        quiet = is_last and self.shell.displayhook.quiet()  # by a semicolon
        return wanted and not quiet

    def _took_earlier(self, key: str) -> float:
        """Seconds such a statement took when it last came to its end, with whatever inputs."""
        earlier = self.session.store.find(key, limit=5)
        return next((found.seconds for found in earlier if found.progress is None), 0.0)

    def _allowance(self, key: str, *, loop: bool) -> tuple[bool, bool, float]:
        """Is there a checkpoint for this code; is it likely to be slow; how long to look at its inputs?"""
        earlier = self.session.store.find(key, limit=1)
        took = max(self._slow.get(key, 0.0), earlier[0].seconds if earlier else 0.0)
        allowance = self.pace.allowance(loop=loop)
        if took >= self.pace.min_seconds:
            return bool(earlier), True, max(LOOK_SHARE * took, allowance)
        return bool(earlier), bool(earlier), allowance

    def _changes_code(self, node: ast.stmt) -> str:
        for name in sorted(weave.changed_roots(node)):
            if isinstance(self.shell.user_ns.get(name), (types.ModuleType, type)):
                return f"it changes {name}"
        return ""

    def _key(self, cell: Cell, number: int, tree: ast.Module) -> str:
        chosen = cell.chosen
        assert chosen is not None
        source = lines_of(cell.raw, cell.statements[number])
        return code_key(tree, own_text(chosen, number, source), salt(chosen))

    def _identify(
        self, cell: Cell, tree: ast.Module, code: types.CodeType, key: str, allowance: float | None, *, thorough: bool
    ) -> Identity:
        """`allowance`: seconds it may take. Not by the clock on the wall: values are not larger on a busy machine."""
        user_ns = self.shell.user_ns
        assert cell.chosen is not None
        walk = ALIAS_WALK if thorough else QUICK_WALK
        return identify(
            tree,
            code,
            user_ns,
            key=key,
            ignore=cell.chosen.ignore,
            depends=cell.chosen.depends,
            granted=self._is_granted,
            private=self.session.store.private_digest,
            aliases=lambda names, seen: sharing.sharing(names, user_ns, lookers_on=[seen], walk=walk) or set(),
            patched=list(self._patches()),
            provisional=not thorough,
            deadline=time.thread_time() + allowance if allowance is not None else None,
            spare=NAMING_SHARE * (allowance or 0.0),
        )

    def _patches(self) -> Iterator[tuple[str, Any]]:
        """What the user has put into classes of libraries, by the library's name for it."""
        for name, *path in sorted(self._patched):
            owner = self.shell.user_ns.get(name)
            for part in path[:-1]:
                owner = getattr(owner, part, None) if isinstance(owner, (types.ModuleType, type)) else None
            if isinstance(owner, type) and not is_user_code(owner) and path[-1] in vars(owner):
                yield f"{home_of(owner)}.{name_of(owner)}.{path[-1]}", vars(owner)[path[-1]]

    def _is_granted(self, name: str) -> bool:
        """Does IPython or Python itself provide it, and is it still what was provided?"""
        user_ns = self.shell.user_ns
        if name not in user_ns:
            return name in vars(builtins)
        given = self.shell.user_ns_hidden.get(name, user_ns[name])
        return namespace.is_given(name) and given is user_ns[name]

    def _look_up(self, identity: Identity, chosen: argparse.Namespace) -> Match:
        if chosen.force:
            return Match(None, explain.simple("forced", "--force"))
        expired = self.since
        if chosen.expire is not None:
            expired = max(expired, moments_ago(chosen.expire))
        found = match(
            self.session.store,
            identity,
            expired_before=expired,
            holds=lambda condition: leaves.holds(condition, self.shell.user_ns),
        )
        if self.since and found.reason.code == "expired":
            found = found._replace(reason=explain.simple("forced", "--fresh"))
        return found

    def _after_a_cut(self, identity: Identity, nodes: Sequence[weave.LoopNode]) -> Match | None:
        """In the kernel in which a loop was interrupted or failed, its inputs are no more what they were when it
        began, because it has changed them. Where nothing else has, running it again means going on with it."""
        id, digest = self._cut.get(identity.code, ("", ""))
        if not id or digest != identity.digest:
            return None
        try:
            checkpoint = self.session.store.checkpoint(id)
        except Error:
            return None
        progress = checkpoint.progress
        if progress is None or not checkpoint.trusted:
            return None
        then = {item.name: item.digest for item in checkpoint.inputs}
        made = (names_of(nodes[p.loop].node) for p in (*progress.around, progress) if p.by == "position")
        reads: set[str] = set().union(*made)
        if any(then.get(name) != found for name, found in identity.before.items() if name in reads):
            return None  # what it goes through would be made of what it has changed
        return Match(None, explain.simple("interrupted", ""), checkpoint)

    def _remember_cut(self, cell: Cell, running: Running, saved: Checkpoint) -> None:
        tree = ast.Module(body=[cell.statements[running.number]], type_ignores=[])
        code = compiled(tree)
        left = self._identify(cell, tree, code, running.identity.code, None, thorough=True)
        self._cut[left.code] = saved.id, left.digest

    def _load(self, checkpoint: Checkpoint | None) -> tuple[dict[str, Any], list[dict[str, Any]], Reason | None]:
        """Values and outputs of a checkpoint, ready to be bound and shown; or why they cannot be."""
        assert checkpoint is not None
        user_ns = self.shell.user_ns
        names = {name for name in checkpoint.names if ":" not in name}
        others = sharing.sharing(names & user_ns.keys(), user_ns) if names & user_ns.keys() else set()
        # Who shared it then, and was neither changed nor saved, was left behind: `x = x + [1]`.
        known = names | {item.name for item in checkpoint.inputs} - set(checkpoint.mutated)
        if others is None or others - known:
            who = ", ".join(sorted((others or set()) - known)) or "other variables"
            return {}, [], explain.simple("shared", f"{who} now shares data with what this changes")
        try:
            values = self.session.store.load(checkpoint.id)
            outputs = self.session.store.outputs(checkpoint)
        except (StoreDamaged, NotRestorable) as error:
            return {}, [], explain.simple("damaged", f"the saved copy cannot be used ({error})")
        failed = {name: why for name, why in values.failed.items() if name != RESULT}
        if failed:
            return {}, [], explain.simple("damaged", "; ".join(f"{name}: {why}" for name, why in failed.items()))
        return values.values, outputs, None

    def _watch(self, cell: Cell, number: int, own: Names, identity: Identity, reason: Reason, problem: str) -> None:
        assert cell.chosen is not None
        watch = files.FileWatch(ignore=[self.session.store.url.removeprefix("file://")])
        watch.exact = bool(TIMES_AND_MODES & identity.mentions.attributes)
        watch.whole_folders = leaves.reads_tables(identity)
        strings = identity.mentions.strings | set(paths_in(identity.values.values()))
        strings |= set(texts_in(identity.values.values())) if watch.whole_folders else set()
        strings |= leaves.quoted_in(strings) if watch.whole_folders else set()
        watch.mention(strings, absent=bool(LOOKS_FOR_FILES & identity.mentions.attributes))
        for pattern in cell.chosen.files:
            watch.mention(glob.glob(pattern, recursive=True))
        cell.running = Running(
            number=number,
            source=lines_of(cell.raw, cell.statements[number]),
            own=own,
            identity=identity,
            reason=reason,
            problem=problem,
            certain=certainly_bound(cell.statements[number]),
            is_expression=isinstance(cell.statements[number], ast.Expr),
            annotates=frozenset(weave.annotations_in(cell.statements[number])),
            before=self.shell.user_ns.copy(),
            counts=frames.counts_in(identity.values),
            modules_before=leaves.modules_in(identity),
            rng_before=rng.states(),
            settings_before=settings.states(),
            around=around.look(),
            logs_to=leaves.logs_to(),
            calls_before=len(context.called),
            asked_before=len(context.asked),
            figures=Figures(),
            watch=watch,
            recorder=Recorder(self.shell),
        )
        files.start(watch)
        cell.running.undo = note_interrupts(cell.running, cell.ask_to_stop if self.unattended else None)

    def _stop_watching(self, cell: Cell) -> None:
        running, cell.running = cell.running, None
        if running is not None:
            files.stop(running.watch)
            running.figures.release()
            running.recorder.stop()
            running.undo()
            running.undo = lambda: None  # it knows the statement, which knows all there was: what is deleted is freed
            if running.loops is not None:
                running.loops.stop()

    # After

    def _may_be_saved(self, cell: Cell, running: Running) -> bool:
        """In automatic mode quick statements are not."""
        assert cell.chosen is not None
        assert running.seconds is not None
        resumed = running.loops is not None and running.loops.resumed is not None
        return not cell.chosen.automatic or resumed or running.seconds >= self.pace.min_seconds

    def _passed(self, cell: Cell, key: str, source: str, began: float) -> None:
        """A statement whose inputs nobody had the time to look at has run."""
        seconds = time.perf_counter() - began
        cell.passing = None
        self.pace.worked += seconds
        done = line.Done("computed", seconds, explain.simple("unidentified", ""), None, source=source)
        done.quick = seconds < self.pace.min_seconds
        if not done.quick:
            self._slow[key] = seconds
            done.problem = NOT_LOOKED_AT
        cell.done.append(done)

    def _save(self, cell: Cell, running: Running) -> None:
        assert running.seconds is not None
        assert cell.chosen is not None
        files.stop(running.watch)
        outputs = running.recorder.stop()
        cell.shown_last = running.number == len(cell.statements) - 1 and not outputs
        loops_ = running.loops
        if loops_ is not None:
            loops_.stop()
        seconds = running.seconds - (loops_.saving_seconds if loops_ is not None else 0.0)
        self.pace.worked += seconds
        if not self._may_be_saved(cell, running):
            quick = line.Done("computed", seconds, running.reason, None, source=running.source, quick=True)
            cell.done.append(quick)
            return
        problem = running.problem or leaves.obstacle(running, running.around_after or around.look())
        problem = problem or ("it was interrupted" if running.interrupted else "")
        done = line.Done("computed", seconds, running.reason, None, problem=problem, source=running.source)
        if loops_ is not None:
            done.resumed = loops_.resumed
            done.save_seconds = loops_.saving_seconds
            done.loop_problem = loops_.what_begins_anew if seconds >= 2 * self.pace.min_seconds else ""
        if not problem:
            started = time.perf_counter()
            whole = seconds + (loops_.before_seconds if loops_ is not None else 0.0)
            draft = leaves.draft(running, self.shell.user_ns, self._place(cell, running), whole)
            chosen = cell.chosen.save or cell.chosen.skip
            if whole < QUICK_SECONDS and not chosen and leaves.acts_elsewhere(running, draft, outputs):
                return  # it just runs again
            done.problem = draft.problem or self._too_large(cell, draft.values, whole)
            if draft.problem:
                self._slow[running.identity.code] = whole  # next time there will be a closer look
            if draft.checkpoint is not None and not done.problem:
                cell.waiting_seconds += whole
                defer = cell.waiting_seconds < QUICK_SECONDS
                kept = [] if cell.chosen.no_output else outputs
                store = self.session.store
                with frames.beside(running.counts):
                    done.checkpoint = store.save(draft.checkpoint, draft.values, outputs=kept, defer=defer).checkpoint
                cell.waiting_seconds *= defer
                if defer and any(blob.chunk_size for blob in done.checkpoint.blobs):
                    cell.waiting |= frozenset(draft.values)
                if not defer:
                    shown.all_is_shown({call.run for call in context.called[running.calls_before :]})
                self.pace.saved(done.checkpoint.size, time.perf_counter() - started)
                if loops_ is not None and not done.checkpoint.not_saved:
                    loops_.ended(self.session.forget)
            done.save_seconds += time.perf_counter() - started
        cell.done.append(done)

    def _too_large(self, cell: Cell, values: dict[str, Any], seconds: float) -> str:
        assert cell.chosen is not None
        size = sum(map(quick_size, values.values()))
        if not cell.chosen.automatic or self.pace.is_worth(seconds, size):
            return ""
        return f"saving {say_size(size)} would take longer than it is worth"

    # At the end

    def _end(self, cell: Cell, result: Any) -> None:
        if cell.untouched is not None:
            self._passed_by(cell, result.error_before_exec or result.error_in_exec)
        failure = self._finish_saving(cell)
        if failure is not None and result.success:
            result.error_in_exec = failure
            self.shell.showtraceback((type(failure), failure, failure.__traceback__))
        error = result.error_before_exec or result.error_in_exec
        seconds = time.perf_counter() - cell.started
        if error is not None:
            status: StepStatus = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        else:
            slow = [done for done in cell.done if not done.quick]
            all_restored = bool(slow) and all(done.status == "restored" for done in slow)
            status = "restored" if all_restored else "completed"
        assert cell.chosen is not None
        quick = all(done.quick for done in cell.done) and error is None and seconds < self.pace.min_seconds
        if cell.step is None:
            name = cell.chosen.name or title(ast.Module(list(cell.statements), []))
            cell.step = self.session.new_step(name, cell.id, line.checksum(cell.raw))
        if cell.chosen.automatic and quick:
            return self.session.end_quick_step(cell.step, cell.done, seconds)
        self.session.end_step(
            cell.step,
            status,
            cell.done,
            seconds=seconds,
            error=redact(f"{type(error).__name__}: {error}", self._secrets())[:500] if error is not None else "",
        )
        running = cell.running
        loops_ = running.loops if running is not None else None
        if running is not None and loops_ is not None and loops_.saved is not None and not cell.note:
            self._remember_cut(cell, running, loops_.saved)
            cell.note = f"{status} · the loop goes on {loops_.where} when the cell is run again"
        return None

    def _passed_by(self, cell: Cell, error: BaseException | None) -> None:
        """A cell that was left as it is has run: what its statements took is known of all of them together."""
        assert cell.untouched is not None
        ran = list(zip(cell.statements, cell.untouched, strict=True))
        if error is not None:  # those before the one that failed
            ran = [(node, key) for node, key in ran if node.lineno <= line_of(error, self.shell.user_ns)][:-1]
        seconds = (time.perf_counter() - cell.started) / max(1, len(ran))
        for node, key in ran:
            cell.passing = -1, key, lines_of(cell.raw, node), time.perf_counter() - seconds
            self._passed(cell, *cell.passing[1:])

    def _finish_saving(self, cell: Cell) -> BaseException | None:
        """Save what is left to be saved. Returns why the cell is to fail, if it is."""
        failure: BaseException | None = None
        try:
            self.settle()
            if self.session.opened:
                self._flush(cell)
        except (Error, KeyboardInterrupt) as error:
            failure = error
        if cell.stopped:
            failure = KeyboardInterrupt()
        if cell.not_saved:
            for done in cell.done:
                if done.checkpoint is not None and not self._is_saved(done.checkpoint):
                    done.checkpoint = None
        return failure

    def _flush(self, cell: Cell) -> None:
        cell.waiting = frozenset()
        try:
            self.session.store.flush()
        except Exception as error:
            self._not_saved(cell, error)

    def _is_saved(self, checkpoint: Checkpoint) -> bool:
        try:
            return bool(self.session.store.checkpoint(checkpoint.id))
        except Error:
            return False

    def _secrets(self) -> list[Any]:
        """The values of variables whose name says that they are secret."""
        return [value for name, value in self.shell.user_ns.items() if is_secret(name)]

    def _show(self, cell: Cell) -> None:
        """Say what became of it; where that would go into a variable of the user's, when the cell around it ends."""
        if line.is_captured(self.shell):
            self._held.append(cell)
            return
        held, self._held = self._held, []
        for inner in held:
            self._say(inner)
        self._say(cell, told=bool(held))

    def _say(self, cell: Cell, *, told: bool = False) -> None:
        """`told`: cells inside of it have said what there is to say."""
        notice, self.session.notice = self.session.notice, ""
        note = " · ".join(filter(None, (cell.note, notice)))
        place = cell.shown if cell.shown_last else ""
        if cell.shown and not place:
            line.clear(self.shell, cell.shown)
        quiet = cell.chosen is None or cell.chosen.quiet or told
        if note:
            self.notes.append(note)
            line.show(self.shell, "note", note, display=place)
        elif not quiet and any(not done.quick for done in cell.done):
            status, text = line.summary(cell.done, len(cell.statements))
            checkpoint = cell.done[-1].checkpoint
            id = checkpoint.id if checkpoint else ""
            line.show(self.shell, status, text, display=place, checkpoint=id, code=line.checksum(cell.raw))
        elif place:
            line.clear(self.shell, place)

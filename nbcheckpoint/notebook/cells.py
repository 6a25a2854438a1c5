"""A cell on its way: each of its statements looked up, restored or run, and saved.

Theory of operation. IPython parses a cell, shows the tree to its AST transformers and runs what they return, then
tells everyone that the cell is done. The transformer returns the cell woven with calls (`weave.py`):

    enter(n)         the n-th statement is about to run. Identify it, look for a checkpoint. Found: bind its values,
                     replay its outputs, and say "do not run". Not found: start watching, and say "run" (`entering.py`).
    starts, items, rest, turn    a loop is about to begin, or is between two iterations (`looping.py`).
    leave(n)         it has run, without an exception.
    settle()         what it shows has been shown: save what it left (`leaving.py`).

    post_run_cell    the cell is over: one line says what happened to its statements.

A statement that took long is durable before the next one starts. Quick ones are committed together, at the latest
when the cell ends; in automatic mode they are not saved at all, and hardly looked at (`pace.py`). A statement that
raised is never saved; how far its loop had come is.

The user's cell comes first. Any fault of ours means that it runs untouched and that one line says so.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nbcheckpoint import config
from nbcheckpoint.errors import Error, UsageError
from nbcheckpoint.model import Step, StepStatus
from nbcheckpoint.notebook import line, options, tracebacks, weave
from nbcheckpoint.notebook.cell import INTERRUPT, Cell, hint, id_of, title
from nbcheckpoint.notebook.entering import EnterHooks
from nbcheckpoint.notebook.leaving import LeaveHooks
from nbcheckpoint.notebook.looping import LoopHooks
from nbcheckpoint.redact import is_secret, redact
from nbcheckpoint.units import say_duration

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between the attempts of a statement that fails."""


class CellCheckpointer(EnterHooks, LoopHooks, LeaveHooks, ast.NodeTransformer):
    """The AST transformer, the hooks in the woven cell, and the end of it, for one shell."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.automatic = False
        """Are cells saved that say nothing about it?"""
        self.ignored: tuple[str, ...] = ()
        """Variables whose changes do not count in those."""
        self.notes: deque[str] = deque(maxlen=5)
        """What was last said about cells that could not be checkpointed or saved."""
        self._then: Callable[[], None] = lambda: None
        """What is to be done when no cell is running any more."""
        self._held: list[Cell] = []
        """Cells that are over, and about which nothing could be said yet."""
        self._named: dict[str, tuple[str, str]] = {}
        """Name -> id and text of the cell that has it."""

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
            return self._weave(cell, rest, options.parse(text) if text is not None else options.automatic(self.ignored))
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

    # What the woven cell calls, besides

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

    def kept(self, number: int) -> Any:
        """The value of the expression that has just been restored, for `%%time` to pass on."""
        cell = self._cell
        value, cell.kept = cell.kept, None
        return value

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

    # At the beginning

    def _seems_quick(self, cell: Cell, tree: ast.Module) -> bool:
        """In automatic mode: a cell in which nothing takes long, as far as one can tell, is left as it is."""
        nodes = tuple(node for node in tree.body if not weave.is_definition(node))
        if not self._is_quick(nodes):
            return False
        chosen = options.automatic(self.ignored)
        cell.chosen, cell.statements = chosen, nodes
        keys = tuple(self._code(cell, n).key for n in range(len(nodes)))
        expected = (key in self._slow or self.session.store.find(key, limit=1) for key in keys)
        if line.checksum(cell.raw) in self._slow or any(expected):
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

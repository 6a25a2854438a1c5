"""What the hooks of a woven cell have in common: the shell, the run, the cells that are running, how names are bound.

The hooks themselves are in three rooms, by when they are called: before a statement (`entering.py`), in the middle of
one (`looping.py`) and after it (`leaving.py`). `cells.py` puts them together.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection
from typing import Any, NamedTuple

from nbcheckpoint import bars, patience
from nbcheckpoint.engine.identity import code_key
from nbcheckpoint.engine.pace import Pace
from nbcheckpoint.errors import Error, StoreError
from nbcheckpoint.fingerprint import files, rng, settings
from nbcheckpoint.model import Checkpoint
from nbcheckpoint.notebook import further, logs, namespace
from nbcheckpoint.notebook.cell import Cell, hint, lines_of, own_text, salt
from nbcheckpoint.notebook.leaves import RESULT, Place, Running
from nbcheckpoint.notebook.session import Session


class Cut(NamedTuple):
    """A loop that was cut short in this kernel."""

    progress: str
    """The checkpoint that says how far it had come."""
    left: tuple[Any, ...]
    """What it depends on, as it was left behind: whoever finds it so may go on."""


class Code(NamedTuple):
    """A statement's own code, as it is identified."""

    tree: ast.Module
    key: str
    turns: int | None
    """How far a loop goes, where that is no part of it (`further.py`)."""


class Hooks:
    """What they know, and what they all need."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.session = Session(shell.user_ns)
        self.pace = Pace()
        self.since = ""
        """What was saved before that is not used."""
        self.unattended = False
        """Is nobody sitting in front of it? Then a first interrupt only asks to stop where nothing is lost."""
        self.deep: set[int] = set()
        """Keys of the loops whose inner loops are watched, at the moment."""
        self._cells: list[Cell] = []
        self._unexpected: dict[str, float] | None = None
        self._cut: dict[str, Cut] = {}
        """By the key of the statement."""
        self._patience = patience.shared
        self._patched: set[tuple[str, ...]] = set()
        """Attributes that cells have set, as paths from a name. Those of libraries' classes anything may depend on."""

    @property
    def _cell(self) -> Cell:
        return self._cells[-1]

    @property
    def _slow(self) -> dict[str, float]:
        """Key -> seconds of statements that turned out to be slow when nobody had looked at their inputs, in this
        kernel or an earlier one of the notebook: next time there will be a closer look."""
        if self._unexpected is None:
            self._unexpected = {}  # also if it cannot be told
            self._unexpected = self.session.slow_before()
        return self._unexpected

    def _code(self, cell: Cell, number: int) -> Code:
        """Its tree, or what stands for it."""
        chosen, node = cell.chosen, cell.statements[number]
        assert chosen is not None
        own = own_text(chosen, number, lines_of(cell.raw, node))
        found = further.opened(node, lambda name: self.shell.user_ns.get(name, getattr(builtins, name, None)))
        whole = own is None and not (chosen.save or chosen.skip)  # else what the next turn needs may not be there
        if whole and found is not None and found.turns is not None:
            tree = ast.Module(body=[found.node], type_ignores=[])
            return Code(tree, code_key(tree, None, salt(chosen) + further.SALT), found.turns)
        tree = ast.Module(body=[node], type_ignores=[])
        return Code(tree, code_key(tree, own, salt(chosen)), None)

    def _place(self, cell: Cell, running: Running) -> Place:
        assert cell.chosen is not None
        assert cell.step is not None
        last = running.number == len(cell.statements) - 1
        return Place(cell.chosen, cell.step, self.session.workflow, last)

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

    def _flush(self, cell: Cell) -> None:
        cell.waiting = frozenset()
        try:
            self.session.store.flush()
        except Exception as error:
            self._not_saved(cell, error)

    def _not_saved(self, cell: Cell, error: Exception) -> None:
        """Say so. Raises an Error if the user would rather have the cell fail."""
        cell.not_saved = True
        if not isinstance(error, Error):
            error = StoreError(f"a fault of nbcheckpoint: {type(error).__name__}: {error}")
        cell.note = f"not saved: {error}{hint(error)}"
        if cell.on_save_error == "fail":
            raise error

    # Binding

    def _bind(self, checkpoint: Checkpoint, values: dict[str, Any], written: Collection[str]) -> None:
        """`written`: names the statement binds. What they had before stays as it is, unless it was changed in place."""
        user_ns = self.shell.user_ns
        logs.put_back(checkpoint.files, values)
        for name in checkpoint.deleted:
            user_ns.pop(name, None)
        for name, value in values.items():
            if name.startswith(rng.PREFIX):
                rng.restore(name, value)
            elif name.startswith(settings.PREFIX):
                settings.restore(name, value)
            elif name.startswith(bars.PREFIX):
                bars.put(user_ns.get(name.removeprefix(bars.PREFIX)), value)
            elif ":" not in name:
                old = user_ns.get(name)
                user_ns[name] = value
                anew = name in written and name not in checkpoint.mutated
                if not anew and not namespace.is_history(name):  # `_` itself bound anew leaves `Out` as it is
                    self._replace_in_history(old, value)
        if RESULT in values:
            self.shell.displayhook.update_user_ns(values[RESULT])
            self.shell.displayhook.fill_exec_result(values[RESULT])

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

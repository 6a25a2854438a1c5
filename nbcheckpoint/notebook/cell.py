"""A cell IPython is running, and what can be told from its text, its tree and its values without running it."""

from __future__ import annotations

import argparse
import ast
import functools
import glob
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from nbcheckpoint import trees
from nbcheckpoint.config import OnSaveError
from nbcheckpoint.engine import alarm
from nbcheckpoint.engine.trail import Draws, Trail
from nbcheckpoint.errors import Error
from nbcheckpoint.model import Step
from nbcheckpoint.notebook import line, weave
from nbcheckpoint.notebook.leaves import Running
from nbcheckpoint.redact import redact_source
from nbcheckpoint.whose import package_of


@dataclass
class Cell:
    """A cell IPython is running, ours or not. They nest: `%run` and `run_cell` run cells inside of cells."""

    info: Any
    id: str = ""
    """The front end's id of it."""
    chosen: argparse.Namespace | None = None
    """Its options, if it is ours."""
    step: Step | None = None
    statements: tuple[ast.stmt, ...] = ()
    loops: tuple[tuple[weave.LoopNode, ...], ...] = ()
    timed: bool = False
    """Is it run by `%%time`, which passes on the value of its last expression?"""
    kept: Any = None
    """That value, if it was restored."""
    ends_with_step: bool = False
    """Or with a definition: then no value is shown."""
    running: Running | None = None
    entered: int = -1
    """The statement that was entered last, if it was to be run."""
    untouched: tuple[str, ...] | None = None
    """The keys of its statements, if nothing was woven into it: in automatic mode, one that seems quick."""
    annotated: frozenset[str] = frozenset()
    """Names that the statement which was restored last had annotated."""
    passing: tuple[int, str, str, float] | None = None
    """A statement that just runs, in automatic mode: its number, its code's key, its source and when it began."""
    done: list[line.Done] = field(default_factory=list)
    waiting_seconds: float = 0.0
    """Work in statements whose checkpoints are not committed yet."""
    waiting: frozenset[str] = frozenset()
    """Names whose values are held until those are committed."""
    shown: str = ""
    """The display that says how far its loop is, if there is one."""
    shown_last: bool = False
    """Is that what the cell showed last?"""
    note: str = ""
    on_save_error: OnSaveError = "warn"
    asked: bool = False
    """Has somebody asked it to stop where nothing is lost?"""
    stopped: bool = False
    """Has somebody interrupted us, when it was our turn?"""
    not_saved: bool = False
    """Has something that should have been saved not been?"""
    let_go: bool = False
    """Has it unloaded us? It goes on, and nothing more is saved."""
    undo: Callable[[], None] = lambda: None
    """What was put in its way for as long as it runs is taken out again."""
    started: float = field(default_factory=time.perf_counter)

    def ask_to_stop(self) -> bool:
        """Stop behind this statement, or between two iterations of its loop. False: that was asked before."""
        first, self.asked = not self.asked, True
        if first and self.running is not None and self.running.loops is not None:
            self.running.loops.ring()
        return first

    @property
    def raw(self) -> str:
        return getattr(self.info, "raw_cell", "") or ""


def id_of(info: Any, shell: Any, *, inner: bool) -> str:
    """The front end's id of a cell that is about to run; a cell `inner` to another one has none.

    Jupyter's is told by IPython. Colab has a place of its own for it in the request, which nobody reads for us.
    """
    told = getattr(info, "cell_id", None)
    request = getattr(shell, "parent_header", None)  # all of it, in spite of the name; plain IPython has none
    if told or inner or not isinstance(request, dict):
        return told or ""
    colab = (request.get("metadata") or {}).get("colab") or {}
    return colab.get("cell_id") or ""


def note_interrupts(running: Running, ask: Callable[[], bool] | None = None) -> Callable[[], None]:
    """Know of a pressed stop button also where the user's code swallows it. Returns what undoes this.

    Where `ask` says true, the code goes on: it will be stopped at a better moment.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before = _underneath(signal.getsignal(signal.SIGINT))
    if not callable(before):
        return lambda: None
    noted = _Noted(before, running, ask)
    signal.signal(signal.SIGINT, noted)

    def undo() -> None:
        noted.running = noted.ask = None
        if signal.getsignal(signal.SIGINT) is noted:
            signal.signal(signal.SIGINT, before)

    return undo


class _Noted:
    """A handler that is only looked at to be called: what it gives is then called by Python itself, so that no line of
    ours stands in the traceback of a KeyboardInterrupt. When its statement is over it changes nothing any more."""

    def __init__(self, before: Callable[..., Any], running: Running, ask: Callable[[], bool] | None) -> None:
        self.before = before
        self.running: Running | None = running
        self.ask = ask

    @property
    def __call__(self) -> Callable[..., Any]:
        if self.ask is not None and self.ask():
            return _go_on
        if _is_in_passing(sys._getframe(1)):
            alarm.later(_MOMENT, _interrupt_again)
            return _go_on
        if self.running is not None:
            self.running.interrupted = True
        return self.before


def _underneath(handler: Any) -> Any:
    """The handler itself, where the user's code has put back one that was there while an earlier statement ran."""
    while isinstance(handler, _Noted) and handler.running is None:
        handler = handler.before
    return handler


def _go_on(number: int, frame: Any) -> None:
    """It will be stopped at a better moment."""


_MOMENT = 0.001
_IN_PASSING = tuple(f"{__package__}.{name}" for name in ("looping", "loops", "loop"))
_NOTING = tuple(function.__code__ for function in (Trail.note, Trail.done_with, Draws.asked, Draws.made))


def _is_in_passing(frame: types.FrameType | None) -> bool:
    """Is it one of the lines of ours that run at every iteration of a loop? Then it is the user's turn in no time.

    What takes longer, like saving, is interrupted, and says so where it was called from.
    """
    if frame is not None and frame.f_globals.get("__name__") in _IN_PASSING:
        return True
    while frame is not None and frame.f_code not in _NOTING:
        frame = frame.f_back
    return frame is not None


def _interrupt_again() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


class _Interrupt:
    """What is returned where an interrupt is to be raised by the user's line, not by one of ours: whoever asks whether
    it is true gets a KeyboardInterrupt."""

    __bool__ = staticmethod(functools.partial(signal.default_int_handler, signal.SIGINT, None))


INTERRUPT: Any = _Interrupt()


_MOST_LOOKED_AT = 10_000
"""Of what is inside of a value, to tell its size: a few milliseconds."""


def quick_size(value: Any) -> int:
    """Bytes of the arrays a value consists of, as far as that can be told without looking inside for long."""
    size, left = 0, [value]
    seen: set[int] = set()
    while left and len(seen) < _MOST_LOOKED_AT:
        one = left.pop()
        if id(one) in seen:  # it may contain itself, or be there a thousand times
            continue
        seen.add(id(one))
        if type(one) in (list, tuple, dict):
            if len(one) <= 1000:
                left += one.values() if type(one) is dict else one
        else:
            size += _own_size(one)
    return size


def _own_size(value: Any) -> int:
    # Asked of its class first: an object of the user's may answer with anything, an error for example.
    try:
        size = getattr(value, "nbytes", None) if hasattr(type(value), "nbytes") else None
    except Exception:  # a property of its class may do so too, as that of a sparse tensor
        size = None
    if isinstance(size, int):
        return size
    if package_of(type(value)) == "pandas" and hasattr(value, "memory_usage"):
        used = value.memory_usage(index=False)
        return int(used.sum()) if hasattr(used, "sum") else int(used)
    return 0


def likely_objects(value: Any, depth: int = 3) -> int:
    """How many objects it consists of, told by its length and the first of its parts."""
    if type(value) in trees.ATOMS:
        return 1
    if type(value) not in (list, tuple, dict, set, frozenset):
        return _OF_A_CLASS
    if not value or not depth:
        return 1
    first = next(iter(value.values() if type(value) is dict else value))
    if len(value) <= _FEW:  # a record: its parts are of all kinds
        parts = value.values() if type(value) is dict else value
        return 1 + sum(likely_objects(part, depth - 1) for part in parts)
    return len(value) * likely_objects(first, depth - 1)


_FEW = 32
_OF_A_CLASS = 10
"""What an instance counts for: it is asked how it is to be written."""


def paths_in(values: Iterable[Any]) -> Iterator[str]:
    """Strings and paths among values and directly inside of their containers: they may name files."""
    for value in values:
        inside = value.values() if type(value) is dict else value if type(value) in (list, tuple, set) else ()
        for item in (value, *(inside if len(inside) <= 10_000 else ())):
            if type(item) is str or isinstance(item, PurePath):
                yield str(item)


def title(tree: ast.Module) -> str:
    """A name for a cell that was given none: its first line of code."""
    for node in [node for node in tree.body if not weave.is_definition(node)] or tree.body:
        try:
            return redact_source(ast.unparse(node)).partition("\n")[0][:60]
        except RecursionError:  # a sum of hundreds of terms
            return f"a long {type(node).__name__.lower()}"
    return "empty cell"


def own_text(chosen: argparse.Namespace, number: int, source: str) -> str | None:
    """What stands for the code of a cell's nth statement, if it is not its tree."""
    return {"text": source, "ignore": f"{chosen.name} {number}"}.get(chosen.code)


def salt(chosen: argparse.Namespace) -> str:
    """The options that are part of the code."""
    globbed = sorted(path for pattern in chosen.files for path in glob.glob(pattern, recursive=True))
    return repr((chosen.save, chosen.skip, chosen.no_output, chosen.files, globbed))


def lines_of(raw: str, node: ast.stmt) -> str:
    """The statement as the user wrote it: the marker keeps every line in its place."""
    return "\n".join(_lines(raw)[node.lineno - 1 : node.end_lineno])


@functools.lru_cache(maxsize=4)
def _lines(raw: str) -> list[str]:
    """Of a cell, for each of its statements."""
    return raw.lstrip("\n").splitlines()


def line_of(error: BaseException, user_ns: dict[str, Any]) -> int:
    """The line of the cell that an error comes from; 0 if it does not come from the cell itself."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_globals is user_ns:
            return traceback.tb_lineno
        traceback = traceback.tb_next
    return 0


def hint(error: Error) -> str:
    """What to do about it, to be put behind what went wrong."""
    return f" · {error.hint}" if error.hint else ""

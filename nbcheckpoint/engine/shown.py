"""What steps show, for whoever did not get to see it.

A cell of a notebook that is killed in the middle of a flow has lost what the finished steps had printed: they are given
back, and print nothing. So inside of a flow what a body shows is kept with its checkpoint, and the run's record names
the sessions whose cell is not over, with their processes. It is *cut off* if the process is gone, or if the cell is
over and nobody said that it came to its end. What was computed in a session that was cut off is shown again where it is
given back; and a run that was complete by then is continued by the next call, because nobody has got its result.

A cell that came to its end, also by an error, has shown everything: from there on what is given back shows nothing.
Outside of notebooks nobody records, and all of this is nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from nbcheckpoint.errors import Error
from nbcheckpoint.model import Checkpoint, Owner, Run
from nbcheckpoint.store import Store
from nbcheckpoint.store.liveness import is_alive, is_this_process, this_process

Outputs = list[dict[str, Any]]
recorders: list[Callable[[], AbstractContextManager[Callable[[], Outputs]]]] = []
"""Make something that is entered around a body and tells afterwards what that has shown. Filled in by a notebook."""
players: list[Callable[[Outputs], None]] = []
"""Show it again."""
SESSION = "session"
"""In a checkpoint's meta: the session of its run that has shown what is kept with it."""
_UNSHOWN = "unshown"
"""In a run's meta: session -> process."""
_open: dict[tuple[str, int], Store] = {}
"""Sessions of this process whose cell is not over."""


def recording() -> AbstractContextManager[Callable[[], Outputs]]:
    """Note what is shown in here, where somebody can."""
    return recorders[0]() if recorders else contextlib.nullcontext(list)


def noted(meta: dict[str, Any], session: int) -> dict[str, Any]:
    """The meta of a run with a session that begins now."""
    if not recorders:
        return meta
    process = msgspec.to_builtins(this_process())
    return {**meta, _UNSHOWN: {**meta.get(_UNSHOWN, {}), str(session): process}}


def begun(store: Store, run: Run) -> None:
    """A session of a run has begun in the cell that is running."""
    if recorders:
        _open[run.id, run.sessions] = store


def cut_off(run: Run) -> frozenset[int]:
    """The sessions of a run whose cell did not come to its end, and never will."""
    if not recorders:
        return frozenset()
    named = ((int(session), Owner(**process)) for session, process in run.meta.get(_UNSHOWN, {}).items())
    return frozenset(session for session, process in named if _is_over(run.id, session, process))


def _is_over(run: str, session: int, process: Owner) -> bool:
    return (run, session) not in _open if is_this_process(process) else not is_alive(process)


def again(store: Store, checkpoint: Checkpoint, sessions: Collection[int]) -> None:
    """Show what stands with a checkpoint of one of these sessions."""
    if players and checkpoint.outputs is not None and checkpoint.meta.get(SESSION) in sessions:
        try:
            players[0](store.outputs(checkpoint))
        except Error:
            pass  # the result counts; `verify` tells what is damaged


def all_is_shown(runs: Collection[str] | None = None) -> None:
    """The cell, or the statement that called these runs, has come to its end, and what it showed is kept or seen."""
    done = [key for key in _open if runs is None or key[0] in runs]
    for run, session in done:
        store = _open.pop((run, session))
        try:
            store.update_run(run, forget=(_UNSHOWN,))
        except Error:
            pass  # it is gone, or cannot be written: then something is shown once more


def cell_was_cut() -> None:
    """The cell is over, and somebody has stopped it."""
    _open.clear()

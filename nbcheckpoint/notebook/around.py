"""What a statement can change besides names and objects: seen before and after, and compared.

None of it can be brought back by binding names. It is kept packed, for the reason in `rng.packed`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal without the names
import asyncio
import builtins
import os
import signal
import sys
import threading
from array import array
from collections.abc import Collection, Iterator
from queue import SimpleQueue
from typing import Any, NamedTuple

from nbcheckpoint import patience
from nbcheckpoint.whose import package_of

_SIGNALS = tuple(set(map(int, signal.valid_signals())) - {signal.SIGINT, patience.WAKING})
"""Those that are nobody's but the user's."""
_IPYTHONS_BUILTINS = frozenset({"_", "input", "getpass", "exit", "quit", "get_ipython", "display", "dreload"})
"""It puts these in and takes them out around every cell."""
_LIBRARY_THREADS = ("tqdm", "joblib", "loky", "multiprocessing", "threadpoolctl", "zmq")
"""Libraries whose helper threads stay on when their work is done, and hold nothing of the user's. The kernel's own zmq
starts one when something large is shown for the first time."""
_LIBRARY_HANDLERS = ("torch.utils.data.",)
"""Modules that have a handler of their own put in place by whoever first needs it, in every process: the data loader's
looks after its workers, and calls the one that was there."""


class Around(NamedTuple):
    """Everything there is around a statement."""

    folder: str
    environment: dict[Any, Any]
    path: tuple[str, ...]
    handlers: tuple[Any, ...]
    threads: set[int | None]
    tasks: set[int]
    patched: tuple[Any, ...]


def look() -> Around:
    names = {name: value for name, value in vars(builtins).items() if name not in _IPYTHONS_BUILTINS}
    patched = tuple(names), array("Q", map(id, names.values())).tobytes()
    try:
        tasks = {id(task) for task in asyncio.all_tasks()}
    except RuntimeError:  # no loop is running
        tasks = set()
    environment = dict(getattr(os.environ, "_data", os.environ))  # as it is: decoding it takes longer than comparing
    handlers = tuple(map(_signal.getsignal, _SIGNALS))
    return Around(os.getcwd(), environment, tuple(sys.path), handlers, set(_threads()), tasks, patched)


def change(before: Around, after: Around, set_by_imports: Collection[str] = ()) -> str:
    """What a statement has done to it, in words; nothing if it is as it was.

    Variables of the environment that a library has set when it was imported do not count: it does so whenever it is.
    """
    return ", ".join(_changes(before, after, set_by_imports))


def _changes(before: Around, after: Around, set_by_imports: Collection[str]) -> Iterator[str]:
    if before.folder != after.folder:
        yield "it changed the working directory"
    changed = {os.fsdecode(name) for name, _ in before.environment.items() ^ after.environment.items()}
    if changed - set(set_by_imports):
        names = sorted(changed - set(set_by_imports))
        yield f"it changed the environment ({', '.join(names[:3])}{', …' if names[3:] else ''})"
    if before.path != after.path:
        yield "it changed the import path (sys.path)"
    if any(map(_is_another_handler, before.handlers, after.handlers)):
        yield "it changed how signals are handled"
    if before.threads != after.threads:
        started = [t.name for t in threading.enumerate() if t.ident in after.threads - before.threads]
        yield f"it left a thread running ({', '.join(started[:3])})" if started else "a thread has ended meanwhile"
    if before.tasks != after.tasks:
        yield "it left a task running" if after.tasks - before.tasks else "a task has ended meanwhile"
    if before.patched != after.patched:
        yield "it changed builtins"


def _is_another_handler(before: Any, after: Any) -> bool:
    of = getattr(after, "__module__", None)
    return bool(before != after) and not (isinstance(of, str) and of.startswith(_LIBRARY_HANDLERS))


def _threads() -> Iterator[int | None]:
    """Those that may do something, and are neither ours nor a library's."""
    own = ("nbcheckpoint", "IPythonHistorySavingThread")
    frames: dict[int, Any] = {}
    for thread in threading.enumerate():
        target = getattr(thread, "_target", None)
        of = {package_of(type(thread)), package_of(target)}
        if thread.name.startswith(own) or not of.isdisjoint(_LIBRARY_THREADS):
            continue
        if target is not None and of & _POOLS:
            frames = frames or sys._current_frames()
            if _is_idle(thread, target, frames.get(thread.ident or 0)):
                continue
        yield thread.ident


_POOLS = frozenset({"concurrent", "asyncio"})


def _is_idle(thread: threading.Thread, target: Any, frame: Any) -> bool:
    """A worker of a pool that waits for work, or a loop that waits for tasks, as libraries keep them (dask, fsspec).
    Whose work they will do is held by somebody else, and if that is a variable, it is named: it cannot be pickled."""
    where = (frame.f_globals.get("__name__", ""), frame.f_code.co_name) if frame is not None else ("", "")
    if where == ("concurrent.futures.thread", "_worker"):
        queues = [queue for queue in getattr(thread, "_args", ()) if isinstance(queue, SimpleQueue)]
        return all(queue.empty() for queue in queues)
    loop = getattr(target, "__self__", None)
    waits = where[0] == "selectors" and isinstance(loop, asyncio.AbstractEventLoop)
    return waits and not asyncio.all_tasks(loop)

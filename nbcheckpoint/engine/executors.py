"""Where bodies run: here, in threads, or in other processes.

Anything with `submit(function, *args)` that returns a future will do. What matters is whether it is another process:
then the function and its arguments travel as bytes, and the *worker* saves the result and writes the completion
itself, so that nothing in flight is lost when this process dies. Its own retries must be off.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from nbcheckpoint.errors import UsageError
from nbcheckpoint.store import Store

_THREADS: list[ThreadPoolExecutor] = []


def threads() -> ThreadPoolExecutor:
    """The pool for steps that are submitted without one."""
    if not _THREADS:
        _THREADS.append(ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4), thread_name_prefix="nbcheckpoint-step"))
    return _THREADS[0]


def is_elsewhere(executor: Any) -> bool:
    """Does it run things in another process?"""
    if isinstance(executor, ThreadPoolExecutor):
        return False
    if isinstance(executor, ProcessPoolExecutor):
        return True
    return type(executor).__module__.partition(".")[0] in ("loky", "joblib", "distributed", "dask", "ray", "mpi4py")


def check(executor: Any, store: Store) -> Executor:
    """Raises UsageError for what cannot run steps, or not with this store."""
    if not callable(getattr(executor, "submit", None)):
        raise UsageError(
            f"{executor!r} cannot run steps", hint="give something with submit(), as concurrent.futures has"
        )
    if is_elsewhere(executor) and store.url.startswith("memory:"):
        raise UsageError(
            "another process cannot reach a store in memory",
            hint="use a folder as the store, or threads as the executor",
        )
    found: Executor = executor
    return found


def capacity(executor: Any) -> int:
    """How many bodies it runs at once."""
    known = getattr(executor, "_max_workers", None)
    return known if isinstance(known, int) and known > 0 else os.cpu_count() or 1

"""What is over, or at rest, and can be made again as such.

Pickle refuses locks, executors, futures, files, connections and threads because they are alive. Most of those that a
notebook holds are not: `with ProcessPoolExecutor() as pool:` leaves an executor that takes no more work, `with open(…)
as file:` a file that is closed, an object made for several threads has a lock that nobody holds. Another one in the
same state cannot be told from it. What is alive is refused, and named.

And so is an object of a library's that has a lock or the like of its own, unless it says how it is pickled. Whoever
wrote it has not meant it to be: it stands for something outside, a database or a service.
"""

from __future__ import annotations

import copyreg
import io
import mmap
import os
import pickle
import queue
import sys
import threading
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from nbcheckpoint import bars
from nbcheckpoint.whose import home_of, is_user_code, package_of

_PICKLES = frozenset({"__reduce__", "__reduce_ex__", "__getstate__"})
Reducer = Callable[[Any], Any]
_FOR_THREADS = frozenset({"_thread", "threading", "_queue", "queue", "multiprocessing.pool", "multiprocessing.queues"})
_FOR_THREADS |= {f"concurrent.futures.{name}" for name in ("_base", "thread", "process")}
_GONE = "TERMINATE"
"""The state of a pool of processes that will never work again."""


def reducers() -> dict[type, Reducer]:
    """For exactly these types. Each returns what `__reduce_ex__` would, or raises PicklingError."""
    return {**_of(tuple(module in sys.modules for module in _LATER)), **bars.reducers()}


def live_part(obj: Any) -> str:
    """The attribute by which an object of a library's shows that it is no mere data; nothing if there is none.

    If the user has made a class of their own out of it, what their methods name is theirs.
    """
    kind: type = type(obj)
    if not may_be_at_work(kind):
        return ""
    own = _named_by_user(kind)
    found = (name for name, value in _attributes(obj) if home_of(type(value)) in _FOR_THREADS and name not in own)
    return next(found, "")


def _attributes(obj: Any) -> Iterator[tuple[str, Any]]:
    kind: Any = type(obj)
    attributes = getattr(obj, "__dict__", None)
    if type(attributes) is dict:
        yield from ((str(name), value) for name, value in attributes.items())
    for name in _slots_of(kind):
        yield name, getattr(obj, name, None)


@lru_cache(maxsize=4096)
def _slots_of(kind: Any) -> tuple[str, ...]:
    own = types.MemberDescriptorType
    return tuple(name for cls in type.mro(kind) for name, member in vars(cls).items() if type(member) is own)


@lru_cache(maxsize=4096)
def _named_by_user(kind: Any) -> frozenset[str]:
    members = (member for cls in type.mro(kind) if is_user_code(cls) for member in vars(cls).values())
    return frozenset(n for m in members if isinstance(m, types.FunctionType) for n in m.__code__.co_names)


@lru_cache(maxsize=4096)
def may_be_at_work(kind: Any) -> bool:
    """Is it a library's, or made out of one, and has nobody said how its instances are pickled?"""
    classes = type.mro(kind)[:-1]
    if not any(map(_is_of_library, classes)):
        return False
    return kind not in copyreg.dispatch_table and not any(_PICKLES & vars(cls).keys() for cls in classes)


def _is_of_library(cls: type) -> bool:
    package = package_of(cls)
    return not (is_user_code(cls) or package in sys.stdlib_module_names or package in ("numpy", "pandas"))


def is_sealed(kind: type) -> bool:
    """Is what an instance holds none of the user's, and not kept? It leads nowhere."""
    return reducers().get(kind) in _SEALED


@lru_cache
def _of(loaded: tuple[bool, ...]) -> dict[type, Reducer]:
    """With those of modules that are there: nobody has to wait for what nobody uses."""
    there = (module for module, is_there in zip(_LATER, loaded, strict=True) if is_there)
    later = {getattr(sys.modules[module], name): how for module in there for name, how in _LATER[module].items()}
    return {**_ALWAYS, **later}


def _lock(lock: Any) -> Any:
    if lock.locked():
        raise pickle.PicklingError("a lock that somebody holds")
    return threading.Lock, ()


def _rlock(lock: Any) -> Any:
    if lock._is_owned() or not lock.acquire(blocking=False):
        raise pickle.PicklingError("a lock that somebody holds")
    lock.release()
    return threading.RLock, ()


def _simple_queue(waiting: Any) -> Any:
    if not waiting.empty():
        raise pickle.PicklingError("a queue that is not empty")
    return queue.SimpleQueue, ()


def _future(future: Any) -> Any:
    if not future.done():
        raise pickle.PicklingError("work that is not done")
    error = None if future.cancelled() else future.exception()
    result = None if error is not None or future.cancelled() else future.result()
    return _make_future, (type(future), future.cancelled(), error, result)


def _make_future(kind: Any, cancelled: bool, error: BaseException | None, result: Any) -> Any:
    made = kind()
    if cancelled:
        made.cancel()
        made.set_running_or_notify_cancel()
    elif error is not None:
        made.set_exception(error)
    else:
        made.set_result(result)
    return made


def _threads(executor: Any) -> Any:
    if not executor._shutdown or any(thread.is_alive() for thread in executor._threads):
        raise pickle.PicklingError("an executor that is still working")
    return _make_executor, (type(executor), executor._max_workers)


def _processes(executor: Any) -> Any:
    if not executor._shutdown_thread or executor._processes:
        raise pickle.PicklingError("an executor that is still working")
    return _make_executor, (type(executor), executor._max_workers)


def _make_executor(kind: Any, workers: int) -> Any:
    made = kind(workers)
    made.shutdown()
    return made


def _pool(pool: Any) -> Any:
    if pool._state != _GONE or any(process.is_alive() for process in pool._pool):
        raise pickle.PicklingError("a pool that is still working")
    return _make_pool, (type(pool),)


def _make_pool(kind: Any) -> Any:
    """One that was never started, and says what one says that was: that it does not run."""
    made = kind.__new__(kind)
    made.__dict__.update(_state=_GONE, _pool=[], _cache={}, _terminate=_nothing)
    made._worker_handler = made._task_handler = made._result_handler = _make_thread("", daemon=True)
    return made


def _nothing() -> None:
    pass


def _thread(thread: threading.Thread) -> Any:
    if thread.ident is None or thread.is_alive():
        raise pickle.PicklingError("a thread that has not come to its end")
    return _make_thread, (thread.name, thread.daemon)


def _make_thread(name: str, daemon: bool) -> threading.Thread:
    made = threading.Thread(name=name or None, daemon=daemon)
    made.start()
    made.join()
    return made


def _file(file: Any) -> Any:
    if not file.closed:
        raise pickle.PicklingError("an open file")
    raw = _raw(file)
    if type(raw) is not io.FileIO:
        raise pickle.PicklingError("a file")
    of_text = (file.encoding, file.errors) if type(file) is io.TextIOWrapper else None
    return _make_file, (type(file), raw.name, raw.mode, of_text, dict(vars(file)))


def _raw(file: Any) -> Any:
    file = file.buffer if type(file) is io.TextIOWrapper else file
    return file.raw if type(file) in _BUFFERED else file


def _make_file(kind: Any, name: Any, mode: str, of_text: tuple[str, str] | None, attributes: dict[str, Any]) -> Any:
    mode = mode.replace("x", "w")
    encoding, errors = of_text or (None, None)
    opened: Any = io.FileIO(os.devnull, mode) if kind is io.FileIO else None
    with opened or open(
        os.devnull, mode.replace("b", "") if of_text else mode, encoding=encoding, errors=errors
    ) as made:
        pass
    _raw(made).name = name
    vars(made).update(attributes)
    return made


def _temporary(file: Any) -> Any:
    """A file with a name of its own, which is gone."""
    if not file.file.closed:
        raise pickle.PicklingError("an open file")
    return _make_temporary, (type(file), file.file, file.name)


def _make_temporary(kind: Any, file: Any, name: str) -> Any:
    return kind(file, name, delete=False)


def _mapping(mapped: Any) -> Any:
    if not mapped.closed:
        raise pickle.PicklingError("a file that is mapped into memory")
    return _make_mapping, ()


def _make_mapping() -> Any:
    with mmap.mmap(-1, 1) as made:
        return made


def _database(connection: Any) -> Any:
    try:
        connection.total_changes  # noqa: B018  # there is no other way to ask whether it is closed
    except sys.modules["sqlite3"].ProgrammingError:
        return _make_database, ()
    raise pickle.PicklingError("an open connection")


def _make_database() -> Any:
    import sqlite3

    made = sqlite3.connect(":memory:")
    made.close()
    return made


def _hdf5(file: Any) -> Any:
    if file:
        raise pickle.PicklingError("an open file")
    return _make_hdf5, (type(file),)


def _make_hdf5(kind: Any) -> Any:
    with kind("closed", "w", driver="core", backing_store=False) as made:
        return made


_BUFFERED = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
_ALWAYS: dict[type, Reducer] = {
    type(threading.Lock()): _lock,
    type(threading.RLock()): _rlock,
    queue.SimpleQueue: _simple_queue,
    threading.Thread: _thread,
    mmap.mmap: _mapping,
    **dict.fromkeys((io.TextIOWrapper, io.FileIO, *_BUFFERED), _file),
}
_LATER: dict[str, dict[str, Reducer]] = {
    "concurrent.futures._base": {"Future": _future},
    "concurrent.futures.thread": {"ThreadPoolExecutor": _threads},
    "concurrent.futures.process": {"ProcessPoolExecutor": _processes},
    "multiprocessing.pool": {"Pool": _pool, "ThreadPool": _pool},
    "sqlite3": {"Connection": _database},
    "tempfile": {"_TemporaryFileWrapper": _temporary},
    "h5py._hl.files": {"File": _hdf5},
}
_SEALED = frozenset({_threads, _processes, _pool, _thread, _file, _temporary, _mapping, _database, _hdf5})

"""What is over or at rest comes back as such; what is alive is refused, and named."""

from __future__ import annotations

import importlib
import io
import multiprocessing
import multiprocessing.pool
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.store import open_store
from tests.unit.test_faithful import DRAFT, restored


def again(value: Any) -> Any:
    """What comes back, and is known to be the same."""
    found = restored(x=value)["x"]
    assert Digester().digest("x", found) == Digester().digest("x", value)
    return found


def refused(value: Any) -> str:
    with pytest.raises(Unidentified):
        Digester().digest("x", value)
    with open_store("memory://") as store:
        (problem,) = store.save(DRAFT, {"x": value}).checkpoint.not_saved
        return problem.why


class Counter:
    """As people write them who use threads."""

    def __init__(self) -> None:
        self.lock, self.ready, self.again = threading.Lock(), threading.Condition(), threading.RLock()
        self.done, self.places, self.n = threading.Event(), threading.Semaphore(3), 0


def test_a_lock_that_nobody_holds_is_another_one_nobody_holds() -> None:
    counter = Counter()
    counter.done.set()
    counter.places.acquire()
    found = again(counter)
    assert not found.lock.locked()
    assert found.done.is_set()
    with found.ready, found.again, found.lock:
        found.ready.notify()
    assert [found.places.acquire(blocking=False) for _ in range(3)] == [True, True, False]


def test_who_shares_a_lock_goes_on_sharing_it() -> None:
    lock = threading.Lock()
    found = restored(a=[lock], b={"lock": lock})
    assert found["a"][0] is found["b"]["lock"]


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_one_that_is_held_is_refused(make: Callable[[], Any]) -> None:
    with make() as _, make() as _:
        pass
    lock = make()
    with lock:
        assert refused(lock) == "a lock that somebody holds"
    again(lock)
    with lock:  # it is free again
        pass


def test_one_that_another_thread_holds_is_refused() -> None:
    lock, held, go = threading.RLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            go.wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait()
    assert refused(lock) == "a lock that somebody holds"
    assert refused(thread) == "a thread that has not come to its end"
    go.set()
    thread.join()
    again(lock)
    found = again(thread)
    assert (found.name, found.is_alive(), found.join()) == (thread.name, False, None)


def test_queues_come_back_with_what_is_in_them() -> None:
    waiting: queue.Queue[int] = queue.Queue(5)
    waiting.put(1)
    waiting.put(2)
    found = again(waiting)
    assert (found.get(), found.get_nowait(), found.empty(), found.maxsize) == (1, 2, True, 5)
    again(queue.SimpleQueue())
    full: queue.SimpleQueue[int] = queue.SimpleQueue()
    full.put(1)
    assert refused(full) == "a queue that is not empty"


@pytest.mark.parametrize("make", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_that_is_shut_down_takes_no_more_work(make: Any) -> None:
    with make(2) as executor:
        tasks = [executor.submit(abs, n) for n in (-1, -2)]
        assert [task.result() for task in tasks] == [1, 2]
        assert refused(executor) == "an executor that is still working"
    found = restored(executor=executor, tasks=tasks)
    assert [task.result() for task in found["tasks"]] == [1, 2]
    with pytest.raises(RuntimeError, match="after shutdown"):
        found["executor"].submit(abs, 1)
    again(executor)
    again(tasks)


@pytest.mark.parametrize("make", [multiprocessing.pool.ThreadPool, multiprocessing.get_context("spawn").Pool])
def test_a_pool_that_is_gone_does_not_run(make: Any) -> None:
    with make(1) as pool:
        assert pool.map(abs, [-1]) == [1]
        assert refused(pool) == "a pool that is still working"
    pool.join()
    found = again(pool)
    with pytest.raises(ValueError, match="not running"):
        found.map(abs, [1])
    found.terminate()
    found.join()


def test_a_future_keeps_its_error_or_that_it_was_cancelled() -> None:
    failed: Future[int] = Future()
    failed.set_exception(KeyError("k"))
    assert repr(again(failed).exception()) == "KeyError('k')"
    cancelled: Future[int] = Future()
    cancelled.cancel()
    assert again(cancelled).cancelled()
    assert refused(Future()) == "work that is not done"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "text.txt"
    path.write_bytes(b"one\ntwo\n")
    yield path
    assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("mode", ["r", "rb", "r+", "a", "ab", "r+b"])
def test_a_closed_file_is_one(path: Path, mode: str) -> None:
    file: Any
    with open(path, mode) as file:
        assert refused(file) == "an open file"
    found = again(file)
    assert type(found) is type(file)
    assert (found.closed, found.name, found.mode) == (True, file.name, file.mode)
    assert getattr(found, "encoding", "") == getattr(file, "encoding", "")
    with pytest.raises(ValueError, match="closed file"):
        found.seek(0)


def test_a_closed_raw_file_is_one(path: Path) -> None:
    with io.FileIO(str(path)) as file:
        pass
    assert again(file).name == str(path)


CLIENTS = """
import threading

class Client:
    def __init__(self):
        self._lock, self.address = threading.Lock(), "there"

class Slotted:
    __slots__ = ("_lock", "address")
    __init__ = Client.__init__
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Installed, as far as anybody can tell."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "library_with_clients.py").write_text(CLIENTS)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    yield importlib.import_module("library_with_clients")
    del sys.modules["library_with_clients"]


def test_what_stands_for_something_outside_is_refused_in_a_class_of_ones_own_too(library: Any) -> None:
    class Mine(library.Client):  # type: ignore[misc]  # made by the fixture
        def __init__(self) -> None:
            super().__init__()
            self.n = 1

    class Careful(library.Client):  # type: ignore[misc]  # made by the fixture
        def __init__(self) -> None:
            super().__init__()
            self.address, self._lock = "here", threading.Lock()

    for refused_one in (library.Client(), library.Slotted(), Mine()):
        assert refused(refused_one) == "it is at work: it has a _lock"
    assert refused([Mine(), Mine()]) == "it is at work: it has a _lock"
    assert again(Careful()).address == "here"


def test_a_class_of_ones_own_made_from_a_library_s_still_shares_its_attributes(library: Any) -> None:
    class Mine(library.Client):  # type: ignore[misc]  # made by the fixture
        def __init__(self) -> None:
            self.n = 1

    one = Mine()
    found = restored(a=one, b=vars(one))
    found["b"]["n"] = 2
    assert found["a"].n == 2

"""What a statement does to its surroundings: most of it cannot be brought back, some of it need not be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow

LIBRARY = """
import os, threading
from concurrent.futures import ThreadPoolExecutor

os.environ["LIBRARY_CACHE"] = "here"
_pool = ThreadPoolExecutor(2)

def work(n):
    return sum(_pool.map(int, range(n)))

class Client:
    def __init__(self):
        self._lock, self.n = threading.Lock(), 0

class Saying(Client):
    def __getstate__(self):
        return {"n": self.n}
    def __setstate__(self, state):
        self.__init__()
        self.__dict__.update(state)

def configure():
    os.environ["LIBRARY_MODE"] = "fast"
    return 1
"""
USE = "def use(n):\n    import library_of_others\n    return library_of_others.work(n)"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """With a library that sets a variable when it is imported, and keeps threads for later."""
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "library_of_others.py").write_text(LIBRARY)
    with Kernel(tmp_path, env={"PYTHONPATH": str(installed)}) as kernel:
        kernel.run("%load_ext nbcheckpoint")
        yield kernel


def again(kernel: Kernel) -> None:
    kernel.kill()
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")


def test_a_library_that_is_imported_on_the_way_does_not_keep_a_result_from_being_saved(kernel: Kernel) -> None:
    """The first optimizer of torch sets TORCHINDUCTOR_CACHE_DIR, the first frame of dask starts threads. Whatever was
    first to do so was not saved, and may have taken hours."""
    kernel.run(USE)
    first = kernel.run("%%checkpointed\nx = use(10)")
    assert "not saved" not in first.line
    again(kernel)
    kernel.run(USE)
    assert kernel.run("%%checkpointed\nx = use(10)").status == "restored"
    assert kernel.run("x").result == "45"


def test_nor_a_loop_from_going_on(kernel: Kernel) -> None:
    kernel.run(USE)
    shown = kernel.run("%%checkpointed --every 1\nfor i in range(4):\n    x = use(i)\n    assert i != 2", fails=True)
    assert "the loop goes on at 3 of 4" in shown.line


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("import library_of_others as lib\nx = lib.configure()", "it changed the environment (LIBRARY_MODE)"),
        ("x = os.environ.setdefault('MINE', '1')", "it changed the environment (MINE)"),
        ("x = [use(3), os.environ.update(LIBRARY_CACHE='there')]", "it changed the environment (LIBRARY_CACHE)"),
        ("x = pool.submit(gate.wait) and 1", "it left a thread running (ThreadPoolExecutor-0_0)"),
        ("x = os.chdir('lib')", "it changed the working directory"),
        ("x = sys.path.append('lib')", "it changed the import path (sys.path)"),
        ("x = signal.signal(signal.SIGUSR2, signal.SIG_IGN) and 1", "it changed how signals are handled"),
    ],
)
def test_it_says_what_a_statement_has_changed(kernel: Kernel, cell: str, why: str) -> None:
    kernel.run(f"import os, sys, signal, threading, concurrent.futures\n{USE}")
    kernel.run("pool, gate = concurrent.futures.ThreadPoolExecutor(1), threading.Event()")
    assert f"not saved: {why}" in kernel.run(f"%%checkpointed\n{cell}").line
    kernel.run("gate.set()")


def test_an_object_of_a_library_with_a_lock_of_its_own_is_no_data(kernel: Kernel) -> None:
    """An engine of SQLAlchemy that came back from a pickle knew nothing of its database. So what it is asked is asked
    again. But a library that says how its objects are pickled knows what it does."""
    kernel.run("import library_of_others as lib")
    cells = [f"%%checkpointed\nclient = lib.{kind}()" for kind in ("Client", "Saying")]
    refused = kernel.run(cells[0])
    assert "not saved: client (library_of_others.Client: it is at work: it has a _lock)" in refused.line
    asked = "%%checkpointed\nn = client.n"
    kernel.run(asked)
    assert "input client cannot be identified (Client is at work: it has a _lock)" in kernel.run(asked).line
    assert "not saved" not in kernel.run(cells[1]).line
    kernel.run(asked)
    assert kernel.run(asked).status == "restored"

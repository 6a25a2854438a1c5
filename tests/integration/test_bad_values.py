"""Values and options that make trouble: one clear line, the user's code unharmed, everything else saved."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow

SETUP = """%load_ext nbcheckpoint
import threading, time
class BadReduce:
    def __reduce__(self): raise RuntimeError("no pickles")
class BadState:
    def __getstate__(self): raise RuntimeError("no state")
class BadRepr:
    def __repr__(self): raise RuntimeError("no repr")
class BadEq:
    def __eq__(self, other): raise RuntimeError("no comparing")
    __hash__ = None
class BadHash:
    def __hash__(self): raise RuntimeError("no hash")
class BadAttributes:
    def __getattr__(self, name): raise RuntimeError("no attributes")
class EndlessRepr:
    def __repr__(self):
        while True: pass
class EndlessEq:
    def __eq__(self, other):
        while True: pass
    def __hash__(self):
        while True: pass
class EndlessReduce:
    def __reduce__(self):
        while True: pass
class WaitingReduce:
    def __reduce__(self): threading.Event().wait()
class SleepingReduce:
    def __reduce__(self): time.sleep(1e6)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("bad")) as made:
        made.run(SETUP)
        made.run("from nbcheckpoint import patience\npatience.SECONDS = 1.0")
        yield made


@pytest.mark.parametrize("name", ["BadRepr", "BadEq", "BadHash", "EndlessRepr", "EndlessEq"])
def test_what_we_need_not_call_does_no_harm(kernel: Kernel, name: str) -> None:
    cell = f"%%checkpointed\nv_{name} = [{name}()]\nn_{name} = len(v_{name})"
    assert f"saved v_{name}, n_{name}" in kernel.run(cell).line
    kernel.run(f"del v_{name}, n_{name}")
    assert kernel.run(cell).status == "restored"
    assert kernel.run(f"type(v_{name}[0]).__name__, n_{name}").result == f"('{name}', 1)"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("BadReduce", "RuntimeError: no pickles"),
        ("BadState", "RuntimeError: no state"),
        ("EndlessReduce", "its pickling does not come to an end"),
        ("WaitingReduce", "its pickling does not come to an end"),
        ("SleepingReduce", "its pickling does not come to an end"),
    ],
)
def test_what_cannot_be_pickled_is_named_and_the_rest_is_saved(kernel: Kernel, name: str, why: str) -> None:
    shown = kernel.run(f"%%checkpointed\nv_{name} = [{name}()]\ngood_{name} = 5")
    assert f"saved good_{name}" in shown.line
    assert f"not saved: v_{name} ({name} at v_{name}[0]: {why})" in shown.line
    after = kernel.run(f"%%checkpointed\nn_{name} = len(v_{name})")
    assert f"input v_{name} cannot be identified" in after.line
    assert kernel.run(f"n_{name}, good_{name}").result == "(1, 5)"


def test_an_object_that_answers_everything_with_an_error(kernel: Kernel) -> None:
    cell = "%%checkpointed\nv_rude = [BadAttributes()]\nn_rude = len(v_rude)"
    for _ in range(2):
        kernel.run(cell)
        assert kernel.run("type(v_rude[0]).__name__, n_rude").result == "('BadAttributes', 1)"


def test_a_loop_with_something_endless_runs_to_its_end(kernel: Kernel) -> None:
    cell = "%%checkpointed --every 1\nfor i in range(3):\n    held = EndlessReduce()\n    t = i"
    assert "its pickling does not come to an end" in kernel.run(cell).line
    assert kernel.run("i, t").result == "(2, 2)"


def test_nothing_of_the_watcher_is_left_for_the_users_code(kernel: Kernel) -> None:
    """What takes long when it is its turn is the user's own business."""
    shown = kernel.run(
        "%%checkpointed\nimport time\nfrom nbcheckpoint import patience\n"
        "def long():\n    until = time.monotonic() + 2 * patience.SECONDS + 1\n"
        "    while time.monotonic() < until: pass\n    return 'done'\nlong_done = long()\nlong_done"
    )
    assert shown.result == "'done'"


def test_structures_that_contain_themselves_and_deep_ones(kernel: Kernel) -> None:
    cell = (
        "%%checkpointed\nrec = [1]\nrec.append(rec)\nd = {}\nd['d'] = d\ndeep = []\nfor _ in range(5000): deep = [deep]"
    )
    shown = kernel.run(cell)
    assert "not saved: deep" in shown.line
    assert "nested too deeply to be pickled" in shown.line
    kernel.run("del rec, d, deep")
    kernel.run(cell)
    assert kernel.run("rec[1] is rec, d['d'] is d, len(deep)").result == "(True, True, 1)"


def test_twenty_thousand_variables(kernel: Kernel) -> None:
    kernel.run("globals().update({f'many_{i}': [i] for i in range(20_000)})")
    cell = "%%checkpointed\nsome = [many_5, many_6]\nmany_7.append(1)\nsmall = 3"
    started = time.monotonic()
    assert kernel.run(cell).status == "computed"
    kernel.run("del some, small\nmany_7.pop()")
    assert kernel.run(cell).status == "restored"
    assert kernel.run("some[0] is many_5, many_7, small").result == "(True, [7, 1], 3)"
    assert time.monotonic() - started < 60, "not more than a walk over all of them, a few times"
    kernel.run("for i in range(20_000): del globals()[f'many_{i}']")


def test_a_variable_of_ten_gigabytes(kernel: Kernel) -> None:
    """Nobody makes a second copy of it, and nobody loads it for the sake of another one."""
    # In kB, of this very process: `ru_maxrss` begins with what the one had that started it.
    peak = "int(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    kernel.run("import numpy as np")
    cell = kernel.run("%%checkpointed large --force\nbig = np.zeros(10 * 2**27); total = float(big[-1]) + 7")
    assert "saved big, total" in cell.line, cell.line
    kernel.run("%checkpoint auto")
    assert kernel.run("total += float(big[3])").line == "", "quick, whatever it reads"
    assert int(kernel.run(peak).result) < 1_000_000
    kernel.kill()
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")
    run = kernel.run("import nbcheckpoint as nbc; nbc.open_store().runs()[0].id").result.strip("'")
    kernel.run(f"%checkpoint restore {run} --names total")
    assert kernel.run("total, 'big' in globals()").result == "(7.0, False)"
    assert int(kernel.run(peak).result) < 1_000_000


def test_a_name_that_does_not_exist_in_save_is_told(kernel: Kernel) -> None:
    shown = kernel.run("%%checkpointed --save there,not_there\nthere = 1\nthere")
    assert shown.result == "1"
    assert "--save names not_there, which does not exist" in shown.line


def test_a_logger_that_fills_a_variable_goes_on_filling_it(kernel: Kernel) -> None:
    """pickle writes its name: what came next went to another buffer than the variable's, in a format that was set in a
    copy of the handler."""
    setup = (
        "%load_ext nbcheckpoint\nimport io, logging\nbuffer = io.StringIO()\nlog = logging.getLogger('mine')\n"
        "handler = logging.StreamHandler(buffer)\nlog.addHandler(handler)"
    )
    form = "%%checkpointed\nhandler.setFormatter(logging.Formatter('> %(message)s'))"
    first = "%%checkpointed\nlog.warning('first')"
    for _ in range(2):
        kernel.run(setup)
        kernel.run(form)
        kernel.run(first)
        assert kernel.run("log.warning('second')\nbuffer.getvalue()").result == "'> first\\n> second\\n'"
        assert kernel.run("handler in log.handlers and handler.stream is buffer").result == "True"
        kernel.restart()


def test_a_figure_that_stays_open_from_cell_to_cell_is_drawn_on_and_asked_again(kernel: Kernel) -> None:
    """So it is with any backend but the inline one: what is asked of it was restored though another curve was drawn."""
    pytest.importorskip("matplotlib")
    cells = (
        "plt.figure()\nplt.plot([1, 2])",
        "for at in range(3):\n    plt.plot([height, at])",
        "drawn = [float(line.get_ydata()[0]) for line in plt.gca().lines]",
    )
    for height in (5, 5, 6):
        kernel.run("%load_ext nbcheckpoint\nimport matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt")
        kernel.run(f"height = {height}")
        for cell in cells:
            kernel.run(f"%%checkpointed\n{cell}")
        assert kernel.run("drawn").result == f"[1.0, {height}.0, {height}.0, {height}.0]"
        kernel.restart()

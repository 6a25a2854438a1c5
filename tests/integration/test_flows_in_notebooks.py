"""Flows in real kernels: killed, paused, answered, and gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbcheckpoint.store import open_store
from tests.integration.test_timetravel import write_notebook
from tests.integration.test_words import data, refused
from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

LOAD = "%load_ext nbcheckpoint\nimport nbcheckpoint as nbc"
STEPS = """
import os, time
@nbc.step
def load(path):
    os.system("echo load >> ran")
    return list(range(5))
@nbc.step
def clean(x):
    os.system(f"echo clean{x} >> ran")
    if x == 3:
        print("at three", flush=True)
        while not os.path.exists("alive"):
            time.sleep(0.01)
    return x * 10
@nbc.flow
def pipeline(path):
    parts = clean.map(load(path))
    if nbc.pause("Train?", name="gate", choices=["yes", "no"]) == "yes":
        return sum(parts)
"""


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split()


@pytest.fixture
def kernel(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Kernel(tmp_path) as made:
        made.run(LOAD)
        yield made


def test_a_flow_killed_in_its_kernel_goes_on_in_the_next(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(STEPS)
    kernel.start_cell("pipeline('a.csv')", until="at three")
    with open_store(tmp_path / ".nbcheckpoint") as store:
        while sum(step.kind == "item" for step in store.runs()[0].steps(inner=True)) < 3:
            pass  # quick items are committed several times a second, not each by itself
    kernel.kill()
    assert ran(tmp_path) == ["load", "clean0", "clean1", "clean2", "clean3"]
    (tmp_path / "alive").touch()
    with Kernel(tmp_path) as again:
        again.run(LOAD)
        again.run(STEPS)
        paused = again.run("result = pipeline('a.csv')", fails=True)
        assert ran(tmp_path)[5:] == ["clean3", "clean4"]
        assert paused.error == "Paused"
        assert "paused at 'gate': Train? (yes / no)" in paused.traceback[0]
        assert len(paused.traceback) == 2, "no wall of a traceback"
        run = again.run("nbc.open_store().runs(limit=1)[0].id").result.strip("'")
        again.run(f"%checkpoint answer {run[-6:]} gate yes")
        again.run("result = pipeline('a.csv')")
        assert again.run("result").result == "100"
        assert "answered already" in refused(again, f"answer {run} gate no")


def test_a_pause_in_a_plain_cell(kernel: Kernel) -> None:
    asking = "said = nbc.pause('Which?', name='which', choices=['a', 'b'])"
    first = kernel.run(asking, fails=True)
    assert "paused at 'which'" in first.traceback[0]
    assert "run this cell again" in first.traceback[1]
    run = kernel.run("nbc.open_store().runs(limit=1)[0].id").result.strip("'")
    kernel.run(f"%checkpoint answer {run} which b")
    kernel.run(asking)
    assert kernel.run("said").result == "'b'"
    kernel.run("%checkpoint status")
    kernel.run("%checkpoint plan")


REVIEW = """
@nbc.step
def review(n):
    print("reviewing", n)
    return nbc.pause("Good?", name="gate", choices=["yes", "no"])
"""


@pytest.mark.parametrize(
    "cell",
    [
        "review(1)",
        "review.map([1], progress=False)[0]",
        "%%checkpointed\nreview(1)",
        "%%checkpointed\nnbc.pause('Good?', name='gate')",
    ],
)
def test_outside_of_a_flow_an_answer_is_one_for_the_run_of_the_notebook(kernel: Kernel, cell: str) -> None:
    """A kernel that died is gone on with, and so is what was answered; one that was restarted asks."""
    for answer in ("yes", "no"):
        kernel.run(REVIEW)
        assert kernel.run(cell, fails=True, id="asking").error == "Paused"
        kernel.run(f"with nbc.open_store() as store:\n    store.answer(store.runs()[0].id, 'gate', {answer!r})")
        assert kernel.run(cell, id="asking").result == repr(answer)
        kernel.kill()
        kernel.start()
        kernel.run(f"{LOAD}\n{REVIEW}")
        again = kernel.run(cell, id="asking")
        assert again.result == repr(answer)
        assert "reviewing" not in again.stdout or cell.startswith("%%")
        kernel.restart()
        kernel.run(LOAD)


def test_what_a_step_has_read_counts_for_the_cell_it_was_given_back_to(kernel: Kernel, tmp_path: Path) -> None:
    """A step that is not run opens no file: the cell depends on it all the same. So does one with a loop of ours."""
    kernel.run(
        "name = 'data'\n@nbc.step\ndef load(n):\n    return n, open(name + '.txt').read()\n"
        "def gather(n):\n    found = []\n    for k in nbc.loop(range(n), name='gather', state=found, every=1):\n"
        "        found.append(open(name + '.txt').read())\n    return found"
    )
    (tmp_path / "data.txt").write_text("before")
    kernel.run("load(1), gather(1), nbc.open_store().flush()")
    cell = "%%checkpointed\nx = load(1)\ny = gather(1)"
    kernel.run(cell)
    assert kernel.run("x, y").result == "((1, 'before'), ['before'])"
    (tmp_path / "data.txt").write_text("and after")
    kernel.run("x = y = 0")
    kernel.run(cell)
    assert kernel.run("x, y").result == "((1, 'and after'), ['and after'])"


def test_a_mark_stands_with_what_the_cell_leaves(kernel: Kernel) -> None:
    kernel.run("%%checkpointed\nnbc.mark(stage='validated')\nx = 1")
    kernel.run("store = nbc.open_store()\nsteps = store.runs(limit=1)[0].steps(inner=True)")
    found = kernel.run("{store.checkpoint(s.checkpoint).meta['marks']['stage'] for s in steps if s.checkpoint}").result
    assert found == "{'validated'}"


def test_policies_stand_in_the_metadata_of_the_notebook(kernel: Kernel, tmp_path: Path) -> None:
    said = {"cells": [], "metadata": {"nbcheckpoint": {"policies": {"on_failure": "continue"}}}, "nbformat": 4}
    (tmp_path / "work.ipynb").write_text(json.dumps(said))
    kernel.run("@nbc.step\ndef fail():\n    raise ValueError('no')\n@nbc.flow\ndef goes_on():\n    return [fail()]")
    assert kernel.run("goes_on()").result == "[None]"
    said["metadata"] = {}
    (tmp_path / "work.ipynb").write_text(json.dumps(said))
    assert kernel.run("goes_on()", fails=True).error == "ValueError"


def test_progress_of_a_map_is_shown_and_updated(kernel: Kernel) -> None:
    kernel.run("@nbc.step\ndef slow(x):\n    import time\n    time.sleep(0.12)\n    return x")
    cell = kernel.run("y = slow.map(range(8))")
    assert any("of 8" in str(shown) for shown in cell.displays)


def test_a_checkpointed_cell_may_call_a_flow(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "alive").touch()
    kernel.run(STEPS.replace("nbc.pause", "(lambda *a, **k: 'yes')"))
    kernel.run("%%checkpointed\nresult = pipeline('a.csv')")
    assert kernel.run("result").result == "100"
    with Kernel(tmp_path) as again:
        again.run(LOAD)
        again.run(STEPS.replace("nbc.pause", "(lambda *a, **k: 'yes')"))
        again.run("%%checkpointed\nresult = pipeline('a.csv')")
        assert again.run("result").result == "100"
    assert len(ran(tmp_path)) == 6


QUOTA = """
@nbc.step(ignore=("left",))
def ask(n, left):
    if not left:
        raise ConnectionError("come back later")
    left.pop()
    print("asked", n)
    return n
@nbc.flow(ignore=("left",))
def book(count, left):
    return [ask(n, left) for n in range(count)]
"""
FIRST = "try:\n    book.fresh(4, [0] * {})\nexcept ConnectionError as error:\n    print(error)"
THEN = "%%checkpointed\nchapters = book(4, [0] * 9)"
STATUS = "run = nbc.open_store().runs(workflow='book', limit=1)[0]\nrun.status"


def restarted(kernel: Kernel) -> Kernel:
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    kernel.run(QUOTA)
    return kernel


def test_what_went_on_with_a_run_is_no_answer_for_another_one(kernel: Kernel) -> None:
    """A cell that continued a run is restored only as long as nothing above it has begun another one."""
    kernel.run(QUOTA)
    kernel.run(FIRST.format(3))
    assert kernel.run(THEN).stdout == "asked 3\n"
    restarted(kernel)
    kernel.run(FIRST.format(2))
    again = kernel.run(THEN)
    assert again.stdout == "asked 2\nasked 3\n"
    assert "the run of book changed" in again.line
    assert kernel.run(STATUS).result == "'completed'"
    last = kernel.run(THEN)
    assert last.status == "restored", last.line


def test_what_began_a_run_has_begun_it_also_where_it_is_restored(kernel: Kernel, tmp_path: Path) -> None:
    """Killed behind a cell that was too slow to be saved, then behind the same cell that was: the next one belongs to
    the first of these runs, and is no answer for the second."""
    first = f"%%checkpointed\n{FIRST.format(3)}"
    write_notebook(tmp_path, LOAD, QUOTA, first, THEN)
    kernel.run(QUOTA)
    kernel.run(FIRST.format(3))
    assert kernel.run(THEN).status == "computed"
    restarted(kernel)
    assert kernel.run(first).status == "computed"
    restarted(kernel)
    foreseen = [(row["action"], row["reason"]) for row in data(kernel, "plan")["statements"]]
    assert foreseen == [("restore", "same code, same inputs"), ("run", "the run of book changed")]
    assert kernel.run(first).status == "restored"
    assert kernel.run(THEN).status == "computed"
    assert kernel.run(STATUS).result == "'completed'"
    restarted(kernel)
    assert [row["action"] for row in data(kernel, "plan")["statements"]] == ["restore", "restore"]
    assert kernel.run(first).status == "restored"
    assert kernel.run(THEN).status == "restored"


def test_cells_that_each_work_on_a_run_are_restored_one_after_the_other(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(QUOTA)
    first = f"%%checkpointed\n{FIRST.format(3)}"
    loop = "%%checkpointed --every 1\nfor n in range(3):\n    last = book(n, [0] * 9)"
    cells = [LOAD, QUOTA, first, THEN, first.replace("3", "1"), THEN.replace("chapters", "anew"), loop]
    write_notebook(tmp_path, *cells)
    assert [kernel.run(cell).status for cell in cells[2:]] == ["computed"] * 5
    restarted(kernel)
    foreseen = [(row["action"], row["reason"]) for row in data(kernel, "plan")["statements"]]
    assert foreseen == [("restore", "same code, same inputs")] * 5
    assert [kernel.run(cell).status for cell in cells[2:]] == ["restored"] * 5
    restarted(kernel)
    kernel.run(FIRST.format(2))
    assert kernel.run(cells[3]).status == "computed"
    assert kernel.run(loop).status == "restored", "with other inputs it is another matter"


def test_a_loop_that_goes_on_has_called_what_it_called(kernel: Kernel, tmp_path: Path) -> None:
    """The runs its iterations worked on before it was cut short stand with what it leaves in the end."""
    kernel.run(QUOTA)
    loop = (
        "%%checkpointed --every 1\nfor n in range(4):\n    done = book(n, [0] * 9)\n"
        "    while n == 2 and not os.path.exists('on'): print('here', flush=True); time.sleep(0.01)"
    )
    kernel.run("import os, time")
    kernel.start_cell(loop, until="here")
    restarted(kernel).run("import os, time")
    (tmp_path / "on").touch()
    assert "resumed" in kernel.run(loop).line
    kernel.run("book.fresh(0, [])")
    assert kernel.run(loop).status == "computed"


# What steps have shown

BOOK = """
import os, sys, time
from IPython.display import HTML, display
def hold(where):
    print(where, flush=True)
    while not os.path.exists(where):
        time.sleep(0.01)
@nbc.step
def ask(n):
    os.system("echo ask >> ran")
    sys.stdout.write(f"asked for {n}\\n")
    display(HTML(f"<b>{n}</b>"))
    sys.stderr.write("careful\\n")
    return [n]
@nbc.step
def wrap(n):
    print("wrapping")
    return ask(n)
@nbc.step(side_effects=True)
def pay(n):
    os.system("echo pay >> ran")
    print("paid", n)
    return n
@nbc.flow
def book(n, at):
    print("begin")
    found = [wrap(1), *ask.map(range(2, n), concurrency=at or None, progress=False), pay(n)]
    if os.path.exists("fails"):
        raise OSError("gone")
    hold("flow")
    return found
g = nbc.Graph("walk")
g.node("a", lambda s: print("at a") or s)
g.node("b", lambda s: print("at b") or s)
g.node("c", lambda s: print("at c") or hold("flow") or s)
g.edge("a", "b").edge("b", "c").entry("a").exit("c")
"""


def shown(cell: Cell) -> tuple[str, str, list[str]]:
    """Without the order in which threads have come."""
    ours = [one["data"]["text/html"] for one in cell.displays if "text/html" in one["data"]]
    return "\n".join(sorted(cell.stdout.split("\n"))), cell.stderr, sorted(one for one in ours if one.startswith("<b>"))


def uninterrupted(folder: Path, code: str) -> tuple[str, str, list[str]]:
    folder.mkdir()
    for name in ("flow", "behind"):
        (folder / name).touch()
    with Kernel(folder) as kernel:
        kernel.run(f"{LOAD}\n{BOOK}")
        return shown(kernel.run(code))


CALLS = {
    "found = book(5, 0)": "flow",
    "found = book(5, 2)": "flow",
    "found = g.run({})": "flow",
    "found = book(5, 0); hold('behind')": "behind",
    "%%checkpointed\nfound = book(5, 0)\nhold('behind')": "behind",
}


@pytest.mark.parametrize("code", CALLS)
def test_what_a_killed_kernel_had_shown_is_shown_again(kernel: Kernel, tmp_path: Path, code: str) -> None:
    """Once: called again after that, a flow shows nothing of what it does not run. What has effects has them once."""
    whole = uninterrupted(tmp_path / "whole", code)
    for name in ("flow", "behind")[: CALLS[code] == "behind"]:
        (tmp_path / name).touch()
    kernel.run(BOOK)
    kernel.start_cell(code, until=CALLS[code])
    kernel.kill()
    for name in ("flow", "behind"):
        (tmp_path / name).touch()
    kernel.start()
    kernel.run(f"{LOAD}\n{BOOK}")
    assert shown(kernel.run(code)) == whole
    if "book" in code:
        assert sorted(ran(tmp_path)) == ["ask"] * 4 + ["pay"]
        assert kernel.run("found").result == "[[1], [2], [3], [4], 5]"
        again = kernel.run("found = book(5, 0)" if code.startswith("%%") else code.partition(";")[0])
        assert again.stdout == "begin\npaid 5\nflow\n", "a new call is a new run"
    with open_store(tmp_path / ".nbcheckpoint") as store:
        assert not any("unshown" in run.meta for run in store.runs())


def test_what_a_stopped_cell_had_shown_is_shown_again_and_after_an_error_nothing_is(
    kernel: Kernel, tmp_path: Path
) -> None:
    whole = uninterrupted(tmp_path / "whole", "book(3, 0)")
    kernel.run(BOOK)
    request = kernel.start_cell("book(3, 0)", until="flow")
    kernel.manager.interrupt_kernel()
    assert kernel.collect(request).error == "KeyboardInterrupt"
    (tmp_path / "fails").touch()
    failed = kernel.run("book(3, 0)", fails=True)
    assert shown(failed) == (whole[0].replace("flow\n", ""), *whole[1:])
    (tmp_path / "fails").unlink()
    (tmp_path / "flow").touch()
    assert kernel.run("book(3, 0)").stdout == "begin\nflow\n"

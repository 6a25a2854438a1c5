"""A loop inside of a loop, in a real kernel killed in the middle of an outer iteration, goes on in that middle."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nbcheckpoint.notebook.history import checkpoints
from nbcheckpoint.store import open_store
from tests.integration.test_loops import SETUP, cut, uninterrupted, worked
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

EAGER = """
setattr(sys.modules["nbcheckpoint.notebook.loop"].Loop, "inner_every", 1)
setattr(sys.modules["nbcheckpoint.notebook.loop"], "_DEEP_SHARE", 0.0)
"""
"""Inner loops are saved at each of their iterations, however quick they are. By calls: an attribute that a cell sets on
a class of a library's counts as an input of everything."""
NESTED = {
    "for in for": (
        "random.seed(3); out = []",
        "for i in range(4):\n    print('epoch', i)\n    part = []\n    for j in range(5):\n"
        "        part.append(random.random())\n        work(10 * i + j)\n"
        "        gate(10 * i + j, 23)\n    out.append(part)",
        "out, i, j, part is out[-1], random.random()",
    ),
    "for in while": (
        "left = [0, 1, 2, 3, 4]; out = []",
        "while left.pop():\n    print(left)\n    i = 4 - len(left)\n    for j in range(5):\n        work(10 * i + j)\n"
        "        gate(10 * i + j, 23)\n        out.append((i, j))\n    out.append(i)",
        "left, out",
    ),
    "while in for": (
        "out = []",
        "for i in range(4):\n    print(i)\n    j = 0\n    while j < 5:\n        out.append((i, work(10 * i + j)))\n"
        "        gate(10 * i + j, 23)\n        j += 1",
        "out, i, j",
    ),
    "the rows of a row, changed": (
        "rows = [[{'n': 10 * i + j} for j in range(5)] for i in range(4)]; first = [row[0] for row in rows]",
        "for row in rows:\n    print(len(row))\n    for cell in row:\n        cell['done'] = work(cell['n'])\n"
        "        gate(cell['n'], 23)\n    row.append(cell)",
        "rows, [a is row[0] for a, row in zip(first, rows)], rows[0][-1] is rows[0][-2]",
    ),
    "as often as what it changes is long": (
        "found = [0]",
        "for i in range(4):\n    print(len(found))\n    for j in range(len(found)):\n"
        "        found.append(work(10 * i + j))\n        gate(10 * i + j, 23)",
        "found, i, j",
    ),
    "in an if, in a with": (
        "import contextlib; out = []",
        "for i in range(4):\n    print(i)\n    if i % 2 == 0:\n        out.append('even')\n"
        "        with contextlib.suppress(ValueError):\n            for j in range(5):\n"
        "                out.append(work(10 * i + j))\n                gate(10 * i + j, 23)\n"
        "    else:\n        for j in 'ab':\n            out.append(j)",
        "out, i, j",
    ),
    "what was made before it": (
        "out = []",
        "for i in range(4):\n    batches = [[10 * i + j] for j in range(5)]\n    print(batches)\n"
        "    for batch in batches:\n        batch.append(work(batch[0]))\n        gate(batch[0], 23)\n"
        "    out.append(batches)",
        "out, batch is out[-1][-1]",
    ),
    "rows of a frame that it writes to": (
        "import pandas as pd; df = pd.DataFrame({'i': range(4), 'text': list('abcd'), 'y': 0})",
        "for i, row in df.iterrows():\n    print(row.text)\n    for j in df.index.append(df.columns)[:5]:\n"
        "        df.at[i, 'y'] += work(10 * i + (j if j != 'i' else 4))\n"
        "        gate(10 * i + (j if j != 'i' else 4), 23)",
        "df.to_dict(), i, j, row.to_dict()",
    ),
    "columns of text of a frame that it writes to": (
        "import pandas as pd; df = pd.DataFrame({f'c{i}': range(5) for i in range(4)})",
        "for i, c in enumerate(df):\n    print(c)\n    for j in df.index:\n        df.at[j, c] += work(10 * i + j)\n"
        "        gate(10 * i + j, 23)",
        "df.to_dict(), i, j, c",
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_it_goes_on_inside_of_the_iteration_it_was_in(kernel: Kernel, name: str) -> None:
    setup, loop, look = NESTED[name]
    cell = f"%%checkpointed --every 1\n{loop}"
    wanted = uninterrupted(kernel, cell, f"({look})", setup=setup)
    whole = worked(kernel.folder)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=setup + EAGER)
    again = kernel.run(cell)
    assert "loop continued at 3" in again.line, again.line
    assert ", inside at " in again.line
    again_done = [n for n in whole if worked(kernel.folder).count(n) > 1]
    assert set(worked(kernel.folder)) == set(whole)
    assert set(again_done) <= {22, 23}, "the last turn before the kill may have been on its way to the disk"
    assert kernel.run(f"({look})").result == wanted
    with Kernel(kernel.folder, notebook="plain.ipynb") as plain:
        plain.run((SETUP + setup).replace("%load_ext nbcheckpoint\n", ""))
        assert again.stdout == plain.run(loop).stdout, "what was printed before is shown, once"
    kernel.restart()
    kernel.run(SETUP + setup)
    assert kernel.run(cell).status == "restored"
    assert kernel.run(f"({look})").result == wanted


def test_by_the_clock(kernel: Kernel) -> None:
    """Nothing is said about when: long iterations are saved in their middle, as often as the budget allows."""
    kernel.run(SETUP + "%checkpoint auto")
    cell = (
        "for epoch in range(2):\n    for batch in range(100):\n        time.sleep(0.05)\n"
        "        work(1000 * epoch + batch)"
    )
    kernel.client.execute(cell)
    deep, told = 0, []
    while not (deep and told):
        if (kernel.folder / ".nbcheckpoint" / "cache.db").exists():
            with open_store(kernel.folder / ".nbcheckpoint", create=False) as store:
                saved = [c.progress for c in checkpoints(store) if c.progress]
                runs = [run.id for run in store.runs()]
                told = [step.meta["inside"] for run in runs for step in store.steps(run) if "inside" in step.meta]
                going = list(store.going(runs).values())
            deep = max((p.done for p in saved if p.around), default=0)
        time.sleep(0.05)
    assert [(one.done, one.total, one.inside[0][1]) for one in going] == [(0, 2, 100)]
    kernel.kill()
    (kernel.folder / "tally.txt").unlink()
    kernel.start()
    kernel.run(SETUP + "%checkpoint auto")
    again = kernel.run(cell)
    assert "loop continued at 1 of 2, inside at " in again.line, again.line
    assert min(worked(kernel.folder)) >= deep
    assert kernel.run("epoch, batch").result == "(1, 99)"


def test_one_that_cannot_be_saved_leaves_the_one_around_it(kernel: Kernel) -> None:
    """A generator of the user's cannot be put back into its middle; the iterations around it can."""
    setup = "out = []\ndef numbers(i):\n    for j in range(5):\n        yield 10 * i + j\n"
    cell = (
        "%%checkpointed --every 1\nfor i in range(4):\n    for n in numbers(i):\n        out.append(work(n))\n"
        "        gate(n, 23)"
    )
    wanted = uninterrupted(kernel, cell, "out, i, n", setup=setup)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=setup + EAGER + "_ = %checkpoint auto --min-seconds 0s\n", saved=2)
    again = kernel.run(cell)
    assert "loop continued at 3 of 4 ·" in again.line, again.line
    assert "the loop inside of it would begin anew: what it goes through (generator" in again.line
    assert kernel.run("out, i, n").result == wanted


def worked_once(folder: Path) -> bool:
    done = worked(folder)
    return len(done) == len(set(done))


def test_a_failure_inside_and_the_same_kernel(kernel: Kernel) -> None:
    kernel.run(SETUP + EAGER)
    cell = (
        "%%checkpointed --every 1\ndone = []\nfor i in range(3):\n    for j in range(4):\n"
        "        if (i, j) == (1, 2) and closed():\n            raise OSError('the net is down')\n"
        "        done.append(work(10 * i + j))"
    )
    (kernel.folder / "closed.txt").write_text("yes")
    failed = kernel.run(cell, fails=True)
    assert "goes on at 2 of 3, inside at 3 of 4" in failed.line, failed.line
    (kernel.folder / "closed.txt").write_text("")
    again = kernel.run(cell)
    assert "loop continued at 2 of 3, inside at 3 of 4" in again.line, again.line
    assert kernel.run("done").result == str([(10 * i + j) ** 2 for i in range(3) for j in range(4)])
    assert worked_once(kernel.folder)


def test_how_far_it_was_counts_only_if_its_loops_have_the_same_numbers(kernel: Kernel) -> None:
    """A version of ours that looks into fewer statements for loops has saved it, or is to go on with it."""
    setup = "out = []"
    cell = (
        "%%checkpointed --every 1\nfor i in range(3):\n    if i:\n        for j in range(2): out.append(j)\n"
        "    for k in range(5):\n        out.append(work(10 * i + k))\n        gate(10 * i + k, 13)"
    )
    wanted = uninterrupted(kernel, cell, "(out, i, j, k)", setup=setup)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=setup + EAGER)
    kernel.run(
        "import ast; setattr(sys.modules['nbcheckpoint.notebook.weave'], '_has_loop', "
        "lambda node: isinstance(node, (ast.For, ast.While)))"
    )
    again = kernel.run(cell)
    assert "its loops were counted in another way" in again.line, again.line
    assert kernel.run("(out, i, j, k)").result == wanted


@pytest.mark.parametrize("items", ["range(3)", "list(range(3))"])
def test_a_save_that_is_due_before_its_first_item_skips_none(kernel: Kernel, items: str) -> None:
    loop = (
        f"for i in range(2):\n    time.sleep(0.5)\n    for j in {items}:\n        out.append(work(10 * i + j))\n"
        "        gate(10 * i + j, 11)"
    )
    cell = f"%%checkpointed --every 0.2\n{loop}"
    wanted = uninterrupted(kernel, cell, "out", setup="out = []")
    cut(kernel, cell, setup="out = []")
    again = kernel.run(cell)
    assert "loop continued at " in again.line, again.line
    assert kernel.run("out").result == wanted


def test_a_loop_goes_on_behind_another_that_has_one_inside(kernel: Kernel) -> None:
    """What stands before it in its `with` is run again, from its beginning: that is none of what is to go on."""
    cell = (
        "%%checkpointed --every 1\nwith contextlib.suppress(ZeroDivisionError):\n    for i in range(2):\n"
        "        for j in itertools.pairwise([7, 8, 9]):\n            first.append(j)\n"
        "    for k in range(6):\n        out.append(work(k))\n        gate(k, 4)"
    )
    cut(kernel, cell, setup="import contextlib, itertools; first = []; out = []" + EAGER, saved=4)
    assert "loop continued at 5 of 6" in kernel.run(cell).line
    assert kernel.run("out == [work(k) for k in range(6)], first, k").result == (
        "(True, [(7, 8), (8, 9), (7, 8), (8, 9)], 5)"
    )

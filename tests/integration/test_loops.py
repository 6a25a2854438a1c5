"""Loops in a real kernel that is killed in the middle, and go on where they were."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from nbcheckpoint.notebook.history import checkpoints
from nbcheckpoint.store import open_store
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

SETUP = """%load_ext nbcheckpoint
import os, sys, time, random, signal
os.dup2(os.open("tally.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 200)
os.dup2(os.open("closed.txt", os.O_RDONLY | os.O_CREAT), 201)
def work(n):
    "One unit of work, counted outside of everything that is saved."
    os.write(200, b"%d\\n" % n)
    return n * n
def closed():
    return os.fstat(201).st_size > 0
def gate(n, at):
    if n == at and closed():
        print("waiting", flush=True)
        time.sleep(600)
"""
"""Through descriptors, which nobody follows: the first and the second run differ in nothing that counts as an input."""


def worked(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "tally.txt").read_text().split()]


def cut(kernel: Kernel, cell: str, *, setup: str = "", at: str = "waiting", saved: int = 0) -> None:
    """Run the cell until it waits, kill the kernel, and have a new one ready for the same cell.

    With `saved`, not before that much progress is on the disk.
    """
    kernel.run(SETUP + setup)
    closed = kernel.folder / "closed.txt"
    closed.write_text("yes")
    kernel.start_cell(cell, until=at)
    if saved:
        with open_store(kernel.folder / ".nbcheckpoint", create=False) as store:
            while not any(c.progress and c.progress.done == saved for c in checkpoints(store)):
                time.sleep(0.01)  # it is on its way
    kernel.kill()
    closed.write_text("")
    kernel.start()
    kernel.run(SETUP + setup)


def uninterrupted(kernel: Kernel, cell: str, look: str, *, setup: str = "") -> str:
    """What a kernel without us ends up with."""
    with Kernel(kernel.folder, notebook="plain.ipynb") as plain:
        plain.run((SETUP + setup).replace("%load_ext nbcheckpoint\n", ""))
        plain.run(cell.partition("\n")[2])
        return plain.run(look).result


LOOPS = {
    "a range": ("total = 0", "for i in range(10):\n    total += work(i)\n    gate(i, 7)", "total, i"),
    "a list, enumerated": (
        "names = list('abcdefghij'); seen = {}",
        "for i, name in enumerate(names):\n    seen[name] = work(i)\n    gate(i, 7)",
        "seen, i, name",
    ),
    "while": ("i = 0; found = []", "while i < 10:\n    found.append(work(i))\n    gate(i, 7)\n    i += 1", "found, i"),
    "random numbers": (
        "random.seed(3); drawn = []",
        "for i in range(10):\n    drawn.append((work(i), random.random()))\n    gate(i, 7)",
        "drawn, random.random()",
    ),
    "items that the loop changes": (
        "rows = [{'n': n} for n in range(10)]; by_n = {row['n']: row for row in rows}",
        "for row in rows:\n    row['square'] = work(row['n'])\n    gate(row['n'], 7)",
        "rows, [by_n[row['n']] is row for row in rows], row is rows[-1]",
    ),
    "a generator": (
        "out = []",
        "for n in (m * 2 for m in range(10)):\n    out.append(work(n // 2))\n    gate(n // 2, 7)",
        "out, n",
    ),
    "a shuffled order, unseeded": (
        "order = list(range(10)); seen = []",
        "for n in random.sample(order, 10):\n    seen.append(n)\n    work(n)\n    gate(len(seen), 8)",
        "sorted(seen)",
    ),
    "a growing list": (
        "todo = [0]; found = []",
        "for n in todo:\n    found.append(work(n))\n    if n < 9:\n        todo.append(n + 1)\n    gate(n, 7)",
        "todo, found",
    ),
    "continue, else and a display": (
        "kept = []",
        "for i in range(10):\n    work(i)\n    gate(i, 7)\n    if i % 2:\n        continue\n"
        "    kept.append(i)\n    print(i)\nelse:\n    kept.append('end')",
        "kept, i",
    ),
    "break": ("", "for i in range(100):\n    work(i)\n    gate(i, 7)\n    if i == 9:\n        break", "i"),
    "numpy's generator and an array": (
        "import numpy as np; np.random.seed(1); a = np.zeros(10); half = a[::2]",
        "for i in range(10):\n    a[i] = work(i) + np.random.rand()\n    gate(i, 7)",
        "a.tolist(), half.tolist(), np.shares_memory(a, half), np.random.rand()",
    ),
    "a data frame's rows": (
        "import pandas as pd; df = pd.DataFrame({'n': range(10)}); out = []",
        "for at, row in df.iterrows():\n    out.append(work(int(row.n)))\n    gate(at, 7)",
        "out, at, row.to_dict()",
    ),
    "files it writes": (
        "",
        "for i in range(10):\n    with open('best.txt', 'w') as file:\n        print(work(i), file=file)\n"
        "    gate(i, 7)\n    file = None",
        "open('best.txt').read(), i",
    ),
    "inside of with, try and if": (
        "import contextlib; total = 0; on = True",
        "with contextlib.suppress(ZeroDivisionError):\n    if on:\n        try:\n            base = [1, 2]\n"
        "            for i in range(10):\n                total += work(i) + base[0]\n                gate(i, 7)\n"
        "            1 / 0\n        finally:\n            base.append(total)",
        "total, i, base",
    ),
    "two loops in one statement, over what it made": (
        "out = []",
        "if True:\n    items = [[n] for n in range(10)]\n    for item in items:\n        item.append(0)\n"
        "    while len(out) < 10:\n        out.append(items[len(out)])\n        work(len(out) - 1)\n"
        "        gate(len(out) - 1, 7)",
        "out, [a is b for a, b in zip(out, items)], item is items[-1]",
    ),
    "a bar of widgets": (
        "from tqdm.notebook import tqdm; out = []",
        "for i in tqdm(range(10)):\n    out.append(work(i))\n    gate(i, 7)",
        "out, i",
    ),
    "a bar": (
        "from tqdm import tqdm; out = []",
        "for i in tqdm(range(10)):\n    out.append(work(i))\n    gate(i, 7)",
        "out, i",
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_killed_loop_goes_on_where_it_was(kernel: Kernel, name: str) -> None:
    setup, loop, look = LOOPS[name]
    cell = f"%%checkpointed --every 1\n{loop}"
    wanted = uninterrupted(kernel, cell, look, setup=setup)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert again.status == "resumed", again.line
    at = re.search(r"loop continued at (\d+)", again.line)
    assert at, again.line
    assert int(at[1]) in (7, 8), "the last turn before the kill may have been on its way to the disk"
    assert sorted(worked(kernel.folder)) == sorted([*range(8), *range(int(at[1]) - 1, 10)]) or "shuffled" in name
    assert len(worked(kernel.folder)) == 19 - int(at[1])
    assert kernel.run(look).result == wanted
    kernel.kill()
    kernel.start()
    kernel.run(SETUP + setup)
    assert kernel.run(cell).status == "restored", "and when it has come to its end, all of it is saved"
    assert kernel.run(look).result == wanted


NAMED = {
    "by a call": "from collections import namedtuple\nP = namedtuple('P', 'a b', defaults=[0])\n",
    "by a class": "from typing import NamedTuple\nclass P(NamedTuple):\n    a: int\n    b: int = 0\n",
}


LAST = {
    "of a list": ("", "[dict(n=0), dict(n=1), dict(n=2)]"),
    "of a map": ("def load(n): return dict(n=n)\n", "map(load, range(3))"),
}


@pytest.mark.parametrize("name", LAST)
def test_an_item_that_the_body_has_changed_is_not_taken_from_those_made_again(kernel: Kernel, name: str) -> None:
    setup, items = LAST[name]
    cell = (
        f"%%checkpointed --every 1\nif True:\n    for row in {items}:\n"
        "        row['square'] = work(row['n'])\n    gate(1, 1)"
    )
    cut(kernel, cell, setup=setup)
    assert kernel.run(cell).status == "resumed"
    assert kernel.run("row").result == "{'n': 2, 'square': 4}"


BARS = {
    "with a note": (
        "bar = tqdm(range(10))\nfor i in bar:\n    out.append(work(i))\n    gate(i, 7)\n    bar.set_postfix(at=i)",
        "out, i, bar.n",
    ),
    "in a with": (
        "with tqdm(range(10)) as bar:\n    for i in bar:\n        bar.set_description(f'{i}')\n"
        "        out.append(work(i))\n        gate(i, 7)",
        "out, i, bar.n",
    ),
    "moved by hand": (
        "bar = tqdm(total=10)\nfor i in range(10):\n    out.append(work(i))\n    gate(i, 7)\n"
        "    bar.update()\nbar.close()",
        "out, i, bar.n",
    ),
    "moved by hand, in a with": (
        "with tqdm(total=10) as bar:\n    for i in range(10):\n        out.append(work(i))\n"
        "        gate(i, 7)\n        bar.update(1)",
        "out, i, bar.n, bar.total",
    ),
    "counted": (
        "for i, n in enumerate(tqdm(range(10))):\n    out.append(work(i))\n    gate(i, 7)",
        "out, i, n",
    ),
}


@pytest.mark.parametrize("module", ["tqdm", "tqdm.auto"])
@pytest.mark.parametrize("name", BARS)
def test_a_progress_bar_is_in_nobodys_way(kernel: Kernel, name: str, module: str) -> None:
    """It stands where it stood, and what has used one is restored when it is over."""
    loop, look = BARS[name]
    setup, cell = f"from {module} import tqdm; out = []\n", f"%%checkpointed --every 1\n{loop}"
    wanted = uninterrupted(kernel, cell, look, setup=setup)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=setup, saved=7)
    again = kernel.run(cell)
    assert "loop continued at 8" in again.line
    assert kernel.run(look).result == wanted
    assert len(worked(kernel.folder)) == 11
    kernel.restart()
    kernel.run(SETUP + setup)
    kernel.run(cell)
    assert kernel.run(look).result == wanted
    assert len(worked(kernel.folder)) == 11


ROWS = "rows = [{'n': n} for n in range(10)]; out = []\n"
MAKERS = {
    "parts of a list": (
        "def parts(of):\n    for at in range(0, 10):\n        part = of[at:at + 1]\n        yield part\n",
        "for part in parts(rows):\n    out.append(work(part[0]['n']))\n    gate(part[0]['n'], 7)",
        "out, part, part[0] is rows[-1]",
    ),
    "some of a list": (
        "def good(of):\n    for row in of:\n        if row['n'] >= 0:\n            yield row\n",
        "for row in good(rows):\n    out.append(work(row['n']))\n    gate(row['n'], 7)",
        "out, row, row is rows[-1]",
    ),
    "a generator expression": (
        "",
        "for row in (row for row in rows if row['n'] >= 0):\n    out.append(work(row['n']))\n    gate(row['n'], 7)",
        "out, row, row is rows[-1]",
    ),
    "made in it, with what came before": (
        "def made(n):\n    total = 0\n    for at in range(n):\n        total += at\n"
        "        row = {'n': at, 'total': total}\n        yield row\n",
        "for at, row in enumerate(made(10)):\n    out.append(work(row['n']))\n    gate(at, 7)",
        "out, at, row",
    ),
    "chunks of a table": (
        "import pandas as pd\npd.DataFrame({'n': range(20)}).to_csv('table.csv')\n",
        "for at, part in enumerate(pd.read_csv('table.csv', chunksize=2)):\n"
        "    out.append(work(int(part.n.iloc[0])))\n    gate(at, 7)",
        "out, at, part.to_dict()",
    ),
    "chunks that it changes": (
        "import pandas as pd\npd.DataFrame({'n': range(20)}).to_csv('table.csv')\n",
        "for at, part in enumerate(pd.read_csv('table.csv', chunksize=2)):\n    part['square'] = part.n ** 2\n"
        "    out.append(work(int(part.square.iloc[0])))\n    gate(at, 7)",
        "out, at, part.to_dict()",
    ),
    "a folder with what is in it": (
        "for n in range(9): os.makedirs(f'tree/{n}', exist_ok=True)\n",
        "for top, dirs, files in os.walk('tree'):\n    out.append(top)\n    work(len(out))\n    gate(len(out), 8)",
        "sorted(out), sorted(dirs)",
    ),
    "files below a folder": (
        "from pathlib import Path\nfor n in range(10): os.makedirs(f'tree/{n}', exist_ok=True)\n",
        "for path in Path('tree').rglob('*'):\n    out.append(path.name)\n    work(len(out))\n    gate(len(out), 8)",
        "sorted(out)",
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_items_that_whoever_makes_them_still_holds_are_made_again(kernel: Kernel, name: str) -> None:
    setup, loop, look = MAKERS[name]
    cell = f"%%checkpointed --every 1\n{loop}"
    wanted = uninterrupted(kernel, cell, look, setup=ROWS + setup)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=ROWS + setup, saved=7)
    again = kernel.run(cell)
    assert "loop continued at 8" in again.line
    assert kernel.run(look).result == wanted
    assert len(worked(kernel.folder)) == 11


def test_items_that_the_loop_changes_and_whoever_makes_them_looks_at_begin_anew(kernel: Kernel) -> None:
    """Made again they would be others: nobody would take the folders out once more."""
    setup = "for n in '0123': os.makedirs(f'tree/{n}/inside', exist_ok=True)\nout = []\n"
    cell = (
        "%%checkpointed --every 1\nfor top, dirs, files in os.walk('tree'):\n"
        "    dirs[:] = sorted(set(dirs) - {'3'})\n    out.append(top)\n    work(len(out))\n    gate(len(out), 4)\n"
        "    dirs = files = None"
    )
    wanted = uninterrupted(kernel, cell, "out", setup=setup)
    cut(kernel, cell, setup=setup)
    kernel.run(cell)
    assert kernel.run("out").result == wanted


OPENED = {
    "lines": (
        "for line in file:\n        out.append(work(int(line)))\n        gate(int(line), 7)",
        "out, line, file.closed",
    ),
    "lines, counted": (
        "for n, line in enumerate(file):\n        out.append(work(int(line)))\n        gate(n, 7)",
        "out, line, file.closed",
    ),
    "rows": (
        "for row in csv.reader(file):\n        out.append(work(int(row[0])))\n        gate(int(row[0]), 7)",
        "out, row, file.closed",
    ),
    "rows behind the first": (
        "rows = csv.reader(file)\n    first = next(rows)\n    work(0)\n"
        "    for row in rows:\n        out.append(work(int(row[0])))\n        gate(int(row[0]), 7)",
        "out, row, first, file.closed",
    ),
    "records": (
        "for row in csv.DictReader(file, ['n']):\n        out.append(work(int(row['n'])))\n"
        "        gate(int(row['n']), 7)",
        "out, row, file.closed",
    ),
    "blocks": (
        "while block := file.read(2):\n        out.append(work(int(block)))\n        gate(int(block), 7)",
        "out, block, file.closed",
    ),
}


@pytest.mark.parametrize("name", OPENED)
def test_a_loop_in_a_with_that_reads_a_file_goes_on(kernel: Kernel, name: str) -> None:
    loop, look = OPENED[name]
    setup = "import csv; out = []\nwith open('lines.txt', 'w') as f:\n    f.writelines(f'{n}\\n' for n in range(10))\n"
    cell = f"%%checkpointed --every 1\nwith open('lines.txt') as file:\n    {loop}"
    wanted = uninterrupted(kernel, cell, look, setup=setup)
    done = 6 if "first" in name else 7
    cut(kernel, cell, setup=setup, saved=done)
    assert f"loop continued at {done + 1}" in kernel.run(cell).line
    assert kernel.run(look).result == wanted


def test_a_loop_that_also_reads_the_file_by_itself_begins_anew(kernel: Kernel) -> None:
    """Lines that are skipped would not bring the file where it was."""
    setup = "out = []\nopen('lines.txt', 'w').writelines(f'{n}\\n' for n in range(20))\n"
    cell = (
        "%%checkpointed --every 1\nwith open('lines.txt') as file:\n    for line in file:\n"
        "        n = work(int(line))\n        out.append((n, next(file)))\n        gate(n, 100)"
    )
    wanted = uninterrupted(kernel, cell, "out", setup=setup)
    cut(kernel, cell.replace("gate(n, 100)", "gate(n // 10, 10)"), setup=setup)
    kernel.run(cell.replace("gate(n, 100)", "gate(n // 10, 10)"))
    assert kernel.run("out").result == wanted


@pytest.mark.parametrize("what", ["an archive", "threads", "chunks"])
def test_a_loop_in_a_with_that_opens_the_same_again_goes_on(kernel: Kernel, what: str) -> None:
    setup, head, loop = {
        "an archive": (
            "import zipfile; out = []\nif not os.path.exists('all.zip'):\n"
            "    with zipfile.ZipFile('all.zip', 'w') as z:\n"
            "        for n in range(10): z.writestr(str(n), str(n))\n",
            "zipfile.ZipFile('all.zip')",
            "for n, name in enumerate(it.namelist()):\n        out.append(work(int(it.read(name))))\n"
            "        gate(n, 7)",
        ),
        "threads": (
            "from concurrent.futures import ThreadPoolExecutor; out = []\n",
            "ThreadPoolExecutor(2)",
            "for n in range(10):\n        out.append(work(sum(it.map(abs, [-n, 0]))))\n        gate(n, 7)",
        ),
        "chunks": (
            "import pandas as pd; out = []\npd.DataFrame({'n': range(20)}).to_csv('table.csv')\n",
            "pd.read_csv('table.csv', chunksize=2)",
            "for part in it:\n        n = int(part.n.iloc[0]) // 2\n        out.append(work(n))\n        gate(n, 7)",
        ),
    }[what]
    cell = f"%%checkpointed --every 1\nwith {head} as it:\n    {loop}"
    cut(kernel, cell, setup=setup, saved=7)
    assert "loop continued at 8" in kernel.run(cell).line
    assert kernel.run("out").result == str([n * n for n in range(10)])


@pytest.mark.parametrize("name", NAMED)
def test_a_loop_over_named_tuples_goes_on(kernel: Kernel, name: str) -> None:
    """Their class has a dict of its own, which they were said to share with it."""
    setup = f"{NAMED[name]}out = []; points = [P(n) for n in range(8)]"
    cell = "%%checkpointed --every 1\nfor p in points:\n    out.append(p)\n    gate(p.a, 5)\nlast = P(a=9)"
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert again.status == "resumed", again.line
    assert kernel.run("out == points, type(out[0]) is P is type(last), p is points[-1]").result == "(True, True, True)"
    kernel.restart()
    kernel.run(SETUP + setup)
    assert kernel.run(cell).status == "restored"
    assert kernel.run("out == points, type(out[0]) is P is type(last), last.b").result == "(True, True, 0)"


def test_what_it_showed_is_shown_again_once(kernel: Kernel) -> None:
    cell = "%%checkpointed --every 1\nfor i in range(6):\n    print('step', i, flush=True)\n    gate(i, 4)"
    cut(kernel, cell)
    assert kernel.run(cell).stdout == "".join(f"step {i}\n" for i in range(6))


@pytest.mark.parametrize("items", ["words", "by_name['all']"])
def test_a_loop_over_a_set_is_not_continued_in_another_order(kernel: Kernel, items: str) -> None:
    setup = "words = {'w%d' % n for n in range(40)}; by_name = {'all': words}; seen = []"
    cell = f"%%checkpointed --every 1\nfor w in list({items}):\n    seen.append(w)\n    gate(len(seen), 20)"
    cut(kernel, cell, setup=setup)
    kernel.run(cell)
    assert kernel.run("sorted(seen) == sorted(words), len(seen)").result == "(True, 40)"


def test_items_that_depend_on_what_the_loop_changes(kernel: Kernel) -> None:
    """By a generator inside of a zip, and by a class of the user's: neither can be made again later."""
    setup = (
        "k = 1; out = []\nclass Source:\n    def __getitem__(self, n):\n        if n > 9: raise IndexError\n"
        "        return n * k\nsource = Source()\n"
    )
    for items in ("zip((n * k for n in range(10)), range(10))", "enumerate(source)"):
        cell = f"%%checkpointed --every 1\nfor item in {items}:\n    out.append(item)\n    k += 1\n    gate(k, 8)"
        wanted = uninterrupted(kernel, cell, "out, k", setup=setup)
        cut(kernel, cell, setup=setup)
        again = kernel.run(cell)
        assert again.status == "computed", again.line
        assert kernel.run("out, k").result == wanted


DRAWING = {
    "a generator": "g()",
    "a generator expression": "(random.random() for _ in range(8))",
    "map": "map(lambda n: random.random(), range(8))",
    "zip with a generator": "zip('abcdefgh', (random.random() for _ in range(8)))",
    "a dataset that is enumerated": "enumerate(ds)",
    "an item that does not show what was drawn": "hidden()",
}
DRAWN_FROM = """out = []; random.seed(3)
def g():
    for _ in range(8): yield random.random()
def hidden():
    drawn = 0
    for n in range(8):
        drawn += random.random()
        yield n if n < 7 else drawn
class Dataset:
    def __getitem__(self, n):
        if n > 7: raise IndexError(n)
        return n + random.random()
ds = Dataset()
"""


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("body", ["random.random()", "work(len(out))"])
def test_items_that_draw_random_numbers_are_those_of_one_run(kernel: Kernel, name: str, body: str) -> None:
    """Where the body draws too, items made one behind the other would be others: how many are done says nothing."""
    loop = f"for x in {DRAWING[name]}:\n    out.append((x, {body}))\n    gate(len(out), 5)"
    cell, look = f"%%checkpointed --every 1\n{loop}", "out, random.random()"
    wanted = uninterrupted(kernel, cell, look, setup=DRAWN_FROM)
    cut(kernel, cell, setup=DRAWN_FROM)
    again = kernel.run(cell)
    assert kernel.run(look).result == wanted
    if body != "random.random()" or name in ("map", "a dataset that is enumerated"):
        assert again.status == "resumed", again.line
    else:
        assert again.status == "computed", again.line


def test_items_that_drew_and_come_in_another_order_are_those_of_one_run(kernel: Kernel) -> None:
    """They were made one behind the other, to compare them: each leaves the random state it would leave."""
    setup = "random.seed(3); words = {'w%d' % n for n in range(40)}; seen = []"
    cell = (
        "%%checkpointed --every 1\nfor word, x in ((word, random.random()) for word in words):\n"
        "    seen.append((x, random.getstate()[1][-1]))\n    gate(len(seen), 20)\n"
        "    if len(seen) > 30: seen.append(random.random())"
    )
    wanted = uninterrupted(kernel, cell, "seen, random.random()", setup=setup)
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert "comes in another order than before" in again.line, again.line
    assert kernel.run("seen, random.random()").result == wanted


@pytest.mark.parametrize("items", ["((word, random.random()) for word in words)", "drawn(words)"])
def test_items_that_drew_and_a_body_that_draws_begin_anew_together(kernel: Kernel, items: str) -> None:
    """What was made to find out that the order is another one is made once more, an item at a time."""
    setup = (
        "random.seed(3); words = {'w%d' % n for n in range(40)}; seen = []\n"
        "def drawn(of):\n    for word in of: yield word, random.random()\n"
    )
    cell = (
        f"%%checkpointed --every 1\nfor word, x in {items}:\n    seen.append(x)\n    gate(len(seen), 20)\n"
        "    if not closed(): seen.append(random.random())"
    )
    wanted = uninterrupted(kernel, cell, "seen, random.random()", setup=setup)
    cut(kernel, cell, setup=setup, saved=19)
    again = kernel.run(cell)
    assert again.status == "computed", again.line
    assert "what it goes through" in again.line, again.line
    assert kernel.run("seen, random.random()").result == wanted


SHOWING = {
    "a generator": "def g():\n    for n in range(6):\n        print('made', n)\n        yield n",
    "a class": (
        "class G:\n    def __getitem__(self, n):\n        if n > 5: raise IndexError\n"
        "        display(f'made {n}'); return n\ndef g(): return G()"
    ),
}


@pytest.mark.parametrize("name", SHOWING)
def test_what_items_show_while_they_are_made_again_is_shown_once(kernel: Kernel, name: str) -> None:
    loop = "for n in g():\n    gate(n, 4)\n    print('item', n, flush=True)"
    cell = f"%%checkpointed --every 1\n{loop}"
    cut(kernel, cell, setup=SHOWING[name], saved=4)
    went_on = kernel.run(cell)
    assert "continued at 5" in went_on.line
    with Kernel(kernel.folder, notebook="plain.ipynb") as plain:
        plain.run(SETUP.replace("%load_ext nbcheckpoint", "") + SHOWING[name])
        alone = plain.run(loop)
    assert went_on.stdout == alone.stdout
    shown = [d["data"]["text/plain"] for d in went_on.displays if "nbcheckpoint" not in d["metadata"]]
    assert shown == [d["data"]["text/plain"] for d in alone.displays]


def test_an_error_of_an_item_that_is_made_again_is_the_users_and_loses_nothing(kernel: Kernel) -> None:
    setup = (
        "out = []\ndef g():\n    for n in range(8):\n        print('made', n)\n"
        "        if n == 2 and os.fstat(201).st_size > 5: raise OSError('the net is down')\n        yield n\n"
    )
    cell = "%%checkpointed --every 1\nfor n in g():\n    out.append(work(n))\n    gate(n, 5)"
    cut(kernel, cell, setup=setup, saved=5)
    (kernel.folder / "closed.txt").write_text("for good")
    failed = kernel.run(cell, fails=True)
    assert failed.error == "OSError"
    assert failed.stdout == "made 0\nmade 1\nmade 2\n"
    assert "nbcheckpoint/" not in "".join(failed.traceback)
    assert kernel.run("out").result == "[]"
    (kernel.folder / "closed.txt").write_text("")
    again = kernel.run(cell)
    assert "continued at 6" in again.line, again.line
    assert kernel.run("out == [n * n for n in range(8)]").result == "True"


HELD = {
    "a range": "iter(range(12))",
    "a range backwards": "reversed(range(12))",
    "a list": "iter(list(range(12)))",
    "an enumeration": "enumerate(range(12))",
}


@pytest.mark.parametrize("name", HELD)
def test_an_iterator_that_the_user_holds_is_the_one_that_is_gone_through(kernel: Kernel, name: str) -> None:
    setup = f"it = {HELD[name]}; out = []\ndef another(): return next(it, None)\n"
    loop = "for v in it:\n    out.append((v, another()))\n    gate(len(out), 3)\n    if len(out) == 5:\n        break"
    cell, look = f"%%checkpointed --every 1\n{loop}", "out, v, list(it)"
    wanted = uninterrupted(kernel, cell, look, setup=setup)
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert again.status == "resumed", again.line
    assert kernel.run(look).result == wanted


def test_a_generator_that_is_left_is_closed_at_once(kernel: Kernel) -> None:
    kernel.run(SETUP)
    kernel.run("def numbers():\n    try:\n        yield from range(5)\n    finally:\n        print('closed')")
    cell = "if True:\n    for n in numbers():\n        break\n    print('after')"
    assert kernel.run(cell).stdout == kernel.run(f"%%checkpointed\n{cell}").stdout == "closed\nafter\n"


def test_an_interrupt_and_an_error_leave_the_progress(kernel: Kernel) -> None:
    kernel.run(SETUP)
    cell = (
        "%%checkpointed --every 1\ndone = []\nfor i in range(10):\n    work(i)\n"
        "    if i == 6 and closed():\n        raise OSError('the net is down')\n    done.append(i)"
    )
    (kernel.folder / "closed.txt").write_text("yes")
    failed = kernel.run(cell, fails=True)
    assert failed.error == "OSError"
    assert "goes on at 7 of 10" in failed.line
    (kernel.folder / "closed.txt").write_text("")
    again = kernel.run(cell)
    assert "loop continued at 7 of 10" in again.line, again.line
    assert kernel.run("done").result == str(list(range(10)))
    assert worked(kernel.folder) == [0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9]


@pytest.mark.parametrize("changed", [False, True])
def test_run_again_in_the_same_kernel_it_goes_on_unless_something_else_was_changed(
    kernel: Kernel, changed: bool
) -> None:
    """The sum was begun in another cell: to run this one again without us would count twice."""
    kernel.run(SETUP + "total = 0; other = [0]")
    (kernel.folder / "closed.txt").write_text("yes")
    cell = (
        "%%checkpointed --every 1\nfor i in range(10):\n    if i == 6 and closed():\n        raise OSError\n"
        "    total += work(i); other[0] += 1"
    )
    assert kernel.run(cell, fails=True).error == "OSError"
    (kernel.folder / "closed.txt").write_text("")
    partial = sum(i * i for i in range(6))
    if changed:
        kernel.run("total += 1")
    again = kernel.run(cell)
    assert again.status == ("computed" if changed else "resumed"), again.line
    whole = sum(i * i for i in range(10))
    assert kernel.run("total, other").result == str((partial + 1 + whole, [16]) if changed else (whole, [10]))
    kernel.run("total = 0; other = [0]")
    if not changed:
        assert kernel.run(cell).status == "restored", "saved under what it began with"
        assert kernel.run("total, other").result == str((whole, [10]))


def test_a_loop_that_cannot_go_on_in_its_kernel_is_saved_under_what_it_was_run_with(kernel: Kernel) -> None:
    """Its progress is damaged, so it begins anew, with a list that has something in it: that is no result of `[]`."""
    setup = "import os\nfirst = os.urandom(6_000_000); big = [first]; out = []"
    kernel.run(SETUP + setup)
    (kernel.folder / "closed.txt").write_text("yes")
    cell = (
        "%%checkpointed --every 1\nfor i in range(4):\n    if i == 2 and closed():\n        raise OSError\n"
        "    out.append(i); big[0] = os.urandom(6_000_000)"
    )
    assert "goes on at 3 of 4" in kernel.run(cell, fails=True).line
    (kernel.folder / "closed.txt").write_text("")
    for path in (kernel.folder / ".nbcheckpoint").rglob("*"):
        if path.is_file() and path.stat().st_size > 5_000_000:
            path.chmod(0o600)
            path.write_bytes(b"x" * path.stat().st_size)
    again = kernel.run(cell)
    assert again.status == "computed", again.line
    assert kernel.run("out").result == "[0, 1, 0, 1, 2, 3]"
    kernel.run("out = []; big = [first]")
    fresh = kernel.run(cell)
    assert fresh.status == "computed", fresh.line
    assert kernel.run("out").result == "[0, 1, 2, 3]"


@pytest.mark.parametrize("options", ["--skip before", "--save found"])
@pytest.mark.parametrize(
    "step",
    {
        "bound anew": "found.append(before[0] + work(i)); before = [i]",
        "changed": "found.append(before[0] + work(i)); before[0] += i + 1",
        "read by a function": "found.append(back() + work(i)); before = [i]",
    }.values(),
)
def test_what_is_not_to_be_saved_and_the_next_iteration_needs(kernel: Kernel, options: str, step: str) -> None:
    """It must not begin with what was there before the loop. `--skip` may be for a secret: it begins anew then."""
    setup = "found = []; before = [0]\ndef back(): return before[0]\n"
    cell = f"%%checkpointed --every 1 {options}\nfor i in range(6):\n    {step}\n    gate(i, 4)"
    wanted = uninterrupted(kernel, cell, "found", setup=setup)
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert kernel.run("found").result == wanted
    assert again.status == ("computed" if "skip" in options else "resumed"), again.line


def test_what_is_not_to_be_saved_and_made_anew_in_every_iteration_is_in_nobodys_way(kernel: Kernel) -> None:
    setup = "import threading; found = []\n"
    step = "lock = threading.Lock()\n    with lock: found.append(work(i))"
    cell = f"%%checkpointed --every 1 --skip lock\nfor i in range(6):\n    {step}\n    gate(i, 4)"
    cut(kernel, cell, setup=setup)
    assert kernel.run(cell).status == "resumed"
    assert kernel.run("found").result == "[0, 1, 4, 9, 16, 25]"


WITHIN = {
    "what is printed goes into it": (
        "import io, contextlib\nbuf = io.StringIO()",
        "with contextlib.redirect_stdout(buf):\n    for i in range(6):\n        print(i, work(i))\n        waits(i)",
        "buf.getvalue()",
    ),
    "it is bound there, and changed": (
        "class Timer:\n    def __enter__(self): self.n = 0; return self\n"
        "    def __exit__(self, *_): self.total = self.n * 10",
        "with Timer() as t:\n    for i in range(6):\n        t.n += work(i)\n        waits(i)",
        "t.n, t.total",
    ),
    "what is to be done in the end": (
        "import contextlib\nout = []",
        "with contextlib.ExitStack() as stack:\n    stack.callback(out.append, 'end')\n"
        "    for i in range(6):\n        out.append(work(i))\n        waits(i)",
        "out",
    ),
    "an argument of a function": (
        "import contextlib\nlog = []\n@contextlib.contextmanager\ndef noting(into):\n    yield\n    into.append('end')",
        "with noting(log):\n    for i in range(6):\n        log.append(work(i))\n        waits(i)",
        "log",
    ),
}


WAITS = """
os.dup2(os.open("there.txt", os.O_WRONLY | os.O_CREAT), 202)
def waits(n):
    "What it printed would go elsewhere."
    if n == 4 and closed():
        os.write(202, b"!")
        time.sleep(600)
"""


@pytest.mark.parametrize("name", WITHIN)
def test_a_with_around_a_loop_is_left_with_what_it_was_entered_with(kernel: Kernel, name: str) -> None:
    """It is entered once more to go on, and what it holds is then not what was saved: so the loop begins anew."""
    setup, loop, look = WITHIN[name]
    setup, cell = SETUP + WAITS + setup, f"%%checkpointed --every 1\n{loop}"
    wanted = uninterrupted(kernel, cell, look, setup=setup.removeprefix(SETUP))
    kernel.run(setup)
    (kernel.folder / "closed.txt").write_text("yes")
    kernel.client.execute(cell)
    while not (kernel.folder / "there.txt").read_text():
        time.sleep(0.01)  # it is on its way
    kernel.kill()
    (kernel.folder / "closed.txt").write_text("")
    kernel.start()
    kernel.run(setup)
    again = kernel.run(cell)
    assert kernel.run(look).result == wanted, again.line


def test_a_with_that_has_nothing_to_do_with_it_is_in_nobodys_way(kernel: Kernel) -> None:
    """What it binds is not changed by the loop: it is what it is bound to anew."""
    setup = (
        "import contextlib, numpy as np\nfound = []\nclass Run:\n    def __init__(self): self.tags = ['a']\n"
        "@contextlib.contextmanager\ndef started():\n    run = Run()\n    yield run\n    run.tags.append('over')\n"
    )
    loop = "for i in range(6):\n        found.append(work(i))\n        gate(i, 4)"
    cell = f"%%checkpointed --every 1\nwith np.errstate(all='ignore'), started() as run:\n    {loop}"
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert again.status == "resumed", again.line
    assert kernel.run("found, run.tags").result == "([0, 1, 4, 9, 16, 25], ['a', 'over'])"


ASK = (
    "import sqlite3\ncon = sqlite3.connect(':memory:'); cursor = con.cursor(); found = []\n"
    "def ask(n): return con.execute(f'select {n} + 1').fetchone()[0]\n"
)
ASKING = "for i in range(10):\n    found.append((work(i), ask(i)))\n    gate(i, 7)"


@pytest.mark.parametrize("automatic", [False, True])
def test_a_connection_that_does_not_matter_is_in_nobodys_way(kernel: Kernel, automatic: bool) -> None:
    """It can be neither compared nor saved. What it was asked can be, for whoever says so."""
    auto = "%checkpoint auto --min-seconds 0s --ignore con\n" if automatic else ""
    options = "" if automatic else "%%checkpointed --every 1 --ignore con\n"
    if automatic:  # it saves loops by the clock
        kernel.run(SETUP + auto + ASK)
    else:
        cut(kernel, options + ASKING, setup=ASK)
    again = kernel.run(options + ASKING)
    assert again.status == ("computed" if automatic else "resumed"), again.line
    assert kernel.run("found == [(n * n, n + 1) for n in range(10)], con.total_changes").result == "(True, 0)"
    assert kernel.run(f"{options}more = [ask(work(n)) for n in range(20)]").status == "computed"
    kernel.restart()
    kernel.run(SETUP + auto + ASK)
    assert kernel.run(options + ASKING).status == "restored"
    assert kernel.run(f"{options}more = [ask(work(n)) for n in range(20)]").status == "restored"
    assert kernel.run("con.execute('select 5').fetchone()").result == "(5,)"


def test_whoever_does_not_say_so_is_told_how_to(kernel: Kernel) -> None:
    kernel.run(f"{SETUP}{ASK}del cursor")
    line = kernel.run(f"%%checkpointed --every 1\n{ASKING}").line
    assert "input con cannot be identified (Connection: an open connection)" in line
    assert "--ignore con, if it does not matter" in line
    assert "not saved" not in line, "it was not to be: nobody has bound it here"


@pytest.mark.parametrize("between", ["", "file", "random.seed(7)", "np.seterr(over='ignore')", "e = 'mine'"])
def test_what_was_changed_behind_a_cut_counts_in_the_same_kernel_too(kernel: Kernel, between: str) -> None:
    """Without any of that the loop goes on; with it, it begins anew, as the cell would without us."""
    kernel.run(SETUP + "import random, numpy as np\nrandom.seed(1); out = [0]")
    (kernel.folder / "closed.txt").write_text("yes")
    (kernel.folder / "read.txt").write_text("1")
    cell = (
        "%%checkpointed --every 1\nfor i in range(6):\n    if i == 4 and closed():\n        raise OSError\n"
        "    if i == 9:\n        e = 1\n"
        "    out.append((open('read.txt').read(), random.random(), np.float32(i)))"
    )
    assert "goes on at 5 of 6" in kernel.run(cell, fails=True).line
    (kernel.folder / "closed.txt").write_text("")
    if between == "file":
        (kernel.folder / "read.txt").write_text("2")
    elif between:
        kernel.run(f"_ = {between}" if "(" in between else between)
    again = kernel.run(cell)
    assert again.status == ("computed" if between else "resumed"), again.line
    assert kernel.run("len(out)").result == ("11" if between else "7")


def test_a_loop_that_says_what_its_variables_are_is_restored_in_its_own_kernel(kernel: Kernel) -> None:
    """What it had bound was there when it was run again, and stands in its strings: it was taken for an input."""
    kernel.run(SETUP + "def told(epoch, **more):\n    return f'epoch {epoch}: {more}'")
    cell = (
        "%%checkpointed --every 1\nlines = []\nfor epoch in range(4):\n    loss = work(epoch)\n"
        "    print(f'epoch {epoch}, loss {loss}')\n    lines.append(told(epoch=epoch, loss=loss))"
    )
    assert kernel.run(cell).status == "computed"
    again = kernel.run(cell)
    assert again.status == "restored", again.line
    kernel.run("import pandas as pd; df = pd.DataFrame({'a': [1, 2, 3]}); k = 1; lengths = []")
    cell = "%%checkpointed\nfor _ in range(2):\n    lengths.append(len(df.query('a > @k')))\n    k = 2"
    kernel.run(cell)
    assert kernel.run("lengths").result == "[2, 1]"
    kernel.run("lengths, k = [], 0")
    kernel.run(cell)
    assert kernel.run("lengths").result == "[3, 1]"


def test_what_went_on_in_the_same_kernel_is_restored_in_the_next(kernel: Kernel) -> None:
    """Also names that had, when it went on, what they have in the end."""
    setup = "out = []; rows = dict.fromkeys('abcdefgh', 0)"
    kernel.run(SETUP + setup)
    (kernel.folder / "closed.txt").write_text("yes")
    cell = (
        "%%checkpointed --every 1\nfor key, value in rows.items():\n    same = None\n    out.append(key)\n"
        "    if key == 'f' and closed():\n        raise OSError"
    )
    assert kernel.run(cell, fails=True).error == "OSError"
    (kernel.folder / "closed.txt").write_text("")
    assert kernel.run(cell).status == "resumed"
    look = "out, key, value, same"
    wanted = kernel.run(look).result
    kernel.restart()
    kernel.run(SETUP + setup)
    again = kernel.run(cell)
    assert again.status == "restored", again.line
    assert kernel.run(look).result == wanted


def test_what_it_had_done_before_it_went_on_in_the_same_kernel_comes_back_in_the_next(kernel: Kernel) -> None:
    """Numbers drawn, options set and names deleted before the cut, and not after it."""
    setup = "import numpy as np; random.seed(3); np.seterr(divide='warn'); out = []; old = 1; kept = [0]"
    kernel.run(SETUP + setup)
    (kernel.folder / "closed.txt").write_text("yes")
    cell = (
        "%%checkpointed --every 1\nfor i in range(6):\n    if i < 3:\n        out.append(random.random())\n"
        "        kept.append(i)\n        np.seterr(divide='ignore')\n"
        "    if i == 1:\n        del old\n    if i == 4 and closed():\n        raise OSError\n    out.append(i)"
    )
    assert kernel.run(cell, fails=True).error == "OSError"
    (kernel.folder / "closed.txt").write_text("")
    assert kernel.run(cell).status == "resumed"
    look = "out, kept, i, 'old' in globals(), np.geterr()['divide'], random.random()"
    wanted = kernel.run(look).result
    kernel.restart()
    kernel.run(SETUP + setup)
    again = kernel.run(cell)
    assert again.status == "restored", again.line
    assert kernel.run(look).result == wanted


def test_an_interrupt_that_the_code_swallows_is_not_the_end_of_the_loop(kernel: Kernel) -> None:
    kernel.run(SETUP)
    cell = (
        "%%checkpointed --every 1\ntry:\n    for i in range(10):\n        work(i)\n"
        "        if i == 6 and closed():\n            signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    print('stopped')"
    )
    (kernel.folder / "closed.txt").write_text("yes")
    stopped = kernel.run(cell)
    assert stopped.stdout == "stopped\n"
    assert "not saved: it was interrupted" in stopped.line, stopped.line
    (kernel.folder / "closed.txt").write_text("")
    assert "loop continued at 7 of 10" in kernel.run(cell).line
    assert kernel.run("i").result == "9"


ODD = """import threading
class Odd:
    def __reduce__(self):
        signal.raise_signal(signal.SIGINT)
        return Odd, ()
def odds():
    for n in range(9): yield Odd()
def soon():
    threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    return 1
n = 0
"""
INTERRUPTED = {
    "while it is saved": "for i in range(9):\n    x = Odd()",
    "while a `while` is saved": "while n < 9:\n    n += 1\n    x = Odd()",
    "while an item is noted": "for x in odds():\n    time.sleep(5)",
    "between two turns": "while True:\n    n = n or soon()",
    "between two items": "for i in (i for i in iter(int, 1)):\n    n = n or soon()",
}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_shows_the_users_line_and_none_of_ours(kernel: Kernel, name: str) -> None:
    kernel.run(SETUP + ODD)
    between = name.startswith("between")
    every = "" if between else " --every 1"
    for again in range(8 if between else 1):
        kernel.run("n = 0")
        stopped = kernel.run(f"%%checkpointed --force{every}\n{INTERRUPTED[name]}", fails=True)
        assert stopped.error == "KeyboardInterrupt", again
        shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(stopped.traceback)) + stopped.stderr
        assert "nbcheckpoint/" not in shown, shown
        assert "hidden" not in shown
        assert re.search(r"-+> \d", shown)
    assert kernel.run("'goes on'").result == "'goes on'"


def test_tracebacks_show_the_users_lines(kernel: Kernel) -> None:
    kernel.run(SETUP)
    text = "for i in (1 // n for n in (1, 0)):\n    pass"
    plain = kernel.run(text, fails=True)
    ours = kernel.run(f"%%checkpointed\n{text}", fails=True)
    assert ours.error == plain.error == "ZeroDivisionError"
    assert "nbcheckpoint" not in "".join(ours.traceback)


@pytest.mark.parametrize("part", ["loop.Loop.begin", "loop.Loop.dive"])
def test_a_fault_of_ours_when_it_begins_leaves_the_loop_as_it_is(kernel: Kernel, part: str) -> None:
    kernel.run(
        f"{SETUP}from nbcheckpoint.notebook import loop\nout = []\ndef fault(*_, **__): raise KeyError('ours')\n"
    )
    kernel.run(f"{part} = fault")
    shown = kernel.run("%%checkpointed --every 1\nfor i in range(3):\n    out.append(i)")
    assert "a fault of nbcheckpoint: KeyError: 'ours'" in shown.line, shown.line
    assert kernel.run("out, i").result == "([0, 1, 2], 2)"


INJECT = """import nbcheckpoint.notebook.looping as looping, nbcheckpoint.notebook.loops as loops
import nbcheckpoint.notebook.loop as loop
import nbcheckpoint.engine.trail as trail, nbcheckpoint.fingerprint.files as files, nbcheckpoint.fingerprint.rng as rng
def inject(owner, name):
    real, left = getattr(owner, name), [1]
    def fault(*args, **kwargs):
        if left:
            raise KeyError("ours", left.pop())
        return real(*args, **kwargs)
    setattr(owner, name, fault)
"""
FAULTS = [
    *("loop.Loop.begin", "loop.Loop.skip", "loop.Loop._length", "loops.Loops.gone_on", "looping.conditions.not_there"),
    *("files.FileWatch.adopt", "rng.restore"),
]
LONG = """import nbcheckpoint.notebook.loop as loop, nbcheckpoint.engine.pace as pace
loop._DEEP_SHARE, pace.LEAST_SECONDS = 0.01, 0.01
"""
GOING_ON = {
    "items that are skipped": ("", "for n in range(8):\n    out.append(random.random())\n    gate(n, 5)"),
    "items that are compared": (
        "def g():\n    for n in range(8): yield n, random.random()\n",
        "for n in g():\n    out.append(n)\n    gate(n[0], 5)",
    ),
    "an iterator that was saved": (
        "rows = [[n] for n in range(8)]",
        "for n in rows:\n    n.append(random.random())\n    out.append(n)\n    gate(n[0], 5)",
    ),
    "a while": ("n = 0", "while n < 8:\n    n += 1\n    out.append(random.random())\n    gate(n, 5)"),
    "a loop in a loop": (
        LONG,
        "for m in range(3):\n    out.append(m)\n    for n in range(4):\n        out.append(random.random())\n"
        "        time.sleep(0.05)\n        gate((m, n), (1, 2))",
    ),
}


@pytest.mark.parametrize("name", GOING_ON)
def test_a_fault_of_ours_when_it_goes_on_is_not_the_users(kernel: Kernel, name: str) -> None:
    """It begins anew, with everything as it was; or, with a loop around it, it goes on and is not saved."""
    setup, loop = GOING_ON[name]
    setup = f"out = []; random.seed(1)\n{setup}"
    every = "0.01s" if setup.endswith(LONG) else "1"
    cell, look = f"%%checkpointed --every {every}\n{loop}", "out, n, random.random()"
    wanted = uninterrupted(kernel, cell, look, setup=setup)
    cut(kernel, cell, setup=setup)
    kernel.kill()
    shutil.copytree(kernel.folder / ".nbcheckpoint", kernel.folder / "kept")
    told = 0
    for part in FAULTS:
        shutil.rmtree(kernel.folder / ".nbcheckpoint")
        shutil.copytree(kernel.folder / "kept", kernel.folder / ".nbcheckpoint")
        kernel.start()
        kernel.run(SETUP + setup + "\n" + INJECT)
        owner, _, attribute = part.rpartition(".")
        kernel.run(f"inject({owner}, {attribute!r})")
        shown = kernel.run(cell, fails=True)
        assert not shown.error, (part, shown.traceback)
        assert kernel.run(look).result == wanted, (part, shown.line)
        told += "a fault of nbcheckpoint: KeyError: ('ours', 1)" in shown.line
        kernel.kill()
    kernel.start()
    assert told


@pytest.mark.parametrize("since", ["", "more\n", "changed"])
def test_a_log_it_keeps_may_have_grown_since_the_last_save(kernel: Kernel, since: str) -> None:
    """Nothing is taken out of it, and the loop goes on; unless it is not the file it was."""
    cell = (
        "%%checkpointed --every 1\nfor i in range(10):\n    gate(i, 7)\n"
        "    with open('log.txt', 'a') as out:\n        print(work(i), file=out)\n    out = None"
    )
    cut(kernel, cell, saved=7)
    log = kernel.folder / "log.txt"
    if since == "changed":
        log.write_text("x" + log.read_text())
        assert kernel.run(cell).status == "computed"
        return
    log.write_text(log.read_text() + since)
    again = kernel.run(cell)
    assert again.status == "resumed", again.line
    assert ("log.txt keeps 5 B added after the last save" in again.line) == bool(since)
    assert log.read_text().split() == [*map(str, [i * i for i in range(7)]), *since.split(), "49", "64", "81"]
    log.write_text(log.read_text() + "by hand\n")
    third = kernel.run(cell)
    assert third.status == "restored", third.line
    log.write_text("x")
    assert "the file it wrote was changed: log.txt" in kernel.run(cell).line


RESULTS = (
    "%%checkpointed --every 1\nfor i in range(8):\n    gate(i, 5)\n"
    "    with open('results.csv', 'a') as out:\n        print(work(i), file=out)"
)
WITH_HEAD = "with open('results.csv', 'w') as out: out.write('square\\n')"
ANEW = "if os.path.exists('results.csv'): os.remove('results.csv')"


@pytest.mark.parametrize(("begins", "head"), [(WITH_HEAD, ["square"]), (ANEW, [])])
def test_lines_of_a_file_that_is_begun_again_before_the_loop_are_put_back(
    kernel: Kernel, begins: str, head: list[str]
) -> None:
    """What begins the file takes no time, so it runs in the new kernel, too. The lines were as good as lost."""
    cut(kernel, RESULTS, setup=begins, saved=5)
    again = kernel.run(RESULTS)
    assert again.line.startswith("resumed: loop continued at 6 of 8")
    assert "results.csv was begun again and has its 11 B back" in again.line
    wanted = [*head, *(str(i * i) for i in range(8))]
    assert (kernel.folder / "results.csv").read_text().split() == wanted
    assert worked(kernel.folder) == [*range(8)]
    kernel.restart()
    kernel.run(SETUP + begins)
    assert kernel.run(RESULTS).status == "restored"
    assert (kernel.folder / "results.csv").read_text().split() == wanted, "what is restored as a whole as well"
    kernel.run(begins)
    kernel.run("with open('results.csv', 'a') as out: out.write('of somebody else\\n')")
    assert kernel.run(RESULTS).status == "computed", "that is no longer what was there before the first of them"
    added = wanted[len(head) :]
    assert (kernel.folder / "results.csv").read_text().split() == [*head, "of", "somebody", "else", *added]


def test_two_loops_that_add_to_one_file_put_back_their_own_lines(kernel: Kernel) -> None:
    kernel.run(SETUP + WITH_HEAD)
    first, second = RESULTS, RESULTS.replace("range(8)", "range(8, 10)")
    kernel.run(first)
    kernel.run(second)
    kernel.restart()
    kernel.run(SETUP + WITH_HEAD)
    assert kernel.run(first).status == kernel.run(second).status == "restored"
    assert (kernel.folder / "results.csv").read_text().split() == ["square", *(str(i * i) for i in range(10))]


def test_two_cells_with_one_name_are_told_apart(kernel: Kernel) -> None:
    kernel.run(SETUP)
    first = kernel.run("%%checkpointed mine --code ignore\na = 1", id="one")
    assert first.status == "computed"
    second = kernel.run("%%checkpointed mine --code ignore\nb = 2", id="two")
    assert "'mine' is the name of another cell" in second.line
    assert kernel.run("a, b").result == "(1, 2)"


def test_a_connection_in_the_loop_is_named_and_the_loop_runs(kernel: Kernel) -> None:
    kernel.run(SETUP + "import sqlite3")
    cell = "%%checkpointed --every 1\nfor i in range(3):\n    con = sqlite3.connect(':memory:')\n    time.sleep(0.8)"
    shown = kernel.run(cell)
    assert "the loop would begin anew: con (sqlite3.Connection" in shown.line, shown.line
    assert kernel.run("i").result == "2"


def test_inputs_that_changed_begin_it_anew(kernel: Kernel) -> None:
    cell = "%%checkpointed --every 1\nfor i in range(10):\n    total += work(i) * k\n    gate(i, 7)"
    cut(kernel, cell, setup="total = 0; k = 1")
    kernel.run("k = 2")
    again = kernel.run(cell)
    assert again.status == "computed", again.line
    assert kernel.run("total").result == str(2 * sum(i * i for i in range(10)))


@pytest.mark.parametrize(
    "before", ['print("before", 1)', 'display("before")', 'print("a")\n    display("b")\n    print("c", end="")']
)
def test_what_stands_before_a_loop_and_runs_again_is_shown_once(kernel: Kernel, before: str) -> None:
    """It showed the same again, and then all that had been shown when the loop was saved, itself included."""
    body = f"if True:\n    {before}\n    for n in range(6):\n        gate(n, 4)\n        print('item', work(n))"
    cell = f"%%checkpointed --every 1\n{body}"
    cut(kernel, cell, saved=4)
    went_on = kernel.run(cell)
    assert "continued" in went_on.line
    assert worked(kernel.folder) == [0, 1, 2, 3, 4, 5]
    with Kernel(kernel.folder, notebook="plain.ipynb") as plain:
        plain.run(SETUP.replace("%load_ext nbcheckpoint", ""))
        alone = plain.run(body)
    assert went_on.stdout == alone.stdout
    shown = [d["data"]["text/plain"] for d in went_on.displays if "nbcheckpoint" not in d["metadata"]]
    assert shown == [d["data"]["text/plain"] for d in alone.displays]


FRAMES = (
    "%%checkpointed --every 1\nfor i in range(6):\n"
    "    with open(f'frame{i}.txt', 'w') as file:\n        file.write(str(work(i)))\n    gate(i, 4)"
)


def frames(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("frame*.txt"))]


def test_a_file_of_an_earlier_iteration_that_is_gone_is_made_again(kernel: Kernel) -> None:
    """Somebody cleared the folder before running it again. The iterations left do not write what the others wrote."""
    cut(kernel, FRAMES, saved=4)
    (kernel.folder / "frame1.txt").unlink()
    assert "the file it wrote is gone: frame1.txt" in kernel.run(FRAMES).line
    assert frames(kernel.folder) == ["0", "1", "4", "9", "16", "25"]


def test_and_also_when_the_loop_that_went_on_is_over(kernel: Kernel) -> None:
    cut(kernel, FRAMES, saved=4)
    assert "loop continued at 5 of 6" in kernel.run(FRAMES).line
    assert kernel.run(FRAMES).status == "restored"
    for change, why in ((lambda path: path.write_text("7"), "was changed"), (Path.unlink, "is gone")):
        change(kernel.folder / "frame1.txt")
        assert f"the file it wrote {why}: frame1.txt" in kernel.run(FRAMES).line
        assert frames(kernel.folder) == ["0", "1", "4", "9", "16", "25"]


def test_a_file_that_was_changed_behind_the_last_iteration_is_made_again(kernel: Kernel) -> None:
    cell = "%%checkpointed --every 1\nfor a, b in zip('ab', range(9)):\n    with open('last.txt', 'w') as file:\n"
    cell += "        file.write(str(work(b)))\nelse:\n    gate(1, 1)"
    cut(kernel, cell, saved=2)
    (kernel.folder / "last.txt").write_text("7")
    kernel.run(cell)
    assert (kernel.folder / "last.txt").read_text() == "1"


BEST = (
    "%%checkpointed --every 2\nfor i in range(6):\n    if work(i) in (1, 4, 16):\n"
    "        with open('best.txt', 'w') as file: file.write(str(i))\n    gate(i, 5)"
)
UNTRAINED = "with open('best.txt', 'w') as file: file.write('untrained')"


@pytest.mark.parametrize("written_again", [True, False])
def test_a_file_that_is_written_before_the_loop_is_not_what_the_loop_left_of_it(
    kernel: Kernel, *, written_again: bool
) -> None:
    """What stands before the loop runs again in the new kernel. What the killed one wrote after its last save is the
    loop's own."""
    cut(kernel, BEST, setup=UNTRAINED if written_again else "", saved=4)
    line = kernel.run(BEST).line
    if written_again:
        assert "the file it wrote was changed: best.txt" in line
    else:
        assert "loop continued at 5 of 6" in line
    assert (kernel.folder / "best.txt").read_text() == "4"
    assert worked(kernel.folder)[6:] == [*range(6)][0 if written_again else 4 :]


@pytest.mark.parametrize("written_again", [True, False])
def test_nor_is_it_in_the_kernel_the_loop_failed_in(kernel: Kernel, *, written_again: bool) -> None:
    kernel.run(SETUP)
    cell = BEST.replace("gate(i, 5)", "1 / (5 - i or not closed())")
    (kernel.folder / "closed.txt").write_text("yes")
    assert "ZeroDivisionError" in kernel.run(cell, fails=True).error
    (kernel.folder / "closed.txt").write_text("")
    if written_again:
        kernel.run(UNTRAINED)
    line = kernel.run(cell).line
    assert ("the file it wrote was changed: best.txt" if written_again else "loop continued at 5 of 6") in line
    assert (kernel.folder / "best.txt").read_text() == "4"


def test_a_loop_that_would_miss_a_file_it_has_removed_begins_anew(kernel: Kernel) -> None:
    """Killed behind that: to go on, it would remove the file once more, and fail, however often it is run."""
    cell = FRAMES.replace(
        "    gate", "    kept.append(f'frame{i}.txt')\n    if i > 1: os.remove(kept.pop(0))\n    gate"
    )
    cut(kernel, cell, setup="kept = []\n", saved=4)
    assert "the file it wrote is gone: frame2.txt" in kernel.run(cell).line
    assert frames(kernel.folder) == ["16", "25"]


@pytest.mark.parametrize(
    "gone", ["pathlib.Path(f'frame{i - 2}.txt').unlink(missing_ok=True)", "library_that_tidies.up(i)"]
)
def test_a_loop_that_keeps_the_latest_files_goes_on_without_the_others(kernel: Kernel, gone: str) -> None:
    """The iteration it was killed in had removed one that was there when it was saved."""
    (kernel.folder / "site-packages").mkdir()
    tidies = "import pathlib\ndef up(i):\n    pathlib.Path(f'frame{i - 2}.txt').unlink(missing_ok=True)"
    (kernel.folder / "site-packages" / "library_that_tidies.py").write_text(tidies)
    cell = FRAMES.replace("    gate", f"    if i > 1: {gone}\n    gate")
    cut(
        kernel,
        cell,
        setup="import pathlib, sys; sys.path.append('site-packages'); import library_that_tidies\n",
        saved=4,
    )
    assert "loop continued at 5 of 6" in kernel.run(cell).line
    assert frames(kernel.folder) == ["16", "25"]

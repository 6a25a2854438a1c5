"""`%%checkpointed` in a real kernel that is killed, restarted and asked again."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

LOAD = "%load_ext nbcheckpoint"


def again(kernel: Kernel, *cells: str) -> Cell:
    """A new kernel, the same cells: what the last one shows."""
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    for cell in cells[:-1]:
        kernel.run(cell)
    return kernel.run(cells[-1])


def test_a_killed_kernel_gives_its_values_and_outputs_back(kernel: Kernel) -> None:
    cell = "%%checkpointed\nprint('working')\nx = sum(range(1000))\ny = {'a': [x]}\nx"
    first = kernel.run(cell)
    assert first.status == "computed"
    assert "saved x, y" in first.line
    second = again(kernel, cell)
    assert second.status == "restored"
    assert second.stdout == first.stdout == "working\n"
    assert second.result == first.result == "499500"
    assert kernel.run("x, y").result == "(499500, {'a': [499500]})"


def test_who_has_kept_an_earlier_result_goes_on_having_it(kernel: Kernel) -> None:
    """A cell that is run again binds its names anew: what they had before it does not matter."""
    cell = "%%checkpointed\nmodel = {'weights': [1, 2]}\nscores = [model['weights'][0]]"
    kernel.run(cell)
    kernel.run("kept = [model]; w = model['weights']")
    assert kernel.run(cell).status == "restored"
    kernel.run("w.append(3)")
    assert kernel.run("kept, model").result == "([{'weights': [1, 2, 3]}], {'weights': [1, 2]})"


@pytest.mark.parametrize("change", ["x.append(1)", "x = (x.append(1), x)[1]", "x += [1]"])
def test_who_shares_what_is_changed_in_place_is_not_left_behind(kernel: Kernel, change: str) -> None:
    cells = "x = [0]", f"%%checkpointed --ignore x\n{change}"
    for cell in cells:
        kernel.run(cell)
    kernel.restart()
    kernel.run("%load_ext nbcheckpoint")
    for cell in (cells[0], "y = {'x': x}", cells[1]):
        shown = kernel.run(cell)
    assert shown.status == "computed", shown.line
    assert kernel.run("x is y['x'], x").result == "(True, [0, 1])"


def test_outputs_come_back_in_order_and_of_every_kind(kernel: Kernel) -> None:
    cell = (
        "%%checkpointed\nimport sys\nfrom IPython.display import HTML, display\n"
        "print('one')\ndisplay(HTML('<b>two</b>'))\nprint('three', file=sys.stderr)\n"
        "for i in range(3): print(f'\\r{i}', end='')\n4"
    )
    first = kernel.run(cell)
    second = again(kernel, cell)
    assert second.status == "restored"
    assert second.displays[0]["data"]["text/html"] == first.displays[0]["data"]["text/html"] == "<b>two</b>"
    assert second.stdout == "one\n2"  # the progress as it stood at last
    assert second.stderr == first.stderr == "three\n"
    assert second.result == "4"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("k = 3", "k = 4", id="a global"),
        pytest.param("k = [1, 2]", "k = [1, 3]", id="a value inside a container"),
        pytest.param("def f(): return 1\nk = f", "def f(): return 2\nk = f", id="a function passed as a value"),
        pytest.param("k = 3\nh = lambda: 1", "k = 3\nh = lambda: 2", id="a lambda"),
        pytest.param("def h(n=1): return n", "def h(n=2): return n", id="a default argument"),
        pytest.param(
            "def g(): return 1\ndef h(): return g()", "def g(): return 2\ndef h(): return g()", id="a helper's helper"
        ),
        pytest.param("c = 1\ndef h(): return c", "c = 2\ndef h(): return c", id="a global read by a helper"),
        pytest.param(
            "def make(n):\n    def inner(): return n\n    return inner\nh = make(1)",
            "def make(n):\n    def inner(): return n\n    return inner\nh = make(2)",
            id="a closure",
        ),
        pytest.param(
            "class A:\n    def m(self): return 1\nh = A().m",
            "class A:\n    def m(self): return 2\nh = A().m",
            id="a method",
        ),
        pytest.param(
            "class A:\n    z = 1\n    def __call__(self): return self.z\nh = A()",
            "class A:\n    z = 2\n    def __call__(self): return self.z\nh = A()",
            id="a class attribute",
        ),
        pytest.param(
            "import functools\nh = functools.partial(max, 1, 0)",
            "import functools\nh = functools.partial(max, 2, 0)",
            id="a partial",
        ),
        pytest.param("x = [0]\nk = [x, x]", "x = [0]\nk = [x, [0]]", id="which of two equal lists are one"),
        pytest.param("import random\nrandom.seed(1)", "import random\nrandom.seed(2)", id="a seed"),
    ],
)
def test_what_changed_is_noticed(kernel: Kernel, before: str, after: str) -> None:
    defaults = "import random\nk = 0\nh = lambda: 0\n"
    cell = "%%checkpointed\nresult = (repr(k) if not callable(k) else k(), h(), random.random())"
    kernel.run(defaults + before)
    assert kernel.run(cell).status == "computed"
    kernel.run(defaults + after)
    changed = kernel.run(cell)
    assert changed.status == "computed", changed.line
    kernel.run(defaults + before)
    if "seed" not in before:
        assert kernel.run(cell).status == "restored", "going back to what it was is a hit again"


def test_code_is_compared_not_layout(kernel: Kernel) -> None:
    kernel.run("%%checkpointed\nx = 1 + 2")
    assert kernel.run("%%checkpointed\n# a comment\nx = (1 +\n     2)").status == "restored"
    assert kernel.run("%%checkpointed\nx = 1 + 3").status == "computed"
    assert kernel.run("x").result == "4"


def test_a_changed_file_is_noticed(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("one")
    cell = "%%checkpointed\ntext = open('data.txt').read()"
    kernel.run(cell)
    assert kernel.run(cell).status == "restored"
    (tmp_path / "data.txt").write_text("two")
    changed = kernel.run(cell)
    assert "file data.txt changed" in changed.line
    assert kernel.run("text").result == "'two'"


def test_a_file_it_wrote_must_still_be_there(kernel: Kernel, tmp_path: Path) -> None:
    cell = "%%checkpointed\n_ = open('out.txt', 'w').write('made')\ndone = True"
    kernel.run(cell)
    assert kernel.run(cell).status == "restored"
    (tmp_path / "out.txt").unlink()
    assert "the file it wrote is gone: out.txt" in kernel.run(cell).line
    assert (tmp_path / "out.txt").read_text() == "made"


def test_an_environment_variable_is_an_input_and_its_value_stays_private(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("import os\ndef token(): return os.environ['TOKEN']\nos.environ['TOKEN'] = 'hunter2-secret'")
    cell = "%%checkpointed\nn = len(token())\nregion = os.getenv('REGION')"
    kernel.run(cell)
    assert kernel.run(cell).status == "restored"
    kernel.run("os.environ['TOKEN'] = 'other'")
    assert "environment variable TOKEN changed" in kernel.run(cell).line
    kernel.run("os.environ['REGION'] = 'eu'")
    assert "environment variable REGION changed" in kernel.run(cell).line
    stored = b"".join(path.read_bytes() for path in (tmp_path / ".nbcheckpoint").rglob("*") if path.is_file())
    assert b"hunter2" not in stored


HASHED = {
    "itself": ("x = ['oak', 'yew']", "y = [hash(w) % 97 for w in x]", "[hash(w) % 97 for w in x]"),
    "given to a function": ("x = ['oak', 'yew']", "y = sorted(x, key=hash)", "sorted(x, key=hash)"),
    "by another name": ("h = hash; x = ['oak', 'yew']", "y = [h(w) % 97 for w in x]", "[hash(w) % 97 for w in x]"),
    "held by something": ("held = {'by': hash}", "y = held['by']('oak')", "hash('oak')"),
    "a default": ("def f(w, by=hash): return by(w)", "y = f('oak')", "hash('oak')"),
    "of a class": ("class A:\n    by = hash", "y = A.by('oak')", "hash('oak')"),
    "of builtins": ("import builtins; x = 'oak'", "y = builtins.hash(x)", "hash(x)"),
    "by name": ("x = 'oak'", "y = x.__hash__()", "hash(x)"),
    "in a function": ("def f(w): return hash(w) % 97", "y = f('oak')", "hash('oak') % 97"),
    "in a method of an input": (
        "class Filter:\n    def slot(self, w): return hash(w) % 97\nf = Filter()",
        "y = f.slot('oak')",
        "hash('oak') % 97",
    ),
    "in a step": (
        "import nbcheckpoint as nbc\n@nbc.step\ndef f(w): return hash(w) % 97",
        "y = f('oak')",
        "hash('oak') % 97",
    ),
}


@pytest.mark.parametrize("name", HASHED)
def test_the_hash_of_a_text_is_another_one_in_the_next_kernel(tmp_path: Path, name: str) -> None:
    before, cell, expected = HASHED[name]
    found = []
    for seed in ("1", "2", "2", "1"):
        with Kernel(tmp_path, env={"PYTHONHASHSEED": seed}) as kernel:
            kernel.run(f"%load_ext nbcheckpoint\n{before}")
            line = kernel.run(f"%%checkpointed\n{cell}").line
            found.append((kernel.run("y").result, kernel.run(expected).result, line))
    assert all(ours == plain for ours, plain, _ in found), found
    if name != "in a step":  # the step is restored, and the statement that calls it runs
        assert "computed" in found[1][2]
        assert ["restored" in line for _, _, line in found[2:]] == [True, True], "where the seed is the same"


def test_a_class_that_has_a_hash_does_not_depend_on_the_seed(tmp_path: Path) -> None:
    """Dicts and sets ask for it, and give the same in every kernel."""
    before = (
        "class Point:\n    def __init__(self, n): self.n = n\n    def __eq__(self, other): return self.n == other.n\n"
        "    def __hash__(self): return hash(('point', self.n))\npoints = [Point(n) for n in range(3)]"
    )
    record = "record = {'hash': 5}\ndef by(key, hash): return key[hash]"
    for seed in ("1", "2"):
        with Kernel(tmp_path, env={"PYTHONHASHSEED": seed}) as kernel:
            kernel.run(f"%load_ext nbcheckpoint\n{before}\n{record}")
            line = kernel.run("%%checkpointed\nat = {p: p.n for p in points}; total = sum(at.values())").line
            assert kernel.run("at[Point(2)], total").result == "(2, 3)"
            other = kernel.run("%%checkpointed\nfound = by(record, 'hash')").line
    assert "restored" in line
    assert "restored" in other, "no more does what only has that name"


def test_what_it_does_with_signals_is_done_again(kernel: Kernel) -> None:
    for _ in range(2):
        kernel.run("%load_ext nbcheckpoint\nimport signal")
        again = kernel.run("%%checkpointed\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)")
        assert "computed" in again.line
        assert kernel.run("signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN").result == "True"
        kernel.kill()
        kernel.start()


def test_random_numbers_go_on_as_if_nothing_had_happened(kernel: Kernel) -> None:
    cells = ["import random\nrandom.seed(7)", "%%checkpointed\na = [random.random() for _ in range(3)]"]
    for cell in cells:
        kernel.run(cell)
    expected = kernel.run("a, random.random()").result
    assert again(kernel, *cells).status == "restored"
    assert kernel.run("a, random.random()").result == expected


def test_an_unseeded_draw_is_restored_and_a_seed_undoes_that(kernel: Kernel) -> None:
    cells = ["import random", "%%checkpointed\na = random.random()"]
    kernel.run(cells[0])
    kernel.run(cells[1])
    drawn = kernel.run("a").result
    assert again(kernel, *cells).status == "restored"
    assert kernel.run("a").result == drawn
    kernel.run("random.seed(1)")
    assert "random numbers differs" in kernel.run(cells[1]).line


def test_what_is_changed_in_place_comes_back_changed(kernel: Kernel) -> None:
    cells = ["x = [1]\nalias = x", "%%checkpointed\nx.append(2)"]
    for cell in cells:
        kernel.run(cell)
    assert again(kernel, *cells).status == "restored"
    assert kernel.run("x, alias, alias is x").result == "([1, 2], [1, 2], True)"


def test_an_alias_that_was_not_there_before_stops_a_restore(kernel: Kernel) -> None:
    kernel.run("x = [1]")
    kernel.run("%%checkpointed\nx.append(2)")
    kernel.run("x = [1]\nlater = x")
    assert "input later is new" in kernel.run("%%checkpointed\nx.append(2)").line
    assert kernel.run("later").result == "[1, 2]"


def test_deleted_names_stay_deleted(kernel: Kernel) -> None:
    cells = ["x = 1", "%%checkpointed\ny = x + 1\ndel x"]
    for cell in cells:
        kernel.run(cell)
    assert again(kernel, *cells).status == "restored"
    assert kernel.run("'x' in globals(), y").result == "(False, 2)"


def test_classes_and_functions_are_the_live_ones(kernel: Kernel) -> None:
    cells = [
        "%%checkpointed\nimport math\nscale = 2\n"
        "class Point:\n    def __init__(self, x): self.x = x\n    def scaled(self): return self.x * scale\n"
        "def root(p): return math.sqrt(p.x)\n"
        "p = Point(16)\nf = lambda v: v * scale",
    ]
    kernel.run(cells[0])
    assert again(kernel, *cells).status == "restored"
    kernel.run("scale = 10")
    assert kernel.run("isinstance(p, Point), p.scaled(), root(p), f(1)").result == "(True, 160, 4.0, 10)"


def test_what_threads_print_beside_each_other_is_all_shown_again(kernel: Kernel) -> None:
    begin = """import sys
from concurrent.futures import ThreadPoolExecutor
def noisy():
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: [sys.stdout.write(f"{n} {k}\\n") for k in range(500)], range(4)))
    return True"""
    cell = "%%checkpointed\ndone = noisy()\nprint('over')"
    kernel.run(begin)
    whole = sorted(kernel.run(cell).stdout.splitlines())
    assert len(whole) == 2001
    kernel.restart()
    kernel.run(f"%load_ext nbcheckpoint\n{begin}")
    again = kernel.run(cell)
    assert again.line.startswith("restored")
    assert sorted(again.stdout.splitlines()) == whole


def test_one_bad_value_costs_only_itself_and_is_named(kernel: Kernel) -> None:
    kernel.run("import socket")
    cell = "%%checkpointed\ngood = 1\nbad = {'deep': [socket.socket()]}"
    shown = kernel.run(cell)
    assert "saved good" in shown.line
    assert "not saved: bad (socket.socket at bad['deep'][0]: cannot be pickled)" in shown.line
    assert "bad could not be saved" in kernel.run(cell).line


def test_await_magics_and_syntax_errors_behave_as_without_us(kernel: Kernel) -> None:
    awaited = "%%checkpointed\nimport asyncio\nawait asyncio.sleep(0)\nx = await asyncio.sleep(0, 5)\nx"
    assert kernel.run(awaited).result == "5"
    assert kernel.run(awaited).status == "restored"
    assert kernel.run("%%checkpointed\n%matplotlib --list\nz = 1").status == "computed"
    timed = kernel.run("%%time\n%%checkpointed\nw = 1")
    assert "CPU times" in timed.stdout
    assert timed.status in ("computed", "restored")
    assert kernel.run("%%checkpointed\nx = = 1", fails=True).error == "SyntaxError"
    failed = kernel.run("%%checkpointed\na = 1\n\nraise ValueError('no')", fails=True)
    assert failed.error == "ValueError"
    told = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(failed.traceback))
    assert re.search(r"line 4|:4|-> 4 ", told)


def test_what_skips_the_files_it_has_made_is_restored_with_all_it_found(kernel: Kernel) -> None:
    kernel.run("import os, pathlib")
    cell = (
        "%%checkpointed\nfound = []\nfor n in range(3):\n    path = pathlib.Path(f'part{n}.txt')\n"
        "    if path.exists(): continue\n    path.write_text(str(n))\n    found.append(n)\nfound"
    )
    assert kernel.run(cell).result == "[0, 1, 2]"
    again = kernel.run(cell)
    assert (again.result, again.status) == ("[0, 1, 2]", "restored")
    kernel.run("os.remove('part1.txt')")
    assert kernel.run(cell).result == "[1]", "one of them is not in its place"
    kernel.run("pathlib.Path('part1.txt').write_text('another')")
    assert kernel.run(cell).result == "[]", "nor is it now"


def test_a_failed_cell_is_never_a_hit(kernel: Kernel) -> None:
    cell = "%%checkpointed\nx = 1\nif fail: raise ValueError\n"
    kernel.run("fail = True")
    kernel.run(cell, fails=True)
    assert kernel.run(cell, fails=True).error == "ValueError"


def test_cells_inside_of_cells(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("one")
    taps = "[n for o in (sh.display_pub, sh.displayhook) for n in vars(o) if n in ('publish', 'write_format_data')]"
    kernel.run(f"sh = get_ipython()\nuntapped = {taps}")
    inner = "get_ipython().run_cell('%%checkpointed\\ny = 2\\nprint(y)')"
    cell = f"%%checkpointed\nprint('before')\n_ = {inner}\nx = open('data.txt').read()\nprint('after')"
    assert kernel.collect(kernel.client.execute(cell)).stdout == "before\n2\nafter\n"
    (tmp_path / "data.txt").write_text("two")
    kernel.collect(kernel.client.execute(cell))
    assert kernel.run("x, y").result == "('two', 2)", "a file read after the inner cell still counts"
    assert kernel.run(f"({taps}) == untapped").result == "True", "nothing of ours is left switched on"


def test_the_namespace_stays_clean(kernel: Kernel) -> None:
    names = "sorted(n for n in globals() if 'nbc' in n.lower() or 'checkp' in n.lower()), type(globals())"
    kernel.run("%%checkpointed\nx = 1")
    assert kernel.run(names).result == "([], dict)"


def test_a_wrong_option_says_so_and_the_cell_runs(kernel: Kernel) -> None:
    shown = kernel.run("%%checkpointed --frobnicate\nx = 5\nx")
    assert shown.result == "5"
    assert "--frobnicate" in shown.line


def test_a_store_that_cannot_be_opened_does_not_stop_the_cell(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with Kernel(tmp_path, env={"NBCHECKPOINT_STORE": str(tmp_path / "file" / "store")}) as kernel:
        kernel.run(LOAD)
        shown = kernel.run("%%checkpointed\nx = 5\nx")
    assert shown.result == "5"
    assert "not checkpointed" in shown.line


def test_options(kernel: Kernel) -> None:
    kernel.run("n = 1\nm = 1")
    kernel.run("%%checkpointed --ignore n --save a\na = n\nb = 2")
    kernel.run("n = 2\ndel b")
    assert kernel.run("%%checkpointed --ignore n --save a\na = n\nb = 2").status == "restored"
    assert kernel.run("a, 'b' in globals()").result == "(1, False)"
    kernel.run("%%checkpointed --depends m\nc = 1")
    kernel.run("m = 2")
    assert "input m changed" in kernel.run("%%checkpointed --depends m\nc = 1").line
    assert kernel.run("%%checkpointed --force --depends m\nc = 1").status == "computed"
    assert kernel.run("%%checkpointed --quiet --depends m\nc = 1").line == ""


def test_a_large_checkpoint_gets_a_word(tmp_path: Path) -> None:
    with Kernel(tmp_path, env={"NBCHECKPOINT_WARN_SIZE": "1MB"}) as kernel:
        kernel.run(LOAD)
        assert "large: 5.0 MB" in kernel.run("%%checkpointed\nx = b'x' * 5_000_000").line
        assert "large" not in kernel.run("%%checkpointed\nx = b'x' * 500_000").line


def test_definitions_run_in_their_place(kernel: Kernel) -> None:
    cell = "%%checkpointed\nx = base + 1\ndef f(a=x): return a\ny = f()"
    kernel.run("base = 1")
    kernel.run(cell)
    kernel.run("base = 5")
    kernel.run(cell)
    assert kernel.run("f(), y").result == "(6, 6)"
    kernel.run("base = 1")
    assert kernel.run(cell).status == "restored"
    assert kernel.run("f(), y").result == "(2, 2)"


def test_an_edit_at_the_end_runs_the_edit_only(kernel: Kernel) -> None:
    kernel.run("import uuid\ndef unique(n): return uuid.uuid4().hex")  # never the same twice, unless it is restored
    first = "%%checkpointed\na = unique(1)\nb = unique(a)\nc = len(b) + 1"
    assert kernel.run(first).status == "computed"
    before = kernel.run("a, b").result
    edited = kernel.run(first.replace("+ 1", "+ 2"))
    assert edited.status == "resumed"
    assert "2 of 3 statements restored" in edited.line
    assert kernel.run("a, b").result == before
    assert kernel.run("c").result == "34"


def test_a_cell_killed_in_its_third_statement_goes_on_there(kernel: Kernel, tmp_path: Path) -> None:
    setup = "import time, uuid\ndef work(n, s=0.6): time.sleep(s); return uuid.uuid4().hex"
    cell = "%%checkpointed\na = work(1)\nb = work(2)\nopen('seen', 'w').write(a + b)\n"
    cell += "print('third')\nc = work(3, 5)\nc != a"
    kernel.run(setup)
    kernel.start_cell(cell, until="third")
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    kernel.run(setup)
    after = kernel.run(cell)
    assert after.result == "True"
    assert after.stdout == "third\n"
    assert after.status == "resumed"
    assert kernel.run("open('seen').read() == a + b").result == "True", "the first two were not run again"


def test_a_statement_that_fails_is_tried_again(kernel: Kernel) -> None:
    kernel.run("from nbcheckpoint.notebook import cells\ncells.FIRST_WAIT = 0.01\nimport os\nfails = [1, 2]")
    kernel.run(
        "def flaky():\n    if fails:\n        fails.pop()\n        raise OSError('the net is down')\n    return 7"
    )
    shown = kernel.run("%%checkpointed --retries 2\nx = flaky()\nfor i in range(2): x += i\nx")
    assert shown.stderr.count("OSError: the net is down · trying again") == 2
    assert shown.result == "8"
    kernel.run("fails = [1, 2, 3]")
    failed = kernel.run("%%checkpointed --retries 2\nflaky()", fails=True)
    assert failed.error == "OSError"


def test_what_does_not_touch_an_open_figure_is_restored_and_what_draws_is_drawn(kernel: Kernel) -> None:
    kernel.run("%matplotlib inline\nimport matplotlib.pyplot as plt, uuid\ndef unique(): return uuid.uuid4().hex")
    kernel.run(
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndef draw():\n    df.plot(ax=plt.gca())\n    return 1"
    )
    cell = (
        "%%checkpointed\n_ = plt.figure()\nx = unique()\n_ = plt.plot([1, 2])\ny = unique()\n"
        "z = draw()\n_ = plt.title(y)"
    )
    first = kernel.run(cell)
    before = kernel.run("x, y").result
    second = kernel.run(cell)
    assert kernel.run("x, y").result == before
    assert "a figure is being drawn" in second.line
    images = [[d["data"]["image/png"] for d in shown.displays if "image/png" in d["data"]] for shown in (first, second)]
    assert len(images[0]) == 1
    assert images[0] == images[1]


OLD_NAMES = {
    "a loop": "for __ in range(3): print(__)",
    "a loop that has a target of its own": "for _, k in [(4, 5)]: pass",
    "with": "import contextlib\nwith contextlib.nullcontext([6]) as _: pass",
    "a walrus": "if (_ := len('seven')): pass",
    "an import": "if True:\n    import json as _",
    "match": "match [8]:\n    case [__]: pass",
    "an assignment": "a, _ = 1, [9]",
    "an except": "try: 1 / 0\nexcept ZeroDivisionError as ___: pass",
    "a global": "def g():\n    global _i\n    _i = 'ten'\ng()",
    "a name of modules": "for __version__ in '12': pass",
}


def test_names_of_ipythons_are_the_users_where_they_bind_them(kernel: Kernel) -> None:
    """A loop over `_` that was restored left `_` as it was."""
    cells = [f"%%checkpointed\n{text}" for text in OLD_NAMES.values()]
    look = "[n + repr(globals().get(n)) for n in ('_', '__', '___', '_i', '__version__')]"
    kernel.run("seen = []")
    for cell in cells:
        kernel.run(cell)
        kernel.run(f"seen.append({look})")
    first = kernel.run("print(seen)").stdout
    again(kernel, "seen = []")
    for cell in cells:
        shown = kernel.run(cell)
        assert shown.status == "restored", (cell, shown.line)
        kernel.run(f"seen.append({look})")
    assert kernel.run("print(seen)").stdout == first


@pytest.mark.parametrize("shown", ["numbers", "first(numbers)", "kept()"])
def test_a_result_that_is_a_variable_is_that_variable_again(kernel: Kernel, shown: str) -> None:
    cells = (
        "numbers = [1]\ndef first(v): return v\ndef kept(): return numbers",
        f"%%checkpointed\n{shown}",
        "_.append(2)",
    )
    for cell in cells[:2]:
        kernel.run(cell)
    assert again(kernel, *cells[:2]).status == "restored"
    kernel.run(cells[2])
    assert kernel.run("numbers").result == "[1, 2]"


def test_a_name_of_ipythons_that_is_restored_leaves_earlier_results_alone(kernel: Kernel) -> None:
    cell = "%%checkpointed\nfor _ in range(2): print(_)"
    kernel.run(cell)
    again(kernel, "earlier = [1]\nearlier", cell)
    assert kernel.run("print(_, [Out[n] for n in sorted(Out)])").stdout == "1 [[1]]\n"


def test_what_an_annotation_says_of_a_name_is_said_again(kernel: Kernel) -> None:
    cells = [
        "class C: pass\ndef slow(): print('ran'); return 1",
        "%%checkpointed\nx: int = slow()",
        "%%checkpointed --retries 1\nr: 'text' = slow()",
        "%%checkpointed\nif slow():\n    y: C = slow()\nelse:\n    n: str = slow()",
        "%%checkpointed\nfor i in range(3):\n    z: list[C] = [slow()]",
    ]
    look = "print({name: str(found) for name, found in __annotations__.items()}, __annotations__['y'] is C)"
    for cell in cells:
        kernel.run(cell)
    wanted = "{'x': \"<class 'int'>\", 'r': 'text', 'y': \"<class '__main__.C'>\", 'z': 'list[__main__.C]'} True\n"
    assert kernel.run(look).stdout == wanted
    again(kernel, cells[0])
    assert [kernel.run(cell).status for cell in cells[1:]] == ["restored"] * 4
    assert kernel.run(look).stdout == wanted


def test_an_annotation_that_runs_code_runs_once_each_time(kernel: Kernel) -> None:
    cells = "calls = []\ndef kind(): calls.append(1); return int", "%%checkpointed\nx: kind() = len('one')"
    for cell in cells:
        kernel.run(cell)
    assert "what it says of x is found out by running it" in again(kernel, *cells).line
    assert kernel.run("calls, __annotations__").result == "([1], {'x': int})"


def test_a_column_of_a_frame_is_no_part_of_what_is_done_with_the_frame(kernel: Kernel) -> None:
    """They lie in the same memory until one of them is written to; restored, they do not, and nobody can tell."""
    cells = [
        "import pandas as pd",
        "%%checkpointed\ndf = pd.DataFrame({'a': [1., 2.], 'b': [3., 4.]})",
        "%%checkpointed\ny = df['a']; top = df.head(1)",
        "%%checkpointed\nm = float(df.to_numpy().sum())",
        "%%checkpointed\ndf.loc[0, 'a'] = 9.",
        "%%checkpointed\ntotal = y.sum() + df['a'].sum() + top['a'].sum()",
    ]
    kernel.run(cells[0])
    assert {kernel.run(cell).status for cell in cells[1:]} == {"computed"}
    values = kernel.run("total, m, y.tolist(), df.a.tolist()").result
    copies = kernel.run("not pd.__version__.startswith('2.')").result == "True"
    kernel.kill()
    kernel.start()
    kernel.run(f"{LOAD}\n{cells[0]}")
    lines = [kernel.run(cell) for cell in cells[1:]]
    assert {cell.status for cell in lines} == {"restored"} or not copies, [cell.line for cell in lines]
    assert kernel.run("total, m, y.tolist(), df.a.tolist()").result == values


def test_what_a_name_had_before_it_was_bound_anew_stays_an_earlier_result(kernel: Kernel) -> None:
    """What is changed in place is the same object there; what is bound anew leaves it alone."""
    cells = ["%%checkpointed\nx = [1]\nx", "%%checkpointed\nx.append(2)", "%%checkpointed\nx = [3]"]
    kernel.run(LOAD)
    for cell in cells:
        kernel.run(cell)
    assert again(kernel, *cells, "[v for v in Out.values() if type(v) is list], x").result == "([[1, 2]], [3])"


def test_loggers_and_their_handlers_are_in_nobodys_way(kernel: Kernel) -> None:
    """A handler kept in a variable leads to what the process writes to, and that to all the kernel has."""
    setup = f"""{LOAD}
import logging, sys
log = logging.getLogger("mine")
log.setLevel("INFO")
to_screen, to_file = logging.StreamHandler(sys.stdout), logging.FileHandler("run.log")
log.addHandler(to_screen); log.addHandler(to_file)
class Job:
    def __init__(self):
        self.log, self.done = logging.getLogger("mine"), []
    def go(self, n):
        self.log.info("at %d", n)
        self.done.append(n)
        return n
other = Job()
"""
    cells = ["%%checkpointed\njob = Job()\nlog.info('begun')", "%%checkpointed --every 1\nfor n in range(3): job.go(n)"]
    kernel.run(setup)
    first = [kernel.run(cell) for cell in cells]
    assert [cell.status for cell in first] == ["computed"] * 2
    assert not any("--ignore" in cell.line or "not saved" in cell.line for cell in first)
    kernel.restart()
    kernel.run(setup)
    second = [kernel.run(cell) for cell in cells]
    assert [cell.status for cell in second] == ["restored"] * 2
    assert [cell.stdout for cell in second] == [cell.stdout for cell in first]
    assert "at 2" in first[1].stdout
    assert kernel.run("job.done, job.log is log").result == "([0, 1, 2], True)"


def test_what_expires_at_once_is_computed_anew(kernel: Kernel) -> None:
    cell = "x = [len('ab')]"
    kernel.run(f"%%checkpointed\n{cell}")
    assert "the saved copy has expired" in kernel.run(f"%%checkpointed --expire 0s\n{cell}").line
    assert kernel.run(f"%%checkpointed --expire 1h\n{cell}").status == "restored"


@pytest.mark.parametrize("method", ["__repr__", "_repr_html_"])
def test_a_value_that_cannot_be_shown_shows_its_error_again(kernel: Kernel, method: str) -> None:
    cells = f"class Odd:\n    def {method}(self): raise OSError('odd')", "%%checkpointed\nOdd()"
    for cell in cells:
        first = kernel.run(cell, fails=True)
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    for cell in cells:
        second = kernel.run(cell, fails=True)
    assert "OSError" in first.error
    assert second.error == first.error
    assert "it shows an error" in second.line


def test_looking_at_a_lazy_frame_says_nothing(kernel: Kernel) -> None:
    """Its columns are worked out when somebody asks, and polars warns of that."""
    (kernel.folder / "p.csv").write_text("a,b\n1,2\n")
    kernel.run("import polars as pl")
    for cell in "lf = pl.scan_csv('p.csv')", "found = [lf, 1]", "n = lf.select('a')":
        assert kernel.run(f"%%checkpointed\n{cell}").stderr == ""


def test_a_sum_of_hundreds_of_terms_is_saved(kernel: Kernel) -> None:
    kernel.run("a = 1")
    cell = "%%checkpointed\ns = " + " + ".join(["a"] * 900)
    shown = kernel.run(cell)
    assert shown.status == "computed", shown.line
    assert kernel.run(cell).status == "restored"


INDEXED = "import pandas as pd\ndays = pd.date_range('2024-01-01', periods=3)\ns = pd.Series([1., 2, 3], index=days)"


@pytest.mark.parametrize(
    ("first", "second", "probe"),
    [
        ("x = [0]; raw = x", "x = x + [2]", "x, raw"),
        ("x = [[0], [1]]; part = x[0]", "x[0] = [5]", "x, part"),
        (INDEXED, "s.iloc[[1]] += 1", "s.tolist(), s.index is days"),
        ("import numpy as np\nd = np.zeros(3); v = d[1:]", "v = v + 1", "d, v"),
    ],
)
def test_who_no_longer_shares_it_is_no_reason_to_compute(kernel: Kernel, first: str, second: str, probe: str) -> None:
    """`raw = df; df = clean(df)` was computed anew in every kernel: its old value has another name, and keeps it."""
    cells = [f"%%checkpointed\n{first}", f"%%checkpointed\n{second}"]
    for cell in cells:
        kernel.run(cell)
    there = kernel.run(probe).result
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    assert [kernel.run(cell).status for cell in cells] == ["restored", "restored"]
    assert kernel.run(probe).result == there


def test_a_skipped_variable_that_shares_what_is_changed_is_not_left_as_it_was(kernel: Kernel) -> None:
    cells = ["%%checkpointed\nx = [0]; raw = x", "%%checkpointed --skip raw\nx.append(len(x))"]
    for cell in cells:
        kernel.run(cell)
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    for cell in cells:
        kernel.run(cell)
    assert kernel.run("x, raw, x is raw").result == "([0, 1], [0, 1], True)"


POOLED = """import json, mmap, sqlite3, tempfile
from contextlib import closing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from joblib import Parallel, delayed
from multiprocessing import Pool
"""


@pytest.mark.parametrize(
    "cell",
    [
        "with ProcessPoolExecutor(2) as pool:\n    x = list(pool.map(abs, range(-3, 0)))",
        "with Pool(2) as pool:\n    x = pool.map(abs, range(-3, 0))",
        "with ThreadPoolExecutor(2) as pool:\n"
        "    tasks = [pool.submit(abs, n) for n in range(-3, 0)]\n"
        "    x = sorted(task.result() for task in as_completed(tasks))[::-1]",
        "with open('three.json') as file:\n    x = json.load(file)",
        "with tempfile.NamedTemporaryFile('w+') as file:\n"
        "    file.write('[3, 2, 1]'); file.seek(0); x = json.load(file)",
        "with closing(sqlite3.connect('three.db')) as con:\n    x = [n for n, in con.execute('select * from t')]",
        "with mmap.mmap(-1, 3) as mapped:\n    mapped[:] = bytes([3, 2, 1]); x = list(mapped[:])",
        "x = Parallel(n_jobs=2)(delayed(abs)(n) for n in range(-3, 0))",
    ],
)
def test_what_is_over_keeps_nothing_from_being_restored(kernel: Kernel, tmp_path: Path, cell: str) -> None:
    """Executors, pools, closed files and connections cannot be pickled, and joblib makes a folder for its workers: all
    of it was computed in every kernel."""
    (tmp_path / "three.json").write_text("[3, 2, 1]")
    with closing(sqlite3.connect(tmp_path / "three.db")) as con:
        con.executescript("create table t (n); insert into t values (3), (2), (1);")
    kernel.run(POOLED)
    assert kernel.run(f"%%checkpointed\n{cell}").status == "computed"
    kernel.kill()
    kernel.start()
    kernel.run(f"{LOAD}\n{POOLED}")
    shown = kernel.run(f"%%checkpointed\n{cell}")
    assert shown.status == "restored", shown.line
    assert kernel.run("x").result == "[3, 2, 1]"


def test_a_module_that_warns_is_no_other_module(kernel: Kernel, tmp_path: Path) -> None:
    """Python notes in a module which warnings it has shown for it."""
    (tmp_path / "warns1.py").write_text("import warnings\ndef f():\n    warnings.warn('look')\n    return 1\n")
    cells = "import sys; sys.path.insert(0, '.')\nimport warns1", "%%checkpointed\nr = warns1.f()"
    kernel.run(cells[0])
    assert "saved r" in kernel.run(cells[1]).line
    assert again(kernel, *cells).status == "restored"


def test_a_model_of_trees_is_known_again(kernel: Kernel) -> None:
    """What a tree of scikit-learn's is made of lies in several places, which are other ones in the next kernel."""
    cells = (
        "import numpy as np\nfrom sklearn.ensemble import RandomForestClassifier\nX = np.arange(60.).reshape(20, 3)",
        "%%checkpointed\nmodel = RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 30)",
        "%%checkpointed\np = model.predict_proba(X)",
    )
    for cell in cells:
        kernel.run(cell)
    for _ in range(2):
        assert again(kernel, *cells).status == "restored"


@pytest.mark.parametrize(
    ("defined", "made"),
    [
        ("class A:\n    known = []", "a = A()"),
        (
            "from sklearn.base import BaseEstimator, ClassifierMixin\nclass A(ClassifierMixin, BaseEstimator): pass",
            "a = A()",
        ),
        ("import pandas as pd\nclass A(pd.DataFrame):\n    _metadata = ['unit']", "a = A({'x': [1]})"),
    ],
)
def test_what_a_class_holds_does_not_keep_its_instances_from_being_saved(
    kernel: Kernel, defined: str, made: str
) -> None:
    cells = defined, f"%%checkpointed\n{made}"
    kernel.run(cells[0])
    assert "saved a" in kernel.run(cells[1]).line
    assert again(kernel, *cells).status == "restored"
    assert kernel.run("type(a) is A").result == "True"


def test_what_is_a_classes_own_is_not_saved_apart_from_it(kernel: Kernel) -> None:
    cells = "class A:\n    known = []\nold = A()", "%%checkpointed\na = A(); a.mine = A.known"
    for cell in cells:
        kernel.run(cell)
    again(kernel, *cells)
    assert kernel.run("a.mine is A.known").result == "True"


def test_two_models_that_share_a_constant_of_their_library_are_two(kernel: Kernel) -> None:
    cells = (
        "import numpy as np\nfrom sklearn.ensemble import HistGradientBoostingClassifier as Boosting",
        "%%checkpointed\na = Boosting(max_iter=2).fit(np.arange(60.).reshape(20, 3), np.arange(20) > 9)",
        "%%checkpointed\nb = Boosting(max_iter=3).fit(np.arange(60.).reshape(20, 3), np.arange(20) > 9)",
    )
    for cell in cells:
        kernel.run(cell)
    assert again(kernel, *cells).status == "restored"


def test_who_asks_for_a_version_has_not_looked_at_the_folder(kernel: Kernel) -> None:
    """Python goes through all places where packages may lie, and the notebook's folder is one of them."""
    kernel.run("from importlib import metadata")
    cell = "%%checkpointed\nversion = metadata.version('numpy')"
    kernel.run(cell)
    (kernel.folder / "another.txt").write_text("new")
    assert kernel.run(cell).status == "restored"


@pytest.mark.parametrize(
    ("before", "cell"),
    [
        pytest.param(
            "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1",
            "r = [C(), C(2)]",
            id="a dataclass",
        ),
        pytest.param(
            "import contextlib; k = []\n@contextlib.contextmanager\ndef cm(n):\n    yield n\n    k.append(n)",
            "with cm(5) as r: pass",
            id="a manager of a context that keeps times",
        ),
        pytest.param(
            "k = []\ndef deco(f):\n    def w(n): return f(n)\n    return w\n"
            "@deco\ndef f(n):\n    k.append(n)\n    return n",
            "r = f(3)",
            id="a decorated function that keeps a history",
        ),
        pytest.param(
            "import functools\n@functools.singledispatch\ndef f(x): return 0\n"
            "@f.register\ndef _(x: int): return 1\n@f.register(list)\ndef _l(x): return 2",
            "r = f(1), f([])",
            id="a single dispatch",
        ),
        pytest.param(
            "from enum import Enum\nclass E(Enum):\n    A = 1\n    B = 2\nfor e in E: vars(e)\nk = {E.A: 1}",
            "r = {E.B: 2, **k}",
            id="members of an enum in two variables",
        ),
        pytest.param(
            "import typing",
            "T = typing.TypeVar('T')\nclass S(typing.Generic[T]):\n    n = 1\nr = S[int]().n, T.__module__",
            id="a type variable",
        ),
        pytest.param(
            "import os, tempfile",
            "with tempfile.TemporaryDirectory() as d:\n    r = open(os.path.join(d, 'x'), 'w').write('1')\n"
            "with tempfile.NamedTemporaryFile('w+') as f:\n    n = f.write('z')\ndel f",
            id="temporary files",
        ),
    ],
)
def test_what_is_found_in_every_notebook_is_known_again(kernel: Kernel, before: str, cell: str) -> None:
    kernel.run(before)
    first = kernel.run(f"%%checkpointed\n{cell}")
    assert "not saved" not in first.line
    shown = kernel.run("r, globals().get('k')").result
    assert again(kernel, before, f"%%checkpointed\n{cell}").status == "restored"
    assert kernel.run("r, globals().get('k')").result == shown

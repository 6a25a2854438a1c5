"""More of what has to be as without us, and what happens to it when it is restored: `test_unharmed.py` has the rest."""

from __future__ import annotations

import re

import pytest

from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

MARK = "%%checkpointed\n"


def in_a_new_kernel(kernel: Kernel) -> None:
    kernel.kill()
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")


def shown_by(cell: Cell) -> list[str]:
    """What came, in order, without our line."""
    return [kind for kind in cell.order if kind in ("stream", "execute_result", "error")]


def test_a_bar_that_is_switched_off_is_gone_through(kernel: Kernel) -> None:
    cell = f"{MARK}from tqdm import tqdm\nn = 0\nfor i in tqdm(range(3), disable=True): n += i\nn"
    assert kernel.run(cell).result == "3"
    in_a_new_kernel(kernel)
    again = kernel.run(cell)
    assert (again.result, again.status) == ("3", "restored")


def test_the_times_of_a_timed_cell_are_its_own_and_its_value_comes_behind_them(kernel: Kernel) -> None:
    cells = [f"%%time\n{MARK}x = [1, 2]\nlen(x)", f"%%time\n{MARK}print('said')", f"%%time\n{MARK}len(x);"]
    first = [kernel.run(cell) for cell in cells]
    in_a_new_kernel(kernel)
    for cell, then in zip(cells, first, strict=True):
        now = kernel.run(cell)
        assert now.status == "restored"
        assert now.stdout.count("Wall time") == then.stdout.count("Wall time") == 1
        assert (now.result, shown_by(now)[-1]) == (then.result, shown_by(then)[-1])
    assert kernel.run("_").result == "2"
    plain = kernel.run(f"{MARK}len(x)")
    assert (plain.result, plain.stdout, plain.status) == ("2", "", "restored"), "the times are not part of it"


def test_a_magic_below_ours_has_the_cell_as_if_it_were_alone(kernel: Kernel) -> None:
    kernel.run("import sys\nname = sys.executable")
    for cell in "%%script {name}\nprint(6 * 7)", "%%time\nlen('four')", "%%time\nx = 1\n1 / 0", "%%nothing\nx":
        fails = cell.startswith("%%nothing") or "1 / 0" in cell
        alone = kernel.run(cell, fails=fails)
        below = kernel.run(f"%%checkpointed\n{cell}", fails=fails)
        assert (below.result, below.error, below.traceback[-1:]) == (alone.result, alone.error, alone.traceback[-1:])
        assert len(below.stdout.splitlines()) == len(alone.stdout.splitlines())
        assert "put %%checkpointed below it" in below.line
    assert "stands there twice" in "".join(kernel.run("%%checkpointed\n%%checkpointed\nx", fails=True).traceback)


def test_where_values_inside_of_statements_are_shown_they_are_shown_again(kernel: Kernel) -> None:
    cell = f"{MARK}for i in range(2): i\nfor j in range(2): print(j)\nif j:\n    [j]"
    for mode, values in ("all", ["0", "1", "[1]"]), ("last", ["[1]"]), ("last_expr", []), ("all", ["0", "1", "[1]"]):
        kernel.run(f"get_ipython().ast_node_interactivity = {mode!r}")
        for _ in range(2):
            shown = kernel.run(cell)
            assert [result["data"]["text/plain"] for result in shown.results] == values
            assert shown.stdout == "0\n1\n"


def test_the_result_of_a_restored_cell_is_told_to_whoever_asks_for_it(kernel: Kernel) -> None:
    kernel.run("told = []\nget_ipython().events.register('post_run_cell', lambda result: told.append(result.result))")
    cell = f"{MARK}[len('abc')]"
    assert [kernel.run(cell).status for _ in range(2)] == ["computed", "restored"]
    assert kernel.run("print(told)").stdout == "[None, [3], [3]]\n"


def test_what_python_says_about_the_code_it_says_as_often_as_without_us(kernel: Kernel) -> None:
    cell = "x = 1 is 1\nassert (x, 'always true')"
    plain = kernel.run(f"# a mark\n{cell}")
    marked = kernel.run(f"{MARK}{cell}")
    said = [re.findall(r"SyntaxWarning: (.*)", shown.stderr) for shown in (plain, marked)]
    assert said[0] == said[1] != []


BETWEEN = {
    "a file that is not there": "import os\nos.stat('missing')",
    "a file that is not there, behind another error": "import os\ntry:\n    os.stat('missing')\n"
    "except OSError as error:\n    raise KeyError from error",
    "what cannot be printed": "import sys\nsys.stdout.write(5)",
    "an iterator that fails": "class Fails:\n    def __iter__(self): return self\n"
    "    def __next__(self): raise KeyError('next')\nfor x in Fails():\n    pass",
    "an interrupt between two iterations": "import signal\nclass Items:\n    def __iter__(self): return self\n"
    "    def __next__(self): signal.raise_signal(signal.SIGINT)\nfor x in Items():\n    pass",
}


@pytest.mark.parametrize("name", BETWEEN)
def test_an_error_shows_the_lines_it_would_show_without_us(kernel: Kernel, name: str) -> None:
    plain, marked = (kernel.run(mark + BETWEEN[name], fails=True) for mark in ("# a mark\n", MARK))
    texts = [re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(cell.traceback)) for cell in (plain, marked)]
    texts = [re.sub(r"# a mark|'%%checkpointed '|%%checkpointed|In ?\[\d+\]|0x[0-9a-f]+", "…", text) for text in texts]
    assert plain.error == marked.error
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", ["for i in range(50)", "i = 0\nwhile i < 50"])
def test_an_interrupt_of_the_save_of_a_loop_shows_the_loop(kernel: Kernel, kind: str) -> None:
    kernel.run("import signal\nclass Odd:\n    def __reduce__(self): signal.raise_signal(signal.SIGINT)")
    body = "    x = [i, Odd() if i == 3 else 0]\n    i += 1\n"
    stopped = kernel.run(f"%%checkpointed --every 1\n{kind}:\n{body}print('not reached')", fails=True)
    assert (stopped.error, stopped.stdout) == ("KeyboardInterrupt", "")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(stopped.traceback))
    assert "nbcheckpoint/" not in shown
    assert re.findall(r"-+> (\d+)", shown) == [str(1 + len(kind.splitlines()))]
    assert kernel.run("'goes on'").result == "'goes on'"


@pytest.mark.parametrize("name", ["__version__", "__all__"])
def test_a_name_of_the_users_own_between_underscores_counts(kernel: Kernel, name: str) -> None:
    kernel.run(f"{name} = [1]")
    assert kernel.run(f"{MARK}y = [{name}[0]]\ny").result == "[1]"
    kernel.run(f"{name} = [2]")
    assert kernel.run(f"{MARK}y = [{name}[0]]\ny").result == "[2]"


def test_annotations_are_shown_as_they_are(kernel: Kernel) -> None:
    kernel.run(f"{MARK}x: int = 5")
    assert kernel.run(f"{MARK}__annotations__").result == "{'x': int}"
    kernel.run(f"{MARK}y: str = 'a'")
    assert kernel.run(f"{MARK}__annotations__").result == "{'x': int, 'y': str}"


DIES = "class Dies:\n    def __init__(self, n, size=0): self.n, self.data = n, bytes(size)\n" + (
    "    def __del__(self): print('gone', self.n)"
)


@pytest.mark.parametrize("size", [0, 1_000_000])
def test_what_is_bound_anew_dies_when_it_would_without_us(kernel: Kernel, size: int) -> None:
    kernel.run(DIES)
    cell = f"o = Dies(1, {size})\no = Dies(2, {size})\nprint('after')\ndel o\nprint('at last')"
    assert kernel.run(f"{MARK}{cell}").stdout == "gone 1\nafter\ngone 2\nat last\n"


def test_a_fork_is_not_repeated_by_what_it_gave_and_its_child_saves_nothing(kernel: Kernel) -> None:
    fork = f"{MARK}import os\npid = os.fork()\nif pid == 0:\n    x = [5]\n    os._exit(3)\n"
    for n in range(4):
        assert kernel.run(fork + f"os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) + {n}").result == f"{3 + n}"
        if n == 1:
            in_a_new_kernel(kernel)
    kernel.run(
        "import multiprocessing\ndef square(x): return x * x\ndef all_squares(n):\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool: return pool.map(square, range(n))"
    )
    assert kernel.run(f"{MARK}squares = all_squares(3)\nsquares").result == "[0, 1, 4]"
    assert kernel.run(f"{MARK}squares = all_squares(3)").status == "restored", "that is not a fork of the user's own"


def test_the_users_own_transformers_see_the_users_code_only(kernel: Kernel) -> None:
    kernel.run(
        "import ast\nseen = []\nclass Look(ast.NodeTransformer):\n    def visit_Name(self, node):\n"
        "        seen.append(node.id)\n        return node\nlook = Look()\nget_ipython().ast_transformers.append(look)"
    )
    shown = kernel.run(f"{MARK}x = len('abc')\nfor i in range(2): x += i\nx")
    assert (shown.result, shown.status) == ("4", "computed")
    kernel.run("get_ipython().ast_transformers.remove(look)")
    assert "nbcheckpoint" not in kernel.run("seen").result


def test_what_was_typed_is_asked_for_again(kernel: Kernel) -> None:
    """Also where the code does not name `input`, and a password least of all."""
    kernel.run("import getpass\nask = getpass.getpass")
    for cell in "secret = getpass.getpass('password? ')", "secret = ask('password? ')":
        request = kernel.client.execute(MARK + cell, allow_stdin=True)
        kernel.client.get_stdin_msg(timeout=60)
        kernel.client.input("hunter2")
        assert "it asks for input" in kernel.collect(request).line


LOADERS = """
class Resets:
    def __init__(self, n): self.n = n
    def __iter__(self):
        self.i, self.asked = 0, getattr(self, 'asked', 0) + 1
        return self
    def __next__(self):
        if self.i >= self.n: raise StopIteration
        self.i += 1
        return self.i
class Bare:
    def __init__(self, n): self.n = n
    def __iter__(self): return Next(self.n)
class Next:
    def __init__(self, n): self.i, self.n = 0, n
    __next__ = Resets.__next__
"""


@pytest.mark.parametrize("name", ["Resets", "Bare"])
def test_an_iterator_is_asked_for_nothing_but_its_items(kernel: Kernel, name: str) -> None:
    """One that begins anew when it is asked for an iterator, and one that cannot be asked for one."""
    kernel.run(f"{LOADERS}loader, out = {name}(5), []")
    loop = "%%checkpointed --every 1\nfor x in loader:\n    out.append(x)\n    if len(out) > 20: break\n"
    assert kernel.run(loop + "out").result == "[1, 2, 3, 4, 5]"
    assert kernel.run("getattr(loader, 'asked', 1)").result == "1"


@pytest.mark.parametrize("name", ["Resets", "Bare"])
def test_a_loop_over_such_an_iterator_goes_on(kernel: Kernel, name: str) -> None:
    begin = f"{LOADERS}import os\nout = []\nloader = {name}(5)"
    loop = (
        "%%checkpointed --every 1\nfor x in loader:\n"
        "    if x == 4 and not os.path.exists('again'): print('there', flush=True); wait()\n    out.append(x)\n"
    )
    kernel.run(begin)
    kernel.run("import threading\ndef wait(): threading.Event().wait()")
    kernel.start_cell(loop, "there")
    (kernel.folder / "again").touch()
    in_a_new_kernel(kernel)
    kernel.run(begin)
    kernel.run("import threading\ndef wait(): threading.Event().wait()")
    kernel.run(loop)
    assert kernel.run("out").result == "[1, 2, 3, 4, 5]"


def test_a_notebook_that_logs_everything_logs_nothing_of_ours_unless_it_says_so(kernel: Kernel) -> None:
    kernel.run("import logging\nlogging.basicConfig(level=logging.DEBUG, force=True)\nlog = logging.getLogger('mine')")
    cell = f"{MARK}log.debug('said')\nx = [len('abc')]"
    assert kernel.run(cell).stderr == "DEBUG:mine:said\n"
    kernel.run("logging.getLogger('nbcheckpoint.events').setLevel(logging.DEBUG)")
    assert "checkpoint_restored" in kernel.run(cell).stderr


def test_what_is_printed_when_a_value_is_looked_at_or_saved_is_not_the_cells(kernel: Kernel) -> None:
    begin = "class Talks:\n    def __getstate__(self):\n        print('looked at')\n        return self.__dict__.copy()"
    cells = (
        f"{MARK}talks = Talks()\nprint(1)",
        f"{MARK}both = [talks]\nprint(2)",
        "%%checkpointed --every 1\nfor i in range(3):\n    both.append(i)\n    print(3)",
    )
    for status in "computed", "restored":
        kernel.run(begin)
        shown = [kernel.run(cell) for cell in cells]
        assert [(cell.status, cell.stdout) for cell in shown] == [(status, "1\n"), (status, "2\n"), (status, "3\n" * 3)]
        assert kernel.run("_ = talks.__getstate__()").stdout == "looked at\n"
        in_a_new_kernel(kernel)

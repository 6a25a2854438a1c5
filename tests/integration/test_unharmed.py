"""The user's cell comes first: everything behaves as without us, whatever it is."""

from __future__ import annotations

import re

import pytest

from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

CELLS = {
    "a timed cell": "%%time\nt = sum(range(10))",
    "a timed line": "%time t2 = 3",
    "timeit": "%timeit -n1 -r1 pass",
    "a captured cell": "%%capture cap\nprint('hidden')",
    "what was captured": "cap.stdout",
    "a line magic with a value": "here = %pwd\nhere == __import__('os').getcwd()",
    "a shell command": "!echo from the shell",
    "the lines of a shell command": "lines = !echo one\nlines",
    "a cell of another language": "%%bash\necho from bash",
    "a cell that writes a file": "%%writefile script.py\nfrom_script = 5\nprint('in the script', __name__)",
    "a script": "%run script.py",
    "what the script left": "from_script",
    "autoreload": "%load_ext autoreload\n%autoreload 2",
    "top-level await": "import asyncio\nv = await asyncio.sleep(0, 7)\nv",
    "top-level async for": "async def ticks():\n    for i in range(2): yield i\nasync for i in ticks(): print(i)",
    "input": "input('name? ')",
    "an error in the middle": "a = 1\nb = 2\n\nc = 1 / 0\nd = 4",
    "an error in a function": "def f(n):\n    # a remark\n    return 1 // n\n\nprint('before')\nf(0)",
    "an error in a loop": "for i in range(3):\n    print(i)\n    if i == 1:\n        raise ValueError(i)",
    "an error in a comprehension": "x = [\n    1 // n\n    for n in (1, 0)\n]",
    "an error with a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('late') from e",
    "an error in a condition": "n = 0\nwhile n < 3 // n:\n    pass",
    "an assertion": "assert 1 == 2, 'no'",
    "a syntax error": "x = = 1",
    "a syntax error that only compiling finds": "return 5",
    "an indentation error": "if True:\nx = 1",
    "SystemExit": "import sys\nsys.exit(3)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "an interrupt": "import signal\nsignal.raise_signal(signal.SIGINT)",
    "a warning": "import warnings\n\nwarnings.warn('careful')",
    "a semicolon": "5;",
    "the last result": "6\n_",
    "earlier results": "len(In) == len(In), type(Out)",
    "nothing at all": "",
    "only a remark": "# nothing",
    "names with accents": "größe = 3\ngröße",
    "the namespace": "type(globals()), globals() is locals(), __name__",
    "source code": "def g():\n    return 'g'\nimport inspect\nprint(inspect.getsource(g))",
    "help": "len?",
    "a future import": "from __future__ import annotations\ndef h(x: Undefined): return x\nh(1)",
    "a huge cell": "\n".join(f"z{n % 50} = {n}" for n in range(1500)) + "\nz49",
    "a deep expression": "y = " + "(" * 60 + "1" + ")" * 60 + "\ny",
    "another directory": "import os\nos.makedirs('sub')\nos.chdir('sub')\nprint(os.path.basename(os.getcwd()))",
    "a file there": "open('there.txt', 'w').write('x')\nos.listdir('.')",
    "back": "os.chdir('..')\nos.path.exists('sub/there.txt')",
    "deleted": "tmp = 1\ndel tmp\n'tmp' in globals()",
    "a global statement": "def setter():\n    global made\n    made = 9\nsetter()\nmade",
    "a class with a method": "class K:\n    def m(self): return __class__.__name__\nK().m()",
    "a resized array": "import numpy as np\nar = np.arange(3)\nar.resize(5)\nar.tolist()",
    "how many references": "import sys\nobj = object()\nsys.getrefcount(obj) > 0",
    "displays": "from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'), 3)",
    "a thread that ends": "import threading\nt = threading.Thread(target=print, args=('there',))\nt.start(); t.join()",
    "a thread that goes on": "stop = threading.Event()\nth = threading.Thread(target=stop.wait); th.start()",
    "and is ended": "stop.set(); th.join(); th.is_alive()",
    "things to go through": """class NoLength:
    def __len__(self): raise TypeError('no length')
    def __iter__(self): return iter([1, 2])
class Negative(NoLength):
    def __len__(self): return -1
class Huge(NoLength):
    def __len__(self): return 10**30
class Exits(NoLength):
    def __len__(self): raise SystemExit
class Tells(NoLength):
    def __len__(self):
        print('asked')
        return 2
class Closed(NoLength):
    def __getattribute__(self, name): raise ValueError(name)
class Raises:
    def __iter__(self):
        print('asked')
        raise ValueError('x')
class Returns:
    def __iter__(self): return 5""",
    "lengths that cannot be had": "for kind in (NoLength, Negative, Huge, Exits, Tells, Closed): print(kind.__name__)\n"
    "for v in NoLength(): print(v)\nfor v in Negative(): print(v)\nfor v in Huge(): print(v)\n"
    "for v in Exits(): print(v)\nfor v in Tells(): print(v)\nfor v in Closed(): print(v)",
    "a loop over what is not iterable": "for v in 5:\n    print(v)\n    pass",
    "the same over several lines": "for v in (\n    5\n):\n    print(v)\n    pass",
    "the same inside of a loop": "for i in range(2):\n    for v in 5:\n        print(v)\n    pass",
    "a loop over what raises": "for v in Raises():\n    print(v)\n    pass",
    "a loop over what gives no iterator": "for v in Returns(\n):\n    print(v)\n    pass",
    "a loop over a generator that raises": "def three():\n    yield 1\n    raise KeyError(3)\nfor v in three():\n"
    "    print(v)\n    pass",
    "a condition that raises": "while 1 // 0:\n    print(1)\n    pass",
    "too little to unpack": "for v, w in [\n    (1,)\n]:\n    print(v)\n    pass",
    "the recursion limit": "def deep(n): return n and 1 + deep(n - 1)\ndeep(500)",
    "an unknown magic": "%no_such_magic",
    "standard error": "print('err', file=sys.stderr)",
}
TIMES = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)? ?(ns|\w?s)\b")


NAMES = "sorted(n for n in globals() if not n.startswith('_'))"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, tuple[object, ...]]]:
    """All cells, in order, in a kernel without us, one with every cell looked at, and one with every cell marked."""
    found: dict[str, dict[str, tuple[object, ...]]] = {}
    for way in ("plain", "auto", "marked"):
        with Kernel(tmp_path_factory.mktemp(way)) as kernel:
            if way != "plain":
                kernel.run("%load_ext nbcheckpoint")
            if way == "auto":
                kernel.run("%checkpoint auto --min-seconds 0s")
            mark = "%%checkpointed\n" if way == "marked" else ""
            found[way] = {
                name: told(kernel.run(text if text.startswith("%%") else mark + text, fails=True))
                for name, text in CELLS.items()
            }
            found[way]["names"] = (kernel.run(NAMES).result,)
    return found


def told(cell: Cell) -> tuple[object, ...]:
    """What the user sees, without times and without the number of the cell."""
    text = "\n".join(cell.traceback)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"\S*site-packages", "…", text)  # the folder above it may have our name
    text = re.sub(r"In ?\[\d+\]|ipykernel_\d+/\d+\.py|<ipython-input[^>]*>|0x[0-9a-f]+", "…", text)
    errors = re.sub(r"/tmp/ipykernel_\d+/\d+\.py", "…", cell.stderr)
    shown = [d["data"] for d in cell.displays if "nbcheckpoint" not in d["metadata"]]
    return TIMES.sub("…", cell.stdout), errors, cell.result, shown, cell.error, text


@pytest.mark.parametrize("name", CELLS)
def test_as_without_us(seen: dict[str, dict[str, tuple[object, ...]]], name: str) -> None:
    assert seen["auto"][name] == seen["plain"][name]
    # The mark stands in the source that a traceback or a warning shows, and moves every line by one.
    plain, marked = seen["plain"][name], seen["marked"][name]
    assert (marked[0], *marked[2:-1]) == (plain[0], *plain[2:-1])
    assert str(marked[1]).partition(": ")[2] == str(plain[1]).partition(": ")[2]
    assert "nbcheckpoint" not in str(seen["marked"][name][-1])


def test_the_namespace_is_as_without_us(seen: dict[str, dict[str, tuple[object, ...]]]) -> None:
    """After all of that."""
    assert seen["auto"]["names"] == seen["plain"]["names"] == seen["marked"]["names"]


def test_loading_the_extension_again_and_again_leaves_no_threads_behind(kernel: Kernel) -> None:
    count = "import threading; threads = sorted(thread.name for thread in threading.enumerate())"
    turn = "%reload_ext nbcheckpoint", "%checkpoint auto", "%%checkpointed\nx = [1]", "%unload_ext nbcheckpoint"
    seen = []
    for _ in range(3):
        for cell in turn:
            kernel.run(cell)
        kernel.run(count)
        seen.append(kernel.run("threads").result)
    assert seen[1] == seen[2]


LOOP = "for i in range(12): time.sleep(0.25)"
CAPTURED = {
    "a captured cell": f"%%capture c\n{LOOP}\nx = 7",
    "a marked one": f"%%capture c\n%%checkpointed\n{LOOP}\ny = 7",
    "a cell run in a with": f"with capture_output() as c:\n    result = get_ipython().run_cell('''{LOOP}\nz = 7''')",
    "a loop in a with": f"with capture_output() as c:\n    {LOOP}\n    show(i)",
}


@pytest.mark.parametrize("name", CAPTURED)
def test_nothing_of_ours_is_in_what_the_user_captures(kernel: Kernel, name: str) -> None:
    kernel.run(
        "import time\nfrom IPython.utils.capture import capture_output\nfrom IPython.display import display as show\n"
        "%checkpoint auto"
    )
    cell = kernel.run(CAPTURED[name])
    assert "saved" in cell.line, "it is shown behind it"
    assert kernel.run("print([str(output.data) for output in c.outputs])").stdout.count("loop") == 0
    assert kernel.run("print(len(c.outputs))").stdout == ("1\n" if name == "a loop in a with" else "0\n")


@pytest.mark.parametrize("mark", ["", "%%checkpointed\n"])
def test_a_cell_that_loads_the_extension_anew_may_be_run_again_and_again(kernel: Kernel, mark: str) -> None:
    cell = (
        f"{mark}before = len('ab')\n%reload_ext nbcheckpoint\n%checkpoint auto\n"
        "x = [len('abc')]\nfor i in range(2): x.append(i)\nx"
    )
    for _ in range(3):
        assert kernel.run(cell, fails=True).result == "[3, 0, 1]"
    saved = "%%checkpointed\ny = [len('abcd')]"
    kernel.run(saved)
    assert kernel.run(saved).status == "restored"


def test_what_a_cell_saved_before_it_loaded_the_extension_anew_is_saved(kernel: Kernel) -> None:
    saved = "%%checkpointed\nbefore = [len('ab')]\n%reload_ext nbcheckpoint\nafter = [len('abc')]"
    kernel.run(saved)
    kernel.kill()
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")
    assert "restored" in kernel.run("%%checkpointed\nbefore = [len('ab')]").line
    assert kernel.run(saved).error == ""


@pytest.mark.parametrize("mark", ["", "%%checkpointed\n"])
def test_a_cell_that_unloads_the_extension_comes_to_its_end_and_nothing_stays(kernel: Kernel, mark: str) -> None:
    kernel.run("%checkpoint auto --min-seconds 0s\n%checkpoint auto")
    cell = (
        f"{mark}%unload_ext nbcheckpoint\nx = [len('abc')]\nget_ipython().run_cell('y = 5')\n"
        "for i in range(2): x.append(i)\nx + [y]"
    )
    assert kernel.run(cell).result == "[3, 0, 1, 5]"
    assert kernel.run("import builtins\nhasattr(builtins, '__nbcheckpoint__')").result == "False"
    for unknown in "%%checkpointed\nx = 1", "%checkpoint list":
        assert "not found" in kernel.run(unknown, fails=True).stderr
    kernel.run("%load_ext nbcheckpoint")
    assert kernel.run("%%checkpointed\nz = [1]").status == "computed"


INTERRUPTED = {
    "in the cell": "signal.raise_signal(signal.SIGINT)",
    "in a function": "def stop():\n    signal.raise_signal(signal.SIGINT)\n    return 5\nx = stop()",
    "while it is looked at": "x = str(odd)",
    "while it is saved": "x = Odd()\nprint('not reached')",
    "while the last of it is saved": "x = Odd()",
}
ODD = "import signal\nclass Odd:\n    def __reduce__(self): signal.raise_signal(signal.SIGINT)\nodd = Odd()"


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_shows_none_of_our_code(kernel: Kernel, name: str) -> None:
    kernel.run(ODD)
    text = INTERRUPTED[name]
    stopped = kernel.run(f"%%checkpointed\n{text}", fails=True)
    assert stopped.error == "KeyboardInterrupt"
    assert stopped.stdout == ""
    shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(stopped.traceback)) + stopped.stderr
    assert "nbcheckpoint/" not in shown
    if name.startswith("in "):
        plain = kernel.run(f"# a mark\n{text}", fails=True)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(plain.traceback)).splitlines()
        assert [line for line in shown.splitlines() if "-->" in line] == [line for line in lines if "-->" in line]
    assert kernel.run("'goes on'").result == "'goes on'"


@pytest.mark.parametrize("gone", ["del big", "big = None", "for big in [0, 1]: pass"])
def test_what_a_statement_deletes_is_freed_and_not_kept_until_the_cell_ends(kernel: Kernel, gone: str) -> None:
    """It had been saved, and was to be committed with the rest of the cell."""
    kernel.run(
        "import builtins, weakref\nclass Big: pass\ndef note(big): builtins.alive = weakref.ref(big)\n"
        "def is_alive(): return builtins.alive() is not None\n"
    )
    cell = f"%%checkpointed\nbig = Big()\nnote(big)\nprint(is_alive())\n{gone}\nprint(is_alive())"
    assert kernel.run(cell).stdout == "True\nFalse\n"


def test_a_handler_that_is_put_back_by_a_later_statement_holds_nothing(kernel: Kernel) -> None:
    kernel.run(
        "%%checkpointed\nimport signal, weakref, gc\nclass Big: pass\nbig = Big()\nalive = weakref.ref(big)\n"
        "old = signal.signal(signal.SIGINT, lambda *_: print('mine'))\nsignal.raise_signal(signal.SIGINT)\n"
        "_ = signal.signal(signal.SIGINT, old)"
    )
    assert kernel.run("del big\nx = gc.collect()\nalive() is None").result == "True"
    for mark in "", "%%checkpointed\n":
        stopped = kernel.run(mark + "signal.raise_signal(signal.SIGINT)", fails=True)
        assert stopped.error == "KeyboardInterrupt"
        assert "nbcheckpoint/" not in "".join(stopped.traceback)


ODD_THINGS = {
    "a module without a name": "import types\nodd = types.ModuleType('odd')\ndel odd.__name__",
    "a module whose name is no text": "import types\nodd = types.ModuleType('odd')\nodd.__name__ = []",
    "a module without a name that is imported": "import sys, types\nsys.modules['odd'] = types.ModuleType('odd')\n"
    "del sys.modules['odd'].__name__",
    "a class that does not say where it comes from": "class M(type):\n    @property\n"
    "    def __module__(cls): raise OSError\n"
    "class K(metaclass=M): pass\nodd = K()",
    "a class that comes from nowhere": "class K:\n    __module__ = []\nodd = [K()]\ndef f(): return K",
    "a function that comes from nowhere": "def odd(): return 1\nodd.__module__ = []\nodds = [odd]",
    "a script that is over": "open('script.py', 'w').write('import asyncio\\nasync def co(): return 5')\n"
    "%run script.py\nt = asyncio.create_task(co())\nv = await t\ndel t",
}


@pytest.mark.parametrize("name", ODD_THINGS)
def test_an_odd_thing_does_not_keep_other_cells_from_being_saved(kernel: Kernel, name: str) -> None:
    cells = "x = [len('ab')]", "y = {'x': x, 'n': [3]}", "odd = y['x'].append(5)", "z = [x, y]"
    for turn in "computed", "restored":
        kernel.run(ODD_THINGS[name])
        for cell in cells:
            shown = kernel.run(f"%%checkpointed\n{cell}")
            assert shown.status == turn, shown.line
        assert kernel.run("z").result == "[[2, 5], {'x': [2, 5], 'n': [3]}]"
        kernel.kill()
        kernel.start()
        kernel.run("%load_ext nbcheckpoint")


def test_an_odd_thing_may_be_used(kernel: Kernel) -> None:
    for text in ODD_THINGS.values():
        kernel.run(text)
        for cell in "same = odd", "shown = repr(odd)[:3]", "for i in [odd]: pass", "kept = [odd]", "odd = None":
            assert "fault" not in kernel.run(f"%%checkpointed\n{cell}").line
    kernel.run(ODD_THINGS["a script that is over"])
    assert "fault" not in kernel.run("%%checkpointed\nt = asyncio.create_task(co())\nw = await t").line


def test_a_weak_proxy_of_nothing_is_named(kernel: Kernel) -> None:
    kernel.run("import weakref\nclass W: pass\ngone = weakref.proxy(W())")
    shown = kernel.run("%%checkpointed\nfor i in [1]:\n    there = (lambda: 5)() if i else gone")
    assert "input gone cannot be identified (what it passed for is gone)" in shown.line
    assert kernel.run("there").result == "5"

"""Every way found so far to get a wrong value, each tried against plain Python.

A case is (before, after, cell, probe): the cell runs after `before`, then `after` changes something, then the cell
runs again. The probe must say what it says when the cell is run without `%%checkpointed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.stale_cases import MORE
from tests.integration.stale_outside import OUTSIDE
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

CASES = {
    "a second view of an array": (
        "import numpy as np\nd = np.arange(12.).reshape(4, 3); X, y = d[:, :-1], d[:, -1]",
        "d = np.arange(12.).reshape(4, 3); d[2, 2] = 77; X, y = d[:, :-1], d[:, -1]",
        "s = float(X.sum() * y.sum())",
        "s",
    ),
    "a variable that only shares": (
        "x = [1]; cfg = {'x': x, 'lr': 5}",
        "x = [1]; cfg = {'x': x, 'lr': 6}",
        "x.append(2)",
        "x, cfg",
    ),
    "an alias that became something else": ("x = [1]; alias = x", "x = [1]; alias = 'mine'", "x.append(2)", "x, alias"),
    "bound to what it was already": ("done = True", "done = False", "done = True; z1 = 2", "done, z1"),
    "bound only perhaps": (
        "flag = False; k = 1\ndef maybe():\n    global k\n    if flag: k = 5\n    return 7",
        "k = 9",
        "r = maybe()",
        "k, r",
    ),
    "seeded to what it was already": (
        "import random; random.seed(8)",
        "random.seed(2)",
        "random.seed(8)",
        "random.random()",
    ),
    "a name in a string": ("k = 1", "k = 2", "%time yy = k + 1", "yy"),
    "a query": (
        "import pandas as pd\nk = 1; df = pd.DataFrame({'a': [1, 2, 3]})",
        "k = 2; df = pd.DataFrame({'a': [1, 2, 3]})",
        "n = len(df.query('a > @k'))",
        "n",
    ),
    "eval": ("kk = 'k'; k = 1", "k = 2", "e = eval(kk)", "e"),
    "globals": ("kk = 'k'; k = 1", "k = 2", "e = globals()[kk]", "e"),
    "a function bound again": (
        "def g(): return 1",
        "def g(): return 2",
        "import functools\n_g = g\ng = functools.wraps(_g)(lambda: _g() + 100)",
        "g()",
    ),
    "a class attribute": ("class A:\n    n = 0", "class A:\n    n = 5", "A.n += 1", "A.n"),
    "a class attribute behind an instance": (
        "class A:\n    n = 0\na = A()",
        "class A:\n    n = 5\na = A()",
        "type(a).n += 1",
        "A.n",
    ),
    "a closure that holds what changes": (
        "lst = [0]\ndef mk():\n    l = lst\n    def get(): return l\n    return get\nget = mk()",
        "lst = [0]; get = mk()",
        "lst.append(1)",
        "get()",
    ),
    "a bound method": ("lst = [0]; push = lst.append", "lst = [0]; push = lst.append", "lst.append(1)", "push(2), lst"),
    "lists inside an object array": (
        "import numpy as np\nl = [1]; arr = np.array([l, None], dtype=object)",
        "l = [1]; arr = np.array([l, None], dtype=object)",
        "arr[0].append(2)",
        "l",
    ),
    "views after a restore": (
        "import numpy as np",
        "pass",
        "va = np.zeros(3); vb = va[:]",
        "(vb.__setitem__(0, 7), va[0])",
    ),
    "functions that share a variable": (
        "def make():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n    return inc, lambda: n",
        "pass",
        "inc, get2 = make()",
        "(inc(), get2())",
    ),
    "a file that was not there": (
        "import os\nos.path.exists('new.txt') and os.remove('new.txt')",
        "open('new.txt', 'w').write('x')",
        "try:\n    t = open('new.txt').read()\nexcept FileNotFoundError:\n    t = None",
        "t",
    ),
    "a file asked for": (
        "import os\nos.path.exists('ask.txt') and os.remove('ask.txt')",
        "open('ask.txt', 'w').write('x')",
        "there = os.path.exists('ask.txt')",
        "there",
    ),
    "a counter in a file": (
        "open('count', 'w').write('1')",
        "open('count', 'w').write('1')",
        "with open('count', 'r+') as f:\n    c = int(f.read()) + 1; f.seek(0); f.write(str(c))",
        "c, open('count').read()",
    ),
    "the working directory": (
        "import os\nos.makedirs('d1', exist_ok=True); os.makedirs('d2', exist_ok=True)\n"
        "open('d1/f', 'w').write('1'); open('d2/f', 'w').write('2'); home = os.getcwd(); os.chdir('d1')",
        "os.chdir(home + '/d2')",
        "wf = open('f').read()",
        "(os.chdir(home), wf)",
    ),
    "a decorated method": (
        "def deco(n):\n    def w(f):\n        return lambda self: f(self) * n\n    return w\n"
        "class D:\n    @deco(2)\n    def m(self): return 1",
        "class D:\n    @deco(3)\n    def m(self): return 1",
        "dm = D().m()",
        "dm",
    ),
    "a metaclass": (
        "class M(type):\n    def __call__(cls): return 1\nclass C(metaclass=M): pass",
        "class M(type):\n    def __call__(cls): return 2\nclass C(metaclass=M): pass",
        "mc = C()",
        "mc",
    ),
    "a walrus behind an and": ("c = 0; w = 1", "c = 0; w = 2", "_ = c and (w := 5)\nwz = w", "wz"),
    "a global set by a function defined here": (
        "gk = 1",
        "gk = 2",
        "def setk():\n    global gk\n    gk = 9\nhz = gk",
        "hz",
    ),
    "a namedtuple made anew": (
        "from collections import namedtuple\nfields = 'a b'",
        "fields = 'a c'",
        "P = namedtuple('P', fields); p = P(1, 2)",
        "p._fields, isinstance(p, P)",
    ),
    "an instance of a class defined anew": (
        "class R:\n    v = 1\nreg = [R()]",
        "class R:\n    v = 2\nreg2 = [R()]",
        "out = [reg[0]]",
        "out[0].v",
    ),
    "dataclasses": (
        "from dataclasses import dataclass\n@dataclass\nclass DC:\n    a: int = 1\ndc = DC()",
        "@dataclass\nclass DC:\n    a: int = 2\ndc = DC()",
        "da = dc.a",
        "da",
    ),
    "the last result": ("5", "6", "lr = _ + 1", "type(lr)"),
    "a generator": ("g = (i for i in range(5))", "g = (i for i in range(5)); next(g)", "ng = next(g)", "ng"),
    "a numpy generator": (
        "import numpy as np\nrg = np.random.default_rng(1)",
        "rg = np.random.default_rng(2)",
        "rv = rg.random()",
        "rv, rg.random()",
    ),
    "a module edited": (
        "import importlib, sys\nsys.path.insert(0, '.')\nopen('hm1.py', 'w').write('def f(): return 1')\n"
        "import hm1; importlib.reload(hm1)",
        "open('hm1.py', 'w').write('def f(): return 1 + 1')\nimportlib.invalidate_caches(); importlib.reload(hm1)",
        "import hm1\nhx = hm1.f()",
        "hx",
    ),
    "a module imported inside": (
        "import importlib, sys\nsys.path.insert(0, '.')\nopen('hm2.py', 'w').write('def f(): return 1')\n"
        "import hm2; importlib.reload(hm2)\ndef work():\n    import hm2\n    return hm2.f()",
        "open('hm2.py', 'w').write('def f(): return 1 + 1')\nimportlib.invalidate_caches(); importlib.reload(hm2)",
        "hw = work()",
        "hw",
    ),
    "except*": (
        "ke = 1",
        "ke = 2",
        "try:\n    raise ExceptionGroup('', [ValueError()])\nexcept* ValueError:\n    ve = ke",
        "ve",
    ),
}


CASES |= {**MORE, **OUTSIDE}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One for all cases: each is in a folder, and so with a store, of its own."""
    home = tmp_path_factory.mktemp("stale")
    with Kernel(home, env={"JUPYTER_DATA_DIR": str(home / "data")}) as kernel:
        kernel.run("import os")
        yield kernel


@pytest.mark.parametrize("name", CASES)
def test_never_stale(kernel: Kernel, tmp_path: Path, name: str) -> None:
    before, after, cell, probe = CASES[name]
    if "except*" in cell and kernel.run("import sys; sys.version_info < (3, 11)").result == "True":
        pytest.skip("new in Python 3.11")

    def play(magic: str) -> str:
        # In memory: what a disk does is the crash tests' business.
        kernel.run(
            f"%reset -f\nimport os; os.chdir({str(tmp_path)!r}); os.environ['NBCHECKPOINT_STORE'] = 'memory://'\n"
            "%load_ext nbcheckpoint\n%reload_ext nbcheckpoint"
        )
        kernel.run(before)
        lines = kernel.run(magic + cell).line
        kernel.run(after)
        lines += kernel.run(magic + cell).line
        assert "fault of nbcheckpoint" not in lines
        first = kernel.run(f"print(repr(({probe})))").stdout
        # Once more, unchanged: now it may be restored, and must say the same.
        kernel.run(before)
        kernel.run(after)
        kernel.run(magic + cell)
        return first + kernel.run(f"print(repr(({probe})))").stdout

    assert play("%%checkpointed\n") == play("")

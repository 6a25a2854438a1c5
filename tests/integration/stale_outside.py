"""Ways to depend on what lies outside of the notebook's variables: modules, links, times, the command line.

As `test_never_stale` tries them: (before, after, cell, probe).
"""

from __future__ import annotations

_PUT = "import importlib, os, sys\nsys.path.insert(0, '.')\n"
_BACK = "importlib.invalidate_caches(); importlib.reload({0})"


def _made(path: str, text: str) -> str:
    """A module is written, and imported anew."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    folder = path.rpartition("/")[0]
    making = f"os.makedirs({folder!r}, exist_ok=True)\n" if folder else ""
    return f"{_PUT}{making}_ = open({path!r}, 'w').write({text!r})\nimport {name}; {_BACK.format(name)}\n"


_DYNAMIC = (
    "import importlib.util\n"
    "def load(text):\n"
    "    open('conf1.py', 'w').write(text)\n"
    "    spec = importlib.util.spec_from_file_location('conf1', 'conf1.py')\n"
    "    made = importlib.util.module_from_spec(spec)\n"
    "    exec(compile(text, os.path.abspath('conf1.py'), 'exec'), vars(made))\n"
    "    return made\nimport os\n"
)

_TABLES = (
    "import os, pathlib, shutil, pandas as pd, pyarrow as pa, pyarrow.parquet as pq\n"
    "def put(path, value):\n    os.makedirs(os.path.dirname(path), exist_ok=True)\n"
    "    pq.write_table(pa.table({'a': [value]}), path)\n"
    "shutil.rmtree('t1', True); put('t1/a.parquet', 1); put('t1/p=1/a.parquet', 1); where = {'in': {'it': 't1'}}"
)

MODULES = {
    "a module given to a function": (
        _made("om1.py", "LR = 1") + "def train(c): return c.LR * 10",
        _made("om1.py", "LR = 200"),
        "r = train(om1)",
        "r",
    ),
    "a module that a function changes": (
        _made("om2.py", "L = []") + "def f(m):\n    m.L.append(1)\n    return len(m.L)",
        _made("om2.py", "L = [5]"),
        "r = f(om2)",
        "r, om2.L",
    ),
    "a module in a dict": (
        _made("om3.py", "def f(): return 1") + "d = {'m': om3}",
        _made("om3.py", "def f(): return 2222"),
        "r = d['m'].f()",
        "r",
    ),
    "a module as an attribute": (
        _made("om4.py", "K = 1") + "class A: pass\na = A(); a.m = om4",
        _made("om4.py", "K = 2222"),
        "r = a.m.K",
        "r",
    ),
    "a module that a module in a dict reads": (
        _made("om5b.py", "K = 1") + _made("om5.py", "import om5b\ndef f(): return om5b.K") + "d = [om5]",
        _made("om5b.py", "K = 2222"),
        "r = d[0].f()",
        "r",
    ),
    "a module as a default argument": (
        _made("om6.py", "K = 1") + "def f(m=om6): return m.K",
        _made("om6.py", "K = 2222"),
        "r = f()",
        "r",
    ),
    "a module as an attribute of a class": (
        _made("om7.py", "K = 1") + "class A:\n    m = om7\n    def f(self): return self.m.K",
        _made("om7.py", "K = 2222"),
        "r = A().f()",
        "r",
    ),
    "a name of a module in a format": (
        _made("om8.py", "K = 1"),
        _made("om8.py", "K = 2222"),
        "r = '{m.K}'.format(m=om8)",
        "r",
    ),
    "what a module holds, by its dict": (
        _made("om9.py", "K = 1") + "n = 'K'",
        _made("om9.py", "K = 2222"),
        "r = om9.__dict__[n]",
        "r",
    ),
    "a submodule given to a function": (
        _made("op1/__init__.py", "") + _made("op1/sub.py", "K = 1") + "import op1\ndef f(m): return m.K",
        _made("op1/sub.py", "K = 2222"),
        "r = f(op1.sub)",
        "r",
    ),
    "a module of a package without an __init__": (
        _made("op2/feat.py", "def f(): return 1"),
        _made("op2/feat.py", "def f(): return 2222"),
        "r = op2.feat.f()",
        "r",
    ),
    "a module five packages down": (
        "".join(_made(f"op3{'/b' * n}/__init__.py", "") for n in range(6)) + _made("op3/b/b/b/b/b/e.py", "K = 1"),
        _made("op3/b/b/b/b/b/e.py", "K = 2222"),
        "r = op3.b.b.b.b.b.e.K",
        "r",
    ),
    "a module that nobody knows by name": (
        _DYNAMIC + "conf = load('P = {1: 1}')",
        "conf = load('P = {1: 2222}')",
        "r = conf.P[1]",
        "r",
    ),
    "a class of a module that nobody knows by name": (
        _DYNAMIC + "conf = load('class M:\\n    def run(self): return 1')",
        "conf = load('class M:\\n    def run(self): return 2222')",
        "r = conf.M().run()",
        "r",
    ),
    "a module made by hand": (
        "import types\ndyn = types.ModuleType('dyn'); dyn.K = [1]",
        "dyn.K = [2]",
        "r = dyn.K[0]",
        "r",
    ),
    "a module imported in a method": (
        _made("oi1.py", "def f(): return 1")
        + "class A:\n    def m(self):\n        import oi1\n        return oi1.f()\na = A()",
        _made("oi1.py", "def f(): return 2222"),
        "r = a.m()",
        "r",
    ),
    "a name imported in a method": (
        _made("oi2.py", "def f(): return 1")
        + "class A:\n    def m(self):\n        from oi2 import f\n        return f()\na = A()",
        _made("oi2.py", "def f(): return 2222"),
        "r = a.m()",
        "r",
    ),
    "a module changed by a method that imports it": (
        _made("oi3.py", "L = []")
        + "class A:\n    def m(self):\n        import oi3\n        oi3.L.append(1)\n        return len(oi3.L)\na = A()",
        "oi3.L.append(5)",
        "r = a.m()",
        "r, oi3.L",
    ),
    "the notebook imported in a method": (
        "k = 1\nclass A:\n    def m(self):\n        import __main__\n        return __main__.k\na = A()",
        "k = 2",
        "r = a.m()",
        "r",
    ),
    "a module by a name in a string": (
        _made("oi4.py", "def f(): return 1") + "name = 'oi4'\ndef g(): return importlib.import_module(name).f()",
        _made("oi4.py", "def f(): return 2222"),
        "r = g()",
        "r",
    ),
    "a module among all there are": (
        _made("oi5.py", "def f(): return 1") + "name = 'oi5'",
        _made("oi5.py", "def f(): return 2222"),
        "r = sys.modules[name].f()",
        "r",
    ),
    "what a module makes when asked": (
        _made("og1.py", "K = 1\ndef __getattr__(name): return K"),
        _made("og1.py", "K = 2222\ndef __getattr__(name): return K"),
        "r = og1.dyn",
        "r",
    ),
    "a function that wraps one of a library": (
        "import functools, statistics\n@functools.wraps(statistics.mean)\ndef mean(x): return 1",
        "@functools.wraps(statistics.mean)\ndef mean(x): return 2",
        "r = mean(5)",
        "r",
    ),
    "a global read by what wraps a function of a library": (
        "import functools, statistics\nk = 1\n@functools.wraps(statistics.mean)\ndef mean(x): return k",
        "k = 2",
        "r = mean(5)",
        "r",
    ),
    "a decorator of a function of a library": (
        "import functools, math\nk = 1\ndef twice(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a) * k\n"
        "    return w\n"
        "floor = twice(math.floor)",
        "k = 2",
        "r = floor(1.5)",
        "r",
    ),
    "a global that a metaclass reads": (
        "k = 1\nclass M(type):\n    def __call__(cls): return k\nclass C(metaclass=M): pass",
        "k = 2",
        "r = C()",
        "r",
    ),
    "a global that an item of a class reads": (
        "k = 1\nclass M(type):\n    def __getitem__(cls, x): return k\nclass C(metaclass=M): pass",
        "k = 2",
        "r = C[5]",
        "r",
    ),
    "a class that is found in a pickle": (
        "import pickle\nclass P:\n    def m(self): return 1\npickle.dump(P(), open('p.pkl', 'wb'))\n"
        "def ev(p): return pickle.load(open(p, 'rb')).m()",
        "class P:\n    def m(self): return 2",
        "r = ev('p.pkl')",
        "r",
    ),
    "a class of a module that is found in a pickle": (
        _made("ok1.py", "class P:\n    def m(self): return 1") + "import pickle\ndata = pickle.dumps(ok1.P())",
        _made("ok1.py", "class P:\n    def m(self): return 2222"),
        "r = pickle.loads(data).m()",
        "r",
    ),
}

AROUND = {
    "a file below Python's own folder": (
        "import os, sys\nopen('below.csv', 'w').write('1')\n"
        "sys._kept = getattr(sys, '_kept', sys.prefix); sys.prefix = os.getcwd()",
        "open('below.csv', 'w').write('2')",
        "n = 'below'; r = open(n + '.csv').read()",
        "(r, setattr(sys, 'prefix', sys._kept))",
    ),
    "a pattern with a name behind it": (
        "import glob, os\nos.makedirs('runs/a', exist_ok=True); os.makedirs('runs/b', exist_ok=True)\n"
        "open('runs/a/done', 'w').close(); os.path.exists('runs/b/done') and os.remove('runs/b/done')",
        "open('runs/b/done', 'w').close()",
        "r = len(glob.glob('runs/*/done'))",
        "r",
    ),
    "a pattern that is a name": (
        "import glob, os\nn = 7; os.path.exists('x7.txt') and os.remove('x7.txt')",
        "open('x7.txt', 'w').close()",
        "r = glob.glob(f'x{n}.txt')",
        "r",
    ),
    "the time of a file": (
        "import os\nfor at, name in enumerate(['u1.csv', 'u2.csv']):\n"
        "    open(name, 'w').write(name); os.utime(name, (at, at))",
        "os.utime('u1.csv', (9, 9))",
        "r = max(['u1.csv', 'u2.csv'], key=os.path.getmtime)",
        "r",
    ),
    "the mode of a file": (
        "import os\nopen('u3', 'w').close(); os.chmod('u3', 0o600)",
        "os.chmod('u3', 0o644)",
        "r = oct(os.stat('u3').st_mode)",
        "r",
    ),
    "where a link to a folder leads": (
        "import os\nfrom pathlib import Path\nfor n in 'v1', 'v2': os.makedirs(n, exist_ok=True)\n"
        "def point(to):\n    os.path.lexists('current') and os.remove('current'); os.symlink(to, 'current')\n"
        "point('v1')",
        "point('v2')",
        "r = Path('current').resolve().name",
        "r",
    ),
    "where a link to a file leads": (
        "import os\nfor n in 'w1', 'w2': open(n, 'w').close()\n"
        "def point(to):\n    os.path.lexists('link') and os.remove('link'); os.symlink(to, 'link')\npoint('w1')",
        "point('w2')",
        "r = os.readlink('link')",
        "r",
    ),
    "a link that was made": (
        "import os\nopen('t1', 'w').close(); os.path.lexists('made') and os.remove('made')",
        "os.path.lexists('made') and os.remove('made')",
        "if not os.path.lexists('made'): os.symlink('t1', 'made')",
        "os.path.lexists('made')",
    ),
    "a folder by its name in bytes": (
        "import os\nos.makedirs('bb', exist_ok=True); os.path.exists('bb/x') and os.remove('bb/x')",
        "open('bb/x', 'w').close()",
        "r = os.listdir(b'bb')",
        "r",
    ),
    "the command line": (
        "import argparse, sys\nkept = sys.argv; sys.argv = ['x', '--lr', '1']\ndef parse():\n"
        "    p = argparse.ArgumentParser(); p.add_argument('--lr'); return p.parse_args().lr",
        "sys.argv = ['x', '--lr', '2']",
        "r = parse()",
        "(r, setattr(sys, 'argv', kept))",
    ),
    "an argument of the command line": (
        "import sys\nkept = sys.argv; sys.argv = ['x', '1']",
        "sys.argv = ['x', '2']",
        "r = sys.argv[1]",
        "(r, setattr(sys, 'argv', kept))",
    ),
    "the folder of the user": (
        "import os\nhome = os.environ.get('HOME'); os.environ['HOME'] = '/one'",
        "os.environ['HOME'] = '/two'",
        "r = os.path.expanduser('~/x')",
        "(r, os.environ.__setitem__('HOME', home or '/'))",
    ),
    "a table of polars that has not been read yet": (
        "import polars as pl\nopen('lz.csv', 'w').write('a\\n1\\n'); lf = pl.scan_csv('lz.csv')",
        "open('lz.csv', 'w').write('a\\n5\\n'); lf = pl.scan_csv('lz.csv')",
        "r = lf.collect()['a'].to_list()",
        "r",
    ),
    "a table of polars by a name that is put together": (
        "import polars as pl\nn = 'pn'; open('pn.csv', 'w').write('a\\n1\\n')",
        "open('pn.csv', 'w').write('a\\n5\\n')",
        "r = pl.read_csv(f'{n}.csv')['a'].to_list()",
        "r",
    ),
    "a file that is new in a table of many": (
        _TABLES,
        "put('t1/b.parquet', 2)",
        "s = int(pd.read_parquet(pathlib.Path('.') / 't1').a.sum())",
        "s",
    ),
    "a file that has changed in a table of many": (
        _TABLES,
        "put('t1/p=1/a.parquet', 3)",
        "s = sum(pq.read_table(where['in']['it'])['a'].to_pylist())",
        "s",
    ),
    "a file of a dataset of Arrow": (
        _TABLES + "; import pyarrow.dataset as ds; d = ds.dataset('t1')",
        "put('t1/a.parquet', 4)",
        "s = sum(d.to_table()['a'].to_pylist())",
        "s",
    ),
    "a file in a folder that another program is given": (
        "import os, subprocess; os.makedirs('t2/in', exist_ok=True); open('t2/in/a', 'w').write('1')",
        "open('t2/in/a', 'w').write('2')",
        "found = subprocess.check_output(['grep', '-r', '', 't2'])",
        "found",
    ),
    "a file that fits a pattern of the shell": (
        "import os, shutil\nshutil.rmtree('t3', True); os.makedirs('t3'); open('t3/a', 'w').write('1')",
        "open('t3/b', 'w').write('2')",
        "r = os.popen('cat t3/*').read()",
        "r",
    ),
    "a database whose last changes are in a file beside it": (
        "import os, sqlite3\nif 'own' in globals(): own.close()\n"
        "for n in 'w.db', 'w.db-wal', 'w.db-shm': os.path.exists(n) and os.remove(n)\n"
        "own = sqlite3.connect('w.db', isolation_level=None)\n"
        "for q in 'pragma journal_mode=wal', 'create table t (a)': own.execute(q).fetchall()\n"
        "def put(n): own.execute(f'insert into t values ({n})').fetchall()\nput(1)\n"
        "def load():\n    con = sqlite3.connect('w.db')\n"
        "    found = con.execute('select sum(a) from t').fetchall(); con.close()\n    return found",
        "put(5)",
        "r = load()",
        "r",
    ),
    "a file that fits a pattern of polars": (
        "import os, shutil, polars as pl\nshutil.rmtree('t4', True); os.makedirs('t4')\n"
        "open('t4/a.csv', 'w').write('a\\n1')",
        "open('t4/b.csv', 'w').write('a\\n2')",
        "r = pl.scan_csv('t4/*.csv').collect()['a'].to_list()",
        "r",
    ),
    "a file that fits a pattern here": (
        "import os, polars as pl\nopen('t5a.csv', 'w').write('a\\n1')\n"
        "os.path.exists('t5b.csv') and os.remove('t5b.csv')",
        "open('t5b.csv', 'w').write('a\\n2')",
        "r = pl.scan_csv('t5*.csv').collect()['a'].to_list()",
        "r",
    ),
    "a file that a query names": (
        "import polars as pl; open('t6.csv', 'w').write('a\\n1')",
        "open('t6.csv', 'w').write('a\\n2')",
        "r = pl.sql(\"select * from read_csv('t6.csv')\", eager=True).rows()",
        "r",
    ),
    "a file in a folder that Arrow is given apart from its name": (
        _TABLES + "; where = pathlib.Path('t1')",
        "put('t1/a.parquet', 4)",
        "n = pq.ParquetFile(where / 'a.parquet').read()['a'].to_pylist()",
        "n",
    ),
    "a number in an expression in a file": (
        "import pandas as pd; k = 1; df = pd.DataFrame({'a': [1, 2]}); open('e.txt', 'w').write('a * @k')",
        "k = 2",
        "r = df.eval(open('e.txt').read()).tolist()",
        "r",
    ),
    "a table in a query in a file": (
        "import polars as pl; t = pl.DataFrame({'a': [1, 2]}); open('q.sql', 'w').write('select sum(a)\\nfrom t')\n"
        "def run(name): return pl.sql(open(name + '.sql').read(), eager=True).item()",
        "t = pl.DataFrame({'a': [1, 3]})",
        "r = run('q')",
        "r",
    ),
    "a global of a helper in a formula in a file": (
        "import patsy, pandas as pd; k = 1; df = pd.DataFrame({'z': [1., 2]}); open('f.txt', 'w').write('h(z)')\n"
        "def h(v): return v * k",
        "k = 2",
        "r = float(sum(patsy.dmatrix(open('f.txt').read(), df)[1]))",
        "r",
    ),
    "a half-used iterator whose first part is over": (
        "import itertools\nz = itertools.zip_longest([1, 2, 3], [4]); next(z); next(z)",
        "z = itertools.zip_longest([1, 2, 5], [4]); next(z); next(z)",
        "r = next(z)",
        "r",
    ),
}

_DUCK = "import duckdb, os\n"
DATABASES = {
    "a file in a query": (
        f"{_DUCK}_ = open('dq1.csv', 'w').write('a\\n1\\n')",
        "_ = open('dq1.csv', 'w').write('a\\n22\\n')",
        "r = duckdb.sql(\"select sum(a) from 'dq1.csv'\").fetchall()",
        "r",
    ),
    "files in a query by a pattern": (
        f"{_DUCK}os.makedirs('dq2', exist_ok=True); _ = open('dq2/a.csv', 'w').write('a\\n1\\n')",
        "_ = open('dq2/b.csv', 'w').write('a\\n22\\n')",
        "r = duckdb.sql(\"select sum(a) from 'dq2/*.csv'\").fetchall()",
        "r, os.remove('dq2/b.csv')",
    ),
    "a frame in a query": (
        f"{_DUCK}import pandas as pd\ndq3 = pd.DataFrame({{'a': [1]}})",
        "dq3 = pd.DataFrame({'a': [2]})",
        "r = duckdb.sql('select a from dq3').fetchall()",
        "r",
    ),
    "a table of duckdb's own": (
        f"{_DUCK}_ = duckdb.sql('create or replace table dq4 as select 1 as a')",
        "_ = duckdb.sql('create or replace table dq4 as select 2 as a')",
        "r = duckdb.sql('select a from dq4').fetchall()",
        "r, duckdb.sql('drop table dq4')",
    ),
    "a table of duckdb's own, made here": (
        f"{_DUCK}def make(): duckdb.sql('\\n  create or replace table dq5 as select 1 as a')\nn = 1",
        "_ = duckdb.sql('drop table if exists dq5')",
        "make(); r = [n]",
        "r, duckdb.sql('select * from dq5').fetchall(), duckdb.sql('drop table dq5')",
    ),
    "a file of HDF5": (
        "import h5py\ndef put(v):\n    with h5py.File('dq6.h5', 'w') as f: f['a'] = v\nput(1)",
        "put(2)",
        "with h5py.File('dq6.h5') as f: r = int(f['a'][()])",
        "r",
    ),
}

OUTSIDE = {**MODULES, **AROUND, **DATABASES}

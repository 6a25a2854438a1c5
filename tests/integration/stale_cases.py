"""More ways for a result to depend on something, as `test_never_stale` tries them: (before, after, cell, probe)."""

from __future__ import annotations

_RELOAD = "importlib.invalidate_caches(); importlib.reload({0})"
_MODULE = "import importlib, sys\nsys.path.insert(0, '.')\nopen('{0}.py', 'w').write({1!r})\nimport {0}; " + _RELOAD
_AROUND = "def deco(f):\n    def w(): return f()\n    return w\n"

CODE = {
    "a helper's helper's global": (
        "K = 1\ndef inner(): return K\ndef outer(): return inner()",
        "K = 2",
        "r = outer()",
        "r",
    ),
    "a default argument": ("def f(x=1): return x", "def f(x=2): return x", "r = f()", "r"),
    "a mutable default argument": (
        "def f(x, seen=[]):\n    seen.append(x)\n    return len(seen)\nf(0)",
        "f(0)",
        "r = f(1)",
        "r, f(5)",
    ),
    "a method put on an instance": (
        "class A:\n    def m(self): return 1\na = A()",
        "a.m = lambda: 2",
        "r = a.m()",
        "r",
    ),
    "a method put on a class": (
        "class A:\n    def m(self): return 1\na = A()",
        "A.m = lambda self: 2",
        "r = a.m()",
        "r",
    ),
    "a property": (
        "k = 1\nclass A:\n    @property\n    def p(self): return k\na = A()",
        "k = 2",
        "r = a.p",
        "r",
    ),
    "a descriptor": (
        "class D:\n    v = 1\n    def __get__(self, o, t): return self.v\nclass A:\n    d = D()\na = A()",
        "D.v = 2",
        "r = a.d",
        "r",
    ),
    "a partial of something that changes": (
        "import functools\nl = [1]; p = functools.partial(sum, l)",
        "l.append(5)",
        "r = p()",
        "r",
    ),
    "what lru_cache remembers": (
        "import functools\nK = 1\n@functools.lru_cache(None)\ndef f(x): return K * x\nf(3)",
        "K = 2",
        "r = f(3)",
        "r",
    ),
    "a context variable": (
        "import contextvars\ncv = contextvars.ContextVar('cv', default=0)\ndef get(): return cv.get()\ncv.set(1)",
        "cv.set(2)",
        "r = get()",
        "r",
    ),
    "a counting decorator": (
        "def count(f):\n    def w(*a):\n        w.n += 1\n        return f(*a) + w.n\n    w.n = 0\n    return w\n"
        "@count\ndef f(x): return x",
        "f(1)",
        "r = f(1)",
        "r, f.n",
    ),
    "a class attribute that grows": (
        "class A:\n    all = []\n    def __init__(self): A.all.append(1)\na = A()",
        "A()",
        "r = len(a.all)",
        "r",
    ),
    "a class body that reads a global": (
        "k = 1\ndef make():\n    class C:\n        v = k\n    return C",
        "k = 2",
        "r = make().v",
        "r",
    ),
    "an attribute of a function": ("def f(): return f.k\nf.k = 1", "f.k = 2", "r = f()", "r"),
    "a bound method of something that changes": (
        "class A:\n    n = 1\n    def m(self): return self.n\na = A(); m = a.m",
        "a.n = 2",
        "r = m()",
        "r",
    ),
    "a function in a dict in a list": ("fs = [{'f': lambda: 1}]", "fs = [{'f': lambda: 2}]", "r = fs[0]['f']()", "r"),
    "a base class": (
        "class B:\n    def m(self): return 1\nclass A(B): pass\na = A()",
        "class B:\n    def m(self): return 2\nclass A(B): pass\na = A()",
        "r = a.m()",
        "r",
    ),
    "a class that is defined once more": (
        "class A: pass\na = A()",
        "class A: pass",
        "r = isinstance(a, A)",
        "r",
    ),
    "the class of an instance": (
        "class A:\n    v = 1\nclass B:\n    v = 2\na = A()",
        "a.__class__ = B",
        "r = a.v",
        "r",
    ),
    "an attribute its class keeps out of pickles": (
        "class A:\n    def __init__(self): self.a = self.h = 1\n"
        "    def __getstate__(self): return {'a': self.a}\na = A()",
        "a.h = 2",
        "r = a.h",
        "r",
    ),
    "two names of an object with a hash of its own": (
        "class A:\n    def __init__(self): self.n = 1\n    def __eq__(self, o): return True\n"
        "    def __hash__(self): return 1\na = A(); b = a",
        "a = A(); b = a",
        "a.n = 5",
        "(setattr(a, 'n', 7), b.n)",
    ),
    "a generator function's global": (
        "k = 1\ndef gen():\n    for i in range(3): yield i * k",
        "k = 2",
        "r = list(gen())",
        "r",
    ),
    "recursion": (
        "def f(n): return 0 if n == 0 else k + f(n - 1)\nk = 1",
        "k = 2",
        "r = f(3)",
        "r",
    ),
    "what a dataclass says of its fields": (
        "import dataclasses as dc\n@dc.dataclass\nclass A:\n    x: int = dc.field(default=1, metadata={'unit': 'm'})",
        "@dc.dataclass\nclass A:\n    x: int = dc.field(default=1, metadata={'unit': 's'})",
        "r = dc.fields(A)[0].metadata['unit']",
        "r",
    ),
    "a comment in a function whose text is read": (
        "import inspect\ndef f():\n    return 1  # one",
        "def f():\n    return 1  # two",
        "r = inspect.getsource(f)",
        "r",
    ),
    "single dispatch": (
        "import functools\n@functools.singledispatch\ndef f(x): return 1",
        "@f.register\ndef _(x: int): return 2",
        "r = f(3)",
        "r",
    ),
    "a global of what is registered with a single dispatch": (
        "import functools; k = 1\n@functools.singledispatch\ndef f(x): return 0\n@f.register\ndef _(x: int): return k",
        "k = 2",
        "r = f(3)",
        "r",
    ),
    "a global that a decorated function reads": (
        _AROUND + "k = 1\n@deco\n@deco\ndef g(): return h()\ndef h(): return k",
        "k = 2",
        "r = g()",
        "r",
    ),
    "a global that a decorated function changes": (
        _AROUND + "k = []\n@deco\ndef g():\n    k.append(1)\n    return len(k)",
        "k.append(5)",
        "r = g()",
        "r, k",
    ),
    "a function put into a decorated one": (
        "def deco(f):\n    def w(): return w.__wrapped__()\n    w.__wrapped__ = f\n    return w\n"
        "@deco\ndef g(): return k\nk = 1",
        "k = 2",
        "r = g()",
        "r",
    ),
    "a global that a manager of a context reads": (
        "import contextlib; k = 1\n@contextlib.contextmanager\ndef cm(): yield k",
        "k = 2",
        "with cm() as r: pass",
        "r",
    ),
    "an abstract class registered": (
        "import abc\nclass A(abc.ABC): pass\nclass B: pass",
        "_ = A.register(B)",
        "r = issubclass(B, A)",
        "r",
    ),
    "a method that reads the environment": (
        "import os\nos.environ['NBC_TEST_ENV3'] = '1'\nclass A:\n    def m(self): return os.environ['NBC_TEST_ENV3']\n"
        "a = A()",
        "os.environ['NBC_TEST_ENV3'] = '2'",
        "r = a.m()",
        "r",
    ),
    "a method that reads a variable by its name": (
        "k = 1\nclass A:\n    def __init__(self): self.n = 'k'\n    def m(self): return globals()[self.n]\na = A()",
        "k = 2",
        "r = a.m()",
        "r",
    ),
    "a function in a list that reads a variable by its name": (
        "k = 1; n = 'k'; l = [lambda: eval(n)]",
        "k = 2",
        "r = l[0]()",
        "r",
    ),
    "bound by a method to what it was already": (
        "k = 5\nclass A:\n    def m(self):\n        global k\n        k = 5\n        return 7\na = A()",
        "k = 9",
        "r = a.m()",
        "k, r",
    ),
    "what a function changed that is gone": (
        "l = [1]; fs = [lambda: l.append(2)]",
        "l = [1]; fs = [lambda: l.append(2)]",
        "r = fs.pop()()",
        "l, fs",
    ),
    "attributes that are made when they are asked for": (
        "class A:\n    def __getattr__(self, n):\n        if n[0] == '_': raise AttributeError(n)\n"
        "        return self.__dict__.setdefault(n, 1)\na = A()",
        "",
        "b = A(); a.x = 2",
        "a.__dict__, b.__dict__",
    ),
    "the classes below a class": (
        "class A: pass\nclass B(A): pass\ndef names(): return [c.__name__ for c in A.__subclasses__()]",
        "class C(A): pass",
        "r = names()",
        "r",
    ),
    "a variable of a frame": ("import sys\nn = 'k'; k = 1", "k = 2", "r = sys._getframe().f_globals[n]", "r"),
    "a variable of the shell": ("n = 'k'; k = 1", "k = 2", "r = get_ipython().user_ns[n]", "r"),
    "what the garbage collector knows": (
        "import gc\nclass A: pass\nl = [A()]\ndef count(): return sum(type(o) is A for o in gc.get_objects())",
        "l.append(A())",
        "r = count()",
        "r > len(l) - 1",
    ),
    "a name tuple's default": (
        "import typing\nclass P(typing.NamedTuple):\n    a: int = 1",
        "class P(typing.NamedTuple):\n    a: int = 2",
        "r = P().a",
        "r",
    ),
    "an enum": (
        "import enum\nclass E(enum.Enum):\n    A = 1",
        "class E(enum.Enum):\n    A = 2",
        "r = E.A.value",
        "r",
    ),
}

DATA = {
    "what a dict does not show": (
        "class SD(dict):\n    def items(s): return [(k, s[k]) for k in s if k[0] != '_']\nsd = SD(a=1, _b=2)",
        "sd = SD(a=1, _b=3)",
        "r = sd['_b']; s2 = SD(a=1, _b=r)",
        "r, len(s2), s2",
    ),
    "what a list does not show": (
        "class Odd(list):\n    def __iter__(s): return iter(())\nx = Odd([1, 2])",
        "x = Odd([1, 3])",
        "r = x[1]; y = Odd([r])",
        "r, len(y), y[0]",
    ),
    "an attribute of a number": (
        "import decimal\nclass D(decimal.Decimal): pass\nv = D('1.5'); v.n = 1",
        "v = D('1.5'); v.n = 2",
        "r = v.n; w = D(2); w.n = [r]",
        "r, w, w.n",
    ),
    "an attribute of a date, counted up": (
        "import datetime\nclass Day(datetime.date):\n    n = 0\n    def bump(self): self.n += 1; return self.n\n"
        "v = Day(2020, 1, 1); w = [v]",
        "v.n = 5",
        "r = v.bump()",
        "r, v.n, w[0] is v",
    ),
    "an attribute of a counter": (
        "import collections\nclass C(collections.Counter): pass\nv = C('aab'); v.n = 1",
        "v.n = 2",
        "r = v.n; v.n += 1; u = C('b'); u.n = r",
        "r, v.n, u.n, u",
    ),
    "an attribute in a slot": (
        "class S:\n    __slots__ = ('a', 'b')\n    def __getstate__(s): return None, {'a': 1}\ns = S(); s.a = s.b = 1",
        "s.b = 2",
        "r = s.b",
        "r",
    ),
    "what copyreg leaves out": (
        "import copyreg\nclass K: pass\ncopyreg.pickle(K, lambda k: (K, ()))\nk = K(); k.n = 1",
        "k.n = 2",
        "r = k.n",
        "r",
    ),
    "the class of what is pickled as a name": (
        "class One:\n    def __reduce__(s): return 'one'\n    def m(s): return 1\none = One()",
        "class One:\n    def __reduce__(s): return 'one'\n    def m(s): return 2\none = One()",
        "r = one.m()",
        "r",
    ),
    "a function bound to an instance": (
        "import types\nclass A: pass\ndef f(self): return 1\na = A(); a.m = types.MethodType(f, a)",
        "def f(self): return 2\na = A(); a.m = types.MethodType(f, a)",
        "r = a.m()",
        "r",
    ),
    "a function bound to an instance, by itself": (
        "class A:\n    def f(self): return 0\ndef f(self): return 1\nm = f.__get__(A())",
        "def f(self): return 2\nm = f.__get__(A())",
        "r = m(); n = f.__get__(A())",
        "r, n()",
    ),
    "the context of decimals": (
        "import decimal; decimal.getcontext().prec = 28",
        "",
        "ctx = decimal.getcontext()",
        "setattr(ctx, 'prec', 4), decimal.Decimal(1) / 3, decimal.getcontext() is ctx",
    ),
    "the environment": (
        "import os",
        "",
        "env = os.environ",
        "env is os.environ",
    ),
    "a slice of a column": (
        "import pandas as pd",
        "",
        "s = pd.Series([1., 2, 3]); v = s[:2]; w = s.rename('w'); a = s.to_numpy()",
        "v.iloc.__setitem__(0, 99), s.iloc.__setitem__(1, 98), s.tolist(), v.tolist(), w.tolist(), a.tolist()",
    ),
    "a slice of what is there": (
        "import pandas as pd; s = pd.Series([1., 2, 3])",
        "",
        "v = s[:2]",
        "[a := s.to_numpy(), s.iloc.__setitem__(0, 99), a.tolist(), v.tolist()]",
    ),
    "a slice of what is there, forgotten": (
        "import pandas as pd; s = pd.Series([1., 2, 3])",
        "",
        "v = s[:2]",
        "[globals().update(v=0), a := s.to_numpy(), s.iloc.__setitem__(0, 99), a.tolist()]",
    ),
    "two columns, saved one after the other": (
        "import pandas as pd",
        "",
        "s = pd.Series([1., 2, 3])\nv = s[:2]\nbox = {'in': [s.rename('w')]}\nu = box['in'][0][1:]",
        "[a := s.to_numpy(), s.iloc.__setitem__(0, 99), b := u.to_numpy(), u.iloc.__setitem__(0, 97),"
        " globals().update(box=0, v=0), c := u.to_numpy(), u.iloc.__setitem__(0, 96), a.tolist(), b.tolist(),"
        " c.tolist()]",
    ),
    "a frame that was given a column": (
        "import pandas as pd; df = pd.DataFrame({'x': [1., 2, 3]}); col = df['x']",
        "df = pd.DataFrame({'x': [1., 2, 3]}); col = df['x']",
        "df['y'] = df['x'] * 2",
        "[a := df['x'].to_numpy(), df.loc.__setitem__((0, 'x'), 99), a.tolist(), col.tolist()]",
    ),
    "strings in an array that another shows": (
        "import numpy as np",
        "",
        "names = np.array([str(n) for n in range(20_000)], dtype=object); first = names[:12_000]",
        "names.__setitem__(0, 'x'), first[0]",
    ),
    "an array that may not be written to": (
        "import pandas as pd",
        "",
        "a = pd.Series(list('abc'), dtype=object).to_numpy()\nd = pd.Series(pd.to_datetime(['2020'])).to_numpy()",
        "[a.flags.writeable, d.flags.writeable, setattr(d.flags, 'writeable', True), d.flags.writeable]",
    ),
    "a view of a file": (
        "import numpy as np; np.save('x.npy', np.arange(5.))",
        "",
        "m = np.load('x.npy', mmap_mode='r'); c = np.load('x.npy', mmap_mode='c')",
        "m.flags.writeable, m.filename is None, c.mode, type(m.base).__name__",
    ),
    "a row of a structured array": (
        "import numpy as np",
        "",
        "rec = np.zeros(3, dtype='f8,i4'); r1 = rec[1]; rows = [r for r in rec]",
        "r1.__setitem__('f1', 7), rows[0].__setitem__('f0', 2.), rec.tolist(), rows",
    ),
    "a row that is written to": (
        "import numpy as np; rec = np.zeros(3, dtype='f8,i4'); r1 = rec[1]",
        "rec = np.zeros(3, dtype='f8,i4'); r1 = rec[2]",
        "r1['f1'] = 7",
        "rec.tolist(), r1",
    ),
    "what an iterator gave": (
        "import numpy as np",
        "",
        "a = np.arange(4.)\nfor x in np.nditer(a, op_flags=['readwrite']): x[...] = 2 * x",
        "x.__setitem__(..., -1), a.tolist()",
    ),
    "what an iterator gave, written to": (
        "import numpy as np; a = np.arange(4.)\nfor x in np.nditer(a, op_flags=['readwrite']): pass",
        "a[3] = 3.",
        "x[...] = -1",
        "a.tolist(), x",
    ),
    "the order of a dict": ("d = {'a': 1, 'b': 2}", "d = {'b': 2, 'a': 1}", "r = list(d)", "r"),
    "minus zero": ("z = 0.0", "z = -0.0", "r = str(z)", "r"),
    "one and True and 1.0": ("z = 1", "z = True", "r = str(z)", "r"),
    "NaN": ("z = [1.0]", "z = [float('nan')]", "r = str(z)", "r"),
    "a type of number": (
        "import numpy as np\nz = np.float32(0.5)",
        "z = np.float64(0.5)",
        "r = z.dtype.name",
        "r",
    ),
    "the dtype of an array": (
        "import numpy as np\nz = np.zeros(2, 'i4')",
        "z = np.zeros(2, 'u4')",
        "r = str(z.dtype)",
        "r",
    ),
    "the strides of an array": (
        "import numpy as np\nz = np.zeros((4, 4))[::2, ::2]",
        "z = np.zeros((2, 2))",
        "y = z.reshape(-1)",
        "(y.__setitem__(0, 7), z[0, 0])",
    ),
    "the byte order of an array": (
        "import numpy as np\nz = np.ones(2, '<i4')",
        "z = np.ones(2, '>i4')",
        "r = z.tobytes()",
        "r",
    ),
    "the index of a frame": (
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})",
        "df = pd.DataFrame({'a': [1, 2]}, index=[1, 2])",
        "r = df.index.tolist()",
        "r",
    ),
    "the categories of a column": (
        "import pandas as pd\nc = pd.Categorical(['a'], categories=['a', 'b'])",
        "c = pd.Categorical(['a'], categories=['b', 'a'])",
        "r = c.codes.tolist()",
        "r",
    ),
    "the attributes of a frame": (
        "import pandas as pd\ndf = pd.DataFrame({'a': [1]}); df.attrs['k'] = 1",
        "df = pd.DataFrame({'a': [1]}); df.attrs['k'] = 2",
        "r = df.attrs['k']",
        "r",
    ),
    "what was put on a frame": (
        "import pandas as pd\ndf = pd.DataFrame({'a': [1]}); df.unit = 'm'",
        "df = pd.DataFrame({'a': [1]}); df.unit = 'km'",
        "r = df.unit",
        "r",
    ),
    "a frame with something put on it": (
        "import pandas as pd\ndef make():\n    df = pd.DataFrame({'a': [1]})\n    df.unit = 'm'\n    return df",
        "",
        "df = make()",
        "df.unit",
    ),
    "what a class of arrays has": (
        "import numpy as np\nclass A(np.ndarray):\n    def __array_finalize__(self, o): self.unit = None\n"
        "def make(unit):\n    a = np.zeros(2).view(A)\n    a.unit = unit\n    return a\na = make('m')",
        "a = make('km')",
        "r, b = a.unit, make('l')",
        "r, b.unit",
    ),
    "a mask that is hard": (
        "import numpy as np\nm = np.ma.array([1, 2], mask=[0, 1])",
        "m = np.ma.array([1, 2], mask=[0, 1], hard_mask=True)",
        "m[1] = 5",
        "m.tolist(), m.hardmask",
    ),
    "what a masked array is filled with": (
        "import numpy as np",
        "",
        "m = np.ma.array([1, 2], mask=[0, 1])",
        "m.astype(float).filled().tolist()",
    ),
    "another name for drawing": (
        "import random, numpy as np",
        "",
        "pick, draw = random.random, np.random.rand",
        "(random.seed(1), np.random.seed(1), pick(), random.random(), draw(), np.random.rand())",
    ),
    "the values of a frame": (
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]}); v = df['a'].to_numpy()",
        "df = pd.DataFrame({'a': [1, 2]}); v = df['a'].to_numpy()",
        "df.loc[0, 'a'] = 9",
        "v.tolist(), df['a'].tolist()",
    ),
    "an expression in a variable": (
        "import pandas as pd\nk = 1; e = {'it': 'a > @k'}; df = pd.DataFrame({'a': [1, 2, 3]})",
        "k = 2; df = pd.DataFrame({'a': [1, 2, 3]})",
        "n = len(df.query(e['it']))",
        "n",
    ),
    "an accessor of pandas": (
        "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\nk = 1\n"
        "@pd.api.extensions.register_dataframe_accessor('nbc_test')\nclass A:\n"
        "    def __init__(self, df): pass\n    def f(self): return k",
        "k = 2",
        "r = df.nbc_test.f()",
        "r",
    ),
    "the dict of an instance": (
        "class A: pass\na = A(); a.x = 1",
        "a = A(); a.x = 1",
        "d = a.__dict__; d['y'] = 2",
        "d is a.__dict__, d.update(z=3), a.z",
    ),
    "the dict of an instance with slots": (
        "class S: __slots__ = ('s',)\nclass A(S): pass",
        "",
        "a = A(); a.s, a.x = 1, 2; box = [a.__dict__]",
        "box[0] is a.__dict__, a.s, a.x",
    ),
    "a dict that is its own attributes": (
        "class Config(dict):\n    def __init__(self, **given):\n        super().__init__(given)\n"
        "        self.__dict__ = self",
        "",
        "c = Config(lr=1)\nc.lr = 5",
        "c['lr'], setattr(c, 'n', 2), c['n'], c.__dict__ is c",
    ),
    "a dict that is its own attributes, and counts": (
        "class Config(dict):\n    def __init__(self, **given):\n        super().__init__(given)\n"
        "        self.__dict__ = self\n    def __getitem__(self, name): return (name, super().__getitem__(name))",
        "",
        "c = Config(lr=1)\nc.lr = 5",
        "c['lr'], setattr(c, 'n', 2), c['n'], c.__dict__ is c",
    ),
    "the dict of a namespace": (
        "import types",
        "",
        "n = types.SimpleNamespace(a=1); d = n.__dict__",
        "d is n.__dict__",
    ),
    "a mapping proxy": (
        "import types",
        "",
        "d = {'a': 1}; m = types.MappingProxyType(d)",
        "d.update(b=2), dict(m), type(m).__name__",
    ),
    "a mapping proxy of what has changed": (
        "import types; d = {'a': 1}; m = types.MappingProxyType(d)",
        "d['a'] = 2",
        "r = m['a']",
        "r",
    ),
    "what is to be done when an object is gone": (
        "import weakref\nclass A: pass\nlog = []",
        "log.clear()",
        "a = A(); end = weakref.finalize(a, log.append, 1)",
        "globals().pop('a') is None, log",
    ),
    "a view of a dict": ("d = {'a': 1}", "d = {'a': 1}", "ks = d.keys()", "(d.update(b=2), len(ks))"),
    "the length of a deque": (
        "import collections\nq = collections.deque([1], maxlen=1)",
        "q = collections.deque([1], maxlen=2)",
        "q.append(2)",
        "list(q)",
    ),
    "what a defaultdict makes": (
        "import collections\nd = collections.defaultdict(int)",
        "d = collections.defaultdict(list)",
        "r = d['x']",
        "r",
    ),
    "an iterator that has moved": ("i = iter([1, 2, 3])", "next(i)", "r = next(i)", "r"),
    "what a weak reference leads to": (
        "import weakref\nclass A: n = 1\na = A(); w = weakref.ref(a)",
        "a = A(); w = weakref.ref(a)",
        "a.n = 2",
        "w() is a",
    ),
    "what a weak proxy leads to": (
        "import weakref\nclass A: n = 1\na = A()",
        "a = A(); l.clear()",
        "l = [weakref.proxy(a)]",
        "(setattr(l[0], 'n', 2), a.n)",
    ),
    "a weak set": (
        "import weakref\nclass A: n = 1\na = A(); s = weakref.WeakSet([a])",
        "a = A(); s = weakref.WeakSet([a])",
        "a.n = 2",
        "[x.n for x in s]",
    ),
    "deleted, and gone at once": (
        "import gc, weakref\nclass A: pass\ngc.disable()\na = A(); w = weakref.ref(a); l = [1, w]",
        "a = A(); w = weakref.ref(a); l = [1, w]",
        "b = [a]\nfor l[0] in b: a.x = 1\nv = w\ndel a, b, l",
        "(w() is None, gc.enable())",
    ),
    "a time zone": (
        "import datetime\nt = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)",
        "t = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(0), 'X'))",
        "r = t.tzname()",
        "r",
    ),
    "fold": (
        "import datetime\nt = datetime.datetime(2024, 1, 1)",
        "t = datetime.datetime(2024, 1, 1, fold=1)",
        "r = t.fold",
        "r",
    ),
    "which part another variable shares": (
        "a = [1]; x = [a, [1]]; y = [a]; del a",
        "b = [1]; x = [[1], b]; y = [b]; del b",
        "x[0] = [5]",
        "(y[0].append(9), x, y)",
    ),
    "which part another variable shares, bound anew": (
        "a = [1]; x = [a, [1]]; y = [a]; del a",
        "b = [1]; x = [[1], b]; y = [b]; del b",
        "x = [[5], x[1]]",
        "(y[0].append(9), x, y)",
    ),
    "who shared nothing shares it now": (
        "x = [[1], [1]]; y = [[1]]",
        "x = [[1], [1]]; y = [x[1]]",
        "x[0] = [len(y) + 4]",
        "(y[0].append(9), x, y)",
    ),
    "an index that is shared no more": (
        "import pandas as pd\ndays = pd.date_range('2024-01-01', periods=4); s = pd.Series([1., 2, 3, 4], index=days)",
        "s = pd.Series([1., 2, 3, 4], index=days)",
        "s.iloc[[1]] += 1",
        "(setattr(days, 'name', 'd'), s.index.name, s.index is days, s.tolist())",
    ),
    "an index that is shared by another one": (
        "import pandas as pd\ni = pd.Index([1, 2]); j = pd.Index([1, 2]); s = pd.Series([1., 2], index=i)",
        "s = pd.Series([1., 2], index=j)",
        "s = s.rename('x')",
        "(setattr(j, 'name', 'd'), s.index.name, s.index is j, s.index is i)",
    ),
    "a view of another half": (
        "import numpy as np\nd = np.zeros(6); v = d[:3]; w = d[3:]",
        "d = np.zeros(6); v = d[3:]; w = d[:3]",
        "v = v + 1",
        "(w.__setitem__(0, 7), d.tolist(), v.tolist())",
    ),
    "a view written to": (
        "import numpy as np\nd = np.zeros(6); v = d[:3]",
        "d = np.zeros(6); v = d[3:]",
        "v[0] = 1",
        "(d.tolist(), v.tolist())",
    ),
    "an object held twice": (
        "class Box: pass\nc = Box(); c.n = [0]; p = Box(); p.c = c; q = Box(); q.c = c",
        "e = Box(); e.n = [0]; q.c = e; c.n = [0]; p.c = c; f = [c, e]",
        "p.c = None",
        "(q.c is c, q.c.n, p.c)",
    ),
    "a list of a class, by another name": (
        "class A:\n    l = [1]\nd = A.l",
        "class A:\n    l = [1]\nd = A.l",
        "d.append(2)",
        "(A.l, d, A.l is d)",
    ),
    "a list of a class that an instance holds": (
        "class A:\n    l = [1]\na = A(); a.x = A.l",
        "class A:\n    l = [1]\na = A(); a.x = A.l",
        "a.x.append(2)",
        "(A.l, a.x)",
    ),
    "a default by another name": (
        "def f(acc=[1]): return acc\nd = f()",
        "def f(acc=[1]): return acc\nd = f()",
        "d.append(2)",
        "(f(), d)",
    ),
    "an attribute of a function by another name": (
        "def f(): return f.memo\nf.memo = {}\nd = f.memo",
        "def f(): return f.memo\nf.memo = {}\nd = f.memo",
        "d['k'] = 1",
        "(f(), d)",
    ),
    "an instance that its class remembers": (
        "class A:\n    all = []\n    def __init__(self): self.all.append(self)",
        "A.all.clear()",
        "a = A()",
        "(len(A.all), A.all[-1] is a)",
    ),
    "the only instance of a class": (
        "class A:\n    one = None\n    def __new__(cls):\n"
        "        cls.one = cls.one or object.__new__(cls)\n        return cls.one\nfirst = A()",
        "first = A(); first.n = 3",
        "a = A()",
        "(a is A(), a is first, getattr(a, 'n', 0))",
    ),
    "a list for all instances": (
        "class A:\n    l = [1]\na = A()",
        "A.l.append(2)",
        "b = [sum(a.l), a]",
        "(b[0], b[1].l is A.l)",
    ),
    "a class that attrs has made": (
        "import attr\n@attr.s\nclass A:\n    x = attr.ib(default=1)\na = A()",
        "@attr.s\nclass A:\n    x = attr.ib(default=2)\na = A(1)",
        "b = type(a)().x",
        "b",
    ),
}

AROUND = {
    "a file that another program is given": (
        "import subprocess\nopen('in1', 'w').write('1')",
        "open('in1', 'w').write('2')",
        "r = subprocess.run('cat in1', shell=True, capture_output=True, text=True).stdout",
        "r",
    ),
    "a file that another program reads from its input": (
        "import os\nopen('in2', 'w').write('1')",
        "open('in2', 'w').write('2')",
        "r = os.popen('cat <in2').read()",
        "r",
    ),
    "a file in the folder of another program": (
        "import subprocess, os\nos.makedirs('sub', exist_ok=True); open('sub/in3', 'w').write('1')",
        "open('sub/in3', 'w').write('2')",
        "r = subprocess.check_output(['cat', 'in3'], cwd='sub')",
        "r",
    ),
    "a file that another program has written": (
        "import subprocess, os",
        "os.remove('made1')",
        "r = subprocess.run(['sh', '-c', 'echo hi > made1']).returncode",
        "open('made1').read()",
    ),
    "a file that another program was told to write": (
        "import os\nopen('in4', 'w').write('4')",
        "open('made2', 'w').write('other')",
        "r = os.system('cp in4 made2')",
        "open('made2').read()",
    ),
    "where a log is written": (
        "import logging; log = logging.getLogger('nbc_test'); log.setLevel('INFO')",
        "log.handlers.clear()",
        "log.addHandler(logging.FileHandler('said.log', 'w'))",
        "log.info('here'), open('said.log').read()",
    ),
    "a folder that goes when its object goes": (
        "import os, tempfile",
        "",
        "folder = tempfile.TemporaryDirectory(); n = open(os.path.join(folder.name, 'a'), 'w').write('1')",
        "os.listdir(folder.name)",
    ),
    # Of a library that no other case of the same kernel needs whole.
    "a number of a library": (
        "import colorsys\ncolorsys.ONE_SIXTH = 3",
        "colorsys.ONE_SIXTH = 4",
        "r = colorsys.ONE_SIXTH * 2",
        "r",
    ),
    "a function of a library": (
        "import math\nold = math.floor\nmath.floor = math.trunc",
        "math.floor = math.ceil",
        "r = math.floor(1.5)",
        "(r, setattr(math, 'floor', old))",
    ),
    "a function put into a library": (
        "import textwrap\nold = textwrap.shorten\ntextwrap.shorten = lambda o: '1'",
        "textwrap.shorten = lambda o: '2'",
        "r = textwrap.shorten(5)",
        "(r, setattr(textwrap, 'shorten', old))",
    ),
    "a method of a library's class": (
        "import fractions\nF = fractions.Fraction\nf = F(1, 2)\nF.half = lambda self: 1",
        "F.half = lambda self: 2",
        "r = f.half()",
        "r",
    ),
    "a builtin": (
        "import builtins\nbuiltins.twice = lambda x: 2 * x",
        "builtins.twice = lambda x: 3 * x",
        "r = twice(2)",
        "r",
    ),
    "an environment variable by a name in a variable": (
        "import os\nname = 'NBC_TEST_ENV'; os.environ[name] = '1'",
        "os.environ[name] = '2'",
        "r = os.environ[name]",
        "r",
    ),
    "an environment variable by a name that is put together": (
        "import os\nos.environ['NBC_TEST_ENV2'] = '1'\n"
        "def get(n): return os.environ['NBC_TEST_' + 'env'.upper() + str(n)]",
        "os.environ['NBC_TEST_ENV2'] = '2'",
        "r = get(2)",
        "r",
    ),
    "an environment variable by a name in small letters": (
        "import os\nos.environ['NBC_TEST_ENV5'] = '1'\ndef get(): return os.environ['nbc_test_env5'.upper()]",
        "os.environ['NBC_TEST_ENV5'] = '2'",
        "r = get()",
        "r",
    ),
    "the time zone of the process": (
        "import os, time\nos.environ['TZ'] = 'UTC'; time.tzset()",
        "os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()",
        "r = time.localtime(0).tm_hour",
        "r",
    ),
    "what NumPy does with errors": (
        "import numpy as np\n_ = np.seterr(all='warn')",
        "_ = np.seterr(all='raise')",
        "try:\n    r = np.float64(1) / np.zeros(1)\nexcept FloatingPointError:\n    r = 'raised'",
        "(str(r), np.seterr(divide='warn', over='warn', under='ignore', invalid='warn') is None)",
    ),
    "how NumPy prints": (
        "import numpy as np\na = np.array([1 / 3])",
        "np.set_printoptions(precision=2)",
        "r = str(a)",
        "(r, np.set_printoptions(precision=8))",
    ),
    "how pandas prints": (
        "import pandas as pd\ndf = pd.DataFrame({'a': range(9)})",
        "pd.set_option('display.max_rows', 4)",
        "r = str(df)",
        "(r, pd.reset_option('display.max_rows'))",
    ),
    "how polars prints": (
        "import polars as pl; pl.Config.restore_defaults(); t = pl.DataFrame({'a': range(9)})",
        "_ = pl.Config.set_tbl_rows(4)",
        "r = str(t)",
        "(r, pl.Config.restore_defaults() is None)",
    ),
    "how polars writes numbers": (
        "import polars as pl; pl.Config.restore_defaults(); t = pl.DataFrame({'a': [1234567.0]})",
        "_ = pl.Config.set_float_precision(1)",
        "r = str(t)",
        "(r, pl.Config.restore_defaults() is None)",
    ),
    "decimals": (
        "import decimal\ndecimal.getcontext().prec = 5",
        "decimal.getcontext().prec = 7",
        "r = str(decimal.Decimal(1) / 3)",
        "(r, setattr(decimal.getcontext(), 'prec', 28))",
    ),
    "warnings that are errors": (
        "import warnings\ndef f():\n    warnings.warn('w', stacklevel=2)\n    return 1",
        "warnings.simplefilter('error')",
        "try:\n    r = f()\nexcept UserWarning:\n    r = 2",
        "(r, warnings.filters.pop(0)[0])",
    ),
    "options of scikit-learn": (
        "import sklearn\nfrom sklearn.preprocessing import StandardScaler\nimport pandas as pd\n"
        "df = pd.DataFrame({'a': [1.0, 2.0]})",
        "sklearn.set_config(transform_output='pandas')",
        "r = type(StandardScaler().fit_transform(df)).__name__",
        "(r, sklearn.set_config(transform_output='default'))",
    ),
    "a constant of a module": (
        _MODULE.format("hk1", "K = 1\ndef f(): return K"),
        "hk1.K = 2",
        "r = hk1.f()",
        "r",
    ),
    "a list of a module": (
        _MODULE.format("hl5", "L = [0]\ndef f():\n    L.append(1)\n    return len(L)"),
        "hl5.L.append(2)",
        "r = hl5.f()",
        "r, hl5.L",
    ),
    "a module behind a module": (
        _MODULE.format("hb2", "def g(): return 1")
        + "\n"
        + _MODULE.format("ha2", "import hb2\ndef f(): return hb2.g()"),
        "open('hb2.py', 'w').write('def g(): return 1 + 1')\n" + _RELOAD.format("hb2"),
        "r = ha2.f()",
        "r",
    ),
    "a name imported from a module that was edited": (
        _MODULE.format("hc3", "def f(): return 1") + "\nfrom hc3 import f",
        "open('hc3.py', 'w').write('def f(): return 1 + 1')\n" + _RELOAD.format("hc3") + "\nfrom hc3 import f",
        "r = f()",
        "r",
    ),
    "a file by a path": (
        "from pathlib import Path\np = Path('pp.txt'); _ = p.write_text('1')",
        "_ = p.write_text('2')",
        "r = p.read_text()",
        "r",
    ),
    "the names in a folder": (
        "import os\nos.makedirs('folder', exist_ok=True)\nfor n in os.listdir('folder'): os.remove('folder/' + n)",
        "open('folder/new', 'w').close()",
        "r = len(os.listdir('folder'))",
        "r",
    ),
    "the size of a file": (
        "import os\n_ = open('size.txt', 'w').write('1')",
        "_ = open('size.txt', 'w').write('123')",
        "r = os.path.getsize('size.txt')",
        "r",
    ),
    "a file looked for by a name that is put together": (
        "import os\nn = 7\nif os.path.exists('look7.txt'): os.remove('look7.txt')",
        "open('look7.txt', 'w').close()",
        "r = os.path.exists(f'look{n}.txt')",
        "r",
    ),
    "a file that Arrow reads": (
        "import pandas as pd\nn = 7\npd.DataFrame({'a': [1]}).to_parquet('arrow7.parquet')",
        "pd.DataFrame({'a': [2]}).to_parquet('arrow7.parquet')",
        "r = pd.read_parquet(f'arrow{n}.parquet').a.tolist()",
        "r",
    ),
    "a file that Arrow writes": (
        "import os, pandas as pd\nn = 8; df = pd.DataFrame({'a': [1]})",
        "os.remove('arrow8.parquet')",
        "r = df.to_parquet(f'arrow{n}.parquet')",
        "os.path.exists('arrow8.parquet')",
    ),
    "a file it removed": (
        "import os\n_ = open('gone.txt', 'w').write('1')\ndef work():\n    os.remove('gone.txt')\n    return 1",
        "_ = open('gone.txt', 'w').write('1')",
        "r = work()",
        "(r, os.path.exists('gone.txt'))",
    ),
    "a file it removed, which it would miss now": (
        "import os\n_ = open('rm1', 'w').write('1')",
        "pass",
        "try:\n    os.remove('rm1'); r = 'there'\nexcept OSError:\n    r = 'gone'",
        "r",
    ),
    "a file it asked for and removed": (
        "import os\n_ = open('rm2', 'w').write('1')\ndef work():\n    r = os.path.exists('rm2')\n"
        "    if r: os.remove('rm2')\n    return r",
        "pass",
        "r = work()",
        "r",
    ),
    "a folder it removed": (
        "import os, shutil\nos.makedirs('rm3/in', exist_ok=True)",
        "pass",
        "try:\n    shutil.rmtree('rm3'); r = 'there'\nexcept FileNotFoundError:\n    r = 'gone'",
        "r",
    ),
    "a folder it made": (
        "import os, shutil\nshutil.rmtree('made', True)\ndef work():\n    os.makedirs('made')\n    return 1",
        "shutil.rmtree('made', ignore_errors=True)",
        "r = work()",
        "(r, os.path.exists('made'))",
    ),
    "an option it set, long ago": (
        "import numpy as np\ndef work():\n    np.set_printoptions(precision=3)\n    return 1",
        "np.set_printoptions(precision=8)",
        "r = work()",
        "(r, str(np.array([1 / 3])), np.set_printoptions(precision=8))",
    ),
}

_FRAME = "import numpy as np, pandas as pd; df = pd.DataFrame({'y': [1., 2, 4], 'z': [1., 3, 2]})\n"
_FITTED = "s = float(np.asarray({0}).sum())"

BY_NAME = {
    "a number in a formula in a variable": (
        _FRAME + "import patsy; k = 1; f = {'it': 'I(z ** k)'}",
        "k = 2",
        _FITTED.format("patsy.dmatrix(f['it'], df)"),
        "s",
    ),
    "a helper's global in a formula in a list": (
        _FRAME + "from formulaic import model_matrix as mm\nk = 1\ndef h(v): return v ** k\nfs = ['z', 'h(z)']",
        "k = 2",
        _FITTED.format("[np.asarray(mm(f, df)).sum() for f in fs]"),
        "s",
    ),
    "a helper in a formula that a class holds": (
        _FRAME + "import statsmodels.formula.api as smf\ndef h(v): return v ** 2\nclass M:\n    form = 'y ~ h(z)'\n"
        "    def fit(self, d): return smf.ols(self.form, d).fit().params\nm = M()",
        "def h(v): return v ** 3",
        _FITTED.format("m.fit(df)"),
        "s",
    ),
    "what a helper in a formula reads from the environment": (
        _FRAME + "import os, patsy; os.environ['NBC_TEST_ENV4'] = '1'; f = 'h(z)'\n"
        "def h(v): return v * float(os.environ['NBC_TEST_ENV4'])",
        "os.environ['NBC_TEST_ENV4'] = '2'",
        _FITTED.format("patsy.dmatrix(f, df)"),
        "s",
    ),
    "a global of a module in an expression of that module": (
        _FRAME + _MODULE.format("hq1", "K = 1\ndef f(d): return d.query('z > @K')"),
        "open('hq1.py', 'w').write('K = 2\\ndef f(d): return d.query(\"z > @K\")')\n" + _RELOAD.format("hq1"),
        "n = len(hq1.f(df))",
        "n",
    ),
    "a helper of a module in a formula of the notebook": (
        _FRAME + _MODULE.format("hq2", "import patsy\ndef h(v): return v\ndef f(e, d): return patsy.dmatrix(e, d)"),
        "hq2.h = lambda v: 2 * v",
        _FITTED.format("hq2.f('h(z)', df)"),
        "s",
    ),
    "a table in a query in a variable": (
        "import polars as pl; t = pl.DataFrame({'a': [1, 2]}); q = 'select sum(a) from t'",
        "t = pl.DataFrame({'a': [1, 3]})",
        "s = pl.sql(q, eager=True).item()",
        "s",
    ),
    "an accessor of pandas by its name": (
        _FRAME + "how = 'nbc_named'\n@pd.api.extensions.register_series_accessor('nbc_named')\nclass A:\n"
        "    def __init__(self, s): pass\n    def f(self): return k\nk = 1",
        "k = 2",
        "r = getattr(df.y, how).f()",
        "r",
    ),
    "a namespace of polars": (
        "import polars as pl; k = 1; t = pl.DataFrame({'a': [1, 2]})\n@pl.api.register_expr_namespace('nbc_test')\n"
        "class A:\n    def __init__(self, e): self.e = e\n    def times(self): return self.e * k",
        "k = 2",
        "r = t.select(pl.col('a').nbc_test.times())['a'].to_list()",
        "r",
    ),
    "an annotation that is a text": (
        "import typing; Age = int\nclass M:\n    age: 'Age'",
        "Age = float",
        "r = typing.get_type_hints(M)['age']('3')",
        "r",
    ),
}

MORE = {**CODE, **DATA, **AROUND, **BY_NAME}

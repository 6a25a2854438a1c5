"""Functions: generators, decorators, closures, defaults, what functools makes of them, attributes put together."""

from __future__ import annotations

from tests.properties.themes.theme import Theme

FUNCTIONS = Theme(
    (
        "{N} = fin({#})",
        "{L} = [fin(x) for x in range(4)]",
        "{N} = work({#})",
        "{N} = work({n}, k={#})",
        "work.calls = {#}",
        "{N} = work.calls",
        "{G} = work",
        "{G} = tally(work)",
        "work = tally(work)",
        "work = grow",
        "{G} = tally({g})",
        "{N} = {g}({#})",
        "{N} = {g}.calls",
        "g8, g7 = pair({#})",
        "g7({#})",
        "{N} = g8()",
        "{l}.append(g7({n}))",
        "{D} = {'get': g8, 'put': g7}",
        "{N} = {d}['put']({#})",
        "{N} = {d}['get']()",
        "g8, g7 = pair({n})[0], g8",
        "{N} = grow({#})",
        "{L} = grow({n}, log={l})",
        "grow.__defaults__ = ({}, )",
        "{N} = len(grow.__kwdefaults__['log'])",
        "{N} = even({#})",
        "{L} = [even(x) for x in range(3)]",
        "even.seen = {l}",
        "even.seen.append({#})",
        "work.__defaults__ = ({#},)",
        "{N} = apply(work, {#})",
        "{N} = apply(lambda v: v + n0, {#})",
        "{N} = apply({g}, {n})",
        "{L} = [apply(f, 2) for f in (work, grow, fin)]",
        "TABLE['work'] = work",
        "TABLE['work'] = lambda v: v - {#}",
        "{N} = TABLE['work']({#})",
        "{N} = TABLE['fin']({#})",
        "TABLE[{#}] = {g}",
        "for k in list(TABLE): {l}.append(str(k))",
        "def work(v, k={#}):\n    return v + k",
        "def n9(): return {n}\n{N} = n9()",
        "{N} = (lambda: (lambda v: v + n0)({#}))()",
        "{N} = nested({#})()",
        "{G} = nested({#})",
    ),
    {
        "fin": (
            "def fin(v):\n    try:\n        if v > {#}:\n            raise ValueError(v)\n        return v\n"
            "    except ValueError:\n        return -v\n    finally:\n        {l}.append(v)",
            "def fin(v):\n    for x in range(v):\n        try:\n            if x == {#}:\n                return x\n"
            "        finally:\n            if x > 3:\n                break\n    return {n}",
        ),
        "tally": (
            "def tally(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        inner.calls += 1\n"
            "        return f(*a, **k)\n    inner.calls = {#}\n    return inner",
            "def tally(f, log={l}):\n    def inner(*a, **k):\n        log.append(len(a))\n"
            "        return f(*a, **k) + {#}\n"
            "    inner.calls = 0\n    return inner",
        ),
        "work": (
            "@tally\ndef work(v, *, k={#}):\n    return v * k",
            "def work(v, k={n}):\n    return v + k",
            "@functools.lru_cache\ndef work(v, k={#}):\n    {l}.append(v)\n    return v - k",
        ),
        "pair": (
            "def pair(k):\n    def get():\n        return k\n    def put(v):\n        nonlocal k\n        k += v\n"
            "        return k\n    return get, put",
            "def pair(k):\n    held = [k]\n    def get():\n        return sum(held)\n    def put(v):\n"
            "        held.append(v)\n        return len(held) + {#}\n    return get, put",
        ),
        "grow": (
            "def grow(v, seen={}, *, log=[]):\n    seen[v] = len(log)\n    log.append(v)\n    return sorted(seen)",
            "def grow(v, seen=[], *, log={l}):\n    seen += [v]\n    log.append({#})\n    return len(seen)",
        ),
        "even": (
            "def even(v):\n    return True if v < 1 else odd(v - 1)\ndef odd(v):\n"
            "    return {#} if v < 1 else even(v - 1)",
            "def even(v):\n    global n1\n    n1 = v\n    return odd(v) + {#}\ndef odd(v):\n    return v + n1",
        ),
        "apply": (
            "def apply(f, v):\n    return f(v) + {#}",
            "def apply(f, v, *, k={#}):\n    return f(v) * k",
            "def apply(f, *v, **k):\n    {l}.append(len(v))\n    return f(*v, **k)",
        ),
        "TABLE": (
            "TABLE = {'work': work, 'fin': fin}",
            "TABLE = collections.defaultdict(lambda: work)\nTABLE['fin'] = lambda v: fin(v) + {#}",
        ),
        "nested": (
            "def nested(k):\n    class Local:\n        base = k\n        def __call__(self, v={#}):\n"
            "            return v + self.base + {n}\n    return Local()",
            "def nested(k):\n    def outer(v={#}):\n        def inner():\n            nonlocal k\n            k += v\n"
            "            return k\n        return inner()\n    return outer",
        ),
    },
)

GENERATORS = Theme(
    (
        "i8 = acc({#}); {N} = next(i8)",
        "{N} = i8.send({#})",
        "{N} = i8.send({n})",
        "i8.close()",
        "i8 = deleg(range({#}), {l})",
        "{L} = list(i8)",
        "{N} = next(i8, {#})",
        "{L} = list(deleg({l}, {l}))",
        "{N} = i8.throw(ValueError({#}))",
        "for x in deleg(range(2), {l}[:2]):\n    {*}",
        "for x in itertools.islice(i8, 2):\n    {*}",
        "for x in chunks({l}, 2): {N} = len(x)",
        "{M} = list(chunks({l}, 2))",
        "for x in chunks({l}[:6], 2):\n    x.append({#})\n    {*}",
        "{N} = sum(map(len, chunks({l}, 3)))",
        "{I} = chunks({l}, 2)",
        "{I} = itertools.accumulate({l})",
        "{I} = itertools.groupby(sorted({l}), lambda x: x % 2)",
        "{D} = {k: list(v) for k, v in itertools.groupby({l}, lambda x: x % 2)}",
        "{L} = [x for x, _ in zip(i8, range(3))]",
        "{L} = [*map(sum, itertools.product({l}[:2], {l}[:2]))]",
        "o8 = Walk({l})",
        "for x in o8: {N} = x",
        "{L} = list(o8)",
        "{N} = next(iter(o8))",
        "{N} = next(o8, -1)",
        "i7 = iter(o8); {N} = next(i7)",
        "{I} = iter({l}.pop, {#})",
        "i8 = (x for x in i8)",
        "for x in i8:\n    {l}.append(x)\n    if len({l}) > 8: break",
    ),
    {
        "acc": (
            "def acc(k):\n    total = k\n    while True:\n        got = yield total\n        if got is None:\n"
            "            return total\n        total += got + {#}",
            "def acc(k):\n    try:\n        while True:\n            try:\n                {l}.append((yield k))\n"
            "            except ValueError as error:\n                k = error.args[0]\n    finally:\n"
            "        {d}['closed'] = k",
        ),
        "deleg": (
            "def deleg(*parts):\n    for part in parts:\n        got = yield from part\n"
            "        {l}.append(got is None)",
            "def deleg(*parts):\n    yield {#}\n    yield from itertools.chain(*parts)\n    return {n}",
        ),
        "chunks": (
            "def chunks(items, k):\n    for at in range(0, len(items), k):\n        yield items[at:at + k]",
            "def chunks(items, k):\n    it = iter(items)\n    while part := list(itertools.islice(it, k + 1)):\n"
            "        yield part",
        ),
        "Walk": (
            "class Walk:\n    def __init__(self, data):\n        self.data, self.n = data, {#}\n"
            "    def __iter__(self):\n"
            "        self.n += 1\n        yield from self.data[:4]",
            "class Walk:\n    def __init__(self, data):\n        self.data, self.n = data, -1\n"
            "    def __iter__(self):\n"
            "        return self\n    def __next__(self):\n        self.n += 1\n"
            "        if self.n >= min(4, len(self.data)):\n"
            "            raise StopIteration\n        return self.data[self.n] * {#}",
        ),
    },
)

FUNCTOOLS = Theme(
    (
        "{N} = fib({#})",
        "fib.cache_clear()",
        "{N} = fib.cache_info().hits",
        "{L} = [fib(x) for x in range({#})]",
        "{N} = fib.__wrapped__({#})",
        "o8 = Lazy({l})",
        "{N} = o8.late",
        "o8.data.append({#}); {N} = o8.late",
        "del o8.late",
        "o8.__dict__['late'] = {#}",
        "{N} = o8.named({#})",
        "{N} = o8.twice()",
        "{N} = {o}.twice()",
        "{O} = o8",
        "{T} = kind({l})",
        "{T} = kind({n})",
        "{T} = kind(o8)",
        "@kind.register\ndef _(v: dict):\n    return 'dict {#}'",
        "kind.register(set, lambda v: 'set {#}')",
        "{T} = kind({d}) + kind({s})",
        "{G} = functools.partial(fib)",
        "{G} = functools.partial(kind, {l})",
        "{G} = functools.partialmethod(max, {#})",
        "{G} = kind.dispatch(list)",
        "{L} = sorted([Lazy([{#}]), o8])",
        "{N} = Lazy([{#}]) >= o8",
        "{L} = sorted({l}, key=functools.cmp_to_key(lambda x, y: y - x))",
        "{G} = functools.cache({g})",
        "{N} = {g}({#})",
        "{G} = operator.itemgetter({#})",
        "{G} = operator.methodcaller('append', {#})",
        "{G} = operator.attrgetter('data')",
        "{L} = {g}(o8)",
        "{N} = once({#})",
        "{L} = [once(x) for x in (1, 2, 1)]",
        "{N} = len(once.memo)",
        "once.memo.clear()",
        "once = functools.partial(once)",
    ),
    {
        "fib": (
            "@functools.cache\ndef fib(v):\n    return v if v < 2 else fib(v - 1) + fib(v - 2) + {#}",
            "@functools.lru_cache(maxsize=2)\ndef fib(v):\n    {l}.append(v)\n    return v * {n}",
        ),
        "Lazy": (
            "@functools.total_ordering\nclass Lazy:\n    def __init__(self, data):\n"
            "        self.data, self.n = data, {#}\n"
            "    @functools.cached_property\n    def late(self):\n        return sum(self.data) + {n}\n"
            "    def __eq__(self, other):\n        return len(self.data) == len(other.data)\n"
            "    def __lt__(self, other):\n"
            "        return len(self.data) < len(other.data)\n    def plus(self, k, v):\n"
            "        return self.n + k * v\n"
            "    twice = functools.partialmethod(plus, 2, {#})\n    @functools.singledispatchmethod\n"
            "    def named(self, v):\n"
            "        return 'some'\n    @named.register\n    def _(self, v: int):\n        return v + self.n",
            "class Lazy:\n    def __init__(self, data):\n        self.data, self.n = list(data), {#}\n"
            "    @functools.cached_property\n    def late(self):\n        {l}.append(self.n)\n"
            "        return len(self.data)\n"
            "    @functools.lru_cache\n    def named(self, v):\n        return v * {#}\n    def twice(self):\n"
            "        return self.late * 2",
        ),
        "kind": (
            "@functools.singledispatch\ndef kind(v):\n    return 'any {#}'\n@kind.register\ndef _(v: list):\n"
            "    return 'list ' + str(len(v) + {n})\n@kind.register(int)\n@kind.register(float)\ndef kind_number(v):\n"
            "    return 'number {#}'",
            "@functools.singledispatch\ndef kind(v):\n    return type(v).__name__ + str(n0)",
        ),
        "once": (
            "def memoised(f):\n    memo = {}\n    @functools.wraps(f)\n    def inner(v):\n        if v not in memo:\n"
            "            memo[v] = f(v)\n        return memo[v]\n    inner.memo = memo\n    return inner\n"
            "@memoised\ndef once(v):\n    {l}.append(v)\n    return v + {n}",
            "class memoised:\n    def __init__(self, f):\n        self.f, self.memo = f, {}\n"
            "        functools.update_wrapper(self, f)\n"
            "    def __call__(self, v):\n        return self.memo.setdefault(v, self.f(v) + {#})\n"
            "@memoised\ndef once(v):\n    return v * {n}",
        ),
    },
)

ATTRIBUTES = Theme(
    (
        "setattr({o}, 'n' + str({#}), {l})",
        "{L} = getattr({o}, 'n' + str({#}), [])",
        "{N} = getattr({o}, 'to' + 'tal')()",
        "vars({o})['n'] = {#}",
        "{D} = vars({o})",
        "{D} = dict(vars({o}))",
        "{d}['n'] = {#}",
        "delattr({o}, 'n{#}')",
        "for k in ('x', 'y'): setattr({o}, k, [{#}])",
        "{o}.x.append({#})",
        "{N} = globals().get('{n}')",
        "{L} = [k for k in vars({o}) if hasattr({o}, k)]",
        "setattr(type({o}), 'made', {#})",
        "setattr(type({o}), 'extra', lambda self, k={#}: self.n + k)",
        "{N} = {o}.extra()",
        "type({o}).total = lambda self: {n} + {#}",
        "{o}.total = lambda: {#}",
        "{o}.total = types.MethodType(lambda self: self.n + {#}, {o})",
        "{N} = {o}.total()",
        "{o}.__class__ = Other",
        "{o}.__class__ = Holder",
        "{O} = Holder({l})",
        "{O} = Other({l})",
        "{O} = object.__new__(Holder); {o}.data = {l}; {o}.n = {#}",
        "{O} = Holder.__new__(Holder); {o}.__dict__ = {d}",
        "{o}.__dict__ = dict({o}.__dict__)",
        "{o}.__dict__ |= {'z': {l}}",
        "Holder.total, Other.total = Other.total, Holder.total",
        "Holder.n = {#}",
        "del Holder.n",
        "{N} = Holder.n",
        "Holder.shared.append({#})",
        "Other.shared = [{#}]",
        "{L} = {o}.shared",
        "{o}.shared = {o}.shared + [{#}]",
        "Holder.__bases__ = (Other,) if Holder.__bases__ == (object,) else Holder.__bases__",
        "Holder.add = Other.add",
        "{G} = Holder.add",
        "Holder.add = lambda self, v: self.data.append(v * {#})",
        "{o}.add({#})",
        "{V} = types.SimpleNamespace(a={l}, n={#})",
        "{v}.a.append({#})",
        "{v}.n = {n}",
        "{L} = {v}.a",
        "Holder = type('Holder', (Holder,), {'n': {#}})",
        "{V} = type('Made', (), {'n': {#}, 'data': {l}})",
        "{O} = {v}()",
        "{G} = operator.attrgetter('n')({o}).__add__",
        "name8 = 'n' + '0'; {N} = getattr({o}, name8[0])",
    ),
    {
        "Other": (
            "class Other:\n    shared = []\n    def __init__(self, data):\n        self.data, self.n = data, {#}\n"
            "    def total(self):\n        return len(self.data) * {#}\n    def add(self, v):\n        self.n += v",
        ),
        "Holder": (
            "class Holder:\n    n = {#}\n    shared = []\n    def __init__(self, data):\n        self.data = data\n"
            "    def total(self):\n        return self.n + {#}\n    def add(self, v):\n        self.data.append(v)",
            "class Holder:\n    shared = {l}\n    def __init__(self, data):\n        self.data, self.n = data, {n}\n"
            "    def total(self):\n        return self.n - len(self.shared)\n    def add(self, v):\n"
            "        self.shared.append(v)",
        ),
    },
)

THEMES = {"functions": FUNCTIONS, "generators": GENERATORS, "functools": FUNCTOOLS, "attributes": ATTRIBUTES}

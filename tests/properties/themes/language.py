"""Python's own statements: binding, matching, handling exceptions, entering contexts."""

from __future__ import annotations

from tests.properties.themes.theme import Theme

BINDING = Theme(
    (
        "if (n8 := len({l})) > {#}: {l}.append(n8)",
        "{L} = [n8 := {#}, n8 ** 2, n8]",
        "while (n8 := {l}.pop()) > 2: {N} = n8",
        "{N}, *{L} = {l}",
        "*{L}, (n8, *l8) = [{#}, [1, {#}]]",
        "[{N}, [{N}, *{L}]] = 1, [2, *{l}]",
        "print(*{l}, **{'sep': '-'})",
        "{N} = 0 < {n} < 9 != {#}",
        "{L} = {L} = [{#}]",
        "{o}.data = {L} = [{#}]",
        "{l}[0] = {N} = {#}",
        "{d}['k'] = {L} = {l}",
        "{N} = {l}[{n} % 2] = {#}",
        "{o}.data += [{#}]",
        "{m}[0] += [{#}]",
        "{d}['b'] *= 2",
        "{l}[:1] += [{#}]",
        "{a}[1:] -= {#}",
        "{n} **= 2; {n} %= 97",
        "{l} += ({#},)",
        "{d} |= {'z': {l}}",
        "{m}[-1][-1:] = {l}",
        "{L} = {l} or [{#}]",
        "{N} = {l} and {l}[-1]",
        "{L} = {l} if {n} > {#} else {m}[0]",
        "del {n}, {l}",
        "del {l}[-1], {d}['a']",
        "del ({n}, {t})",
        "{N}: int = {#}",
        "{L}: 'list[int]' = [{#}]",
        "print(sorted(__annotations__))",
        "({N}), ({L}) = {#}, {l}",
        "{l}[-1], {N} = {n}, {l}[-1]",
        "{d}[{n}], {d}['x'] = {l}, {l}",
        "for {d}['i'], x in enumerate({l}[:3]):\n    {*}",
        "for {m}[0], *x in [({l}, 1), ({#}, 2)]: {l}.append({#})",
        "for x in {l}[:3]:\n    {*}\nelse:\n    {*}",
        "{N} = (lambda *v, k={n}, **more: len(v) + k)(*{l}, z={#})",
        "{T} = f'{{n}:>{{#}}}{{l}!r:.9}'",
        "l8 = {l}; l8.append({#})",
        "{N} = [x for x in {l} if x > {#}].__len__()",
    )
)

COMPREHENSIONS = Theme(
    (
        "{L} = [{l}.append(x) or x for x in {l}[:3]]",
        "{D} = {x: {d}.setdefault(x, []) for x in 'ab'}",
        "any({l}.append(x) for x in range(3))",
        "[{l}.pop() for _ in {l}[1:]]",
        "{N} = sum(1 for x in {m} if x.append({#}) is None)",
        "{M} = [[y, x] for x in {l}[:2] for y in {l}[:2]]",
        "{M} = [[{l}] * 2 for _ in range(2)]",
        "{D} = {str(k): [v] for k, v in enumerate({l})}",
        "{D} = {k: v for k, v in {d}.items() if v is not {n}}",
        "{S} = {y for x in {m} for y in x}",
        "{I} = ({l}.append(x) or x for x in range(3))",
        "{I} = (x for x in {i} if x)",
        "{N} = next((x for x in {l} if x > {#}), None)",
        "{M} = [lambda: x for x in {l}[:3]]",
        "{L} = [f() for f in {m}]",
        "{L} = [n7 := (x + {n}) for x in {l}[:2]]; {l}.append(n7)",
        "{D} = dict(zip('abc', {l}))",
        "{D} = {k: {d} for k in ('p', 'q')}",
        "{L} = [(yield_ := x) for x in {l}[:2]]",
        "{L} = sorted({l}, key=lambda x: {l}.append(x) or -x) if len({l}) < 5 else {l}",
        "{L} = sorted({l}, key=lambda x: -x)",
        "{N} = functools.reduce(lambda x, y: x * 2 + y, {l}, {#})",
        "{L} = list(filter(lambda x: x > n0, {l}))",
        "{L} = [x for x in {l} if x not in {s}]",
        "{D} = collections.Counter(x % 3 for x in {l})",
    )
)

MATCHING = Theme(
    (
        "match {l}:\n    case [x, *y] if y:\n        {*}\n    case [x]:\n        {N} = x\n    case _:\n        {*}",
        "match {d}:\n    case {'a': int() as n8, **d8}:\n        d8['n'] = n8\n    case {'a': [*l8]}:\n"
        "        l8.append({#})",
        "match {n}:\n    case 0 | 1 | 2:\n        {*}\n    case int() if {n} > {#}:\n        {*}",
        "match ({n}, {l}):\n    case (0, l8) | (_, l8):\n        l8.append({#})",
        "match {o}:\n    case Shape(n=n8, data=l8):\n        l8.append(n8)\n    case _:\n        {N} = {#}",
        "match {o}:\n    case Shape(n8, [x, *_]):\n        {N} = x\n    case object(data=[]):\n        {*}",
        "match {m}:\n    case [[x, *_], *rest]:\n        rest.append(x)\n        m8 = rest",
        "{O} = Shape({#}, {l})",
        "{O} = Shape({n}, [{#}])",
        "match {q}:\n    case list() | dict() as v8:\n        {V} = v8\n    case v8:\n        {V} = [v8]",
    ),
    {
        "Shape": (
            "class Shape:\n    __match_args__ = ('n', 'data')\n    def __init__(self, n, data):\n"
            "        self.n, self.data = n, data\n    def total(self):\n        return self.n + {#}",
            "class Shape:\n    __match_args__ = ('data', 'n')\n    def __init__(self, n, data):\n"
            "        self.n, self.data = n + {#}, data\n    def add(self, v):\n        self.data += [v]",
            "@dataclasses.dataclass\nclass Shape:\n    n: int\n    data: list",
        )
    },
)

EXCEPTIONS = Theme(
    (
        "try:\n    raise KeyError({#}) from ValueError({l})\nexcept KeyError as e0:\n    v8 = e0",
        "try:\n    try:\n        {n} // 0\n    finally:\n        {l}.append({#})\nexcept ArithmeticError as e0:\n"
        "    {V} = e0",
        "try:\n    raise ExceptionGroup('g{#}', [ValueError({#}), KeyError({n})])\n"
        "except* ValueError as e0:\n    {V} = e0\nexcept* KeyError as e0:\n    v8 = e0.exceptions[0]",
        "v8 = ValueError({#}); v8.add_note('note {#}')",
        "v8.add_note('note {n}')",
        "{L} = list(v8.__notes__)",
        "{V} = v8",
        "v8.args = (v8.args, {l})",
        "v8.extra = {l}",
        "v8.extra.append({#})",
        "v8.__cause__ = TypeError({#})",
        "{L} = [type(v8).__name__, type(v8.__cause__).__name__, type(v8.__context__).__name__]",
        "raise v8.with_traceback(None)",
        "v8 = Wrong({#}, {l})",
        "try:\n    raise Wrong({#}, {l})\nexcept Wrong as e0:\n    e0.data.append({#})\n    v8 = e0",
        "try:\n    {*}\n    raise Wrong({n}, [])\nexcept Wrong as e0:\n    {N} = e0.n\nelse:\n    {*}\nfinally:\n"
        "    {*}",
        "print(repr(v8), v8.n)",
        "{V} = ExceptionGroup('g', [v8, ValueError({#})])",
        "{V} = {v}.split(ValueError)[0]",
        "{V} = {v}.subgroup(lambda e: isinstance(e, Wrong))",
        "with contextlib.suppress(Wrong, KeyError):\n    {*}\n    raise Wrong({#}, {l})",
        "{T} = ''.join(traceback.format_exception_only(v8))",
        "try:\n    {g}({#})\nexcept Exception as e0:\n    {l}.append(type(e0).__name__)",
        "for x in range(4):\n    try:\n        if x % 2: raise Wrong(x, {l})\n        continue\n"
        "    except Wrong as e0:\n        {l}.append(e0.n)\n        if x > {#}: break\n    finally:\n        {N} = x",
        "v7 = [v8, v8]; v7[0].n = {#}",
        "try:\n    raise v8\nexcept Exception as e0:\n    v8 = e0.with_traceback(None)",
        "warnings.warn('w{#}')",
        "with warnings.catch_warnings(record=True) as v9:\n    warnings.simplefilter('always')\n"
        "    warnings.warn('w{#}')\n{L} = [str(x.message) for x in v9]; del v9",
    ),
    {
        "Wrong": (
            "class Wrong(Exception):\n    def __init__(self, n, data):\n        super().__init__(n)\n"
            "        self.n, self.data = n, data",
            "class Wrong(ValueError):\n    code = {#}\n    def __init__(self, n, data):\n"
            "        self.n, self.data = n, data\n"
            "    def __str__(self):\n        return f'wrong {self.n} {self.code}'",
            "class Wrong(KeyError):\n    def __init__(self, n, data):\n        super().__init__(n, data)\n"
            "    @property\n    def n(self):\n        return self.args[0]\n    @property\n    def data(self):\n"
            "        return self.args[1]",
        ),
    },
)

CONTEXTS = Theme(
    begin=("@Swallow({l})\ndef swallowed(v):\n    raise ValueError(v)",),
    statements=(
        "with Swallow({l}) as {N}:\n    {*}\n    raise ValueError({#})",
        "with Swallow({l}):\n    {*}\n{N} = {#}",
        "with Swallow({l}) as n8, Swallow({l}) as n9:\n    {N} = n8 + n9\n    {*}",
        "o8 = Swallow({l})",
        "with o8 as {N}:\n    {*}",
        "with o8 as o8.last:\n    {*}",
        "with changed({o}, n={#}):\n    {N} = {o}.n",
        "with changed(o8, n={#}) as {O}:\n    {*}",
        "with changed(np, pi={#}):\n    {N} = np.pi",
        "for x in range(3):\n    with Swallow({l}) as n8:\n        {*}\n        if x == {#}: raise KeyError(x)",
        "with contextlib.ExitStack() as s9:\n    {N} = s9.enter_context(Swallow({l}))\n"
        "    s9.callback({l}.append, {#})\n    {*}\ndel s9",
        "with contextlib.redirect_stdout(io.StringIO()) as v9:\n    print({n})\n{T} = v9.getvalue(); del v9",
        "with contextlib.nullcontext({l}) as {L}:\n    {*}",
        "with contextlib.closing(closes({#})) as o9: {N} = o9.n\ndel o9",
        "with Swallow({l}) as {d}['w']:\n    {*}",
        "with Swallow({l}):\n    for x in range(4):\n        {*}\n        if x == {#}: raise ValueError(x)",
        "with np.errstate(divide='ignore'), decimal.localcontext() as c9:\n    c9.prec = {#} + 2\n"
        "    {V} = decimal.Decimal(1) / 3\ndel c9",
        "@Swallow({l})\ndef swallowed(v):\n    raise ValueError(v)",
        "{N} = swallowed({#})",
        "{L} = list(o8.log)",
    ),
    definitions={
        "Swallow": (
            "class Swallow(contextlib.ContextDecorator):\n    def __init__(self, log):\n"
            "        self.log, self.n = log, {#}\n"
            "    def __enter__(self):\n        self.log.append(self.n)\n        return self.n\n"
            "    def __exit__(self, kind, error, where):\n        self.n += 1\n"
            "        self.log.append(len(error.args) if error else {#})\n        return True",
            "class Swallow(contextlib.ContextDecorator):\n    open = []\n    def __init__(self, log):\n"
            "        self.log, self.n = log, {#}\n    def __enter__(self):\n        self.open.append(self)\n"
            "        return len(self.open)\n    def __exit__(self, kind, error, where):\n"
            "        self.open.remove(self)\n"
            "        self.log[:] = [self.n]\n        return kind is ValueError",
        ),
        "changed": (
            "@contextlib.contextmanager\ndef changed(thing, **to):\n    was = {k: getattr(thing, k) for k in to}\n"
            "    vars(thing).update(to)\n    try:\n        yield thing\n    finally:\n        vars(thing).update(was)",
        ),
        "closes": (
            "class closes:\n    def __init__(self, n):\n        self.n = n\n    def close(self):\n"
            "        {l}.append(self.n)",
        ),
    },
)

ASYNC = Theme(
    (
        "{N} = await slow({#})",
        "{L} = await asyncio.gather(*(slow(x) for x in range(3)))",
        "{L} = await asyncio.gather(slow({#}), fails({#}), return_exceptions=True); {L} = [str(x) for x in {l}]",
        "async for n0 in steps({#}):\n    {*}",
        "async for n0 in steps({#}):\n    if n0 > 3: break\n    {l}.append(n0)\nelse:\n    {*}",
        "async with Session({l}) as o8:\n    {*}",
        "async with Session({l}) as o8:\n    async for n0 in steps(4):\n        {*}",
        "async with Session({l}) as o8, Session({l}):\n    {N} = await o8.get({#})",
        "{N} = await o8.get({#})",
        "{L} = [x async for x in steps({#}) if x % 2]",
        "{D} = {x: await slow(x) async for x in steps(2)}",
        "v8 = asyncio.ensure_future(slow({#})); {N} = await v8",
        "{N} = v8.result()",
        "q8 = asyncio.Queue(); q8.put_nowait({l})",
        "{L} = q8.get_nowait()",
        "q8.put_nowait({#})",
        "try:\n    {N} = await asyncio.wait_for(fails({#}), 5)\nexcept ValueError as e0:\n    {l}.append({#})",
        "async with asyncio.TaskGroup() as g9:\n    t8, t7 = g9.create_task(slow({#})), g9.create_task(slow(1))\n"
        "{N} = t8.result() + t7.result(); del g9, t8, t7",
        "for x in range(3):\n    {l}.append(await slow(x))\n    {*}",
        "while {n} < 5: {n} = await slow({n}) + 1",
        "{N} = await o8.get({n}); {l}.append(o8.n)",
        "async with limit: {N} = await slow({#})",
    ),
    {
        "slow": (
            "async def slow(v):\n    await asyncio.sleep(0)\n    return v + {#}",
            "async def slow(v, k={n}):\n    {l}.append(v)\n    await asyncio.sleep(0)\n    return v * k",
        ),
        "fails": (
            "async def fails(v):\n    await asyncio.sleep(0)\n    if v > {#}:\n        raise ValueError(v)\n"
            "    return v",
        ),
        "steps": (
            "async def steps(k):\n    for x in range(k):\n        yield await slow(x)",
            "async def steps(k):\n    try:\n        for x in range(k):\n            yield x * {#}\n    finally:\n"
            "        {d}['steps'] = k",
        ),
        "Session": (
            "class Session:\n    def __init__(self, log):\n        self.log, self.n = log, {#}\n"
            "    async def __aenter__(self):\n"
            "        self.log.append('in')\n        return self\n    async def __aexit__(self, *error):\n"
            "        self.log.append('out')\n        return error[0] is KeyError\n    async def get(self, v):\n"
            "        self.n += 1\n        return await slow(v) + self.n",
        ),
        "limit": ("limit = asyncio.Semaphore(2)",),
    },
)

THEMES = {
    "binding": BINDING,
    "comprehensions": COMPREHENSIONS,
    "matching": MATCHING,
    "exceptions": EXCEPTIONS,
    "contexts": CONTEXTS,
    "async": ASYNC,
}

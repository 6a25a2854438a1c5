"""What the statements of random programs look like.

`{l}` stands for a list that exists, `{L}` for one to be bound, `{#}` for a digit; `programs.py` has the other letters.
"""

from __future__ import annotations

BEGINNING = (
    *(
        "{N} = {#}",
        "{N} = {#}",
        "{L} = [{#}, {#}]",
        "{L} = {l}",
        "{L} = []",
        "{M} = [{l}, {l}]",
        "{D} = {'a': {l}, 'b': {#}}",
    ),
    *(
        "{S} = {1, {#}}",
        "{A} = np.arange(4.)",
        "{A} = {a}[::2]",
        "{F} = pd.DataFrame({'x': [{#}, 2, 1]})",
        "{O} = Box({l})",
    ),
    *("{G} = make({#})", "{W} = {'oak', 'ash', 'elm'}", "{T} = 'text'"),
)

MAKES = (
    "{N} = {#}",
    "{N} = {n} + {#}",
    "{N} = {N} = {#}",
    "{N}, {N} = {n}, {#}",
    "{N} = len({l})",
    "{L} = [{#}, {#}, {#}]",
    "{L} = []",
    "{L} = {l}",
    "{L} = {l}[:]",
    "{L} = [x + {#} for x in {l}]",
    "{L} = [x for x in range({#}) if x % 2]",
    "*{L}, {N} = [{#}, {#}, {#}]",
    "{L} = {m}[0]",
    "{L} = sorted({s})",
    "{L} = {o}.data",
    "{L} = list(map(lambda x: x * {#}, {l}))",
    "{M} = [{l}, {l}, [{#}]]",
    "{M} = [[{#}] * 2] * 2",
    "{M} = {m}",
    "{M} = [list(x) for x in {m}]",
    "{D} = {'a': {#}, 'b': {l}}",
    "{D} = {}",
    "{D} = {d}",
    "{D} = dict({d})",
    "{D} = {str(x): x for x in {l}}",
    "{S} = {{#}, {#}}",
    "{S} = set({l})",
    "{S} = {s}",
    "{W} = {'oak', 'ash', 'elm', 'fir'}",
    "{T} = 'word' * {#}",
    "{T} = f'{{n}} and {{l}}'",
    "{A} = np.arange({#} + 2.)",
    "{A} = np.zeros((2, 3))",
    "{A} = {a}",
    "{A} = {a}[::2]",
    "{A} = {a}[1:]",
    "{A} = {a}.T",
    "{A} = {a}.reshape(-1)",
    "{A} = {a} + {#}",
    "{A} = {a}.copy()",
    "{A} = np.array([{l}, None], dtype=object)",
    "{F} = pd.DataFrame({'x': [{#}, {#}, {#}], 'y': [1.5, 2.5, {#}]})",
    "{F} = {f}",
    "{F} = {f}.copy()",
    "{F} = {f}[['x']]",
    "{F} = {f}.sort_values('x')",
    "{F} = {f}.assign(z={#})",
    "{C} = {f}['x']",
    "{C} = {c}",
    "{O} = Box({l})",
    "{O} = Box([{#}])",
    "{O} = Sub({l})",
    "{O} = Pair({n}, {l})",
    "{O} = {o}",
    "{G} = make({#})",
    "{G} = lambda v: v + n0 + {#}",
    "{G} = functools.partial(max, {#})",
    "{G} = {g}",
    "{G} = {o}.add",
    "{G} = {l}.append",
    "{G} = Box({l}).add",
    "{I} = iter({l})",
    "{I} = (x * {#} for x in {l})",
    "{I} = iter(range({#}))",
    "{I} = {i}",
    "{R} = np.random.default_rng({#})",
    "{R} = random.Random({#})",
    "{R} = {r}",
    "{L}, {L} = {l}, {l}",
    "{N} = sum(x for x in range({#}))",
    "{D} = {'one': {l}, 'two': {l}, 'a': {a}}",
    "{D} = {'f': {f}, 'o': {o}}",
    *(
        "{L} = [x for x in {l} for _ in range(2)]",
        "{S} = {x % 3 for x in {l}}",
        "{D} = {k: v for v, k in enumerate('abc')}",
    ),
    *("{L} = [n5 := x for x in {l}]", "{M} = [[x, y] for x in {l} for y in {l} if x < y]", "{L} = [*{l}, *{s}]"),
    *(
        "{D} = {**{d}, 'a': {l}}",
        "{D} = {'f': lambda v: v + n0 + {#}, 'g': {g}}",
        "{M} = [lambda v=v: v for v in range(3)]",
    ),
    *("{M} = [lambda v, k={l}: k.append(v) for _ in range(2)]", "{D} = {'d': {d}, 'm': {m}}", "{M} = [{d}, {d}, {o}]"),
    *("{D} = {({n}, 'k'): {l}, frozenset({1, {#}}): 2}", "{D} = {'t': ({l}, {l})}", "{M} = [({l}, {#}), {s}, {d}]"),
    *("{Q} = collections.deque({l}, maxlen=4)", "{Q} = collections.defaultdict(list, a={l})", "{Q} = {q}"),
    *("{Q} = collections.Counter('abca')", "{Q} = collections.OrderedDict(b={l}, a={#})", "{Q} = frozenset({l})"),
    *("{Q} = bytearray(b'ab{#}')", "{Q} = collections.ChainMap({d}, {'z': {#}})", "{Q} = ({l}, {d}, {l})"),
    *("{V} = datetime.date(2024, 1, {#} + 1)", "{V} = decimal.Decimal('{#}.10')", "{V} = fractions.Fraction({#}, 7)"),
    *(
        "{V} = float('nan')",
        "{V} = [float('nan')] * 2",
        "{V} = b'{#}'",
        "{V} = {#}j",
        "{V} = ...",
        "{V} = 10 ** 40 + {#}",
    ),
    *("{V} = {d}.keys()", "{V} = {d}.items()", "{V} = {q}.values()", "{V} = memoryview({q})", "{V} = open('p1.txt')"),
    *("{V} = ValueError({l}, {#})", "{V} = slice({#}, None)", "{V} = range({#})", "{V} = type({o})", "{V} = {v}"),
    *(
        "{V} = np.float32({#})",
        "{V} = pd.Timestamp('2024-01-0{#}')",
        "{V} = pd.NaT",
        "{V} = np.datetime64('2024-01-01')",
    ),
    *("{A} = {a}[::-1]", "{A} = np.asfortranarray({a})", "{A} = {a}[..., None]", "{A} = {a}.swapaxes(0, -1)"),
    *(
        "{A} = {f}['x'].to_numpy()",
        "{A} = {f}.to_numpy()",
        "{A} = {c}.values",
        "{A} = {a}.view('i8')",
        "{A} = {a}.ravel()",
    ),
    *("{A} = np.zeros(3, dtype=[('k', 'i4'), ('v', 'f8')])", "{A} = {a}['v']", "{A} = np.array(['x', 'yy{#}'])"),
    *(
        "{A} = np.array(['2024-01-0{#}'], 'M8[D]')",
        "{A} = np.array([{#}j, 1])",
        "{A} = {a} > {#}",
        "{A}, {A} = np.split({a}, 2)",
    ),
    *("{A} = np.broadcast_to({a}, (2, *{a}.shape))", "{A} = np.lib.stride_tricks.sliding_window_view({a}, 2)"),
    *(
        "{A} = np.arange(24.).reshape(2, 3, 4).transpose(2, 0, 1)",
        "{A} = np.concatenate([{a}, {a}])",
        "{A} = {a}[:2, ::2]",
    ),
    *("{A} = np.ma.masked_greater({a}, {#})", "{A} = np.frombuffer({q}, 'u1')", "{A} = np.matrix([[1, {#}]])"),
    *("{A} = np.array([{o}, {l}, 'x'], dtype=object)[::2]", "{A} = np.diagonal(np.ones((3, 3)) * {#})"),
    *(
        "{F} = pd.DataFrame({'x': pd.Categorical(['a', 'b', 'a']), 'y': [1, {#}, 3]})",
        "{F} = pd.DataFrame({'x': pd.date_range('2024-01-01', periods=3), 'y': {#}})",
        "{F} = pd.DataFrame({'x': pd.date_range('2024-01-01', periods=3, tz='CET'), 'y': pd.array([1, None, {#}])})",
        "{F} = pd.DataFrame({'x': [{l}, None, {o}], 'y': ['a', 'b', '{#}']})",
        "{F} = pd.DataFrame({'x': [1, 1, 2], 'y': list('aba'), 'z': [1.5, {#}, 3]}).set_index(['x', 'y'])",
        "{F} = pd.DataFrame({'x': pd.interval_range(0, 3), 'y': pd.period_range('2024', periods=3, freq='M')})",
        "{F} = {f}.set_index('x')",
        "{F} = {f}.iloc[::2]",
        "{F} = {f}.iloc[::-1]",
        "{F} = {f}.T",
        "{F} = pd.concat([{f}, {f}], ignore_index=True)",
        "{F} = {f}.rename(columns={'y': 'yy'})",
        "{F} = {f}.astype({'x': 'category'})",
        "{F} = {f}.reset_index()",
        "{F} = {f}.merge({f}, on='x')",
        "{F} = {f}.pivot_table(index='x', values='y')",
        "{C} = {f}.iloc[0]",
        "{C} = {f}.index.to_series()",
        "{C} = {f}['y'].astype('string')",
        "{L} = list({f}.columns)",
    ),
    *("{I} = zip({l}, {l})", "{I} = enumerate({l})", "{I} = itertools.cycle({l})", "{I} = itertools.count({#})"),
    *(
        "{I} = map({g}, {l})",
        "{I} = filter(None, {l})",
        "{I} = reversed({l})",
        "{I} = iter({d}.items())",
        "{I} = iter({s})",
    ),
    *("{I} = itertools.chain({l}, {i})", "{I}, {I} = itertools.tee({l})", "{I} = (({#}, x) for x in {m})"),
    *(
        "{G} = functools.partial({g}, {#})",
        "{G} = functools.partial({l}.append)",
        "{G} = {d}.get",
        "{G} = type({o}).add",
    ),
    *("{G} = (lambda k: lambda v: k.append(v) or len(k))({l})", "{G} = staticmethod(len)", "{G} = {q}.copy"),
    *("{L} = {o}.seen", "{V} = weakref.ref({o})", "{O} = {v}()", "{V} = threading.Lock()", "{L} = Box.seen"),
    *(
        "with ThreadPoolExecutor(1) as v0: {L} = list(v0.map(abs, {l}))",
        "with ThreadPoolExecutor(1) as v0: {V} = v0.submit(sum, {l})",
        "with open('p1.txt') as v0: {T} = v0.read()",
    ),
)

CHANGES = {
    "n": ("{n} += {#}", "{n} -= {n}", "{n} = {n} * 2 % 1000", "del {n}", "{n} = -{n}"),
    "l": (
        *("{l}.append({#})", "{l} += [{n}]", "{l}.extend({l}[:2])", "del {l}[:1]", "{l}[:] = [{#}, {#}]"),
        *("{l}.sort()", "{l}.reverse()", "{l}.insert(0, {n})", "{l}.clear()", "del {l}", "{l} = {l} + [{#}]"),
        *("{l}.append({l}.pop())", "{l}[0], {l}[-1] = {l}[-1], {l}[0]", "{l}.append(len({l}))", "{l}[0] += {#}"),
        *("[{l}.append(x) for x in range({#})]", "{l} *= {l} != []", "{l}[1:2] = []"),
    ),
    "m": (
        *("{m}.append({l})", "{m}[0].append({#})", "{m}[-1] = {l}", "{m}.append({m}[0])", "{m}.append({m})"),
        *("{m}[0] = {m}[-1]", "{m}[0] += [{#}]", "del {m}", "{m}[0], {m}[-1] = {m}[-1], {m}[0]"),
    ),
    "d": (
        *("{d}['a'] = {#}", "{d}['k'] = {l}", "{d}['n'] = {d}.get('n', 0) + 1", "{d}.pop('a', None)"),
        *("{d}.setdefault('z', []).append({#})", "{d}.update(q={n})", "{d} |= {'v': {l}}", "{d}['d'] = {d}"),
        *("{d}['b'].append({#})", "{d}['o'] = {o}", "{d}['f'] = {f}", "{d}['a'] = {a}", "del {d}", "{d}['w'] = {w}"),
        *("{d}['f']['x'] += 1", "{d}['a'][0] = {#}", "{d}['one'].append({#})", "{d}['g']({#})", "{N} = {d}['f']({#})"),
        *(
            "{d}['t'][0].append({#})",
            "{d}['d']['k'] = {#}",
            "del {d}['a']",
            "{d}.clear()",
            "{d}['s'] = {d}.setdefault('s', {l})",
        ),
        *(
            "for k in list({d}): {d}[k] = {d}.pop(k)",
            "{d}['m'] = {m}; {d}['m'].append({#})",
            "{D} = dict(sorted({d}.items()))",
        ),
    ),
    "q": (
        *("{q}.append({#})", "{q}['a'].append({#})", "{q}['z'] += [{#}]", "{q}.update('ab')", "{q}['b'] = {l}"),
        *("{q}.rotate({#})", "{q}.appendleft({l})", "{q}.move_to_end('b')", "{q}[0] = {#}", "{L} = list({q})"),
        *("{N} = len({q})", "{q} += b'x'", "{q}['c'] += {#}", "{q}[0].append({#})", "del {q}", "{D} = dict({q})"),
    ),
    "v": (
        *(
            "{L} = list({v})",
            "{N} = len({v})",
            "{V} = {v}.__cause__",
            "{V} = {v}.__context__",
            "{V} = (x for x in {v})",
        ),
        *("{V} = [{v}, {v}]", "{T} = str({v})", "{l}.append({v})", "{V} = {v} + {v}", "{V} = ({v}, {l})", "del {v}"),
        *(
            "{N} = hash(str({n}))",
            "{D} = {'v': {v}}",
            "{v}.args[0].append({#})",
            "{N} = {v} == {v}",
            "{N} = {v} in [{v}]",
        ),
        *("{v}().data.append({#})", "{v}().seen.append({#})", "{N} = {v}.result()", "{T} = {v}.name"),
    ),
    "s": ("{s}.add({#})", "{s} |= {{#}}", "{s}.discard({#})", "{s} -= {{#}}", "{s}.update({l})", "{s}.clear()"),
    "w": ("{w}.add('yew{#}')", "{w}.discard('oak')", "{N} = sum(len(x) for x in {w})", "{L} = sorted(map(len, {w}))"),
    "t": ("{t} += 'x'", "{t} = {t}.upper()", "{T} = {t}", "{N} = len({t})", "{N} = hash({t}) % 7"),
    "a": (
        *("{a} += {#}", "{a}[0] = {#}", "{a}[1:] *= 2", "{a}[...] = {a} - 1", "np.add({a}, 1, out={a})", "{a}.sort()"),
        *("{a}[{a} > 3] = 0", "{a}[0] = {n}", "{a}.flat[-1] = {#}", "{a}.fill({#})", "del {a}", "{N} = int({a}.size)"),
        *(
            "{a}.shape = -1",
            "{L} = [int(x) for x in range({a}.size)]",
            "{a}[0].append({#})",
            "{a}.setflags(write=False)",
        ),
        *(
            "{a}.reshape(-1)[0] = {#}",
            "{a}['v'] += {#}",
            "{a}[::2] = {#}",
            "{a} = {a} * 2",
            "{a}[-1] = {l}",
            "{a}.ravel()[0] = {#}",
        ),
        *(
            "{a}.T[0] = {#}",
            "{a}[:] = {a}[::-1]",
            "{N} = int({a}.flags.c_contiguous)",
            "{T} = str({a}.dtype)",
            "{a}.byteswap(True)",
        ),
    ),
    "f": (
        *("{f}['x'] += {#}", "{f}['z'] = {f}['x'] * {#}", "{f}.loc[0, 'x'] = {#}", "{f}.iloc[0, 0] = {#}"),
        *("{f}.drop(columns='y', inplace=True, errors='ignore')", "{f}.sort_values('x', inplace=True)"),
        *("{f}.index = {f}.index + 1", "{f}.attrs['k'] = {#}", "{f}.loc[9] = {#}", "del {f}", "{N} = len({f})"),
        *("{f}['l'] = [{l}] * len({f})", "{L} = {f}['x'].tolist()", "{f}.columns = list({f}.columns)"),
        *("{f}.at[0, 'y'] = {#}", "{f}['x'] = {f}['x'].astype('category')", "{f}.insert(0, 'i{#}', {#})", "{f} *= 2"),
        *(
            "{f}['x'].values[0] = {#}",
            "{f}.index.name = 'i{#}'",
            "{f}.iloc[:, 0] = {#}",
            "{f}.pop('y')",
            "{f}.at[0, 'l'].append({#})",
        ),
        *("{f}['w'] = 'w'", "{f}.reset_index(drop=True, inplace=True)", "{f} = {f}.groupby('x').sum().reset_index()"),
    ),
    "c": (
        "{c} += {#}",
        "{c}.iloc[0] = {#}",
        "{c} = {c} * 2",
        "{N} = int({c}.sum())",
        "{c}.name = 'c{#}'",
        "{c}.index = {c}.index[::-1]",
        "{F} = {c}.to_frame()",
    ),
    "o": (
        *("{o}.seen.append({#})", "{o}.up = weakref.ref({o})", "{o}.up().add({#})", "{o}.lock = threading.Lock()"),
        *("{o}.data = {o}.seen", "type({o}).seen = {l}", "del {o}.up", "{N} = len({o}.seen)"),
        *("{o}.add({#})", "{o}.data = {l}", "{o}.data.append({#})", "{o}.peer = {o}", "{o}.peer.add({#})", "del {o}"),
        *("{o}.n = {o}.n + {#}", "{o}.fn = {g}", "{o}.box = {d}", "{N} = {o}.total()", "{o}.data, {L} = {l}, {o}.data"),
        *(
            "{o}[{#}] = {l}",
            "{o}({#})",
            "{o}.level = {#}",
            "{N} = {o}.level",
            "{o} == {o}",
            "{S} = {{o}, {o}}",
            "{D} = {{o}: 1}",
        ),
        *(
            "{o}.kids.append({o})",
            "{o}.late",
            "{o} = {o}._replace(n={#})",
            "{N} = {o}.n",
            "setattr({o}, 'n', {#})",
            "{o}.missing",
        ),
        *("{o}.a = {a}", "{o}.a[0] = {#}", "type({o}).made = {#}", "{o}.__dict__.update(extra={#})", "{o}.scaled"),
    ),
    "g": ("{N} = {g}({#})", "{g}({#})", "{L} = [{g}(x) for x in (1, 2)]", "{D} = {'g': {g}}", "{M} = [{g}, {g}]"),
    "i": ("{N} = next({i}, -1)", "{L} = list(itertools.islice({i}, 2))", "{L} = [*{i}]", "{N} = sum({i})"),
    "r": ("{N} = int({r}.random() * 100)", "{r}.shuffle({l})", "{L} = [round({r}.random(), 3)]"),
}

SHOWS = (
    *("print({n}, {l})", "print({d}.get('a'))", "{l}", "{n} + 1", "display({n})", "{m}", "print('text {#}')", "{a}"),
    *("print({l}, end='')", "for x in ({n}, {#}): print(x)", "{t}", "{f}", "print(sorted({s}))", "{n};", "None"),
    *("print({l} is {l}, {o}.data is {l})", "assert {n} != {#}", "{o}.data", "print(type({o}).__name__)", "{g}({#})"),
    *(
        "print({q}, {v}, sep='|')",
        "print({l}, file=sys.stderr)",
        "{q}",
        "{v}",
        "{c}",
        "{f}.dtypes",
        "repr({v})",
        "{f}.describe()",
    ),
    *(
        "print({a}.strides, {a}.flags.c_contiguous)",
        "print({a} is {a}, np.shares_memory({a}, {a}))",
        "print({d})",
        "print({w} == {w})",
    ),
    *(
        "display({f}); {n}",
        "print(*{l}, sep=',')",
        "print(sorted(map(str, {d})))",
        "print({o}.n); {o}.n",
        "display({d}, {n})",
    ),
    *("display({l}); print({n})", "raise KeyError({#})", "print(f'{{n}=}')", "{o}.data is {l}", "({n}, {l}, {d})"),
)

DRAWS = (
    *("{N} = random.randrange(100)", "{L} = [random.randrange(9) for _ in range({#})]", "random.shuffle({l})"),
    *("{A} = np.random.rand({#} + 1)", "np.random.shuffle({l})", "{a}[0] = np.random.rand()", "random.seed({#})"),
    *("np.random.seed({#})", "{l}.append(random.randrange(9))", "if random.random() < 0.5: {N} = {#}"),
)

UNSEEDED = (
    *("{u} = random.random()", "{u} = np.random.rand(3)", "{u} = [random.random()]\n{u}.append({u}[0])"),
    *("{u} = random.random(); {u}b = {u} * 2", "{u} = 0\nfor _ in range(3): {u} += random.random()"),
)

# None is added to: a log that is there already is not written again, unlike without us.
FILES = (
    *(
        "_ = open('p{#}.txt', 'w').write(str({l}))",
        "with open('p{#}.txt', 'w') as p0: _ = p0.write('{#}')",
        "{T} = open('p1.txt').read()",
    ),
    *(
        "with open('p2.txt', 'w') as p0: _ = p0.write(f'{{n}};')",
        "{N} = os.path.exists('p{#}.txt')",
        "os.remove('p{#}.txt')",
    ),
    *(
        "{f}.to_csv('p3.txt')",
        "{F} = pd.read_csv('p3.txt')",
        "{L} = sorted(p for p in os.listdir('.') if p.endswith('.txt'))",
    ),
    *(
        "np.savetxt('p4.txt', {a})",
        "{A} = np.loadtxt('p4.txt')",
        "os.rename('p1.txt', 'p2.txt')",
        "{N} = os.path.getsize('p2.txt')",
    ),
    *(
        "with open('p{#}.txt', 'w') as p0:\n    {L} = [p0.write(str(x)) for x in range(3)]",
        "{T} = ''.join(open('p2.txt'))",
    ),
    *(
        "_ = os.system('echo {#} > p{#}.txt')",
        "{T} = os.popen('cat p2.txt 2>/dev/null').read()",
        "_ = os.system('cp p1.txt p2.txt 2>/dev/null')",
        "_ = os.system('rm -f p{#}.txt')",
    ),
)

# Not those of display: what was printed is shown again as it was printed, whatever they are by then.
OPTIONS = (
    *("_ = np.seterr(all='raise')", "pd.set_option('mode.sim_interactive', True)", "_ = np.seterr(divide='ignore')"),
    *("decimal.getcontext().prec = {#} + 3", "{V} = decimal.Decimal(1) / 7", "{T} = str(np.geterr())"),
    *("{N} = pd.get_option('mode.sim_interactive')", "{A} = np.float64({#}) / np.zeros(2)"),
    *("sys.setrecursionlimit(2000 + {#}); {N} = {#}", "decimal.getcontext().rounding = decimal.ROUND_UP; {N} = {#}"),
)

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "within": (
        """@contextlib.contextmanager
def within(v):
    {l}.append(v)
    try:
        yield v + {#}
    finally:
        {l}.append(-v)""",
        """class within:
    def __init__(self, v): self.v = v
    def __enter__(self):
        return self.v
    def __exit__(self, *exc):
        {d}['left'] = self.v
        return {#} > 4""",
    ),
    "gen": (
        """def gen(k):
    for x in range(k):
        yield x + {n}""",
        """def gen(k):
    try:
        yield from {l}[:k]
    finally:
        {d}['closed'] = k""",
    ),
    "safe": (
        """def safe(v):
    try:
        return {l}[v]
    except IndexError as error:
        return str(error)
    finally:
        {d}['asked'] = v""",
        """def safe(v, *rest, k={n}, seen={}, **more):
    seen[v] = k
    return len(seen) + len(rest) + len(more)""",
    ),
    "Colour": (
        """class Colour(enum.Enum):
    RED = {#}
    BLUE = 'b'
    def shade(self):
        return self.name * {#}""",
        """class Colour(enum.IntFlag):
    RED = 1
    BLUE = 4""",
    ),
    "Point": (
        """class Point(typing.NamedTuple):
    n: int
    data: list = []
    def total(self):
        return self.n + {#}""",
        """@dataclasses.dataclass(frozen=True)
class Point:
    n: int
    data: tuple = (1, {#})
    def total(self):
        return self.n * {#}""",
    ),
    "Odd": (
        """class Odd:
    __slots__ = ('n', 'data')
    def __init__(self, n):
        self.n, self.data = n, [n]
    def __eq__(self, other):
        return isinstance(other, Odd) and self.n == other.n
    def __hash__(self):
        return hash(self.n)
    def __call__(self, v):
        self.data.append(v + {#})
        return self.n
    def __setitem__(self, k, v):
        self.data = [k, v]""",
        """class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        cls.count += 1
        return made
class Level:
    def __get__(self, obj, kind):
        return {#} if obj is None else obj.n + {#}
    def __set__(self, obj, v):
        obj.n = v * {#}
class Odd(metaclass=Meta):
    count = 0
    level = Level()
    kids = []
    def __init__(self, n):
        self.n, self.data = n, []
    @functools.cached_property
    def late(self):
        return self.n + {n}
    @classmethod
    def of(cls, n):
        return cls(n + {#})
    @staticmethod
    def add(v):
        return v
    def __getattr__(self, name):
        return name + '{#}' if not name.startswith('_') else object.__getattribute__(self, name)""",
    ),
    "counter": (
        """class counter:
    calls = 0
    def __init__(self, f):
        self.f = f
    def __call__(self, *args):
        counter.calls += 1
        return self.f(*args)""",
    ),
    "plus": (
        "def plus(v=1):\n    return v + {n} + {#}",
        "def plus(v={#}):\n    return v * {#}",
        "def plus(v=2, *, by={#}):\n    return v * by",
    ),
    "push": ("def push(v, where=None):\n    {l}.append(v)\n    return {l}", "def push(v):\n    {d}[str(v)] = v"),
    "bump": (
        "def bump(v):\n    global n1\n    n1 = v + {#}\n    return n1",
        "def bump(v):\n    global n1\n    n1 += v\n    return n1",
    ),
    "keep": ("def keep(v, seen=[]):\n    seen.append(v)\n    return list(seen)",),
    "twice": ("def twice(v):\n    return plus(v) + {#}", "def twice(v):\n    return [push(v), {#}]"),
    "make": (
        """def make(k):
    def inner(v):
        nonlocal k
        k += v
        return k + {#}
    return inner""",
        """def make(k):
    held = {l}
    def inner(v):
        held.append(v + k)
        return len(held)
    return inner""",
        """def make(k):
    return lambda v: v * k + {#}""",
    ),
    "fact": ("def fact(v):\n    return 1 if v < 2 else v * fact(v - 1) + {#}",),
    "deco": (
        "def deco(f):\n    @functools.wraps(f)\n"
        "    def inner(*args):\n        return f(*args) if args else {#}\n    return inner",
    ),
    "Box": (
        """class Box:
    made = {#}
    def __init__(self, data):
        self.data = data
        self.n = {#}
    def add(self, v):
        self.data.append(v)
        self.n += 1
        return self.n
    def total(self):
        return len(self.data) + self.n
    @property
    def scaled(self):
        return self.n * {#}""",
        """class Box:
    made = 0
    def __init__(self, data):
        self.data = data
        self.n = {#}
        type(self).made += 1
    def add(self, v):
        self.data = [*self.data, v]
        return self
    def total(self):
        return self.made + {n}""",
        """class Box:
    made = {#}
    seen = [{#}]
    def __init__(self, data):
        self.data = data
        self.n = {#}
    def add(self, v):
        self.data.append(v)
        return len(self.seen)
    def total(self):
        return self.n + sum(self.seen)""",
    ),
    "Sub": ("class Sub(Box):\n    def add(self, v):\n        self.n += {#}\n        return super().add(v)",),
    "Pair": (
        "@dataclasses.dataclass\nclass Pair:\n    n: int\n    data: list\n    def add(self, v):\n"
        "        self.data += [v]\n        return self\n    def total(self):\n        return self.n + {#}",
    ),
    "later": (
        """async def later(v):
    await asyncio.sleep(0)
    {l}.append(v)
    return v + {n}""",
        """async def later(v, k={#}):
    if v > 5:
        raise ValueError(v)
    return [await asyncio.sleep(0, v), k, {l}]""",
    ),
    "ticks": (
        """async def ticks(k):
    for x in range(k):
        yield x + {#}""",
        """class ticks:
    def __init__(self, k):
        self.k, self.data, self.n = k, {l}, {#}
    def __aiter__(self):
        return self
    async def __anext__(self):
        self.k -= 1
        if self.k < 0:
            raise StopAsyncIteration
        self.data.append(self.k)
        return self.k
    async def __aenter__(self):
        {d}['entered'] = self.k
        return self
    async def __aexit__(self, *exc):
        {d}['left'] = self.k""",
    ),
    "show": (
        """@functools.singledispatch
def show(v):
    return {#}
@show.register
def _(v: list):
    return len(v) + {n}
@show.register(int)
def _(v):
    return v * {#}""",
    ),
    "Kept": (
        """class Kept:
    def __init__(self, data):
        self.data, self.n, self.memo = data, {#}, {}
    def add(self, v):
        self.memo[v] = self.data
        return len(self.memo)
    def total(self):
        return len(self.memo) + {#}
    def __getstate__(self):
        return {'data': self.data, 'n': self.n}""",
        """class Kept:
    def __init__(self, data):
        self.data, self.n = data, {#}
    def add(self, v):
        self.data.append(v)
        return self
    def __reduce__(self):
        return Kept, (self.data,), {'n': self.n}""",
        """class Kept(list):
    n = {#}
    def add(self, v):
        self.append(v)
        self.n += 1
    @property
    def data(self):
        return self[:2]""",
        """class Kept(dict):
    def __missing__(self, key):
        self[key] = [{#}]
        return self[key]
    def add(self, v):
        return self[v].append(v)""",
    ),
    "cached": ("@functools.lru_cache(maxsize=None)\ndef cached(v):\n    return v * {#}",),
}

CALLS: dict[str, tuple[str, ...]] = {
    "plus": ("{N} = plus({#})", "{G} = plus", "plus()", "plus.calls = {#}", "{L} = list(map(plus, {l}))"),
    "push": ("push({#})", "{L} = push({#})", "_ = push({n})"),
    "bump": ("bump({#})", "{N} = bump({n})", "for x in range(3): bump(x)"),
    "keep": ("{L} = keep({#})", "keep({n})"),
    "twice": ("{N} = twice({#})", "twice({n})"),
    "make": (
        "{G} = make({#})",
        "{N} = make({#})({#})",
        "{G} = make({n})",
        "{N} = {g}({#})",
        "{G}, {G} = make(1), make(2)",
    ),
    "fact": ("{N} = fact({#})", "{L} = [fact(x) for x in range(3)]"),
    "deco": ("plus = deco(plus)", "{G} = deco({g})"),
    "Box": ("{O} = Box({l})", "{O} = Box([{#}])", "Box.made += 1", "{M} = [Box({l}), Box({l})]", "{o}.__class__ = Box"),
    "Sub": ("{O} = Sub({l})", "{O} = Sub([{#}])", "Sub.made = {#}"),
    "Pair": ("{O} = Pair({#}, {l})", "{O} = dataclasses.replace({o}, n={#})"),
    "cached": ("{N} = cached({#})", "{G} = cached"),
    "within": ("with within({#}) as {N}: {l}.append({#})", "with within({#}), within({#}): raise KeyError({#})"),
    "gen": ("{I} = gen({#})", "{L} = list(gen({#}))", "{N} = next(gen({#} + 1))", "for x in gen({#}): {l}.append(x)"),
    "safe": (
        "{N} = safe({#})",
        "{L} = [safe(x) for x in range(3)]",
        "{T} = str(safe({n}))",
        "{N} = safe({#}, *{l}, k={#})",
    ),
    "Colour": (
        "{V} = Colour.RED",
        "{V} = [Colour.RED, Colour.BLUE]",
        "{D} = {Colour.RED: {l}}",
        "{T} = Colour.RED.shade()",
    ),
    "Point": (
        "{O} = Point({#})",
        "{O} = Point({n}, {l})",
        "{M} = [Point({#}, {l}), {l}]",
        "{S} = {Point({#}, ())}",
        "Point({#}).data",
    ),
    "Odd": (
        "{O} = Odd({#})",
        "{O} = Odd.of({#})",
        "{M} = [Odd(1), Odd(1)]",
        "{o}({#})",
        "Odd.kids.append({#})",
        "{N} = {o}.level",
    ),
    "counter": ("plus = counter(plus)", "{G} = counter({g})", "{N} = {g}({#})", "print(counter.calls)"),
    "later": (
        *("{N} = await later({#})", "for x in range({#}): {l}.append(await later(x))", "{V} = await later({n})"),
        *("{L} = await asyncio.gather(later(1), later({#}))", "{L} = [await later(x) for x in range(3)]"),
    ),
    "ticks": (
        *("{L} = [x async for x in ticks({#})]", "async for n0 in ticks({#}): {l}.append(n0)", "{O} = ticks({#})"),
        *("async with ticks({#}) as {O}: {l}.append({#})", "async for n0 in {o}:\n    {n} += n0\n    if n0 > 5: break"),
    ),
    "show": (
        *("{N} = show({l})", "{N} = show({#})", "{N} = show({v})", "{G} = show", "{L} = [show(x) for x in {m}]"),
        "show.register(str, lambda v: {#})",
    ),
    "Kept": (
        *("{O} = Kept([{#}])", "{O} = Kept({l})", "{O} = Kept({d})", "{o}.add({#})", "{O} = Kept([]); {o}.add({n})"),
        *("{Q} = Kept([({#}, 1)])", "{N} = {o}.total()", "{D} = {'kept': {o}}", "{N} = len({o}.memo)", "{q}['new']"),
    ),
    "lib": (
        *("{N} = helper({#})", "{N} = lib.helper({n})", "{G} = helper", "{G} = lib.helper", "{N} = lib.LEVEL"),
        *("{L} = lib.items", "{L} = [helper(x) for x in range({#})]", "{L} = list(map(lib.helper, {l}))"),
        *("{N} = lib.push({#})", "lib.push({n})", "lib.items.append({#})", "{l}.append(lib.push({#}))"),
        *("{O} = Thing({l})", "{O} = lib.Thing([{#}])", "{M} = [Thing({l}), {l}]", "{N} = lib.Thing.size"),
        *("lib.LEVEL = {#}", "Thing.size = {#}", "for x in range({#}): lib.push(x)", "lib.items = {l}"),
        *("{N} = kit.scale({#})", "{N} = kit.part.base", "{T} = kit.name", "{G} = kit.part.scale"),
        *("{G} = functools.partial(kit.scale, {#})", "{D} = {'f': helper, 'b': {l}}", "{O} = kit.part.Base({l})"),
        *(
            "{T} = type({o}).kind",
            "{O} = type({o}).of({#})",
            "kit.part.base += {#}",
            "{N} = kit.part.Base([1]).total()",
        ),
    ),
}

# What lies beside the notebook, and is edited between two kernels.
MODULES: dict[str, tuple[str, ...]] = {
    "lib.py": (
        """LEVEL = {#}
items = [{#}]
def inner(v, k={#}):
    return v * k
def helper(v):
    return inner(v) + LEVEL
def push(v):
    items.append(v)
    return len(items)
class Thing:
    size = {#}
    def __init__(self, data):
        self.data = data
        self.n = {#}
    def add(self, v):
        self.data.append(helper(v))
        return self.n
    def total(self):
        return len(self.data) + Thing.size + LEVEL""",
        """from kit import part
LEVEL = part.base + {#}
items = []
made = {}
def helper(v):
    return part.scale(v) if v > {#} else LEVEL
def push(v):
    made[v] = made.get(v, 0) + {#}
    return made[v]
class Thing(part.Base):
    size = {#}
    def add(self, v):
        return super().add(v + {#})""",
    ),
    "kit/__init__.py": (
        "from .part import scale\nname = 'kit{#}'",
        "name = 'kit'\nfrom . import part\nscale = part.scale",
    ),
    "kit/part.py": (
        """base = {#}
def scale(v):
    return v * base + {#}
class Base:
    kind = '{#}'
    def __init__(self, data):
        self.data, self.n = data, base
    def add(self, v):
        self.data.append(v)
        self.n += {#}
        return self.n
    def total(self):
        return scale(self.n)""",
        """base = {#}
def scale(v, seen=[]):
    seen.append(v)
    return len(seen) + {#}
class Base:
    __slots__ = ('data', 'n')
    def __init__(self, data):
        self.data, self.n = data, {#}
    def add(self, v):
        return self.n + v
    @classmethod
    def of(cls, v):
        return cls([v, {#}])
    def total(self):
        return base * {#}""",
    ),
}
DATA = {
    "p1.txt": ("{#}", "text {#}\nmore", ""),
    "p2.txt": ("{#};", "{#}\n{#}\n"),
    "p3.txt": (",x,y\n0,{#},1.5\n1,{#},2.5\n", "x,y\n{#},2\n"),
    "p4.txt": ("{#}.0\n{#}.5\n",),
}

ITEMS = (
    ("n0", "range({#})"),
    ("n0", "range({#})"),
    ("n0", "{l}"),
    ("n0", "{l}[:6]"),
    ("n0", "list({l})[:5]"),
    ("x, n0", "enumerate({l}[:5])"),
    ("x, n0", "zip({l}, range(5))"),
    ("x, n0", "list({d}.items())"),
    ("x", "{d}"),
    ("x", "{m}[:4]"),
    ("x", "{m}"),
    ("n0", "sorted({s})"),
    ("n0", "{s}"),
    ("n0", "reversed({l}[:5])"),
    ("n0", "(x * 2 for x in range({#}))"),
    ("n0", "map(lambda v: v + {#}, {l}[:5])"),
    ("x", "{a}.ravel()[:5]"),
    ("x", "{a}"),
    ("x, x2", "{f}.iterrows()"),
    ("x", "{f}.itertuples()"),
    ("x", "[{o}, {o}]"),
    ("n0", "itertools.islice({i}, 4)"),
    ("n0", "{i}"),
    ("x", "({l}, {l})"),
    ("n0", "random.sample(range(9), 4)"),
    ("w9", "{w}"),
    ("d0['at']", "range({#})"),
    ("n0", "itertools.chain({l}[:3], {l}[:3])"),
    ("n0", "np.arange({#})"),
    ("n0", "iter({l}[:5])"),
    ("x", "{q}"),
    ("n0, *x", "[({#}, 1, 2), ({n}, {l})]"),
    ("{o}.n", "range({#})"),
    ("x", "np.nditer(np.arange({#} + 1))"),
    ("x, x2", "{f}.groupby('x')"),
    ("x", "{f}"),
    ("x", "{f}['x']"),
    ("n0", "range({#}, 0, -2)"),
    ("x", "itertools.batched({l}[:6], 2)"),
    ("x", "itertools.pairwise({l}[:6])"),
    ("n0", "(random.randrange(9) for _ in range({#}))"),
    ("n0", "filter(None, {l}[:6])"),
    ("x, n0", "{d}.copy().items()"),
    ("x", "iter({m}[:4])"),
    ("x", "tuple({s})"),
)

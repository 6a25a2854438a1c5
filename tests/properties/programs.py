"""Random small notebooks, and what people do to them: edit, move, run again.

A name's first letter says what it holds, so that statements which were moved, removed or changed by an edit still
mostly make sense together. Where they do not, they raise; that has to be the same with and without us, too.

    n int   l list of numbers   m list of lists   d dict   s set of ints   w set of words   t text   a array
    f data frame   c its column   o instance   g function made at run time   i iterator   r random generator
    u drawn without a seed: it exists, its value is nobody's business

Every choice goes through a `Pick`, so that hypothesis or a plain seed can make it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

T = TypeVar("T")
Pick = Callable[[int], int]
"""A number below the given one."""

IMPORTS = (
    "import contextlib, dataclasses, functools, itertools, math, random\nimport numpy as np, pandas as pd\n"
    "from IPython.display import display"
)
NUMBER = re.compile(r"(?<![\w.])\d(?![\w.])")


def by_seed(seed: int) -> Pick:
    chance = random.Random(seed)
    return chance.randrange


@dataclass(frozen=True)
class Process:
    """One kernel: the cells it runs, in order, and when it dies."""

    cells: tuple[tuple[str, ...], ...]
    """Statements of each."""
    kill: int = 0
    """After so many lines of the user's; 0: it ends in peace."""
    inside: bool = False
    """Count calls inside nbcheckpoint instead of the user's lines."""


@dataclass(frozen=True)
class Program:
    """What happens to one notebook, kernel after kernel. The last one ends in peace."""

    processes: tuple[Process, ...]
    mode: str = "cells"
    """`cells`: each begins with `%%checkpointed --every 1`. `auto`: none does."""
    seeded: bool = True

    def __str__(self) -> str:
        return "\n".join(self._lines())

    @classmethod
    def parse(cls, text: str) -> Program:
        """The inverse of `str`. One statement a line, or with what is indented or continues below it."""
        mode, *kernels = re.split(r"^# =+ kernel \d+, ", text, flags=re.MULTILINE)
        processes: list[Process] = []
        for kernel in kernels:
            end, _, body = kernel.partition("\n")
            told = re.match(r"killed after (\d+) (calls|lines)", end)
            cells = tuple((cell.strip("\n"),) for cell in body.split("# ---- cell\n")[1:])
            cells = processes[-1].cells if "# the same cells" in body else cells
            processes.append(Process(cells, int(told[1]) if told else 0, inside=bool(told) and told[2] == "calls"))
        return cls(tuple(processes), mode=mode.split()[-1])

    def _lines(self) -> list[str]:
        said = [f"# mode {self.mode}"]
        for at, process in enumerate(self.processes):
            end = (
                f"killed after {process.kill} {'calls' if process.inside else 'lines'}"
                if process.kill
                else "to the end"
            )
            said.append(f"# ======== kernel {at + 1}, {end}")
            if at and self.processes[at - 1].cells == process.cells:
                said.append("# the same cells")
                continue
            for cell in process.cells:
                said += ["# ---- cell", *cell]
        return said


@dataclass
class Writer:
    """Writes statements. Knows roughly which names there are."""

    pick: Pick
    names: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in "nlmdswtafcogir"})
    functions: set[str] = field(default_factory=set)
    seeded: bool = True
    drawn: int = 0

    # Choosing

    def one(self, options: Sequence[T]) -> T:
        return options[self.pick(len(options))]

    def odds(self, one_in: int) -> bool:
        return self.pick(one_in) == one_in - 1

    def number(self) -> str:
        return str(self.pick(10))

    def old(self, kind: str) -> str:
        """A name that exists, most of the time."""
        there = sorted(self.names[kind])
        return self.one(there) if there else f"{kind}0"

    def new(self, kind: str) -> str:
        name = f"{kind}{self.pick(3)}"
        self.names[kind].add(name)
        return name

    def fill(self, template: str) -> str:
        """`{l}` a list that exists, `{L}` one to be bound, `{#}` a digit; the former are looked for first."""
        text = re.sub(r"\{([nlmdswtafcogir])\}", lambda found: self.old(found[1]), template)
        text = re.sub(r"\{([NLMDSWTAFCOGIR])\}", lambda found: self.new(found[1].lower()), text)
        return re.sub(r"\{#\}", lambda _: self.number(), text)

    # Statements

    def statement(self, depth: int = 0) -> str:
        """One statement, compound or not."""
        if depth < 2 and self.pick(10) < 3:
            return self.one((self.for_, self.for_, self.while_, self.if_, self.try_, self.with_))(depth)
        return self.simple(depth)

    def simple(self, depth: int = 0) -> str:
        there = [kind for kind, names in self.names.items() if names and kind in CHANGES]
        kind = self.pick(12)
        if kind < 3 or not there:
            return self.fill(self.one(MAKES))
        if kind < 8:
            return self.fill(self.one(CHANGES[self.one(there)]))
        if kind == 8:
            return self.fill(self.one(SHOWS))
        if kind == 9:
            return self.draw()
        if kind == 10 and not depth:
            return self.definition()
        return self.call()

    def draw(self) -> str:
        if self.seeded:
            return self.fill(self.one(DRAWS))
        self.drawn += 1
        return self.one(UNSEEDED).replace("{u}", f"u{self.drawn}")

    def definition(self) -> str:
        name = self.one(tuple(FUNCTIONS))
        self.functions.add(name)
        return self.fill(self.one(FUNCTIONS[name]))

    def call(self) -> str:
        if not self.functions:
            return self.definition()
        return self.fill(self.one(CALLS[self.one(sorted(self.functions))]))

    def block(self, depth: int, *, loop: bool = False) -> str:
        lines = [self.statement(depth + 1) for _ in range(1 + self.pick(2))]
        if loop and self.odds(3):
            jump = self.one(("break", "continue"))
            lines.insert(self.pick(len(lines) + 1), self.fill("if {n} % 3 == {#}:\n    ") + jump)
        return indented("\n".join(lines))

    def for_(self, depth: int) -> str:
        target, items = self.one(ITEMS)
        if not self.seeded and "random." in items:
            target, items = ITEMS[0]
        self.names["n"].add("n0")
        items = self.fill(items)
        text = f"for {target} in {items}:\n{self.block(depth, loop=True)}"
        if "w" in target:
            text += "\n    w9 = len(w9)"
        return text + self.orelse(depth)

    def while_(self, depth: int) -> str:
        if self.odds(4):
            return self.while_true(depth)
        count = f"k{depth}"
        top = self.number()
        return (
            f"{count} = 0\nwhile {count} < {top}:\n    {count} += 1\n{self.block(depth, loop=True)}{self.orelse(depth)}"
        )

    def while_true(self, depth: int) -> str:
        count = f"k{depth}"
        head = f"{count} = {self.number()}\nwhile True:\n    {count} += 1\n    if {count} > 7:\n        break\n"
        return head + self.block(depth)

    def orelse(self, depth: int) -> str:
        return f"\nelse:\n{indented(self.simple(depth + 1))}" if self.odds(4) else ""

    def if_(self, depth: int) -> str:
        test = self.fill(
            self.one(("{n} > {#}", "{l}", "len({l}) % 2", "{n} in {s}", "'a' in {d}", "(n8 := {n}) > {#}"))
        )
        other = f"\nelse:\n{self.block(depth)}" if self.odds(2) else ""
        return f"if {test}:\n{self.block(depth)}{other}"

    def try_(self, depth: int) -> str:
        bad = self.fill(self.one(("raise ValueError({#})", "{n} // ({n} % 2)", "{l}[{#}]", "{d}['a']", "pass")))
        text = f"try:\n{self.block(depth)}\n    {bad}\nexcept Exception as e0:\n    t9 = type(e0).__name__\n"
        text += self.block(depth)
        return text + self.one(("", "\nelse:\n    n7 = 1", "\nfinally:\n    n7 = 2"))

    def with_(self, depth: int) -> str:
        return f"with contextlib.suppress(Exception):\n{self.block(depth)}"


def indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


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
        *("{d}['f']['x'] += 1", "{d}['a'][0] = {#}", "{d}['one'].append({#})"),
    ),
    "s": ("{s}.add({#})", "{s} |= {{#}}", "{s}.discard({#})", "{s} -= {{#}}", "{s}.update({l})", "{s}.clear()"),
    "w": ("{w}.add('yew{#}')", "{w}.discard('oak')", "{N} = sum(len(x) for x in {w})", "{L} = sorted(map(len, {w}))"),
    "t": ("{t} += 'x'", "{t} = {t}.upper()", "{T} = {t}", "{N} = len({t})"),
    "a": (
        *("{a} += {#}", "{a}[0] = {#}", "{a}[1:] *= 2", "{a}[...] = {a} - 1", "np.add({a}, 1, out={a})", "{a}.sort()"),
        *("{a}[{a} > 3] = 0", "{a}[0] = {n}", "{a}.flat[-1] = {#}", "{a}.fill({#})", "del {a}", "{N} = int({a}.size)"),
        *("{a}.shape = -1", "{L} = [int(x) for x in range({a}.size)]", "{a}[0].append({#})"),
    ),
    "f": (
        *("{f}['x'] += {#}", "{f}['z'] = {f}['x'] * {#}", "{f}.loc[0, 'x'] = {#}", "{f}.iloc[0, 0] = {#}"),
        *("{f}.drop(columns='y', inplace=True, errors='ignore')", "{f}.sort_values('x', inplace=True)"),
        *("{f}.index = {f}.index + 1", "{f}.attrs['k'] = {#}", "{f}.loc[9] = {#}", "del {f}", "{N} = len({f})"),
        *("{f}['l'] = [{l}] * len({f})", "{L} = {f}['x'].tolist()", "{f}.columns = list({f}.columns)"),
        *("{f}['w'] = 'w'", "{f}.reset_index(drop=True, inplace=True)", "{f} = {f}.groupby('x').sum().reset_index()"),
    ),
    "c": ("{c} += {#}", "{c}.iloc[0] = {#}", "{c} = {c} * 2", "{N} = int({c}.sum())", "{c}.name = 'c{#}'"),
    "o": (
        *("{o}.add({#})", "{o}.data = {l}", "{o}.data.append({#})", "{o}.peer = {o}", "{o}.peer.add({#})", "del {o}"),
        *("{o}.n = {o}.n + {#}", "{o}.fn = {g}", "{o}.box = {d}", "{N} = {o}.total()", "{o}.data, {L} = {l}, {o}.data"),
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

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "plus": ("def plus(v=1):\n    return v + {n} + {#}", "def plus(v={#}):\n    return v * {#}"),
    "push": ("def push(v, where=None):\n    {l}.append(v)\n    return {l}", "def push(v):\n    {d}[str(v)] = v"),
    "bump": (
        "def bump(v):\n    global n1\n    n1 = v + {#}\n    return n1",
        "def bump(v):\n    global n1\n    n1 += v\n    return n1",
    ),
    "keep": ("def keep(v, seen=[]):\n    seen.append(v)\n    return list(seen)",),
    "twice": ("def twice(v):\n    return plus(v) + {#}", "def twice(v):\n    return [push(v), {#}]"),
    "make": (
        "def make(k):\n    def inner(v):\n        nonlocal k\n        k += v\n        return k + {#}\n    return inner",
        "def make(k):\n    held = {l}\n"
        "    def inner(v):\n        held.append(v + k)\n        return len(held)\n    return inner",
        "def make(k):\n    return lambda v: v * k + {#}",
    ),
    "fact": ("def fact(v):\n    return 1 if v < 2 else v * fact(v - 1) + {#}",),
    "deco": (
        "def deco(f):\n    @functools.wraps(f)\n"
        "    def inner(*args):\n        return f(*args) if args else {#}\n    return inner",
    ),
    "Box": (
        "class Box:\n    made = {#}\n    def __init__(self, data):\n        self.data = data\n        self.n = {#}\n"
        "    def add(self, v):\n        self.data.append(v)\n        self.n += 1\n        return self.n\n"
        "    def total(self):\n        return len(self.data) + self.n\n"
        "    @property\n    def scaled(self):\n        return self.n * {#}",
        "class Box:\n    made = 0\n    def __init__(self, data):\n        self.data = data\n        self.n = {#}\n"
        "        type(self).made += 1\n"
        "    def add(self, v):\n        self.data = [*self.data, v]\n        return self\n"
        "    def total(self):\n        return self.made + {n}",
    ),
    "Sub": ("class Sub(Box):\n    def add(self, v):\n        self.n += {#}\n        return super().add(v)",),
    "Pair": (
        "@dataclasses.dataclass\nclass Pair:\n    n: int\n    data: list\n    def add(self, v):\n"
        "        self.data += [v]\n        return self\n    def total(self):\n        return self.n + {#}",
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
)


# Programs


def write(pick: Pick) -> Program:
    """A notebook, and the kernels it goes through."""
    writer = Writer(pick, seeded=pick(5) > 0)
    first = (*IMPORTS.splitlines(), *(("random.seed(1); np.random.seed(2)",) if writer.seeded else ()))
    cells = [first, _beginning(writer), *(_cell(writer) for _ in range(1 + pick(4)))]
    history = [tuple(cells)]
    processes: list[Process] = []
    for _ in range(1 + pick(3)):
        kill = 1 + pick(10) ** 2 + pick(12) if pick(4) else 0
        processes.append(Process(_order(pick, cells), kill=kill, inside=pick(4) == 3))
        if pick(3) == 2:
            cells = list(history[0]) if pick(4) == 3 else _edited(writer, cells)
            history.append(tuple(cells))
    processes.append(Process(_order(pick, cells)))
    return Program(tuple(processes), mode=("cells", "cells", "auto")[pick(3)], seeded=writer.seeded)


def _beginning(writer: Writer) -> tuple[str, ...]:
    """Something to work with."""
    texts = []
    for name in ("Box", "make", "plus"):
        if writer.pick(3):
            writer.functions.add(name)
            texts.append(writer.fill(writer.one(FUNCTIONS[name])))
    texts += [writer.fill(text) for text in BEGINNING if writer.pick(4)]
    return tuple(texts)


def _cell(writer: Writer) -> tuple[str, ...]:
    # Compound statements that come with a line before them are two statements of the cell.
    return tuple(writer.statement() for _ in range(1 + writer.pick(4)))


def _order(pick: Pick, cells: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """From top to bottom; sometimes a cell is run again."""
    order = list(cells)
    if len(order) > 1 and pick(4) == 3:
        order.insert(1 + pick(len(order)), order[1 + pick(len(order) - 1)])
    return tuple(order)


def _edited(writer: Writer, cells: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    pick = writer.pick
    at = 1 + pick(len(cells) - 1)
    cell, others = cells[at], [*cells]
    what = pick(7)
    if what == 0:
        others[at] = (*cell, writer.statement())
    elif what == 1:
        others[at] = _with_other_constant(pick, cell)
    elif what == 2:
        others[at] = ("# a remark", *cell, "", "# another")
    elif what == 3 and len(cell) > 1:
        gone = pick(len(cell))
        others[at] = cell[:gone] + cell[gone + 1 :]
    elif what == 4:
        others.insert(1 + pick(len(cells) - 1), others.pop(at))
    elif what == 5:
        others.insert(at, _cell(writer))
    else:
        first = pick(len(cell))
        others[at] = (*cell[first:], *cell[:first])
    return others


def _with_other_constant(pick: Pick, cell: tuple[str, ...]) -> tuple[str, ...]:
    text = "\x00".join(cell)
    found = list(NUMBER.finditer(text))
    if not found:
        return cell
    where = found[pick(len(found))]
    changed = text[: where.start()] + str(pick(10)) + text[where.end() :]
    return tuple(changed.split("\x00"))


def smaller(program: Program) -> list[Program]:
    """Programs with a bit less in them, to find the least one that still fails. A statement goes from all kernels."""
    found: list[Program] = []
    for at in range(len(program.processes) - 1):
        found.append(replace(program, processes=program.processes[:at] + program.processes[at + 1 :]))
    statements = dict.fromkeys(text for process in program.processes for cell in process.cells[1:] for text in cell)
    found += [_without(program, text) for text in statements]
    for at, process in enumerate(program.processes):
        for gone in range(1, len(process.cells)):
            cells = process.cells[:gone] + process.cells[gone + 1 :]
            found.append(_with_process(program, at, replace(process, cells=cells)))
        if process.kill:
            found.append(_with_process(program, at, replace(process, kill=0)))
            found += [
                _with_process(program, at, replace(process, kill=k)) for k in (process.kill // 2, process.kill - 1) if k
            ]
    for text in statements:
        found += [_without(program, text, shorter) for shorter in _shorter(text)]
    return found


def _shorter(text: str) -> list[str]:
    """A compound statement without one of its lines, or only what is inside of it."""
    lines = text.splitlines()
    if len(lines) < 2:
        return []
    inner = [line.removeprefix("    ") for line in lines if line.startswith("    ")]
    found = ["\n".join(lines[:at] + lines[at + 1 :]) for at in range(len(lines))] + ["\n".join(inner)]
    return [shorter for shorter in found if _compiles(shorter)]


def _compiles(text: str) -> bool:
    try:
        compile(text, "<shorter>", "exec")
    except SyntaxError:
        return False
    return True


def _without(program: Program, text: str, instead: str | None = None) -> Program:
    put = (instead,) if instead is not None else ()
    processes = (
        replace(p, cells=tuple(tuple(new for s in cell for new in (put if s == text else (s,))) for cell in p.cells))
        for p in program.processes
    )
    return replace(program, processes=tuple(processes))


def _with_process(program: Program, at: int, process: Process) -> Program:
    return replace(program, processes=(*program.processes[:at], process, *program.processes[at + 1 :]))

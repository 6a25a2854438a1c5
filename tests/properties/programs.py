"""Random small notebooks, and what people do to them: edit, move, run again.

A name's first letter says what it holds, so that statements which were moved, removed or changed by an edit still
mostly make sense together. Where they do not, they raise; that has to be the same with and without us, too.

    n int   l list of numbers   m list of lists   d dict   s set of ints   w set of words   t text   a array
    f data frame   c its column   o instance   g function made at run time   i iterator   r random generator
    q collection of some other kind   v value of some other kind
    u drawn without a seed: it exists, its value is nobody's business

Every choice goes through a `Pick`, so that hypothesis or a plain seed can make it.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.properties.program_texts import (
    BEGINNING,
    CALLS,
    CHANGES,
    DATA,
    DRAWS,
    FILES,
    FUNCTIONS,
    ITEMS,
    MAKES,
    MODULES,
    OPTIONS,
    SHOWS,
    UNSEEDED,
)
from tests.properties.themes import THEMES, Theme

T = TypeVar("T")
Pick = Callable[[int], int]
"""A number below the given one."""

IMPORTS = (
    "import asyncio, collections, contextlib, dataclasses, datetime, decimal, enum, fractions, functools, itertools\n"
    "import math, os, random, sys, threading, typing, weakref\n"
    "from concurrent.futures import ThreadPoolExecutor\n"
    "import numpy as np, pandas as pd\nfrom IPython.display import display"
)
IMPORTS_OF_THEMES = (
    "import array, atexit, bisect, builtins, configparser, contextvars, copy, csv, filecmp, fileinput, gc, gzip\n"
    "import hashlib, heapq, importlib, io, json, linecache, logging, operator, pathlib, pickle, queue, re, shutil\n"
    "import sqlite3, statistics, string, struct, subprocess, tempfile, textwrap, time, traceback, types, uuid\n"
    "import warnings, zipfile\nfrom IPython.display import HTML, Markdown, clear_output"
)
IMPORTS_OF_OURS = "import lib, kit, kit.part\nfrom lib import helper, Thing"
KINDS = "nlmdswtafcogirqv"
AGAIN = ", what fails is run again"
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
    files: tuple[tuple[str, str], ...] = ()
    """What was written beside the notebook before it began: modules, data."""
    goes_on: bool = False
    """Is a cell that failed run once more? Its loop goes on then, which is not what happens without us: so this kernel
    is not compared, only those after it are."""


@dataclass(frozen=True)
class Program:
    """What happens to one notebook, kernel after kernel. The last one ends in peace."""

    processes: tuple[Process, ...]
    mode: str = "cells"
    """`cells`: each begins with `%%checkpointed --every 1`. `auto`: none does, and all loops are saved at every turn.
    `clock`: what depends on time, how long a statement took and when a loop is to be saved, depends on chance."""
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
            written = re.findall(r"^# ---- file (\S+) (.*)$", body, flags=re.MULTILINE)
            body = re.sub(r"^# ---- file .*\n", "", body, flags=re.MULTILINE)
            cells = tuple((cell.strip("\n"),) for cell in body.split("# ---- cell\n")[1:])
            cells = processes[-1].cells if "# the same cells" in body else cells
            files = tuple((path, ast.literal_eval(text)) for path, text in written)
            inside = bool(told) and told[2] == "calls"
            kill, goes_on = int(told[1]) if told else 0, AGAIN in end
            processes.append(Process(cells, kill, inside=inside, files=files, goes_on=goes_on))
        return cls(tuple(processes), mode=mode.split()[-1])

    def _lines(self) -> list[str]:
        said = [f"# mode {self.mode}"]
        for at, process in enumerate(self.processes):
            end = (
                f"killed after {process.kill} {'calls' if process.inside else 'lines'}"
                if process.kill
                else "to the end"
            )
            said.append(f"# ======== kernel {at + 1}, {end}{AGAIN if process.goes_on else ''}")
            said += [f"# ---- file {path} {text!r}" for path, text in process.files]
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
    names: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in KINDS})
    functions: set[str] = field(default_factory=set)
    themes: tuple[Theme, ...] = ()
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
        """`{l}` a list that exists, `{L}` one to be bound, `{#}` a digit; the former are looked for first.

        `{*}`, alone in its line, is a whole statement.
        """
        text = re.sub(r"(?m)^( *)\{\*\}", lambda found: indented(self.simple(1), found[1]), template)
        text = re.sub(rf"\{{([{KINDS}])\}}", lambda found: self.old(found[1]), text)
        text = re.sub(rf"\{{([{KINDS.upper()}])\}}", lambda found: self.new(found[1].lower()), text)
        return re.sub(r"\{#\}", lambda _: self.number(), text)

    # Statements

    def statement(self, depth: int = 0) -> str:
        """One statement, compound or not."""
        if depth < 2 and self.pick(10) < 3:
            return self.one((self.for_, self.for_, self.while_, self.if_, self.try_, self.with_, self.match_))(depth)
        return self.simple(depth)

    def simple(self, depth: int = 0) -> str:
        if self.themes and self.pick(2):
            return self.themed(depth)
        there = [kind for kind, names in self.names.items() if names and kind in CHANGES]
        kind = self.pick(15 if "lib" in self.functions else 12)
        if kind < 3 or not there:
            return self.fill(self.one(MAKES))
        if kind < 8:
            return self.fill(self.one(CHANGES[self.one(there)]))
        if kind == 8:
            return self.fill(self.one(SHOWS))
        if kind == 9:
            return self.one((self.draw, self.draw, self.file, self.option))()
        if kind == 10 and not depth:
            return self.definition()
        return self.call()

    def themed(self, depth: int) -> str:
        theme = self.one(self.themes)
        if theme.definitions and not depth and self.odds(8):
            return self.fill(self.one(theme.definitions[self.one(tuple(theme.definitions))]))
        text = self.one(theme.statements if depth else theme.statements + theme.alone)
        return self.fill("pass" if depth and text.startswith("%%") else text)

    def draw(self) -> str:
        if self.seeded:
            return self.fill(self.one(DRAWS))
        self.drawn += 1
        return self.one(UNSEEDED).replace("{u}", f"u{self.drawn}")

    def file(self) -> str:
        return self.fill(self.one(FILES))

    def option(self) -> str:
        return self.fill(self.one(OPTIONS))

    def definition(self) -> str:
        name = self.one(tuple(FUNCTIONS))
        self.functions.add(name)
        return self.fill(self.one(FUNCTIONS[name]))

    def call(self) -> str:
        if not self.functions:
            return self.definition()
        name = "lib" if "lib" in self.functions and self.odds(2) else self.one(sorted(self.functions))
        return self.fill(self.one(CALLS[name]))

    def block(self, depth: int, *, loop: bool = False) -> str:
        lines = [self.statement(depth + 1) for _ in range(1 + self.pick(2))]
        if loop and self.odds(3):
            jump = self.one(("break", "continue"))
            lines.insert(self.pick(len(lines) + 1), self.fill("if {n} % 3 == {#}:\n    ") + jump)
        if loop and depth < 2 and self.odds(3):
            lines.insert(self.pick(len(lines) + 1), self.while_(depth + 1) if self.odds(4) else self.for_(depth + 1))
        return indented("\n".join(lines))

    def for_(self, depth: int) -> str:
        target, items = self.one(ITEMS)
        if not self.seeded and "random." in items:
            target, items = ITEMS[0]
        self.names["n"].add("n0")
        items = self.fill(items)
        target = self.fill(target)
        # The order of a set of words is another one in every process: which of them it is must not leak.
        forget = "    w9 = bool(w9)\n" if "w" in target else ""
        return f"for {target} in {items}:\n{forget}{self.block(depth, loop=True)}{self.orelse(depth)}"

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
        text += self.one(("", "", "    v1 = e0\n", "    v2 = KeyError({#})\n    v2.__cause__ = e0\n")).replace(
            "{#}", self.number()
        )
        text += self.block(depth)
        return text + self.one(("", "\nelse:\n    n7 = 1", "\nfinally:\n    n7 = 2"))

    def with_(self, depth: int) -> str:
        entered = "contextlib.suppress(Exception)"
        if "within" in self.functions and self.odds(2):
            entered = self.fill("within({#}) as {N}")
        return f"with {entered}:\n{self.block(depth)}"

    def match_(self, depth: int) -> str:
        case = self.one(
            ("[x, *rest]", "{'a': x}", "int() as x", "[] | {}", "Box(n=x)" if "Box" in self.functions else "str(x)")
        )
        subject = self.fill(self.one(("{l}", "{d}", "{n}", "{o}", "{m}")))
        other = f"    case _:\n        n6 = {self.number()}"
        return f"match {subject}:\n    case {case}:\n{indented(self.block(depth))}\n{other}"


def indented(text: str, by: str = "    ") -> str:
    return "\n".join(by + line for line in text.splitlines())


# Programs


def write(pick: Pick) -> Program:
    """A notebook, and the kernels it goes through."""
    if pick(4) == 3:
        return _aimed(pick)
    chosen = dict.fromkeys(tuple(THEMES)[pick(len(THEMES))] for _ in range(pick(4)))
    themes = tuple(THEMES[name] for name in chosen)
    writer = Writer(pick, themes=themes, seeded=pick(5) > 0)
    first = (*IMPORTS.splitlines(), *(IMPORTS_OF_THEMES.splitlines() if themes else ()))
    first = (*first, *(("random.seed(1); np.random.seed(2)",) if writer.seeded else ()))
    modules: dict[str, str] = {}
    if pick(3) == 2:
        first = (*first, *IMPORTS_OF_OURS.splitlines())
        modules = {path: writer.fill(writer.one(texts)) for path, texts in MODULES.items()}
        writer.functions.add("lib")
    files = tuple(modules.items())
    cells = [first, _beginning(writer), *(_cell(writer) for _ in range(1 + pick(4)))]
    history = [tuple(cells)]
    processes: list[Process] = []
    for _ in range(1 + pick(3)):
        kill = 1 + pick(10) ** 2 + pick(12) if pick(4) else 0
        order, inside, goes_on = _order(pick, cells), pick(4) == 3, pick(4) == 3
        processes.append(Process(order, kill=kill, inside=inside, files=files, goes_on=goes_on))
        files = _written(writer, modules) if pick(3) == 2 else ()
        if pick(3) == 2:
            cells = list(history[0]) if pick(4) == 3 else _edited(writer, cells)
            history.append(tuple(cells))
    processes.append(Process(_order(pick, cells), files=files))
    return Program(tuple(processes), mode=("cells", "auto", "clock")[pick(3)], seeded=writer.seeded)


def _aimed(pick: Pick) -> Program:
    """One theme and little else: what it depends on is changed between kernels that come to their end, by one digit in
    what the statements need or in one of them. What is restored although that counts is found here."""
    theme = THEMES[tuple(THEMES)[pick(len(THEMES))]]
    writer = Writer(pick, themes=(theme,))
    first = (*IMPORTS.splitlines(), *IMPORTS_OF_THEMES.splitlines(), "random.seed(1); np.random.seed(2)")
    common = [*(writer.one(FUNCTIONS[name]) for name in ("Box", "make", "plus")), *BEGINNING]
    needs = [writer.one(forms) for forms in theme.definitions.values()]
    begins = [text for text in theme.begins if pick(8) and not text.startswith("%%")]
    start = [tuple(map(writer.fill, texts)) for texts in (common, needs, begins) if texts]
    cells = [first, *start, *(_of_theme(writer, theme) for _ in range(1 + pick(2)))]
    processes = [Process(tuple(cells))]
    for _ in range(1 + pick(2)):
        at = 1 + pick(len(start) + 1)
        cells[at] = _redefined(writer, cells[at]) if pick(5) == 4 else _with_other_constant(pick, cells[at])
        processes.append(Process(tuple(cells)))
    return Program(tuple(processes), mode=("cells", "auto", "clock")[pick(3)])


def _of_theme(writer: Writer, theme: Theme) -> tuple[str, ...]:
    texts = [writer.fill(writer.one(theme.statements)) for _ in range(1 + writer.pick(3))]
    magics = [text for text in texts if text.startswith("%%")]
    return tuple(magics[:1] or texts)


def _beginning(writer: Writer) -> tuple[str, ...]:
    """Something to work with."""
    texts = []
    for name in ("Box", "make", "plus"):
        if writer.pick(3):
            writer.functions.add(name)
            texts.append(writer.fill(writer.one(FUNCTIONS[name])))
    texts += [writer.fill(text) for text in BEGINNING if writer.pick(4)]
    for theme in writer.themes:
        texts += [writer.fill(writer.one(forms)) for forms in theme.definitions.values() if writer.pick(12)]
        texts += [writer.fill(text) for text in theme.begins if writer.pick(8) and not text.startswith("%%")]
    return tuple(texts)


def _cell(writer: Writer) -> tuple[str, ...]:
    # Compound statements that come with a line before them are two statements of the cell.
    texts = [writer.statement() for _ in range(1 + writer.pick(4))]
    magics = [text for text in texts if text.startswith("%%")]
    return tuple(magics[:1] or texts)


def _order(pick: Pick, cells: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """From top to bottom; sometimes a cell is run again, left out, or out of its turn."""
    order = list(cells)
    if len(order) > 1 and pick(4) == 3:
        order.insert(1 + pick(len(order)), order[1 + pick(len(order) - 1)])
    if len(order) > 3 and pick(8) == 7:
        moved = order.pop(2 + pick(len(order) - 2))
        if pick(2):
            order.insert(2 + pick(len(order) - 1), moved)
    return tuple(order)


def _edited(writer: Writer, cells: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    pick = writer.pick
    at = 1 + pick(len(cells) - 1)
    cell, others = cells[at], [*cells]
    what = pick(14)
    if what == 10:
        return _renamed(writer, cells, at)
    if what == 11:
        others[0] = _with_other_constant(pick, cells[0])
    elif what == 12:
        others[1] = _with_other_constant(pick, cells[1])
    elif what == 13:
        others[1] = _redefined(writer, cells[1])
    elif what == 7 and len(cells) > 2:
        del others[at]
    elif what == 8 and at + 1 < len(cells):
        others[at : at + 2] = [(*cell, *cells[at + 1])]
    elif what == 9 and len(cell) > 1:
        others[at : at + 1] = [cell[: len(cell) // 2], cell[len(cell) // 2 :]]
    elif what == 0:
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


def _renamed(writer: Writer, cells: list[tuple[str, ...]], at: int) -> list[tuple[str, ...]]:
    """A variable that is called something else from some cell on."""
    old = writer.old(writer.one("nldao"))
    new = f"{old[0]}{7 + writer.pick(2)}"
    return cells[:at] + [tuple(re.sub(rf"\b{old}\b", new, text) for text in cell) for cell in cells[at:]]


def _redefined(writer: Writer, cell: tuple[str, ...]) -> tuple[str, ...]:
    """A definition in another form, or under another decorator."""
    found = [at for at, text in enumerate(cell) if text.startswith(("def ", "class ", "@"))]
    if not found:
        return cell
    at = writer.one(found)
    name = re.search(r"^(?:def|class) (\w+)", cell[at], flags=re.MULTILINE)
    forms = {**FUNCTIONS, **{n: f for theme in writer.themes for n, f in theme.definitions.items()}}
    if name and name[1] in forms and writer.pick(3):
        text = writer.fill(writer.one(forms[name[1]]))
    elif cell[at].startswith("def "):
        text = writer.one(("@functools.lru_cache", "@functools.cache", "@(lambda f: f)")) + "\n" + cell[at]
    else:
        text = cell[at]
    return (*cell[:at], text, *cell[at + 1 :])


def _written(writer: Writer, modules: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """What somebody has edited beside the notebook while no kernel was there. Nothing but digits in modules."""
    pick = writer.pick
    if not modules or pick(4) == 3:
        path = writer.one(tuple(DATA))
        return ((path, writer.fill(writer.one(DATA[path]))),)
    path = writer.one(tuple(modules))
    modules[path] = _with_other_constant(pick, (modules[path],))[0]
    return ((path, modules[path]),)


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
    for at, process in enumerate(program.processes[:-1]):
        after = program.processes[at + 1]
        after = replace(after, files=tuple({**dict(process.files), **dict(after.files)}.items()))
        found.append(replace(program, processes=(*program.processes[:at], after, *program.processes[at + 2 :])))
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

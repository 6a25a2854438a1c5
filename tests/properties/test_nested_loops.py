"""Loops inside of loops, killed after many a line, go on in the middle and end as they do without us."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.properties.program_host import Hosts
from tests.properties.programs import Process, Program

pytestmark = pytest.mark.slow

BEGINNING = ("import itertools, random, numpy as np", "random.seed(1); np.random.seed(2)")
NESTED = {
    "what stands before, between and behind": """\
l0 = []
for n0 in range(3):
    l1 = [n0]
    print('begins', n0)
    for n1 in range(4):
        l1.append(n1)
        l0.append(random.random())
    d0 = {'a': l1}
    for n2 in range(3):
        d0['a'].append(n2)
    l0.append(d0)
print(l0)""",
    "items of an item, changed": """\
m0 = [[[n, m] for m in range(3)] for n in range(3)]
l0 = [row[0] for row in m0]
for row in m0:
    for cell in row:
        cell.append(len(m0[0][0]))
    row.append(cell)
print(m0, [a is row[0] for a, row in zip(l0, m0)], cell is m0[-1][-2])""",
    "items of something nobody has a name for": """\
l0 = []
for row in [[[n, m] for m in range(3)] for n in range(3)]:
    for cell in row:
        cell.append(9)
    l0.append(row)
    l0.append(cell)
print(l0, l0[1] is l0[0][-1])""",
    "while around, while inside": """\
n0 = 0
l0 = []
while n0 < 3:
    n0 += 1
    n1 = 5
    print(n0)
    while n1 > n0:
        n1 -= 1
        l0.append((n0, n1))
    for n2 in 'ab':
        l0.append(n2 * n0)
print(l0)""",
    "a condition that does something": """\
l0 = [3, 2, 1, 0]
l1 = []
while l0.pop():
    for n0 in range(2):
        l1.append((n0, len(l0)))
else:
    l1.append('end')
print(l0, l1)""",
    "three of them, left in all ways": """\
l0 = []
for n0 in range(4):
    if n0 == 1:
        continue
    print('at', n0)
    for n1 in range(4):
        if n1 == 3:
            break
        for n2 in range(3):
            l0.append((n0, n1, n2))
            if n2 > n1:
                break
        else:
            l0.append('whole')
    else:
        l0.append('never')
    if n0 == 2:
        break
print(l0)""",
    "made of what it changes": """\
l0 = [0]
for n0 in range(2):
    for n1 in range(len(l0) + 1):
        l0.append(n1)
    for n2 in sorted(l0)[:3]:
        l0.insert(0, -n2)
    for n3 in [x for x in l0 if x]:
        l0.remove(n3)
print(l0)""",
    "in a random order": """\
l0 = []
for n0 in np.random.permutation(3):
    for n1 in np.random.permutation(4):
        l0.append((int(n0), int(n1), random.random()))
    random.shuffle(l0)
print(l0, np.random.rand())""",
    "in the order of a generator that is drawn from": """\
r0 = np.random.default_rng(3)
l0 = []
for n0 in r0.permutation(3):
    for n1 in r0.permutation(4):
        l0.append((int(n0), int(n1), r0.random()))
    for n2 in range(r0.integers(2, 4)):
        l0.append(n2)
print(l0, r0.random())""",
    "generators, zips, counts and sets": """\
l0 = []
for n0, s0 in zip(itertools.count(), ({1, 2}, {3, 4}, {5})):
    for n1 in (x * 2 for x in s0):
        l0.append(n1)
    for n2, n3 in enumerate(s0):
        l0.append(n2 + n3)
    for k, v in {'a': n0, 'b': l0}.items():
        l0.append(k)
print(l0)""",
    "the name of an item bound to something else": """\
l0 = []
for n0 in range(3):
    for n1 in range(3):
        l0.append((n0, n1))
        n1 = None
    n0 = n1
print(n0, n1, l0)""",
    "in a with and a try": """\
import contextlib
l0 = []
with contextlib.suppress(ZeroDivisionError):
    try:
        for n0 in range(3):
            l1 = []
            for n1 in (0, 1, 2):
                l1.append(n1)
                l0.append(l1)
            if n0 == 2:
                1 / 0
    finally:
        l0.append('end')
print(l0, l1 is l0[-2])""",
    "in an if, an elif and an else": """\
l0 = []
for n0 in range(6):
    l0.append('before')
    if (n1 := n0 % 3) == 0:
        l0.append('if')
        for n2 in range(3):
            l0.append((n0, n1, n2))
        l0.append(n1)
    elif n1 == 1:
        l0.append('elif')
        for n2 in range(2):
            l0.append(n2)
        while len(l0) % 7:
            l0.append(len(l0))
    else:
        l0.append('else')
        if n0 > 2:
            for n2 in 'abc':
                l0.append(n2)
        l0.append(random.random())
        for n3 in range(2):
            l0.append(n3)
    for n4 in range(2):
        l0.append(-n4)
print(l0)""",
    "a condition that changes": """l0 = [0]
for n0 in range(4):
    if len(l0) < 4:
        for n1 in range(3):
            l0.append((n0, n1))
    else:
        for n1 in range(2):
            del l0[-1]
print(l0)""",
    "in a try that fails now and then": """l0 = []
for n0 in range(4):
    try:
        l0.append('try')
        for n1 in range(3):
            l0.append(6 // (2 * n0 - n1))
    except ZeroDivisionError as error:
        l0.append(str(error))
        for n2 in range(2):
            l0.append(n2)
    else:
        for n2 in range(2):
            l0.append(-n2)
    finally:
        l0.append('end')
print(l0)""",
    "in a with in a with": """import contextlib
l0 = []
for n0 in range(3):
    with contextlib.suppress(ZeroDivisionError, KeyError), contextlib.nullcontext():
        l0.append('in')
        for n1 in range(3):
            l0.append(6 // (4 * n0 - n1 - 3))
            with contextlib.suppress(ValueError):
                for n2 in range(2):
                    l0.append(n2)
                    int('x' * n2)
    l0.append('out')
print(l0)""",
    "in a with that keeps what it found": """import contextlib
@contextlib.contextmanager
def forked():
    state = random.getstate()
    yield
    random.setstate(state)
l0 = []
for n0 in range(3):
    l0.append(random.random())
    with forked():
        for n1 in range(3):
            l0.append(random.random())
    with np.errstate(divide='ignore'):
        for n1 in range(2):
            l0.append(float(np.float64(1) / n1))
    l0.append(random.random())
print(l0)""",
    "in a with of what it changes": """\
import contextlib
v0 = ValueError
l0 = []
for n0 in range(3):
    with contextlib.suppress(v0):
        for n1 in range(3):
            l0.append(n1)
            if n0 and n1 == 2:
                raise v0
    v0 = KeyError
print(l0)""",
    "in a with that binds": """import io
l0 = []
for n0 in range(3):
    with io.StringIO('abc') as q0:
        for n1 in range(3):
            l0.append(q0.read(1))
print(l0)""",
    "a failure inside": """\
l0 = []
for n0 in range(3):
    for n1 in range(3):
        l0.append(1 // (4 - n0 - n1 * 2))""",
    "classes and views": """\
class Box:
    def __init__(self, v):
        self.v = v
o0 = [Box(n) for n in range(3)]
a0 = np.arange(12.0).reshape(3, 4)
for o1, a1 in zip(o0, a0):
    o1.row = a1
    for n0 in range(4):
        a1[n0] *= 2
        o1.v += n0
print(a0, [o.v for o in o0], [np.shares_memory(o.row, a0) for o in o0])""",
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as home:
        made = Hosts(Path(home))
        yield made
        made.close()


LINES = {"cells": (46, 53, 64), "auto": (48, 53, 63), "clock": (47, 52, 57, 61, 66)}
"""Some forty come before the loops: what is imported has lines, too."""
if os.environ.get("NBCHECKPOINT_LONG"):
    LINES = dict.fromkeys(LINES, tuple(range(38, 100)))


@pytest.mark.parametrize("mode", LINES)
@pytest.mark.parametrize("name", NESTED)
def test_killed_after_many_lines(hosts: Hosts, name: str, mode: str) -> None:
    cells = (BEGINNING, (NESTED[name],))
    for line in LINES[mode]:
        kernels = Process(cells, kill=line), Process(cells, kill=line - 4), Process(cells)
        problem = hosts.check(Program(kernels, mode=mode))
        assert not problem, f"killed after line {line}: {problem}"

"""What is taken for quick, and what is not: a wrong guess costs a save, so only the well known is taken for quick."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbcheckpoint.notebook.guess import is_quick

BIG = np.zeros((1 << 20, 8))
FRAME = pd.DataFrame({"number": range(100_000), "name": [f"name {n % 100}" for n in range(100_000)]})


class Odd(list):  # type: ignore[type-arg]
    """A list that may do anything when it is asked."""


class OddFrame(pd.DataFrame):  # type: ignore[misc]  # pandas may have no types
    pass


NAMES: dict[str, Any] = {
    "big": BIG,
    "arrays": [BIG[:, 0].copy()] * 8,
    "frame": FRAME,
    "records": [{"id": n, "score": n / 7, "tags": [n]} for n in range(100_000)],
    "n": 5,
    "text": "abc",
    "many": list(range(5_000_000)),
    "odd": Odd([1]),
    "odd_frame": OddFrame({"a": [1]}),
    "objects": np.array([[1], None], dtype=object),
    "huge": np.lib.stride_tricks.as_strided(np.zeros(1), shape=(1 << 40,), strides=(0,)),
    "function": lambda x: x,
    "np": np,
    "pd": pd,
}


def quick(source: str, seconds: float = 0.2) -> bool:
    return is_quick(ast.parse(source).body, NAMES, seconds)


@pytest.mark.parametrize(
    "source",
    ["frame.head()", "len(frame)", "len(records)", "big[:5, :3]", "big.mean()", "frame['number'].mean()", "records[:3]",
     "frame['double'] = frame['number'] * 2", "small = big[1000:1010].copy()", "records.append({'id': -1, 'tags': []})",
     "frame.shape", "arrays[0].sum()", "top = frame['name'].value_counts().head(10)", "frame.number.max()",
     "some = [r['score'] for r in records[:1000]]", "best = max(r['score'] for r in records)", "x = n + 1",
     "frame[frame['number'] > 99_990].head()", "print(frame.dtypes)", "arrays[1][:10] = 0.0",
     "print(f'{n:.2f} {text}')",
     "total = sum(a.mean() for a in arrays)", "a = big[0]\nb = a.sum()\nprint(b)", "del n", "n += 1", "text.upper()",
     "x = [1, 2]\ny = (x, n)\n", "-big[:3]", "big[big > 0.5]", "frame.iloc[:5]", "sorted(records[0])", "pass", ""],
)  # fmt: skip
def test_what_one_usually_asks_large_things_is_quick(source: str) -> None:
    assert quick(source)


UNKNOWN = """
function(n) | np.linalg.svd(big) | frame.apply(function) | frame['number'].map(lambda x: x) | big @ big.T | lambda: 1
frame.to_csv('a.csv') | frame.groupby('name').sum() | frame.merge(frame) | for x in records: pass | while n: pass
with n: pass | def f(): pass | import os | n ** n ** n ** n | '-' * 10 ** 10 | [0] * 10 ** 9 | unknown | odd
odd.append(1) | odd_frame.head() | objects.sum() | n.real | records.attribute | x = await n | huge.sum() | (x := n)
big[:, None] * big[None, :] | big[:, 0] + big[0] | range(10 ** 12) | list(range(10 ** 9)) | sorted(many) | many.sort()
[x for x in records for y in records] | print(*records) | x.y = 1 | a, b = n | eval('n') | sum(sum(many) for x in many)
open('f') | input() | frame.describe(include=function) | pd.concat([frame] * 100) | {**frame} | text.join(records)
range(10000000000000000000000000000000) | range('a') | range(1.5) | records[1.5] | {}[[]] | records[10 ** 6]
len(open('f').read()) | 1 if n else 2 | frame.sample(5) | 1 << 10 ** 9
"""


@pytest.mark.parametrize("source", UNKNOWN.strip().replace("\n", " | ").split(" | "))
def test_whatever_is_not_well_known_is_not_taken_for_quick(source: str) -> None:
    assert not quick(source)


def test_the_same_over_more_takes_longer() -> None:
    assert quick("big.sum()", 0.01)
    assert not quick("big.sum()", 0.001)
    assert quick("frame['name'].unique()", 0.2)
    assert not quick("frame['name'].unique()", 0.01)


def test_a_name_that_was_bound_before_in_the_cell_is_what_it_was_bound_to() -> None:
    assert quick("odd = 1\nodd + 1")
    assert not quick("n = odd\nn.append(1)")
    assert not quick("len = 1\nlen(records)")


def test_nothing_of_the_users_runs() -> None:
    class Loud(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: Any) -> Any:
            raise AssertionError

        def __len__(self) -> int:
            raise AssertionError

    names = {"loud": Loud(), "inside": [Loud()]}
    for source in ("len(loud)", "loud['x']", "inside[0]['x']", "[x['a'] for x in inside]"):
        assert not is_quick(ast.parse(source).body, names, 1.0)

"""Whether the order of what a loop goes through follows from its inputs, read off its text."""

from __future__ import annotations

import ast
import io
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tqdm import tqdm

from nbcheckpoint import bars
from nbcheckpoint.notebook.items import is_ordered, length_of, unwrap_bar

NAMES: dict[str, Any] = {
    "np": np,
    "itertools": itertools,
    "words": {"a", "b"},
    "numbers": [3, 1, 2],
    "n": 1,
    "text": "a b",
    "rows": [[1], [2]],
    "sets": [{"a"}, {"b"}],
    "by_name": {"all": {"a"}, "some": ["a"]},
    "lists": {"a": [1], "b": [[2]]},
    "deep": {"a": {"b": {"c"}}},
    "array": np.arange(6).reshape(2, 3),
    "frame": pd.DataFrame({"x": [1, 2]}),
}


@pytest.mark.parametrize(
    "text",
    [
        "numbers", "range(n)", "enumerate(numbers)", "numbers[1:]", "sets[1:]", "rows[0]", "rows[n]", "lists['b']",
        "lists['b'][0]", "lists.items()", "zip(*rows)", "range(numbers[0] - n)", "range(max(numbers))", "array[0]",
        "range(len(array))", "array.T[0]", "frame['x']", "frame.itertuples()", "frame.iloc[0]", "text.split()",
        "itertools.product(numbers, numbers)", "range(min(n, 5))", "lists.get('a')", "by_name", "sets",
        "enumerate(sets)",
    ],
)  # fmt: skip
def test_it_is_certain(text: str) -> None:
    assert is_ordered(ast.parse(text, mode="eval").body, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "words", "list(words)", "sets[0]", "list(sets[n])", "enumerate(by_name['all'])", "by_name['some']",
        "deep['a']['b']", "zip(*sets)", "itertools.product(*sets)", "max(sets)", "by_name.get('all', ())",
        "by_name.keys() & lists.keys()", "list(by_name.keys() - lists)", "unknown", "map(str, numbers)",
        "sets.pop()", "(m for m in numbers)", "frame.sample(2)", "[words, words][0]",
    ],
)  # fmt: skip
def test_it_is_not(text: str) -> None:
    """What is in a list or a dict may be a set, and what two dicts have in common is one."""
    assert not is_ordered(ast.parse(text, mode="eval").body, NAMES)


@pytest.mark.parametrize("done", [0, 2])
def test_a_bar_that_was_told_where_to_begin_comes_to_its_end(done: int) -> None:
    bar, items = unwrap_bar(tqdm([1, 2, 3], initial=5, total=8, disable=False, file=io.StringIO()))
    assert list(bars.wrap(bar, iter(items[done:]), done)) == items[done:]
    assert bar.n == 8


@pytest.mark.parametrize(
    ("made", "length"),
    [
        (lambda: [1, 2], 2),
        (lambda: iter([1, 2]), 2),
        (lambda: enumerate("abc", 5), 3),
        (lambda: zip("abc", range(7), strict=False), 3),
        (lambda: enumerate(zip({1: 2}, [3, 4], strict=False)), 1),
        (lambda: zip(strict=False), 0),
        (lambda: zip([1], (n for n in "ab"), strict=False), 0),
        (lambda: enumerate(n for n in "ab"), 0),
    ],
)
def test_how_many_there_are_is_known_without_asking_for_one(made: Callable[[], Any], length: int) -> None:
    items = made()
    assert length_of(items) == length
    assert len(list(items)) >= length

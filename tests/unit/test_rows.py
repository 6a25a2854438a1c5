"""pandas' own iterators, half-way through: what is saved of them gives the rest, and leaves them as they are."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbcheckpoint.notebook.rows import are_new, at_rest

pytest.importorskip("pandas", "3", reason="those of pandas 3 are known")


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "n": range(6),
            "text": ["a", None, "c", "d", "e", "f"],
            "half": np.arange(6) / 2,
            "date": pd.date_range("2020-03-27", periods=6, tz="Europe/Berlin"),
            "kind": pd.Categorical(list("xyzxyz")),
        }
    )


MAKERS: dict[str, Callable[[], Any]] = {
    "rows": lambda: frame().iterrows(),
    "rows of numbers": lambda: frame()[["n"]].iterrows(),
    "rows by name": lambda: frame().set_index("text").iterrows(),
    "rows by date": lambda: frame().set_index("date").iterrows(),
    "rows by kind": lambda: frame().set_index("kind").iterrows(),
    "rows by two": lambda: frame().set_index(["n", "text"]).iterrows(),
    "rows, counted": lambda: enumerate(frame().iterrows(), 3),
    "tuples without a name": lambda: frame().itertuples(name=None),
    "groups": lambda: iter(frame().groupby("n")),
    "groups by date": lambda: iter(frame().groupby("date")),
    "groups by name": lambda: iter(frame().groupby("text", dropna=False)),
    "groups by a list": lambda: iter(frame().groupby(["half"])),
    "groups by two": lambda: iter(frame().groupby(["n", "text"], dropna=False)),
    "groups of a column": lambda: iter(frame().groupby("n")["half"]),
    "a range of labels": lambda: iter(frame().index),
    "columns": lambda: iter(frame()),
    "columns with their labels": lambda: frame().items(),
    "columns with their numbers": lambda: frame().T.items(),
    "text": lambda: iter(frame()["text"]),
    "dates": lambda: iter(frame()["date"]),
    "two columns": lambda: zip(frame()["date"], frame()["text"], strict=True),
}


def told(items: Iterator[Any]) -> list[str]:
    def tell(item: Any) -> Any:
        if isinstance(item, (tuple, list)):
            return [tell(part) for part in item]
        more = (item.to_dict(), item.index, getattr(item, "name", "")) if hasattr(item, "to_dict") else ()
        return type(item), item, more

    return [repr(tell(item)) for item in items]


@pytest.mark.parametrize("given", [1, 2, 4])
@pytest.mark.parametrize("name", MAKERS)
def test_it_gives_what_is_left(name: str, given: int) -> None:
    iterator = MAKERS[name]()
    assert are_new(iterator)
    told(islice(iterator, given))
    saved = pickle.dumps(at_rest(iterator, given))
    wanted = told(iterator)
    assert wanted == told(MAKERS[name]())[given:]
    assert told(pickle.loads(saved)) == wanted


@pytest.mark.parametrize("name", MAKERS)
def test_and_can_be_saved_once_more(name: str) -> None:
    iterator = MAKERS[name]()
    told(islice(iterator, 2))
    again = pickle.loads(pickle.dumps(at_rest(iterator, 2)))
    told(islice(again, 1))
    assert told(pickle.loads(pickle.dumps(at_rest(again)))) == told(MAKERS[name]())[3:]


def test_text_that_was_replaced_is_not_taken_for_what_was_there() -> None:
    table = frame()
    iterator = iter(table["text"].array)
    next(iterator)
    assert at_rest(iterator, 1) is not iterator
    table["text"].array[3] = "new"
    other = frame()["text"].array
    iterator = iter(other)
    next(iterator)
    other[3] = "new"
    assert at_rest(iterator, 1) is iterator


def test_nobody_knows_how_far_a_column_of_text_is_that_had_been_begun() -> None:
    iterator = iter(frame()["text"])
    next(iterator)
    assert not are_new(enumerate(iterator))
    assert at_rest(iterator) is iterator


def test_one_that_is_asked_twice_is_not_made_two() -> None:
    iterator = iter(frame()["text"])
    pairs = zip(iterator, iterator, strict=True)
    next(pairs)
    assert at_rest(pairs, 1) is pairs


def test_what_can_be_saved_stays_the_object_it_is() -> None:
    for iterator in (enumerate([1, 2]), zip([1], [2], strict=True), map(str, [1]), (n for n in "ab")):
        assert at_rest(iterator, 0) is iterator

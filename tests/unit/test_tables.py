"""What a large table was before it was changed can be told afterwards, if its memory is still what it was."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbcheckpoint.fingerprint import tables
from nbcheckpoint.fingerprint.values import Digester

MANY = 300_000


def frame() -> pd.DataFrame:
    numbers = {name: np.arange(MANY) * 1.0 for name in "abc"}
    return pd.DataFrame({**numbers, "when": pd.date_range("2020", periods=MANY, freq="s")})


def words() -> pd.DataFrame:
    return pd.DataFrame({"w": pd.array([f"word {n}" for n in range(MANY)], dtype="string[pyarrow]"), "n": range(MANY)})


def digest(value: Any) -> str:
    return Digester().digest("v", value)


@pytest.mark.parametrize("make", [frame, words, lambda: frame()["a"], lambda: {"x": frame(), "n": [1, "a"]}])
def test_put_together_it_is_what_it_was(make: Any) -> None:
    table = make()
    noted = tables.note(table)
    assert noted is not None
    assert len(noted.said) < 20_000, "the memory is not in there"
    assert digest(tables.put_together(noted)) == digest(table)


def add(table: pd.DataFrame) -> None:
    table["new"] = table["a"] * 2


def replace(table: pd.DataFrame) -> None:
    table["a"] = 0.0


def drop(table: pd.DataFrame) -> None:
    table.drop(columns=["b"], inplace=True)


def write(table: pd.DataFrame) -> None:
    table.iloc[7, 1] = -1.0


@pytest.mark.parametrize("change", [add, replace, drop])
def test_what_changes_the_table_and_not_its_memory(change: Any) -> None:
    table = frame()
    before, noted = digest(table), tables.note(table)
    assert noted is not None
    change(table)
    assert digest(table) != before
    assert digest(tables.put_together(noted)) == before


def test_what_writes_into_its_memory_is_noticed() -> None:
    table = frame()
    before, noted = digest(table), tables.note(table)
    assert noted is not None
    write(table)
    assert digest(tables.put_together(noted)) != before


class Own:
    pass


def test_only_tables_of_numbers_are_noted() -> None:
    mapped = mmap.mmap(-1, 8 * MANY)
    objects = frame().assign(o=[Own()] * MANY)
    of_file = np.frombuffer(mapped, dtype="f8")
    others = [[Own()], {"x": Own()}, objects, of_file, {"f": of_file}, "text" * MANY, [frame()] * 101]
    assert [tables.note(other) for other in others] == [None] * len(others)


def test_small_parts_may_be_written_to() -> None:
    parts = {"large": np.zeros(MANY), "small": np.zeros(3)}
    before, noted = digest(parts), tables.note(parts)
    assert noted is not None
    parts["small"][0] = 1
    assert digest(tables.put_together(noted)) == before


def test_nobody_has_to_copy_a_table_because_it_is_noted() -> None:
    """pandas copies what is written to if somebody else has it."""
    table = frame()
    noted = tables.note(table)
    lies_at = table["a"].to_numpy().ctypes.data
    table.loc[3, "a"] = 5.0
    assert table["a"].to_numpy().ctypes.data == lies_at
    assert noted is not None

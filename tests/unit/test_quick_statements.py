"""What automatic mode does not look at: statements that take no time, inputs that would take too much."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbcheckpoint import whose
from nbcheckpoint.engine.pace import seconds_left
from nbcheckpoint.fingerprint.values import Digester, likely_seconds
from nbcheckpoint.notebook import line, sharing, weave


@pytest.mark.parametrize("source", ["x = 1", "x = y = [a, (b, 'c')]", "x = {'a': [b]}", "pass", "x", "'text'"])
def test_names_and_constants_run_no_code(source: str) -> None:
    assert weave.is_plain(ast.parse(source).body[0])


@pytest.mark.parametrize(
    "source",
    ["x = f()", "x.a = 1", "x[0] = 1", "a, b = c", "x += 1", "x = a + b", "x = {a: 1}", "x = {**a}", "x = [*a]",
     "x = f'{a}'", "x = -a", "x = a.b", "del x", "x: int = 1", "for x in a: pass", "x = [a for a in b]"],
)  # fmt: skip
def test_everything_else_may(source: str) -> None:
    assert not weave.is_plain(ast.parse(source).body[0])


def test_large_inputs_are_told_by_their_size() -> None:
    records = [{"id": n, "tags": [n, n]} for n in range(100_000)]
    frame = pd.DataFrame({"a": pd.Series(["x"] * 100_000, dtype=object), "b": range(100_000)})
    assert likely_seconds(records) >= 0.03
    assert likely_seconds(frame) >= 0.002
    assert likely_seconds(np.zeros(10_000_000)) >= 0.01
    assert likely_seconds(frame["b"]) < 0.001
    assert likely_seconds(frame.groupby("b")) == 0.0  # whose size is a method
    assert likely_seconds([]) == likely_seconds(1) == 0.0


def test_a_walk_ends_where_its_budget_does_also_in_strings() -> None:
    many = [str(n) for n in range(100_000)]
    column = np.array(many, dtype=object)
    a = [1]  # also this variable refers to it, so that counting leaves a doubt
    names = {"a": a, "many": many, "column": column}
    assert sharing.sharing({"a"}, names, walk=1000) is None
    assert sharing.sharing({"a"}, names) == set()
    assert sharing.sharing({"many"}, {**names, "holder": [column, many]}) == {"holder"}


def look(frame: Any) -> tuple[str, Digester]:
    digester = Digester(provisional=True)
    return digester.digest("frame", frame), digester


def test_a_column_of_strings_has_a_token_until_it_is_named() -> None:
    frame = pd.DataFrame({"a": pd.Series([f"name {n}" for n in range(50_000)], dtype=object)})
    before, first = look(frame)
    assert first.tokens
    assert look(frame)[0] == before
    assert Digester().digest("frame", frame) == Digester().digest("frame", frame.copy())
    frame.loc[777, "a"] = f"name {'x'}"
    changed, _ = look(frame)
    assert changed != before
    assert look(frame.iloc[::-1])[0] != changed


def test_a_string_that_takes_the_place_of_a_freed_one_is_noticed() -> None:
    """The strings a token stands for are held: their addresses are not given to others."""
    column = np.array([f"name {n}" for n in range(50_000)], dtype=object)
    before, first = look(column)
    for n in range(1000):
        column[n] = None
        column[n] = f"nome {n}"  # of the same size: it would be put where the other one was
    assert look(column)[0] != before
    assert first.held


def test_a_column_with_something_that_can_change_is_walked() -> None:
    column = np.array([f"name {n}" for n in range(50_000)], dtype=object)
    column[5] = [1]
    before, first = look(column)
    assert not first.tokens
    column[5].append(2)
    assert look(column)[0] != before


def test_a_module_that_takes_the_place_of_another_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All modules are looked at only when they are not the same objects as before."""
    mine = {"a": [1]}
    first, second = types.ModuleType("mine_of_mine"), types.ModuleType("mine_of_mine")
    first.__file__ = second.__file__ = "/somewhere/mine_of_mine.py"
    monkeypatch.setitem(sys.modules, "mine_of_mine", first)
    assert sharing.sharing({"a"}, mine) == set()
    second.held = mine["a"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine_of_mine", second)
    assert sharing.sharing({"a"}, mine) == {"module mine_of_mine"}


def test_a_link_to_a_file_of_the_users_is_the_users(tmp_path: Path) -> None:
    installed = Path(np.__file__).parent
    linked, plain = tmp_path / "linked.py", tmp_path / "plain.py"
    linked.symlink_to(installed / "__init__.py")
    plain.write_text("")
    (tmp_path / "folder").symlink_to(installed)
    assert whose.is_user_file(str(plain))
    assert not whose.is_user_file(str(linked))
    assert not whose.is_user_file(str(tmp_path / "folder" / "__init__.py"))


def test_the_time_left_follows_the_last_run_first_and_its_own_pace_later() -> None:
    assert seconds_left(0, 100, 0.0) is None
    assert seconds_left(10, 100, 5.0) == pytest.approx(45)
    assert seconds_left(100, 100, 50.0) == 0
    assert seconds_left(0, 100, 0.0, earlier=80.0) == pytest.approx(80), "nothing of its own to go by"
    assert 72 > (seconds_left(10, 100, 5.0, earlier=80.0) or 0) > 69, "hardly anything"
    assert seconds_left(99, 100, 49.5, earlier=80.0) == pytest.approx(0.503, abs=0.01), "almost everything"
    assert seconds_left(7, 0, 5.0) is None
    assert seconds_left(7, 0, 5.0, earlier=80.0) == 75
    assert seconds_left(7, 0, 90.0, earlier=80.0) is None, "it takes longer than the last time, nobody knows how long"


def test_progress_is_said_as_people_count() -> None:
    assert line.say_progress(36, 100, 120.0) == "loop 37 of 100 · 2m left"
    assert line.say_progress(0, 1200, 7260.0) == "loop 1 of 1,200 · 2h 01m left"
    assert line.say_progress(1, 2, 59.6) == "loop 2 of 2 · 60 s left"
    assert line.say_progress(100, 100, 0.0) == "loop 100 of 100"
    assert line.say_progress(0, 0, None) == "loop 1"

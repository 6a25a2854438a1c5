"""The pure parts of the notebook side: options, outputs, names, units, sentences."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from nbcheckpoint.errors import UsageError
from nbcheckpoint.fingerprint import explain
from nbcheckpoint.model import FileSeen, Input
from nbcheckpoint.notebook import namespace, options, sharing
from nbcheckpoint.notebook.cell import quick_size
from nbcheckpoint.notebook.outputs import collapse
from nbcheckpoint.notebook.weave import weave
from nbcheckpoint.units import parse_age, parse_size, say_duration, say_size


@pytest.mark.parametrize(
    "lines",
    [["x = 1\n"], ["%%time\n", "x\n"], ["# %%checkpointed\n"], ["x = '''\n", "%%checkpointed\n"], [], ["\n"]],
)
def test_other_cells_are_left_alone(lines: list[str]) -> None:
    assert options.mark_cell(lines) == lines


def test_the_marker_keeps_every_line_in_its_place() -> None:
    lines = ["\n", "%%checkpointed name --save 'a,b'\n", "x = 1\n"]
    marked = options.mark_cell(lines)
    assert [marked[0], marked[2]] == [lines[0], lines[2]]
    tree = ast.parse("".join(marked))
    assert tree.body[1].lineno == 3
    text = options.read_marker(tree)
    assert text == "name --save 'a,b'"
    chosen = options.parse(text)
    assert (chosen.name, chosen.save) == ("name", ("a", "b"))
    assert options.mark_cell(marked) == marked, "it is called more than once"


def test_a_magic_below_is_left_to_the_ordinary_magic() -> None:
    lines = ["%%checkpointed\n", "%%bash\n", "ls\n"]
    assert options.mark_cell(lines) == lines


@pytest.mark.parametrize("text", ["--nope", "a b", "--save 1x", "--expire soon", "'open", "--code perl"])
def test_a_wrong_option_is_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="%%checkpointed"):
        options.parse(text)


def test_progress_is_collapsed_to_its_last_state() -> None:
    assert collapse("a\rb\rc\nplain\n") == "c\nplain\n"
    assert collapse("10%\r20%\r") == "20%\r", "what is printed next overwrites it"
    assert collapse(collapse("10%\r20%\r") + "done\n") == "done\n"
    assert collapse("windows\r\nlines\r\n") == "windows\nlines\n"


def test_names_that_are_ipythons_own() -> None:
    own = ["_", "__", "___", "_i", "_ii", "_3", "_i3", "In", "Out", "_oh", "_dh", "exit", "get_ipython", "__name__"]
    users = ["x", "_x", "_private", "i", "input_", "_ix"]
    assert not any(map(namespace.is_user_name, own))
    assert all(map(namespace.is_user_name, users))


def test_sharing_finds_aliases_at_any_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_user_modules", list)  # those of all the tests, with all that they hold
    inner: list[int] = []
    array = np.arange(3)

    class Box:
        pass

    box = Box()
    box.deep = {"k": [inner]}  # type: ignore[attr-defined]
    ns: dict[str, Any] = {"a": inner, "b": box, "c": [1], "d": array, "e": array[1:], "f": (inner,), "g": "text"}
    assert sharing.sharing({"a"}, ns) == {"b", "f"}
    assert sharing.sharing({"d"}, ns) == {"e"}
    assert sharing.sharing({"e"}, ns) == {"d"}
    assert sharing.sharing({"c"}, ns) == set()
    assert sharing.sharing({"g"}, ns) == set()


def test_units() -> None:
    assert (parse_age("30s"), parse_age("7d"), parse_age("1.5h"), parse_age("10")) == (30, 604800, 5400, 10)
    assert (parse_size("20GB"), parse_size("512 mb"), parse_size("7")) == (20 * 10**9, 512 * 10**6, 7)
    for wrong in ("", "x", "7y", "-1d"):
        with pytest.raises(UsageError):
            parse_age(wrong)
    assert [say_size(n) for n in (0, 999, 1000, 9949, 12_345_678, 10**12)] == [
        *("0 B", "999 B", "1.0 kB", "9.9 kB", "12 MB", "1.0 TB"),
    ]
    assert [say_duration(s) for s in (0.041, 3.2, 59.99, 724, 7500)] == [
        "41 ms",
        "3.2 s",
        "1m 00s",
        "12m 04s",
        "2h 05m",
    ]


def test_reasons_are_sentences() -> None:
    then = [
        Input(name="df", digest="1", type="pandas.DataFrame", preview="5 × 3"),
        Input(name="f", digest="1", type="function"),
    ]
    now = [
        Input(name="df", digest="2", type="pandas.DataFrame", preview="6 × 3"),
        Input(name="f", digest="2", type="function"),
    ]
    assert explain.changed_inputs(then, now).text == "input df changed (was 5 × 3, now 6 × 3); helper f() changed"
    assert explain.changed_inputs(then, now[:1]).details["names"] == ["df", "f"]
    assert explain.changed_inputs(then[:1], now).text.endswith("helper f() is new")
    assert explain.changed_file(FileSeen(path="/a/b.csv", digest="x"), exists=False).text == "file b.csv is gone"


@pytest.mark.parametrize(
    "text", ["if 1: break", "continue", "for i in x: pass\nelse:\n    break", "with x:\n    break"]
)
def test_a_break_outside_of_a_loop_is_an_error_with_retries_too(text: str) -> None:
    """The loop that tries a statement again is none of the user's."""
    with pytest.raises(SyntaxError):
        compile(weave(ast.parse(text), retries=True).tree, "cell", "exec")
    compile(weave(ast.parse("for i in x:\n    if i: break"), retries=True).tree, "cell", "exec")


def test_the_size_of_what_contains_itself_many_times_is_told_at_once() -> None:
    """It was looked at as often as there are ways to it: a cell did not come to its end."""
    array = np.zeros(1000)
    knot: list[Any] = [array] * 500
    knot += [knot] * 400
    assert quick_size(knot) == array.nbytes
    assert quick_size({"a": [array, np.ones(10)], "b": "text"}) == array.nbytes + 80

"""A digest says: these are the same. It must never say so of two that are not."""

from __future__ import annotations

import copy
import functools
import subprocess
import sys
from enum import Enum, Flag
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcheckpoint.fingerprint.reach import reach
from nbcheckpoint.fingerprint.values import Digester, Unidentified


def digest(value: Any) -> str:
    return Digester().digest("v", value)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


shared: list[int] = []
DIFFERENT: list[Any] = [
    *(None, True, 1, 1.0, -0.0, 0.0, "1", b"1", 1j, (), [], {}, set(), frozenset(), (1,), [1], {1}, {1: 1}),
    *([[], []], [shared, shared], {"a": 1, "b": 2}, {"b": 2, "a": 1}, Colour.RED, Colour.BLUE, Box(1), Box(2)),
    *(np.zeros(3), np.zeros(3, "f4"), np.zeros((3, 1)), np.zeros((1, 3)), np.zeros((2, 2), order="F"), np.arange(3.0)),
    *(np.zeros((2, 2)), np.array(["a", "b"], dtype=object), np.array(["a", "c"], dtype=object)),
    *(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]}), pd.DataFrame({"b": [1, 2]}), pd.Series([1, 2])),
    *(pd.DataFrame({"a": [1, 2]}, index=[1, 2]), pd.DataFrame({"a": ["x", "y"]}), pd.DataFrame({"a": ["x", None]})),
    *(pd.DataFrame({"a": ["x", "y"]}, dtype="category"), pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")),
    *(functools.partial(max, 1), functools.partial(max, 2), max, min, np.sum, np.mean, lambda: 1, lambda: 2),
]


def test_different_values_have_different_digests() -> None:
    digests = [digest(value) for value in DIFFERENT]
    assert len(set(digests)) == len(digests)


def test_equal_values_have_equal_digests() -> None:
    text = "".join(["ab", "cd"])
    for one, two in [
        ([text, text], ["abcd", "".join(["a", "bcd"])]),
        (np.arange(5)[::1], np.arange(5)),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), pd.DataFrame({"a": [1.0], "b": ["x"]}).copy()),
        ({"x", "y", (1, 2), None}, {None, (1, 2), "y", "x"}),
        (Box([1]), Box([1])),
    ]:
        assert digest(one) == digest(two)


@pytest.mark.parametrize("expression", ["{'a','b','c',1,2,(3,)}", "frozenset('hello')", "{'k': {'x','y','z'}}"])
def test_digests_do_not_depend_on_the_hash_seed(expression: str) -> None:
    code = f"from nbcheckpoint.fingerprint.values import Digester; print(Digester().digest('v', {expression}))"
    digests = {
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PATH": ""})
        for seed in ("0", "1", "2", "3")
    }
    assert len(digests) == 1


def test_cycles_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    other: list[Any] = [1]
    other.append([other])
    assert digest(loop) != digest(other)


def test_sharing_between_inputs_counts() -> None:
    one, other = [1], [1]
    together, apart = Digester(), Digester()
    pair = together.digest("a", one), together.digest("b", one)
    two = apart.digest("a", one), apart.digest("b", other)
    assert pair[0] == two[0]
    assert pair[1] != two[1]


def test_views_of_one_array_are_told_from_copies() -> None:
    array = np.arange(6)
    assert digest([array, array[:3]]) != digest([array, array[:3].copy()])
    assert digest([array, array[:3]]) != digest([array, array[3:]])


def test_what_cannot_be_walked_is_said_so() -> None:
    with pytest.raises(Unidentified, match="v"):
        digest(sys._getframe())
    with pytest.raises(Unidentified):
        digest([1, (i for i in range(3))])


def test_a_raising_reduce_is_unidentified_not_a_crash() -> None:
    class Bad:
        def __reduce__(self) -> Any:
            raise ZeroDivisionError

    with pytest.raises(Unidentified):
        digest(Bad())


def _namespace(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    return namespace


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("def f(): return 1", "def f(): return 2"),
        ("def f(a=1): pass", "def f(a=2): pass"),
        ("def f(*, a=1): pass", "def f(*, a=2): pass"),
        ("c = 1\ndef f(): return c", "c = 2\ndef f(): return c"),
        ("def g(): return 1\ndef f(): return g()", "def g(): return 2\ndef f(): return g()"),
        ("def f():\n def g(): return 1\n return g", "def f():\n def g(): return 2\n return g"),
        ("def f(): return x in {1, 2}", "def f(): return x in {1, 3}"),
        ("def f(): return f'{1}'", "def f(): return f'{2}'"),
        ("class f:\n def m(self): return 1", "class f:\n def m(self): return 2"),
        ("class f:\n @property\n def m(self): return 1", "class f:\n @property\n def m(self): return 2"),
        ("class f:\n @staticmethod\n def m(): return 1", "class f:\n @staticmethod\n def m(): return 2"),
        ("class B:\n def m(s): return 1\nclass f(B): pass", "class B:\n def m(s): return 2\nclass f(B): pass"),
        (
            "import functools\n@functools.lru_cache\ndef f(): return 1",
            "import functools\n@functools.lru_cache\ndef f(): return 2",
        ),
    ],
)
def test_reachable_code_counts(one: str, two: str) -> None:
    def identity(source: str) -> list[tuple[str, str]]:
        digester = Digester()
        return [(k, digester.digest(k, v)) for k, v in sorted(reach([("f", _namespace(source)["f"])]).items())]

    assert identity(one) == identity("# a comment\n\n" + one)
    assert identity(one) != identity(two)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner) | st.sets(st.integers())
    ),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_equal_digests_mean_equal_values(one: Any, two: Any) -> None:
    if digest(one) == digest(two):
        assert repr(one) == repr(two) or one == two
    import copy

    assert digest(copy.deepcopy(one)) == digest(one)


MANY = [f"name {n}" for n in range(1000)]


def test_many_strings_and_numbers_are_told_apart_as_few_are() -> None:
    """They are gone through by pickle alone; what holds for few must hold for them."""
    ones: list[Any] = [1] * 1000
    others = [
        MANY, MANY[::-1], MANY[:-1], [*MANY[:-1], "other"], tuple(MANY), dict.fromkeys(MANY), dict.fromkeys(MANY, 0),
        dict.fromkeys(MANY, False), dict.fromkeys(MANY[::-1]), set(MANY), ones, [*ones[:-1], True], [*ones[:-1], 1.0],
        [*ones[:-1], None], [*ones[:-1], "1"], [0.0] * 1000, [-0.0] * 1000, [float("nan")] * 1000, [b"1"] * 1000,
        [MANY, MANY], [MANY, list(MANY)], [*ones, []], [*ones, [1]], [ones, MANY], [MANY, ones],
    ]  # fmt: skip
    digests = [digest(value) for value in others]
    assert len(set(digests)) == len(digests)
    assert digest(["".join(["na", "me ", str(n)]) for n in range(1000)]) == digest(MANY), "not the same objects"
    assert digest(copy.deepcopy([MANY, MANY])) == digest([MANY, MANY]), "but the same object twice"


def test_one_that_is_shared_by_two_inputs_counts_as_shared() -> None:
    together, apart = Digester(), Digester()
    assert together.digest("a", MANY) == apart.digest("a", MANY)
    assert together.digest("b", [MANY]) != apart.digest("b", [list(MANY)])


def test_there_is_no_time_for_many_when_there_is_none() -> None:
    with pytest.raises(Unidentified):
        Digester(deadline=0.0).digest("v", [MANY])


class Right(Flag):
    READ = 1
    WRITE = 2


def test_a_class_of_flags_is_what_it_was_when_some_were_combined() -> None:
    before = digest(Right)
    combined = Right.READ | Right.WRITE
    assert digest(Right) == before
    assert digest(combined) == digest(Right(3)) != digest(Right.READ)


def test_a_property_is_known_by_its_functions() -> None:
    one, same, other = (property(f) for f in (lambda self: 1, lambda self: 1, lambda self: 2))
    assert digest(Box(one)) == digest(Box(same)) != digest(Box(other))


def test_what_lies_between_wide_numbers_does_not_count() -> None:
    one, other = (np.full(64, filled, "u1").view(np.longdouble)[:4] for filled in (0, 255))
    one[...], other[...] = [1, 2, 3, 4], [1, 2, 3, 4]
    assert digest(one) == digest(other) == digest(np.arange(1, 5, dtype=np.longdouble))
    assert digest(one) != digest(one[::-1].copy())
    assert digest(one) != digest(one.astype(np.float64)) != digest(one.reshape(2, 2))


def test_the_attributes_of_a_librarys_wrapper_of_a_class_are_known() -> None:
    wrapped = functools.wraps(Box)(lambda inside: Box(inside))
    assert digest([wrapped]) == digest([wrapped]) != digest([functools.wraps(Box)(lambda inside: [inside])])

"""Containers of nothing but text, numbers and each other, looked at all at once: the same comes out as one by one."""

from __future__ import annotations

import copy
import datetime as dt
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcheckpoint import trees
from nbcheckpoint.fingerprint import meetings
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.notebook import sharing

RECORDS = [{"id": n, "text": f"text {n}", "tags": ["a", "b"], "at": (n, None), "in": {"x": [n, (n, [n])]}}
           for n in range(300)]  # fmt: skip

PARTS = st.sampled_from(["list", "dict", "tuple", "atom", "again", "again inside", "set"])


@st.composite
def values(draw: st.DrawFn) -> Any:
    """Nested containers, in which some stand twice. Rarely something else."""
    made: list[Any] = []

    def one(depth: int) -> Any:
        kind = draw(PARTS) if depth else "atom"
        if kind == "again" and made:
            return draw(st.sampled_from(made))
        if kind == "again inside" and made:
            return (draw(st.sampled_from(made)),)
        if kind == "set":
            return draw(st.sampled_from([{1, 2}, frozenset({1}), bytearray(b"b"), range(2)]))
        if kind not in ("list", "dict", "tuple"):
            return draw(st.sampled_from([0, 1, True, 1.0, "a", "b", b"a", None, 2j]))
        parts = [one(depth - 1) for _ in range(draw(st.integers(0, 3)))]
        found = dict(zip("xyz", parts, strict=False)) if kind == "dict" else tuple(parts) if kind == "tuple" else parts
        made.append(found)
        return found

    return [one(3) for _ in range(draw(st.integers(1, 4)))]


def apart(value: Any) -> Any:
    """The same, in which nothing stands twice."""
    if type(value) is dict:
        return {key: apart(part) for key, part in value.items()}
    return type(value)(map(apart, value)) if type(value) in (list, tuple) else copy.copy(value)


@contextmanager
def at_once(worth: int) -> Iterator[None]:
    """From so many items on all are looked at at once."""
    before, trees.WORTH_A_LOOK = trees.WORTH_A_LOOK, worth
    try:
        yield
    finally:
        trees.WORTH_A_LOOK = before


def digests(worth: int, *inputs: Any) -> list[str]:
    with at_once(worth):
        digester = Digester()
        return [digester.digest(f"v{at}", value) for at, value in enumerate(inputs)]


@given(values(), values(), st.data())
def test_what_is_told_apart_one_by_one_is_told_apart_at_once(one: Any, two: Any, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from([two, copy.deepcopy(one), one[:-1], [*one, one[0]], apart(one)]))
    part = data.draw(st.sampled_from(one))
    for second, fourth in ((part, part), (copy.deepcopy(part), None)):
        same = digests(1, one, second) == digests(1, other, fourth)
        assert same == (digests(10**9, one, second) == digests(10**9, other, fourth))
        assert digests(1, one, second) == digests(1, *copy.deepcopy((one, second)))


@given(values(), st.data())
def test_who_shares_is_told_at_once_as_one_by_one(value: Any, data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(value))
    namespace = {"a": value, "b": part, "c": [value], "d": [1], "e": copy.copy(value)}
    name = data.draw(st.sampled_from(sorted(namespace)))
    del value, part
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "_user_modules", list)
        with at_once(10**9):
            wanted = sharing._told_by_walking({name}, namespace, [], [sharing.MAX_WALK])
        with at_once(1):
            assert sharing._told_by_walking({name}, namespace, [], [sharing.MAX_WALK]) == wanted
            counted = sharing._told_by_counts({name}, namespace, [], ())
            assert counted in (wanted, None)
            with trees.remembered():
                assert [sharing._told_by_counts({name}, namespace, [], ()) for _ in range(2)] == [counted] * 2


def test_all_of_it_is_found() -> None:
    found = trees.inside(RECORDS)
    assert found is not None
    assert len(found) == 1 + 300 * 6
    assert next(iter(found.values())) is RECORDS
    assert all(found[id(record["in"]["x"])] is record["in"]["x"] for record in RECORDS)


@pytest.mark.parametrize("other", [{1}, bytearray(b"x"), Ellipsis, object(), RECORDS[0], [RECORDS[7]["tags"]]])
def test_what_is_not_just_that_is_left_to_who_looks_at_each(other: Any) -> None:
    assert trees.inside([*RECORDS, other]) is None


LEAVES = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), dt.date(2020, 1, 1), dt.time(1),
          dt.timedelta(1), Decimal("1.5"), np.float64(1.5), np.int8(1), np.bool_(True), range(3)]  # fmt: skip


class Zone(dt.tzinfo):
    """Of the user's: what it says counts."""


def test_dates_and_numbers_lead_nowhere() -> None:
    assert trees.inside([[leaf] for leaf in LEAVES]) is not None
    for other in dt.datetime(2020, 1, 1, tzinfo=Zone()), np.zeros(1), np.void(b"a"), np.array([1, "a"], dtype=object):
        assert trees.inside([[other], *LEAVES]) is None
    many = [[leaf, n] for n in range(100) for leaf in LEAVES]
    assert len({tuple(digests(1, many[:n])) for n in range(1, 200)}) == 199
    assert digests(1, many) == digests(1, copy.deepcopy(many))


@pytest.mark.parametrize("parts", [[(n, f"k{n}") for n in range(500)], [(n, None, 1.5) for n in range(9)] + [("a",)]])
def test_a_set_of_tuples_is_what_is_in_it_in_any_order(parts: list[Any]) -> None:
    known = digests(256, set(parts))
    assert known == digests(256, {tuple(map(copy.deepcopy, part)) for part in parts[::-1]})
    assert (
        len({*known, *digests(256, set(parts[1:])), *digests(256, {*parts, (1,)}), *digests(256, frozenset(parts))})
        == 4
    )


def test_a_tuple_of_numbers_may_stand_twice() -> None:
    pair = (1, 2)
    assert trees.inside([[pair], [pair]]) is not None
    assert trees.inside([[([],)], [([],)]]) is not None
    held = ([],)
    assert trees.inside([[held], [held]]) is None


def test_nobody_holds_what_was_looked_at() -> None:
    """Who counts references afterwards must not find one more."""
    record = {"a": [1]}
    before = len(gc.get_referrers(record["a"]))
    trees.inside([record])
    assert len(gc.get_referrers(record["a"])) == before


def test_counts_settle_it_for_many() -> None:
    namespace = {"docs": copy.deepcopy(RECORDS), "others": copy.deepcopy(RECORDS)}
    with trees.remembered():
        assert [sharing._told_by_counts({"docs"}, namespace, [], ()) for _ in range(2)] == [set()] * 2
    namespace["part"] = namespace["docs"][7]["tags"]
    assert sharing._told_by_counts({"docs"}, namespace, [], ()) == {"part"}
    with trees.remembered():
        assert sharing._told_by_counts({"docs"}, namespace, [], ()) == {"part"}
    namespace["others"][0]["tags"] = namespace.pop("part")
    assert sharing._told_by_counts({"docs"}, namespace, [], ()) is None
    assert sharing.sharing({"docs"}, namespace) == {"others"}


def test_what_was_found_is_not_remembered_for_longer() -> None:
    docs = copy.deepcopy(RECORDS)
    with trees.remembered():
        found = trees.inside(docs)
        assert trees.inside(docs) is found
    docs.append({})
    assert len(trees.inside(docs) or ()) == len(found or ()) + 1


def test_those_that_are_numbered_when_somebody_asks_have_the_numbers_they_would_have_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    docs = copy.deepcopy(RECORDS)
    inputs = [docs, docs[7], [docs[8]["tags"]], docs[8]["in"]["x"][1]]
    late = digests(1, *inputs)
    monkeypatch.setattr(meetings, "_MANY", 10**9)
    assert digests(1, *inputs) == late
    monkeypatch.setattr(meetings, "_MANY", 1)
    assert digests(1, *inputs) == late


def test_there_is_an_end_to_the_time() -> None:
    with pytest.raises(Unidentified):
        Digester(deadline=0.0).digest("v", RECORDS)

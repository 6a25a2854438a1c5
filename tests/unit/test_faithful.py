"""What pickle or cloudpickle would bring back as something else comes back as what it was, or is refused."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from nbcheckpoint.model import Checkpoint
from nbcheckpoint.store import open_store

DRAFT = Checkpoint(id="", created="", run="", step="", code="0" * 64)


def restored(**values: Any) -> dict[str, Any]:
    with open_store("memory://") as store:
        saved = store.save(DRAFT, values).checkpoint
        assert not saved.not_saved, saved.not_saved
        return store.load(saved.id).values


@pytest.mark.parametrize("made", [dict, OrderedDict])
@pytest.mark.parametrize("name", ["keys", "values", "items"])
def test_a_view_of_a_dict_shows_what_is_added_later(made: type, name: str) -> None:
    d = made(a=1)
    found = restored(d=d, view=getattr(d, name)())
    found["d"]["b"] = 2
    assert len(found["view"]) == 2
    assert type(found["view"]) is type(getattr(d, name)())


@pytest.mark.parametrize("name", ["keys", "values", "items"])
@pytest.mark.parametrize("passed", [0, 1, 3])
def test_an_iterator_over_a_dict_stands_where_it_stood_and_notices_changes(name: str, passed: int) -> None:
    d = {"a": 1, "b": 2, "c": 3}
    iterator = iter(getattr(d, name)())
    for _ in range(passed):
        next(iterator)
    rest = list(getattr(d, name)())[passed:]
    assert list(restored(d=d, i=iterator)["i"]) == rest
    if rest:
        found = restored(d=d, i=iterator)
        found["d"]["z"] = 9
        with pytest.raises(RuntimeError, match="changed size"):
            next(found["i"])


def test_an_iterator_that_has_come_to_its_end_stays_there() -> None:
    iterator = iter({"a": 1})
    assert list(iterator) == ["a"]
    assert list(restored(i=iterator)["i"]) == []


def test_an_exception_keeps_its_cause_and_context() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        error.add_note("a note") if hasattr(error, "add_note") else None
        kept = error
    found = restored(e=kept)["e"]
    assert (type(found), found.args, found.__suppress_context__) == (ValueError, ("outer",), True)
    assert isinstance(found.__cause__, KeyError)
    assert found.__cause__ is found.__context__
    assert getattr(found, "__notes__", None) == getattr(kept, "__notes__", None)


def test_a_view_of_bytes_stays_one() -> None:
    data = bytearray(b"abc")
    found = restored(data=data, view=memoryview(data))
    found["view"][0] = 65
    assert found["data"] == b"Abc"


def test_what_cannot_come_back_as_it_was_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("text")
    changed = {"a": 1, "b": 2}
    stale = iter(changed)
    next(stale)
    changed["c"] = 3
    with open(tmp_path / "f") as file, open_store("memory://") as store:
        odd = {
            "file": (file, "an open file"),
            "set": (iter({1}), "an iterator over a set: its order is another one next time"),
            "reverse": (reversed({"a": 1}), "an iterator over a dict"),
            "memory": (memoryview(b"abc")[1:], "a view of some memory"),
            "stale": (stale, "RuntimeError: dictionary changed size during iteration"),
        }
        lost = store.save(DRAFT, {name: value for name, (value, _) in odd.items()}).checkpoint.not_saved
    assert {item.name: item.why for item in lost} == {name: why for name, (_, why) in odd.items()}


@pytest.mark.parametrize("made", [list, bytearray, lambda of: array("b", of)])
@pytest.mark.parametrize("backwards", [False, True])
def test_an_iterator_beyond_the_end_of_what_became_shorter_is_refused(made: Any, backwards: bool) -> None:
    """Its own pickle would put it at the new end: what is appended next would be seen then, and is not now."""
    items = made([1, 2, 3, 4])
    iterator = reversed(items) if backwards else iter(items)
    if not backwards:
        assert [next(iterator) for _ in range(3)] == [1, 2, 3]
    with open_store("memory://") as store:
        assert not store.save(DRAFT, {"items": items, "i": iterator}).checkpoint.not_saved
        del items[1:]
        (refused,) = store.save(DRAFT, {"items": items, "i": iterator}).checkpoint.not_saved
        assert "shorter" in refused.why


def test_an_iterator_over_a_list_goes_on_seeing_what_is_appended() -> None:
    items = [1, 2]
    iterator = iter(items)
    next(iterator)
    found = restored(items=items, i=iterator)
    found["items"].append(3)
    assert list(found["i"]) == [2, 3]


@pytest.mark.parametrize("make", [list, bytearray, lambda of: array("b", of)])
@pytest.mark.parametrize("backwards", [False, True])
def test_an_iterator_over_a_list_that_is_over_stays_what_it_is(make: Any, backwards: bool) -> None:
    """Python writes those that are over as if all of them went forwards, through a list."""
    iterator = (reversed if backwards else iter)(make([1, 2]))
    assert len(list(iterator)) == 2
    found = restored(iterator=iterator)["iterator"]
    assert type(found) is type(iterator)
    assert list(found) == []


class Keeps:
    """Says itself what of it is pickled."""

    spare = 0

    def __init__(self) -> None:
        self.weights, self.lock, self.spare = [1], "open", 5

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **self.without()}  # type: ignore[dict-item]  # others leave something out

    def without(self) -> dict[str, Any]:
        return {}


class LeavesOut(Keeps):
    def __getstate__(self) -> dict[str, Any]:
        return {"weights": self.weights, "spare": 5}


class SetsToNone(Keeps):
    def without(self) -> dict[str, Any]:
        return {"lock": None}


class Rounds(Keeps):
    def without(self) -> dict[str, Any]:
        return {"spare": 4}


@pytest.mark.parametrize(("made", "what"), [(LeavesOut, "lock"), (SetsToNone, "lock"), (Rounds, "spare")])
def test_what_leaves_something_out_and_does_not_make_it_again_is_refused(made: type, what: str) -> None:
    """It came back without its attribute, and the cell that used it failed."""
    with open_store("memory://") as store:
        saved = store.save(DRAFT, {"a": made(), "b": [made()], "c": 1}).checkpoint
    assert [(item.name, item.path) for item in saved.not_saved] == [("a", ""), ("b", "b[0]")]
    assert saved.not_saved[0].why == f"its __getstate__ does not keep {what}"


class MakesAgain(LeavesOut):
    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock="open")


class HasADefault(Keeps):
    lock = "open"

    def __getstate__(self) -> dict[str, Any]:
        return {"weights": list(self.weights), "spare": 5}


class MakesItWhenAsked(LeavesOut):
    def __getattr__(self, name: str) -> str:
        if name == "lock":
            return "open"
        raise AttributeError(name)


@pytest.mark.parametrize("made", [Keeps, MakesAgain, HasADefault, MakesItWhenAsked])
def test_what_makes_again_what_it_leaves_out_is_saved(made: type) -> None:
    found = restored(a=made())["a"]
    assert (found.weights, found.lock, found.spare) == ([1], "open", 5)

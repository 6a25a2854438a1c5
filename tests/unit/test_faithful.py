"""What pickle or cloudpickle would bring back as something else comes back as what it was, or is refused."""

from __future__ import annotations

import copyreg
import datetime
import decimal
import fractions
import gc
import io
import os
import random
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar

import pandas as pd
import pytest

from nbcheckpoint.codec.pickle import NotebookPickler
from nbcheckpoint.fingerprint.kinds import is_mutable
from nbcheckpoint.fingerprint.values import Digester
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


class ShowsSome(dict):  # type: ignore[type-arg]  # of anything
    """What begins with an underscore is nobody's business."""

    def items(self) -> Any:
        return [(key, value) for key, value in dict.items(self) if not key.startswith("_")]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key.upper(), value)


class ShowsSomeInOrder(OrderedDict):  # type: ignore[type-arg]  # of anything
    items = ShowsSome.items  # type: ignore[assignment]  # on purpose


class ShowsSomeByDefault(defaultdict):  # type: ignore[type-arg]  # of anything
    items = ShowsSome.items  # type: ignore[assignment]  # on purpose

    def __init__(self, **more: Any) -> None:
        super().__init__(list, **more)


class Bag(Counter):  # type: ignore[type-arg]  # of anything
    def __init__(self, **more: Any) -> None:
        super().__init__(more)
        self.label = "a bag"

    def __iter__(self) -> Any:
        return iter(())


class _Backwards:
    __slots__ = ()

    def __iter__(self) -> Any:
        return reversed(sorted(super().__iter__())[1:])  # type: ignore[misc]  # of what it is mixed into

    def append(self, item: Any) -> None:
        super().append(-item)  # type: ignore[misc]


class BackwardsList(_Backwards, list):  # type: ignore[type-arg]  # of anything
    __slots__ = ("label",)


class BackwardsDeque(_Backwards, deque):  # type: ignore[type-arg]
    pass


class BackwardsSet(_Backwards, set):  # type: ignore[type-arg]
    pass


class BackwardsFrozenset(_Backwards, frozenset):  # type: ignore[type-arg]
    pass


_pairs = {"a": 1, "_b": 2}
_shown_in_part: list[tuple[Any, Any, Any]] = [
    (dict, ShowsSome(_pairs), ShowsSome({"a": 1, "_b": 3})),
    (dict, ShowsSomeInOrder(_pairs), ShowsSomeInOrder(_b=2, a=1)),
    (dict, ShowsSomeByDefault(**_pairs), ShowsSomeByDefault(a=1, _b=3)),
    (dict, Bag(a=1, b=2), Bag(a=1, b=3)),
    (list, BackwardsList([1, 2, 3]), BackwardsList([0, 2, 3])),
    (deque, BackwardsDeque([1, 2, 3], 5), BackwardsDeque([0, 2, 3], 5)),
    (set, BackwardsSet([1, 2, 3]), BackwardsSet([0, 2, 3])),
    (frozenset, BackwardsFrozenset([1, 2, 3]), BackwardsFrozenset([0, 2, 3])),
]


@pytest.mark.parametrize(("base", "value", "other"), _shown_in_part, ids=lambda v: type(v).__name__)
def test_a_container_of_the_users_comes_back_with_what_is_in_it_whatever_it_shows(
    base: Any, value: Any, other: Any
) -> None:
    value.label = [value]
    found = restored(x=value)["x"]
    assert base.__repr__(found) == base.__repr__(value)
    assert (type(found), found.label[0] is found) == (type(value), True)
    assert getattr(found, "default_factory", None) is getattr(value, "default_factory", None)
    assert getattr(found, "maxlen", None) == getattr(value, "maxlen", None)
    del value.label, found.label
    other.__dict__.pop("label", None) if hasattr(other, "__dict__") else None
    assert Digester().digest("x", found) == Digester().digest("x", value) != Digester().digest("x", other)


class Price(decimal.Decimal):
    note: Any = None


class Day(datetime.date):
    note: Any = None


class Share(fractions.Fraction):
    __slots__ = ("note",)


class Place(type(Path())):  # type: ignore[misc]  # whichever it is here
    note: Any = None


class Tally(Counter):  # type: ignore[type-arg]
    note: Any = None


class Groups(defaultdict):  # type: ignore[type-arg]
    note: Any = None


class Dice(random.Random):
    note: Any = None


_noted = [Price("1.5"), Day(2020, 1, 2), Share(1, 2), Place("x"), Tally("aab"), Groups(list, a=[1]), Dice(3)]


@pytest.mark.parametrize("value", _noted, ids=lambda v: type(v).__name__)
def test_attributes_that_a_class_of_pythons_own_does_not_pickle_come_back_and_count(value: Any) -> None:
    value.note = [value, 1]
    found = restored(x=value)["x"]
    assert (type(found), found.note[0] is found, found.note[1]) == (type(value), True, 1)
    assert Digester().digest("x", found) == Digester().digest("x", value)
    assert found == value or isinstance(value, Dice)
    found.note[1] = 2
    assert Digester().digest("x", found) != Digester().digest("x", value)
    assert is_mutable(type(value))
    del value.note


class Sealed:
    __slots__ = ("kept", "left")

    def __init__(self, left: Any) -> None:
        self.kept, self.left = 1, left

    def __getstate__(self) -> Any:
        return None, {"kept": self.kept}


class Registered:
    def __init__(self, left: Any) -> None:
        self.left = left


copyreg.pickle(Registered, lambda found: (Registered, (0,)))


class ByName:
    left: Any = None

    def __reduce__(self) -> str:
        return "BY_NAME"


BY_NAME = ByName()


@pytest.mark.parametrize("made", [Sealed, Registered])
def test_what_a_class_keeps_out_of_its_pickles_counts(made: Any) -> None:
    assert Digester().digest("x", made(1)) != Digester().digest("x", made(2))
    assert Digester().digest("x", made(1)) == Digester().digest("x", made(1))


def test_what_is_left_in_a_slot_is_missed() -> None:
    with open_store("memory://") as store:
        (refused,) = store.save(DRAFT, {"x": Sealed(1)}).checkpoint.not_saved
    assert refused.why == "its __getstate__ does not keep left"


def test_the_class_of_what_is_pickled_as_a_name_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Digester().digest("x", BY_NAME)
    monkeypatch.setattr(ByName, "left", 5)
    assert Digester().digest("x", BY_NAME) != before


class Has:
    def __init__(self, what: Any = None) -> None:
        self.what = what

    def run(self) -> int:
        return 1


def _two(self: Any) -> int:
    return 2


def _three(self: Any) -> int:
    return 3


_two.__name__ = _three.__name__ = "run"


def test_a_method_is_the_function_it_was_made_from() -> None:
    methods = [MethodType(function, Has()) for function in (Has.run, _two, _three)]
    assert len({Digester().digest("m", method) for method in methods}) == 3
    assert Digester().digest("m", Has().run) == Digester().digest("m", methods[0])
    obj = Has()
    obj.what = obj.run = MethodType(_two, obj)  # type: ignore[method-assign]
    found = restored(obj=obj, method=Has.run.__get__(obj))
    assert (found["obj"].run(), found["obj"].what(), found["method"]()) == (2, 2, 1)
    assert found["obj"].run.__self__ is found["method"].__self__ is found["obj"]


def test_the_settings_of_everybody_are_those_of_everybody() -> None:
    found = restored(context=decimal.getcontext(), other=decimal.Context(prec=7), environment=os.environ)
    assert found["context"] is decimal.getcontext()
    assert (found["other"].prec, found["environment"] is os.environ) == (7, True)


def test_the_environment_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBC_TEST_SECRET", "do not keep me")
    written = io.BytesIO()
    NotebookPickler(written, protocol=5).dump([os.environ, os.environb])
    assert b"do not keep me" not in written.getvalue()


class State:
    """One for everybody, as libraries have it that keep track of devices."""

    _state: dict[str, Any] = {}  # noqa: RUF012  # that is what it is about

    def __init__(self) -> None:
        self.__dict__ = self._state


def test_objects_that_have_one_state_go_on_having_it() -> None:
    """An `Accelerator` came back with a state of its own, and the library said that there was none."""
    state = State()
    state.device = "cpu"
    with open_store("memory://") as store:
        saved = store.save(DRAFT, {"state": state}).checkpoint
        State._state.clear()
        found = store.load(saved.id).values["state"]
    assert State().device == "cpu"
    State().device = "gpu"
    assert found.device == "gpu"
    State._state.clear()


class Node:
    """Something that can be referred to weakly."""

    def __init__(self, name: str) -> None:
        self.name, self.up, self.children = name, None, []


def test_weak_references_lead_where_they_led_and_hold_nothing() -> None:
    """A `Trainer` was never saved, for a reference to its loader that holds nothing."""
    top, child = Node("top"), Node("child")
    child.up, top.children = weakref.ref(top), [child, weakref.proxy(child)]
    found = restored(top=top, up=child.up, proxy=top.children[1])
    top = found["top"]
    assert top.children[0].up() is top
    assert found["up"]() is top
    found["proxy"].name = "other"
    assert top.children[0].name == top.children[1].name == "other"
    del top, found["top"]
    gc.collect()
    assert found["up"]() is None


def test_a_weak_reference_that_leads_nowhere_comes_back_so() -> None:
    gone, proxy = weakref.ref(Node("a")), weakref.proxy(Node("b"))
    found = restored(gone=gone, proxy=proxy)
    assert found["gone"]() is None
    with pytest.raises(ReferenceError):
        _ = found["proxy"].name


@pytest.mark.parametrize("make", [weakref.ref, weakref.proxy])
def test_one_to_what_is_not_saved_with_it_is_refused(make: Any) -> None:
    node = Node("held by nothing that is saved")
    with open_store("memory://") as store:
        saved = store.save(DRAFT, {"good": [1], "bad": [make(node)]}).checkpoint
    assert [(item.name, item.path) for item in saved.not_saved] == [("bad", "bad[0]")]
    assert "a weak reference to a Node that nothing else here holds" in saved.not_saved[0].why


def test_what_a_weak_reference_leads_to_counts() -> None:
    one, other = Node("one"), Node("other")
    for make in (weakref.ref, weakref.proxy):
        digests = {Digester().digest("x", [make(node)]) for node in (one, other)}
        assert len(digests) == 2


class Measured(pd.DataFrame):  # type: ignore[misc]  # pandas may have no types
    _metadata: ClassVar[list[str]] = ["unit"]


def test_a_frame_of_a_class_of_ones_own_has_only_the_attributes_it_was_given() -> None:
    with_unit, without = Measured({"x": [1]}), Measured({"x": [1]})
    with_unit.unit = "m"
    found = restored(a=with_unit, b=without)
    assert found["a"].unit == "m"
    assert not hasattr(found["b"], "unit")


def test_what_is_behind_an_exception_counts() -> None:
    plain, suppressed, caused, elsewhere = (ValueError(1) for _ in range(4))
    suppressed.__suppress_context__ = True
    caused.__cause__ = TypeError(8)
    elsewhere.__context__ = KeyError(9)
    digests = {Digester().digest("e", error) for error in (plain, suppressed, caused, elsewhere)}
    assert len(digests) == 4
    assert restored(e=suppressed)["e"].__suppress_context__

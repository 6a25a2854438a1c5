"""Which variables share objects: what the reference counts tell is what walking through everything finds."""

from __future__ import annotations

import ast
import functools
import gc
import itertools
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcheckpoint.notebook import items, sharing
from nbcheckpoint.notebook import namespace as names_


@pytest.fixture(autouse=True)
def _only_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_user_modules", list)  # those of all the tests, with all that they hold


def counted(names: set[str], namespace: dict[str, Any], *lookers_on: dict[str, Any]) -> set[str] | None:
    return sharing._told_by_counts(names, namespace, [], lookers_on)


def walked(names: set[str], namespace: dict[str, Any]) -> set[str] | None:
    return sharing._told_by_walking(names, namespace, [], [sharing.MAX_WALK])


class Plain:
    """Of the user's, with attributes."""


class Slots:
    __slots__ = ("held",)


@dataclass
class Record:
    items: list[Any] = field(default_factory=list)


def with_slots() -> Slots:
    made = Slots()
    made.held = [1]
    return made


def around_itself() -> Plain:
    made = Plain()
    made.itself, made.list = made, [made]
    return made


ALONE: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, [2, "x"]],
    "dict": lambda: {"a": [1], (1, 2): {"b": {3}}},
    "set": lambda: {1, "x"},
    "tuple": lambda: ([1], {}),
    "deque": lambda: deque([[1], [2]]),
    "defaultdict": lambda: defaultdict(list, a=[1]),
    "ordered": lambda: OrderedDict(a=[1]),
    "instance": around_itself,
    "slots": with_slots,
    "dataclass": lambda: Record([[1]]),
    "array": lambda: np.arange(5.0),
    "objects": lambda: np.array([[1], {"a": 2}, "x"], dtype=object),
    "generator": lambda: np.random.default_rng(1),
    "frame": lambda: pd.DataFrame({"n": [1, 2], "w": ["a", "b"]}),
    "series": lambda: pd.Series([1.5, 2.5], name="s"),
    "many": lambda: [{"n": [n]} for n in range(1000)],
    "long": lambda: [str(n) for n in range(100_000)],
    "iterator": lambda: enumerate(zip([[1]], {"a": 1}, strict=True)),
}


@pytest.mark.parametrize("kind", ALONE)
def test_what_only_its_name_refers_to_is_known_to_be_alone(kind: str) -> None:
    namespace = {"x": ALONE[kind](), "other": [1, [2]], "__builtins__": {}}
    assert counted({"x"}, namespace) == set() == walked({"x"}, namespace)


def closure(shared: Any) -> Any:
    return lambda: shared


def defaults(shared: Any) -> Any:
    def function(x: Any = shared) -> Any:
        return x

    return function


def in_a_class(shared: Any) -> Any:
    return type("Holder", (), {"attribute": shared, "__module__": "__main__"})


def suspended(shared: Any) -> Iterator[Any]:
    yield shared
    yield shared


def begun(shared: Any) -> Iterator[Any]:
    made = suspended(shared)
    next(made)
    return made


def in_slots(shared: Any) -> Slots:
    made = Slots()
    made.held = shared
    return made


class Reference(weakref.ref):  # type: ignore[type-arg]  # to anything
    """A weak reference with a class of its own, as in weak dictionaries."""


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda shared: shared,
    "list": lambda shared: [shared],
    "deep": lambda shared: {"a": [({"b": shared},)]},
    "tuple": lambda shared: (1, shared),
    "slots": in_slots,
    "closure": closure,
    "defaults": defaults,
    "partial": lambda shared: functools.partial(print, shared),
    "class": in_a_class,
    "suspended generator": begun,
    "iterator": lambda shared: iter([shared]),
    "weak reference": weakref.ref,
    "weak reference of a class": Reference,
    "weak proxy": weakref.proxy,
    "object array": lambda shared: np.array([shared, None], dtype=object),
    "series of objects": lambda shared: pd.Series([shared, None], dtype=object),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("inside", [False, True], ids=["as it is", "inside of another"])
def test_whoever_else_leads_to_it_is_not_overlooked(holder: str, inside: bool) -> None:
    shared = Plain()
    namespace = {"x": [shared] if inside else shared, "y": HOLDERS[holder](shared), "z": [1]}
    del shared
    found = counted({"x"}, namespace)
    assert found is None or found == {"y"}
    assert sharing.sharing({"x"}, namespace) == {"y"}


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize("holder", [weakref.ref, weakref.proxy, lambda x: weakref.WeakValueDictionary(a=x)])
def test_sets_can_be_referred_to_weakly(kind: Callable[[Any], Any], holder: Callable[[Any], Any]) -> None:
    shared = kind([Plain()])
    namespace = {"x": shared, "y": holder(shared)}
    del shared
    assert sharing.sharing({"x"}, namespace) == walked({"x"}, namespace) == {"y"}


class PassesForArray:
    """As proxies of libraries do: whatever it is asked, what is behind it answers."""

    def __init__(self, behind: Any) -> None:
        self.__dict__["behind"] = behind

    @property
    def __class__(self) -> Any:
        return type(self.__dict__["behind"])

    @__class__.setter
    def __class__(self, kind: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["behind"], name)


class OwnBase(np.ndarray):  # type: ignore[type-arg]  # of anything
    """Says of another array that it is its base."""

    parent: Any = None

    @property
    def base(self) -> Any:
        return self.parent


def test_what_passes_for_an_array_is_not_believed() -> None:
    shared = [1]
    array = np.empty(1, dtype=object)
    array[0] = shared
    namespace = {"x": PassesForArray(array), "y": [shared]}
    del shared, array
    assert sharing.sharing({"x"}, namespace) == walked({"x"}, namespace) == {"y"}
    parent = np.arange(3.0)
    child = np.arange(2.0).view(OwnBase)
    child.parent = parent
    namespace = {"x": child, "y": [parent]}
    del parent, child
    assert sharing.sharing({"x"}, namespace) == walked({"x"}, namespace) == {"y"}


def test_a_variable_that_is_the_namespace_or_the_results_leads_to_all_of_them() -> None:
    namespace: dict[str, Any] = {"x": [1]}
    namespace["all"] = namespace
    assert sharing.sharing({"x"}, namespace) == walked({"x"}, namespace) == {"all"}
    shown = [1]
    namespace = {"x": shown, "Out": {1: shown}}
    namespace["history"] = namespace["Out"]
    del shown
    assert sharing.sharing({"x"}, namespace) == walked({"x"}, namespace) == {"history"}


class GivesWhatItHas:
    def __init__(self, items: Any) -> None:
        self.iterator = reversed(items)

    def __reversed__(self) -> Any:
        return self.iterator


HEADS = {
    "items": True,
    "range(3)": True,
    "enumerate(items)": True,
    "zip(items, items)": True,
    "map(str, items)": True,
    "reversed(given)": False,
    "held": False,
    "iter(items)": False,
    "(x for x in items)": False,
    "enumerate": False,
}


@pytest.mark.parametrize("head", HEADS)
def test_an_iterator_nobody_else_can_have_is_made_by_the_loop(head: str) -> None:
    names: dict[str, Any] = {"items": [[1]], "given": GivesWhatItHas((1, 2)), "held": enumerate([[1]])}
    node = ast.parse(f"for x in {head}: pass").body[0]
    assert isinstance(node, ast.For)
    iterable = eval(compile(ast.Expression(node.iter), "", "eval"), {}, names) if head != "enumerate" else names["held"]
    assert items.makes_iterator(node, iterable, names) is HEADS[head]
    assert not items.makes_iterator(node, iterable, {**names, "enumerate": 1}) or "enumerate" not in head


def test_a_method_bound_to_it_leads_to_it() -> None:
    shared = [1]
    namespace = {"x": shared, "y": shared.append}
    del shared
    assert sharing.sharing({"x"}, namespace) == {"y"}


def test_views_of_an_array_and_parts_of_a_frame_lead_to_it() -> None:
    base = np.arange(10.0)
    frame = pd.DataFrame({"a": base.copy(), "b": 1})
    namespace = {"base": base, "view": base[2:5], "again": base[2:][1:], "frame": frame, "column": frame["a"]}
    del base, frame
    gc.collect()
    for name in namespace:
        assert counted({name}, namespace) in (None, walked({name}, namespace))
    assert sharing.sharing({"view"}, namespace) == {"base", "again"}
    assert sharing.sharing({"frame"}, namespace) == (set() if COPIES_ON_WRITE else {"column"})


COPIES_ON_WRITE = not pd.__version__.startswith("2.")
FRAME_PARTS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "a column": lambda frame: frame["a"],
    "another frame": lambda frame: frame.head(1),
    "categories": lambda frame: frame["c"],
    "texts": lambda frame: frame["t"],
    "a copy": lambda frame: frame.copy(),
    "with another index": lambda frame: frame.set_index("a"),
}
FRAME_HOLDERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "its values": lambda frame: frame["a"].to_numpy(),
    "its array": lambda frame: frame["n"].array,
    "its groups": lambda frame: frame.groupby("a"),
    "its index": lambda frame: frame.index,
    "what is in it": lambda frame: frame["o"][0],
    "objects in a copy": lambda frame: frame.copy(),
}


def a_frame() -> pd.DataFrame:
    frame = pd.DataFrame({"a": [1.0, 2.0], "t": ["x", "y"], "c": pd.Categorical(["u", "v"])})
    frame["n"] = pd.array([1, None], dtype="Int64")
    return frame


@pytest.mark.parametrize("part", FRAME_PARTS)
def test_memory_that_is_copied_on_writing_is_not_shared(part: str) -> None:
    namespace: dict[str, Any] = {"frame": a_frame()}
    namespace["part"] = FRAME_PARTS[part](namespace["frame"])
    assert not COPIES_ON_WRITE or walked({"frame"}, namespace) == walked({"part"}, namespace) == set()
    assert not COPIES_ON_WRITE or sharing.sharing({"part"}, namespace) == set()


@pytest.mark.parametrize("holder", FRAME_HOLDERS)
def test_who_looks_into_a_frame_otherwise_shares_with_it(holder: str) -> None:
    frame = a_frame()
    frame["o"] = [[1], [2]]
    namespace: dict[str, Any] = {"frame": frame, "other": FRAME_HOLDERS[holder](frame)}
    del frame
    assert sharing.sharing({"frame"}, namespace) == {"other"}
    assert sharing.sharing({"other"}, namespace) == {"frame"}


def test_columns_that_do_not_keep_count_of_each_other_share() -> None:
    array = np.arange(3.0)
    namespace = {"one": pd.Series(array, copy=False), "two": pd.Series(array, copy=False)}
    del array
    assert sharing.sharing({"one"}, namespace) == {"two"}


def test_rows_and_what_an_iterator_gave_lead_to_their_array() -> None:
    records, numbers = np.zeros(3, dtype="f8,i4"), np.arange(4.0)
    x = next(np.nditer(numbers, op_flags=[["readwrite"]]))
    namespace = {
        "records": records,
        "row": records[1],
        "numbers": numbers,
        "x": x,
        "m": np.asarray(memoryview(numbers)),
    }
    del records, numbers, x
    for name, others in {"row": {"records"}, "records": {"row"}, "x": {"numbers", "m"}, "m": {"numbers", "x"}}.items():
        assert counted({name}, namespace) in (None, others)
        assert sharing.sharing({name}, namespace) == others


def test_somebody_nobody_knows_leaves_a_doubt() -> None:
    namespace = {"x": [[1]], "z": [2]}
    assert counted({"x"}, namespace) == set()
    somewhere = namespace["x"][0]
    assert counted({"x"}, namespace) is None
    del somewhere
    assert counted({"x"}, namespace) == set()


def test_those_who_only_look_on_are_counted() -> None:
    namespace = {"x": [[1]], "z": [2]}
    before, values = dict(namespace), {"x": namespace["x"]}
    assert counted({"x"}, namespace) is None
    assert counted({"x"}, namespace, before) is None
    assert counted({"x"}, namespace, before, values) == set()
    assert counted({"x"}, namespace, before, before, values) == set()  # each of them once


def test_one_who_looks_on_and_is_a_variable_too_is_not_counted_twice() -> None:
    """Else the two of them would account for somebody else as well."""
    results: dict[int, Any] = {1: [[1]]}
    namespace: dict[str, Any] = {"Out": results, "mine": results, "other": [results[1]]}
    del results
    assert counted({"mine"}, namespace) is None
    assert sharing.sharing({"mine"}, namespace) == {"other"}
    namespace["all"] = namespace
    assert counted({"all"}, namespace) is None


def test_earlier_results_are_nobodys_variables() -> None:
    shown = [[1]]
    namespace = {"x": shown, "Out": {3: shown}, "_": shown, "_3": shown}
    del shown
    assert counted({"x"}, namespace) == set() == walked({"x"}, namespace)


def test_a_tuple_of_constants_may_be_anybodys() -> None:
    constant = (1, "a", (2.0,))
    namespace = {"x": [constant, [1]], "y": [constant]}
    assert walked({"x"}, namespace) == set()
    assert sharing.sharing({"x"}, namespace) == set()


def test_what_is_gone_through_belongs_to_its_variable() -> None:
    namespace = {"x": [[1], [2]], "y": {"a": 1}, "z": [2]}
    for make in (iter, enumerate):
        assert sharing._told_by_counts(set(), namespace, [make(namespace["x"])], ()) == {"x"}
    iterator = zip(namespace["x"], namespace["y"], strict=True)
    assert sharing._told_by_counts(set(), namespace, [iterator], ()) == {"x", "y"}


def test_two_objects_of_a_class_with_slots_share_nothing() -> None:
    namespace = {"x": with_slots(), "y": with_slots()}
    assert counted({"x"}, namespace) == set() == walked({"x"}, namespace)


def test_a_class_with_a_list_of_its_own_leaves_a_doubt() -> None:
    class Registry:
        known: list[Any] = []  # noqa: RUF012  # shared by design

    Registry.__module__ = "__main__"
    namespace = {"x": Registry(), "y": Registry.known}
    assert counted({"x"}, namespace) is None


Shape = st.recursive(
    st.just("leaf"),
    lambda inner: st.lists(st.one_of(inner, st.integers(0, 3)), max_size=3),
    max_leaves=6,
)
"""Lists of lists; a number is one of four objects that anybody may hold."""


@given(shapes=st.lists(Shape, min_size=2, max_size=4), kinds=st.lists(st.integers(0, 4), min_size=8, max_size=8))
def test_counting_finds_what_walking_finds_or_says_that_it_does_not_know(shapes: list[Any], kinds: list[int]) -> None:
    pool: list[Any] = [[], {}, Plain(), [1]]
    build = iter(kinds * 100)

    def make(shape: Any) -> Any:
        if isinstance(shape, int):
            return pool[shape]
        inside = [make(part) for part in shape] if isinstance(shape, list) else []
        kind = next(build)
        if kind == 1:
            return tuple(inside)
        if kind == 2:
            return dict(enumerate(inside))
        if kind == 3:
            made = Plain()
            made.held = inside  # type: ignore[attr-defined]  # as users do
            return made
        if kind == 4 and inside:
            return types.SimpleNamespace(a=inside[0], b=closure(inside[-1]))
        return inside

    namespace = {f"v{n}": make(shape) for n, shape in enumerate(shapes)}
    pool.clear()
    for name in namespace:
        assert counted({name}, namespace) in (None, walked({name}, namespace))
        everything = sharing.closed({name}, namespace)
        assert everything is not None
        assert name in everything


def test_a_function_made_at_run_time_is_an_object_that_can_be_shared() -> None:
    namespace: dict[str, Any] = {"x": [lambda: None]}
    namespace["y"] = namespace["x"][0]
    assert sharing.sharing({"x"}, namespace) == {"y"}


def test_a_tuple_that_leads_to_nothing_mutable_is_not_shared() -> None:
    namespace: dict[str, Any] = {"x": [(tuple(range(3)),)]}  # not a constant of this code
    namespace["y"] = namespace["x"][0]
    assert sharing.sharing({"x"}, namespace) == set()


def test_a_thread_that_binds_names_meanwhile_does_no_harm() -> None:
    variables: dict[str, Any] = {f"v{n}": [n] for n in range(100)}
    done = threading.Event()

    def work() -> None:
        for number in itertools.count():
            variables[f"new{number % 500}"] = [number]
            variables.pop(f"new{(number + 250) % 500}", None)
            if done.is_set():
                return

    before, thread = sys.getswitchinterval(), threading.Thread(target=work)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(300):
            there = variables.copy()
            assert not names_.rebound(there, variables) & {f"v{n}" for n in range(100)}
            assert sharing.sharing({"v1"}, variables) == set()
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(before)


def test_a_class_that_says_nothing_of_its_module_is_looked_at_like_any_other() -> None:
    namespace = {"x": type("Odd", (), {"__module__": None})(), "y": [1]}
    assert sharing.sharing({"x"}, namespace) == set()


def test_a_generator_leads_to_what_it_holds_and_not_to_all_globals() -> None:
    """Before Python 3.11 it leads to its frame, and a loop over one could not be gone on with."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def each(rows):\n    for row in rows:\n        yield row\nrows, other = [[1], [2]], [3]", namespace)
    made = eval("each(rows)", namespace)
    next(made)
    assert sharing.sharing((), namespace, roots=[made]) == {"rows"}

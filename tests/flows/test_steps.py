"""A step is a function that is not run again: unless anything it depends on is not what it was."""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.engine import context
from nbcheckpoint.errors import NotSaveable, UsageError
from nbcheckpoint.store import Store
from tests.flows.bodies import note

FACTOR = 2
SETTINGS = {"depth": 1}


def helper(x: int) -> int:
    return deeper(x) * FACTOR


def deeper(x: int) -> int:
    return x + 1


@nbc.step
def double(x: int, *, verbose: bool = False) -> int:
    note(("double", x))
    return helper(x)


def test_the_same_call_is_not_run_again(store: Store, ran: list[Any]) -> None:
    assert [double(1), double(1), double(x=1), double(1, verbose=False)] == [4] * 4
    assert ran == [("double", 1)]
    assert double(2) == 6
    assert len(ran) == 2


def test_a_result_outlives_the_process_that_made_it(store: Store, ran: list[Any], tmp_path: Path) -> None:
    double(5)
    with nbc.open_store(tmp_path / "store") as another:
        context.use(another)
        assert double(5) == 12
    assert ran == [("double", 5)]


@pytest.mark.parametrize("name", ["FACTOR", "helper", "deeper"])
def test_what_its_helpers_read_counts(store: Store, ran: list[Any], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    double(1)
    changed = {"FACTOR": 3, "helper": lambda x: 7, "deeper": lambda x: x + 100}
    monkeypatch.setitem(globals(), name, changed[name])
    double(1)
    assert len(ran) == 2
    monkeypatch.undo()
    assert double(1) == 4
    assert len(ran) == 2, "and back again it is there"


def made(body: str) -> Any:
    """A step from source, as a cell or module would make it."""
    space: dict[str, Any] = {"nbc": nbc, "note": note, "__name__": "tests.flows.made", "SETTINGS": SETTINGS}
    exec(body, space)
    return space["f"]


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("def f(x): note(1); return x", "def f(x): note(1); return x + 0"),
        ("def f(x, k=1): note(1); return x * k", "def f(x, k=2): note(1); return x * k"),
        ("def f(x): note(1); return (lambda y: y)(x)", "def f(x): note(1); return (lambda y: y + 1)(x)"),
    ],
)
def test_an_edit_is_a_new_step(store: Store, ran: list[Any], then: str, now: str) -> None:
    made("@nbc.step\n" + then)(1)
    made("@nbc.step\n" + now)(1)
    assert len(ran) == 2
    made("@nbc.step\n" + then + "  # a comment\n\n")(1)
    assert len(ran) == 2


def test_a_closure_counts(store: Store, ran: list[Any]) -> None:
    def make(k: int) -> Any:
        @nbc.step
        def scaled(x: int) -> int:
            note(k)
            return x * k

        return scaled

    assert [make(2)(3), make(3)(3), make(2)(3)] == [6, 9, 6]
    assert ran == [2, 3]


def test_a_changed_setting_in_a_dict_counts(store: Store, ran: list[Any]) -> None:
    f = made("@nbc.step\ndef f(x): note(1); return x * SETTINGS['depth']")
    assert f(3) == 3
    SETTINGS["depth"] = 5
    try:
        assert f(3) == 15
    finally:
        SETTINGS["depth"] = 1


class Model:
    def __init__(self, weight: int) -> None:
        self.weight = weight

    @nbc.step
    def predict(self, x: int) -> int:
        note(("predict", self.weight, x))
        return self.weight * x


def test_a_method_depends_on_its_instance(store: Store, ran: list[Any]) -> None:
    assert [Model(2).predict(4), Model(2).predict(4), Model(3).predict(4)] == [8, 8, 12]
    assert ran == [("predict", 2, 4), ("predict", 3, 4)]


def test_a_step_inside_a_step_counts_as_its_code(store: Store, ran: list[Any]) -> None:
    inner = made("@nbc.step\ndef f(x): note('in'); return x")
    outer = made("@nbc.step\ndef f(x): note('out'); return g(x)")
    outer.spec.function.__globals__["g"] = inner
    outer(1)
    outer(1)
    assert ran == ["out", "in"]
    outer.spec.function.__globals__["g"] = made("@nbc.step\ndef f(x): note('in'); return -x")
    assert outer(1) == -1


def test_files_it_reads_count(store: Store, ran: list[Any], tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text("1")

    @nbc.step
    def load(path: str) -> str:
        note("load")
        with open(path) as file:
            return file.read()

    assert load(str(data)) == load(str(data)) == "1"
    assert ran == ["load"]
    data.write_text("2")
    assert load(str(data)) == "2"


def test_a_file_it_looks_for_counts_also_when_it_is_not_there(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = made(
        "import os\n"
        "@nbc.step\n"
        "def given(path): return os.path.exists(path)\n"
        "@nbc.step\n"
        "def constant(): return os.path.exists('here.flag')\n"
        "@nbc.step\n"
        "def fails():\n"
        "    if not os.path.exists('here.flag'): raise OSError\n"
        "    return True\n"
        "@nbc.step\n"
        "def outer():\n"
        "    try: return fails()\n"
        "    except OSError: return False\n"
        "def f(): return given('here.flag'), constant(), outer()\n"
    )
    for there in (False, True, False, True):
        (tmp_path / "here.flag").touch() if there else (tmp_path / "here.flag").unlink(missing_ok=True)
        assert known() == (there, there, there)


def test_files_it_is_said_to_depend_on_count(store: Store, ran: list[Any], tmp_path: Path) -> None:
    @nbc.step(files=[str(tmp_path / "*.cfg")])
    def configured() -> int:
        note("ran")
        return 1

    configured()
    configured()
    (tmp_path / "a.cfg").write_text("x")
    configured()
    (tmp_path / "a.cfg").write_text("y")
    configured()
    assert len(ran) == 3


def test_an_environment_variable_it_names_counts(store: Store, ran: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    f = made("import os\n@nbc.step\ndef f(): note(1); return os.environ.get('REGION')")
    monkeypatch.setenv("REGION", "north")
    assert f() == f() == "north"
    monkeypatch.setenv("REGION", "south")
    assert f() == "south"
    assert len(ran) == 2


def test_what_is_ignored_does_not_count(store: Store, ran: list[Any]) -> None:
    @nbc.step(ignore=("verbose",))
    def f(x: int, verbose: bool = False) -> int:
        note("ran")
        return x

    f(1)
    f(1, verbose=True)
    assert ran == ["ran"]


def test_what_has_expired_does_not_count(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def f() -> int:
        note("ran")
        return 1

    f()
    f.options(expire="7d")()
    assert ran == ["ran"]
    f.options(expire=0)()
    assert ran == ["ran", "ran"]


def test_random_numbers_go_on_as_if_it_had_run(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def draw() -> float:
        note("drew")
        return random.random()

    random.seed(7)
    first, behind = draw(), random.random()
    random.seed(7)
    assert (draw(), random.random()) == (first, behind)
    assert ran == ["drew"]
    random.seed(8)
    assert draw() != first


def test_an_argument_changed_in_place_is_not_saved_and_says_so(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def add(rows: list[int]) -> int:
        note("ran")
        rows.append(len(rows))
        return len(rows)

    rows: list[int] = []
    with pytest.warns(UserWarning, match="rows was changed in place"):
        add(rows)
    with pytest.warns(UserWarning, match="rows was changed in place"):
        assert add([]) == 1
    assert len(ran) == 2
    assert rows == [0]


def test_what_is_returned_is_never_what_was_given_before(store: Store) -> None:
    """004-12: Stored state is not aliased to live state."""

    @nbc.step
    def rows() -> list[int]:
        return [1]

    rows().append(2)
    rows().append(3)
    assert rows() == [1]


def test_a_result_made_of_an_argument_is_made_of_it_again(store: Store, ran: list[Any]) -> None:
    """Which objects are one object is part of what a call returns: restored, it is still so."""

    @nbc.step
    def checked(rows: list[int]) -> list[int]:
        note("checked")
        return rows

    @nbc.step
    def boxed(rows: list[int], extra: dict[str, int]) -> dict[str, Any]:
        note("boxed")
        return {"rows": rows, "twice": [rows, extra], "own": list(rows)}

    for _ in range(2):
        rows, extra = [1, 2], {"k": 1}
        assert checked(rows) is rows
        box = boxed(rows, extra)
        assert box["rows"] is rows
        assert box["twice"][0] is rows
        assert box["twice"][1] is extra
        assert box["own"] == rows
        rows.append(3)
        assert box["rows"] == [1, 2, 3]
    assert ran == ["checked", "boxed"]
    assert checked.map([[1], [2]]) == checked.map([[1], [2]]) == [[1], [2]]


def test_a_result_that_cannot_be_saved_is_returned_and_told(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def numbers() -> Any:
        note("ran")
        return (n for n in (1, 2))

    with pytest.warns(UserWarning, match="it is not saved: its result"):
        assert list(numbers()) == [1, 2]
    with pytest.raises(NotSaveable):
        numbers.options(on_save_error="fail")()


def test_an_input_that_cannot_be_identified_makes_it_run(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def count(rows: Any) -> int:
        note("ran")
        return len(list(rows))

    for _ in range(2):
        with pytest.warns(UserWarning, match="rows cannot be identified"):
            assert count(i for i in range(3)) == 3
    assert len(ran) == 2


def test_none_false_and_empty_are_results(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def give(x: Any) -> Any:
        note("ran")
        return x

    for value in (None, False, 0, "", [], {}):
        assert give(value) == give(value) == value
    assert len(ran) == 6


def test_nothing_is_saved_of_what_fails(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def fail(x: int) -> None:
        note("ran")
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            fail(1)
    assert len(ran) == 2


def test_fifty_different_calls_are_all_kept(store: Store) -> None:
    """Retention keeps five versions of a step: a call with other arguments is another step."""

    @nbc.step
    def square(x: int) -> int:
        return x * x

    for x in range(50):
        square(x)
    store.prune(grace_seconds=0)
    assert len(store.backend.scan("checkpoint/")) == 50


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retris": 3}, "retris"),
        ({"scope": "world"}, "scope is 'world'"),
        ({"on_failure": "explode"}, "on_failure is 'explode'"),
        ({"expire": "soon"}, "is not an age"),
        ({"retries": -1}, "retries is -1"),
        ({"retries": 1.5}, "retries is 1.5"),
        ({"timeout": 0}, "timeout is 0"),
        ({"backoff": -1}, "backoff is -1"),
        ({"expire": -1}, "expire is -1"),
        ({"retry_on": "OSError"}, "retry_on is 'OSError'"),
        ({"retry_on": ("OSError",)}, "retry_on is"),
        ({"every": "often"}, "is not an age"),
        ({"every": -1}, "every is -1"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        nbc.step(**options)(lambda: None)
    with pytest.raises(UsageError):
        nbc.step(3)  # type: ignore[call-overload]  # on purpose


def test_wrong_arguments_are_told_as_python_does(store: Store) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        double()  # type: ignore[call-arg]  # on purpose


def test_a_full_store_costs_the_saving_and_not_the_result(
    store: Store, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """002-11, 004-5, C1."""
    from nbcheckpoint.errors import StoreFull

    def full(*args: Any, **kwargs: Any) -> Any:
        raise StoreFull("no space left")

    monkeypatch.setattr(store, "save", full)
    with pytest.warns(UserWarning, match="it is not saved: no space left"):
        assert double(1) == 4
    with pytest.raises(StoreFull):
        double.options(on_save_error="fail")(1)


def test_a_large_result_is_told(store: Store) -> None:
    """001-18, 002-7, C9."""

    @nbc.step(warn_size="1KB")
    def large() -> bytes:
        return os.urandom(5000)

    with pytest.warns(UserWarning, match="its result takes 5"):
        large()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large.options(warn_size=0, expire=0)()


def test_options_of_libraries_count_and_need_not_be_the_default(store: Store, ran: list[Any]) -> None:
    """A kernel has some that are not: in one nothing was ever given back."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImportWarning)
        assert [double(1), double(1)] == [4] * 2
        assert len(ran) == 1
        warnings.simplefilter("error", UnicodeWarning)
        double(1)
        assert len(ran) == 2


@nbc.step
def read_named(path: str) -> str:
    with open(path) as file:
        return note(path) and file.read()


@nbc.step
def refuse(what: str) -> None:
    raise ValueError(what)


@nbc.flow
def no_text(path: str) -> Any:
    nbc.mark(path=path)
    try:
        refuse(path)
    except ValueError as error:
        return read_named(path), read_named.map([path], progress=False), str(error)


def test_a_name_that_is_no_text_is_no_trouble(store: Store, ran: list[Any], tmp_path: Path) -> None:
    """What had read such a file was computed, and then failed, because its name could not be written down."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")
    Path(path).write_text("rows")
    assert no_text(path) == ("rows", ["rows"], path)
    assert "\\udcff.csv" in str([step.error for step in store.runs()[0].steps()])

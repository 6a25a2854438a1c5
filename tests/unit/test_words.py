"""The pure parts of `%checkpoint`: which cell is meant, where a name's last value is, what comes next, how it looks."""

from __future__ import annotations

import ast
import random
import sys
import types
from typing import Any

import pytest
from msgspec.structs import replace

from nbcheckpoint.errors import Error, NotFound, UsageError
from nbcheckpoint.model import Checkpoint, Input, NotSaved, Step, Value
from nbcheckpoint.notebook import document, words
from nbcheckpoint.notebook.answer import Answer, untouched_random
from nbcheckpoint.notebook.foresight import Assumed, Foresight, Known, Unknown
from nbcheckpoint.notebook.history import CellRun, Statement, first_line, nearest
from nbcheckpoint.notebook.plan import Planned, total
from nbcheckpoint.notebook.timetravel import Missing, following, last_session, outline, split
from nbcheckpoint.notebook.why import choose


def checkpoint(id: str, source: str = "", **fields: Any) -> Checkpoint:
    names = fields.pop("names", ())
    values = tuple(Value(name=name, type="int") for name in names)
    given: dict[str, Any] = {"run": "r", "step": "000000.000", "code": id, "created": f"2026-01-01T00:00:0{id[-1]}Z"}
    return Checkpoint(id=id, source=source, values=values, **{**given, **fields})


def cell(at: int, *statements: Checkpoint | str, status: Any = "completed", session: int = 1, **fields: Any) -> CellRun:
    """A cell that ran; a statement given by its source was not saved."""
    found = []
    for number, item in enumerate(statements):
        meta = {"source": item, "problem": "it asks for input"} if isinstance(item, str) else {}
        step = Step(run="r", address=f"{at:06d}.{number:03d}", name="n", kind="statement", meta=meta)
        found.append(Statement(step, None if isinstance(item, str) else item))
    given: dict[str, Any] = {"name": f"cell {at}", "cell": f"id-{at}", **fields}
    return CellRun(Step(run="r", address=f"{at:06d}", status=status, meta={"session": session}, **given), tuple(found))


def same(source: str) -> str:
    return source


# Which cell is meant


def test_a_cell_is_meant_by_place_name_or_id() -> None:
    cells = [cell(1, name="load"), cell(2, name="train"), cell(3, name="train")]
    assert choose(cells, "") is cells[2]
    assert choose(cells, "1") is choose(cells, "-1") is cells[2]
    assert choose(cells, "3") is cells[0]
    assert choose(cells, "load") is choose(cells, "id-1") is choose(cells, "loa") is cells[0]
    assert choose(cells, "train") is cells[2], "the last of that name"
    with pytest.raises(NotFound, match="there is no cell 4"):
        choose(cells, "4")
    with pytest.raises(NotFound, match="no cell nope"):
        choose(cells, "nope")
    with pytest.raises(UsageError, match="could be any of 3"):
        choose(cells, "id-")
    with pytest.raises(NotFound):
        choose([], "")


def test_the_nearest_version_of_a_statement() -> None:
    here = {"workflow": "w", "cell": "c#1"}
    old = checkpoint("o1", "y = [x]", meta=here)
    new = checkpoint("n2", "y = [x, 1]", meta=here)
    elsewhere = checkpoint("e3", "y = [x, 1, 2]", meta={"workflow": "w", "cell": "d#0"})
    stranger = checkpoint("s4", "y = [x, 2]", meta={"workflow": "other", "cell": "c#1"})
    untrusted = checkpoint("u5", "y = [x, 2]", meta=here, trusted=False)
    everyone = [old, new, elsewhere, stranger, untrusted]
    assert nearest("y = [x, 2]", "c#1", "w", everyone) is new
    assert nearest("y = [x, 1, 2, 3]", "moved#0", "w", everyone) is elsewhere
    assert nearest("anything", "c#1", "w", everyone, code="o1") is old, "the same code counts first"
    assert nearest("import this", "none#0", "w", everyone) is None
    assert nearest("something_else(entirely)", "c#1", "w", everyone) is new, "what stood in that place"


# Where a name's last value is


def test_a_name_never_gets_an_older_value_than_its_last() -> None:
    first = checkpoint("c1", names=("a", "b", "gone", "lock"))
    lost = NotSaved(name="lock", type="Lock", why="cannot be pickled")
    second = checkpoint("c2", names=("a",), deleted=("gone",), not_saved=(lost,))
    found = outline([cell(1, first, second, "b = input()")], same)
    assert found.last["a"] is second
    assert found.deleted == {"gone"}
    assert isinstance(found.last["lock"], Missing)
    assert isinstance(found.last["b"], Missing)
    assert "it asks for input" in found.last["b"].why
    assert [s.source for s in found.last["b"].statements] == ["b = input()"]


def test_what_is_not_trusted_is_missing() -> None:
    planted = checkpoint("c2", "a = 2", names=("a",), trusted=False)
    found = outline([cell(1, checkpoint("c1", names=("a",)), planted)], same)
    assert isinstance(found.last["a"], Missing)
    assert "not signed by you" in found.last["a"].why
    assert not found.last["a"].statements, "its source is never run"


def test_who_read_a_name_last_is_its_witness() -> None:
    made = checkpoint("c1", names=("a",))
    read = checkpoint("c2", names=("b",), inputs=(Input(name="a", digest="d"),))
    assert outline([cell(1, made, read)], same).witness == {"a": read.inputs}
    assert outline([cell(1, made, read, made)], same).witness == {}, "it is another value now"
    doubtful = outline([cell(1, made, "a.append(input())")], same).doubtful
    assert doubtful.keys() == {"a"}
    assert not outline([cell(1, made, "a.append(input())", read)], same).doubtful, "somebody looked since"


def test_what_cannot_be_compared_is_made_by_all_who_had_it() -> None:
    lost = (NotSaved(name="lock", type="Lock", why="cannot be pickled"),)
    make = checkpoint("c1", "lock = Lock()", not_saved=lost)
    use = checkpoint("c2", "n = len(lock)", names=("n",), not_saved=lost, mutated=("lock",))
    where = outline([cell(1, make, use)], same).last["lock"]
    assert isinstance(where, Missing)
    assert [s.source for s in where.statements] == ["lock = Lock()", "n = len(lock)"]


def test_only_the_last_kernel_counts_and_an_unfinished_cell_is_run_again() -> None:
    one = checkpoint("c1", names=("a",))
    cells = [cell(1, one), cell(2, one, session=2), cell(3, one, session=2, status="running"), cell(4, session=3)]
    assert last_session(cells) == cells[1:3], "a kernel that did nothing has nothing"
    assert split(cells[1:3]) == ([cells[1]], cells[2])
    assert split(cells[:2]) == (cells[:2], None)
    assert split([]) == ([], None)


def notebook(*sources: str, auto: bool = False) -> list[document.CodeCell]:
    def transform(source: str) -> str:
        from nbcheckpoint.notebook.options import mark_cell

        return "".join(mark_cell(source.splitlines(keepends=True)))

    return [document.understand(n, f"id-{n}", s, transform, auto=auto) for n, s in enumerate(sources, 1)]


def test_what_comes_next() -> None:
    cells = notebook("import time", "%%checkpointed\nx = 1", "%%checkpointed\ny = 2", "def f(): pass")
    ahead = following([cell(2)], None, cells)
    assert ahead.lines == (
        "next: cell 3: y = 2",
        "imports, definitions and plain code are not saved: run these cells first: 1",
    )
    stopped = following([cell(2)], cell(3, status="failed"), cells)
    assert stopped.lines[0] == "next: cell 3: y = 2 (it failed)"
    assert following([cell(4)], None, cells).lines[0] == "next: nothing, cell 4: def f(): pass was the last cell"
    by_name = cell(9, cell="", name="y = 2")
    assert following([by_name], None, cells).lines[0] == "next: cell 4: def f(): pass"
    unknown = following([cell(9, name="gone")], None, cells)
    assert unknown.lines == ("next: the cell after: gone",)
    resumed = cell(9)
    meta = {"at": {"name": "x", "cell": "id-3", "finished": False}}
    resumed = CellRun(replace(resumed.step, meta=meta), ())
    assert following([resumed], None, cells).lines[0] == "next: cell 3: y = 2"
    assert following([], None, cells).data is None


# What names will stand for


def ahead_of(source: str) -> dict[str, Any]:
    foresight = Foresight()
    for node in ast.parse(source).body:
        foresight.run(node)
    return foresight.names


def test_literals_and_imports_are_known_without_running_them() -> None:
    found = ahead_of("import math, wave.deep\nk = [1, 2]\nn = f()\nimport ast as a\nfrom ast import parse as p")
    assert found["k"] == Known([1, 2])
    assert isinstance(found["n"], Unknown)
    assert found["a"] == Known(ast)
    assert found["p"] == Known(ast.parse)
    assert found["wave"].value.__name__ == "wave", "a library is known by its name"
    assert ahead_of("from this import s")["s"] == Assumed()
    assert "this" not in sys.modules, "nothing is imported"
    assert isinstance(ahead_of("from .mine import s")["s"], Unknown)


def test_a_function_is_made_as_its_definition_would() -> None:
    from nbcheckpoint.fingerprint.values import Digester

    source = "def f(x, y=2, *, z=(1, 2)):\n    'doc'\n    return x + y + len(z)"
    made = ahead_of(source)["f"].value
    assert isinstance(made, types.FunctionType)
    assert made(1) == 5
    real: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec", dont_inherit=True), real)
    assert Digester().digest("f", made) == Digester().digest("f", real["f"])
    for other in ("@g\ndef f(): pass", "def f(x: int): pass", "def f(x=g()): pass", "class f: pass"):
        assert isinstance(ahead_of(other)["f"], Unknown)
    assert isinstance(ahead_of("def f(): pass\nf = g(f)")["f"], Unknown)


def test_the_state_a_seed_leaves_is_known_beforehand() -> None:
    import numpy as np

    from nbcheckpoint.fingerprint import rng

    found = ahead_of("import random, numpy as np\nrandom.seed(7)\nnp.random.seed(7)\nnp.random.seed(k)")
    random_before, numpy_before = random.getstate(), np.random.get_state()
    try:
        random.seed(7)
        np.random.seed(7)
        now = rng.states()
    finally:
        random.setstate(random_before)
        np.random.set_state(numpy_before)
    for name in ("rng:random", "rng:numpy"):
        assert rng.digest(found[name].value) == rng.digest(now[name])


def test_automatic_mode_and_wrong_options_are_understood() -> None:
    plain, bad, opaque = notebook("x = 1", "%%checkpointed --frob\nx = 1", "x = = 1")
    assert plain.chosen is None
    assert not plain.steps
    assert "--frob" in bad.problem
    assert opaque.tree is None
    assert len(notebook("import os\nx = 1\ny = 2", auto=True)[0].steps) == 2


def test_totals() -> None:
    found = [
        Planned(1, 1, "a", "restore", "", 60.0),
        Planned(1, 2, "b", "run", "", 1.0),
        Planned(1, 3, "c", "run", ""),
        Planned(2, 1, "d", "perhaps", "", 2.0),
    ]
    sums = total(found)
    assert (sums["restore"], sums["run"], sums["perhaps"], sums["unknown"]) == (1, 2, 1, 1)
    assert (sums["restore_seconds"], sums["run_seconds"], sums["perhaps_seconds"]) == (60.0, 1.0, 2.0)


# How it looks


def test_an_answer_is_escaped_and_without_control_characters() -> None:
    from nbcheckpoint.cli.base import table

    evil = ["<script>", "[link=javascript:alert(1)]x[/]", "[bold]x[/]", "\x1b]8;;http://x\x07y", "\u202etxt"]
    answer = Answer([*evil, table(("<b>", "c"), [(text, "[green]fine[/]") for text in evil])], {"a": 1})
    html = answer._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "href" not in html
    assert "\x1b" not in repr(answer) + html
    assert "\u202e" not in repr(answer) + html
    assert "[link=javascript:alert(1)]x[/]" in repr(answer), "shown as it is"
    assert "color" in html
    assert answer.data == {"a": 1}


def test_looking_draws_no_random_numbers() -> None:
    before = random.getstate()
    Answer(["x"])
    assert random.getstate() == before
    with untouched_random():
        random.random()
    assert random.getstate() == before


def test_lines_are_short() -> None:
    assert first_line("%%checkpointed x\n\n# why\n  y = 1\nz") == "y = 1"
    assert first_line("# only this") == "# only this"
    assert first_line("") == ""
    assert len(first_line("x" * 200)) == 60


# The dispatcher


def test_words_from_elsewhere_can_be_added() -> None:
    def auto(checkpointer: Any, rest: list[str]) -> Any:
        """every slow statement of every cell"""
        return checkpointer, rest

    extra: dict[str, Any] = {}
    magic = words.line_magic("checkpointer", extra)  # type: ignore[arg-type]  # it is only passed on
    with pytest.raises(Error, match="no word 'auto'"):
        magic("auto")
    extra["auto"] = auto
    assert magic("auto on --min-seconds 2") == ("checkpointer", ["on", "--min-seconds", "2"])
    assert "auto      every slow statement" in repr(magic(""))
    assert "auto" in magic("help").data["words"]


def test_errors_are_one_line_and_faults_say_so() -> None:
    def broken(checkpointer: Any, rest: list[str]) -> Any:
        raise ZeroDivisionError("oops")

    magic = words.line_magic("checkpointer", {"broken": broken})  # type: ignore[arg-type]  # as above
    with pytest.raises(Error) as caught:
        magic("broken")
    assert caught.value._render_traceback_() == [  # type: ignore[attr-defined]  # what IPython asks for
        "nbcheckpoint: a fault of nbcheckpoint: ZeroDivisionError: oops"
    ]
    with pytest.raises(UsageError) as usage:
        magic("'")
    assert "is a quote missing?" in usage.value._render_traceback_()[0]  # type: ignore[attr-defined]  # as above


def test_advice_is_for_where_one_is() -> None:
    assert words.in_notebook("nbcheckpoint runs lists; run: nbcheckpoint prune") == (
        "%checkpoint runs lists; run: %checkpoint prune"
    )
    assert words.in_notebook("nbcheckpoint doctor") == "nbcheckpoint doctor"

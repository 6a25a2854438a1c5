"""The parts of `nbcheckpoint run` that need no kernel: parameters, the file that comes out, requests, guesses."""

from __future__ import annotations

import doctest
import json
import math
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4

from nbcheckpoint.cli.headless import exit_code
from nbcheckpoint.cli.report import write as write_report
from nbcheckpoint.cli.watch import time_left
from nbcheckpoint.errors import UsageError
from nbcheckpoint.model import Run
from nbcheckpoint.notebook import document, parameters
from nbcheckpoint.notebook.headless import default_out
from nbcheckpoint.notebook.outfile import OutFile
from nbcheckpoint.notebook.request import CellOutcome, Outcome, Request
from nbcheckpoint.notebook.runner import CellFailed, KernelDied, Stopped
from nbcheckpoint.notebook.session import UNATTENDED


def notebook(*sources: str, tagged: int | None = None) -> Any:
    cells = [v4.new_code_cell(source) for source in sources]
    if tagged is not None:
        cells[tagged].metadata["tags"] = ["parameters"]
    return v4.new_notebook(cells=cells)


def sources(made: Any) -> list[str]:
    return [cell.source for cell in made.cells]


def test_the_examples_are_true() -> None:
    result = doctest.testmod(parameters)
    assert (result.failed, result.attempted > 0) == (0, True)


@pytest.mark.parametrize("value", [True, None, -3, 0.1, 'a "b" \\ \n ünï', math.inf, -math.inf, "None"])
def test_what_is_injected_is_what_was_given(value: Any) -> None:
    space: dict[str, Any] = {}
    exec(parameters.source_of({"x": value}), space)
    assert space["x"] == value
    assert type(space["x"]) is type(value)


TYPED = ["1", "-2", "1.5", "1e3", "True", "False", "None", "true", "x", "", "1_000", "0x10", "inf"]


@pytest.mark.parametrize("text", TYPED)
def test_values_are_understood_as_papermill_does(text: str) -> None:
    from papermill.cli import _resolve_type

    assert parameters.parse(text) == _resolve_type(text)
    assert type(parameters.parse(text)) is type(_resolve_type(text))


def test_parameters_go_behind_the_defaults_or_to_the_top_and_replace_earlier_ones() -> None:
    made = notebook("import a", "x = 1", "x", tagged=1)
    parameters.inject(made, {"x": 2})
    assert sources(made) == ["import a", "x = 1", "# Parameters\nx = 2", "x"]
    nbformat.validate(made)
    parameters.inject(made, {"x": 3})
    assert sources(made) == ["import a", "x = 1", "# Parameters\nx = 3", "x"]
    parameters.inject(made, {})
    assert len(made.cells) == 4, "as it is, if nothing is given"
    plain = notebook("x")
    parameters.inject(plain, {"x": 1})
    assert sources(plain) == ["# Parameters\nx = 1", "x"]
    assert parameters.unknown(notebook("x = y = 1", tagged=0), ["x", "z"]) == ["z"]
    assert parameters.unknown(plain, ["z"]) == [], "nobody says what there is"


def test_a_file_is_whole_at_every_moment_and_tried_again(tmp_path: Path) -> None:
    out = OutFile(tmp_path / "there" / "out.ipynb")
    with pytest.raises(UsageError, match="cannot be written"):
        out.write(notebook("1"))
    out.update(notebook("1"))
    assert "cannot be written" in out.problem
    (tmp_path / "there").mkdir()
    out.update(notebook("1"))
    assert out.problem == ""
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["out.ipynb"]
    before = (tmp_path / "there" / "out.ipynb").stat()
    out.check()
    assert (tmp_path / "there" / "out.ipynb").stat() == before
    with pytest.raises(UsageError, match="Is a directory"):
        OutFile(tmp_path / "there").check()


def test_what_is_no_file_stays_what_it_is(tmp_path: Path) -> None:
    """`-o /dev/null` put a file in its place."""
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    out = OutFile(tmp_path / "pipe")
    out.check()
    out.update(notebook("1"))
    out.write(notebook("x = '\ud800'"), durable=True)
    assert json.loads(os.read(pipe, 100_000))["cells"][0]["source"] == ["x = '\ud800'"]
    os.close(pipe)
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize("minor", [4, 5])
def test_ids_are_the_same_every_time(tmp_path: Path, minor: int) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": "1", "outputs": [], "execution_count": 3}
    raw = {"cells": [cell, dict(cell)], "metadata": {}, "nbformat": 4, "nbformat_minor": minor}
    (tmp_path / "a.ipynb").write_text(json.dumps(raw))
    loaded = document.load(tmp_path / "a.ipynb")
    assert loaded == document.load(tmp_path / "a.ipynb")
    assert [cell.execution_count for cell in loaded.cells] == [None, None]


@pytest.mark.parametrize("name", ["1x", "a b", "", "class", "None"])
def test_what_is_no_name_is_no_parameter(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name"):
        parameters.checked({name: 1})


def test_what_is_no_text_is_no_parameter_and_no_code(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not text"):
        parameters.checked({"x": "\udcff"})
    made: Any = v4.new_notebook(cells=[v4.new_code_cell("x = '\udcff'")])  # type: ignore[no-untyped-call]  # nbformat's
    (tmp_path / "a.ipynb").write_text(json.dumps(made))
    with pytest.raises(UsageError, match="not a valid notebook"):
        document.load(tmp_path / "a.ipynb")


def test_a_request_can_be_made_again_from_the_run_it_was_for() -> None:
    asked = Request(
        Path("/a/b.ipynb"),
        Path("/c.ipynb"),
        {"x": 1, "limit": -math.inf},
        cwd=Path("/d"),
        timeout=3.0,
        auto=("--overhead", "1%"),
    )
    meta = json.loads(json.dumps({UNATTENDED: asked.to_meta()}))
    run = Run(id="r", workflow="b.ipynb", created="", updated="", inputs=asked.inputs(), meta=meta)
    assert Request.of_run(Run.from_json(run.to_json()), None) == asked
    with pytest.raises(UsageError, match="was not run by"):
        Request.of_run(Run(id="r", workflow="b.ipynb", created="", updated=""), None)


def outcome(status: Any, error: Any = None, out: str = "out.ipynb") -> Outcome:
    cell = CellOutcome(1, "c0", "<script>alert(1)</script>", "computed", 1.0, "computed [red]1 s[/]")
    return Outcome("a.ipynb", out, status, (cell,), 1, 1.0, 0, None, error)


def test_exit_codes() -> None:
    assert exit_code(outcome("completed")) == 0
    assert exit_code(outcome("failed", CellFailed(1, "ValueError", "x", ""))) == 1
    assert exit_code(outcome("interrupted", KernelDied(1))) == 1
    assert exit_code(outcome("paused", CellFailed(1, "Paused", "x", ""))) == 4
    assert exit_code(outcome("interrupted", Stopped(1, 2))) == 130
    assert exit_code(outcome("interrupted", Stopped(1, 15))) == 143


def test_a_report_is_a_page_in_which_nothing_runs(tmp_path: Path) -> None:
    page = write_report(outcome("failed", KernelDied(1), str(tmp_path / "out.ipynb")), "html").read_text()
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "the kernel died" in page
    found = json.loads(write_report(outcome("completed", out=str(tmp_path / "out.ipynb")), "json").read_text())
    assert found["cells"][0]["status"] == "computed"
    assert found["error"] is None


def test_the_time_left_is_that_of_this_cell_and_of_those_behind_it() -> None:
    expected = {1: 5.0, 2: 10.0, 4: 3.0}
    assert time_left(expected, 2, 4.0, None) == 9.0
    assert time_left(expected, 2, 40.0, None) == 3.0
    assert time_left(expected, 2, 4.0, 20.0) == 23.0, "its loop knows better"
    assert time_left({}, 2, 4.0, None) == 0.0


def test_what_comes_out_stands_beside_it_unless_told_otherwise() -> None:
    assert default_out(Path("x/a.ipynb")) == Path("x/a.out.ipynb")
    assert default_out(Path("a.py")) == Path("a.out.ipynb")

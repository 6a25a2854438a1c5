"""`%checkpoint plan`: what it says beforehand is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_timetravel import fresh, write_notebook
from tests.integration.test_words import LOAD, data, refused
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

CELLS = (
    LOAD,
    "import time, math\nK = 3\nopened = open('runs', 'a').write('x')",
    "def slow(x, s=0.01):\n    time.sleep(s)\n    return x * K",
    "%%checkpointed\na = slow(2)\nb = slow(a)\nc = math.sqrt(b)",
    "%%checkpointed last\ntotal = a + b\ntotal",
)


def forecast(kernel: Kernel) -> list[tuple[str, str]]:
    return [(row["source"], row["action"]) for row in data(kernel, "plan")["statements"]]


def run_all(kernel: Kernel, *cells: str) -> list[str]:
    """What became of each checkpointed cell."""
    return [shown.status for shown in map(kernel.run, cells) if shown.line]


def actions(kernel: Kernel) -> list[str]:
    return [action for _, action in forecast(kernel)]


def test_in_a_fresh_kernel_all_of_it_is_restored(kernel: Kernel, tmp_path: Path) -> None:
    write_notebook(tmp_path, *CELLS)
    kernel.run("%%checkpointed\nother = 1")
    assert actions(kernel) == ["run"] * 5
    run_all(kernel, *CELLS[1:])
    fresh(kernel)
    ran = (tmp_path / "runs").read_text()
    found = data(kernel, "plan")
    assert [row["action"] for row in found["statements"]] == ["restore"] * 5, found
    assert found["restore_seconds"] > 0.02
    assert found["plain_cells"] == 3
    assert (tmp_path / "runs").read_text() == ran, "nothing was executed"
    assert kernel.run("'a' in globals(), 'slow' in globals()").result == "(False, False)", "nothing was bound"
    shown = kernel.run("%checkpoint plan").result
    assert "restore 5: spares" in shown
    assert run_all(kernel, *CELLS[1:]) == ["restored", "restored"], "as foreseen"


PERHAPS_AFTER_TWO = ["run", "run", "perhaps", "perhaps", "perhaps"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("total = a + b", "total = a - b", ["restore", "restore", "restore", "run", "perhaps"], id="code"),
        pytest.param("x * K", "x * K + 0", PERHAPS_AFTER_TWO, id="helper"),
        pytest.param("K = 3", "K = 4", PERHAPS_AFTER_TWO, id="global"),
        pytest.param("s=0.01", "s=0.02", PERHAPS_AFTER_TWO, id="default"),
        pytest.param("a = slow(2)", "a = slow( 2 )  # two", ["restore"] * 5, id="layout"),
        pytest.param("K = 3", "K = int('3')", ["perhaps"] * 5, id="doubt"),
        pytest.param("def slow", "@math.nan.__class__\ndef slow", ["perhaps"] * 5, id="decorator"),
        pytest.param("b = slow(a)", "b = slow(a)\nb = b + 1", ["restore", "restore", "run"], id="insertion"),
    ],
)
def test_an_edit_shows_in_the_plan(kernel: Kernel, tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    run_all(kernel, *CELLS[1:])
    edited = [cell.replace(old, new) for cell in CELLS]
    write_notebook(tmp_path, *edited)
    fresh(kernel)
    found = actions(kernel)
    assert found[: len(expected)] == expected
    if "@" in new:
        return  # nonsense, if it were run
    happened = []
    for cell in edited[1:]:
        if kernel.run(cell).line:
            happened += [row["status"] for row in data(kernel, "why")["statements"]]
    assert len(happened) == len(found)
    for foreseen, came in zip(found, happened, strict=True):
        assert (foreseen, came) in {
            ("restore", "restored"),
            ("run", "computed"),
            ("perhaps", "restored"),
            ("perhaps", "computed"),
        }


def test_files_and_options_count(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one")
    cells = (LOAD, "%%checkpointed\ntext = open('in.txt').read()\nlong = len(text)")
    write_notebook(tmp_path, *cells)
    kernel.run(cells[1])
    fresh(kernel)
    assert actions(kernel) == ["restore", "restore"]
    (tmp_path / "in.txt").write_text("two!")
    found = data(kernel, "plan")["statements"]
    assert [row["action"] for row in found] == ["run", "perhaps"]
    assert found[0]["reason"] == "file in.txt changed"
    write_notebook(tmp_path, LOAD, cells[1].replace("checkpointed", "checkpointed --force"))
    assert actions(kernel)[0] == "run"
    write_notebook(tmp_path, LOAD, cells[1].replace("checkpointed", "checkpointed --frob"), "%%bash\nls", "x = = 1")
    assert "--frob" in kernel.run("%checkpoint plan").result
    (tmp_path / "work.ipynb").write_text("[1]")
    assert "cannot be read as a notebook" in refused(kernel, "plan")


def test_without_a_notebook_file_the_last_run_is_the_plan(kernel: Kernel) -> None:
    assert "there is no store" in refused(kernel, "plan")
    kernel.run("%%checkpointed one\nx = 1\ny = eval('2')")
    kernel.run("%%checkpointed two\nz = 1\nraise ValueError", fails=True)
    fresh(kernel)
    assert forecast(kernel) == [("x = 1", "restore"), ("y = eval('2')", "run"), ("z = 1", "restore"), ("…", "run")]
    assert "there is no notebook file" in kernel.run("%checkpoint plan").result


def test_a_notebook_in_automatic_mode_is_all_steps(kernel: Kernel, tmp_path: Path) -> None:
    write_notebook(tmp_path, LOAD, "%checkpoint auto", "a = int(1)\nc = 1", "%checkpoint auto off", "b = int(1)")
    kernel.run("%%checkpointed\nother = 1")
    assert [source for source, _ in forecast(kernel)] == ["a = int(1)", "%checkpoint auto off"]

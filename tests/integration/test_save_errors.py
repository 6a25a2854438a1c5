"""`on_save_error`: what happens to a cell whose values could not be saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbcheckpoint.store import open_store
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

FULL = """
import nbcheckpoint.backend.disk_store as _parts, nbcheckpoint.errors as _errors
_put = _parts.EmbeddedStore.put
def _full(self, key, value, **how):
    if key.startswith("checkpoint/"):
        raise _errors.StoreFull("no space left")
    return _put(self, key, value, **how)
_parts.EmbeddedStore.put = _full
"""
ROOM = "_parts.EmbeddedStore.put = _put"
SLOW = "import time\ntime.sleep(0.6)\n"
"""So long that it is saved at once, not at the end of the cell."""


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Kernel]:
    with Kernel(tmp_path, env={"NBCHECKPOINT_ON_SAVE_ERROR": "fail"}) as kernel:
        kernel.run("%load_ext nbcheckpoint")
        kernel.run(FULL)
        yield kernel


def test_by_default_the_cell_goes_on_and_says_so(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(FULL)
    for code in ("x = 1\ny = 2", f"{SLOW}x = 1\ny = 2"):
        cell = kernel.run("%%checkpointed\n" + code)
        assert cell.status == "note"
        assert cell.line.startswith("not saved: no space left · free some space")
        assert kernel.run("x, y").result == "(1, 2)"
        kernel.run("del x, y")
    with open_store(tmp_path / ".nbcheckpoint") as store:
        (run,) = store.runs()
        steps = store.steps(run.id)
        assert [(step.status, step.checkpoint, step.bytes) for step in steps] == [("completed", "", 0)] * 2
    kernel.run(ROOM)
    assert kernel.run("%%checkpointed\nx = 1\ny = 2").line.startswith("computed")
    assert kernel.run("%%checkpointed\nx = 1\ny = 2").status == "restored"


def test_with_fail_a_statement_that_was_not_saved_is_the_last_to_run(failing: Kernel, tmp_path: Path) -> None:
    cell = failing.run(f"%%checkpointed\n{SLOW}x = 1\ny = 2", fails=True)
    assert cell.error == "StoreFull"
    assert "not saved: no space left" in cell.line
    assert failing.run("'y' in globals()").result == "False"
    with open_store(tmp_path / ".nbcheckpoint") as store:
        (step,) = store.steps(store.runs()[0].id)
        assert step.status == "failed"
        assert "no space left" in step.error
    failing.run(ROOM)
    assert failing.run(f"%%checkpointed\n{SLOW}x = 1\ny = 2").line.startswith("computed")


def test_with_fail_a_cell_that_could_not_be_saved_at_its_end_fails_and_its_values_stay(failing: Kernel) -> None:
    cell = failing.run("%%checkpointed\nx = [1]\nx", fails=True)
    assert cell.error == "StoreFull"
    assert cell.result == "[1]"
    assert "not saved: no space left" in cell.line
    assert failing.run("x").result == "[1]"


@pytest.mark.parametrize(
    ("name", "value"), [("NBCHECKPOINT_ON_SAVE_ERROR", "explode"), ("NBCHECKPOINT_WARN_SIZE", "huge")]
)
def test_a_setting_that_makes_no_sense_is_told_and_the_cell_runs(tmp_path: Path, name: str, value: str) -> None:
    with Kernel(tmp_path, env={name: value}) as kernel:
        kernel.run("%load_ext nbcheckpoint")
        cell = kernel.run("%%checkpointed\nx = 1\nx")
        assert cell.result == "1"
        assert value in cell.line
        assert name in cell.line
        assert cell.status == "note"
        assert cell.stderr == ""

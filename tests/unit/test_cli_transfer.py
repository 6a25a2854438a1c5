"""The command line's words for comparing, carrying and vouching."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nbcheckpoint.cli import main
from nbcheckpoint.store import open_store
from tests.stores import add_run, add_step


def call(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def asked(*words: str, code: int = 0) -> Any:
    return json.loads(call(*words, "--json", code=code).stdout)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    with open_store(tmp_path / "store") as store:
        run = add_run(store)
        add_step(store, run, {"x": "x" * 100_000}, source="x = 1")
        add_step(store, run, {"x": "y" * 100_001}, source="x = 2", code="d" * 64)
    return str(tmp_path / "store")


def run_of(store: str) -> str:
    with open_store(store) as opened:
        return opened.runs()[0].id


def checkpoints_of(store: str) -> list[str]:
    with open_store(store) as opened:
        return [step.checkpoint for step in opened.steps(run_of(store))]


@pytest.fixture
def foreign(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive somebody else signed."""
    call("export", run_of(folder), str(tmp_path / "run.zip"), "--store", folder)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "me"))
    return str(tmp_path / "run.zip")


def test_diff(folder: str) -> None:
    a, b = checkpoints_of(folder)
    found = asked("diff", a, b, "--store", folder)
    assert found.keys() == {"a", "b", "values", "inputs", "code", "same_code"}
    assert [row["name"] for row in found["values"]] == ["x"]
    shown = call("diff", a[-10:], b[-10:], "--store", folder).output
    assert "-x = 1" in shown
    assert "+x = 2" in shown
    call("diff", a, "nothing", "--store", folder, code=3)
    call("diff", a, "-", "--store", folder, code=2)


def test_export_and_import(folder: str, tmp_path: Path) -> None:
    run, file, other = run_of(folder), str(tmp_path / "run.zip"), str(tmp_path / "other")
    sent = asked("export", run, file, "--store", folder)
    assert (sent["run"], sent["records"]) == (run, 5)
    call("export", run, file, "--store", folder, code=2)
    assert "wrote" in call("export", run, file, "--yes", "--store", folder).output
    got = asked("import", file, "--store", other)
    assert (got["run"], got["trusted"]) == (run, True)
    assert run in call("import", file, "--store", other).output
    assert checkpoints_of(other) == checkpoints_of(folder)


def test_import_of_what_is_none_says_so(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_text("no zip")
    other = str(tmp_path / "other")
    assert "not imported" in call("import", str(tmp_path / "bad.zip"), "--store", other, code=5).output
    call("import", str(tmp_path / "nothing.zip"), "--store", other, code=3)
    call("export", "nothing", str(tmp_path / "x.zip"), "--store", other, code=3)


def test_what_others_signed_waits_for_trust(foreign: str, tmp_path: Path) -> None:
    mine = str(tmp_path / "mine")
    assert "does not carry your signature" in call("import", foreign, "--store", mine).output
    call("pin", run_of(mine), "--store", mine, code=6)
    call("trust", run_of(mine), "--store", mine, code=2)
    told = asked("trust", run_of(mine), "--yes", "--store", mine)
    assert (told["runs"], told["steps"], told["names"]) == (1, 2, ["x"])
    with open_store(mine) as store:
        assert store.restore(checkpoints_of(mine)[0])["x"] == "x" * 100_000
    call("pin", run_of(mine), "--store", mine)
    call("trust", "nothing", "--yes", "--store", mine, code=3)


def test_a_checkpoint_can_be_trusted_by_a_part_of_its_id(foreign: str, tmp_path: Path) -> None:
    mine = str(tmp_path / "mine")
    call("import", foreign, "--store", mine)
    first = checkpoints_of(mine)[0]
    assert "trusted 1 checkpoint (x)" in call("trust", first[-12:], "--yes", "--store", mine).output


def test_import_with_trust(foreign: str, tmp_path: Path) -> None:
    mine = str(tmp_path / "mine")
    assert asked("import", foreign, "--trust", "--store", mine)["trusted"] is True


def test_copy(folder: str, tmp_path: Path) -> None:
    """000-19."""
    target = str(tmp_path / "copy")
    assert asked("copy", folder, target)["records"] == 5
    assert "copied 0 records" in call("copy", target, "--store", folder).output
    assert checkpoints_of(target) == checkpoints_of(folder)
    call("copy", folder, folder, code=2)
    call("copy", folder, target, target, code=2)
    call("copy", str(tmp_path / "none"), target, code=3)
    call("copy", folder, "gopher://x", code=2)

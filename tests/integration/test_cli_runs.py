"""What the command line says about a notebook whose kernel was killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow


def nbcheckpoint(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nbcheckpoint", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_run_from_its_first_cell_to_its_last_kernel(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%%checkpointed first\nx = 1")
    assert _status(tmp_path) == ("running", 1)
    kernel.start_cell("%%checkpointed second\nprint('now')\nimport time\ntime.sleep(60)", until="now")
    kernel.kill()
    assert _status(tmp_path) == ("interrupted", 1)
    assert "interrupted" in nbcheckpoint(tmp_path, "runs").stdout
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")
    assert kernel.run("%%checkpointed first\nx = 1").status == "restored"
    assert _status(tmp_path) == ("running", 2), "the interrupted run goes on"
    kernel.shutdown()
    assert _status(tmp_path) == ("completed", 2)
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")
    kernel.run("%%checkpointed first\nx = 1")
    runs = json.loads(nbcheckpoint(tmp_path, "runs", "--json").stdout)
    assert [run["status"] for run in runs] == ["running", "completed"], "a finished run is left alone"
    shown = json.loads(nbcheckpoint(tmp_path, "show", runs[1]["id"], "--json").stdout)
    assert [(step["name"], step["status"]) for step in shown["steps_list"]] == [
        ("first", "completed"),
        ("second", "running"),
        ("first", "restored"),
    ]


def _status(folder: Path) -> tuple[str, int]:
    run = json.loads(nbcheckpoint(folder, "runs", "--json").stdout)[0]
    assert run["workflow"] == "work.ipynb"
    return run["status"], run["sessions"]


def test_errors_have_a_sentence_a_hint_and_an_exit_code(tmp_path: Path) -> None:
    nothing = nbcheckpoint(tmp_path, "runs", "--store", str(tmp_path / "none"))
    assert nothing.returncode == 3
    assert "there is no store" in nothing.stderr
    assert "Traceback" not in nothing.stderr
    assert nbcheckpoint(tmp_path, "runs", "--store", "gopher://x").returncode == 2
    assert nbcheckpoint(tmp_path, "frobnicate").returncode == 2
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "cache.db").write_bytes(b"not a database at all" * 1000)
    broken = nbcheckpoint(tmp_path, "runs", "--store", str(tmp_path / "s"))
    assert broken.returncode == 5
    assert "Traceback" not in broken.stderr

"""Flows in scripts and modules: killed, answered and gone on with from a command line, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

MODULE = """
import os
import nbcheckpoint as nbc

def said(text):
    os.system(f"echo {text} >> ran")

@nbc.step
def load(n):
    said("load")
    return list(range(n))

@nbc.step
def train(rows):
    said("train")
    if not os.path.exists("alive"):
        os.kill(os.getpid(), 9)
    return sum(rows)

@nbc.flow
def pipeline(n):
    model = train(load(n))
    if nbc.pause("Publish?", name="gate", choices=["yes", "no"]) == "yes":
        return model

if __name__ == "__main__":
    print(pipeline(5))
"""


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NBCHECKPOINT_STORE": str(folder / "store")}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


def cli(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return call(folder, "-m", "nbcheckpoint", *words)


def runs(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli(folder, "runs", "--json").stdout)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text(MODULE)
    return tmp_path


def test_a_script_that_is_killed_is_simply_run_again(folder: Path) -> None:
    assert call(folder, "work.py").returncode == -signal.SIGKILL
    assert runs(folder)[0]["status"] == "interrupted"
    (folder / "alive").touch()
    paused = call(folder, "work.py")
    assert "nbcheckpoint.errors.Paused: paused at 'gate': Publish? (yes / no)" in paused.stderr
    run = runs(folder)[0]
    assert run["status"] == "paused"
    refused = cli(folder, "answer", run["id"], "gate", "perhaps")
    assert (refused.returncode, "'perhaps' is no answer" in refused.stderr) == (2, True)
    assert cli(folder, "answer", run["id"][-6:], "gate", "yes").returncode == 0
    assert cli(folder, "answer", run["id"], "gate", "no").returncode == 2
    assert cli(folder, "answer", run["id"], "other", "no").returncode == 3
    assert call(folder, "work.py").stdout == "10\n"
    assert (folder / "ran").read_text().split() == ["load", "train", "train"]


def test_resume_by_id_from_the_command_line(folder: Path) -> None:
    assert call(folder, "-c", "import work; work.pipeline(4)").returncode == -signal.SIGKILL
    (folder / "alive").touch()
    run = runs(folder)[0]["id"]
    paused = cli(folder, "resume", run)
    assert paused.returncode == 4
    assert "nbcheckpoint answer" in paused.stderr
    cli(folder, "answer", run, "gate", "yes")
    done = cli(folder, "resume", run)
    assert (done.returncode, done.stdout) == (0, f"pipeline {run} is complete: 6\n")
    again = cli(folder, "resume", run, "--json")
    assert json.loads(again.stdout)["status"] == "completed"
    assert (folder / "ran").read_text().split() == ["load", "train", "train"]


def test_a_script_cannot_be_resumed_by_id_and_the_hint_says_what_to_do(folder: Path) -> None:
    call(folder, "work.py")
    told = cli(folder, "resume", runs(folder)[0]["id"])
    assert told.returncode == 3
    assert "run it again" in told.stderr
    (folder / "work.py").write_text("")
    call(folder, "-c", "pass")


def test_python_dash_m(folder: Path) -> None:
    (folder / "alive").touch()
    assert "paused at 'gate'" in call(folder, "-m", "work").stderr
    run = runs(folder)[0]["id"]
    cli(folder, "answer", run, "gate", "yes", "--json")
    assert call(folder, "-m", "work").stdout == "10\n"
    assert len(runs(folder)) == 1

"""papermill and nbconvert, real ones, with our kernel underneath: killed and run again, they go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.headless import kernel_of, kill_and_wait, outputs, printed, progress, runs, wait_for, write

pytestmark = pytest.mark.slow

CELLS = (
    "import random, time\nrandom.seed(7)",
    "scale = 1",
    """\
values = []
for turn in range(40):
    time.sleep(0.08)
    values.append(random.random() * scale)
    if turn % 10 == 0:
        print(turn, values[-1])""",
    "sum(values)",
)


def papermill(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "work.ipynb", *words, "-p", "scale", "2"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_papermill_goes_on_where_it_was(tmp_path: Path) -> None:
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    write(tmp_path / "work.ipynb", *CELLS, parameters=1, kernelspec=python)
    process = papermill(tmp_path, "out.ipynb", "--engine", "nbcheckpoint", "--log-output")
    wait_for(lambda: progress(tmp_path), process)
    kernel = kernel_of(tmp_path)
    process.kill()
    kill_and_wait(kernel)
    process.communicate()
    again = papermill(tmp_path, "out.ipynb", "--engine", "nbcheckpoint", "--log-output")
    logged = again.communicate()[1]
    assert again.returncode == 0, logged
    assert logged.count("\n10 ") <= 1, "a line is logged once"
    latest = runs(tmp_path)[0]
    assert (latest.status, latest.sessions) == ("completed", 2)
    assert latest.spared_seconds > 0.5
    straight = papermill(tmp_path, "straight.ipynb")
    assert straight.wait() == 0, straight.communicate()
    assert printed(tmp_path / "out.ipynb") == printed(tmp_path / "straight.ipynb")
    assert outputs(tmp_path / "out.ipynb")[-1] == outputs(tmp_path / "straight.ipynb")[-1]
    assert "nbcheckpoint" not in (tmp_path / "out.ipynb").read_text()


def test_papermill_is_told_of_a_cell_that_fails(tmp_path: Path) -> None:
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    write(tmp_path / "work.ipynb", "import time\ntime.sleep(1.1)\nx = 1", "1 / 0", kernelspec=python)
    process = papermill(tmp_path, "out.ipynb", "--engine", "nbcheckpoint")
    assert "ZeroDivisionError" in process.communicate()[1]
    assert process.returncode == 1
    assert runs(tmp_path)[0].status == "failed"


def test_nbconvert_does_not_compute_twice(tmp_path: Path) -> None:
    write(tmp_path / "work.ipynb", *CELLS)
    ours = "nbcheckpoint.notebook.nbconvert_preprocessor.CheckpointedExecute"
    words = ("--to", "notebook", f"--NotebookExporter.preprocessors={ours}", "--output")
    for name in ("first", "second"):
        command = [sys.executable, "-m", "nbconvert", *words, name, "work.ipynb"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert outputs(tmp_path / "first.ipynb") == outputs(tmp_path / "second.ipynb")
    assert printed(tmp_path / "first.ipynb").startswith("0 0.")
    assert [run.spared_seconds > 1 for run in runs(tmp_path)] == [True, False]

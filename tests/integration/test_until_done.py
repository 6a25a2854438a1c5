"""The README's job for a machine that may be taken away: queued again while it was stopped, not when it is done."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.headless import kernel_of, outputs, progress, wait_for, write

pytestmark = pytest.mark.slow

README = Path(__file__).parents[2] / "README.md"
LOOP = "import time\ndone = []\nfor turn in range(40):\n    time.sleep(0.08)\n    done.append(turn)\nlen(done)"


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def runner_of(kernel: int) -> int:
    """The process whose child the kernel is."""
    return int(Path(f"/proc/{kernel}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("taken", [True, False])
def test_the_job_of_the_readme_is_queued_again_until_it_is_done(tmp_path: Path, taken: bool) -> None:
    job = script(tmp_path, "job", re.findall(r"```bash\n(.*?)```", README.read_text(), re.S)[0])
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin", "srun", '#!/bin/bash\nexec "$@"\n')
    script(tmp_path / "bin", "scontrol", '#!/bin/bash\necho "$@" >> queue.txt\n')
    write(tmp_path / "train.ipynb", LOOP)
    place = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    queue = tmp_path / "queue.txt"
    if taken:
        process = subprocess.Popen([job], cwd=tmp_path, env={**os.environ, **place}, stderr=subprocess.DEVNULL)
        wait_for(lambda: progress(tmp_path))
        os.kill(runner_of(kernel_of(tmp_path)), signal.SIGTERM)
        process.wait(120)
        assert queue.read_text() == "requeue 7\n"
        queue.unlink()
    last = subprocess.run([job], cwd=tmp_path, env={**os.environ, **place}, capture_output=True, text=True, timeout=120)
    assert not queue.exists(), last.stderr
    assert ("loop continued at" in last.stderr) == taken
    assert outputs(tmp_path / "done.ipynb")[0][0]["data"]["text/plain"] == ["40"]

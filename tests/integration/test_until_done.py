"""The README's jobs for machines that may be taken away: they go on while they were stopped, until it is done."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nbcheckpoint import config
from tests.headless import kernel_of, outputs, progress, wait_for, write

pytestmark = pytest.mark.slow

README = Path(__file__).parents[2] / "README.md"
LOOP = "import time\ndone = []\nfor turn in range(40):\n    time.sleep(0.08)\n    done.append(turn)\nlen(done)"
TAKEN = """\
#!/bin/bash
# As `timeout` does it, when a file says that the time is over.
shift
"$@" & child=$!
while [ ! -e taken ] && kill -0 $child 2>/dev/null; do sleep 0.1; done
if [ -e taken ]; then kill -TERM $child; wait $child; exit 124; fi
wait $child
"""


def block(language: str) -> str:
    return str(re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)[0])


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def runner_of(kernel: int) -> int:
    """The process whose child the kernel is."""
    return int(Path(f"/proc/{kernel}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """What the machine would have, and we have not: a scheduler, a package index, five hours."""
    folder = tmp_path / "tools"
    folder.mkdir()
    script(folder, "srun", '#!/bin/bash\nexec "$@"\n')
    script(folder, "scontrol", '#!/bin/bash\necho "$@" >> queue.txt\n')
    script(folder, "pip", "#!/bin/bash\n")
    script(folder, "timeout", TAKEN)
    programs = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": programs, "SLURM_JOB_ID": "7"}


def until_its_end(command: list[str], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("taken", [True, False])
def test_the_slurm_job_is_queued_again_until_it_is_done(tmp_path: Path, tools: dict[str, str], taken: bool) -> None:
    job = str(script(tmp_path, "job", block("bash")))
    write(tmp_path / "train.ipynb", LOOP)
    queue = tmp_path / "queue.txt"
    if taken:
        process = subprocess.Popen([job], cwd=tmp_path, env=tools, stderr=subprocess.DEVNULL)
        wait_for(lambda: progress(tmp_path))
        os.kill(runner_of(kernel_of(tmp_path)), signal.SIGTERM)
        process.wait(120)
        assert queue.read_text() == "requeue 7\n"
        queue.unlink()
    last = until_its_end([job], tmp_path, tools)
    assert last.returncode == 0, last.stderr
    assert not queue.exists()
    assert ("loop continued at" in last.stderr) == taken
    assert outputs(tmp_path / "done.ipynb")[0][0]["data"]["text/plain"] == ["40"]


def test_a_job_that_fails_is_not_queued_again(tmp_path: Path, tools: dict[str, str]) -> None:
    write(tmp_path / "train.ipynb", "1 / 0")
    assert until_its_end([str(script(tmp_path, "job", block("bash")))], tmp_path, tools).returncode == 1
    assert not (tmp_path / "queue.txt").exists()
    (loop,) = re.findall(r"`(until nbcheckpoint [^`]+)`", README.read_text())
    assert until_its_end(["bash", "-c", loop], tmp_path, tools).returncode == 1


def filled_in(value: str, workspace: Path) -> str:
    facts = {
        "github.workspace": str(workspace),
        "secrets.NBCHECKPOINT_KEY": base64.b64encode(config.signing_key()).decode(),
    }
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: facts[found[1]], value)


def test_the_scheduled_workflow_goes_on_where_only_its_cache_is_left(tmp_path: Path, tools: dict[str, str]) -> None:
    job: dict[str, Any] = yaml.safe_load(block("yaml"))["jobs"]["train"]
    work = tmp_path / "work"
    (step,) = (step for step in job["steps"] if "run" in step)
    caches = [step["with"] for step in job["steps"] if "cache" in step.get("uses", "")]
    assert {cache["path"] for cache in caches} == {".nbcheckpoint"}
    assert all(cache["key"].startswith("train-") for cache in caches)
    env = {**tools, **{name: filled_in(value, work) for name, value in {**job["env"], **step["env"]}.items()}}
    command = ["bash", "-e", str(script(tmp_path, "step", filled_in(step["run"], work)))]

    def checked_out() -> None:
        work.mkdir()
        write(work / "train.ipynb", LOOP)

    checked_out()
    first = subprocess.Popen(command, cwd=work, env=env, stderr=subprocess.DEVNULL)
    wait_for(lambda: progress(work), first)  # type: ignore[arg-type]  # its output is nobody's
    (work / "taken").touch()
    assert first.wait(120) == 0, "out of time is no failure"
    shutil.move(work / ".nbcheckpoint", tmp_path / "cache")
    shutil.rmtree(work)
    checked_out()
    shutil.rmtree(work / ".nbcheckpoint")
    shutil.move(tmp_path / "cache", work / ".nbcheckpoint")
    last = until_its_end(command, work, env)
    assert last.returncode == 0, last.stderr
    assert "loop continued at" in last.stderr
    assert outputs(work / "done.ipynb")[0][0]["data"]["text/plain"] == ["40"]
    write(work / "train.ipynb", "1 / 0")
    assert until_its_end(command, work, env).returncode == 1

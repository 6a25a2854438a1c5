"""`nbcheckpoint run`: killed in every way, run again, and the notebook that comes out is the same."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nbcheckpoint.cli import main
from tests.headless import (
    ended,
    kernel_of,
    kill,
    kill_and_wait,
    lines,
    outputs,
    printed,
    progress,
    run,
    runs,
    start,
    wait_for,
    write,
)

pytestmark = pytest.mark.slow

LOOP = """\
values = []
for turn in range(40):
    time.sleep(0.08)
    values.append(random.random() * scale)
    if turn % 10 == 0:
        print(turn, values[-1])"""
CELLS = (
    "import random, sys, time\nrandom.seed(7)",
    "scale = 1",
    LOOP,
    "print('to stdout'); print('to stderr', file=sys.stderr); print('to stdout again')\nlen(values)",
    "time.sleep(1.1)\ntotal = sum(values)\ntotal",
)


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return write(tmp_path / "work.ipynb", *CELLS, parameters=1)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What comes out of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("straight")
    write(folder / "work.ipynb", *CELLS, parameters=1)
    run(folder, "work.ipynb", "-o", "out.ipynb", env={**os.environ, "JUPYTER_DATA_DIR": str(folder / "jupyter")})
    return (folder / "out.ipynb").read_bytes()


def in_its_loop(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A run whose loop has saved something."""
    process = start(folder, "run", "work.ipynb", "-o", "out.ipynb", *words)
    wait_for(lambda: progress(folder), process)
    return process


def test_it_shows_what_the_notebook_shows_without_us(notebook: Path, straight: bytes) -> None:
    import nbformat
    from nbclient import NotebookClient

    plain = nbformat.read(notebook, as_version=4)
    NotebookClient(plain, coalesce_streams=True, record_timing=False).execute()
    found = json.loads(straight)
    assert "nbcheckpoint" not in straight.decode()
    assert found["metadata"] == plain.metadata
    for mine, theirs in zip(found["cells"], plain.cells, strict=True):
        assert mine["execution_count"] == theirs.execution_count
        text = [(o["name"], "".join(o["text"])) for o in mine["outputs"] if o["output_type"] == "stream"]
        for name in ("stdout", "stderr"):
            joined = "".join(o.text for o in theirs.outputs if o.output_type == "stream" and o.name == name)
            assert "".join(part for stream, part in text if stream == name) == joined
        results = [o["data"]["text/plain"] for o in mine["outputs"] if o["output_type"] == "execute_result"]
        assert ["".join(r) for r in results] == [
            o.data["text/plain"] for o in theirs.outputs if o.output_type == "execute_result"
        ]
    order = [o.get("name", o["output_type"]) for o in found["cells"][3]["outputs"]]
    assert order == ["stdout", "stderr", "stdout", "execute_result"], "in the order it was printed"


def test_killed_with_its_kernel_it_goes_on(notebook: Path, straight: bytes) -> None:
    folder = notebook.parent
    process = in_its_loop(folder)
    kernel = kernel_of(folder)
    kill(process)
    kill_and_wait(kernel)
    process.communicate()
    json.loads((folder / "out.ipynb").read_text())
    assert [(found.status, found.sessions) for found in runs(folder)] == [("interrupted", 1)]
    again = run(folder, "work.ipynb", "-o", "out.ipynb")
    assert "loop continued at" in again.stderr
    assert (folder / "out.ipynb").read_bytes() == straight
    assert [(found.status, found.sessions) for found in runs(folder)] == [("completed", 2)]
    assert not list(folder.glob(".*.part"))


def test_killed_alone_its_kernel_follows_before_the_next_one_starts(notebook: Path, straight: bytes) -> None:
    folder = notebook.parent
    process = in_its_loop(folder)
    kernel = kernel_of(folder)
    kill(process)
    process.communicate()
    done = run(folder, "work.ipynb", "-o", "out.ipynb")
    assert "going on with" in done.stderr
    assert not Path(f"/proc/{kernel}").exists()
    assert (folder / "out.ipynb").read_bytes() == straight
    assert len(runs(folder)) == 1


def test_a_kernel_that_dies_ends_it_or_is_replaced(notebook: Path, straight: bytes) -> None:
    folder = notebook.parent
    process = in_its_loop(folder)
    kill_and_wait(kernel_of(folder))
    died = ended(process, 1)
    assert lines(died)[2] == "interrupted"
    assert "the kernel died in cell 3" in died.stderr
    assert "run it again" in died.stderr
    assert runs(folder)[0].status == "interrupted"
    before = {found.id for found in progress(folder)}
    process = start(folder, "run", "work.ipynb", "-o", "out.ipynb", "--fresh", "--restarts", "1", "--json")
    wait_for(lambda: {found.id for found in progress(folder)} - before, process)
    kill_and_wait(kernel_of(folder))
    outcome = json.loads(ended(process, 0).stdout)
    assert (outcome["status"], outcome["deaths"], outcome["resumed"]) == ("completed", 1, 1)
    assert (folder / "out.ipynb").read_bytes() == straight
    assert [(found.status, found.sessions) for found in runs(folder)] == [("completed", 2), ("interrupted", 1)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_asked_to_stop_it_saves_the_iteration_it_has_come_to(notebook: Path, straight: bytes, number: int) -> None:
    """With so small an overhead the loop would not save by itself before its end."""
    folder = notebook.parent
    process = start(folder, "run", "work.ipynb", "-o", "out.ipynb", "--overhead", "0.01%")
    wait_for(lambda: "10 0." in printed(folder / "out.ipynb") if (folder / "out.ipynb").exists() else "", process)
    kill(process, number)
    stopped = ended(process, 128 + number)
    assert f"stopped in cell 3 by {signal.Signals(number).name}" in stopped.stderr
    assert runs(folder)[0].status == "interrupted"
    assert progress(folder)[0].progress.done > 10  # type: ignore[union-attr]
    again = run(folder, "work.ipynb", "-o", "out.ipynb")
    assert "loop continued at" in again.stderr
    assert (folder / "out.ipynb").read_bytes() == straight


def test_a_cell_that_does_not_want_to_stop_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "while True:\n    try:\n        print('still here', flush=True); time.sleep(60)\n    except BaseException: pass"
    )
    write(tmp_path / "work.ipynb", "import time\ntime.sleep(1.1)\nx = 1", stubborn)
    process = start(tmp_path, "run", "work.ipynb", "--grace", "1s", "--allow-errors")
    out = tmp_path / "work.out.ipynb"
    wait_for(lambda: out.exists() and "still here" in printed(out), process)
    kernel = kernel_of(tmp_path)
    kill(process, signal.SIGTERM)
    ended(process, 143)
    assert not Path(f"/proc/{kernel}").exists()
    write(tmp_path / "work.ipynb", "import time\ntime.sleep(1.1)\nx = 1", "x + 1")
    assert lines(run(tmp_path, "work.ipynb")) == ["restored", "computed"]


def test_a_cell_that_fails_and_one_that_takes_too_long(tmp_path: Path) -> None:
    slow = "import time\ntime.sleep(1.1)\nx = 4"
    write(tmp_path / "work.ipynb", slow, "1 / 0", "x")
    failed = run(tmp_path, "work.ipynb", "-o", "out.ipynb", code=1)
    assert "ZeroDivisionError" in failed.stderr
    assert "cell 2 failed" in failed.stderr
    assert "\x1b" not in failed.stderr, "no colours in a log"
    assert [len(cell) for cell in outputs(tmp_path / "out.ipynb")] == [0, 1, 0]
    assert runs(tmp_path)[0].status == "failed"
    went_on = run(tmp_path, "work.ipynb", "-o", "out.ipynb", "--allow-errors")
    assert lines(went_on) == ["restored", "failed", "computed"]
    assert len(runs(tmp_path)) == 1, "a failed run goes on, too"
    write(tmp_path / "work.ipynb", slow, "time.sleep(60)", "x")
    late = run(tmp_path, "work.ipynb", "-o", "out.ipynb", "--timeout", "1s", "--grace", "1s", code=1)
    assert "cell 2 took longer than 1 s" in late.stderr


def test_fresh_computes_anew_and_still_goes_on_after_a_crash(notebook: Path, straight: bytes) -> None:
    folder = notebook.parent
    run(folder, "work.ipynb", "-o", "out.ipynb")
    process = in_its_loop(folder, "--fresh")
    kill(process)
    kill_and_wait(kernel_of(folder))
    process.communicate()
    done = run(folder, "work.ipynb", "-o", "out.ipynb")
    assert lines(done)[2] == "resumed", "what this run has saved counts"
    assert lines(done)[4] == "computed", "what others have saved does not"
    assert (folder / "out.ipynb").read_bytes() == straight


FLOWING = (
    # A file that is opened beforehand is nobody's: it is not to count that the test removes it.
    "import os, time\nimport nbcheckpoint as nbc\n"
    "os.dup2(os.open('ran', os.O_WRONLY | os.O_APPEND | os.O_CREAT), 200)\n"
    "def ran(what):\n    os.write(200, what.encode() + b'\\n')",
    "@nbc.step\ndef memo(n):\n    ran(f'memo{n}')\n    return n\n"
    "@nbc.step\ndef last(n):\n    ran('last')\n"
    "    while os.path.exists('hold'):\n        time.sleep(0.05)\n    return n\n"
    "@nbc.flow\ndef flow(n):\n    return last(memo(n) + sum(memo.map([20, 30], progress=False)))\n"
    "def summed(n):\n    state = {'sum': 0}\n    for k in nbc.loop(range(n), name='sums', state=state, every=1):\n"
    "        ran(f'turn{k}')\n        state['sum'] += k\n    return state['sum']",
    "memo(1), memo.map([2, 3], progress=False), summed(3), nbc.open_store().flush()",
    "flow(10)",
)
ALL = ["memo1", "memo2", "memo3", "turn0", "turn1", "turn2", "memo10", "memo20", "memo30", "last"]


def test_fresh_counts_for_steps_flows_and_loops_too(tmp_path: Path) -> None:
    """What was saved before does not count; what this run has saved does, when it is killed and run again."""
    folder = write(tmp_path / "work.ipynb", *FLOWING).parent

    def ran() -> list[str]:
        found = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
        (folder / "ran").unlink(missing_ok=True)
        return found

    run(folder, "work.ipynb", "-o", "out.ipynb")
    assert ran() == ALL
    run(folder, "work.ipynb", "-o", "out.ipynb")
    assert ran() == []
    (folder / "hold").touch()
    process = start(folder, "run", "work.ipynb", "-o", "out.ipynb", "--fresh")
    wait_for(lambda: (folder / "ran").exists() and "last" in (folder / "ran").read_text(), process)
    kill(process)
    kill_and_wait(kernel_of(folder))
    process.communicate()
    assert ran() == ALL
    (folder / "hold").unlink()
    run(folder, "work.ipynb", "-o", "out.ipynb")
    assert ran() == ["last"], "what this run has saved counts"
    assert "".join(outputs(folder / "out.ipynb")[3][0]["data"]["text/plain"]) == "60"


def test_a_client_that_does_not_matter(tmp_path: Path) -> None:
    """`--ignore` holds for every cell, and for whoever goes on with the run."""
    cells = ("import sqlite3\ncon = sqlite3.connect(':memory:')", "a = con.execute('select 1').fetchone()\nprint(a)")
    write(tmp_path / "ask.ipynb", *cells)
    ask = ("ask.ipynb", "--min-seconds", "0s", "--json")
    for words, restored in (((), 0), ((), 0), (("--ignore", "con"), 0), (("--ignore", "con"), 1)):
        told = json.loads(run(tmp_path, *ask, *words).stdout)
        assert told["restored"] == restored, (words, told["cells"])


def test_parameters_are_injected_and_make_runs_of_their_own(notebook: Path) -> None:
    folder = notebook.parent
    first = in_its_loop(folder, "-p", "scale", "3")
    kill(first, signal.SIGTERM)
    ended(first, 143)
    other = run(folder, "work.ipynb", "-o", "other.ipynb", "-r", "scale", "3", "-p", "sacle", "0.5", code=1)
    assert "no parameter sacle" in other.stderr
    assert "can't multiply" in other.stderr
    found = json.loads((folder / "other.ipynb").read_text())["cells"]
    assert ["".join(cell["source"]) for cell in found[1:3]] == ["scale = 1", '# Parameters\nsacle = 0.5\nscale = "3"']
    assert found[2]["metadata"] == {"tags": ["injected-parameters"]}
    again = run(folder, "work.ipynb", "-o", "out.ipynb", "-p", "scale", "3")
    assert lines(again)[3] == "resumed"
    assert [(one.inputs, one.status) for one in runs(folder)] == [
        ({"sacle": 0.5, "scale": "3"}, "failed"),
        ({"scale": 3}, "completed"),
    ]


def test_a_parameter_that_only_says_how_far_a_loop_goes_lets_it_go_on(tmp_path: Path) -> None:
    """`-p epochs 6` where there were four: the turns are those of a run with six."""
    body = (
        "for epoch in range(epochs):\n    time.sleep(0.3)\n    values.append(random.random())\n    print(epoch, values)"
    )
    cells = (
        "epochs = 4",
        "import random, time\nrandom.seed(7); values = []",
        body,
        "print(len(values), random.random())",
    )
    write(tmp_path / "work.ipynb", *cells, parameters=0)
    run(tmp_path, "work.ipynb", "-o", "short.ipynb")
    longer = run(tmp_path, "work.ipynb", "-o", "long.ipynb", "-p", "epochs", "6")
    assert "loop continued at 5 of 6" in longer.stdout + longer.stderr
    run(tmp_path, "work.ipynb", "-o", "straight.ipynb", "-p", "epochs", "6", "--store", str(tmp_path / "other"))
    assert (tmp_path / "long.ipynb").read_bytes() == (tmp_path / "straight.ipynb").read_bytes()


def test_it_is_not_run_twice_at_once(tmp_path: Path) -> None:
    folder = tmp_path
    write(folder / "work.ipynb", *(cell.replace("40", "4000") for cell in CELLS))
    process = in_its_loop(folder)
    refused = run(folder, "work.ipynb", "-o", "out.ipynb", code=2)
    assert f"is being run already, by process {process.pid}" in refused.stderr
    assert "0 0." in printed(folder / "out.ipynb"), "what it had written is left alone"
    assert process.poll() is None
    kill(process, signal.SIGINT)
    ended(process, 130)


def test_a_script_with_cells(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "# %%\nimport time\n# %% [markdown]\n# # Title\n# %%\ntime.sleep(1.1)\nx = 3\nx\n"
    )
    (tmp_path / ".nbcheckpoint").mkdir(mode=0o700)
    first = run(tmp_path, "work.py")
    assert lines(first) == ["computed", "computed"]
    before = (tmp_path / "work.out.ipynb").read_bytes()
    assert lines(run(tmp_path, "work.py")) == ["computed", "restored"]
    assert (tmp_path / "work.out.ipynb").read_bytes() == before
    assert [cell["cell_type"] for cell in json.loads(before)["cells"]] == ["code", "markdown", "code"]


def test_a_store_elsewhere_a_folder_elsewhere_and_a_secret(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.txt").write_text("here")
    write(tmp_path / "work.ipynb", "import os, time\ntime.sleep(1.1)\ntext = open('in.txt').read()\nprint(text)")
    words = ("work.ipynb", "--store", "elsewhere", "--cwd", "data", "-p", "api_key", "hunter22")
    assert lines(run(tmp_path, *words)) == ["computed", "computed"]
    assert printed(tmp_path / "work.out.ipynb") == "here\n"
    assert not (tmp_path / ".nbcheckpoint" / "cache.db").exists()
    shown = ended(start(tmp_path, "runs", "--store", "elsewhere", "--json"), 0).stdout
    assert "hunter22" not in shown
    assert json.loads(shown)[0]["inputs"] == {"api_key": "<hidden>"}


def refused(*words: str, code: int) -> str:
    done = CliRunner().invoke(main, ["run", *words])
    assert done.exit_code == code, done.output
    sentence, hint = done.stderr.strip().splitlines()
    assert sentence.startswith("nbcheckpoint: ")
    assert hint.startswith("  ")
    return sentence


def test_what_cannot_be_run_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "work.ipynb", "x = 1")
    assert "there is no notebook" in refused("other.ipynb", code=3)
    (tmp_path / "broken.ipynb").write_text('{"cells": [{"cell_type": "nonsense"}]}')
    assert "is not a valid notebook" in refused("broken.ipynb", code=2)
    (tmp_path / "text.ipynb").write_text("hello")
    assert "is not a valid notebook" in refused("text.ipynb", code=2)
    (tmp_path / "latin.ipynb").write_bytes((tmp_path / "work.ipynb").read_bytes().replace(b"x = 1", b"x = '\xe9'"))
    assert "is not a valid notebook: 'utf-8' codec" in refused("latin.ipynb", code=2)
    assert "is a folder" in refused(".", code=2)
    assert "there is no kernel 'perl'" in refused("work.ipynb", "--kernel", "perl", code=3)
    assert "cannot be written" in refused("work.ipynb", "-o", "none/out.ipynb", code=2)
    assert "memory:// store" in refused("work.ipynb", "--store", "memory://", code=2)
    assert "'1x' is not a name" in refused("work.ipynb", "-p", "1x", "2", code=2)
    write(tmp_path / "r.ipynb", "x <- 1", kernelspec={"name": "ir", "display_name": "R"})
    assert "there is no kernel 'ir'" in refused("r.ipynb", code=3)
    monkeypatch.setitem(sys.modules, "jupytext", None)
    (tmp_path / "work.py").write_text("# %%\n1")
    assert "jupytext is not installed" in refused("work.py", code=1)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "what was there before is there again"
    spec = tmp_path / "jupyter" / "kernels" / "other"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-S", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Other", "language": "julia"}))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    assert "runs julia" in refused("work.ipynb", "--kernel", "other", code=2)


def test_a_kernel_without_nbcheckpoint(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['nbcheckpoint'] = None; from ipykernel.kernelapp import *; launch_new_instance()"
    spec = tmp_path / "jupyter" / "kernels" / "bare"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-c", hide, "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Bare", "language": "python"}))
    write(tmp_path / "work.ipynb", "x = 1")
    env = {**os.environ, "JUPYTER_DATA_DIR": str(tmp_path / "jupyter")}
    done = run(tmp_path, "work.ipynb", "--kernel", "bare", code=1, env=env)
    assert "the kernel cannot import nbcheckpoint" in done.stderr
    assert runs(tmp_path)[0].status == "failed"


def test_on_a_terminal_it_shows_how_far_it_is_and_how_long_it_will_take(notebook: Path) -> None:
    folder = notebook.parent
    run(folder, "work.ipynb", "-o", "out.ipynb")
    words = ("run", "work.ipynb", "-o", "out.ipynb", "--fresh", "--report", "html")
    leader, follower = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "nbcheckpoint", *words], cwd=folder, stderr=follower)
    os.close(follower)
    seen = b""
    while chunk := _read(leader):
        seen += chunk
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert "[3] values = []" in text, "the cell"
    assert re.search(r"\b[1-9]\d/40", text), "its loop"
    assert re.search(r"2 computed, about [\d.]+ s left", text), "by what it took before"
    assert re.search(r"computed [\d.]+ s: --fresh · saved turn, values", text), "and then the line under the cell"
    report = (folder / "out.report.html").read_text()
    assert "saved turn, values" in report
    assert "<script" not in report


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:
        return b""  # Linux says so when nobody is left to write


def test_the_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    write(tmp_path / "work.ipynb", "print(1)")
    (tmp_path / "real.ipynb").write_text("")
    os.chmod(tmp_path / "real.ipynb", 0o640)
    (tmp_path / "link.ipynb").symlink_to("real.ipynb")
    run(tmp_path, "work.ipynb", "-o", "link.ipynb")
    assert (tmp_path / "link.ipynb").is_symlink()
    assert stat.S_IMODE((tmp_path / "real.ipynb").stat().st_mode) == 0o640
    assert printed(tmp_path / "real.ipynb") == "1\n"


def test_it_is_a_command_of_jupyter_too() -> None:
    assert "run" in main.commands
    scripts = Path(sys.executable).parent
    found = subprocess.run(
        [str(scripts / "jupyter"), "nbcheckpoint", "run", "--help"], capture_output=True, text=True, check=True
    )
    assert "Example: nbcheckpoint run" in found.stdout


def test_resume_runs_it_again_as_it_was_asked_for(notebook: Path) -> None:
    folder = notebook.parent
    process = in_its_loop(folder, "-p", "scale", "3")
    kill(process, signal.SIGTERM)
    ended(process, 143)
    (folder / "elsewhere").mkdir()
    again = ended(start(folder / "elsewhere", "resume", "--json"), 0)
    outcome = json.loads(again.stdout)
    assert (outcome["status"], outcome["resumed"], outcome["run"]["inputs"]) == ("completed", 1, {"scale": 3})
    assert outcome["out"] == str(folder / "out.ipynb")
    assert len(runs(folder)) == 1
    assert "nothing to resume" in ended(start(folder, "resume", "work.ipynb"), 0).stdout
    assert "nothing to resume" in ended(start(folder, "resume", runs(folder)[0].id[-6:]), 0).stdout
    assert "no run" in ended(start(folder, "resume", "other.ipynb"), 3).stderr


def test_what_is_not_written_down_is_asked_for_again(tmp_path: Path) -> None:
    write(tmp_path / "work.ipynb", "1 / 0")
    run(tmp_path, "work.ipynb", "-p", "db_password", "hunter22", code=1)
    refused = ended(start(tmp_path, "resume"), 2)
    assert "db_password was not written down" in refused.stderr
    assert "hunter22" not in refused.stderr


def test_plan_says_beforehand_what_a_run_does(notebook: Path) -> None:
    folder = notebook.parent
    assert "there is no store" in ended(start(folder, "plan", "work.ipynb"), 3).stderr
    run(folder, "work.ipynb", "-o", "out.ipynb", "-p", "scale", "2")
    words = ("plan", "work.ipynb", "-p", "scale", "2")
    plan = json.loads(ended(start(folder, *words, "--json"), 0).stdout)
    found = {row["source"].splitlines()[0]: row["action"] for row in plan["statements"]}
    assert found["for turn in range(40):"] == "restore"
    assert found["time.sleep(1.1)"] == "restore"
    assert plan["restore_seconds"] > 2
    assert "restore 2: spares" in ended(start(folder, *words), 0).stdout
    other = json.loads(ended(start(folder, "plan", "work.ipynb", "-p", "scale", "4", "--json"), 0).stdout)
    assert [row["action"] for row in other["statements"] if row["source"].startswith("for")] == ["run"]


def test_out_of_memory_it_can_be_run_again_where_there_is_more(tmp_path: Path) -> None:
    # Asked for, and not touched: it takes no time.
    needs_much = "import numpy as np\nmuch = np.zeros(16 << 30, np.int8).nbytes"
    write(tmp_path / "work.ipynb", "import time\ntime.sleep(1.1)\nx = 1", needs_much)
    little = 12 << 30
    limited = run(
        tmp_path, "work.ipynb", code=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (little, little))
    )
    assert "cell 2 failed: MemoryError" in limited.stderr
    assert runs(tmp_path)[0].status == "failed"
    assert lines(run(tmp_path, "work.ipynb")) == ["restored", "computed"]
    assert [(found.status, found.sessions) for found in runs(tmp_path)] == [("completed", 2)]


FLOW = """\
import nbcheckpoint as nbc, time

@nbc.step
def double(x):
    time.sleep(0.1)
    return 2 * x

@nbc.flow
def work(n):
    parts = double.map(range(n))
    if nbc.pause("Go on?", name="gate", choices=["yes", "no"]) == "yes":
        return sum(parts)"""


def test_a_flow_that_waits_for_an_answer(tmp_path: Path) -> None:
    write(tmp_path / "work.ipynb", FLOW, "work(12)", "'done'")
    waits = run(tmp_path, "work.ipynb", code=4)
    paused = {found.kind: found for found in runs(tmp_path)}
    assert waits.stderr.splitlines()[-2:] == [
        "nbcheckpoint: paused at 'gate': Go on? (yes / no)",
        f"  answer with: nbcheckpoint answer {paused['flow'].id} gate VALUE, then run this again",
    ]
    assert lines(waits) == ["computed", "paused"]
    assert "fail" not in waits.stderr, "nothing went wrong"
    assert (paused["notebook"].status, paused["flow"].status) == ("paused", "paused")
    ended(start(tmp_path, "answer", paused["flow"].id, "gate", "yes"), 0)
    run(tmp_path, "work.ipynb")
    shown = outputs(tmp_path / "work.out.ipynb")
    assert [output["data"] for output in shown[1]] == [{"text/plain": ["132"]}], "how far it is, is not in it"
    assert {found.status for found in runs(tmp_path)} == {"completed"}


@pytest.mark.parametrize("where", ["2>&1 | true", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_whoever_reads_its_log_may_leave(tmp_path: Path, where: str) -> None:
    """`nbcheckpoint run work.ipynb 2>&1 | head -1`: the notebook is not what ended. Nor where there is nothing to write
    to, as under some daemons, or the disk of the log is full."""
    write(tmp_path / "work.ipynb", "x = 1", "x + 1")
    script = f"set -o pipefail; {shlex.quote(sys.executable)} -m nbcheckpoint run work.ipynb {where}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0
    assert outputs(tmp_path / "work.out.ipynb")[1][0]["data"] == {"text/plain": ["2"]}


def test_what_a_restored_cell_changed_above_is_changed_again(tmp_path: Path) -> None:
    above = "from IPython.display import display\nimport sys, time\nbar = display('0 %', display_id='bar')"
    below = "for share in range(0, 101, 10):\n    time.sleep(0.12)\n    bar.update(f'{share} %')"
    much = "for _ in range(3):\n    time.sleep(0.4)\n    print('x' * (1 << 20))"
    write(tmp_path / "work.ipynb", above, below, much)
    run(tmp_path, "work.ipynb", "-o", "first.ipynb")
    again = run(tmp_path, "work.ipynb", "-o", "second.ipynb")
    assert lines(again)[1:] == ["restored", "restored"]
    assert (tmp_path / "first.ipynb").read_bytes() == (tmp_path / "second.ipynb").read_bytes()
    assert outputs(tmp_path / "second.ipynb")[0][0]["data"]["text/plain"] == ["'100 %'"]

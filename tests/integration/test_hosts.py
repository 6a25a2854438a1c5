"""Wherever IPython runs: a cell whose kernel was killed is restored there, without a word about the place."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import nbclient
import nbformat
import pexpect
import pytest

from nbcheckpoint.store import open_store
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

PATIENCE = 120
"""Seconds. On a busy machine an interpreter takes its time to start."""
LOAD = "%load_ext nbcheckpoint"
AUTO = "%checkpoint auto --min-seconds 0.2s"
SLOW = "import time, uuid; x = [time.sleep(0.5), uuid.uuid4().hex][1]"
"""Never the same twice, unless it is restored."""


@pytest.fixture
def quiet(tmp_path: Path) -> dict[str, str]:
    """An environment with nothing of the developer's own in it, and no colours."""
    own = {"IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    return {**os.environ, **own, "TERM": "dumb", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def typed(terminal: pexpect.spawn[str], line: str, *, until: str) -> str:
    """Type a line, as one does. Returns what was shown before `until` came."""
    terminal.expect(r"In ?\[\d+\]: ", timeout=PATIENCE)
    terminal.sendline(line)
    terminal.expect(until, timeout=PATIENCE)
    return str(terminal.before)


def in_a_terminal(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Two sessions: the first is killed, the second finds what it left."""
    seen = []
    for _ in range(2):
        terminal = pexpect.spawn(
            command[0], command[1:], cwd=str(folder), env=env, encoding="utf-8", dimensions=(50, 200)
        )
        try:
            typed(terminal, LOAD, until="\n")
            typed(terminal, AUTO, until="utomatic")
            line = "(computed|restored) "
            typed(terminal, SLOW, until=line)
            status = terminal.match.group(1)  # type: ignore[union-attr]  # it has just matched
            typed(terminal, "import os; print('<', x, os.getpid(), '>')", until=r"< (\w+) (\d+) >")
            value, pid = terminal.match.groups()  # type: ignore[union-attr]  # so has this
            seen.append((status, value))
            os.kill(int(pid), signal.SIGKILL)
        finally:
            terminal.close(force=True)
    assert [status for status, _ in seen] == ["computed", "restored"]
    assert seen[0][1] == seen[1][1]


def test_plain_ipython_in_a_terminal(tmp_path: Path, quiet: dict[str, str]) -> None:
    options = ["--simple-prompt", "--no-banner", "--no-confirm-exit", "--HistoryManager.enabled=False"]
    in_a_terminal([sys.executable, "-m", "IPython", *options], tmp_path, quiet)


def test_jupyter_console(tmp_path: Path, quiet: dict[str, str]) -> None:
    in_a_terminal([sys.executable, "-m", "jupyter_console", "--simple-prompt"], tmp_path, quiet)


def test_nbclient(tmp_path: Path) -> None:
    """Executed without a front end: the kernel dies in the third cell, and the next execution goes on there."""
    (tmp_path / "once").touch()
    dies = (
        "import os, signal\nif os.path.exists('once'):\n    os.remove('once')\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    cells = [f"{LOAD}\n{AUTO}", SLOW, f"# plain\n{dies}", "print(x)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])

    def execute() -> nbformat.NotebookNode:
        resources = {"metadata": {"path": str(tmp_path)}}
        client = nbclient.NotebookClient(notebook.copy(), timeout=PATIENCE, kernel_name="python3", resources=resources)
        return client.execute()

    with pytest.raises(nbclient.exceptions.DeadKernelError):
        execute()
    with open_store(tmp_path / ".nbcheckpoint", create=False) as store:
        assert store.runs(limit=1)[0].status == "interrupted"
    said = [
        out["data"]["text/plain"] for out in execute().cells[1].outputs if "nbcheckpoint" in out.get("metadata", {})
    ]
    assert said
    assert said[0].startswith("restored from")


VSCODE = "__vsc_ipynb_file__ = {!r}"
COLAB = """
import sys, types
google = sys.modules.setdefault("google", types.ModuleType("google"))
google.colab = sys.modules["google.colab"] = types.ModuleType("google.colab")
google.colab.drive = sys.modules["google.colab.drive"] = types.ModuleType("google.colab.drive")
"""


def killed_and_restored(kernel: Kernel, setup: str) -> None:
    """The same cell in two kernels, each set up as the place does it."""
    kernel.run(setup)
    kernel.run(LOAD)
    assert kernel.run(f"%%checkpointed\n{SLOW}").status == "computed"
    value = kernel.run("x").result
    kernel.kill()
    kernel.start()
    kernel.run(setup)
    kernel.run(LOAD)
    assert kernel.run(f"%%checkpointed\n{SLOW}").status == "restored"
    assert kernel.run("x").result == value


def test_a_kernel_of_vs_code(tmp_path: Path) -> None:
    """It tells the notebook's path by a variable, in a cell nobody sees. The run bears its name."""
    (tmp_path / "deep").mkdir()
    with Kernel(tmp_path, env={"JPY_SESSION_NAME": ""}) as kernel:
        killed_and_restored(kernel, VSCODE.format(str(tmp_path / "deep" / "mine.ipynb")))
        assert kernel.run("[n for n in globals() if 'nbc' in n.lower()]").result == "[]"
        where = kernel.run("answer = %checkpoint runs\nanswer.data[0]['workflow']").result
    assert where == "'mine.ipynb'"


def test_colab_has_a_place_of_its_own_for_a_cells_id(tmp_path: Path) -> None:
    """By it a step is known as this cell's; a cell that a cell runs has none."""
    with Kernel(tmp_path) as kernel:
        kernel.run(LOAD)
        source = "%%checkpointed\nget_ipython().run_cell('%%checkpointed inner\\ny = 1')\nx = 1"
        assert kernel.run(source, metadata={"colab": {"cell_id": "uNVaQZ"}}).status == "computed"
        kernel.shutdown()
    with open_store(tmp_path / ".nbcheckpoint", create=False) as store:
        steps = store.steps(store.runs(limit=1)[0].id)
    assert {step.name: step.cell for step in steps} == {steps[0].name: "uNVaQZ", "inner": ""}


def test_a_kernel_of_colab(tmp_path: Path) -> None:
    """It tells nothing about the notebook, runs in a folder of its own, and has modules without files."""
    env = {
        "JPY_SESSION_NAME": "",
        "COLAB_RELEASE_TAG": "release-colab",
        "COLAB_GPU": "0",
        "COLAB_BACKEND_VERSION": "next",
    }
    with Kernel(tmp_path, env=env) as kernel:
        killed_and_restored(kernel, COLAB)

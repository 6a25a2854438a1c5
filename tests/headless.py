"""Notebooks written down, `nbcheckpoint run` on them, and moments to kill it at."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbcheckpoint.model import Checkpoint, Run
from nbcheckpoint.notebook.history import checkpoints
from nbcheckpoint.store import open_store

PATIENCE = 60.0


def write(path: Path, *cells: str, parameters: int | None = None, **metadata: Any) -> Path:
    """A notebook of these code cells, in a folder with a store of its own. `parameters`: the cell tagged so."""
    made = [
        {"cell_type": "code", "id": f"c{at}", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for at, source in enumerate(cells)
    ]
    if parameters is not None:
        made[parameters]["metadata"] = {"tags": ["parameters"]}
    path.write_text(json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    (path.parent / ".nbcheckpoint").mkdir(mode=0o700, exist_ok=True)
    return path


def start(folder: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nbcheckpoint", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(folder: Path, *words: str, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    """`nbcheckpoint run …` to its end, which has this code."""
    return ended(start(folder, "run", *words, **options), code)


def ended(process: subprocess.Popen[str], code: int) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == code, f"{process.returncode}:\n{out}\n{err}"
    assert "nbcheckpoint/cli" not in err, err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def wait_for(what: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        if process is not None:
            assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    return found


def runs(folder: Path) -> list[Run]:
    """Newest first."""
    with open_store(folder / ".nbcheckpoint") as store:
        return store.runs()


def progress(folder: Path) -> list[Checkpoint]:
    """Loops whose progress is saved."""
    if not (folder / ".nbcheckpoint" / "cache.db").exists():
        return []
    with open_store(folder / ".nbcheckpoint") as store:
        return [checkpoint for checkpoint in checkpoints(store) if checkpoint.progress is not None]


def kernel_of(folder: Path) -> int:
    """The process that works on the run."""
    latest = runs(folder)[0]
    assert latest.owner is not None
    return latest.owner.pid


def kill(process: subprocess.Popen[str], number: int = signal.SIGKILL) -> None:
    os.kill(process.pid, number)


def kill_and_wait(pid: int) -> None:
    """SIGKILL, and wait: it is sent at once and takes effect a moment later. A process that is gone already is fine."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([process], [], [], PATIENCE)[0], "it did not die"
    finally:
        os.close(process)


def outputs(path: Path) -> list[Any]:
    return [cell["outputs"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def printed(path: Path) -> str:
    """All that its cells printed."""
    shown = [output for cell in outputs(path) for output in cell if output["output_type"] == "stream"]
    return "".join("".join(output["text"]) for output in shown)


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What became of each cell, in a word."""
    found = [re.match(r"\[ *\d+/\d+\] .{48}  (\w+)", line) for line in done.stderr.splitlines()]
    return [line[1] for line in found if line]

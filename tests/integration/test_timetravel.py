"""`%checkpoint restore` and `%checkpoint resume` in kernels that were killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.test_words import LOAD, data, refused
from tests.kernels import Kernel

pytestmark = pytest.mark.slow


def write_notebook(folder: Path, *cells: str) -> None:
    """What the front end would have saved."""
    code = [
        {"cell_type": "code", "id": f"cell-{at}", "source": source, "metadata": {}, "outputs": []}
        for at, source in enumerate(cells)
    ]
    text = {"cell_type": "markdown", "id": "text", "source": "# A title", "metadata": {}}
    document = {"cells": [text, *code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "work.ipynb").write_text(json.dumps(document))


def fresh(kernel: Kernel) -> None:
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)


def checkpoint_of(kernel: Kernel, source: str) -> str:
    (found,) = [item["id"] for item in data(kernel, "list --limit 100") if item["source"] == source]
    return str(found)


def run_of(kernel: Kernel) -> str:
    return str(data(kernel, "runs")[0]["id"])


def test_the_namespace_as_it_was_after_a_step(kernel: Kernel) -> None:
    kernel.run("import random\nrandom.seed(3)")
    kernel.run("%%checkpointed\na = [1]\nb = a\nc = 'gone soon'")
    kernel.run("%%checkpointed\na.append(random.random())\ndel c")
    expected = kernel.run("a, random.random()").result
    kernel.run("%%checkpointed\na = 'later'")
    at = checkpoint_of(kernel, "del c")
    fresh(kernel)
    kernel.run("c = 'here'\na = 'now'")
    shown = kernel.run(f"%checkpoint restore {at}").result
    assert "bound: a, b" in shown
    assert "random state: random" in shown
    assert "deleted: c" in shown
    assert kernel.run("import random\na, random.random()").result == expected
    assert kernel.run("a is b, 'c' in globals()").result == "(True, False)"


def test_the_end_of_a_run_and_only_some_names(kernel: Kernel) -> None:
    kernel.run("%%checkpointed\na = 1\nb = 2")
    kernel.run("%%checkpointed\na = 3")
    run = run_of(kernel)
    fresh(kernel)
    assert data(kernel, f"restore {run[-6:]} --names b")["bound"].keys() == {"b"}
    assert kernel.run("'a' in globals(), b").result == "(False, 2)"
    kernel.run(f"%checkpoint restore {run}")
    assert kernel.run("a, b").result == "(3, 2)"
    assert "there was no nope then · it had: a, b" in refused(kernel, f"restore {run} --names nope")
    assert "is not a name" in refused(kernel, f"restore {run} --names 1x")


def test_what_cannot_be_bound_is_named_and_never_older(kernel: Kernel) -> None:
    kernel.run("import socket\nclass Model:\n    pass")
    kernel.run("%%checkpointed\nlock = None\nm = Model()\nn = 1\nk = 1\nlock = socket.socket()\nk = eval('2')")
    run = run_of(kernel)
    fresh(kernel)
    found = data(kernel, f"restore {run}")
    assert found["bound"].keys() == {"n"}
    assert "cannot be pickled" in found["not_bound"]["lock"]
    assert "it uses eval()" in found["not_bound"]["k"]
    assert "__main__.Model does not exist here: run the cell that defines it" in found["not_bound"]["m"]
    assert kernel.run("[name in globals() for name in ('lock', 'm', 'k')]").result == "[False, False, False]"
    assert "--run would run these again" in kernel.run(f"%checkpoint restore {run}").result
    kernel.run("class Model:\n    pass")
    assert data(kernel, f"restore {run} --names m")["bound"].keys() == {"m"}
    assert kernel.run("isinstance(m, Model)").result == "True"


def test_stored_source_runs_only_with_run_and_is_shown_first(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("import socket")
    make = "lock = [socket.socket(), n, open('ran', 'a').write('x')]"
    kernel.run(f"%%checkpointed\nn = t = 1\n{make}\nn = 2\ndel t\ndone = len(lock)")
    run = run_of(kernel)
    assert (tmp_path / "ran").read_text() == "x"
    fresh(kernel)
    kernel.run(f"%checkpoint restore {run}")
    assert (tmp_path / "ran").read_text() == "x", "nothing is executed unasked"
    assert "name 'socket' is not defined" in data(kernel, f"restore {run} --names lock --run")["not_bound"]["lock"]
    kernel.run("import socket")
    shown = kernel.run(f"%checkpoint restore {run} --run")
    assert "bound: n, lock, done" in shown.result
    assert kernel.run("'t' in globals()").result == "False", "what was deleted is, however it came"
    assert "lock = [socket.socket(), n," in shown.stdout
    assert kernel.run("lock[1], n, done").result == "(1, 2, 3)", "it saw n as it was then"
    assert (tmp_path / "ran").read_text() == "xx"


def test_a_change_nobody_recorded_is_noticed(kernel: Kernel) -> None:
    kernel.run("%%checkpointed\na = [1]\nb = [1]")
    kernel.run("a.append(2)")  # a plain cell
    kernel.run("%%checkpointed\nc = len(a) + len(b)")
    run = run_of(kernel)
    fresh(kernel)
    found = data(kernel, f"restore {run}")
    assert found["bound"].keys() == {"b", "c"}
    assert "changed after it was saved" in found["not_bound"]["a"]


def test_a_statement_that_was_not_saved_casts_doubt(kernel: Kernel) -> None:
    kernel.run("%%checkpointed\na = [1]\na.append(eval('2'))")
    run = run_of(kernel)
    fresh(kernel)
    assert "a may have been changed since" in kernel.run(f"%checkpoint restore {run}").result


def test_wrong_ids_and_strangers(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%%checkpointed\nx = 1\ny = 2")
    assert "no run or checkpoint zzz" in refused(kernel, "restore zzz")
    assert "required" in refused(kernel, "restore")
    run, at = run_of(kernel), checkpoint_of(kernel, "x = 1")
    when = at.rpartition("-")[2][:6]  # both were made then; less of it could also be in the random end of the run's id
    assert "could be any of 2 checkpoints" in refused(kernel, f"restore {when}")
    kernel.shutdown()
    with Kernel(tmp_path, env={"JUPYTER_DATA_DIR": str(tmp_path / "stranger")}) as other:
        other.run(LOAD)
        for target in (run, at):
            said = refused(other, f"restore {target}")
            assert "does not carry your signature" in said
            assert f"%checkpoint trust {target}" in said
        assert "does not carry your signature" in refused(other, "resume")
        other.run(f"%checkpoint trust {run} --yes")
        other.run(f"%checkpoint restore {run}")
        assert other.run("x, y").result == "(1, 2)"


def test_a_damaged_checkpoint_costs_only_its_names(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%%checkpointed\nimport os\nbig = os.urandom(6_000_000)\nx = 1")
    run = run_of(kernel)
    fresh(kernel)
    for path in (tmp_path / ".nbcheckpoint").rglob("*"):
        if path.is_file() and path.stat().st_size > 5_000_000:
            path.chmod(0o600)
            path.write_bytes(b"x" * path.stat().st_size)
    found = data(kernel, f"restore {run}")
    assert found["bound"].keys() == {"x"}
    assert found["not_bound"].keys() == {"big"}


CELLS = (
    LOAD,
    "import time\ndef f(x): return x + 1",
    "%%checkpointed\nx = f(1)\nlog = [x]",
    "%%checkpointed train\n_ = log.append(3), time.sleep(0.7)\nprint('now')\ntime.sleep(60)",
    "%%checkpointed\nlast = 1",
)


def test_resume_says_which_cell_comes_next(kernel: Kernel, tmp_path: Path) -> None:
    write_notebook(tmp_path, *CELLS)
    kernel.run(CELLS[1])
    kernel.run(CELLS[2])
    kernel.start_cell(CELLS[3], until="now")
    fresh(kernel)
    shown = kernel.run("%checkpoint resume").result
    assert "work.ipynb" in shown
    assert "interrupted" in shown
    assert "bound: x, log" in shown
    assert "next: cell 4: _ = log.append(3), time.sleep(0.7) (it was running when its kernel died)" in shown
    assert "run these cells first: 2" in shown
    assert kernel.run("x, log").result == "(2, [2])", "the cell that is run again starts from what it started from"
    kernel.run(CELLS[1])
    again = kernel.run(CELLS[3].replace("60", "0"))
    assert again.status == "resumed", again.line
    assert kernel.run("log").result == "[2, 3]"


def test_resume_after_a_resume(kernel: Kernel, tmp_path: Path) -> None:
    write_notebook(tmp_path, *CELLS)
    kernel.run(CELLS[1])
    kernel.run(CELLS[2])
    fresh(kernel)
    assert data(kernel, "resume")["next"]["number"] == 4
    fresh(kernel)
    found = data(kernel, "resume")
    assert found["bound"].keys() == {"x", "log"}
    assert found["next"]["number"] == 4
    assert "this kernel is not a fresh one: log, x would be overwritten" in refused(kernel, "resume")


def test_resume_without_a_notebook_file(kernel: Kernel) -> None:
    assert "there is no store" in refused(kernel, "resume")
    kernel.run("%%checkpointed first\nx = 1")
    assert "there is no earlier run" in refused(kernel, "resume")
    kernel.restart()
    kernel.run(LOAD)
    found = data(kernel, "resume")
    assert found["next"] == {"name": "first", "cell": "", "after": True}
    assert kernel.run("x").result == "1"
    kernel.run("%%checkpointed bad\nraise ValueError", fails=True)
    fresh(kernel)
    assert "next: bad (it failed)" in kernel.run("%checkpoint resume").result


def test_resume_leaves_a_living_run_alone(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%%checkpointed\nx = 1")
    with Kernel(tmp_path) as other:
        other.run(LOAD)
        assert "is running in another kernel" in other.run("%checkpoint resume").result
        assert data(other, "resume")["alive"] is True
        assert other.run("'x' in globals()").result == "False"


def test_a_notebook_that_cannot_be_read(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%%checkpointed\nx = 1")
    fresh(kernel)
    (tmp_path / "work.ipynb").write_text("{")
    assert "work.ipynb cannot be read as a notebook" in refused(kernel, "resume")
    assert kernel.run("'x' in globals()").result == "False"

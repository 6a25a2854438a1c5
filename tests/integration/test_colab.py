"""The kernels that Colab has: IPython 7.34 and ipykernel 6.17, for real, in an environment that is made for this.

Colab warns that another IPython ends its runtimes, so what we ask for has to go along with these.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import Cell, Kernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.version_info >= (3, 13), reason="Colab has Python 3.12"),
]

ROOT = Path(__file__).parents[2]
COLAB = ("ipython==7.34.0", "ipykernel==6.17.1", "jupyter_client==6.1.12")
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def asked_for() -> list[str]:
    """What `pip install nbcheckpoint` installs."""
    found = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return re.findall(r'"(.+?)"', found[1])


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with what Colab has and what we ask for, and with nothing else."""
    folder = tmp_path_factory.mktemp("colab")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", f"{folder}/bin/python", "install", "-q", "--no-compile"]
    done = subprocess.run([*pip, *COLAB, *asked_for()], capture_output=True, text=True, check=False)
    if done.returncode and "conflict" not in done.stderr:
        why = f"nothing can be installed here: {done.stderr.strip().splitlines()[-1:]}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    assert not done.returncode, done.stderr
    return f"{folder}/bin/python"


@pytest.fixture
def colab(python: str, tmp_path: Path) -> Iterator[Kernel]:
    """A kernel that knows nothing about its notebook, saving by itself."""
    with Kernel(tmp_path, python=python, env={"PYTHONPATH": str(ROOT), "JPY_SESSION_NAME": ""}) as kernel:
        begin(kernel)
        yield kernel


def begin(kernel: Kernel) -> None:
    assert kernel.run("import IPython, ipykernel\nIPython.__version__, ipykernel.__version__").result == (
        "('7.34.0', '6.17.1')"
    )
    kernel.run("%load_ext nbcheckpoint")
    kernel.run("%checkpoint auto --min-seconds 0.2s")


def die(kernel: Kernel, code: str) -> None:
    """Run what kills the kernel, and begin anew."""
    kernel.client.execute(code)
    kernel.manager.provisioner.process.wait(60)  # type: ignore[union-attr]
    kernel.kill_again()
    kernel.start()
    begin(kernel)


def plain(cell: Cell) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(cell.traceback))


def test_a_cell_killed_in_its_last_statement_goes_on_there(colab: Kernel) -> None:
    cell = "import os, time, uuid\nx = (time.sleep(0.7), uuid.uuid4().hex)[1]\nprint('made', x)\ny = after(x)"
    colab.run(f"def after(x):\n    {DIE}")
    die(colab, cell)
    colab.run("def after(x):\n    return x[::-1]")
    resumed = colab.run(cell)
    assert resumed.line.startswith("restored from")
    assert colab.run("y == x[::-1]").result == "True"
    assert colab.run("x").result[1:-1] in resumed.stdout


def test_a_loop_goes_on_where_it_was(colab: Kernel) -> None:
    setup = "import os, random, time\nrandom.seed(1)\ndrawn = []"
    loop = (
        "for number in range(6):\n"
        "    time.sleep(0.3)\n"
        "    drawn.append(random.random())\n"
        "    print(number)\n"
        f"    if number == 4 and not os.path.exists('once'): open('once', 'w').close(); {DIE}"
    )
    colab.run(setup)
    die(colab, loop)
    colab.run(setup)
    resumed = colab.run(loop)
    assert re.match(r"resumed: loop continued at [2-6] of 6", resumed.line), resumed.line
    assert resumed.stdout.split() == list("012345")
    colab.run("random.seed(1)")
    assert colab.run("drawn == [random.random() for _ in range(6)]").result == "True"


def test_one_line_says_what_became_of_it(colab: Kernel) -> None:
    cell = "import time\nx = (time.sleep(0.3), 1)[1]"
    computed = colab.run(cell)
    assert re.match(r"computed \d+ ms · saved x", computed.line)
    assert computed.status == "computed"
    assert colab.run("x + 1").line == ""
    colab.kill()
    colab.start()
    begin(colab)
    restored = colab.run(cell)
    assert restored.line.startswith("restored from")
    assert restored.status == "restored"
    assert colab.run("x").result == "1"


def test_a_traceback_has_the_users_lines_only(colab: Kernel) -> None:
    cell = "import time\ntime.sleep(0.3)\nfor i in range(3):\n    with open('a', 'w'):\n        1 / (i - 1)"
    for text in (cell, f"%%checkpointed\n{cell}"):
        failed = colab.run(text, fails=True)
        assert failed.error == "ZeroDivisionError"
        told = plain(failed)
        at = text.count("\n") + 1
        assert f"----> {at}         1 / (i - 1)" in told
        assert told.count("---->") == 1
        assert "nbcheckpoint" not in told
        assert "_nbc" not in told


def test_top_level_await(colab: Kernel) -> None:
    cell = (
        "import asyncio, uuid\nasync def get():\n    await asyncio.sleep(0.3)\n    return uuid.uuid4().hex\n"
        "a = await get()\nfor i in range(2):\n    b = await get()\na"
    )
    computed = colab.run(cell)
    restored = colab.run(cell)
    assert computed.status == "computed"
    assert restored.status == "restored"
    assert restored.result == computed.result


@pytest.mark.parametrize("metadata", [{"cellId": "its-id"}, {"colab": {"cell_id": "its-id"}}])
def test_a_cell_is_known_by_the_id_its_request_has(colab: Kernel, metadata: dict[str, Any]) -> None:
    colab.run("%%checkpointed\nx = 1", metadata=metadata)
    asked = "from nbcheckpoint import open_store\nwith open_store() as store:\n"
    told = colab.run(asked + "    print([step.cell for step in store.steps(store.runs()[0].id)])")
    assert "its-id" in told.stdout

"""The page's line to its kernel: silent execution and comms, on real kernels that are idle, busy and killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_timetravel import write_notebook
from tests.kernels import TIMEOUT, Kernel

pytestmark = pytest.mark.slow

SAVED = "%%checkpointed\nx = [1, 2]\nprint('saved')"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """Nobody has loaded anything in it."""
    with Kernel(tmp_path) as kernel:
        yield kernel


def ask(kernel: Kernel, word: str, **args: Any) -> Any:
    """As the page does, by silent execution; asserts that nothing was shown and nothing counted."""
    call = f'__import__("nbcheckpoint.notebook.link", fromlist=["ask"]).ask({word!r}, {json.dumps(args)!r})'
    request = kernel.client.execute("", silent=True, store_history=False, user_expressions={"answer": call})
    while (reply := kernel.client.get_shell_msg(timeout=TIMEOUT))["parent_header"].get("msg_id") != request:
        pass
    shown = kernel.collect(request)
    assert not shown.stdout + shown.stderr
    assert not shown.displays
    answer = reply["content"]["user_expressions"]["answer"]
    assert answer["status"] == "ok", answer
    return answer["data"]["application/json"]


class Comm:
    """A comm to the target `nbcheckpoint`; on a subshell, if asked for, it is answered while a cell runs."""

    def __init__(self, kernel: Kernel, *, subshell: bool = False) -> None:
        self._kernel = kernel
        self._subshell = self._make_subshell() if subshell else None
        self._asked = 0
        self._send("comm_open", {"comm_id": "c0ffee", "target_name": "nbcheckpoint", "data": {}})

    def _make_subshell(self) -> str:
        client = self._kernel.client
        request = client.session.msg("create_subshell_request", {})
        client.control_channel.send(request)
        reply = client.get_control_msg(timeout=TIMEOUT)
        return str(reply["content"]["subshell_id"])

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        message = self._kernel.client.session.msg(kind, content)
        if self._subshell:
            message["header"]["subshell_id"] = self._subshell
        self._kernel.client.shell_channel.send(message)

    def ask(self, word: Any, **args: Any) -> Any:
        self._asked += 1
        data = {"id": self._asked, "ask": word, "args": args}
        self._send("comm_msg", {"comm_id": "c0ffee", "data": data})
        while True:
            message = self._kernel.client.get_iopub_msg(timeout=TIMEOUT)
            if message["msg_type"] == "comm_msg" and message["content"]["data"]["id"] == self._asked:
                return message["content"]["data"]["answer"]


def test_asking_loads_the_extension_and_leaves_no_trace(kernel: Kernel) -> None:
    found = ask(kernel, "status")
    assert (found["loaded"], found["busy"], found["automatic"], found["run"]) == (True, False, False, None)
    assert (found["workflow"], found["names"]) == ("work.ipynb", [])
    assert not (kernel.folder / ".nbcheckpoint").exists(), "asking made a store"
    kernel.run(SAVED)
    found = ask(kernel, "status")
    assert found["names"] == ["x"]
    assert found["run"]["workflow"] == "work.ipynb"
    assert kernel.run("len(In)").result == "3", "asking counted as a cell"


def test_automatic_mode_is_switched_by_the_page(kernel: Kernel) -> None:
    assert ask(kernel, "auto", on=True)["automatic"] is True
    assert ask(kernel, "status")["automatic"] is True
    assert ask(kernel, "auto", on=False)["automatic"] is False
    assert ask(kernel, "auto", on="perhaps")["hint"] == "give true or false"


def test_the_plan_says_which_cells_are_stale(kernel: Kernel) -> None:
    first, second = "%%checkpointed\na = 1", "%%checkpointed\nb = a + 1"
    write_notebook(kernel.folder, "%load_ext nbcheckpoint", first, second)
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(first, id="cell-1")
    kernel.run(second, id="cell-2")
    told = {item["cell_id"]: item for item in ask(kernel, "plan")["statements"]}
    assert [(told[id]["action"], told[id]["stale"]) for id in ("cell-1", "cell-2")] == [("restore", False)] * 2
    write_notebook(kernel.folder, "%load_ext nbcheckpoint", first, "%%checkpointed\nb = a + 2")
    told = {item["cell_id"]: item for item in ask(kernel, "plan")["statements"]}
    assert (told["cell-1"]["action"], told["cell-1"]["stale"]) == ("restore", False)
    assert (told["cell-2"]["action"], told["cell-2"]["stale"]) == ("run", True)


def test_a_killed_kernels_variables_are_foretold_and_brought_back(kernel: Kernel) -> None:
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    kernel.run("%%checkpointed\ny = {'a': 1}\ndel x")
    run = ask(kernel, "status")["run"]["id"]
    kernel.kill()
    kernel.start()
    kernel.run("y = 'mine'\nx = 'here'")
    told = ask(kernel, "restore", target=run, dry_run=True)
    assert [(item["name"], item["now"], item["change"]) for item in told["changes"]] == [
        ("y", "str 'mine'", "replaced"),
        ("x", "str 'here'", "deleted"),
    ]
    assert told["changes"][0]["then"] == "dict 1 items {'a': 1}"
    assert kernel.run("x, y").result == "('here', 'mine')", "foretelling has changed something"
    assert set(ask(kernel, "restore", target=run)["bound"]) == {"y"}
    assert kernel.run("y, 'x' in globals()").result == "({'a': 1}, False)"


@pytest.mark.parametrize("word", ["restore", "resume"])
def test_the_random_state_is_brought_back_too(kernel: Kernel, word: str) -> None:
    kernel.run("%load_ext nbcheckpoint\nimport random\nrandom.seed(3)")
    kernel.run("%%checkpointed\na = random.random()")
    expected = kernel.run("random.random()").result
    run = ask(kernel, "status")["run"]["id"]
    kernel.kill()
    kernel.start()
    assert ask(kernel, word, **({"target": run} if word == "restore" else {}))["random"] == ["random"]
    assert kernel.run("import random\nrandom.random()").result == expected


def test_resuming_a_fresh_kernel(kernel: Kernel) -> None:
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    kernel.kill()
    kernel.start()
    assert set(ask(kernel, "resume")["bound"]) == {"x"}
    assert kernel.run("x").result == "[1, 2]"
    assert "not a fresh one" in ask(kernel, "resume")["message"]


def test_what_makes_no_sense_is_refused_in_words(kernel: Kernel) -> None:
    for word, args in (("reboot", {}), ("restore", {}), ("restore", {"target": 7}), ("plan", {"auto": 1})):
        refused = ask(kernel, word, **args)
        assert refused.keys() == {"message", "hint"}, word
        assert refused["hint"]
    assert ask(kernel, "restore", target="nothing")["message"]


def test_the_words_of_the_command_line_answer_as_records(kernel: Kernel) -> None:
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    (run,) = ask(kernel, "word", line="runs")["records"]
    assert ask(kernel, "word", line=f"pin {run['id']}")["pinned"] is True


def test_a_comm_says_the_same(kernel: Kernel) -> None:
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    comm = Comm(kernel)
    assert comm.ask("status") == ask(kernel, "status")
    assert comm.ask(["no"])["hint"]
    kernel.run("%unload_ext nbcheckpoint")


def test_while_a_cell_runs_its_variables_are_its_own(kernel: Kernel) -> None:
    """A subshell answers in another thread: it may look, but not touch, and the cell never notices."""
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    run = ask(kernel, "status")["run"]["id"]
    comm = Comm(kernel, subshell=True)
    assert comm.ask("status")["busy"] is False
    gate = kernel.folder / "go"
    request = kernel.start_cell(
        f"import os, time\nx = 'mine'\nprint('waiting', flush=True)\nwhile not os.path.exists({str(gate)!r}):"
        "\n    time.sleep(0.01)\nx",
        until="waiting",
    )
    for word, args in (("restore", {"target": run}), ("resume", {}), ("plan", {}), ("word", {"line": "runs"})):
        assert comm.ask(word, **args) == {"message": "a cell is running", "hint": "ask again when it is over"}
    found = comm.ask("status")
    assert (found["busy"], found["run"]["id"]) == (True, run)
    assert comm.ask("auto", on=True)["automatic"] is True
    gate.touch()
    assert kernel.collect(request).result == "'mine'"
    assert comm.ask("status")["busy"] is False
    assert set(comm.ask("restore", target=run)["bound"]) == {"x"}
    assert kernel.run("x").result == "[1, 2]"


def test_the_store_alone_is_asked_while_a_cell_runs(kernel: Kernel) -> None:
    """Runs, steps and previews are records: whoever looks needs nothing of the kernel's own."""
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    comm = Comm(kernel, subshell=True)
    gate = kernel.folder / "go"
    code = (
        f"import os, time\nprint('waiting', flush=True)\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)"
    )
    request = kernel.start_cell(code, until="waiting")
    (run,) = comm.ask("runs")["runs"]
    steps = comm.ask("steps", run=run["id"])["steps"]
    assert [step["status"] for step in steps] == ["completed"] * 3
    shown = comm.ask("preview", checkpoint=steps[1]["checkpoint"])
    assert [(value["name"], value["preview"]) for value in shown["values"]] == [("x", "[1, 2]")]
    assert comm.ask("answer", run=run["id"], pause="gate", value=1)["message"].endswith("asks nothing called 'gate'")
    assert comm.ask("runs", text="no such run")["runs"] == []
    assert (comm.ask("runs")["more"], comm.ask("steps", run=run["id"])["more"]) == (False, False)
    gate.touch()
    kernel.collect(request)
    other = kernel.run("from nbcheckpoint import open_store\nopen_store().begin_run('other').id").result.strip("'")
    kernel.run("import nbcheckpoint.notebook.link as link\nlink.MOST_RUNS = 1\nlink.MOST_STEPS = 2")
    few = comm.ask("runs"), comm.ask("steps", run=run["id"])
    assert [(len(one.get("steps", one.get("runs"))), one["more"]) for one in few] == [(1, True), (2, True)]
    assert [gone["id"] for gone in comm.ask("delete", run=other)["runs"]] == [other]


def test_the_packages_a_notebook_uses_are_written_down(kernel: Kernel) -> None:
    kernel.run("%load_ext nbcheckpoint\nimport numpy as np\nfrom IPython.display import HTML\nimport os")
    kernel.run(SAVED)
    written = ask(kernel, "status")["run"]["meta"]["environment"]
    assert written["numpy"] == version("numpy")
    assert {"python", "host", "prefix", "numpy", "IPython"} <= written.keys()
    assert not {"os", "sys", "pandas"} & written.keys()


def test_the_panel_is_a_table_where_no_widgets_are(kernel: Kernel) -> None:
    kernel.run("import sys\nsys.modules['anywidget'] = None\n%load_ext nbcheckpoint")
    shown = kernel.run("%checkpoint panel").results[-1]["data"]
    assert "No runs yet" in shown["text/html"]
    kernel.run(SAVED)
    shown = kernel.run("%checkpoint panel").results[-1]["data"]
    assert "work.ipynb" in shown["text/plain"]
    assert "<table" in shown["text/html"]
    assert "nbcheckpoint[widget]" in shown["text/html"]
    assert "widget-view" not in str(shown.keys())


def test_the_panel_has_a_table_for_readers_without_widgets(kernel: Kernel) -> None:
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    shown = kernel.run("%checkpoint panel").results[-1]["data"]
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert "work.ipynb" in shown["text/html"]
    assert "work.ipynb" in shown["text/plain"]
    assert kernel.run("%checkpoint panel now", fails=True).error == "UsageError"


def test_asking_while_a_cell_draws_random_numbers_does_not_change_them(kernel: Kernel) -> None:
    """Looking puts the random state back as it found it: not under the hands of a cell that draws."""
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(SAVED)
    comm = Comm(kernel, subshell=True)
    gate = kernel.folder / "go"
    code = f"""
import os, random
random.seed(5)
drawn, last = 0, None
print('drawing', flush=True)
while not os.path.exists({str(gate)!r}):
    for _ in range(1000):
        last = random.random()
    drawn += 1000
"""
    request = kernel.start_cell(code, until="drawing")
    for _ in range(20):
        assert comm.ask("runs")["runs"]
        assert comm.ask("status")["busy"] is True
        assert comm.ask("auto", on=False)["automatic"] is False
        assert comm.ask("plan")["message"] == "a cell is running"
    gate.touch()
    kernel.collect(request)
    again = "mine = random.Random(5)\nfor _ in range(drawn):\n    expected = mine.random()\ndrawn > 0, last == expected"
    assert kernel.run(again).result == "(True, True)"

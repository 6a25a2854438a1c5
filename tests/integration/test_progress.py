"""A loop that takes long says how far it is, in the line under its cell, and how long it will take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kernels import TIMEOUT, Cell, Kernel

pytestmark = pytest.mark.slow

SETUP = "%load_ext nbcheckpoint\n%checkpoint auto --min-seconds 0.2s\nimport os, time"
LOOP = """for i in range(1_000_000):
    time.sleep(0.01)
    if os.path.exists("go"): break"""


def go_when(kernel: Kernel, folder: Path, code: str, *, told: int) -> Cell:
    """Run a cell whose loop ends when the file `go` is there, which it is as soon as it has told so often."""
    request, cell = kernel.client.execute(code), Cell()
    while True:
        message = kernel.client.get_iopub_msg(timeout=TIMEOUT)
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "display_data":
            cell.displays.append(content)
        elif kind == "update_display_data":
            cell.update(content)
        elif kind == "stream":
            cell.stdout += content["text"]
        elif kind == "status" and content["execution_state"] == "idle":
            return cell
        told -= kind in ("display_data", "update_display_data")
        if told == 0:
            (folder / "go").touch()


@pytest.fixture
def begun(kernel: Kernel) -> Kernel:
    kernel.run(SETUP)
    return kernel


def texts(cell: Cell) -> list[str]:
    return [shown["data"]["text/plain"] for shown in cell.updates]


def test_a_long_loop_tells_how_far_it_is_in_one_line_that_ends_as_the_usual_one(begun: Kernel) -> None:
    cell = go_when(begun, begun.folder, LOOP, told=3)
    assert len(cell.displays) == 1, "one display, however often it is updated"
    said = texts(cell)
    assert len(said) >= 3
    assert all(re.fullmatch(r"loop [\d,]+ of 1,000,000 · \S.* left", text) for text in said), said
    counted = [int(text.split()[1].replace(",", "")) for text in said]
    assert counted == sorted(set(counted))
    assert cell.line.startswith("computed ")


def test_what_it_tells_is_not_among_the_outputs_that_are_brought_back(begun: Kernel) -> None:
    cells = ["k = 7", "for i in range(k + 300):\n    time.sleep(0.01)"]
    for code in cells:
        first = begun.run(code)
    assert texts(first)
    begun.kill()
    begun.start()
    begun.run(SETUP)
    for code in cells:
        second = begun.run(code)
    assert second.status == "restored"
    assert (len(second.displays), second.updates) == (1, [])


def test_a_while_loop_tells_how_often_it_went_round(begun: Kernel) -> None:
    loop = 'n = 0\nwhile not os.path.exists("go"):\n    n += 1\n    time.sleep(0.01)'
    said = texts(go_when(begun, begun.folder, loop, told=2))
    assert said
    assert all(re.fullmatch(r"loop [\d,]+", text) for text in said), said


def test_a_quick_loop_a_quiet_cell_and_one_that_prints_say_nothing(begun: Kernel) -> None:
    assert begun.run("for i in range(50): time.sleep(0.01)").updates == []
    assert begun.run("%%checkpointed --quiet\nfor i in range(250): time.sleep(0.01)").displays == []
    prints = begun.run("for i in range(250):\n    time.sleep(0.01)\n    if i % 100 == 0: print(i)")
    assert (prints.updates, prints.stdout) == ([], "0\n100\n200\n")


def test_where_something_comes_below_it_the_line_is_still_the_last(begun: Kernel) -> None:
    cell = go_when(begun, begun.folder, f"{LOOP}\nprint('over')", told=2)
    blank, last = cell.displays
    assert blank["data"]["text/plain"] == ""
    assert last["data"]["text/plain"].startswith("computed ")
    assert cell.stdout == "over\n"


def test_a_loop_that_fails_leaves_no_progress_behind(begun: Kernel) -> None:
    cell = go_when(begun, begun.folder, LOOP.replace("break", "1 / 0"), told=2)
    assert cell.displays[0]["data"]["text/plain"] == ""
    assert not any("loop" in shown["data"]["text/plain"].split(" · ")[0] for shown in cell.displays)


def test_a_loop_that_is_not_being_saved_says_so_while_it_runs(begun: Kernel) -> None:
    begun.run("import sqlite3\ncon = sqlite3.connect(':memory:'); found = []")
    loop = LOOP.replace("    time", "    found.append(con.execute('select 1').fetchone())\n    time")
    said = texts(go_when(begun, begun.folder, loop, told=4))
    assert " · not being saved: input con cannot be identified" in said[-1], said
    assert said[-1].endswith("%checkpoint auto --ignore con, if it does not matter")

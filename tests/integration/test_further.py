"""A loop over a range that is made longer goes on where it ended, in another kernel: people train on."""

from __future__ import annotations

import pytest

from tests.integration.test_loops import SETUP, cut, worked
from tests.integration.test_timetravel import fresh, write_notebook
from tests.integration.test_words import data
from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

BEFORE = "random.seed(3); out = []\n"
BODY = "out.append((i, random.random()))\n    work(i)"


def loop(end: str, body: str = BODY, *, options: str = "") -> str:
    return f"%%checkpointed {options}\nfor i in range({end}):\n    {body}"


def in_a_new_kernel(kernel: Kernel, cell: str, before: str = BEFORE) -> Cell:
    kernel.restart()
    kernel.run(SETUP + before)
    return kernel.run(cell)


@pytest.mark.parametrize(
    ("end", "longer", "before", "now"),
    [("4", "7", "", ""), ("n", "n", "n = 4\n", "n = 7\n"), ("1, n + 1", "1, 2 * n + 2", "n = 3\n", "n = 3\n")],
)
def test_it_goes_on_where_it_ended(kernel: Kernel, end: str, longer: str, before: str, now: str) -> None:
    kernel.run(SETUP + BEFORE + before)
    assert kernel.run(loop(end)).status == "computed"
    first = worked(kernel.folder)
    again = in_a_new_kernel(kernel, loop(longer), BEFORE + now)
    assert f"resumed: loop continued at {len(first) + 1} of {2 * len(first) + 1 if first[0] else 7}" in again.line
    done = worked(kernel.folder)
    assert done == list(range(first[0], first[0] + len(done))), "each turn was done once"
    look = "out, i, random.random()"
    found = kernel.run(look).result
    with Kernel(kernel.folder, notebook="plain.ipynb") as plain:
        plain.run((SETUP + BEFORE + now).replace("%load_ext nbcheckpoint\n", ""))
        plain.run(loop(longer).partition("\n")[2])
        assert found == plain.run(look).result
    done = worked(kernel.folder)
    assert in_a_new_kernel(kernel, loop(longer), BEFORE + now).status == "restored"
    assert kernel.run(look).result == found
    assert in_a_new_kernel(kernel, loop(end), BEFORE + before).status == "restored", (
        "and the shorter one is still there"
    )
    assert kernel.run("len(out), i").result == f"({len(first)}, {first[-1]})"
    assert worked(kernel.folder) == done


def test_one_that_was_cut_goes_on_to_another_end(kernel: Kernel) -> None:
    cell = loop("6", BODY + "\n    gate(i, 3)", options="--every 1")
    cut(kernel, cell, setup=BEFORE, saved=3)
    assert "loop continued at 4 of 9" in kernel.run(cell.replace("range(6)", "range(9)")).line
    assert worked(kernel.folder) == [0, 1, 2, 3, *range(3, 9)]
    assert kernel.run("[i for i, _ in out] == list(range(9))").result == "True"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("out.append(f'{i} of {n}'); work(i)", "input n changed"),
        ("out.append(share(i)); work(i)", "input n changed"),
    ],
)
def test_one_that_may_end_otherwise_begins_anew(kernel: Kernel, body: str, why: str) -> None:
    before = BEFORE + "def share(i): return i / n\nn = {}\n"
    kernel.run(SETUP + before.format(4))
    kernel.run(loop("n", body))
    first = worked(kernel.folder)
    again = in_a_new_kernel(kernel, loop("n", body), before.format(6))
    assert again.status == "computed", again.line
    assert why in again.line
    assert worked(kernel.folder) == [*first, *range(6)]


def test_one_that_was_left_is_left_in_the_same_turn(kernel: Kernel) -> None:
    """Early stopping: how many turns there might have been does not matter."""
    body = "out.append(work(i))\n    if i == 2: break"
    kernel.run(SETUP + BEFORE)
    kernel.run(loop("4", body))
    for end in ("9", "3"):
        assert in_a_new_kernel(kernel, loop(end, body)).status == "restored"
        assert kernel.run("out, i").result == "([0, 1, 4], 2)"
    again = in_a_new_kernel(kernel, loop("2", body))
    assert (again.status, kernel.run("out, i").result) == ("computed", "([0, 1], 1)")
    assert "it was left in turn 3, and its range has 2 now" in again.line
    assert in_a_new_kernel(kernel, loop("7", body)).status == "restored"


def test_one_that_is_made_shorter_begins_anew(kernel: Kernel) -> None:
    kernel.run(SETUP + BEFORE)
    kernel.run(loop("5"))
    again = in_a_new_kernel(kernel, loop("3"))
    assert again.status == "computed"
    assert "it had 5 turns, and its range has 3 now" in again.line
    assert kernel.run("len(out), i").result == "(3, 2)"


def test_another_beginning_step_or_body_is_another_loop(kernel: Kernel) -> None:
    kernel.run(SETUP + BEFORE)
    kernel.run(loop("0, 8, 2"))
    for cell in (
        loop("1, 12, 2"),
        loop("0, 12, 3"),
        loop("0, 12, 2", BODY + "; i"),
        loop("0, 12, 2") + "\nelse: work(9)",
    ):
        assert in_a_new_kernel(kernel, cell).status == "computed"
    assert "continued at 5 of 6" in in_a_new_kernel(kernel, loop("0, 12, 2")).line


def test_a_range_of_ones_own_is_looked_at_like_anything_else(kernel: Kernel) -> None:
    """Python's own has no turns at all here, neither time."""
    before = BEFORE + "def range(n): return [n, n + 1]\n"
    kernel.run(SETUP + before)
    kernel.run(loop("-3"))
    assert in_a_new_kernel(kernel, loop("-4"), before).status == "computed"
    assert kernel.run("[i for i, _ in out]").result == "[-4, -3]"


def test_files_it_writes_are_written_on(kernel: Kernel) -> None:
    body = "with open('latest.txt', 'w') as file:\n        file.write(str(work(i)))\n"
    body += "    with open('log.txt', 'a') as file:\n        file.write(f'{i} ')"
    kernel.run(SETUP)
    kernel.run(loop("3", body))
    assert "continued at 4 of 5" in in_a_new_kernel(kernel, loop("5", body), "").line
    files = [(kernel.folder / name).read_text() for name in ("latest.txt", "log.txt")]
    assert files == ["16", "0 1 2 3 4 "]
    assert in_a_new_kernel(kernel, loop("5", body), "").status == "restored"
    (kernel.folder / "latest.txt").write_text("7")
    again = in_a_new_kernel(kernel, loop("6", body), "")
    assert again.status == "computed"
    assert "the file it wrote was changed: latest.txt" in again.line


def test_a_file_it_writes_now_and_then_may_be_another_behind_the_cut(kernel: Kernel) -> None:
    """Written by the shorter loop, not since, and again in the turn in which the longer one is killed: `best.pt`."""
    body = "if i % 2 == 0:\n        with open('best.txt', 'w') as file:\n            file.write(str(i))\n"
    body += "    work(i)\n    gate(i, 4)"
    kernel.run(SETUP)
    kernel.run(loop("3", body, options="--every 1"))
    kernel.restart()
    cell = loop("8", body, options="--every 1")
    cut(kernel, cell, saved=4)
    assert "continued at 5 of 8" in kernel.run(cell).line
    assert (kernel.folder / "best.txt").read_text() == "6"


def test_one_with_a_loop_inside_goes_on(kernel: Kernel) -> None:
    body = "for j in range(3):\n        out.append(work(10 * i + j))"
    kernel.run(SETUP + "out = []")
    kernel.run(loop("2", body))
    assert "continued at 3 of 4" in in_a_new_kernel(kernel, loop("4", body), "out = []").line
    assert worked(kernel.folder) == [10 * i + j for i in range(4) for j in range(3)]
    assert kernel.run("len(out), i, j").result == "(12, 3, 2)"


def test_an_interrupt_before_its_first_save_loses_nothing(kernel: Kernel) -> None:
    """In the same kernel, where it has just gone on."""
    body = BODY + "\n    if i == 5 and closed(): os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    kernel.run(SETUP + BEFORE)
    kernel.run(loop("4", body))
    kernel.restart()
    kernel.run(SETUP + BEFORE)
    (kernel.folder / "closed.txt").write_text("yes")
    assert "goes on at 5 of 7" in kernel.run(loop("7", body), fails=True).line
    (kernel.folder / "closed.txt").write_text("")
    assert "continued at 5 of 7" in kernel.run(loop("7", body)).line
    assert kernel.run("[i for i, _ in out]").result == str(list(range(7)))
    assert "continued at 8 of 9" in in_a_new_kernel(kernel, loop("9", body)).line


def test_the_plan_says_so(kernel: Kernel) -> None:
    def cells(end: str) -> list[str]:
        return [SETUP, BEFORE, f"n = {end}", loop("n", "out.append(i)")]

    for cell in cells("4"):
        kernel.run(cell)
    for end, said in (
        ("4", "same code, same inputs"),
        ("6", "its loop goes on at 5 of 6"),
        ("2", "it had 4 turns, and its range has 2 now"),
    ):
        write_notebook(kernel.folder, *cells(end))
        fresh(kernel)
        (found,) = data(kernel, "plan")["statements"]
        assert said in found["reason"], found
        assert found["action"] == ("restore" if end == "4" else "run")
    write_notebook(kernel.folder, *cells("len('1234')"))
    fresh(kernel)
    (found,) = data(kernel, "plan")["statements"]
    assert (found["action"], "if n is what it was" in found["reason"]) == ("perhaps", True), found


@pytest.mark.parametrize("options", ["--skip total", "--save out"])
def test_one_of_which_not_everything_was_saved_begins_anew(kernel: Kernel, options: str) -> None:
    """The turns to come need what it was not to save."""
    body = "total += work(i); out.append(total)"
    kernel.run(SETUP + "total = 0; out = []")
    kernel.run(loop("4", body, options=options))
    again = in_a_new_kernel(kernel, loop("6", body, options=options), "total = 0; out = []")
    assert again.status == "computed", again.line
    assert kernel.run("out").result == "[0, 1, 5, 14, 30, 55]"

"""`%checkpoint auto` in a real kernel: every cell, no magic."""

from __future__ import annotations

import pytest

from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

AUTO = "%load_ext nbcheckpoint\n%checkpoint auto --min-seconds 0.2s"
IMPORTS = "import time, os, random\nimport numpy as np"


def again(kernel: Kernel, *cells: str) -> list[Cell]:
    kernel.kill()
    kernel.start()
    kernel.run(AUTO)
    return [kernel.run(cell) for cell in cells]


def test_slow_statements_are_restored_and_quick_ones_run_again(kernel: Kernel) -> None:
    cells = [IMPORTS, "n = 3\ntime.sleep(0.3); slow = n * 2\nquick = slow + 1\nprint('quick', quick)", "quick"]
    assert "automatic checkpoints are on" in kernel.run(AUTO).line
    # `time.sleep` and the assignment are two statements; what takes long is the sleep.
    cells[1] = "n = 3\nslow = (time.sleep(0.3), n * 2)[1]\nquick = slow + 1\nprint('quick', quick)"
    first = [kernel.run(cell) for cell in cells]
    assert [cell.status for cell in first] == ["", "computed", ""]
    assert "saved slow" in first[1].line
    second = again(kernel, *cells)
    assert [cell.status for cell in second] == ["", "restored", ""]
    assert second[1].stdout == "quick 7\n"
    assert second[2].result == "7"


def test_a_changed_input_is_noticed(kernel: Kernel) -> None:
    kernel.run(AUTO)
    kernel.run(IMPORTS + "\nn = 3")
    cell = "slow = (time.sleep(0.3), n * 2)[1]"
    kernel.run(cell)
    kernel.run("n = 4")
    changed = kernel.run(cell)
    assert "input n changed (was 3, now 4)" in changed.line
    assert kernel.run("slow").result == "8"


def test_a_loop_of_a_plain_cell_goes_on(kernel: Kernel) -> None:
    kernel.run(AUTO)
    cells = [
        IMPORTS + "\nrandom.seed(1)",
        "out = []\nfor i in range(30):\n    time.sleep(0.1)\n    out.append(random.random())\n    print(i, flush=True)",
    ]
    kernel.run(cells[0])
    kernel.start_cell(cells[1], until="22\n")
    _, resumed = again(kernel, *cells)
    assert "loop continued at" in resumed.line, resumed.line
    assert resumed.stdout == "".join(f"{i}\n" for i in range(30))
    assert kernel.run("random.seed(1)\nout == [random.random() for _ in range(30)]").result == "True"


def test_off_is_off(kernel: Kernel) -> None:
    kernel.run(AUTO)
    kernel.run(IMPORTS)
    assert "are off" in kernel.run("%checkpoint auto off").line
    assert kernel.run("x = time.sleep(0.3)").line == ""


def test_a_timed_cell_is_saved_like_any_other(kernel: Kernel) -> None:
    kernel.run(AUTO)
    cells = [IMPORTS, "%%time\nx = (time.sleep(0.3), 5)[1]\nx + 1"]
    first = [kernel.run(cell) for cell in cells][1]
    assert first.status == "computed", first.line
    assert first.result == "6"
    second = again(kernel, *cells)[1]
    assert second.status == "restored", second.line
    assert second.result == "6"


def test_large_inputs_are_identified_in_the_end(kernel: Kernel) -> None:
    kernel.run(AUTO)
    cells = [
        IMPORTS + "\nbig = np.arange(3_000_000.0)",
        "total = (time.sleep(0.3), float(big.sum()))[1]",
        "big[5] = time.sleep(0.3) or 7.0",
        "more = (time.sleep(0.3), float(big.sum()))[1]",
    ]
    for cell in cells:
        shown = kernel.run(cell)
        assert "not saved" not in shown.line, shown.line
    values = "total, more, float(big[5])"
    wanted = kernel.run(values).result
    second = again(kernel, *cells)
    assert [cell.status for cell in second[1:]] == ["restored", "restored", "restored"], [c.line for c in second]
    assert kernel.run(values).result == wanted


def test_the_run_that_was_cut_short_is_offered(kernel: Kernel) -> None:
    kernel.run(AUTO)
    kernel.run(IMPORTS + "\nx = time.sleep(0.3)")
    kernel.kill()
    kernel.start()
    assert "the last run was cut short" in kernel.run(AUTO).line


@pytest.mark.parametrize("bad", ["auto maybe", "auto --overhead 0", "auto --min-seconds soon", "nonsense", "auto 'x"])
def test_what_makes_no_sense_is_one_line(kernel: Kernel, bad: str) -> None:
    kernel.run("%load_ext nbcheckpoint")
    shown = kernel.run(f"%checkpoint {bad}", fails=True)
    assert "%checkpoint" in "".join(shown.traceback)
    assert len(shown.traceback) == 1


def test_it_costs_next_to_nothing_for_quick_cells(kernel: Kernel) -> None:
    """Not by the clock: nothing is hashed once the allowance is used up, nothing is written ever."""
    kernel.run(AUTO)
    kernel.run(
        IMPORTS + "\nbig = [np.ones(1_000_000) for _ in range(20)]\nobjects = [{'n': n} for n in range(300_000)]"
    )
    kernel.run("from nbcheckpoint.digests import Recogniser\nfrom nbcheckpoint.fingerprint import values")
    kernel.run(
        "looked = []\nold = Recogniser._quick\nRecogniser._quick = lambda s, d: (looked.append(len(d)), old(s, d))[1]"
    )
    for n in range(40):
        assert kernel.run(f"len(objects) + big[{n % 20}][0]").line == ""
    # A fortieth of a second's worth of capital, three hundredths of the work: far less than 40 looks at 160 MB.
    assert int(kernel.run("sum(looked)").result) < 40 * 160_000_000 / 4


def test_what_a_quick_statement_bound_is_not_brought_back_as_it_was_before(kernel: Kernel) -> None:
    kernel.run(AUTO)
    for cell in [IMPORTS, "x = (time.sleep(0.3), 1)[1]", "x = 5", "y = (time.sleep(0.3), 2)[1]"]:
        kernel.run(cell)
    kernel.kill()
    kernel.start()
    kernel.run("%load_ext nbcheckpoint\n%checkpoint resume")
    assert kernel.run("y, globals().get('x', 5)").result == "(2, 5)"

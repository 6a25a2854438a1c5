"""`%checkpoint auto` in a real kernel: every cell, no magic."""

from __future__ import annotations

import re
import time

import pytest

from nbcheckpoint import open_store
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


@pytest.mark.parametrize("kind", ["array", "model"])
def test_a_loop_that_changes_something_large_goes_on_the_first_time(kernel: Kernel, kind: str) -> None:
    """What takes more than a megabyte was not looked at before a loop nothing was known about: so the training of a
    model of that size was not saved in a new kernel, because nobody could tell any more what it had begun with."""
    kernel.run(AUTO)
    made, changed = "{'layers': [np.zeros((256, 1024)) for _ in range(4)]}", "big['layers'][i % 4]"
    if kind == "array":
        made, changed = "np.arange(1 << 20, dtype=float)", "big"
    cells = [
        IMPORTS + f"\nbig = {made}",
        f"for i in range(30):\n    time.sleep(0.1)\n    {changed}[:i] += i\n    print(i, flush=True)",
        f"float(sum(x.sum() for x in ([big] if {kind!r} == 'array' else big['layers'])))",
    ]
    kernel.run(cells[0])
    kernel.start_cell(cells[1], until="22\n")
    _, resumed, total = again(kernel, *cells)
    assert "loop continued at" in resumed.line, resumed.line
    kernel.run("%checkpoint auto off")
    kernel.run(cells[0])
    kernel.run(cells[1].replace("time.sleep(0.1)", "pass"))
    assert kernel.run(cells[2]).result == total.result


def test_off_is_off(kernel: Kernel) -> None:
    """C11."""
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
        line = kernel.run(f"len(objects) + big[{n % 20}][0]").line
        assert not line or "nobody had looked at its inputs" in line  # on a busy machine they are not all quick
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


# Cells that seem quick are left as they are. That must never show, except in how long they take.

PANDAS = IMPORTS + "\nimport pandas as pd"
DATA = "frame = pd.DataFrame({'a': np.arange(50_000), 'b': [str(n % 7) for n in range(50_000)]})"
SLOW_HEAD = "quick_head = pd.DataFrame.head\npd.DataFrame.head = lambda self: (time.sleep(0.4), quick_head(self))[1]"


def test_a_statement_that_was_wrongly_taken_for_quick_says_so_and_is_saved_the_next_time(kernel: Kernel) -> None:
    cells = [PANDAS, DATA, SLOW_HEAD, "top = len(frame.head())"]
    kernel.run(AUTO)
    first = [kernel.run(cell) for cell in cells][-1]
    assert first.line.endswith("for the sake of speed; next time they will be")
    assert "saved top" in kernel.run(cells[-1]).line
    last = again(kernel, *cells)[-1]
    assert last.status == "restored", last.line  # it seems quick, and yet it is looked up
    assert kernel.run("top").result == "5"


RECORDS = "records = [{'id': n, 'tags': ['a', str(n)]} for n in range(10_000)]"
SLOW_READ = "ids = (time.sleep(0.8), [record['id'] for record in records])[1]"
NO_TIME = "from nbcheckpoint.engine import pace\npace.LOOPS_CAPITAL_SECONDS = pace.CAPITAL_SECONDS = 0.0"


def test_what_was_slow_in_a_kernel_that_died_is_looked_at_in_the_next(kernel: Kernel) -> None:
    """There is no time for the inputs of a statement of which nothing is known. Now something is."""
    kernel.run(AUTO)
    seen = []
    for _ in range(3):
        for cell in (IMPORTS, NO_TIME, RECORDS):
            kernel.run(cell)
        seen.append(kernel.run(SLOW_READ))
        kernel.kill()
        kernel.start()
        kernel.run(AUTO)
    assert [shown.status for shown in seen] == ["computed", "computed", "restored"]
    assert seen[0].line.endswith("next time they will be")
    assert "saved ids" in seen[1].line


WAITS = """def wait():
    print('there', flush=True)
    while not os.path.exists('go'):
        time.sleep(0.02)
    time.sleep(0.4)"""


def test_a_cell_that_was_cut_short_is_looked_at_in_the_next_kernel(kernel: Kernel) -> None:
    """It had not come to its end, so nobody could say how long it takes."""
    cells = IMPORTS, WAITS, NO_TIME, RECORDS, "ids = (wait(), [record['id'] for record in records])[1]"
    kernel.run(AUTO)
    for cell in cells[:-1]:
        kernel.run(cell)
    kernel.start_cell(cells[-1], until="there")
    with open_store(kernel.folder / ".nbcheckpoint") as store:
        while not any(step.status == "running" for run in store.runs() for step in run.steps()):
            time.sleep(0.02)  # until it has been written down that it runs
    kernel.kill()
    (kernel.folder / "go").touch()
    kernel.start()
    kernel.run(AUTO)
    assert "saved ids" in [kernel.run(cell) for cell in cells][-1].line
    assert again(kernel, *cells)[-1].status == "restored"


def test_what_is_restored_takes_nothing_from_the_time_there_is_for_what_is_new(kernel: Kernel) -> None:
    """A resumed notebook had spent it all when it came to the statement it had died in, which was not saved."""
    cells = (
        IMPORTS,
        RECORDS,
        *(f"ids{n} = (time.sleep(0.3), [record['id'] + {n} for record in records])[1]" for n in "12"),
    )
    kernel.run(AUTO)
    for cell in cells:
        kernel.run(cell)
    again(kernel, *cells[:2])
    spent = float(kernel.run("__nbcheckpoint__.pace.looked").result)
    assert [kernel.run(cell).status for cell in cells[2:]] == ["restored", "restored"]
    spent = float(kernel.run("__nbcheckpoint__.pace.looked").result) - spent
    look = "from nbcheckpoint.fingerprint.values import Digester\nbegan = time.thread_time()\n"
    kernel.run(look + "_ = Digester().digest('records', records)\ntook = time.thread_time() - began")
    assert 10 * spent < float(kernel.run("took").result), "that is for looking at two small cells"


def test_where_looking_takes_too_long_the_line_says_what_to_do(kernel: Kernel) -> None:
    no_look = "from nbcheckpoint.notebook import entering\nentering.FIRST_LOOK_SHARE = 0.0"
    many = RECORDS.replace("10_000", "100_000")
    kernel.run(AUTO)
    for cell in (IMPORTS, NO_TIME, no_look, many):
        kernel.run(cell)
    assert kernel.run(SLOW_READ).line.endswith("next time they will be")
    assert kernel.run(SLOW_READ).line.endswith("would take too long for that: %%checkpointed takes the time")
    kernel.kill()
    kernel.start()
    kernel.run(AUTO)
    looked_at = "list(__nbcheckpoint__._slow)"
    assert kernel.run(looked_at).result == "[]", "nobody tries that again in every kernel"
    for cell in (IMPORTS, many):
        kernel.run(cell)
    assert "saved ids" in kernel.run(f"%%checkpointed\n{SLOW_READ}").line


def test_what_is_slow_to_save_is_not_looked_into(kernel: Kernel) -> None:
    kernel.run(AUTO)
    kernel.run(IMPORTS + "\nfrom collections import namedtuple\nRow = namedtuple('Row', 'a b')")
    made = kernel.run("rows = [Row(n, str(n)) for n in range(300_000)]")
    assert "objects would take longer than it is worth" in made.line


FRAME = "frame = pd.DataFrame({c: np.arange(300_000) * 1.0 for c in 'abc'})"
NOT_NAMED = "from nbcheckpoint.notebook import entering\nentering.NAMING_SHARE = 0.0"


def test_a_column_that_is_added_to_a_large_frame_is_saved_the_first_time(kernel: Kernel) -> None:
    """The frame is changed, and there was no time to name it before. But its memory is what it was."""
    add = "frame['d'] = (time.sleep(0.4), frame['a'] + 1)[1]"
    kernel.run(AUTO)
    for cell in (IMPORTS + "\nimport pandas as pd", NOT_NAMED, FRAME):
        kernel.run(cell)
    assert "saved frame" in kernel.run(add).line
    last = again(kernel, IMPORTS + "\nimport pandas as pd", FRAME, add)[-1]
    assert last.status == "restored", last.line
    assert kernel.run("float(frame['d'].sum()), frame.shape").result == "(45000150000.0, (300000, 4))"
    other = again(kernel, IMPORTS + "\nimport pandas as pd", FRAME + "\nframe.iloc[7, 1] = 0", add)[-1]
    assert other.status == "computed", other.line


def test_a_large_frame_that_is_written_into_is_not_taken_for_what_it_was(kernel: Kernel) -> None:
    write = "frame.iloc[7, 1] += (time.sleep(0.4), 1.0)[1]"
    kernel.run(AUTO)
    for cell in (IMPORTS + "\nimport pandas as pd", NOT_NAMED, FRAME):
        kernel.run(cell)
    assert "frame was too large to be looked at before it was changed" in kernel.run(write).line
    assert "saved frame" in kernel.run(write).line, "now it is known to be slow"


def test_what_quick_cells_change_is_seen_by_slow_ones(kernel: Kernel) -> None:
    slow = "total = (time.sleep(0.3), int(frame['a'].sum()) + sum(rows) + sum(len(r) for r in records))[1]"
    made = [PANDAS, DATA, "rows = [1, 2]\nrecords = [{'a': 1}, {'a': 2}]"]
    changes = ["frame['a'] = frame['a'] * 2", "rows.append(3)", "records[0]['b'] = 1", "rows[0] = 7", "del rows[0]",
               "frame = frame[frame['a'] > 10]", "rows += [1]", "records.append({})"]  # fmt: skip
    kernel.run(AUTO)
    for cell in [*made, slow]:
        kernel.run(cell)
    seen = {kernel.run("total").result}
    for change in changes:
        kernel.run(change)
        assert kernel.run(slow).status == "computed", change
        check = "total == int(frame['a'].sum()) + sum(rows) + sum(len(r) for r in records)"
        assert kernel.run(check).result == "True"
        seen.add(kernel.run("total").result)
    assert len(seen) > 4
    last = again(kernel, *made, slow, *(cell for change in changes for cell in (change, slow)))
    assert [cell.status for cell in last[3::2]] == ["restored"] * 9, "each state of them is known"
    assert kernel.run("total == int(frame['a'].sum()) + sum(rows) + sum(len(r) for r in records)").result == "True"


def test_a_cell_that_seems_quick_behaves_as_without_us(kernel: Kernel) -> None:
    kernel.run(AUTO)
    kernel.run("rows = [1, 2, 3]")
    assert kernel.run("rows").result == "[1, 2, 3]"
    assert kernel.run("print(len(rows))").stdout == "3\n"
    assert kernel.run("rows[1];").result == ""
    failed = kernel.run("rows.append(4)\n\nrows[10]\nrows.append(5)", fails=True)
    assert failed.error == "IndexError"
    told = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(failed.traceback))
    assert "----> 3 rows[10]" in told
    assert "nbcheckpoint" not in told
    assert kernel.run("rows").result == "[1, 2, 3, 4]"


@pytest.mark.parametrize(
    ("failing", "said"), [("x.append(2)\nx[7]", "caution: x may have been changed"), ("x = 7\nx[7]", "not bound: x")]
)
def test_time_travel_knows_what_a_quick_cell_did_before_it_failed(kernel: Kernel, failing: str, said: str) -> None:
    kernel.run(AUTO)
    for cell in [IMPORTS, "x = (time.sleep(0.3), [1])[1]"]:
        kernel.run(cell)
    kernel.run(failing, fails=True)
    kernel.run("y = (time.sleep(0.3), 2)[1]")
    kernel.kill()
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")
    assert said in kernel.run("%checkpoint resume").result
    assert kernel.run("y").result == "2"

"""Files that a loop writes, opened by a `with` around it: killed in the middle, they end as if nothing had happened."""

from __future__ import annotations

import time

import pytest

from tests.integration.test_loops import SETUP, WAITS, cut, uninterrupted, worked
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

HEAD = "%%checkpointed --every 1\n"
LOOK = "[open(name, 'rb').read() for name in ('out', 'other') if os.path.exists(name)]"

WRITTEN = {
    "lines": (
        "",
        "with open('out', 'w') as f:\n    for i in range(10):\n        f.write(f'{work(i)}\\n')\n        gate(i, 7)",
    ),
    "lines, flushed": (
        "",
        "with open('out', 'w') as f:\n    for i in range(10):\n        f.write(f'{work(i)}\\n')\n        f.flush()\n"
        "        gate(i, 7)",
    ),
    "lines, printed, behind a header": (
        "",
        "with open('out', 'w', encoding='utf-16', newline='\\r\\n') as f:\n    print('the header', file=f)\n"
        "    for i in range(10):\n        print(work(i), 'ä', file=f)\n        gate(i, 7)\n"
        "    print('the end', file=f)",
    ),
    "more than a buffer": (
        "",
        "with open('out', 'w') as f:\n    for i in range(10):\n        f.write(f'{work(i)} ' * 9999)\n"
        "        gate(i, 7)",
    ),
    "bytes": (
        "",
        "with open('out', 'wb') as f:\n    f.write(b'head')\n    for i in range(10):\n"
        "        f.write(bytes([work(i)]))\n"
        "        gate(i, 7)",
    ),
    "bytes without a buffer": (
        "",
        "with open('out', 'wb', buffering=0) as f:\n    for i in range(10):\n        f.write(bytes([work(i)]))\n"
        "        gate(i, 7)",
    ),
    "rows": (
        "import csv",
        "with open('out', 'w', newline='') as f:\n    rows = csv.writer(f, delimiter=';')\n"
        "    rows.writerow(['n', 'square'])\n"
        "    for i in range(10):\n        rows.writerow([i, work(i)])\n        gate(i, 7)",
    ),
    "records": (
        "import csv",
        "with open('out', 'w', newline='') as f:\n    rows = csv.DictWriter(f, ['n', 'square'])\n"
        "    rows.writeheader()\n"
        "    for i in range(10):\n        rows.writerow({'n': i, 'square': work(i)})\n        gate(i, 7)",
    ),
    "two files": (
        "",
        "with open('out', 'w') as f, open('other', 'wb') as g:\n    for i in range(10):\n"
        "        f.write(f'{work(i)}\\n')\n"
        "        g.write(b'.' * i)\n        gate(i, 7)",
    ),
    "a with in a with": (
        "import contextlib",
        "with open('out', 'w') as f:\n    f.write('first\\n')\n    with contextlib.suppress(KeyError):\n"
        "        for i in range(10):\n            f.write(f'{work(i)}\\n')\n            gate(i, 7)\n"
        "    f.write('last\\n')",
    ),
    "while": (
        "",
        "with open('out', 'w') as f:\n    i = 0\n    while i < 10:\n        f.write(f'{work(i)}\\n')\n"
        "        gate(i, 7)\n        i += 1",
    ),
    "a list, with what it gathers": (
        "names = list('abcdefghij'); seen = []",
        "with open('out', 'w') as f:\n    for i, name in enumerate(names):\n        seen.append(work(i))\n"
        "        print(name, sum(seen), file=f)\n        gate(i, 7)",
    ),
    "the second of two loops": (
        "",
        "with open('out', 'w') as f:\n    for i in range(3):\n        print('first', i, file=f)\n"
        "    for i in range(10):\n        print(work(i), file=f)\n        gate(i, 7)",
    ),
    "added to": (
        "if not os.path.exists('closed.txt') or not os.path.exists('out'): open('out', 'w').write('of old\\n')",
        "with open('out', 'a') as f:\n    if not f.tell():\n        print('the header', file=f)\n"
        "    for i in range(10):\n"
        "        print(work(i), file=f)\n        gate(i, 7)",
    ),
    "a function that writes": (
        "def put(n): print(n, file=f)",
        "with open('out', 'w') as f:\n    for i in range(10):\n        put(work(i))\n        gate(i, 7)",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_that_a_killed_loop_writes_ends_as_if_nothing_had_happened(kernel: Kernel, name: str) -> None:
    setup, cell = WRITTEN[name]
    cell = HEAD + cell
    wanted = uninterrupted(kernel, cell, LOOK, setup=setup)
    clear(kernel)
    cut(kernel, cell, setup=setup, saved=7)
    again = kernel.run(cell)
    assert "loop continued at 8" in again.line
    assert kernel.run(LOOK).result == wanted
    assert worked(kernel.folder)[-3:] == [7, 8, 9]
    kernel.restart()
    kernel.run(SETUP + setup)
    assert kernel.run(cell).status in ("restored", "resumed")  # what writes rows cannot be saved, and is made again
    assert kernel.run(LOOK).result == wanted
    assert worked(kernel.folder)[-3:] == [7, 8, 9]


def clear(kernel: Kernel) -> None:
    for name in ("out", "other", "tally.txt"):
        (kernel.folder / name).unlink(missing_ok=True)


LINES = HEAD + (
    "with open('out', 'w') as f:\n    f.write('head\\n')\n    for i in range(10):\n"
    "        f.write(f'{work(i)}\\n')\n        f.flush()\n        gate(i, 7)"
)
WHOLE = b"head\n" + b"".join(b"%d\n" % (n * n) for n in range(10))


@pytest.mark.parametrize("at", [1, 2, 9])
def test_it_may_be_killed_anywhere(kernel: Kernel, at: int) -> None:
    cell = LINES.replace("gate(i, 7)", f"gate(i, {at})")
    cut(kernel, cell, saved=at)
    assert f"loop continued at {at + 1}" in kernel.run(cell).line
    assert (kernel.folder / "out").read_bytes() == WHOLE


def test_what_was_written_since_the_last_save_is_not_there_twice(kernel: Kernel) -> None:
    cell = LINES.replace("--every 1", "--every 3")
    cut(kernel, cell, saved=6)
    assert (kernel.folder / "out").read_bytes().count(b"\n") == 9
    assert "loop continued at 7" in kernel.run(cell).line
    assert worked(kernel.folder)[7:] == [7, 6, 7, 8, 9]
    assert (kernel.folder / "out").read_bytes() == WHOLE


WHERE = """
def gate(n, at):
    if os.fstat(201).st_size == n > 0:
        print("waiting", flush=True)
        time.sleep(600)
"""
"""It waits where it is told to, by nothing that counts as an input: at 3 to begin with."""


def cut_again(kernel: Kernel, cell: str, at: int) -> None:
    (kernel.folder / "closed.txt").write_text("." * at)
    kernel.start_cell(cell, until="waiting")
    kernel.kill()
    (kernel.folder / "closed.txt").write_text("")
    kernel.start()
    kernel.run(SETUP + WHERE)


def test_killed_again_before_it_has_gone_on_it_loses_nothing(kernel: Kernel) -> None:
    """What stands before the loop has run again, and has written its part, when the kernel is killed there."""
    cell = LINES.replace("'head\\n')\n", "'head\\n')\n    f.flush()\n    gate(50, 0)\n")
    cut(kernel, cell, setup=WHERE, saved=3)
    left = (kernel.folder / "out").read_bytes()
    cut_again(kernel, cell, 50)
    assert (kernel.folder / "out").read_bytes() == left == WHOLE[: len(left)]
    assert "loop continued at 4" in kernel.run(cell).line
    assert (kernel.folder / "out").read_bytes() == WHOLE


def test_killed_a_second_time_it_goes_on_a_second_time(kernel: Kernel) -> None:
    cut(kernel, LINES, setup=WHERE, saved=3)
    cut_again(kernel, LINES, 8)
    assert "loop continued at" in kernel.run(LINES).line
    assert (kernel.folder / "out").read_bytes() == WHOLE


def test_a_header_that_is_never_the_same_is_the_one_it_began_with(kernel: Kernel) -> None:
    cell = LINES.replace("'head\\n'", "f'{os.getpid()}\\n'")
    pid = kernel.pid
    cut(kernel, cell, saved=7)
    assert "loop continued at 8" in kernel.run(cell).line
    assert (kernel.folder / "out").read_bytes() == WHOLE.replace(b"head", b"%d" % pid)


EDITS = {
    "removed": lambda out: out.unlink(),
    "shortened": lambda out: out.write_bytes(out.read_bytes()[:9]),
    "emptied": lambda out: out.write_bytes(b""),
    "edited": lambda out: out.write_bytes(out.read_bytes().replace(b"16", b"61")),
    "put in its place": lambda out: (out.unlink(), out.write_bytes(b"x" * 99)),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_file_that_is_not_as_it_was_left_is_written_anew(kernel: Kernel, name: str) -> None:
    cut(kernel, LINES)
    EDITS[name](kernel.folder / "out")
    assert "continued" not in kernel.run(LINES).line
    assert (kernel.folder / "out").read_bytes() == WHOLE
    assert worked(kernel.folder)[8:] == list(range(10))


ANEW = {
    "it is written anew in each iteration": (
        "f.write(f'{work(i)}\\n')",
        "f.seek(0); f.truncate(); f.write(f'{work(i)}\\n')",
    ),
    "it is read by its name": ("f.flush()", "f.flush(); size = len(open('out').read())"),
    "somebody asks how long it is": ("f.flush()", "size = os.path.getsize('out')"),
    "its descriptor is asked for": ("f.flush()", "f.flush(); os.write(f.fileno(), b'x')"),
    "opened by another function": ("open('out', 'w')", "io.TextIOWrapper(io.FileIO('out', 'w'))"),
    "opened to be read as well": ("'w'", "'w+'"),
    "not bound to a name": ("open('out', 'w') as f:", "contextlib.closing(open('out', 'w')) as f:"),
    "an encoding that remembers": ("'w'", "'w', encoding='iso2022_jp'"),
}


@pytest.mark.parametrize("name", ANEW)
def test_what_cannot_be_certain_begins_anew(kernel: Kernel, name: str) -> None:
    cell = LINES.replace(*ANEW[name])
    assert cell != LINES
    setup = "import io, contextlib\n"
    wanted = uninterrupted(kernel, cell, LOOK, setup=setup)
    clear(kernel)
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert "continued" not in again.line
    assert kernel.run(LOOK).result == wanted


def test_inputs_that_changed_begin_the_file_anew(kernel: Kernel) -> None:
    cell = LINES.replace("work(i)", "work(i) + more")
    cut(kernel, cell, setup="more = 0\n")
    kernel.run("more = 1")
    assert "continued" not in kernel.run(cell).line
    assert (kernel.folder / "out").read_bytes() == b"head\n" + b"".join(b"%d\n" % (n * n + 1) for n in range(10))


def test_items_in_another_order_begin_the_file_anew_with_its_header(kernel: Kernel) -> None:
    """That is found out when the file was opened to go on, and the header was written."""
    cell = LINES.replace("range(10)", "set('abcdefghijklmnop')").replace("'head\\n'", "f'{os.getpid()}\\n'")
    cell = cell.replace("    for", "    n = 0\n    for").replace("{work(i)}", "{i}")
    cell = cell.replace("gate(i, 7)", "n += 1\n        gate(n, 7)")
    cut(kernel, cell)
    assert "another order" in kernel.run(cell).line
    in_order = kernel.run("print(os.getpid(), *set('abcdefghijklmnop'))").stdout
    assert (kernel.folder / "out").read_text().split() == in_order.split()


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("error", ["KeyError", "KeyboardInterrupt"])
def test_after_an_error_it_goes_on_and_what_was_written_since_is_not_there_twice(
    kernel: Kernel, error: str, new: bool
) -> None:
    cell = LINES.replace("gate(i, 7)", f"\n        if i == 7 and closed(): raise {error}")
    kernel.run(SETUP)
    (kernel.folder / "closed.txt").write_text("yes")
    assert kernel.run(cell, fails=True).error == error
    (kernel.folder / "closed.txt").write_text("")
    if new:
        kernel.restart()
        kernel.run(SETUP)
    assert "loop continued at 8" in kernel.run(cell).line
    assert (kernel.folder / "out").read_bytes() == WHOLE


def test_what_was_added_to_a_file_since_the_last_save_stays(kernel: Kernel) -> None:
    """Others may add to it as well: nobody can tell whose it is."""
    cell = LINES.replace("'w'", "'a'").replace("f.write('head\\n')", "pass")
    cut(kernel, cell, saved=7)
    with (kernel.folder / "out").open("a") as other:
        other.write("of another\n")
    assert "loop continued at 8" in kernel.run(cell).line
    squares = [str(n * n) for n in range(10)]
    assert (kernel.folder / "out").read_text().split("\n") == [*squares[:8], "of another", *squares[7:], ""]


@pytest.mark.parametrize("head", ["open('out', 'w')", "opened"])
def test_what_is_printed_into_a_file_is_all_there(kernel: Kernel, head: str) -> None:
    """It begins anew. It went on where nothing was bound to a name, with a file that had been emptied."""
    bound = "open('out', 'w') as opened, " if head == "opened" else ""
    cell = HEAD + (
        f"with {bound}contextlib.redirect_stdout({head}) as to:\n    for i in range(10):\n"
        "        print(work(i), flush=True)\n        waits(i)"
    )
    cell = cell.replace(" as to", "") if head != "opened" else cell
    kernel.run(SETUP + WAITS + "import contextlib")
    (kernel.folder / "closed.txt").write_text("yes")
    kernel.client.execute(cell)
    while not (kernel.folder / "there.txt").read_text():
        time.sleep(0.01)  # it is on its way
    kernel.kill()
    (kernel.folder / "closed.txt").write_text("")
    kernel.start()
    kernel.run(SETUP + WAITS + "import contextlib")
    assert "continued" not in kernel.run(cell).line
    assert (kernel.folder / "out").read_bytes() == WHOLE.removeprefix(b"head\n")

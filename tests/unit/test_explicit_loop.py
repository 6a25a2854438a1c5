"""`nbc.loop` in processes that die in the middle of it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.engine import context as engine_context
from nbcheckpoint.errors import UsageError
from nbcheckpoint.store import Store, open_store

PROGRAM = """
import os, random, sys
import nbcheckpoint as nbc
die_at, scale = int(sys.argv[1]), int(sys.argv[2])

class Model:
    def __init__(self): self.w = 0
    def state_dict(self): return {"w": self.w}
    def load_state_dict(self, state): self.w = state["w"]

def train(scale):
    model, history = Model(), []
    state = {"model": model, "drawn": []}
    random.seed(5)
    for epoch in nbc.loop(range(10), name="train", state=state, every=1):
        if epoch == fatal:
            os.kill(os.getpid(), 9)
        print("epoch", epoch, flush=True)
        model.w += epoch * scale
        state["drawn"].append(random.random())
    return model.w, state["drawn"], state["model"] is model

class Fatal(int):
    "Not an input: equal to every other one."
    def __reduce__(self): return (int, (0,))
fatal = Fatal(die_at)
print(train(scale))
"""


def run(folder: Path, die_at: int, scale: int = 1, program: str = PROGRAM) -> tuple[int, list[str]]:
    (folder / "program.py").write_text(program)
    env = {**os.environ, "NBCHECKPOINT_STORE": str(folder / "store")}
    done = subprocess.run(
        [sys.executable, "program.py", str(die_at), str(scale)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr
    return done.returncode, done.stdout.splitlines()


def test_it_goes_on_where_it_was_with_the_state_in_place(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    _, wanted = run(tmp_path / "plain", -1)
    code, first = run(tmp_path, 6)
    assert code == -9
    assert first == [f"epoch {n}" for n in range(6)]
    _, second = run(tmp_path, -1)
    assert second[0] in ("epoch 5", "epoch 6")  # the last save may have been on its way
    assert second[-1] == wanted[-1]
    assert run(tmp_path, -1)[1] == wanted[-1:], "and what has come to its end is not done again"


def test_killed_twice_it_goes_on_though_nobody_has_seeded(tmp_path: Path) -> None:
    """The chance it began with is that of a process long gone, and no seed."""
    program = PROGRAM.replace("    random.seed(5)\n", "")
    for die_at in (3, 6):
        assert run(tmp_path, die_at, program=program)[0] == -9
    assert run(tmp_path, -1, program=program)[1][0] in ("epoch 5", "epoch 6")


def test_a_changed_argument_begins_it_anew(tmp_path: Path) -> None:
    run(tmp_path, 6)
    assert run(tmp_path, -1, scale=2)[1][0] == "epoch 0"


@pytest.fixture
def here(tmp_path: Path) -> object:
    store = open_store(tmp_path / "store")
    engine_context.use(store)
    yield store
    engine_context.use(None)
    store.close()


def test_what_cannot_be_saved_is_a_warning_and_the_loop_runs(here: object) -> None:
    def go() -> list[int]:
        state = {"lock": None}
        out = []
        for n in nbc.loop([1, 2, 3], name="locked", state=state, every=1):
            state["lock"] = (i for i in "generators cannot be pickled")  # type: ignore[assignment]
            out.append(n)
        return out

    with pytest.warns(UserWarning, match="loop 'locked' is not saved"):
        assert go() == [1, 2, 3]


def test_items_in_another_order_begin_it_anew(here: object) -> None:
    def go(items: Unseen, stop: Unseen) -> list[int]:
        seen: list[int] = []
        for n in nbc.loop(items, name="order", state=seen, every=1):
            seen.append(n)
            if len(seen) == stop[0]:
                break
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert go(Unseen([1, 2, 3, 4]), Unseen([3])) == [1, 2, 3]
        assert go(Unseen([4, 3, 2, 1]), Unseen([9])) == [4, 3, 2, 1]
        assert go(Unseen([4, 3, 9, 1]), Unseen([9])) == [4, 3, 9, 1], "also when it had come to its end"


def read_all(stop: Unseen, path: str, ran: Unseen) -> list[str]:
    seen: list[str] = []
    for n in nbc.loop(range(3), name="reading", state=seen, every=1):
        ran.append(n)
        if n == stop[0]:
            break
        with open(path + ".txt") as file:
            seen.append(file.read())
    return seen


def test_a_file_it_has_read_begins_it_anew_when_that_changes(here: Store, tmp_path: Path) -> None:
    ran, path = Unseen(), str(tmp_path / "data")
    Path(path + ".txt").write_text("before")
    read_all(Unseen([2]), path, ran)
    here.flush()
    assert read_all(Unseen([2]), path, ran) == ["before"] * 2
    assert ran == [0, 1, 2, 2], "it went on"
    Path(path + ".txt").write_text("and after")
    assert read_all(Unseen([9]), path, ran) == ["and after"] * 3
    here.flush()
    Path(path + ".txt").write_text("once more")
    assert read_all(Unseen([9]), path, ran) == ["once more"] * 3, "also when it had come to its end"


def test_what_it_has_written_is_written_again_when_it_is_gone(here: Store, tmp_path: Path) -> None:
    def write_all(path: str) -> None:
        for n in nbc.loop(range(2), name="writing", every=1):
            Path(f"{path}{n}").write_text(str(n))

    path = str(tmp_path / "part")
    write_all(path)
    here.flush()
    Path(f"{path}1").unlink()
    write_all(path)
    assert Path(f"{path}1").read_text() == "1"


@pytest.mark.parametrize("again", [True, False])
def test_a_file_that_is_written_before_it_is_not_what_it_left_of_it(tmp_path: Path, *, again: bool) -> None:
    """What stands before the loop runs again in the new process, and may have begun the file again."""
    program = PROGRAM.replace(
        "        if epoch == fatal", "        if epoch in (1, 4): write(epoch)\n        if epoch == fatal"
    )
    program = program.replace(
        "def train", "def write(what):\n    open('best.txt', 'w').write(f'{what}')\n\ndef train", 1
    )
    assert run(tmp_path, 5, program=program)[0] == -9
    program = program.replace("print(train", "write('untrained')\nprint(train") if again else program
    shown = run(tmp_path, -1, program=program)[1]
    assert (shown[0] == "epoch 0") == again
    assert (tmp_path / "best.txt").read_text() == "4"


def test_what_it_has_written_in_its_own_process_is_its_own(here: Store, tmp_path: Path) -> None:
    def train(stop: Unseen, ran: Unseen, path: str) -> None:
        for n in nbc.loop(range(6), name="best", every=2):
            ran.append(n)
            if n in (1, 2, 4):
                Path(path).write_text(str(n))
            if n == stop[0]:
                raise InterruptedError

    best, ran = tmp_path / "best", Unseen()
    with pytest.raises(InterruptedError):
        train(Unseen([4]), ran, str(best))
    here.flush()
    train(Unseen([9]), ran, str(best))
    assert ran == [*range(5), 4, 5]


def test_another_seed_begins_it_anew(here: Store) -> None:
    def draw(stop: Unseen) -> list[float]:
        drawn: list[float] = []
        for n in nbc.loop(range(4), name="drawing", state=drawn, every=1):
            if n == stop[0]:
                break
            drawn.append(random.random())
        return drawn

    before = random.getstate()
    for seed, stop in ((1, 2), (1, 9), (2, 9), (1, 9), (2, 9)):
        random.seed(seed)
        expected = [random.random() for _ in range(min(stop, 4))]
        random.seed(seed)
        assert draw(Unseen([stop])) == expected
        here.flush()
    random.setstate(before)


class Unseen(list):  # type: ignore[type-arg]
    """A list whose content no digest sees."""

    def __reduce__(self) -> tuple[object, ...]:
        return (list, ())


def test_it_needs_a_name() -> None:
    with pytest.raises(UsageError):
        nbc.loop([1], name="")


DRAWING = """
import os, random, sys
import nbcheckpoint as nbc

class Fatal(int):
    "Not an input: equal to every other one."
    def __reduce__(self): return (int, (0,))
fatal = Fatal(sys.argv[1])

def items():
    drawn = 0
    for n in ITEMS:
        drawn += random.random()
        yield n if n != LAST else drawn

def train():
    random.seed(5)
    state = {"seen": []}
    for n in nbc.loop(items(), name="train", state=state, every=1):
        if len(state["seen"]) == fatal:
            os.kill(os.getpid(), 9)
        state["seen"].append(BODY)
    return n, len(state["seen"]), state["seen"][-1], random.random()
print(train())
"""


@pytest.mark.parametrize("body", ["random.random()", "0"])
@pytest.mark.parametrize(
    "items", ["range(10)", "[str(n) for n in {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}] + [9]"]
)
def test_items_that_draw_random_numbers_are_those_of_one_run(tmp_path: Path, body: str, items: str) -> None:
    """Also where they come in another order, and where the loop draws too: then its progress is not kept."""
    program = DRAWING.replace("ITEMS", items).replace("BODY", body).replace("LAST", "9")
    (tmp_path / "plain").mkdir()
    _, wanted = run(tmp_path / "plain", -1, program=program)
    assert run(tmp_path, 6, program=program)[0] == -9
    assert run(tmp_path, -1, program=program)[1] == wanted

"""What a step inside of another depends on, the other one depends on: also where the inner one was not run, but given
back."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbcheckpoint as nbc
from nbcheckpoint.store import Store
from tests.flows.bodies import note
from tests.flows.test_flows import latest

POOL: list[Any] = []


@nbc.step
def read(path: str) -> str:
    with open(path + ".txt") as file:
        return file.read()


@nbc.step
async def read_later(path: str) -> str:
    await asyncio.sleep(0)
    with open(path + ".txt") as file:
        return file.read()


@nbc.flow
def reading(path: str) -> str:
    return read(path)


@nbc.step
def called(path: str) -> str:
    return read(path)


@nbc.step
def mapped(path: str) -> list[str]:
    found: list[str] = read.map([path], progress=False)
    return found


@nbc.step
def spread(path: str) -> list[str]:
    found: list[str] = read.map([path], progress=False, concurrency=2)
    return found


@nbc.step
def submitted(path: str) -> Any:
    return read.submit(path).result()


@nbc.step
def flowed(path: str) -> str:
    return reading(path)


@nbc.step
def twice_removed(path: str) -> str:
    return called(path)


@nbc.step
async def awaited(path: str) -> Any:
    return await asyncio.gather(read_later(path), read_later(path))


@nbc.flow
def whole(step: str, path: str) -> Any:
    return globals()[step](path)


@nbc.flow
async def whole_later(path: str) -> Any:
    return await awaited(path)


WAYS = ["called", "mapped", "spread", "submitted", "flowed", "twice_removed"]


def text(found: Any) -> str:
    while not isinstance(found, str):
        found = found[0]
    return found


@pytest.mark.parametrize("known", [False, True], ids=["run", "given back"])
@pytest.mark.parametrize("way", WAYS)
def test_a_file_counts(store: Store, tmp_path: Path, way: str, known: bool) -> None:
    path = str(tmp_path / "data")
    Path(path + ".txt").write_text("before")
    if known:
        read(path)
    assert text(whole(way, path)) == "before"
    Path(path + ".txt").write_text("and after")
    assert text(whole(way, path)) == "and after"
    assert text(globals()[way](path)) == "and after", "also outside of a flow"


@pytest.mark.parametrize("known", [False, True], ids=["run", "given back"])
def test_a_file_counts_for_async_ones(store: Store, tmp_path: Path, known: bool) -> None:
    path = str(tmp_path / "data")
    Path(path + ".txt").write_text("before")
    if known:
        asyncio.run(read_later(path))  # type: ignore[arg-type]  # a step of a coroutine function is one
    assert text(asyncio.run(whole_later(path))) == "before"  # type: ignore[arg-type]  # the same
    Path(path + ".txt").write_text("and after")
    assert text(asyncio.run(whole_later(path))) == "and after"  # type: ignore[arg-type]  # the same


def test_what_is_not_touched_is_still_given_back(store: Store, tmp_path: Path, ran: list[Any]) -> None:
    @nbc.step
    def outer(path: str) -> str:
        note("outer")
        return read(path)

    path = str(tmp_path / "data")
    Path(path + ".txt").write_text("same")
    read(path)
    assert outer(path) == outer(path) == "same"
    assert ran == ["outer"]


def test_files_a_step_is_said_to_depend_on_count_for_whoever_calls_it(store: Store, tmp_path: Path) -> None:
    config = tmp_path / "a.cfg"
    config.write_text("before")

    @nbc.step(files=[str(tmp_path / "*.cfg")])
    def configured() -> str:
        return subprocess.run(["cat", config], check=True, capture_output=True, text=True).stdout

    @nbc.step
    def outer() -> str:
        return configured()

    assert (configured(), outer()) == ("before", "before")
    config.write_text("and after")
    assert (outer(), configured()) == ("and after", "and after")


def test_a_file_that_is_changed_between_two_steps_is_not_what_either_of_them_saw(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"

    @nbc.step
    def write(n: int) -> int:
        path.write_text(str(n))
        return n

    @nbc.step
    def outer() -> str:
        first = read(str(tmp_path / "data"))
        write(2)
        return first

    path.write_text("1")
    assert outer() == "1"
    assert outer() == "2", "now it begins with what it has left"


@nbc.flow
def guessing(path: str) -> Any:
    guess = read.submit(path, speculative=True)
    return guess.confirm()


def test_a_file_that_was_read_on_speculation_counts(store: Store, tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    Path(path + ".txt").write_text("before")
    assert guessing(path) == "before"
    assert read(path) == "before"
    Path(path + ".txt").write_text("and after")
    assert guessing(path) == "and after"


@nbc.step(ignore=("workers",))
def sent(path: str, workers: Any) -> Any:
    return read.submit(path, executor=workers).result(), read.map([path + "2"], executor=workers, progress=False)


@nbc.flow(ignore=("workers",))
def sending(path: str, workers: Any) -> Any:
    return sent(path, workers)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["", "2"], ids=["submitted", "mapped"])
@pytest.mark.filterwarnings("ignore:flow sending")  # a pool cannot be saved, and is not asked for again
def test_a_file_that_was_read_in_another_process_counts(store: Store, tmp_path: Path, which: str) -> None:
    path = str(tmp_path / "data")
    for name in ("", "2"):
        Path(f"{path}{name}.txt").write_text("before")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert sending(path, pool) == ("before", ["before"])
        assert len(store.steps(latest(store).id, inner=True)) == 5
        sending(path, pool)
        assert len(store.steps(latest(store).id, inner=True)) == 2, "it is given back as a whole"
        Path(f"{path}{which}.txt").write_text("and after")
        assert "and after" in str(sending(path, pool))


@nbc.step(every=0)
def read_unsaved(path: str) -> str:
    with open(path + ".txt") as file:
        return file.read()


@nbc.step(ignore=("workers",))
def sent_unsaved(path: str, workers: Any) -> Any:
    return read_unsaved.submit(path, executor=workers).result(), read_unsaved.map([path], executor=workers)


@nbc.flow(ignore=("workers",))
def sending_unsaved(path: str, workers: Any) -> Any:
    return sent_unsaved(path, workers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flow sending")
def test_what_a_worker_has_read_counts_though_its_result_is_not_saved(store: Store, tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        for text in ("before", "and after"):
            Path(path + ".txt").write_text(text)
            assert sending_unsaved(path, pool) == (text, [text])


class Quiet(Exception):
    """Takes nothing along to another process but itself."""

    def __reduce__(self) -> Any:
        return Quiet, ()


@nbc.step
def read_or_raise(path: str, how: str) -> str:
    with open(path + ".txt") as file:
        text = file.read()
    if text == "before":
        if how == "dies":
            os._exit(1)
        raise Quiet if how == "quiet" else OSError(text)
    return text


@nbc.step(ignore=("workers",))
def made_do(path: str, how: str, workers: Any) -> Any:
    try:
        return read_or_raise.submit(path, how, executor=workers).result()
    except (OSError, Quiet, BrokenProcessPool) as error:
        return type(error).__name__


@nbc.flow(ignore=("workers",))
def making_do(path: str, how: str, workers: Any) -> Any:
    return made_do(path, how, workers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flow making")
def test_what_a_worker_has_read_counts_though_its_error_was_caught(store: Store, tmp_path: Path) -> None:
    path, said = str(tmp_path / "data"), {"plain": "OSError", "quiet": "Quiet", "dies": "BrokenProcessPool"}
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        Path(path + ".txt").write_text("before")
        assert {how: making_do(path, how, pool) for how in said} == said
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        assert making_do(path, "plain", pool) == "OSError"
        assert [step.status for step in latest(store).steps() if step.name == "made_do"] == ["restored"]
        Path(path + ".txt").write_text("and after")
        assert {how: making_do(path, how, pool) for how in said} == dict.fromkeys(said, "and after")


# Questions


@nbc.step
def asking(n: int) -> Any:
    return nbc.pause("Go on?", name="gate")


@nbc.step
def above(n: int) -> Any:
    return asking(n)


@nbc.step
def mapping(n: int) -> Any:
    return asking.map([n], progress=False)[0]


@nbc.flow
def gated(step: str) -> Any:
    found = globals()[step](1)
    if note("behind") % 2:
        raise OSError("gone")
    return found


@pytest.mark.parametrize("step", ["asking", "above", "mapping"])
def test_an_answer_is_one_for_its_run(store: Store, ran: list[Any], step: str) -> None:
    """A step that has asked is given back to the run that was answered, and to no other."""
    for answer in ("yes", "no"):
        with pytest.raises(nbc.Paused) as asked:
            gated(step)
        store.answer(asked.value.run, asked.value.pause, answer)
        with pytest.raises(OSError, match="gone"):
            gated(step)
        assert gated(step) == answer
    assert len(store.runs()) == 2


# Random numbers


@nbc.step
def draw(n: int) -> float:
    return random.random()


@nbc.step
def draws(n: int) -> list[float]:
    found: list[float] = draw.map(range(n), progress=False)
    return found


@nbc.flow
def by_map(n: int) -> list[float]:
    found: list[float] = draw.map(range(n), progress=False)
    return [*found, random.random()]


@nbc.flow
def by_submit(n: int) -> list[float]:
    return [*(draw.submit(k).result() for k in range(n)), random.random()]


@nbc.flow
def by_call(n: int) -> list[float]:
    return [*(draw(k) for k in range(n)), random.random()]


@nbc.flow
def by_step(n: int) -> list[float]:
    return [*draws(n), random.random()]


def drawn(seed: int, count: int) -> list[float]:
    random.seed(seed)
    return [random.random() for _ in range(count)]


@pytest.fixture
def _random_again() -> Any:
    state = random.getstate()
    yield
    random.setstate(state)


@pytest.mark.usefixtures("_random_again")
@pytest.mark.parametrize("flow", [by_map, by_submit, by_call, by_step], ids=lambda flow: flow.name)
def test_another_seed_gives_other_numbers_and_the_same_one_the_same(store: Store, flow: Any) -> None:
    for seed in (1, 2, 1, 2):
        random.seed(seed)
        found = flow(3)
        assert found == drawn(seed, 4)


@pytest.mark.usefixtures("_random_again")
def test_items_that_draw_go_on_where_they_were(store: Store, ran: list[Any]) -> None:
    """And in another order they are others: an item draws behind those before it."""

    @nbc.step
    def noisy(name: str) -> float:
        if note(name) == 3:
            raise KeyboardInterrupt
        return random.random()

    @nbc.flow(ignore=("names",))
    def noise(names: Any) -> list[float]:
        found: list[float] = noisy.map(names, progress=False)
        return found

    random.seed(5)
    with pytest.raises(KeyboardInterrupt):
        noise("abcd")
    random.seed(5)
    assert noise("abcd") == drawn(5, 4)
    assert ran == ["a", "b", "c", "c", "d"]
    random.seed(5)
    assert noise("abcde") == drawn(5, 5)
    assert ran[5:] == ["e"]
    random.seed(5)
    assert noise("bacd") == drawn(5, 4)
    assert ran[6:] == ["b", "a", "c", "d"]


@nbc.step
def draw_numpy(n: int) -> float:
    return float(np.random.random())


@nbc.flow
def elsewhere() -> tuple[list[float], list[float]]:
    mine, numpys = (step.map([0], executor=POOL[0], progress=False) for step in (draw, draw_numpy))
    return mine, numpys


@pytest.mark.slow
def test_what_a_worker_drew_from_a_seeded_generator_is_not_kept(store: Store) -> None:
    """NumPy's was forked from ours: whether it is where it was, nobody can tell here. Python's own seeds itself by
    chance in a new process, and one chance is as good as another."""
    before = np.random.get_state()
    np.random.seed(1)
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        POOL[:] = [pool]
        elsewhere()
    mine, numpys = (step for step in store.steps(latest(store).id, inner=True) if step.kind == "item")
    assert mine.checkpoint
    assert "seeded generator, apart from the flow" in numpys.meta["problem"]
    np.random.seed(2)
    expected = np.random.random()
    np.random.seed(2)
    assert draw_numpy(0) == expected
    np.random.set_state(before)


@nbc.flow
def drawing_lots() -> Any:
    return draw.submit(1, speculative=True).confirm()


@pytest.mark.usefixtures("_random_again")
def test_what_was_drawn_on_speculation_is_not_given_back_to_another_seed(store: Store) -> None:
    for seed in (1, 2):
        random.seed(seed)
        assert drawing_lots() == drawn(seed, 1)[0]


@pytest.mark.usefixtures("_random_again")
def test_a_speculative_step_that_draws_nothing_is_kept_whatever_the_seed(store: Store, ran: list[Any]) -> None:
    @nbc.step
    def plain(n: int) -> int:
        note(n)
        return n

    @nbc.flow
    def guessed() -> Any:
        return plain.submit(1, speculative=True).confirm()

    for seed in (1, 2):
        random.seed(seed)
        assert guessed() == 1
    assert ran == [1]


@nbc.step(ignore=("at",))
def draw_beside(n: int, at: Any) -> float:
    """The first one draws twice, once before and once behind the other one."""
    first, second = at
    if n:
        first.wait(60)
    found = random.random()
    first.set()
    if not n:
        second.wait(60)
        found = random.random()
    second.set()
    return found


@nbc.step(ignore=("at",))
async def draw_beside_async(n: int, at: Any) -> float:
    first, second = at
    if n:
        await first.wait()
    found = random.random()
    first.set()
    if not n:
        await second.wait()
        found = random.random()
    second.set()
    return found


@nbc.flow(ignore=("at",))
def beside_by_map(at: Any) -> Any:
    return draw_beside.map([0, 1], at=at, concurrency=2, progress=False)


@nbc.flow(ignore=("at",))
def beside_by_submit(at: Any) -> Any:
    return [future.result() for future in [draw_beside.submit(n, at=at) for n in (0, 1)]]


@nbc.flow(ignore=("at",))
def beside_the_flow(at: Any) -> Any:
    first, second = at
    found = draw_beside.submit(0, at=at)
    first.wait(60)
    mine = random.random()
    second.set()
    return [found.result(), mine]


def beside_outside(at: Any) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda n: draw_beside(n, at=at), (0, 1)))


@nbc.flow(ignore=("at",))
async def beside_by_gather(at: Any) -> Any:
    return await asyncio.gather(*(draw_beside_async(n, at=at) for n in (0, 1)))


BESIDE = [
    *(
        (flow, draw_beside, threading.Event)
        for flow in (beside_by_map, beside_by_submit, beside_the_flow, beside_outside)
    ),
    (beside_by_gather, draw_beside_async, asyncio.Event),
]


@pytest.mark.usefixtures("_random_again")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("flow", "step", "event"), BESIDE)
def test_what_was_drawn_beside_others_is_given_back_to_nobody(store: Store, flow: Any, step: Any, event: Any) -> None:
    """What each of two got that draw in turns is no function of where the generator was when it began."""

    def seeded(function: Any, *args: Any, at: Any) -> Any:
        random.seed(1)
        found = function(*args, at=at)
        return asyncio.run(found) if asyncio.iscoroutine(found) else found

    first, second, third = drawn(1, 3)
    for _ in range(2):
        assert seeded(flow, at=(event(), event())) == [third, second]
    for n, expected in ((0, second), (1, first)):
        met = event(), event()
        for one in met:
            one.set()
        assert seeded(step, n, at=met) == expected


SCRIPT = """
import random, sys
import nbcheckpoint as nbc

@nbc.step
def draw():
    print("ran", flush=True)
    return random.random()

print(draw())
"""


@pytest.mark.slow
def test_numbers_nobody_has_seeded_are_kept_in_a_script_too(tmp_path: Path) -> None:
    run = [sys.executable, "-c", SCRIPT]
    said = [subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    assert said[0] == f"ran\n{said[1]}"


CHANCE = """
import random, sys
import nbcheckpoint as nbc

@nbc.step
def draw(n):
    if n == 1 and sys.stdin.read():
        raise OSError("gone")
    print("ran", n, flush=True)
    return random.random()

@nbc.flow
def lots(concurrency):
    return draw.map(range(4), concurrency=concurrency, progress=False)

print(*lots(int(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_one_item_that_failed_costs_one_though_all_draw_by_chance(tmp_path: Path, concurrency: str) -> None:
    """And draws what nobody else has drawn."""
    run = [sys.executable, "-c", CHANCE, concurrency]
    failing = subprocess.run(run, input="fails", cwd=tmp_path, capture_output=True, text=True)
    assert "1 of 4 items of draw failed" in failing.stderr
    said = subprocess.run(run, input="", cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said.startswith("ran 1\n0.")
    numbers = said.splitlines()[1].split()
    assert len(set(numbers)) == 4


# Errors


def test_an_error_that_cannot_be_shown_is_raised_as_it_is(store: Store, ran: list[Any]) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    @nbc.step
    def fails(n: int) -> int:
        if note(n) == 1:
            raise Mute
        return n

    @nbc.flow
    def failing() -> int:
        return fails(1)

    with pytest.raises(Mute):
        failing()
    assert latest(store).steps()[1].error == "Mute (which cannot be shown: RuntimeError)"
    assert failing() == 1


def test_the_end_of_an_iterator_is_raised_as_it_is(store: Store) -> None:
    @nbc.step
    def first(items: list[int]) -> int:
        return next(iter(items))

    @nbc.flow
    def firsts() -> int:
        try:
            return first([])
        except StopIteration:
            return first([7])

    assert firsts() == 7
    assert [step.status for step in latest(store).steps()] == ["completed", "failed", "completed"]
    with pytest.raises(StopIteration):
        first([])

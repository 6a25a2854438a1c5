"""What was asked of runs, steps, pauses, events and retention, row by row, where no other test says it already.

The number in a docstring names the row.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint.errors import NotFound, StoreFull, UsageError
from nbcheckpoint.events import Event, subscribe
from nbcheckpoint.model import FORMAT, Run
from nbcheckpoint.store import Store
from tests.flows.bodies import note

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@nbc.step
def double(n: int) -> int:
    note(f"double {n}")
    return n * 2


@nbc.step
def add(a: int, b: int) -> int:
    note(f"add {a} {b}")
    return a + b


@nbc.flow(tags=("nightly",))
def sums(n: int) -> int:
    return add(double(n), double(n + 1))


@nbc.flow
def other(n: int) -> int:
    return double(n)


def latest(store: Store) -> Run:
    return store.runs(limit=1)[0]


def test_everything_a_run_was_and_made_is_kept(store: Store) -> None:
    """000-3, 002-1, 003-9: the inputs, what every step returned, the result; all of it can be loaded again."""
    assert sums(3) == 14
    flow, *steps = latest(store).steps()
    assert store.restore(flow.checkpoint) == {"args": (3,), "kwargs": {}, "result": 14}
    assert [store.restore(step.checkpoint)["result"] for step in steps] == [6, 8, 14]


def test_workflows_of_one_store_keep_to_themselves(store: Store) -> None:
    """000-4: each has its runs and its steps, and resumes its own."""

    @nbc.flow
    def broken(n: int) -> int:
        raise OSError(str(double(n)))

    sums(1)
    with pytest.raises(OSError, match="8"):
        broken(4)
    other(9)
    assert {run.workflow: len(run.steps()) for run in store.runs()} == {"sums": 4, "broken": 2, "other": 2}
    assert len({run.id for run in store.runs()}) == 3
    with pytest.raises(NotFound, match="no run of sums waits"):
        sums.resume()


def test_a_question_has_a_name_a_prompt_and_an_answer(store: Store) -> None:
    """000-6, 000-8, 002-9: and they stand in the record of a step of a run with an id of its own."""

    @nbc.flow
    def gate() -> Any:
        return nbc.pause("Go on?", name="gate", choices=["yes", "no"])

    with pytest.raises(nbc.Paused) as asked:
        gate()
    step = latest(store).steps()[1]
    assert (asked.value.run, asked.value.pause) == (latest(store).id, "gate")
    assert (step.kind, step.status, step.meta["pause"]["prompt"]) == ("pause", "paused", "Go on?")
    assert "answer" not in step.meta
    store.answer(asked.value.run, "gate", "no")
    answer = latest(store).steps()[1].meta["answer"]
    assert answer["value"] == "no"
    assert TIME.fullmatch(answer["at"])


def test_what_the_store_does_with_what_is_not_there(store: Store) -> None:
    """000-7, 004-2: looking for it is an error that names it, deleting it is none."""
    with pytest.raises(NotFound, match="no checkpoint nothing"):
        store.checkpoint("nothing")
    assert store.delete_checkpoint("nothing") is False
    with pytest.raises(NotFound, match="no run nothing"):
        store.run("nothing")
    assert store.runs(workflow="nothing") == []
    assert len(store.prune().runs) == 0


def test_runs_are_found_by_what_is_known_of_them(store: Store) -> None:
    """000-21, 001-14: by workflow, status, tag and text, the newest first."""
    sums(1)
    other(1)
    other(2)
    assert [run.workflow for run in store.runs()] == ["other", "other", "sums"]
    assert [run.inputs for run in store.runs(workflow="other")] == [{"n": "2"}, {"n": "1"}]
    assert [run.workflow for run in store.runs(tag="nightly")] == ["sums"]
    assert store.runs(status="failed") == []
    assert len(store.runs(status="completed", limit=2)) == 2
    assert [run.workflow for run in store.runs(text="SUM")] == ["sums"]


def test_a_later_edge_is_not_reached_twice(store: Store, ran: list[Any]) -> None:
    """002-13, 003-19: stopped behind the second of four, it goes on with the third: none skipped, none repeated."""
    stops = [2, 3, 1]

    @nbc.flow
    def four() -> list[int]:
        done = []
        for n in range(4):
            done.append(double(n))
            if stops and n + 1 == stops[0]:
                stops.pop(0)
                raise InterruptedError(n)
        return done

    for seen in (["double 0", "double 1"], ["double 2"]):
        ran.clear()
        with pytest.raises(InterruptedError):
            four()
        assert ran == seen
    stops.clear()
    ran.clear()
    assert four() == [0, 2, 4, 6]
    assert ran == ["double 3"]


def test_ids_can_be_put_in_order(store: Store) -> None:
    """002-2: an id tells when; nothing else has to be read for that."""
    for n in range(5):
        other(n)
    made = [run.id for run in store.runs()]
    assert made == sorted(made, reverse=True)
    assert len(set(made)) == 5


def test_what_is_saved_and_what_is_not_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """002-10, 002-11, C1: checkpoint_saved, checkpoint_failed; and the flow goes on."""
    told: list[Event] = []
    stop = subscribe(told.append)
    other(1)
    saved = [event for event in told if event.type == "checkpoint_saved" and event.step == "000001"]
    assert len(saved) == 1
    assert saved[0].data["checkpoint"] == latest(store).steps()[1].checkpoint
    assert TIME.fullmatch(saved[0].time)
    told.clear()

    def full(*args: Any, **kwargs: Any) -> Any:
        raise StoreFull("no space left")

    monkeypatch.setattr(store, "_stage", full)
    with pytest.warns(UserWarning, match="no space left"):
        assert other(2) == 4
    stop()
    assert {event.data["error"] for event in told if event.type == "checkpoint_failed"} == {"no space left"}
    step = latest(store).steps()[1]
    assert (step.status, step.checkpoint) == ("completed", "")
    assert "no space left" in step.meta["problem"]


def test_a_record_says_by_itself_what_it_is(store: Store) -> None:
    """003-2, 003-4, 004-1: read without loading a value: step, attempt, how long, when in UTC, and the marks."""

    @nbc.step
    def stage() -> bytes:
        nbc.mark(stage="validated")
        return b"x" * 100_000

    @nbc.flow
    def marked() -> int:
        return len(stage())

    marked()
    run = latest(store)
    step = run.steps()[1]
    kept = store.checkpoint(step.checkpoint)
    assert (kept.run, kept.step, kept.name, step.attempt) == (run.id, step.address, "stage", 1)
    assert kept.meta["marks"] == step.meta["marks"] == {"stage": "validated"}
    assert kept.seconds == step.seconds > 0
    assert TIME.fullmatch(kept.created)
    assert TIME.fullmatch(step.started)
    assert TIME.fullmatch(run.created)
    assert len(step.to_json()) + len(kept.to_json()) < 10_000, "the value is not in it"


def test_a_loop_saves_now_and_then_and_stops_when_it_is_good_enough(store: Store, ran: list[Any]) -> None:
    """003-12, 003-13: every ten epochs, until the accuracy is reached; the counter goes on after an interruption."""

    @nbc.flow
    def train() -> tuple[int, float]:
        state = {"accuracy": 0.0, "epochs": 0}
        for epoch in nbc.loop(range(1000), name="train", state=state, every=10):
            if note(epoch) == 26:
                raise InterruptedError
            state["accuracy"] += 0.02
            state["epochs"] += 1
            if state["accuracy"] >= 0.95:
                break
        return int(state["epochs"]), round(state["accuracy"], 2)

    with pytest.raises(InterruptedError):
        train()
    assert ran[-1] == 25
    ran.extend(ran)  # it counts them
    assert train() == (48, 0.96)
    assert ran[52] == 20


def test_what_a_step_was_given_is_not_what_is_kept(store: Store) -> None:
    """000-22, 004-12: changing it afterwards changes no checkpoint."""

    @nbc.step
    def rows(n: int) -> list[int]:
        return [n]

    @nbc.flow
    def changing() -> list[int]:
        found = rows(1)
        found.append(2)
        return found

    assert changing() == [1, 2]
    step = latest(store).steps()[1]
    assert store.restore(step.checkpoint)["result"] == [1]
    assert changing() == [1, 2]


def test_the_error_is_the_one_that_was_raised(store: Store) -> None:
    """001-13: what is done about a failure changes nothing of it."""
    raised = ValueError("mine")

    @nbc.flow
    def broken() -> None:
        double(1)
        raise raised

    with pytest.raises(ValueError, match="mine") as told:
        broken()
    assert told.value is raised
    assert latest(store).status == "failed"
    assert told.traceback[-1].name == "broken"


def test_a_run_says_how_it_is_to_be_carried_out(store: Store, ran: list[Any]) -> None:
    """002-3, 002-4: with what policies it began stands in its record, and whoever resumes it goes by them."""

    @nbc.step
    def shaky(n: int) -> int:
        if note(n) == 1:
            raise KeyboardInterrupt
        raise OSError("gone")

    @nbc.flow
    def night(n: int) -> int | None:
        return shaky(n)

    with pytest.raises(KeyboardInterrupt):
        night.options(on_failure="continue")(1)
    run = latest(store)
    assert run.meta["policies"] == {"on_failure": "continue"}
    with pytest.raises(OSError, match="gone"):
        night.resume(run.id, on_failure="pause")
    with pytest.warns(UserWarning, match="goes on without its result"):
        assert night.resume(run.id) is None


def test_a_graph_is_resumed_as_it_was_begun(store: Store, ran: list[Any]) -> None:
    """002-3, 002-4: also its picture is in the record, before any of it has run."""

    def count(state: int) -> int:
        if note(state) == 3:
            raise OSError("gone")
        return state + 1

    graph = nbc.Graph("counting").node("count", count).node("end", lambda state: state)
    graph.edge("count", "end", when=lambda state: state > 5).edge("count", "count").entry("count").exit("end")
    with pytest.raises(OSError, match="gone"):
        graph.run(0, every=2, preserve=False)
    run = latest(store)
    assert run.meta["graph"]["nodes"] == ["count", "end"]
    assert [edge["target"] for edge in run.meta["graph"]["edges"]] == ["end", "count"]
    assert run.meta["policies"] == {"every": 2, "on_success": "delete"}
    assert graph.resume(run.id) == 6
    assert store.runs() == []


def test_what_a_step_writes_does_not_grow_with_its_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """002-6: how long it takes is measured by `make bench`."""
    monkeypatch.setattr("nbcheckpoint.engine.journal._NOTING_SECONDS", 1e9)
    written: list[tuple[str, int]] = []
    put = store.backend.put

    def noting(key: str, value: bytes, **how: Any) -> str:
        written.append((key.partition("/")[0], len(value)))
        return put(key, value, **how)

    monkeypatch.setattr(store.backend, "put", noting)
    each: list[list[tuple[str, int]]] = []

    @nbc.flow
    def many() -> None:
        for n in range(1000, 1200):
            written.clear()
            double(n)
            each.append(list(written))

    many()
    kinds = {tuple(sorted(kind for kind, _ in found)) for found in each[1:]}
    assert len(kinds) == 1, kinds
    sizes = [sum(size for _, size in found) for found in each]
    assert sizes[-1] - sizes[1] < 100, "the numbers have more digits, and that is all"


def test_all_records_are_json_and_no_value_is_in_them(store: Store) -> None:
    """000-11, C7: each with its signature behind it; the values are chunks, named by what is in them."""
    big = "not to be seen in a record " * 1000

    @nbc.step
    def made(n: int) -> dict[str, Any]:
        return {"text": big, "when": {1, 2, n}}

    @nbc.flow
    def keeping() -> int:
        return len(made(3)["text"])

    keeping()
    store.flush()
    records = {entry.key: entry.value for entry in store.backend.scan()}
    assert {"run", "step", "checkpoint"} <= {key.partition("/")[0] for key in records}
    for key, value in records.items():
        if key.startswith(("run/", "step/", "checkpoint/")):
            found = json.loads(value.partition(b"\n")[0])
            assert isinstance(found, dict), key
            assert len(value) < 10_000
    step = latest(store).steps()[1]
    assert store.checkpoint(step.checkpoint).format == FORMAT
    assert store.restore(step.checkpoint)["result"] == {"text": big, "when": {1, 2, 3}}


def test_what_is_there_already_is_not_stored_again(store: Store) -> None:
    """000-18: a checkpoint costs what is new in it, and bytes that shrink are stored smaller."""
    import numpy as np

    @nbc.step
    def table(n: int) -> Any:
        rows = np.zeros(1_000_000)
        rows[-1] = n
        return rows

    @nbc.flow
    def tables() -> float:
        return float(sum(table(n)[-1] for n in (1, 2, 3)))

    assert tables() == 6
    first, *others = [store.checkpoint(step.checkpoint) for step in latest(store).steps()[1:]]
    assert first.size > 8_000_000
    assert all(kept.bytes < first.size / 4 for kept in others)
    store.flush()
    assert sum(size for _, size, _ in store.backend.scan_chunks()) < first.size / 2


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """000-16, 003-3: a folder or a URL; what no backend is known for is an error that says what there is."""
    monkeypatch.setenv("NBCHECKPOINT_STORE", str(tmp_path / "named"))
    assert other(4) == 8
    with nbc.open_store(f"file://{tmp_path / 'named'}") as named:
        assert [run.workflow for run in named.runs()] == ["other"]
    with nbc.open_store("memory://named") as elsewhere:
        assert other.options(store=elsewhere)(5) == 10
        assert [run.inputs for run in elsewhere.runs()] == [{"n": "5"}]
    with pytest.raises(UsageError, match="no backend for punchcards://") as told:
        nbc.open_store("punchcards://tray")
    assert "a folder and memory://" in told.value.hint


def test_anybody_can_add_a_kind_of_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """004-2: a scheme and what opens it, as an installed package says it: the entry points `nbcheckpoint.backends`."""
    (tmp_path / "shelves.py").write_text(
        "from nbcheckpoint.backend.memory import MemoryBackend\n"
        "def opened(url):\n"
        "    backend = MemoryBackend.from_url(url.replace('shelf://', 'memory://shelf-'))\n"
        "    backend.url = url\n"
        "    return backend\n"
    )
    about = tmp_path / "shelves-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shelves\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[nbcheckpoint.backends]\nshelf = shelves:opened\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with nbc.open_store("shelf://top") as shelf:
        assert other.options(store=shelf)(6) == 12
    with nbc.open_store("shelf://top") as again:
        assert [run.status for run in again.runs()] == ["completed"]
        assert again.url == "shelf://top"


def test_who_declares_nothing_is_left_alone(tmp_path: Path) -> None:
    """000-20, 003-10, C11: no folder, no thread, no connection; a step that is called is what switches it on, and
    that needs no service either."""
    code = """
import os, sys, threading

def refuse(event, arguments):
    assert event not in ("socket.connect", "socket.bind"), (event, arguments)

sys.addaudithook(refuse)
before = {name: getattr(sys, name) for name in ("excepthook", "displayhook", "stdout", "path_hooks")}
import nbcheckpoint as nbc
declared = nbc.step(abs)
piped = nbc.flow(lambda n: declared(n))
assert os.listdir() == [], os.listdir()
assert threading.active_count() == 1, threading.enumerate()
assert before == {name: getattr(sys, name) for name in before}
assert sys.gettrace() is None and sys.getprofile() is None
assert piped(-3) == 3
assert os.listdir() == [".nbcheckpoint"], os.listdir()
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NBCHECKPOINT_")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_run_goes_on_on_another_machine(store: Store, tmp_path: Path, ran: list[Any]) -> None:
    """003-10: exported half-way and imported elsewhere, only what is left is computed there."""

    @nbc.flow
    def moving(n: int) -> int:
        found = double(n)
        if note("stop") == 2:
            raise OSError("the machine is needed")
        return add(found, 1)

    with pytest.raises(OSError, match="is needed"):
        moving(4)
    run = latest(store).id
    store.export(run, tmp_path / "run.zip")
    ran.clear()
    with nbc.open_store(tmp_path / "elsewhere") as there:
        there.import_(tmp_path / "run.zip")
        assert moving.options(store=there).resume(run) == 9
        assert there.run(run).status == "completed"
    assert ran == ["stop", "add 8 1"]


def test_what_is_marked_is_deferred_and_what_a_loop_saves_is_there_at_once(store: Store, ran: list[Any]) -> None:
    """C6: a step that fails half-way has marked nothing, and its loop goes on where it was."""

    @nbc.step
    def train() -> dict[str, int]:
        state = {"epochs": 0}
        for epoch in nbc.loop(range(5), name="train", state=state, every=1):
            nbc.mark(epoch=epoch)
            if note(epoch) == 4:
                raise OSError("gone")
            state["epochs"] += 1
        return state

    @nbc.flow
    def training() -> dict[str, int]:
        return train()

    with pytest.raises(OSError, match="gone"):
        training()
    assert "marks" not in latest(store).steps()[1].meta
    assert training() == {"epochs": 5}
    assert ran == [0, 1, 2, 3, 3, 4]
    assert latest(store).steps()[1].meta["marks"] == {"epoch": 4}

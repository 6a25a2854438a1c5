"""Two kernels of one notebook: one that is alive keeps its run, one that was taken for dead is refused and told."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from msgspec.structs import replace

from nbcheckpoint.model import Run
from nbcheckpoint.store import Store, open_store
from tests.kernels import Kernel

LISTEN = (
    "import nbcheckpoint as nbc; told = []; _stop = nbc.subscribe(lambda event: told.append((event.type, event.run)))"
)
SLOW = """%%checkpointed
import os, time
x = [1, 2, 3]
print("begun", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
y = sum(x)"""


def the_run(store: Store) -> Run:
    (run,) = store.runs()
    return run


def seems_dead(store: Store, run: Run) -> None:
    """As if it were on another machine and had not been heard of for an hour."""
    assert run.owner is not None
    store.update_run(run.id, owner=replace(run.owner, host="elsewhere", renewed="2020-01-01T00:00:00.000Z"))


def test_a_second_kernel_has_a_run_of_its_own_while_the_first_is_alive(tmp_path: Path) -> None:
    with Kernel(tmp_path) as first, Kernel(tmp_path) as second:
        first.run("%load_ext nbcheckpoint")
        first.run("%%checkpointed\nx = 1")
        second.run("%load_ext nbcheckpoint")
        second.run("%%checkpointed\ny = 1")
        first.run("%%checkpointed\nz = 1")
        with open_store(tmp_path / ".nbcheckpoint", create=False) as store:
            runs = {run.id: run for run in store.runs()}
            assert [(run.status, run.sessions) for run in runs.values()] == [("running", 1)] * 2
            assert sorted(len(store.steps(id)) for id in runs) == [1, 2]
            assert {run.owner.pid for run in runs.values() if run.owner} == {first.pid, second.pid}


def test_a_frozen_kernel_thawed_after_takeover_is_refused_and_its_cell_unharmed(tmp_path: Path) -> None:
    with Kernel(tmp_path) as frozen, open_store(tmp_path / ".nbcheckpoint") as store:
        frozen.run("%load_ext nbcheckpoint")
        frozen.run(LISTEN)
        request = frozen.start_cell(SLOW, until="begun")
        os.kill(frozen.pid, signal.SIGSTOP)
        seems_dead(store, the_run(store))
        assert the_run(store).status == "interrupted"
        with Kernel(tmp_path) as other:
            other.run("%load_ext nbcheckpoint")
            other.run("%%checkpointed\nz = 5")
            taken = the_run(store)
            assert (taken.status, taken.sessions) == ("running", 2)
            os.kill(frozen.pid, signal.SIGCONT)
            (tmp_path / "go").touch()
            cell = frozen.collect(request)
            assert not cell.error
            assert "this kernel had not been heard of" in cell.line
            assert f"taken over by process {other.pid}" in cell.line
            assert frozen.run("x, y").result == "([1, 2, 3], 6)"
            assert ("step_fenced", taken.id) in eval(frozen.run("[t for t in told if t[0] == 'step_fenced']").result)
            after = store.run(taken.id)
            assert (after.owner, after.counts, after.status) == (taken.owner, taken.counts, "running")
            assert [step.name for step in store.steps(taken.id)] == ["x = [1, 2, 3]", "z = 5"]
            own = next(run for run in store.runs() if run.id != taken.id)
            assert own.id in cell.line
            assert [(step.name, step.status) for step in store.steps(own.id)] == [("x = [1, 2, 3]", "completed")]
            assert not frozen.run("%%checkpointed\nw = 1").line.startswith("this kernel"), "it is told once"
            assert other.run("%%checkpointed\nv = 1").line.startswith("computed")
            assert len(store.steps(own.id)) == 2
        assert store.run(own.id).status == "running"
    with Kernel(tmp_path) as again:
        again.run("%load_ext nbcheckpoint")
        assert "restored" in again.run(SLOW).line, "what it saved counts all the same"

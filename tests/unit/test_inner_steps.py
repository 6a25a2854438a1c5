"""A cell's statements are steps below the cell's: whatever moves or trusts a run takes their checkpoints along.

`export` once walked the cells only, and left out every checkpoint but the last of each.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from nbcheckpoint.cli import main
from nbcheckpoint.errors import Untrusted
from nbcheckpoint.model import Checkpoint, Step
from nbcheckpoint.retention import Policy
from nbcheckpoint.store import Store, open_store


def run_of_one_cell(store: Store) -> tuple[str, list[str]]:
    """A run with one cell of two statements, as a notebook leaves it: the cell refers to the last checkpoint only."""
    run = store.begin_run("nb.ipynb").id
    ids = []
    for number, name in enumerate("xy"):
        draft = Checkpoint(
            id="", created="", run=run, step=f"000000.{number:03d}", code=name * 64, inputs_digest="0" * 64
        )
        ids.append(store.save(draft, {name: [number]}).checkpoint.id)
        store.put_step(Step(run=run, address=draft.step, name="cell", kind="statement", checkpoint=ids[-1]))
    store.put_step(Step(run=run, address="000000", name="cell", checkpoint=ids[-1]))
    return run, ids


def test_export_and_import_take_every_statement(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as store:
        run, ids = run_of_one_cell(store)
        store.export(run, tmp_path / "run.zip")
    with open_store(tmp_path / "b") as other:
        other.import_(tmp_path / "run.zip")
        assert [other.restore(id) for id in ids] == [{"x": [0]}, {"y": [1]}]


def test_trusting_a_run_trusts_every_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "a") as store:
        run, ids = run_of_one_cell(store)
        store.export(run, tmp_path / "run.zip")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "somebody else"))
    with open_store(tmp_path / "b") as theirs:
        theirs.import_(tmp_path / "run.zip")
        with pytest.raises(Untrusted):
            theirs.restore(ids[0])
        theirs.trust(run)
        assert [theirs.restore(id) for id in ids] == [{"x": [0]}, {"y": [1]}]


def test_the_list_of_a_run_has_every_statement(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as store:
        run, ids = run_of_one_cell(store)
    shown = CliRunner().invoke(main, ["list", run, "--store", str(tmp_path / "a"), "--json"])
    assert shown.exit_code == 0, shown.output
    assert all(id in shown.output for id in ids)


def test_pruning_and_copying_keep_every_statement_of_a_run_that_stays(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as store:
        run, ids = run_of_one_cell(store)
        store.prune(Policy(versions=0), grace_seconds=0)
        assert [store.restore(id) for id in ids] == [{"x": [0]}, {"y": [1]}]
        store.copy_to(str(tmp_path / "b"))
        store.delete_run(run)
        assert store.steps(run, inner=True) == []
    with open_store(tmp_path / "b") as copy:
        assert [copy.restore(id) for id in ids] == [{"x": [0]}, {"y": [1]}]

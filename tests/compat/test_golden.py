"""Stores that earlier versions wrote: opened, listed, loaded and verified by this one; and those of a later version."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbcheckpoint.errors import StoreTooNew, Untrusted
from nbcheckpoint.model import FORMAT, Checkpoint
from nbcheckpoint.store import Store, open_store
from tests.compat import make_golden as golden

FORMATS = range(1, FORMAT + 1)


@pytest.fixture(params=FORMATS)
def unpacked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of one format, and we are the user who wrote it."""
    with tarfile.open(golden.GOLDEN / f"format-{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def expected(unpacked: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((unpacked / "expected.json").read_text())
    return found


@pytest.fixture
def store(unpacked: Path) -> Iterator[Store]:
    with open_store(unpacked / "store", create=False) as store:
        yield store


def test_every_format_there_ever_was_has_its_golden_store() -> None:
    assert sorted(path.name for path in golden.GOLDEN.iterdir()) == [f"format-{n}.tar.xz" for n in FORMATS]
    assert all(path.stat().st_size < 200_000 for path in golden.GOLDEN.iterdir())


def test_it_is_listed(store: Store, expected: dict[str, Any]) -> None:
    theirs, mine = store.runs()
    assert (theirs.id, theirs.trusted) == (expected["foreign"]["run"], False)
    assert mine == store.run(expected["store"]["run"])
    assert (mine.workflow, mine.status, mine.pinned, mine.note) == ("train.ipynb", "completed", True, "golden")
    assert (mine.tags, mine.inputs, mine.counts, mine.trusted) == (("a", "b"), {"n": 8}, {"completed": 4}, True)
    steps = store.steps(mine.id, inner=True)
    assert [step.address for step in steps] == ["000000", "000000.000", "000000.001", "000001", "000002", "000003"]
    assert steps[-1].reason is not None
    assert steps[-1].reason.text == "never computed before"


def check_values(store: Store, ids: dict[str, str]) -> None:
    small = store.restore(ids["small"])
    assert small == golden.small()
    assert small["first"] is small["second"]
    assert store.outputs(store.checkpoint(ids["small"])) == golden.OUTPUTS
    data = store.restore(ids["array"])["data"]
    assert np.array_equal(data, golden.array())
    data[0] = 7
    assert np.array_equal(store.restore(ids["reference"])["box"]["data"], golden.array())
    if "long" in ids:
        assert np.array_equal(store.restore(ids["long"])["long"], golden.long())


@pytest.mark.parametrize("name", ["store", "encrypted"])
def test_it_is_loaded_and_found(unpacked: Path, expected: dict[str, Any], name: str) -> None:
    """002-4: what earlier versions wrote."""
    ids = expected[name]["checkpoints"]
    with open_store(unpacked / name, create=False) as store:
        check_values(store, ids)
        assert [found.id for found in store.find("b" * 64, "1" * 64)] == [ids["array"]]
        full = store.checkpoint(ids["array"])
        assert [item.name for item in full.not_saved] == ["lock"]
        assert (full.seconds, full.inputs[0].preview, full.files[0].path) == (12.5, "42", "data.csv")
        assert store.checkpoint(ids["reference"]).needs == (ids["array"],)


def test_what_went_through_arrow_comes_back(store: Store, expected: dict[str, Any]) -> None:
    pytest.importorskip("pyarrow")
    back = store.restore(expected["store"]["checkpoints"]["strings"])["strings"]
    assert np.array_equal(back, golden.strings())


def test_what_others_signed_is_not_loaded(store: Store, expected: dict[str, Any]) -> None:
    with pytest.raises(Untrusted):
        store.restore(expected["foreign"]["checkpoint"])
    assert store.find("f" * 64) == []


@pytest.mark.parametrize("name", ["store", "encrypted"])
def test_it_is_found_sound(unpacked: Path, name: str) -> None:
    with open_store(unpacked / name, create=False) as store:
        result = store.verify()
    assert result.clean
    assert result.untrusted == (2 if name == "store" else 0)
    assert result.orphans == 0


@pytest.mark.parametrize("name", ["store", "encrypted"])
def test_it_is_written_on(unpacked: Path, expected: dict[str, Any], name: str) -> None:
    """Saved into, pruned and opened again, it still holds what it held; and bytes it has are not written again."""
    with open_store(unpacked / name, create=False) as store:
        again = store.save(golden.draft("r", "000000", "b"), {"data": golden.array()}).checkpoint
        assert again.bytes == 0
        store.prune(grace_seconds=0)
    with open_store(unpacked / name, create=False) as store:
        check_values(store, expected[name]["checkpoints"])
        assert store.verify().clean


def test_its_run_travels_to_a_new_store(store: Store, expected: dict[str, Any], tmp_path: Path) -> None:
    store.export(expected["store"]["run"], tmp_path / "run.zip")
    with open_store(tmp_path / "new") as new:
        assert new.import_(tmp_path / "run.zip").trusted
        check_values(new, expected["store"]["checkpoints"])


# Of a later version.


@pytest.fixture
def newer(unpacked: Path, store: Store, expected: dict[str, Any]) -> Iterator[Store]:
    """A store of the next format, in which a run has a field, and another a status, nobody has heard of here."""
    key = f"run/{expected['store']['run']}"
    found = store.backend.get(key)
    assert found is not None
    body = found.value.rpartition(b"\n")[0]
    odd = store._signer.seal("run/30000101T000000000-000000", body.replace(b'"status":"completed"', b'"status":"odd"'))
    store.backend.put(key, store._signer.seal(key, body.replace(b"{", b'{"shape":{"of":"things"},', 1)))
    store.backend.put("run/30000101T000000000-000000", odd)
    store.backend.put("format", b'{"format":%d,"encrypted":false,"more":1}' % (FORMAT + 1))
    store.close()
    with open_store(unpacked / "store", create=False) as newer:
        yield newer


def test_a_later_store_is_listed_and_says_which_version_it_needs(newer: Store, expected: dict[str, Any]) -> None:
    """003-7."""
    mine = expected["store"]
    assert newer.run(mine["run"]).workflow == "train.ipynb"
    assert {run.id for run in newer.runs()} == {mine["run"], expected["foreign"]["run"]}, "the odd one is left out"
    assert newer.steps(mine["run"])[0].checkpoint == mine["checkpoints"]["array"]
    assert newer.checkpoint(mine["checkpoints"]["array"]).names == ("data",)
    for ask in (
        lambda: newer.load(mine["checkpoints"]["small"]),
        lambda: newer.run("30000101T000000000-000000"),
        lambda: newer.save(golden.draft("r", "0", "a"), {"x": 1}),
        lambda: newer.begin_run("nb.ipynb"),
        lambda: newer.pin(mine["run"]),
        lambda: newer.delete_run(mine["run"]),
        lambda: newer.prune(),
    ):
        with pytest.raises(StoreTooNew, match=f"format {FORMAT + 1}") as told:
            ask()
        assert told.value.version == FORMAT + 1
        assert "upgrade" in told.value.hint
    assert newer.find("b" * 64) == []


def test_a_later_store_is_left_as_it_is(unpacked: Path, newer: Store, expected: dict[str, Any]) -> None:
    before = {entry.key: entry.value for entry in newer.backend.scan()}
    newer.runs()
    newer.verify()
    newer.close()
    with open_store(unpacked / "store", create=False) as again:
        assert {entry.key: entry.value for entry in again.backend.scan()} == before


def test_a_later_checkpoint_among_ours_is_told_and_does_not_stop_anything(
    store: Store, expected: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Two versions on one store: the older one computes and saves for itself what it cannot load."""
    mine = store.checkpoint(expected["store"]["checkpoints"]["array"])
    theirs = store.save(golden.draft("r", "0", "b", format=FORMAT + 1), {"data": 1}).checkpoint
    assert [found.id for found in store.find("b" * 64)] == [mine.id]
    store.find("b" * 64)
    assert [record.getMessage() for record in caplog.records] == [
        f"checkpoint/{theirs.id} was written in format {FORMAT + 1} · "
        f"format {FORMAT + 1} is needed: pip install --upgrade nbcheckpoint"
    ]
    with pytest.raises(StoreTooNew):
        store.load(theirs.id)


def test_fields_nobody_has_heard_of_do_not_make_a_record_unreadable() -> None:
    record = golden.draft("r", "0", "a").to_json().replace(b"{", b'{"later":[1],', 1)
    assert Checkpoint.from_json(record).run == "r"

"""The command line's words for looking after a store: what they do, their JSON, their exit codes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nbcheckpoint.backend.disk_clock import boot_seconds
from nbcheckpoint.cli import main
from nbcheckpoint.cli import upkeep as words
from nbcheckpoint.model import Checkpoint, Run
from nbcheckpoint.store import open_store
from tests.stores import add_run, add_step, days_ago, draft


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A store with an old run and the latest, which share nothing."""
    path = tmp_path / "store"
    with open_store(path) as store:
        old = add_run(store, "old.ipynb", updated=days_ago(40), status="failed")
        add_step(store, old, {"x": "x" * 100_000}, created=days_ago(40))
        add_run(store, "old.ipynb")
        add_step(store, add_run(store), {"y": 1, "_hidden": 2}, name="fit")
    return str(path)


def call(*words: str, store: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*words, "--store", store])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def asked(*words: str, store: str, code: int = 0) -> Any:
    return json.loads(call(*words, "--json", store=store, code=code).stdout)


def runs_in(store: str) -> dict[str, Run]:
    with open_store(store) as opened:
        return {run.id: run for run in opened.runs()}


def oldest(store: str) -> Run:
    return min(runs_in(store).values(), key=lambda run: run.updated)


def test_list_shows_the_checkpoints_of_all_runs_or_of_one(folder: str) -> None:
    found = asked("list", store=folder)
    assert [item["name"] for item in found] == ["fit", "train"], "newest first"
    assert set(Checkpoint.__struct_fields__) == found[0].keys()
    of_one = asked("list", oldest(folder).id, store=folder)
    assert [item["name"] for item in of_one] == ["train"]
    shown = call("list", store=folder).output
    assert "fit" in shown
    assert "_hidden" not in shown
    assert len(asked("list", "--limit", "1", store=folder)) == 1
    call("list", "nothing", store=folder, code=3)


def test_list_of_an_empty_store_says_how_to_begin(tmp_path: Path) -> None:
    open_store(tmp_path / "s").close()
    assert "%%checkpointed" in call("list", store=str(tmp_path / "s")).output
    assert asked("list", store=str(tmp_path / "s")) == []


def test_pin_note_and_unpin(folder: str) -> None:
    run = oldest(folder)
    assert asked("pin", run.id, store=folder)["pinned"] is True
    assert asked("note", run.id, "the old prices", store=folder)["note"] == "the old prices"
    assert runs_in(folder)[run.id].updated == run.updated, "a note makes it no younger"
    assert asked("prune", "--yes", store=folder)["runs"] == [], "pinned"
    assert run.workflow in call("unpin", run.id, store=folder).output
    assert "no note" in call("note", run.id, "", store=folder).output
    assert [gone["id"] for gone in asked("prune", "--yes", store=folder)["runs"]] == [run.id]
    call("pin", "nothing", store=folder, code=3)
    call("note", run.id, store=folder, code=2)


def test_a_part_of_the_id_is_enough_if_it_is_the_only_one(folder: str) -> None:
    run = oldest(folder)
    assert asked("pin", run.id[-6:], store=folder)["id"] == run.id
    assert "could be any of" in call("pin", "-", store=folder, code=2).output


def test_what_others_signed_is_not_vouched_for_by_a_pin(folder: str) -> None:
    run = oldest(folder)
    with open_store(folder) as store:
        store.backend.put(f"run/{run.id}", run.to_json())
    assert "trust" in call("pin", run.id, store=folder, code=6).output
    call("note", run.id, "x", store=folder, code=6)
    assert not runs_in(folder)[run.id].trusted


def test_delete_asks_and_says_what_went(folder: str) -> None:
    run = oldest(folder)
    assert "--yes" in call("delete", run.id, store=folder, code=2).output, "nobody is there to answer"
    assert run.id in runs_in(folder)
    assert "removed 1 run and 1 checkpoint" in call("delete", run.id, "--yes", store=folder).output
    assert run.id not in runs_in(folder)
    call("delete", run.id, "--yes", store=folder, code=3)


def test_delete_asks_on_a_terminal(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = oldest(folder)
    answers = iter([False, True])
    monkeypatch.setattr("nbcheckpoint.cli.base.click.confirm", lambda *a, **k: next(answers))
    monkeypatch.setattr("nbcheckpoint.cli.base._can_answer", lambda: True)
    assert "Nothing was changed" in call("delete", run.id, store=folder).output
    assert run.id in runs_in(folder)
    call("delete", run.id, store=folder)
    assert run.id not in runs_in(folder)


def test_clear_takes_all_runs_of_a_workflow(folder: str) -> None:
    call("clear", "old.ipynb", store=folder, code=2)
    report = asked("clear", "old.ipynb", "--yes", store=folder)
    assert len(report["runs"]) == 2
    assert {run.workflow for run in runs_in(folder).values()} == {"nb.ipynb"}
    call("clear", "old.ipynb", "--yes", store=folder, code=3)


def test_prune_foretells_asks_and_does_it(folder: str) -> None:
    before = runs_in(folder)
    foretold = asked("prune", "--dry-run", store=folder)
    assert foretold["dry_run"] is True
    assert [gone["code"] for gone in foretold["runs"]] == ["age"]
    assert "would remove 1 run and 1 checkpoint" in call("prune", "--dry-run", store=folder).output
    call("prune", store=folder, code=2)
    assert runs_in(folder) == before
    assert "40 days old" in call("prune", "--yes", store=folder).output
    assert len(runs_in(folder)) == 2
    assert "removed 0 runs" in call("prune", store=folder).output, "nothing to lose, nothing to ask"


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--older-than", "50d"], 0),
        (["--older-than", "7d"], 1),
        (["--older-than", "50d", "--keep", "1"], 1),
        (["--older-than", "50d", "--max-size", "1KB"], 1),
        (["--older-than", "50d", "--max-size", "1TB"], 0),
    ],
)
def test_prune_takes_the_limits_it_is_given(folder: str, options: list[str], gone: int) -> None:
    assert len(asked("prune", "--dry-run", *options, store=folder)["runs"]) == gone


@pytest.mark.parametrize("options", [["--older-than", "soon"], ["--max-size", "big"], ["--keep", "-1"]])
def test_limits_that_make_no_sense_are_usage_errors(folder: str, options: list[str]) -> None:
    call("prune", *options, store=folder, code=2)


def test_verify_says_that_all_is_sound(folder: str) -> None:
    assert "all sound" in call("verify", store=folder).output
    result = asked("verify", store=folder)
    assert result["clean"] is True
    assert result["problems"] == []


def test_verify_tells_damage_and_repairs_it(folder: str) -> None:
    with open_store(folder) as store:
        store.backend.put("run/broken", b"?")
        lost = store.save(draft(), {"x": b"?" * 10_000}).checkpoint
        assert lost.stream is not None
        store.backend.delete_chunk(lost.stream.chunks[0])
    assert "not all of it is sound" in call("verify", store=folder, code=5).output
    result = asked("verify", store=folder, code=5)
    assert {problem["kind"] for problem in result["problems"]} == {"record", "missing"}
    assert result["problems"][0].keys() == {"kind", "key", "text", "repaired"}
    assert "set aside" in call("verify", "--repair", store=folder).output
    assert asked("verify", store=folder)["clean"] is True


def test_verify_rebuilds_an_index_with_a_damaged_entry(folder: str) -> None:
    """The row cannot be read, so neither can its neighbours be listed, until the index is rebuilt without it."""
    broken = next(run for run in runs_in(folder).values() if run.workflow == "nb.ipynb")
    with sqlite3.connect(Path(folder) / "cache.db") as index:
        index.execute("UPDATE Cache SET value = value || x'00' WHERE key LIKE ?", (f"%run/{broken.id}",))
    index.close()
    assert "not what was written" in call("verify", store=folder, code=5).output
    assert "1 lost" in call("verify", "--repair", store=folder).output
    assert asked("verify", store=folder)["clean"] is True
    assert {run.workflow for run in runs_in(folder).values()} == {"old.ipynb"}
    assert list((Path(folder) / "quarantine").iterdir()), "the old index is kept"


def test_what_cannot_be_read_keeps_prune_from_removing_and_it_says_so(folder: str) -> None:
    with open_store(folder) as store:
        store.backend.put("checkpoint/x", b"not a record")
    assert "nothing was removed, because" in call("prune", "--yes", store=folder, code=5).output
    assert asked("prune", "--dry-run", store=folder, code=5)["unread"] == 1
    call("verify", "--repair", store=folder)
    assert len(asked("prune", "--yes", store=folder)["runs"]) == 1


def test_a_repair_says_which_chunks_it_has_removed(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that nobody used were gone, and it said that nothing was lost."""
    with sqlite3.connect(Path(folder) / "cache.db") as index:
        index.execute("DELETE FROM Cache WHERE key LIKE 'r/checkpoint/%'")
    index.close()
    later = boot_seconds() + 7200
    monkeypatch.setattr("nbcheckpoint.backend.disk_rows.boot_seconds", lambda: later)
    spare = asked("verify", store=folder)["orphans"]
    shown = call("verify", "--repair", store=folder).output
    assert spare
    assert f"{spare} chunk" in shown
    assert "removed" in shown
    assert asked("verify", store=folder)["orphans"] == 0


def test_doctor_says_where_things_are(folder: str) -> None:
    facts = asked("doctor", store=folder)
    assert facts["store"] == folder
    assert (facts["runs"], facts["checkpoints"], facts["read_only"]) == (3, 2, False)
    assert facts["free_bytes"] > 0
    assert facts["versions"]["diskcache"]
    assert len(facts["key"]) == 8
    assert "All is well." in call("doctor", store=folder).output


def test_doctor_complains(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = asked("doctor", store=folder)
    Path(facts["key_file"]).chmod(0o644)
    monkeypatch.setattr(words.shutil, "disk_usage", lambda path: type("U", (), {"free": 1000}))
    problems = " ".join(asked("doctor", store=folder)["problems"])
    assert "chmod 600" in problems
    assert "makes room" in problems


@pytest.mark.parametrize("word", ["list", "prune", "verify", "doctor"])
def test_no_store_is_not_found_and_a_broken_one_a_store_problem(word: str, tmp_path: Path) -> None:
    assert "there is no store" in call(word, store=str(tmp_path / "none"), code=3).output
    assert not (tmp_path / "none").exists()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "cache.db").write_bytes(b"not a database" * 1000)
    call(word, store=str(tmp_path / "bad"), code=5)

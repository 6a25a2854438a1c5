"""Every command and every word of `%checkpoint`, whichever there are: its use, its records, its errors, its example.

The tables say how each is used. One that is added, and not told of here, fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import fields

from nbcheckpoint.cli import main
from nbcheckpoint.model import Checkpoint, Run
from nbcheckpoint.store import open_store
from tests.headless import write
from tests.kernels import Kernel
from tests.stores import add_run, add_step

pytestmark = pytest.mark.slow

RUN = {field.encode_name for field in fields(Run)}
PRUNED = {"runs", "checkpoints", "chunks", "bytes", "swept_bytes", "dry_run", "unread", "notes"}
MOVED = {"run", "file", "records", "chunks", "bytes", "trusted", "notes"}
TRUSTED = {"id", "runs", "steps", "checkpoints", "chunks", "names"}
OUTCOME = {
    *("notebook", "out", "status", "total", "seconds", "deaths", "restored", "resumed", "computed", "failed"),
    *("spared_seconds", "cells", "error", "run"),
}
FLOW = """\
import nbcheckpoint as nbc
@nbc.flow
def work():
    return nbc.pause('Go on?', name='gate', choices=['yes', 'no'])
work()"""


@dataclass(frozen=True)
class Use:
    """How a command is used. `{run}`, `{a}`, `{b}`, `{flow}` stand for what is in the store."""

    words: str
    shows: str
    keys: set[str]
    wrong: str = "{run} --frobnicate"
    """Words that it refuses, with this exit code and this in its one sentence."""
    code: int = 2
    says: str = "--frobnicate"
    listed: bool = False
    """The records are a list of such."""


NO_RUN = {"code": 3, "says": "no run zzz"}
USES = {
    "run": Use("quick.ipynb", "completed: 1 of 1 cells", OUTCOME, "none.ipynb", 3, "none.ipynb"),
    "resume": Use("gate.ipynb", "paused: 1 of 1 cells, 1 paused", OUTCOME, "zzz", **NO_RUN),
    "plan": Use(
        "quick.ipynb",
        "quick.ipynb as it was saved",
        {
            *("statements", "restore", "restore_seconds", "perhaps", "perhaps_seconds", "run", "run_seconds"),
            *("unknown", "plain_cells"),
        },
        "none.ipynb",
        3,
        "none.ipynb",
    ),
    "answer": Use("{flow} gate yes", "is answered at gate", RUN, "{flow} nothing yes", 3, "asks nothing called"),
    "demo": Use(
        "",
        "Every output is equal to that of the run nobody killed",
        {"steps", "restored", "resumed", "computed", "seconds", "results", "equal"},
        "--frobnicate",
    ),
    "runs": Use("", "work.ipynb", RUN, "--status done", 2, "'done' is not one of", listed=True),
    "show": Use("{run}", "work.ipynb · completed", RUN | {"steps_list"}, "zzz", **NO_RUN),
    "list": Use("{run}", "train", set(Checkpoint.__struct_fields__), "zzz", **NO_RUN, listed=True),
    "diff": Use("{a} {b}", "x", {"a", "b", "values", "inputs", "code", "same_code"}, "{a} zzz", 3, "no checkpoint zzz"),
    "doctor": Use(
        "",
        "All is well",
        {
            *("store", "read_only", "runs", "checkpoints", "chunks", "bytes", "free_bytes", "damage", "warnings"),
            *("key", "key_file", "versions", "problems"),
        },
        "--store none",
        3,
        "there is no store at none",
    ),
    "verify": Use(
        "",
        "all sound",
        {
            *("records", "chunks", "bytes", "orphans", "untrusted", "problems", "repaired", "removed_chunks", "notes"),
            "clean",
        },
        "--store none",
        3,
        "there is no store at none",
    ),
    "pin": Use("{run}", "is kept until it is unpinned", RUN, "zzz", **NO_RUN),
    "unpin": Use("{run}", "is not pinned any more", RUN, "zzz", **NO_RUN),
    "note": Use("{run} old", "is noted: old", RUN, "zzz old", **NO_RUN),
    "export": Use("{run} out.zip --yes", "wrote out.zip", MOVED, "zzz out.zip", **NO_RUN),
    "import": Use("run.zip", "imported run", MOVED, "none.zip", 3, "none.zip"),
    "trust": Use("{run} --yes", "trusted 0 checkpoints", TRUSTED, "zzz --yes", 3, "no checkpoint zzz"),
    "copy": Use("copied", "records", {"url", "records", "chunks", "bytes", "notes"}, ".nbcheckpoint", 2, "itself"),
    "delete": Use("{run} --yes", "removed 1 run", PRUNED, "{run}", 2, "Nobody is there to answer"),
    "clear": Use("work.ipynb --yes", "removed 1 run", PRUNED, "zzz --yes", 3, "no run of zzz"),
    "prune": Use("--dry-run", "would remove 0 runs", PRUNED, "--older-than soon", 2, "'soon' is not an age"),
}


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A folder with notebooks and a store, and what is in it."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "quick.ipynb", "1 + 1")
    write(tmp_path / "gate.ipynb", FLOW)
    with open_store(tmp_path / ".nbcheckpoint") as store:
        run = add_run(store, "work.ipynb")
        a = add_step(store, run, {"x": 1})
        b = add_step(store, run, {"x": 2}, code="d" * 64)
        store.export(run.id, "run.zip")
    return {"run": run.id, "a": a.id, "b": b.id}


def with_flow(word: str, names: dict[str, str]) -> dict[str, str]:
    """For those who need it: a run that waits. It takes a kernel."""
    if word not in ("answer", "resume"):
        return names
    assert CliRunner().invoke(main, ["run", "gate.ipynb"]).exit_code == 4
    with open_store(".nbcheckpoint") as store:
        return {**names, "flow": next(run.id for run in store.runs() if run.kind == "flow")}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("word", sorted(main.commands))
def test_a_command(word: str, names: dict[str, str]) -> None:
    use, known = USES[word], with_flow(word, names)
    said = use.words.format(**known).split()
    ends = 4 if word == "resume" else 0
    refused = CliRunner().invoke(main, [word, *use.wrong.format(**known).split()])
    assert (refused.exit_code, refused.stdout) == (use.code, "")
    assert use.says in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    records = CliRunner().invoke(main, [word, *said, "--json"])
    assert records.exit_code == ends, records.output
    found = json.loads(records.stdout)
    assert isinstance(found, list) == use.listed
    assert set(found[0] if use.listed else found) == use.keys
    if word == "demo":  # how far its loop had come when it was killed depends on the machine
        assert found["restored"] == ["measurements", "cleaning"]
        assert sorted(found["resumed"] + found["computed"]) == ["model", "report"]
    if word in ("delete", "clear"):
        assert CliRunner().invoke(main, ["import", "run.zip"]).exit_code == 0, "or there is nothing left to take away"
    done = CliRunner().invoke(main, [word, *said])
    assert done.exit_code == ends, done.output
    assert use.shows in " ".join(done.output.split())


READ = """\
import json
words = %checkpoint help
runs = %checkpoint runs
saved = %checkpoint list
b, a = (checkpoint["id"] for checkpoint in saved.data)
print(json.dumps({"words": words.data["words"], "run": runs.data[0]["id"], "a": a, "b": b}))"""


@dataclass(frozen=True)
class Said:
    """How a word of the magic is used, and refused."""

    words: str
    shows: str
    wrong: str = "--frobnicate"
    says: str = "frobnicate"


NOTHING = {"wrong": "zzz", "says": "no run zzz"}
WORDS = {
    "auto": Said("off", "", "maybe", "maybe"),
    "panel": Said("", "work.ipynb"),
    "status": Said("", "work.ipynb"),
    "why": Said("", "x = 2", "9", "there is no cell 9"),
    "plan": Said("", "as it was saved"),
    "resume": Said("", "next:"),
    "restore": Said("{a} --names x", "x", "zzz", "zzz"),
    "config": Said("", ".nbcheckpoint"),
    "runs": Said("", "work.ipynb", "--status done", "is not one of"),
    "list": Said("{run}", "x", **NOTHING),
    "show": Said("{run}", "work.ipynb", **NOTHING),
    "diff": Said("{a} {b}", "int 1 -> int 2", "{a} zzz", "no checkpoint zzz"),
    "pin": Said("{run}", "is kept", **NOTHING),
    "unpin": Said("{run}", "is not pinned", **NOTHING),
    "note": Said("{run} old", "is noted: old", "zzz old", "no run zzz"),
    "answer": Said("{run} gate yes --help", "RUN", "{run} gate yes", "asks nothing called"),
    "prune": Said("--dry-run", "would remove 0 runs", "--older-than soon", "is not an age"),
    "verify": Said("", "all sound"),
    "export": Said("{run} run.zip", "wrote run.zip", "zzz run.zip", "no run zzz"),
    "import": Said("run.zip --store other", "imported run", "none.zip", "none.zip"),
    "trust": Said("{run} --yes --store other", "trusted", "zzz --yes", "no checkpoint zzz"),
    "delete": Said("{run} --yes --store other", "removed 1 run", "{run}", "add --yes"),
}


def test_every_word_of_the_magic(kernel: Kernel, tmp_path: Path) -> None:
    """In one kernel, in this order. `answer` has a use of its own in the tests of flows."""
    write(tmp_path / "work.ipynb", "%%checkpointed\nx = 1")
    kernel.run("%%checkpointed\nx = 1")
    kernel.run("%%checkpointed\nx = 2")
    kernel.kill()
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")
    known: dict[str, Any] = json.loads(kernel.run(READ).stdout)
    assert sorted(known.pop("words")) == sorted(WORDS)
    for word, said in WORDS.items():
        helped = kernel.run(f"%checkpoint {word} --help").result
        assert f"Example: %checkpoint {word}" in helped, word
        refused = kernel.run(f"%checkpoint {word} {said.wrong.format(**known)}", fails=True)
        (line,) = refused.traceback
        assert line.startswith("nbcheckpoint: "), word
        assert said.says in line, word
        done = kernel.run(f"%checkpoint {word} {said.words.format(**known)}")
        assert said.shows in done.result, word
        if done.results:
            assert done.results[-1]["data"].keys() & {"text/html", "application/vnd.jupyter.widget-view+json"}, word
    (unknown,) = kernel.run("%checkpoint rnus", fails=True).traceback
    assert "did you mean runs?" in unknown

"""`%checkpoint WORD` in a real kernel: what it answers, and how it says no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

LOAD = "%load_ext nbcheckpoint"
WORDS = (
    *("status", "runs", "list", "show", "why", "diff", "pin", "unpin", "note", "delete", "prune", "verify"),
    *("export", "import", "trust", "config", "plan", "restore", "resume"),
)


def data(kernel: Kernel, line: str) -> Any:
    """The records behind an answer."""
    cell = kernel.run(f"import json\nanswer_ = %checkpoint {line}\nprint(json.dumps(answer_.data))")
    return json.loads(cell.stdout.splitlines()[-1])


def refused(kernel: Kernel, line: str) -> str:
    """The one line a word says no with. There is no traceback, and the cell fails."""
    cell = kernel.run(f"%checkpoint {line}", fails=True)
    assert cell.error, cell.result
    (said,) = cell.traceback
    assert "\n" not in said
    assert "Traceback" not in said
    return said


def html(cell: Cell) -> str:
    return str(cell.results[-1]["data"]["text/html"])


def test_help_shows_every_word_and_an_example(kernel: Kernel) -> None:
    shown = kernel.run("%checkpoint").result
    for word in WORDS:
        assert f"\n    {word} " in shown
    assert "Example:" in shown
    assert "Example:" in kernel.run("print(get_ipython().find_line_magic('checkpoint').__doc__)").stdout
    assert "--status WORD" in kernel.run("%checkpoint runs --help").result
    assert "CELL" in kernel.run("%checkpoint why --help").result


def test_bad_input_is_one_clear_line(kernel: Kernel) -> None:
    assert "there is no store" in refused(kernel, "status")
    assert "there is no store" in refused(kernel, "runs")
    unknown = refused(kernel, "frobnicate")
    assert "no word 'frobnicate'" in unknown
    assert "status" in unknown
    assert "trust" in unknown
    kernel.run("%%checkpointed\nx = 1")
    assert "--frob" in refused(kernel, "runs --frob")
    assert "--frob" in refused(kernel, "why --frob")
    assert "no run zzz · %checkpoint runs lists" in refused(kernel, "show zzz")
    assert "Missing argument" in refused(kernel, "show")
    assert "no cell nope" in refused(kernel, "why nope")
    assert "there is no cell 7" in refused(kernel, "why 7")
    assert "is a quote missing?" in refused(kernel, "note 'x")
    kernel.run("%%checkpointed\nx = 2\nx = 1")
    assert "could be any of 2 checkpoints" in refused(kernel, "diff - -")
    assert "add --yes" in refused(kernel, "delete 20")
    assert kernel.run("x").result == "1"


def test_looking_does_not_make_a_store(kernel: Kernel, tmp_path: Path) -> None:
    refused(kernel, "status")
    kernel.run("%checkpoint config")
    assert not (tmp_path / ".nbcheckpoint").exists()


def test_a_damaged_store_is_one_clear_line(tmp_path: Path) -> None:
    store = tmp_path / ".nbcheckpoint"
    store.mkdir()
    (store / "cache.db").write_bytes(b"not a database at all" * 1000)
    with Kernel(tmp_path) as kernel:
        kernel.run(LOAD)
        for word in ("status", "runs", "why", "list"):
            assert "nbcheckpoint:" in refused(kernel, word)


def test_status_says_what_was_saved_and_what_was_not(kernel: Kernel) -> None:
    kernel.run("import socket")
    kernel.run("%%checkpointed\nx = 1\nlock = socket.socket()\ny = eval('2')")
    found = data(kernel, "status")
    assert found["run"]["status"] == "running"
    assert found["statements"] == {"saved": 2, "restored": 0, "not saved": 1}
    assert [row["what"] for row in found["not_saved"]] == ["lock", "y = eval('2')"]
    shown = kernel.run("%checkpoint status").result
    assert "cannot be pickled" in shown
    assert "it uses eval()" in shown
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    assert "interrupted" in kernel.run("%checkpoint status").result
    kernel.run("%%checkpointed\nx = 1")
    assert data(kernel, "status")["statements"]["restored"] == 1


def test_the_words_of_the_command_line(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("%%checkpointed\nx = 1")
    kernel.run("%%checkpointed\nx = 2")
    (run,) = data(kernel, "runs")
    assert run["workflow"] == "work.ipynb"
    assert run["id"][-6:] in kernel.run("%checkpoint runs").result
    assert [step["name"] for step in data(kernel, f"show {run['id']}")["steps_list"]] == ["x = 1", "x = 2"]
    new, old = data(kernel, "list")
    difference = data(kernel, f"diff {old['id']} {new['id']}")
    assert [row["name"] for row in difference["values"]] == ["x"]
    assert "int 1 -> int 2" in kernel.run(f"%checkpoint diff {old['id']} {new['id']}").result
    assert data(kernel, f"pin {run['id']}")["pinned"] is True
    assert data(kernel, f"unpin {run['id']}")["pinned"] is False
    assert data(kernel, f"note {run['id']} 'old prices'")["note"] == "old prices"
    assert data(kernel, "verify")["clean"] is True
    assert data(kernel, "prune --dry-run")["runs"] == []
    assert "wrote run.zip" in kernel.run(f"%checkpoint export {run['id']} run.zip").result
    assert (tmp_path / "run.zip").exists()
    assert "imported" in kernel.run("%checkpoint import run.zip --store other").result
    assert "trusted" in kernel.run(f"%checkpoint trust {run['id']} --yes --store other").result
    assert data(kernel, "config")["store"].endswith(".nbcheckpoint")
    assert "removed 1 run" in kernel.run(f"%checkpoint delete {run['id']} --yes --store other").result
    assert data(kernel, "runs") != []


def test_nothing_from_a_store_is_obeyed_as_markup(kernel: Kernel) -> None:
    evil = "<script>alert(1)</script>"
    link = "[link=javascript:alert(1)]x[/]"
    kernel.run(f"%%checkpointed '{evil}'\nx = '{evil}'\ny = '{link}'")
    kernel.run(f"%%checkpointed '{link}'\nx = '{evil}'\ny = '\\x1b[31m{link}'")
    (run,) = data(kernel, "runs")
    kernel.run(f"%checkpoint note {run['id']} '{evil}'")
    for line in ("status", "runs", "list", f"show {run['id']}", "why", "why 2", f"note {run['id']} '{link}'"):
        shown = kernel.run(f"%checkpoint {line}")
        assert "<script" not in html(shown), line
        assert "href" not in html(shown), line
        assert "\x1b" not in shown.result, line


def test_why_shows_the_code_and_the_inputs_that_changed(kernel: Kernel) -> None:
    kernel.run("k = 3")
    kernel.run("%%checkpointed one\nx = k + 1\ny = [x]")
    assert kernel.run("%checkpoint why").result.count("the first time") == 2
    kernel.run("%%checkpointed\nb1 = 1\nb2 = 2\nb3 = 3")
    assert kernel.run("%checkpoint why").result.count("the first time") == 3, "they are not versions of each other"
    kernel.run("k = 5")
    kernel.run("%%checkpointed one\nx = k + 1\ny = [x, 2]")
    shown = kernel.run("%checkpoint why")
    assert "computed 0 ms: input k changed (was 3, now 5)" in shown.result
    assert "-y = [x]\n       +y = [x, 2]" in shown.result
    assert "+y = [x, 2]" in html(shown)
    found = data(kernel, "why one")
    assert [row["before"] for row in found["statements"][0]["difference"]["inputs"]] == ["int 3"]
    kernel.run("%%checkpointed two\nz = 1")
    kernel.run("%%checkpointed two\nz = 1")
    assert "restored from" in kernel.run("%checkpoint why").result
    assert "same code, same inputs" in kernel.run("%checkpoint why 1").result
    assert "its code changed" in kernel.run("%checkpoint why 3").result
    kernel.run("%%checkpointed bad\na = 1\nraise ValueError('no')", fails=True)
    failed = kernel.run("%checkpoint why").result
    assert "failed" in failed
    assert "ValueError: no" in failed


def test_why_outlives_the_kernel(kernel: Kernel) -> None:
    kernel.run("%%checkpointed one\nx = 1")
    kernel.kill()
    kernel.start()
    kernel.run(LOAD)
    assert "x = 1" in kernel.run("%checkpoint why").result


def run_in_cell(kernel: Kernel, id: str, code: str) -> Cell:
    """As a front end does it that gives its cells ids."""
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    message = kernel.client.session.msg("execute_request", content, metadata={"cellId": id})
    kernel.client.shell_channel.send(message)
    return kernel.collect(message["header"]["msg_id"])


def test_a_cell_is_known_by_its_id_however_it_is_edited(kernel: Kernel) -> None:
    run_in_cell(kernel, "one", "%%checkpointed\nrows = list(range(3))")
    run_in_cell(kernel, "two", "%%checkpointed\nn = len(rows)")
    edited = run_in_cell(kernel, "one", "%%checkpointed\ntable = {'a': [0, 1, 2]}")
    assert edited.status == "computed"
    shown = kernel.run("%checkpoint why one").result
    assert "its code changed" in shown
    assert "-rows = list(range(3))" in shown
    assert "+table = {'a': [0, 1, 2]}" in shown
    assert "n = len(rows)" in kernel.run("%checkpoint why two").result
    assert "n = len(rows)" in kernel.run("%checkpoint why 2").result


def test_answers_do_not_touch_what_they_tell_of(kernel: Kernel) -> None:
    kernel.run("import random\nrandom.seed(1)")
    expected = kernel.run("state = random.getstate()\nprint(random.random())\nrandom.setstate(state)").stdout
    kernel.run("%%checkpointed\nx = [1]")
    for word in ("status", "why", "plan", "runs", "list", "config", "verify"):
        kernel.run(f"%checkpoint {word}")
    assert kernel.run("print(random.random())").stdout == expected
    assert kernel.run("x, [n for n in globals() if 'nbc' in n]").result == "([1], [])"
    assert kernel.run("%%checkpointed\nx = [1]").status == "restored"


ODD_IDS = {"long": "x" * 5000, "with a NUL": "a\0b", "no text": "\ud800"}


@pytest.mark.parametrize("name", ODD_IDS)
def test_an_id_that_none_can_be_is_not_found(kernel: Kernel, name: str) -> None:
    kernel.run("%%checkpointed\nx = [1]\ntell = get_ipython().run_line_magic")
    for word in "list", "show", "restore", "delete", "trust", "pin", "import":
        cell = kernel.run(f"tell('checkpoint', {word + ' ' + ODD_IDS[name]!r})", fails=True)
        assert cell.error in ("NotFound", "ArchiveDamaged", "StoreError"), (word, cell.error)
        (said,) = cell.traceback
        assert "fault" not in said
        assert word == "import" or len(said) < 250

"""How the command line shows things: on a terminal and piped, narrow and wide, with a stranger's names in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pexpect
import pytest
from click.testing import CliRunner

from nbcheckpoint.cli import main
from nbcheckpoint.cli.base import SECTIONS
from nbcheckpoint.model import FORMAT
from nbcheckpoint.store import open_store
from tests.stores import add_run, add_step

PROGRAM = [sys.executable, "-m", "nbcheckpoint"]
EVIL = "\x1b[31mred\x1b]0;title\x07\u202e\x9b"
"""Colours, a window's title, text turned around."""
MINDS_CTRL_C = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from nbcheckpoint.cli import main
main()"""
"""What a shell starts in the background ignores it, and so do these tests then."""
UNPRIVILEGED = "-dac_override,-dac_read_search"


@pytest.fixture(autouse=True)
def _as_wide_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    with open_store(tmp_path / "store") as store:
        run = add_run(store, "a_notebook_with_quite_a_name.ipynb")
        add_step(store, run, {"first": 1, "second": 2}, name="first, second = measure(everything)")
        add_run(store, "b.ipynb")
    return str(tmp_path / "store")


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    return result.output


def process(
    *words: str, before: Sequence[str] = (), stdout: int | IO[str] = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    # The environment is Python's: readline has put its own idea of a width into that of the C library.
    command = [*before, *PROGRAM, *words]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=dict(os.environ))
    assert "Traceback" not in done.stderr
    return done


def on_terminal(*words: str, columns: int) -> str:
    env = {**os.environ, "TERM": "xterm-256color"}
    shown = pexpect.run(" ".join([*PROGRAM, *words]), env=env, encoding="utf-8", timeout=60, dimensions=(50, columns))
    return str(shown).replace("\r\n", "\n")


def test_help_lists_every_command_by_what_it_is_for_in_a_whole_sentence() -> None:
    assert sorted(word for words in SECTIONS.values() for word in words) == sorted(main.commands)
    shown = call("--help")
    assert "..." not in shown.replace("[ARGS]...", "")
    for title in SECTIONS:
        assert f"\n{title}:\n" in shown


def test_piped_a_row_is_a_line_and_has_no_colours(folder: str) -> None:
    shown = process("list", "--store", folder).stdout
    assert len(shown.splitlines()) == 2
    assert "first, second = measure(everything)  first, second" in shown
    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())


@pytest.mark.parametrize("columns", [50, 80, 140])
def test_on_a_terminal_it_has_colours_and_nothing_is_cut_off(folder: str, columns: int) -> None:
    with open_store(folder) as store:
        ids = [run.id.rpartition("-")[2] for run in store.runs()]
    call("pin", ids[0], "--store", folder)
    call("note", ids[1], "the old prices", "--store", folder)
    shown = on_terminal("runs", "--store", folder, columns=columns)
    assert "\x1b[32mcompleted" in shown
    together = "".join(shown.split())
    for text in (*ids, "pinned", "theoldprices", "restored"):
        assert text in together
    if columns == 140:
        assert len(shown.splitlines()) == 5, "a line for each, and what somebody put beside it"


def test_the_ids_it_shows_are_those_it_takes(folder: str) -> None:
    checkpoint = call("list", "--store", folder).splitlines()[1].split()[0]
    assert "no difference" in call("diff", checkpoint, checkpoint, "--store", folder)
    run = call("runs", "--store", folder).splitlines()[1].split()[0]
    assert "b.ipynb" in call("show", run, "--store", folder)


def test_a_name_that_steers_terminals_is_shown_without_that(tmp_path: Path) -> None:
    """It comes with an archive, and is listed before anybody has trusted it."""
    store = str(tmp_path / "store")
    with open_store(store) as opened:
        run = add_run(opened, f"{EVIL}.ipynb", note=EVIL)
        add_step(opened, run, {"x": 1}, name=EVIL)
    words = [["runs"], ["list"], ["show", run.id], ["pin", run.id], ["note", run.id, EVIL], ["show", EVIL]]
    for line in words:
        done = process(*line, "--store", store)
        assert "red" in done.stdout + done.stderr
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(done.stdout + done.stderr), line
    shown = process("runs", "--json", "--store", store).stdout
    assert "\u202e" not in shown
    assert json.loads(shown)[0]["workflow"] == f"{EVIL}.ipynb", "JSON loses nothing"


def test_whoever_reads_no_further_gets_no_complaint_and_a_full_disk_is_told(folder: str) -> None:
    for words in (["runs"], ["runs", "--json"], ["list"], ["doctor"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        done = process(*words, *(["--store", folder] if words != ["--help"] else []), stdout=write)
        os.close(write)
        assert not done.stderr, words
    with Path("/dev/full").open("w") as full:
        for words in (["runs"], ["runs", "--json"]):
            done = process(*words, "--store", folder, stdout=full)
            assert (done.returncode, done.stderr) == (
                1,
                "nbcheckpoint: the output cannot be written: No space left on device\n",
            )


def test_ctrl_c_is_one_line_and_130(folder: str, tmp_path: Path) -> None:
    (tmp_path / "run.zip").touch()
    with open_store(folder) as store:
        run = store.runs()[0].id
    words = ["export", run, str(tmp_path / "run.zip"), "--store", folder]
    asked = pexpect.spawn(sys.executable, ["-c", MINDS_CTRL_C, *words], encoding="utf-8", timeout=60)
    asked.expect(r"Overwrite it\? \[y/N\]: ")
    assert "Exporting" not in asked.before, "a bar would paint over the question"
    said = ""
    for _ in range(30):  # a key pressed in the moment between the prompt and the reading is Python's to lose
        asked.sendintr()
        ended = asked.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=2) == 0
        said = asked.before
        if ended:
            break
    asked.close()
    # Whether the terminal shows the key depends on whether somebody was reading already.
    assert said.replace("^C", "").split() == ["nbcheckpoint:", "stopped"]
    assert asked.exitstatus == 128 + signal.SIGINT
    assert (tmp_path / "run.zip").stat().st_size == 0


def test_runs_that_are_not_there_are_not_said_to_be_none_at_all(folder: str) -> None:
    assert "No run is like that" in call("runs", "--status", "failed", "--store", folder)
    assert "'complete' is not one of 'running', 'completed'" in call(
        "runs", "--status", "complete", "--store", folder, code=2
    )
    assert "runs --workflow b.ipynb lists its runs" in call("show", "b.ipynb", "--store", folder, code=3)


def test_a_store_that_may_not_be_read_is_told_in_a_sentence(folder: str) -> None:
    """Root may read everything, unless it gives that up."""
    Path(folder).chmod(0)
    weak = ["setpriv", f"--bounding-set={UNPRIVILEGED}", f"--inh-caps={UNPRIVILEGED}"] if os.geteuid() == 0 else []
    try:
        for words in (["runs"], ["doctor"], ["verify", "--repair"], ["copy", f"{folder}-2"], ["import", "x.zip"]):
            done = process(*words, "--store", folder, before=weak)
            sentence, hint = done.stderr.splitlines()
            assert (done.returncode, sentence) == (5, f"nbcheckpoint: {folder} may not be read by you")
            assert "NBCHECKPOINT_STORE" in hint
    finally:
        Path(folder).chmod(0o700)


def test_a_folder_that_is_gone_and_one_at_home(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "b.ipynb" in call("runs", "--store", "~/store")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    assert "the working directory is gone" in call("runs", code=2)


def test_doctor_says_that_a_later_version_wrote_it(folder: str) -> None:
    with open_store(folder) as store:
        store.backend.put("format", json.dumps({"format": FORMAT + 1, "encrypted": False}).encode())
    assert "pip install --upgrade nbcheckpoint" in call("doctor", "--store", folder)

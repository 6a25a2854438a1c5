"""All commands at once: the words there are, what `--help` shows, what errors look like, completion, the README."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click import Command, Context
from click.testing import CliRunner

from nbcheckpoint.cli import main
from nbcheckpoint.notebook.words import FROM_CLI

ROOT = Path(__file__).parents[2]
LOOKING = ("runs", "list", "show", "plan", "diff", "doctor")
WORKING = ("run", "resume", "answer", "demo")
KEEPING = ("pin", "unpin", "note", "delete", "clear", "prune", "verify", "export", "import", "trust", "copy")
WORDS = (*WORKING, *LOOKING, *KEEPING)
NEEDS_A_STORE = sorted(set(WORDS) - {"run", "demo", "import", "copy"})
ARGUMENTS = {
    "show": ["a9c1e2"],
    "diff": ["5f0c91", "77a2be"],
    "answer": ["a9c1e2", "gate", "yes"],
    "pin": ["a9c1e2"],
    "unpin": ["a9c1e2"],
    "note": ["a9c1e2", "text"],
    "delete": ["a9c1e2", "--yes"],
    "clear": ["work.ipynb", "--yes"],
    "export": ["a9c1e2", "run.zip"],
    "trust": ["a9c1e2", "--yes"],
    "plan": ["work.ipynb"],
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".nbcheckpoint").mkdir()
    (tmp_path / "work.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')


def parse(line: str) -> Context:
    """As it would be parsed, without doing it. Raises click's errors."""
    program, word, *rest = shlex.split(line, comments=True)
    assert program == "nbcheckpoint"
    found = main.commands[word]
    assert isinstance(found, Command)
    return found.make_context(word, rest)


def test_all_words_are_there_and_no_others() -> None:
    """001-10."""
    assert sorted(main.commands) == sorted(WORDS)
    assert set(FROM_CLI) <= set(WORDS), "a notebook has the same words"


@pytest.mark.parametrize("word", WORDS)
def test_help_shows_an_example_that_can_be_typed(word: str) -> None:
    shown = CliRunner().invoke(main, [word, "--help"])
    assert shown.exit_code == 0
    example = re.search(r"Example: (nbcheckpoint .+)", " ".join(shown.output.split()))
    assert example, shown.output
    assert parse(example[1]).info_name == word
    assert "--json" in shown.output
    assert "--store URL" in shown.output or word == "demo", "it has a store of its own"


@pytest.mark.parametrize("word", WORDS)
def test_what_makes_no_sense_is_a_usage_error(word: str) -> None:
    wrong = CliRunner().invoke(main, [word, "--frobnicate"])
    assert wrong.exit_code == 2
    assert "--frobnicate" in wrong.output


@pytest.mark.parametrize("word", NEEDS_A_STORE)
def test_no_store_is_not_found_and_a_broken_one_a_store_problem(word: str, tmp_path: Path) -> None:
    words = [word, *ARGUMENTS.get(word, []), "--json"]
    gone = CliRunner().invoke(main, [*words, "--store", str(tmp_path / "none")])
    assert (gone.exit_code, gone.stdout) == (3, ""), gone.output
    sentence, hint = gone.stderr.splitlines()
    assert sentence.startswith("nbcheckpoint: there is no store")
    assert hint.startswith("  ")
    assert not (tmp_path / "none").exists()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "cache.db").write_bytes(b"not a database" * 1000)
    assert CliRunner().invoke(main, [*words, "--store", str(tmp_path / "bad")]).exit_code == 5


@pytest.mark.parametrize("word", [word for word, given in ARGUMENTS.items() if given[0] == "a9c1e2"])
def test_no_run_of_that_name_is_not_found(word: str) -> None:
    from nbcheckpoint.store import open_store

    open_store(".nbcheckpoint").close()
    missing = CliRunner().invoke(main, [word, *ARGUMENTS[word]])
    assert missing.exit_code == 3, missing.output
    assert "a9c1e2" in missing.stderr
    assert len(missing.stderr.splitlines()) == 2, "a sentence and a hint"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_it(shell: str) -> None:
    env = {**os.environ, "_NBCHECKPOINT_COMPLETE": f"{shell}_source"}
    command = [str(Path(sys.executable).with_name("nbcheckpoint"))]
    assert "nbcheckpoint" in subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    asked = {"COMP_WORDS": "nbcheckpoint re", "COMP_CWORD": "re" if shell == "fish" else "1"}
    env |= {"_NBCHECKPOINT_COMPLETE": f"{shell}_complete", **asked}
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "resume" in found
    assert "prune" not in found


def test_the_commands_in_the_readme_can_be_typed() -> None:
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"(?:^ {4}|srun |until |timeout 5h )(nbcheckpoint [^`;|\n]+)", text, re.MULTILINE)
    assert len(lines) >= 10
    for line in lines:
        parse(line)
    for word in WORDS:
        assert re.search(rf"\b{word}\b", text), f"the README does not mention {word}"

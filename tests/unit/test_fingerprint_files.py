"""Which files a step is seen to have used."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbcheckpoint.fingerprint.files import FileWatch, start, stop, unchanged
from nbcheckpoint.model import FileSeen


def test_a_store_that_saves_meanwhile_is_no_input_nor_is_its_folder_itself(tmp_path: Path) -> None:
    """Saving a loop's progress syncs the folder, which opens it: and the next run found it changed."""
    store = tmp_path / ".nbcheckpoint"
    store.mkdir()
    (store / "cache.db").touch()
    (tmp_path / ".nbcheckpoint2").touch()
    watch = FileWatch(ignore=[str(store)])
    for path in (store, store / "cache.db", tmp_path / ".nbcheckpoint2"):
        watch.note(str(path), reads=True, writes=False)
    assert [Path(seen.path).name for seen in watch.seen()] == [".nbcheckpoint2"]


def test_a_database_is_the_file_behind_its_uri_and_one_in_memory_is_none(tmp_path: Path) -> None:
    """The store opens its index by a URI while a loop runs: that was taken for a file in the working directory."""
    store = tmp_path / ".nbcheckpoint"
    store.mkdir()
    for path in (store / "cache.db", tmp_path / "user data.db"):
        sqlite3.connect(path).close()
    watch = FileWatch(ignore=[str(store)])
    start(watch)
    try:
        sqlite3.connect(f"file:{store}/cache.db?mode=ro", uri=True).close()
        sqlite3.connect(f"file://{tmp_path}/user%20data.db?mode=ro", uri=True).close()
        sqlite3.connect(":memory:").close()
        sqlite3.connect("file:shared?mode=memory", uri=True).close()
    finally:
        stop(watch)
    assert [Path(seen.path).name for seen in watch.seen()] == ["user data.db", "user data.db-wal"]


def test_a_link_is_copied_as_a_link_while_somebody_watches(tmp_path: Path) -> None:
    """shutil looks up whether `os.stat` can tell of links, and gave up on one it did not know."""
    link, copy = tmp_path / "link", tmp_path / "copy"
    link.symlink_to("nowhere")
    able = [os.supports_follow_symlinks, os.supports_dir_fd, os.supports_fd, os.supports_effective_ids]
    names = ("stat", "lstat", "access")
    before = [getattr(os, name) in found for found in able for name in names]
    watch = FileWatch()
    start(watch)
    try:
        shutil.copy2(link, copy, follow_symlinks=False)
        assert [getattr(os, name) in found for found in able for name in names] == before
    finally:
        stop(watch)
    assert copy.is_symlink()


def told(run: Callable[[], object], *, unfinished: bool = False) -> dict[str, FileSeen]:
    watch = FileWatch()
    start(watch)
    try:
        run()
    finally:
        stop(watch)
    return {Path(seen.path).name: seen for seen in watch.seen(unfinished=unfinished)}


@pytest.mark.parametrize(
    "run",
    [
        lambda: subprocess.run(["sort", "--output=out", "in"], check=True),
        lambda: subprocess.run("sort <in>out", shell=True, check=True),
        lambda: subprocess.run([b"sort", b"-o", b"out", Path("in")], check=True),
        lambda: os.system("sort 'in' -o out 2>&1"),
        lambda: os.popen("sort in > out").close(),
        lambda: os.waitpid(os.posix_spawn("/usr/bin/sort", ["sort", "-o", "out", "in"], os.environ), 0),
        lambda: asyncio.run(_sorted_beside()),
    ],
    ids=["list", "shell", "bytes", "system", "popen", "posix_spawn", "asyncio"],
)
def test_the_files_another_program_is_told_of_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]
) -> None:
    """They are opened where no hook of ours looks: what a program had read or written did not matter."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("b\na\n")
    seen = told(run)
    assert {name: file.written for name, file in seen.items()} == {"in": False, "out": True}
    assert Path("out").read_text() == "a\nb\n"
    assert all(map(unchanged, seen.values()))
    Path("out").write_text("")
    Path("in").write_text("b\nc\n")
    assert not any(map(unchanged, seen.values()))


async def _sorted_beside() -> None:
    process = await asyncio.create_subprocess_exec("sort", "-o", "out", "in")
    await process.wait()


def test_what_another_program_adds_to_a_log_may_be_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log").write_text("one\n")
    seen = told(lambda: os.system("echo two >> log"))
    assert seen["log"].appended
    os.system("echo three >> log")
    assert unchanged(seen["log"])
    Path("log").write_text("")
    assert not unchanged(seen["log"])


def test_what_another_program_removes_has_to_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old").touch()
    seen = told(lambda: subprocess.run(["rm", "old"], check=True))
    assert unchanged(seen["old"])
    Path("old").touch()
    assert not unchanged(seen["old"])


def test_a_file_that_another_program_did_not_find_must_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = told(lambda: os.system("rm -f old.txt"))
    assert unchanged(seen["old.txt"])
    Path("old.txt").touch()
    assert not unchanged(seen["old.txt"])


def test_what_a_program_is_told_that_is_no_file_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words, the folder all of it happens in, what is far too long to be a path, what cannot be one."""
    monkeypatch.chdir(tmp_path)
    long = "x" * 5000
    assert told(lambda: subprocess.run(["sh", "-c", f"test . -a {long} -a ~nobody/é -gt 1"], check=False)) == {}
    with pytest.raises(ValueError, match="null byte"):
        told(lambda: subprocess.run(["echo", "a\0b"], check=False))


def test_a_folder_a_program_is_told_of_counts_unless_it_puts_something_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file in the folder of results must not make everything run again that has put one there."""
    monkeypatch.chdir(tmp_path)
    Path("data/in").mkdir(parents=True)
    Path("data/in/a").write_text("1")
    Path("out").mkdir()
    found = told(lambda: subprocess.run(["cp", "-r", "data", "out"], check=True))
    assert found.keys() == {"data", "in", "a"}


def test_a_loop_goes_on_though_a_program_has_written_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has written it will write again; what it has read has to be what it was."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("1")
    assert told(lambda: subprocess.run(["cp", "in", "out"], check=True), unfinished=True).keys() == {"in"}


@pytest.mark.parametrize("command", [["sleep", "60"], ["sh", "-c", "sleep 60; true"]])
def test_a_program_that_is_still_running_is_seen_until_it_ends(command: list[str]) -> None:
    """A server that a cell had started was shown again, and not there."""
    watch = FileWatch()
    start(watch)
    try:
        process = subprocess.Popen(command)
        assert watch.leaves_program
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # over, though nobody has asked how it ended
        assert not watch.leaves_program
        process.wait()
        subprocess.run(["true"], check=True)
        assert not watch.leaves_program
    finally:
        stop(watch)


def test_a_shell_that_is_told_not_to_wait_leaves_a_program() -> None:
    for command, left in {"true &": True, "true & wait": False, "true && true": False, "true 2>&1": False}.items():
        watch = FileWatch()
        start(watch)
        try:
            os.system(command)
        finally:
            stop(watch)
        assert watch.leaves_program is left, command

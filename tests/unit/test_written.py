"""Files that a loop writes and goes on with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nbcheckpoint.engine.trail import NotMade
from nbcheckpoint.notebook.loop import Loop
from nbcheckpoint.notebook.written import Files, Written


def opened(files: Files, path: Path, mode: str, saved: Any = None) -> Any:
    file = files.opener("f", open, saved, lambda: None)(path, mode)
    files.within(file)
    return file


def left(path: Path, mode: str, text: str) -> Written:
    files = Files()
    with opened(files, path, mode) as file:
        file.write(text)
        found = files.left("f", file)
    assert isinstance(found, Written)
    return found


def test_a_file_that_cannot_be_written_is_the_matter_of_whoever_writes_it(tmp_path: Path) -> None:
    files = Files()
    file = opened(files, tmp_path / "out", "w")
    file.write("lost")
    os.close(file.fileno())
    with pytest.raises(NotMade) as failed:
        files.left("f", file)
    assert isinstance(failed.value.__cause__, OSError)
    with pytest.raises(OSError):
        file.close()


@pytest.mark.parametrize(("mode", "more", "whole"), [("w", "", "12"), ("w", "tail", "12"), ("a", "tail", "1tail2")])
def test_it_goes_on_behind_what_was_saved(tmp_path: Path, mode: str, more: str, whole: str) -> None:
    path = tmp_path / "out"
    saved = left(path, mode, "1")
    path.write_text("1" + more)
    files = Files()
    with opened(files, path, mode, saved) as file:
        file.write("another header")
        file.flush()
        assert path.read_text() == "1" + more
        assert files.are_again({"f": saved}, {"f": file})
        files.have_gone_on()
        file.write("2")
    assert path.read_text() == whole


@pytest.mark.parametrize(("mode", "whole"), [("w", "header2"), ("a", "1header2")])
def test_it_begins_anew_with_what_was_written_in_its_place(tmp_path: Path, mode: str, whole: str) -> None:
    path = tmp_path / "out"
    saved, files = left(path, mode, "1"), Files()
    with opened(files, path, mode, saved) as file:
        file.write("header")
        files.begin_anew()
        file.write("2")
    assert path.read_text() == whole


def test_closed_before_that_is_known_it_is_what_was_written_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "out"
    saved, files = left(path, "w", "123456789"), Files()
    with opened(files, path, "w", saved) as file:
        file.write("short")
    assert path.read_text() == "123456789"
    files.begin_anew()
    assert path.read_text() == "short"


def test_changed_after_it_was_opened_it_does_not_go_on(tmp_path: Path) -> None:
    path = tmp_path / "out"
    saved, files = left(path, "w", "1"), Files()
    with opened(files, path, "w", saved) as file:
        path.write_text("another")
        assert not files.are_again({"f": saved}, {"f": file})
        files.begin_anew()
    assert path.read_text() == ""


def test_an_error_of_a_files_own_is_raised_by_the_loop_and_is_no_fault_of_ours() -> None:
    import ast

    from nbcheckpoint.engine.pace import Pace

    node = ast.parse("for i in range(3): pass").body[0]
    assert isinstance(node, ast.For)
    loop = Loop(0, node, {}, (), Pace(), 1)
    loop.begin(iter(range(3)), range(3), {})
    loop.arm(0.0)

    def boundary() -> None:
        raise NotMade from OSError("no space")

    with pytest.raises(OSError, match="no space"):
        list(loop.walk(boundary, lambda error: pytest.fail(str(error))))

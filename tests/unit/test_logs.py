"""What was added to a file is put back only where that makes it what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbcheckpoint.fingerprint import files
from nbcheckpoint.fingerprint.files import FileWatch, unchanged
from nbcheckpoint.model import FileSeen
from nbcheckpoint.notebook import logs


def added(path: Path, text: str) -> tuple[tuple[FileSeen, ...], dict[str, object]]:
    watch = FileWatch()
    files.start(watch)
    try:
        with path.open("a") as file:
            file.write(text)
    finally:
        files.stop(watch)
    return logs.keep(watch.seen(), watch.began)


@pytest.mark.parametrize("head", ["", "head\n"])
def test_as_it_was_before_it_gets_the_rest_back(tmp_path: Path, head: str) -> None:
    path = tmp_path / "log"
    path.write_text(head)
    seen, values = added(path, "one\n")
    logs.put_back(seen, values)
    assert path.read_text() == f"{head}one\n", "nothing is missing, nothing is added"
    path.write_text(head)
    assert all(map(unchanged, seen))
    logs.put_back(seen, values)
    assert path.read_text() == f"{head}one\n"


def test_one_that_is_gone_is_made_again_if_it_was_not_there_before(tmp_path: Path) -> None:
    path = tmp_path / "log"
    seen, values = added(path, "one\n")
    path.unlink()
    assert all(map(unchanged, seen))
    logs.put_back(seen, values)
    assert path.read_text() == "one\n"
    path.write_text("head\n")
    seen, _ = added(path, "one\n")
    path.unlink()
    assert not any(map(unchanged, seen))


@pytest.mark.parametrize("now", ["", "another\n", "head\none of somebody else's\n"])
def test_anything_else_is_another_file(tmp_path: Path, now: str) -> None:
    path = tmp_path / "log"
    path.write_text("head\n")
    seen, values = added(path, "one\n")
    path.write_text(now)
    assert not any(map(unchanged, seen))
    logs.put_back(seen, values)
    assert path.read_text() == now


def test_one_that_cannot_be_written_or_whose_folder_is_gone_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "log"
    path.parent.mkdir()
    seen, _ = added(path, "one\n")
    path.unlink()
    path.parent.rmdir()
    assert not any(map(unchanged, seen))


def test_much_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 3)
    path = tmp_path / "log"
    for head, text, kept in (("", "one", True), ("", "four", False), ("four", "one", False)):
        path.write_text(head)
        seen, values = added(path, text)
        assert bool(values) == (seen[0].kept >= 0) == kept
        os.truncate(path, len(head))
        assert unchanged(seen[0]) == kept


def test_what_was_written_anew_meanwhile_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    watch = FileWatch()
    files.start(watch)
    with path.open("a") as file:
        file.write("one\n")
    files.stop(watch)
    seen = watch.seen()
    path.write_text("two\n")
    assert logs.keep(seen, watch.began) == (seen, {})


def test_what_a_part_of_it_has_kept_is_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    seen, _ = added(path, "one\n")
    again, values = logs.keep(seen, {})
    assert (again[0].kept, again[0].before, values) == (-1, "", {})

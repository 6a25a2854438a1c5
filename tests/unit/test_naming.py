"""A finished file gets its name once, also where the file system has no links: Google Drive in Colab, FAT."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbcheckpoint import config
from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.naming import give_name


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)


def at_once(work: Callable[[int], object], times: int = 8) -> list[object]:
    """What it returns, from so many threads that begin together."""
    ready, found = threading.Barrier(times), []

    def one(number: int) -> None:
        ready.wait()
        found.append(work(number))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def placed(folder: Path, number: int) -> bool:
    draft = folder / f"draft{number}"
    draft.write_text(str(number))
    try:
        give_name(draft, folder / "name")
    except FileExistsError:
        return False
    return True


@pytest.mark.usefixtures("no_links")
def test_the_first_one_has_the_name_and_stays(tmp_path: Path) -> None:
    for round_ in range(20):
        folder = tmp_path / str(round_)
        folder.mkdir()
        first = at_once(lambda number, folder=folder: (number, placed(folder, number)))  # type: ignore[misc]
        (winner,) = [number for number, was in first if was]  # type: ignore[misc]
        assert (folder / "name").read_text() == str(winner)


def test_links_or_not_what_is_there_stays(tmp_path: Path) -> None:
    assert placed(tmp_path, 1)
    assert not placed(tmp_path, 2)
    assert (tmp_path / "name").read_text() == "1"


def test_another_error_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        give_name(tmp_path / "nothing", tmp_path / "name")


@pytest.mark.usefixtures("no_links")
def test_a_key_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    assert len({config.signing_key() for _ in range(2)} | set(at_once(lambda _: config.signing_key()))) == 1
    assert os.listdir(tmp_path / "nbcheckpoint") == ["signing_key"]


@pytest.mark.usefixtures("no_links")
def test_a_store_is_made_once(tmp_path: Path) -> None:
    def used(number: int) -> None:
        backend = DiskBackend(tmp_path / "store")
        backend.put(f"note/{number}", b"mine")
        backend.close()

    at_once(used)
    backend = DiskBackend(tmp_path / "store")
    assert len(list(backend.scan("note/"))) == 8
    backend.close()
    assert not list((tmp_path / "store").glob(".new-*"))

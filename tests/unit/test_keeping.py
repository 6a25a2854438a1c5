"""A copy of the store in a second place: what comes there, what goes from there, and how it is brought back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbcheckpoint.errors import StoreError, UsageError
from nbcheckpoint.store import open_store
from nbcheckpoint.store.keeping import Copying, fetch, fetched, keep
from nbcheckpoint.store.survey import survey
from tests.stores import add_step


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "machine" / ".nbcheckpoint"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "drive").mkdir()
    return tmp_path / "drive" / "copy"


def save(folder: Path, *names: str) -> list[str]:
    """Save so many values; returns the ids of their checkpoints."""
    with open_store(folder) as store:
        run = store.begin_run("work.ipynb")
        return [add_step(store, run, {name: [name] * 10}, code=f"{name:0<64}").id for name in names]


def values(folder: Path) -> dict[str, Any]:
    with open_store(folder, create=False) as store:
        found = [store.load(id).values for id in survey(store).checkpoints]
    return {name: value for bound in found for name, value in bound.items()}


def test_what_is_saved_comes_there_and_can_be_brought_back(here: Path, there: Path) -> None:
    work = Copying(str(here), str(there))
    save(here, "a")
    work.look()
    save(here, "b")
    work.look()
    shutil.rmtree(here)
    assert fetch(str(here), str(there))
    assert values(here) == {"a": ["a"] * 10, "b": ["b"] * 10}
    assert not fetch(str(here), str(there)), "it is here"
    assert os.listdir(here.parent) == [here.name]


def test_where_nothing_was_kept_there_is_nothing_to_bring(here: Path, there: Path) -> None:
    assert not fetch(str(here), str(there))
    assert not here.exists()
    assert not there.exists()


def test_bringing_it_back_can_be_cut_short(here: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it is never taken for all of it."""
    save(here, "a", "b")
    Copying(str(here), str(there)).look()
    shutil.rmtree(here)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(str(here), str(there))
    assert not here.exists()
    assert fetch(str(here), str(there))
    assert values(here).keys() == {"a", "b"}


def test_what_goes_from_the_store_goes_from_there(here: Path, there: Path) -> None:
    work = Copying(str(here), str(there))
    first, _ = save(here, "a", "b")
    work.look()
    with open_store(here) as store:
        store.delete_checkpoint(first)
    save(here, "c")
    work.look()
    assert values(there).keys() == {"b", "c"}


def test_a_store_that_was_lost_takes_nothing_along(here: Path, there: Path) -> None:
    work = Copying(str(here), str(there))
    for name in "abcdef":  # again and again: its files may get the numbers of those that went
        save(here, name)
        work.look()
        shutil.rmtree(here)
    assert values(there).keys() == set("abcdef")


def test_files_that_arrive_there_in_any_order_do_not_accuse_each_other(here: Path, there: Path) -> None:
    """The index may be late. Then it is what it was before."""
    work = Copying(str(here), str(there))
    save(here, "a")
    work.look()
    late = (there / "cache.db").read_bytes()
    save(here, "b")
    work.look()
    (there / "cache.db").write_bytes(late)
    shutil.rmtree(here)
    assert fetched(str(here), str(there)) == ""
    assert values(here).keys() == {"a"}


def test_what_is_damaged_there_is_told_and_left_alone(here: Path, there: Path) -> None:
    save(here, "a")
    Copying(str(here), str(there)).look()
    shutil.rmtree(here)
    (there / "cache.db").write_bytes(b"no index" * 1000)
    assert "could not be brought here" in fetched(str(here), str(there))
    assert not here.exists()
    save(here, "b")
    with pytest.raises(StoreError):
        Copying(str(here), str(there)).look()
    assert (there / "cache.db").read_bytes() == b"no index" * 1000


def test_what_could_not_be_brought_is_told(here: Path, there: Path) -> None:
    """Wherever the damage is: either all of it is here, or somebody is told."""
    save(here, *"abcdefgh")
    Copying(str(here), str(there)).look()
    sound = (there / "cache.db").read_bytes()
    told = 0
    for part in range(1, 16):
        shutil.rmtree(here, ignore_errors=True)
        shutil.rmtree(here.with_name(here.name + ".coming"), ignore_errors=True)
        at = len(sound) * part // 16
        (there / "cache.db").write_bytes(sound[:at] + b"\xff" * 1000 + sound[at + 1000 :])
        problem = fetched(str(here), str(there))
        told += bool(problem)
        assert problem or values(here).keys() == set("abcdefgh")
    assert told


def test_what_is_not_mounted_is_not_made(here: Path, tmp_path: Path) -> None:
    """Or it would be on the very machine it is to outlive."""
    there = tmp_path / "content" / "drive" / "copy"
    assert "is it mounted?" in fetched(str(here), str(there))
    save(here, "a")
    with pytest.raises(UsageError, match="no folder"):
        Copying(str(here), str(there)).look()
    assert not (tmp_path / "content").exists()


def test_the_store_itself_is_no_second_place(here: Path) -> None:
    here.parent.mkdir(parents=True)
    with pytest.raises(UsageError, match="the store itself"):
        fetch(str(here), str(here))
    with pytest.raises(UsageError, match="no folder"):
        fetch("memory://x", str(here))


def looks(work: Copying, *between: Callable[[], object]) -> list[str]:
    """What is told, if these happen between one look and the next; the last look is when it is over."""
    happens, told = iter(between), list[str]()

    def is_over(seconds: float) -> bool:
        step = next(happens, None)
        if step is not None:
            step()
        return step is None

    keep(work, is_over, told.append)
    return told


def test_it_looks_once_more_when_it_is_over(here: Path, there: Path) -> None:
    assert looks(Copying(str(here), str(there)), lambda: None, lambda: save(here, "a")) == []
    assert values(there).keys() == {"a"}


def test_the_end_of_a_run_comes_along(here: Path, there: Path) -> None:
    save(here, "a")

    def end() -> None:
        with open_store(here) as store:
            (run,) = store.runs()
            store.update_run(run.id, status="completed", owner=None)

    looks(Copying(str(here), str(there)), end)
    with open_store(there, create=False) as store:
        assert [run.status for run in store.runs()] == ["completed"]


def test_the_same_trouble_is_told_once(here: Path, tmp_path: Path) -> None:
    there = tmp_path / "drive" / "copy"
    save(here, "a")
    told = looks(Copying(str(here), str(there)), lambda: None, lambda: save(here, "b"), there.parent.mkdir)
    assert len(told) == 1
    assert str(there) in told[0]
    assert values(there).keys() == {"a", "b"}

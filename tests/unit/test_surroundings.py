"""What a run was made with, and what of that is different now: read from files, never imported."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.surroundings import here, packages, version_in
from tests.stores import add_run


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another environment, with another Python and one package, whose module raises when it is imported."""
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    (site / "shiny-2.5.dist-info").mkdir(parents=True)
    (site / "shiny-2.5.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shiny\nVersion: 2.5\n")
    (site / "shiny-2.5.dist-info" / "top_level.txt").write_text("shine\n")
    (site / "shine.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.1\n")
    return tmp_path


def test_what_is_used_is_found_by_the_modules_in_sight() -> None:
    class Mine:
        """Not asked for anything."""

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    found = packages([msgspec, msgspec.json, pytest.fixture, sys, Path, Mine(), 3])
    assert found.keys() == {"msgspec", "_pytest"} or found.keys() == {"msgspec"}
    assert found["msgspec"] == msgspec.__version__


def test_nothing_differs_where_nothing_has_changed(store: Store) -> None:
    told = store.environment(add_run(store, meta={"environment": here([msgspec])}).id)
    assert told.then == told.now == here([msgspec])
    assert told.differs == ()


def test_what_has_changed_since_in_the_environment_it_ran_in(store: Store, elsewhere: Path) -> None:
    then = {"python": "3.12.0", "host": platform.node(), "prefix": str(elsewhere), "shine": "2.4", "gone": "1.0"}
    told = store.environment(add_run(store, meta={"environment": then}).id)
    assert {(item.name, item.then, item.now) for item in told.differs} == {
        ("python", "3.12.0", "3.12.1"),
        ("shine", "2.4", "2.5"),
        ("gone", "1.0", ""),
    }
    assert "shine" not in sys.modules


@pytest.mark.parametrize("prefix", ["", "relative", "/nowhere/at/all", "nul\0", "../../.."])
def test_an_environment_that_is_not_there_is_not_guessed_at(store: Store, prefix: str) -> None:
    then = {"python": "3.12.0", "prefix": prefix, "numpy": "1.0"}
    told = store.environment(add_run(store, meta={"environment": then}).id)
    assert told.differs == ()
    assert told.now == {}


def test_somebody_elses_idea_of_an_environment(store: Store) -> None:
    for meta in ({"environment": ["no"]}, {"environment": {"python": {"a": 1}, "x": None}}, {"python": "3.9"}):
        store.environment(add_run(store, meta=meta).id)


def test_a_module_goes_by_the_name_of_what_brought_it(elsewhere: Path) -> None:
    site = str(elsewhere / "lib" / "python3.12" / "site-packages")
    assert version_in("shiny", site) == version_in("shine", site) == "2.5"
    assert version_in("nothing", site) == ""

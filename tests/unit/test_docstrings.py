"""The docstrings of the public names, tried."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nbcheckpoint import config, events, store
from nbcheckpoint.store import aio


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("module", [store, aio, config, events], ids=lambda module: module.__name__)
def test_the_examples_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
    assert result.attempted > 0


@pytest.mark.parametrize("name", [*store.__all__, *aio.__all__])
def test_every_public_name_has_an_example(name: str) -> None:
    found: Any = getattr(store, name, None) or getattr(aio, name)
    assert ">>>" in (found.__doc__ or "")


def test_every_method_of_a_store_is_explained_and_in_the_example() -> None:
    for name, method in inspect.getmembers(store.Store, inspect.isfunction):
        if not name.startswith("_"):
            assert method.__doc__, name
            assert f".{name}(" in (store.Store.__doc__ or ""), name

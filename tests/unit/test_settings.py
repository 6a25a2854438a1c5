"""Options of libraries are read without importing anything, compared, and put back."""

from __future__ import annotations

import decimal
import locale
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
import sklearn

from nbcheckpoint.fingerprint import settings

CASES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "set:numpy display": (lambda: np.set_printoptions(precision=3), lambda: str(np.array([1 / 3]))),
    "set:numpy": (lambda: np.seterr(divide="ignore"), lambda: np.geterr()["divide"]),
    "set:pandas display": (
        lambda: pd.set_option("display.max_rows", 7),
        lambda: pd.get_option("display.max_rows"),
    ),
    "set:pandas": (
        lambda: pd.set_option("mode.sim_interactive", True),
        lambda: pd.get_option("mode.sim_interactive"),
    ),
    "set:matplotlib": (
        lambda: matplotlib.rcParams.update({"lines.linewidth": 7}),
        lambda: matplotlib.rcParams["lines.linewidth"],
    ),
    "set:sklearn": (
        lambda: sklearn.set_config(transform_output="pandas"),
        lambda: sklearn.get_config()["transform_output"],
    ),
    "set:decimal": (lambda: setattr(decimal.getcontext(), "prec", 5), lambda: decimal.Decimal(1) / 3),
    "set:locale": (lambda: locale.setlocale(locale.LC_TIME, "C.UTF-8"), lambda: locale.setlocale(locale.LC_TIME)),
    "set:recursion": (lambda: sys.setrecursionlimit(4321), sys.getrecursionlimit),
    "set:logging": (
        lambda: logging.getLogger("some.where").setLevel(logging.ERROR),
        lambda: logging.getLogger("some.where").level,
    ),
    "set:warnings": (
        lambda: warnings.filterwarnings("ignore", message="a certain one"),
        lambda: warnings.filters[0][0],
    ),
}


@pytest.fixture
def as_before() -> Iterator[dict[str, Any]]:
    before = settings.states()
    with warnings.catch_warnings():
        yield before
        for name in CASES:
            settings.restore(name, before.get(name, {}))
        logging.getLogger("some.where").setLevel(logging.NOTSET)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen_and_can_be_put_back(as_before: dict[str, Any], name: str) -> None:
    change, look = CASES[name]
    usual = look()
    change()
    changed, after = look(), settings.states()
    moved = settings.moved(as_before, after)
    assert set(moved) == {name}
    assert settings.digest(moved[name]) != settings.digest(as_before.get(name))
    settings.restore(name, as_before.get(name, {}))
    # A filter or a level more is kept: whatever was imported meanwhile may have set it.
    assert name in ("set:warnings", "set:logging") or look() == usual
    settings.restore(name, moved[name])
    assert look() == changed


def test_a_warning_that_is_an_error_is_an_input(as_before: dict[str, Any]) -> None:
    warnings.simplefilter("error")
    moved = settings.moved(as_before, settings.states())
    assert set(moved) == {"set:warnings", "set:warnings as errors"}
    assert [name for name in moved if settings.counts(name)] == ["set:warnings as errors"]


def test_what_is_not_loaded_is_at_its_default(monkeypatch: pytest.MonkeyPatch, as_before: dict[str, Any]) -> None:
    for module in ("numpy", "pandas._config.config", "matplotlib", "sklearn._config"):
        monkeypatch.delitem(sys.modules, module)
    found = settings.states()
    assert not any(name.startswith(("set:numpy", "set:pandas", "set:matplotlib", "set:sklearn")) for name in found)
    assert settings.digest(found.get("set:numpy")) == "default"


@pytest.mark.usefixtures("as_before")
def test_a_numpy_that_has_fewer_options_is_given_those_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """`override_repr` came with NumPy 2.1; Colab has 2.0."""
    given, there = dict[str, Any](), {k: v for k, v in np.get_printoptions().items() if k != "override_repr"}
    monkeypatch.setattr(np, "get_printoptions", lambda: there)
    monkeypatch.setattr(np, "set_printoptions", given.update)
    settings.restore("set:numpy display", {"precision": 3})
    assert given.keys() == there.keys()
    assert given["precision"] == 3

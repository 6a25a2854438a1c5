"""Every estimator of scikit-learn comes back, and is known as what it was: what is done with it is not done again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_regressor
from sklearn.datasets import make_classification, make_regression
from sklearn.utils import all_estimators

from nbcheckpoint.fingerprint.values import Digester
from tests.unit.test_faithful import restored

CLASSES = make_classification(40, n_features=6, random_state=0)
NUMBERS = make_regression(40, n_features=6, random_state=0)


def fitted() -> Iterator[Any]:
    """Those that can be made without being told anything, and fitted to a table of numbers."""
    for _, kind in all_estimators():
        try:
            made = kind()
            if hasattr(made, "random_state"):
                made.random_state = 0
            yield made.fit(*(NUMBERS if is_regressor(made) else CLASSES))
        except Exception:  # it wants to be told something, or other data
            continue


@pytest.mark.slow
def test_every_estimator_is_known_after_a_restore() -> None:
    """Two arrays of a tree's were taken for views of one memory, so a forest was another one in every kernel."""
    changed, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator in fitted():
            count += 1
            if Digester().digest("x", estimator) != Digester().digest("x", restored(x=estimator)["x"]):
                changed.append(estimator)
    assert count > 100
    assert changed == []


def test_a_masked_array_has_no_fill_value_before_it_is_asked_for_one() -> None:
    masked = np.ma.array([1, 2], mask=[True, False])
    assert masked._fill_value is None
    assert restored(x=masked)["x"]._fill_value is None
    masked.set_fill_value(7)
    assert restored(x=masked)["x"].fill_value == 7

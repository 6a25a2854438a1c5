from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbcheckpoint.engine import context
from nbcheckpoint.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The store that steps and flows use in this test."""
    with open_store(tmp_path / "store") as opened:
        context.use(opened)
        yield opened
        context.use(None)


@pytest.fixture
def ran() -> list[object]:
    """What bodies have run. A list in a closure would be an input; this one is looked at by nobody."""
    from tests.flows import bodies

    bodies.RAN.clear()
    return bodies.RAN

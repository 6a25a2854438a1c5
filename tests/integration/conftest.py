"""A server for the tests that ask one, each with a root folder, and a store in it, of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbcheckpoint.store import Store, open_store
from tests.integration.server import Server, at, serving


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("root"), home=tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def server(running: Server, tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "root").mkdir()
    with at(running, tmp_path / "root") as server:
        yield server


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    with open_store(server.root / ".nbcheckpoint") as opened:
        yield opened

"""What the crash tests share: whether this machine lets us pull plugs and fail system calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.faults import disks, syscalls


def _missing(what: str) -> None:
    """A developer's laptop may lack it; the machine that decides what lands may not."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def _can_mount(tmp_path_factory: pytest.TempPathFactory) -> bool:
    return os.name == "posix" and os.geteuid() == 0 and disks.available(tmp_path_factory.mktemp("mount"))


@pytest.fixture
def mountable(_can_mount: bool, tmp_path: Path) -> Path:
    """A folder in which disks can be mounted."""
    if not _can_mount:
        _missing("needs root and loop devices")
    return tmp_path


@pytest.fixture
def traceable(tmp_path: Path) -> Path:
    if not syscalls.available():
        _missing("needs strace")
    return tmp_path

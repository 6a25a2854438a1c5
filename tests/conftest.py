"""Fixtures for everything: nothing a test does may touch the user's own key, store or configuration."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kernels import Kernel

# How long an example takes says nothing on a busy machine.
settings.register_profile("nbcheckpoint", deadline=None)
settings.load_profile("nbcheckpoint")

# A shell starts what is to run in the background with Ctrl-C ignored, and whatever that starts ignores it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(home / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(home / "ipython"))
    monkeypatch.delenv("NBCHECKPOINT_STORE", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel with the extension loaded, in an empty folder."""
    with Kernel(tmp_path) as kernel:
        kernel.run("%load_ext nbcheckpoint")
        yield kernel

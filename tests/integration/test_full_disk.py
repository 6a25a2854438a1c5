"""A disk that is full, and then is not: what was saved comes back, what cannot be saved is told, the cell runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        if os.environ.get("CI"):
            pytest.fail(f"a small disk is needed: {mounted.stderr.decode()}")
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path) -> None:
    handle = os.open(place / "fill", os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(handle, b"x" * 512)
    except OSError:
        pass
    os.close(handle)


def test_a_full_disk_and_a_read_only_one(small_disk: Path) -> None:
    saved = "%%checkpointed\nx = list(range(10))\nprint('hello')\nx"
    with Kernel(small_disk) as kernel:
        kernel.run("%load_ext nbcheckpoint")
        kernel.run(saved)
        kernel.kill()
        fill(small_disk)
        kernel.start()
        kernel.run("%load_ext nbcheckpoint")
        back = kernel.run(saved)
        assert (back.status, back.stdout) == ("restored", "hello\n")
        assert "full" in kernel.run("%%checkpointed\ny = list(range(100_000))").line
        assert kernel.run("len(y)").result == "100000"
        (small_disk / "fill").unlink()
        assert "saved y" in kernel.run("%%checkpointed\ny = list(range(100_001))").line
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with Kernel(small_disk) as kernel:
        kernel.run("%load_ext nbcheckpoint")
        assert kernel.run(saved).status == "restored"
        refused = kernel.run("%%checkpointed\nz = 3\nz")
        assert refused.result == "3"
        assert "not saved" in refused.line

"""The short form of `benchmarks/kills.py`: notebooks killed at random moments and run again come out the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks.kills import names

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kills.py"


@pytest.mark.parametrize("name", ["monte_carlo", "sales_etl", "05_time_travel"])
def test_it_comes_out_the_same(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "2", name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_enough() -> None:
    assert len(names()) >= 13

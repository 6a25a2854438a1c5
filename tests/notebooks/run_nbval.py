"""Every example notebook does what its saved outputs say, and does so again after a restart.

Named so that only `make notebooks` collects it: nbval runs each notebook in a pytest of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(notebook: Path, tmp_path: Path) -> None:
    shutil.copy(notebook, tmp_path)
    (tmp_path / ".nbcheckpoint").mkdir(mode=0o700)
    for turn in ("computed", "restored"):
        checked = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"),
                *("--nbval-sanitize-with", str(ROOT / "tests/notebooks/sanitize.cfg"), notebook.name),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, f"{turn}:\n{checked.stdout[-4000:]}"


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS

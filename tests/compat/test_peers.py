"""What the README's table says about others, tried."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import joblib
import pytest
from IPython.core.interactiveshell import InteractiveShell

SCALE = 1


def helper(x: int) -> int:
    return x * SCALE


def work(x: int) -> int:
    return helper(x)


class Planted:
    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def test_joblib_does_not_notice_a_global_a_helper_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = joblib.Memory(tmp_path, verbose=0).cache(work)
    assert remembered(3) == 3
    monkeypatch.setattr(f"{__name__}.SCALE", 10)
    assert work(3) == 30
    assert remembered(3) == 3


def test_joblib_loads_a_planted_pickle(tmp_path: Path) -> None:
    memory = joblib.Memory(tmp_path / "cache", verbose=0)
    remembered = memory.cache(work)
    remembered(3)
    (saved,) = (tmp_path / "cache").rglob("output.pkl")
    saved.write_bytes(pickle.dumps(Planted(tmp_path / "pwned")))
    remembered(3)
    assert (tmp_path / "pwned").exists()


def test_store_magic_gives_back_what_was_stored_whatever_changed(tmp_path: Path) -> None:
    shell = InteractiveShell.instance(ipython_dir=str(tmp_path))
    try:
        shell.run_line_magic("load_ext", "storemagic")
        shell.run_cell("k = 1\nresult = k + 1")
        shell.run_line_magic("store", "result")
        shell.run_cell("k = 10\nresult = None")
        shell.run_line_magic("store", "-r result")
        assert shell.user_ns["result"] == 2
        (stored,) = (path for path in tmp_path.rglob("result") if path.is_file())
        stored.write_bytes(pickle.dumps(Planted(tmp_path / "pwned")))
        shell.db.uncache()
        shell.run_line_magic("store", "-r result")
        assert (tmp_path / "pwned").exists()
    finally:
        InteractiveShell.clear_instance()

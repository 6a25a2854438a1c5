"""What lies outside of the notebook's variables is known again unless it has changed (for that, `stale_outside.py`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow

SETUP = """%load_ext nbcheckpoint
import argparse, functools, glob, os, pickle, subprocess, sys, statistics
import config, late, pack.sub
class Model:
    def fit(self):
        import late
        from pack import sub
        return late.f() + sub.K
class Meta(type):
    def __call__(cls): return scale * 2
class Made(metaclass=Meta): pass
scale = 2; model = Model(); held = {'m': config}
@functools.wraps(statistics.mean)
def mean(x): return x * scale
def train(c): return c.LR * 10
def parse():
    p = argparse.ArgumentParser(); p.add_argument('--lr', default=3); return p.parse_known_args()[0].lr
class P:
    def m(self): return 1
"""
CELLS = {
    "r = train(config)": "10",
    "r = held['m'].LR": "1",
    "r = model.fit()": "7",
    "r = Made()": "4",
    "r = mean(4)": "8",
    "r = parse()": "3",
    "r = pickle.load(open('p.pkl', 'rb')).m()": "1",
    "r = max(sorted(glob.glob('*.csv')), key=os.path.getmtime)": "'b.csv'",
    "r = os.path.basename(os.path.realpath('current'))": "'pack'",
    "r = len(glob.glob('*/sub.py'))": "2",
    "r = subprocess.check_output('cat a.csv', shell=True)": "b'1'",
    "r = os.system('cp a.csv pack/c.txt')": "0",
}


def test_what_has_not_changed_outside_is_known_again_in_another_kernel(tmp_path: Path) -> None:
    """A kernel has sockets, ids and paths of its own: none of them may count."""
    for path, text in {
        "config.py": "LR = 1\nimport os, logging\nlog = logging.getLogger('x')",
        "late.py": "def f(): return 2",
        "pack/__init__.py": "",
        "pack/sub.py": "K = 5",
        "a.csv": "1",
        "b.csv": "2",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    os.utime(tmp_path / "a.csv", (1, 1))
    (tmp_path / "current").symlink_to("pack")
    with Kernel(tmp_path) as kernel:
        kernel.run(SETUP + "pickle.dump(P(), open('p.pkl', 'wb'))")
        for cell, wanted in CELLS.items():
            assert kernel.run(f"%%checkpointed\n{cell}").status == "computed", cell
            assert kernel.run("r").result == wanted
        kernel.kill()
        kernel.start()
        kernel.run(SETUP)
        for cell, wanted in CELLS.items():
            again = kernel.run(f"%%checkpointed\n{cell}")
            assert again.status == "restored", f"{cell}: {again.line}"
            assert kernel.run("r").result == wanted


def test_a_file_that_a_library_wrote_in_c_under_a_name_in_the_code_has_to_be_there(tmp_path: Path) -> None:
    """Nobody sees it opened, and it was not there when the statement began: it was restored without the file."""
    pl = pytest.importorskip("polars")
    write = "%%checkpointed\nfor n in (1, 2):\n    pl.DataFrame({'n': [n]}).write_csv('made.csv')"
    with Kernel(tmp_path) as kernel:
        kernel.run("%load_ext nbcheckpoint\nimport polars as pl")
        kernel.run(write)
        kernel.restart()
        kernel.run("%load_ext nbcheckpoint\nimport polars as pl")
        assert kernel.run(write).status == "restored"
        (tmp_path / "made.csv").unlink()
        again = kernel.run(write)
        assert "the file it wrote is gone: made.csv" in again.line
        assert pl.read_csv(tmp_path / "made.csv")["n"].to_list() == [2]

"""What `nbcheckpoint run` would do, and how long that would take: `plan.py` on a notebook nobody has opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbcheckpoint.notebook import document, options, plan
from nbcheckpoint.notebook.answer import Answer
from nbcheckpoint.notebook.document import CodeCell
from nbcheckpoint.notebook.parameters import runnable
from nbcheckpoint.notebook.session import workflow_of
from nbcheckpoint.store import Store


def forecast(notebook: Any, path: Path, folder: Path, store: Store) -> Answer:
    """For a notebook as it was loaded, with its parameters, run in that folder. Nothing is executed or unpickled."""
    cells, found = _planned(notebook, path, folder, store)
    return plan.answer(workflow_of(path, store.url), path, cells, found)


def expected(notebook: Any, path: Path, folder: Path, store: Store, *, fresh: bool = False) -> Mapping[int, float]:
    """Number of a cell -> seconds it will take, by what it took before. What may be restored counts as restored,
    unless everything is computed anew."""
    seconds: dict[int, float] = {}
    for item in _planned(notebook, path, folder, store)[1]:
        if (fresh or item.action == "run") and item.seconds:
            seconds[item.cell] = seconds.get(item.cell, 0.0) + item.seconds
    return seconds


def _planned(notebook: Any, path: Path, folder: Path, store: Store) -> tuple[list[CodeCell], Sequence[plan.Planned]]:
    from IPython.core import inputtransformer2

    transformers: Any = inputtransformer2
    manager = transformers.TransformerManager()
    manager.cleanup_transforms.insert(0, options.mark_cell)
    sources = [(str(notebook.cells[at].get("id", "")), notebook.cells[at].source) for at in runnable(notebook)]
    cells = document.understand_all(sources, manager.transform_cell, auto=True)
    with _inside(folder):
        return cells, plan.Planner(store, workflow_of(path, store.url), {}, here=False).plan(cells)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Files by relative names are those the kernel will find."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)

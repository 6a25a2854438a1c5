"""A training with torch, killed in the middle of an epoch, ends with the weights it would have had.

Runs where torch is installed.
"""

from __future__ import annotations

import re
import time

import pytest

from nbcheckpoint.notebook.history import checkpoints
from nbcheckpoint.store import open_store
from tests.integration.test_nested_loops import EAGER
from tests.kernels import Kernel

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

SETUP = """import os, sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
os.dup2(os.open("tally.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 200)
os.dup2(os.open("closed.txt", os.O_RDONLY | os.O_CREAT), 201)
X = torch.randn(120, 5)
loader = DataLoader(TensorDataset(X, X.sum(1, keepdim=True)), batch_size=10, shuffle=True)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
losses = []
"""
TRAIN = """%%checkpointed --every 1
for epoch in range(4):
    for at, (x, y) in enumerate(loader):
        os.write(200, b"x\\n")
        if (epoch, at) == (2, 7) and os.fstat(201).st_size:
            print("waiting", flush=True)
            time.sleep(600)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        if at % 3 == 2:  # gradients of three batches add up
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        losses.append(loss.item())
"""
EVALUATE = """%%checkpointed --every 1
for epoch in range(4):
    model.train()
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for at, (x, y) in enumerate(loader):
            os.write(200, b"x\\n")
            if (epoch, at) == (2, 7) and os.fstat(201).st_size:
                print("waiting", flush=True)
                time.sleep(600)
            losses.append(nn.functional.mse_loss(model(x), y).item())
    losses.append(model(X[:1]).requires_grad)
"""
LOOK = (
    "losses, [p.tolist() for p in model.parameters()], [p.grad.tolist() for p in model.parameters()], "
    "optimizer.param_groups[0]['params'][0] is model[0].weight, torch.rand(1).item(), x.tolist()"
)


def setup(workers: int) -> str:
    return SETUP.replace("shuffle=True", f"shuffle=True, num_workers={workers}")


@pytest.mark.parametrize(
    ("cell", "workers"), [(TRAIN, 0), (EVALUATE, 0), (TRAIN, 1)], ids=["training", "evaluation", "workers"]
)
def test_it_goes_on_in_the_middle_of_an_epoch(kernel: Kernel, cell: str, workers: int) -> None:
    """Also with workers: they leave a handler for signals and batches in shared memory, of which nothing was saved."""
    with Kernel(kernel.folder, notebook="plain.ipynb") as plain:
        plain.run(setup(workers))
        plain.run(cell.partition("\n")[2])
        wanted = plain.run(LOOK).result
    (kernel.folder / "tally.txt").unlink()
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(setup(workers) + EAGER)
    (kernel.folder / "closed.txt").write_text("yes")
    kernel.start_cell(cell, until="waiting")
    with open_store(kernel.folder / ".nbcheckpoint", create=False) as store:
        while not any(c.progress and c.progress.around and c.progress.done == 7 for c in checkpoints(store)):
            time.sleep(0.01)  # it is on its way
    kernel.kill()
    (kernel.folder / "closed.txt").write_text("")
    kernel.start()
    kernel.run("%load_ext nbcheckpoint")
    kernel.run(setup(workers) + EAGER)
    again = kernel.run(cell)
    assert re.search(r"loop continued at 3 of 4, inside at 8\b", again.line), again.line
    assert kernel.run(LOOK).result == wanted
    assert len((kernel.folder / "tally.txt").read_text().split()) == 4 * 12 + 1


def test_what_torch_saves_has_to_be_there_as_it_was(kernel: Kernel) -> None:
    """torch opens the file in C, under a name that only a path held: its loop was restored though the file was gone, or
    was the one of more epochs, and what loads it failed or loaded that."""
    setup = "%load_ext nbcheckpoint\nimport torch, pathlib\nfolder = pathlib.Path('kept')\nfolder.mkdir(exist_ok=True)"
    train = "%%checkpointed --every 1\nfor epoch in range({}):\n    torch.save({{'epoch': epoch}}, folder / 'last.pt')"
    kernel.run(setup)
    kernel.run(train.format(2))
    kernel.restart()
    kernel.run(setup)
    assert kernel.run(train.format(2)).status == "restored"
    assert kernel.run(train.format(3)).status == "resumed"
    assert kernel.run(train.format(2)).status == "computed"
    assert kernel.run("torch.load(folder / 'last.pt')").result == "{'epoch': 1}"
    kernel.run("(folder / 'last.pt').unlink()")
    again = kernel.run(train.format(2))
    assert "the file it wrote is gone: last.pt" in again.line

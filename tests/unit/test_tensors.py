"""torch's tensors: they come back as they lay in memory, with their gradients, and are known again in another process.

Runs where torch is installed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from nbcheckpoint.fingerprint import settings
from nbcheckpoint.fingerprint.kinds import is_mutable
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint
from nbcheckpoint.notebook import sharing
from nbcheckpoint.store import open_store

torch: Any = pytest.importorskip("torch")


def saved(**values: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What comes back of these, and what does not, with the reason."""
    draft = Checkpoint(id="", created="", run="run", step="0", code="0" * 64)
    with open_store("memory://") as store:
        checkpoint = store.save(draft, values).checkpoint
        return dict(store.load(checkpoint.id).values), {item.name: item.why for item in checkpoint.not_saved}


def digest(value: Any) -> str:
    return Digester().digest("x", value)


def test_views_share_their_memory_again() -> None:
    a = torch.arange(12.0).reshape(3, 4)
    back, _ = saved(a=a, row=a[1], turned=a.T, same=a)
    back["row"][0] = 99
    assert back["a"][1, 0] == 99
    assert back["turned"][0, 1] == 99
    assert back["same"] is back["a"]
    assert back["turned"].stride() == a.T.stride()


def test_a_model_its_optimizer_and_tied_weights() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    back, lost = saved(model=model, optimizer=optimizer)
    assert not lost
    assert back["model"][1].weight is back["model"][0].weight
    assert back["optimizer"].param_groups[0]["params"][0] is back["model"][0].weight
    assert torch.equal(back["model"][0].weight, model[0].weight)
    assert torch.equal(back["model"][0].weight.grad, model[0].weight.grad), "gradients that pile up go on doing so"
    back["optimizer"].step()
    optimizer.step()
    assert torch.equal(back["model"][0].weight, model[0].weight)


def test_whatever_it_is_made_of() -> None:
    values = {
        "bits": torch.tensor([True, False]),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "whole": torch.ones(2, dtype=torch.int64),
        "complex": torch.ones(2, dtype=torch.complex64),
        "empty": torch.empty(0),
        "zero": torch.tensor(3.5),
        "large": torch.rand(300, 300),
        "sparse": torch.eye(3).to_sparse(),
    }
    back, lost = saved(**values)
    assert not lost
    for name, value in values.items():
        assert back[name].dtype == value.dtype
        assert torch.equal(back[name].to_dense(), value.to_dense()), name


def test_it_can_be_resized_before_and_after() -> None:
    a = torch.rand(200, 200)
    digest(a)
    back, _ = saved(a=a)
    a.resize_(300, 300)
    back["a"].resize_(300, 300)


def test_memory_that_an_array_has_too_is_told() -> None:
    import numpy as np

    array = np.zeros(4)
    tensor = torch.from_numpy(array)
    _, lost = saved(array=array, tensor=tensor)
    assert lost.keys() == {"array", "tensor"}
    assert "share memory" in lost["tensor"]
    assert sharing.sharing({"tensor"}, {"array": array, "tensor": tensor, "other": np.zeros(4)}) == {"array"}
    made = torch.ones(3)
    _, lost = saved(made=made, seen=made.numpy())
    assert lost.keys() == {"made", "seen"}
    back, lost = saved(alone=torch.ones(3).numpy())
    assert not lost
    assert back["alone"].tolist() == [1, 1, 1]
    assert sharing.sharing({"made"}, {"made": made, "seen": made.numpy()[1:]}) == {"seen"}


def test_names_of_one_tensor_are_known_to_be() -> None:
    a = torch.zeros(4)
    assert is_mutable(torch.Tensor)
    assert is_mutable(torch.nn.Parameter)
    there = {"a": a, "same": a, "view": a[1:], "detached": a.detach(), "copy": a.clone(), "held": [a]}
    assert sharing.sharing({"a"}, there) == {"same", "view", "detached", "held"}


def test_what_counts_for_its_digest() -> None:
    a = torch.arange(4.0)
    assert digest(a) == digest(torch.arange(4.0))
    assert digest(a) != digest(torch.arange(4.0, dtype=torch.float64))
    assert digest([a, a]) != digest([a, a.clone()])
    assert digest([a, a[:2]]) != digest([a, a[:2].clone()])
    before = digest(a)
    a[0] = 1
    assert digest(a) != before
    weight = torch.nn.Parameter(torch.ones(2))
    before = digest(weight)
    weight.sum().backward()
    assert digest(weight) != before, "its gradient"


def test_it_is_the_same_in_another_process() -> None:
    code = (
        "import torch; from nbcheckpoint.fingerprint.values import Digester; torch.manual_seed(1); "
        "junk = [torch.rand(n) for n in range({n})]; torch.manual_seed(1); model = torch.nn.Linear(3, 2); "
        "opt = torch.optim.Adam(model.parameters()); print(Digester().digest('x', [model, opt]))"
    )
    said = {subprocess.check_output([sys.executable, "-c", code.format(n=n)], text=True) for n in (0, 50)}
    assert len(said) == 1


def test_what_gradients_can_still_flow_through_is_neither_saved_nor_known() -> None:
    weight = torch.ones(2, requires_grad=True)
    loss = (weight**2).sum()
    shifted = weight + 1  # nothing is kept for this one: gradients can flow as often as one likes
    _, lost = saved(loss=loss, shifted=shifted)
    assert "gradients can still flow" in lost["loss"]
    assert "gradients can still flow" in lost["shifted"]
    with pytest.raises(Unidentified, match="gradients"):
        digest(loss)
    loss.backward()
    back, lost = saved(loss=loss, weight=weight)
    assert not lost
    assert back["loss"].item() == 2
    assert back["weight"].grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError):
        back["loss"].backward()
    assert digest(loss) == digest(torch.tensor(2.0))


def test_what_is_kept_for_a_second_time_can_be_used() -> None:
    weight = torch.ones(2, requires_grad=True)
    loss = (weight**2).sum()
    loss.backward(retain_graph=True)
    assert saved(loss=loss)[1].keys() == {"loss"}
    loss.backward()
    assert not saved(loss=loss)[1]


@pytest.mark.parametrize(
    ("put", "read"),
    [
        (lambda: torch.set_grad_enabled(False), lambda: torch.is_grad_enabled()),
        (lambda: torch.set_default_dtype(torch.float64), lambda: torch.tensor(1.0).dtype),
        (lambda: torch.use_deterministic_algorithms(True), lambda: torch.are_deterministic_algorithms_enabled()),
        (lambda: torch.set_float32_matmul_precision("medium"), lambda: torch.get_float32_matmul_precision()),
    ],
)
def test_its_modes_count_and_come_back(put: Callable[[], None], read: Callable[[], Any]) -> None:
    before, default = settings.states(), read()
    assert "set:torch" not in before, "nothing to say while all is as it comes"
    try:
        put()
        changed, wanted = settings.moved(before, settings.states()), read()
        settings.restore("set:torch", {})
        assert read() == default
        settings.restore("set:torch", changed["set:torch"])
        assert read() == wanted != default
    finally:
        settings.restore("set:torch", {})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has some memory")
def test_a_batch_of_a_worker_is_saved_and_what_is_to_be_shared_is_not() -> None:
    data = torch.utils.data
    (batch,) = next(iter(data.DataLoader(data.TensorDataset(torch.arange(6.0)), batch_size=3, num_workers=1)))
    assert batch.is_shared()
    back, lost = saved(batch=batch, shared=torch.ones(2).share_memory_())
    assert back["batch"].tolist() == [0.0, 1.0, 2.0]
    assert "shared with other processes" in lost["shared"]

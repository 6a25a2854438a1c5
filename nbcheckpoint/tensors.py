"""torch's tensors on their way into a pickle, and which of them share memory.

In torch's own pickles stands where in memory a tensor lay, so that they are never the same twice; two views of one
tensor come back as two tensors, and gradients do not come back at all. So here memory is written once, as a buffer, and
whatever lies in it refers to it; a gradient goes with its tensor. What lies elsewhere than in the memory of the
processor is left to torch.

A tensor that was computed from others remembers how, until gradients have flowed back. That cannot be written, and
whoever uses it changes tensors nobody sees it has: so as long as it can be used, such a tensor is neither saved nor
taken for one that is known. Afterwards it is a value like any other, and comes back as one without a past.

torch is never imported for this: what has no torch has no tensors.
"""

from __future__ import annotations

import ctypes
import glob
import os
import pickle
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

Reducer = Callable[[Any], Any]
MODES = (
    "torch.autograd.grad_mode.no_grad",
    "torch.autograd.grad_mode.enable_grad",
    "torch.autograd.grad_mode.inference_mode",
    "torch.amp.autocast_mode.autocast",
)
"""Contexts a computation may stand in."""
_LONGEST_PAST = 10_000
"""Operations looked at before gradients are taken to be able to flow."""


class Lent(pickle.PicklingError):
    """What would come back as something else: memory that is somebody else's too, a past that gradients need."""


def reducers() -> dict[type, Reducer]:
    """How tensors and their memory are written, to be looked at only. None without torch."""
    torch = _torch()
    if torch is None:
        return {}
    kinds = dict.fromkeys((torch.Tensor, torch.nn.Parameter), _reduce_tensor)
    return {**kinds, torch.storage.TypedStorage: _reduce_typed, torch.UntypedStorage: _reduce_bytes}


def find(kind: type) -> Reducer | None:
    """How an instance of this type is written, to be made again."""
    torch = _torch()
    if torch is None:
        return None
    if issubclass(kind, torch.Tensor):
        return _reduce_tensor
    exact = {torch.storage.TypedStorage: _reduce_typed, torch.UntypedStorage: reduce_memory}
    return exact.get(kind)


def is_tensor(kind: type) -> bool:
    """One of those classes: hashed by which tensor it is, not by what is in it."""
    torch = _torch()
    return torch is not None and issubclass(kind, torch.Tensor)


def kind() -> type | None:
    """The class of tensors, if there is one."""
    torch = _torch()
    found: type | None = torch.Tensor if torch is not None else None
    return found


def parts(tensor: Any) -> Iterator[Any]:
    """What hangs on a tensor and the garbage collector does not see: its memory, and its gradient."""
    if tensor.layout is sys.modules["torch"].strided:
        yield tensor.untyped_storage()
    if tensor.grad_fn is None and tensor.grad is not None:
        yield tensor.grad


def touching(mine: Collection[Any]) -> Callable[[Collection[Any]], bool]:
    """Tells whether memory lent to a tensor among one's objects, as by an array, lies in something among others'."""
    if _torch() is None:
        return lambda theirs: False
    spans, lent = list(_spans(mine)), any(map(_is_lent, mine))

    def touches(theirs: Collection[Any]) -> bool:
        if not (lent or any(map(_is_lent, theirs))):
            return False
        return any(low < end and start < high for start, end in _spans(theirs) for low, high in spans)

    return touches


def is_loader(obj: Any) -> bool:
    """A data loader whose order follows from torch's random state: torch's own, with a sampler of torch's own."""
    data = sys.modules.get("torch.utils.data")
    if data is None or type(obj) is not data.DataLoader or isinstance(obj.dataset, data.IterableDataset):
        return False
    samplers = (obj.sampler, obj.batch_sampler)
    return obj.generator is None and all(type(s).__module__.startswith("torch.") for s in samplers if s is not None)


def _torch() -> Any:
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "UntypedStorage") and hasattr(torch, "nn") else None


def _is_lent(obj: Any) -> bool:
    torch = _torch()
    return isinstance(obj, torch.UntypedStorage) and obj.device.type == "cpu" and not obj.resizable()


def _spans(objects: Iterable[Any]) -> Iterator[tuple[int, int]]:
    torch, numpy = _torch(), sys.modules.get("numpy")
    for obj in objects:
        if isinstance(obj, torch.UntypedStorage) and obj.device.type == "cpu":
            yield obj.data_ptr(), obj.data_ptr() + obj.nbytes()
        elif numpy is not None and isinstance(obj, numpy.ndarray):
            yield numpy.lib.array_utils.byte_bounds(obj)


# Writing


def _reduce_tensor(tensor: Any) -> Any:
    if tensor.grad_fn is not None:
        if _is_alive(tensor.grad_fn):
            raise Lent("gradients can still flow back from it to what it was computed from")
        return tensor.detach().__reduce_ex__(5)
    reduced = tensor.__reduce_ex__(5)
    if tensor.grad is None:
        return reduced
    if len(reduced) != 2:
        raise Lent(f"a {type(tensor).__name__} that has a gradient and a state of its own")
    return (*reduced, tensor.grad, None, None, _give_gradient)


def _is_alive(node: Any) -> bool:
    """Can gradients flow back from here? What they need is let go of once they have."""
    seen: set[Any] = set()
    stack = [node]
    while stack and len(seen) < _LONGEST_PAST:
        here = stack.pop()
        if here is None or here in seen:
            continue
        seen.add(here)
        try:
            for name in dir(here):
                if name.startswith("_saved_") or name == "saved_tensors":
                    getattr(here, name)
        except RuntimeError:  # it is gone
            return False
        stack.extend(before for before, _ in here.next_functions)
    return True


def _reduce_typed(storage: Any) -> Any:
    return _typed, (storage._untyped_storage, storage.dtype)


def reduce_memory(storage: Any) -> Any:
    """Whether some array lies in it too is for the pickler to find out, which meets them all."""
    if storage.device.type == "cpu" and storage.is_shared() and not _is_left_to_us(storage.data_ptr()):
        raise Lent("its memory is shared with other processes")
    return _reduce_bytes(storage)


_SHARED = re.compile(r"^(\w+)-(\w+) .* (/\S*/torch_(\d+)_\w+) \(deleted\)$", re.MULTILINE)
"""Of the memory of a process: from where to where, the name it was made under, and who made it. Nobody can open it by
that name any more."""


def _is_left_to_us(address: int) -> bool:
    """Was it made by another process, as batches are by the workers of a data loader, and has nobody else it now? What
    this process has made to be shared is another matter, also before there is anybody to share it with. Only Linux
    tells."""
    for start, end, name, maker in _SHARED.findall(_read("/proc/self/maps")):
        if int(start, 16) <= address < int(end, 16):
            children = " ".join(map(_read, glob.glob("/proc/self/task/*/children"))).split()
            others = (_read(f"/proc/{pid}/maps") for pid in {maker, *children})
            return int(maker) != os.getpid() and not any(name in memory for memory in others)
    return False


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # there is no such process
        return ""


def _reduce_bytes(storage: Any) -> Any:
    if storage.device.type != "cpu":
        return storage.__reduce_ex__(5)
    # Not by way of an array: torch would take note of it, and not let the tensor be resized any more.
    memory: Any = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    memory.owner = storage
    return _memory, (pickle.PickleBuffer(memory),)


# Making again


def _typed(storage: Any, dtype: Any) -> Any:
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _memory(buffer: Any) -> Any:
    """Memory of its own: what is mapped from a file could not be resized."""
    import torch

    size = memoryview(buffer).nbytes
    storage = torch.UntypedStorage(size)
    if size:
        there = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,))
        there.copy_(torch.frombuffer(buffer, dtype=torch.uint8))
    return storage


def _give_gradient(tensor: Any, gradient: Any) -> None:
    tensor.grad = gradient

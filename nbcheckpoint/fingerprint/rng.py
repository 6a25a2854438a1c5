"""Random generators: `random`, NumPy's global one and torch's, as inputs and as effects.

A step that drew from one depends on its state before, and leaves its state after. If the user seeded it, the
state before must match to the bit. If nobody did, the state is an accident of this process: a value drawn
from another accident is as good as one drawn now, and insisting would repeat every unseeded notebook for ever.

So the question is whether somebody seeded it. Both generators are Mersenne twisters, whose 624 words stay put
for up to 624 draws and then move on in a way that can be followed; a seed replaces them all. *Pristine* means:
the words are those this process started with, or follow from them in a bounded number of turns. Everything
else counts as seeded, in doubt too.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import random
import sys
from array import array
from functools import lru_cache
from types import ModuleType
from typing import Any

from blake3 import blake3

MAX_TURNS = 2000
"""How many times 624 draws a pristine generator is followed: 1.2 million draws, 10 ms."""

PREFIX = "rng:"
"""No identifier contains a colon, so these never clash with a variable."""

PRISTINE = "pristine"
"""Marks a recorded state that nobody had seeded."""

_start: dict[str, Any] = {}


def watch() -> None:
    """Remember how the generators were before the user could touch them. Call as early as possible."""
    if "random" not in _start:
        _start["random"] = _words(packed(random.getstate()))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forked)
    if "numpy" not in _start and "numpy.random" not in sys.modules:
        if not any(isinstance(finder, _NumpyFinder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _NumpyFinder())
    elif "numpy.random" in sys.modules:
        # Imported before us: whether it was seeded since, nobody knows.
        _start.setdefault("numpy", None)


def _forked() -> None:
    """`random` seeds itself by chance in a forked child, before this is called. NumPy goes on with what it had."""
    _start["random"] = _words(packed(random.getstate()))


class _NumpyFinder(importlib.abc.MetaPathFinder):
    """Sees `numpy.random` being imported, and notes its state before anyone can seed it."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name != "numpy.random":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            original = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                original(module)
                _start.setdefault("numpy", module.get_state()[1].tobytes())

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this one instance only
        return spec


def states() -> dict[str, Any]:
    """The state of every generator that is loaded, by name, in a form `restore` takes."""
    found: dict[str, Any] = {PREFIX + "random": packed(random.getstate())}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None and hasattr(numpy_random, "get_state"):
        found[PREFIX + "numpy"] = numpy_random.get_state(legacy=False)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found[PREFIX + "torch"] = torch.get_rng_state().numpy().tobytes()
    return found


def packed(state: Any) -> tuple[int, bytes, float | None]:
    """What `random.getstate` gives, in less room.

    Its 625 numbers, kept while a statement runs, would fill a whole pool of what Python allocates numbers from; and as
    long as something in a full one is freed and taken again, all arithmetic takes 5 % longer.
    """
    version, words, gauss = state
    return version, array("I", words).tobytes(), gauss


def _words(state: Any) -> bytes:
    """The 624 of a twister's state, without the place it has come to among them."""
    if isinstance(state, dict):
        words: bytes = state["state"]["key"].tobytes()
        return words
    return bytes(state[1][: -array("I").itemsize])


def digest(state: Any) -> str:
    """The identity of a generator's state."""
    return blake3(repr(_plain(state)).encode()).hexdigest()


def same(one: Any, other: Any) -> bool:
    """Are two states of a generator equal? Quicker than two digests."""
    return bool(_plain(one) == _plain(other))


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return [(key, _plain(value)) for key, value in sorted(state.items())]
    return state.tobytes() if hasattr(state, "tobytes") else state


def restore(name: str, state: Any) -> None:
    """Put a generator back. One that is not loaded is loaded: the step that drew from it had it."""
    if name == PREFIX + "random":
        version, words, gauss = state
        random.setstate((version, tuple(array("I", words)), gauss))
    elif name == PREFIX + "numpy":
        import numpy

        numpy.random.set_state(state)
    elif name == PREFIX + "torch":
        import torch

        torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def is_pristine(name: str, state: Any) -> bool:
    """Certain that nobody has seeded it since this process started?"""
    start = _start.get(name.removeprefix(PREFIX))
    if start is None:
        return False
    return name in (PREFIX + "random", PREFIX + "numpy") and _follows(start, _words(state))


@lru_cache(maxsize=8)
def _follows(start: bytes, wanted: bytes) -> bool:
    """Do these 624 words come from those by turning the twister a bounded number of times?"""
    if start == wanted:
        return True
    twister = random.Random()
    twister.setstate((3, (*array("I", start), 624), None))
    last = tuple(array("I", wanted))
    for _ in range(MAX_TURNS):
        twister.getrandbits(32 * 624)
        if twister.getstate()[1][:-1] == last:
            return True
    return False

"""A store compared with a dict, with a crash between any two backend calls.

What `save` has acknowledged must come back, whatever happened since. What it has not may be there or not, but never
in part.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from nbcheckpoint.errors import NotFound
from nbcheckpoint.model import Checkpoint, open_stores
from nbcheckpoint.store import Store, open_store

_serial = itertools.count()

VALUES = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(
        st.integers(),
        st.text(max_size=10),
        st.lists(st.integers(), max_size=5),
        st.integers(0, 3).map(lambda n: bytes([n]) * 3_000_000),  # several chunks, often the same ones
        st.integers(0, 3).map(lambda n: bytes([n]) * 10_000),
    ),
    min_size=1,
    max_size=3,
)


class Crash(BaseException):
    """The process is gone. Not an Exception: nothing may catch it and go on."""


class Crashing:
    """A backend that dies before its n-th call and is deaf from then on."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls_left: int | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.calls_left is not None:
                if self.calls_left <= 0:
                    raise Crash(name)
                self.calls_left -= 1
            return found(*args, **kwargs)

        return call


class StoreMachine(RuleBasedStateMachine):
    saved = Bundle("saved")

    @initialize()
    def begin(self) -> None:
        self.url = f"memory://machine-{next(_serial)}"
        self.model: dict[str, tuple[str, dict[str, Any]]] = {}
        self.open()

    def open(self) -> None:
        self.store: Store = open_store(self.url)
        self.store.backend = Crashing(self.store.backend)  # type: ignore[assignment]  # stands in for one

    def draft(self, code: str) -> Checkpoint:
        return Checkpoint(id="", created="", run="run", step="0", code=code * 64, inputs_digest="0" * 64)

    @rule(target=saved, code=st.sampled_from("abc"), values=VALUES)
    def save(self, code: str, values: dict[str, Any]) -> str:
        checkpoint = self.store.save(self.draft(code), values).checkpoint
        self.model[checkpoint.id] = code * 64, values
        return checkpoint.id

    @rule(code=st.sampled_from("abc"), values=VALUES, after=st.integers(0, 8))
    def save_and_crash(self, code: str, values: dict[str, Any], after: int) -> None:
        self.store.backend.calls_left = after  # type: ignore[attr-defined]
        try:
            checkpoint = self.store.save(self.draft(code), values).checkpoint
            self.model[checkpoint.id] = code * 64, values  # it was faster than the crash
        except Crash:
            pass
        open_stores.discard(self.store)  # its process is gone
        self.open()

    @rule(id=saved, names=st.sets(st.sampled_from("abcd")))
    def restore(self, id: str, names: set[str]) -> None:
        if id not in self.model:
            return
        _, values = self.model[id]
        wanted = sorted(names & values.keys())
        assert self.store.restore(id, wanted) == {name: values[name] for name in wanted}
        self.store.restore(id).clear()  # what is given out is nobody else's

    @rule(id=consumes(saved))
    def delete(self, id: str) -> None:
        assert self.store.backend.delete(f"checkpoint/{id}") == (id in self.model)
        self.model.pop(id, None)
        try:
            self.store.restore(id)
        except NotFound:
            return
        raise AssertionError("it was deleted")

    @rule()
    def reopen(self) -> None:
        self.store.flush()
        self.open()

    @invariant()
    def everything_found_is_whole_and_everything_acknowledged_is_found(self) -> None:
        if not hasattr(self, "store"):
            return
        for code in "abc":
            found = {c.id for c in self.store.find(code * 64, limit=None)}
            acknowledged = {id for id, (its_code, _) in self.model.items() if its_code == code * 64}
            assert acknowledged <= found
            for id in found:
                values = self.store.restore(id)
                assert id not in self.model or values == self.model[id][1]


TestStoreMachine = pytest.mark.slow(StoreMachine.TestCase)
TestStoreMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

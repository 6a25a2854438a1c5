"""Trusting what somebody else signed: the user's decision, carried out on exactly what was looked at.

Sealing a record makes its pickle loadable, so: first every chunk of everything concerned is read and found to have
the digest its record names, then the records are sealed, each only if it is still the one that was read.
Nothing is unpickled on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from nbcheckpoint.errors import NotFound, StoreDamaged
from nbcheckpoint.model import Checkpoint, Record, Run, Step
from nbcheckpoint.store.survey import chunks_of

if TYPE_CHECKING:
    from nbcheckpoint.store import Store


class Trusted(Record, frozen=True, kw_only=True):
    """What carries the user's signature now and did not before."""

    id: str
    runs: int = 0
    steps: int = 0
    checkpoints: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Of the variables that can be restored now."""
    chunks: int = 0
    """Read and checked."""


def trust(store: Store, id: str) -> Trusted:
    """Seal a run with all it refers to, or one checkpoint, under this user's key. Raises NotFound, StoreDamaged."""
    records = _concerned(store, id)
    chunks = {
        name for record, _, _ in records.values() if isinstance(record, Checkpoint) for name in chunks_of(record, store)
    }
    for name in chunks:
        try:
            store.backend.read_chunk(name)
        except NotFound as error:
            raise StoreDamaged(f"{id} was not trusted, because a part of it is missing: {error}", key=name) from error
    # Checkpoints first and the run last: killed in between, what is sealed is whole.
    for key, (record, version, _) in reversed(records.items()):
        store._put(key, vouched(record), expect=version, durable=False)
    store._sync()
    sealed = [record for record, _, _ in records.values()]
    checkpoints = [record for record in sealed if isinstance(record, Checkpoint)]
    return Trusted(
        id=id,
        runs=sum(isinstance(record, Run) for record in sealed),
        steps=sum(isinstance(record, Step) for record in sealed),
        checkpoints=tuple(record.id for record in checkpoints),
        names=tuple(dict.fromkeys(name for record in checkpoints for name in record.names)),
        chunks=len(chunks),
    )


Concerned = dict[str, tuple[Run | Step | Checkpoint, str, bool]]


def _concerned(store: Store, id: str) -> Concerned:
    """Every untrusted record that belongs to a run, or to a checkpoint and what it builds upon."""
    found: Concerned = {}
    ahead: list[str] = []
    if store.backend.get(f"run/{id}") is not None:
        _add(store, found, Run, f"run/{id}")
        for step in store.steps(id, inner=True):
            _add(store, found, Step, f"step/{id}/{step.address}")
            ahead.append(step.checkpoint)
    elif store.backend.get(f"checkpoint/{id}") is not None:
        ahead.append(id)
    else:
        raise NotFound(f"no run or checkpoint {id}", hint="nbcheckpoint runs lists what there is")
    seen: set[str] = {""}
    while ahead:
        checkpoint = ahead.pop()
        if checkpoint not in seen:
            seen.add(checkpoint)
            ahead += _add(store, found, Checkpoint, f"checkpoint/{checkpoint}")
    return {key: entry for key, entry in found.items() if not entry[2]}


def _add(store: Store, found: Concerned, kind: type[Run] | type[Step] | type[Checkpoint], key: str) -> tuple[str, ...]:
    """Read a record; returns the checkpoints it builds upon. One that was pruned meanwhile is left out."""
    entry = store.backend.get(key)
    if entry is None:
        return ()
    record: Run | Step | Checkpoint = store._open(kind, key, entry.value)  # type: ignore[type-var]  # one of the three
    found[key] = (record, entry.version, record.trusted)
    return record.needs if isinstance(record, Checkpoint) else ()


def vouched(record: Run | Step | Checkpoint) -> Run | Step | Checkpoint:
    """The record as it goes under this user's seal. A run that was under way elsewhere is not under way here."""
    if isinstance(record, Run) and record.status == "running":
        return replace(record, trusted=True, status="interrupted", owner=None)
    return replace(record, trusted=True)

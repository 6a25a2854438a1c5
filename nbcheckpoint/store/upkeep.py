"""Making room: what retention decides, carried out so that being killed anywhere loses nothing that is kept.

Theory of operation. Records first, chunks after:

1. walk through the store, let `retention` decide;
2. runs go, each record before its steps (half a run is never seen; steps without a run are leftovers, and go with
   the next prune). A run that somebody changed since it was read stays;
3. walk again: what a step or another checkpoint refers to *now* stays, the other checkpoints that were to go, go;
4. walk again: a chunk that no remaining record names goes, once it is older than the grace time.

A save puts chunks first and its record last, so at any moment there are chunks no record names yet. What keeps them
is their age: putting a chunk that is there already makes it young again, and `delete_chunk(min_age=…)` looks at the
age in the same transaction that deletes it. A chunk that was deleted under a save all the same (one that took longer
than the grace time) makes that save's commit fail: the save puts it again, or is told; nothing is lost silently.

Where anything cannot be read, it may name anything: then no checkpoint and no chunk goes, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from nbcheckpoint.errors import Conflict, NotFound, StoreReadOnly
from nbcheckpoint.events import emit
from nbcheckpoint.model import Record
from nbcheckpoint.retention import Facts, Gone, Policy, Verdict, decide, needed_by_others
from nbcheckpoint.store.survey import QUARANTINE, Problem, Survey, survey

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

GRACE_SECONDS = 3600.0

AT_ONCE_SECONDS = 1.0
"""Grace for what the user deletes by name, who wants the space now. Not zero: that would also take chunks which
this very process has put and not committed."""

RUN_PARTS = ("step/{}/",)
"""What belongs to a run besides its own record."""


class Ageing(Protocol):
    """Backends whose chunks know how old they are."""

    def delete_chunk(self, name: str, *, min_age: float = 0.0) -> int: ...


@runtime_checkable
class Sweeping(Protocol):
    """Backends that leave something behind when their process dies."""

    def sweep(self, grace_seconds: float) -> int: ...


class Pruned(Record, frozen=True, kw_only=True):
    """What was removed; with `dry_run`, what would be."""

    runs: tuple[Gone, ...] = ()
    checkpoints: tuple[Gone, ...] = ()
    chunks: int = 0
    bytes: int = 0
    """Of the chunks that went."""
    swept_bytes: int = 0
    """Given back besides: what dead processes left, and files that had become mostly empty."""
    dry_run: bool = False
    unread: int = 0
    """Records that could not be read: because of them something was left alone, as a note says."""
    notes: tuple[str, ...] = ()
    """Whole sentences: what was left alone, and why."""


def prune(
    store: Store,
    policy: Policy | None = None,
    *,
    dry_run: bool = False,
    grace_seconds: float = GRACE_SECONDS,
    now: datetime | None = None,
) -> Pruned:
    """Remove what the policy does not keep. Raises StoreReadOnly; never loses anything that is kept."""
    policy = policy or Policy()
    store._check_version()
    if store.backend.read_only and not dry_run:
        raise StoreReadOnly(f"nothing can be removed from {store.url}")
    found = survey(store, chunks=dry_run or policy.max_size is not None)
    if found.unread:
        return Pruned(dry_run=dry_run, unread=len(found.unread), notes=_cautious(found.unread, "nothing"))
    verdict = decide(
        [run for run, _ in found.runs.values()],
        found.facts(),
        now=now or datetime.now(timezone.utc),
        policy=policy,
        grace_seconds=grace_seconds,
        sizes=_sizes(store) if policy.max_size is not None else None,
    )
    if dry_run:
        return _foreseen(store, found, verdict, grace_seconds)
    return _carry_out(store, found, verdict, grace_seconds, quarantine_before=_stamp(policy, now))


def delete_run(store: Store, run: str, *, grace_seconds: float = AT_ONCE_SECONDS) -> Pruned:
    """Remove a run, its steps, and those checkpoints it made or used that nobody else needs. Raises NotFound."""
    store._check_version()
    if store.backend.get(f"run/{run}") is None:
        raise NotFound(f"no run {run}", hint="nbcheckpoint runs lists what there is")
    found = survey(store, chunks=False)
    why = Gone(id=run, code="deleted", why="it was deleted")
    if found.unread:
        _delete_records(store, run, None)
        return Pruned(runs=(why,), unread=len(found.unread), notes=_cautious(found.unread, "no checkpoint"))
    mine = {checkpoint for _, checkpoint in found.steps.get(run, ())}
    gone = tuple(
        Gone(id=facts.id, code="deleted", why=f"only run {run} used it")
        for facts in found.facts(without=[run])
        if (facts.id in mine or found.checkpoints[facts.id][0].run == run) and not facts.used_by and not facts.held
    )
    return _carry_out(store, found, Verdict(runs=(why,), checkpoints=gone), grace_seconds, must=True)


def _carry_out(
    store: Store,
    found: Survey,
    verdict: Verdict,
    grace_seconds: float,
    *,
    must: bool = False,
    quarantine_before: str = "",
) -> Pruned:
    runs = [gone for gone in verdict.runs if _delete_records(store, gone.id, None if must else found.runs[gone.id][1])]
    for run, keys in found.leftover_steps().items():
        if store.backend.get(f"run/{run}") is None:
            _delete_keys(store, keys)
    _delete_keys(store, [key for key in found.quarantined if key[len(QUARANTINE) :] < quarantine_before])
    checkpoints = _delete_checkpoints(store, found, verdict.checkpoints)
    chunks, size, unread = collect(store, grace_seconds)
    store._sync()  # so that a save under way learns of what it lost, not the sweep
    swept = store.backend.sweep(grace_seconds) if isinstance(store.backend, Sweeping) else 0
    store._sync()
    return Pruned(
        runs=tuple(runs),
        checkpoints=tuple(checkpoints),
        chunks=chunks,
        bytes=size,
        swept_bytes=swept,
        unread=len(unread),
        notes=(*verdict.notes, *(_cautious(unread, "no chunk") if unread else ())),
    )


def _delete_records(store: Store, run: str, version: str | None) -> bool:
    """The run, then what belongs to it. False if somebody has changed the run since it was read."""
    try:
        store.backend.delete(f"run/{run}", expect=version)
    except Conflict:
        return False
    for part in RUN_PARTS:
        _delete_keys(store, [entry.key for entry in store.backend.scan(part.format(run))])
    return True


def _delete_keys(store: Store, keys: Iterable[str]) -> None:
    for key in keys:
        store.backend.delete(key)


def _delete_checkpoints(store: Store, before: Survey, doomed: Iterable[Gone]) -> list[Gone]:
    wanted = {gone.id: gone for gone in doomed}
    if not wanted:
        return []
    # Looked at again: since then a step may have been restored from one of these, or a save may have built upon it.
    now = survey(store, chunks=False)
    if now.unread:
        return []
    facts = {item.id: item for item in now.facts()}
    for id in [id for id in wanted if id not in facts or facts[id].used_by or facts[id].held]:
        del wanted[id]
    for id in needed_by_others(facts.values(), wanted):
        del wanted[id]
    return [gone for gone in _needers_first(wanted, facts) if _delete_checkpoint(store, before, gone)]


def _needers_first(doomed: Mapping[str, Gone], facts: Mapping[str, Facts]) -> list[Gone]:
    """What needs others goes before them: killed in between, nothing is left that cannot be restored."""
    graph = {id: facts[id].needs & doomed.keys() for id in doomed}
    try:
        return [doomed[id] for id in reversed(list(TopologicalSorter(graph).static_order()))]
    except CycleError:
        return list(doomed.values())  # none of our making


def _delete_checkpoint(store: Store, before: Survey, gone: Gone) -> bool:
    record, version = before.checkpoints[gone.id]
    try:
        deleted = store.backend.delete(f"checkpoint/{gone.id}", expect=version)
    except Conflict:
        return False  # trusted meanwhile, or gone already
    if deleted:
        emit("checkpoint_pruned", run=record.run, step=record.step, checkpoint=gone.id, why=gone.why)
    return deleted


def collect(store: Store, grace_seconds: float) -> tuple[int, int, Sequence[Problem]]:
    """Delete the chunks no record names: how many, how many bytes; none if there is something that cannot be read."""
    found = survey(store)
    if found.unread:
        return 0, 0, found.unread
    live, count, size = found.live, 0, 0
    backend = cast(Ageing, store.backend)
    for name, _, age in store.backend.scan_chunks():
        if name not in live and age >= grace_seconds:
            freed = backend.delete_chunk(name, min_age=grace_seconds)
            count += bool(freed)
            size += freed
    store._losses += bool(count)  # without grace, that may be what a save of this very process counts on
    return count, size, ()


def _foreseen(store: Store, found: Survey, verdict: Verdict, grace_seconds: float) -> Pruned:
    for gone in verdict.checkpoints:
        found.chunks.pop(gone.id, None)
    live = found.live
    sizes = [size for name, size, age in store.backend.scan_chunks() if name not in live and age >= grace_seconds]
    return Pruned(
        runs=verdict.runs,
        checkpoints=verdict.checkpoints,
        chunks=len(sizes),
        bytes=sum(sizes),
        dry_run=True,
        notes=verdict.notes,
    )


def _sizes(store: Store) -> dict[str, int]:
    return {name: size for name, size, _ in store.backend.scan_chunks()}


def _stamp(policy: Policy, now: datetime | None) -> str:
    """Quarantined records from before this go too; "" keeps them all."""
    if policy.max_age_seconds is None:
        return ""
    moment = (now or datetime.now(timezone.utc)).timestamp() - policy.max_age_seconds
    return f"{datetime.fromtimestamp(max(0.0, moment), timezone.utc):%Y%m%dT%H%M%S}"


def _cautious(unread: Sequence[Problem], what: str) -> tuple[str, ...]:
    first = unread[0]
    more = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
    advice = "a later version is needed" if first.kind == "too new" else "nbcheckpoint verify --repair helps"
    return (f"{what} was removed, because not everything can be read ({first.text}{more}); {advice}",)

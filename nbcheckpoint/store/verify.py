"""Is everything in the store what was written? Reads all of it, and says what is not, one record per problem.

Nothing is unpickled. Without `repair` nothing is changed. With it, nothing disappears silently either: a record
that cannot be read, or that needs something which is gone, moves to `quarantine/<when>/<key>`, where it is out
of everybody's way and no longer keeps pruning from freeing space; damaged chunks go wherever the backend puts
such things. What is quarantined goes for good when it is older than retention keeps anything.

Records of a later version and records signed by somebody else are no damage: they are listed and left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from blake3 import blake3
from msgspec.structs import replace

from nbcheckpoint.backend.base import MAX_KEY
from nbcheckpoint.errors import Conflict, Error, NotFound, StoreDamaged, StoreLocked, StoreReadOnly
from nbcheckpoint.model import Record
from nbcheckpoint.store.survey import QUARANTINE, Problem, Survey, survey
from nbcheckpoint.store.upkeep import GRACE_SECONDS, collect

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

LOOK_SECONDS = 2.0
"""So long somebody who only looks may have a store open."""

Progress = Callable[[int, int], object]
"""Called with (done, of how many); the total may grow while others are saving."""


@runtime_checkable
class Indexed(Protocol):
    """Backends with bookkeeping that may be damaged by itself."""

    @property
    def damage(self) -> str: ...
    def acknowledge_damage(self) -> None: ...
    def verify_index(self) -> list[str]: ...


@runtime_checkable
class Quarantining(Protocol):
    """Backends that can put a damaged chunk out of the way."""

    def verify_chunks(self, *, repair: bool = False) -> Iterator[tuple[str, str]]: ...


class Verified(Record, frozen=True, kw_only=True):
    """What was looked at, and what is wrong with it."""

    derived = ("clean",)

    records: int = 0
    chunks: int = 0
    bytes: int = 0
    """Of the chunks that were read."""
    orphans: int = 0
    """Chunks no record names: left by saves that did not end, or by one under way. `prune` removes them."""
    untrusted: int = 0
    problems: tuple[Problem, ...] = ()
    repaired: bool = False
    removed_chunks: int = 0
    """Those no record names, and old enough: a repair removes them."""
    notes: tuple[str, ...] = ()
    """Whole sentences: what else was done."""

    @property
    def clean(self) -> bool:
        """Is everything that can be restored sound? Somebody else's records are no damage."""
        return not any(problem.kind != "untrusted" and not problem.repaired for problem in self.problems)


def needs_salvage(result: Verified) -> bool:
    """Is the index itself damaged, so that records cannot even be reached? Only `salvage` helps then."""
    return any(problem.kind == "index" for problem in result.problems)


def verify_at(opener: Callable[[], Store], location: str, *, repair: bool, progress: Progress | None) -> Verified:
    """Verify the store that `opener` opens, and that may be too damaged to be opened at all.

    With `repair`, an index through which records cannot be reached is rebuilt first, with the store closed.
    """
    try:
        with opener() as store:
            result = verify(store, progress=progress)
    except StoreDamaged as error:  # so damaged that it cannot even be opened
        result = Verified(problems=(Problem(kind="index", key="", text=str(error)),))
    if not repair:
        return result
    salvaged = _salvaged(location) if needs_salvage(result) else ()
    with opener() as store:
        return replace(verify(store, repair=True, progress=progress), notes=salvaged)


def _salvaged(location: str) -> tuple[str, ...]:
    return () if "://" in location and not location.startswith("file:") else (salvage(location),)


def salvage(location: str) -> str:
    """Rebuild a folder's index from what can be read of it, while nobody has it open; says what came of it.

    The damaged index is kept in the folder's `quarantine`. Raises StoreLocked if somebody has it open, and not only
    for the moment a look at it takes: a panel looks all the time.
    """
    from nbcheckpoint.backend.disk import DiskBackend

    until = time.monotonic() + LOOK_SECONDS
    while True:
        try:
            kept, lost, is_exact = DiskBackend.salvage(location.removeprefix("file://"))
            break
        except StoreLocked:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
    found = f"{kept} entries kept, {'' if is_exact else 'at least '}{lost} lost"
    if not kept:
        found = "nothing of it could be read, so it is empty"
    return f"the index was rebuilt: {found}; the old one is in quarantine"


def verify(
    store: Store, *, repair: bool = False, progress: Progress | None = None, grace_seconds: float = GRACE_SECONDS
) -> Verified:
    """Check every record and every chunk. `repair` quarantines what is damaged and removes orphans."""
    if repair:
        store._check_version()
    if repair and store.backend.read_only:
        raise StoreReadOnly(f"nothing can be repaired in {store.url}")
    index = _check_index(store, repair)
    found = survey(store)
    chunks, size, damaged = _check_chunks(store, progress)
    problems = [*index, *_check_records(found), *damaged, *_check_checkpoints(store, found, damaged)]
    orphans = sum(1 for name, _, _ in _scan(store) if name not in found.live) if not found.unread else 0
    removed = 0
    if repair:
        problems = _repair(store, problems)
        removed, _, _ = collect(store, grace_seconds)
        store._sync()
    return Verified(
        records=_count(found),
        chunks=chunks,
        bytes=size,
        orphans=max(0, orphans - removed),
        untrusted=sum(problem.kind == "untrusted" for problem in problems),
        problems=tuple(problems),
        repaired=repair,
        removed_chunks=removed,
    )


def _count(found: Survey) -> int:
    steps = sum(map(len, found.steps.values()))
    unread = sum(problem.kind != "missing" for problem in found.unread)
    return len(found.runs) + steps + len(found.checkpoints) + unread


def _check_index(store: Store, repair: bool) -> list[Problem]:
    """First of all: while the index is in doubt, nothing else can be believed to be missing."""
    backend = store.backend
    if not isinstance(backend, Indexed):
        return []
    texts = dict.fromkeys([*([backend.damage] if backend.damage else []), *backend.verify_index()])
    if repair and texts:
        backend.acknowledge_damage()
    return [Problem(kind="index", key="", text=f"the index is damaged: {text}", repaired=repair) for text in texts]


def _check_records(found: Survey) -> Iterator[Problem]:
    yield from found.unread
    for key in found.untrusted:
        text = f"{key.replace('/', ' ', 1)} does not carry your signature"
        yield Problem(kind="untrusted", key=key, text=text)


def _scan(store: Store) -> Iterator[tuple[str, int, float]]:
    try:
        yield from store.backend.scan_chunks()
    except StoreDamaged:
        return  # a row that makes no sense; `_check_chunks` has told


def _check_chunks(store: Store, progress: Progress | None) -> tuple[int, int, list[Problem]]:
    """Read every chunk: how many, how many bytes, and which are not what their names say."""
    total = sum(1 for _ in _scan(store))
    done, size, problems = 0, 0, []
    try:
        for name, _, _ in store.backend.scan_chunks():
            try:
                size += len(store.backend.read_chunk(name))
            except NotFound:
                continue  # deleted meanwhile
            except StoreDamaged as error:
                problems.append(Problem(kind="chunk", key=name, text=str(error)))
            done += 1
            if progress is not None:
                progress(done, max(done, total))
    except StoreDamaged as error:
        problems.append(Problem(kind="chunk", key="", text=str(error)))
    return done, size, problems


def _check_checkpoints(store: Store, found: Survey, damaged: list[Problem]) -> list[Problem]:
    """Checkpoints that cannot be restored: a chunk, or a checkpoint they build upon, is missing or damaged."""
    bad = {problem.key for problem in damaged}
    broken = {problem.key.removeprefix("checkpoint/"): problem.text for problem in found.unread}
    told = set(broken)
    for id, names in found.chunks.items():
        lost = [name for name in names if name in bad or not store.backend.has_chunk(name)]
        if lost and store.backend.get(f"checkpoint/{id}") is not None:
            broken[id] = f"{len(lost)} of its {len(names)} chunks are missing or damaged"
    while all(problem.key for problem in found.unread):  # else the walk ended early, and much was not seen
        more = {id: why for id, why in _unsupported(found, broken).items() if id not in broken}
        if not more:
            break
        broken |= more
    return [
        Problem(kind="missing", key=f"checkpoint/{id}", text=f"checkpoint {id} cannot be restored: {why}")
        for id, why in broken.items()
        if id not in told
    ]


def _unsupported(found: Survey, broken: dict[str, str]) -> dict[str, str]:
    sound = found.checkpoints.keys() - broken.keys()
    return {
        id: f"it builds upon checkpoint {need}, which is not there or damaged"
        for id, (record, _) in found.checkpoints.items()
        for need in record.needs
        if need not in sound
    }


def _repair(store: Store, problems: list[Problem]) -> list[Problem]:
    if any(problem.kind == "chunk" for problem in problems):
        _set_chunks_aside(store, problems)
    when = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}"
    return [_repaired(store, problem, when) for problem in problems]


def _set_chunks_aside(store: Store, problems: list[Problem]) -> None:
    if isinstance(store.backend, Quarantining):
        for _ in store.backend.verify_chunks(repair=True):
            pass
        return
    for problem in problems:
        if problem.kind == "chunk" and problem.key:
            store.backend.delete_chunk(problem.key)


def _repaired(store: Store, problem: Problem, when: str) -> Problem:
    if problem.kind == "chunk":
        return replace(problem, repaired=True)
    if problem.kind in ("record", "missing") and problem.key:
        return replace(problem, repaired=_set_aside(store, problem.key, when))
    return problem


def _set_aside(store: Store, key: str, when: str) -> bool:
    """Copy first, then delete: killed in between, there are two of it and the next repair finds it again."""
    try:
        found = store.backend.get(key)
        if found is None:
            return True
        store.backend.put(_place(key, when), found.value, durable=True)
        store.backend.delete(key, expect=found.version)
    except Conflict:
        return False  # somebody has just written it anew
    except Error:
        return False  # not even its bytes can be had
    return True


def _place(key: str, when: str) -> str:
    place = f"{QUARANTINE}{when}/{key}"
    if len(place) <= MAX_KEY:
        return place
    return f"{QUARANTINE}{when}/{blake3(key.encode()).hexdigest()}"

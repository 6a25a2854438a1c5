"""Everything in a store, read once and without believing any of it: what pruning and verifying decide upon.

One walk along the keys, which meets checkpoints before runs and runs before steps. So a checkpoint that a step
seen here refers to was there before that step was written, and one saved during the walk is at worst not seen
yet, never taken for unused.

A record that cannot be read is a `Problem`, never an exception, and never a reason to believe less is in use:
whoever deletes must first look at `Survey.unread`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from nbcheckpoint.backend.base import CHUNK_NAME, Entry
from nbcheckpoint.codec.chunks import names_of
from nbcheckpoint.errors import Error, NotFound, StoreDamaged, StoreTooNew
from nbcheckpoint.model import Blob, Checkpoint, Record, Run, Step
from nbcheckpoint.retention import Facts
from nbcheckpoint.store.liveness import seen

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

QUARANTINE = "quarantine/"
"""Where `verify(repair=True)` moves records: `quarantine/<when>/<key>`."""

PAGE = 1000

_MENTIONED = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_INDEX = re.compile(rb'"index":"([0-9a-f]{64})"')

R = TypeVar("R", Run, Step, Checkpoint)

ProblemKind = Literal["index", "record", "too new", "untrusted", "chunk", "missing"]


class Problem(Record, frozen=True, kw_only=True):
    """Something that is not as it should be. `text` is the sentence."""

    kind: ProblemKind
    """`index`: the backend's own bookkeeping, or a row of it. `record`: cannot be read. `too new`: written by a
    later version. `untrusted`: signed by somebody else or nobody. `chunk`: its bytes are not those its name stands
    for. `missing`: a checkpoint that cannot be restored, because something it needs is not there."""
    key: str
    """The record's key or the chunk's name."""
    text: str
    repaired: bool = False


@dataclass(slots=True)
class Survey:
    """What the walk found."""

    runs: dict[str, tuple[Run, str]] = field(default_factory=dict)
    """Run id -> the run as it is now, and its record's version."""
    steps: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Run id -> (key, checkpoint it refers to) of each of its steps."""
    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    """(run, address) of a step -> its cell's id or its name."""
    checkpoints: dict[str, tuple[Checkpoint, str]] = field(default_factory=dict)
    """Checkpoint id -> the record, without what only a restore needs, and its version."""
    chunks: dict[str, frozenset[str]] = field(default_factory=dict)
    """Checkpoint id -> the chunks it is made of."""
    mentioned: set[str] = field(default_factory=set)
    """Whatever looks like a chunk's name in records of a kind this version does not know, or in quarantine."""
    quarantined: list[str] = field(default_factory=list)
    unread: list[Problem] = field(default_factory=list)
    unread_runs: set[str] = field(default_factory=set)
    untrusted: list[str] = field(default_factory=list)
    """Keys of the records that do not carry this user's signature."""

    @property
    def live(self) -> set[str]:
        """Every chunk that a record, as far as it could be read, names."""
        return self.mentioned.union(*self.chunks.values())

    def facts(self, *, without: Iterable[str] = ()) -> list[Facts]:
        """The checkpoints as retention sees them, with the runs in `without` gone."""
        gone = set(without)
        used: dict[str, set[str]] = {}
        held: set[str] = set()
        for run, steps in self.steps.items():
            for _, checkpoint in steps:
                if run in self.unread_runs:
                    held.add(checkpoint)
                elif run in self.runs and run not in gone:
                    used.setdefault(checkpoint, set()).add(run)
        return [
            Facts(
                id=id,
                workflow=self._workflow(record),
                step=str(record.meta.get("cell") or self.labels.get((record.run, record.step)) or record.name),
                created=record.created,
                used_by=frozenset(used.get(id, ())),
                needs=frozenset(record.needs),
                chunks=self.chunks.get(id, frozenset()),
                trusted=record.trusted,
                held=id in held,
            )
            for id, (record, _) in self.checkpoints.items()
        ]

    def _workflow(self, record: Checkpoint) -> str:
        """Of a run that is gone nobody knows; its checkpoints then compete with each other only."""
        if record.meta.get("workflow"):
            return str(record.meta["workflow"])
        return self.runs[record.run][0].workflow if record.run in self.runs else f"run {record.run}"

    def leftover_steps(self) -> dict[str, list[str]]:
        """Steps whose run is gone: somebody was killed while deleting it. Run id -> keys."""
        known = self.runs.keys() | self.unread_runs
        return {run: [key for key, _ in steps] for run, steps in self.steps.items() if run not in known}


def survey(store: Store, *, chunks: bool = True) -> Survey:
    """Walk through the records. `chunks=False` leaves out what each checkpoint is made of, which may need reading."""
    found = Survey()
    for entry in _entries(store, found):
        kind, _, rest = entry.key.partition("/")
        if kind == "checkpoint":
            _see_checkpoint(store, found, entry, rest, chunks)
        elif kind == "run":
            _see_run(store, found, entry, rest)
        elif kind == "step":
            _see_step(store, found, entry, rest.partition("/")[0])
        elif entry.key != "format":
            _see_other(store, found, entry)
    for run in found.leftover_steps():
        if store.backend.get(f"run/{run}") is not None:
            found.unread_runs.add(run)  # begun during the walk: not ours to judge
    return found


def _entries(store: Store, found: Survey) -> Iterator[Entry]:
    after, limit = "", PAGE
    while True:
        try:
            page = store.backend.scan(after=after, limit=limit)
        except StoreDamaged as error:
            if limit > 1:
                limit = 1  # one bad row spoils its page: up to it they are taken one by one
                continue
            found.unread.append(Problem(kind="index", key=error.key, text=str(error)))
            if error.key <= after:
                return  # it is not known which: so is what lies behind it
            after, limit = error.key, PAGE
            continue
        yield from page
        if len(page) < limit:
            return
        after = page[-1].key


def _see_checkpoint(store: Store, found: Survey, entry: Entry, id: str, chunks: bool) -> None:
    record = _see(store, found, Checkpoint, entry)
    if record is None:
        return
    found.checkpoints[id] = (_light(record), entry.version)
    if chunks:
        try:
            found.chunks[id] = chunks_of(record, store)
        except StoreDamaged as error:
            found.unread.append(Problem(kind="missing", key=entry.key, text=str(error)))


def _see_run(store: Store, found: Survey, entry: Entry, id: str) -> None:
    run = _see(store, found, Run, entry)
    if run is None:
        found.unread_runs.add(id)
    else:
        found.runs[id] = (seen(run), entry.version)


def _see_step(store: Store, found: Survey, entry: Entry, run: str) -> None:
    step = _see(store, found, Step, entry)
    if step is not None:
        found.steps.setdefault(run, []).append((entry.key, step.checkpoint))
        found.labels[run, step.address] = step.cell or step.name


def _see(store: Store, found: Survey, kind: type[R], entry: Entry) -> R | None:
    try:
        record = store._open(kind, entry.key, entry.value)
    except Error as error:
        found.unread.append(_problem(entry.key, error))
        return None
    if not record.trusted:
        found.untrusted.append(entry.key)
    return record


def _see_other(store: Store, found: Survey, entry: Entry) -> None:
    """Quarantined, or of a kind that a later version knows: whatever it may refer to stays."""
    aside = entry.key.startswith(QUARANTINE)
    if aside:
        found.quarantined.append(entry.key)
    try:
        # What is in quarantine is encrypted, if it is, for the place it came from.
        text = _plain(store, entry.key.split("/", 2)[2] if aside else entry.key, entry.value)
        found.mentioned.update(name.decode() for name in _MENTIONED.findall(text))
        for name in _INDEX.findall(text):
            found.mentioned.update(names_of(Blob(size=0, index=name.decode()), store.backend.read_chunk))
    except Error as error:
        if not aside:  # known to be damaged: that is why it is there
            found.unread.append(_problem(entry.key, error))


def _plain(store: Store, key: str, value: bytes) -> bytes:
    from nbcheckpoint.store.sealed import ENCRYPTED

    return store._decrypted(value[len(ENCRYPTED) :], key.encode()) if value.startswith(ENCRYPTED) else value


def _problem(key: str, error: Error) -> Problem:
    return Problem(kind="too new" if isinstance(error, StoreTooNew) else "record", key=key, text=str(error))


def chunks_of(record: Checkpoint, store: Store, *, read: Callable[[str], bytes] | None = None) -> frozenset[str]:
    """Every chunk a checkpoint is made of. Raises StoreDamaged where that cannot be told."""
    read = read or store.backend.read_chunk
    found: set[str] = set()
    for blob in blobs_of(record):
        if blob.index:
            found.add(_checked(blob.index, record))
        try:
            found.update(_checked(name, record) for name in names_of(blob, read))
        except NotFound as error:
            text = f"the list of checkpoint {record.id}'s chunks is missing: {error}"
            raise StoreDamaged(text, key=blob.index) from error
    return frozenset(found)


def _checked(name: str, record: Checkpoint) -> str:
    if not CHUNK_NAME.match(name):
        text = f"checkpoint {record.id} names something that is no chunk: {name[:80]!r}"
        raise StoreDamaged(text, key=f"checkpoint/{record.id}")
    return name


def blobs_of(value: Any) -> Iterator[Blob]:
    """Every blob in a record, in whatever field: a field added later must not be forgotten here."""
    if isinstance(value, Blob):
        yield value
    elif isinstance(value, Record):
        for name in value.__struct_fields__:
            yield from blobs_of(getattr(value, name))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from blobs_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from blobs_of(item)


def _light(record: Checkpoint) -> Checkpoint:
    """So that a walk over a hundred thousand checkpoints does not hold their sources and small values."""
    return Checkpoint(
        id=record.id,
        run=record.run,
        step=record.step,
        name=record.name,
        code=record.code,
        created=record.created,
        needs=record.needs,
        meta={name: record.meta[name] for name in ("workflow", "cell") if name in record.meta},
        trusted=record.trusted,
    )

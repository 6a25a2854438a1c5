"""The store: records and values over a backend. Everything above talks to this, nothing above talks to bytes.

Keys of the record plane:

    format                          the version of the stored form
    run/<run>                       Run
    step/<run>/<address>            Step
    checkpoint/<id>                 Checkpoint; its id begins with the digests it is looked up by

Saving writes chunks first and the checkpoint's record last, durably: the record is the commit point, and by
the backend's rule whatever was written before it is as durable as it is. So a checkpoint that exists is whole.

Nothing is unpickled unless the record that names the stream carries this user's signature.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from nbcheckpoint import config
from nbcheckpoint.backend.base import ABSENT, Backend, Entry
from nbcheckpoint.codec import pickle as codec
from nbcheckpoint.codec.chunks import BlobWriter, names_of
from nbcheckpoint.codec.cipher import Cipher
from nbcheckpoint.codec.pickle import Decoded, Reference, Resolve
from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.codec.sign import Signer
from nbcheckpoint.digests import Recogniser
from nbcheckpoint.errors import (
    ChunkPruned,
    Conflict,
    Error,
    NotFound,
    NotRestorable,
    RunBusy,
    StoreDamaged,
    StoreTooNew,
    Untrusted,
    UsageError,
)
from nbcheckpoint.events import emit
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import (
    FORMAT,
    Blob,
    Checkpoint,
    Event,
    Input,
    Owner,
    Record,
    Run,
    Step,
    Value,
    new_checkpoint_id,
    new_id,
    open_stores,
    utc_now,
)
from nbcheckpoint.redact import redact, redact_source
from nbcheckpoint.showing import RunList, StepList
from nbcheckpoint.store import lease
from nbcheckpoint.store.listing import Listing, Wanted
from nbcheckpoint.store.liveness import seen, this_process
from nbcheckpoint.store.telling import tell_changed, tell_damage, tell_started, tell_step, telling

if TYPE_CHECKING:
    from nbcheckpoint.retention import Policy
    from nbcheckpoint.store.archive import Moved
    from nbcheckpoint.store.compare import Diff
    from nbcheckpoint.store.copying import Copied
    from nbcheckpoint.store.looking import Going, Preview
    from nbcheckpoint.store.picture import Picture
    from nbcheckpoint.store.surroundings import Environment
    from nbcheckpoint.store.trust import Trusted
    from nbcheckpoint.store.upkeep import Pruned
    from nbcheckpoint.store.verify import Verified
    from nbcheckpoint.store.watching import Mark

__all__ = ["Saved", "Store", "find_store", "open_store"]

find_store = config.find_store

R = TypeVar("R", Run, Step, Checkpoint)
T = TypeVar("T")

_log = logging.getLogger("nbcheckpoint")

ENCRYPTED = b"\0encrypted\n"
"""In front of an encrypted record. No JSON begins like that."""


class Saved(NamedTuple):
    """A checkpoint on its way. It counts once `done` has a result.

    >>> from nbcheckpoint.model import Checkpoint
    >>> draft = Checkpoint(id="", created="", run="", step="", code="0" * 64)
    >>> with open_store("memory://") as store:
    ...     saved = store.save(draft, {"x": 1}, wait=False)
    ...     saved.done.result()
    >>> saved.checkpoint.names
    ('x',)
    """

    checkpoint: Checkpoint
    done: Future[None]


@dataclass(slots=True)
class _Waiting:
    """A checkpoint whose chunks are put and whose record is not written yet."""

    record: Checkpoint
    stage: Callable[[], Checkpoint] | None
    """Puts the chunks once more. It holds on to the values, until the record is written."""
    losses: int
    """As many as the store knew of when it was staged."""
    expect: str | None = ABSENT
    done: Future[None] = field(default_factory=Future)

    def succeeded(self) -> None:
        record, self.stage = self.record, None
        self.done.set_result(None)
        emit("checkpoint_saved", run=record.run, step=record.step, checkpoint=record.id, bytes=record.bytes)

    def failed(self, error: BaseException) -> None:
        if not self.done.done():
            self.stage = None
            self.done.set_exception(error)
            emit("checkpoint_failed", run=self.record.run, step=self.record.step, error=str(error))


class Store:
    """One store, open. Safe to use from several threads. `open_store` makes one.

    A run, with a step that leaves a checkpoint:

    >>> from nbcheckpoint.model import Checkpoint, Step
    >>> store = open_store("memory://")
    >>> run = store.begin_run("train.ipynb")
    >>> draft = Checkpoint(id="", created="", run=run.id, step="000000", code="0" * 64, source="x = [1, 2]")
    >>> saved = store.save(draft, {"x": [1, 2], "n": 3}, outputs=[{"output_type": "stream", "text": "hi"}])
    >>> id = saved.checkpoint.id
    >>> version = store.put_step(Step(run=run.id, address="000000", name="load", status="completed", checkpoint=id))
    >>> store.update_run(run.id, status="completed", owner=None).status
    'completed'

    Going on with it, as long as nobody else does:

    >>> mine = store.take(run.id)
    >>> mine.status, mine.sessions, store.renew(run.id, mine.owner.lease).status
    ('running', 2, 'running')
    >>> store.update_run(run.id, holder=mine.owner.lease, status="completed", owner=None).status
    'completed'

    Looking at it, which never unpickles, and getting the values back:

    >>> [found.workflow for found in store.runs(status="completed", limit=10)]
    ['train.ipynb']
    >>> store.run(run.id).status, [step.name for step in store.steps(run.id)]
    ('completed', ['load'])
    >>> [(value.name, value.type, value.preview) for value in store.checkpoint(id).values]
    [('x', 'list', '[1, 2]'), ('n', 'int', '3')]
    >>> store.outputs(store.checkpoint(id))
    [{'output_type': 'stream', 'text': 'hi'}]
    >>> [(output.kind, output.text) for output in store.preview(id).outputs]
    [('text', 'hi')]
    >>> store.environment(run.id).then
    {}
    >>> store.going([run.id])
    {}
    >>> store.mark() == store.mark()
    True
    >>> store.restore(id, ["x"])
    {'x': [1, 2]}
    >>> store.load(id, resolve=store.resolver()).values
    {'x': [1, 2], 'n': 3}
    >>> [found.id == id for found in store.find("0" * 64)]
    [True]

    Several at once, for quick work:

    >>> later = store.save(draft, {"x": [1, 2], "n": 4}, defer=True).checkpoint.id
    >>> store.flush()
    >>> found = store.diff(id, later).values[0]
    >>> found.name, found.change
    ('n', 'changed')

    What happened, as a picture, and once more from some step on:

    >>> [event.type for event in store.events(run.id)]
    ['run_started', 'step_completed', 'checkpoint_saved', 'run_completed']
    >>> store.graph(run.id).nodes[0].label
    'load'
    >>> again = store.fork(run.id, at="load", edits={"load": [1, 2, 3]})
    >>> again.meta["forked"]["run"] == run.id
    True
    >>> store.step(again.id, "000000")[0].status
    'completed'
    >>> store.cancel(again.id).status
    'cancelled'
    >>> store.answer(run.id, "gate", "yes")
    Traceback (most recent call last):
    nbcheckpoint.errors.NotFound: run ... asks nothing called 'gate'

    Looking after it:

    >>> store.pin(run.id).pinned, store.unpin(run.id).pinned, store.note(run.id, "good").note
    (True, False, 'good')
    >>> store.verify().clean
    True
    >>> moved = store.export(run.id, "run.zip")
    >>> sum(len(piece) for piece in store.archive(run.id)) > 1000     # the same, for sending it somewhere
    True
    >>> other = open_store("memory://")
    >>> other.import_("run.zip").trusted
    True
    >>> other.trust(run.id).checkpoints   # it was trusted already: we signed it ourselves
    ()
    >>> store.copy_to("memory://copied").records
    7
    >>> store.delete_checkpoint(later)
    True
    >>> [gone.id == run.id for gone in store.delete_run(run.id).runs]
    [True]
    >>> store.prune().checkpoints
    ()
    >>> store.put_run(run)                # one that could not be written when it began
    >>> len(store.private_digest("a secret"))
    64
    >>> other.close(); store.close()
    """

    def __init__(
        self, backend: Backend, signer: Signer, cipher: Cipher | None = None, *, version: int = FORMAT
    ) -> None:
        self.backend = backend
        self.version = version
        """The format it says it has. A later one than ours is listed, as far as that goes; no more."""
        self._told_too_new = False
        self._signer = signer
        self._cipher = cipher
        self._names = Recogniser()
        self._listing = Listing(lambda: self.backend, partial(self._listed, Run), legible=cipher is None)
        # One ordered writer: two saves in flight could commit in the wrong order and lose one.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-writer")
        self._pending: Future[None] | None = None
        self._deferred: list[_Waiting] = []
        self._gathering = threading.Lock()
        """Held while `_deferred` is added to or taken: what joined a batch already taken would never be written."""
        self._settling = threading.RLock()
        """Held by whatever waits for the disk: see `_settled`."""
        self._losses = 0
        """How often chunks are known to have gone that a save of ours may count on."""
        open_stores.add(self)
        if hasattr(backend, "on_damage"):
            backend.on_damage = tell_damage

    @property
    def url(self) -> str:
        """How to open the same store again."""
        return self.backend.url

    def __repr__(self) -> str:
        return f"<nbcheckpoint.Store {self.url}>"

    # Runs and steps

    def runs(
        self,
        *,
        workflow: str | None = None,
        status: str | None = None,
        text: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[Run]:
        """Newest first. `before` continues behind that run. A run whose process is gone is `interrupted`.

        `text` is looked for in workflow, id and note, in capitals or not.
        """
        wanted = Wanted(workflow=workflow, status=status, text=text, tag=tag)
        return RunList(self._listing.newest(wanted, limit=limit, before=before))

    def run(self, run: str) -> Run:
        """One run by its id. Raises NotFound."""
        return seen(self._get(Run, f"run/{run}"))

    def begin_run(self, /, workflow: str, **fields: Any) -> Run:
        """A new run, owned by this process: see `lease`."""
        now = utc_now()
        owner = lease.leased(this_process())
        run = Run(id=new_id(), workflow=workflow, created=now, updated=now, owner=owner, **fields)
        self._put(f"run/{run.id}", run, expect=ABSENT, durable=False)
        tell_started(run)
        return run

    def put_run(self, run: Run) -> None:
        """Write a run's record whole: one that could not be written when it began."""
        self._put(f"run/{run.id}", run, durable=False)
        tell_started(run)

    def take(self, run: str, *, owner: Owner | None = None) -> Run:
        """Go on with a run that is nobody's, as this process or as `owner`: one session more, `running`, a new lease.

        Raises RunBusy where its owner is alive, as far as one can tell, NotFound, and Untrusted.
        """
        wanted = lease.leased(owner or this_process())

        def taken(before: Run) -> dict[str, Any]:
            if not before.trusted:  # writing it would seal it with our key
                raise Untrusted(f"run {run} does not carry your signature")
            if seen(before).status == "running" and before.owner is not None:
                raise RunBusy(f"process {before.owner.pid} on {before.owner.host} is at work on run {run}")
            return {"owner": wanted, "status": "running", "sessions": before.sessions + 1, "updated": utc_now()}

        before, after = self._update(Run, f"run/{run}", taken, durable=False)
        tell_changed(before, after)
        return after

    def renew(self, run: str, holder: str) -> Run:
        """Say that the holder of that lease is still there. Raises Fenced, NotFound."""

        def renewed(before: Run) -> dict[str, Any]:
            lease.check(before, holder)
            return {"owner": before.owner and replace(before.owner, renewed=utc_now())}

        return self._update(Run, f"run/{run}", renewed, durable=False)[1]

    def update_run(self, /, run: str, *, durable: bool = False, holder: str | None = None, **changes: Any) -> Run:
        """Change fields of a run, whoever else changes others at the same time.

        With `holder`, only as long as that is its lease: raises Fenced, and changes nothing, if it is not.
        """

        def changed(before: Run) -> dict[str, Any]:
            if holder is not None:
                lease.check(before, holder)
            return {"updated": utc_now(), **changes}

        before, after = self._update(Run, f"run/{run}", changed, durable=durable)
        if "status" in changes:
            tell_changed(before, after)
        return after

    def steps(
        self, run: str, *, inner: bool = False, below: str = "", after: str = "", limit: int | None = None
    ) -> list[Step]:
        """The steps of a run in the order of execution; with `inner`, those that steps consist of as well.

        At most `limit` of them, behind the one with the address `after`; only those the step `below` consists of.
        """
        prefix = f"step/{run}/{below}." if below else f"step/{run}/"
        found: list[Step] = []
        start = f"step/{run}/{after}" if after else ""
        size = None if limit is None else limit if inner else max(limit, 500)
        while limit is None or len(found) < limit:
            page = self.backend.scan(prefix, after=start, limit=size)
            found += self._listed(Step, page if inner else [e for e in page if "." not in e.key[len(prefix) :]])
            if size is None or len(page) < size:
                break
            start = page[-1].key
        return StepList(found[:limit])

    def step(self, run: str, address: str) -> tuple[Step, str]:
        """One step of a run, and the version that `put_step(expect=…)` compares with. Raises NotFound."""
        key = f"step/{run}/{address}"
        found = self.backend.get(key)
        if found is None:
            raise NotFound(f"run {run} has no step {address}")
        return self._open(Step, key, found.value), found.version

    def put_step(self, step: Step, *, expect: str | None = None, durable: bool = False) -> str:
        """Write a step's record as it is now, without secrets. Returns its version.

        With `expect` only if it still has that version ("" if there must be none): otherwise raises Conflict.
        """
        reason = step.reason and replace(step.reason, text=redact(step.reason.text))
        shown = replace(step, name=redact_source(step.name), error=redact(step.error), reason=reason)
        version = self._put(f"step/{step.run}/{step.address}", shown, expect=expect, durable=durable)
        tell_step(shown)
        return version

    def answer(self, run: str, pause: str, value: Any) -> Step:
        """Answer a question a run waits with. The first answer is the answer.

        Raises NotFound where there is no such question, UsageError for one that has been answered, or for an
        answer it does not take.
        """
        from nbcheckpoint.store.pauses import answer

        return answer(self, run, pause, value)

    def events(self, run: str) -> list[Event]:
        """What happened in a run, in order, as its records tell it."""
        from nbcheckpoint.store.history import events

        return events(self, run)

    def graph(self, run: str) -> Picture:
        """A run's steps and what led to what, laid out as a picture."""
        from nbcheckpoint.store.picture import draw

        return draw(self.run(run), self.steps(run))

    def cancel(self, run: str) -> Run:
        """Call a run off. One that is being worked on stops before its next step; what is finished stays saved."""
        found = self.run(run)
        if found.status == "completed":
            raise UsageError(f"run {run} is complete", hint="nbcheckpoint delete removes it")
        meta = {**found.meta, "cancel": True}
        return self.update_run(run, durable=True, meta=meta, **({} if found.status == "running" else _OFF))

    def fork(self, run: str, *, at: str, edits: Mapping[str, Any] | None = None) -> Run:
        """A new run that has everything of another up to and including the step `at`, a name or an address.

        What comes behind is computed when it is resumed, with `edits` (step -> result) in place of what those steps
        had left. Questions are asked again. Raises NotFound, Untrusted.
        """
        from nbcheckpoint.store.forking import fork

        return fork(self, run, at, edits or {})

    # Checkpoints

    def checkpoint(self, id: str) -> Checkpoint:
        """One checkpoint by its id. Raises NotFound, StoreTooNew."""
        return self._get(Checkpoint, f"checkpoint/{id}")

    def delete_checkpoint(self, id: str) -> bool:
        """Forget one checkpoint. Its bytes are given back by the next `prune`. False if there was none."""
        self._check_version()
        return self.backend.delete(f"checkpoint/{id}")

    def find(self, code: str, inputs: str = "", *, limit: int | None = 20) -> list[Checkpoint]:
        """Checkpoints this code (with these inputs) has left, newest first. Only our own: others are not hits."""
        prefix = f"checkpoint/{code[:16]}-" + (f"{inputs[:16]}-" if inputs else "")
        if self.version > FORMAT:
            return []
        found = self._listed(Checkpoint, self.backend.scan(prefix, limit=None))
        mine = [c for c in found if c.trusted and c.code == code and c.inputs_digest.startswith(inputs)]
        return sorted(mine, key=lambda c: c.id.rpartition("-")[2], reverse=True)[:limit]

    def save(
        self,
        draft: Checkpoint,
        values: Mapping[str, Any],
        *,
        outputs: Sequence[Any] = (),
        references: Mapping[int, Reference] | None = None,
        wait: bool = True,
        defer: bool = False,
    ) -> Saved:
        """Save the values a step left, as `draft` describes it; its id, values and blobs are filled in here.

        A value that cannot be saved is listed in `not_saved` and costs only itself. `references` (id of a live
        object -> where it is saved) lets values refer to objects of earlier checkpoints instead of holding them.

        With `wait=False` the bytes have been handed to the system on return and become durable in the background:
        `done` tells, and an event. A save waits for the one before it, whose failure is not its own.

        With `defer=True` it is committed together with the next one that is not, or by `flush`: for work so quick
        that doing it again costs less than a sync of the disk.

        What was found present and has been pruned before the commit is put again, once. If the values have changed by
        then, which only happens without waiting, the save fails with ChunkPruned: nothing is saved in their place.
        """
        if self._pending is not None:
            wait_for([self._pending])
        losses, stage = self._losses, partial(self._stage, draft, dict(values), outputs, references)
        try:
            waiting = _Waiting(stage(), stage, losses)
        except Error as error:
            emit("checkpoint_failed", run=draft.run, step=draft.step, error=str(error))
            raise
        with self._gathering:
            self._deferred.append(waiting)
        if not defer and wait:
            self.flush()
            waiting.done.result()  # another thread may have taken it along, and not be done yet
        elif not defer:
            self._commit_deferred()
        return Saved(waiting.record, waiting.done)

    def _stage(
        self,
        draft: Checkpoint,
        values: Mapping[str, Any],
        outputs: Sequence[Any],
        references: Mapping[int, Reference] | None,
    ) -> Checkpoint:
        """Put the chunks; returns the record that names them, which is yet to be written."""
        self._check_version()
        encrypt = partial(self._cipher.encrypt, context=b"chunk") if self._cipher else None
        writer = BlobWriter(self.backend.put_chunks, self._names, encrypt=encrypt)
        encoded = codec.encode(values, writer, references=references)
        shown = writer.blob(msgspec.json.encode(outputs)) if outputs else None
        return replace(
            draft,
            name=redact_source(draft.name),
            source=redact_source(draft.source),
            id=new_checkpoint_id(draft.code, draft.inputs_digest),
            created=utc_now(),
            values=tuple(_describe(name, values[name]) for name in encoded.names),
            not_saved=tuple(replace(item, why=redact(item.why)) for item in (*draft.not_saved, *encoded.failed)),
            stream=encoded.stream,
            buffers=encoded.buffers,
            definitions=tuple(_definition(name) for name in encoded.live),
            needs=tuple(sorted({reference.checkpoint for reference in encoded.referred} - {""})),
            outputs=shown,
            bytes=writer.written,
        )

    def _taken(self) -> list[_Waiting]:
        with self._gathering:
            batch, self._deferred = self._deferred, []
            return batch

    def _commit_deferred(self) -> None:
        batch = self._taken()
        self._pending = self._writer.submit(self._commit, batch)

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        """In order, and all as durable as the last. What a prune took away meanwhile is put again, once."""
        try:
            with self._settling:
                try:
                    self._write(batch)
                except ChunkPruned:
                    self._losses += 1
                    self._write(batch)
        except BaseException as error:  # a fault of ours, too, must not leave anybody waiting
            for item in batch:
                item.failed(error)
        for item in batch:
            item.done.result()

    def _write(self, batch: Sequence[_Waiting]) -> None:
        left = [item for item in batch if not item.done.done() and self._is_whole(item)]
        if any(blob.chunk_size for item in left[:-1] for blob in item.record.blobs):
            self.backend.sync()  # no record is seen before its chunks
        for item in left:
            # One sync of the disk for all of them. On a second try some may be there already, and stay.
            self._write_record(f"checkpoint/{item.record.id}", item.record, item.expect, durable=item is left[-1])
            item.expect = None
        for item in left:
            item.succeeded()

    def _is_whole(self, item: _Waiting) -> bool:
        """Is all there that its record names, put again if need be? If not, it has failed.

        A loss is told once, to whoever syncs next; so after one, everybody who was saving looks again. The values
        may have changed since they were saved: then nothing can be put in place of what is gone.
        """
        if item.losses == self._losses:
            return True
        item.losses = self._losses
        lost = self._lost_chunk(item.record)
        if lost and item.stage is not None:
            again = item.stage()
            if again.blobs != item.record.blobs:
                item.failed(ChunkPruned(lost))
                return False
            item.record = replace(item.record, bytes=item.record.bytes + again.bytes)
        return True

    def _lost_chunk(self, record: Checkpoint) -> str:
        """A chunk the record names that is not there, or ""."""
        for blob in record.blobs:
            if blob.index and not self.backend.has_chunk(blob.index):
                return blob.index
            for name in names_of(blob, self.backend.read_chunk):
                if not self.backend.has_chunk(name):
                    return name
        return ""

    def _settled(self, work: Callable[[], T]) -> T:
        """Do what waits for the disk and is no save. Told of a lost chunk, it lets those who save know, and goes on."""
        with self._settling:
            try:
                return work()
            except ChunkPruned:
                self._losses += 1
                return work()

    def _sync(self) -> None:
        self._settled(self.backend.sync)

    def flush(self) -> None:
        """Wait until everything saved so far is durable; raises what went wrong with it."""
        pending, self._pending = self._pending, None
        if pending is not None:
            wait_for([pending])
        batch = self._taken()
        if batch:
            self._commit(batch)  # here and now: handing it to the writer would take two switches of threads
        elif pending is not None:
            pending.result()

    def restore(self, id: str, names: Sequence[str] | None = None, *, resolve: Resolve | None = None) -> dict[str, Any]:
        """The values of a checkpoint by name, all of them or those named. Raises Untrusted, NotRestorable."""
        loaded = self.load(id, resolve=resolve)
        wanted = loaded.values.keys() | loaded.failed.keys() if names is None else names
        unknown = set(wanted) - loaded.values.keys() - loaded.failed.keys()
        if unknown:
            raise NotFound(f"checkpoint {id} has no {', '.join(sorted(unknown))}")
        for name in wanted:
            if name in loaded.failed:
                raise NotRestorable(name, loaded.failed[name], hint="run the cell that defines it first")
        return {name: loaded.values[name] for name in wanted}

    def load(self, id: str, *, resolve: Resolve | None = None) -> Decoded:
        """What of a checkpoint can be made again, and why the rest cannot.

        Raises Untrusted before a byte of it is unpickled. `resolve` gives the live object for a reference to an
        earlier checkpoint; without it, that checkpoint is loaded too.
        """
        self._check_version()
        checkpoint = self.checkpoint(id)
        if not checkpoint.trusted:
            raise Untrusted(f"checkpoint {id} does not carry your signature")
        if checkpoint.stream is None:
            return Decoded({}, {})
        with telling():
            stream = self._read(checkpoint.stream)
            buffers = [self._map(blob) for blob in checkpoint.buffers]
        try:
            loaded = codec.decode(stream, buffers, resolve or self.resolver())
        except Error:
            raise
        except Exception as error:  # unpickling runs the users' own __setstate__ and imports
            why = f"{type(error).__name__}: {error}"
            raise NotRestorable(", ".join(checkpoint.names), why) from error
        emit("checkpoint_restored", run=checkpoint.run, step=checkpoint.step, checkpoint=id)
        return loaded

    def resolver(self) -> Resolve:
        """What resolves references to other checkpoints: each is loaded once, so that two references to one object are
        one object."""
        known: dict[str, dict[str, Any]] = {}

        def resolve(reference: Reference) -> Any:
            if not reference.checkpoint:
                raise NotRestorable(reference.name, "it was given by the caller, and is not in the store")
            if reference.checkpoint not in known:
                known[reference.checkpoint] = self.restore(reference.checkpoint, resolve=resolve)
            return known[reference.checkpoint][reference.name]

        return resolve

    def outputs(self, checkpoint: Checkpoint) -> list[dict[str, Any]]:
        """What the step displayed, in order, as notebook outputs."""
        if checkpoint.outputs is None:
            return []
        return msgspec.json.decode(self._read(checkpoint.outputs), type=list[dict[str, Any]])

    def _read(self, blob: Blob) -> bytes:
        """A blob's bytes, every one of them checked against the names the record gives."""
        if not blob.chunk_size:
            return blob.data
        data = b"".join(self._pieces(blob))
        if len(data) != blob.size:
            raise StoreDamaged(f"{len(data)} bytes where {blob.size} were saved")
        return data

    def _pieces(self, blob: Blob) -> Iterator[bytes]:
        for name in names_of(blob, self._read_chunk):
            data = self._read_chunk(name)
            yield self._decrypted(data, b"chunk") if blob.encrypted else data

    def _read_chunk(self, name: str) -> bytes:
        try:
            return self.backend.read_chunk(name)
        except NotFound as error:
            raise StoreDamaged(f"a part of the checkpoint is missing: {error}", key=name) from error

    def _decrypted(self, data: bytes, context: bytes) -> bytes:
        if self._cipher is None:
            raise Untrusted("it is encrypted with a key that is not here", hint="open it as the user who wrote it")
        return self._cipher.decrypt(data, context)

    def _map(self, blob: Blob) -> bytearray | memoryview:
        """A blob as private writeable memory."""
        if not blob.chunk_size:
            return bytearray(blob.data)
        if blob.encrypted:
            return bytearray().join(self._pieces(blob))
        names = names_of(blob, self._read_chunk)
        try:
            return self.backend.map_chunks(names, blob.size)
        except NotFound as error:
            lost = next((name for name in names if not self.backend.has_chunk(name)), "")
            raise StoreDamaged(f"a part of the checkpoint is missing: {error}", key=lost) from error

    def _forget(self) -> None:
        """In a forked child: the writer's thread is not there, and what the parent was saving is the parent's."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-writer")
        self._pending, self._deferred = None, []
        self._gathering, self._settling = threading.Lock(), threading.RLock()

    def close(self) -> None:
        """Wait for what is being saved, then let go of everything."""
        try:
            self.flush()
        finally:
            open_stores.discard(self)
            self._writer.shutdown()
            self.backend.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def private_digest(self, text: str) -> str:
        """The identity of a secret: means something only to this user, and tells nobody what the secret is."""
        return self._signer.digest(text)

    # Records

    def _put(self, key: str, record: Record, *, expect: str | None = None, durable: bool) -> str:
        write = partial(self._write_record, key, record, expect, durable=durable)
        with telling():
            return self._settled(write) if durable else write()

    def _write_record(self, key: str, record: Record, expect: str | None, *, durable: bool) -> str:
        self._check_version()
        sealed = self._signer.seal(key, record.to_json())
        if self._cipher is not None:
            sealed = ENCRYPTED + self._cipher.encrypt(sealed, key.encode())
        return self.backend.put(key, sealed, expect=expect, durable=durable)

    def _get(self, kind: type[R], key: str) -> R:
        found = self.backend.get(key)
        if found is None:
            raise NotFound(f"no {key.replace('/', ' ', 1)}", hint="nbcheckpoint runs lists what there is")
        return self._open(kind, key, found.value)

    def _update(self, kind: type[R], key: str, changes: Callable[[R], dict[str, Any]], *, durable: bool) -> tuple[R, R]:
        """The record as it was, and as it is now. `changes` is asked again when someone else was faster."""
        while True:
            found = self.backend.get(key)
            if found is None:
                raise NotFound(f"no {key.replace('/', ' ', 1)}")
            before = self._open(kind, key, found.value)
            record = replace(before, **changes(before))
            try:
                self._put(key, record, expect=found.version, durable=durable)
            except Conflict:
                continue  # someone else was faster: their change is kept, ours is made on top of it
            return before, record

    def _open(self, kind: type[R], key: str, sealed: bytes) -> R:
        if sealed.startswith(ENCRYPTED):
            sealed = self._decrypted(sealed[len(ENCRYPTED) :], key.encode())
        body, trusted = self._signer.open(key, sealed)
        try:
            record = kind.from_json(body)
        except msgspec.MsgspecError as error:
            self._check_version()  # then it is none of our business what it says
            raise StoreDamaged(f"the record {key} cannot be read: {error}", key=key) from error
        if isinstance(record, Checkpoint) and record.format > FORMAT:
            raise StoreTooNew(f"{key} was written in format {record.format}", version=record.format)
        return record if trusted == record.trusted else replace(record, trusted=trusted)

    def _listed(self, kind: type[R], entries: Iterable[Entry]) -> Iterator[R]:
        """The records among which those of a later version are left out, and told once."""
        for entry in entries:
            try:
                yield self._open(kind, entry.key, entry.value)
            except StoreTooNew as error:
                if not self._told_too_new:
                    self._told_too_new = True
                    _log.warning("%s · %s", error, error.hint)

    def _check_version(self) -> None:
        if self.version > FORMAT:
            raise StoreTooNew(f"{self.url} was written in format {self.version}", version=self.version)

    # Upkeep. Each of these is a module of its own; imported when used.

    def pin(self, run: str) -> Run:
        """Keep a run whatever retention says. Raises NotFound, Untrusted."""
        return self._annotate(run, pinned=True)

    def unpin(self, run: str) -> Run:
        """Let retention have a run again."""
        return self._annotate(run, pinned=False)

    def note(self, run: str, text: str) -> Run:
        """Write something beside a run."""
        return self._annotate(run, note=text)

    def _annotate(self, run: str, **changes: Any) -> Run:
        found = self.run(run)
        if not found.trusted:
            # Writing it would seal it with our key, and so vouch for all of it.
            raise Untrusted(f"run {run} does not carry your signature")
        return self.update_run(run, durable=True, **{"updated": found.updated, **changes})

    def delete_run(self, run: str) -> Pruned:
        """Remove a run and what only it used. Raises NotFound."""
        from nbcheckpoint.store.upkeep import delete_run

        return delete_run(self, run)

    def prune(self, policy: Policy | None = None, *, dry_run: bool = False, grace_seconds: float = 3600.0) -> Pruned:
        """Remove what the policy does not keep, and say what and why. Safe while others save; may be killed."""
        from nbcheckpoint.store.upkeep import prune

        return prune(self, policy, dry_run=dry_run, grace_seconds=grace_seconds)

    def verify(self, *, repair: bool = False, progress: Callable[[int, int], object] | None = None) -> Verified:
        """Read everything and say what is not as it was written; `repair` sets that aside."""
        from nbcheckpoint.store.verify import verify

        return verify(self, repair=repair, progress=progress)

    def diff(self, a: str, b: str) -> Diff:
        """What differs between two checkpoints: names, code, inputs. Nothing is unpickled. Raises NotFound."""
        from nbcheckpoint.store.compare import diff

        return diff(self, a, b)

    def preview(self, id: str) -> Preview:
        """What a checkpoint left, for people to look at: text and pictures, nothing unpickled. Raises NotFound."""
        from nbcheckpoint.store.looking import preview

        return preview(self, id)

    def environment(self, run: str) -> Environment:
        """In what surroundings a run was made, and what of that is different here and now. Raises NotFound."""
        from nbcheckpoint.store.surroundings import environment

        return environment(self, run)

    def going(self, runs: Iterable[str]) -> dict[str, Going]:
        """Run -> how far the step it is in has come, for those of which that is known."""
        from nbcheckpoint.store.looking import going

        return going(self, runs)

    def mark(self) -> Mark:
        """Equal as long as no run and no step of a running one has changed. Cheap enough to be asked often."""
        from nbcheckpoint.store.watching import mark

        return mark(self)

    def archive(self, run: str) -> Iterator[bytes]:
        """What `export` writes, piece by piece as it is made. Raises like it, some of it only on the way."""
        from nbcheckpoint.store.archive import pieces

        return pieces(self, run)

    def export(
        self, run: str, file: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
    ) -> Moved:
        """Write a run with all that belongs to it into one file. Raises NotFound, StoreDamaged."""
        from nbcheckpoint.store.archive import export

        return export(self, run, file, progress=progress)

    def import_(
        self,
        file: str | os.PathLike[str] | IO[bytes],
        trust: bool = False,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Moved:
        """Read such a file. What others signed is listed, and not loaded until it is trusted."""
        from nbcheckpoint.store.archive import import_

        return import_(self, file, trust=trust, progress=progress)

    def trust(self, id: str) -> Trusted:
        """Vouch for a run, or a checkpoint, that somebody else signed: from here on it may be loaded."""
        from nbcheckpoint.store.trust import trust

        return trust(self, id)

    def copy_to(self, url: str, *, progress: Callable[[int, int], object] | None = None) -> Copied:
        """Copy everything to another store. May be interrupted and called again."""
        from nbcheckpoint.store.copying import copy_to

        return copy_to(self, url, progress=progress)


def _describe(name: str, value: Any) -> Value:
    size = getattr(value, "nbytes", 0)
    return Value(
        name=name,
        type=type_name(value),
        shape=shape_of(value),
        preview=preview(value, name),
        size=size if isinstance(size, int) else 0,
    )


def _definition(name: str) -> Input:
    """A function or class of the notebook as it is now, with all it reads."""
    return Input(name=name, digest=definition_digest(name) or "")


def definition_digest(name: str) -> str | None:
    """The identity of a live function or class of the notebook; None if there is none of that name."""
    found: Any = sys.modules["__main__"]
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        return None
    try:
        return Digester().deep(name, found)
    except Unidentified:
        return None


_OFF: dict[str, Any] = {"status": "cancelled", "owner": None}


def _after_fork() -> None:
    for store in open_stores:
        store._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def open_store(url: str | os.PathLike[str] | None = None, *, create: bool = True, encrypt: bool | None = None) -> Store:
    """Open the store at a URL or folder; None finds it: environment, nearest `.nbcheckpoint`, project root.

    With `create=False` a folder that is no store raises NotFound instead of becoming one. `encrypt=True` (or
    NBCHECKPOINT_ENCRYPT=1) makes a *new* store an encrypted one; an existing store stays what it is.

    Raises StoreDamaged, StoreTooNew, StoreLocked and other StoreErrors, and UsageError for a URL nobody knows.

    >>> with open_store("checkpoints") as store:
    ...     run = store.begin_run("train.ipynb")
    >>> with open_store("checkpoints", create=False) as store:
    ...     [run.workflow for run in store.runs()]
    ['train.ipynb']
    """
    location = config.store_location(url)
    backend = _open_backend(location, create=create)
    try:
        wanted = bool(os.environ.get(config.ENV_ENCRYPT)) if encrypt is None else encrypt
        said = _read_format(backend, wanted)
        if said.format > FORMAT:
            backend.read_only = True  # whatever we wrote might be wrong there
        cipher = Cipher(config.encryption_key(create=False)) if said.encrypted else None
        return Store(backend, Signer(config.signing_key()), cipher, version=said.format)
    except Error:
        backend.close()
        raise


def _open_backend(location: str, *, create: bool) -> Backend:
    scheme, separator, _ = location.partition("://")
    if not separator or scheme == "file":
        from nbcheckpoint.backend.disk import DiskBackend

        folder = Path(location.removeprefix("file://"))
        if not create and not (folder / "cache.db").exists():
            raise NotFound(f"there is no store at {folder}", hint="run a cell with %%checkpointed to make one")
        return DiskBackend.from_url(location)
    if scheme == "memory":
        from nbcheckpoint.backend.memory import MemoryBackend

        return MemoryBackend.from_url(location)
    from importlib.metadata import entry_points

    for entry in entry_points(group="nbcheckpoint.backends", name=scheme):
        opener = entry.load()
        backend: Backend = opener(location)
        return backend
    raise UsageError(f"no backend for {scheme}://", hint="a folder and memory:// work out of the box")


class Format(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What a store says about itself."""

    format: int = FORMAT
    encrypted: bool = False


def _read_format(backend: Backend, encrypt: bool) -> Format:
    """What the store says about itself, written into a new one."""
    found = backend.get("format")
    if found is None and not backend.read_only:
        mine = Format(encrypted=encrypt)
        if encrypt:
            Cipher(config.encryption_key(create=True))
        try:
            backend.put("format", _format.encode(mine), expect=ABSENT, durable=False)
            return mine
        except Conflict:
            found = backend.get("format")  # another process was first
    if found is None:
        return Format()
    try:
        return Format.from_json(found.value)
    except msgspec.MsgspecError as error:
        raise StoreDamaged("what the store says about itself cannot be read", key="format") from error


_format = msgspec.json.Encoder()

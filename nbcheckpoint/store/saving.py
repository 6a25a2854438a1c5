"""From values to a checkpoint that counts: chunks first, the record last, durably.

One ordered writer commits; what was found present and pruned before the commit is put again, once. See `Store.save`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from nbcheckpoint.backend.base import ABSENT, Backend
from nbcheckpoint.codec import pickle as codec
from nbcheckpoint.codec.chunks import BlobWriter, names_of
from nbcheckpoint.codec.cipher import Cipher
from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.codec.sign import Signer
from nbcheckpoint.digests import Recogniser
from nbcheckpoint.errors import ChunkPruned, Error
from nbcheckpoint.events import emit
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Input, Value, encode, new_checkpoint_id, utc_now
from nbcheckpoint.redact import redact, redact_source
from nbcheckpoint.store.sealed import Sealed


class Saved(NamedTuple):
    """A checkpoint on its way. It counts once `done` has a result.

    >>> from nbcheckpoint.model import Checkpoint
    >>> from nbcheckpoint.store import open_store
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
    stage: partial[Checkpoint] | None
    """Puts the chunks once more. It holds on to the values, until the record is written or they are let go."""
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


class Saving(Sealed):
    """The part of a store that saves."""

    def __init__(self, backend: Backend, signer: Signer, cipher: Cipher | None, version: int) -> None:
        super().__init__(backend, signer, cipher, version)
        self._names = Recogniser()
        # One ordered writer: two saves in flight could commit in the wrong order and lose one.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-writer")
        self._pending: Future[None] | None = None
        self._deferred: list[_Waiting] = []
        self._gathering = threading.Lock()
        """Held while `_deferred` is added to or taken: what joined a batch already taken would never be written."""

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
            record = stage()
            chunked = any(blob.chunk_size for blob in record.blobs)
            waiting = _Waiting(record, stage if chunked else None, losses)  # all in the record: nothing to put again
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

    def let_go(self, live: Mapping[str, Any]) -> None:
        """Hold on no longer to values that are yet to be committed and are not to be found in `live` by their names.

        Without us they would be freed. Should a prune take away what one of them was found to have in the store, its
        checkpoint fails.
        """
        with self._gathering:
            for item in self._deferred:
                values: Mapping[str, Any] = item.stage.args[1] if item.stage is not None else {}
                if any(live.get(name) is not value for name, value in values.items() if ":" not in name):
                    item.stage = None

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
        shown = writer.blob(encode(outputs)) if outputs else None
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
        if lost:
            again = item.stage() if item.stage is not None else None
            if again is None or again.blobs != item.record.blobs:
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

    def _forget(self) -> None:
        """In a forked child: the writer's thread is not there, and what the parent was saving is the parent's."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-writer")
        self._pending, self._deferred = None, []
        self._gathering, self._settling = threading.Lock(), threading.RLock()


def _describe(name: str, value: Any) -> Value:
    try:
        # Asked of its class first: an object may make up the attributes it is asked for, and keep them.
        size = getattr(value, "nbytes", 0) if hasattr(type(value), "nbytes") else 0
    except Exception:  # a property may raise what it likes, as that of a sparse tensor does
        size = 0
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

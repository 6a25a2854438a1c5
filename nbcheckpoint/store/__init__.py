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

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from nbcheckpoint import config
from nbcheckpoint.backend.base import ABSENT, Backend
from nbcheckpoint.codec import pickle as codec
from nbcheckpoint.codec.chunks import BlobWriter, names_of
from nbcheckpoint.codec.cipher import Cipher
from nbcheckpoint.codec.pickle import Decoded, Reference, Resolve
from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.codec.sign import Signer
from nbcheckpoint.digests import Recogniser
from nbcheckpoint.errors import (
    Conflict,
    Error,
    NotFound,
    NotRestorable,
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
    Input,
    Record,
    Run,
    Step,
    Value,
    new_checkpoint_id,
    new_id,
    utc_now,
)
from nbcheckpoint.store.liveness import seen, this_process

if TYPE_CHECKING:
    from nbcheckpoint.retention import Policy
    from nbcheckpoint.store.archive import Moved
    from nbcheckpoint.store.compare import Diff
    from nbcheckpoint.store.copying import Copied
    from nbcheckpoint.store.trust import Trusted
    from nbcheckpoint.store.upkeep import Pruned
    from nbcheckpoint.store.verify import Verified

__all__ = ["Saved", "Store", "find_store", "open_store"]

find_store = config.find_store

R = TypeVar("R", Run, Step, Checkpoint)

ENCRYPTED = b"\0encrypted\n"
"""In front of an encrypted record. No JSON begins like that."""


class Saved(NamedTuple):
    """A checkpoint on its way. It counts once `done` has a result."""

    checkpoint: Checkpoint
    done: Future[None]


class Store:
    """One store, open. Safe to use from several threads."""

    def __init__(self, backend: Backend, signer: Signer, cipher: Cipher | None = None) -> None:
        self.backend = backend
        self._signer = signer
        self._cipher = cipher
        self._names = Recogniser()
        # One ordered writer: two saves in flight could commit in the wrong order and lose one.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-writer")
        self._pending: Future[None] | None = None
        self._deferred: list[Checkpoint] = []

    @property
    def url(self) -> str:
        return self.backend.url

    def __repr__(self) -> str:
        return f"<nbcheckpoint.Store {self.url}>"

    # Runs and steps

    def runs(
        self,
        *,
        workflow: str | None = None,
        status: str | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[Run]:
        """Newest first. `before` continues behind that run. A run whose process is gone is `interrupted`."""
        found: list[Run] = []
        after = f"run/{before}" if before else ""
        while limit is None or len(found) < limit:
            page = 2000 if limit is None or workflow or status else limit - len(found)
            entries = self.backend.scan("run/", after=after, limit=page, reverse=True)
            for entry in entries:
                run = seen(self._open(Run, entry.key, entry.value))
                if (workflow is None or run.workflow == workflow) and (status is None or run.status == status):
                    found.append(run)
            if len(entries) < page:
                break
            after = entries[-1].key
        return found if limit is None else found[:limit]

    def run(self, run: str) -> Run:
        """One run by its id. Raises NotFound."""
        return seen(self._get(Run, f"run/{run}"))

    def begin_run(self, workflow: str, **fields: Any) -> Run:
        """A new run, owned by this process."""
        now = utc_now()
        run = Run(id=new_id(), workflow=workflow, created=now, updated=now, owner=this_process(), **fields)
        self._put(f"run/{run.id}", run, expect=ABSENT, durable=False)
        return run

    def put_run(self, run: Run) -> None:
        """Write a run's record whole: one that could not be written when it began."""
        self._put(f"run/{run.id}", run, durable=False)

    def update_run(self, run: str, *, durable: bool = False, **changes: Any) -> Run:
        """Change fields of a run, whoever else changes others at the same time."""
        return self._update(Run, f"run/{run}", {"updated": utc_now(), **changes}, durable=durable)

    def steps(self, run: str, *, inner: bool = False) -> list[Step]:
        """The steps of a run in the order of execution; with `inner`, those that steps consist of as well."""
        found = [self._open(Step, entry.key, entry.value) for entry in self.backend.scan(f"step/{run}/")]
        return [step for step in found if inner or "." not in step.address]

    def put_step(self, step: Step, *, durable: bool = False) -> None:
        """Write a step's record as it is now."""
        self._put(f"step/{step.run}/{step.address}", step, durable=durable)

    # Checkpoints

    def checkpoint(self, id: str) -> Checkpoint:
        """One checkpoint by its id. Raises NotFound, StoreTooNew."""
        return self._get(Checkpoint, f"checkpoint/{id}")

    def find(self, code: str, inputs: str = "", *, limit: int | None = 20) -> list[Checkpoint]:
        """Checkpoints this code (with these inputs) has left, newest first. Only our own: others are not hits."""
        prefix = f"checkpoint/{code[:16]}-" + (f"{inputs[:16]}-" if inputs else "")
        found = [self._open(Checkpoint, e.key, e.value) for e in self.backend.scan(prefix, limit=None)]
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
        """
        if self._pending is not None:
            wait_for([self._pending])
        encrypt = partial(self._cipher.encrypt, context=b"chunk") if self._cipher else None
        writer = BlobWriter(self.backend.put_chunk, self._names, encrypt=encrypt)
        encoded = codec.encode(values, writer, references=references)
        checkpoint = replace(
            draft,
            id=new_checkpoint_id(draft.code, draft.inputs_digest),
            created=utc_now(),
            values=tuple(_describe(name, values[name]) for name in encoded.names),
            not_saved=(*draft.not_saved, *encoded.failed),
            stream=encoded.stream,
            buffers=encoded.buffers,
            definitions=tuple(_definition(name) for name in encoded.live),
            needs=tuple(sorted({reference.checkpoint for reference in encoded.referred})),
            outputs=writer.blob(msgspec.json.encode(outputs)) if outputs else None,
        )
        record = replace(checkpoint, bytes=writer.written)
        self._deferred.append(record)
        if defer:
            return Saved(record, Future())
        pending = self._commit_deferred()
        if wait:
            self.flush()
            return Saved(record, _done())
        return Saved(record, pending)

    def _commit_deferred(self) -> Future[None]:
        records, self._deferred = self._deferred, []
        self._pending = self._writer.submit(self._commit, records)
        return self._pending

    def _commit(self, records: Sequence[Checkpoint]) -> None:
        """In order, and all as durable as the last: one sync of the disk for all of them."""
        for record in records:
            self._commit_one(record, durable=record is records[-1])

    def _commit_one(self, record: Checkpoint, *, durable: bool) -> None:
        try:
            self._put(f"checkpoint/{record.id}", record, expect=ABSENT, durable=durable)
        except Error as error:
            emit("checkpoint_failed", run=record.run, step=record.step, error=str(error))
            raise
        emit("checkpoint_saved", run=record.run, step=record.step, checkpoint=record.id, bytes=record.bytes)

    def flush(self) -> None:
        """Wait until everything saved so far is durable; raises what went wrong with it."""
        if self._pending is not None:
            wait_for([self._pending])
        pending = self._commit_deferred() if self._deferred else self._pending
        self._pending = None
        if pending is not None:
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
        checkpoint = self.checkpoint(id)
        if not checkpoint.trusted:
            raise Untrusted(f"checkpoint {id} does not carry your signature")
        if checkpoint.stream is None:
            return Decoded({}, {})
        stream = self._read(checkpoint.stream)
        buffers = [self._map(blob) for blob in checkpoint.buffers]
        try:
            loaded = codec.decode(stream, buffers, resolve or self._resolver())
        except Error:
            raise
        except Exception as error:  # unpickling runs the users' own __setstate__ and imports
            why = f"{type(error).__name__}: {error}"
            raise NotRestorable(", ".join(checkpoint.names), why) from error
        emit("checkpoint_restored", run=checkpoint.run, step=checkpoint.step, checkpoint=id)
        return loaded

    def _resolver(self) -> Resolve:
        """Loads each checkpoint that is referred to once, so that two references to one object are one object."""
        known: dict[str, dict[str, Any]] = {}

        def resolve(reference: Reference) -> Any:
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
        try:
            data = b"".join(self._pieces(blob))
        except NotFound as error:
            raise StoreDamaged(f"a part of the checkpoint is missing: {error}") from error
        if len(data) != blob.size:
            raise StoreDamaged(f"{len(data)} bytes where {blob.size} were saved")
        return data

    def _pieces(self, blob: Blob) -> Iterator[bytes]:
        for name in names_of(blob, self.backend.read_chunk):
            data = self.backend.read_chunk(name)
            yield self._decrypted(data, b"chunk") if blob.encrypted else data

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
        try:
            return self.backend.map_chunks(names_of(blob, self.backend.read_chunk), blob.size)
        except NotFound as error:
            raise StoreDamaged(f"a part of the checkpoint is missing: {error}") from error

    def close(self) -> None:
        """Wait for what is being saved, then let go of everything."""
        try:
            self.flush()
        finally:
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

    def _put(self, key: str, record: Record, *, expect: str | None = None, durable: bool) -> None:
        sealed = self._signer.seal(key, record.to_json())
        if self._cipher is not None:
            sealed = ENCRYPTED + self._cipher.encrypt(sealed, key.encode())
        self.backend.put(key, sealed, expect=expect, durable=durable)

    def _get(self, kind: type[R], key: str) -> R:
        found = self.backend.get(key)
        if found is None:
            raise NotFound(f"no {key.replace('/', ' ', 1)}", hint="nbcheckpoint runs lists what there is")
        return self._open(kind, key, found.value)

    def _update(self, kind: type[R], key: str, changes: dict[str, Any], *, durable: bool) -> R:
        while True:
            found = self.backend.get(key)
            if found is None:
                raise NotFound(f"no {key.replace('/', ' ', 1)}")
            record = replace(self._open(kind, key, found.value), **changes)
            try:
                self._put(key, record, expect=found.version, durable=durable)
            except Conflict:
                continue  # someone else was faster: their change is kept, ours is made on top of it
            return record

    def _open(self, kind: type[R], key: str, sealed: bytes) -> R:
        if sealed.startswith(ENCRYPTED):
            sealed = self._decrypted(sealed[len(ENCRYPTED) :], key.encode())
        body, trusted = self._signer.open(key, sealed)
        try:
            record = kind.from_json(body)
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"the record {key} cannot be read: {error}") from error
        if isinstance(record, Checkpoint) and record.format > FORMAT:
            raise StoreTooNew(f"{key} was written in format {record.format}", version=record.format)
        return record if trusted == record.trusted else replace(record, trusted=trusted)

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

    def export(
        self, run: str, file: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
    ) -> Moved:
        """Write a run with all that belongs to it into one file. Raises NotFound, StoreDamaged."""
        from nbcheckpoint.store.archive import export

        return export(self, run, file, progress=progress)

    def import_(
        self,
        file: str | os.PathLike[str],
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
        preview=preview(value),
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


def _done() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


def open_store(url: str | os.PathLike[str] | None = None, *, create: bool = True, encrypt: bool | None = None) -> Store:
    """Open the store at a URL or folder; None finds it: environment, nearest `.nbcheckpoint`, project root.

    With `create=False` a folder that is no store raises NotFound instead of becoming one. `encrypt=True` (or
    NBCHECKPOINT_ENCRYPT=1) makes a *new* store an encrypted one; an existing store stays what it is.
    """
    location = config.store_location(url)
    backend = _open_backend(location, create=create)
    try:
        wanted = bool(os.environ.get(config.ENV_ENCRYPT)) if encrypt is None else encrypt
        cipher = _cipher_for(backend, wanted)
        return Store(backend, Signer(config.signing_key()), cipher)
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


def _cipher_for(backend: Backend, encrypt: bool) -> Cipher | None:
    """Read what the store says about itself, writing it into a new one; refuse what is too new for us."""
    found = backend.get("format")
    if found is None:
        mine = Format(encrypted=encrypt)
        cipher = Cipher(config.encryption_key(create=True)) if encrypt else None
        if not backend.read_only:
            try:
                backend.put("format", _format.encode(mine), expect=ABSENT, durable=False)
                return cipher
            except Conflict:
                found = backend.get("format")  # another process was first
    if found is None:
        return None
    try:
        said = Format.from_json(found.value)
    except msgspec.MsgspecError as error:
        raise StoreDamaged("what the store says about itself cannot be read") from error
    if said.format > FORMAT:
        raise StoreTooNew(f"this store was written in format {said.format}", version=said.format)
    return Cipher(config.encryption_key(create=False)) if said.encrypted else None


_format = msgspec.json.Encoder()

"""From a checkpoint back to values. Nothing is unpickled before its signature was checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from nbcheckpoint.backend.base import Entry
from nbcheckpoint.codec import pickle as codec
from nbcheckpoint.codec.chunks import names_of
from nbcheckpoint.codec.pickle import Decoded, Reference, Resolve
from nbcheckpoint.errors import Error, NotFound, NotRestorable, StoreDamaged, Untrusted
from nbcheckpoint.events import emit
from nbcheckpoint.model import FORMAT, Blob, Checkpoint
from nbcheckpoint.store.sealed import Sealed
from nbcheckpoint.store.telling import telling


def _made(key: str) -> str:
    """The part of a checkpoint's id that tells when it was made."""
    return key.rpartition("-")[2]


class Loading(Sealed):
    """The part of a store that finds checkpoints and loads them."""

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
        # A step that was called a thousand times has left a thousand: those that are not asked for are not read.
        entries = self._newest(prefix) if limit is not None and not inputs else self.backend.scan(prefix)
        found = self._listed(Checkpoint, entries)
        mine = (c for c in found if c.trusted and c.code == code and c.inputs_digest.startswith(inputs))
        return sorted(islice(mine, None if inputs else limit), key=lambda c: _made(c.id), reverse=True)[:limit]

    def _newest(self, prefix: str) -> Iterator[Entry]:
        for key in sorted((key for key, _ in self.backend.versions(prefix)), key=_made, reverse=True):
            found = self.backend.get(key)
            if found is not None:  # not deleted meanwhile
                yield Entry(key, *found)

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

    def load(self, id: str, *, resolve: Resolve | None = None, tell: bool = True) -> Decoded:
        """What of a checkpoint can be made again, and why the rest cannot.

        Raises Untrusted before a byte of it is unpickled. `resolve` gives the live object for a reference to an
        earlier checkpoint; without it, that checkpoint is loaded too. Without `tell` it is only looked at: nobody is
        told that something was restored.
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
        if tell:
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

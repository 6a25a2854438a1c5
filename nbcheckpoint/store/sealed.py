"""Records over a backend: signed, perhaps encrypted, and never believed without looking.

Every record is sealed with the user's key, and the seal binds it to its place: one that was altered, moved or written
by somebody else is told by `trusted`. Changing one means compare-and-swap.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from nbcheckpoint.backend.base import Backend, Entry
from nbcheckpoint.codec.cipher import Cipher
from nbcheckpoint.codec.sign import Signer
from nbcheckpoint.errors import ChunkPruned, Conflict, NotFound, StoreDamaged, StoreTooNew, Untrusted
from nbcheckpoint.model import FORMAT, Checkpoint, Record, Run, Step
from nbcheckpoint.store.telling import telling

R = TypeVar("R", Run, Step, Checkpoint)
T = TypeVar("T")

_log = logging.getLogger("nbcheckpoint")

ENCRYPTED = b"\0encrypted\n"
"""In front of an encrypted record. No JSON begins like that."""


class Sealed:
    """The part of a store that reads and writes records."""

    def __init__(self, backend: Backend, signer: Signer, cipher: Cipher | None, version: int) -> None:
        self.backend = backend
        self.version = version
        """The format it says it has. A later one than ours is listed, as far as that goes; no more."""
        self._told_too_new = False
        self._signer = signer
        self._cipher = cipher
        self._settling = threading.RLock()
        """Held by whatever waits for the disk: see `_settled`."""
        self._losses = 0
        """How often chunks are known to have gone that a save of ours may count on."""

    @property
    def url(self) -> str:
        """How to open the same store again."""
        return self.backend.url

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

    def _decrypted(self, data: bytes, context: bytes) -> bytes:
        if self._cipher is None:
            raise Untrusted("it is encrypted with a key that is not here", hint="open it as the user who wrote it")
        return self._cipher.decrypt(data, context)

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

    def private_digest(self, text: str) -> str:
        """The identity of a secret: means something only to this user, and tells nobody what the secret is."""
        return self._signer.digest(text)

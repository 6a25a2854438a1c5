"""Whose record is this? A keyed tag on every record, bound to the place it stands in.

Unpickling runs code, so what is unpickled must be ours. A record's tag covers its body and its key in the
store; the body names its chunks by blake3. Hence a record that was altered, made by someone else, or moved
to another run or step carries no valid tag, and a pickle stream that is not the one the record names has
another digest. Whatever fails here is *untrusted*: it may be shown as text, never loaded.

    sealed = body + "\\n" + key id (8 hex) + ":" + tag (64 hex)
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

from blake3 import blake3

KEY_BYTES = 32


class Opened(NamedTuple):
    body: bytes
    trusted: bool


class Signer:
    """Seals and opens records under one user's key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a signing key has {KEY_BYTES} bytes, not {len(key)}")
        self._key = key
        self.key_id = blake3(key, derive_key_context="nbcheckpoint 2026 key id").hexdigest()[:8]
        self._signed = f"{self.key_id}:".encode()

    def _tail(self, place: str, body: bytes) -> bytes:
        # The length in front keeps (place, body) pairs apart: no two pairs give the same input.
        where = place.encode()
        return self._signed + blake3(len(where).to_bytes(4, "big") + where + body, key=self._key).hexdigest().encode()

    def digest(self, text: str) -> str:
        """The identity of a text that must not be guessed from it."""
        return blake3(b"private " + text.encode("utf-8", "surrogateescape"), key=self._key).hexdigest()

    def seal(self, place: str, body: bytes) -> bytes:
        """The body with its tag, to be stored under the key `place`."""
        return body + b"\n" + self._tail(place, body)

    def open(self, place: str, sealed: bytes) -> Opened:
        """The body, and whether it is ours and in its place. Never raises: a bad tag is an answer."""
        body, newline, tail = sealed.rpartition(b"\n")
        if not newline:
            return Opened(sealed, False)
        return Opened(body, hmac.compare_digest(tail, self._tail(place, body)))

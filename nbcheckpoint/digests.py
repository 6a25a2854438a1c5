"""Two hashes, two jobs: blake3 names bytes for good, xxh3 notices within this process that they are the same again.

blake3 runs at 3 GB/s, xxh3 at 13. So what has been named once is recognised by its quick hash and not named again.
The quick hash is seeded per process: data cannot be built to collide under it.
"""

from __future__ import annotations

import secrets

import xxhash
from blake3 import blake3

SMALL = 4096
"""Below this, naming is as quick as recognising."""
REMEMBERED = 1 << 17
"""How many names a process remembers: of 1 MiB pieces that is 128 GB worth, in about 20 MB."""


def digest(data: bytes | bytearray | memoryview) -> str:
    """The name of some bytes: theirs alone, and the same everywhere."""
    return blake3(data).hexdigest()


class Recogniser:
    """`digest`, for bytes that are likely to come by again."""

    def __init__(self) -> None:
        self._seed = secrets.randbits(64)
        self._names: dict[bytes, str] = {}

    def __call__(self, data: bytes | bytearray | memoryview) -> str:
        if len(data) < SMALL:
            return digest(data)
        quick = self._quick(data)
        return self._names.get(quick) or self._name(data, quick)

    def token(self, data: bytes | bytearray | memoryview) -> tuple[str, str | None]:
        """A word that means these bytes in this process, and their name if they have been named before."""
        quick = self._quick(data)
        return quick.hex(), self._names.get(quick)

    def name(self, data: bytes | bytearray | memoryview, token: str) -> str:
        """The name of bytes that have this token, and none so far."""
        return self._name(data, bytes.fromhex(token))

    def _name(self, data: bytes | bytearray | memoryview, quick: bytes) -> str:
        name = digest(data)
        if len(self._names) >= REMEMBERED:
            self._forget_one()
        self._names[quick] = name
        return name

    def _quick(self, data: bytes | bytearray | memoryview) -> bytes:
        return xxhash.xxh3_128_digest(data, self._seed) + len(data).to_bytes(8, "big")

    def _forget_one(self) -> None:
        try:
            self._names.pop(next(iter(self._names)), None)
        except RuntimeError:  # another thread has just added one: no lock, a fork could leave it locked for ever
            pass

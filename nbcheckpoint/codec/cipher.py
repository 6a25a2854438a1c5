"""Encryption at rest: what leaves this process is unreadable without a key that is not in the store.

AES-256-GCM with a nonce made from the plaintext under a second key. So equal bytes encrypt to equal bytes and are
still stored once; the price is that whoever sees the store can tell that two chunks are equal. A nonce comes back
only with the same plaintext (or after about 2^48 chunks), which is what GCM needs.

    encrypted = nonce (12 bytes) + ciphertext + tag (16 bytes)
"""

from __future__ import annotations

from typing import Any

from blake3 import blake3

from nbcheckpoint.errors import MissingExtra, StoreDamaged

NONCE = 12
OVERHEAD = NONCE + 16


class Cipher:
    """Encrypts and decrypts under one user's key. `context` keeps chunks and records apart."""

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtra("cryptography", "encrypt") from error
        self._nonce_key = blake3(key, derive_key_context="nbcheckpoint 2026 nonce").digest()
        self._aead: Any = AESGCM(blake3(key, derive_key_context="nbcheckpoint 2026 encryption").digest())

    def encrypt(self, data: bytes | bytearray | memoryview, context: bytes) -> bytes:
        nonce = blake3(data, key=self._nonce_key).update(context).digest()[:NONCE]
        sealed: bytes = self._aead.encrypt(nonce, data, context)
        return nonce + sealed

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """Raises StoreDamaged for anything that was not encrypted under this key and in this context."""
        from cryptography.exceptions import InvalidTag

        try:
            plain: bytes = self._aead.decrypt(data[:NONCE], data[NONCE:], context)
        except (InvalidTag, ValueError) as error:
            raise StoreDamaged("it cannot be decrypted with your key") from error
        return plain

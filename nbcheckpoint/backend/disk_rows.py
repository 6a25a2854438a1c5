"""What the rows of the index say: records, chunks, and chunks that have no row yet.

A record's row has the key `r/<key>`, its bytes in `value` and its version in `tag`. A chunk's row has the key
`c/<digest>`; its bytes are in `value` when few (as they are, or compressed) and in a pack otherwise. The tag of a
chunk is six words: how it is stored, the pack's fingerprint, where it begins in the pack, when it was put (boot id
and seconds since that boot), and a checksum of the row.

Age by the boot clock is what keeps a clock that jumps ten years from making every chunk of a save in progress look
old enough to prune. The checksums, of records as of chunks, find what SQLite's own checks cannot see: an index
entry that leads to the wrong row, or a changed byte inside a column.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import zstandard  # here, not where it is used: a fork during an import leaves the child waiting for it for ever
from xxhash import xxh3_64_hexdigest

from nbcheckpoint.backend.disk_clock import boot_id, boot_seconds
from nbcheckpoint.errors import StoreDamaged

RECORD: Final = "r/"
CHUNK: Final = "c/"

INLINE: Final = 16 * 1024
"""Chunks that need no more than this, compressed if that helps, live in the index: no file, no extra fsync."""
COMPRESS_BELOW: Final = 64 * 1024
"""Larger ones stay as they are, in a pack, from where they can be mapped."""


@dataclass(slots=True)
class Staged:
    """A chunk this process has put and not yet committed."""

    name: str
    size: int
    """Bytes it takes in the store."""
    kind: str = "pack"
    value: bytes | None = None
    """Its bytes in the index, when it is in no pack."""
    filename: str | None = None
    offset: int = 0
    mark: str = ""
    """Fingerprint of the pack, once it has been fsynced."""
    suspect: bool = False
    """An fsync of the pack failed: the bytes may be in the page cache only, marked clean."""
    instead_of: str | None = None
    """Commit it only in place of a row in this pack, which is to be emptied."""

    @property
    def tag(self) -> str:
        return chunk_tag(CHUNK + self.name, self.size, self.filename, self.kind, self.mark, self.offset)


class ChunkRow(NamedTuple):
    """A chunk's row. Made by `chunk_row` only."""

    name: str
    size: int
    filename: str | None
    value: bytes | None
    stored: float
    kind: str
    mark: str
    offset: int
    boot: str
    since: str

    @property
    def age(self) -> float:
        """Seconds since it was put, never negative."""
        if self.boot == boot_id() and self.boot != "-":
            return max(0.0, boot_seconds() - float(self.since))
        return max(0.0, time.time() - self.stored)

    def renewed(self) -> str:
        """Its tag, if it had been put just now."""
        return chunk_tag(CHUNK + self.name, self.size, self.filename, self.kind, self.mark, self.offset)


def chunk_row(values: tuple[Any, ...]) -> ChunkRow:
    """The row selected by `CHUNK_COLUMNS`. Raises StoreDamaged if it is not what was written."""
    key, size, filename, value, tag, stored = values
    body, _, seal = str(tag).rpartition(" ")
    if _row_seal(key, size, filename, body) != seal or not isinstance(stored, float):
        name = str(key)[2:66]
        raise StoreDamaged(f"the index entry of chunk {name} is not what was written", key=name)
    kind, mark, offset, boot, since = body.split(" ")
    return ChunkRow(key[2:], size, filename, value, stored, kind, mark, int(offset), boot, since)


def chunk_tag(key: str, size: int, filename: str | None, kind: str, mark: str, offset: int) -> str:
    body = f"{kind} {mark or '-'} {offset} {boot_id()} {boot_seconds():.3f}"
    return f"{body} {_row_seal(key, size, filename, body)}"


def _row_seal(key: object, size: object, filename: object, body: str) -> str:
    return xxh3_64_hexdigest(f"{key} {size} {filename} {body}".encode())


CHUNK_COLUMNS: Final = "key, size, filename, value, tag, store_time"
SELECT_CHUNK: Final = f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE raw = 1 AND key = ?"

PAGE: Final = 500
"""Rows asked for at once."""


def select_chunks(names: Sequence[str]) -> tuple[str, list[str]]:
    """The statement for several chunks, and its values."""
    places = ",".join("?" * len(names))
    return f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE raw = 1 AND key IN ({places})", [CHUNK + name for name in names]


def stage_inline(name: str, data: memoryview) -> Staged | None:
    """The chunk as it goes into the index, or None when it is too large for that."""
    if len(data) >= COMPRESS_BELOW:
        return None
    value, kind = bytes(data), "raw"
    if len(data) > 256:
        packed = _compress(value)
        if len(packed) <= 0.8 * len(value):
            value, kind = packed, "zst"
    if len(value) > INLINE:
        return None
    return Staged(name, len(value), kind, value)


def inline_bytes(kind: str, value: object) -> bytes:
    """The content of a chunk stored in the index. Raises ValueError if it cannot be that."""
    if not isinstance(value, bytes) or kind not in ("raw", "zst"):
        raise ValueError(f"stored as {kind!r}")
    return value if kind == "raw" else _decompress(value)


def _compress(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(data)


def _decompress(data: bytes) -> bytes:
    try:
        # Never more than we would have compressed: a planted row cannot fill the memory.
        reader = zstandard.ZstdDecompressor().stream_reader(data)
        return reader.read(COMPRESS_BELOW)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error

"""What the rows of the index say: records, chunks, and chunks that have no row yet.

A record's row has the key `r/<key>`, its bytes in `value` and its version in `tag`. A chunk's row has the key
`c/<digest>`; its bytes are in `value` when few (as they are, or compressed) and in a file otherwise. The tag of
a chunk is four words: how it is stored, the file's fingerprint, and when it was put, as boot id and seconds
since that boot. Age by the boot clock is what keeps a clock that jumps ten years from making every chunk of a
save in progress look old enough to prune.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from xxhash import xxh3_64_hexdigest

from nbcheckpoint.backend.disk_files import FILENAME
from nbcheckpoint.errors import StoreDamaged

RECORD: Final = "r/"
CHUNK: Final = "c/"

INLINE: Final = 16 * 1024
"""Chunks that need no more than this, compressed if that helps, live in the index: no file, no extra fsync."""
COMPRESS_BELOW: Final = 64 * 1024
"""Larger ones stay as they are, in a file that can be mapped."""

_CHECK: Final = 16


def new_version(key: str, value: bytes) -> str:
    """A version nobody has had before, which also tells whether this key's bytes are still these."""
    unique = secrets.token_hex(8)
    return unique + _seal(unique, key, value)


def intact(key: str, value: object, version: object) -> bool:
    """Does the version belong to this key and these bytes? Finds what SQLite's own checks cannot see."""
    if not isinstance(value, bytes) or not isinstance(version, str):
        return False
    return _seal(version[:_CHECK], key, value) == version[_CHECK:]


def _seal(unique: str, key: str, value: bytes) -> str:
    # Against accidents, not against people: those the signature inside the record keeps out.
    return xxh3_64_hexdigest(value + f"{unique}{key}".encode())


@dataclass(slots=True)
class Staged:
    """A chunk this process has put and not yet committed."""

    name: str
    size: int
    """Bytes it takes in the store."""
    filename: str | None = None
    value: bytes | None = None
    """Its bytes in the index, when it has no file."""
    kind: str = "file"
    mark: str = ""
    """Fingerprint of the file, once it has been fsynced."""
    suspect: bool = False
    """Its fsync failed: the bytes may be in the page cache only, marked clean."""

    @property
    def tag(self) -> str:
        return chunk_tag(self.kind, self.mark)


class ChunkRow(NamedTuple):
    """A chunk's row, as selected by `CHUNK_COLUMNS`. Made by `chunk_row` only."""

    key: str
    size: int
    filename: str | None
    value: bytes | None
    tag: str
    stored: float

    @property
    def name(self) -> str:
        return self.key[len(CHUNK) :]

    @property
    def kind(self) -> str:
        return self.tag.split(" ")[0]

    @property
    def mark(self) -> str:
        return self.tag.split(" ")[1]

    @property
    def age(self) -> float:
        """Seconds since it was put, never negative."""
        _, _, boot, since = self.tag.split(" ")
        if boot == boot_id() and boot != "-":
            return max(0.0, boot_seconds() - float(since))
        return max(0.0, time.time() - self.stored)


def chunk_row(values: tuple[Any, ...]) -> ChunkRow:
    """The row, if it can be one: a flipped bit may have changed any column's type or place."""
    row = ChunkRow(*values)
    inline = row.filename is None and isinstance(row.value, bytes)
    filed = isinstance(row.filename, str) and (match := FILENAME.match(row.filename)) and match[1] == row.name
    fine = isinstance(row.size, int) and isinstance(row.stored, float) and _TAG.match(str(row.tag))
    if not (fine and (inline or filed)):
        raise StoreDamaged(f"the index entry of chunk {row.name[:64]} makes no sense")
    return row


_TAG: Final = re.compile(r"(file|raw|zst) [-0-9a-f.]+ [-0-9a-f]+ [0-9]+\.[0-9]+\Z")

CHUNK_COLUMNS: Final = "key, size, filename, value, tag, store_time"
SELECT_CHUNK: Final = f"SELECT {CHUNK_COLUMNS} FROM Cache WHERE raw = 1 AND key = ?"


def chunk_tag(kind: str, mark: str) -> str:
    return f"{kind} {mark or '-'} {boot_id()} {boot_seconds():.3f}"


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
    return Staged(name, len(value), value=value, kind=kind)


def inline_bytes(kind: str, value: object) -> bytes:
    """The content of a chunk stored in the index. Raises ValueError if it cannot be that."""
    if not isinstance(value, bytes) or kind not in ("raw", "zst"):
        raise ValueError(f"stored as {kind!r}")
    return value if kind == "raw" else _decompress(value)


def _compress(data: bytes) -> bytes:
    import zstandard  # slow to import, and not needed by a process that only reads

    return zstandard.ZstdCompressor(level=1).compress(data)


def _decompress(data: bytes) -> bytes:
    import zstandard

    try:
        # Never more than we would have compressed: a planted row cannot fill the memory.
        reader = zstandard.ZstdDecompressor().stream_reader(data)
        return reader.read(COMPRESS_BELOW)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Which boot of which machine this is, or "-" where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip().replace("-", "")[:16] or "-"
    except OSError:
        return "-"


def boot_seconds() -> float:
    """A clock nobody can set."""
    clock: Any = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()

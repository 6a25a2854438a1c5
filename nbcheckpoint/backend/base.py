"""The backend protocol: two planes, a dozen methods.

Theory of operation. *Records* are small, mutable and keyed by text; the one way to change a record safely is
compare-and-swap on its version, and nothing ever needs two records changed together. *Chunks* are immutable
and named by the blake3 digest of their content, so putting one twice is harmless and a wrong one is
recognisable. A checkpoint is committed by writing its record after its chunks, hence the two rules a backend
MUST keep:

1. a durable `put` makes everything this process wrote before it durable as well (chunks, and puts that were
   not durable by themselves), or raises and changes nothing;
2. nothing half-written is ever visible: not to this process, not to another, not after a power cut.

*Counting on a chunk.* Whoever puts a chunk is about to write a record that names it, whether the chunk was new or
found present. From the put to the next `sync` or durable `put` of the same backend object that chunk is *counted on*.
If somebody else has deleted it by then, the `sync` or durable `put` raises ChunkPruned: once for all chunks that are
gone, with the name of one of them; nothing is written; and from there on none of them is counted on any more. So
whoever is told has to put them again, and to tell everybody else who is saving through the same object.

`nbcheckpoint.testing` holds the contract suite; every method's docstring is what it checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

CHUNK_NAME: Final = re.compile(r"[0-9a-f]{64}\Z")
"""A chunk's name: the blake3 digest of its content, in hex. Nothing else ever becomes part of a path."""

ABSENT: Final = ""
"""`expect=ABSENT`: the record must not exist yet."""

MAX_KEY: Final = 512
"""Longest record key, in characters."""


class Versioned(NamedTuple):
    """A record's bytes and the version that `put(expect=…)` and `delete(expect=…)` compare with."""

    value: bytes
    version: str


class Entry(NamedTuple):
    """One row of a scan."""

    key: str
    value: bytes
    version: str


class Backend(Protocol):
    """Bytes in, bytes out. Raises only the errors of `nbcheckpoint.errors`.

    Safe for threads, for several processes at once, and in a forked child.
    """

    url: str
    """How to open the same store again."""

    read_only: bool
    """True when it was opened on a disk that cannot be written: reading works, writing raises StoreReadOnly."""

    def get(self, key: str) -> Versioned | None:
        """The record, or None when there is none; under some keys there can be none.

        Raises StoreDamaged, with the key, where it cannot tell.
        """

    def put(self, key: str, value: bytes, *, expect: str | None = None, durable: bool = True) -> str:
        """Write a record and return its new version.

        `expect=None` writes whatever is there; `ABSENT` only if nothing is; a version only if that is the
        current one: otherwise raises Conflict and changes nothing. Versions never come back: after A, B, A'
        the version of A' is not that of A, even when the bytes are equal.

        `durable=True`: on return it survives a power cut, and so does all this process wrote before. Raises
        ChunkPruned, and changes nothing, if a chunk that is counted on is gone (see above).
        `durable=False`: it survives the death of this process; a power cut may take it, but never something
        earlier while leaving something later. It says nothing about chunks: those put before it may not be visible
        to others, nor survive, until the next `sync` or durable `put`.
        """

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        """Remove a record; False if there was none. With `expect`, raises Conflict like `put`."""

    def scan(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[Entry]:
        """Records whose key starts with prefix, in code-point order of the key (or reversed), at most `limit`.

        `after` continues behind that key (in the direction of the scan). Cost is in proportion to the rows
        returned, not to the size of the store. `%`, `_`, `*` and friends in prefix are plain characters.

        Raises StoreDamaged if one of the rows is not what was written, with its key where that is known: a scan from
        `after` with `limit=1` then tells of the first row behind it, so that one can be found and gone around.
        """

    def versions(
        self, prefix: str = "", *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[tuple[str, str]]:
        """Like `scan`, but (key, version) only, without reading the values: a record that still has its version is
        what it was when it was read. A damaged one need not be noticed."""

    def put_chunk(self, name: str, data: bytes | memoryview) -> int:
        """Store a chunk under its digest; return the bytes newly written (0 if it was there already).

        Returns as soon as this process can read it back. It is durable, and visible to other processes at the latest,
        after the next `sync` or durable `put`; until then it is counted on, also when it was there already. The caller
        promises that `name` is the blake3 digest of `data`, and may change `data` afterwards.
        """

    def put_chunks(self, chunks: Sequence[tuple[str, bytes | memoryview]]) -> int:
        """`put_chunk` for several, with as few look-ups as possible. Returns the bytes newly written."""

    def has_chunk(self, name: str) -> bool:
        """Is it there, as far as the index knows? Does not read it."""

    def read_chunk(self, name: str) -> bytes:
        """The chunk's bytes, checked against its name. Raises NotFound or StoreDamaged (with the name), never lies."""

    def map_chunks(self, names: Sequence[str], size: int) -> memoryview:
        """The chunks' bytes behind one another in a private, writeable buffer of `size` bytes.

        Writing to the buffer never changes the store. A backend with local files maps them copy-on-write and
        may leave re-reading a file that is provably untouched since it was written to `verify`; anything in
        doubt is checked before this returns. Raises like `read_chunk`.
        """

    def delete_chunk(self, name: str, *, min_age: float = 0.0) -> int:
        """Remove a chunk and return the bytes freed (0 if it was not there). Mapped buffers stay valid.

        One that was put, or put again, in the last `min_age` seconds stays, however close the race: whoever put it
        again is about to refer to it. A chunk that somebody counts on and that is gone all the same (it was put longer
        ago than that, and not committed since) makes their `sync` or durable `put` raise ChunkPruned.

        Without `min_age`, deleting through the very object that put the chunk also ends counting on it: that was meant.
        """

    def scan_chunks(self, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, int, float]]:
        """(name, stored size, age in seconds) of every chunk, ordered by name."""

    def sync(self) -> None:
        """Make every chunk and record put so far durable, and the chunks visible to others. Raises ChunkPruned."""

    def close(self) -> None:
        """Sync and let go of files and connections. Further calls raise StoreError. Closing twice is fine."""


def is_key(key: str) -> bool:
    """Can a record have this key?"""
    try:
        check_key(key)
    except ValueError:
        return False
    return True


def check_key(key: str) -> None:
    """Raises ValueError for a key no backend takes: empty, too long, or with a NUL or a lone surrogate."""
    if not key or len(key) > MAX_KEY or "\0" in key:
        raise ValueError(f"not a record key: {key[:40]!r}")
    key.encode("utf-8")


def check_chunk_name(name: str) -> None:
    """Raises ValueError for anything that is not a digest, before it gets near a path."""
    if not CHUNK_NAME.match(name):
        raise ValueError(f"not a chunk name: {name[:80]!r}")

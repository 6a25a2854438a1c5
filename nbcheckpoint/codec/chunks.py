"""Bytes <-> chunks.

A blob's bytes are cut at fixed places, each piece is named by its blake3 digest and handed to `put`; what the
store has already costs one look-up. Fixed cuts, because what is big in a notebook is arrays: they change in
place and keep their length. The pieces of a blob have one size (only the last may be shorter), a multiple of
the page size, so that a backend can map them behind one another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from nbcheckpoint.digests import digest
from nbcheckpoint.model import Blob

CHUNK = 1 << 20
MAX_CHUNKS = 1 << 14
"""Past this many, chunks grow: a mapped blob needs one mapping per chunk, and systems allow about 65,000."""
INLINE = 4096
"""Blobs up to this size travel inside their record: one commit instead of a file."""
LISTED = 32
"""Up to this many chunk names are listed in the record itself."""
BATCH = 8
"""Chunks named and put together: one look-up in the store for all of them."""
AHEAD = 4
"""Batches that are being named while another is written."""
Piece = bytes | memoryview
PutChunks = Callable[[Sequence[tuple[str, Piece]]], int]
T = TypeVar("T")
R = TypeVar("R")
Encrypt = Callable[[Piece], bytes]


def chunk_size(size: int) -> int:
    """The piece size for a blob of that size: 1 MiB, doubled until the pieces are few enough."""
    piece = CHUNK
    while size > piece * MAX_CHUNKS:
        piece *= 2
    return piece


class BlobWriter:
    """Turns buffers and streams into blobs, and counts what was newly written on the way."""

    def __init__(
        self, put: PutChunks, names: Callable[[Piece], str] = digest, *, encrypt: Encrypt | None = None
    ) -> None:
        self._put = put
        self._name = names
        self._encrypt = encrypt
        self.written = 0

    def blob(self, data: bytes | bytearray | memoryview) -> Blob:
        """Bytes that lie in memory already. They are not copied."""
        view = memoryview(data).cast("B") if not isinstance(data, memoryview) else data
        size = view.nbytes
        if size <= INLINE:
            return Blob(size=size, data=bytes(view))
        piece = chunk_size(size)
        names: list[str] = []
        for batch in self._named([view[at : at + piece] for at in range(0, size, piece)]):
            self.written += self._put(batch)
            names += [name for name, _ in batch]
        return self._finish(size, piece, names)

    def _named(self, pieces: Sequence[memoryview]) -> Iterator[list[tuple[str, Piece]]]:
        """Batches of pieces with their names, in order."""
        batches = [pieces[at : at + BATCH] for at in range(0, len(pieces), BATCH)]
        if len(batches) <= AHEAD:
            yield from map(self._name_all, batches)
            return
        # In threads, while the caller writes: hashing and writing both let go of the interpreter, and each takes about
        # as long as the other.
        with ThreadPoolExecutor(2, thread_name_prefix="nbcheckpoint-names") as threads:
            ahead = deque(_start(threads, self._name_all, batch) for batch in batches[:AHEAD])
            for batch in batches[AHEAD:]:
                named = ahead.popleft()()
                ahead.append(_start(threads, self._name_all, batch))
                yield named
            while ahead:
                yield ahead.popleft()()

    def _name_all(self, pieces: Sequence[memoryview]) -> list[tuple[str, Piece]]:
        return [(self._name(data), data) for data in (self._sealed(piece) for piece in pieces)]

    def _sealed(self, data: Piece) -> Piece:
        return data if self._encrypt is None else self._encrypt(data)

    def stream(self) -> BlobStream:
        """A file to write to, for bytes that are made as they go (a pickle)."""
        return BlobStream(self)

    def _chunk(self, data: Piece) -> str:
        return self._store(self._sealed(data))

    def _store(self, data: Piece) -> str:
        name = self._name(data)
        self.written += self._put([(name, data)])
        return name

    def _finish(self, size: int, piece: int, names: list[str]) -> Blob:
        encrypted = self._encrypt is not None
        if len(names) <= LISTED:
            return Blob(size=size, chunks=tuple(names), chunk_size=piece, encrypted=encrypted)
        index = self._store(bytes.fromhex("".join(names)))
        return Blob(size=size, index=index, chunk_size=piece, encrypted=encrypted)


def _start(pool: ThreadPoolExecutor, work: Callable[[T], R], given: T) -> Callable[[], R]:
    """Begin it in the pool. Returns what waits for the result, or makes it: a pool takes no work at exit."""
    try:
        return pool.submit(work, given).result
    except RuntimeError:  # the interpreter is ending, or there are no more threads
        return partial(work, given)


class BlobStream:
    """A write-only file whose bytes become chunks as they come, so that no second copy of them piles up."""

    def __init__(self, writer: BlobWriter) -> None:
        self._writer = writer
        self._pending = bytearray()
        self._names: list[str] = []
        self._size = 0

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        self._size += view.nbytes
        at = 0
        if self._pending:
            at = min(CHUNK - len(self._pending), view.nbytes)
            self._pending += view[:at]
            if len(self._pending) == CHUNK:
                self._flush()
        while view.nbytes - at >= CHUNK:
            self._names.append(self._writer._chunk(view[at : at + CHUNK]))
            at += CHUNK
        self._pending += view[at:]
        return view.nbytes

    def _flush(self) -> None:
        self._names.append(self._writer._chunk(bytes(self._pending)))
        self._pending.clear()

    def close(self) -> Blob:
        """All is written: the blob."""
        if self._size <= INLINE:
            return Blob(size=self._size, data=bytes(self._pending))
        if self._pending:
            self._flush()
        return self._writer._finish(self._size, CHUNK, self._names)


def names_of(blob: Blob, read_chunk: Callable[[str], bytes]) -> tuple[str, ...]:
    """The names of a blob's chunks, in order."""
    if not blob.index:
        return blob.chunks
    packed = read_chunk(blob.index)
    return tuple(packed[at : at + 32].hex() for at in range(0, len(packed), 32))


def all_chunks(blob: Blob, read_chunk: Callable[[str], bytes]) -> Iterator[str]:
    """Every chunk that must exist for the blob to exist, its index included."""
    if blob.index:
        yield blob.index
    yield from names_of(blob, read_chunk)

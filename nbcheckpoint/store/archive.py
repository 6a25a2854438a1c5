"""A run in one file: `export` writes it, `import_` reads it back without believing any of it.

The file is a zip, nothing in it compressed, so that any tool can look inside and nothing in it can unfold to more
than its own size:

    manifest.json            what this is, for people and for `import_`
    records/000000.json      {"key": …, "tag": …, "body": {…}}: run, steps, checkpoints; the body byte for byte.
                             From an encrypted store {"key": …, "encrypted": "<base64>"}, for the same user only
    chunks/<digest>          one chunk each, named by the blake3 digest of its content

Invariants:
- constant memory: one record or one chunk at a time, of bounded size, either way;
- names in the archive are compared with strict patterns and never become paths;
- a chunk is put only after its content was found to have the digest its name says, and a record only after every
  chunk was put; an archive that fails anywhere leaves no record behind;
- records keep their seal. Those this user signed are trusted as before; any other is listed, and not loaded, until
  `trust`. With `trust=True` they are sealed anew, after everything else has been checked;
- what the store has already is never overwritten.
"""

from __future__ import annotations

import os
import re
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec.structs import replace

from nbcheckpoint.backend.base import ABSENT, check_key
from nbcheckpoint.digests import digest
from nbcheckpoint.errors import (
    ArchiveDamaged,
    ChunkPruned,
    Conflict,
    NotFound,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    UsageError,
)
from nbcheckpoint.model import FORMAT, Checkpoint, Record, Run, Step, utc_now
from nbcheckpoint.store.survey import chunks_of
from nbcheckpoint.store.trust import vouched
from nbcheckpoint.typed import decode

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

KIND: Final = "nbcheckpoint archive"
MANIFEST: Final = "manifest.json"
RECORD_NAME: Final = re.compile(r"records/[0-9]{6,9}\.json\Z")
CHUNK_MEMBER: Final = re.compile(r"chunks/([0-9a-f]{64})\Z")
SAFE_KEY: Final = re.compile(r"(run|step|checkpoint)(/[^/\\\x00-\x1f\x7f]{1,200}){1,8}\Z")

MAX_RECORD: Final = 64 << 20
MAX_CHUNK: Final = 256 << 20
"""Chunks grow with the value they are part of; these are those of four terabytes."""

Progress = Callable[[int, int], object]
"""Called with (chunks done, of how many)."""


class Manifest(Record, frozen=True, kw_only=True):
    """The first thing in an archive."""

    kind: str
    format: int
    run: str
    workflow: str
    created: str
    records: int
    chunks: int
    bytes: int
    """Of the chunks."""


class Sealed(msgspec.Struct, frozen=True):
    """A record in an archive: where it stood, whose it is, and its body as it was."""

    key: str
    tag: str = ""
    body: msgspec.Raw = msgspec.Raw(b"null")
    encrypted: bytes = b""

    @property
    def value(self) -> bytes:
        """As the store holds it."""
        return self.encrypted or bytes(self.body) + b"\n" + self.tag.encode()


class Moved(Record, frozen=True, kw_only=True):
    """What an export or import did."""

    run: str
    file: str
    records: int = 0
    chunks: int = 0
    bytes: int = 0
    """Of the chunks in the archive."""
    trusted: bool = True
    """Import: can all of it be restored now?"""
    notes: tuple[str, ...] = ()


# Out


def export(store: Store, run: str, file: str | os.PathLike[str], *, progress: Progress | None = None) -> Moved:
    """Write a run with its steps, their checkpoints and chunks to `file`, which appears when it is complete."""
    path = Path(file)
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file", hint="name a file to be written")
    contents = _contents(store, run)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            for done in _written(store, contents, out):
                if progress is not None and done:
                    progress(done, len(contents.chunks))
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, path)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return Moved(
        run=run,
        file=str(path),
        records=len(contents.keys),
        chunks=len(contents.chunks),
        bytes=contents.size,
        notes=tuple(contents.notes),
    )


def pieces(store: Store, run: str) -> Iterator[bytes]:
    """The same, piece by piece, for sending it somewhere: no file is made. Raises NotFound at once."""
    return _streamed(store, _contents(store, run))


def _streamed(store: Store, contents: _Contents) -> Iterator[bytes]:
    out = _Outgoing()
    for _ in _written(store, contents, cast("IO[bytes]", out)):
        yield out.take()
    yield out.take()


class _Outgoing:
    """A file that can only be written: what was written is taken away from time to time."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What belongs to a run."""

    run: Run
    keys: list[str]
    chunks: list[str]
    notes: list[str]
    """Sentences about what is missing."""
    size: int


def _contents(store: Store, run: str) -> _Contents:
    """Keys of the records that belong to a run, and the chunks they need."""
    found = store.run(run)
    steps = store.steps(run, inner=True)
    ahead = [step.checkpoint for step in steps if step.checkpoint]
    checkpoints: dict[str, None] = {}
    chunks: dict[str, None] = {}
    notes: list[str] = []
    while ahead:
        id = ahead.pop()
        if id in checkpoints:
            continue
        try:
            record = store.checkpoint(id)
        except NotFound:
            notes.append(f"checkpoint {id} was pruned and is not in the archive")
            continue
        checkpoints[id] = None
        chunks.update(dict.fromkeys(chunks_of(record, store)))
        ahead += record.needs
    keys = [
        f"run/{run}",
        *(f"step/{run}/{step.address}" for step in steps),
        *(f"checkpoint/{id}" for id in checkpoints),
    ]
    sizes = {name: size for name, size, _ in store.backend.scan_chunks()}
    size = sum(sizes.get(name, 0) for name in chunks)
    return _Contents(found, keys, list(chunks), list(dict.fromkeys(notes)), size)


def _written(store: Store, contents: _Contents, out: IO[bytes]) -> Iterator[int]:
    """Writes it, one member after the other: yields how many chunks are done."""
    manifest = Manifest(
        kind=KIND,
        format=FORMAT,
        run=contents.run.id,
        workflow=contents.run.workflow,
        created=utc_now(),
        records=len(contents.keys),
        chunks=len(contents.chunks),
        bytes=contents.size,
    )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_member(MANIFEST), msgspec.json.format(msgspec.json.encode(manifest.to_dict()), indent=2))
        for number, key in enumerate(contents.keys):
            archive.writestr(_member(f"records/{number:06d}.json"), _record_bytes(store, key))
            yield 0
        for number, name in enumerate(contents.chunks, 1):
            archive.writestr(_member(f"chunks/{name}"), _chunk_bytes(store, name))
            yield number


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)  # its date is the first one zip knows: equal runs make equal archives
    info.external_attr = 0o600 << 16
    return info


def _record_bytes(store: Store, key: str) -> bytes:
    found = store.backend.get(key)
    if found is None:
        raise StoreError(f"{key} was deleted while it was being exported")
    if found.value.startswith(b"\0"):  # no JSON begins like that: encrypted
        return msgspec.json.encode({"key": key, "encrypted": found.value})
    body, newline, tag = found.value.rpartition(b"\n")
    if not newline:
        body, tag = found.value, b""
    return msgspec.json.encode({"key": key, "tag": tag.decode("ascii", "replace"), "body": msgspec.Raw(body)})


def _chunk_bytes(store: Store, name: str) -> bytes:
    try:
        return store.backend.read_chunk(name)
    except NotFound as error:
        raise StoreDamaged(f"a part of the run is missing: {error}", key=name) from error


# In


def import_(
    store: Store,
    file: str | os.PathLike[str] | IO[bytes],
    *,
    trust: bool = False,
    progress: Progress | None = None,
) -> Moved:
    """Read an archive, also one that is open, into the store. Nothing in it is believed, and nothing unpickled.

    Raises ArchiveDamaged, StoreTooNew.
    """
    path = Path(file) if isinstance(file, (str, os.PathLike)) else Path("the archive")
    try:
        with (
            open(path, "rb") if isinstance(file, (str, os.PathLike)) else nullcontext(file) as source,
            zipfile.ZipFile(source) as archive,
        ):
            return _Reader(store, path, archive, os.fstat(source.fileno()).st_size).read(trust, progress)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}") from error
    except OSError as error:
        raise StoreError(f"{path} could not be read: {error.strerror}") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, UnicodeError, ValueError) as error:
        # What Python's zipfile raises for files that are truncated, encrypted, or no zip at all.
        raise _refused(path, f"it is damaged, or no archive ({error})") from error


def _refused(path: Path, why: str) -> ArchiveDamaged:
    return ArchiveDamaged(f"{path} was not imported: {why}")


class _Reader:
    """One archive being read. Every method raises rather than go on with something it does not understand."""

    def __init__(self, store: Store, path: Path, archive: zipfile.ZipFile, size: int) -> None:
        self._store = store
        self._path = path
        self._archive = archive
        self._size = size
        self._notes: dict[str, None] = {}

    def read(self, trust: bool, progress: Progress | None) -> Moved:
        records, chunks = self._members()
        manifest = self._manifest(records, chunks)
        needed: set[str] = set()
        for member in records:
            needed |= self._needs(member, manifest)
        self._put_chunks(chunks, progress)
        missing = [name for name in needed - chunks.keys() if not self._store.backend.has_chunk(name)]
        if missing:
            raise _refused(self._path, f"{len(missing)} chunks are missing")
        try:
            self._store.backend.sync()
        except ChunkPruned:
            self._store._losses += 1  # it may have been meant for a save under way
            raise
        if self._store._cipher is not None and chunks:
            self._notes["what was imported is not encrypted"] = None
        trusted = [self._put_record(member, manifest, trust) for member in reversed(records)]
        self._store._sync()
        return Moved(
            run=manifest.run,
            file=str(self._path),
            records=len(records),
            chunks=len(chunks),
            bytes=sum(info.file_size for info in chunks.values()),
            trusted=all(trusted),
            notes=tuple(self._notes),
        )

    def _members(self) -> tuple[list[zipfile.ZipInfo], dict[str, zipfile.ZipInfo]]:
        """The members by their kind. Anything that is none of ours is refused, not skipped."""
        records: dict[str, zipfile.ZipInfo] = {}
        chunks: dict[str, zipfile.ZipInfo] = {}
        seen: set[str] = set()
        for info in self._archive.infolist():
            # `orig_filename`: Python makes `filename` look harmless, for instance cuts it at a NUL.
            name = info.orig_filename
            chunk = CHUNK_MEMBER.match(name)
            self._check_member(info, MAX_CHUNK if chunk else MAX_RECORD)
            if name in seen:
                raise _refused(self._path, f"{name[:80]!r} is in it twice")
            seen.add(name)
            if chunk:
                chunks[chunk[1]] = info
            elif RECORD_NAME.match(name):
                records[name] = info
            elif name != MANIFEST:
                raise _refused(self._path, f"{name[:80]!r} does not belong into an archive")
        if sum(info.file_size for info in self._archive.infolist()) > self._size:
            raise _refused(self._path, "it claims to hold more than its own size")
        return [records[name] for name in sorted(records)], chunks

    def _check_member(self, info: zipfile.ZipInfo, limit: int) -> None:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise _refused(self._path, "something in it is compressed")
        if info.file_size > limit:
            raise _refused(self._path, f"{info.orig_filename[:80]!r} claims to be {info.file_size:,} bytes")

    def _manifest(self, records: list[zipfile.ZipInfo], chunks: dict[str, zipfile.ZipInfo]) -> Manifest:
        try:
            manifest = Manifest.from_json(self._bytes(self._archive.getinfo(MANIFEST)))
        except (KeyError, msgspec.MsgspecError) as error:
            raise _refused(self._path, "its manifest is missing or damaged") from error
        if manifest.kind != KIND:
            raise _refused(self._path, f"it is {manifest.kind[:80]!r}")
        if manifest.format > FORMAT:
            raise StoreTooNew(f"{self._path} was written in format {manifest.format}", version=manifest.format)
        if (manifest.records, manifest.chunks) != (len(records), len(chunks)):
            raise _refused(self._path, "it does not hold what its manifest says")
        return manifest

    def _bytes(self, info: zipfile.ZipInfo) -> bytes:
        """A member's bytes: never more than it declared, which was checked against the limits."""
        with self._archive.open(info) as member:
            data = member.read(info.file_size + 1)
        if len(data) != info.file_size:
            raise _refused(self._path, f"{info.orig_filename[:80]!r} is not as long as declared")
        return data

    def _record(self, info: zipfile.ZipInfo, manifest: Manifest) -> tuple[Sealed, Run | Step | Checkpoint]:
        try:
            found = decode(self._bytes(info), Sealed)
        except msgspec.MsgspecError as error:
            raise _refused(self._path, f"{info.orig_filename} is no record") from error
        kind = self._kind(found.key, manifest)
        try:
            record = self._store._open(kind, found.key, found.value)
        except StoreDamaged as error:
            raise _refused(self._path, str(error)) from error
        if _key_of(record) != found.key:
            raise _refused(self._path, f"{found.key[:80]!r} is the record of something else")
        return found, record

    def _kind(self, key: str, manifest: Manifest) -> Any:
        check_key(key)
        if not SAFE_KEY.match(key) or any(part in (".", "..") for part in key.split("/")):
            raise _refused(self._path, f"{key[:80]!r} is no record of a run")
        if key == f"run/{manifest.run}":
            return Run
        if key.startswith(f"step/{manifest.run}/"):
            return Step
        if key.startswith("checkpoint/"):
            return Checkpoint
        raise _refused(self._path, f"{key[:80]!r} belongs to another run")

    def _needs(self, info: zipfile.ZipInfo, manifest: Manifest) -> set[str]:
        """The chunks a record needs as far as it lists them; what an index lists is looked at when it is there."""
        _, record = self._record(info, manifest)
        if not isinstance(record, Checkpoint):
            return set()
        try:
            return set(chunks_of(record, self._store, read=self._read_listed))
        except StoreDamaged as error:
            raise _refused(self._path, str(error)) from error

    def _read_listed(self, name: str) -> bytes:
        try:
            data = self._bytes(self._archive.getinfo(f"chunks/{name}"))
        except KeyError:
            return self._store.backend.read_chunk(name)
        return self._checked(name, data)

    def _checked(self, name: str, data: bytes) -> bytes:
        if digest(data) != name:
            raise _refused(self._path, f"chunk {name} is not what its name says")
        return data

    def _put_chunks(self, chunks: dict[str, zipfile.ZipInfo], progress: Progress | None) -> None:
        for number, (name, info) in enumerate(chunks.items(), 1):
            self._store.backend.put_chunk(name, self._checked(name, self._bytes(info)))
            if progress is not None:
                progress(number, len(chunks))

    def _put_record(self, info: zipfile.ZipInfo, manifest: Manifest, trust: bool) -> bool:
        """Returns whether what is in the store now is trusted."""
        found, record = self._record(info, manifest)
        try:
            if record.trusted or not trust:
                self._store.backend.put(found.key, found.value, expect=ABSENT, durable=False)
                return record.trusted
            self._store._put(found.key, vouched(record), expect=ABSENT, durable=False)
        except Conflict:
            return self._meet(found.key, record, trust)
        return True

    def _meet(self, key: str, record: Run | Step | Checkpoint, trust: bool) -> bool:
        """There is one of that key already. It stays, unless it is this very one and the user has come to trust it."""
        here = self._store.backend.get(key)
        if here is None:
            return False  # deleted again this moment
        mine: Run | Step | Checkpoint = self._store._open(type(record), key, here.value)  # type: ignore[type-var]  # one of the three
        same = replace(mine, trusted=True) in (replace(record, trusted=True), vouched(record))
        if not same:
            self._notes[f"{key} is in the store already, and stays as it is there"] = None
        elif trust and not mine.trusted:
            self._store._put(key, vouched(mine), expect=here.version, durable=False)
            return True
        return mine.trusted


def _key_of(record: Run | Step | Checkpoint) -> str:
    if isinstance(record, Run):
        return f"run/{record.id}"
    if isinstance(record, Step):
        return f"step/{record.run}/{record.address}"
    return f"checkpoint/{record.id}"

"""Finding the backend behind a URL, and what a store says about itself."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nbcheckpoint import config
from nbcheckpoint.backend.base import ABSENT, Backend
from nbcheckpoint.codec.cipher import Cipher
from nbcheckpoint.errors import Conflict, NotFound, StoreDamaged, UsageError
from nbcheckpoint.model import FORMAT, Record


def open_backend(location: str, *, create: bool) -> Backend:
    scheme, separator, _ = location.partition("://")
    if not separator or scheme == "file":
        from nbcheckpoint.backend.disk import DiskBackend

        folder = Path(location.removeprefix("file://")).expanduser()
        if not create and not _is_store(folder):
            raise NotFound(f"there is no store at {folder}", hint="run a cell with %%checkpointed to make one")
        return DiskBackend.from_url(location)
    if scheme == "memory":
        from nbcheckpoint.backend.memory import MemoryBackend

        return MemoryBackend.from_url(location)
    from importlib.metadata import entry_points

    for entry in entry_points(group="nbcheckpoint.backends", name=scheme):
        opener = entry.load()
        backend: Backend = opener(location)
        return backend
    raise UsageError(f"no backend for {scheme}://", hint="a folder and memory:// work out of the box")


def _is_store(folder: Path) -> bool:
    try:
        return (folder / "cache.db").exists()
    except PermissionError:
        return True  # it may not be looked into: opening it says so


class Format(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What a store says about itself."""

    format: int = FORMAT
    encrypted: bool = False


def read_format(backend: Backend, encrypt: bool) -> Format:
    """What the store says about itself, written into a new one."""
    found = backend.get("format")
    if found is None and not backend.read_only:
        mine = Format(encrypted=encrypt)
        if encrypt:
            Cipher(config.encryption_key(create=True))
        try:
            backend.put("format", _format.encode(mine), expect=ABSENT, durable=False)
            return mine
        except Conflict:
            found = backend.get("format")  # another process was first
    if found is None:
        return Format()
    try:
        return Format.from_json(found.value)
    except msgspec.MsgspecError as error:
        raise StoreDamaged("what the store says about itself cannot be read", key="format") from error


_format = msgspec.json.Encoder()

"""Every backend that needs no server keeps the contract."""

from __future__ import annotations

from pathlib import Path

from nbcheckpoint.backend.base import Backend
from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.backend.memory import MemoryBackend
from nbcheckpoint.testing import BackendContract


class TestMemory(BackendContract):
    def open(self, place: Path) -> Backend:
        return MemoryBackend.from_url(f"memory://{place}")

    def reopen(self, backend: Backend) -> Backend:
        return MemoryBackend.from_url(backend.url)

    def damage(self, backend: Backend, name: str) -> None:
        chunks: dict[str, tuple[bytes, float]] = backend._shelf.chunks  # type: ignore[attr-defined]
        chunks[name] = (b"?" + chunks[name][0][1:], chunks[name][1])


class TestDisk(BackendContract):
    def open(self, place: Path) -> Backend:
        return DiskBackend(place)

    def reopen(self, backend: Backend) -> Backend:
        return DiskBackend.from_url(backend.url)

    def damage(self, backend: Backend, name: str) -> None:
        (pack,) = Path(backend.url).glob("??/*.pack")
        with open(pack, "r+b") as file:
            file.write(b"?")

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


class TestDisk(BackendContract):
    def open(self, place: Path) -> Backend:
        return DiskBackend(place)

    def reopen(self, backend: Backend) -> Backend:
        return DiskBackend.from_url(backend.url)

"""Chunk files: how bytes get onto the disk, and how they are read back without trusting anything.

Theory of operation. A chunk of more than a few kilobytes is a file of its own, `<aa>/<digest>-<random>.raw`,
written once and never changed, truncated or renamed. Nobody looks for it by name: it exists for readers from
the moment its row is committed to the index, so a half-written file is merely an orphan that `sweep` removes.
That is why no temporary name and no rename are needed, and why the random part matters: every put writes its
own file, so a prune that removes an older file of the same content can never take away the one a newer row
points to.

One batch of files (everything between two flushes) goes into one folder, drawn at random: a flush then has to
fsync a single folder. The name in the index is hostile until it has matched `FILENAME` and the file has turned
out to be a regular one, reached through no symbolic link.

A *fingerprint* is what `lstat` says about a finished file. As long as it is the same, nothing has touched the
file through the file system since its bytes were fsynced.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

FILENAME: Final = re.compile(r"[0-9a-f]{2}/([0-9a-f]{64})-[0-9a-f]{16}\.raw\Z")
"""The only file names an index may speak of."""

FOLDER: Final = re.compile(r"[0-9a-f]{2}\Z")
QUARANTINE: Final = "quarantine"

_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC | _BINARY
_READ: Final = os.O_RDONLY | _NOFOLLOW | _CLOEXEC | _BINARY | getattr(os, "O_NONBLOCK", 0)


class Suspicious(Exception):
    """A name that is no chunk's, or something that is no regular file of ours."""


def fingerprint(status: os.stat_result) -> str:
    """What changes whenever a file is written, replaced, copied or restored."""
    return f"{status.st_ino:x}.{status.st_size:x}.{status.st_mtime_ns:x}.{status.st_ctime_ns:x}"


class ChunkFiles:
    """The chunk files of one store."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self.rotate()

    def rotate(self) -> None:
        """Begin a new batch, in a folder of its own choosing."""
        self._folder = secrets.token_hex(1)

    def write(self, name: str, data: memoryview) -> str:
        """Write a new file and return its name. On any error nothing is left behind."""
        filename = f"{self._folder}/{name}-{secrets.token_hex(8)}.raw"
        path = self._root / filename
        fd = self._create(path)
        try:
            write_all(fd, data)
            _start_writeback(fd, len(data))
        except BaseException:
            os.close(fd)
            os.unlink(path)
            raise
        os.close(fd)
        return filename

    def _create(self, path: Path) -> int:
        try:
            fd = os.open(path, _NEW, 0o600)
        except FileNotFoundError:
            if not self._root.is_dir():  # gone: do not bring a deleted store back as an empty folder
                raise
            make_private(path.parent)
            fd = os.open(path, _NEW, 0o600)
        if os.fstat(fd).st_mode & 0o777 != 0o600 and os.name == "posix":
            os.fchmod(fd, 0o600)  # an umask like 0777 takes away even our own access
        return fd

    def flush(self, filename: str) -> str:
        """fsync the file and return its fingerprint. Raises OSError.

        No descriptor is kept open between `write` and here. The kernel reports a failed write-back to the
        first fsync after it, also through a descriptor that was opened later.
        """
        fd = os.open(self._root / filename, _READ if os.name == "posix" else os.O_RDWR | _BINARY)
        try:
            os.fsync(fd)
            return fingerprint(os.fstat(fd))
        finally:
            os.close(fd)

    def open(self, filename: str) -> tuple[int, os.stat_result]:
        """A descriptor for reading, and its status. Raises Suspicious or OSError."""
        path = self._checked(filename)
        try:
            fd = os.open(path, _READ)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Suspicious(f"{filename} is a symbolic link") from error
            raise
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise Suspicious(f"{filename} is not a regular file")
        return fd, status

    def status(self, filename: str) -> os.stat_result:
        """Its lstat. Raises Suspicious or OSError."""
        status = os.lstat(self._checked(filename))
        if not stat.S_ISREG(status.st_mode):
            raise Suspicious(f"{filename} is not a regular file")
        return status

    def read(self, filename: str) -> bytes:
        """All of it, unchecked. Raises Suspicious or OSError."""
        fd, status = self.open(filename)
        try:
            return read_all(fd, status.st_size)
        finally:
            os.close(fd)

    def remove(self, filename: str) -> None:
        """Unlink it if it is a regular file of ours; a file that is gone already is fine."""
        try:
            self.status(filename)
            os.unlink(self._root / filename)
        except FileNotFoundError:
            pass

    def quarantine(self, filename: str) -> None:
        """Move a damaged file out of the way instead of destroying what may still be salvaged."""
        path = self._checked(filename)
        make_private(self._root / QUARANTINE)
        os.replace(path, self._root / QUARANTINE / path.name)

    def every(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every regular file in the chunk folders, whatever its name."""
        for folder in sorted(entry.name for entry in os.scandir(self._root) if _is_folder(entry)):
            for entry in os.scandir(self._root / folder):
                if entry.is_file(follow_symlinks=False):
                    yield f"{folder}/{entry.name}", entry.stat(follow_symlinks=False)

    def _checked(self, filename: str) -> Path:
        if not isinstance(filename, str) or not FILENAME.match(filename):
            raise Suspicious(f"not the name of a chunk file: {str(filename)[:80]!r}")
        folder = self._root / filename[:2]
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise Suspicious(f"{filename[:2]} is not a folder")
        return self._root / filename


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return bool(FOLDER.match(entry.name)) and entry.is_dir(follow_symlinks=False)


def make_private(path: Path) -> None:
    """A folder nobody else may enter, whatever the umask."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, 0o700)


def write_all(fd: int, data: memoryview) -> None:
    """os.write may write less than asked: at most 2 GiB at once, less when the disk fills up."""
    while len(data):
        data = data[os.write(fd, data) :]


def read_all(fd: int, size: int) -> bytes:
    """`size` bytes or fewer, if the file ends before."""
    parts = []
    while size > 0 and (part := os.read(fd, min(size, 1 << 30))):
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_new(path: Path, text: str) -> None:
    """A small private file, unless there is one of that name already."""
    try:
        fd = os.open(path, _NEW, 0o600)
    except FileExistsError:
        return
    try:
        write_all(fd, memoryview(text.encode()))
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | _NOFOLLOW | _CLOEXEC | _BINARY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_folder(path: Path) -> None:
    """Make the names in a folder durable. Windows has no such call, and does it by itself."""
    if os.name != "posix":
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _load_writeback() -> Callable[[int, int], None]:
    if not sys.platform.startswith("linux"):
        return lambda fd, size: None
    try:
        call = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return lambda fd, size: None
    call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return lambda fd, size: void(call(fd, 0, size, 2))  # SYNC_FILE_RANGE_WRITE: begin, do not wait


def void(_: object) -> None:
    """Advice to the kernel: whether it was taken does not matter."""


_start_writeback: Final = _load_writeback()
"""Begin writing to the disk now, so that the fsync at the end finds most of it done."""

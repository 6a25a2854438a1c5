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

A *fingerprint* is what `stat` says about a finished file. As long as it is the same, nothing has touched the
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
from types import TracebackType
from typing import Final

FILENAME: Final = re.compile(r"[0-9a-f]{2}/([0-9a-f]{64})-[0-9a-f]{16}\.raw\Z")
"""The only file names an index may speak of."""

QUARANTINE: Final = "quarantine"

_FOLDER: Final = re.compile(r"[0-9a-f]{2}\Z")
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_SAFE: Final = _NOFOLLOW | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
_READ: Final = os.O_RDONLY | _SAFE | getattr(os, "O_NONBLOCK", 0)  # a planted pipe must not block us
_SYNC: Final = _READ if os.name == "posix" else os.O_RDWR | _SAFE  # Windows flushes only what it may write
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_RELATIVE: Final = os.open in os.supports_dir_fd


class Suspicious(Exception):
    """A name that is no chunk's, or something that is no regular file of ours."""


def fingerprint(status: os.stat_result) -> str:
    """What changes whenever a file is written, replaced, copied or restored."""
    return f"{status.st_ino:x}.{status.st_size:x}.{status.st_mtime_ns:x}.{status.st_ctime_ns:x}"


class Folders:
    """Opens chunk files for reading; `with` it, the folders they are in are opened once each."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._fds: dict[str, int] = {}

    def open(self, filename: str) -> tuple[int, os.stat_result]:
        """A descriptor and its status. Raises Suspicious or OSError."""
        if not isinstance(filename, str) or not FILENAME.match(filename):
            raise Suspicious(f"not the name of a chunk file: {str(filename)[:80]!r}")
        try:
            fd = self._open(filename)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Suspicious(f"{filename} is reached through a symbolic link") from error
            raise
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise Suspicious(f"{filename} is not a regular file")
        return fd, status

    def _open(self, filename: str) -> int:
        folder = filename[:2]
        path = f"{self._root}/{folder}"
        if not _RELATIVE:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise Suspicious(f"{folder} is not a folder")
            return os.open(f"{self._root}/{filename}", _READ)
        if folder not in self._fds:
            self._fds[folder] = os.open(path, os.O_RDONLY | _DIRECTORY | _SAFE)
        return os.open(filename[3:], _READ, dir_fd=self._fds[folder])

    def __enter__(self) -> Folders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])


class ChunkFiles:
    """The chunk files of one store."""

    def __init__(self, directory: Path) -> None:
        self._root = str(directory)
        self.rotate()

    def rotate(self) -> None:
        """Begin a new batch, in a folder of its own."""
        self._folder = secrets.token_hex(1)

    def write(self, name: str, data: memoryview) -> str:
        """Write a new file and return its name. On any error nothing is left behind."""
        filename = f"{self._folder}/{name}-{secrets.token_hex(8)}.raw"
        path = f"{self._root}/{filename}"
        fd = self._create(path)
        try:
            write_all(fd, data)
            _start_writeback(fd, len(data))
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
        return filename

    def _create(self, path: str) -> int:
        try:
            fd = os.open(path, _NEW, 0o600)
        except FileNotFoundError:
            # Only the last folder: a store that was deleted must not come back as an empty one.
            make_private(os.path.dirname(path))
            fd = os.open(path, _NEW, 0o600)
        if os.name == "posix" and os.fstat(fd).st_mode & 0o777 != 0o600:
            os.fchmod(fd, 0o600)  # an umask like 0777 takes away even our own access
        return fd

    def flush(self, filename: str) -> str:
        """fsync the file and return its fingerprint. Raises OSError.

        No descriptor is kept open between `write` and here. The kernel reports a failed write-back to the
        first fsync after it, also through a descriptor that was opened later.
        """
        fd = os.open(f"{self._root}/{filename}", _SYNC)
        try:
            fsync(fd)
            return fingerprint(os.fstat(fd))
        finally:
            os.close(fd)

    def folders(self) -> Folders:
        return Folders(self._root)

    def read(self, filename: str) -> bytes:
        """All of it, unchecked. Raises Suspicious or OSError."""
        with self.folders() as folders:
            fd, status = folders.open(filename)
        try:
            return read_all(fd, status.st_size)
        finally:
            os.close(fd)

    def status(self, filename: str) -> os.stat_result:
        """What stat says about it. Raises Suspicious or OSError."""
        with self.folders() as folders:
            fd, status = folders.open(filename)
        os.close(fd)
        return status

    def remove(self, filename: str) -> int:
        """Unlink it if it is a regular file of ours, and return its size; 0 if it is gone already."""
        try:
            size = self.status(filename).st_size
            os.unlink(f"{self._root}/{filename}")
        except FileNotFoundError:
            return 0
        return size

    def quarantine(self, filename: str) -> None:
        """Move a damaged file out of the way instead of destroying what may still be salvaged."""
        self.status(filename)
        make_private(f"{self._root}/{QUARANTINE}")
        os.replace(f"{self._root}/{filename}", f"{self._root}/{QUARANTINE}/{filename[3:]}")

    def every(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every regular file in the chunk folders, whatever its name."""
        for folder in sorted(entry.name for entry in os.scandir(self._root) if _is_folder(entry)):
            for entry in os.scandir(f"{self._root}/{folder}"):
                try:
                    if entry.is_file(follow_symlinks=False):
                        yield f"{folder}/{entry.name}", entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # somebody else is sweeping too


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return bool(_FOLDER.match(entry.name)) and entry.is_dir(follow_symlinks=False)


def make_private(path: str | Path) -> None:
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
    """`size` bytes, or fewer if the file ends before."""
    parts = []
    while size > 0 and (part := os.read(fd, min(size, 1 << 30))):
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_new(path: Path, data: bytes) -> None:
    """A small private file, unless there is one of that name already."""
    try:
        fd = os.open(path, _NEW, 0o600)
    except FileExistsError:
        return
    try:
        write_all(fd, memoryview(data))
        fsync(fd)
    finally:
        os.close(fd)


def fsync(fd: int) -> None:
    """Down to the medium. On macOS os.fsync stops at the drive's cache."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def fsync_path(path: Path | str) -> None:
    """Make a file's bytes, or the names in a folder, durable. Windows does the latter by itself."""
    if os.name != "posix" and os.path.isdir(path):
        return
    fd = os.open(path, _SYNC)
    try:
        fsync(fd)
    finally:
        os.close(fd)


def _load_writeback() -> Callable[[int, int], object]:
    if not sys.platform.startswith("linux"):
        return lambda fd, size: None
    try:
        call = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return lambda fd, size: None
    call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return lambda fd, size: call(fd, 0, size, 2)  # SYNC_FILE_RANGE_WRITE: begin, do not wait


_start_writeback: Final = _load_writeback()
"""Begin writing to the disk now: the fsync at the end finds most of it done, and the page cache never fills with
so many dirty pages that the kernel makes the writer wait (five times slower, measured). Only advice."""

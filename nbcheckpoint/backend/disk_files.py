"""Pack files: how the bytes of chunks get onto the disk, and how they are read back without trusting anything.

Theory of operation. Chunks of more than a few kilobytes are written behind one another into *packs*,
`<aa>/<random>.pack`, of some megabytes each. A pack is only ever appended to by the process that began it, and
never again after its first fsync; it is never truncated, rewritten or renamed. Nobody looks for a pack by name:
it exists for readers from the moment the rows of its chunks are committed to the index, so a half-written one is
merely an orphan that `sweep` removes. Hence no temporary names. The random name matters: every put writes into
a pack of its own process, so a prune that removes an older pack can never take away what a newer row points to. The
name also says when the pack was begun, so that a clock that jumps does not make a save in progress an old orphan.

Why not a file per chunk: a gigabyte is a thousand chunks, and a thousand times open, fsync, mmap is most of the
cost of saving and restoring it. Chunks saved together are restored together, so a restore maps a few long runs.
The price is that the space of a deleted chunk comes back only with its whole pack; `sweep` moves the few that are
left in a mostly dead pack to a new one. (Punching holes instead would change pages somebody has mapped.)

One batch of packs (everything between two flushes) goes into one folder, drawn at random, so that a flush has to
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
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from nbcheckpoint.backend.disk_clock import boot_id, boot_seconds

if sys.platform == "darwin":
    import fcntl

FILENAME: Final = re.compile(r"[0-9a-f]{2}/[0-9a-f]{32}\.pack\Z")
"""The only file names an index may speak of."""

PACK_BYTES: Final = 16 << 20
"""A pack takes no more chunks beyond this. It bounds what one surviving chunk can keep alive."""
ALIGN: Final = 16 << 10
"""Chunks begin on the pages of every common machine, so that they can be mapped. The gaps are holes."""

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


def _new_name() -> str:
    """When it was begun, by the clock nobody can set, and something random."""
    boot = boot_id()[:8] if boot_id() != "-" else "0" * 8
    return f"{boot}{int(boot_seconds()) & 0xFFFFFFFF:08x}{secrets.token_hex(8)}"


def age_of(filename: str, status: os.stat_result) -> float:
    """Seconds since a pack was begun or last written, whichever is less. Its name counts only in the same boot."""
    since_written = time.time() - status.st_mtime
    if not FILENAME.match(filename) or filename[3:11] != boot_id()[:8]:
        return since_written
    since_begun = boot_seconds() - int(filename[11:19], 16)
    return min(since_begun, since_written) if since_written >= 0 else since_begun


class Folders:
    """Opens packs for reading; `with` it, the folders they are in are opened once each."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._fds: dict[str, int] = {}

    def open(self, filename: str) -> tuple[int, os.stat_result]:
        """A descriptor and its status. Raises Suspicious or OSError."""
        if not isinstance(filename, str) or not FILENAME.match(filename):
            raise Suspicious(f"not the name of a pack: {str(filename)[:80]!r}")
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

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])

    def __enter__(self) -> Folders:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Packs:
    """The packs of one store."""

    def __init__(self, directory: Path) -> None:
        self._root = str(directory)
        self._fd = -1
        self._writeback = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-writeback")
        self.rotate()

    def rotate(self) -> None:
        """Finish the current pack; the next one begins a new batch."""
        self._finish()
        self._folder = ""

    def forget(self) -> None:
        """After a fork. A thread of the parent's may be closing the descriptor just now: leave it."""
        self._fd = -1
        self._writeback = ThreadPoolExecutor(1, thread_name_prefix="nbcheckpoint-writeback")
        self.rotate()

    def _finish(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._filename, self._end = -1, "", 0

    def write(self, data: memoryview) -> tuple[str, int]:
        """Append the bytes; returns which pack they are in and where. One thread at a time. Raises OSError."""
        if self._end >= PACK_BYTES:
            self._hand_over()
        if self._fd < 0:
            self._begin()
        offset = self._end
        self._end = -(-(offset + len(data)) // ALIGN) * ALIGN  # also if it fails: nothing is written twice
        try:
            os.lseek(self._fd, offset, os.SEEK_SET)
            write_all(self._fd, data)
        except OSError:
            if offset == 0:  # leave nothing behind
                os.unlink(f"{self._root}/{self._filename}")
                self._finish()
            raise
        return self._filename, offset

    def _hand_over(self) -> None:
        """The current pack is full: let the system begin to write it to the disk, behind our back."""
        fd, size = self._fd, self._end
        self._fd, self._filename, self._end = -1, "", 0
        try:
            self._writeback.submit(_write_back, fd, size)
        except RuntimeError:  # the interpreter is ending, or there are no more threads
            os.close(fd)

    def _begin(self) -> None:
        self._folder = self._folder or secrets.token_hex(1)
        filename = f"{self._folder}/{_new_name()}.pack"
        path = f"{self._root}/{filename}"
        try:
            fd = os.open(path, _NEW, 0o600)
        except FileNotFoundError:
            # Only the last folder: a store that was deleted must not come back as an empty one.
            make_private(os.path.dirname(path))
            fd = os.open(path, _NEW, 0o600)
        if os.name == "posix" and os.fstat(fd).st_mode & 0o777 != 0o600:
            os.fchmod(fd, 0o600)  # an umask like 0777 takes away even our own access
        self._fd, self._filename = fd, filename

    def flush(self, filename: str) -> str:
        """fsync the pack and return its fingerprint. Raises OSError.

        A full pack has been closed by then. The kernel reports a failed write-back to the first fsync after it,
        also through a descriptor that was opened later.
        """
        fd = os.open(f"{self._root}/{filename}", _SYNC)
        try:
            fsync(fd)
            return fingerprint(os.fstat(fd))
        finally:
            os.close(fd)

    def folders(self) -> Folders:
        return Folders(self._root)

    def read(self, filename: str, offset: int, size: int) -> bytes:
        """Those bytes, unchecked; fewer if the pack ends before. Raises Suspicious or OSError."""
        with self.folders() as folders:
            fd, _ = folders.open(filename)
        try:
            os.lseek(fd, offset, os.SEEK_SET)
            return read_all(fd, size)
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

    def every(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every regular file in the packs' folders, whatever its name."""
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


def _load_writeback() -> Callable[[int, int, int], object]:
    if not sys.platform.startswith("linux"):
        return lambda fd, offset, size: None
    try:
        call = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return lambda fd, offset, size: None
    call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return lambda fd, offset, size: call(fd, offset, size, 2)  # SYNC_FILE_RANGE_WRITE: begin, do not wait


_start_writeback: Final = _load_writeback()


def _write_back(fd: int, size: int) -> None:
    """Begin writing a file to the disk, and close it. Only advice, in a thread of its own: it may take a while.

    The fsync at the end finds most of it done, and the page cache never fills with so many dirty pages that the
    kernel makes the writer wait (five times slower, measured).
    """
    try:
        _start_writeback(fd, 0, size)
    finally:
        os.close(fd)

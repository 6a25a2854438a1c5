"""The folder a store lives in: its labels, its reserve, and what is worth knowing about its file system."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from nbcheckpoint.backend.disk_files import write_all, write_new
from nbcheckpoint.backend.disk_index import DB

LABELS: Final = {
    ".gitignore": b"*\n",
    "CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by nbcheckpoint.\n",
}

RESERVE: Final = "reserve"
RESERVE_BYTES: Final = 128 * 1024
"""Room for the log entry of a delete, and for SQLite's shared memory."""

_PIECE: Final = 4096
_SAFE: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_SHORT: Final = 256 << 20
_REMOTE: Final = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "gpfs",
    "fuse.sshfs",
    "fuse.drive",
    "fuse.gcsfuse",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.blobfuse",
    "glusterfs",
    "beegfs",
)


def label(directory: Path) -> None:
    """Keep it out of version control and backups. A label the user changed stays as it is."""
    for name, text in LABELS.items():
        write_new(directory / name, text)


def is_writeable(directory: Path) -> bool:
    """May we write here at all? Says nothing about space."""
    return os.access(directory, os.W_OK | os.X_OK) and os.access(directory / DB, os.W_OK)


def is_closed(directory: Path) -> bool:
    """Is it there, and may we not read it?"""
    there = [path for path in (directory, directory / DB) if os.access(path, os.F_OK)]
    return not all(os.access(path, os.R_OK) for path in there)


def keep_reserve(directory: Path) -> None:
    """Put some space aside, or as much of it as there is: what is left would only be used up by the next put."""
    try:
        fd = os.open(directory / RESERVE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _SAFE, 0o600)
    except OSError:
        return  # only a delete on a full disk would miss it
    try:
        # In pieces: a write that does not fit as a whole may write nothing. Random: some disks store no zeros.
        for _ in range(os.fstat(fd).st_size, RESERVE_BYTES, _PIECE):
            write_all(fd, memoryview(secrets.token_bytes(_PIECE)))
    except OSError:
        pass
    finally:
        os.close(fd)


def give_up_reserve(directory: Path) -> bool:
    """True if that has made some room."""
    try:
        os.unlink(directory / RESERVE)
    except OSError:
        return False
    return True


def is_full(directory: Path) -> bool:
    """Is there not even room for SQLite's shared memory?"""
    return _free(directory) < RESERVE_BYTES


def is_short(directory: Path) -> bool:
    """Is space so short that it should be given back at once?"""
    return _free(directory) < _SHORT


def _free(directory: Path) -> int:
    if not hasattr(os, "statvfs"):
        return 1 << 62
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def warnings_about(directory: Path) -> list[str]:
    """What the user should know about the file system, in whole sentences."""
    kind = _file_system(directory)
    if kind.startswith(_REMOTE):
        return [
            f"{directory} is on a network file system ({kind}). Its locks cannot be relied on: use the store"
            " from one machine only, or keep it on a local disk and let NBCHECKPOINT_COPY name a folder here."
        ]
    return []


def _file_system(directory: Path) -> str:
    """Its type, as Linux calls it; empty where that cannot be found out."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split(" ") for line in file]
    except OSError:
        return ""
    best, kind = "", ""
    for fields in mounts:
        point = fields[1].replace("\\040", " ")
        inside = str(directory) == point or str(directory).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind

"""Giving a finished file its name, unless something else has that name: nobody ever sees half of it.

A hard link does so in one step. Where a file system has none (Google Drive as Colab mounts it, FAT), the file is
renamed under a lock on its folder. The system lets go of that lock when a process dies, so that nobody waits for the
dead; a claim left in the folder could not be told from one that still counts.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

_NO_LINKS: Final = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


def give_name(draft: Path, path: Path) -> None:
    """The file `draft`, in the same file system, is at `path` from now on; it may be at `draft`, too, or not.

    Raises FileExistsError, and leaves what is there as it is; OSError.
    """
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename(draft, path)


def _rename(draft: Path, path: Path) -> None:
    with _alone_in(path.parent):
        if sys.platform != "win32" and os.path.lexists(path):  # there a rename replaces nothing
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        os.rename(draft, path)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

"""Files behind one another in memory, copy-on-write: how a gigabyte is there in milliseconds.

Theory of operation. Python's `mmap` reserves one anonymous private region; libc's `mmap` with `MAP_FIXED` then
lays each file over its part of it. The pages are read when they are first touched and copied when they are
first written, so the buffer is writeable and the files never change. The `mmap` object owns the whole range:
when the last view of it is gone, its deallocation unmaps everything at once.

Laying a file over needs whole pages, so a part that does not start and end on a page boundary is read into the
region instead; so is everything on systems without these calls. A mapped file must never be truncated: touching
a page behind its end is a SIGBUS. Whoever calls `lay` has checked the file's size.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Final

_FIXED: Final = 0x10
"""MAP_FIXED, the same number on Linux and macOS."""

MAX_MAPPINGS: Final = 16_384
"""Per buffer. Linux allows a process 65,530 in all (vm.max_map_count); beyond this, reading is better anyway."""


class Region:
    """A private, writeable buffer to be filled from files."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._owner: mmap.mmap | bytearray
        if size and _MMAP is not None:
            self._owner = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            self._owner = bytearray(size)
        self.view: Final = memoryview(self._owner)
        self._mappings = 0

    def can_lay(self, offset: int, length: int) -> bool:
        """Whole pages only; at the very end of the region the rest of the page is ours as well."""
        page = mmap.PAGESIZE
        whole = length % page == 0 or offset + length == self.size
        return _MMAP is not None and length > 0 and offset % page == 0 and whole and self._room()

    def lay(self, fd: int, offset: int, length: int) -> bool:
        """Map the file over its part. False, with the region unharmed, when the system does not want to."""
        if _MMAP is None or not isinstance(self._owner, mmap.mmap):
            return False
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._owner))
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        where = _MMAP(base + offset, length, protection, mmap.MAP_PRIVATE | _FIXED, fd, 0)
        if where != base + offset:
            return False
        self._mappings += 1
        return True

    def _room(self) -> bool:
        return self._mappings < MAX_MAPPINGS


def _load_mmap() -> ctypes._NamedFuncPointer | None:
    if sys.platform == "win32":
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).mmap
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_void_p
    number = ctypes.c_int
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_int64]
    return call


_MMAP: Final = _load_mmap()

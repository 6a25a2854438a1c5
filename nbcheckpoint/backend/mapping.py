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
from typing import Any, Final

_FIXED: Final = 0x10
"""MAP_FIXED, the same number on Linux and macOS."""

MAX_MAPPINGS: Final = 16_384
"""Per buffer. Linux allows a process 65,530 in all (vm.max_map_count); beyond this, reading is better anyway."""


class Region:
    """A private, writeable buffer to be filled from files."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._mappings = 0
        self._base = 0
        owner: mmap.mmap | bytearray = bytearray()
        if size and _mmap is not None:
            owner = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._base = ctypes.addressof(ctypes.c_char.from_buffer(owner))
        elif size:
            owner = bytearray(size)
        self.view: Final = memoryview(owner)

    def lay(self, fd: int, start: int, offset: int, length: int) -> bool:
        """Map `length` bytes of the file, from `start`, to `offset`. False if they are to be read instead."""
        if not self._can_lay(start, offset, length):
            return False
        if self._map(offset, length, mmap.MAP_PRIVATE, fd, start):
            self._mappings += 1
            return True
        # A failed MAP_FIXED may have unmapped what was there.
        if not self._map(offset, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0):
            raise MemoryError(f"cannot map {length} bytes")
        self._mappings = MAX_MAPPINGS
        return False

    def _can_lay(self, start: int, offset: int, length: int) -> bool:
        """Whole pages only; at the very end of the region the rest of the page is ours as well."""
        page = mmap.PAGESIZE
        on_page = offset % page == 0 and start % page == 0
        whole = length % page == 0 or offset + length == self.size
        fits = 0 < length <= self.size - offset
        return on_page and whole and fits and self._base != 0 and self._mappings < MAX_MAPPINGS

    def _map(self, offset: int, length: int, flags: int, fd: int, start: int) -> bool:
        where = self._base + offset
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        return bool(_mmap(where, length, protection, flags | _FIXED, fd, start) == where)


def _load_mmap() -> Any:
    if sys.platform == "win32":
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).mmap
    except (OSError, AttributeError):
        return None
    number = ctypes.c_int
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_int64]
    return call


_mmap: Final = _load_mmap()

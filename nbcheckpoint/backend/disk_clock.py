"""A clock nobody can set: seconds since this machine was started, and which start that was.

What is too young to be removed is decided by it wherever possible. By the clock on the wall, a jump of ten years would
make everything that is being saved at that moment look old enough.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Which boot of which machine this is, or "-" where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:  # bytes: a codec would be imported for text
            return file.read().decode("ascii").strip().replace("-", "")[:16] or "-"
    except OSError:
        return "-"


def boot_seconds() -> float:
    """Since then, with the time the machine was asleep."""
    clock: Any = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()

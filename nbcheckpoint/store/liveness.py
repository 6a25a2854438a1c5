"""Is the process that owns a run still there? `interrupted` is discovered, never announced.

On this machine by looking for the process; on another one by its lease, which it renews as long as it is there.
"""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from nbcheckpoint.model import Owner, Run
from nbcheckpoint.store import lease


def this_process() -> Owner:
    """Us, in a form another process can check. Asked anew after a fork."""
    return Owner(host=socket.gethostname(), pid=os.getpid(), started=_started(os.getpid()), boot=_boot())


def is_this_process(owner: Owner) -> bool:
    """Us, whichever lease we had?"""
    return replace(owner, lease="", renewed="") == this_process()


def is_alive(owner: Owner) -> bool:
    """False only where it is certain: no such process here (a recycled pid is not it), or a lease that ran out.

    The same name and another boot is this machine before it was started anew, or another one of that name, or a
    container: where there is a lease, that tells them apart.
    """
    here = owner.host == socket.gethostname()
    if here and owner.boot == _boot():
        return _is_running(owner)
    return lease.is_held(owner) if owner.lease else not here


def _is_running(owner: Owner) -> bool:
    if owner.started:
        return _started(owner.pid) == owner.started
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def seen(run: Run) -> Run:
    """The run as it is now: one whose owner is gone is interrupted, whatever its record says."""
    if run.status == "running" and run.owner is not None and not is_alive(run.owner):
        return replace(run, status="interrupted")
    return run


def _started(pid: int) -> str:
    """Start time in clock ticks since boot, or "" where the system has no /proc or the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command name is in parentheses and may itself contain anything: count fields behind the last one.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


@lru_cache(maxsize=1)
def _boot() -> str:
    """This boot of this machine, and the process namespace: pids mean nothing outside of either."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""

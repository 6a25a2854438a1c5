"""A copy of the store in a second place, which stays when the machine goes; kept up to date by a process of its own.

Theory of operation. A store works where locks hold and a write is there at once: on a disk of the machine. A folder
that outlives the machine (Google Drive in Colab, a network drive) offers neither; often others see a file there only
when it has been closed. So the store stays where it is, and

- `fetch` brings it back from the second place, if it is not there when it is opened first: whole, or not at all;
- a `Keeper` is the process that copies what is new, soon after it was saved, and once more when the kernel is gone,
  whatever ended it. It opens the second store for each copy and closes it again, so that files are complete there.

What goes from the store (the progress of a loop which has gone on, what was pruned or deleted) goes from the second
place too, if this keeper has seen it in this very store before. A store that was lost or begun anew takes nothing
along.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nbcheckpoint.backend.disk_witness import Witness
from nbcheckpoint.errors import Error, NotFound, UsageError
from nbcheckpoint.store import open_store
from nbcheckpoint.store.copying import Copied
from nbcheckpoint.store.survey import survey
from nbcheckpoint.store.upkeep import Sweeping, collect
from nbcheckpoint.store.watching import glance

LOOK_SECONDS: Final = 2.0
"""How often the store is looked at, which costs two `stat`."""
SHARE: Final = 0.1
"""Of the time, so much may be spent on copying."""
GRACE_SECONDS: Final = 60.0
"""Chunks that no record in the second place names are kept for so long: nobody else writes there."""
COMING: Final = ".coming"

_KEEP: Final = "import sys; from nbcheckpoint.store.keeping import main; main(*sys.argv[1:])"


def folder_of(location: str) -> Path:
    """Where a store is that can be kept. Raises UsageError."""
    if "://" in location and not location.startswith("file://"):
        raise UsageError(f"{location} is no folder", hint="only a store in a folder is copied")
    return Path(os.path.abspath(os.path.expanduser(location.removeprefix("file://"))))


def checked(second: str) -> Path:
    """The second place. Raises UsageError where the folder it is to be in is not there: what is mounted there may have
    come off, and the folder below it belongs to the machine."""
    there = folder_of(second)
    if not there.parent.is_dir():
        raise UsageError(f"there is no folder {there.parent}", hint="is it mounted?")
    return there


def fetched(location: str, second: str) -> str:
    """Bring a store back, if there is something to bring. Returns what has gone wrong, in a sentence."""
    try:
        copied = fetch(location, second)
    except (Error, OSError) as error:
        hint = f" · {error.hint}" if isinstance(error, Error) and error.hint else ""
        return f"what was saved elsewhere could not be brought here: {error}{hint}"
    if copied is None or not copied.notes:
        return ""
    notes = " ".join(copied.notes[0].split())
    return (
        f"not all that was saved elsewhere could be brought here: {notes} · run: nbcheckpoint verify --store {second}"
    )


def fetch(location: str, second: str) -> Copied | None:
    """Bring a store back that is not there. What was copied, if that was done, and what could not be. Raises Error;
    then there is none as before."""
    here, there = folder_of(location), checked(second)
    if here == there:
        raise UsageError(f"{second} is the store itself", hint="name another folder for its copy")
    if here.exists() or not (there / "cache.db").exists():
        return None
    coming = here.with_name(here.name + COMING)  # a copy that was cut short is carried on
    try:
        with open_store(there, create=False) as store:
            copied = store.copy_to(str(coming))
        os.rename(coming, here)
    except (OSError, Error):
        if not here.exists():
            raise
        return None  # another kernel was faster
    return copied


class Keeper:
    """The process, as the kernel sees it. It needs nobody to end it."""

    def __init__(self, location: str, second: str) -> None:
        told, tells = os.pipe()
        os.set_blocking(told, False)
        self._told = told
        command = [sys.executable, "-c", _KEEP, str(folder_of(location)), str(folder_of(second)), str(os.getpid())]
        try:
            # Not of the kernel's group: what interrupts or kills a cell is not meant for it.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=tells, stderr=subprocess.DEVNULL, start_new_session=True
            )
        finally:
            os.close(tells)

    def trouble(self) -> str:
        """What has gone wrong since this was asked last, in a sentence."""
        try:
            return os.read(self._told, 1 << 16).decode().strip().rpartition("\n")[2]
        except OSError:
            return ""  # nothing has


class Copying:
    """The work, one look at a time."""

    def __init__(self, location: str, second: str) -> None:
        self._location = location
        self.second = second
        self._glance: object = None
        self._store_id = ""
        self._seen: set[str] = set()
        """Checkpoints that were in the store when it was copied last."""

    def look(self, *, last: bool = False) -> None:
        """Copy, if something was saved since; the `last` time in any case. Raises Error."""
        now = glance(self._location)
        if now == self._glance and not last:
            return
        with open_store(self._location, create=False) as store:
            entry = store.backend.get("format")  # written when a store is made, under a version no other one has
            store_id = entry.version if entry is not None else ""
            found = survey(store, chunks=False)
            there = set(found.checkpoints)
            if store_id != self._store_id:
                self._store_id, self._seen = store_id, set()
            if there != self._seen or last:
                store.copy_to(str(checked(self.second)))
                if not found.unread:
                    self._remove(self._seen - there)
                # Files may arrive there in any order. One that speaks of others would accuse those which are late.
                Witness(Path(self.second)).forgive()
                self._seen = there
        self._glance = now

    def _remove(self, gone: set[str]) -> None:
        if not gone:
            return
        with open_store(self.second, create=False) as second:
            for id in gone:
                second.delete_checkpoint(id)
            collect(second, GRACE_SECONDS)
            second._sync()
            if isinstance(second.backend, Sweeping):
                second.backend.sweep(GRACE_SECONDS)


def keep(work: Copying, is_over: Callable[[float], bool], tell: Callable[[str], object]) -> None:
    """Until it is over: look, copy, wait. `is_over` waits for so many seconds."""
    said, over = "", False
    while True:
        began = time.monotonic()
        try:
            work.look(last=over)
            trouble = ""
        except NotFound:
            trouble = ""  # nothing has been saved yet, or the user has removed it
        except Exception as error:
            trouble = f"what is saved here is not copied to {work.second}: {error}"
        if trouble and trouble != said:
            tell(trouble.replace("\n", " "))
        said = trouble
        if over:
            return
        over = is_over(max(LOOK_SECONDS, (time.monotonic() - began) * (1 / SHARE - 1)))


def main(location: str, second: str, kernel: str) -> None:
    """What the process does. `kernel`: whose end is its own."""
    never = threading.Event()

    def is_over(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while os.getppid() == int(kernel) and time.monotonic() < until:
            never.wait(LOOK_SECONDS / 4)
        return os.getppid() != int(kernel)

    def tell(text: str) -> None:
        try:
            print(text, flush=True)
        except OSError:
            pass  # nobody listens any more

    keep(Copying(location, second), is_over, tell)

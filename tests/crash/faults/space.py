"""Full disks and read-only disks: all that was saved still restores, deleting frees space, errors are told."""

from __future__ import annotations

import os
import random
from pathlib import Path

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Error, StoreFull, StoreReadOnly
from tests.crash.faults.disks import disk, mount, remount, unmount
from tests.crash.faults.ledger import Ledger, Progress, Tally, Work, check_store, content, name_of, no_progress


def full(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    """Fill a disk by saving, and with a foreign file; then restore, delete and save again."""
    tally = Tally("full disk")
    for number in range(rounds):
        with disk(place, megabytes=24) as point:
            _fill_and_free(point, seed + number, tally)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _fill_and_free(point: Path, seed: int, tally: Tally) -> None:
    ledger, chance = Ledger(), random.Random(seed)
    backend = DiskBackend(point / "store")
    work = Work(backend, lambda text: ledger.read(iter([text.encode()])), seed)
    hog = point / "hog"
    for _ in range(chance.randrange(1, 40)):
        if not _saved(work):
            break
    _fill(hog, leave=chance.choice([0, 0, 4096, 65536, 1 << 20]))
    for _ in range(30):
        _saved(work)
    for reopened in (False, True):
        if reopened:
            _close(backend)
            backend = DiskBackend(point / "store")
        ledger.check(backend, tally)
    _delete_everything(backend, ledger, tally)
    if backend.read_only:
        tally.note("wrong", "a full disk is not a read-only one")
    hog.unlink()
    _close(backend)
    backend = DiskBackend(point / "store")
    if not any(_saved(Work(backend, work.say, seed + 1000 + i)) for i in range(8)):
        tally.note("stuck", "nothing can be saved although there is space again")
    ledger.check(backend, tally)
    _close(backend)
    check_store(point / "store", ledger, tally)


def _delete_everything(backend: DiskBackend, ledger: Ledger, tally: Tally) -> None:
    """With the disk still full: deleting has to work, and to give space back."""
    before = _free(backend.directory)
    freed = 0
    try:
        for seed in list(ledger.chunks):
            freed += backend.delete_chunk(name_of(seed))
        for key in list(ledger.done):
            ledger.gone.add(key)
            backend.delete(key)
    except StoreFull as error:
        tally.note("stuck", f"cannot delete: {error}")
    ledger.chunks.clear()
    gained = _free(backend.directory) - before
    if freed > 4 << 20 and gained < freed // 2:
        tally.note("stuck", f"deleted {freed} bytes, got {gained} back")


def _saved(work: Work) -> bool:
    try:
        work.step()
        return True
    except StoreFull:
        return False


def _close(backend: DiskBackend) -> None:
    try:
        backend.close()
    except Error:
        pass


def _fill(path: Path, *, leave: int) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass
        if leave:
            file.truncate(max(0, file.tell() - leave))
    os.sync()


def _free(path: Path) -> int:
    os.sync()
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def read_only(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    """Everything restores from a disk that cannot be written, closed or not; writing is told."""
    tally = Tally("read-only disk")
    for number in range(rounds):
        with disk(place, megabytes=48) as point:
            ledger = Ledger()
            backend = DiskBackend(point / "store")
            work = Work(backend, lambda text, ledger=ledger: ledger.read(iter([text.encode()])), seed + number)
            for _ in range(25):
                work.step()
            if number % 3 == 0:
                backend.close()
                _check_read_only(place, point, ledger, tally, remounted=True)
            elif number % 3 == 1:
                backend.sync()
                _copy_as_killed(point, lose_shm=number % 2 == 0)
                backend.close()
                _check_read_only(place, point, ledger, tally, remounted=True)
            else:  # while it is open
                backend.sync()
                remount(point, "abort")  # as ext4 does it by itself after an error of the disk
                ledger.check(backend, tally)
                _expect_refusal(backend, tally)
                _close(backend)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _copy_as_killed(point: Path, *, lose_shm: bool) -> None:
    """The store as a killed process leaves it: with a log, and perhaps without its shared memory."""
    import shutil

    shutil.copytree(point / "store", point / "killed")
    if lose_shm:
        (point / "killed" / "cache.db-shm").unlink()


def _check_read_only(place: Path, point: Path, ledger: Ledger, tally: Tally, *, remounted: bool) -> None:
    unmount(point)
    mount(place / "disk.img", point)
    remount(point, "ro")
    which = point / "killed" if (point / "killed").exists() else point / "store"
    backend = DiskBackend(which)
    if not backend.read_only:
        tally.note("wrong", "it does not know that it is read-only")
    ledger.check(backend, tally)
    _expect_refusal(backend, tally)
    _close(backend)


def _expect_refusal(backend: DiskBackend, tally: Tally) -> None:
    for step in (
        lambda: backend.put("new", b"x"),
        lambda: backend.put_chunk(name_of(9999), content(9999)) and backend.sync(),
        lambda: backend.delete("k/1"),
    ):
        try:
            step()
        except StoreReadOnly:
            continue
        except Error as error:
            tally.note("wrong", f"told as {error!r}")
        else:
            tally.note("wrong", "a write to a read-only disk was acknowledged")

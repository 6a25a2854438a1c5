"""Small disks of our own to be filled, pulled out and made read-only: loop-mounted ext4 files. Needs root."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
"""As if the plug had been pulled: what is not on the disk yet never gets there."""


def available(place: Path) -> bool:
    """Can this machine mount one?"""
    try:
        with disk(place, megabytes=16):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def disk(place: Path, *, megabytes: int) -> Iterator[Path]:
    """A freshly formatted disk, mounted below `place`."""
    place.mkdir(parents=True, exist_ok=True)
    image, point = place / "disk.img", place / "disk"
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
    point.mkdir(exist_ok=True)
    mount(image, point)
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], capture_output=True, check=False)
        image.unlink(missing_ok=True)


def mount(image: Path, point: Path) -> None:
    # Of ext4's modes the one that forgives least: a file's blocks may reach the disk after its size has.
    _run("mount", "-o", "loop,data=writeback", str(image), str(point))


def unmount(point: Path) -> None:
    _run("umount", str(point))


def remount(point: Path, how: str) -> None:
    _run("mount", "-o", f"remount,{how}", str(point))


def pull_the_plug(point: Path) -> None:
    import fcntl

    fd = os.open(point, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(fd)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)

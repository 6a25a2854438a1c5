"""Files a step reads or writes, as Python itself reports them.

An audit hook sees every `open` made through Python, `os.listdir` and `os.scandir`. Libraries that open files
in C (Arrow, HDF5) are not seen; but the path has to come from somewhere, so constant strings and string inputs
that name an existing file count as read too. A file that changed between being opened and the end of the step
gets no digest, and what has no digest never matches.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blake3 import blake3

from nbcheckpoint.model import FileSeen

_CODE = (".py", ".pyc", ".pyd", ".so", ".ipynb")
_SYSTEM = ("/proc/", "/dev/", "/sys/", "/run/")
DOUBT_SECONDS = 2.0
"""A file touched this shortly before we looked could be touched again within the same clock tick."""


class FileWatch:
    """What was opened while it was on: path -> (size, mtime) at the first opening, None for a new file."""

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self.read: dict[str, tuple[int, int] | None] = {}
        self.written: set[str] = set()
        self._ignore = (*_installed(), *_SYSTEM, *(os.path.abspath(path) + os.sep for path in ignore))

    def note(self, path: str, *, writes: bool) -> None:
        """One opening. Called from inside `open`: must be quick and must not raise."""
        path = os.path.abspath(path)
        if path.startswith(self._ignore) or path.endswith(_CODE):
            return
        if writes:
            self.written.add(path)
        elif path not in self.written:
            self.read.setdefault(path, _stat(path))

    def mention(self, strings: Iterable[str]) -> None:
        """Strings the step had at hand: those that name a file count as read."""
        for text in strings:
            if 0 < len(text) < 1024 and "\n" not in text and "\0" not in text and os.path.isfile(text):
                self.note(text, writes=False)

    def seen(self) -> tuple[FileSeen, ...]:
        """Everything noted, as it is now."""
        files = []
        for path in sorted(self.read.keys() | self.written):
            written = path in self.written
            before = self.read.get(path)
            if path in self.read and before is None:
                continue  # it was not there: the step noticed itself
            now = look(path, written=written)
            if now is None:
                if not written:
                    files.append(FileSeen(path=path))
                continue  # written and removed again: a temporary file
            if path in self.read and before != (now.size, now.mtime_ns):
                now = FileSeen(path=path, written=written)
            files.append(now)
        return tuple(files)


def look(path: str, *, written: bool = False) -> FileSeen | None:
    """A file or folder as it is now, None if it is not there."""
    stat = _stat(path)
    if stat is None:
        return None
    try:
        if os.path.isdir(path):
            with _unnoticed():
                names = sorted(os.listdir(path))
            content = "\0".join(names).encode("utf-8", "surrogateescape")
            return FileSeen(path=path, digest=blake3(content).hexdigest(), written=written)
        hasher = blake3()
        with _unnoticed(), open(path, "rb") as file:
            while block := file.read(1 << 20):
                hasher.update(block)
    except OSError:
        return FileSeen(path=path, written=written)
    return FileSeen(path=path, size=stat[0], mtime_ns=stat[1], digest=hasher.hexdigest(), written=written)


def unchanged(recorded: FileSeen) -> bool:
    """Is it still what it was? By size and time where those settle it, by its bytes in doubt."""
    if not recorded.digest:
        return False
    stat = _stat(recorded.path)
    if stat is None:
        return False
    in_doubt = time.time() - recorded.mtime_ns / 1e9 < DOUBT_SECONDS
    if recorded.mtime_ns and stat == (recorded.size, recorded.mtime_ns) and not in_doubt:
        return True
    now = look(recorded.path)
    return now is not None and now.digest == recorded.digest


def _stat(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    # A folder's own size and time say nothing about the names in it on every file system.
    return (0, 0) if os.path.isdir(path) else (found.st_size, found.st_mtime_ns)


def _installed() -> Iterator[str]:
    for path in {sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path.home() / ".cache")}:
        yield os.path.abspath(path) + os.sep


_watches: list[FileWatch] = []
_quiet = threading.local()
_hooked = False


def start(watch: FileWatch) -> None:
    """Note openings from here on. The hook itself can never be removed again, so it costs one test when off."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    _watches.append(watch)


def stop(watch: FileWatch) -> None:
    """Note no more. Stopping twice is fine."""
    if watch in _watches:
        _watches.remove(watch)


@contextmanager
def _unnoticed() -> Iterator[None]:
    """Our own reading is not the user's."""
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _watches or getattr(_quiet, "on", False):
        return
    if event == "open":
        path, mode, flags = args
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, (str, os.PathLike)):
            writes = bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR))
            _note(os.fspath(path), writes=writes or any(c in (mode or "") for c in "wax+"))
    elif event in ("os.listdir", "os.scandir"):
        path = args[0]
        if path is None or isinstance(path, (str, os.PathLike)):
            _note(os.fspath(path or "."), writes=False)


def _note(path: str, *, writes: bool) -> None:
    for watch in tuple(_watches):
        watch.note(path, writes=writes)

"""What a `with` around a loop has opened, and opens again when the loop goes on: it need not be saved.

A file that is read is the same once more if it has the same name, is unchanged, which is looked after elsewhere, and
stands where it stood. Where that is cannot be asked of a text file whose lines a loop goes through; but skipping the
lines that are done brings it there, if nothing but the loop asks for them. The same goes for what reads such a file for
the loop. An archive that is read and an executor that has nothing to do are always as they were.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection
from typing import Any, NamedTuple

from nbcheckpoint.whose import package_of

PREFIX = "with:"
"""Under this and its name is kept what has to be there again. No variable can be called that."""
_READERS = frozenset({"_csv.reader", "csv.DictReader", "pandas.TextFileReader"})


class Opened(NamedTuple):
    """What it is, so that it is known again, and where it stands."""

    kind: str
    name: str = ""
    at: int | None = None


def opened(name: str, value: Any, reached: Collection[str]) -> Opened | None:
    """What has to be there again in its place, if that is certain to do. `reached`: names the loop's body reads."""
    kind = f"{package_of(type(value))}.{type(value).__qualname__}"
    if kind in _READERS:
        return Opened(kind) if name not in reached else None
    if type(value) in (io.TextIOWrapper, io.BufferedReader):
        return _file(kind, value, asked_for=name in reached)
    if kind == "zipfile.ZipFile":
        return Opened(kind, str(value.filename)) if value.mode == "r" and value.filename else None
    return Opened(kind) if _is_idle(value) else None


def gives_a_file(iterator: Any) -> bool:
    """Is it a file of this machine's, or a table read from one? As long as that is unchanged it gives the same."""
    if f"{package_of(type(iterator))}.{type(iterator).__qualname__}" == "pandas.TextFileReader":
        iterator = getattr(getattr(iterator, "handles", None), "handle", None)
    return type(iterator) in (io.TextIOWrapper, io.BufferedReader) and _raw(iterator) is not None


def _raw(file: Any) -> Any:
    """What it reads from, if that is a file with a name."""
    raw: Any = getattr(getattr(file, "buffer", file), "raw", None)
    is_read = type(raw) is io.FileIO and raw.mode == "rb" and isinstance(raw.name, (str, os.PathLike))
    return raw if is_read and not file.closed else None


def _file(kind: str, file: Any, *, asked_for: bool) -> Opened | None:
    raw = _raw(file)
    if raw is None:
        return None
    name = f"{os.path.abspath(raw.name)} {getattr(file, 'encoding', '')} {getattr(file, 'errors', '')}"
    try:
        return Opened(kind, name, file.tell())
    except OSError:  # a loop goes through its lines
        return Opened(kind, name) if not asked_for else None


def _is_idle(executor: Any) -> bool:
    threads: Any = sys.modules.get("concurrent.futures.thread")
    if threads is None or type(executor) is not threads.ThreadPoolExecutor or executor._initializer is not None:
        return False
    return bool(executor._work_queue.empty() and executor._idle_semaphore._value == len(executor._threads))


def is_again(value: Any, before: Opened, name: str) -> bool:
    """Is it open again? It is put where it stood."""
    now = opened(name, value, ())
    if now is None or now[:2] != before[:2]:
        return False
    if before.at is not None and before.at != now.at:
        value.seek(before.at)
    return True

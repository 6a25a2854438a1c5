"""What a statement has added to files comes back, where they have been begun again.

`open("results.csv", "w")` with the names of the columns stands before the loop that adds its lines. It takes no time,
so it runs again in the new kernel, and the lines are gone that the killed one has written. As long as the file is again
what it was before the first of them, they are added once more: what they say is as much a part of the statement's work
as the variables it has bound.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

from blake3 import blake3
from msgspec.structs import replace

from nbcheckpoint.fingerprint import files
from nbcheckpoint.model import FileSeen

PREFIX = "log:"
"""Under this and its path is kept what was added to a file. No variable can be called that."""
MOST_BYTES = 16 << 20
"""Of what was added, and of what was there before: both are read whenever the statement is saved."""


def keep(seen: Iterable[FileSeen], began: Mapping[str, int]) -> tuple[tuple[FileSeen, ...], dict[str, Any]]:
    """The files, and what the statement has added to those of them it has only ever added to. `began`: how large they
    were before."""
    told: list[FileSeen] = []
    added: dict[str, Any] = {}
    for file in seen:
        before = began.get(file.path, -1)
        head, tail = _parts(file, before) if file.appended and 0 <= before <= file.size else (b"", b"")
        if tail:
            added[PREFIX + file.path] = pickle.PickleBuffer(tail)
            file = replace(file, kept=before, before=blake3(head).hexdigest())
        told.append(file if tail or not file.appended else replace(file, kept=-1, before=""))
    return tuple(told), added


def _parts(file: FileSeen, before: int) -> tuple[bytes, bytes]:
    """What it had before, and what was added; nothing where that is too much, or no longer what was seen."""
    if max(before, file.size - before) > MOST_BYTES:
        return b"", b""
    try:
        with files.unnoticed(), open(file.path, "rb") as opened:
            head, tail = opened.read(before), opened.read(file.size - before)
    except OSError:
        return b"", b""
    return (head, tail) if blake3(head + tail).hexdigest() == file.digest else (b"", b"")


def put_back(seen: Iterable[FileSeen], values: Mapping[str, Any]) -> None:
    """Add once more what was added to those that have been begun again."""
    for file in seen:
        if PREFIX + file.path in values and files.begun_again(file):
            with files.unnoticed(), open(file.path, "ab") as opened:
                opened.write(values[PREFIX + file.path])
                opened.flush()
                os.fsync(opened.fileno())

"""The witness: a few bytes beside the index that know better than the index how far it had come.

Theory of operation. SQLite recovers its log up to the first frame that does not check; one flipped bit makes
every later commit vanish without a word, and finished work would look "never computed". So each transaction
counts up a number in the index, and after a durable commit that number is written here as well. At opening,
an index that is behind its witness has lost commits: that is told, and stays told until it is acknowledged.

The witness also notes the fingerprint of the index's files as they were after the last commit, but only by a
process that had itself found the index sound. Where it still matches, nobody has touched the files since, and
a key that is not found was never stored. Where it does not (a crash, a copy, a restored backup, a flipped bit)
the first miss has to check the whole index before it may be believed.

It is written without fsync, always after the commit it speaks of, so a power cut can only leave it behind.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from blake3 import blake3

from nbcheckpoint.backend.disk_files import fingerprint

WITNESS: Final = "witness"
DAMAGED: Final = "damaged"
_LENGTH: Final = 128
_TEXT: Final = "utf-8"


class Testimony(NamedTuple):
    """What the witness says."""

    sequence: int = 0
    """Number of the last durable commit."""
    files: str = ""
    """Digest of the index files' fingerprints, or empty when nobody could vouch for them."""


class Witness:
    """Reads and writes the witness file of one store. Its absence is no error: it just knows nothing."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / WITNESS
        self._damaged = directory / DAMAGED
        self._files = (directory / "cache.db", directory / "cache.db-wal")

    def read(self) -> Testimony:
        for _ in range(3):  # another process may be in the middle of writing it
            try:
                line = self._path.read_bytes()[:_LENGTH].decode(_TEXT)
                body, check = line.rstrip().rsplit(" ", 1)
                if f"{zlib.crc32(body.encode(_TEXT)):08x}" == check:
                    sequence, files = body.split(" ")
                    return Testimony(int(sequence, 16), files.strip("-"))
            except (OSError, ValueError):
                continue
        return Testimony()

    def write(self, testimony: Testimony) -> None:
        body = f"{testimony.sequence:016x} {testimony.files or '-'}"
        line = f"{body} {zlib.crc32(body.encode(_TEXT)):08x}".ljust(_LENGTH - 1) + "\n"
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                os.write(fd, line.encode(_TEXT))
            finally:
                os.close(fd)
        except OSError:
            # It only ever makes us more careful; a commit does not fail for want of it.
            pass

    def files(self) -> str:
        """The fingerprint of the index as it is now."""
        marks = []
        for path in self._files:
            try:
                status = os.stat(path)
            except OSError:
                marks.append("absent")
                continue
            marks.append(fingerprint(status) if status.st_size else "empty")
        return blake3("/".join(marks).encode(_TEXT)).hexdigest()[:32]

    def complaint(self) -> str:
        """Why the index was found to have lost commits; empty when it was not."""
        try:
            return self._damaged.read_text(_TEXT)[:500]
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            return f"{DAMAGED} cannot be read: {error}"

    def complain(self, text: str) -> None:
        """Keep it beyond this process: new commits would soon make the numbers look right again."""
        try:
            fd = os.open(self._damaged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            return  # said already, or a disk that cannot be written (and then no commit can hide it either)
        try:
            os.write(fd, text.encode(_TEXT))
            os.fsync(fd)
        finally:
            os.close(fd)

    def acknowledge(self) -> None:
        """The user knows. What is left counts from now on."""
        self._path.unlink(missing_ok=True)
        self._damaged.unlink(missing_ok=True)

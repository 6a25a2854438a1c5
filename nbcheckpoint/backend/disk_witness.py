"""The witness: a few bytes beside the index that know better than the index how far it had come.

Theory of operation. SQLite recovers its log up to the first frame that does not check; one flipped bit makes
every later commit vanish without a word, and finished work would look "never computed". So each transaction
counts up a number in the index, and after a durable commit that number is written here as well. At opening,
an index that is behind its witness has lost commits: that is told, and stays told until it is acknowledged.

The witness also notes the fingerprint of the index's files as they were after the last commit, but only by a
process that had itself found the index sound. Where it still matches, nobody has touched the files since, and
a key that is not found was never stored. Where it does not (a crash in the middle of a commit, a copy, a
restored backup, a flipped bit) the whole index is checked before the first miss is believed or the first
transaction is built upon it.

It is written without fsync, always after the commit it speaks of, so a power cut can only leave it behind. What
happens to the files while a process has them open is not its matter: that is found by the audit or by `verify`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from blake3 import blake3

from nbcheckpoint.backend.disk_files import fingerprint, fsync_path, write_new
from nbcheckpoint.errors import StoreDamaged

WITNESS: Final = "witness"
DAMAGED: Final = "damaged"

_SLOT: Final = 64
"""Each of the two statements has a slot of its own, so that writing one never undoes another process's other."""


class Witness:
    """Reads and writes the witness file of one store. Its absence is no error: it just knows nothing."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / WITNESS
        self._name = str(self._path)
        self._damaged = directory / DAMAGED
        self._index = (str(directory / "cache.db"), str(directory / "cache.db-wal"))
        self._flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

    @property
    def sequence(self) -> int:
        """Number of the last durable commit it knows of."""
        text = self._read(0)
        return int(text, 16) if text else 0

    @property
    def files(self) -> str:
        """The index's files as they were when somebody last vouched for them."""
        return self._read(1)

    def testify(self, sequence: int | None, files: str) -> None:
        try:
            fd = os.open(self._name, os.O_RDWR | os.O_CREAT | self._flags, 0o600)
        except OSError:
            return  # it only ever makes us more careful; a commit does not fail for want of it
        try:
            if sequence is not None and sequence > int(_slot(fd, 0) or "0", 16):
                _write(fd, 0, f"{sequence:016x}")
            _write(fd, 1, files or "-")
        except OSError:
            pass
        finally:
            os.close(fd)

    def _read(self, slot: int) -> str:
        try:
            fd = os.open(self._name, os.O_RDONLY | self._flags)
        except OSError:
            return ""
        try:
            return _slot(fd, slot)
        except OSError:
            return ""
        finally:
            os.close(fd)

    def current(self) -> str:
        """The index's files as they are now."""
        marks = []
        for path in self._index:
            try:
                status = os.stat(path)
                marks.append(fingerprint(status) if status.st_size else "empty")
            except OSError:
                marks.append("empty")
        return blake3("/".join(marks).encode()).hexdigest()[:32]

    @property
    def complaint(self) -> str:
        """Why the index was found to have lost commits; empty when it was not."""
        try:
            return self._damaged.read_text("utf-8", errors="replace")[:500]
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{DAMAGED} cannot be read: {error}"

    def complain(self, text: str) -> None:
        """Keep it beyond this process: new commits would soon make the numbers look right again."""
        try:
            write_new(self._damaged, text.encode())
            fsync_path(self._damaged.parent)
        except OSError:
            pass  # a disk that cannot be written: no commit can hide it either

    def forgive(self) -> None:
        self._path.unlink(missing_ok=True)
        self._damaged.unlink(missing_ok=True)


def _slot(fd: int, slot: int) -> str:
    for _ in range(3):  # another process may be in the middle of writing it
        os.lseek(fd, slot * _SLOT, os.SEEK_SET)
        try:
            text = os.read(fd, _SLOT).decode("ascii")
        except ValueError:
            return ""
        body, _, check = text.strip().partition(" ")
        if check == _check(body):
            return "" if body == "-" else body
    return ""


def _write(fd: int, slot: int, body: str) -> None:
    line = f"{body} {_check(body)}".ljust(_SLOT - 1) + "\n"
    os.lseek(fd, slot * _SLOT, os.SEEK_SET)
    os.write(fd, line.encode("ascii"))


def _check(body: str) -> str:
    return f"{zlib.crc32(body.encode('ascii')):08x}"


class Soundness:
    """What this process knows about the index it opened: can a miss be believed?"""

    def __init__(self, witness: Witness, check: Callable[[], list[str]]) -> None:
        """`check` goes through the whole index and returns what is wrong with it."""
        self._witness = witness
        self._check = check
        self._sound = False
        self.checked = False
        """Has this process gone through the whole index? Otherwise it was taken at its fingerprint's word."""
        self.damage = ""
        """What is known to be lost or damaged; misses are not believed while this says something."""

    def opened(self, *, sequence: int, witnessed: int, fresh: bool) -> None:
        """`witnessed` was read before the index was: the witness is written after the commit."""
        self._sound = fresh or self._witness.files == self._witness.current()
        self.checked = fresh
        self.damage = self._witness.complaint
        if sequence < witnessed and not self.damage:
            self.damage = (
                f"the last {witnessed - sequence} of {witnessed} commits are missing from the index:"
                " its log was cut or altered"
            )
            self._witness.complain(self.damage)

    def vouch(self, sequence: int | None) -> None:
        """After a commit; `sequence` if it was a durable one."""
        self._witness.testify(sequence, self._witness.current() if self._sound else "")

    def require(self) -> None:
        """Before building upon the index. Raises StoreDamaged if it is not consistent."""
        if self._sound:
            return
        if self.checked:
            raise StoreDamaged(self.damage)
        problems = self._check()
        if problems:
            self.refute(problems[0])
            raise StoreDamaged(self.damage)
        self._sound = self.checked = True

    def believe_miss(self) -> None:
        """Before saying "there is no such thing". Raises StoreDamaged if that might be untrue."""
        if self.damage:
            raise StoreDamaged(self.damage)
        self.require()

    def refute(self, problem: str) -> None:
        """It is damaged. If it was taken at its word before, nobody else shall be."""
        self._sound, self.checked = False, True
        self.damage = f"the index is damaged: {problem}"
        self._witness.testify(None, "")

    def acknowledge(self) -> None:
        """The user knows: what is left is what there is. An index that is not consistent stays damaged."""
        self._witness.forgive()
        self.damage = ""
        self.checked = self._sound

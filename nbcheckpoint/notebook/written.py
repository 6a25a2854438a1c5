"""A file that a `with` around a loop writes: when the loop goes on, the file does so, too.

    with open("a", "w") as f:       ->      with HOOKS.within(n, HOOKS.opener(n, "f", open)("a", "w")) as f:

When the loop is saved, so is how long the file is, and a digest of what is in it. To go on, the `with` is entered
again, and what stands before the loop in it runs again and writes its header once more. What that is to come to is
not known before the loop goes on, or begins anew after all. Until then nothing is written to the file: what was opened
writes to a temporary one in its place, by a descriptor that is exchanged for the file's own as soon as it is known.
So nothing that is in the file is ever written once more, and there is no moment at which a kill loses it.

- It goes on: what was written in its place is dropped, and the file is cut behind what it had when it was saved.
- It begins anew: the file is emptied, and gets what was written in its place.
- It fails, or is interrupted before that: the file is as it was.

A file that is only added to is never cut, because others may add to it: what was added since it was saved stays.
"""

from __future__ import annotations

import codecs
import csv
import gc
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from blake3 import blake3

from nbcheckpoint.engine.trail import NotMade
from nbcheckpoint.fingerprint import files

SEEN_THROUGH = frozenset({"buffer", "detach", "fileno", "reconfigure"})
"""Who asks a file for one of these may see when it is flushed, or changes what it writes."""
_TEXT = "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be ascii iso8859-1 iso8859-15 cp1252"
_STATELESS = frozenset(_TEXT.split())
"""Encodings in which what comes next does not depend on what was before, but for a mark at the beginning."""
_FILES = (io.TextIOWrapper, io.BufferedWriter, io.FileIO)
_ANY_FILE = (io.TextIOWrapper, io.BufferedIOBase, io.RawIOBase)
_BLOCK = 1 << 20


class Written(NamedTuple):
    """What such a file is, so that it is known again, and what is in it."""

    name: str
    how: str
    at: int
    digest: str
    began: int
    """How long it was when it was opened."""


class Writer(NamedTuple):
    """What writes rows to such a file, and remembers nothing of them."""

    kind: str
    how: str


class NotAsLeft(Exception):
    """The file cannot go on."""


class _Content:
    """A digest of the beginning of a file, which need not be made anew as the file grows."""

    def __init__(self) -> None:
        self._hasher, self._length = blake3(), 0

    def digest(self, path: str, length: int) -> str:
        """Of the first so many bytes. Raises NotAsLeft if there are not that many."""
        if length < self._length:
            self._hasher, self._length = blake3(), 0
        with files.unnoticed(), open(path, "rb") as file:
            file.seek(self._length)
            while self._length < length:
                block = file.read(min(_BLOCK, length - self._length))
                if not block:
                    raise NotAsLeft
                self._hasher.update(block)
                self._length += len(block)
        return str(self._hasher.hexdigest())


class _InPlace:
    """A file that was opened to go on, and what is written in its place until that is known."""

    def __init__(self, saved: Written) -> None:
        self.saved, self.content = saved, _Content()
        self.file: Any = None
        self.path, self._adds = "", False
        self._real = self._kept = -1
        self._found: tuple[int, ...] = ()

    def lend(self, path: Any, flags: int) -> int:
        """A descriptor to write to in its place. Raises NotAsLeft, or OSError, if the file cannot go on."""
        self.path, self._adds = _named(path), bool(flags & os.O_APPEND)
        if self.path != self.saved.name or flags & os.O_EXCL or not flags & os.O_WRONLY:
            raise NotAsLeft
        with files.unnoticed():
            self._real = os.open(self.path, flags & ~(os.O_TRUNC | os.O_CREAT))
            self._found = _look(self._real)
            self._check_content()
            with tempfile.TemporaryFile() as made:
                if flags & os.O_APPEND:
                    made.truncate(self.saved.began)
                self._kept = os.dup(made.fileno())
            return os.dup(self._kept)

    def _check_content(self) -> None:
        if self.content.digest(self.path, self.saved.at) != self.saved.digest or not _is_at(self.path, self._real):
            raise NotAsLeft

    def check(self, file: Any) -> None:
        """Is it the one, and the file still as it was? Raises NotAsLeft."""
        if file is not self.file or file.closed or _how(file) != self.saved.how:
            raise NotAsLeft
        file.flush()
        if _look(self._real) != self._found or not _is_at(self.path, self._real):
            self.content = _Content()
            self._check_content()

    def go_on(self) -> None:
        """Behind what was there when it was saved."""
        os.dup2(self._real, self.file.fileno(), inheritable=False)
        if self._adds:
            self.file.seek(0, os.SEEK_END)
        else:
            os.ftruncate(self._real, self.saved.at)
            self.file.seek(self.saved.at)

    def begin_anew(self) -> None:
        """As if it had been opened just so, and written to since. Also when it is closed by now."""
        is_open = self.file is not None and not self.file.closed
        at = 0
        if is_open:
            self.file.flush()
            at = self.file.tell()
            os.dup2(self._real, self.file.fileno(), inheritable=False)
        if not self._adds:
            os.ftruncate(self._real, 0)
        place, end = self.saved.began if self._adds else 0, os.fstat(self._kept).st_size
        os.lseek(self._real, 0, os.SEEK_END)
        while place < end:
            os.lseek(self._kept, place, os.SEEK_SET)
            place += os.write(self._real, os.read(self._kept, min(_BLOCK, end - place)))
        if is_open:
            self.file.seek(*((0, os.SEEK_END) if self._adds else (at,)))

    def let_go(self) -> None:
        for descriptor in {self._real, self._kept} - {-1}:
            os.close(descriptor)
        self._real = self._kept = -1


class _Head:
    """A file that the `with`s around a loop have opened to write to it."""

    def __init__(self, file: Any, began: int, content: _Content) -> None:
        self.file, self.began, self.content = file, began, content
        self.path = _named(_raw(file).name)
        self._is_durable = False

    def left(self) -> Written:
        """What it is now, all of it on the disk. Raises NotAsLeft, and NotMade where the user's file fails."""
        how = _how(self.file)
        try:
            self.file.flush()
        except OSError as error:  # what was to be written may be lost: whoever writes has to know
            raise NotMade from error
        at, descriptor = self.file.tell(), self.file.fileno()
        if os.fstat(descriptor).st_size != at or not _is_at(self.path, descriptor):
            raise NotAsLeft
        digest = self.content.digest(self.path, at)
        os.fsync(descriptor)
        if not self._is_durable and hasattr(os, "O_DIRECTORY"):
            _sync_folder(os.path.dirname(self.path))
            self._is_durable = True
        return Written(self.path, how, at, digest, self.began)


class Files:
    """Those of one statement."""

    def __init__(self) -> None:
        self._heads: dict[str, _Head] = {}
        self._again: dict[str, _InPlace] = {}
        self._expected = ""
        self._strays: list[Any] = []
        """Files that are written, and that nobody can open again as they were."""

    # They are opened

    def opener(self, name: str, function: Any, saved: Any, begin_anew: Callable[[], object]) -> Any:
        """What is to be called instead of that function. `saved`: what is to be there again, if anything is."""
        if not _is_open(function):
            return function
        self._expected = name
        return partial(self._open, function, name, saved, begin_anew) if isinstance(saved, Written) else function

    def _open(
        self,
        function: Any,
        name: str,
        saved: Written,
        begin_anew: Callable[[], object],
        *args: Any,
        **given: Any,
    ) -> Any:
        """Open it so that it can go on. If it cannot, it is opened as it would have been anyhow."""
        if name in self._again:
            self._again.pop(name).let_go()
        made = _InPlace(saved)
        if "opener" not in given and len(args) < _POSITION_OF_OPENER:
            try:
                made.file = function(*args, **given, opener=made.lend)
                if _how(made.file) == saved.how:
                    self._again[name] = made
                    return made.file
                made.file.close()
            except (NotAsLeft, OSError):
                pass
            made.let_go()
        begin_anew()
        return function(*args, **given)

    def within(self, manager: Any) -> None:
        """That is about to be entered."""
        name, self._expected = self._expected, ""
        if name and _raw(manager) is not None:
            if name in self._heads and not self._heads[name].file.closed:
                self._strays.append(self._heads[name].file)
            again = self._again.get(name)
            if again is not None and again.file is manager:
                self._heads[name] = _Head(manager, again.saved.began, again.content)
            else:
                began = manager.tell() if _raw(manager).mode == "ab" else 0
                self._heads[name] = _Head(manager, began, _Content())
            return
        inside = vars(manager).values() if hasattr(manager, "__dict__") else ()
        known = [head.file for head in self._heads.values()]
        held = [one for one in (manager, *inside) if isinstance(one, _ANY_FILE) and _is_written(one)]
        self._strays += [one for one in held if not any(one is other for other in known)]

    # They are saved

    @property
    def open_paths(self) -> set[str]:
        """Those that are being written."""
        return {head.path for head in self._heads.values() if not head.file.closed}

    def left(self, name: str, value: Any) -> Written | Writer | None:
        """What has to be there again in its place, if that can be. Raises NotMade where the user's file fails."""
        head = self._heads.get(name)
        if head is None or head.file is not value:
            return self.writer(value)
        if name in self._again or value.closed:
            return None
        try:
            return head.left()
        except (NotAsLeft, OSError, ValueError):
            return None

    def writer(self, value: Any) -> Writer | None:
        """What it is, if it writes rows to one of these files."""
        rows, how = value, ""
        if type(value) is csv.DictWriter:
            rows, fields = value.writer, value.fieldnames
            if vars(value).keys() - _OF_A_WRITER or type(fields) not in (list, tuple) or {*map(type, fields)} - {str}:
                return None
            if type(value.restval) not in (str, int, float, type(None)):
                return None
            how = repr((fields, value.restval, value.extrasaction))
        if f"{type(rows).__module__}.{type(rows).__qualname__}" != "_csv.writer":
            return None
        targets = [one.__self__ for one in gc.get_referents(rows) if getattr(one, "__name__", "") == "write"]
        known = [head.file for head in self._heads.values()]
        if len(targets) != 1 or not any(targets[0] is file for file in known):
            return None
        of = self._name_of(targets[0])
        dialect = [getattr(rows.dialect, part) for part in _OF_A_DIALECT]
        return Writer(type(value).__qualname__, f"{of} {dialect!r} {how}")

    def _name_of(self, file: Any) -> str:
        return next(name for name, head in self._heads.items() if head.file is file)

    @property
    def unsaved(self) -> str:
        """Why nothing can be gone on with, if so."""
        if any(not file.closed for file in self._strays):
            return "a `with` around it writes a file that cannot be opened again as it was"
        printed = any(head.file in (sys.stdout, sys.stderr) for head in self._heads.values())
        return "what it prints goes to a file" if printed else ""

    # They go on

    def are_again(self, found: dict[str, Written | Writer], values: dict[str, Any]) -> bool:
        """Do they go on? All of them, or none."""
        wanted = {name: one for name, one in found.items() if isinstance(one, Written)}
        if wanted.keys() - self._again.keys() or self._again.keys() - wanted.keys():
            return False
        if any(self.writer(values.get(name)) != found[name] for name in found.keys() - wanted.keys()):
            return False
        try:
            for name in wanted:
                self._again[name].check(values.get(name))
        except NotAsLeft:
            return False
        for name in wanted:
            self._again[name].go_on()
            self._heads[name].content = self._again[name].content
        return True

    def have_gone_on(self) -> None:
        """All else has, too: there is no way back."""
        for one in self._again.values():
            one.let_go()
        self._again = {}

    def begin_anew(self) -> None:
        """They do not go on after all."""
        again, self._again = self._again, {}
        for one in again.values():
            try:
                one.begin_anew()
            finally:
                one.let_go()

    def drop(self) -> None:
        """The statement has failed, or is over. The files are as they are."""
        self.have_gone_on()
        self._heads, self._strays = {}, []


_POSITION_OF_OPENER = 8
_OF_A_WRITER = frozenset({"_fieldnames", "fieldnames", "restval", "extrasaction", "writer"})
_OF_A_DIALECT = (
    *("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting"),
    *("skipinitialspace", "strict"),
)


def _is_open(function: Any) -> bool:
    """Is it Python's own? IPython has one in its place that keeps people from closing the descriptors of the kernel."""
    shell = sys.modules.get("IPython.core.interactiveshell")
    return function is not None and function in (io.open, getattr(shell, "_modified_open", None))


def _raw(file: Any) -> Any:
    """What it writes to, if that is a file with a name that is only written, from its beginning or at its end."""
    if type(file) not in _FILES or file.closed:
        return None
    try:
        raw: Any = getattr(getattr(file, "buffer", file), "raw", file)
        of_buffer = type(getattr(file, "buffer", None)) in (io.BufferedWriter, type(None))
        known = type(raw) is io.FileIO and raw.mode in ("wb", "ab") and isinstance(raw.name, (str, bytes, os.PathLike))
        return raw if known and of_buffer else None
    except ValueError:  # it was detached
        return None


def _is_written(file: Any) -> bool:
    """Is it a file on the disk that is being written, and not where the kernel writes what is printed?"""
    try:
        return not file.closed and file.writable() and stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except Exception:  # it has no descriptor, or is a class of the user's
        return False


def _how(file: Any) -> str:
    """What decides about how it writes. Raises NotAsLeft where that cannot be told."""
    raw = _raw(file)
    if raw is None:
        raise NotAsLeft
    if type(file) is not io.TextIOWrapper:
        return f"{type(file).__name__} {raw.mode}"
    encoding = codecs.lookup(file.encoding).name
    if encoding not in _STATELESS:
        raise NotAsLeft
    return f"text {raw.mode} {encoding} {file.errors} {file.line_buffering} {file.write_through}"


def _named(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _look(descriptor: int) -> tuple[int, ...]:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise NotAsLeft
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_at(path: str, descriptor: int) -> bool:
    """Is that what has this name?"""
    with files.unnoticed():
        found, there = os.fstat(descriptor), os.stat(path)
    return stat.S_ISREG(found.st_mode) and os.path.samestat(found, there)


def _sync_folder(folder: str) -> None:
    with suppress(OSError), files.unnoticed():
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def opened_in(values: Iterable[Any]) -> set[str]:
    """The names of files among them."""
    opened = (one for one in values if isinstance(one, _ANY_FILE))
    names = (getattr(one, "name", None) for one in opened)
    return {_named(name) for name in names if isinstance(name, (str, bytes, os.PathLike))}


def seen_through(attributes: Collection[str]) -> str:
    """What of a file is asked for that shows when it is flushed, if anything is."""
    return next(iter(sorted(SEEN_THROUGH & set(attributes))), "")

"""Files a step reads or writes, as Python itself reports them.

An audit hook sees every `open` made through Python, `os.listdir` and `os.scandir`. Libraries that open files
in C (Arrow, HDF5) are not seen; but the path has to come from somewhere, so constant strings and string inputs
that name an existing file count as read too, and so do the command lines of programs that are started (`programs.py`).
A folder that is handed to such a library (a table in many files) or program counts with the files below it.
One that is named like that, was not there and is in the end counts as written; of what torch saves, the function that
opens its files tells. Nor does it see somebody asking whether a file is there (`os.stat`), which
is how pandas begins when it has Arrow read or write one: that is noted while a step runs, where the user's code or
pandas asks. A file that changed between being opened and the end of the step
gets no digest, and what has no digest never matches.

A file that a step has only ever added to, a log, is another matter: what was in it before has no influence on the step.
It has to be there and to begin with what it had when the step was done with it; what was added since does not matter.
So a training that kept a log is restored, and one that was killed goes on. Nothing is ever taken out of a file: lines
that were written after the last save stay, and are written once more by the iterations that are run again.
"""

from __future__ import annotations

import functools
import glob
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from blake3 import blake3
from msgspec.structs import replace

from nbcheckpoint.fingerprint import programs
from nbcheckpoint.model import FileSeen
from nbcheckpoint.whose import is_user_file

_BUILT = (".pyc", ".pyd", ".so")
MISSING = "missing"
"""Instead of a digest: the step looked for it, and it was not there; or removed it."""
REMOVED = "removed"
"""Instead of a digest: the step removed what was there before it, and could end otherwise if it did so again. It never
matches."""
FOLDER = "folder"
"""Instead of a digest: the step made this folder, whatever is in it."""
THERE = "there"
"""Instead of a digest: the step writes this file from scratch and may do so again, so what is in it after a kill may be
its own. What this process has written since it began is not."""
_LINK, _EXACT = "link:", "exact:"
"""A digest that begins like this is not one of bytes alone."""
_SYSTEM = ("/proc/", "/dev/pts/", "/dev/null", "/dev/tty", "/dev/random", "/dev/urandom", "/sys/", "/run/")
_SCRATCH = re.compile(r"/(joblib_memmapping_folder_|pymp-|loky-)")
"""Where workers are handed what they work on. Nobody else knows of it, and it goes with the process."""
MOST_BELOW, MOST_TOLD, TOLD_BYTES = 10_000, 1000, 1 << 30
"""Files that are looked at in a folder that is read as a whole: one with more is taken for another one each time. And
how many, and how large, if another program is told of it, which need not read any of them: nobody looks at more."""
DOUBT_SECONDS = 2.0
"""A file touched this shortly before we looked could be touched again within the same clock tick."""


class FileWatch:
    """What was opened while it was on."""

    exact = False
    """Do times and modes of the files that were looked at count, too?"""
    whole_folders = False
    """May a folder it is told of be read by something that opens files in C?"""

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self._read: dict[str, tuple[int, int, int] | None] = {}
        """Path -> (size, mtime, ctime) at the first opening, None if it was not there."""
        self._mentioned: dict[str, tuple[int, int, int] | None] = {}
        self._named: set[str] = set()
        """Mentioned, and not there: if they are in the end, something that opens files in C has written them."""
        self._looked: dict[str, tuple[int, int, int] | None] = {}
        """The same at the first look, for what nobody was seen to open."""
        self._told: dict[str, tuple[int, int, int] | None] = {}
        """The same when another program was told of it."""
        self._programs: frozenset[int] | None = None
        """Those that were running when the user's code first started one."""
        self._runs_on = False
        self._whole: dict[str, str] = {}
        """Folders that are read as a whole, and those in them -> the digest of the names in it, or nothing."""
        self._written: set[str] = set()
        self._read_back: set[str] = set()
        """Written, and read after that."""
        self._looked_back: set[str] = set()
        """Written, and asked about after that."""
        self.goes_on: set[str] = set()
        """Files that an unfinished step writes and goes on with, so that somebody else looks after what is in them."""
        self._appended: set[str] = set()
        self.began: dict[str, int] = {}
        """Bytes of those before the step first added to them; -1 if nobody knows."""
        self._overwritten: set[str] = set()
        self._removed: set[str] = set()
        self._was_there: set[str] = set()
        """Of these, what is older than the step."""
        self._began_ns = time.time_ns()
        self.may_remove = False
        """Does the step remove files, as far as its text tells? Those it has written may be among them."""
        self.misses = False
        """Does it, and would it fail if one was gone already?"""
        self.minds = False
        """Does it, and is not written so that it makes no difference whether one was gone already?"""
        self._made: set[str] = set()
        self._own: set[str] = set()
        """Folders that were not there before: what is in them is its own."""
        self._earlier: dict[str, FileSeen] = {}
        self.classes: set[tuple[str, str]] = set()
        """Module and name of what was found in pickles."""
        self.set_by_imports: set[str] = set()
        """Environment variables that were last set by a library while it was imported: as it will do again."""
        self._folders = {os.path.abspath(path) for path in ignore}
        self._ignore = (*_installed(), *_SYSTEM, *(path + os.sep for path in self._folders))

    def note(self, path: str, *, reads: bool, writes: bool, appends: bool = False) -> None:
        """One opening. Called from inside `open`: must be quick and must not raise."""
        path = os.path.abspath(path)
        if self._ignores(path) or (writes and os.path.isdir(path)):
            return  # nobody writes to a folder: `tempfile` names the one in which it is going to make a file
        if reads and path not in self._written and path not in self._own:
            self._read.setdefault(path, _stat(path))
        elif reads:
            self._read_back.add(path)
        if writes:
            if appends:
                self.began.setdefault(path, (_stat(path) or (0,))[0])
            self._written.add(path)
            (self._appended if appends else self._overwritten).add(path)

    def note_look(self, path: str, *, whole: bool = False) -> None:
        """Somebody asked whether it is there; `whole`: and is going to read it, even if it is a folder."""
        path = os.path.abspath(path)
        if path in self._written:
            self._looked_back.add(path)
        elif not self._ignores(path):
            self._looked.setdefault(path, _stat(path))
            if whole:
                self._take_whole(path)

    def _take_whole(self, path: str) -> None:
        """A folder, with every file and folder below it."""
        folders, files = _below(path, MOST_BELOW)
        if files is None:
            self._whole[path] = ""
            return
        self._whole = {**folders, **self._whole}
        self._mentioned = {**files, **self._mentioned}

    def note_told(self, told: programs.Told) -> None:
        """Another program is given this name."""
        path = os.path.abspath(told.path)
        if told.redirect:
            self.note(path, reads=False, writes=True, appends=told.redirect == ">>")
        elif os.path.isdir(path):
            self._take_told(path)
        elif glob.has_magic(path):
            self._take_pattern(path)
        elif not self._ignores(path) and path not in self._written:
            self._told.setdefault(path, _stat(path))

    def _take_told(self, path: str) -> None:
        folders, files = _below(path, MOST_TOLD) if not _is_around(path) and not self._ignores(path) else ({}, None)
        if files is not None and sum(stat[0] for stat in files.values() if stat is not None) <= TOLD_BYTES:
            self._whole = {**folders, **self._whole}
            self._told = {**files, **self._told}

    def _take_pattern(self, path: str) -> None:
        """What a shell makes of it."""
        folder = os.path.dirname(path)
        if not glob.has_magic(folder) and os.path.isdir(folder) and not _is_around(folder):
            self._whole.setdefault(folder, _names_in(folder))
        with unnoticed():
            found = [name for name in itertools.islice(glob.iglob(path), MOST_TOLD) if os.path.isfile(name)]
        self._told = {**{name: _stat(name) for name in found if not self._ignores(name)}, **self._told}

    @property
    def has_read(self) -> bool:
        """Has it been seen to read any file, or is it at least told of one?"""
        return bool(self._read or self._mentioned or self._looked or self._told)

    def looks_at(self, paths: Collection[str]) -> bool:
        """Has it been seen to look at one of these since it has written it?"""
        return not (self._read_back | self._looked_back).isdisjoint(paths)

    @property
    def has_started(self) -> bool:
        """Has the user's code started another program, or forked?"""
        return self._programs is not None or self._runs_on

    def note_start(self, command: Sequence[Any]) -> None:
        """The user's code is about to start another program."""
        if self._programs is None:
            self._programs = programs.running()
        self._runs_on = self._runs_on or programs.runs_on(command)

    def note_fork(self) -> None:
        """The user's own code has forked: there is a child to wait for, and this runs in both."""
        self._runs_on = True

    @property
    def leaves_program(self) -> bool:
        """Is one still running that the user's code has started?"""
        return self._runs_on or (self._programs is not None and bool(programs.running() - self._programs))

    def note_change(self, path: str, *, made: bool) -> None:
        """A file or folder was removed, or a folder made."""
        path = os.path.abspath(path)
        if not self._ignores(path):
            (self._made if made else self._removed).add(path)
            if not made and path not in self._written and path not in self._made and _older(path, self._began_ns):
                self._was_there.add(path)
            if made and not os.path.lexists(path):  # asked before it is made, and of those that are there as well
                self._own.add(path)

    def _ignores(self, path: str) -> bool:
        ours = path.startswith(self._ignore) and not path.startswith("/run/media/")
        return ours or path.endswith(_BUILT) or path in self._folders or _SCRATCH.search(path) is not None

    @property
    def _logs(self) -> set[str]:
        """Files that were only ever added to."""
        return self._appended - self._overwritten - self._read.keys() - self._read_back

    def mention(self, strings: Iterable[str], *, absent: bool = False) -> None:
        """Strings the step has at hand: those that name a file count as read; with `absent`, missing ones too."""
        for text in strings:
            if not 0 < len(text) < 1024 or "\n" in text or "\0" in text:
                continue
            path = os.path.abspath(text)
            missing = ("." in text or "/" in text) and not os.path.exists(path)
            if path.startswith(self._ignore) or path in self._folders:
                continue
            if missing and len(self._named) < MOST_TOLD:
                self._named.add(path)
            if (missing and absent) or os.path.isfile(path):
                self._mentioned.setdefault(path, _stat(path))
            elif self.whole_folders and os.path.isdir(path) and not _is_around(path):
                self._take_whole(path)
            elif self.whole_folders and glob.has_magic(path):
                self._take_matching(path)

    def _take_matching(self, path: str) -> None:
        """What a library makes of a pattern: below the folder it begins with there may be anything that fits."""
        folder = path
        while glob.has_magic(folder):
            folder = os.path.dirname(folder)
        if _is_around(folder):  # what is new there may fit, and nobody asks which names do
            self._whole.setdefault(folder, _names_in(folder))
            self._take_pattern(path)
        elif os.path.isdir(folder):
            self._take_whole(folder)

    def adopt(self, files: Iterable[FileSeen]) -> None:
        """What the same step had seen when it was cut short, in another process."""
        for file in files:
            if file.appended or file.digest == THERE:
                self.began[file.path] = file.kept
                self._written.add(file.path)
                (self._appended if file.appended else self._overwritten).add(file.path)
            else:
                self._earlier[file.path] = file

    def include(self, files: Iterable[FileSeen]) -> None:
        """What a part of the step had seen, that has not been run because its result was there."""
        for file in files:
            before = self._earlier.get(file.path)
            if before is not None and before.digest != file.digest and not (before.written and file.written):
                file = FileSeen(path=file.path)  # read by one part and changed before the other: that never matches
            self._earlier[file.path] = file

    def seen(self, *, unfinished: bool = False, writes_again: bool = True) -> tuple[FileSeen, ...]:
        """Everything noted, as it is now.

        A step that is `unfinished` may write again what it has only ever written from scratch, unless it is a loop with
        no iteration left: it can go on if such files are there, whatever is in them; and whether or not they are, if it
        keeps only the latest few of them. What it has appended to must be as it is now.
        """
        unseen = {path for path in self._named - self._written if os.path.isfile(path)}
        self._written |= unseen
        self._overwritten |= unseen
        before = {**{p: s for p, s in self._mentioned.items() if p not in self._written}, **self._read}
        skipped = self._written - self._read.keys() - self._read_back - self._logs
        skipped = skipped if unfinished and writes_again else (skipped & self.goes_on if unfinished else set())
        names = sorted((before.keys() | self._written) - skipped)
        found = {path: self._seen(path, before, unfinished=unfinished) for path in names}
        found = {**{path: file for path, file in self._earlier.items() if path not in skipped}, **found}
        gone = not self.misses and (self._removed or self.may_remove)
        there = () if gone else filter(os.path.isfile, skipped)
        found |= {path: _there(path) for path in there}
        known = set() if self.exact else {path for path in found if not os.path.islink(path)}
        looked = {path: self._looked_at(path, unfinished=unfinished) for path in self._looked.keys() - known}
        found |= dict(sorted(looked.items()))
        told = {path: self._left_by_others(path, unfinished=unfinished) for path in self._told.keys() - found.keys()}
        found |= dict(sorted(told.items()))
        found |= {path: file for path, then in self._whole.items() if (file := _still(path, then)) is not None}
        changed = {} if unfinished else {file.path: file for file in self._changed()}
        return tuple(file for file in {**found, **changed}.values() if file is not None)

    def _looked_at(self, path: str, *, unfinished: bool) -> FileSeen | None:
        before = self._looked[path]
        if os.path.islink(path) or (self.exact and os.path.exists(path)):
            changed = before != _stat(path) and unfinished
            return FileSeen(path=path, digest=_particulars(path, exact=self.exact)) if not changed else None
        if os.path.isdir(path):
            return FileSeen(path=path, digest=FOLDER) if path not in self._made else None
        if before is None and _stat(path) is None:
            return FileSeen(path=path, digest=MISSING)
        return _since(path, before, unfinished=unfinished)

    def _left_by_others(self, path: str, *, unfinished: bool) -> FileSeen | None:
        before = self._told[path]
        if _stat(path) is not None:
            return _since(path, before, unfinished=unfinished)
        if before is not None:
            return FileSeen(path=path, digest=MISSING, written=True) if not unfinished else None
        # A word is hardly ever meant as a file that is not there, unless it looks like one.
        return FileSeen(path=path, digest=MISSING) if "." in os.path.basename(path) else None

    def _changed(self) -> Iterator[FileSeen]:
        """Folders that were made and are there, files that were there and were removed."""
        for path in sorted(self._made):
            if os.path.isdir(path):
                yield FileSeen(path=path, digest=FOLDER, written=True)
        for path in sorted(self._removed - self._written - self._made - self._read.keys()):
            if not os.path.lexists(path):
                minds = path in self._was_there and (self.minds or self._looked.get(path) is not None)
                yield FileSeen(path=path, digest=REMOVED if minds else MISSING, written=True)

    def _seen(self, path: str, before: dict[str, tuple[int, int, int] | None], *, unfinished: bool) -> FileSeen | None:
        written = path in self._written
        now = look(path, written=written)
        if path in self._logs:
            return now and replace(now, appended=True)
        if path not in before or (written and unfinished):
            return now  # None: written and removed again, a temporary file
        if before[path] is None and (not written or now is None):  # also one it has made, read and removed again
            return FileSeen(path=path, digest=MISSING) if now is None else FileSeen(path=path)
        if now is None or before[path] != (now.size, now.mtime_ns, now.ctime_ns):
            return FileSeen(path=path, written=written)
        return now


def _below(path: str, most: int) -> tuple[dict[str, str], dict[str, tuple[int, int, int] | None] | None]:
    """The folders from there on with their names, and the files in them as they are; None if there are more than so
    many."""
    folders: dict[str, str] = {}
    files: dict[str, tuple[int, int, int] | None] = {}
    with unnoticed():
        for folder, _, names in os.walk(path):
            folders[folder] = _names_in(folder)
            files |= {file: _stat(file) for file in (os.path.join(folder, name) for name in names)}
            if len(files) > most:
                return folders, None
    return folders, files


def _is_around(path: str) -> bool:
    """Is it the working directory, or what that is in? Nobody means all that is in there."""
    here = os.path.abspath(".")
    return here == path or here.startswith(os.path.join(path, ""))


def _still(folder: str, then: str) -> FileSeen | None:
    """A folder that is read as a whole. Where the step has put something itself, only what it read or wrote counts."""
    if not then:
        return FileSeen(path=folder)
    now = look(folder)
    return now if now is not None and now.digest == then else None


def _since(path: str, before: tuple[int, int, int] | None, *, unfinished: bool) -> FileSeen | None:
    """A file that nobody was seen to open: if it is not what it was, something that opens files in C has written it."""
    now = look(path)
    if now is None or before == (now.size, now.mtime_ns, now.ctime_ns):
        return now
    return None if unfinished else replace(now, written=True)


def look(path: str, *, written: bool = False) -> FileSeen | None:
    """A file or folder as it is now, None if it is not there."""
    stat = _stat(path)
    if stat is None:
        return None
    try:
        if os.path.isdir(path):
            return FileSeen(path=path, digest=_names_in(path), written=written)
        hasher = blake3()
        with unnoticed(), open(path, "rb") as file:
            while block := file.read(1 << 20):
                hasher.update(block)
    except OSError:
        return FileSeen(path=path, written=written)
    settled = time.time() - stat[1] / 1e9 > DOUBT_SECONDS
    found = FileSeen(path=path, size=stat[0], mtime_ns=stat[1], ctime_ns=stat[2], settled=settled)
    return replace(found, digest=hasher.hexdigest(), written=written)


def text_of(path: str) -> str:
    """What is written in a file, or nothing if it is no text."""
    try:
        with unnoticed(), open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _names_in(folder: str) -> str:
    """A digest of the names in a folder, or nothing if it cannot be read."""
    try:
        with unnoticed():
            names = sorted(os.listdir(folder))
    except OSError:
        return ""
    return blake3("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _particulars(path: str, *, exact: bool) -> str:
    """What stands in place of a digest for a link, and where more than the content of a file counts."""
    with unnoticed():
        leads = os.readlink(path) if os.path.islink(path) else ""
        now = look(path) if not os.path.isdir(path) else FileSeen(path=path, digest=FOLDER)
        told = f"{leads}|{now.digest if now is not None else MISSING}"
        if not exact or now is None:
            return _LINK + told
        found = os.stat(path)
    return f"{_EXACT}{told}|{found.st_mtime_ns}|{found.st_mode}|{found.st_uid}|{found.st_gid}"


def unchanged(recorded: FileSeen) -> bool:
    """Is it still what it was? By size and time where those settle it, by its bytes in doubt."""
    if not recorded.digest or recorded.digest == REMOVED:
        return False
    if recorded.appended:
        return grown_by(recorded) >= 0 or begun_again(recorded)
    stat = _stat(recorded.path)
    if recorded.digest == MISSING or stat is None:
        return recorded.digest == MISSING and stat is None
    if recorded.digest in (FOLDER, THERE):
        kind = os.path.isdir(recorded.path) == (recorded.digest == FOLDER)
        return kind and not (recorded.digest == THERE and _written_by_others(recorded, stat))
    if recorded.digest.startswith((_LINK, _EXACT)):
        return _particulars(recorded.path, exact=recorded.digest.startswith(_EXACT)) == recorded.digest
    if recorded.settled and stat == (recorded.size, recorded.mtime_ns, recorded.ctime_ns):
        return True
    now = look(recorded.path)
    return now is not None and now.digest == recorded.digest


def _there(path: str) -> FileSeen:
    size, mtime_ns, ctime_ns = _stat(path) or (0, 0, 0)
    return FileSeen(path=path, size=size, mtime_ns=mtime_ns, ctime_ns=ctime_ns, digest=THERE, written=True)


_left: dict[str, tuple[int, int, int] | None] = {}
"""Files an unfinished step has written here, as they were when it was left; None: nobody knows when that is."""


def note_left(seen: Iterable[FileSeen], *, open_ended: bool = False) -> None:
    """A step that had seen these may be left half-way and gone on with in this process; unless it is `open_ended`, it
    has just been left."""
    for file in seen:
        if file.digest == THERE:
            _left[file.path] = None if open_ended else _stat(file.path) or (0, 0, 0)


def _written_by_others(recorded: FileSeen, stat: tuple[int, int, int]) -> bool:
    """Has this process written what the step wrote, before it ran here or after it was left? Then it was a statement
    that stands before the step and runs again: `best.pt`, with what the training begins with."""
    before = (recorded.size, recorded.mtime_ns, recorded.ctime_ns)
    left = _left.get(recorded.path, before)
    return left is not None and stat not in (before, left) and stat[2] > _process_began_ns()


_IMPORTED_NS = time.time_ns()


def _process_began_ns() -> int:
    """When this process was started, rounded up, as far as the system tells."""
    try:
        with unnoticed(), open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        seconds = (ticks + 1) / os.sysconf("SC_CLK_TCK")
        return time.time_ns() - int((time.clock_gettime(time.CLOCK_BOOTTIME) - seconds) * 1e9)
    except (OSError, ValueError, AttributeError, IndexError):
        return _IMPORTED_NS


def grown_by(recorded: FileSeen) -> int:
    """Bytes that were added to a file since; -1 if it does not begin with what it had."""
    stat = _stat(recorded.path)
    if stat is None or stat[0] < recorded.size or _beginning(recorded.path, recorded.size) != recorded.digest:
        return -1
    return stat[0] - recorded.size


def begun_again(recorded: FileSeen) -> bool:
    """Is it what it was before the step added to it, so that what it has added can be put back?"""
    if recorded.kept < 0:
        return False
    stat = _stat(recorded.path)
    if stat is None:
        return recorded.kept == 0 and os.access(os.path.dirname(recorded.path), os.W_OK)
    same = stat[0] == recorded.kept and os.path.isfile(recorded.path) and os.access(recorded.path, os.W_OK)
    return same and _beginning(recorded.path, recorded.kept) == recorded.before


def _beginning(path: str, size: int) -> str:
    """The digest of its first so many bytes, or nothing."""
    hasher, left = blake3(), size
    try:
        with unnoticed(), open(path, "rb") as file:
            while left and (block := file.read(min(left, 1 << 20))):
                hasher.update(block)
                left -= len(block)
    except OSError:
        return ""
    return hasher.hexdigest()


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    # A folder's own size and time say nothing about the names in it on every file system.
    return (0, 0, 0) if os.path.isdir(path) else (found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _older(path: str, than_ns: int) -> bool:
    """Is it there, and as it was before that moment?"""
    try:
        return os.lstat(path).st_ctime_ns < than_ns
    except (OSError, ValueError):
        return False


_OF_AN_INSTALLATION = ("bin", "etc", "include", "lib", "lib64", "libexec", "share", "Lib", "DLLs", "Scripts", "Library")


def _installed() -> Iterator[str]:
    """Not all that is below an environment: some people make theirs where their data is."""
    for path in {sys.prefix, sys.base_prefix, sys.exec_prefix}:
        for name in _OF_AN_INSTALLATION:
            yield os.path.join(os.path.abspath(path), name) + os.sep


_watches: list[FileWatch] = []
_quiet = threading.local()
_hooked = False


def start(watch: FileWatch) -> None:
    """Note openings from here on. The hook itself can never be removed again, so it costs one test when off."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    if not _watches:
        for name, (_, asking) in _asks.items():
            setattr(os, name, asking)
    _note_writers()
    _watches.append(watch)


def stop(watch: FileWatch) -> None:
    """Note no more. Stopping twice is fine."""
    if watch in _watches:
        _watches.remove(watch)
    for name, (original, asking) in _asks.items() if not _watches else ():
        if getattr(os, name) is asking:
            setattr(os, name, original)


_WRITERS = {"torch.serialization": "_open_zipfile_writer"}
"""Functions of libraries that are given the name of a file, and have it opened in C to write it."""


def _note_writers() -> None:
    """Once for each of those that are loaded: what is put in their place costs one test when nobody watches."""
    for name, function in _WRITERS.items():
        original = getattr(sys.modules.get(name), function, None)
        if original is not None and not hasattr(original, "__wrapped__"):
            setattr(sys.modules[name], function, _writing(original))


def _writing(original: Any) -> Any:
    @functools.wraps(original)
    def writing(path: Any, *args: Any, **given: Any) -> Any:
        if _watches and isinstance(path, (str, os.PathLike)) and not getattr(_quiet, "on", False):
            _note(os.fsdecode(path), reads=False, writes=True)
        return original(path, *args, **given)

    return writing


def _asking(original: Any) -> Any:
    """The same function, which notes what it is asked about."""

    @functools.wraps(original)
    def asking(path: Any, *args: Any, **given: Any) -> Any:
        if not getattr(_quiet, "on", False) and isinstance(path, (str, os.PathLike)) and given.get("dir_fd") is None:
            with unnoticed():  # telling who asks is a matter of files too
                text = os.fspath(path)
                frame = sys._getframe(1)
                for watch in tuple(_watches) if isinstance(text, str) and _by_the_user(frame) else ():
                    watch.note_look(text, whole=_reads_whole(frame))
        return original(path, *args, **given)

    return asking


def _who_asks(frame: Any) -> Any:
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSING_ON:
        frame = frame.f_back
    return frame


def _reads_whole(frame: Any) -> bool:
    """Is it pandas, about to have a table read that may be a folder of files?"""
    asks = _who_asks(frame)
    by = asks.f_back if asks is not None and asks.f_globals.get("__name__") == "pandas.io.parquet" else None
    return by is not None and by.f_code.co_name == "read"


def _by_the_user(frame: Any) -> bool:
    frame = _who_asks(frame)
    if frame is None:
        return False
    return _is_users(frame) or frame.f_globals.get("__name__", "").startswith("pandas.io.")


def _is_users(frame: Any) -> bool:
    return frame.f_globals.get("__name__", "") == "__main__" or is_user_file(frame.f_code.co_filename)


_PASSING_ON = frozenset({"os", "posixpath", "ntpath", "genericpath", "pathlib", "glob", "subprocess", "asyncio"})
_asks = {name: (getattr(os, name), _asking(getattr(os, name))) for name in ("stat", "lstat", "access", "readlink")}
"""As they are, and as they are while a step runs."""
for _able in (os.supports_follow_symlinks, os.supports_dir_fd, os.supports_fd, os.supports_effective_ids):
    # Whoever asks there what a function can do, as shutil does before it copies a link, has to get the same answer.
    _able.update(asking for original, asking in _asks.values() if original in _able)


def include(seen: Iterable[FileSeen]) -> None:
    """Something is given back instead of run: these files it has read or written, as they were noted then."""
    found = tuple(seen)
    for watch in tuple(_watches) if found else ():
        watch.include(found)


@contextmanager
def unnoticed() -> Iterator[None]:
    """Our own reading is not the user's."""
    before, _quiet.on = getattr(_quiet, "on", False), True
    try:
        yield
    finally:
        _quiet.on = before


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _watches or getattr(_quiet, "on", False):
        return
    if event == "open":
        path, mode, flags = args
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, (str, os.PathLike)):
            given = flags if isinstance(flags, int) else 0
            writes = bool(given & (os.O_WRONLY | os.O_RDWR)) or any(c in (mode or "") for c in "wax+")
            # Opened for updating: what was in it before counts.
            kept = writes and not given & os.O_TRUNC
            appends = bool(kept and given & os.O_APPEND and not given & os.O_RDWR)
            reads = not writes or bool(kept and not appends and given & (os.O_APPEND | os.O_RDWR))
            _note(os.fspath(path), reads=reads, writes=writes, appends=appends)
    elif event == "sqlite3.connect":
        path = _database(os.fsdecode(args[0])) if isinstance(args[0], (str, bytes, os.PathLike)) else ""
        for part in (path, f"{path}-wal") if path else ():
            _note(part, reads=True, writes=False)  # what was written last may still stand in the other one alone
    elif event in ("os.listdir", "os.scandir") and not _by_an_importer(sys._getframe(1)):
        path = os.fsdecode(args[0]) if isinstance(args[0], bytes) else args[0]
        if path is None or isinstance(path, (str, os.PathLike)):
            _note(os.fspath(path or "."), reads=True, writes=False)
    elif event in ("os.symlink", "os.link") and isinstance(args[1], (str, os.PathLike)):
        _note(os.fspath(args[1]), reads=False, writes=True)
    elif event in ("os.fork", "os.forkpty"):
        for watch in tuple(_watches) if _by_the_user(sys._getframe(1)) else ():
            watch.note_fork()
    elif event == "pickle.find_class":
        for watch in tuple(_watches):
            watch.classes.add((args[0], args[1]))
    elif event == "os.rename" and isinstance(args[1], (str, os.PathLike)):
        if isinstance(args[0], (str, os.PathLike)):
            _note(
                os.fspath(args[0]), reads=True, writes=False
            )  # it is gone then: without it, this cannot be done again
        _note(os.fspath(args[1]), reads=False, writes=True)
    elif event in ("os.remove", "os.rmdir", "shutil.rmtree", "os.mkdir") and args[-1] in (-1, None):
        _note_change(args[0], made=event == "os.mkdir")
    elif event in ("os.putenv", "os.unsetenv"):
        with unnoticed():
            _note_variable(os.fsdecode(args[0]), imported=_by_an_import(sys._getframe(1)))
    elif (program := programs.started(event, args)) is not None:
        with unnoticed():
            _note_start(*program, by_the_user=_by_the_user(sys._getframe(1)))


def _database(name: str) -> str:
    """The file behind what SQLite is given: a path or a URI. None behind a database in memory."""
    if name.startswith("file:"):
        if "mode=memory" in name:
            return ""
        name = unquote(name[len("file:") :].partition("?")[0].partition("#")[0])
        name = "/" + name[2:].partition("/")[2] if name.startswith("//") else name
    return "" if name == ":memory:" else name


def _note(path: str, *, reads: bool, writes: bool, appends: bool = False) -> None:
    for watch in tuple(_watches):
        watch.note(path, reads=reads, writes=writes, appends=appends)


def _note_start(command: Sequence[Any], folder: Any, *, by_the_user: bool) -> None:
    for watch in tuple(_watches):
        for told in programs.told(command, folder):
            watch.note_told(told)
        if by_the_user:
            watch.note_start(command)


def _by_an_importer(frame: Any) -> bool:
    """Python looks for modules in folders whenever it is asked for one, or just for a package's place or version."""
    return frame.f_globals.get("__name__") in ("importlib._bootstrap_external", "importlib.metadata")


def _by_an_import(frame: Any) -> bool:
    """Is it done by a module of a library's that is being imported?"""
    while frame is not None and not _is_users(frame):
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


def _note_variable(name: str, *, imported: bool) -> None:
    for watch in tuple(_watches):
        (watch.set_by_imports.add if imported else watch.set_by_imports.discard)(name)


def _note_change(path: Any, *, made: bool) -> None:
    if isinstance(path, (str, os.PathLike)):
        for watch in tuple(_watches):
            watch.note_change(os.fspath(path), made=made)

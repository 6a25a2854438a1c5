"""What other programs are told when they are started: the files on their command lines.

What a program opens is seen by nobody here. But it has to know the name from somewhere, and mostly that is its command
line; so a word there that is a file counts, as read if the program has left it alone and as written if it has not. A
shell is told in a text of its own, where `>` and `>>` say what they do.

A program that is still running when the step is over is an effect nothing can bring back.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_LONGEST, _MOST = 1000, 1000
_INSTALLED = ("/bin/", "/sbin/", "/usr/")
"""Programs from there are like packages: another version of them is no other input."""
_IN_BACKGROUND = re.compile(r"(?<![&>])&\s*$")
_WORD = re.compile(r"(>>?)?\s*([^\s;|&<>()'\"`=,]+)")


class Told(NamedTuple):
    """A word that may be the name of a file."""

    path: str
    redirect: str
    """`>`, `>>` or nothing."""


def started(event: str, args: tuple[Any, ...]) -> tuple[Sequence[Any], Any] | None:
    """The command line and the folder of the program an audit event tells of, if it tells of one."""
    if event == "subprocess.Popen":
        command = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
        return command, args[2]
    if event == "os.system":
        return [args[0]], None
    if event == "os.posix_spawn":
        return args[1], None
    return None


def told(command: Sequence[Any], folder: Any) -> Iterator[Told]:
    """Every word of a command line that could be a file's name, and what the shell does with it. Never raises."""
    home = _text(folder)
    for at, argument in enumerate(command[:_MOST]):
        text = _text(argument)
        if at == 0 and text.startswith(_INSTALLED):
            continue
        if 0 < len(text) <= _LONGEST and "\0" not in text:
            yield Told(os.path.join(home, text), "")
        for redirect, word in _WORD.findall(text)[:_MOST]:
            if len(word) <= _LONGEST and word != text and "\0" not in word:
                yield Told(os.path.join(home, word), redirect)


def runs_on(command: Sequence[Any]) -> bool:
    """Is a shell told not to wait for it? Then it is nobody's child, and cannot be looked for."""
    return any(_IN_BACKGROUND.search(_text(argument)) for argument in command[:_MOST])


def running() -> frozenset[int]:
    """The programs this process has started, and workers of its own, that have not come to their end. Only Linux tells;
    none elsewhere."""
    found: set[int] = set()
    for path in glob.glob("/proc/self/task/*/children"):
        found.update(pid for pid in map(int, _read(path).split()) if not _is_over(pid))
    return frozenset(found)


def _is_over(pid: int) -> bool:
    """Gone, or only waiting for somebody to ask how it ended."""
    state = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return not state or state[0] in "ZX"


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # it has ended meanwhile
        return ""


def _text(given: Any) -> str:
    try:
        return os.fsdecode(given)
    except TypeError:  # None, or what the program is never going to start with
        return ""

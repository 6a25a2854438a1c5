"""Tracebacks show the user's lines: what of ours stands between them is taken out before anything is shown.

A loop asks us for its items, `print` and `os.stat` come by us while a statement is watched. An error that is raised
there has a frame of ours in its traceback, which tells nobody anything. Errors of our own words and of flows keep
theirs.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from nbcheckpoint.fingerprint import files

_BETWEEN = ("cells", "looping", "loops", "items", "stretch", "outputs")
"""Modules beside this one that the user's code comes by."""
_FILES = frozenset({files.__file__, *(__file__.replace("tracebacks", name) for name in _BETWEEN)})


def clean(shell: Any) -> Callable[[], None]:
    """From here on the shell shows tracebacks without us. Returns what undoes this."""
    original = shell.showtraceback

    def showtraceback(given: Any = None, *args: Any, **kwargs: Any) -> Any:
        take_us_out(given[1] if given is not None else sys.exc_info()[1])
        return original(given, *args, **kwargs)

    def undo() -> None:
        if vars(shell).get("showtraceback") is showtraceback:
            if had is None:
                del shell.showtraceback
            else:
                shell.showtraceback = had

    had = vars(shell).get("showtraceback")
    shell.showtraceback = showtraceback
    return undo


def take_us_out(error: BaseException | None) -> None:
    """Of an error's traceback, and of those of the errors behind it."""
    left, seen = [error], set()
    while left:
        found = left.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        if found.__traceback__ is not None:
            _take_out(found.__traceback__)
        left += [found.__cause__, found.__context__, *getattr(found, "exceptions", ())]


def _take_out(at: types.TracebackType) -> None:
    """All but the first, which is the shell's."""
    while at.tb_next is not None:
        if at.tb_next.tb_frame.f_code.co_filename in _FILES:
            at.tb_next = at.tb_next.tb_next
        else:
            at = at.tb_next

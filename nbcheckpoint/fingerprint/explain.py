"""Why a step is restored or computed: pure, from what was recorded and what is there now.

Codes: `restored`; and computed because of `first`, `code`, `input`, `unidentified`, `file`, `random`, `shared`,
`setting`, `damaged`, `expired`, `forced`, `unsaveable`, `interrupted`, `fault`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbcheckpoint.fingerprint.files import REMOVED
from nbcheckpoint.model import Checkpoint, FileSeen, Input, Reason
from nbcheckpoint.units import say_size

MAX_NAMED = 3


def changed_inputs(then: Sequence[Input], now: Sequence[Input]) -> Reason:
    """The inputs that are not what they were, named."""
    old = {item.name: item for item in then}
    new = {item.name: item for item in now}
    changed = [_changed(old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]
    said = [text for text in changed if text]
    more = f" and {len(said) - MAX_NAMED} more" if len(said) > MAX_NAMED else ""
    names = [name for name in sorted(old.keys() | new.keys()) if _changed(old.get(name), new.get(name))]
    return Reason(code="input", text="; ".join(said[:MAX_NAMED]) + more, details={"names": names})


def _changed(old: Input | None, new: Input | None) -> str:
    if old is None and new is not None:
        return f"{noun(new)} is new"
    if new is None and old is not None:
        return f"{noun(old)} is gone"
    if old is None or new is None or old.digest == new.digest:
        return ""
    if old.preview and new.preview and old.preview != new.preview and new.type not in _CODE:
        return f"{noun(new)} changed (was {old.preview[:60]}, now {new.preview[:60]})"
    return f"{noun(new)} changed"


_CODE = {"function": "helper {}()", "type": "class {}"}
_NOUNS = {
    **_CODE,
    "environment": "environment variable {}",
    "folder": "{}",
    "process": "{}",
    "run": "the run of {}",
    "answer": "the run that asks {}",
}


def noun(item: Input) -> str:
    """An input, as one would call it."""
    return _NOUNS.get(item.type, "input {}").format(item.name)


def changed_file(file: FileSeen, *, exists: bool) -> Reason:
    """A file that is not what it was."""
    name = file.path.rpartition("/")[2]
    if not file.path:
        text = "a worker has failed, and what it had read is not known"
    elif file.digest == REMOVED:
        text = f"it removes {name}, which was there" if exists else f"it removes {name}, which is gone now"
    elif not exists:
        text = f"the file it wrote is gone: {name}" if file.written else f"file {name} is gone"
    elif not file.digest:
        text = f"file {name} changed while it was being used"
    else:
        text = f"the file it wrote was changed: {name}" if file.written else f"file {name} changed"
    return Reason(code="file", text=text, details={"path": file.path})


def changed_random(name: str) -> Reason:
    """A generator whose state is not what it was."""
    which = name.partition(":")[2]
    return Reason(code="random", text=f"the state of {which}'s random numbers differs", details={"generator": which})


def changed_setting(name: str) -> Reason:
    """Options of a library that are not what they were."""
    which = name.partition(":")[2].removesuffix(" display")
    return Reason(code="setting", text=f"options of {which} are not what they were", details={"library": which})


def unidentified(sentences: Sequence[str], inputs: Sequence[Input]) -> Reason:
    """Inputs nobody can compare with what they were."""
    names = [item.name for item in inputs if not item.digest]
    return Reason(code="unidentified", text="; ".join(sentences), details={"names": names})


def going_on(logs: Sequence[tuple[str, int]], again: Sequence[tuple[str, int]] = ()) -> Reason:
    """A loop was cut short. What was added to its logs (path, bytes) since the last save stays, and is worth a word. So
    is what is put back into those that were begun `again`."""
    said = [f"{path.rpartition('/')[2]} keeps {say_size(size)} added after the last save" for path, size in logs]
    said += [f"{path.rpartition('/')[2]} was begun again and has its {say_size(size)} back" for path, size in again]
    return Reason(code="interrupted", text="; ".join(said))


def simple(code: str, text: str, **details: Any) -> Reason:
    """The reasons that need no comparison."""
    return Reason(code=code, text=text, details=details)


def restored(checkpoint: Checkpoint) -> Reason:
    """Nothing it depends on has changed."""
    return Reason(code="restored", text="same code, same inputs", details={"checkpoint": checkpoint.id})

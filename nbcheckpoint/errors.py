"""Every error nbcheckpoint raises, as one tree.

    Error                       carries ``hint``: what to do next, one sentence
    ├── UsageError              the call or its options make no sense
    ├── NotFound                no run, step or checkpoint of that name
    ├── MissingExtra            an optional dependency is not installed; names the extra
    ├── StoreError              the store could not do what was asked
    │   ├── StoreLocked         somebody else held it longer than we were willing to wait
    │   ├── StoreFull           no space left
    │   ├── StoreReadOnly       it can be read but not written
    │   ├── StoreGone           its folder vanished underneath us
    │   ├── StoreDamaged        bytes are not what was written
    │   │   └── ArchiveDamaged  and those of an archive are not what an export writes
    │   ├── ChunkPruned         something a save counted on was removed before it was committed
    │   └── StoreTooNew         written by a later version of nbcheckpoint
    ├── Conflict                compare-and-swap lost: the record is not what was expected
    ├── RunBusy                 another process is at work on that run
    ├── Fenced                  another process has taken that run over from us
    ├── Paused                  a run waits for an answer; asking again goes on
    ├── Cancelled               somebody called the run off
    ├── Changed                 the code is not what it was, and `on_change="strict"` says to stop
    ├── Interrupted             a step was running when its process died, and `on_interrupted="fail"`
    ├── Unrepeatable            an item of a loop, made ahead of time, is not what it would be now
    ├── MapFailed               too many items of a map failed
    ├── GraphError              a graph that cannot be run, or came to no end
    ├── Untrusted               signed by somebody else or by nobody: nothing was unpickled
    ├── NotSaveable             a value that cannot be turned into bytes; says where inside it
    └── NotRestorable           saved bytes that cannot be turned back into a value

Errors of lower layers (sqlite3, diskcache, OSError, pickle) are mapped to these at the layer's edge,
with ``raise … from``, so that nothing above ever has to know them.
"""

from __future__ import annotations


class Error(Exception):
    """Base of all of ours. ``hint`` says what the user can do about it."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint


class UsageError(Error):
    """The call or its options make no sense."""


class NotFound(Error):
    """No run, step, checkpoint or chunk of that name."""


class MissingExtra(Error):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed",
            hint=f'install it with: pip install "nbcheckpoint[{extra}]"',
        )
        self.package = package
        self.extra = extra


class StoreError(Error):
    """The store could not do what was asked."""


class StoreLocked(StoreError):
    """Somebody else held the store longer than we were willing to wait."""

    hint = "another process is writing to this store; try again in a moment"


class StoreFull(StoreError):
    """No space left where the store lives."""

    hint = "free some space, or run: nbcheckpoint prune"


class StoreReadOnly(StoreError):
    """The store can be read but not written."""

    hint = "what was saved can still be restored; nothing new is saved until the folder is writeable"


class StoreGone(StoreError):
    """The store's folder vanished underneath us."""

    hint = "was the folder deleted or unmounted? open the store again to start a new one"


class StoreDamaged(StoreError):
    """Bytes in the store are not the bytes that were written.

    `key` says which, where that is known: the key of a record (`run/…`), or the name of a chunk (64 hex digits).
    """

    hint = "run: nbcheckpoint verify --repair"

    def __init__(self, message: str, *, hint: str = "", key: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key


class ArchiveDamaged(StoreDamaged):
    """A file that was to be imported is not one an export has written. Nothing of it is in the store."""

    hint = "get it anew from where it came from"


class ChunkPruned(StoreError):
    """A chunk that was put, or found present, was removed before what refers to it was committed.

    Nothing was committed. `chunk` is its name.
    """

    hint = "save again"

    def __init__(self, chunk: str, how: str = "pruned") -> None:
        super().__init__(f"chunk {chunk} was {how} while it was being saved")
        self.chunk = chunk


class StoreTooNew(StoreError):
    """Written by a later version of nbcheckpoint than this one."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message, hint=f"format {version} is needed: pip install --upgrade nbcheckpoint")
        self.version = version


class Conflict(Error):
    """A compare-and-swap found something else than it expected."""

    hint = "look at it as it is now, and try again"

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} was changed by someone else in the meantime")
        self.key = key


class RunBusy(Error):
    """Another process is at work on the run, as far as one can tell."""

    hint = "wait for it, or end it; or begin a run of your own: what was saved is shared by all"


class Fenced(Error):
    """Another process has taken the run over, because we seemed to be gone. Nothing was written."""

    hint = "what was saved before still counts; begin a run of your own"


class Paused(Error):
    """A run waits for an answer. Nothing is lost: once it is answered, calling the flow again goes on."""

    def __init__(self, run: str, pause: str, prompt: str, *, choices: object = None) -> None:
        asked = f" ({' / '.join(map(str, choices))})" if isinstance(choices, (list, tuple)) else ""
        super().__init__(
            f"paused at {pause!r}: {prompt}{asked}", hint=f"answer with: nbcheckpoint answer {run} {pause} VALUE"
        )
        self.run = run
        self.pause = pause

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: nothing went wrong."""
        hint = self.hint.replace("nbcheckpoint answer", "%checkpoint answer")
        return [f"nbcheckpoint: {self}", f"  {hint}, then run this cell again"]


class Cancelled(Error):
    """Somebody called the run off. What was finished is saved."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} was cancelled", hint=f"resume it to go on: {run}")
        self.run = run


class Changed(Error):
    """The code is not what it was, and the policy says to stop then."""

    def __init__(self, run: str, step: str, why: str) -> None:
        super().__init__(
            f"{step} of run {run} is not what it was: {why}",
            hint='on_change="invalidate" computes it anew, on_change="trust" takes what was saved',
        )
        self.run = run
        self.step = step
        self.why = why


class Interrupted(Error):
    """A step was running when its process died, and the policy says not to run it again."""

    def __init__(self, run: str, step: str) -> None:
        super().__init__(
            f"{step} of run {run} was running when its process died",
            hint='on_interrupted="rerun" runs it again, "skip" goes on without it',
        )
        self.run = run
        self.step = step


class Unrepeatable(Error):
    """An item of a loop that begins anew was made ahead of time, and would be another one now.

    That is known only when the loop comes to it: the body has drawn random numbers, and making the item drew some too.
    """

    hint = "run the cells from the one that seeds again: the loop begins anew then"

    def __init__(self) -> None:
        super().__init__("what the loop goes through draws random numbers, and so does the loop")


class MapFailed(Error):
    """Too many items of a map failed. The others are saved: calling again tries the failed ones only."""

    def __init__(self, name: str, failures: dict[int, BaseException], total: int) -> None:
        first = next(iter(failures.items()))
        super().__init__(
            f"{len(failures)} of {total} items of {name} failed; item {first[0]}: {tell(first[1])}",
            hint="the others are saved; call it again, and only these are tried",
        )
        self.failures = failures
        """Position of the item -> what it raised."""


class GraphError(Error):
    """A graph that cannot be run, or that came to no end."""


class Untrusted(Error):
    """Signed by somebody else or by nobody. Not one byte of it was unpickled."""

    hint = "if you know where it comes from: nbcheckpoint trust"


class NotSaveable(Error):
    """A value that cannot be turned into bytes."""

    def __init__(self, name: str, type_name: str, why: str, *, path: str = "") -> None:
        where = f" at {path}" if path else ""
        super().__init__(f"{name} ({type_name}{where}: {why})")
        self.name = name
        self.type_name = type_name
        self.why = why
        self.path = path


class NotRestorable(Error):
    """Saved bytes that cannot be turned back into a value here."""

    def __init__(self, name: str, why: str, *, hint: str = "") -> None:
        super().__init__(f"{name}: {why}", hint=hint)
        self.name = name
        self.why = why


def tell(error: BaseException) -> str:
    """Any error in a line, also one that cannot say what it is."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as problem:  # whatever its own code does
        return f"{type(error).__name__} (which cannot be shown: {type(problem).__name__})"

"""The records: what a store holds, what `--json` prints, what the server answers. One shape for all of them.

Records are frozen. Changing one means writing its successor with compare-and-swap. They contain only what
JSON can say; values and outputs live in blobs, which name chunks by their digest.

Invariants:
- times are UTC, ISO 8601, always with `Z`;
- ids sort by the time they were made, so "newest first" is a reversed key scan and needs no index;
- fields are only ever added, with a default, so that an older record decodes in a newer version. A change
  that cannot be made so raises `FORMAT`.
"""

from __future__ import annotations

import secrets
import weakref
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from nbcheckpoint.errors import Error, StoreError
from nbcheckpoint.showing import checkpoint_html, run_html
from nbcheckpoint.typed import convert, decode

FORMAT = 1
"""Version of the stored form. A store with a higher one is listed, never loaded."""

RunStatus = Literal["running", "completed", "failed", "interrupted", "paused", "cancelled"]
StepStatus = Literal["pending", "running", "completed", "restored", "failed", "interrupted", "paused", "skipped"]
StepKind = Literal["cell", "statement", "loop", "call", "map", "item", "pause", "node"]
RunKind = Literal["notebook", "flow", "graph"]

R = TypeVar("R", bound="Record")


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all records: `to_json` and `from_json` are the one wire shape."""

    hidden: ClassVar[frozenset[str]] = frozenset()
    """Fields that are not shown."""
    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that are shown like fields."""

    def to_json(self) -> bytes:
        return encode(self)

    @classmethod
    def from_json(cls: type[R], data: bytes | str) -> R:
        """Raises `msgspec.DecodeError` or `msgspec.ValidationError` on anything but this record."""
        return decode(data, cls)

    def to_dict(self) -> dict[str, Any]:
        """As `--json` and the server show it: every field, also those at their default."""
        names = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        shown = {told: _plain(getattr(self, name)) for name, told in names if name not in self.hidden}
        return shown | {name: getattr(self, name) for name in self.derived}


_encoder = msgspec.json.Encoder(order="deterministic")


def encode(value: Any) -> bytes:
    """As JSON. Half a character, as in a file's name that is no text, is written as its number: then no such file is
    found, and what has read it counts as changed."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_whole(msgspec.to_builtins(value)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return msgspec.to_builtins(value)


class Owner(Record, frozen=True, kw_only=True):
    """The process that writes a run. With pid and start time, a recycled pid is not mistaken for it."""

    hidden = frozenset({"lease"})  # who knows it owns the run

    host: str
    pid: int
    started: str
    """When that process started, in the words of the operating system. Compared, never computed with."""
    boot: str = ""
    lease: str = ""
    """Random, new each time a run is taken: who does not know it does not own the run (`store/lease.py`)."""
    renewed: str = ""
    """When the owner last said that it is there. Only other machines need to go by it."""


class Run(Record, frozen=True, kw_only=True):
    """One execution of a notebook, flow or graph. It may span several kernels."""

    id: str
    workflow: str
    """Notebook path relative to the store's parent, or the flow's name."""
    kind: RunKind = "notebook"
    status: RunStatus = "running"
    created: str
    updated: str
    inputs: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    note: str = ""
    pinned: bool = False
    owner: Owner | None = None
    sessions: int = 1
    """How many processes have worked on it."""
    counts: dict[str, int] = msgspec.field(default_factory=dict, name="steps")
    """Step status -> how many steps have it."""
    bytes: int = 0
    """Written for this run, after sharing chunks with earlier ones."""
    computed_seconds: float = 0.0
    spared_seconds: float = 0.0
    """What the restored steps took when they were computed."""
    trusted: bool = True
    """Set on reading: does its signature stand under the reader's key?"""

    def steps(self, *, inner: bool = False) -> list[Step]:
        """What it consists of, in the order of execution; with `inner`, what its steps consist of as well."""
        found: list[Step] = home_of(self).steps(self.id, inner=inner)
        return found

    @property
    def graph(self) -> Any:
        """Its steps and what led to what, as a picture."""
        return home_of(self).graph(self.id)

    def _repr_html_(self) -> str:
        return run_html(self)


class Reason(Record, frozen=True, kw_only=True):
    """Why a step was restored or computed. `text` is the sentence, the rest is the same as data."""

    code: str
    """One of the words in `fingerprint/explain.py`."""
    text: str
    details: dict[str, Any] = {}


class Step(Record, frozen=True, kw_only=True):
    """One unit of work of a run: intent and outcome. Mutable by compare-and-swap only."""

    hidden = frozenset({"token"})  # a fencing token is a capability, not information

    run: str
    address: str
    """Its place in the run. Sorts in the order of execution."""
    name: str
    kind: StepKind = "cell"
    status: StepStatus = "pending"
    started: str = ""
    seconds: float = 0.0
    attempt: int = 1
    token: str = ""
    checkpoint: str = ""
    """Id of the checkpoint it left or was restored from."""
    reason: Reason | None = None
    bytes: int = 0
    error: str = ""
    cell: str = ""
    """The front end's id of the cell, where there is one."""
    meta: dict[str, Any] = {}
    trusted: bool = True


class Blob(Record, frozen=True, kw_only=True):
    """Bytes: inline when few, otherwise chunks in order; a long list of chunks is a chunk itself."""

    hidden = frozenset({"data"})  # nobody reads a pickle, and a small one may hold a secret

    size: int
    data: bytes = b""
    chunks: tuple[str, ...] = ()
    index: str = ""
    """The chunk that holds the chunks' digests, 32 bytes each, when they are too many to list here."""
    chunk_size: int = 0
    encrypted: bool = False
    """The chunks are; the index, a list of digests, is not."""


class Value(Record, frozen=True, kw_only=True):
    """One saved name. What people look at is made at save time, so that looking never unpickles."""

    name: str
    type: str
    size: int = 0
    digest: str = ""
    """Content digest, portable between processes; empty where it was not computed."""
    shape: str = ""
    preview: str = ""
    codec: str = "pickle"


class Input(Record, frozen=True, kw_only=True):
    """One name a step read, as it was before the step ran."""

    name: str
    digest: str = ""
    type: str = ""
    preview: str = ""


class FileSeen(Record, frozen=True, kw_only=True):
    """A file or folder a step read or wrote, as it was when the step was done with it."""

    path: str
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    """Cannot be set by whoever edits the file and puts its mtime back."""
    digest: str = ""
    """Of its bytes; of a folder, of the names in it. Empty: it changed while the step ran, so it never matches."""
    written: bool = False
    settled: bool = False
    """It had not been touched for a while when it was looked at: same size and time mean the same file."""
    appended: bool = False
    """The step has only added to its end, as one does to a log: what others add behind that does not matter."""
    kept: int = -1
    """Bytes it had before the step added to it, if what was added is saved as well; else -1."""
    before: str = ""
    """Digest of those bytes."""


class NotSaved(Record, frozen=True, kw_only=True):
    """One name that could not be saved, and why."""

    name: str
    type: str
    why: str
    path: str = ""


class Progress(Record, frozen=True, kw_only=True):
    """How far a loop had come when its state was saved."""

    done: int
    """Iterations that were over."""
    total: int = 0
    """Of how many, where that is known."""
    trail: str = ""
    """Digest of the items gone through; empty where their order is certain from the inputs."""
    by: Literal["position", "iterator", "condition"] = "position"
    """How to go on: skip the items that are done, use the iterator saved with the values, ask the condition."""
    loop: int = 0
    """Which loop of the statement."""
    at_hand: tuple[str, ...] = ()
    """Names that are bound to the last item, or to a part of it: to that very object, not to one that is equal."""
    around: tuple[Progress, ...] = ()
    """How far the loops around it had come, the outermost first. They are in the middle of an iteration."""


class Checkpoint(Record, frozen=True, kw_only=True):
    """The immutable record a finished step left. Written once, last: it exists only when all its chunks do."""

    id: str
    run: str
    step: str
    """Address of the step in that run."""
    name: str = ""
    code: str
    """Digest of the code: the statement or cell and every user definition it can reach."""
    inputs_digest: str = ""
    created: str
    seconds: float = 0.0
    source: str = ""
    inputs: tuple[Input, ...] = ()
    """Every name it read, through the user's own functions and classes as far as they lead."""
    conditions: tuple[Input, ...] = ()
    """Names it may or may not have bound to what they had already: usable only where they still have it. And runs of
    flows it worked on (`FOUND>LEFT`): usable only where nothing before it has worked on another one of the same."""
    definitions: tuple[Input, ...] = ()
    """Functions and classes of the notebook its values refer to by name: they must be what they were."""
    folder: str = ""
    """The working directory, if files by relative names were involved."""
    random: tuple[Input, ...] = ()
    """Random generators it drew from, with their state before."""
    settings: tuple[Input, ...] = ()
    """Options of libraries it may depend on. One that is not listed was at its default, or does not matter."""
    files: tuple[FileSeen, ...] = ()
    values: tuple[Value, ...] = ()
    mutated: tuple[str, ...] = ()
    """Those of the values that are inputs changed in place."""
    deleted: tuple[str, ...] = ()
    not_saved: tuple[NotSaved, ...] = ()
    stream: Blob | None = None
    """The pickle of all values together, so that objects they share stay shared."""
    buffers: tuple[Blob, ...] = ()
    needs: tuple[str, ...] = ()
    """Checkpoints whose objects the stream refers to instead of holding them: they must stay as long as this."""
    outputs: Blob | None = None
    progress: Progress | None = None
    """Set while the step, a loop, has not come to its end: this is what it had left so far."""
    bytes: int = 0
    """Newly written for it."""
    environment: dict[str, str] = {}
    meta: dict[str, Any] = {}
    format: int = FORMAT
    trusted: bool = True

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """Everything it is made of."""
        return tuple(blob for blob in (self.stream, *self.buffers, self.outputs) if blob is not None)

    @property
    def size(self) -> int:
        """All its bytes, shared or not."""
        return sum(blob.size for blob in self.blobs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(value.name for value in self.values)

    def _repr_html_(self) -> str:
        return checkpoint_html(self)


class Pause(Record, frozen=True, kw_only=True):
    """A question a run waits with, as its step shows it under `meta["pause"]`."""

    name: str
    prompt: str = ""
    choices: tuple[Any, ...] | None = None
    schema: dict[str, Any] | None = None
    """What an answer must look like, as JSON Schema."""
    default: Any = None
    until: str = ""
    """From then on the default is the answer."""


class Event(Record, frozen=True, kw_only=True):
    """A fact that happened, in order."""

    type: str
    time: str
    run: str = ""
    step: str = ""
    data: dict[str, Any] = {}


open_stores: weakref.WeakSet[Any] = weakref.WeakSet()
"""A record holds only what JSON can say, not where it came from; asked for more than it holds, it asks these."""


def home_of(run: Run) -> Any:
    """The open store that has this run."""
    for store in tuple(open_stores):
        try:
            if store.backend.get(f"run/{run.id}") is not None:
                return store
        except Error:  # one that cannot be read just now is not the one to ask
            continue
    raise StoreError(f"the store that run {run.id} came from is not open", hint="open it, and ask the store")


T = TypeVar("T")


def shaped(value: Any, kind: type[T], otherwise: T) -> T:
    """The value, if it has that shape. What stands in a `meta` may be of any: records come from everywhere."""
    try:
        return convert(value, kind)
    except msgspec.ValidationError:
        return otherwise


def utc_now() -> str:
    """Now, as every record writes it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_last_id = [datetime(2000, 1, 1, tzinfo=timezone.utc)]
_TICK, _SET_BACK = timedelta(milliseconds=1), timedelta(seconds=1)


def new_id() -> str:
    """A run id: sorts by time, and a person can read when it was.

    Of two that a process makes in the same millisecond, the later one gets the next: which run is the latest decides
    what retention keeps. A clock that was set back is believed.
    """
    now = datetime.now(timezone.utc)
    ahead = _last_id[0] + _TICK - now
    now = now + ahead if timedelta(0) < ahead < _SET_BACK else now
    _last_id[0] = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}-{secrets.token_hex(3)}"


def new_checkpoint_id(code: str, inputs: str) -> str:
    """Code and inputs come first, so that finding a checkpoint by either is a prefix scan."""
    millis = int(datetime.now(timezone.utc).timestamp() * 1000)
    return f"{code[:16]}-{inputs[:16]}-{millis:011x}{secrets.token_hex(3)}"

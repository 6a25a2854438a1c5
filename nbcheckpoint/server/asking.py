"""How a question is put and what an answer looks like, as types: they parse, they check, and they describe themselves.

A route is a row of the table in `routes.py`: its method, its address, what it takes and what it answers. The handlers
are made from that table and so is the OpenAPI description, which therefore cannot say anything else than what is done.

What a client sends is converted to these types before anything else happens; what does not fit is a `UsageError` that
names the field and says what to give instead.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from nbcheckpoint.errors import UsageError
from nbcheckpoint.model import Checkpoint, Event, Record, Run, RunStatus, Step
from nbcheckpoint.store.looking import Going
from nbcheckpoint.typed import convert

if TYPE_CHECKING:
    from nbcheckpoint.server.stores import Stores
    from nbcheckpoint.server.watching import Watchers

MAX_LIMIT = 1000
MAX_BODY = 1 << 20
"""Bytes of a JSON body. Only an archive may be larger."""

END = r"(?![\s\S])"
"""The end of a text, for Python's and for JavaScript's regular expressions: `$` also stands before a line feed."""

S = TypeVar("S", bound=msgspec.Struct)

Id = Annotated[
    str,
    Meta(pattern=rf"^[A-Za-z0-9._-]{{1,128}}{END}", description="an id: letters, digits, dots and dashes, 128 at most"),
]
Ids = Annotated[
    str,
    Meta(
        pattern=rf"^[A-Za-z0-9._-]{{1,128}}(,[A-Za-z0-9._-]{{1,128}}){{0,199}}{END}",
        description="an id, or those of a cell's statements with commas between, 200 at most",
    ),
]
Address = Annotated[
    str, Meta(pattern=rf"^[^\x00-\x1f\x7f]{{1,256}}{END}", description="the address of a step, as the page before says")
]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description=f"a whole number from 1 to {MAX_LIMIT}")]
Words = Annotated[str, Meta(min_length=1, max_length=1000, description="a text of 1000 characters at most")]
Yes = Annotated[bool, Meta(description="1 or 0")]


class Asked(msgspec.Struct, kw_only=True, frozen=True):
    """What every question may say: on whose behalf it is asked. That decides the store (see `stores.py`)."""

    path: Annotated[str, Meta(max_length=5000, description="the notebook's path as the file browser shows it")] = ""


class RunsAsked(Asked, kw_only=True, frozen=True):
    limit: Limit = 50
    before: Id | UnsetType = UNSET
    """The `next` of the page before."""
    status: Annotated[RunStatus, Meta(description=f"one of: {', '.join(get_args(RunStatus))}")] | UnsetType = UNSET
    workflow: Words | UnsetType = UNSET
    text: Words | UnsetType = UNSET
    tag: Words | UnsetType = UNSET

    @property
    def wanted(self) -> dict[str, Any]:
        """What of it was said. Not None for the rest: as text, that is the word `null`."""
        said = {name: getattr(self, name) for name in ("before", "status", "workflow", "text", "tag")}
        return {name: word for name, word in said.items() if word is not UNSET}


class StepsAsked(Asked, kw_only=True, frozen=True):
    inner: Yes = False
    after: Address = ""
    limit: Limit = MAX_LIMIT


class DiffAsked(Asked, kw_only=True, frozen=True):
    a: Ids
    b: Ids


class WaitAsked(Asked, kw_only=True, frozen=True):
    since: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{0,64}}{END}", description="the token of the answer before")] = ""
    seconds: Annotated[float, Meta(ge=0, le=30, description="a number from 0 to 30")] = 25.0


class Body(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a question may carry along."""


class AnswerBody(Body, kw_only=True, frozen=True):
    pause: Annotated[str, Meta(min_length=1, max_length=1000, description="the name of the pause")]
    value: Annotated[Any, Meta(description="the answer, as JSON")]


class NoteBody(Body, kw_only=True, frozen=True):
    text: Annotated[str, Meta(max_length=100_000, description="the note; an empty one takes it away")]


class PruneBody(Body, kw_only=True, frozen=True):
    dry_run: Annotated[bool, Meta(description="true: only say what would go; false: remove it")]
    older_than: Annotated[str, Meta(max_length=100, description="an age, like 7d or 12h")] | None = None
    keep: Annotated[int, Meta(ge=0, le=10**9, description="so many runs of a workflow, zero or more")] | None = None
    max_size: Annotated[str, Meta(max_length=100, description="a size, like 20GB")] | None = None


class VerifyBody(Body, kw_only=True, frozen=True):
    repair: Annotated[bool, Meta(description="true: set aside what is damaged")] = False


# Answers


class Refusal(Record, frozen=True, kw_only=True):
    """Why not, and what to do about it."""

    message: str
    hint: str


class RunListed(Run, frozen=True, kw_only=True):
    """A run in a list, where nobody looks at its steps."""

    progress: Going | None = None
    """Of the step it is in, if that is known."""


class RunPage(Record, frozen=True, kw_only=True):
    runs: tuple[RunListed, ...] = ()
    store: str | None = None
    """Null where there is none yet."""
    workflow: str | None = None
    """By which name the runs of the notebook that was asked for go there."""
    next: str | None = None
    """To be given as `before`; null on the last page."""


class RunShown(Record, frozen=True, kw_only=True):
    run: Run
    steps: tuple[Step, ...]


class RunChanged(Record, frozen=True, kw_only=True):
    run: Run


class StepPage(Record, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    next: str | None
    """To be given as `after`; null on the last page."""


class Events(Record, frozen=True, kw_only=True):
    events: tuple[Event, ...]


class CheckpointShown(Record, frozen=True, kw_only=True):
    checkpoint: Checkpoint


class Changed(Record, frozen=True, kw_only=True):
    token: str


@dataclass(frozen=True, slots=True)
class Download:
    """An answer that is a file."""

    name: str
    pieces: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request, parsed."""

    ids: Mapping[str, str]
    query: Any
    """As the route's `query` says."""
    body: Any
    """As the route's `body` says."""
    upload: IO[bytes] | None
    stores: Stores
    watchers: Watchers
    gone: Awaitable[None]
    """Done when nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that may be asked."""

    method: Literal["GET", "POST", "DELETE"]
    address: str
    """Below `nbcheckpoint/api/`; ids in braces."""
    call: Callable[..., Awaitable[Record | Download | dict[str, Any]]]
    """Is given the question and, unless `opens` is "nothing", the store."""
    query: type[Asked] = Asked
    body: type[Body] | Literal["archive"] | None = None
    answer: type[Record] | Literal["archive", "openapi"]
    opens: Literal["store", "store or none", "nothing"] = "store"

    @property
    def summary(self) -> str:
        return (self.call.__doc__ or "").partition("\n")[0]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)}", self.address))

    @property
    def pattern(self) -> str:
        """For tornado. What stands for an id is checked by whoever parses it: a wrong one deserves an answer."""
        parts = ("([^/]+)" if part.startswith("{") else re.escape(part) for part in self.address.split("/"))
        return f"/nbcheckpoint/api/{'/'.join(parts)}"


def parse(kind: type[S], given: Mapping[str, Any], *, strict: bool) -> S:
    """What was given, as that type. `strict=False`: all of it is text. Raises UsageError."""
    try:
        return convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _misfit(kind, given, str(error)) from error


def _misfit(kind: type[msgspec.Struct], given: Mapping[str, Any], why: str) -> UsageError:
    found = re.search(r"`\$\.(\w+)", why) or re.search(r"field `(.*)`", why)
    name = found[1] if found else ""
    about = field_schemas(kind).get(name)
    if about is None:
        return UsageError(f"there is no field {name[:80]!r}", hint=f"the fields are: {', '.join(field_schemas(kind))}")
    told = f"{name} is {given[name]!r:.200}" if name in given else f"{name} is missing"
    hints = [part["description"] for part in (about, *about.get("anyOf", ())) if "description" in part]
    return UsageError(told, hint=f"give {hints[0]}")


def parse_body(kind: type[S], data: bytes) -> S:
    """A JSON body as that type. Raises UsageError."""
    try:
        given = msgspec.json.decode(data) if data.strip() else {}
    except msgspec.DecodeError as error:
        raise UsageError(f"the body is not JSON: {error}", hint="send a JSON object") from error
    if not isinstance(given, dict):
        raise UsageError("the body is not a JSON object", hint="send a JSON object")
    return parse(kind, given, strict=True)


@cache
def field_schemas(kind: type[msgspec.Struct]) -> Mapping[str, dict[str, Any]]:
    """Name -> JSON schema of every field."""
    _, parts = msgspec.json.schema_components([kind])
    properties: dict[str, dict[str, Any]] = parts[kind.__name__]["properties"]
    return properties

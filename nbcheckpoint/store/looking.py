"""What people look at: what a checkpoint left, how far a run has come. Text and pictures, never HTML.

Everything here was written down when it was saved, so looking unpickles nothing, and may be done to what is not
trusted. What was shown as HTML is given as the text the notebook kept beside it: a viewer that never gets HTML cannot
be made to run it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from nbcheckpoint.errors import StoreDamaged
from nbcheckpoint.model import Record, Step, Value
from nbcheckpoint.typed import convert

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

MAX_TEXT = 100_000
"""Characters of one output; of more, the beginning and the end."""
MAX_IMAGE = 8 << 20
"""Characters of one picture, in base64."""
MAX_OUTPUTS = 200
LAST = 20
"""Steps among which the one that runs is looked for, from the end."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b.")
_PNG = b"\x89PNG\r\n\x1a\n"


class Shown(Record, frozen=True, kw_only=True):
    """One thing a step displayed."""

    kind: Literal["text", "image/png", "error"]
    text: str = ""
    data: str = ""
    """The picture, in base64."""


class Preview(Record, frozen=True, kw_only=True):
    """What a checkpoint left."""

    values: tuple[Value, ...] = ()
    outputs: tuple[Shown, ...] = ()
    source: str = ""


class Going(Record, frozen=True, kw_only=True):
    """How far a running step has come."""

    name: str
    done: int
    total: int = 0
    """Of how many; 0 where nobody knows."""
    left: float | None = None
    """Seconds it will take, at a guess."""
    inside: tuple[tuple[int, int], ...] = ()
    """How far the loops inside of the iteration it is in have come, and of how many, the outermost first."""


def going(store: Store, runs: Iterable[str]) -> dict[str, Going]:
    """Run -> how far the step it is in has come, as far as that is known."""
    found: dict[str, Going] = {}
    for run in runs:
        session: object = None
        for step in store._listed(Step, store.backend.scan(f"step/{run}/", limit=LAST, reverse=True)):
            session = session or step.meta.get("session")
            if step.meta.get("session", session) != session:
                break  # what an earlier kernel was at when it died
            if step.status != "running" or not isinstance(step.meta.get("done"), int):
                continue
            try:
                found[run] = convert({**step.meta, "name": step.name}, Going)
            except msgspec.ValidationError:
                pass  # somebody else's idea of progress
            break
    return found


def preview(store: Store, id: str) -> Preview:
    """Raises NotFound, StoreDamaged."""
    checkpoint = store.checkpoint(id)
    values = tuple(value for value in checkpoint.values if ":" not in value.name)  # the others are random states
    try:
        outputs = store.outputs(checkpoint)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"the outputs of checkpoint {id} cannot be read", key=f"checkpoint/{id}") from error
    return Preview(values=values, outputs=tuple(_shown(outputs)), source=checkpoint.source)


def _shown(outputs: list[dict[str, Any]]) -> Iterator[Shown]:
    """Nothing about their shape is taken for granted: somebody else may have made them."""
    for output in outputs[:MAX_OUTPUTS]:
        kind = output.get("output_type")
        if kind == "stream":
            yield Shown(kind="text", text=_text(output.get("text")))
        elif kind == "error":
            words = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
            yield Shown(kind="error", text=_text(output.get("traceback")) or words)
        elif isinstance(output.get("data"), dict):
            yield _best(output["data"])
    if len(outputs) > MAX_OUTPUTS:
        yield Shown(kind="text", text=f"… and {len(outputs) - MAX_OUTPUTS} more")


def _best(data: dict[str, Any]) -> Shown:
    image = _text(data.get("image/png"), limit=MAX_IMAGE + 1).replace("\n", "")
    if 0 < len(image) <= MAX_IMAGE and _is_png(image):
        return Shown(kind="image/png", data=image, text=_text(data.get("text/plain")))
    if "text/plain" in data:
        return Shown(kind="text", text=_text(data["text/plain"]))
    return Shown(kind="text", text=f"({', '.join(sorted(map(str, data)))[:200]})")


def _is_png(image: str) -> bool:
    try:
        return base64.b64decode(image, validate=True).startswith(_PNG)
    except ValueError:
        return False


def _text(value: Any, limit: int = MAX_TEXT) -> str:
    """As a notebook has text: one piece, or lines. Without what steers terminals."""
    lines = value if isinstance(value, list) else [value]
    text = _ANSI.sub("", "".join(line for line in lines if isinstance(line, str)))
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n… ({len(text) - limit:,} characters are left out here) …\n{text[-limit // 2 :]}"

"""The one line under a cell. A display of its own, never mixed into what the user prints."""

from __future__ import annotations

import html
import secrets
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from nbcheckpoint.config import warn_size
from nbcheckpoint.model import Checkpoint, NotSaved, Progress, Reason
from nbcheckpoint.units import say_duration, say_size

_COLOURS = {
    "running": "var(--jp-border-color1, #bdbdbd)",
    "restored": "var(--jp-success-color1, #388e3c)",
    "resumed": "var(--jp-success-color1, #388e3c)",
    "computed": "var(--jp-info-color1, #0097a7)",
    "failed": "var(--jp-error-color1, #d32f2f)",
    "note": "var(--jp-warn-color1, #f57c00)",
}

PROGRESS = "nbcheckpoint_progress"
"""In the metadata of a display: how far something is, for whoever runs a notebook unattended."""
MAX_SOURCE = 4000
"""Characters of a statement that are kept though it was not saved."""


SLOW = "slow"
"""In the meta of a statement's step: the key of one that was slow, which nobody had expected."""
IN_VAIN = "slow in vain"
"""The same of one that nobody need look at the next time."""


@dataclass
class Done:
    """What became of one statement."""

    status: str
    seconds: float
    reason: Reason
    checkpoint: Checkpoint | None
    save_seconds: float = 0.0
    problem: str = ""
    resumed: Checkpoint | None = None
    """How far an earlier kernel had come with it, a loop."""
    loop_problem: str = ""
    """Why it could not go on where it was, if it were cut short."""
    source: str = ""
    quick: bool = False
    """In automatic mode: not worth saving, nor a word under the cell."""
    slow: str = ""
    """Its key, if it was slow, and was not saved because that had not been expected."""
    in_vain: bool = False
    """It had been, and its inputs were too many all the same."""

    @property
    def spared(self) -> float:
        """Seconds of work that did not have to be done again."""
        if self.resumed is not None:
            return self.resumed.seconds
        return self.checkpoint.seconds if self.checkpoint is not None and self.status == "restored" else 0.0

    def unsaved(self) -> dict[str, str]:
        """What stands in the record of a statement that left no checkpoint to say it."""
        if self.checkpoint:
            return {}
        said = {"problem": self.problem, "source": self.source[:MAX_SOURCE]}
        return {**said, **({IN_VAIN if self.in_vain else SLOW: self.slow} if self.slow else {})}


def summary(done: Sequence[Done], statements: int) -> tuple[str, str]:
    """(status, line) of a cell from what became of its statements."""
    computed = [item for item in done if item.status == "computed" and not item.quick]
    back = [item for item in done if item.status == "restored"]
    if not computed:
        return "restored", restored(back)
    loops = [item.resumed.progress for item in computed if item.resumed is not None and item.resumed.progress]
    if not back and not loops:
        return "computed", _computed(computed)
    spared = sum(item.spared for item in done)
    parts = [f"{len(back)} of {statements} statements restored"] if back else []
    parts += [f"loop continued {say_where(progress)}" for progress in loops]
    parts += [f"spared {say_duration(spared)}"] if spared >= 0.05 else []
    return "resumed", f"resumed: {', '.join(parts)} · {_computed(computed)}"


def say_where(progress: Progress) -> str:
    """`at 37 of 100`, as people count; `at 3 of 10, inside at 37 of 100`. It may have grown, or be over."""
    return ", inside ".join(map(_say_where, (*progress.around, progress)))


def _say_where(progress: Progress) -> str:
    if 0 < progress.done == progress.total:
        return "at its end"
    return f"at {progress.done + 1:,}" + (f" of {progress.total:,}" if progress.total > progress.done else "")


def restored(done: Sequence[Done]) -> str:
    """`restored from 16:20 · spared 12m 04s · 41 ms`"""
    checkpoints = [item.checkpoint for item in done if item.checkpoint]
    spared = sum(checkpoint.seconds for checkpoint in checkpoints)
    spared_text = f" · spared {say_duration(spared)}" if spared >= 0.05 else ""
    latest = max(checkpoint.created for checkpoint in checkpoints)
    return f"restored from {when(latest)}{spared_text} · {say_duration(sum(item.seconds for item in done))}"


def _computed(done: Sequence[Done]) -> str:
    """`computed 12m 04s: input df changed · saved model, X (412 MB in 0.4 s) · not saved: con (…)`"""
    reasons = list(dict.fromkeys(item.reason.text for item in done if item.reason.text))
    parts = [f"computed {say_duration(sum(item.seconds for item in done))}"]
    parts[0] += f": {'; '.join(reasons[:2])}" if reasons else ""
    saved = [item.checkpoint for item in done if item.checkpoint]
    if saved:
        parts.append(_saved(saved, sum(item.save_seconds for item in done)))
    large = sum(checkpoint.size for checkpoint in saved)
    if 0 < warn_size() < large:
        parts.append(f"large: {say_size(large)}")
    problems = [not_saved(lost) for item in done for lost in _lost(item)]
    problems += [item.problem for item in done if item.problem]
    if problems:
        parts.append("not saved: " + "; ".join(dict.fromkeys(problems)))
    parts += dict.fromkeys(item.loop_problem for item in done if item.loop_problem)
    return " · ".join(parts)


def _lost(done: Done) -> Iterator[NotSaved]:
    """What could not be saved, but for an input of which was said that nobody can compare it."""
    if done.checkpoint is not None:
        said = {item.name for item in done.checkpoint.inputs} if done.reason.code == "unidentified" else set()
        yield from (item for item in done.checkpoint.not_saved if ":" not in item.name and item.name not in said)


def _saved(saved: Sequence[Checkpoint], seconds: float) -> str:
    names = list(dict.fromkeys(name for checkpoint in saved for name in checkpoint.names if ":" not in name))
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    # What is inline in the record was written too, though not as a chunk.
    size = sum(c.bytes or (c.stream.size if c.stream else 0) for c in saved)
    return f"saved {shown or 'its output'} ({say_size(size)} in {say_duration(seconds)})"


def not_saved(item: NotSaved) -> str:
    """`con (sqlite3.Connection: cannot be pickled)`"""
    where = f" at {item.path}" if item.path else ""
    return f"{item.name} ({item.type}{where}: {item.why})"


def when(created: str) -> str:
    """`16:20` today, `Mon 16:20` this week, else the date: in the reader's own time zone."""
    moment = datetime.fromisoformat(created.replace("Z", "+00:00")).astimezone()
    days = (datetime.now(timezone.utc).astimezone().date() - moment.date()).days
    return f"{moment:%H:%M}" if days == 0 else f"{moment:%a %H:%M}" if 0 < days < 7 else f"{moment:%Y-%m-%d %H:%M}"


def checksum(source: str) -> str:
    """Of a cell's source: a front end compares it with what the cell says now. No secret, and no key."""
    return f"{zlib.crc32(source.encode('utf-8', 'surrogatepass')):08x}"


def show(shell: Any, status: str, text: str, *, display: str = "", **data: Any) -> None:
    """Publish the line, or put it in place of what a display shows. The metadata is for front ends: a badge needs no
    parsing of text."""
    _publish(shell, status, text, data, display, update=bool(display))


def is_captured(shell: Any) -> bool:
    """Does what is shown now go into a variable of the user's (`%%capture`)? Nothing of ours belongs there."""
    from IPython.core.displaypub import CapturingDisplayPublisher

    return isinstance(shell.display_pub, CapturingDisplayPublisher)


def show_progress(
    shell: Any, done: int, total: int, left: float | None, *, problem: str = "", display: str = ""
) -> str:
    """How far a loop is, and why that is not being saved, in place of what was said before. Returns the display it is
    in."""
    if is_captured(shell):
        return display
    place = display or f"nbcheckpoint-{secrets.token_hex(8)}"
    said = say_progress(done, total, left) + (f" · not being saved: {problem}" if problem else "")
    _publish(shell, "running", said, {}, place, update=bool(display))
    return place


def clear(shell: Any, display: str) -> None:
    """Say nothing there any more."""
    if is_captured(shell):
        return
    _send(shell, {"text/plain": "", "text/html": ""}, {}, display, update=True)


def say_progress(done: int, total: int, left: float | None) -> str:
    """`loop 37 of 100 · 2m left`, as people count."""
    of = f" of {total:,}" if total else ""
    at = min(done + 1, total) if total else done + 1
    return f"loop {at:,}{of}" + (f" · {_about(left)} left" if left is not None and left >= 0.5 else "")


def _about(seconds: float) -> str:
    """A guess, not to the second."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


def _publish(shell: Any, status: str, text: str, data: dict[str, Any], display: str, *, update: bool) -> None:
    colour = _COLOURS.get(status, _COLOURS["note"])
    body = (
        '<div class="nbcheckpoint-line" style="font-size: var(--jp-ui-font-size1, 13px); '
        f"color: var(--jp-ui-font-color2, #616161); border-left: 3px solid {colour}; "
        f'padding-left: 8px; margin: 2px 0;">{html.escape(text)}</div>'
    )
    told = {"nbcheckpoint": {"status": status, "text": text, **data}}
    _send(shell, {"text/plain": text, "text/html": body}, told, display, update=update)


def _send(shell: Any, data: dict[str, str], metadata: dict[str, Any], display: str, *, update: bool) -> None:
    more = {"transient": {"display_id": display}, "update": update} if display else {}
    shell.display_pub.publish(data, metadata, **more)

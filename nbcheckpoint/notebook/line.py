"""The one line under a cell. A display of its own, never mixed into what the user prints."""

from __future__ import annotations

import html
from datetime import datetime, timezone
from typing import Any

from nbcheckpoint.config import warn_size
from nbcheckpoint.model import Checkpoint, NotSaved, Reason
from nbcheckpoint.units import say_duration, say_size

_COLOURS = {
    "restored": "var(--jp-success-color1, #388e3c)",
    "computed": "var(--jp-info-color1, #0097a7)",
    "failed": "var(--jp-error-color1, #d32f2f)",
    "note": "var(--jp-warn-color1, #f57c00)",
}


def restored(checkpoint: Checkpoint, seconds: float) -> str:
    """`restored from 16:20 · spared 12m 04s · 41 ms`"""
    spared = f" · spared {say_duration(checkpoint.seconds)}" if checkpoint.seconds >= 0.05 else ""
    return f"restored from {when(checkpoint.created)}{spared} · {say_duration(seconds)}"


def computed(
    seconds: float, reason: Reason, checkpoint: Checkpoint | None, save_seconds: float, problem: str = ""
) -> str:
    """`computed 12m 04s: input df changed · saved model, X (412 MB in 0.4 s) · not saved: con (…)`"""
    parts = [f"computed {say_duration(seconds)}" + (f": {reason.text}" if reason.text else "")]
    if checkpoint is not None and checkpoint.values:
        names = [name for name in checkpoint.names if ":" not in name]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        # What is inline in the record was written too, though not as a chunk.
        size = say_size(checkpoint.bytes or (checkpoint.stream.size if checkpoint.stream else 0))
        parts.append(f"saved {shown or 'its output'} ({size} in {say_duration(save_seconds)})")
    elif checkpoint is not None:
        parts.append(f"saved in {say_duration(save_seconds)}")
    if checkpoint is not None and 0 < warn_size() < checkpoint.size:
        parts.append(f"large: {say_size(checkpoint.size)}")
    if checkpoint is not None and checkpoint.not_saved:
        parts.append("not saved: " + ", ".join(map(_not_saved, checkpoint.not_saved)))
    if problem:
        parts.append(f"not saved: {problem}")
    return " · ".join(parts)


def _not_saved(item: NotSaved) -> str:
    where = f" at {item.path}" if item.path else ""
    return f"{item.name} ({item.type}{where}: {item.why})"


def when(created: str) -> str:
    """`16:20` today, `Mon 16:20` this week, else the date: in the reader's own time zone."""
    moment = datetime.fromisoformat(created.replace("Z", "+00:00")).astimezone()
    days = (datetime.now(timezone.utc).astimezone().date() - moment.date()).days
    return f"{moment:%H:%M}" if days == 0 else f"{moment:%a %H:%M}" if 0 < days < 7 else f"{moment:%Y-%m-%d %H:%M}"


def show(shell: Any, status: str, text: str, **data: Any) -> None:
    """Publish the line. The metadata is for front ends: a badge needs no parsing of text."""
    colour = _COLOURS.get(status, _COLOURS["note"])
    body = (
        '<div class="nbcheckpoint-line" style="font-size: var(--jp-ui-font-size1, 13px); '
        f"color: var(--jp-ui-font-color2, #616161); border-left: 3px solid {colour}; "
        f'padding-left: 8px; margin: 2px 0;">{html.escape(text)}</div>'
    )
    shell.display_pub.publish(
        {"text/plain": text, "text/html": body},
        {"nbcheckpoint": {"status": status, "text": text, **data}},
    )

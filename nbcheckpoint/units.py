"""Sizes, ages and durations, as people write and read them."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from nbcheckpoint.errors import UsageError

_AGES = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "K": 10**3, "M": 10**6, "G": 10**9}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*\Z")


def parse_age(text: str) -> float:
    """`30s`, `7d`, `1.5h` in seconds. A bare number is seconds."""
    found = _NUMBER.match(text)
    if found is None or (found[2] or "s") not in _AGES:
        raise UsageError(f"{text!r} is not an age", hint="write it like 30s, 15m, 2h, 7d or 4w")
    return float(found[1]) * _AGES[found[2] or "s"]


def parse_size(text: str) -> int:
    """`20GB`, `512 MB` in bytes."""
    found = _NUMBER.match(text)
    if found is None or found[2].upper() not in _SIZES:
        raise UsageError(f"{text!r} is not a size", hint="write it like 500MB or 20GB")
    return int(float(found[1]) * _SIZES[found[2].upper()])


def say_size(size: float) -> str:
    """`412 MB`: three figures are plenty."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 9.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def say_duration(seconds: float) -> str:
    """`41 ms`, `3.2 s`, `12m 04s`, `2h 05m`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m"


def ago(moment: str) -> str:
    """`3m 20s ago`; what is no time is shown as it is."""
    try:
        then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        seconds = max(0.0, (datetime.now(timezone.utc) - then).total_seconds())
    except (ValueError, TypeError):
        return moment
    return "just now" if seconds < 2 else f"{say_duration(seconds)} ago"

"""Records: the rows behind `get`, `put`, `delete` and `scan`.

Keys are compared as SQLite compares text, byte by byte in UTF-8, and that is code-point order. A scan is a walk along
the index on (key, raw), so it costs what it returns.
"""

from __future__ import annotations

from typing import Any

from nbcheckpoint import errors
from nbcheckpoint.backend.base import ABSENT, Entry
from nbcheckpoint.backend.disk_rows import RECORD, is_intact
from nbcheckpoint.backend.disk_stage import Transaction


def entries(rows: list[tuple[Any, ...]]) -> list[Entry]:
    """Rows of (key, value, tag), if they are what was written. Raises StoreDamaged."""
    for row in rows:
        if not is_intact(*row):
            raise errors.StoreDamaged(f"the record {str(row[0])[:80]} is not what was written")
    return list(map(Entry._make, rows))


def compare(index: Transaction, key: str, expect: str | None) -> None:
    if expect is None:
        return
    rows = index.select("SELECT tag FROM Cache WHERE raw = 1 AND key = ?", (RECORD + key,))
    if (rows[0][0] if rows else ABSENT) != expect:
        raise errors.Conflict(key)


def select_range(prefix: str, after: str, reverse: bool) -> tuple[str, list[str]]:
    """A walk along the index on (key, raw): SQLite compares text as UTF-8, which is code-point order."""
    values = [RECORD + prefix, _successor(RECORD + prefix)]
    where = "raw = 1 AND key >= ? AND key < ?"
    if after:
        where += f" AND key {'<' if reverse else '>'} ?"
        values.append(RECORD + after)
    order = "DESC" if reverse else "ASC"
    return f"SELECT substr(key, 3), value, tag FROM Cache WHERE {where} ORDER BY key {order} LIMIT ?", values


def _successor(prefix: str) -> str:
    """The first text that sorts behind everything that starts with prefix."""
    prefix = prefix.rstrip("\U0010ffff")
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if following == 0xD800 else following)

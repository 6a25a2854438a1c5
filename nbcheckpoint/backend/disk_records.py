"""Records: the rows behind `get`, `put`, `delete` and `scan`.

Keys are compared as SQLite compares text, byte by byte in UTF-8, and that is code-point order. A scan is a walk along
the index on (key, raw), so it costs what it returns.
"""

from __future__ import annotations

import secrets
from typing import Any

from xxhash import xxh3_64_hexdigest

from nbcheckpoint import errors
from nbcheckpoint.backend.base import ABSENT, Entry
from nbcheckpoint.backend.disk_rows import RECORD
from nbcheckpoint.backend.disk_stage import Transaction


def entries(rows: list[tuple[Any, ...]]) -> list[Entry]:
    """Rows of (key in the index, value, tag), if they are what was written. Raises StoreDamaged.

    One loop, written for speed: a listing of all runs goes through it 100,000 times.
    """
    found, make, begin = [], tuple.__new__, len(RECORD)
    for stored, value, tag in rows:
        try:
            key = stored[begin:]
            if xxh3_64_hexdigest(value + (tag[:16] + key).encode()) == tag[16:]:
                found.append(make(Entry, (key, value, tag)))
                continue
        except TypeError:
            pass  # a column has changed its type
        key = str(stored)[begin:]
        raise errors.StoreDamaged(f"the record {key[:80]} is not what was written", key=key)
    return found


def new_version(key: str, value: bytes) -> str:
    """A version nobody has had before, which also tells whether this key's bytes are still these."""
    unique = secrets.token_hex(8)
    # Against accidents, not against people: those the signature inside the record keeps out.
    return unique + xxh3_64_hexdigest(value + (unique + key).encode())


def compare(index: Transaction, key: str, expect: str | None) -> None:
    if expect is None:
        return
    rows = index.select("SELECT tag FROM Cache WHERE raw = 1 AND key = ?", (RECORD + key,))
    if (rows[0][0] if rows else ABSENT) != expect:
        raise errors.Conflict(key)


def select_range(columns: str, prefix: str, after: str, reverse: bool) -> tuple[str, tuple[str, str]]:
    """A walk along the index on (key, raw): SQLite compares text as UTF-8, which is code-point order, like Python.

    One bound at each end: of two, SQLite would seek the first and step through everything up to the second.
    """
    low, high, above = RECORD + prefix, _successor(RECORD + prefix), ">="
    if after and reverse:
        high = min(high, RECORD + after)
    elif after and RECORD + after >= low:
        low, above = RECORD + after, ">"
    order = "DESC" if reverse else "ASC"
    sql = f"SELECT {columns} FROM Cache WHERE raw = 1 AND key {above} ? AND key < ? ORDER BY key {order} LIMIT ?"
    return sql, (low, high)


def _successor(prefix: str) -> str:
    """The first text that sorts behind everything that starts with prefix."""
    prefix = prefix.rstrip("\U0010ffff")
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if following == 0xD800 else following)

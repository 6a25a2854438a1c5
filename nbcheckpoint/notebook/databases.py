"""What duckdb keeps to itself: `duckdb.sql(…)` asks a database that lives in the kernel, and no variable leads there.

A query over files and data frames is like any other function. One that makes a table there is done elsewhere, and one
that may read such a table depends on what nobody can compare: both run every time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from nbcheckpoint.fingerprint.code import Names
from nbcheckpoint.whose import package_of

_CHANGING = re.compile(
    r"^\s*(?:create|insert|update|delete|alter|drop|attach|detach|use|load|install|set|reset|pragma|import|truncate|merge)\b",
    re.IGNORECASE | re.MULTILINE,
)
_CHANGE = frozenset(
    {"register", "unregister", "create_function", "remove_function", "create", "create_view", "to_table", "to_view"}
    | {"insert_into", "append"}
)
_HELD = "select count(*) from (select 1 from duckdb_tables() union all select 1 from duckdb_views() where not internal)"


def obstacle(mentions: Names, values: Iterable[Any]) -> str:
    """Why a statement that asks duckdb's own database is always run, if it does and is."""
    duckdb: Any = sys.modules.get("duckdb")
    if duckdb is None or not any(package_of(value) == "duckdb" for value in values):
        return ""
    if _CHANGE & mentions.attributes or any(map(_CHANGING.search, mentions.strings)):
        return "it changes duckdb's own database, which ends with the kernel"
    if _holds_tables(duckdb):
        return "duckdb's own database holds tables, and nobody can tell whether they are what they were"
    return ""


def _holds_tables(duckdb: Any) -> bool:
    """Asked by a connection of its own: a result the user has yet to fetch stays where it is."""
    connection = duckdb.default_connection
    try:
        with (connection() if callable(connection) else connection).cursor() as asking:
            return bool(asking.execute(_HELD).fetchone()[0])
    except Exception:  # it is closed, or too old to be asked: who knows
        return True

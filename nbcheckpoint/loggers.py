"""Loggers are found by their names, whoever has one. They lead to all others, and to terminals and files nobody saves;
so they are looked into only where they fill something of the user's.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

from nbcheckpoint.whose import is_user_code


def fills(logger: logging.Logger) -> Iterator[Any]:
    """Handlers that write to something in memory, or are of a class of the user's; and filters, which see it all."""
    at: logging.Logger | None = logger
    while at is not None:
        yield from (one for one in (*at.handlers, *at.filters) if _fills(one))
        at = at.parent if at.propagate else None


def _fills(part: Any) -> bool:
    stream, filters = getattr(part, "stream", None), getattr(part, "filters", ())
    return any(map(is_users, (part, stream, *filters)))


def is_users(one: Any) -> bool:
    """Is it in memory, or of a class of the user's?"""
    return isinstance(one, (io.StringIO, io.BytesIO)) or is_user_code(type(one))


def has_handler(handler: logging.Handler) -> bool:
    """Does any logger write to it?"""
    loggers = (logging.root, *list(logging.root.manager.loggerDict.values()))
    return any(one is handler for logger in loggers for one in getattr(logger, "handlers", ()))

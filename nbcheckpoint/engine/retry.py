"""Whether to try again, and when. Pure: an error and a count in, seconds out.

Waits double from attempt to attempt, up to a minute, each shortened by up to a quarter by chance, so that many workers
that failed together do not come back together. A server that says when to come back is believed, up to ten minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

MOST_SECONDS = 60.0
MOST_TOLD_SECONDS = 600.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_TIMEOUTS = frozenset(
    # Before Python 3.11 asyncio and futures had a TimeoutError of their own.
    {"TimeoutError", "Timeout", "ReadTimeout", "ConnectTimeout", "APITimeoutError", "APIConnectionError"}
)
_chance = random.Random()  # our own: the user's random numbers are not ours to draw

RetryOn = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]


def is_transient(error: BaseException) -> bool:
    """Would the same call perhaps succeed a moment later? Timeouts, connections, and what servers say is passing."""
    if isinstance(error, (TimeoutError, ConnectionError)):
        return True
    if type(error).__name__ in _TIMEOUTS:
        return True
    return _status(error) in _PASSING


def is_worth_a_retry(error: BaseException, retry_on: RetryOn | None) -> bool:
    """As the user says; if he says nothing, what is transient."""
    if not isinstance(error, Exception):
        return False
    if retry_on is None:
        return is_transient(error)
    if isinstance(retry_on, (type, tuple)):
        return isinstance(error, retry_on)
    return bool(retry_on(error))


def seconds_until_next(failures: int, backoff: float, error: BaseException) -> float:
    """How long to wait after so many failures."""
    told = _told(error)
    if told is not None:
        return min(told, MOST_TOLD_SECONDS)
    wait = min(MOST_SECONDS, backoff * 2.0 ** (failures - 1))
    return float(wait * (1 - 0.25 * _chance.random()))


def _status(error: BaseException) -> int | None:
    """The HTTP status an error carries, wherever its library puts it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return None


def _told(error: BaseException) -> float | None:
    response: Any = getattr(error, "response", error)
    headers = getattr(response, "headers", None)
    try:
        return max(0.0, float(headers["Retry-After"])) if headers is not None else None
    except (KeyError, TypeError, ValueError):
        return None

"""Facts, told to whoever listens. A listener that raises disturbs nobody: neither the work nor the other listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from nbcheckpoint.model import Event, utc_now

Listener = Callable[[Event], Any]

_log = logging.getLogger("nbcheckpoint.events")
_listeners: list[Listener] = []


def subscribe(listener: Listener) -> Callable[[], None]:
    """Be told every event from here on. Returns the function that ends it."""
    _listeners.append(listener)

    def unsubscribe() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return unsubscribe


def emit(type: str, *, run: str = "", step: str = "", **data: Any) -> None:
    """Tell a fact. Never raises."""
    event = Event(type=type, time=utc_now(), run=run, step=step, data=data)
    _log.debug("%s %s %s %s", event.type, event.run, event.step, event.data)
    for listener in tuple(_listeners):
        try:
            listener(event)
        except Exception:  # the listener's own fault
            _log.exception("a listener failed on %s", event.type)

"""JSON and plain data as the types they are to have: the one place where msgspec is given a type.

It finds out about a type when it first meets it, and two threads that do so at the same moment end the process with a
segmentation fault: one looks at what the other has only half written. A store is read by the kernel's thread, by the
one that prunes, by a server's. So types are met here, by one thread at a time; after that there is nothing to write.
"""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")

_meeting = threading.Lock()
_met: dict[Any, msgspec.json.Decoder[Any]] = {}


def decode(data: bytes | str, kind: type[T]) -> T:
    """JSON as that type. Raises `msgspec.DecodeError` or `msgspec.ValidationError`."""
    return cast("T", _decoder(kind).decode(data))


def convert(value: Any, kind: type[T], *, strict: bool = True, str_keys: bool = False) -> T:
    """Plain data as that type. Raises `msgspec.ValidationError`."""
    try:
        _decoder(kind)
    except TypeError:  # one that has no hash, or that JSON could not say: the user's own
        with _meeting:
            return msgspec.convert(value, kind, strict=strict, str_keys=str_keys)
    return msgspec.convert(value, kind, strict=strict, str_keys=str_keys)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _met.get(kind)
    if found is None:
        with _meeting:
            found = _met[kind] = msgspec.json.Decoder(kind)
    return found


def _after_fork() -> None:
    """Another thread may have been in there, which does not exist in a forked child."""
    global _meeting
    _meeting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

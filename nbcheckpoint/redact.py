"""Secrets stay out of what is written down beside the values: previews, sources, names, errors, events, logs.

A variable the user saves is saved, whatever it is called; that is his data, in its chunks. But a record is read by
many: listed, logged, shown in a sidebar, exported. So whatever a name says is a secret is shown as `<hidden>`, and the
values of such environment variables are hidden wherever they turn up.

By name, because a value does not say what it is: `password`, `DB_PASSWORD`, `apiKey`, `auth_token`. A `token_count`
is none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache

HIDDEN = "<hidden>"

SHORTEST = 6
"""A shorter value is not looked for in texts: it would be found everywhere."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ALWAYS = frozenset(
    {"password", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials", "apikey"}
)
_AT_THE_END = frozenset(
    {"token", "pass", "api key", "access key", "private key", "account key", "auth", "authorization"}
)
_LITERAL = re.compile(
    r"""(?P<head>(?P<name>[^\W\d]\w*) (?:['"]\s*\]?)? \s* (?: : \s* [\w.]+ \s* = | [=!]?= | : ) \s* [rbufRBUF]{0,2})
        (?P<quote>\"\"\"|'''|"|') (?P<text>(?:\\.|(?!(?P=quote)).)+) (?P=quote)""",
    re.VERBOSE | re.DOTALL,
)


_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")


@lru_cache(maxsize=4096)  # asked for every name in the environment, again and again
def is_secret(name: str) -> bool:
    """Does the name of a variable, an argument or a key say that its value is a secret?"""
    words = [word.lower() for word in _WORDS.findall(name)]
    return not _ALWAYS.isdisjoint(words) or bool({" ".join(words[-1:]), " ".join(words[-2:])} & _AT_THE_END)


def redact(text: str, secrets: Iterable[object] = ()) -> str:
    """The text without the values of secret environment variables, passwords in URLs, or any of `secrets`."""
    if len(text) < SHORTEST:
        return text
    known = {*_in_environment(), *(value for value in secrets if isinstance(value, str))}
    for value in sorted(known, key=len, reverse=True):  # one may be part of another
        if len(value) >= SHORTEST and value in text:
            text = text.replace(value, HIDDEN)
    return _IN_URL.sub(rf"\1:{HIDDEN}@", text) if "://" in text else text


_environment: tuple[dict[bytes, bytes], frozenset[str]] = {}, frozenset()
"""As it was when it was last read, and the secrets in it."""


def _in_environment() -> frozenset[str]:
    """The values of secret variables. Read only when anything has changed: it takes longer than writing a record."""
    global _environment
    raw: dict[bytes, bytes] = getattr(os.environ, "_data", {})
    if not raw or raw != _environment[0]:
        found = frozenset(os.environ.get(name, "") for name in list(os.environ) if is_secret(name))
        _environment = dict(raw), found
    return _environment[1]


def redact_source(source: str) -> str:
    """Code without literal secrets: `connect(password="…")`, `token = "…"`, `{"api_key": "…"}`."""
    return redact(_without_literals(source))


@lru_cache(maxsize=256)  # the same code is saved again and again
def _without_literals(source: str) -> str:
    def hide(found: re.Match[str]) -> str:
        if not is_secret(found["name"]):
            return found[0]
        return f"{found['head']}{found['quote']}{HIDDEN}{found['quote']}"

    return _LITERAL.sub(hide, source)

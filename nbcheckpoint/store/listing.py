"""Listing runs: newest first, a hundred thousand of them in a fraction of a second.

Reading a record is a checksum, a signature and a decoding; each is a microsecond, and together they are most of a
listing. A version never comes back, so a record that was read once under its version is not read again while it has
that version: the next listing of everything asks for keys and versions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from nbcheckpoint.backend.base import Backend, Entry
from nbcheckpoint.collecting import gc_paused
from nbcheckpoint.model import Run
from nbcheckpoint.store.liveness import seen

PREFIX = "run/"
PAGE = 2000
REMEMBERED = 1 << 17
"""How many runs a process remembers, of about a kilobyte each."""

Page = tuple[list[Run], str]
"""Runs, and the key to go on behind; "" at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs. What is None is not asked for."""

    workflow: str | None = None
    status: str | None = None
    text: str | None = None
    """Somewhere in its workflow, id or note, in capitals or not."""
    tag: str | None = None

    @property
    def narrow(self) -> bool:
        return any(asked is not None for asked in (self.workflow, self.status, self.text, self.tag))

    @property
    def words(self) -> bool:
        """Is something asked for that few runs have, so that most need not be read?"""
        return any(asked is not None for asked in (self.workflow, self.text, self.tag))

    def has(self, run: Run) -> bool:
        text = (self.text or "").lower()
        return (
            self.workflow in (None, run.workflow)
            and self.status in (None, run.status)
            and (not text or any(text in words.lower() for words in (run.workflow, run.id, run.note)))
            and (self.tag is None or self.tag in run.tags)
        )

    def may_be(self, entry: Entry) -> bool:
        """False only where the bytes of the record leave no doubt."""
        # A run that runs need not say so, and may have been interrupted without a word.
        status = None if self.status in ("running", "interrupted") else self.status
        if any(words is not None and _json(words) not in entry.value for words in (self.workflow, self.tag, status)):
            return False
        if not self.text or not self.text.isascii() or not entry.value.isascii():
            return True  # small and capital letters of other alphabets: reading it tells
        return _json(self.text.lower())[1:-1] in entry.value.lower()


_json = lru_cache(maxsize=8)(msgspec.json.encode)


class Listing:
    """The runs of one store."""

    def __init__(
        self,
        backend: Callable[[], Backend],
        read: Callable[[Sequence[Entry]], Iterable[Run]],
        *,
        legible: bool,
    ) -> None:
        """`read` checks and decodes records, and may leave some out. `legible`: what they say can be seen without
        that (they are not encrypted)."""
        self._backend = backend
        self._read = read
        self._legible = legible
        self._known: dict[tuple[str, str], Run] = {}
        """By key and version."""

    def newest(self, wanted: Wanted, *, limit: int | None, before: str | None) -> list[Run]:
        """What `Store.runs` gives."""
        found: list[Run] = []
        after = PREFIX + before if before else ""
        everything = limit is None and not wanted.words
        recall = everything and bool(self._known)  # the first time there is nothing to ask the versions for
        with gc_paused():
            while limit is None or len(found) < limit:
                page = PAGE if limit is None or wanted.narrow else limit - len(found)
                known = self._recall(after, page) if recall else None
                runs, after = known or self._fetch(after, page, wanted, keep=everything)
                runs = [seen(run) if run.status == "running" else run for run in runs]
                found += [run for run in runs if wanted.has(run)] if wanted.narrow else runs
                if not after:
                    break
        return found if limit is None else found[:limit]

    def _recall(self, after: str, size: int) -> Page | None:
        """The next runs, if every one of them is known."""
        marks = self._backend().versions(PREFIX, after=after, limit=size, reverse=True)
        known = self._known
        try:
            return [known[mark] for mark in marks], marks[-1][0] if len(marks) == size else ""
        except KeyError:
            return None

    def _fetch(self, after: str, size: int, wanted: Wanted, *, keep: bool) -> Page:
        """The next runs, and perhaps not all of those that are not wanted."""
        entries = self._backend().scan(PREFIX, after=after, limit=size, reverse=True)
        following = entries[-1].key if len(entries) == size else ""
        if wanted.narrow and not keep and self._legible:
            # Most are others, and one look at the bytes tells. What is left is read properly.
            entries = [entry for entry in entries if wanted.may_be(entry)]
        runs = list(self._read(entries))
        if keep and len(runs) == len(entries):
            self._keep(entries, runs)
        return runs, following

    def _keep(self, entries: Sequence[Entry], runs: Sequence[Run]) -> None:
        if len(self._known) + len(runs) > REMEMBERED:
            self._known.clear()
        for entry, run in zip(entries, runs, strict=True):
            self._known[entry.key, entry.version] = run

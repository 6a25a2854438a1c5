"""Stores with something in them, and backends that fail on purpose."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from msgspec.structs import replace

from nbcheckpoint.model import Checkpoint, Run, Step, utc_now
from nbcheckpoint.store import Store


def days_ago(days: float) -> str:
    then = datetime.now(timezone.utc) - timedelta(days=days)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def draft(**fields: Any) -> Checkpoint:
    given: dict[str, Any] = {"code": "c" * 64, "inputs_digest": "i" * 64, "run": "r", "step": "000000", **fields}
    return Checkpoint(id="", created="", **given)


def add_run(store: Store, workflow: str = "nb.ipynb", **fields: Any) -> Run:
    """A run that ended, whenever `updated` says."""
    run = store.begin_run(workflow)
    done = replace(run, owner=None, **{"status": "completed", "updated": utc_now(), **fields})
    store._put(f"run/{run.id}", done, durable=True)
    return done


def add_step(
    store: Store, run: Run, values: dict[str, Any], *, name: str = "train", created: str = "", **fields: Any
) -> Checkpoint:
    """A step that was computed and saved, with its checkpoint; `created` dates it back."""
    address = f"{len(store.steps(run.id)):06d}"
    saved = store.save(draft(run=run.id, step=address, name=name, **fields), values).checkpoint
    if created:
        saved = replace(saved, created=created)
        store._put(f"checkpoint/{saved.id}", saved, durable=True)
    store.put_step(Step(run=run.id, address=address, name=name, status="completed", checkpoint=saved.id), durable=True)
    return saved


class Crash(BaseException):
    """Not an Exception: nobody may catch it by accident."""


class Crashing:
    """A backend that dies instead of making its nth call."""

    def __init__(self, inner: Any, after: int) -> None:
        self._inner = inner
        self.left = after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.left == 0:
                raise Crash(name)
            self.left -= 1
            return found(*args, **kwargs)

        return call


def chunk_count(store: Store) -> int:
    return sum(1 for _ in store.backend.scan_chunks())

"""This kernel's part of the notebook's run: which store, which run, which steps.

A run spans kernels. The next kernel of a notebook whose last one died goes on with the same run; after a kernel
that was shut down on purpose a new run begins. Nothing is opened before it is needed.
"""

from __future__ import annotations

import atexit
import os
import platform
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nbcheckpoint.config import store_location
from nbcheckpoint.engine import loop
from nbcheckpoint.errors import Error, NotFound, StoreError
from nbcheckpoint.model import Checkpoint, Run, Step, StepStatus, new_id, utc_now
from nbcheckpoint.notebook.line import Done
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.background import Background
from nbcheckpoint.store.liveness import this_process


class Session:
    """One kernel working on one run."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._store: Store | None = None
        self._run: Run | None = None
        self._upkeep: Background | None = None
        self._next = 0
        self._later: threading.Timer | None = None
        self._quick: list[Step] = []
        self._noting = threading.Lock()
        self._pid = os.getpid()
        atexit.register(self.close)

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self.location)
            self._upkeep = Background(self._store)
            loop.use(self._store)
        return self._store

    @property
    def location(self) -> str:
        """Where the store is, or will be."""
        return self._store.url if self._store is not None else store_location(start=self.notebook.parent)

    @property
    def begun(self) -> Run | None:
        """The run this kernel works on, if it has begun to."""
        return self._run

    @property
    def notebook(self) -> Path:
        """The notebook's path as far as the front end told it; plain IPython has none."""
        told = self._namespace.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or "ipython"
        return Path.cwd() / str(told)

    @property
    def workflow(self) -> str:
        """The notebook's name among the runs: its path from the folder the store is in."""
        parent = Path(self.store.url.removeprefix("file://")).parent
        try:
            return self.notebook.relative_to(parent).as_posix()
        except ValueError:
            return self.notebook.name

    @property
    def opened(self) -> bool:
        return self._store is not None

    @property
    def run(self) -> Run:
        if self._run is None:
            try:
                self._run = self._continue() or self.store.begin_run(self.workflow, meta=_environment())
            except StoreError:
                # A full or read-only disk: what was saved can still be restored, only nothing is written down.
                now = utc_now()
                self._run = Run(id=new_id(), workflow=self.workflow, created=now, updated=now, owner=this_process())
            self._next = len(self.store.steps(self._run.id))
        return self._run

    @property
    def interrupted(self) -> Run | None:
        """The notebook's latest run, if its kernel died and no other one has gone on with it."""
        latest = self.store.runs(workflow=self.workflow, limit=1)
        return latest[0] if latest and latest[0].status == "interrupted" and latest[0].trusted else None

    def _continue(self) -> Run | None:
        run = self.interrupted
        if run is None:
            return None
        return self.store.update_run(run.id, owner=this_process(), status="running", sessions=run.sessions + 1)

    def begin_step(self, name: str, cell: str, *, after: float = 0.0) -> Step:
        """Say what is about to run, or what is still running `after` so long. Survives the death of this kernel."""
        step = Step(
            run=self.run.id,
            address=f"{self._next:06d}",
            name=name,
            status="running",
            started=utc_now(),
            cell=cell,
            meta={"session": self.run.sessions},
        )
        self._next += 1
        if after:
            self._later = threading.Timer(after, self._note, [step])
            self._later.name, self._later.daemon = "nbcheckpoint-step", True
            self._later.start()
        else:
            self._note(step)
        return step

    def forget(self, checkpoint: Checkpoint) -> None:
        """Another one holds more: this one goes, and so do its bytes before long."""
        self.store.delete_checkpoint(checkpoint.id)
        if self._upkeep is not None:
            self._upkeep.superseded(checkpoint.bytes)

    def note_progress(self, step: Step, done: int, total: int, seconds: float) -> None:
        """How far a loop of a running cell has come, for whoever is watching, with a guess how long it will take."""
        left = round(seconds / done * (total - done), 1) if done and total else None
        self._stop_timer()
        self._note(replace(step, seconds=seconds, meta={**step.meta, "done": done, "total": total, "left": left}))

    def end_quick_step(self, step: Step, done: Sequence[Done], seconds: float) -> None:
        """A cell nobody asked to be saved was over at once. That it ran is written down with what comes next: which
        of its names are not what was saved before has to be known, but is not worth a commit."""
        self._stop_timer()
        if done:
            self._quick.append(replace(step, status="completed", seconds=seconds))
            self._quick += [_statement(step, at, item) for at, item in enumerate(done)]
        if len(self._quick) > 500:
            self._note()

    def _stop_timer(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later.join()  # or it could speak after the end has been told
            self._later = None

    def _note(self, *steps: Step) -> bool:
        """Write steps down. A disk that cannot be written is told when something is to be saved, not here."""
        with self._noting:
            quick, self._quick = self._quick, []
            try:
                for step in (*quick, *steps):
                    self.store.put_step(step)
            except StoreError:
                return False
            return True

    def end_step(self, step: Step, status: StepStatus, done: Sequence[Done], **fields: Any) -> None:
        """Say how a cell and its statements ended, and count it in the run."""
        self._stop_timer()
        saved = [item.checkpoint for item in done if item.checkpoint is not None]
        reasons = [item.reason for item in done if item.reason.text and item.status != "restored"]
        whole = replace(
            step,
            status=status,
            checkpoint=saved[-1].id if saved else "",
            bytes=sum(item.checkpoint.bytes for item in done if item.checkpoint and item.status != "restored"),
            reason=reasons[0] if reasons else (done[-1].reason if done else None),
            **fields,
        )
        if not self._note(whole, *(_statement(step, at, item) for at, item in enumerate(done))):
            return
        run = self._recorded_run()
        spared = sum(item.spared for item in done)
        self.store.update_run(
            step.run,
            counts=dict(Counter(run.counts) + Counter([status])),
            bytes=run.bytes + whole.bytes,
            computed_seconds=run.computed_seconds + sum(i.seconds for i in done if i.status == "computed"),
            spared_seconds=run.spared_seconds + spared,
        )
        if self._upkeep is not None and saved:
            self._upkeep.saved()

    def _recorded_run(self) -> Run:
        """The run as the store has it: if there was no room for it when it began, there is now."""
        try:
            return self.store.run(self.run.id)
        except NotFound:
            self.store.put_run(self.run)
            return self.run

    def close(self) -> None:
        """The kernel ends on purpose: the run is complete, unless its last cell failed."""
        if self._store is None or os.getpid() != self._pid:
            return
        store, self._store = self._store, None
        loop.use(None)
        try:
            if self._upkeep is not None:
                self._upkeep.wait(timeout=5)  # it can be stopped anywhere, but a closed store would make it complain
            for step in self._quick:
                store.put_step(step)
            if self._run is not None:
                store.update_run(self._run.id, status="completed", owner=None, durable=True)
            store.close()
        except Error:
            pass  # at exit there is nobody left to tell; the run will be found interrupted
        self._run = None


def _statement(step: Step, at: int, done: Done) -> Step:
    """One statement of a cell, as a step below the cell's."""
    return Step(
        run=step.run,
        address=f"{step.address}.{at:03d}",
        name=step.name,
        kind="statement",
        status="restored" if done.status == "restored" else "completed",
        started=step.started,
        seconds=done.seconds,
        checkpoint=done.checkpoint.id if done.checkpoint else "",
        reason=done.reason,
        cell=step.cell,
        meta={**step.meta, **done.unsaved()},
    )


def _environment() -> dict[str, Any]:
    return {"python": platform.python_version(), "host": platform.node()}

"""This kernel's part of the notebook's run: which store, which run, which steps.

A run spans kernels. The next kernel of a notebook whose last one died goes on with the same run; after a kernel
that was shut down on purpose, and while another one is alive, a new run begins. A kernel that was frozen so long that
another one took its run over is refused there: what it does from then on stands in a run of its own. Nothing is opened
before it is needed.
"""

from __future__ import annotations

import atexit
import os
import platform
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from nbcheckpoint.backend.base import ABSENT
from nbcheckpoint.config import copy_location, store_location
from nbcheckpoint.engine import alarm, context
from nbcheckpoint.errors import Conflict, Error, Fenced, NotFound, RunBusy, StoreError
from nbcheckpoint.events import emit
from nbcheckpoint.model import Checkpoint, Run, RunStatus, Step, StepStatus, new_id, utc_now
from nbcheckpoint.notebook.line import IN_VAIN, SLOW, Done
from nbcheckpoint.store import Store, lease, open_store
from nbcheckpoint.store.background import Background
from nbcheckpoint.store.liveness import this_process
from nbcheckpoint.store.surroundings import here

if TYPE_CHECKING:
    from nbcheckpoint.store.keeping import Keeper

UNATTENDED = "unattended"
"""Under this the record of a run without a front end says how it was asked for."""
RUNS_LOOKED_AT = 3
"""For what was slow in them: one may have been cut short before it came there."""
CUT_SHORT_SECONDS = 60.0
"""What a cell is taken to need that was cut short: what it has lost once it is not to lose again."""


def workflow_of(notebook: Path, url: str) -> str:
    """A notebook's name among the runs of a store: its path from the folder the store is in, or will be."""
    where = url.removeprefix("file://")
    parent = Path(where if "://" in where else os.path.abspath(os.path.expanduser(where))).parent
    try:
        return notebook.relative_to(parent).as_posix()
    except ValueError:
        return notebook.name


class Session:
    """One kernel working on one run."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._store: Store | None = None
        self._run: Run | None = None
        self._heart: lease.Heartbeat | None = None
        self._versions: dict[str, str] = {}
        """Address -> version of the step under way, as it was written here."""
        self.notice = ""
        """What the user has yet to be told."""
        self._upkeep: Background | None = None
        self._keeper: Keeper | None = None
        self._next = 0
        self._later: Step | None = None
        """The step that is written down if it is still running when it is time."""
        self._quick: list[Step] = []
        self._noting = threading.RLock()
        self._pid = os.getpid()
        self._adopted = False
        self._failed = False
        self.ends_in_failure = False
        """Has a run failed whose last cell has? Not where somebody was there to see it."""
        self.on_progress: Callable[[int, int, float | None], None] | None = None
        """Is told how far a loop has come whenever that is written down: done, of how many, seconds left."""
        atexit.register(self.close)

    @property
    def store(self) -> Store:
        if self._store is None:
            self.fetch()
            self._store = open_store(self.location)
            self._keep_copy(self._store.url)
            self._upkeep = Background(self._store)
            context.use(self._store)
        return self._store

    def fetch(self) -> None:
        """Bring the store back from its second place, if there is one and the store is not here."""
        second = copy_location()
        if self._store is not None or not second:
            return
        from nbcheckpoint.store.keeping import fetched

        self.notice = self.notice or fetched(self.location, second)

    def _keep_copy(self, url: str) -> None:
        second = copy_location()
        if not second or self._keeper is not None:
            return
        from nbcheckpoint.store.keeping import Keeper

        try:
            self._keeper = Keeper(url, second)
        except (Error, OSError) as error:
            self.notice = f"what is saved here is not copied to {second}: {error}"

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
        """The notebook's name among the runs: its path from the folder the store is in, or will be."""
        return workflow_of(self.notebook, self.location)

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
                now, owner = utc_now(), lease.leased(this_process())
                self._run = Run(id=new_id(), workflow=self.workflow, created=now, updated=now, owner=owner)
            self._work_on(self._run)
        return self._run

    def adopt(self, run: str, holder: str) -> None:
        """Work on this run, which the holder of that lease hands over. Whoever that is will tell its end: until then
        it is interrupted when we are gone."""
        self._run = self.store.update_run(run, holder=holder, owner=lease.leased(this_process()))
        self._work_on(self._run)
        self._adopted = True

    def _work_on(self, run: Run) -> None:
        self._heart = lease.Heartbeat(self.store, run)
        steps = self.store.steps(run.id)
        self._next = max(self._next, int(steps[-1].address) + 1 if steps else 0)

    @property
    def _lease(self) -> str:
        owner = self.run.owner
        return owner.lease if owner is not None else ""

    @property
    def interrupted(self) -> Run | None:
        """The notebook's latest run, if its kernel died and no other one has gone on with it."""
        latest = self.store.runs(workflow=self.workflow, limit=1)
        return latest[0] if latest and latest[0].status == "interrupted" and latest[0].trusted else None

    def slow_before(self) -> dict[str, float]:
        """Key -> seconds of statements that turned out to be slow in the latest runs, when nobody expected it; and the
        checksum of cells that were cut short."""
        latest = [run for run in self.store.runs(workflow=self.workflow, limit=RUNS_LOOKED_AT) if run.trusted]
        found: dict[str, float] = {}
        for step in (step for run in reversed(latest) for step in self.store.steps(run.id, inner=True) if step.trusted):
            if SLOW in step.meta:
                found[step.meta[SLOW]] = step.seconds
            found.pop(step.meta.get(IN_VAIN, ""), None)
            if step.kind == "cell" and step.meta.get("code"):
                found.pop(step.meta["code"], None)
                if step.status in ("running", "interrupted"):
                    found[step.meta["code"]] = CUT_SHORT_SECONDS
        return found

    def _continue(self) -> Run | None:
        run = self.interrupted
        if run is None or UNATTENDED in run.meta:
            return None  # `nbcheckpoint resume` goes on with those
        try:
            return self.store.take(run.id)
        except RunBusy:
            return None  # another kernel was faster

    def new_step(self, name: str, cell: str, code: str = "") -> Step:
        """A step that is running, of which nobody is told yet. `code`: the checksum of the cell's source."""
        step = Step(
            run=self.run.id,
            address=f"{self._next:06d}",
            name=name,
            status="running",
            started=utc_now(),
            cell=cell,
            meta={"session": self.run.sessions, **({"code": code} if code else {})},
        )
        self._next += 1
        return step

    def begin_step(self, name: str, cell: str, code: str = "", *, after: float = 0.0) -> Step:
        """Say what is about to run, or what is still running `after` so long. Survives the death of this kernel."""
        step = self.new_step(name, cell, code)
        if after:
            self._later = step
            alarm.later(after, lambda: self._note_late(step))
        else:
            self._note(step)
        return step

    def _note_late(self, step: Step) -> None:
        with self._noting:
            if self._later is step:  # it has not ended, nor been told otherwise
                self._note(step)

    def forget(self, checkpoint: Checkpoint) -> None:
        """Another one holds more: this one goes, and so do its bytes before long."""
        self.store.delete_checkpoint(checkpoint.id)
        if self._upkeep is not None:
            self._upkeep.superseded(checkpoint.bytes)

    def note_progress(
        self,
        step: Step,
        done: int,
        total: int,
        seconds: float,
        left: float | None,
        inside: Sequence[tuple[int, int]] = (),
    ) -> None:
        """How far a loop of a running cell has come, for whoever is watching, with a guess how long it will take.

        `inside`: the same of the loops inside of the iteration it is in, the outermost first.
        """
        left = round(left, 1) if left is not None else None
        told = {"done": done, "total": total, "left": left} | ({"inside": list(inside)} if inside else {})
        self._expect_nothing()
        self._note(replace(step, seconds=seconds, meta={**step.meta, **told}))
        if self.on_progress is not None:
            self.on_progress(done, total, left)

    def end_quick_step(self, step: Step, done: Sequence[Done], seconds: float) -> None:
        """A cell nobody asked to be saved was over at once. That it ran is written down with what comes next: which
        of its names are not what was saved before has to be known, but is not worth a commit."""
        self._expect_nothing()
        if done:
            self._quick.append(replace(step, status="completed", seconds=seconds))
            self._quick += [_statement(step, at, item) for at, item in enumerate(done)]
        if len(self._quick) > 500 or (self._heart is not None and self._heart.lost):
            self._note()

    def _expect_nothing(self) -> None:
        if self._later is not None:
            with self._noting:  # or it could be told that it runs after it has been told that it ended
                self._later = None

    def _note(self, *steps: Step) -> bool:
        """Write steps down. A disk that cannot be written is told when something is to be saved, not here."""
        with self._noting:
            waiting, self._quick = [*self._quick, *steps], []
            try:
                try:
                    self._check_ours()
                    self._put_steps(waiting)
                except Fenced as error:
                    self._go_elsewhere(error, waiting)
                    self._put_steps(waiting)
            except StoreError:
                return False
            return True

    def _put_steps(self, steps: Sequence[Step]) -> None:
        """Over what was written here, or over nothing: so that a kernel frozen between asking and writing notices."""
        for step in steps:
            step = replace(step, run=self.run.id)
            try:
                version = self.store.put_step(step, expect=self._versions.get(step.address, ABSENT))
            except Conflict:
                self._check_ours()
                version = self.store.put_step(step)  # whoever was there before us was too late
            self._versions[step.address] = version
            if step.status != "running":
                del self._versions[step.address]

    def _check_ours(self) -> None:
        """Raises Fenced if another kernel has taken the run over."""
        try:
            lease.check(self.store.run(self.run.id), self._lease)
        except NotFound:
            pass  # there was no room for it

    def _go_elsewhere(self, error: Fenced, steps: Sequence[Step]) -> None:
        """The run belongs to another kernel now: these steps are the first of a new one."""
        for step in steps:
            emit("step_fenced", run=self.run.id, step=step.address, name=step.name, error=str(error))
        self._stop_heart()
        self._run, self._versions, self._adopted = None, {}, False
        self.notice = f"this kernel had not been heard of: {error}. It goes on in a run of its own, {self.run.id}"

    def _stop_heart(self) -> None:
        if self._heart is not None:
            self._heart.stop()
            self._heart = None

    def end_step(self, step: Step, status: StepStatus, done: Sequence[Done], **fields: Any) -> None:
        """Say how a cell and its statements ended, and count it in the run."""
        self._expect_nothing()
        self._failed = status == "failed"
        self.notice = self.notice or (self._keeper.trouble() if self._keeper is not None else "")
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
        try:
            self._count(status, whole, done)
        except Fenced as error:
            self._go_elsewhere(error, ())
        if self._upkeep is not None and saved:
            self._upkeep.saved()

    def _count(self, status: StepStatus, step: Step, done: Sequence[Done]) -> None:
        run = self._recorded_run()
        self.store.update_run(
            run.id,
            holder=self._lease,
            counts=dict(Counter(run.counts) + Counter([status])),
            bytes=run.bytes + step.bytes,
            computed_seconds=run.computed_seconds + sum(i.seconds for i in done if i.status == "computed"),
            spared_seconds=run.spared_seconds + sum(item.spared for item in done),
            **self._surroundings(run),
        )

    def _surroundings(self, run: Run) -> dict[str, Any]:
        """What to write down of the packages that have come into use since."""
        found = here(self._namespace.values())
        return {} if run.meta.get("environment") == found else {"meta": {**run.meta, "environment": found}}

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
        try:
            if self._quick:
                self._note()
        except Error:
            pass  # as below
        store, run, self._store = self._store, self._run, None
        context.use(None)
        try:
            self._stop_heart()
            if self._upkeep is not None:
                self._upkeep.wait(timeout=5)  # it can be stopped anywhere, but a closed store would make it complain
            if run is not None and run.owner is not None:
                failed = self._failed and self.ends_in_failure
                status: RunStatus = "interrupted" if self._adopted else "failed" if failed else "completed"
                store.update_run(run.id, holder=run.owner.lease, status=status, owner=None, durable=True)
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

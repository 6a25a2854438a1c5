"""`nbcheckpoint run`: a notebook from its file to its outputs, through as many kernels as it takes.

The run's record is begun here, before there is a kernel, and its end is told here: a kernel that is gone, with whoever
started it, leaves it interrupted. It says how the run was asked for, so that it can be asked for again. The outputs are
those the notebook has without us: what happened to its cells is told to a watcher, and kept in the store.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbcheckpoint.config import ENV_STORE, copy_location, store_location
from nbcheckpoint.errors import Error, NotFound, RunBusy, StoreError, UsageError
from nbcheckpoint.model import Owner, Run, RunStatus
from nbcheckpoint.notebook import document, parameters
from nbcheckpoint.notebook.forecast import expected
from nbcheckpoint.notebook.history import first_line
from nbcheckpoint.notebook.outfile import OutFile
from nbcheckpoint.notebook.request import CellOutcome, Outcome, Request, Watcher
from nbcheckpoint.notebook.runner import WAITS, CellFailed, Headless, KernelDied, Listener, Stopped, TimedOut
from nbcheckpoint.notebook.session import UNATTENDED, workflow_of
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.liveness import is_alive, is_this_process, this_process

ORPHAN_SECONDS = 10.0
"""A kernel whose parent was killed notices within a second or two."""
CONTINUED: tuple[RunStatus, ...] = ("interrupted", "failed", "paused")


def run(request: Request, watcher: Watcher) -> Outcome:
    """Run it, or go on with it. What goes wrong in the notebook is in the outcome; our own errors are raised."""
    return _Execution(request, watcher).run()


class _Execution:
    def __init__(self, request: Request, watcher: Watcher) -> None:
        self._request = request
        self._watcher = watcher
        self._path = Path(request.notebook).absolute()
        self._folder = request.cwd.absolute() if request.cwd else self._path.parent
        self._location = located(request.store, self._path)
        self._notebook = prepared(request)
        self._out = OutFile(request.out)
        self._numbers = {at: number for number, at in enumerate(parameters.runnable(self._notebook), 1)}
        self._cells: dict[int, CellOutcome] = {}
        self._lines: dict[int, list[dict[str, Any]]] = {}
        self._deaths = 0

    def run(self) -> Outcome:
        for name in parameters.unknown(self._notebook, list(self._request.parameters)):
            self._watcher.note(f"the notebook has no parameter {name}: is it spelt right?")
        self._out.check()  # that it cannot be written is better known before the work is done
        self._fetch()
        begun = self._begin()
        self._out.write(self._notebook)
        self._watcher.begins(len(self._numbers), begun)
        self._foresee()
        started, error = time.perf_counter(), None
        status: RunStatus = "interrupted"
        try:
            status, error = self._through(begun)
        except Error:
            status = "failed"
            raise
        finally:  # also when something raises that is not the notebook's
            ended = self._finish(begun, status)
        self._out.write(self._notebook, durable=True)
        return Outcome(
            notebook=str(self._request.notebook),
            out=str(self._request.out),
            status=status,
            cells=tuple(self._cells.values()),
            total=len(self._numbers),
            seconds=time.perf_counter() - started,
            deaths=self._deaths,
            run=ended,
            error=error,
        )

    def _through(self, run: Run | None) -> tuple[RunStatus, Error | None]:
        """One kernel after the other."""
        while True:
            try:
                self._headless(run).run()
                return "completed", None
            except KernelDied as death:
                self._deaths += 1
                left = self._request.restarts - self._deaths + 1
                self._watcher.dies(death, max(left, 0))
                if left <= 0:
                    return "interrupted", death
                run = self._again(run)
            except Stopped as stopped:
                return "interrupted", stopped
            except TimedOut as late:
                return "failed", late
            except CellFailed as failure:
                return ("paused" if failure.waits else "failed"), failure

    def _headless(self, begun: Run | None) -> Headless:
        request = self._request
        since = str(begun.meta[UNATTENDED].get("since", "")) if begun else ""
        env = {ENV_STORE: self._location} if request.store else {}
        return Headless(
            self._notebook,
            self._path,
            listener=Listener(self._starts, self._told, self._shown, self._ends, self._watcher.stops),
            begin={**_handed_over(begun), "since": since, "words": request.auto},
            kernel=request.kernel,
            cwd=self._folder,
            env=env,
            timeout=request.timeout,
            allow_errors=request.allow_errors,
            grace=request.grace,
        )

    def _again(self, run: Run | None) -> Run | None:
        """Everything anew, for the next kernel."""
        self._cells.clear()
        self._lines.clear()
        clear(self._notebook)
        if run is None:
            return None
        with open_store(self._location) as store:
            return store.take(run.id)

    def _foresee(self) -> None:
        if not self._watcher.wants_forecast:
            return
        try:
            with open_store(self._location) as store:
                fresh = self._request.fresh
                self._watcher.expects(expected(self._notebook, self._path, self._folder, store, fresh=fresh))
        except Exception as error:  # a guess that fails must not keep the notebook from running
            self._watcher.note(f"how long it will take cannot be told: {error}")

    # The record

    def _fetch(self) -> None:
        """Bring the store back from its second place, if there is one."""
        second = copy_location()
        if not second:
            return
        from nbcheckpoint.store.keeping import fetched

        trouble = fetched(self._location, second)
        if trouble:
            self._watcher.note(trouble)

    def _begin(self) -> Run | None:
        """The run to work on: the last one like this if it did not come to its end, else a new one."""
        if self._location.startswith("memory:"):
            raise UsageError("a memory:// store does not outlive its process", hint="give --store a folder or a server")
        with open_store(self._location) as store:
            workflow = workflow_of(self._path, store.url)
            asked = self._asked(store)
            try:
                earlier = None if self._request.fresh else _unfinished(store, workflow, asked)
                taken = _taken(store, earlier, asked) if earlier is not None else None
                if taken is not None:
                    return taken
                begun = store.begin_run(workflow, inputs=self._request.inputs(), meta=asked)
                if self._request.fresh:
                    asked[UNATTENDED]["since"] = begun.created
                    begun = store.update_run(begun.id, meta=asked)
                return begun
            except StoreError as error:
                # What was saved can still be restored, only nothing is written down.
                self._watcher.note(f"this run is not recorded: {error}")
                return None

    def _asked(self, store: Store) -> dict[str, Any]:
        given = json.dumps(dict(self._request.parameters), sort_keys=True)
        meta = {**self._request.to_meta(), "notebook": str(self._path), "out": str(self._request.out.absolute())}
        meta |= {"inputs": store.private_digest(given), "runner": this_process().to_dict()}
        return {"python": platform.python_version(), "host": platform.node(), UNATTENDED: meta}

    def _finish(self, begun: Run | None, status: RunStatus) -> Run | None:
        if begun is None:
            return None
        try:
            with open_store(self._location) as store:
                now = store.run(begun.id)
                if now.status == "running" and now.owner is not None and not is_this_process(now.owner):
                    return now  # somebody has taken it over
                return store.update_run(begun.id, status=status, owner=None, durable=True)
        except (StoreError, NotFound) as error:
            self._watcher.note(f"how it ended could not be written down: {error}")
            return None

    # What happens to the cells

    def _starts(self, at: int) -> None:
        self._lines[at] = []
        self._watcher.starts(self._numbers[at], self._name(at))

    def _told(self, at: int, what: dict[str, Any]) -> None:
        if "progress" in what:
            self._watcher.goes_on(**what["progress"])
        else:
            self._lines.setdefault(at, []).append(what)

    def _shown(self, at: int) -> None:
        before = self._out.problem
        self._out.update(self._notebook)
        if self._out.problem and not before:
            self._watcher.note(f"{self._out.problem}; the notebook goes on, and it will be tried again")

    def _ends(self, at: int, seconds: float, cut: bool) -> None:
        said = self._lines.get(at, [])
        errors = [output for output in self._notebook.cells[at].outputs if output.output_type == "error"]
        status = next((line["status"] for line in said if line["status"] != "note"), "computed")
        if errors:
            status = {"KeyboardInterrupt": "interrupted", WAITS: "paused"}.get(errors[-1].ename, "failed")
        if cut:
            status = "interrupted"
        text = " · ".join(str(line["text"]) for line in said)
        id = self._notebook.cells[at].get("id", "")
        self._cells[at] = CellOutcome(self._numbers[at], id, self._name(at), status, seconds, text)
        self._shown(at)
        self._watcher.ends(self._cells[at])

    def _name(self, at: int) -> str:
        return first_line(self._notebook.cells[at].source)


def to_resume(store: Store, target: str | None) -> Run | None:
    """The run of a notebook, or the latest one that was cut short; None if that is no run of ours."""
    if target is None:
        runs = store.runs()
    else:
        name = workflow_of(Path(target).absolute(), store.url) if Path(target).exists() else target
        runs = store.runs(workflow=name)
    ours = [run for run in runs if UNATTENDED in run.meta and run.trusted]
    cut_short = [run for run in ours if run.status in CONTINUED]
    return next(iter(cut_short if target is None else ours), None)


def located(store: str | None, notebook: Path) -> str:
    """The store of a notebook, as the kernel can find it from wherever it runs."""
    found = store_location(store, start=notebook.parent)
    return found if "://" in found else os.path.abspath(found)


def prepared(request: Request) -> Any:
    """The notebook with its parameters, ready to be run. Raises NotFound, UsageError, MissingExtra."""
    notebook = document.load(Path(request.notebook))
    parameters.inject(notebook, parameters.checked(request.parameters))
    return notebook


def clear(notebook: Any) -> None:
    """Without outputs."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def default_out(notebook: Path) -> Path:
    """`analysis.out.ipynb` for `analysis.ipynb`."""
    return notebook.parent / f"{notebook.stem}.out.ipynb"


def _unfinished(store: Store, workflow: str, asked: Mapping[str, Any]) -> Run | None:
    """The last run that was asked for in the same way, if it did not come to its end. Raises UsageError."""
    for found in store.runs(workflow=workflow, limit=20):
        meta = found.meta.get(UNATTENDED, {})
        if not found.trusted or any(meta.get(name) != asked[UNATTENDED][name] for name in ("inputs", "out")):
            continue
        if found.status == "running":
            found = _left_alone(store, found)
        return found if found.status in CONTINUED else None
    return None


def _left_alone(store: Store, found: Run) -> Run:
    """A run that seems to be running. If whoever started it was killed, its kernel will notice before long."""
    runner = Owner(**found.meta[UNATTENDED]["runner"])
    if runner.host != this_process().host:
        return found  # nobody here can tell
    if is_alive(runner):
        raise UsageError(
            f"{found.workflow} is being run already, by process {runner.pid}",
            hint="wait for it, or write to another file with -o",
        )
    deadline = time.monotonic() + ORPHAN_SECONDS
    while found.status == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
        found = store.run(found.id)
    return found


def _taken(store: Store, earlier: Run, asked: Mapping[str, Any]) -> Run | None:
    """Ours, with what was asked for now; None if somebody was faster, or may still be there."""
    try:
        taken = store.take(earlier.id)
    except RunBusy:
        return None
    meta = {**taken.meta, UNATTENDED: {**taken.meta[UNATTENDED], **asked[UNATTENDED]}}
    return store.update_run(taken.id, meta=meta)


def _handed_over(run: Run | None) -> dict[str, str]:
    return {"run": run.id, "holder": run.owner.lease} if run is not None and run.owner is not None else {}

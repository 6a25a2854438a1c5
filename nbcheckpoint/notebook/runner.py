"""Runs a notebook once, in a kernel of its own, without a browser.

Stopping is asked for, then insisted on, then done: a first interrupt lets the kernel come to a place where nothing is
lost, after half of the grace time a second one stops it wherever it is, at the end of it the kernel is killed. What
has been saved until then is there in any case.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbcheckpoint.errors import Error, MissingExtra, NotFound, Paused, UsageError

GRACE_SECONDS = 10.0
SIGNALS = tuple(found for name in ("SIGINT", "SIGTERM", "SIGHUP") if (found := getattr(signal, name, None)))
SAVES_WITHIN = 60.0
"""Seconds a kernel that is shut down may take to finish what it is writing."""
SHOWN_EVERY, SHOWN_SHARE = 1.0, 20
"""What cells show is told once a second, or less often: one part in twenty of the time may go into that."""
WAITS = Paused.__name__
"""All that a kernel tells of an error's class."""
OURS = "python3"
"""Kernels of that name are this interpreter: it has what is installed here, whatever the machine calls so."""


_unheard = logging.getLogger("nbcheckpoint.nbclient")
"""What nbclient logs is told by our errors."""
_unheard.addHandler(logging.NullHandler())
_unheard.propagate = False


class KernelDied(Error):
    """The kernel is gone in the middle of a cell."""

    hint = "run it again: it goes on from what was saved"

    def __init__(self, cell: int) -> None:
        super().__init__(f"the kernel died in cell {cell}" if cell else "the kernel died before the first cell")
        self.cell = cell


class CellFailed(Error):
    """A cell raised. Where a flow waits for an answer nothing went wrong: it says how to give it, and no traceback."""

    hint = "mend it and run it again: what was saved is not computed again"

    def __init__(self, cell: int, name: str, text: str, traceback: str) -> None:
        self.waits = name == WAITS
        super().__init__(text if self.waits else f"cell {cell} failed: {name}: {text}")
        if self.waits:
            told = re.search(r"%checkpoint (answer .+ VALUE)", traceback)
            self.hint = f"answer with: nbcheckpoint {told[1] if told else 'answer'}, then run this again"
        self.cell, self.name, self.text = cell, name, text
        self.traceback = "" if self.waits else traceback


class TimedOut(Error):
    """A cell took longer than it may."""

    hint = "run it again: it goes on from what was saved; --timeout changes how long a cell may take"

    def __init__(self, cell: int, seconds: float) -> None:
        super().__init__(f"cell {cell} took longer than {seconds:g} s")
        self.cell = cell


class Stopped(Error):
    """Somebody wanted it to stop."""

    hint = "run it again: it goes on from what was saved"

    def __init__(self, cell: int, number: int) -> None:
        super().__init__(f"stopped in cell {cell} by {signal.Signals(number).name}")
        self.cell, self.signal = cell, number


@dataclass(frozen=True)
class Listener:
    """Who is told what happens. Cells go by their index in the notebook; errors number them as `In [3]` does."""

    starts: Callable[[int], None] = lambda cell: None
    told: Callable[[int, dict[str, Any]], None] = lambda cell, what: None
    """What nbcheckpoint says about a cell."""
    shown: Callable[[int], None] = lambda cell: None
    """A cell has shown something."""
    ends: Callable[[int, float, bool], None] = lambda cell, seconds, cut: None
    """It is over after so many seconds, in whatever way; the last says whether its kernel died in it."""
    stops: Callable[[int], None] = lambda number: None
    """It has been asked to stop, by this signal."""


class Headless:
    """One execution of a notebook in one kernel."""

    def __init__(
        self,
        notebook: Any,
        path: Path,
        *,
        listener: Listener | None = None,
        begin: Mapping[str, Any] | None = None,
        kernel: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        allow_errors: bool = False,
        grace: float = GRACE_SECONDS,
    ) -> None:
        """`begin`: what the kernel is told so that it saves by itself; None leaves that to the notebook."""
        try:
            from nbcheckpoint.notebook.client import Client
        except ImportError as error:
            raise MissingExtra("nbclient", "run") from error
        self.cell = 0
        self._number = 0
        self._path, self._cwd = path, cwd or path.parent
        self._listener = listener or Listener()
        self._env, self._timeout, self._grace = dict(env or {}), timeout, grace
        self._timed_out = False
        self._signal = 0
        self._interrupts = 0
        self._handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self._later: list[asyncio.TimerHandle] = []
        self._began = 0.0
        self._running = False
        self._pause = SHOWN_EVERY
        self._pausing: asyncio.TimerHandle | None = None
        self._tasks: set[Any] = set()
        self._client: Any = Client(
            notebook,
            log=_unheard,
            timeout=None,
            allow_errors=allow_errors,
            record_timing=False,  # when it was run is no part of what it shows
            resources={"metadata": {"path": str(self._cwd)}},
            on_cell_execute=self._starts,
            on_cell_executed=self._ends,
        )
        self._client.begin_with = dict(begin) if begin is not None else None
        self._client.on_setup = self._mind_signals
        self._client.on_told = lambda what: self._listener.told(self.cell, what)
        self._client.on_shown = self._has_shown
        self._kernel = kernel or str(notebook.metadata.get("kernelspec", {}).get("name", ""))
        self._own = not kernel and self._kernel in ("", OURS)

    def run(self) -> None:
        """Execute every cell. Raises KernelDied, CellFailed, TimedOut, Stopped."""
        from nbclient.exceptions import CellExecutionError

        from nbcheckpoint.notebook.client import DeadKernelError

        with TemporaryDirectory(prefix="nbc-") as folder:
            self._client.km = self._manager(folder)
            try:
                self._client.execute(env=self._environment())
            except (DeadKernelError, CellExecutionError) as error:
                self._over(cut=not hasattr(error, "ename"))
                raise self._why(error) from error
            finally:
                self._call_off()
                self._leave_signals()

    def kill(self) -> None:
        """kill -9 the kernel, as the operating system does when memory runs out."""
        os.kill(self._client.km.provisioner.pid, signal.SIGKILL)

    def _why(self, error: Any) -> Error:
        if self._timed_out:
            return TimedOut(self._number, self._timeout or 0.0)
        if self._signal:
            return Stopped(self._number, self._signal)
        if hasattr(error, "ename"):
            return CellFailed(self._number, error.ename, error.evalue, error.traceback)
        return KernelDied(self._number)

    # The kernel

    def _manager(self, folder: str) -> Any:
        from jupyter_client.kernelspec import NoSuchKernel
        from jupyter_client.manager import AsyncKernelManager

        name = {} if self._own else {"kernel_name": self._kernel}
        manager: Any = AsyncKernelManager(**_private_sockets(folder), **name)
        manager.shutdown_wait_time = SAVES_WITHIN
        if self._own:
            manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return manager
        try:
            language = manager.kernel_spec.language
        except NoSuchKernel as error:
            raise NotFound(
                f"there is no kernel {self._kernel!r} here", hint=f"--kernel {OURS} runs it with this Python"
            ) from error
        if language.lower() != "python":
            raise UsageError(
                f"the kernel {self._kernel!r} runs {language}", hint="only Python is checkpointed; see --kernel"
            )
        return manager

    def _environment(self) -> dict[str, str]:
        ours = {"JPY_SESSION_NAME": str(self._path), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        return {**os.environ, **ours, **self._env}

    # What nbclient calls

    def _mind_signals(self) -> None:
        """In the place of nbclient's handlers, which would have the kernel shut down at once."""
        loop = asyncio.get_running_loop()
        for number in self._handlers:
            try:
                if self._handlers[number] == signal.SIG_IGN:  # as under nohup
                    loop.remove_signal_handler(number)
                    signal.signal(number, signal.SIG_IGN)
                else:
                    loop.add_signal_handler(number, self.stop, number)
            except (RuntimeError, NotImplementedError):
                return  # not in the main thread, or on Windows: whoever runs us has to stop us

    def _leave_signals(self) -> None:
        """As they were: nbclient takes its handlers away, and does not put back what was there before."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _starts(self, cell: Any, cell_index: int) -> None:
        self.cell = cell_index
        self._number += 1
        if self._signal:
            raise Stopped(self._number, self._signal)
        self._began, self._running = time.perf_counter(), True
        if self._timeout:
            self._call_later(self._timeout, self._time_is_up)
        self._listener.starts(cell_index)

    def _ends(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        self._over()
        if self._timed_out:
            raise TimedOut(self._number, self._timeout or 0.0)
        if self._signal:
            raise Stopped(self._number, self._signal)

    def _over(self, *, cut: bool = False) -> None:
        if self._running:
            self._running = False
            self._call_off()
            self._listener.ends(self.cell, time.perf_counter() - self._began, cut)

    def _has_shown(self) -> None:
        """Before long the listener is told, once for all that is shown until then."""
        if self._pausing is None:
            self._pausing = self._call_later(self._pause, self._tell_shown)

    def _tell_shown(self) -> None:
        self._pausing = None
        started = time.perf_counter()
        self._listener.shown(self.cell)
        self._pause = max(SHOWN_EVERY, SHOWN_SHARE * (time.perf_counter() - started))

    # Stopping

    def stop(self, number: int) -> None:
        """Asked for by a signal. A second one does not wait for the first."""
        if not self._signal:
            self._signal = number
            self._listener.stops(number)
        self._wind_down()

    def _time_is_up(self) -> None:
        self._timed_out = True
        self._wind_down()

    def _wind_down(self) -> None:
        """Ask, insist, kill: each time it is called, and after a while by itself."""
        self._interrupts += 1
        if not self._running:
            return  # no further cell will start
        manager = self._client.km
        stop = manager.provisioner.kill() if self._interrupts > 2 else manager.interrupt_kernel()
        task = asyncio.ensure_future(stop)
        self._tasks.add(task)  # or nobody would hold it
        task.add_done_callback(self._tasks.discard)
        self._call_later(self._grace / 2, self._wind_down)

    def _call_later(self, seconds: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        self._later.append(asyncio.get_running_loop().call_later(seconds, function))
        return self._later[-1]

    def _call_off(self) -> None:
        while self._later:
            self._later.pop().cancel()
        self._pausing = None


def _private_sockets(folder: str) -> dict[str, str]:
    """Sockets in a folder of the user's own, rather than ports that everyone on the machine can reach."""
    return {} if os.name == "nt" else {"transport": "ipc", "ip": os.path.join(folder, "kernel")}

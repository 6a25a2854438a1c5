"""Runs a notebook in a kernel of its own, without a browser."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbcheckpoint.errors import Error, MissingExtra

OnCell = Callable[[int, "Headless"], None]


class KernelDied(Error):
    """The kernel is gone in the middle of a cell."""

    hint = "run it again: it goes on from what was saved"

    def __init__(self, cell: int) -> None:
        super().__init__(f"the kernel died in cell {cell + 1}")
        self.cell = cell


class Headless:
    """One execution of a notebook. `on_start` and `on_done` are told the index of each code cell."""

    def __init__(self, notebook: Any, path: Path, *, on_start: OnCell | None = None, on_done: OnCell | None = None):
        try:
            from nbclient import NotebookClient
        except ImportError as error:
            raise MissingExtra("nbclient", "run") from error
        self.notebook = notebook
        self.cell = 0
        self._path = path
        self._on_start, self._on_done = on_start, on_done
        self._client: Any = NotebookClient(
            notebook,
            timeout=None,
            resources={"metadata": {"path": str(path.parent)}},
            on_cell_execute=self._starts,
            on_cell_executed=self._ends,
        )

    def run(self) -> None:
        """Execute every cell. Raises KernelDied, or nbclient's CellExecutionError for the user's own."""
        from jupyter_client.manager import AsyncKernelManager
        from nbclient.exceptions import DeadKernelError

        with TemporaryDirectory(prefix="nbc-") as folder:
            self._run(AsyncKernelManager(**_private_sockets(folder)), DeadKernelError)

    def _run(self, manager: Any, dead: type[Exception]) -> None:
        # This interpreter, not whatever kernel the machine calls python3: it has what is installed here.
        manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self._client.km = manager
        env = {**os.environ, "JPY_SESSION_NAME": str(self._path), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        try:
            self._client.execute(env=env)
        except dead as error:
            raise KernelDied(self.cell) from error

    def kill(self) -> None:
        """kill -9 the kernel, as the operating system does when memory runs out."""
        os.kill(self._client.km.provisioner.pid, signal.SIGKILL)

    def _starts(self, cell: Any, cell_index: int) -> None:
        self.cell = cell_index
        if self._on_start:
            self._on_start(cell_index, self)

    def _ends(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        if self._on_done:
            self._on_done(cell_index, self)


def _private_sockets(folder: str) -> dict[str, str]:
    """Sockets in a folder of the user's own, rather than ports that everyone on the machine can reach."""
    return {} if os.name == "nt" else {"transport": "ipc", "ip": os.path.join(folder, "kernel")}


def line_of(cell: Any) -> dict[str, Any]:
    """What nbcheckpoint said under a cell: status and text, or nothing."""
    for output in cell.get("outputs", ()):
        ours = output.get("metadata", {}).get("nbcheckpoint")
        if ours:
            return dict(ours)
    return {}

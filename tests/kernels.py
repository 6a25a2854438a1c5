"""A real kernel in its own process, to be talked to, killed and started again."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.manager import KernelManager

TIMEOUT = 60
PYTHON = os.environ.get("NBCHECKPOINT_TEST_PYTHON", sys.executable)
"""Whose kernels are started: another environment's, with other versions of IPython and ipykernel, if one is named."""


class Cell:
    """What one executed cell showed."""

    def __init__(self) -> None:
        self.stdout = ""
        self.stderr = ""
        self.results: list[dict[str, Any]] = []
        self.displays: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.error: str = ""
        self.traceback: list[str] = []
        self.order: list[str] = []

    def update(self, content: dict[str, Any]) -> None:
        """What a display showed before is kept in `updates`."""
        for at, shown in enumerate(self.displays):
            if shown["transient"].get("display_id") == content["transient"]["display_id"]:
                self.updates.append(shown)
                self.displays[at] = content

    @property
    def line(self) -> str:
        """nbcheckpoint's line under the cell."""
        ours = [d for d in self.displays if "nbcheckpoint" in d["metadata"]]
        assert len(ours) <= 1, ours
        return ours[0]["data"]["text/plain"] if ours else ""

    @property
    def status(self) -> str:
        ours = [d for d in self.displays if "nbcheckpoint" in d["metadata"]]
        return ours[0]["metadata"]["nbcheckpoint"]["status"] if ours else ""

    @property
    def result(self) -> str:
        return self.results[-1]["data"]["text/plain"] if self.results else ""


class Kernel:
    """One notebook's kernel. `kill` is kill -9; `restart` shuts it down the friendly way."""

    def __init__(
        self,
        folder: Path,
        *,
        notebook: str = "work.ipynb",
        env: dict[str, str] | None = None,
        python: str = PYTHON,
    ) -> None:
        self.folder = folder
        self._python = python
        self._env = {**os.environ, "JPY_SESSION_NAME": str(folder / notebook), **(env or {})}
        self.start()

    def start(self) -> None:
        self._sockets = TemporaryDirectory(prefix="nbc-")
        named = os.path.join(self._sockets.name, f"kernel-{uuid.uuid4()}.json")  # as a Jupyter server names it
        sockets = os.path.join(self._sockets.name, "kernel")
        self.manager = KernelManager(transport="ipc", ip=sockets, connection_file=named)
        # That very interpreter, whatever kernel specifications the machine may have.
        self.manager.kernel_spec.argv = [self._python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.manager.start_kernel(cwd=str(self.folder), env=self._env)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    @property
    def pid(self) -> int:
        return int(self.manager.provisioner.pid)  # type: ignore[union-attr]

    def run(self, code: str, *, fails: bool = False, id: str = "", metadata: dict[str, Any] | None = None) -> Cell:
        """Execute a cell and collect what it shows. An error is an error unless it is expected. `id`: the cell's;
        `metadata`: what else the front end says with it."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        content["stop_on_error"] = False  # or the next cell, sent soon after this one has failed, might be dropped
        message = self.client.session.msg(
            "execute_request", content, metadata={**({"cellId": id} if id else {}), **(metadata or {})}
        )
        self.client.shell_channel.send(message)
        cell = self.collect(message["header"]["msg_id"])
        if not fails:
            assert not cell.error, "\n".join(cell.traceback)
        return cell

    def collect(self, request: str) -> Cell:
        cell = Cell()
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            cell.order.append(kind)
            if kind == "stream":
                setattr(cell, content["name"], getattr(cell, content["name"]) + content["text"])
            elif kind == "execute_result":
                cell.results.append(content)
            elif kind == "display_data":
                cell.displays.append(content)
            elif kind == "update_display_data":
                cell.update(content)
            elif kind == "error":
                cell.error, cell.traceback = content["ename"], content["traceback"]
            elif kind == "status" and content["execution_state"] == "idle":
                return cell

    def start_cell(self, code: str, until: str) -> str:
        """Send a cell and come back as soon as it has printed `until`."""
        request = self.client.execute(code, stop_on_error=False)
        seen = ""
        while until not in seen:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
                seen += message["content"]["text"]
        return request

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._leave(now=True)

    def kill_again(self) -> None:
        """Clear up after a kernel that somebody else has killed."""
        self._leave(now=True)

    def shutdown(self) -> None:
        self._leave(now=False)

    def _leave(self, *, now: bool) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=now)
        self._sockets.cleanup()

    def restart(self) -> None:
        self.shutdown()
        self.start()

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.manager.has_kernel:
            self._leave(now=True)

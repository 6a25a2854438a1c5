"""nbclient's way of running a notebook, with a kernel that saves by itself.

`Unattended` goes in front of nbclient's client, or of papermill's or nbconvert's, which are made from it. It does
three things: it tells the kernel to begin (`unattended.py`), it takes what nbcheckpoint tells out of the outputs and
hands it on, and it joins what a stream prints into one output. So a cell's outputs do not depend on when its text was
sent, and are the same whether it was computed or restored.

Needs nbclient: import it where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbclient.util import run_sync
from nbformat.v4 import output_from_msg

from nbcheckpoint.errors import Error
from nbcheckpoint.notebook.line import PROGRESS
from nbcheckpoint.notebook.outputs import collapse

__all__ = ["Client", "DeadKernelError", "NotebookClient", "Unattended"]

_DISPLAYS = ("display_data", "update_display_data")
_output_from: Any = output_from_msg
_BEGIN = '__import__("nbcheckpoint.notebook.unattended", fromlist=["begin"]).begin(**{given!r})'


class Unattended:
    """To be put in front of a NotebookClient."""

    begin_with: dict[str, Any] | None = None
    """What `begin` is given; None: it is not called."""
    on_told: Callable[[dict[str, Any]], None] | None = None
    """Is told what nbcheckpoint says about a cell: the line under it, or how far its loop is."""
    on_shown: Callable[[], None] | None = None
    """Is told when a cell has shown something."""
    on_setup: Callable[[], None] | None = None
    """Is told when a kernel is about to be started."""

    session_name = ""
    """The notebook's path, as a Jupyter server would tell the kernel."""

    nb: Any
    kc: Any
    km: Any

    async def async_start_new_kernel(self, **options: Any) -> None:
        if self.on_setup is not None:
            self.on_setup()
        if self.session_name:
            options["env"] = {**os.environ, **options.get("env", {}), "JPY_SESSION_NAME": self.session_name}
        await super().async_start_new_kernel(**options)  # type: ignore[misc]  # NotebookClient's

    start_new_kernel = run_sync(async_start_new_kernel)

    async def async_start_new_kernel_client(self) -> Any:
        try:
            client = await super().async_start_new_kernel_client()  # type: ignore[misc]  # NotebookClient's
        except RuntimeError as error:  # it died, or did not answer, before it was ready
            raise DeadKernelError(str(error)) from error
        if self.begin_with is not None:
            await self._begin(self.begin_with)
        return client

    start_new_kernel_client = run_sync(async_start_new_kernel_client)

    async def _begin(self, given: dict[str, Any]) -> None:
        request = self.kc.execute(_BEGIN.format(given=given), silent=True, store_history=False)
        reply = await self.async_wait_for_reply(request)  # type: ignore[attr-defined]  # NotebookClient's
        content = reply["content"] if reply is not None else {"status": "error"}
        if content["status"] == "ok":
            return
        kind, text = content.get("ename", ""), content.get("evalue", "")
        if kind == "ModuleNotFoundError":
            raise Error(
                f"the kernel cannot import nbcheckpoint: {text}",
                hint="install it there, or choose another one with --kernel",
            )
        raise Error(f"the kernel could not begin: {kind}: {text}", hint="does nbcheckpoint doctor find anything?")

    async def async_execute_cell(self, cell: Any, cell_index: int, *more: Any, **options: Any) -> Any:
        # What a front end sends along: the kernel's records name the cell by it.
        self.kc.session.metadata = {"cellId": cell["id"]} if cell.get("id") else {}
        try:
            return await super().async_execute_cell(cell, cell_index, *more, **options)  # type: ignore[misc]
        finally:
            tidy(cell)

    execute_cell = run_sync(async_execute_cell)

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        known = msg["content"].get("metadata") if msg["msg_type"] in _DISPLAYS else None
        said, progress = (known or {}).get("nbcheckpoint"), (known or {}).get(PROGRESS)
        if said or progress:
            if self.on_told is not None:
                self.on_told(said or {"progress": progress})
            return None
        found = super().process_message(msg, cell, cell_index)  # type: ignore[misc]
        if self.on_shown is not None and msg["msg_type"] not in ("status", "execute_input"):
            self.on_shown()
        return found

    def output(self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
        content = msg["content"]
        last = outs[-1] if outs else {}
        hooked = self.output_hook_stack[msg["parent_header"].get("msg_id")]  # type: ignore[attr-defined]
        fresh = hooked or self.clear_before_next_output  # type: ignore[attr-defined]
        if msg["msg_type"] == "stream" and last.get("name") == content["name"] and not fresh:
            last["text"] += content["text"]
            return _output_from(msg)  # what is new: papermill logs it
        return super().output(outs, msg, display_id, cell_index)  # type: ignore[misc]


def tidy(cell: Any) -> None:
    """What is left of progress bars, when the cell is over."""
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream":
            output["text"] = collapse(output["text"])


class Client(Unattended, NotebookClient):
    """The one `runner.py` uses."""

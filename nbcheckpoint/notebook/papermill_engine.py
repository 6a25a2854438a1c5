"""`papermill --engine nbcheckpoint in.ipynb out.ipynb`: papermill as it is, in a kernel that saves by itself.

Needs papermill, which finds it by its entry point.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine
from papermill.log import logger

from nbcheckpoint.notebook.client import Unattended


class PapermillClient(Unattended, PapermillNotebookClient):  # type: ignore[misc]  # papermill has no types
    """What papermill runs cells with."""

    begin_with: dict[str, Any] | None = {}  # noqa: RUF012  # nobody changes it


class PapermillEngine(NBClientEngine):  # type: ignore[misc]  # as above
    """Run again after a crash, it goes on where it was."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        start_timeout: int = 60,
        execution_timeout: int | None = None,
        timeout: int | None = None,
        startup_timeout: int | None = None,
        input_path: str | None = None,
        **options: Any,
    ) -> Any:
        client = PapermillClient(
            nb_man,
            timeout=execution_timeout or timeout,
            startup_timeout=start_timeout or startup_timeout,
            kernel_name=kernel_name,
            log=logger,
            **options,
        )
        # Notebooks come from buckets and pipes, too: those go by the name of what comes out.
        paths = (input_path, nb_man.nb.metadata.get("papermill", {}).get("output_path"))
        client.session_name = next((str(Path(path).absolute()) for path in paths if path and _is_local(path)), "")
        return client.execute()


def _is_local(path: str) -> bool:
    return "://" not in path and path != "-"

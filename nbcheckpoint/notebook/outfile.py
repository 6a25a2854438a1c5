"""The notebook as it comes out: a file that is whole at every moment, whatever is killed.

Each state replaces the one before by a rename.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from nbcheckpoint.errors import UsageError


class OutFile:
    """Where a notebook is written to. Raises UsageError if it cannot be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        """Why the last state could not be written, if it could not."""
        self._real = Path(os.path.realpath(path))  # a link stays a link

    def write(self, notebook: Any, *, durable: bool = False) -> None:
        """Now."""
        import nbformat

        write: Any = nbformat.writes
        text = write(notebook, version=nbformat.NO_CONVERT)
        draft = self._real.with_name(f".{self._real.name}.part")
        try:
            with open(draft, "w", encoding="utf-8") as file:
                file.write(text if text.endswith("\n") else text + "\n")
                if self._real.exists():
                    os.chmod(draft, self._real.stat().st_mode & 0o7777)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(draft, self._real)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror}", hint="-o FILE writes it somewhere else"
            ) from error
        self.problem = ""

    def update(self, notebook: Any) -> None:
        """While cells run. A disk that is full for a while does not stop them: the last `write` tells."""
        try:
            self.write(notebook)
        except UsageError as error:
            self.problem = str(error)

"""The notebook as it comes out: a file that is whole at every moment, whatever is killed.

Each state replaces the one before by a rename. What is no file, as `/dev/null` or a pipe, stays what it is: it is given
the last state, and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbcheckpoint.errors import UsageError

_ESCAPED = "backslashreplace"
"""Half a character, as in a file's name that is no text, is written as JSON writes it."""


class OutFile:
    """Where a notebook is written to. Raises UsageError if it cannot be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        """Why the last state could not be written, if it could not."""
        self._real = Path(os.path.realpath(path))  # a link stays a link
        self._draft = self._real.with_name(f".{self._real.name}.part")
        self._is_device = path.exists() and not path.is_file() and not path.is_dir()

    def check(self) -> None:
        """Could it be written? What is there stays as it is."""
        with self._telling():
            if self._is_device:
                if not os.access(self.path, os.W_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                return
            self._draft.touch()
            self._draft.unlink()

    def write(self, notebook: Any, *, durable: bool = False) -> None:
        """Now."""
        import nbformat

        write: Any = nbformat.writes
        text = write(notebook, version=nbformat.NO_CONVERT)
        text = text if text.endswith("\n") else text + "\n"
        if self._is_device:
            with self._telling():
                if durable:
                    self.path.write_text(text, encoding="utf-8", errors=_ESCAPED)
            return
        with self._telling():
            with open(self._draft, "w", encoding="utf-8", errors=_ESCAPED) as file:
                file.write(text)
                if self._real.exists():
                    os.chmod(self._draft, self._real.stat().st_mode & 0o7777)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(self._draft, self._real)
        self.problem = ""

    def update(self, notebook: Any) -> None:
        """While cells run. A disk that is full for a while does not stop them: the last `write` tells."""
        try:
            self.write(notebook)
        except UsageError as error:
            self.problem = str(error)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            if self._real.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            yield
        except OSError as error:
            with contextlib.suppress(OSError):
                self._draft.unlink()
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror}", hint="-o FILE writes it somewhere else"
            ) from error

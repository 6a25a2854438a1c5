"""nbconvert's execution, in a kernel that saves by itself.

    jupyter nbconvert --to html work.ipynb \\
        --HTMLExporter.preprocessors=nbcheckpoint.notebook.nbconvert_preprocessor.CheckpointedExecute

Needs nbconvert: import it where it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbconvert.preprocessors import ExecutePreprocessor

from nbcheckpoint.notebook.client import Unattended


class CheckpointedExecute(Unattended, ExecutePreprocessor):
    """In the place of `--execute`. Converted again after a crash, the notebook goes on where it was."""

    begin_with: dict[str, Any] | None = {}  # noqa: RUF012  # nobody changes it

    def preprocess(self, nb: Any, resources: Any = None, km: Any = None) -> Any:
        known = (resources or {}).get("metadata", {})
        if known.get("name"):
            self.session_name = str(Path(known.get("path") or ".", f"{known['name']}.ipynb").absolute())
        return super().preprocess(nb, resources, km)

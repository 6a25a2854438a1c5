"""Telling the user something without stopping: a warning that points at the user's own line."""

from __future__ import annotations

import sys
import warnings


def warn(text: str) -> None:
    """Warn as if from the first line outside of us."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith("nbcheckpoint.") and frame.f_back:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)

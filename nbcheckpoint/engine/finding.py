"""Finding the flow or graph a run belongs to, from its record alone: to go on with it from a command line."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from nbcheckpoint.engine.flow import FlowFunction
from nbcheckpoint.engine.graph import Graph
from nbcheckpoint.errors import NotFound, Untrusted
from nbcheckpoint.model import Run


def find_flow(run: Run) -> FlowFunction[Any, Any] | Graph:
    """The flow or graph, imported from the module it stood in. Raises NotFound where it stood in none.

    Importing runs that module's code, so it is done for runs of one's own only.
    """
    if not run.trusted:
        raise Untrusted(f"run {run.id} does not carry your signature")
    origin = str(run.meta.get("origin") or "")
    if not origin or origin == "__main__" or os.sep in origin:
        where = f"run it again: {origin}" if os.sep in origin else "run the cell or the script that calls it again"
        raise NotFound(
            f"{run.workflow} is not in a module that could be imported", hint=f"{where}; it goes on by itself"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python -m does
    try:
        module = importlib.import_module(origin)
    except ImportError as error:
        hint = "go to the folder it is imported from"
        raise NotFound(f"{run.workflow} is in {origin}, which cannot be imported: {error}", hint=hint) from error
    for found in vars(module).values():
        if isinstance(found, (FlowFunction, Graph)) and found.name == run.workflow:
            return found
    raise NotFound(f"there is no {run.workflow} in {origin} any more")

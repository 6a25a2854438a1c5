"""nbcheckpoint: your notebook outlives its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbcheckpoint.errors import Error, Paused
from nbcheckpoint.fingerprint import rng

if TYPE_CHECKING:
    from nbcheckpoint.engine.context import current
    from nbcheckpoint.engine.flow import flow
    from nbcheckpoint.engine.graph import Graph
    from nbcheckpoint.engine.loop import loop
    from nbcheckpoint.engine.pause import pause
    from nbcheckpoint.engine.step import mark, step
    from nbcheckpoint.events import subscribe
    from nbcheckpoint.store import Store, open_store

try:
    from nbcheckpoint._version import __version__
except ImportError:  # a source tree nobody has built yet
    __version__ = "0+unbuilt"

__all__ = [
    "Error",
    "Graph",
    "Paused",
    "Store",
    "__version__",
    "current",
    "flow",
    "load_ipython_extension",
    "loop",
    "mark",
    "open_store",
    "pause",
    "step",
    "subscribe",
    "unload_ipython_extension",
]

rng.watch()  # as early as can be: what is drawn from a generator nobody has seeded is an accident, and may be kept

_LAZY = {
    "Graph": "nbcheckpoint.engine.graph",
    "Store": "nbcheckpoint.store",
    "current": "nbcheckpoint.engine.context",
    "flow": "nbcheckpoint.engine.flow",
    "loop": "nbcheckpoint.engine.loop",
    "mark": "nbcheckpoint.engine.step",
    "open_store": "nbcheckpoint.store",
    "pause": "nbcheckpoint.engine.pause",
    "step": "nbcheckpoint.engine.step",
    "subscribe": "nbcheckpoint.events",
}


def __getattr__(name: str) -> Any:
    """Public names that cost an import are imported when they are used."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'nbcheckpoint' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext nbcheckpoint`"""
    from nbcheckpoint.notebook.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext nbcheckpoint`"""
    from nbcheckpoint.notebook.magics import unload

    unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "nbcheckpoint"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from nbcheckpoint.server.app import NbcheckpointApp

    return [{"module": "nbcheckpoint.server.app", "app": NbcheckpointApp}]

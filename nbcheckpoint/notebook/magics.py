"""Loading into IPython: the two hooks, and ordinary magics for help and the words of the command line.

A cell may unload the extension it is woven by, or load it anew: what is woven into it then calls hooks that do nothing,
until it ends.
"""

from __future__ import annotations

import builtins
import logging
import os
from typing import Any

from nbcheckpoint.errors import UsageError
from nbcheckpoint.fingerprint import rng
from nbcheckpoint.notebook import auto, flowing, link, options, panel
from nbcheckpoint.notebook.cells import CellCheckpointer
from nbcheckpoint.notebook.line import show
from nbcheckpoint.notebook.weave import HOOKS
from nbcheckpoint.notebook.words import line_magic

EXTRA = {"auto": auto.word, "panel": panel.word}
_loaded: dict[int, CellCheckpointer] = {}
_leaving: dict[int, CellCheckpointer] = {}
"""Unloaded by a cell that is still running."""


_events = logging.getLogger("nbcheckpoint.events")


def _is_wanted(record: logging.LogRecord) -> bool:
    """Under a cell that logs all there is, events would stand between its own lines: only if that is asked for."""
    asked = _events.level or logging.getLogger("nbcheckpoint").level
    return record.levelno > logging.DEBUG or asked != logging.NOTSET


def _forked() -> None:
    for checkpointer in _loaded.values():
        checkpointer.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def load(shell: Any) -> CellCheckpointer:
    """Hook into a shell. Loading twice is loading once."""
    known = _loaded.get(id(shell))
    if known is not None:
        return known
    rng.watch()
    _events.addFilter(_is_wanted)
    checkpointer = CellCheckpointer(shell)
    left = _leaving.get(id(shell))
    if left is not None:
        _unhook(left)
        checkpointer.take_over(left)
    shell.input_transformer_manager.cleanup_transforms.insert(0, options.mark_cell)
    shell.ast_transformers.append(checkpointer)
    shell.events.register("pre_run_cell", checkpointer.pre_run_cell)
    shell.events.register("post_run_cell", checkpointer.post_run_cell)
    shell.register_magic_function(_checkpointed_magic(shell), "cell", "checkpointed")
    shell.register_magic_function(line_magic(checkpointer, EXTRA), "line", "checkpoint")
    link.join(checkpointer)
    flowing.join(checkpointer)
    setattr(builtins, HOOKS, checkpointer)
    _loaded[id(shell)] = checkpointer
    return checkpointer


def unload(shell: Any) -> None:
    """Take everything back out."""
    checkpointer = _loaded.pop(id(shell), None)
    if checkpointer is None:
        return
    shell.input_transformer_manager.cleanup_transforms.remove(options.mark_cell)
    if checkpointer in shell.ast_transformers:
        shell.ast_transformers.remove(checkpointer)
    for kind, name in (("cell", "checkpointed"), ("line", "checkpoint")):
        shell.magics_manager.magics[kind].pop(name, None)
    _events.removeFilter(_is_wanted)
    link.part(checkpointer)
    flowing.part(checkpointer)
    _leaving[id(shell)] = checkpointer
    checkpointer.let_go(then=lambda: _unhook(checkpointer))
    checkpointer.session.close()


def _unhook(checkpointer: CellCheckpointer) -> None:
    """No cell calls its hooks any more, or another one's are there instead."""
    shell = checkpointer.shell
    if _leaving.pop(id(shell), None) is None:
        return
    shell.events.unregister("pre_run_cell", checkpointer.pre_run_cell)
    shell.events.unregister("post_run_cell", checkpointer.post_run_cell)
    delattr(builtins, HOOKS)


def _checkpointed_magic(shell: Any) -> Any:
    def checkpointed(text: str, cell: str) -> Any:
        """Reached only when another cell magic stands directly below this one: that has the cell, as if alone."""
        __tracebackhide__ = True
        if cell.lstrip().startswith(options.MAGIC):
            raise UsageError(f"{options.MAGIC} stands there twice")
        show(
            shell,
            "note",
            "not checkpointed: another cell magic stands below %%checkpointed; put %%checkpointed below it",
        )
        # Not called from here: what its line says of `{names}` is looked up where it is called.
        return eval(shell.transform_cell(cell), shell.user_global_ns, shell.user_ns)

    checkpointed.__doc__ = options.parser().format_help()
    return checkpointed

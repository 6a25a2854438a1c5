"""The notebook as a file: read to be run, and what its code cells would be if they were. Nothing is executed."""

from __future__ import annotations

import argparse
import ast
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbcheckpoint.errors import Error, MissingExtra, NotFound, UsageError
from nbcheckpoint.model import Step
from nbcheckpoint.notebook import options, weave
from nbcheckpoint.notebook.cell import title
from nbcheckpoint.notebook.history import first_line

Transform = Callable[[str], str]
"""IPython's: magics and shell commands become Python."""
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_AUTO = "checkpoint"


@dataclass(frozen=True)
class CodeCell:
    """One code cell, understood as far as it can be."""

    number: int
    """Among the code cells, from 1."""
    id: str
    source: str
    tree: ast.Module | None = None
    """Without the marker. None if it is not Python."""
    chosen: argparse.Namespace | None = None
    """Its options, if its statements are steps."""
    problem: str = ""
    """Why they are not, though they should be."""

    @property
    def name(self) -> str:
        """What its step is called."""
        if self.chosen is not None and self.chosen.name:
            return str(self.chosen.name)
        return title(self.tree) if self.tree is not None else ""

    @property
    def steps(self) -> tuple[ast.stmt, ...]:
        return weave.weave(self.tree).steps if self.tree is not None and self.chosen is not None else ()

    @property
    def defines(self) -> bool:
        """Has it anything a checkpoint does not bring back: imports, definitions, statements that are not steps?"""
        body = self.tree.body if self.tree is not None else []
        plain = [node for node in body if _words_of(node) is None and weave.magic_of(node) != "load_ext"]
        return any(self.chosen is None or weave.is_definition(node) for node in plain)


def load(path: Path) -> Any:
    """A notebook ready to be run: valid, without outputs, each cell with an id that is the same next time.

    A file of another kind is read by jupytext. Raises NotFound, UsageError, MissingExtra.
    """
    if not path.exists():
        raise NotFound(f"there is no notebook {path}", hint="is the path right?")
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="it takes a notebook's file")
    try:
        notebook = _read_notebook(path) if path.suffix == ".ipynb" else _read_script(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="it takes a notebook's file") from error
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def _read_notebook(path: Path) -> Any:
    try:
        import nbformat
    except ImportError as error:
        raise MissingExtra("nbformat", "run") from error
    content = path.read_bytes()
    try:
        raw = json.loads(content.decode("utf-8"))
        _give_ids(raw)  # before nbformat does so: its own are random
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read: Any = nbformat.reads
            notebook = read(json.dumps(raw), as_version=4)
        if raw["nbformat"] < 4:
            _give_ids(notebook, anew=True)
        nbformat.validate(notebook)
        "".join(cell.source for cell in notebook.cells).encode()  # half a character cannot be sent to a kernel
    except Exception as error:  # whatever a file of that name may hold
        why = str(error).strip().partition("\n")[0]
        raise UsageError(f"{path} is not a valid notebook: {why}", hint="does Jupyter open it?") from error
    return notebook


def _read_script(path: Path) -> Any:
    try:
        import jupytext
    except ImportError as error:
        raise MissingExtra("jupytext", "scripts") from error
    try:
        notebook: Any = jupytext.read(path)
    except (ValueError, UnicodeError, jupytext.formats.JupytextFormatError) as error:
        hint = "it takes a .ipynb, or a .py with # %% between its cells"
        raise UsageError(f"{path} cannot be read as a notebook: {error}", hint=hint) from error
    _give_ids(notebook, anew=True)
    return notebook


def _give_ids(notebook: Any, *, anew: bool = False) -> None:
    if (notebook["nbformat"], notebook["nbformat_minor"]) >= (4, 5):
        for at, cell in enumerate(notebook["cells"]):
            if anew or not cell.get("id"):
                cell["id"] = f"cell-{at}"


def read_cells(path: Path, transform: Transform, *, auto: bool = False) -> list[CodeCell] | None:
    """The code cells of a notebook's file, or None if there is no such file. Raises UsageError.

    `auto`: every cell is checkpointed from the start; `%checkpoint auto` in a cell switches it from the next one on.
    """
    if path.suffix != ".ipynb" or not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in found if cell["cell_type"] == "code"]
        sources = [(str(cell.get("id", "")), "".join(cell["source"])) for cell in code]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path.name} cannot be read as a notebook", hint="save it, and ask again") from error
    return understand_all(sources, transform, auto=auto)


def understand_all(sources: Iterable[tuple[str, str]], transform: Transform, *, auto: bool = False) -> list[CodeCell]:
    """The code cells of a notebook, given as ids and texts."""
    cells: list[CodeCell] = []
    for number, (id, source) in enumerate(sources, 1):
        cell = understand(number, id, source, transform, auto=auto)
        auto = _auto_after(cell, auto)
        cells.append(cell)
    return cells


def understand(number: int, id: str, source: str, transform: Transform, *, auto: bool = False) -> CodeCell:
    """One cell. What is not Python is opaque."""
    tree = parse(source, transform)
    if tree is None:
        return CodeCell(number, id, source)
    text = options.read_marker(tree)
    rest = ast.Module(body=tree.body[1:], type_ignores=[]) if text is not None else tree
    if text is None and not auto:
        return CodeCell(number, id, source, rest)
    try:
        chosen = options.parse(text) if text is not None else options.automatic()
        return CodeCell(number, id, source, rest, chosen)
    except Error as error:
        return CodeCell(number, id, source, rest, problem=str(error))


def parse(source: str, transform: Transform) -> ast.Module | None:
    """The tree of a cell or statement as the user wrote it, or None."""
    try:
        tree: Any = compile(transform(source), "<cell>", "exec", flags=_FLAGS, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.Module) else None


def _words_of(node: ast.stmt) -> list[str] | None:
    """What stands behind `%checkpoint`, if the statement is that."""
    if weave.magic_of(node) != _AUTO:
        return None
    call = node.value if isinstance(node, ast.Expr) else None
    line = call.args[1] if isinstance(call, ast.Call) and len(call.args) > 1 else None
    return str(line.value).split() if isinstance(line, ast.Constant) else []


def _auto_after(cell: CodeCell, auto: bool) -> bool:
    for node in cell.tree.body if cell.tree is not None else ():
        words = _words_of(node)
        if words and words[0] == "auto":
            auto = "off" not in words[1:]
    return auto


def place_of(step: Step, cells: Sequence[CodeCell]) -> CodeCell | None:
    """The cell a step is of: by the front end's id, else by its name. Pure."""
    by_id = [cell for cell in cells if step.cell and cell.id == step.cell]
    by_name = [cell for cell in cells if cell.name == step.name and cell.chosen is not None]
    return next(iter(by_id or by_name), None)


def say(cell: CodeCell) -> str:
    """`cell 4: for epoch in range(100):`"""
    return f"cell {cell.number}: {first_line(cell.source)}"

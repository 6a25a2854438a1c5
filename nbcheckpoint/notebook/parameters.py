"""What the tags of cells say. Parameters are as papermill has them: a cell tagged `parameters` holds the defaults, and
a cell tagged `injected-parameters` behind it what was given instead. Pure, but for the notebook it is given."""

from __future__ import annotations

import ast
import json
import keyword
import math
from collections.abc import Mapping, Sequence
from typing import Any

from nbcheckpoint.errors import UsageError

DEFAULTS = "parameters"
INJECTED = "injected-parameters"
SKIPPED = "skip-execution"
"""Cells tagged so are left out by whoever runs a notebook."""


def parse(text: str) -> Any:
    """A value as it was typed: True, False, None and numbers are those, anything else is text.

    >>> parse("0.1"), parse("12"), parse("True"), parse("None"), parse("data.csv")
    (0.1, 12, True, None, 'data.csv')
    """
    if text in ("True", "False", "None"):
        return ast.literal_eval(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same, if every name is one, and every text. Raises UsageError."""
    for name in values:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"{name!r} is not a name", hint="-p NAME VALUE sets a variable of that name")
    for name, value in values.items():
        if isinstance(value, str) and not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
            raise UsageError(f"{name}: {value!r} is not text", hint="a parameter is a number or text, in UTF-8")
    return dict(values)


def source_of(values: Mapping[str, Any]) -> str:
    """The code that sets them.

    >>> print(source_of({"alpha": 0.5, "path": "a.csv"}))
    # Parameters
    alpha = 0.5
    path = "a.csv"
    """
    return "\n".join(["# Parameters", *(f"{name} = {_literal(value)}" for name, value in values.items())])


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def inject(notebook: Any, values: Mapping[str, Any]) -> None:
    """Put a cell with these values behind the defaults; at the top where there are none. One of an earlier run goes."""
    from nbformat import v4

    if not values:
        return
    cells = notebook.cells
    before = next((at for at, cell in enumerate(cells) if INJECTED in tags(cell)), None)
    if before is not None:
        del cells[before]
    defaults = next((at for at, cell in enumerate(cells) if DEFAULTS in tags(cell)), None)
    at = before if before is not None else defaults + 1 if defaults is not None else 0
    make: Any = v4.new_code_cell
    cell = make(source_of(values), metadata={"tags": [INJECTED]})
    if "id" in cell:
        cell.id = INJECTED  # always the same: a random one would make two runs differ
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        cell.pop("id", None)
    cells.insert(at, cell)


def tags(cell: Any) -> Sequence[str]:
    found = cell.get("metadata", {}).get("tags", ())
    return found if isinstance(found, list) else ()


def unknown(notebook: Any, names: Sequence[str]) -> list[str]:
    """Those the cell of defaults does not set: misspelt, perhaps. None where there is no such cell."""
    source = next((cell.source for cell in notebook.cells if DEFAULTS in tags(cell)), None)
    if source is None:
        return []
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    known = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return [name for name in names if name not in known]


def runnable(notebook: Any) -> list[int]:
    """The indices of the cells that will be run."""
    return [
        at
        for at, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and cell.source.strip() and SKIPPED not in tags(cell)
    ]

"""What a restore would change, before it does: read from the records and the live variables, nothing unpickled.

That a variable has the value it would be given is said only where both have been looked at in full and are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Value
from nbcheckpoint.notebook.cells import CellCheckpointer
from nbcheckpoint.notebook.history import existing_store, own_names
from nbcheckpoint.notebook.timetravel import Missing, Outline, check_names, find, outline


def changes(checkpointer: CellCheckpointer, target: str, names: Sequence[str] | None) -> dict[str, Any]:
    """What `restore` would bind, replace and delete. Raises like it."""
    store = existing_store(checkpointer.session)
    goal, cells = find(checkpointer, store, target)
    found = outline(cells, lambda source: str(checkpointer.shell.transform_cell(source)))
    if names is not None:
        check_names(names, found)
    user_ns = checkpointer.shell.user_ns
    return {
        "target": goal.id,
        "changes": list(_changes(found, names, user_ns)),
        "not_bound": {
            name: where.why
            for name, where in found.last.items()
            if isinstance(where, Missing) and (names is None or name in names)
        },
        "cautions": list(found.gone),
    }


def _changes(found: Outline, names: Sequence[str] | None, user_ns: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for name in own_names(found.last):
        where = found.last[name]
        if isinstance(where, Checkpoint) and (names is None or name in names):
            saved = next(value for value in where.values if value.name == name)
            now = _say_live(name, user_ns[name]) if name in user_ns else ""
            yield {"name": name, "now": now, "then": _say(saved), "change": _change(name, saved, user_ns)}
    for name in sorted(found.deleted & user_ns.keys()) if names is None else ():
        yield {"name": name, "now": _say_live(name, user_ns[name]), "then": "", "change": "deleted"}


def _change(name: str, saved: Value, user_ns: Mapping[str, Any]) -> str:
    if name not in user_ns:
        return "new"
    try:
        same = bool(saved.digest) and Digester().digest(name, user_ns[name]) == saved.digest
    except Unidentified:
        same = False
    return "same" if same else "replaced"


def _say(value: Value) -> str:
    return " ".join(part for part in (value.type, value.shape, value.preview) if part)


def _say_live(name: str, value: Any) -> str:
    return " ".join(part for part in (type_name(value), shape_of(value), preview(value, name)) if part)

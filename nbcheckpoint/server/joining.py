"""Several checkpoints as one: what a cell left is what its statements left, in their order. Pure; only to look at."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nbcheckpoint.model import Checkpoint, FileSeen, Input, Value
from nbcheckpoint.store.compare import Diff, compare


def compare_all(a: Sequence[Checkpoint], b: Sequence[Checkpoint]) -> Diff:
    """What differs between all that two cells left, from `a` to `b`."""
    origins = _origins(b)
    # What both have from the very same checkpoint is the same, also where nothing else could tell.
    same = {name for name, id in _origins(a).items() if origins.get(name) == id}
    return compare(*(_without(joined(parts), same) for parts in (a, b)))


def _origins(parts: Sequence[Checkpoint]) -> dict[str, str]:
    return {value.name: part.id for part in parts for value in part.values}


def _without(checkpoint: Checkpoint, names: set[str]) -> Checkpoint:
    return replace(checkpoint, values=tuple(value for value in checkpoint.values if value.name not in names))


def joined(parts: Sequence[Checkpoint]) -> Checkpoint:
    """As if one statement had done it all: what it read from outside, and what was there at its end."""
    if len(parts) == 1:
        return parts[0]
    values: dict[str, Value] = {}
    inputs: dict[str, Input] = {}
    random: dict[str, Input] = {}
    files: dict[str, FileSeen] = {}
    made: set[str] = set()
    for part in parts:
        for item in part.inputs:
            if item.name not in made:  # what an earlier one has made comes from inside
                inputs.setdefault(item.name, item)
        for item in part.random:
            random.setdefault(item.name, item)
        for file in part.files:
            files.setdefault(file.path, file)
        for name in part.deleted:
            values.pop(name, None)
        values.update({value.name: value for value in part.values})
        made.update(part.deleted, (value.name for value in part.values))
    return replace(
        parts[-1],
        source="\n".join(part.source for part in parts),
        code=" ".join(part.code for part in parts),
        inputs=tuple(inputs.values()),
        random=tuple(random.values()),
        files=tuple(files.values()),
        values=tuple(values.values()),
        stream=None,
        buffers=tuple(blob for part in parts for blob in (part.stream, *part.buffers) if blob is not None),
    )

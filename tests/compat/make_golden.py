"""Make the golden store of the format this version writes: `python -m tests.compat.make_golden`.

Run once per format, by whoever raises `FORMAT`, before anything else of it changes. The archive is committed and
stays: later versions have to open what this one wrote, not what they would write themselves. It holds two stores of
one user (`store`, `encrypted`) with what is in them (`expected.json`), and that user's keys (`home`), so that
signatures hold.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from nbcheckpoint.backend.disk_place import RESERVE
from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.model import FORMAT, Checkpoint, FileSeen, Input, Reason, Run, Step
from nbcheckpoint.store import Store, open_store

GOLDEN = Path(__file__).parent / "golden"
OUTPUTS = [{"output_type": "stream", "name": "stdout", "text": "epoch 1: größer\n"}]


def small() -> dict[str, Any]:
    """What fits into the record itself. The list is one object under two names."""
    shared = [1, {"a": (1.5, None, True)}, {2, 3}]
    return {"n": 42, "text": "grüße \U0001f600", "raw": b"\0\xff", "first": shared, "second": shared}


def array() -> Any:
    """A buffer of its own, in a pack."""
    return (np.arange(40_000, dtype="u2") % 251).reshape(200, 200)


def long() -> Any:
    """So many chunks that their names are a chunk themselves; all of them are the same."""
    return np.zeros(33 << 20, dtype="u1")


def strings() -> Any:
    """So many that they go through Arrow, if that is installed when this is made; it has to be."""
    import pyarrow  # noqa: F401

    return np.array([f"nö {n % 7}" if n % 5 else None for n in range(12_000)], dtype=object)


def draft(run: str, step: str, code: str, **fields: Any) -> Checkpoint:
    given: dict[str, Any] = {"inputs_digest": "1" * 64, "name": "train", "source": "model = fit(data)", **fields}
    return Checkpoint(id="", created="", run=run, step=step, code=code * 64, **given)


def fill(store: Store) -> dict[str, Any]:
    """A run with everything in it; returns what to expect."""
    run = store.begin_run("train.ipynb", tags=("a", "b"), inputs={"n": 8}, meta={"python": "3.11"})
    held = array()
    ids = {"small": store.save(draft(run.id, "000000.000", "a"), small(), outputs=OUTPUTS).checkpoint.id}
    full = draft(
        run.id,
        "000000.001",
        "b",
        seconds=12.5,
        inputs=(Input(name="n", digest="2" * 64, type="int", preview="42"),),
        files=(FileSeen(path="data.csv", size=3, mtime_ns=1, ctime_ns=2, digest="3" * 64, settled=True),),
        environment={"python": "3.11"},
        meta={"workflow": "train.ipynb", "cell": "c1#1"},
    )
    ids["array"] = store.save(full, {"data": held, "lock": threading.Lock()}).checkpoint.id
    refers = {id(held): Reference(ids["array"], "data")}
    ids["reference"] = store.save(
        draft(run.id, "000001", "c"), {"box": {"data": held}}, references=refers
    ).checkpoint.id
    if store._cipher is None:  # what is encrypted does not shrink, and the archive is to be small
        ids["long"] = store.save(draft(run.id, "000002", "d"), {"long": long()}).checkpoint.id
        ids["strings"] = store.save(draft(run.id, "000003", "e"), {"strings": strings()}, defer=True).checkpoint.id
    store.flush()
    for address, name in (("000000.000", "small"), ("000000.001", "array"), ("000000", "array")):
        kind = "statement" if "." in address else "cell"
        store.put_step(Step(run=run.id, address=address, name="load", kind=kind, checkpoint=ids[name], cell="c1"))
    for address, name in (("000001", "reference"), ("000002", "long"), ("000003", "strings")):
        if name not in ids:
            continue
        why = Reason(code="first", text="never computed before", details={"n": 1})
        store.put_step(
            Step(run=run.id, address=address, name=name, status="completed", checkpoint=ids[name], reason=why)
        )
    store.update_run(run.id, status="completed", owner=None, counts={"completed": 4}, bytes=1000)
    store.pin(run.id)
    store.note(run.id, "golden")
    return {"run": run.id, "checkpoints": ids}


def fill_as_somebody_else(store: Store) -> dict[str, Any]:
    run: Run = store.begin_run("theirs.ipynb")
    return {"run": run.id, "checkpoint": store.save(draft(run.id, "000000", "f"), {"x": 1}).checkpoint.id}


def make(folder: Path) -> None:
    for user, seed in (("home", 0), ("somebody", 1)):
        keys = folder / user / "nbcheckpoint"
        keys.mkdir(parents=True)
        (keys / "signing_key").write_bytes(bytes(range(seed, seed + 32)))
        (keys / "encryption_key").write_bytes(bytes(range(seed + 100, seed + 132)))
    os.environ["JUPYTER_DATA_DIR"] = str(folder / "home")
    expected: dict[str, Any] = {"format": FORMAT}
    for name in ("store", "encrypted"):
        with open_store(folder / name, encrypt=name == "encrypted") as store:
            expected[name] = fill(store)
    os.environ["JUPYTER_DATA_DIR"] = str(folder / "somebody")
    with open_store(folder / "store") as store:
        expected["foreign"] = fill_as_somebody_else(store)
    (folder / "expected.json").write_text(json.dumps(expected, indent=2))


def main() -> None:
    target = GOLDEN / f"format-{FORMAT}.tar.xz"
    if target.exists():
        raise SystemExit(f"{target} is there, and must never change")
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        GOLDEN.mkdir(exist_ok=True)
        with tarfile.open(target, "w:xz") as archive:
            for name in ("expected.json", "home", "store", "encrypted"):
                archive.add(Path(folder) / name, name, filter=_member)
    print(target, target.stat().st_size)


def _member(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if info.name.endswith(RESERVE):
        return None  # noise, and made again on opening
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    main()

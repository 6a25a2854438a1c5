"""What a stranger with write access to the store, or to an archive, may plant: refused, with 0 bytes unpickled.

Every planting is done in a process of its own, with an audit hook that hears what any unpickler looks up and a counter
of the bytes our own is given. Afterwards the store is asked for what was planted, and looked through in every
other way there is. A first round shows that the alarm works.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from blake3 import blake3

from nbcheckpoint.backend.disk_rows import chunk_tag
from nbcheckpoint.codec import pickle as codec
from nbcheckpoint.errors import Error
from nbcheckpoint.model import Run
from nbcheckpoint.store import Store
from nbcheckpoint.store.upkeep import prune
from nbcheckpoint.store.verify import verify
from tests.crash.faults.children import MINE, THEIRS, Say, open_store, start
from tests.crash.faults.ledger import Progress, Tally, no_progress
from tests.stores import add_run, add_step

CODE = "c" * 64
STRIDE = 7
"""So that a few rounds have some of everything."""


class Bomb:
    """Makes a folder when it is unpickled. Its padding makes its stream a chunk in a pack."""

    def __init__(self, target: Path) -> None:
        self.target = str(target)
        self.padding = blake3(b"padding").digest(length=100_000)

    def __reduce__(self) -> Any:
        return explode, (self.target, self.padding)


def explode(target: str, padding: bytes) -> str:
    os.mkdir(target)
    return "boom"


@dataclass
class Scene:
    """A store of the user's with one checkpoint in it, and whatever lies around it."""

    place: Path

    def __post_init__(self) -> None:
        self.directory = self.place / "store"
        self.evil = pickle.dumps(Bomb(self.place / "pwned"))
        (self.place / "secret").write_bytes(self.evil)
        with self.open() as store:
            self.run, self.id = a_run(store, self.place)
        self.key = f"checkpoint/{self.id}"

    def open(self, key: bytes = MINE) -> Store:
        return open_store(self.directory, key=key)

    @property
    def pack(self) -> Path:
        (pack,) = self.directory.glob("??/*.pack")
        return pack

    def record(self, key: str = "") -> bytes:
        with self.open() as store:
            found = store.backend.get(key or self.key)
            assert found is not None
            return found.value

    def put(self, value: bytes, key: str = "") -> None:
        with self.open() as store:
            store.backend.put(key or self.key, value)

    def stream(self) -> str:
        """The chunk with the pickle."""
        with self.open() as store:
            stream = store.checkpoint(self.id).stream
            assert stream is not None
            return stream.chunks[0]

    def row(self, **columns: object) -> None:
        """A row in the index, as anybody can write it."""
        row = {"raw": 1, "store_time": time.time(), "access_time": 0.0, "tag": None, "size": 0, "mode": 1, **columns}
        con = sqlite3.connect(self.directory / "cache.db")
        con.execute(
            f"INSERT OR REPLACE INTO Cache ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", [*row.values()]
        )
        con.commit()
        con.close()


def a_run(store: Store, place: Path) -> tuple[Run, str]:
    run = add_run(store)
    return run, add_step(store, run, {"x": Bomb(place / "pwned")}, code=CODE, seconds=2.0).id


# What is planted. Each returns what is then asked for; none of it may be given.

Asked = Callable[[Store], object]


def _restore(id: str) -> Asked:
    return lambda store: store.restore(id)


def altered(scene: Scene) -> Asked:
    scene.put(scene.record().replace(b'"seconds":2.0', b'"seconds":3.0'))
    return _restore(scene.id)


def unsigned(scene: Scene) -> Asked:
    scene.put(scene.record().rpartition(b"\n")[0])
    return _restore(scene.id)


def badly_signed(scene: Scene) -> Asked:
    sealed = scene.record()
    scene.put(sealed[:-1] + (b"0" if sealed[-1:] != b"0" else b"1"))
    return _restore(scene.id)


def somebody_elses(scene: Scene) -> Asked:
    with scene.open(THEIRS) as store:
        _, id = a_run(store, scene.place)
    return _restore(id)


def moved_to_another_id(scene: Scene) -> Asked:
    other = scene.id[:-1] + ("1" if scene.id.endswith("0") else "0")
    scene.put(scene.record(), f"checkpoint/{other}")
    return _restore(other)


def moved_to_another_run(scene: Scene) -> Asked:
    """A step of one run under the address of another's: it is not trusted, and nor is what it leads to."""
    with scene.open() as store:
        other = add_run(store, "other.ipynb")
        (step,) = store.steps(scene.run.id)
    scene.put(scene.record(f"step/{scene.run.id}/{step.address}"), f"step/{other.id}/{step.address}")

    def ask(store: Store) -> object:
        (moved,) = store.steps(other.id)
        return moved if moved.trusted else _refuse("the step is untrusted")

    return ask


def rolled_back_to_before_it_was_trusted(scene: Scene) -> Asked:
    with scene.open(THEIRS) as store:
        _, id = a_run(store, scene.place)
    before = scene.record(f"checkpoint/{id}")
    with scene.open() as store:
        store.trust(id)
    scene.put(before, f"checkpoint/{id}")
    return _restore(id)


def rolled_back_to_before_it_was_pruned(scene: Scene) -> Asked:
    """A record of our own that was deleted is put back. It is ours; but what it names is gone, and that is told."""
    sealed = scene.record()
    with scene.open() as store:
        store.delete_run(scene.run.id)
        prune(store, grace_seconds=0)
    scene.put(sealed)
    return _restore(scene.id)


def rolled_back_index(scene: Scene) -> Asked:
    """The whole index is that of earlier, with records since deleted: the witness knows that it had been further."""
    kept = {name: (scene.directory / name).read_bytes() for name in ("cache.db", "cache.db-wal") if _is(scene, name)}
    with scene.open() as store:
        store.delete_run(scene.run.id)
        for number in range(3):
            store.backend.put(f"other/{number}", b"x")
    for name in ("cache.db-wal", "cache.db-shm"):
        (scene.directory / name).unlink(missing_ok=True)
    for name, data in kept.items():
        (scene.directory / name).write_bytes(data)

    def ask(store: Store) -> object:
        return store.backend.get("nothing"), store.restore(scene.id)

    return ask


def _is(scene: Scene, name: str) -> bool:
    return (scene.directory / name).exists()


def swapped_in_its_pack(scene: Scene) -> Asked:
    with scene.pack.open("r+b") as file:
        file.write(scene.evil)
    return _restore(scene.id)


def swapped_by_its_row(scene: Scene) -> Asked:
    """The row is led to a pack of the stranger's, with every checksum right."""
    filename = scene.pack.parent.name + "/" + "0" * 32 + ".pack"
    (scene.directory / filename).write_bytes(scene.evil)
    return _point_to(scene, filename, len(scene.evil))


def _point_to(scene: Scene, filename: str, size: int) -> Asked:
    key = "c/" + scene.stream()
    scene.row(key=key, mode=2, filename=filename, size=size, tag=chunk_tag(key, size, filename, "pack", "-", 0))
    return _restore(scene.id)


def outside(filename: str, scene: Scene) -> Asked:
    return _point_to(scene, filename.format(scene.place), len(scene.evil))


def pickled_record(scene: Scene) -> Asked:
    scene.row(key="r/" + scene.key, mode=4, value=scene.evil)
    return _restore(scene.id)


def pickled_chunk(scene: Scene) -> Asked:
    scene.row(key="c/" + scene.stream(), mode=4, value=scene.evil)
    return _restore(scene.id)


def pickled_key(scene: Scene) -> Asked:
    scene.row(key=scene.evil, raw=0, mode=4, value=scene.evil)
    return lambda store: store.backend.scan("\x80") or _refuse("it is not even seen")


def linked_pack(scene: Scene) -> Asked:
    pack = scene.pack
    pack.unlink()
    pack.symlink_to(scene.place / "secret")
    return _restore(scene.id)


def linked_folder(scene: Scene) -> Asked:
    folder = scene.pack.parent
    folder.rename(scene.place / "elsewhere")
    folder.symlink_to(scene.place / "elsewhere")
    return _restore(scene.id)


def a_pipe(scene: Scene) -> Asked:
    pack = scene.pack
    pack.unlink()
    os.mkfifo(pack)
    return _restore(scene.id)


# Archives


def _archive(scene: Scene, key: bytes) -> dict[str, bytes]:
    """An archive of somebody's, taken apart."""
    elsewhere = scene.place / "theirs"
    with open_store(elsewhere, key=key) as store:
        run, _ = a_run(store, scene.place)
        store.export(run.id, scene.place / "good.zip")
    shutil.rmtree(elsewhere)
    with zipfile.ZipFile(scene.place / "good.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _import(scene: Scene, members: dict[str, bytes], *, trust: bool) -> Asked:
    file = scene.place / "bad.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    ours = [scene.id]

    def ask(store: Store) -> object:
        store.import_(file, trust=trust)
        ids = [entry.key.partition("/")[2] for entry in store.backend.scan("checkpoint/")]
        return [store.restore(id) for id in ids if id not in ours]

    return ask


def foreign_archive(scene: Scene) -> Asked:
    return _import(scene, _archive(scene, THEIRS), trust=False)


def archive_with(name: str, scene: Scene) -> Asked:
    return _import(scene, {**_archive(scene, THEIRS), name: scene.evil}, trust=True)


def archive_with_another_chunk(scene: Scene) -> Asked:
    members = _archive(scene, MINE)
    return _import(scene, {n: scene.evil if n.startswith("chunks/") else d for n, d in members.items()}, trust=True)


def archive_with_a_planted_stream(scene: Scene) -> Asked:
    """A record of our own, changed to name a pickle that has the right digest."""
    members, name = _archive(scene, MINE), blake3(scene.evil).hexdigest()
    for member, data in list(members.items()):
        if member.startswith("records/") and json.loads(data)["key"].startswith("checkpoint/"):
            body = json.loads(data)
            body["body"]["stream"] = {"size": len(scene.evil), "chunks": [name], "chunk_size": 1 << 20}
            members[member] = json.dumps(body).encode()
    manifest = json.loads(members["manifest.json"])
    manifest["chunks"] += 1
    members |= {f"chunks/{name}": scene.evil, "manifest.json": json.dumps(manifest).encode()}
    return _import(scene, members, trust=False)


def a_pickle_for_an_archive(scene: Scene) -> Asked:
    return lambda store: store.import_(scene.place / "secret", trust=True)


PLANTED: dict[str, Callable[[Scene], Asked]] = {
    "altered record": altered,
    "unsigned record": unsigned,
    "badly signed record": badly_signed,
    "somebody else's record": somebody_elses,
    "record moved to another id": moved_to_another_id,
    "record moved to another run": moved_to_another_run,
    "record rolled back to before it was trusted": rolled_back_to_before_it_was_trusted,
    "record rolled back to before it was pruned": rolled_back_to_before_it_was_pruned,
    "index rolled back": rolled_back_index,
    "stream swapped in its pack": swapped_in_its_pack,
    "stream swapped by its row": swapped_by_its_row,
    "pickled record": pickled_record,
    "pickled chunk": pickled_chunk,
    "pickled key": pickled_key,
    "linked pack": linked_pack,
    "linked folder": linked_folder,
    "pipe for a pack": a_pipe,
    **{
        f"row that leads to {name}": partial(outside, name)
        for name in ("../secret", "{}/secret", "aa/../../secret", "aa/" + "0" * 32 + ".pack/../../../secret")
    },
    "foreign archive": foreign_archive,
    **{
        f"archive with {name!r}": partial(archive_with, name)
        for name in ("../evil", "/tmp/evil", "chunks/../../evil", "records\\000000.json", "evil.py", "C:\\evil")
    },
    "archive with another chunk": archive_with_another_chunk,
    "archive with a planted stream": archive_with_a_planted_stream,
    "pickle for an archive": a_pickle_for_an_archive,
}


class Refused(Error):
    """Said where the answer itself is the refusal."""


def _refuse(why: str) -> object:
    raise Refused(why)


def run(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    tally = Tally("planted by strangers")
    _round(place, "the alarm", lambda scene: _restore(scene.id), tally, loads=True)
    names = list(PLANTED)
    for number in range(rounds):
        name = names[(number * STRIDE + seed - 1) % len(names)]
        _round(place, name, PLANTED[name], tally)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _round(place: Path, name: str, plant: Callable[[Scene], Asked], tally: Tally, *, loads: bool = False) -> None:
    scene = place / "scene"
    scene.mkdir()
    said = [line.decode() for line in start(partial(_play, scene, plant)).rest(tally)]
    shutil.rmtree(scene)
    tally.checked += 1
    expected = "given, something unpickled, something run" if loads else "refused"
    if said != [expected]:
        tally.note("wrong", f"{name}: {said}")


def _play(place: Path, plant: Callable[[Scene], Asked], say: Say, wait: Callable[[], None]) -> None:
    scene = Scene(place)
    ask = plant(scene)
    before = _around(place)
    unpickled: list[object] = []
    sys.addaudithook(lambda event, args: unpickled.append(args) if event == "pickle.find_class" else None)
    decode = codec.decode
    codec.decode = lambda stream, *rest: (unpickled.append(len(stream)), decode(stream, *rest))[1]  # type: ignore[func-returns-value]
    said = []
    try:
        with scene.open() as store:
            ask(store)
        said.append("given")
    except Error:
        said.append("refused")
    _look_around(scene)
    if unpickled:
        said.append("something unpickled")
    if _around(place) != before:
        said.append("something run" if (place / "pwned").exists() else "something changed outside the store")
    say(", ".join(said))


def _look_around(scene: Scene) -> None:
    """List, find, verify, prune, repair, copy: none of it loads anything either."""
    steps: tuple[Asked, ...] = (
        lambda store: [store.steps(run.id) for run in store.runs()],
        lambda store: store.find(CODE),
        lambda store: store.diff(scene.id, scene.id),
        verify,
        lambda store: prune(store, grace_seconds=0),
        lambda store: verify(store, repair=True),
    )
    try:
        store = scene.open()
    except Error:
        return
    for step in steps:
        try:
            step(store)
        except Error:
            continue


def _around(place: Path) -> dict[str, bytes]:
    """Everything outside the store."""
    inside = place / "store"
    return {
        str(path): path.read_bytes() if path.is_file() else b""
        for path in sorted(place.rglob("*"))
        if not path.is_relative_to(inside)
    }

"""What somebody put into a store on disk to have it unpickled: 0 bytes of it reach `pickle`.

Counted twice over. Python's own audit hook hears of every name a pickle looks up, in C or Python, whoever unpickles;
and every way into `pickle` that we or diskcache have counts the bytes it is given.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from msgspec.structs import replace

from nbcheckpoint.backend import disk_rows
from nbcheckpoint.codec import pickle as codec
from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.errors import Error, StoreDamaged, Untrusted
from nbcheckpoint.model import Blob, Checkpoint
from nbcheckpoint.store import Store, open_store
from tests.stores import add_run, add_step, draft

PADDING = os.urandom(100_000).hex()
"""Makes a pickle too large for the index: it goes into a pack."""


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("pwned",))


EVIL = pickle.dumps({"x": Bomb(), "padding": PADDING})


class Reached:
    """What has reached `pickle`."""

    def __init__(self) -> None:
        self.bytes = 0
        self.names: list[Any] = []

    def nothing(self) -> bool:
        return self.bytes == 0 and self.names == [] and not Path("pwned").exists()


_heard: list[Reached] = []


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        for reached in _heard:
            reached.names.append(args)


sys.addaudithook(_hear)


@pytest.fixture
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reached]:
    monkeypatch.chdir(tmp_path)
    reached = Reached()

    for name in ("_Unpickler", "_TolerantUnpickler"):
        real = getattr(codec, name)
        counted = type(name, (real,), {"__init__": _counting_init(real, reached)})
        monkeypatch.setattr(codec, name, counted)
    for name in ("load", "loads"):
        monkeypatch.setattr(pickle, name, _counting_call(getattr(pickle, name), reached))
    _heard.append(reached)
    yield reached
    _heard.remove(reached)


def _counting_init(real: type, reached: Reached) -> Any:
    def init(self: Any, file: io.BytesIO, *args: Any, **kwargs: Any) -> None:
        reached.bytes += len(file.getbuffer())
        real.__init__(self, file, *args, **kwargs)  # type: ignore[misc]

    return init


def _counting_call(real: Any, reached: Reached) -> Any:
    def call(source: Any, *args: Any, **kwargs: Any) -> Any:
        reached.bytes += len(source) if isinstance(source, (bytes, bytearray, memoryview)) else 1
        return real(source, *args, **kwargs)

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with open_store(folder) as store:
        yield store


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Somebody else's store: same code, another key."""
    with monkeypatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "stranger"))
        theirs = open_store(tmp_path / "theirs")
    with theirs:
        yield theirs


def look_at_everything(store: Store) -> None:
    """All that is done with a store short of loading. Damage may be told; nothing else may happen."""
    for look in (
        lambda: [store.steps(run.id, inner=True) for run in store.runs()],
        lambda: store.find("c" * 64),
        lambda: store.verify(),
        lambda: store.prune(dry_run=True),
        lambda: [store.export(run.id, "everything.zip") for run in store.runs()],
    ):
        with contextlib.suppress(Error):
            look()


def test_the_alarm_works(store: Store, reached: Reached) -> None:
    store.restore(store.save(draft(), {"x": Bomb()}).checkpoint.id)
    assert reached.bytes > 0
    assert reached.names
    assert Path("pwned").exists()
    pickle.loads(b"N.")
    assert reached.bytes > 2


def sql(folder: Path, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(folder / "cache.db")) as index:
        assert index.execute(statement, values).rowcount == 1
        index.commit()


@pytest.mark.parametrize("raw", [0, 1])
def test_a_pickle_planted_in_the_index(store: Store, folder: Path, reached: Reached, raw: int) -> None:
    """diskcache marks its pickles by mode 4, and pickled keys by raw 0; as it comes, it loads both."""
    saved = store.save(draft(), {"x": 1}).checkpoint
    key: Any = f"r/checkpoint/{saved.id}" if raw else pickle.dumps(Bomb())
    sql(
        folder, "UPDATE Cache SET mode = 4, value = ?, key = ?, raw = ? WHERE key LIKE 'r/checkpoint/%'", EVIL, key, raw
    )
    with pytest.raises(Error):
        store.restore(saved.id)
    look_at_everything(store)
    assert reached.nothing()


def test_a_pickle_planted_in_a_pack(store: Store, folder: Path, reached: Reached) -> None:
    """In place of the very stream a trusted record names, and with the time of the file put back."""
    saved = store.save(draft(), {"x": PADDING}).checkpoint
    (pack,) = folder.glob("??/*.pack")
    before, length = pack.stat(), pack.stat().st_size
    with open(pack, "r+b") as file:
        file.write(EVIL[:length].ljust(length, b"\0"))
    os.utime(pack, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(StoreDamaged):
        store.restore(saved.id)
    look_at_everything(store)
    assert reached.nothing()


def test_a_chunk_that_is_a_symbolic_link(store: Store, folder: Path, tmp_path: Path, reached: Reached) -> None:
    saved = store.save(draft(), {"x": PADDING}).checkpoint
    (pack,) = folder.glob("??/*.pack")
    (tmp_path / "evil").write_bytes(EVIL)
    pack.unlink()
    pack.symlink_to(tmp_path / "evil")
    with pytest.raises(StoreDamaged):
        store.restore(saved.id)
    look_at_everything(store)
    assert reached.nothing()


def test_a_chunk_that_is_a_link_to_the_right_bytes_is_no_chunk_either(
    store: Store, folder: Path, tmp_path: Path, reached: Reached
) -> None:
    """Whoever owns the file behind the link could change it between the check and the use."""
    saved = store.save(draft(), {"x": PADDING}).checkpoint
    (pack,) = folder.glob("??/*.pack")
    pack.rename(tmp_path / "elsewhere")
    pack.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreDamaged, match="symbolic link"):
        store.restore(saved.id)
    assert reached.nothing()


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "chunk"])
@pytest.mark.parametrize("seal", ["none", "theirs", "another record's"])
def test_a_planted_checkpoint_with_everything_right_but_the_signature(
    store: Store, stranger: Store, folder: Path, reached: Reached, inline: bool, seal: str
) -> None:
    name = blake3(EVIL).hexdigest()
    store.backend.put_chunk(name, EVIL)
    mine = store.save(draft(), {"x": 1}).checkpoint
    stream = Blob(size=len(EVIL), data=EVIL) if inline else Blob(size=len(EVIL), chunks=(name,), chunk_size=1 << 20)
    evil = replace(mine, stream=stream)
    key = f"checkpoint/{mine.id}"
    if seal == "theirs":
        stranger_sealed = stranger._signer.seal(key, evil.to_json())
        store.backend.put(key, stranger_sealed)
    elif seal == "none":
        store.backend.put(key, evil.to_json())
    else:
        found = store.backend.get(key)
        assert found is not None
        store.backend.put(key, evil.to_json() + b"\n" + found.value.rpartition(b"\n")[2])
    assert not store.checkpoint(mine.id).trusted
    with pytest.raises(Untrusted):
        store.restore(mine.id)
    look_at_everything(store)
    assert reached.nothing()


def test_a_foreign_archive(store: Store, stranger: Store, tmp_path: Path, reached: Reached) -> None:
    run = add_run(stranger)
    evil = add_step(stranger, run, {"x": Bomb(), "padding": PADDING})
    stranger.export(run.id, tmp_path / "gift.zip")
    assert not store.import_(tmp_path / "gift.zip").trusted
    with pytest.raises(Untrusted):
        store.restore(evil.id)
    look_at_everything(store)
    assert reached.nothing()
    store.trust(run.id)
    assert reached.nothing(), "trusting looks at digests only"


def test_a_record_moved_between_runs(store: Store, reached: Reached) -> None:
    """All of it was ours, and signed by us, but for another run, step or checkpoint."""
    one, other = add_run(store), add_run(store)
    bomb = add_step(store, one, {"x": Bomb(), "padding": PADDING})
    mine = add_step(store, other, {"x": 1})
    for source, target in (
        (f"checkpoint/{bomb.id}", f"checkpoint/{mine.id}"),
        (f"step/{one.id}/000000", f"step/{other.id}/000000"),
        (f"run/{one.id}", f"run/{other.id}"),
    ):
        found = store.backend.get(source)
        assert found is not None
        store.backend.put(target, found.value)
    assert not store.checkpoint(mine.id).trusted
    assert not store.run(other.id).trusted
    assert [step.trusted for step in store.steps(other.id)] == [False]
    assert [found.id for found in store.find("c" * 64)] == [bomb.id]
    with pytest.raises(Untrusted):
        store.restore(mine.id)
    look_at_everything(store)
    assert reached.nothing()


def test_a_checkpoint_of_ours_that_builds_upon_one_that_was_replaced(
    store: Store, stranger: Store, reached: Reached
) -> None:
    frame = {"big": "x" * 1000}
    base = store.save(draft(), {"frame": frame}).checkpoint
    refers = {id(frame): Reference(base.id, "frame")}
    top = store.save(draft(code="d" * 64), {"box": [frame]}, references=refers).checkpoint
    evil: Checkpoint = replace(base, stream=Blob(size=len(EVIL), data=EVIL))
    key = f"checkpoint/{base.id}"
    store.backend.put(key, stranger._signer.seal(key, evil.to_json()))
    assert top.stream is not None
    with pytest.raises(Untrusted):
        store.restore(top.id)
    assert reached.bytes == top.stream.size, "our own stream, up to where it refers to theirs"
    assert reached.names == []
    assert not Path("pwned").exists()


def test_a_row_that_leads_to_a_file_outside(store: Store, folder: Path, tmp_path: Path, reached: Reached) -> None:
    (tmp_path / "evil").write_bytes(EVIL)
    saved = store.save(draft(), {"x": PADDING}).checkpoint
    assert saved.stream is not None
    key, outside = f"c/{saved.stream.chunks[0]}", "../evil"
    tag = disk_rows.chunk_tag(key, len(EVIL), outside, "pack", "-", 0)
    sql(folder, "UPDATE Cache SET filename = ?, size = ?, tag = ? WHERE key = ?", outside, len(EVIL), tag, key)
    with pytest.raises(StoreDamaged):
        store.restore(saved.id)
    look_at_everything(store)
    assert reached.nothing()

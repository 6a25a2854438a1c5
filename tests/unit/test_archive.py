"""A run in one file, there and back; and what a stranger might put into such a file."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from msgspec.structs import replace

from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.errors import NotFound, StoreDamaged, StoreTooNew, Untrusted, UsageError
from nbcheckpoint.model import FORMAT, Run, Step
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.archive import MAX_CHUNK
from nbcheckpoint.store.verify import verify
from tests.stores import Crash, Crashing, add_run, add_step, chunk_count, draft

DATA = np.arange(300_000, dtype="float64")


class Bomb:
    """Makes a folder when it is unpickled; its size makes it a chunk of its own."""

    def __init__(self) -> None:
        self.padding = "x" * 10_000

    def __reduce__(self) -> Any:
        return (os.mkdir, ("pwned",), {"padding": self.padding})


@pytest.fixture(autouse=True)
def unpickled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Counts the globals any pickle looks up, in C or Python: the audit hook sees what monkeypatching would not."""
    monkeypatch.chdir(tmp_path)
    _seen.clear()
    return _seen


_seen: list[Any] = []
sys.addaudithook(lambda event, args: _seen.append(args) if event == "pickle.find_class" else None)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with open_store("memory://" if request.param == "memory" else tmp_path / "store") as store:
        yield store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "other") as store:
        yield store


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """Somebody else's store: same code, another key."""
    mine = os.environ["JUPYTER_DATA_DIR"]
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "stranger"))
    with open_store(tmp_path / "theirs") as store:
        monkeypatch.setenv("JUPYTER_DATA_DIR", mine)
        yield store


def a_run(store: Store, **values: Any) -> Run:
    run = add_run(store)
    add_step(store, run, {"data": DATA, "text": "hello"}, source="data = …")
    add_step(store, run, values or {"other": [1, 2, 3]}, name="more", code="d" * 64)
    return run


def values_of(store: Store, run: str) -> dict[str, Any]:
    return {name: value for step in store.steps(run) for name, value in store.restore(step.checkpoint).items()}


def test_there_and_back(store: Store, other: Store, tmp_path: Path) -> None:
    run = a_run(store)
    add_step(store, add_run(store), {"not mine": b"?" * 10_000})
    done: list[tuple[int, int]] = []
    sent = store.export(run.id, tmp_path / "run.zip", progress=lambda *at: done.append(at))
    assert done[-1] == (sent.chunks, sent.chunks)
    got = other.import_(tmp_path / "run.zip")
    assert got.trusted
    assert (got.run, got.records, got.chunks, got.bytes) == (run.id, sent.records, sent.chunks, sent.bytes)
    assert other.run(run.id) == run
    back = values_of(other, run.id)
    assert np.array_equal(back["data"], DATA)
    assert (back["text"], back["other"]) == ("hello", [1, 2, 3])
    assert [found.id for found in other.runs()] == [run.id]
    assert verify(other).problems == ()


def test_the_archive_can_be_read_with_any_tool(store: Store, tmp_path: Path) -> None:
    """001-4."""
    run = a_run(store)
    store.export(run.id, tmp_path / "run.zip")
    assert (tmp_path / "run.zip").stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        records = [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("records/")]
        for name in archive.namelist():
            if name.startswith("chunks/"):
                assert blake3(archive.read(name)).hexdigest() == name[7:]
    assert manifest["run"] == run.id
    assert records[0]["key"] == f"run/{run.id}"
    assert records[0]["body"]["workflow"] == "nb.ipynb"
    assert os.listdir(tmp_path / "store") if (tmp_path / "store").exists() else True
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".run.zip")], "no temporary file is left"


def test_what_a_checkpoint_builds_upon_travels_with_it(store: Store, other: Store, tmp_path: Path) -> None:
    earlier, run = add_run(store), add_run(store)
    base = add_step(store, earlier, {"base": DATA.tolist()[:10]})
    live = store.restore(base.id)["base"]
    built = store.save(
        draft(run=run.id, code="d" * 64), {"view": [live]}, references={id(live): Reference(base.id, "base")}
    ).checkpoint
    assert built.needs == (base.id,)
    store.put_step(Step(run=run.id, address="000000", name="x", status="completed", checkpoint=built.id))
    store.export(run.id, tmp_path / "run.zip")
    other.import_(tmp_path / "run.zip")
    assert other.restore(built.id) == {"view": [live]}


def test_a_long_value_whose_chunks_are_listed_in_a_chunk(store: Store, other: Store, tmp_path: Path) -> None:
    data = b"".join(bytes([n]) * (1 << 20) for n in range(40))
    run = a_run(store, long=data)
    store.export(run.id, tmp_path / "run.zip")
    other.import_(tmp_path / "run.zip")
    assert values_of(other, run.id)["long"] == data
    assert verify(other).problems == ()


def test_exporting_what_is_not_there_or_not_whole_leaves_no_file(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match="is not a file"):
            store.export(add_run(store).id, place)
    (tmp_path / "pipe").unlink()
    with pytest.raises(NotFound):
        store.export("nothing", tmp_path / "run.zip")
    run = a_run(store)
    name = next(name for name, _, _ in store.backend.scan_chunks())
    store.backend.delete_chunk(name)
    with pytest.raises(StoreDamaged):
        store.export(run.id, tmp_path / "run.zip")
    assert not [name for name in os.listdir(tmp_path) if "run.zip" in name]


def test_a_pruned_checkpoint_is_told(store: Store, other: Store, tmp_path: Path) -> None:
    run = a_run(store)
    gone = store.steps(run.id)[0].checkpoint
    store.backend.delete(f"checkpoint/{gone}")
    assert gone in store.export(run.id, tmp_path / "run.zip").notes[0]
    other.import_(tmp_path / "run.zip")
    assert other.restore(store.steps(run.id)[1].checkpoint)


def test_importing_twice_changes_nothing_and_newer_work_here_stays(store: Store, tmp_path: Path) -> None:
    run = a_run(store)
    store.export(run.id, tmp_path / "run.zip")
    before = store.backend.scan()
    assert store.import_(tmp_path / "run.zip").notes == ()
    assert store.backend.scan() == before
    store.note(run.id, "newer")
    notes = store.import_(tmp_path / "run.zip", trust=True).notes
    assert notes == (f"run/{run.id} is in the store already, and stays as it is there",)
    assert store.run(run.id).note == "newer", "an archive is no way to roll a record back"


# What others signed


def test_a_strangers_run_is_listed_and_not_loaded(
    stranger: Store, store: Store, tmp_path: Path, unpickled: list[Any]
) -> None:
    run = a_run(stranger, bomb=Bomb())
    stranger.export(run.id, tmp_path / "run.zip")
    unpickled.clear()
    assert not store.import_(tmp_path / "run.zip").trusted
    assert [(found.id, found.trusted) for found in store.runs()] == [(run.id, False)]
    for step in store.steps(run.id):
        assert not step.trusted
        with pytest.raises(Untrusted):
            store.restore(step.checkpoint)
    assert {problem.kind for problem in verify(store).problems} == {"untrusted"}
    assert unpickled == []
    assert not Path("pwned").exists()


@pytest.mark.parametrize("how", ["import --trust", "trust", "import, then import --trust"])
def test_trusting_it_makes_it_ones_own(
    stranger: Store, store: Store, tmp_path: Path, how: str, unpickled: list[Any]
) -> None:
    run = a_run(stranger)
    stranger.update_run(run.id, status="running")
    stranger.export(run.id, tmp_path / "run.zip")
    unpickled.clear()
    if how != "import --trust":
        store.import_(tmp_path / "run.zip")
    if how == "trust":
        told = store.trust(run.id)
        assert (told.runs, told.steps, len(told.checkpoints)) == (1, 2, 2)
        assert set(told.names) == {"data", "text", "other"}
    else:
        assert store.import_(tmp_path / "run.zip", trust=True).trusted
    assert unpickled == [], "trusting is not loading"
    assert np.array_equal(values_of(store, run.id)["data"], DATA)
    found = store.run(run.id)
    assert (found.trusted, found.status, found.owner) == (True, "interrupted", None), "nobody runs it here"
    assert verify(store).problems == ()


def test_a_single_checkpoint_can_be_trusted(stranger: Store, store: Store, tmp_path: Path) -> None:
    run = a_run(stranger)
    stranger.export(run.id, tmp_path / "run.zip")
    store.import_(tmp_path / "run.zip")
    first, second = (step.checkpoint for step in store.steps(run.id))
    assert store.trust(first).checkpoints == (first,)
    assert store.restore(first)["text"] == "hello"
    with pytest.raises(Untrusted):
        store.restore(second)
    assert store.trust(first).checkpoints == (), "nothing left to trust"
    with pytest.raises(NotFound):
        store.trust("nothing")


def test_what_is_damaged_is_not_trusted(stranger: Store, store: Store, tmp_path: Path) -> None:
    run = a_run(stranger)
    stranger.export(run.id, tmp_path / "run.zip")
    store.import_(tmp_path / "run.zip")
    store.backend.delete_chunk(next(name for name, _, _ in store.backend.scan_chunks()))
    with pytest.raises(StoreDamaged):
        store.trust(run.id)
    assert not store.run(run.id).trusted


def test_a_planted_record_is_not_trusted_in_place_of_the_archives(
    stranger: Store, store: Store, tmp_path: Path
) -> None:
    """Somebody got a record into the store before; the user then trusts an archive that has another of that key."""
    run = a_run(stranger)
    stranger.export(run.id, tmp_path / "run.zip")
    step = stranger.steps(run.id)[0]
    planted = replace(stranger.checkpoint(step.checkpoint), source="evil()")
    store.backend.put(f"checkpoint/{step.checkpoint}", planted.to_json())
    report = store.import_(tmp_path / "run.zip", trust=True)
    assert not report.trusted
    assert any(step.checkpoint in note for note in report.notes)
    assert not store.checkpoint(step.checkpoint).trusted


# Malice

Members = dict[str, bytes]


@pytest.fixture
def members(tmp_path: Path) -> Members:
    """A good archive, taken apart."""
    with open_store("memory://") as store:
        store.export(a_run(store).id, tmp_path / "good.zip")
    with zipfile.ZipFile(tmp_path / "good.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Members, path: Path, **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def refused(path: Path, store: Store, match: str = "not imported") -> None:
    _seen.clear()
    around = set(path.parent.rglob("*"))
    with pytest.raises(StoreDamaged, match=match):
        store.import_(path, trust=True)
    assert _seen == []
    assert store.runs() == []
    assert store.backend.scan("checkpoint/") == []
    inside = (path.parent / "store", path.parent / "other")
    new = {p for p in set(path.parent.rglob("*")) - around if not any(p.is_relative_to(i) for i in inside)}
    assert not new, "something was written outside the store"


def edited(members: Members, number: int, change: Callable[[dict[str, Any]], None]) -> Members:
    name = f"records/{number:06d}.json"
    record = json.loads(members[name])
    change(record)
    return {**members, name: json.dumps(record).encode()}


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/evil",
        "chunks/../../evil",
        "chunks/" + "A" * 64,
        "chunks/" + "a" * 63,
        "chunks/" + "a" * 64 + "/x",
        "chunks/" + "a" * 64 + "\n",
        "records/../000000.json",
        "records/000000.pickle",
        "records\\000000.json",
        "C:\\evil",
        "evil.py",
        "chunks/",
    ],
)
def test_names_that_are_none_of_ours_are_refused(members: Members, store: Store, tmp_path: Path, name: str) -> None:
    refused(packed({**members, name: b"evil"}, tmp_path / "bad.zip"), store)


def test_a_name_that_hides_behind_a_nul_is_refused(members: Members, store: Store, tmp_path: Path) -> None:
    path = packed({**members, "chunks/" + "a" * 64 + "XX": b"evil"}, tmp_path / "bad.zip")
    path.write_bytes(path.read_bytes().replace(b"a" * 64 + b"XX", b"a" * 64 + b"\0X"))
    refused(path, store)


def test_a_chunk_that_is_not_what_its_name_says_is_refused(members: Members, store: Store, tmp_path: Path) -> None:
    for name in [name for name in members if name.startswith("chunks/")]:
        evil = {**members, name: pickle.dumps(Bomb())}
        refused(packed(evil, tmp_path / "bad.zip"), store, "not what its name says")
    assert not Path("pwned").exists()


def test_a_planted_pickle_is_not_loaded_even_with_the_right_digest(
    members: Members, store: Store, tmp_path: Path, unpickled: list[Any]
) -> None:
    """A record of ours, changed to name a planted stream, has lost its seal."""
    evil = pickle.dumps(Bomb())
    name = blake3(evil).hexdigest()

    def plant(record: dict[str, Any]) -> None:
        record["body"]["stream"] = {"size": len(evil), "chunks": [name], "chunk_size": 1 << 20}
        record["body"]["buffers"] = []

    numbers = [n for n in range(5) if json.loads(members[f"records/{n:06d}.json"])["key"].startswith("checkpoint/")]
    manifest = json.loads(members["manifest.json"])
    manifest["chunks"] += 1
    changed = {**members, f"chunks/{name}": evil, "manifest.json": json.dumps(manifest).encode()}
    for number in numbers:
        changed = edited(changed, number, plant)
    unpickled.clear()
    assert not store.import_(packed(changed, tmp_path / "bad.zip")).trusted
    for entry in store.backend.scan("checkpoint/"):
        with pytest.raises(Untrusted):
            store.restore(entry.key.partition("/")[2])
    assert unpickled == []
    assert not Path("pwned").exists()


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(members: Members, store: Store, tmp_path: Path, keep: float) -> None:
    path = packed(members, tmp_path / "bad.zip")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    refused(path, store)


def test_bytes_flipped_anywhere_never_get_a_wrong_record_in(members: Members, store: Store, tmp_path: Path) -> None:
    """Whatever is let in is exactly what was sent, or untrusted."""
    path = packed(members, tmp_path / "bad.zip")
    good = path.read_bytes()
    for at in range(0, len(good), max(1, len(good) // 150)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :])
        with open_store("memory://") as fresh:
            try:
                fresh.import_(path)
            except (StoreDamaged, StoreTooNew):
                assert fresh.runs() == []
                continue
            assert all(problem.kind == "untrusted" for problem in verify(fresh).problems)


def test_something_compressed_is_refused(members: Members, store: Store, tmp_path: Path) -> None:
    path = packed({**members}, tmp_path / "bad.zip", compression=zipfile.ZIP_DEFLATED)
    refused(path, store, "something in it is compressed")


@pytest.mark.parametrize("size", [MAX_CHUNK + 1, 0xFFFFFFF0])
def test_huge_declared_sizes_are_refused_before_anything_is_read(
    members: Members, store: Store, tmp_path: Path, size: int
) -> None:
    path = packed(members, tmp_path / "bad.zip")
    data = bytearray(path.read_bytes())
    name = next(name for name in members if name.startswith("chunks/")).encode()
    at = data.rindex(name) - 46  # its entry in the central directory
    data[at + 20 : at + 28] = struct.pack("<II", size, size)
    path.write_bytes(data)
    refused(path, store)


def test_members_that_overlap_are_refused(members: Members, store: Store, tmp_path: Path) -> None:
    """The same bytes counted many times: a small file that claims to be a large one."""
    path = packed(members, tmp_path / "bad.zip")
    data = bytearray(path.read_bytes())
    largest = max(len(value) for value in members.values())
    at = 0
    while (at := data.find(b"PK\x01\x02", at)) >= 0:
        data[at + 20 : at + 28] = struct.pack("<II", largest, largest)
        at += 46
    path.write_bytes(data)
    refused(path, store)


def test_duplicate_names_are_refused(members: Members, store: Store, tmp_path: Path) -> None:
    for name in ("manifest.json", "records/000000.json", next(n for n in members if n.startswith("chunks/"))):
        path = packed(members, tmp_path / "bad.zip")
        with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(name, members[name])
        refused(path, store, "twice")


@pytest.mark.parametrize(
    "key",
    [
        "run/../../evil",
        "run/another",
        "step/another/000000",
        "step/../x",
        "format",
        "upkeep",
        "quarantine/x/y",
        "checkpoint/",
        "checkpoint/.",
        "checkpoint/a\\b",
        "checkpoint/a\nb",
        "",
        "x" * 1000,
    ],
)
def test_records_that_do_not_belong_to_the_run_are_refused(
    members: Members, store: Store, tmp_path: Path, key: str
) -> None:
    refused(packed(edited(members, 1, lambda r: r.update(key=key)), tmp_path / "bad.zip"), store)


def test_a_record_under_another_ones_key_is_refused(members: Members, store: Store, tmp_path: Path) -> None:
    other = json.loads(members["records/000001.json"])["key"][:-1] + "7"
    refused(packed(edited(members, 1, lambda r: r.update(key=other)), tmp_path / "bad.zip"), store, "something else")


@pytest.mark.parametrize("body", [None, [], "text", {"id": 1}, {}])
def test_bodies_that_are_no_records_are_refused(members: Members, store: Store, tmp_path: Path, body: Any) -> None:
    refused(packed(edited(members, 0, lambda r: r.update(body=body)), tmp_path / "bad.zip"), store)


@pytest.mark.parametrize("names", [{"index": "../../etc/passwd"}, {"chunks": ["../x"]}, {"index": "e" * 64}])
def test_blobs_that_name_no_chunk_are_refused(
    members: Members, store: Store, tmp_path: Path, names: dict[str, Any]
) -> None:
    number = max(n for n in range(5) if f"records/{n:06d}.json" in members)
    blob = {"size": 10_000, "chunk_size": 1 << 20, **names}
    refused(packed(edited(members, number, lambda r: r["body"].update(stream=blob)), tmp_path / "bad.zip"), store)


def test_a_missing_chunk_is_refused(members: Members, store: Store, tmp_path: Path) -> None:
    name = next(name for name in members if name.startswith("chunks/"))
    manifest = json.loads(members["manifest.json"])
    manifest["chunks"] -= 1
    left = {**members, "manifest.json": json.dumps(manifest).encode()}
    del left[name]
    refused(packed(left, tmp_path / "bad.zip"), store, "missing")


@pytest.mark.parametrize(
    "manifest", [b"", b"{}", b"[]", b'{"kind": "cake"}', b"\xff", b'{"kind":' * 5000, json.dumps({"kind": 1}).encode()]
)
def test_a_manifest_that_makes_no_sense_is_refused(
    members: Members, store: Store, tmp_path: Path, manifest: bytes
) -> None:
    refused(packed({**members, "manifest.json": manifest}, tmp_path / "bad.zip"), store)


def test_what_is_no_archive_or_not_there_says_so(store: Store, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("not a zip")
    refused(tmp_path / "text.zip", store, "no archive")
    with pytest.raises(NotFound):
        store.import_(tmp_path / "nothing.zip")
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    (tmp_path / "empty.zip").write_bytes(buffer.getvalue())
    refused(tmp_path / "empty.zip", store)


def test_an_archive_of_a_later_version_says_which(members: Members, store: Store, tmp_path: Path) -> None:
    manifest = {**json.loads(members["manifest.json"]), "format": FORMAT + 1}
    path = packed({**members, "manifest.json": json.dumps(manifest).encode()}, tmp_path / "later.zip")
    with pytest.raises(StoreTooNew, match=str(FORMAT + 1)):
        store.import_(path)


def test_an_import_killed_anywhere_is_finished_by_the_next(members: Members, tmp_path: Path) -> None:
    path, rounds = packed(members, tmp_path / "run.zip"), 0
    while True:
        with open_store("memory://") as store:
            inner = store.backend
            store.backend = Crashing(inner, rounds)  # type: ignore[assignment]
            try:
                store.import_(path)
                survived = True
            except Crash:
                survived = False
            store.backend = inner
            assert verify(store).clean, "what is listed is whole"
            assert store.import_(path).trusted
            assert len(values_of(store, store.runs()[0].id)) == 3
        if survived:
            break
        rounds += 1
    assert rounds >= 10


# Copies


def test_a_copy_has_everything(store: Store, other: Store, tmp_path: Path) -> None:
    """000-19."""
    runs = [a_run(store), a_run(store, third=3)]
    url = str(tmp_path / "copy")
    done: list[tuple[int, int]] = []
    report = store.copy_to(url, progress=lambda *at: done.append(at))
    assert done[-1] == (4, 4)
    assert (report.records, report.notes) == (10, ())
    again = store.copy_to(url)
    assert (again.records, again.chunks, again.bytes) == (0, 0, 0)
    with open_store(url) as copy:
        assert [run.id for run in copy.runs()] == [run.id for run in store.runs()]
        assert values_of(copy, runs[1].id)["third"] == 3
        assert chunk_count(copy) == chunk_count(store)
        assert verify(copy).problems == ()
        copy.note(runs[0].id, "noted there")
        copy.update_run(runs[0].id, status="failed")
    store.note(runs[1].id, "noted here")
    store.copy_to(url)
    with open_store(url) as copy:
        assert copy.run(runs[0].id).status == "failed", "what was changed there later stays"
        assert copy.run(runs[1].id).note == "noted here"


def test_a_copy_goes_on_where_it_was_stopped(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_run(store)
    inner, rounds = store.backend, 0
    while True:
        url = f"memory://copy-{tmp_path}-{rounds}"
        store.backend = Crashing(inner, rounds)  # type: ignore[assignment]
        try:
            store.copy_to(url)
            survived = True
        except Crash:
            survived = False
        store.backend = inner
        with open_store(url) as half:
            assert verify(half).clean
            for run in half.runs():
                values_of(half, run.id)
        store.copy_to(url)
        with open_store(url) as copy:
            assert {e.key: e.value for e in copy.backend.scan()} == {e.key: e.value for e in store.backend.scan()}
        if survived:
            break
        rounds += 1
    assert rounds > 5


def test_what_cannot_be_read_is_told_and_the_rest_copied(store: Store, tmp_path: Path) -> None:
    run = a_run(store)
    store.backend.put("checkpoint/broken", b"?")
    lost = store.save(draft(code="e" * 64), {"x": b"?" * 10_000}).checkpoint
    assert lost.stream is not None
    store.backend.delete_chunk(lost.stream.chunks[0])
    report = store.copy_to(str(tmp_path / "copy"))
    assert len(report.notes) == 2
    with open_store(tmp_path / "copy") as copy:
        assert values_of(copy, run.id)["text"] == "hello"
        assert verify(copy).problems == ()


# Encrypted stores


def test_an_encrypted_run_travels_encrypted_and_only_for_its_user(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    with open_store(tmp_path / "secret", encrypt=True) as secret:
        run = a_run(secret, word="hush" * 10_000)
        secret.export(run.id, tmp_path / "run.zip")
        secret.copy_to(str(tmp_path / "copy"))
        open_store(tmp_path / "open").close()
        with pytest.raises(UsageError):
            secret.copy_to(str(tmp_path / "open"))
    for file in (tmp_path / "run.zip", *(tmp_path / "copy").rglob("*")):
        assert b"hushhush" not in (file.read_bytes() if file.is_file() else b"")
    for place in ("back", "copy"):
        with open_store(tmp_path / place, encrypt=True) as back:
            back.import_(tmp_path / "run.zip")
            assert values_of(back, run.id)["word"] == "hush" * 10_000
            assert verify(back).problems == ()
            back.prune(grace_seconds=0)
            assert values_of(back, run.id)["word"] == "hush" * 10_000
    with pytest.raises(Untrusted):
        store.import_(tmp_path / "run.zip")
    assert store.runs() == []


def test_what_is_in_quarantine_keeps_its_chunks_also_when_encrypted(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    with open_store(tmp_path / "secret", encrypt=True) as secret:
        kept = secret.save(draft(), {"x": os.urandom(50_000), "y": np.arange(10_000)}).checkpoint
        assert kept.stream is not None
        secret.backend.delete_chunk(kept.stream.chunks[0])
        assert verify(secret, repair=True).clean
        left = chunk_count(secret)
        assert left > 0
        assert secret.prune(grace_seconds=0).chunks == 0
        assert chunk_count(secret) == left

"""The store over memory: what it promises whatever the backend."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbcheckpoint import config
from nbcheckpoint.codec.pickle import Reference
from nbcheckpoint.errors import NotFound, StoreDamaged, StoreError, StoreFull, StoreTooNew, Untrusted, UsageError
from nbcheckpoint.events import subscribe
from nbcheckpoint.model import FORMAT, Checkpoint, Owner
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.liveness import is_alive, this_process


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


def draft(**fields: Any) -> Checkpoint:
    given: dict[str, Any] = {"code": "c" * 64, "inputs_digest": "i" * 64, "run": "r", "step": "0", **fields}
    return Checkpoint(id="", created="", **given)


def test_what_is_saved_comes_back(store: Store) -> None:
    values = {"x": 1, "array": np.arange(1e6), "text": "hello"}
    saved = store.save(draft(), values, outputs=[{"output_type": "stream", "name": "stdout", "text": "hi"}])
    found = store.find("c" * 64, "i" * 64)
    assert [checkpoint.id for checkpoint in found] == [saved.checkpoint.id]
    back = store.restore(found[0].id)
    assert back["x"] == 1
    assert np.array_equal(back["array"], values["array"])
    assert store.outputs(found[0])[0]["text"] == "hi"
    assert store.restore(found[0].id, ["text"]) == {"text": "hello"}
    with pytest.raises(NotFound):
        store.restore(found[0].id, ["nothing"])
    assert {value.name: value.type for value in found[0].values} == {
        "x": "int",
        "array": "numpy.ndarray",
        "text": "str",
    }


def test_the_newest_comes_first_and_other_code_is_not_found(store: Store) -> None:
    ids = [store.save(draft(), {"x": n}).checkpoint.id for n in range(3)]
    store.save(draft(code="d" * 64), {"x": 9})
    store.save(draft(inputs_digest="j" * 64), {"x": 8})
    assert {c.id for c in store.find("c" * 64, "i" * 64)} == set(ids)
    assert len(store.find("c" * 64)) == 4
    assert store.find("e" * 64) == []


def test_stored_values_are_not_the_live_ones(store: Store) -> None:
    live = [1]
    id = store.save(draft(), {"x": live}).checkpoint.id
    live.append(2)
    back = store.restore(id)["x"]
    back.append(3)
    assert store.restore(id)["x"] == [1]


def test_a_reference_is_loaded_from_where_it_points(store: Store) -> None:
    frame = {"big": list(range(1000))}
    first = store.save(draft(), {"frame": frame}).checkpoint
    box, other = {"data": frame}, [frame]
    refs = {id(frame): Reference(first.id, "frame")}
    second = store.save(draft(code="d" * 64), {"box": box, "other": other}, references=refs).checkpoint
    assert second.needs == (first.id,)
    back = store.restore(second.id)
    assert back["box"]["data"] is back["other"][0]
    assert back["box"]["data"] == frame
    live = object()
    assert store.restore(second.id, resolve=lambda ref: live)["box"]["data"] is live


def test_a_failed_save_is_told_and_does_not_spoil_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    stop = subscribe(lambda event: told.append(event.type))
    real = store.backend.put

    def full(*args: Any, **kwargs: Any) -> str:
        raise StoreFull("no space")

    monkeypatch.setattr(store.backend, "put", full)
    failed = store.save(draft(), {"x": 1}, wait=False)
    assert isinstance(failed.done.exception(), StoreFull)
    monkeypatch.setattr(store.backend, "put", real)
    saved = store.save(draft(), {"x": 2})
    stop()
    assert told == ["checkpoint_failed", "checkpoint_saved"]
    assert [c.id for c in store.find("c" * 64)] == [saved.checkpoint.id]


def test_a_listener_that_raises_disturbs_nobody(store: Store) -> None:
    told: list[str] = []
    stops = [subscribe(lambda event: 1 / 0), subscribe(lambda event: told.append(event.type))]
    store.save(draft(), {"x": 1})
    for stop in stops:
        stop()
    store.save(draft(), {"x": 1})
    assert told == ["checkpoint_saved"]


def test_runs_newest_first_with_paging(store: Store) -> None:
    ids = [store.begin_run(f"nb{n % 2}.ipynb").id for n in range(6)]
    newest = sorted(ids, reverse=True)
    assert [run.id for run in store.runs()] == newest
    assert [run.id for run in store.runs(limit=2)] == newest[:2]
    assert [run.id for run in store.runs(limit=2, before=newest[1])] == newest[2:4]
    assert len(store.runs(workflow="nb0.ipynb")) == 3
    assert store.runs(status="completed") == []
    with pytest.raises(NotFound):
        store.run("nothing")


def test_a_second_listing_sees_what_changed_since_the_first(store: Store) -> None:
    runs = [store.begin_run(f"{n}.ipynb") for n in range(5)]
    assert [run.note for run in store.runs()] == [""] * 5
    store.update_run(runs[1].id, note="changed")
    store.backend.delete(f"run/{runs[2].id}")
    new = store.begin_run("new.ipynb")
    assert {run.id for run in store.runs()} == {run.id for run in runs} - {runs[2].id} | {new.id}
    assert [run.note for run in store.runs() if run.note] == ["changed"]


def test_a_run_forged_after_it_was_listed_is_not_believed(store: Store) -> None:
    run = store.begin_run("a.ipynb")
    assert store.runs()[0].trusted
    sealed = store.backend.get(f"run/{run.id}").value  # type: ignore[union-attr]
    store.backend.put(f"run/{run.id}", sealed.replace(b"a.ipynb", b"b.ipynb"))
    assert [(run.workflow, run.trusted) for run in store.runs()] == [("b.ipynb", False)]


def test_a_listing_of_everything_reads_each_record_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        store.begin_run(f"{n}.ipynb")
    first = store.runs()
    monkeypatch.setattr(store.backend, "scan", lambda *_, **__: pytest.fail("read again"))
    assert store.runs() == first
    assert store.runs(status="completed") == []


@pytest.mark.parametrize("encrypt", [False, True])
def test_runs_of_one_workflow_whatever_its_name(encrypt: bool) -> None:
    names = ["a", "ä/\u2603.ipynb", 'a "quoted" \\ one', "a\nb", "\U0001f600"]
    with open_store("memory://", encrypt=encrypt) as store:
        for name in names:
            store.begin_run(name, meta={"mentions": names})
        for name in names:
            assert [run.workflow for run in store.runs(workflow=name)] == [name]


def test_a_run_whose_process_is_gone_is_interrupted(store: Store) -> None:
    run = store.begin_run("nb.ipynb")
    assert store.run(run.id).status == "running"
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    me = this_process()
    dead = Owner(host=me.host, pid=gone, started="1", boot=me.boot)
    store.update_run(run.id, owner=dead)
    assert store.run(run.id).status == "interrupted"
    assert store.runs(status="interrupted")[0].id == run.id


def test_liveness_is_only_denied_where_it_is_certain() -> None:
    me = this_process()
    assert is_alive(me)
    assert is_alive(Owner(host="elsewhere", pid=1, started="1", boot="x"))
    assert not is_alive(Owner(host=me.host, pid=me.pid, started="1", boot=me.boot)), "a recycled pid is not it"
    assert not is_alive(Owner(host=me.host, pid=me.pid, started=me.started, boot="before the reboot"))


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("pwned",))


_heard: list[list[Any]] = []


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        for seen in _heard:
            seen.append(args)


sys.addaudithook(_hear)


def test_the_alarm_works(store: Store, unpickled: list[Any]) -> None:
    store.restore(store.save(draft(), {"x": Bomb()}).checkpoint.id)
    assert unpickled
    assert Path("pwned").exists()


@pytest.fixture
def unpickled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """What has been unpickled: Python itself reports every class and function a pickle asks for."""
    monkeypatch.chdir(tmp_path)
    seen: list[Any] = []
    _heard.append(seen)
    yield seen
    _heard.remove(seen)


def tampered(store: Store, id: str, change: Any) -> None:
    key = f"checkpoint/{id}"
    found = store.backend.get(key)
    assert found is not None
    store.backend.put(key, change(found.value))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda sealed: sealed.replace(b'"seconds":2.0', b'"seconds":3.0'), id="altered"),
        pytest.param(lambda sealed: sealed.rpartition(b"\n")[0], id="unsigned"),
        pytest.param(lambda sealed: sealed[:-1] + (b"0" if sealed[-1:] != b"0" else b"1"), id="another tag"),
    ],
)
def test_a_tampered_checkpoint_is_listed_but_never_loaded(store: Store, change: Any, unpickled: list[Any]) -> None:
    """003-4."""
    id = store.save(draft(seconds=2.0), {"x": Bomb()}).checkpoint.id
    tampered(store, id, change)
    assert not store.checkpoint(id).trusted
    assert store.find("c" * 64) == []
    with pytest.raises(Untrusted):
        store.restore(id)
    assert unpickled == []
    assert not Path("pwned").exists()


def test_a_moved_checkpoint_is_untrusted(store: Store, unpickled: list[Any]) -> None:
    id = store.save(draft(), {"x": 1}).checkpoint.id
    found = store.backend.get(f"checkpoint/{id}")
    assert found is not None
    moved = id[:-1] + ("1" if id.endswith("0") else "0")
    store.backend.put(f"checkpoint/{moved}", found.value)
    with pytest.raises(Untrusted):
        store.restore(moved)
    assert unpickled == []


def test_somebody_elses_checkpoint_is_untrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpickled: list[Any]
) -> None:
    with open_store("memory://shared-with-others") as theirs:
        id = theirs.save(draft(), {"x": Bomb()}).checkpoint.id
        monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "me"))
        with open_store("memory://shared-with-others") as mine:
            assert not mine.checkpoint(id).trusted
            with pytest.raises(Untrusted):
                mine.restore(id)
    assert unpickled == []


def test_a_swapped_stream_is_noticed_before_it_is_unpickled(store: Store, unpickled: list[Any]) -> None:
    id = store.save(draft(), {"x": "y" * 10_000}).checkpoint.id
    stream = store.checkpoint(id).stream
    assert stream is not None
    evil = pickle.dumps(Bomb())
    store.backend._shelf.chunks[stream.chunks[0]] = (evil, 0.0)  # type: ignore[attr-defined]
    with pytest.raises(StoreDamaged):
        store.restore(id)
    assert unpickled == []


def test_a_later_format_is_told_apart(store: Store) -> None:
    """003-7."""
    id = store.save(draft(format=FORMAT + 1), {"x": 1}).checkpoint.id
    with pytest.raises(StoreTooNew, match=str(FORMAT + 1)) as raised:
        store.checkpoint(id)
    assert "upgrade" in raised.value.hint


def test_an_encrypted_store_holds_nothing_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "correct horse battery staple"
    array = np.frombuffer(secret.encode() * 100_000, dtype="u1").copy()
    with open_store(tmp_path / "store", encrypt=True) as store:
        run = store.begin_run(f"{secret}.ipynb")
        id = store.save(
            draft(source=secret), {"x": secret * 1000, "a": array}, outputs=[{"text": secret}]
        ).checkpoint.id
        written = store.save(draft(source=secret), {"x": secret * 1000, "a": array}).checkpoint.bytes
        assert written == 0, "equal bytes are still stored once"
    stored = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert len(stored) > array.nbytes
    assert b"horse" not in stored
    with open_store(tmp_path / "store") as store:
        back = store.restore(id)
        assert back["x"] == secret * 1000
        back["a"][0] = 0
        assert store.run(run.id).workflow.startswith(secret)
    key = config.data_dir() / "nbcheckpoint" / "encryption_key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.rename(tmp_path / "kept")
    with pytest.raises(StoreError, match="your encryption key is not here"):
        open_store(tmp_path / "store")
    assert not key.exists(), "a new key could not open it anyway"
    config.encryption_key(create=True)
    with open_store(tmp_path / "store") as store, pytest.raises(StoreDamaged, match="decrypted"):
        store.restore(id)


def test_a_missing_store_and_an_unknown_scheme_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store"):
        open_store(tmp_path / "none", create=False)
    with pytest.raises(UsageError, match="gopher"):
        open_store("gopher://x")


def test_the_key_is_private_and_the_same_for_everyone_who_asks_at_once(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        key = config.signing_key()
    finally:
        os.umask(old)
    path = config.data_dir() / "nbcheckpoint" / "signing_key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert config.signing_key() == key
    code = "from nbcheckpoint.config import signing_key; print(signing_key().hex())"
    import subprocess

    env = {**os.environ, "JUPYTER_DATA_DIR": str(tmp_path / "new")}
    racing = [subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) for _ in range(4)]
    assert len({process.communicate()[0] for process in racing}) == 1


def test_the_store_is_found_like_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """000-16."""
    deep = tmp_path / "project" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").touch()
    assert config.store_location(start=deep) == str(tmp_path / "project" / ".nbcheckpoint")
    (tmp_path / "project" / "a" / ".nbcheckpoint").mkdir()
    assert config.store_location(start=deep) == str(tmp_path / "project" / "a" / ".nbcheckpoint")
    monkeypatch.setenv("NBCHECKPOINT_STORE", "memory://env")
    assert config.store_location(start=deep) == "memory://env"
    assert config.store_location("memory://argument", start=deep) == "memory://argument"

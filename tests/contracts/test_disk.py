"""What the embedded store promises beyond the contract: about its folder, about damage, and about strangers' hands."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import diskcache
import pytest

from nbcheckpoint import errors
from nbcheckpoint.backend import disk_chunks, disk_index, disk_place, disk_rows, disk_stage
from nbcheckpoint.backend.disk import SETTINGS, DiskBackend, TextAndBytes
from nbcheckpoint.testing import chunk

BIG = 300_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def backend(folder: Path) -> Iterator[DiskBackend]:
    backend = DiskBackend(folder)
    yield backend
    try:
        backend.close()
    except errors.Error:
        pass  # some tests leave nothing that could be closed


def sql(folder: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    """As somebody else with write access would."""
    with sqlite3.connect(folder / "cache.db") as con:
        rows = con.execute(statement, values).fetchall()
    con.close()
    return rows


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def put_big(backend: DiskBackend, seed: int = 2) -> tuple[str, bytes]:
    name, data = chunk(seed, BIG)
    backend.put_chunk(name, data)
    backend.sync()
    return name, data


def the_pack(folder: Path) -> Path:
    (pack,) = folder.glob("??/*.pack")
    return pack


def flip_a_bit(path: Path, where: int) -> None:
    with path.open("r+b") as file:
        file.seek(where)
        (byte,) = file.read(1)
        file.seek(where)
        file.write(bytes([byte ^ 1]))


class TestFolder:
    def test_only_the_owner_may_enter_whatever_the_umask(self, folder: Path) -> None:
        before = os.umask(0)
        try:
            backend = DiskBackend(folder)
            put_big(backend)
            backend.put("a", b"1")
        finally:
            os.umask(before)
        modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in [folder, *folder.rglob("*")]}
        assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
        assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}, modes
        backend.close()

    def test_an_umask_that_takes_everything_away_does_no_harm(self, folder: Path) -> None:
        before = os.umask(0o777)
        try:
            backend = DiskBackend(folder)
            name, data = put_big(backend)
        finally:
            os.umask(before)
        assert backend.read_chunk(name) == data
        assert stat.S_IMODE(the_pack(folder).stat().st_mode) == 0o600
        backend.close()

    def test_it_stays_out_of_version_control_and_backups(self, backend: DiskBackend, folder: Path) -> None:
        assert (folder / ".gitignore").read_text() == "*\n"
        assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")

    @pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}"])
    def test_it_opens_by_path_and_by_url(self, tmp_path: Path, form: str) -> None:
        folder = tmp_path / "with space é"
        backend = DiskBackend.from_url(form.format(str(folder).replace(" ", "%20") if "file" in form else folder))
        backend.put("a", b"1")
        backend.close()
        again = DiskBackend.from_url(backend.url)
        assert again.directory == folder
        assert again.get("a").value == b"1"  # type: ignore[union-attr]
        again.close()

    def test_many_may_create_it_at_once(self, folder: Path) -> None:
        opened: list[DiskBackend] = []
        start = threading.Barrier(6)

        def open_it() -> None:
            start.wait()
            opened.append(DiskBackend(folder))

        threads = [threading.Thread(target=open_it) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 6
        opened[0].put("a", b"1")
        assert all(backend.get("a").value == b"1" for backend in opened)  # type: ignore[union-attr]
        for backend in opened:
            backend.close()
        assert not list(folder.glob(".new-*"))

    def test_a_deleted_store_does_not_take_the_log_of_its_successor_along(self, folder: Path) -> None:
        """SQLite deletes the log by its path when the last connection closes."""
        old = DiskBackend(folder)
        old.put("a", b"old")
        shutil.rmtree(folder)
        new = DiskBackend(folder)
        new.put("a", b"new")
        with pytest.raises(errors.StoreGone):
            old.close()
        del old
        gc.collect()
        new.put("b", b"new")
        shutil.copytree(folder, folder.parent / "killed")  # as it would be found after a crash
        new.close()
        again = DiskBackend(folder.parent / "killed")
        assert [entry.value for entry in again.scan()] == [b"new", b"new"]
        again.close()

    def test_there_is_one_writing_connection_also_when_the_store_is_empty(self, backend: DiskBackend) -> None:
        """diskcache calls an empty cache false; a second connection, forgotten, once cost a log."""
        backend.put("a", b"1")
        index = backend._writer._index
        backend.delete("a")
        backend.put("b", b"2")
        assert backend._writer._index is index

    def test_versions_are_asked_again_after_any_commit(self, backend: DiskBackend, folder: Path) -> None:
        other = DiskBackend(folder)
        for number in range(3):
            for writer in (backend, other):
                version = writer.put("a", b"%d" % number, durable=False)
                for reader in (backend, other):
                    assert reader.versions("a") == reader.versions("a") == [("a", version)]
        if (child := os.fork()) == 0:
            version = backend.put("a", b"child")
            os._exit(0 if backend.versions("a") == [("a", version)] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert backend.versions("a") != [("a", version)]
        other.close()

    def test_every_transaction_counts_whoever_makes_it(self, backend: DiskBackend, folder: Path) -> None:
        other = DiskBackend(folder)
        for number in range(4):
            for each in (backend, backend, other):
                each.put("a", b"%d" % number, durable=number % 2 == 0)
            with pytest.raises(errors.Conflict):
                other.put("a", b"", expect="not this one")
        assert sql(folder, "SELECT value FROM nbcheckpoint WHERE name = 'sequence'") == [(1 + 12,)]
        other.close()

    def test_a_store_without_its_index_is_damaged_not_empty(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"1")
        backend.close()
        for file in folder.glob("cache.db*"):
            file.unlink()
        with pytest.raises(errors.StoreDamaged):
            DiskBackend(folder)

    def test_an_empty_index_is_damaged_not_empty(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"1")
        backend.close()
        for file in folder.glob("cache.db*"):
            file.write_bytes(b"")
        with pytest.raises(errors.StoreDamaged):
            DiskBackend(folder)

    def test_a_newer_format_is_not_touched(self, backend: DiskBackend, folder: Path) -> None:
        backend.close()
        sql(folder, "UPDATE nbcheckpoint SET value = 2 WHERE name = 'format'")
        with pytest.raises(errors.StoreTooNew) as caught:
            DiskBackend(folder)
        assert caught.value.version == 2

    def test_a_network_file_system_is_warned_about(self, backend: DiskBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        assert backend.warnings == []
        monkeypatch.setattr(disk_place, "_file_system", lambda directory: "nfs4")
        assert "network file system" in backend.warnings[0]

    @pytest.mark.parametrize("kind", ["nfs4", "fuse.drive", "fuse.gcsfuse", "fuse.rclone"])
    def test_what_is_mounted_from_elsewhere_is_one_too(
        self, backend: DiskBackend, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        monkeypatch.setattr(disk_place, "_file_system", lambda directory: kind)
        assert f"({kind})" in backend.warnings[0]

    def test_a_forgotten_store_leaks_no_descriptor(self, folder: Path) -> None:
        def use() -> None:
            backend = DiskBackend(folder)
            backend.put("a", b"1")
            backend.map_chunks([put_big(backend)[0]], BIG)
            backend.finish_audit(60)  # its thread keeps the store for the seconds it takes

        use()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            use()
            gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before

    def test_the_reader_of_a_directory_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(errors.StoreError):
            DiskBackend(tmp_path / "file" / "store")


class TestDiskcache:
    def test_its_schema_is_the_one_we_know(self, tmp_path: Path) -> None:
        """We read its tables ourselves; a version that changes them must be noticed here first."""
        diskcache.Cache(str(tmp_path), disk=TextAndBytes, **SETTINGS).close()
        rows = sql(tmp_path, "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        ours = {name: text for name, text in disk_index.SCHEMA.items() if not name.startswith("nbcheckpoint")}
        assert {name: " ".join(str(text).split()) for name, text in rows} == ours

    def test_a_plain_diskcache_can_read_the_records(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"1")
        with diskcache.Cache(str(folder), disk=TextAndBytes) as cache:
            assert cache.get("r/a") == b"1"
        assert backend.get("a").value == b"1"  # type: ignore[union-attr]
        DiskBackend(folder).close()

    def test_rows_are_such_as_it_writes_itself(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"one")
        backend.put("a", b"again")
        backend.put("b", b"gone")
        backend.delete("b")
        put_big(backend)
        found = sql(folder, "SELECT raw, expire_time, access_count, mode FROM Cache ORDER BY key")
        assert found == [(1, None, 0, 2), (1, None, 0, 1)]
        kept = dict(sql(folder, "SELECT key, value FROM Settings WHERE key IN ('count', 'size')"))  # type: ignore[arg-type]
        assert list(kept.items()) == [("count", 2), ("size", BIG)]

    def test_settings_of_another_opener_do_not_evict_what_we_keep(self, backend: DiskBackend, folder: Path) -> None:
        backend.close()
        with diskcache.Cache(
            str(folder), disk=TextAndBytes, size_limit=1, cull_limit=100, eviction_policy="least-recently-used"
        ):
            pass
        again = DiskBackend(folder)
        for number in range(30):
            again.put(f"k/{number}", bytes(1000), durable=False)
        assert len(again.scan("k/")) == 30
        again.close()
        found = dict(sql(folder, "SELECT key, value FROM Settings"))
        assert {key: found[key] for key in SETTINGS} == SETTINGS

    @pytest.mark.parametrize("key", [b"bytes", 1, 1.5, None, ("a",)])
    def test_only_text_is_a_key(self, tmp_path: Path, key: object) -> None:
        with pytest.raises(TypeError):
            TextAndBytes(str(tmp_path)).put(key)

    @pytest.mark.parametrize("value", ["text", 1, 1.5, None, ("a",), bytearray(b"x")])
    def test_only_bytes_are_a_value(self, tmp_path: Path, value: object) -> None:
        with pytest.raises(TypeError):
            TextAndBytes(str(tmp_path)).store(value, False)


class TestPlanted:
    """Rows and files that somebody else put there."""

    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return os.mkdir, (str(TestPlanted.target),)

    target = Path()

    @pytest.fixture(autouse=True)
    def _bomb(self, tmp_path: Path) -> Iterator[None]:
        TestPlanted.target = tmp_path / "exploded"
        yield
        assert not TestPlanted.target.exists(), "a planted pickle was loaded"

    def _plant(self, folder: Path, **columns: object) -> None:
        row = {"raw": 1, "store_time": time.time(), "access_time": 0.0, "tag": None, "size": 0, "mode": 1, **columns}
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        sql(folder, f"INSERT OR REPLACE INTO Cache ({names}) VALUES ({marks})", *row.values())

    def test_a_pickled_record_is_damage(self, backend: DiskBackend, folder: Path) -> None:
        self._plant(folder, key="r/a", mode=4, value=pickle.dumps(self.Bomb()))
        with pytest.raises(errors.StoreDamaged):
            backend.get("a")
        with pytest.raises(errors.StoreDamaged):
            backend.scan()

    def test_a_pickled_key_is_not_even_seen(self, backend: DiskBackend, folder: Path) -> None:
        self._plant(folder, key=pickle.dumps(self.Bomb()), raw=0, value=b"x")
        assert backend.scan() == []
        with diskcache.Cache(str(folder), disk=TextAndBytes) as cache, pytest.raises(errors.StoreDamaged):
            list(cache)

    def test_a_pickled_chunk_is_damage(self, backend: DiskBackend, folder: Path) -> None:
        name, _ = chunk(1, 5)
        self._plant(folder, key="c/" + name, mode=4, value=pickle.dumps(self.Bomb()))
        with pytest.raises(errors.StoreDamaged):
            backend.read_chunk(name)
        with pytest.raises(errors.StoreDamaged):
            backend.map_chunks([name], 5)
        with pytest.raises(errors.StoreDamaged):
            list(backend.scan_chunks())

    @pytest.mark.parametrize(
        "filename", ["../secret", "/etc/passwd", "aa/../../secret", "aa/" + "0" * 32 + ".pack/../../../secret", ""]
    )
    def test_a_name_that_leads_outside_is_neither_read_nor_removed(
        self, backend: DiskBackend, folder: Path, filename: str
    ) -> None:
        secret = folder.parent / "secret"
        secret.write_bytes(b"secret")
        name, _ = chunk(1, 5)
        self._plant_row(folder, name, filename, size=6)
        with pytest.raises(errors.StoreDamaged):
            backend.read_chunk(name)
        with pytest.raises(errors.StoreDamaged):
            backend.map_chunks([name], 6)
        backend.delete_chunk(name)
        backend.sync()
        backend.sweep(0)
        assert secret.read_bytes() == b"secret"

    def _plant_row(self, folder: Path, name: str, filename: str, size: int) -> None:
        """With a valid checksum: that one is against accidents, and anybody can compute it."""
        tag = disk_rows.chunk_tag("c/" + name, size, filename, "pack", "-", 0)
        self._plant(folder, key="c/" + name, mode=2, filename=filename, size=size, tag=tag)

    def test_a_symbolic_link_is_not_followed(self, backend: DiskBackend, folder: Path) -> None:
        name, data = put_big(backend)
        pack = the_pack(folder)
        moved = folder.parent / "elsewhere"
        pack.rename(moved)
        pack.symlink_to(moved)
        for ask in (backend.read_chunk, lambda name: backend.map_chunks([name], BIG)):
            with pytest.raises(errors.StoreDamaged, match="symbolic link"):
                ask(name)
        backend.delete_chunk(name)
        backend.sync()
        assert moved.read_bytes()[:BIG] == data

    def test_nor_is_a_folder_that_is_a_link(self, backend: DiskBackend, folder: Path) -> None:
        name, _ = put_big(backend)
        pack = the_pack(folder)
        moved = folder.parent / "elsewhere"
        pack.parent.rename(moved)
        pack.parent.symlink_to(moved)
        with pytest.raises(errors.StoreDamaged, match="symbolic link"):
            backend.read_chunk(name)
        backend.delete_chunk(name)
        backend.sync()
        assert (moved / pack.name).exists()

    @pytest.mark.parametrize("thing", [os.mkfifo, os.mkdir])
    def test_only_a_regular_file_is_a_pack(
        self, backend: DiskBackend, folder: Path, thing: Callable[[Path], None]
    ) -> None:
        name, _ = put_big(backend)
        pack = the_pack(folder)
        pack.unlink()
        thing(pack)
        with pytest.raises(errors.StoreDamaged):
            backend.read_chunk(name)

    def test_a_foreign_trigger_is_refused(self, backend: DiskBackend, folder: Path) -> None:
        backend.close()
        sql(folder, "CREATE TRIGGER evil AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END")
        with pytest.raises(errors.StoreDamaged, match="evil"):
            DiskBackend(folder)

    def test_hostile_settings_are_not_obeyed(self, backend: DiskBackend, folder: Path) -> None:
        backend.close()
        sql(folder, "INSERT INTO Settings VALUES ('sqlite_writable_schema', 1), ('disk_evil', 1), ('_disk', 'x')")
        again = DiskBackend(folder)
        again.put("a", b"1")
        assert again.get("a").value == b"1"  # type: ignore[union-attr]
        again.close()


class TestDamage:
    @pytest.mark.parametrize(
        "hurt", [Path.unlink, lambda path: os.truncate(path, 0), lambda path: os.truncate(path, 9)]
    )
    def test_a_missing_or_short_pack_is_damage_and_a_new_put_heals_it(
        self, backend: DiskBackend, folder: Path, hurt: Callable[[Path], None]
    ) -> None:
        name, data = put_big(backend)
        hurt(the_pack(folder))
        with pytest.raises(errors.StoreDamaged):
            backend.read_chunk(name)
        with pytest.raises(errors.StoreDamaged):
            backend.map_chunks([name], BIG)
        assert name in backend.damaged
        assert [found for found, problem in backend.verify_chunks() if problem != "orphan"] == [name]
        assert backend.put_chunk(name, data) > 0
        backend.put("record", b"counts on it")
        assert backend.read_chunk(name) == data
        assert not backend.damaged

    def test_a_save_does_not_lean_on_a_chunk_that_is_damaged(self, backend: DiskBackend, folder: Path) -> None:
        """Nobody has read it yet; the fingerprint gives it away."""
        name, data = put_big(backend)
        flip_a_bit(the_pack(folder), 1000)
        assert backend.put_chunk(name, data) == BIG
        backend.sync()
        assert backend.read_chunk(name) == data

    def test_only_the_chunk_that_was_hit_is_damaged(self, backend: DiskBackend, folder: Path) -> None:
        chunks = dict(chunk(seed, BIG) for seed in range(0, 10, 2))
        for name, data in chunks.items():
            backend.put_chunk(name, data)
        backend.sync()
        flip_a_bit(the_pack(folder), 1000)
        bad = []
        for name, data in chunks.items():
            try:
                assert bytes(backend.map_chunks([name], BIG)) == data
            except errors.StoreDamaged:
                bad.append(name)
        assert len(bad) == 1

    def test_repair_takes_a_damaged_chunk_out_and_keeps_its_bytes(self, backend: DiskBackend, folder: Path) -> None:
        name, _ = put_big(backend)
        flip_a_bit(the_pack(folder), 1000)
        assert name in dict(backend.verify_chunks(repair=True))
        assert not backend.has_chunk(name)
        assert (folder / "quarantine" / name).stat().st_size == BIG

    def test_rot_that_the_file_system_does_not_know_of_is_found_in_the_background(
        self, backend: DiskBackend, folder: Path
    ) -> None:
        name, data = put_big(backend)
        flip_a_bit(the_pack(folder), 1000)
        self._pretend_untouched(folder, name)
        told: list[str] = []
        backend.on_damage = lambda what, why: told.append(what)
        assert bytes(backend.map_chunks([name], BIG)) != data  # nobody could know, and it took microseconds
        assert backend.finish_audit(60)
        assert told == [name]
        assert backend.damaged == {name}
        assert backend.put_chunk(name, data) == BIG

    def _pretend_untouched(self, folder: Path, name: str) -> None:
        mark = disk_chunks.fingerprint(the_pack(folder).stat())
        ((filename,),) = sql(folder, "SELECT filename FROM Cache WHERE key = ?", "c/" + name)
        tag = disk_rows.chunk_tag("c/" + name, BIG, str(filename), "pack", mark, 0)
        sql(folder, "UPDATE Cache SET tag = ? WHERE key = ?", tag, "c/" + name)

    def test_a_copied_store_is_read_in_full_once(
        self, backend: DiskBackend, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name, data = put_big(backend)
        backend.close()
        shutil.copytree(folder, folder.parent / "copy")
        for turn in range(3):
            again = DiskBackend(folder.parent / "copy")
            with monkeypatch.context() as patch:
                if turn:
                    patch.setattr(disk_chunks.Chunks, "content", lambda *_: pytest.fail("it was read again"))
                assert bytes(again.map_chunks([name], BIG)) == data
            again._auditor.stop()
            again.close()

    def test_a_changed_record_is_damage(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"one")
        sql(folder, "UPDATE Cache SET value = ? WHERE key = 'r/a'", b"two")
        with pytest.raises(errors.StoreDamaged):
            backend.get("a")

    def test_a_record_moved_to_another_key_is_damage(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"one")
        sql(folder, "UPDATE Cache SET key = 'r/b' WHERE key = 'r/a'")
        with pytest.raises(errors.StoreDamaged):
            backend.get("b")

    def test_a_miss_is_not_believed_from_a_damaged_index(self, backend: DiskBackend, folder: Path) -> None:
        for number in range(200):
            backend.put(f"k/{number}", b"x" * 50, durable=False)
        backend.close()
        _break_the_key_index(folder)
        again = DiskBackend(folder)
        for ask in (lambda: again.get("not there"), lambda: again.scan("k/"), lambda: again.put("new", b"")):
            with pytest.raises(errors.StoreDamaged):
                ask()
        assert again.verify_index()
        with pytest.raises(errors.StoreDamaged):
            again.close()

    def test_a_log_that_lost_its_end_is_told_until_it_is_acknowledged(self, tmp_path: Path, folder: Path) -> None:
        backend = DiskBackend(folder)
        backend.put("early", b"1")
        size = (folder / "cache.db-wal").stat().st_size
        backend.put("late", b"2")
        shutil.copytree(folder, tmp_path / "killed")  # as a killed process leaves it
        backend.close()
        os.truncate(tmp_path / "killed" / "cache.db-wal", size)
        hurt = DiskBackend(tmp_path / "killed")
        assert "1 of" in hurt.damage
        assert hurt.get("early").value == b"1"  # type: ignore[union-attr]
        with pytest.raises(errors.StoreDamaged):
            hurt.get("late")
        for number in range(5):  # new commits do not make it forget
            hurt.put(f"new/{number}", b"")
        hurt.close()
        again = DiskBackend(tmp_path / "killed")
        with pytest.raises(errors.StoreDamaged):
            again.get("late")
        again.acknowledge_damage()
        assert again.get("late") is None
        again.close()
        assert DiskBackend(tmp_path / "killed").get("late") is None

    def test_what_is_whole_is_salvaged_from_a_damaged_index(self, backend: DiskBackend, folder: Path) -> None:
        name, data = put_big(backend)
        for number in range(200):
            backend.put(f"k/{number}", b"x" * 50, durable=False)
        backend.close()
        _break_the_key_index(folder)
        assert DiskBackend.salvage(folder) == (201, 0, True)
        again = DiskBackend(folder)
        assert len(again.scan("k/")) == 200
        assert again.read_chunk(name) == data
        assert again.get("never there") is None
        again.put("new", b"")
        again.close()
        assert list((folder / "quarantine").glob("index-*/cache.db"))

    def test_much_is_salvaged_from_a_file_with_holes(self, backend: DiskBackend, folder: Path) -> None:
        for number in range(500):
            backend.put(f"k/{number}", b"x" * 200, durable=False)
        backend.close()
        size = (folder / "cache.db").stat().st_size
        with (folder / "cache.db").open("r+b") as file:
            file.seek(size // 2 // 4096 * 4096)
            file.write(bytes(2 * 4096))
        kept, lost, is_exact = DiskBackend.salvage(folder)
        assert 300 < kept < 500
        assert (kept + lost, is_exact) == (500, True), "also what could not even be found"
        again = DiskBackend(folder)
        assert all(entry.value == b"x" * 200 for entry in again.scan("k/"))
        again.close()

    def test_a_store_in_use_is_not_salvaged(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"1")
        with pytest.raises(errors.StoreLocked):
            DiskBackend.salvage(folder)
        assert backend.get("a").value == b"1"  # type: ignore[union-attr]

    def test_a_damaged_witness_is_no_witness(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"1")
        backend.close()
        for where in range(0, 128, 3):
            flip_a_bit(folder / "witness", where)
        again = DiskBackend(folder)
        assert not again.damage
        assert again.get("b") is None
        again.close()


def _break_the_key_index(folder: Path) -> None:
    """Change one letter of a key, in the index but not in the table."""
    data = bytearray((folder / "cache.db").read_bytes())
    hits = [i for i in range(len(data)) if data[i : i + 7] == b"r/k/150"]
    assert len(hits) >= 2
    for hit in hits:
        # In an index entry the key is followed by the row's number; in the table by other columns.
        if data[hit + 7 : hit + 8] != b"\x41" and not data[hit + 7 : hit + 40].count(b"x" * 20):
            data[hit + 5] = ord("7")
            break
    (folder / "cache.db").write_bytes(bytes(data))


class TestWaiting:
    def test_a_lock_that_is_not_given_up_is_told_after_a_bounded_wait(self, folder: Path) -> None:
        backend = DiskBackend(folder, wait=0.3)
        backend.put("a", b"1")
        other = sqlite3.connect(folder / "cache.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for step in (lambda: backend.put("a", b"2"), lambda: backend.delete("a"), backend.sync):
            with pytest.raises(errors.StoreLocked):
                step()
        assert backend.get("a").value == b"1"  # type: ignore[union-attr]
        other.execute("ROLLBACK")
        other.close()
        backend.put("a", b"3")
        backend.close()

    def test_a_first_writer_waits_in_bounds_as_well(self, backend: DiskBackend, folder: Path) -> None:
        backend.put("a", b"1")
        sql(folder, "UPDATE Settings SET value = 1 WHERE key = 'cull_limit'")
        other = sqlite3.connect(folder / "cache.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        late = DiskBackend(folder, wait=0.3)
        with pytest.raises(errors.StoreLocked):
            late.put("a", b"2")
        other.execute("ROLLBACK")
        other.close()
        late.put("a", b"2")
        late.close()


class TestPruning:
    def test_the_clock_may_jump_ten_years_and_nothing_is_old(
        self, backend: DiskBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name, _ = put_big(backend)
        real = time.time
        for years in (10, -10):
            monkeypatch.setattr(time, "time", lambda years=years: real() + years * 365 * 86400)
            ((_, _, age),) = backend.scan_chunks()
            assert 0 <= age < 600
            assert backend.delete_chunk(name, min_age=3600) == 0
        assert backend.has_chunk(name)

    def test_putting_a_chunk_again_makes_it_young(self, backend: DiskBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        name, data = put_big(backend)
        real = disk_rows.boot_seconds
        monkeypatch.setattr(disk_rows, "boot_seconds", lambda: real() + 5000)
        assert [age > 4000 for _, _, age in backend.scan_chunks()] == [True]
        backend.put_chunk(name, data)
        backend.sync()
        assert [age < 600 for _, _, age in backend.scan_chunks()] == [True]
        assert backend.delete_chunk(name, min_age=3600) == 0

    def test_a_save_whose_chunk_was_pruned_in_between_is_not_acknowledged(
        self, backend: DiskBackend, folder: Path
    ) -> None:
        name, data = put_big(backend)
        assert backend.put_chunk(name, data) == 0
        pruner = DiskBackend(folder)
        pruner.delete_chunk(name)
        with pytest.raises(errors.StoreError, match="pruned"):
            backend.put("record", b"refers to it")
        assert backend.get("record") is None
        assert backend.put_chunk(name, data) == BIG
        backend.put("record", b"refers to it")
        assert pruner.read_chunk(name) == data
        pruner.close()

    def test_a_pack_goes_with_its_last_chunk(self, backend: DiskBackend, folder: Path) -> None:
        names = [chunk(seed, BIG)[0] for seed in (2, 4)]
        for seed in (2, 4):
            backend.put_chunk(*chunk(seed, BIG))
        backend.sync()
        backend.delete_chunk(names[0])
        backend.sync()
        assert the_pack(folder).exists()
        backend.delete_chunk(names[1])
        backend.sync()
        assert not list(folder.glob("??/*.pack"))

    def test_sweep_removes_what_has_no_row_after_its_grace(self, backend: DiskBackend, folder: Path) -> None:
        put_big(backend)
        stray = folder / "ab" / ("0" * 32 + ".pack")
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(bytes(5000))
        mine = folder / "ab" / "notes.txt"
        mine.write_bytes(b"not ours")
        assert backend.sweep(3600) == 0
        assert [what for what, problem in backend.verify_chunks()] == [f"ab/{stray.name}"]
        assert backend.sweep(0) == 5000
        assert not stray.exists()
        assert mine.exists()
        assert list(backend.verify_chunks()) == []

    def test_a_commit_interrupted_after_it_went_through_keeps_its_packs(
        self, backend: DiskBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C right behind COMMIT: the chunks are still staged, and their rows are there already."""
        name, data = chunk(2, BIG)
        backend.put_chunk(name, data)
        with monkeypatch.context() as patch:
            patch.setattr(disk_stage.Stage, "settle", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                backend.sync()
        other, more = chunk(4, BIG)
        backend.put_chunk(other, more)
        backend.sync()
        assert (backend.read_chunk(name), backend.read_chunk(other)) == (data, more)
        again = DiskBackend(backend.url)
        assert (again.read_chunk(name), again.read_chunk(other)) == (data, more)
        again.close()

    def test_sweep_leaves_alone_what_is_being_saved(self, backend: DiskBackend) -> None:
        name, data = chunk(2, BIG)
        backend.put_chunk(name, data)
        backend.sweep(0)
        backend.put("record", b"")
        assert backend.read_chunk(name) == data

    def test_sweep_moves_the_few_out_of_a_mostly_dead_pack(self, backend: DiskBackend, folder: Path) -> None:
        chunks = [chunk(seed, BIG) for seed in range(0, 20, 2)]
        for name, data in chunks:
            backend.put_chunk(name, data)
        backend.sync()
        old = the_pack(folder)
        (kept, data), *others = chunks
        view = backend.map_chunks([others[0][0]], BIG)
        for name, _ in others:
            backend.delete_chunk(name)
        backend.sync()
        assert backend.sweep(0) >= 9 * BIG
        assert not old.exists()
        assert the_pack(folder).stat().st_size == BIG
        assert backend.read_chunk(kept) == data
        assert bytes(view) == others[0][1]  # mapped buffers stay valid

    def test_a_reserve_that_was_not_whole_is_made_so_again(self, backend: DiskBackend, folder: Path) -> None:
        """On a full disk none of it could be written, and an empty file was then taken for the reserve for ever."""
        backend.close()
        for size in (0, 5000):
            os.truncate(folder / disk_place.RESERVE, size)
            DiskBackend(folder).close()
            assert (folder / disk_place.RESERVE).stat().st_size >= disk_place.RESERVE_BYTES

    def test_a_full_disk_gives_the_space_of_a_failed_save_back(
        self, backend: DiskBackend, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend.put_chunk(*chunk(2, BIG))

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(disk_stage.Packs, "write", refuse)
            with pytest.raises(errors.StoreFull):
                backend.put_chunk(*chunk(4, BIG))
        assert not list(folder.glob("??/*.pack"))
        with pytest.raises(errors.StoreFull):
            backend.put("record", b"counts on the first chunk")
        backend.put("another", b"does not")


class TestForking:
    def test_what_the_parent_staged_is_the_parents(self, backend: DiskBackend) -> None:
        name, data = chunk(2, BIG)
        backend.put_chunk(name, data)
        pid = os.fork()
        if pid == 0:
            try:
                unseen = not backend.has_chunk(name)
                backend.put("child", b"")
                os._exit(0 if unseen and not backend.has_chunk(name) else 1)
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        backend.put("parent", b"")
        assert backend.read_chunk(name) == data
        assert {entry.key for entry in backend.scan()} == {"child", "parent"}

    def test_a_child_may_close_what_it_inherited(self, backend: DiskBackend) -> None:
        backend.put("a", b"1")
        pid = os.fork()
        if pid == 0:
            try:
                backend.put("b", b"2")
                backend.close()
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        backend.put("c", b"3")
        assert [entry.key for entry in backend.scan()] == ["a", "b", "c"]


def test_a_put_that_is_not_durable_waits_for_no_disk(
    backend: DiskBackend, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.put("a", b"1")
    assert sql_setting(backend) == 2
    backend.put("a", b"2", durable=False)
    assert sql_setting(backend) == 1
    backend.put("a", b"3")
    assert sql_setting(backend) == 2


def sql_setting(backend: DiskBackend) -> int:
    """PRAGMA synchronous of the writing connection: 2 fsyncs the log at each commit, 1 does not."""
    index = backend._writer._index
    assert index is not None
    ((level,),) = index.select("PRAGMA synchronous")
    return int(level)


def test_a_message_of_sqlites_that_is_not_text_is_damage(tmp_path: Path) -> None:
    """SQLite quoted a flipped name of the schema in its error; Python raised UnicodeDecodeError instead of that."""
    backend = DiskBackend(tmp_path / "store")
    backend.put("key", b"value")
    backend.close()
    db = tmp_path / "store" / "cache.db"
    data = bytearray(db.read_bytes())
    at = data.index(b"sqlite_autoindex_Settings_1")
    data[at + 15] ^= 0x80
    db.write_bytes(data)
    with pytest.raises(errors.StoreDamaged):
        DiskBackend(tmp_path / "store").get("key")

"""Which files a step is seen to have used."""

from __future__ import annotations

from pathlib import Path

from nbcheckpoint.fingerprint.files import FileWatch


def test_a_store_that_saves_meanwhile_is_no_input_nor_is_its_folder_itself(tmp_path: Path) -> None:
    """Saving a loop's progress syncs the folder, which opens it: and the next run found it changed."""
    store = tmp_path / ".nbcheckpoint"
    store.mkdir()
    (store / "cache.db").touch()
    (tmp_path / ".nbcheckpoint2").touch()
    watch = FileWatch(ignore=[str(store)])
    for path in (store, store / "cache.db", tmp_path / ".nbcheckpoint2"):
        watch.note(str(path), reads=True, writes=False)
    assert [Path(seen.path).name for seen in watch.seen()] == [".nbcheckpoint2"]

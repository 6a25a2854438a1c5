"""Which files a step is seen to have used."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

from nbcheckpoint.fingerprint.files import FileWatch, start, stop


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


def test_a_database_is_the_file_behind_its_uri_and_one_in_memory_is_none(tmp_path: Path) -> None:
    """The store opens its index by a URI while a loop runs: that was taken for a file in the working directory."""
    store = tmp_path / ".nbcheckpoint"
    store.mkdir()
    for path in (store / "cache.db", tmp_path / "user data.db"):
        sqlite3.connect(path).close()
    watch = FileWatch(ignore=[str(store)])
    start(watch)
    try:
        sqlite3.connect(f"file:{store}/cache.db?mode=ro", uri=True).close()
        sqlite3.connect(f"file://{tmp_path}/user%20data.db?mode=ro", uri=True).close()
        sqlite3.connect(":memory:").close()
        sqlite3.connect("file:shared?mode=memory", uri=True).close()
    finally:
        stop(watch)
    assert [Path(seen.path).name for seen in watch.seen()] == ["user data.db"]


def test_a_link_is_copied_as_a_link_while_somebody_watches(tmp_path: Path) -> None:
    """shutil looks up whether `os.stat` can tell of links, and gave up on one it did not know."""
    link, copy = tmp_path / "link", tmp_path / "copy"
    link.symlink_to("nowhere")
    able = [os.supports_follow_symlinks, os.supports_dir_fd, os.supports_fd, os.supports_effective_ids]
    names = ("stat", "lstat", "access")
    before = [getattr(os, name) in found for found in able for name in names]
    watch = FileWatch()
    start(watch)
    try:
        shutil.copy2(link, copy, follow_symlinks=False)
        assert [getattr(os, name) in found for found in able for name in names] == before
    finally:
        stop(watch)
    assert copy.is_symlink()

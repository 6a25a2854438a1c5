"""Arrays come back as they lay in memory, and share it with whom they shared it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbcheckpoint.fingerprint.values import Digester
from nbcheckpoint.model import Checkpoint
from nbcheckpoint.store import open_store

SMALL, LARGE = 6, 40_000
"""Rows of an array that stays in the pickle, and of one that becomes a blob."""


def restored(**values: Any) -> dict[str, Any]:
    draft = Checkpoint(id="", created="", run="", step="", code="0" * 64)
    with open_store("memory://") as store:
        saved = store.save(draft, values).checkpoint
        assert not saved.not_saved, saved.not_saved
        return store.load(saved.id).values


def layouts(rows: int) -> dict[str, Any]:
    a = np.arange(rows * 4.0).reshape(rows, 4)
    cube = a.reshape(rows // 2, 2, 4)
    records = np.zeros(rows, dtype=[("x", "i4"), ("y", "f8")])
    frozen = a.copy()
    frozen.flags.writeable = False
    return {
        "plain": a,
        "every other": a[::2],
        "transposed": a.T,
        "backwards": a[::-1],
        "both": a[::2, ::3],
        "axes swapped": cube.transpose(1, 0, 2),
        "owned in that order": cube.transpose(1, 0, 2).copy(order="K"),
        "fortran": np.asfortranarray(a),
        "broadcast": np.broadcast_to(a[0], (3, 4)),
        "field": records["y"],
        "windows": np.lib.stride_tricks.sliding_window_view(a[:9, 0], 3),
        "empty": a[:0],
        "scalar": np.array(3.0),
        "objects": np.array([[1], None, 3, 4], dtype=object)[::2],
        "frozen": frozen,
        "matrix": np.matrix(a),
    }


@pytest.mark.parametrize("rows", [SMALL, LARGE])
@pytest.mark.parametrize("name", layouts(SMALL))
def test_an_array_keeps_its_layout(rows: int, name: str) -> None:
    array = layouts(rows)[name]
    found = restored(x=array)["x"]
    assert np.array_equal(found, array)
    assert (type(found), found.dtype, found.strides) == (type(array), array.dtype, array.strides)
    assert found.flags.writeable == array.flags.writeable


def test_reshaping_gives_a_copy_where_it_gave_a_copy() -> None:
    """The least program that shows why layout counts."""
    strided = np.arange(16.0).reshape(4, 4)[::2, ::2]
    found = restored(x=strided)["x"]
    found.reshape(-1)[0] = 99
    assert found[0, 0] == 0
    with pytest.raises(AttributeError):
        found.shape = (4,)


@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_views_go_on_sharing(rows: int) -> None:
    a = np.arange(rows * 4.0).reshape(rows, 4)
    windows = np.lib.stride_tricks.sliding_window_view(a[:, 0], 2)
    found = restored(a=a, s=a[::2], t=a.T, back=a[::-1], flat=a.reshape(-1), windows=windows)
    found["t"][0, 0] = 77
    assert {found["a"][0, 0], found["s"][0, 0], found["back"][-1, 0], found["flat"][0]} == {77}
    assert found["windows"][0, 0] == 77
    fortran = np.asfortranarray(a)
    found = restored(f=fortran, row=fortran[1])
    found["row"][0] = 55
    assert found["f"][1, 0] == 55


def test_views_of_objects_and_of_bytes_go_on_sharing() -> None:
    o = np.array([[1], None, 3, 4], dtype=object)
    found = restored(o=o, back=o[::-1], rest=o[1:])
    found["back"][0] = 9
    assert found["o"][3] == found["rest"][2] == 9
    data = bytearray(16)
    found = restored(data=data, floats=np.frombuffer(data, "f8"), bytes=np.frombuffer(data, "u1"))
    found["data"][0] = 7
    assert found["bytes"][0] == 7
    assert found["floats"][0] != 0


@pytest.mark.parametrize("order", [("df", "v"), ("v", "df")])
def test_the_values_of_a_frame_go_on_showing_what_is_written_to_it(order: tuple[str, ...]) -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "y": [1.5, 2.5, 3.5]})
    there = {"df": frame, "v": frame["x"].to_numpy()}
    found = restored(**{name: there[name] for name in order})
    for both in (there, found):
        both["df"].loc[0, "x"] = 99
    assert found["v"].tolist() == there["v"].tolist()


def test_a_frame_that_others_share_is_copied_on_writing_as_before() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]})
    there = {"df": frame, "other": frame.copy(deep=False), "v": frame["x"].to_numpy()}
    found = restored(**there)
    for all_of_them in (there, found):
        all_of_them["df"].loc[0, "x"] = 99
    assert found["v"].tolist() == there["v"].tolist()
    assert found["other"]["x"].tolist() == there["other"]["x"].tolist()


@pytest.mark.parametrize("name", ["head", "tail", "renamed", "reset", "held", "values"])
@pytest.mark.parametrize("written", ["s", "other"])
def test_columns_that_share_memory_are_copied_on_writing_as_before(name: str, written: str) -> None:
    """A column writes its array, and not the block that keeps count of who shares it."""
    there = series_and(name)
    found = restored(**there)
    for both in (there, found):
        target = both[written]["it"] if isinstance(both[written], dict) else both[written]
        if isinstance(target, pd.Series):
            target.iloc[0] = 99
    assert str(found) == str(there)


def series_and(name: str) -> dict[str, Any]:
    s = pd.Series([1.0, 2.0, 3.0])
    made = {"head": s[:2], "tail": s.iloc[1:], "renamed": s.rename("q"), "reset": s.reset_index(drop=True)}
    made |= {"held": {"it": s[:2]}, "values": s.to_numpy()}
    return {"s": s, "other": made[name], "slice": s[2:], "all": s.to_numpy()}


def test_the_values_of_a_column_go_on_showing_what_is_written_to_it() -> None:
    s = pd.Series([1.0, 2.0, 3.0])
    there = {"s": s, "v": s.to_numpy()}
    found = restored(**there)
    for both in (there, found):
        both["s"].iloc[0] = 99
    assert found["v"].tolist() == there["v"].tolist()


def test_a_small_array_that_could_be_resized_still_can() -> None:
    found = restored(x=np.arange(3))
    x = found.pop("x")
    x.resize(5, refcheck=False)
    assert x.tolist() == [0, 1, 2, 0, 0]


def test_what_cannot_be_shared_again_is_not_saved(tmp_path: Any) -> None:
    a = np.arange(4.0)
    mapped = np.memmap(tmp_path / "file", dtype="f8", mode="w+", shape=(4,))
    draft = Checkpoint(id="", created="", run="", step="", code="0" * 64)
    with open_store("memory://") as store:
        lost = store.save(draft, {"a": a, "m": np.ma.masked_array(a, a > 1)}).checkpoint.not_saved
        assert [(item.name, item.why) for item in lost] == [
            ("a", "it shares memory with something else"),
            ("m", "it shares memory with something else"),
        ]
        lost = store.save(draft, {"mapped": mapped, "n": 1}).checkpoint.not_saved
        assert [(item.name, item.why) for item in lost] == [("mapped", "an array mapped to a file it is written to")]
        looked_at = np.memmap(tmp_path / "file", dtype="f8", mode="r", shape=(4,))
        aside = np.memmap(tmp_path / "file", dtype="f8", mode="c", shape=(4,))
        lost = store.save(draft, {"r": looked_at, "part": np.asarray(looked_at)[1:], "c": aside}).checkpoint.not_saved
        assert [(item.name, item.why) for item in lost] == [(name, "a view of a file") for name in ("r", "part", "c")]
        with np.nditer(a.astype("f4"), op_dtypes=["f8"], flags=["buffered"], casting="same_kind") as iterator:
            item = next(iterator)
        lost = store.save(draft, {"item": item}).checkpoint.not_saved
        assert [(item.name, item.why) for item in lost] == [("item", "it lies in the memory of an iterator")]
        twice = (np.asarray(Lent(a)), np.asarray(Lent(a)))
        assert store.save(draft, {"twice": twice}).checkpoint.not_saved[0].why == "two arrays share memory"


class Lent:
    """Something of another library's, whose memory an array is laid over without NumPy knowing whose that is."""

    def __init__(self, array: Any) -> None:
        self.held = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("made", [np.asarray, lambda a: a.view(np.recarray), np.asfortranarray, lambda a: a[::-1]])
@pytest.mark.parametrize("number", ["i4", "O"])
def test_a_row_of_a_structured_array_goes_on_being_a_view_of_it(made: Any, number: str) -> None:
    records = made(np.zeros((2, 3), dtype=[("x", "f8"), ("n", number)]))
    rows = [row for part in records for row in part]
    found = restored(first=rows[1], records=records, rows=rows)
    assert found["rows"][1] is found["first"]
    for n, row in enumerate(found["rows"]):
        assert type(row) is type(rows[n])
        row["n"] = n
    assert [row["n"] for part in found["records"] for row in part] == list(range(6))
    alone = restored(row=rows[0])["row"]
    alone["x"] = 3.0
    assert (alone["x"], rows[0]["x"]) == (3.0, 0.0)


def test_rows_of_a_structured_array_count_as_part_of_it() -> None:
    records = np.zeros(3, dtype="f8,i4")
    pairs = [[records, records[0]], [records, records[1]], [records, records[0].copy()]]
    assert len({Digester().digest("x", pair) for pair in pairs}) == 3
    copied = records.copy()
    assert Digester().digest("x", [copied, copied[1]]) == Digester().digest("x", pairs[1])


def test_what_an_iterator_gave_goes_on_being_part_of_the_array() -> None:
    a = np.arange(4.0)
    for x in np.nditer(a, op_flags=[["readwrite"]]):
        x[...] = 2 * x
    found = restored(a=a, x=x, memory=np.asarray(memoryview(a)))
    found["x"][...] = -1
    assert found["a"].tolist() == found["memory"].tolist() == [0, 2, 4, -1]


def test_layout_is_part_of_an_arrays_identity() -> None:
    a = np.arange(16.0).reshape(4, 4)[::2, ::2]
    b = np.zeros((8, 8))[::4, ::4]
    b[...] = a
    names = {Digester().digest("x", array) for array in (a, b, a.copy())}
    assert len(names) == 3
    assert Digester().digest("x", restored(x=a)["x"]) == Digester().digest("x", a)


@pytest.mark.parametrize("rows", [SMALL, LARGE])
@pytest.mark.parametrize("kind", ["matrix", "recarray", "masked", "own"])
def test_an_array_of_another_class_that_may_not_be_written_to_comes_back_so(kind: str, rows: int) -> None:
    plain = np.arange(rows * 2.0).reshape(rows, 2)
    made = {
        "matrix": np.asmatrix(plain.copy()),
        "recarray": np.rec.array(np.zeros(rows, dtype=[("x", "i4"), ("y", "f8")])),
        "masked": np.ma.array(plain.copy(), mask=plain > 3),
        "own": plain.copy().view(Noted),
    }[kind]
    if kind == "own":
        made.note = "kept"
    made.setflags(write=False)
    back = restored(a=made)["a"]
    assert type(back) is type(made)
    assert not back.flags.writeable
    assert back.tolist() == made.tolist()
    assert getattr(back, "note", "") == getattr(made, "note", "")


class Noted(np.ndarray):  # type: ignore[type-arg]  # of whatever
    note: str


@pytest.mark.parametrize("writeable", [True, False])
def test_a_masked_array_without_a_mask_has_none_afterwards(writeable: bool) -> None:
    without = np.ma.arange(3)
    without.flags.writeable = writeable
    assert np.ma.getmask(restored(a=without)["a"]) is np.ma.nomask

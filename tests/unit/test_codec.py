"""Values to chunks and back."""

from __future__ import annotations

import statistics
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcheckpoint.codec import chunks, pickle
from nbcheckpoint.codec.chunks import CHUNK, INLINE, LISTED, BlobWriter, names_of
from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.digests import Recogniser, digest


class Chunks(dict[str, bytes]):
    """The simplest place for chunks."""

    def put(self, chunks: Sequence[tuple[str, bytes | memoryview]]) -> int:
        assert all(digest(data) == name for name, data in chunks)
        new = {name: bytes(data) for name, data in chunks if name not in self}
        self.update(new)
        return sum(map(len, new.values()))

    def read(self, blob: Any) -> bytearray:
        data = b"".join(self[name] for name in names_of(blob, self.__getitem__)) if blob.chunk_size else blob.data
        assert len(data) == blob.size
        return bytearray(data)


def round_trip(values: dict[str, Any]) -> tuple[dict[str, Any], pickle.Encoded, Chunks]:
    place = Chunks()
    encoded = pickle.encode(values, BlobWriter(place.put))
    return load(place, encoded).values, encoded, place


def load(place: Chunks, encoded: pickle.Encoded, resolve: Any = None) -> pickle.Decoded:
    return pickle.decode(bytes(place.read(encoded.stream)), [place.read(blob) for blob in encoded.buffers], resolve)


@given(
    st.sampled_from([0, 1, INLINE, INLINE + 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]), st.integers(500, 1 << 21)
)
def test_a_blob_is_the_same_however_it_is_written(size: int, step: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    one, two = Chunks(), Chunks()
    whole = BlobWriter(one.put).blob(data)
    stream = BlobWriter(two.put).stream()
    for at in range(0, size, step):
        stream.write(data[at : at + step])
    pieces = stream.close()
    assert one.read(whole) == two.read(pieces) == data
    assert one == two


def test_a_long_list_of_chunks_is_a_chunk_itself() -> None:
    place = Chunks()
    data = np.arange((LISTED + 2) * CHUNK // 8).tobytes()
    blob = BlobWriter(place.put).blob(data)
    assert blob.index
    assert not blob.chunks
    assert place.read(blob) == data
    assert {*place} == {*chunks.all_chunks(blob, place.__getitem__)}


def test_unchanged_chunks_are_not_written_again() -> None:
    place = Chunks()
    array = np.random.default_rng(0).random(CHUNK)  # 8 chunks
    names = Recogniser()
    first, second = BlobWriter(place.put, names), BlobWriter(place.put, names)
    first.blob(memoryview(array).cast("B"))
    array[3] = 7
    second.blob(memoryview(array).cast("B"))
    assert first.written == array.nbytes
    assert second.written == CHUNK


def test_a_big_blob_is_named_in_a_thread_or_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """At exit, and where there are no threads left, a pool takes no more work."""
    data = np.random.default_rng(0).bytes(3 * chunks.AHEAD * chunks.BATCH * CHUNK // 2 + 5)
    one, two = Chunks(), Chunks()
    threaded = BlobWriter(one.put).blob(data)

    def refuse(*_: Any) -> Any:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(chunks.ThreadPoolExecutor, "submit", refuse)
    assert BlobWriter(two.put).blob(data) == threaded
    assert one == two
    assert one.read(threaded) == data


def test_shared_objects_stay_shared() -> None:
    inner = [1]
    back, _, _ = round_trip({"a": inner, "b": {"x": inner}, "c": inner})
    assert back["a"] is back["b"]["x"] is back["c"]


def test_arrays_leave_the_stream_and_come_back_writeable() -> None:
    array = np.arange(100_000.0)
    back, encoded, _ = round_trip({"a": array, "f": np.asfortranarray(array.reshape(100, 1000)), "small": np.arange(3)})
    assert encoded.stream.size < 2000
    assert len(encoded.buffers) == 2
    assert np.array_equal(back["a"], array)
    assert back["f"].flags.f_contiguous
    back["a"][0] = 5
    back["small"][0] = 5


def test_frames_of_every_kind() -> None:
    frame = pd.DataFrame(
        {
            "i": range(1000),
            "s": [f"row {i}" for i in range(1000)],
            "c": pd.Categorical(["a", "b"] * 500),
            "t": pd.date_range("2020", periods=1000, tz="Europe/Berlin"),
            "n": pd.array([1, None] * 500, dtype="Int64"),
        }
    ).set_index(["i", "s"])
    back, _, _ = round_trip({"frame": frame})
    pd.testing.assert_frame_equal(back["frame"], frame)


def test_one_bad_value_costs_only_itself() -> None:
    frame = sys._getframe()
    back, encoded, _ = round_trip({"good": 1, "bad": {"deep": [0, frame]}, "gen": (i for i in ()), "also": [2]})
    assert back == {"good": 1, "also": [2]}
    assert [(item.name, item.path) for item in encoded.failed] == [("bad", "bad['deep'][1]"), ("gen", "")]
    assert all(item.why == "cannot be pickled" for item in encoded.failed)


def test_a_value_that_raises_is_reported_in_its_own_words() -> None:
    class Bad:
        def __reduce__(self) -> Any:
            raise ZeroDivisionError("of course")

    _, encoded, _ = round_trip({"bad": Bad(), "good": 1})
    assert encoded.failed[0].why == "ZeroDivisionError: of course"
    assert encoded.names == ("good",)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def test_definitions_of_the_notebook_travel_by_reference(main: types.ModuleType) -> None:
    source = (
        "scale = 2\nclass Model:\n    pass\ndef helper(x): return x * scale\n"
        "model = Model()\nf = lambda x: helper(x)\n"
        "def make(n):\n    def inner(x): return x * n * scale\n    return inner\nclosure = make(3)\n"
        "def make_fact():\n    def fact(n): return n * fact(n - 1) if n else 1\n    return fact\nfact = make_fact()\n"
    )
    exec(source, vars(main))
    names = ("model", "helper", "f", "closure", "fact")
    back, _, _ = round_trip({name: vars(main)[name] for name in names})
    assert type(back["model"]) is main.Model  # type: ignore[attr-defined]
    assert back["helper"] is main.helper  # type: ignore[attr-defined]
    main.scale = 10  # type: ignore[attr-defined]
    assert (back["f"](1), back["closure"](1), back["fact"](4)) == (10, 30, 24)


def test_a_function_has_the_globals_of_the_module_it_was_made_in(main: types.ModuleType) -> None:
    """Which need not be the one it says it is of: `functools.wraps` copies that, too."""
    source = (
        "import functools\ndef wrapping(f):\n    @functools.wraps(f)\n    def inner(*args): return f(*args) + more\n"
        "    return inner\nmore = 1\n"
    )
    exec(source, vars(main))
    of_a_module = types.FunctionType(statistics.multimode.__code__, vars(statistics), "nameless")
    values = {"wrapped": main.wrapping(statistics.mean), "nameless": of_a_module}  # type: ignore[attr-defined]
    back, _, _ = round_trip(values)
    main.more = 10  # type: ignore[attr-defined]
    assert back["wrapped"]([1, 3]) == 12
    assert (back["wrapped"].__module__, back["wrapped"].__wrapped__) == ("statistics", statistics.mean)
    assert back["nameless"].__globals__ is vars(statistics)
    assert back["nameless"]("aab") == ["a"]


def test_an_object_saved_earlier_is_referred_to(main: types.ModuleType) -> None:
    frame = pd.DataFrame({"a": range(100_000)})
    shared = [frame]
    place = Chunks()
    where = pickle.Reference("checkpoint", "frame")
    values = {"box": {"data": frame}, "shared": shared}
    encoded = pickle.encode(values, BlobWriter(place.put), references={id(frame): where})
    assert encoded.referred == (where,)
    assert encoded.buffers == ()
    live = object()
    back = load(place, encoded, lambda reference: {where: live}[reference]).values
    assert back["box"]["data"] is back["shared"][0] is live


def test_a_class_that_is_gone_costs_only_the_values_that_contain_one(main: types.ModuleType) -> None:
    exec("class Gone(list):\n    pass\nclass Here:\n    pass", vars(main))
    gone, here = main.Gone, main.Here  # type: ignore[attr-defined]
    deep = np.array([{"x": gone([1])}], dtype=object)
    values = {"a": gone([1, 2]), "b": {"deep": [deep]}, "c": here(), "d": [1], "e": gone}
    place = Chunks()
    encoded = pickle.encode(values, BlobWriter(place.put))
    del main.Gone  # type: ignore[attr-defined]
    loaded = load(place, encoded)
    assert set(loaded.values) == {"c", "d"}
    assert set(loaded.failed) == {"a", "b", "e"}
    assert loaded.failed["a"] == "__main__.Gone does not exist here"


@pytest.mark.parametrize(
    "strings",
    [
        ["text", None, "", "ünï\0code"] * 5000,
        ["text", float("nan")] * 5000,
        ["text", 1] * 5000,
        ["lone \ud800"] * 10_000,
        [str.__new__(type("Sub", (str,), {}), "x")] * 10_000,
    ],
    ids=["strings", "nan", "mixed", "surrogates", "subclass"],
)
def test_arrays_of_strings_come_back_as_they_were(strings: list[Any]) -> None:
    array = np.array(strings, dtype=object)
    for layout in (array, array.reshape(2, -1), np.asfortranarray(array.reshape(2, -1))):
        back = round_trip({"a": layout})[0]["a"]
        assert back.shape == layout.shape
        assert [(type(x), repr(x)) for x in back.flat] == [(type(x), repr(x)) for x in layout.flat]
        back[...] = "writeable"


def test_arrow_is_used_where_it_can_be() -> None:
    array = np.array([f"row {i}" for i in range(100_000)], dtype=object)
    encoded = round_trip({"a": array})[1]
    assert encoded.stream.size < 2000


def test_looking_never_calls_user_code() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise SystemExit

        __str__ = __len__ = __eq__ = __hash__ = __repr__  # type: ignore[assignment]

    value = Hostile()
    assert preview(value) == preview([value])[1:-1] == f"<{type_name(value)}>"
    assert shape_of([1, 2]) == "2 items"
    assert shape_of(np.zeros((3, 4))) == "3 × 4"
    assert shape_of(pd.DataFrame({"a": range(5000)})) == "5,000 × 1"
    assert len(preview(["x" * 1000] * 1000)) < 250
    assert "bits" in preview(10**5000)

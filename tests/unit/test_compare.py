"""Two checkpoints side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from nbcheckpoint.errors import NotFound
from nbcheckpoint.model import Checkpoint, FileSeen, Input, Value
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.compare import Diff, compare
from tests.stores import draft


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


def saved(store: Store, values: dict[str, Any], **fields: Any) -> str:
    return store.save(draft(**fields), values).checkpoint.id


def changes(found: Diff) -> dict[str, str]:
    return {row.name: row.change for row in found.values}


def test_names_added_removed_and_changed(store: Store) -> None:
    a = saved(store, {"same": [1], "gone": 1, "grown": [1]})
    b = saved(store, {"same": [1], "new": 2, "grown": [1, 2]})
    found = store.diff(a, b)
    assert changes(found).items() >= {"gone": "removed", "new": "added", "grown": "changed"}.items()
    grown = next(row for row in found.values if row.name == "grown")
    assert "[1]" in grown.before
    assert "[1, 2]" in grown.after


def test_equal_checkpoints_have_no_difference(store: Store) -> None:
    a, b = (saved(store, {"x": "y" * 10_000}, source="x = 1") for _ in range(2))
    assert store.diff(a, b).empty
    assert str(store.diff(a, b)) == "no difference"


def test_where_nobody_can_tell_it_says_so() -> None:
    def one(id: str, **value: Any) -> Checkpoint:
        return replace(draft(), id=id, values=(Value(name="x", type="list", preview="[…]", **value),), source=id)

    assert changes(compare(one("a", digest="1"), one("b", digest="1"))) == {}
    assert changes(compare(one("a", digest="1"), one("b", digest="2"))) == {"x": "changed"}
    assert changes(compare(one("a", size=1), one("b", size=2))) == {"x": "changed"}
    different = replace(one("b"), stream=None, buffers=(), values=(Value(name="x", type="list", preview="[…]"),))
    assert changes(compare(one("a"), different)) == {}, "the very same bytes"


def test_same_looks_with_other_bytes_are_a_maybe(store: Store) -> None:
    a = saved(store, {"x": list(range(100_000))})
    b = saved(store, {"x": [*range(99_999), 7]})
    assert changes(store.diff(a, b)) == {"x": "maybe"}
    assert "cannot tell" in str(store.diff(a, b))


def test_code_and_inputs(store: Store) -> None:
    def seen(digest: str) -> dict[str, Any]:
        return {
            "inputs": (Input(name="df", digest=digest, type="DataFrame", preview=f"{digest} rows"),),
            "files": (FileSeen(path="a.csv", size=len(digest), digest=digest),),
        }

    a = saved(store, {"x": 1}, source="x = 1\ny = 2", **seen("5"))
    b = saved(store, {"x": 1}, source="x = 1\ny = 3", code="d" * 64, **seen("66"))
    found = store.diff(a, b)
    assert [row.name for row in found.inputs] == ["df", "a.csv"]
    assert "-y = 2" in found.code
    assert "+y = 3" in found.code
    assert not found.same_code
    assert "5 rows -> DataFrame 66 rows" in str(found)


def test_a_changed_function_is_told_though_the_source_is_the_same(store: Store) -> None:
    a, b = saved(store, {"x": 1}, source="f()"), saved(store, {"x": 1}, source="f()", code="d" * 64)
    assert "something it calls has changed" in str(store.diff(a, b))


def test_nothing_in_it_is_markup(store: Store) -> None:
    a = saved(store, {"x": 1}, source="<script>alert(1)</script>")
    b = saved(store, {"x": "<img src=x onerror=alert(1)>"}, source="</pre><b>")
    html = store.diff(a, b)._repr_html_()
    assert "<script" not in html
    assert "<img" not in html
    assert html.count("<") == 2, "our own pre, and nothing else"


def test_untrusted_ones_may_be_compared_and_nothing_is_loaded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = saved(store, {"x": 1}), saved(store, {"x": 2})
    for id in (a, b):
        store.backend.put(f"checkpoint/{id}", store.checkpoint(id).to_json())
    monkeypatch.setattr(store, "load", None)
    assert changes(store.diff(a, b)) == {"x": "changed"}
    assert Diff.from_json(store.diff(a, b).to_json()) == store.diff(a, b)


def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.diff(saved(store, {"x": 1}), "nothing")

"""A cell is compared as one: what its statements read from outside, and what was there at its end."""

from __future__ import annotations

from msgspec.structs import replace

from nbcheckpoint.model import Blob, Checkpoint, FileSeen, Input, Value
from nbcheckpoint.server.joining import compare_all, joined
from tests.stores import draft


def values(**previews: str) -> tuple[Value, ...]:
    return tuple(Value(name=name, type="int", digest=text, preview=text) for name, text in previews.items())


def inputs(**digests: str) -> tuple[Input, ...]:
    return tuple(Input(name=name, digest=digest) for name, digest in digests.items())


def statement(source: str, **fields: object) -> Checkpoint:
    return replace(draft(source=source, code=source, **fields), id=source)


def test_one_statement_is_itself() -> None:
    alone = statement("x = 1", values=values(x="1"))
    assert joined([alone]) is alone


def test_what_is_made_inside_is_not_read_from_outside_and_the_last_value_counts() -> None:
    first = statement("x = a", inputs=inputs(a="1"), values=values(x="1", t="0"))
    second = statement("x += b; del t", inputs=inputs(x="1", b="2"), values=values(x="3"), deleted=("t",))
    cell = joined([first, second])
    assert [item.name for item in cell.inputs] == ["a", "b"]
    assert [(value.name, value.preview) for value in cell.values] == [("x", "3")]
    assert cell.source == "x = a\nx += b; del t"


def test_a_change_before_the_last_statement_is_seen() -> None:
    shown = statement("print(x)", inputs=inputs(x="1"))
    before = [statement("x = 1", values=values(x="1")), shown]
    after = [statement("x = 2", values=values(x="2")), shown]
    found = compare_all(before, after)
    assert [(item.name, item.change) for item in found.values] == [("x", "changed")]
    assert {"-x = 1", "+x = 2", " print(x)"} <= set(found.code)
    assert not found.same_code


def test_the_first_state_of_a_generator_and_of_a_file_is_what_was_found() -> None:
    def drawn(state: str, size: int) -> Checkpoint:
        file = FileSeen(path="data.csv", size=size, digest=str(size))
        return statement(f"f{state}()", random=inputs(numpy=state), files=(file,))

    cell = joined([drawn("1", 10), drawn("2", 20)])
    assert [item.digest for item in cell.random] == ["1"]
    assert [file.size for file in cell.files] == [10]


def test_without_a_digest_only_the_same_bytes_are_the_same_value() -> None:
    def left(source: str, data: bytes) -> Checkpoint:
        value = Value(name="x", type="Model", preview="Model()")
        return statement(source, values=(value,), stream=Blob(size=len(data), data=data))

    def verdict(a: Checkpoint, b: Checkpoint) -> list[str]:
        other = [statement(f"y = {n}", stream=Blob(size=1, data=b"%d" % n)) for n in (1, 2)]
        return [item.change for item in compare_all([a, other[0]], [b, other[1]]).values]

    model = left("x = Model()", b"abc")
    assert verdict(model, model) == []
    assert verdict(model, left("x = Model(1)", b"xyz")) == ["maybe"]

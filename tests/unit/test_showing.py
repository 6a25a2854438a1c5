"""How records look in a notebook: as tables, and whatever stands in them stays text."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from nbcheckpoint.model import NotSaved, Reason, Step, Value
from nbcheckpoint.showing import MOST
from nbcheckpoint.store import Store, open_store
from tests.stores import add_run, draft

EVIL = '<script>alert(1)</script>" onmouseover="x\' <b>\u202ebold'
ALLOWED = {"table", "thead", "tbody", "tr", "th", "td", "span", "p", "pre"}


class Reader(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.rows = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.rows += tag == "tr"

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as store:
        yield store


def test_runs_steps_and_checkpoints_of_strangers_are_shown_as_text(store: Store) -> None:
    run = add_run(store, EVIL, note=EVIL)
    why = Reason(code="x", text=EVIL)
    store.put_step(Step(run=run.id, address="000000", name=EVIL, status="completed", seconds=3, reason=why))
    store.put_step(Step(run=run.id, address="000000.000", name=EVIL, status="failed", error=EVIL))
    lost = (NotSaved(name=EVIL, type=EVIL, why=EVIL),)
    saved = store.save(draft(run=run.id, name=EVIL, source=EVIL, not_saved=lost), {"x": EVIL}).checkpoint
    shown = {
        "runs": store.runs(),
        "run": store.run(run.id),
        "steps": store.steps(run.id, inner=True),
        "checkpoint": store.checkpoint(saved.id),
    }
    for name, thing in shown.items():
        found = Reader(thing._repr_html_())
        assert found.tags <= ALLOWED, name
        assert found.attributes <= {"style", "class", "title", "dir"}, name
        assert "<script>alert(1)</script>" in found.text, name
        assert "\u202e" not in found.text, name


def test_they_are_lists_all_the_same(store: Store) -> None:
    run = add_run(store)
    assert store.runs() == [run]
    assert isinstance(store.runs(), list)
    assert store.runs()[0]._repr_html_() == store.runs()._repr_html_()
    assert "No steps" in store.steps(run.id)._repr_html_()  # type: ignore[attr-defined]  # for the eye only


def test_a_long_list_is_cut(store: Store) -> None:
    for _ in range(MOST + 5):
        store.begin_run("a.ipynb")
    found = Reader(store.runs()._repr_html_())  # type: ignore[attr-defined]  # as above
    assert found.rows == MOST + 1
    assert "and 5 more" in found.text


def test_what_a_checkpoint_holds_is_told(store: Store) -> None:
    checkpoint = draft(source="x = [1]", values=(Value(name="x", type="list", shape="1", preview="[1]"),))
    assert "[1]" in Reader(checkpoint._repr_html_()).text

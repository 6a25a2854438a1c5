"""What a store does for runs that wait, fork and are looked at: answers, events, pictures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from nbcheckpoint.errors import Conflict, NotFound, UsageError
from nbcheckpoint.model import Checkpoint, Run, Step, new_id
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.store.picture import Edge, Node, draw, lay_out, svg


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as opened:
        yield opened


def asking(store: Store, **pause: object) -> Run:
    run = store.begin_run("orders", kind="flow")
    meta = {"pause": {"name": "gate", "prompt": "Go on?", **pause}}
    store.put_step(Step(run=run.id, address="000000", name="gate", kind="pause", status="paused", meta=meta))
    return store.update_run(run.id, status="paused", owner=None)


@pytest.mark.parametrize("value", ["yes", "", 0, False, None, [], {"a": [1]}])
def test_every_answer_is_an_answer_also_an_empty_one(store: Store, value: object) -> None:
    run = asking(store)
    step = store.answer(run.id, "gate", value)
    assert step.status == "completed"
    assert step.meta["answer"]["value"] == value
    with pytest.raises(UsageError, match="answered already"):
        store.answer(run.id, "gate", "another")
    assert store.answer(run.id, "gate", value) == step, "the same once more"


def test_of_two_answers_at_once_one_is_the_answer(store: Store) -> None:
    """000-10."""
    run = asking(store)
    ready = threading.Barrier(8)
    won: list[int] = []

    def give(value: int) -> None:
        ready.wait()
        try:
            store.answer(run.id, "gate", value)
            won.append(value)
        except UsageError:
            pass

    threads = [threading.Thread(target=give, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.step(run.id, "000000")[0].meta["answer"]["value"] == won[0]


def test_an_answer_must_fit_the_question(store: Store) -> None:
    run = asking(store, choices=["yes", "no"])
    with pytest.raises(UsageError, match="'maybe' is no answer") as told:
        store.answer(run.id, "gate", "maybe")
    assert "'yes', 'no'" in told.value.hint
    with pytest.raises(UsageError, match="plain data"):
        store.answer(run.id, "gate", object())
    other = asking(store, schema={"type": "integer", "minimum": 3})
    with pytest.raises(UsageError, match="is no answer"):
        store.answer(other.id, "gate", 2)
    assert store.answer(other.id, "gate", 3).status == "completed"


def test_run_ids_sort_in_the_order_they_were_made() -> None:
    """Also of those made within one millisecond."""
    made = [new_id() for _ in range(300)]
    assert made == sorted(made)
    assert len({id.partition("-")[0] for id in made}) == 300


def test_a_question_nobody_asks(store: Store) -> None:
    run = asking(store)
    with pytest.raises(NotFound, match="asks nothing called 'gates'") as told:
        store.answer(run.id, "gates", 1)
    assert told.value.hint == "it asks 'gate'"
    with pytest.raises(NotFound):
        store.answer("20260101T000000000-000000", "gate", 1)


def test_a_step_that_somebody_else_has_written_meanwhile(store: Store) -> None:
    run = store.begin_run("x")
    step = Step(run=run.id, address="000000", name="a", status="running", token="t")
    version = store.put_step(step, expect="")
    with pytest.raises(Conflict):
        store.put_step(step, expect="")
    store.put_step(step, expect=version)
    with pytest.raises(Conflict):
        store.put_step(step, expect=version)


def test_a_run_knows_its_steps_and_its_picture(store: Store) -> None:
    run = asking(store)
    assert [step.name for step in store.run(run.id).steps()] == ["gate"]
    assert run.graph.nodes[0].status == "paused"
    assert [event.type for event in store.events(run.id)] == ["run_started", "pause_opened", "run_paused"]


def finished(store: Store) -> Run:
    run = store.begin_run("orders", kind="flow")
    for at, name in enumerate(("load", "clean", "train")):
        draft = Checkpoint(id="", created="", run=run.id, step=f"{at:06d}", code=f"{at}" * 64)
        saved = store.save(draft, {"result": name}).checkpoint
        store.put_step(
            Step(run=run.id, address=f"{at:06d}", name=name, kind="call", status="completed", checkpoint=saved.id)
        )
    return store.update_run(run.id, status="completed", owner=None, meta={"result": "x"})


def test_a_fork_shares_what_came_before_and_asks_again(store: Store) -> None:
    run = finished(store)
    meta = {"pause": {"name": "gate"}, "answer": {"value": "yes", "at": ""}}
    store.put_step(Step(run=run.id, address="000000.001", name="gate", kind="pause", status="completed", meta=meta))
    made = store.fork(run.id, at="clean", edits={"load": [1]})
    steps = {step.name: step for step in store.steps(made.id, inner=True)}
    assert steps.keys() == {"load", "clean"}
    assert steps["clean"].checkpoint == store.step(run.id, "000001")[0].checkpoint
    assert store.restore(steps["load"].checkpoint) == {"result": [1]}
    assert steps["load"].meta["edited"]
    assert (made.status, made.meta) == ("interrupted", {"forked": {"run": run.id, "at": "000001"}})
    assert store.restore(store.step(run.id, "000000")[0].checkpoint) == {"result": "load"}, "the origin is as it was"
    with pytest.raises(NotFound, match="no step 'nope'"):
        store.fork(run.id, at="nope")


def steps_of(*rows: tuple[str, float, list[int]]) -> list[Step]:
    return [
        Step(
            run="r",
            address=f"{at:06d}",
            name=name,
            kind="call",
            status="completed",
            seconds=seconds,
            meta={"after": [f"{n:06d}" for n in after]},
        )
        for at, (name, seconds, after) in enumerate(rows)
    ]


RUN = Run(id="r", workflow="w", created="", updated="")


def test_the_picture_follows_the_data_and_marks_the_longest_way() -> None:
    found = draw(RUN, steps_of(("load", 1, []), ("slow", 9, [0]), ("quick", 2, [0]), ("join", 1, [1, 2])))
    assert [(edge.source[-1], edge.target[-1]) for edge in found.edges] == [
        ("0", "1"),
        ("0", "2"),
        ("1", "3"),
        ("2", "3"),
    ]
    assert [node.label for node in found.nodes if node.critical] == ["load", "slow", "join"]


def test_boxes_do_not_lie_upon_each_other() -> None:
    found = draw(RUN, steps_of(*[("a step", 1.0, [0] if n else []) for n in range(12)]))
    for a in found.nodes:
        for b in found.nodes:
            apart = (
                a is b or a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
            )
            assert apart, (a, b)


def test_many_steps_are_one_box_for_each_name() -> None:
    found = draw(RUN, steps_of(*[(f"step{n % 3}", 1.0, [n - 1] if n else []) for n in range(10_000)]))
    assert sorted(node.label for node in found.nodes) == ["step0 ×3334", "step1 ×3333", "step2 ×3333"]


def test_a_graph_shows_also_what_was_not_reached_and_ways_back() -> None:
    graph = {
        "nodes": ["a", "b", "c"],
        "edges": [{"source": "a", "target": "b"}, {"source": "b", "target": "a", "label": "again"}],
    }
    run = Run(id="r", workflow="w", created="", updated="", meta={"graph": graph})
    found = draw(run, steps_of(("a", 1, []), ("b", 1, [0]), ("a", 1, [1])))
    assert {node.label: node.status for node in found.nodes} == {"a ×2": "completed", "b": "completed", "c": "pending"}
    assert [edge.label for edge in found.edges] == ["", "again"]


def test_no_markup_of_anybody_gets_into_the_picture() -> None:
    hostile = "<script>alert(1)</script>\"'&"
    node = Node(id="a", label=hostile, status=hostile)
    text = svg(lay_out([node, Node(id="b", label="b")], [Edge(source="a", target="b", label=hostile)]))
    assert "<script" not in text
    ElementTree.fromstring(text)


def test_a_picture_of_nothing() -> None:
    ElementTree.fromstring(svg(draw(RUN, [])))

"""Events as lines of JSON, as Jupyter events, as spans."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nbcheckpoint as nbc
from nbcheckpoint import observers
from nbcheckpoint.engine import context
from nbcheckpoint.store import Store, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    FAILING.clear()
    with open_store("memory://") as opened:
        context.use(opened)
        yield opened
        context.use(None)


FAILING: list[bool] = []


@nbc.step(retries=1, backoff=0.0, retry_on=KeyError)
def work(n: int) -> int:
    if n == 2 and FAILING:
        raise ValueError("no")
    return n


@nbc.flow
def flow() -> int:
    return work(1) + work(2)


def fail_and_go_on() -> None:
    FAILING[:] = [True]
    with pytest.raises(ValueError, match="no"):
        flow()
    FAILING.clear()
    assert flow() == 3


def test_every_event_is_a_line_of_json(store: Store, tmp_path: Path) -> None:
    stop = observers.to_file(tmp_path / "events.jsonl")
    fail_and_go_on()
    stop()
    flow()
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    told = [line["type"] for line in lines]
    assert told[0] == "run_started"
    assert told[-1] == "run_completed"
    assert {"step_started", "step_failed", "run_failed", "run_resumed", "checkpoint_saved"} <= set(told)
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        observers.to_file(tmp_path / "nowhere" / "events.jsonl")


def test_jupyter_hears_them(store: Store) -> None:
    from jupyter_events import EventLogger

    sink = io.StringIO()
    logger = EventLogger(handlers=[logging.StreamHandler(sink)])
    stop = observers.to_jupyter(logger)
    again = observers.to_jupyter(logger)
    again()
    flow()
    stop()
    told = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert told[0]["__schema__"] == observers.SCHEMA_ID
    assert [line["type"] for line in told].count("run_completed") == 1


def test_one_root_span_for_each_session_linked_to_the_one_before(store: Store) -> None:
    """001-19: trace continuity."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("test")
    stop = observers.to_telemetry(tracer)
    with tracer.start_as_current_span("around"):
        fail_and_go_on()
    stop()
    found: list[Any] = [span for span in spans.get_finished_spans() if span.name != "around"]
    roots = [span for span in found if span.parent is None]
    assert [span.name for span in roots] == ["flow", "flow"]
    assert not roots[0].links
    linked = roots[1].links[0].context
    assert (linked.trace_id, linked.span_id) == (roots[0].context.trace_id, roots[0].context.span_id)
    assert not roots[0].status.is_ok
    failed = [span for span in found if span.name == "work" and not span.status.is_ok]
    assert len(failed) == 1
    assert {span.parent.span_id for span in found if span.parent is not None} <= {
        root.context.span_id for root in roots
    }

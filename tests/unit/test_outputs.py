"""What of recorded outputs is yet to be shown, when some of them have just been shown anew."""

from __future__ import annotations

from typing import Any

import pytest

from nbcheckpoint.notebook.outputs import beyond


def text(said: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": said}


def shown(what: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": what}, "metadata": {}}


CASES = {
    "nothing was": ([text("a\nb\n")], [], [text("a\nb\n")]),
    "the beginning of a text was": ([text("a\nb\n"), shown("x")], [text("a\n")], [text("b\n"), shown("x")]),
    "one of several was": ([shown("x"), text("b\n")], [shown("x")], [text("b\n")]),
    "all were": ([text("a\n"), shown("x")], [text("a\n"), shown("x")], []),
    "a text, and something between": (
        [text("a\n"), shown("x"), text("c\nd\n")],
        [text("a\n"), shown("x"), text("c\n")],
        [text("d\n")],
    ),
    "something else was": ([text("12:01\nb\n")], [text("12:02\n")], [text("12:01\nb\n")]),
    "more was": ([text("a\n")], [text("a\n"), shown("x")], [text("a\n")]),
    "it was an error's stream": ([text("a\nb\n")], [text("a\n", "stderr")], [text("a\nb\n")]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_just_shown_is_not_shown_twice(case: str) -> None:
    outputs, already, left = CASES[case]
    assert beyond(outputs, already) == left

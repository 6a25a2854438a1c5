"""The Python in the documentation runs, in a kernel of its own, and shows what the page says it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.given import GIVEN
from tests.docs.pages import PAGES, SPECIAL, Block, blocks, name_of, written
from tests.kernels import Cell, Kernel

WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(written(page)))]
_VARYING = (
    (re.compile(r"\d{8}T\d{9}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r"\d+h \d\dm|\d+m \d\ds|[\d.]+ m?s\b"), "TIME"),
    (re.compile(r"[\d.]+ (?:[kMG]B|B)\b"), "SIZE"),
    (re.compile(r"\d\d:\d\d\b"), "CLOCK"),
    (re.compile(r"(?: ·|,) spared TIME"), ""),
    (re.compile(r"continued at \d+ of"), "continued at N of"),  # the last save may not have been whole when it died
)
"""What differs from run to run and from machine to machine."""


def shown(cell: Cell) -> str:
    """What a reader sees below a cell: what was printed, the value, what went wrong, and our line."""
    said = [display["data"]["text/plain"] for display in cell.displays]
    return "\n".join(part.rstrip("\n") for part in (cell.stdout, cell.result, *cell.traceback, *said) if part)


def alike(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text.strip()


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    given = GIVEN.get(name_of(page), "")
    with Kernel(tmp_path, notebook=f"{page.stem}.ipynb") as kernel:
        if given:
            kernel.run(given)
        cell = Cell()
        for block in blocks(written(page)):
            cell = carried_out(kernel, block, cell, given)


def carried_out(kernel: Kernel, block: Block, before: Cell, given: str) -> Cell:
    """Do with a block what it asks for."""
    assert block.special in SPECIAL, block
    if block.special == "shows":
        assert alike(shown(before)) == alike(block.text), shown(before)
    elif block.language == "python" and block.special == "dies":
        kernel.client.execute(block.text)
        kernel.manager.provisioner.process.wait(60)  # type: ignore[union-attr]
        kernel.kill_again()
        kernel.start()
        if given:
            kernel.run(given)
    elif block.language == "python" and block.special != "not run":
        return kernel.run(block.text, fails=block.special == "fails")
    return before


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_says_its_language_and_if_it_is_not_run_why(page: Path) -> None:
    text = written(page)
    assert all(re.search(r"^```\S", line) or line == "```" for line in text.splitlines() if line.startswith("```"))
    assert "<!-- not run -->" not in text

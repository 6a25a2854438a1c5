"""The pages as data: their code blocks, with what the comments before them say, and their code spans.

A comment on the line before a block says what is special about it: `<!-- shows -->`: this is what the block before
shows; `<!-- fails -->`: it raises; `<!-- dies -->`: it kills its kernel, and a new one comes; `<!-- not run: why -->`.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted((ROOT / "README.md", *DOCS.rglob("*.md")))
SPECIAL = ("", "shows", "fails", "dies", "not run")

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    \S[^\n]*\n)+", re.MULTILINE)
_COMMENT = re.compile(r"<!-- ([a-z ]+?)(?:: [^\n]*)? -->\n\Z")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


class Block(NamedTuple):
    """One block of code."""

    language: str
    text: str
    special: str
    """What the comment before it says."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def written(page: Path) -> str:
    """As it stands in the file."""
    return page.read_text()


@cache
def read(page: Path) -> str:
    """As it is read: with everything that comes from the code."""
    sys.path.insert(0, str(DOCS))
    try:
        import from_code
    finally:
        sys.path.remove(str(DOCS))
    return str(from_code.expand(written(page)))


def blocks(text: str) -> list[Block]:
    """Fenced blocks, and indented ones, which have no language, in order."""
    found = [
        (match.start(), Block(match[1], match[2], _special(text[: match.start()]))) for match in _FENCE.finditer(text)
    ]
    rest = _FENCE.sub(lambda match: re.sub(r"[^\n]", ".", match[0]), text)
    found += [(match.start(), Block("", match[0], "")) for match in _INDENTED.finditer(rest)]
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


def _special(before: str) -> str:
    found = _COMMENT.search(before)
    return found[1] if found else ""


def spans(text: str) -> list[str]:
    """What stands in backticks in running text."""
    prose = _INDENTED.sub("", _FENCE.sub("", text))
    return [" ".join(match[2].split()) for match in _SPAN.finditer(prose)]


def code(text: str) -> list[str]:
    """All code there is: spans, and the lines of blocks."""
    return [*spans(text), *(line.strip() for block in blocks(text) for line in block.text.splitlines())]

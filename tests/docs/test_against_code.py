"""Everything there is is documented, and everything the documentation names is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import nbcheckpoint
from nbcheckpoint.engine import policy
from nbcheckpoint.notebook import options
from tests.docs import facts
from tests.docs.checks import CHECKS
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, name_of, read, written

REFERENCE = DOCS / "reference"


def page(name: str) -> str:
    return read(REFERENCE / f"{name}.md")


# What there is


@pytest.mark.parametrize("word", facts.COMMANDS)
def test_every_command_and_its_options_are_documented(word: str) -> None:
    section = re.search(rf"^## {word}\n(.*?)(?=^## |\Z)", page("commands"), re.MULTILINE | re.DOTALL)
    assert section is not None
    missing = {option for option in facts.command_options(facts.COMMANDS[word]) if option not in section[1]}
    assert missing <= {"--help"}
    assert f"nbcheckpoint {word}" in section[1].rpartition("```sh")[2], "an example"


@pytest.mark.parametrize("word", facts.WORDS)
def test_every_word_of_the_magic_is_documented(word: str) -> None:
    assert re.search(rf"^### {word}$|\[`{word}`\]", page("magics"), re.MULTILINE)
    parser = facts.word_parser(word)
    section = page("magics").partition(f"### {word}\n")[2].partition("\n### ")[0]
    assert all(option in section for option in (facts.parser_options(parser) if parser else ()))


def test_every_option_of_a_checkpointed_cell_is_documented() -> None:
    section = page("magics").partition("## %%checkpointed")[2].partition("\n## ")[0]
    assert facts.parser_options(options.parser()) <= set(re.findall(r"--[a-z-]+", section))


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("routes", [f"## {route}" for route in facts.ROUTE_NAMES]),
        ("errors", [f"## {error}" for error in facts.ERRORS]),
        ("policies", [f"| `{name}` |" for name in facts.POLICIES]),
        ("events", [f"| `{event}` |" for event in facts.EVENTS]),
        ("records", [f"## {name}" for name in facts.RECORDS]),
        ("python", [f"## {name}" for name in nbcheckpoint.__all__ if not re.search("__|extension", name)]),
    ],
)
def test_everything_there_is_is_documented(name: str, there: list[str]) -> None:
    assert there
    missing = [heading for heading in there if heading not in page(name)]
    assert not missing


def test_every_environment_variable_is_explained() -> None:
    explained = re.findall(r"^\| `(NBCHECKPOINT_\w+)` \|", written(DOCS / "tuning.md"), re.MULTILINE)
    assert set(explained) == facts.variables()


def test_every_kind_of_store_error_has_advice() -> None:
    advice = written(DOCS / "troubleshooting.md")
    for name in facts.ERRORS:
        if name.startswith("Store") and name != "StoreError":
            assert f"`{name}`" in advice


def test_every_choice_of_a_policy_is_explained() -> None:
    for name, choices in policy._CHOICES.items():
        row = next(line for line in page("policies").splitlines() if line.startswith(f"| `{name}` |"))
        assert all(f"`{choice}`" in row for choice in choices)


# What is named


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_names_exists(page: Path, check: Any) -> None:
    assert list(check(read(page))) == []


@pytest.mark.parametrize(
    "lie",
    [
        *(
            "`nbcheckpoint frobnicate`",
            "`%checkpoint fly`",
            "`--no-such-option`",
            "`NBCHECKPOINT_NOPE`",
            "`nbc.nothing`",
        ),
        *(
            "`GET nowhere`",
            "`run_exploded`",
            "`StoreMelted`",
            "`tests/none/`",
            "`make nothing`",
            "`on_nothing`",
            "`nbcheckpoint/api/none`",
        ),
        *("`nbcheckpoint[nothing]`", "`nbcheckpoint.engine.nothing`", "`store.nothing()`", "`nbcheckpoint run --nope`"),
        *(
            "    nbcheckpoint prune --keep many\n",
            "    nbcheckpoint export a9c1e2\n",
            "    nbcheckpoint runs all of them\n",
        ),
        *(
            "```text\n%%checkpointed --nope\n```\n",
            "```text\n%checkpoint auto --fast\n```\n",
            "    x; nbcheckpoint nope\n",
        ),
        *("    nbcheckpoint run a.ipynb --report pdf\n", "```sh\nnbcheckpoint prune --older-than x --nope 3\n```\n"),
    ],
)
def test_a_page_that_names_something_else_is_caught(lie: str) -> None:
    assert [found for check in CHECKS for found in check(f"It is so:\n\n{lie}\n")]


def test_settings_of_a_project_are_ones_there_are() -> None:
    toml = [block.text for block in blocks(written(DOCS / "tuning.md")) if block.language == "toml"]
    assert toml
    for text in toml:
        given = dict(re.findall(r'^(\w+) = "?([^"\n]+)"?$', text, re.MULTILINE))
        assert policy.checked(given)


def test_what_the_line_is_said_to_say_is_what_the_code_says() -> None:
    table = written(DOCS / "troubleshooting.md").partition("## The line under the cell")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert len(lines) > 10
    for line in lines:
        said = re.sub(r"^(computed|not saved)(: | …)", "", line)
        said = re.sub(r"^\w+ \([\w.]+: (.+)\)$", r"\1", said)  # of a value: the reason
        assert not said or facts.says(said), line
    assert not facts.says("helper clean() is another"), "nothing is said that the code does not say"


def test_links_into_the_repository_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", written(ROOT / "README.md")):
        assert (ROOT / target).exists(), target

"""What there is, asked from the code itself: commands, words, options, routes, errors, policies, events, variables."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import click

from nbcheckpoint import errors, events, model
from nbcheckpoint.cli import main
from nbcheckpoint.engine import policy
from nbcheckpoint.notebook import auto, options
from nbcheckpoint.notebook.magics import EXTRA
from nbcheckpoint.notebook.words import OWN, _Parser, known_words
from nbcheckpoint.server.routes import ROUTES
from tests.docs.pages import ROOT

COMMANDS = main.commands
WORDS = known_words(EXTRA)
ROUTE_NAMES = [f"{route.method} {route.address}" for route in ROUTES]
ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.Error)]
EVENTS = get_args(events.EventType)
POLICIES = policy.NAMES
ANSWERS = [route.answer.__name__ for route in ROUTES if isinstance(route.answer, type)]
RECORDS = [kind.__name__ for kind in model.Record.__subclasses__() if kind.__module__ == model.__name__]
LEAST = 5
"""Letters, for a sentence to be told from another."""
SOURCES = sorted((ROOT / "nbcheckpoint").rglob("*.py"))


@cache
def variables() -> frozenset[str]:
    """Environment variables of ours: those that stand in the code, and one for every policy."""
    named = {found for file in SOURCES for found in re.findall(r"\"(NBCHECKPOINT_[A-Z_]+)\"", file.read_text())}
    return frozenset(named | {f"NBCHECKPOINT_{name.upper()}" for name in POLICIES})


def command_options(command: click.Command) -> set[str]:
    return {word for found in command.params if isinstance(found, click.Option) for word in found.opts} | {"--help"}


def word_parser(word: str) -> argparse.ArgumentParser | None:
    """What a word of the notebook's own takes; None for one of the command line's."""
    parser = _Parser(prog=word, add_help=False)
    if word == "auto":
        return auto.parser()
    if word in OWN:
        OWN[word].arguments(parser)
    return parser if word in OWN or word in EXTRA else None


def parser_options(parser: argparse.ArgumentParser) -> set[str]:
    return {word for action in parser._actions for word in action.option_strings}


@cache
def all_options() -> frozenset[str]:
    """Of every command and every magic."""
    found = {word for command in COMMANDS.values() for word in command_options(command)}
    for parser in (options.parser(), *(word_parser(word) for word in WORDS)):
        found |= parser_options(parser) if parser is not None else set()
    return frozenset(found | {"--version", "-h"})


@cache
def sentences() -> tuple[re.Pattern[str], ...]:
    """Everything the code may say, as patterns: what is filled in may be anything."""
    return tuple(pattern for file in SOURCES for pattern in _patterns(ast.parse(file.read_text())))


def _patterns(tree: ast.AST) -> Iterator[re.Pattern[str]]:
    for node in ast.walk(tree):
        parts: list[Any] = []
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else None for p in node.values]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = [node.value]
        said = "".join(part for part in parts if part)
        if sum(map(str.isalpha, said)) >= LEAST and " " in said and "\n" not in said:
            yield re.compile("".join(".+" if part is None else re.escape(part) for part in parts))


def says(text: str) -> bool:
    """Would the code say this? An ellipsis at the end stands for the rest of a sentence, elsewhere for something."""
    if text.endswith("…"):
        begun = re.escape(text.removesuffix("…"))
        return any(begun in pattern.pattern for pattern in sentences())
    return any(pattern.fullmatch(text.replace("…", "X")) for pattern in sentences())

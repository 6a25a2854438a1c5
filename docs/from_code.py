"""The reference, made from the code, so that it cannot say anything else: `<!-- from code: commands -->` in a page
stands for what `commands()` below returns. MkDocs calls the hook at the end; the tests call `expand`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import json
import re
import textwrap
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WIDE = 88
LINE = ",\n    "
PLACE = re.compile(r"^<!-- from code: (\w+) -->$", re.MULTILINE)


def expand(markdown: str) -> str:
    """The page with everything in it that comes from the code."""
    return PLACE.sub(lambda found: PARTS[found[1]](), markdown)


# The command line and the magics


def commands() -> str:
    """Every command, from click."""
    from nbcheckpoint.cli import main

    return "\n".join(line for name in main.commands for line in _command(name, main.commands[name]))


def _command(name: str, command: Any) -> Iterator[str]:
    import click

    context = click.Context(command, info_name=f"nbcheckpoint {name}")
    yield f"## {name}\n"
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    yield f"{_paragraphs(command.help)}\n"
    options = [found for found in command.params if isinstance(found, click.Option)]
    yield _table(("option", ""), [_click_option(found, context) for found in options])
    yield f"```sh\n{(command.epilog or '').removeprefix('Example: ')}\n```\n"


def _click_option(option: Any, context: Any) -> tuple[str, str]:
    said, text = option.get_help_record(context)
    return f"`{said}`", text


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def words() -> str:
    """Every word of `%checkpoint`: the notebook's own with what they take, the others by name."""
    from nbcheckpoint.notebook import auto
    from nbcheckpoint.notebook.magics import EXTRA
    from nbcheckpoint.notebook.words import FROM_CLI, OWN, _Parser

    parsers = {"auto": auto.parser()}
    parts = [
        _parser(word, parsers.get(word, _Parser(prog=f"%checkpoint {word}", add_help=False)), inspect.getdoc(run) or "")
        for word, run in EXTRA.items()
    ]
    for word, own in OWN.items():
        parser = _Parser(prog=f"%checkpoint {word}", add_help=False)
        own.arguments(parser)
        parts.append(_parser(word, parser, own.help))
    linked = [(f"[`{word}`](commands.md#{word})", help) for word, help in FROM_CLI.items()]
    shared = "Those of the command line take what they take there, and work on this notebook's store:\n"
    return "\n".join([*parts, "### The others\n", shared, _table(("word", ""), linked)])


def _parser(word: str, parser: argparse.ArgumentParser, help: str) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return f"### {word}\n\n{_sentence(help)}\n\n```text\n{usage}\n```\n\n{_arguments(parser)}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _arguments(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:
        name = action.metavar or "|".join(action.choices or ()) or action.dest
        name = str(name) if not action.choices or not action.option_strings else "|".join(action.choices)
        takes = action.option_strings and action.nargs != 0
        said = " ".join([*action.option_strings, *([name] if takes or not action.option_strings else [])])
        rows.append((f"`{said}`", action.help or ""))
    return _table(("", ""), rows) if rows else ""


def cell_options() -> str:
    """What `%%checkpointed` takes."""
    from nbcheckpoint.notebook import options

    return _arguments(options.parser())


# Python


def python_names() -> str:
    """Every public name, from its signature and docstring."""
    import nbcheckpoint

    hooks = ("__version__", "load_ipython_extension", "unload_ipython_extension")
    named = [name for name in nbcheckpoint.__all__ if name not in hooks]
    return "\n".join(_described(f"nbcheckpoint.{name}", getattr(nbcheckpoint, name), 2) for name in named)


def wrapped_functions() -> str:
    """What `@step` and `@flow` make of a function, and what a map and a submit return."""
    from nbcheckpoint.engine.context import Current
    from nbcheckpoint.engine.flow import FlowFunction
    from nbcheckpoint.engine.mapping import map_items
    from nbcheckpoint.engine.step import StepFunction
    from nbcheckpoint.engine.submitting import Submitted

    parts = [_described(found.__name__, found, 3) for found in (StepFunction, FlowFunction, Submitted, Current)]
    return "\n".join([*parts, _described("map_items", map_items, 3)])


def async_store() -> str:
    """The store for `await`."""
    from nbcheckpoint.store import aio

    return "\n".join(_described(f"nbcheckpoint.store.aio.{name}", getattr(aio, name), 3) for name in aio.__all__)


def observers() -> str:
    """Ready-made listeners."""
    from nbcheckpoint import observers

    named = [name for name in vars(observers) if name.startswith("to_")]
    return "\n".join(_described(f"nbcheckpoint.observers.{name}", getattr(observers, name), 3) for name in named)


def _described(name: str, found: Any, level: int) -> str:
    head = f"{'#' * level} {name.rpartition('.')[2]}\n"
    parts = [head, _signature(name, found), _prose(inspect.getdoc(found) or "")]
    if inspect.isclass(found) and not issubclass(found, BaseException):
        parts += [_method(found, attribute, level + 1) for attribute in _own_methods(found)]
    return "\n".join(parts)


def _own_methods(kind: type) -> list[str]:
    def shown(name: str, value: Any) -> bool:
        callable_ = inspect.isfunction(value) or isinstance(value, (property, classmethod))
        return callable_ and not name.startswith("_") and bool(inspect.getdoc(getattr(kind, name, None)))

    return [name for name, value in vars(kind).items() if shown(name, value)]


def _method(kind: type, name: str, level: int) -> str:
    found = inspect.getattr_static(kind, name)
    head = f"{'#' * level} {kind.__name__}.{name}\n"
    signature = "" if isinstance(found, property) else _signature(name, getattr(kind, name))
    return "\n".join([head, signature, _prose(inspect.getdoc(found) or "")])


class _Plain:
    """An annotation as it was written, not as a string of it."""

    def __init__(self, text: object) -> None:
        self.text = text if isinstance(text, str) else inspect.formatannotation(text)

    def __repr__(self) -> str:
        return self.text


def _signature(name: str, found: Any) -> str:
    overloads = typing.get_overloads(found) if hasattr(typing, "get_overloads") else []
    try:
        signature = inspect.signature(overloads[-1] if overloads else found)
    except (TypeError, ValueError):
        return ""
    given = [_plainly(p) for p in signature.parameters.values() if p.name != "self"]
    returns = signature.return_annotation
    made = signature.replace(
        parameters=given, return_annotation=returns if returns is signature.empty else _Plain(returns)
    )
    said = f"{name}{made}"
    if len(said) > WIDE:
        head, tail = said.partition("(")[0], said.rpartition(")")[2]
        said = f"{head}(\n    {LINE.join(_separated(given))},\n){tail}"
    return f"```python\n{said}\n```\n"


def _plainly(parameter: inspect.Parameter) -> inspect.Parameter:
    said = parameter.annotation
    return parameter if said is parameter.empty else parameter.replace(annotation=_Plain(said))


def _separated(given: Sequence[inspect.Parameter]) -> Iterator[str]:
    """One to a line, with the star and the slash where they belong."""
    before = None
    for parameter in given:
        if before == parameter.POSITIONAL_ONLY != parameter.kind:
            yield "/"
        if parameter.kind == parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            yield "*"
        yield str(parameter)
        before = parameter.kind


def _prose(docstring: str) -> str:
    """A docstring as Markdown: what is indented, and what is an example, is code."""
    parts, fence = [], False
    for block in docstring.split("\n\n"):
        code = block.startswith(("    ", ">>>"))
        if code and fence:
            parts[-1] = parts[-1].removesuffix("\n```") + f"\n{textwrap.dedent(block)}\n```"
        elif code:
            parts.append(f"```{'pycon' if '>>>' in block else 'text'}\n{textwrap.dedent(block)}\n```")
        else:
            parts.append(block)
        fence = code
    return "\n\n".join(parts) + "\n"


# What can be set, what can go wrong, what is told


def policies() -> str:
    """Every policy: what it is by default, what else it may be, and what that means."""
    from nbcheckpoint.engine import policy

    said = _field_notes(policy.Policies)
    rows = []
    for name in policy.NAMES:
        default = inspect.signature(policy.Policies).parameters[name].default
        choices = [f"`{word}`" for word in policy._CHOICES.get(name, ()) if word != default]
        rows.append((f"`{name}`", f"`{default}`", ", ".join(choices), said.get(name, "")))
    return _table(("policy", "default", "others", ""), rows)


def retention() -> str:
    """What is kept, unless `prune` is told otherwise."""
    from nbcheckpoint import retention

    said = _field_notes(retention.Policy)
    rows = []
    for name, parameter in inspect.signature(retention.Policy).parameters.items():
        default = parameter.default
        shown = f"{default / retention.DAY:.0f} days" if name == "max_age_seconds" else default
        rows.append((f"`{name}`", str(shown if shown is not None else "no limit"), said.get(name, "")))
    return _table(("limit", "default", ""), rows)


def _field_notes(kind: type) -> dict[str, str]:
    """Field -> the docstring below it, which Python itself forgets."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    found: dict[str, str] = {}
    for before, line in itertools.pairwise(body):
        text = line.value.value if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) else None
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(text, str):
            found[before.target.id] = " ".join(text.split())
    return found


def records() -> str:
    """Every record, field by field."""
    from nbcheckpoint import model

    kinds = [found for found in vars(model).values() if isinstance(found, type) and issubclass(found, model.Record)]
    return "\n".join(_record(kind) for kind in kinds if kind is not model.Record)


def _record(kind: Any) -> str:
    notes = _field_notes(kind)
    fields = {name: said for name, said in kind.__annotations__.items() if name not in kind.hidden}
    rows = [(f"`{name}`", f"`{_type(said)}`", notes.get(name, "")) for name, said in fields.items()]
    return f"## {kind.__name__}\n\n{_prose(inspect.getdoc(kind) or '')}\n{_table(('field', 'type', ''), rows)}"


def _type(said: str) -> str:
    """As it was written; words there are only some of, as those."""
    from nbcheckpoint import model

    choices = typing.get_args(getattr(model, said, None))
    return " | ".join(map(json.dumps, choices)) or said


def lab_settings() -> str:
    """What can be set in JupyterLab."""
    schema = json.loads((ROOT / "labextension" / "schema" / "plugin.json").read_text())
    settings = schema["properties"].items()
    return _table(
        ("setting", "default", ""),
        [(f"`{name}`", f"`{json.dumps(about['default'])}`", about["description"]) for name, about in settings],
    )


def server_settings() -> str:
    """What an administrator may set of the server's part."""
    from nbcheckpoint.server.app import NbcheckpointApp

    traits = NbcheckpointApp.class_own_traits(config=True)
    rows = [(f"`NbcheckpointApp.{name}`", " ".join(traits[name].help.split())) for name in sorted(traits)]
    return _table(("setting", ""), rows)


def errors() -> str:
    """The tree, and every error with its hint."""
    from nbcheckpoint import errors

    tree = (errors.__doc__ or "").split("\n\n")[1]
    kinds = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, errors.Error)]
    parts = [f"```text\n{textwrap.dedent(tree)}\n```\n"]
    for kind in kinds:
        hint = f"\nHint: *{kind.hint}*\n" if kind.__dict__.get("hint") else ""
        parts.append(f"## {kind.__name__}\n\n{_prose(inspect.getdoc(kind) or '')}{hint}")
    return "\n".join(parts)


def routes() -> str:
    """Every route, from the table they are made from."""
    from nbcheckpoint.server.routes import ROUTES

    return "\n".join(line for route in ROUTES for line in _route(route))


def _route(route: Any) -> Iterator[str]:
    import msgspec

    from nbcheckpoint.server.asking import field_schemas

    yield f"## {route.method} {route.address}\n"
    yield f"{route.summary}\n"
    answer = route.answer if isinstance(route.answer, str) else f"`{route.answer.__name__}`"
    rows = [("query", f"`{name}`", _schema(about)) for name, about in field_schemas(route.query).items()]
    if isinstance(route.body, type):
        needed = {field.name for field in msgspec.structs.fields(route.body) if field.required}
        for name, about in field_schemas(route.body).items():
            rows.append(("body", f"`{name}`" + (" (required)" if name in needed else ""), _schema(about)))
    elif route.body:
        rows.append(("body", "the archive", "as `export` writes it"))
    yield _table(("", "", ""), [*rows, ("answer", answer, "")])


def _schema(about: dict[str, Any]) -> str:
    told = [part["description"] for part in (about, *about.get("anyOf", ())) if "description" in part]
    return told[0] if told else str(about.get("type", ""))


def refusals() -> str:
    """What a route answers when it does not do as it was told."""
    from nbcheckpoint.server.openapi import REFUSED

    return _table(("status", ""), list(REFUSED.items()))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[_cell(text) for text in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]]) + "\n"


def _cell(text: str) -> str:
    """A bar ends a cell, unless it stands in code."""
    parts = text.replace("\n", " ").split("`")
    return "`".join(part if at % 2 else part.replace("|", "\\|") for at, part in enumerate(parts))


PARTS: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (
        *(commands, words, cell_options, python_names, wrapped_functions, async_store),
        *(observers, records, lab_settings, policies, retention, server_settings, errors, routes, refusals),
    )
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The hook: MkDocs asks for every page. What a cell shows looks other than what one types."""
    return expand(markdown).replace("<!-- shows -->\n```text\n", "``` { .text .shows }\n")

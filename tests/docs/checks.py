"""What a page says that is not so: commands, options, magics and names it mentions, held up to the code."""

from __future__ import annotations

import builtins
import importlib
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import click

import nbcheckpoint
from nbcheckpoint.errors import Error
from nbcheckpoint.notebook import options
from nbcheckpoint.store import Store
from tests.docs import facts
from tests.docs.pages import ROOT, code, spans

OTHERS_OPTIONS = {
    *("--engine", "--execution-timeout", "--upgrade"),  # of papermill and pip
    *("--time", "--requeue", "--open-mode", "--signal"),  # of sbatch
    *("-r", "-f", "-m", "-p", "-o"),
}
OTHERS_NAMES = {"DataLoader", "NbcheckpointApp"}
POLICY_LIKE = {"on_item_failure"}
_COMMAND = re.compile(r"(?:^|[ (`$])(nbcheckpoint ([a-z][a-z-]*)(?: [^;|&#]*)?)")
_OURS = re.compile(rf"{_COMMAND.pattern}|%checkpoint|^--")
_NO_COMMAND = ("%load_ext", "%unload_ext", "import", "from", "papermill")


def unknown_words(text: str) -> Iterator[str]:
    """Commands, words and options there are none of."""
    for line in code(text):
        if line.startswith(_NO_COMMAND):
            continue
        yield from (line for _, word in _COMMAND.findall(line) if word not in facts.COMMANDS)
        yield from (line for word in re.findall(r"(?<!%)%checkpoint ([a-z]+)", line) if word not in facts.WORDS)
        for option in re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", line):
            if _OURS.search(line) and option not in facts.all_options() and option not in OTHERS_OPTIONS:
                yield line


def misread_commands(text: str) -> Iterator[str]:
    """Command lines that click would not understand: unknown options, missing arguments, values of another type."""
    for line in code(text):
        if line.startswith(_NO_COMMAND):
            continue
        for said, _ in _COMMAND.findall(re.split(r"\s{3,}", line)[0]):
            try:
                if not re.search(r"[…\[]", said):
                    _understand(said.strip())
            except (click.ClickException, KeyError, Error) as error:
                yield f"{line}: {error}"


def _understand(line: str) -> None:
    word, *rest = shlex.split(line)[1:]
    command = facts.COMMANDS[word]
    context = click.Context(command, info_name=word)
    given, left, _ = command.make_parser(context).parse_args(args=list(rest))
    if left:
        raise click.UsageError(f"what is {left}?")
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if rest and isinstance(parameter, click.Argument) and parameter.required and parameter.value_is_missing(value):
            raise click.MissingParameter(ctx=context, param=parameter)
        if value and not isinstance(parameter.type, click.Path) and parameter.nargs == 1 and not parameter.multiple:
            parameter.type_cast_value(context, value)


def misread_magics(text: str) -> Iterator[str]:
    """Lines with magics that their parsers would not understand."""
    for line in code(text):
        line = re.split(r"\s{3,}|  #", line)[0]
        found = re.match(r"(?:\w+ = )?%checkpoint ([a-z]+)(.*)", line)
        parser = facts.word_parser(found[1]) if found else None
        if re.search(r"[…|`\[]", line):
            continue
        try:
            if line.startswith("%%checkpointed"):
                options.parse(line.removeprefix("%%checkpointed"))
            if found and parser is not None and found[2]:
                parser.parse_args(shlex.split(found[2]))
        except Error as error:
            yield f"{line}: {error}"


def unknown_names(text: str) -> Iterator[str]:
    """Variables, functions, modules, methods, policies and extras there are none of."""
    project = (ROOT / "pyproject.toml").read_text()
    known: dict[str, Callable[[str], bool]] = {
        r"(?<![_.])NBCHECKPOINT_[A-Z_]+": lambda name: name in facts.variables(),
        r"\bnbc\.(\w+)": lambda name: hasattr(nbcheckpoint, name),
        r"\b(?:store|other)\.(\w+)\(": lambda name: hasattr(Store, name),
        r"(?<![\w./<-])nbcheckpoint\.((?:\w+\.)*\w+)": lambda name: (
            _resolves(name) or f'entry-points."nbcheckpoint.{name}"' in project
        ),
        r"\bon_\w+": lambda name: name in facts.POLICIES or name in POLICY_LIKE,
        r"nbcheckpoint\[(\w+)\]": lambda name: f"\n{name} = [" in project,
    }
    for line in code(text):
        for pattern, exists in known.items():
            yield from (f"{name} in {line}" for name in re.findall(pattern, line) if not exists(name))


def _resolves(dotted: str) -> bool:
    found: Any = nbcheckpoint
    at = "nbcheckpoint"
    for name in dotted.split("."):
        at += f".{name}"
        if not hasattr(found, name):
            try:
                importlib.import_module(at)
            except ImportError:
                return False
        found = getattr(found, name)
    return True


def unknown_spans(text: str) -> Iterator[str]:
    """Routes, events, errors, files and targets of the Makefile there are none of."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known: dict[str, Callable[[str], bool]] = {
        r"(?:GET|POST|DELETE) \S+": lambda span: span in facts.ROUTE_NAMES,
        r"(?:run|step|checkpoint|pause|graph|cycle|edge|store)_\w+(?:ed|error)": lambda span: span in facts.EVENTS,
        r"(?:[A-Z][a-z]+){1,4}": _is_a_class,
        r"(?:[a-z][\w-]*/)+[\w.-]*": _is_a_path,
        r"make [a-z-]+": lambda span: span.removeprefix("make ") in targets,
    }
    for span in spans(text):
        yield from (span for pattern, exists in known.items() if re.fullmatch(pattern, span) and not exists(span))


def _is_a_class(name: str) -> bool:
    ours = name in facts.ERRORS or name in OTHERS_NAMES or hasattr(nbcheckpoint, name)
    return ours or name in facts.ANSWERS or name in facts.RECORDS or hasattr(builtins, name)


def _is_a_path(text: str) -> bool:
    route = text.removeprefix("nbcheckpoint/api/")
    is_route = route != text and (not route or any(name.endswith(f" {route}") for name in facts.ROUTE_NAMES))
    return is_route or any((root / text).exists() for root in (ROOT, ROOT / "nbcheckpoint"))


CHECKS = (unknown_words, misread_commands, misread_magics, unknown_names, unknown_spans)

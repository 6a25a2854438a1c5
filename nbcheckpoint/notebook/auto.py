"""`%checkpoint auto [on|off] [--min-seconds S] [--overhead PCT] [--ignore x]`: every cell, no magic."""

from __future__ import annotations

import argparse
from typing import NoReturn

from nbcheckpoint.codec.pickle import load_plugins
from nbcheckpoint.errors import Error, UsageError
from nbcheckpoint.notebook.answer import Answer
from nbcheckpoint.notebook.cells import CellCheckpointer
from nbcheckpoint.notebook.line import show
from nbcheckpoint.notebook.options import labels
from nbcheckpoint.units import parse_age, say_duration


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"%checkpoint auto: {message}",
            hint="%checkpoint auto [on|off] [--min-seconds S] [--overhead PCT] [--ignore x]",
        )


def parser() -> argparse.ArgumentParser:
    p = _Parser(
        prog="%checkpoint auto",
        add_help=False,
        description="Save every slow statement and loop from here on.",
        epilog="Example: %checkpoint auto --min-seconds 5s",
    )
    p.add_argument("switch", nargs="?", choices=("on", "off"), default="on", help="off ends it")
    p.add_argument("--min-seconds", type=_seconds, metavar="S", help="statements quicker than this just run again")
    p.add_argument("--overhead", type=_percent, metavar="PCT", help="saving may take this share of the run time")
    p.add_argument("--ignore", type=labels, metavar="x", help="changes of these variables do not matter, in any cell")
    return p


def _seconds(text: str) -> float:
    try:
        return parse_age(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _percent(text: str) -> float:
    try:
        share = float(text.removesuffix("%"))
    except ValueError:
        share = -1.0
    if not 0 < share <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0 and 100")
    return share / 100


def switch(checkpointer: CellCheckpointer, words: list[str]) -> str:
    """Do what the words say; returns the sentence to show. Raises UsageError."""
    chosen = parser().parse_args(words)
    checkpointer.automatic = chosen.switch == "on"
    if not checkpointer.automatic:
        return "automatic checkpoints are off: cells that begin with %%checkpointed are still saved"
    load_plugins()  # else the first slow cell would wait for it
    pace = checkpointer.pace
    if chosen.min_seconds is not None:
        pace.min_seconds = chosen.min_seconds
    if chosen.overhead is not None:
        pace.overhead = chosen.overhead
    if chosen.ignore is not None:
        checkpointer.ignored = chosen.ignore
    said = f"automatic checkpoints are on: statements and loops that take {say_duration(pace.min_seconds)} or more"
    ignored = f", whatever {', '.join(checkpointer.ignored)} may be" if checkpointer.ignored else ""
    return f"{said}, for at most {100 * pace.overhead:g} % of the run time{ignored}{_offer(checkpointer)}"


def _offer(checkpointer: CellCheckpointer) -> str:
    """The run that was cut short, if the notebook's last one was."""
    try:
        run = checkpointer.session.interrupted
    except Error:
        return ""
    if run is None:
        return ""
    return f" · the last run was cut short after {say_duration(run.computed_seconds)} of work: run the cells again"


def word(checkpointer: CellCheckpointer, words: list[str]) -> Answer | None:
    """save every slow statement and loop from here on; `auto off` ends it"""
    if "--help" in words or "-h" in words:
        return Answer([parser().format_help()])
    show(checkpointer.shell, "note", switch(checkpointer, words))
    return None

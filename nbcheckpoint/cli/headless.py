"""Commands that run notebooks: run, resume, plan."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import reprlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from nbcheckpoint.cli.base import command, draw, find_run, hush, main, said_as_json, say
from nbcheckpoint.errors import Error, NotFound
from nbcheckpoint.model import Run
from nbcheckpoint.store import Store, open_store
from nbcheckpoint.units import parse_age

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Seconds(click.ParamType[float]):
    """`90`, `30s`, `2h`."""

    name = "S"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            return parse_age(str(value))
        except Error as error:
            self.fail(f"{error}; {error.hint}", param, ctx)


def _parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    raw = click.option(
        "-r", "--raw", nargs=2, multiple=True, metavar="NAME TEXT", help="The same, as text whatever it looks like."
    )
    given = click.option(
        "-p",
        "--parameter",
        "given",
        nargs=2,
        multiple=True,
        metavar="NAME VALUE",
        help="Set a parameter, as papermill does.",
    )
    return given(raw(function))


def _values(given: Any, raw: Any) -> dict[str, Any]:
    from nbcheckpoint.notebook import parameters

    return {name: parameters.parse(text) for name, text in given} | dict(raw)


_report = click.option("--report", type=click.Choice(["html", "json"]), help="Write what happened beside OUT.")


@main.command(epilog="Example: nbcheckpoint run train.ipynb -o done.ipynb -p epochs 100")
@click.argument("notebook", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write it there.  [default: NAME.out.ipynb]")
@_parameters
@click.option("--kernel", default="", metavar="K", help="The kernel to use.  [default: this Python, or the notebook's]")
@click.option("--cwd", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where it runs.")
@click.option("--timeout", type=Seconds(), help="How long a cell may take, like 90s or 2h.")
@click.option("--allow-errors", is_flag=True, help="Go on behind a cell that fails.")
@click.option("--fresh", is_flag=True, help="Compute everything anew.")
@click.option(
    "--restarts", type=click.IntRange(min=0), default=0, metavar="N", help="Replace so many kernels that die."
)
@click.option("--grace", type=Seconds(), default="10s", show_default=True, help="Time to save, when asked to stop.")
@click.option("--min-seconds", metavar="S", help="Statements quicker than this just run again.  [default: 1s]")
@click.option("--overhead", metavar="PCT", help="Saving may take this share of the time.  [default: 3%]")
@click.option("--ignore", metavar="x,y", help="Changes of these variables do not matter: a client, a connection.")
@_report
@command
def run(store: str | None, as_json: bool, **asked: Any) -> None:
    """Run NOTEBOOK without a browser, saving as it goes. Run again after a crash, it goes on where it was.

    Exit codes: 0 done, 1 the notebook failed or its kernel died, 4 paused, 130 Ctrl-C, 143 SIGTERM. After any of
    them the same command goes on.
    """
    from nbcheckpoint.notebook import headless
    from nbcheckpoint.notebook.request import Request

    words = [(f"--{name.replace('_', '-')}", asked[name]) for name in ("min_seconds", "overhead", "ignore")]
    request = Request(
        notebook=asked["notebook"],
        out=asked["out"] or headless.default_out(asked["notebook"]),
        parameters=_values(asked["given"], asked["raw"]),
        store=store,
        auto=tuple(part for pair in words if pair[1] for part in pair),
        **{name: asked[name] for name in ("kernel", "cwd", "timeout", "allow_errors", "fresh", "restarts", "grace")},
    )
    execute(request, as_json, asked["report"])


@main.command(epilog="Example: nbcheckpoint resume train.ipynb")
@click.argument("target", required=False, metavar="[RUN|NOTEBOOK]")
@_report
@command
def resume(target: str | None, report: str | None, store: str | None, as_json: bool) -> None:
    """Go on with a run, with the parameters and the output it had. By default the latest notebook's cut short.

    A flow's run is gone on with, too, where the flow stands in a module that can be imported.
    """
    from nbcheckpoint.notebook import headless
    from nbcheckpoint.notebook.request import Request

    with open_store(store, create=False) as opened:
        found = headless.to_resume(opened, target)
        if found is None:
            found = find_run(opened, target) if target else None
        if found is None:
            raise NotFound("no run was cut short", hint="nbcheckpoint runs lists what there is")
        if found.kind != "notebook":
            _resume_flow(opened, found, as_json)
            return
        request = Request.of_run(found, opened.url)
    if found.status == "completed":
        if not said_as_json(found, as_json):
            say(f"nothing to resume: {found.workflow} {found.id} is complete")
        return
    execute(request, as_json, report)


def _resume_flow(store: Store, run: Run, as_json: bool) -> None:
    """In this process. What it raises is its own; that it waits for an answer has an exit code."""
    from nbcheckpoint.engine import context
    from nbcheckpoint.engine.finding import find_flow

    flow = find_flow(run)
    context.use(store)
    try:
        result = flow.resume(run.id)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
    finally:
        context.use(None)
    if not said_as_json(store.run(run.id), as_json):
        say(f"{run.workflow} {run.id} is complete: {reprlib.repr(result)}")


@main.command(epilog="Example: nbcheckpoint plan train.ipynb -p epochs 100")
@click.argument("notebook", type=click.Path(path_type=Path))
@_parameters
@click.option("--cwd", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where it would run.")
@command
def plan(notebook: Path, given: Any, raw: Any, cwd: Path | None, store: str | None, as_json: bool) -> None:
    """Say what `run` would restore and what it would compute. Nothing is executed."""
    from nbcheckpoint.notebook import headless
    from nbcheckpoint.notebook.forecast import forecast
    from nbcheckpoint.notebook.request import Request

    _load_nbformat()
    path = notebook.absolute()
    loaded = headless.prepared(Request(notebook, notebook, _values(given, raw)))
    with open_store(headless.located(store, path), create=False) as opened:
        answer = forecast(loaded, path, cwd.absolute() if cwd else path.parent, opened)
    if not said_as_json(answer.data, as_json):
        for part in answer.parts:
            draw(part)


def execute(request: Any, as_json: bool, report: str | None) -> None:
    """Run it, show it, and exit with the code that says how it ended."""
    from nbcheckpoint.cli.watch import going_on, summary, watcher
    from nbcheckpoint.notebook import headless

    _load_nbformat()
    watching = watcher(quiet=as_json)
    try:
        with _signals_as_exit_codes():
            outcome = headless.run(request, watching)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        close = getattr(watching, "close", None)
        if close is not None:
            close()
    if report:
        from nbcheckpoint.cli.report import write

        write(outcome, report)
    try:
        if not said_as_json(outcome.to_dict(), as_json):
            say(summary(outcome))
    except BrokenPipeError:
        hush(sys.stdout)  # nobody reads it, and the exit code still says how it ended
    except Error as error:
        if as_json:
            raise  # it is not what was asked for
        with going_on():
            click.echo(f"nbcheckpoint: {error}", err=True)
    with going_on():
        _tell_error(None if as_json else outcome.error)
    sys.exit(exit_code(outcome))


def _load_nbformat() -> None:
    """Without what takes a second and no notebook needs: a grammar of addresses, for schemas that speak of them.

    This process only runs the notebook's kernel; to a flow, whose code may check such a schema, it is not done.
    """
    grammar = "rfc3987_syntax"
    if grammar in sys.modules:
        return
    sys.modules[grammar] = None  # type: ignore[assignment]  # the documented way to make its import fail
    try:
        importlib.import_module("nbformat")
    except ImportError:
        pass  # said by whoever needs it, with what to install
    finally:
        del sys.modules[grammar]


@contextmanager
def _signals_as_exit_codes() -> Iterator[None]:
    """Before and after there is a kernel, too. What is ignored, as under nohup, stays so."""
    minded = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    before = {number: signal.getsignal(number) for number in minded}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(outcome: Any) -> int:
    """A signal ends it as the shell says: 128 and its number."""
    number = getattr(outcome.error, "signal", 0)
    return 128 + number if number else {"completed": 0, "paused": 4}.get(outcome.status, 1)


def _tell_error(error: Error | None) -> None:
    if error is None:
        return
    traceback = getattr(error, "traceback", "")
    if traceback:
        click.echo(traceback if sys.stderr.isatty() else _ANSI.sub("", traceback), err=True)
    click.echo(f"nbcheckpoint: {error}\n  {error.hint}", err=True)

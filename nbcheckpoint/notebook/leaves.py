"""What a statement leaves: names bound, deleted and changed in place, random state, files.

Told from what was seen before it ran and what is there now. Nothing here touches the store or the shell; what was
seen before is kept in `Running`.
"""

from __future__ import annotations

import argparse
import ast
import functools
import logging
import os
import re
import sys
import time
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nbcheckpoint import bars
from nbcheckpoint.codec.frames import Counts
from nbcheckpoint.codec.pickle import is_live
from nbcheckpoint.engine import context
from nbcheckpoint.engine.drawn import drawn_before, drawn_since
from nbcheckpoint.engine.identity import Identity, firm, look_again, texts_in
from nbcheckpoint.engine.pace import WORTH
from nbcheckpoint.fingerprint import files, settings
from nbcheckpoint.fingerprint.code import Names, names_in
from nbcheckpoint.fingerprint.reach import code_of
from nbcheckpoint.model import Checkpoint, Input, Reason, Step
from nbcheckpoint.notebook import around, logs, namespace, sharing
from nbcheckpoint.notebook.around import Around
from nbcheckpoint.notebook.conditions import conditions
from nbcheckpoint.notebook.figures import Figures
from nbcheckpoint.notebook.outputs import Recorder
from nbcheckpoint.notebook.written import opened_in, seen_through
from nbcheckpoint.whose import home_of, is_user_code, package_of

if TYPE_CHECKING:
    from nbcheckpoint.notebook.loop import Loop
    from nbcheckpoint.notebook.loops import Loops

RESULT = "result:"
"""Under this the value of a cell's last expression is kept. No variable can be called that."""

IS_RESULT = "is result"
"""In the meta of a checkpoint: the variable the statement has read and left alone that is itself its result."""
ANNOTATED = "annotated"
"""In the meta of a checkpoint: names that were annotated when the statement had run, of those it may annotate."""
_NOT_DATA = (
    *(type, types.FunctionType, types.ModuleType, types.MethodType, types.BuiltinFunctionType),
    type(functools.lru_cache(int)),  # pickled by name: what it remembers would be gone
)


@dataclass
class Running:
    """A statement that is running and is to be saved, and what was there before it ran."""

    number: int
    source: str
    tree: ast.Module
    """What it is identified by."""
    turns: int | None
    """How far it goes, if it is a loop for which that is no part of its identity."""
    own: Names
    identity: Identity
    reason: Reason
    problem: str
    certain: set[str]
    is_expression: bool
    annotates: frozenset[str]
    """Names it annotates, if it comes by there."""
    before: dict[str, Any]
    """All names and what they were bound to; holding the values keeps their ids their own."""
    counts: Counts
    """Who shared memory with frames among its inputs."""
    modules_before: dict[str, dict[str, Any]]
    rng_before: dict[str, Any]
    settings_before: dict[str, Any]
    around: Around
    logs_to: frozenset[int]
    """The handlers of loggers."""
    calls_before: int
    """How many flows had been called."""
    asked_before: int
    """How many questions had been asked outside of them."""
    figures: Figures
    watch: files.FileWatch
    recorder: Recorder
    shows: bool = False
    """Is it an expression whose value is shown where it stands, or are some inside of it shown?"""
    loops: Loops | None = None
    interrupted: bool = False
    """Did somebody press stop, whatever the code made of it?"""
    undo: Callable[[], None] = lambda: None
    started: float = field(default_factory=time.perf_counter)
    seconds: float | None = None
    """Set when it has run without an exception."""
    around_after: Around | None = None
    """If it may be saved."""
    result: Any = None

    @property
    def written(self) -> frozenset[str]:
        """Names that its code may bind or delete."""
        return self.own.writes | self.identity.mentions.writes

    @property
    def resumed(self) -> Checkpoint | None:
        """The progress its loops went on from."""
        return self.loops.resumed if self.loops is not None else None

    def bars(self, user_ns: dict[str, Any], *, but: Collection[str]) -> dict[str, Any]:
        """Where the progress bars stand that it has moved on and not made: those of before it, and of its `with`s."""
        entered = self.loops.bound_by_with if self.loops is not None else ()
        known = {**self.identity.values, **{name: user_ns.get(name) for name in entered}}
        there = {name: bar for name, bar in known.items() if bars.is_bar(bar) and user_ns.get(name) is bar}
        return {bars.PREFIX + name: bars.where(bar) for name, bar in there.items() if name not in but}


class Place(NamedTuple):
    """Where a statement stands."""

    chosen: argparse.Namespace
    step: Step
    workflow: str
    last: bool
    """Is it the last one of its cell?"""


class Draft(NamedTuple):
    """What to save, or why not."""

    checkpoint: Checkpoint | None
    values: dict[str, Any]
    problem: str = ""


def obstacle(running: Running, now: Around) -> str:
    """An effect that could not be brought back by binding names."""
    if running.recorder.live:
        return "it shows live widgets"
    if running.recorder.has_asked:
        return "it asks for input"
    if running.shows and not running.is_expression and running.recorder.has_results:
        return "it shows values of what is inside of it"
    if running.recorder.has_shown_error:
        return "it shows an error"
    if running.figures.touched or (running.figures.open and _mentions_drawing(running)):
        return "a figure is being drawn: pyplot keeps it to itself"
    if running.watch.leaves_program:
        return "it has started a program that is still running"
    unseen = _reads_unseen(running)
    if unseen:
        return f"{unseen} reads files where nobody can look: write their names out, or give them with --files"
    return around.change(running.around, now, running.watch.set_by_imports)


_REMOVE = frozenset({"remove", "unlink", "rmtree", "rmdir", "removedirs"})
_EXPECT_GONE = frozenset(
    {"missing_ok", "ignore_errors", "exists", "isfile", "is_file", "suppress"}
    | {"FileNotFoundError", "OSError", "Exception"}
)
"""Who removes a file once more, after a kill, does not fail because it is gone."""
_ALL_THE_SAME = frozenset({"missing_ok", "ignore_errors"})
"""Nor does anything else depend on it."""
_OF_POLARS = frozenset(
    f"{how}_{what}" for how in ("read", "scan") for what in ("csv", "parquet", "ipc", "ndjson", "json", "avro", "delta")
)


_TABLES = _OF_POLARS | {"read_table", "read_feather", "read_orc", "read_deltalake", "dataset", "parquet_dataset"}
_TABLES |= {"ParquetDataset", "ParquetFile", "DeltaTable", "File"}
_OF_DUCKDB = frozenset({"read_csv", "read_parquet", "read_json", "from_csv_auto", "from_parquet"})
_QUERIES = frozenset({"sql", "query", "execute", "from_query"})
_TABLES |= _OF_DUCKDB | _QUERIES
_READ_TABLES = frozenset({"polars", "pyarrow", "duckdb", "deltalake", "h5py"})
_QUOTED = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"")
_FROM_FILES = re.compile(r"\b(?:from|join)\s+'|\bread_\w+\s*\(|_scan\s*\(", re.IGNORECASE)
"""`from 'a.csv'`, `read_parquet(…)` in a query."""


def reads_tables(identity: Identity) -> bool:
    """May it have a library read files, or folders of them, in C?"""
    names = _TABLES & (identity.mentions.attributes | identity.mentions.reads)
    return bool(names) and any(_root_package(value) in _READ_TABLES for value in identity.values.values())


def quoted_in(texts: Iterable[str]) -> set[str]:
    """What stands in quotes in a query: maybe the name of a file."""
    return {one or other for text in texts for one, other in _QUOTED.findall(text)}


def _reads_unseen(running: Running) -> str:
    """The library that it has read files, if not one name of a file has come by."""
    if running.watch.has_read:
        return ""
    attributes, values = running.identity.mentions.attributes, running.identity.values.values()
    roots = {_root_package(value) for value in values}
    if "polars" in roots and _OF_POLARS & attributes:
        return "polars"
    if "h5py" in roots and "File" in attributes:
        return "h5py"
    texts = (*running.identity.mentions.strings, *texts_in(values)) if "duckdb" in roots else ()
    by_query = _QUERIES & attributes and any(map(_FROM_FILES.search, texts))
    return "duckdb" if by_query or ("duckdb" in roots and _OF_DUCKDB & attributes) else ""


class Kept(NamedTuple):
    """What of a statement's work is to be saved."""

    identity: Identity
    bound: set[str]
    mutated: set[str]
    values: dict[str, Any]


def _kept(running: Running, user_ns: dict[str, Any], place: Place, loop: Loop | None, walk: int) -> Kept | str:
    """The variables, with whoever shares something with them; or why that cannot be."""
    chosen, identity = place.chosen, running.identity
    mutated, problem = changed_inputs(running, user_ns)
    if not problem:
        identity, problem = firm(identity, mutated)
    if problem:
        return problem
    bound = namespace.rebound(running.before, user_ns, running.written) | (running.certain & user_ns.keys())
    resumed = running.resumed
    if resumed is not None:  # in the kernel it was cut short in, names may still have what it had bound then
        bound |= set(resumed.names) & user_ns.keys()
    unknown = [n for n in chosen.save if n not in user_ns] if place.last else []
    if unknown:
        return f"--save names {', '.join(unknown)}, which does not exist"
    carried = _carried(running, loop) if loop is not None and (chosen.save or chosen.skip) else set()
    missed = sorted(carried & set(chosen.skip) & (bound | mutated))
    if missed:
        return f"the next iteration needs {', '.join(missed)}, which is not to be saved"
    if chosen.save:
        bound &= set(chosen.save) | carried
    wanted = (bound - set(chosen.skip)) | mutated  # who shares what is skipped has changed with it
    if loop is not None and running.loops is not None:
        problem = _writes_otherwise(running)
        if problem:
            return problem
        entered, problem = running.loops.entered(wanted, user_ns, _brought(running) | loop.body_reads)
        if problem:
            return problem
        wanted -= entered
    apart = loop.all_held(user_ns) & wanted if loop is not None else set()
    lookers_on = running.before, identity.values
    together = sharing.closed(wanted - apart, user_ns, lookers_on, walk)
    if together is None:
        return "too many objects to tell which variables share them"
    if loop is not None:
        loop.chain[0].kept_with = together & apart
        together, problem = loop.take_along(together, user_ns, lookers_on)
        if not problem and running.loops is not None:
            problem = running.loops.shared_around(together, user_ns)
        if problem:
            return problem
    together |= apart & user_ns.keys()
    strangers = together - wanted - identity.before.keys()
    holders = {n for n in together & user_ns.keys() - bound if isinstance(user_ns[n], _NOT_DATA)}
    if strangers or holders:
        who = ", ".join(sorted(strangers or holders))
        return f"{who} shares objects with {', '.join(sorted(wanted))}"
    values = {name: user_ns[name] for name in sorted(together - set(chosen.skip))}
    defined = [name for name in values if _would_name_itself(name, values[name])]
    if defined:
        return f"it defines {', '.join(defined)}, which holds objects of its own"
    return Kept(identity, bound, mutated, values)


def _writes_otherwise(running: Running) -> str:
    """Why what it has written cannot be flushed whenever we like: somebody would see that."""
    paths = running.loops.files.open_paths if running.loops is not None else set()
    if not paths:
        return ""
    asked = seen_through(running.identity.mentions.attributes)
    if asked:
        return f"it asks for `{asked}`, maybe of a file that is being written"
    if running.watch.has_started:
        return "it starts programs, which may write to a file that is being written"
    looks = running.watch.looks_at(paths) or not opened_in(running.identity.values.values()).isdisjoint(paths)
    return "it looks at a file that is being written" if looks else ""


def draft(running: Running, user_ns: dict[str, Any], place: Place, seconds: float) -> Draft:
    """Everything the statement has left so far."""
    current = running.loops.current if running.loops is not None else None
    loop = current if current is not None and current.open else None
    walk = sharing.walk_within(WORTH * seconds) if place.chosen.automatic else sharing.MAX_WALK
    kept = _kept(running, user_ns, place, loop, walk)
    if isinstance(kept, str):
        return Draft(None, {}, kept)
    identity, values, resumed = kept.identity, kept.values, running.resumed
    besides = _besides(running, user_ns, resumed)
    shown = {RESULT: running.result} if running.shows and running.result is not None else {}
    variable = _variable_shown(running, user_ns) if shown else ""
    is_result = variable if variable not in values else ""
    shown = {} if is_result else shown
    _tell_of_removals(running)
    running.watch.goes_on = running.loops.files.open_paths if running.loops is not None else set()
    seen = running.watch.seen(unfinished=loop is not None, writes_again=loop is None or not loop.is_through)
    seen, added = logs.keep(seen, running.watch.began)
    shown |= besides.options | added
    shown |= running.bars(user_ns, but=values)
    step = place.step
    checkpoint = Checkpoint(
        id="",
        created="",
        run=step.run,
        step=f"{step.address}.{running.number:03d}",
        name=step.name,
        code=identity.code,
        inputs_digest=identity.digest,
        seconds=seconds,
        source=running.source,
        inputs=identity.inputs,
        conditions=conditions(running, user_ns, seen, kept.bound | besides.deleted),
        random=besides.drawn,
        settings=tuple(
            _settings(running, [*values.values(), *shown.values(), running.result], wrote=any(f.written for f in seen))
        ),
        files=seen,
        folder=os.getcwd() if seen else "",
        mutated=tuple(sorted(kept.mutated | (set(resumed.mutated) & values.keys() if resumed is not None else set()))),
        deleted=tuple(sorted(besides.deleted)),
        environment={"python": sys.version.partition(" ")[0]},
        meta={
            "workflow": place.workflow,
            "cell": f"{step.cell or step.name}#{running.number}",
            **({"shows": True} if running.shows else {}),
            **({IS_RESULT: is_result} if is_result else {}),
            **_annotated(running, user_ns),
            **(running.loops.at_the_end(running.turns) if running.loops is not None and loop is None else {}),
            **_marks(),
        },
    )
    return Draft(checkpoint, {**values, **besides.moved, **shown})


def _tell_of_removals(running: Running) -> None:
    """Whoever has watched the files cannot know what the code makes of it when one is gone."""
    watch, mentions = running.watch, running.identity.mentions
    said = mentions.attributes | mentions.reads | mentions.strings
    removes, expects_gone = not _REMOVE.isdisjoint(said), not _EXPECT_GONE.isdisjoint(said)
    watch.may_remove, watch.misses = removes and expects_gone, removes and not expects_gone
    watch.minds = removes and _ALL_THE_SAME.isdisjoint(said)


class Besides(NamedTuple):
    """What a statement leaves besides the names it binds and changes."""

    drawn: tuple[Input, ...]
    moved: dict[str, Any]
    """Generators it drew from: as they were, and their state now."""
    options: dict[str, Any]
    deleted: set[str]


def _besides(running: Running, user_ns: dict[str, Any], resumed: Checkpoint | None) -> Besides:
    """A loop that went on in the kernel it was cut short in has done some of that before it was entered."""
    drawn, moved = drawn_since(running.rng_before, running.identity.mentions)
    options = settings.moved(running.settings_before, settings.states())
    deleted = namespace.deleted(running.before, user_ns, running.written)
    if resumed is None:
        return Besides(drawn, moved, options, deleted)
    drawn, moved = drawn_before(resumed.random, drawn, moved)
    set_before = {name for name in resumed.names if name.startswith(settings.PREFIX)}
    now = settings.states() if set_before else {}
    options |= {name: now.get(name, {}) for name in set_before}
    return Besides(drawn, moved, options, deleted | (set(resumed.deleted) - user_ns.keys()))


def _would_name_itself(name: str, value: Any) -> bool:
    """Is it a function or class that would be saved as its name, which may stand for one that holds other objects, and
    is the same in all else?"""
    if not isinstance(value, (types.FunctionType, type)) or home_of(value) != "__main__":
        return False
    if value.__qualname__ != name or not is_live(value):
        return False
    return isinstance(value, type) or any((value.__closure__, value.__defaults__, value.__kwdefaults__, vars(value)))


def _variable_shown(running: Running, user_ns: dict[str, Any]) -> str:
    """The variable whose value, the very object, is what the statement shows, if it has read one that is."""
    inputs = running.identity.values
    return next((name for name in sorted(inputs) if user_ns.get(name) is inputs[name] is running.result), "")


def _carried(running: Running, loop: Loop) -> set[str]:
    """Names that an iteration may read as the one before has left them."""
    assert running.loops is not None
    return _brought(running) | (running.own.reads - set(running.loops.made_anew(loop)))


def _brought(running: Running) -> set[str]:
    """Names that are read by functions and classes among its inputs."""
    brought = (code for value in running.identity.values.values() for code, _, _ in code_of(value))
    return set().union(*(names_in(code).reads for code in brought))


def changed_inputs(running: Running, user_ns: dict[str, Any]) -> tuple[set[str], str]:
    """Inputs that are not what they were before the statement ran, or a reason why that is too much."""
    identity = running.identity
    looked, same_code = look_again(identity)
    if not same_code:
        return set(), "it changed a class or function behind one of its inputs"
    after = modules_in(identity)
    for name, attributes in running.modules_before.items():
        if attributes.keys() != after[name].keys() or any(after[name][n] is not v for n, v in attributes.items()):
            return set(), f"it changed the module {name}"
    differs = [item.name for item in looked if item.digest != identity.before[item.name] or not item.digest]
    changed = [name for name in differs if not bars.is_bar(identity.values[name])]
    for name in changed:
        value = identity.values[name]
        if isinstance(value, _NOT_DATA) or "." in name or "@" in name:
            return set(), f"it changed {name}, which cannot be restored by itself"
        if user_ns.get(name) is not value:
            return set(), f"it changed {name} and then bound or deleted it"
    return set(changed), ""


def _annotated(running: Running, user_ns: dict[str, Any]) -> dict[str, Any]:
    there = user_ns.get("__annotations__")
    names = sorted(running.annotates & there.keys()) if type(there) is dict else []
    return {ANNOTATED: names} if names else {}


def _marks() -> dict[str, Any]:
    """What the cell has said about itself with `nbc.mark`."""
    return {"marks": dict(context.marks)} if context.marks else {}


_SETS_OPTIONS = re.compile(r"set_option|set_printoptions|options|rcParams|rc|style|use|set_theme|set_style|set_context")
_DRAWS = frozenset({"matplotlib", "seaborn", "mpl_toolkits"})


def _settings(running: Running, values: Sequence[Any], *, wrote: bool) -> Iterator[Input]:
    """Options the result may depend on, as they were before."""
    before = running.settings_before
    resumed = running.resumed
    earlier = resumed.settings if resumed is not None else ()
    yield from earlier  # as they were when it first began
    known = {item.name for item in earlier}.union(resumed.names if resumed is not None else ())
    mentions = running.identity.mentions
    rich = running.recorder.is_rich or any(map(_SETS_OPTIONS.fullmatch, mentions.reads | mentions.attributes))
    text = rich or any(map(_has_text, values))
    roots = {_root_package(value) for value in (*running.identity.values.values(), *values)}
    for name in sorted({*before, *settings.DISPLAY} - known):
        matters = settings.counts(name)
        if name in settings.DISPLAY:
            matters = rich or wrote or bool(roots & _DRAWS) if name == "set:matplotlib" else text
        if matters:
            state = before.get(name)
            yield Input(name=name, digest=settings.digest(state), preview=", ".join(sorted(state or ()))[:80])


def _has_text(value: Any, depth: int = 2) -> bool:
    if isinstance(value, str):
        return True
    if depth and isinstance(value, (list, tuple, set, dict)) and len(value) <= 10_000:
        inside = value.values() if isinstance(value, dict) else value
        return any(_has_text(item, depth - 1) for item in inside)
    return False


def _root_package(value: Any) -> str:
    return package_of(value if isinstance(value, types.ModuleType) else type(value))


def modules_in(identity: Identity) -> dict[str, dict[str, Any]]:
    """The user's modules among the inputs, and what their names are bound to. Not which warnings Python has shown for
    them: it keeps that in the module, too."""
    modules = {n: v for n, v in identity.values.items() if isinstance(v, types.ModuleType) and is_user_code(v)}
    shown = "__warningregistry__"
    return {label: {n: v for n, v in vars(module).items() if n != shown} for label, module in modules.items()}


def logs_to() -> frozenset[int]:
    """Where loggers write to, by the handlers they have."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    found = (handler for logger in loggers for handler in getattr(logger, "handlers", ()))
    return frozenset(id(handler) for handler in found if not isinstance(handler, logging.NullHandler))


def _mentions_drawing(running: Running) -> bool:
    return any(_root_package(value) in _DRAWS for value in running.identity.values.values())


_NOTHING_LEFT = (files.MISSING, files.REMOVED, files.FOLDER)
"""What is said of files of which no content is left."""


def acts_elsewhere(running: Running, draft: Draft, outputs: Sequence[Any]) -> bool:
    """Nothing at all that could be seen? Then what it does is done elsewhere: it sets an option of some library. Or it
    has said where a log is to be written?"""
    if running.logs_to != logs_to():
        return True
    left = draft.checkpoint
    values = [name for name in draft.values if not name.startswith(settings.PREFIX)]
    kept = left is not None and [file for file in left.files if file.digest not in _NOTHING_LEFT]
    return left is not None and not (values or outputs or left.deleted or left.random or kept)

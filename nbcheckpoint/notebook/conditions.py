"""On what a checkpoint may be used, besides its code and inputs: found out only while the statement ran.

Names it may have bound and has left alone, flows it called, questions it asked, code it found in pickles, variables
that are named in files it read.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nbcheckpoint.engine import context
from nbcheckpoint.engine.identity import reads_expressions, variables_in
from nbcheckpoint.fingerprint import files
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, FileSeen, Input
from nbcheckpoint.notebook import namespace
from nbcheckpoint.whose import is_user_code

if TYPE_CHECKING:
    from nbcheckpoint.notebook.leaves import Running

RUN, ANSWER, FOUND, NAMED = "run", "answer", "found", "named"
"""The types of conditions that are about a run of a flow, about the run of the notebook that asked something, about
code of the user's that was found in a pickle, and about a variable that is named in a file."""
_LONGEST_EXPRESSION = 1 << 16
"""Bytes of a file that may be an expression, or hold some, rather than data."""
ABSENT, _UNIDENTIFIED = "absent", "unidentified"
"""In place of a digest: there is no such name, or nobody can tell what it holds."""
MAX_CALLS = 100
"""Flows with their inputs that one statement is said to have called. Beyond that the inputs are not told apart."""


def conditions(
    running: Running, user_ns: dict[str, Any], seen: Sequence[FileSeen], bound: set[str]
) -> tuple[Input, ...]:
    """All of them. `seen`: files it has read or written. `bound`: names it has bound or deleted."""
    return (
        *_left_alone(running, user_ns, bound),
        *_calls(running),
        *_answers(running),
        *_found(running),
        *_named_in_files(running, seen),
    )


def _left_alone(running: Running, user_ns: dict[str, Any], bound: set[str]) -> tuple[Input, ...]:
    """Names it may have bound to the very object they had, or not at all: used again only where that is still so."""
    may = running.written
    still = may & running.before.keys() & user_ns.keys()
    never = may - running.before.keys() - user_ns.keys()  # or bound and deleted: who has one now would keep it
    names = sorted((still | never) - bound - running.identity.before.keys())
    return tuple(Input(name=name, digest=digest_of(name, user_ns)) for name in names)


def _calls(running: Running) -> Iterator[Input]:
    """Flows it called: used again only as long as nothing before it has begun another run of the same."""
    calls = context.called[running.calls_before :]
    if len({(call.workflow, call.inputs) for call in calls}) > MAX_CALLS:
        calls = [call._replace(inputs="", before=call.before_any) for call in calls]
    first = {(call.workflow, call.inputs): call for call in reversed(calls)}
    last = {(call.workflow, call.inputs): call for call in calls}
    for of, call in last.items():
        yield Input(name=call.workflow, type=RUN, digest=f"{first[of].before}>{call.run}", preview=call.inputs)


def _call(item: Input) -> context.Called:
    """What such a condition says: the run it found, and the one it left."""
    before, _, run = item.digest.rpartition(">")
    return context.Called(item.name, item.preview, run, before)


def calls_of(checkpoint: Checkpoint) -> list[context.Called]:
    """The flows it called."""
    return [_call(item) for item in checkpoint.conditions if item.type == RUN]


def _answers(running: Running) -> Iterator[Input]:
    """It has asked something: an answer is one for its run."""
    for run in sorted(set(context.asked[running.asked_before :])):
        yield Input(name="the question", type=ANSWER, digest=run)


def _found(running: Running) -> Iterator[Input]:
    """Classes of the user's whose instances it has taken out of pickles: no variable leads there."""
    for module, name in sorted(running.watch.classes):
        thing = _by_name(module, name)
        if isinstance(thing, (type, types.FunctionType)) and is_user_code(thing):
            yield Input(name=f"{module}:{name}", type=FOUND, digest=_digest(name, thing))


def _named_in_files(running: Running, seen: Sequence[FileSeen]) -> Iterator[Input]:
    """Variables that a file it has read may name, where a library is at work that looks up names in what it is given:
    `duckdb.sql(Path("totals.sql").read_text())`. Only now it is known which file that is."""
    identity = running.identity
    if not reads_expressions(identity.mentions, identity.values.values()):
        return
    read = (files.text_of(file.path) for file in seen if not file.written and file.size <= _LONGEST_EXPRESSION)
    lines = (line for text in read for line in text.splitlines())
    for name in sorted(variables_in(lines, running.before) - identity.before.keys() - running.written):
        if namespace.is_user_name(name):
            yield Input(name=name, type=NAMED, digest=_digest(name, running.before[name]))


def _by_name(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def adopt_calls(checkpoint: Checkpoint) -> None:
    """What is restored, or goes on from there, has called these flows, and asked these questions, too."""
    for item in checkpoint.conditions:
        if item.type == ANSWER:
            context.asked.append(item.digest)
    for call in calls_of(checkpoint):
        context.note_call(call)


def holds(condition: Input, user_ns: dict[str, Any]) -> bool:
    """Is it as it was when the checkpoint was made?"""
    if condition.type == RUN:
        return context.is_latest(_call(condition))
    if condition.type == ANSWER:
        return context.ambient_run() == condition.digest
    if condition.type == FOUND:
        thing = _by_name(*condition.name.split(":"))
        return thing is not None and _digest(condition.name, thing) == condition.digest != _UNIDENTIFIED
    if condition.type == NAMED:
        there = condition.name in user_ns
        return there and _digest(condition.name, user_ns[condition.name]) == condition.digest != _UNIDENTIFIED
    return digest_of(condition.name, user_ns) == condition.digest != _UNIDENTIFIED


def state_of(condition: Input, user_ns: dict[str, Any]) -> Any:
    """What a condition is about, as it is now. Equal twice: nobody has touched it in between."""
    if condition.type:
        return holds(condition, user_ns)
    digest = digest_of(condition.name, user_ns)
    return digest if digest != _UNIDENTIFIED else object()


def digest_of(name: str, user_ns: dict[str, Any]) -> str:
    try:
        return Digester().digest(name, user_ns[name]) if name in user_ns else ABSENT
    except Unidentified:
        return _UNIDENTIFIED


def _digest(label: str, code: Any) -> str:
    """Of a function or class, with all it reads."""
    try:
        return Digester().deep(label, code)
    except Unidentified:
        return _UNIDENTIFIED


def not_there(checkpoint: Checkpoint) -> set[str]:
    """Names the statement may bind, which were bound neither before it nor when it was saved."""
    return {item.name for item in checkpoint.conditions if item.digest == ABSENT}

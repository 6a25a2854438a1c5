"""What resuming a run would restore and what it would run. Pure: records and today's code in, rows out.

It is a forecast. A flow is ordinary Python, and which steps it calls is known when it calls them; what was recorded
tells what it called last time, and whether the code of those steps is what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from nbcheckpoint.engine.arguments import reach_of
from nbcheckpoint.errors import Error
from nbcheckpoint.fingerprint.reach import code_of
from nbcheckpoint.model import Checkpoint, Record, Run, Step
from nbcheckpoint.store import Store

Action = Literal["restore", "run", "may run", "ask", "done"]


class Planned(Record, frozen=True, kw_only=True):
    """One step, and what would be done with it."""

    step: str
    name: str
    action: Action
    why: str
    seconds: float = 0.0
    """What it took last time."""


class Plan(list[Planned]):
    """All steps of a run, in order. Shows itself as a table."""

    def __str__(self) -> str:
        return "\n".join(f"{row.action:<8} {row.name}: {row.why}" for row in self)

    __repr__ = __str__


def plan_of(store: Store, run: Run, function: Callable[..., Any]) -> Plan:
    """The plan for a run of this flow, as its steps are defined now."""
    steps = [step for step in store.steps(run.id) if not step.meta.get("flow")]
    kept: dict[str, Checkpoint] = {}
    for step in steps:
        try:
            kept[step.address] = store.checkpoint(step.checkpoint) if step.checkpoint else _NONE
        except Error:
            kept[step.address] = _NONE
    return plan(run, steps, kept, _codes_now(store, run, function))


_NONE = Checkpoint(id="", created="", run="", step="", code="")


def _codes_now(store: Store, run: Run, function: Callable[..., Any]) -> dict[str, dict[str, str]]:
    """Of every step the flow's code names: what its code is, and what that reads."""
    from nbcheckpoint.engine.step import StepFunction

    found: dict[str, dict[str, str]] = {}
    seen: set[int] = set()
    queue: list[Any] = [function]
    while queue:
        value = queue.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        for code, namespace, _ in code_of(value):
            queue += [namespace[name] for name in code.co_names if name in namespace]
        if isinstance(value, StepFunction):
            spec = value.spec
            reached = reach_of(spec.function, files=spec.files, private=store.private_digest)
            found[spec.name] = {"": reached.key if spec.scope == "store" else ""}
            found[spec.name] |= {item.name: item.digest for item in reached.inputs}
    return found


def plan(run: Run, steps: Sequence[Step], kept: Mapping[str, Checkpoint], now: Mapping[str, Mapping[str, str]]) -> Plan:
    """(step, action, why) for every step that was recorded."""
    rows, doubt = Plan(), ""
    for step in steps:
        action, why = _decide(step, kept.get(step.address, _NONE), now.get(step.name), doubt)
        rows.append(Planned(step=step.address, name=step.name, action=action, why=why, seconds=step.seconds))
        if action == "run" and not doubt:
            doubt = step.name
    return rows


def _decide(step: Step, checkpoint: Checkpoint, code: Mapping[str, str] | None, doubt: str) -> tuple[Action, str]:
    if step.kind == "pause":
        return ("done", "answered") if "answer" in step.meta else ("ask", "waits for an answer")
    if step.meta.get("edited"):
        return "restore", "edited"
    if step.status in ("running", "interrupted"):
        return "run", "it was running when its process died"
    if step.status == "failed":
        return "run", f"it failed: {step.error[:120]}"
    if step.kind == "map":
        done, total = step.meta.get("done", 0), step.meta.get("total", 0)
        return "restore", f"{done} of {total} items are saved"
    if not checkpoint.id:
        return "run", "it was not saved"
    if code is None:
        return "may run", "the flow names no such step"
    changed = sorted(item.name for item in checkpoint.inputs if item.name in code and code[item.name] != item.digest)
    if changed or (code[""] and code[""] != checkpoint.code):
        return "run", f"{changed[0] if changed else step.name} changed"
    if doubt:
        return "may run", f"if what {doubt} returns is not what it was"
    return "restore", "same code, and its inputs as far as they are known"

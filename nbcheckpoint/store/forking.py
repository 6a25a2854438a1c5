"""A new run that shares the first steps of another: going back, and taking another way from there.

Only records are copied; they name the same checkpoints. A step with an edit gets a checkpoint of its own, and is taken
as it is when the run is resumed, whatever code and inputs say; also one that had failed. Questions are not copied: a
new run asks anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from nbcheckpoint.errors import NotFound, NotSaveable, Untrusted, UsageError
from nbcheckpoint.events import emit
from nbcheckpoint.model import Checkpoint, Run, Step

if TYPE_CHECKING:
    from nbcheckpoint.store import Store

RESULT = "result"
"""Under this name a step's result stands in its checkpoint."""


def fork(store: Store, run: str, at: str, edits: Mapping[str, Any]) -> Run:
    """See `Store.fork`."""
    origin = store.run(run)
    if not origin.trusted:
        raise Untrusted(f"run {run} does not carry your signature")
    steps = store.steps(run, inner=True)
    last = _find(steps, run, at)
    kept = [step for step in steps if step.address <= last.address or step.address.startswith(f"{last.address}.")]
    edited = {_to_edit(kept, run, name, value): value for name, value in edits.items()}
    kept = [step for step in kept if _is_shared(step) or step.address in edited]
    meta = {key: value for key, value in origin.meta.items() if key not in ("result", "resumed", "cancel")}
    meta["forked"] = {"run": run, "at": last.address}
    made = store.begin_run(
        origin.workflow, kind=origin.kind, inputs=origin.inputs, meta=meta, tags=origin.tags, status="interrupted"
    )
    for step in kept:
        copied = replace(step, run=made.id, status="interrupted" if step.meta.get("flow") else step.status)
        if step.address in edited:
            checkpoint = _edited(store, made, step, edited[step.address])
            meta = {**step.meta, "edited": True}
            copied = replace(copied, checkpoint=checkpoint, status="completed", error="", meta=meta)
        store.put_step(copied)
    emit("run_forked", run=made.id, origin=run, at=last.address)
    return store.update_run(made.id, status="interrupted", owner=None, durable=True)


def _is_shared(step: Step) -> bool:
    """What is finished; and the flow itself, which has the arguments."""
    done = step.status in ("completed", "restored", "skipped")
    return bool(step.meta.get("flow")) or (done and step.kind != "pause")


def _find(steps: list[Step], run: str, name: str, where: str = "") -> Step:
    """The step of that address, or the last one of that name. The name of a map is not that of its items."""
    found = [step for step in steps if name == step.address or (name == step.name and step.kind != "item")]
    if not found:
        raise NotFound(f"run {run} has no step {name!r}{where}", hint="nbcheckpoint show lists them")
    return found[-1]


def _to_edit(steps: list[Step], run: str, name: str, value: Any) -> str:
    """The address of the step that gets another result. Of a map these are several, one for each item."""
    step = _find([step for step in steps if not step.meta.get("flow")], run, name, " up to where it is forked")
    if step.kind == "pause":
        raise UsageError(f"{name} is a question, and no step", hint="the fork asks it again: answer it then")
    if step.kind == "map":
        total = step.meta.get("total")
        given = len(value) if isinstance(value, (list, tuple)) else None
        if given != total:
            what = f"{given} results" if given is not None else f"a {type(value).__name__}"
            hint = f"give a list of {total}, or name one item by its address, as {step.address}.000000"
            raise UsageError(f"map {step.name} has {total} items, and was given {what}", hint=hint)
    return step.address


def _edited(store: Store, run: Run, step: Step, value: Any) -> str:
    draft = Checkpoint(
        id="", created="", run=run.id, step=step.address, name=step.name, code="0" * 64, meta={"edited": True}
    )
    saved = store.save(draft, {RESULT: value}).checkpoint
    if saved.not_saved:
        item = saved.not_saved[0]
        raise NotSaveable(step.name, item.type, item.why, path=item.path)
    return saved.id

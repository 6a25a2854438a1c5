"""What may be asked. Parse, call, show: no logic of its own, and the words are the command line's.

The table at the end is all there is: the handlers are made from it, and so is the description at
`nbcheckpoint/api/openapi.json`. Every route takes `path`, the notebook on whose behalf is asked: it decides the store
(see `stores.py`). Answers are the records that `--json` prints; what there is none of is null; a refusal is
`{"message", "hint"}`.

Invariants: nothing is unpickled, no id becomes a path, nothing is trusted. What guards the routes is in `handler.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import asdict

from nbcheckpoint.errors import NotFound
from nbcheckpoint.model import Record
from nbcheckpoint.retention import Policy
from nbcheckpoint.server import asking
from nbcheckpoint.server.asking import Asked, Download, Question, Route
from nbcheckpoint.server.joining import compare_all
from nbcheckpoint.server.stores import shown
from nbcheckpoint.store.aio import AsyncStore, aside
from nbcheckpoint.store.archive import Moved
from nbcheckpoint.store.compare import Diff
from nbcheckpoint.store.looking import Preview
from nbcheckpoint.store.picture import Picture
from nbcheckpoint.store.surroundings import Environment
from nbcheckpoint.store.upkeep import Pruned
from nbcheckpoint.store.verify import Verified, verify_at


async def list_runs(question: Question, store: AsyncStore | None) -> Record:
    """Runs, newest first, a page at a time."""
    asked: asking.RunsAsked = question.query
    if store is None:
        return asking.RunPage()
    # One more than asked for tells whether there is a next page.
    runs = await store.runs(**asked.wanted, limit=asked.limit + 1)
    going = await store.going([run.id for run in runs[: asked.limit] if run.status == "running"])
    return asking.RunPage(
        runs=tuple(asking.RunListed(**asdict(run), progress=going.get(run.id)) for run in runs[: asked.limit]),
        store=shown(store.url),
        workflow=await asyncio.to_thread(question.stores.workflow, asked.path, store.url) if asked.path else None,
        next=runs[asked.limit - 1].id if len(runs) > asked.limit else None,
    )


async def show_run(question: Question, store: AsyncStore) -> Record:
    """One run with its steps, without those that steps consist of."""
    run = await store.run(question.ids["run"])
    return asking.RunShown(run=run, steps=tuple(await store.steps(run.id)))


async def list_steps(question: Question, store: AsyncStore) -> Record:
    """The steps of a run in the order of execution, a page at a time."""
    asked: asking.StepsAsked = question.query
    run = await store.run(question.ids["run"])
    found = await store.steps(run.id, inner=asked.inner, after=asked.after, limit=asked.limit + 1)
    following = found[asked.limit - 1].address if len(found) > asked.limit else None
    return asking.StepPage(steps=tuple(found[: asked.limit]), next=following)


async def list_events(question: Question, store: AsyncStore) -> Record:
    """What happened in a run, in order."""
    return asking.Events(events=tuple(await store.events(question.ids["run"])))


async def draw_run(question: Question, store: AsyncStore) -> Record:
    """The steps of a run and what led to what, laid out as a picture."""
    return await store.graph(question.ids["run"])


async def show_environment(question: Question, store: AsyncStore) -> Record:
    """In what surroundings a run was made, and what of that is different now."""
    return await store.environment(question.ids["run"])


async def show_checkpoint(question: Question, store: AsyncStore) -> Record:
    """The record of a checkpoint, without the bytes of its values."""
    return asking.CheckpointShown(checkpoint=await store.checkpoint(question.ids["checkpoint"]))


async def preview_checkpoint(question: Question, store: AsyncStore) -> Record:
    """What a checkpoint left, to look at: text and pictures, never HTML, and nothing unpickled."""
    return await store.preview(question.ids["checkpoint"])


async def diff_checkpoints(question: Question, store: AsyncStore) -> Record:
    """What differs between two checkpoints, or between all that two cells left, from `a` to `b`."""
    asked: asking.DiffAsked = question.query
    a = [await store.checkpoint(id) for id in asked.a.split(",")]
    b = [await store.checkpoint(id) for id in asked.b.split(",")]
    return compare_all(a, b)


async def answer_run(question: Question, store: AsyncStore) -> Record:
    """Answer a question a run waits with. The first answer is the answer."""
    body: asking.AnswerBody = question.body
    step = await store.answer(question.ids["run"], body.pause, body.value)
    return asking.RunChanged(run=await store.run(step.run))


async def pin_run(question: Question, store: AsyncStore) -> Record:
    """Keep a run, whatever retention says."""
    return asking.RunChanged(run=await store.pin(question.ids["run"]))


async def unpin_run(question: Question, store: AsyncStore) -> Record:
    """Let retention have a run again."""
    return asking.RunChanged(run=await store.unpin(question.ids["run"]))


async def note_run(question: Question, store: AsyncStore) -> Record:
    """Write a text beside a run; an empty one takes it away."""
    body: asking.NoteBody = question.body
    return asking.RunChanged(run=await store.note(question.ids["run"], body.text))


async def delete_run(question: Question, store: AsyncStore) -> Record:
    """Delete a run and the checkpoints that no other run uses."""
    return await store.delete_run(question.ids["run"])


async def prune_store(question: Question, store: AsyncStore) -> Record:
    """Remove old runs and what nobody uses, or say what would go."""
    body: asking.PruneBody = question.body
    policy = Policy.said(older_than=body.older_than, keep=body.keep, max_size=body.max_size)
    return await store.prune(policy, dry_run=body.dry_run)


async def verify_store(question: Question) -> Record:
    """Read everything and say what is not as it was written; takes as long as that takes."""
    body: asking.VerifyBody = question.body
    stores = question.stores
    where = await asyncio.to_thread(stores.locate, question.query.path)
    if where is None:
        raise no_store()
    # Not on an open store: one that is too damaged to be opened can be repaired, and only while nobody has it open.
    return await aside(lambda: verify_at(lambda: stores.opener(where), str(where), repair=body.repair, progress=None))


async def export_run(question: Question, store: AsyncStore) -> Download:
    """A run with all that belongs to it, as an archive that can be imported elsewhere."""
    run = question.ids["run"]
    return Download(f"nbcheckpoint-{run}.zip", await store.archive(run))


async def import_run(question: Question) -> Record:
    """Read an archive. What others signed is listed, and not loaded until its owner says so elsewhere."""
    assert question.upload is not None
    async with await question.stores.make(question.query.path) as store:
        return await store.import_(question.upload)


async def wait_for_news(question: Question) -> Record:
    """Answers when anything about the runs has changed since that token, or when the time is over."""
    asked: asking.WaitAsked = question.query
    token = await question.watchers.wait(question.stores, asked.path, asked.since, asked.seconds, question.gone)
    return asking.Changed(token=token)


async def describe(question: Question) -> dict[str, Any]:
    """This description."""
    from nbcheckpoint.server.openapi import description

    return description(ROUTES)


def no_store() -> NotFound:
    return NotFound("there is no store here yet", hint="run a cell with %%checkpointed first")


RUN = "runs/{run}"
CHECKPOINT = "checkpoints/{checkpoint}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        address="runs",
        call=list_runs,
        query=asking.RunsAsked,
        answer=asking.RunPage,
        opens="store or none",
    ),
    Route(method="GET", address=RUN, call=show_run, answer=asking.RunShown),
    Route(method="DELETE", address=RUN, call=delete_run, answer=Pruned),
    Route(method="GET", address=f"{RUN}/steps", call=list_steps, query=asking.StepsAsked, answer=asking.StepPage),
    Route(method="GET", address=f"{RUN}/events", call=list_events, answer=asking.Events),
    Route(method="GET", address=f"{RUN}/graph", call=draw_run, answer=Picture),
    Route(method="GET", address=f"{RUN}/environment", call=show_environment, answer=Environment),
    Route(method="GET", address=f"{RUN}/export", call=export_run, answer="archive"),
    Route(method="POST", address=f"{RUN}/answer", call=answer_run, body=asking.AnswerBody, answer=asking.RunChanged),
    Route(method="POST", address=f"{RUN}/pin", call=pin_run, body=asking.Body, answer=asking.RunChanged),
    Route(method="POST", address=f"{RUN}/unpin", call=unpin_run, body=asking.Body, answer=asking.RunChanged),
    Route(method="POST", address=f"{RUN}/note", call=note_run, body=asking.NoteBody, answer=asking.RunChanged),
    Route(method="GET", address=CHECKPOINT, call=show_checkpoint, answer=asking.CheckpointShown),
    Route(method="GET", address=f"{CHECKPOINT}/preview", call=preview_checkpoint, answer=Preview),
    Route(method="GET", address="diff", call=diff_checkpoints, query=asking.DiffAsked, answer=Diff),
    Route(method="POST", address="prune", call=prune_store, body=asking.PruneBody, answer=Pruned),
    Route(
        method="POST",
        address="verify",
        call=verify_store,
        body=asking.VerifyBody,
        answer=Verified,
        opens="nothing",
    ),
    Route(method="POST", address="import", call=import_run, body="archive", answer=Moved, opens="nothing"),
    Route(
        method="GET",
        address="wait",
        call=wait_for_news,
        query=asking.WaitAsked,
        answer=asking.Changed,
        opens="nothing",
    ),
    Route(method="GET", address="openapi.json", call=describe, query=Asked, answer="openapi", opens="nothing"),
)

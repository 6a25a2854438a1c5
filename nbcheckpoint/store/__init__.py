"""The store: records and values over a backend. Everything above talks to this, nothing above talks to bytes.

Keys of the record plane:

    format                          the version of the stored form
    run/<run>                       Run
    step/<run>/<address>            Step
    checkpoint/<id>                 Checkpoint; its id begins with the digests it is looked up by

Saving writes chunks first and the checkpoint's record last, durably: the record is the commit point, and by
the backend's rule whatever was written before it is as durable as it is. So a checkpoint that exists is whole.

Nothing is unpickled unless the record that names the stream carries this user's signature.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from msgspec.structs import replace

from nbcheckpoint import config
from nbcheckpoint.backend.base import ABSENT, Backend
from nbcheckpoint.codec.cipher import Cipher
from nbcheckpoint.codec.sign import Signer
from nbcheckpoint.errors import Error, NotFound, RunBusy, Untrusted, UsageError
from nbcheckpoint.model import FORMAT, Event, Owner, Run, Step, new_id, open_stores, utc_now
from nbcheckpoint.redact import redact, redact_source
from nbcheckpoint.showing import RunList, StepList
from nbcheckpoint.store import lease
from nbcheckpoint.store.listing import Listing, Wanted
from nbcheckpoint.store.liveness import seen, this_process
from nbcheckpoint.store.loading import Loading
from nbcheckpoint.store.opening import open_backend, read_format
from nbcheckpoint.store.saving import Saved, Saving
from nbcheckpoint.store.telling import tell_changed, tell_damage, tell_started, tell_step

if TYPE_CHECKING:
    from nbcheckpoint.retention import Policy
    from nbcheckpoint.store.archive import Moved
    from nbcheckpoint.store.compare import Diff
    from nbcheckpoint.store.copying import Copied
    from nbcheckpoint.store.looking import Going, Preview
    from nbcheckpoint.store.picture import Picture
    from nbcheckpoint.store.surroundings import Environment
    from nbcheckpoint.store.trust import Trusted
    from nbcheckpoint.store.upkeep import Pruned
    from nbcheckpoint.store.verify import Verified
    from nbcheckpoint.store.watching import Mark

__all__ = ["Saved", "Store", "find_store", "open_store"]

find_store = config.find_store


class Store(Loading, Saving):
    """One store, open. Safe to use from several threads. `open_store` makes one.

    A run, with a step that leaves a checkpoint:

    >>> from nbcheckpoint.model import Checkpoint, Step
    >>> store = open_store("memory://")
    >>> run = store.begin_run("train.ipynb")
    >>> draft = Checkpoint(id="", created="", run=run.id, step="000000", code="0" * 64, source="x = [1, 2]")
    >>> saved = store.save(draft, {"x": [1, 2], "n": 3}, outputs=[{"output_type": "stream", "text": "hi"}])
    >>> id = saved.checkpoint.id
    >>> version = store.put_step(Step(run=run.id, address="000000", name="load", status="completed", checkpoint=id))
    >>> store.update_run(run.id, status="completed", owner=None).status
    'completed'

    Going on with it, as long as nobody else does:

    >>> mine = store.take(run.id)
    >>> mine.status, mine.sessions, store.renew(run.id, mine.owner.lease).status
    ('running', 2, 'running')
    >>> store.update_run(run.id, holder=mine.owner.lease, status="completed", owner=None).status
    'completed'

    Looking at it, which never unpickles, and getting the values back:

    >>> [found.workflow for found in store.runs(status="completed", limit=10)]
    ['train.ipynb']
    >>> store.run(run.id).status, [step.name for step in store.steps(run.id)]
    ('completed', ['load'])
    >>> [(value.name, value.type, value.preview) for value in store.checkpoint(id).values]
    [('x', 'list', '[1, 2]'), ('n', 'int', '3')]
    >>> store.outputs(store.checkpoint(id))
    [{'output_type': 'stream', 'text': 'hi'}]
    >>> [(output.kind, output.text) for output in store.preview(id).outputs]
    [('text', 'hi')]
    >>> store.environment(run.id).then
    {}
    >>> store.going([run.id])
    {}
    >>> store.mark() == store.mark()
    True
    >>> store.restore(id, ["x"])
    {'x': [1, 2]}
    >>> store.load(id, resolve=store.resolver()).values
    {'x': [1, 2], 'n': 3}
    >>> [found.id == id for found in store.find("0" * 64)]
    [True]

    Several at once, for quick work:

    >>> later = store.save(draft, {"x": [1, 2], "n": 4}, defer=True).checkpoint.id
    >>> store.let_go({})
    >>> store.flush()
    >>> found = store.diff(id, later).values[0]
    >>> found.name, found.change
    ('n', 'changed')

    What happened, as a picture, and once more from some step on:

    >>> [event.type for event in store.events(run.id)]
    ['run_started', 'step_completed', 'checkpoint_saved', 'run_completed']
    >>> store.graph(run.id).nodes[0].label
    'load'
    >>> again = store.fork(run.id, at="load", edits={"load": [1, 2, 3]})
    >>> again.meta["forked"]["run"] == run.id
    True
    >>> store.step(again.id, "000000")[0].status
    'completed'
    >>> store.cancel(again.id).status
    'cancelled'
    >>> store.answer(run.id, "gate", "yes")
    Traceback (most recent call last):
    nbcheckpoint.errors.NotFound: run ... asks nothing called 'gate'

    Looking after it:

    >>> store.pin(run.id).pinned, store.unpin(run.id).pinned, store.note(run.id, "good").note
    (True, False, 'good')
    >>> store.verify().clean
    True
    >>> moved = store.export(run.id, "run.zip")
    >>> sum(len(piece) for piece in store.archive(run.id)) > 1000     # the same, for sending it somewhere
    True
    >>> other = open_store("memory://")
    >>> other.import_("run.zip").trusted
    True
    >>> other.trust(run.id).checkpoints   # it was trusted already: we signed it ourselves
    ()
    >>> store.copy_to("memory://copied").records
    7
    >>> store.delete_checkpoint(later)
    True
    >>> [gone.id == run.id for gone in store.delete_run(run.id).runs]
    [True]
    >>> store.prune().checkpoints
    ()
    >>> store.put_run(run)                # one that could not be written when it began
    >>> len(store.private_digest("a secret"))
    64
    >>> other.close(); store.close()
    """

    def __init__(
        self, backend: Backend, signer: Signer, cipher: Cipher | None = None, *, version: int = FORMAT
    ) -> None:
        super().__init__(backend, signer, cipher, version)
        self._listing = Listing(lambda: self.backend, partial(self._listed, Run), legible=cipher is None)
        open_stores.add(self)
        if hasattr(backend, "on_damage"):
            backend.on_damage = tell_damage

    def __repr__(self) -> str:
        return f"<nbcheckpoint.Store {self.url}>"

    # Runs and steps

    def runs(
        self,
        *,
        workflow: str | None = None,
        status: str | None = None,
        text: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
        before: str | None = None,
    ) -> list[Run]:
        """Newest first. `before` continues behind that run. A run whose process is gone is `interrupted`.

        `text` is looked for in workflow, id and note, in capitals or not.
        """
        wanted = Wanted(workflow=workflow, status=status, text=text, tag=tag)
        return RunList(self._listing.newest(wanted, limit=limit, before=before))

    def run(self, run: str) -> Run:
        """One run by its id. Raises NotFound."""
        return seen(self._get(Run, f"run/{run}"))

    def begin_run(self, /, workflow: str, **fields: Any) -> Run:
        """A new run, owned by this process: see `lease`."""
        now = utc_now()
        owner = lease.leased(this_process())
        run = Run(id=new_id(), workflow=workflow, created=now, updated=now, owner=owner, **fields)
        self._put(f"run/{run.id}", run, expect=ABSENT, durable=False)
        tell_started(run)
        return run

    def put_run(self, run: Run) -> None:
        """Write a run's record whole: one that could not be written when it began."""
        self._put(f"run/{run.id}", run, durable=False)
        tell_started(run)

    def take(self, run: str, *, owner: Owner | None = None) -> Run:
        """Go on with a run that is nobody's, as this process or as `owner`: one session more, `running`, a new lease.

        Raises RunBusy where its owner is alive, as far as one can tell, NotFound, and Untrusted.
        """
        wanted = lease.leased(owner or this_process())

        def taken(before: Run) -> dict[str, Any]:
            if not before.trusted:  # writing it would seal it with our key
                raise Untrusted(f"run {run} does not carry your signature")
            if seen(before).status == "running" and before.owner is not None:
                raise RunBusy(f"process {before.owner.pid} on {before.owner.host} is at work on run {run}")
            return {"owner": wanted, "status": "running", "sessions": before.sessions + 1, "updated": utc_now()}

        before, after = self._update(Run, f"run/{run}", taken, durable=False)
        tell_changed(before, after)
        return after

    def renew(self, run: str, holder: str) -> Run:
        """Say that the holder of that lease is still there. Raises Fenced, NotFound."""

        def renewed(before: Run) -> dict[str, Any]:
            lease.check(before, holder)
            return {"owner": before.owner and replace(before.owner, renewed=utc_now())}

        return self._update(Run, f"run/{run}", renewed, durable=False)[1]

    def update_run(
        self,
        /,
        run: str,
        *,
        durable: bool = False,
        holder: str | None = None,
        forget: Collection[str] = (),
        **changes: Any,
    ) -> Run:
        """Change fields of a run, whoever else changes others at the same time; `forget` these of its meta.

        With `holder`, only as long as that is its lease: raises Fenced, and changes nothing, if it is not.
        """

        def changed(before: Run) -> dict[str, Any]:
            if holder is not None:
                lease.check(before, holder)
            if forget:
                changes["meta"] = {name: said for name, said in before.meta.items() if name not in forget}
            return {"updated": utc_now(), **changes}

        before, after = self._update(Run, f"run/{run}", changed, durable=durable)
        if "status" in changes:
            tell_changed(before, after)
        return after

    def steps(
        self, run: str, *, inner: bool = False, below: str = "", after: str = "", limit: int | None = None
    ) -> list[Step]:
        """The steps of a run in the order of execution; with `inner`, those that steps consist of as well.

        At most `limit` of them, behind the one with the address `after`; only those the step `below` consists of.
        """
        prefix = f"step/{run}/{below}." if below else f"step/{run}/"
        found: list[Step] = []
        start = f"step/{run}/{after}" if after else ""
        size = None if limit is None else limit if inner else max(limit, 500)
        while limit is None or len(found) < limit:
            page = self.backend.scan(prefix, after=start, limit=size)
            found += self._listed(Step, page if inner else [e for e in page if "." not in e.key[len(prefix) :]])
            if size is None or len(page) < size:
                break
            start = page[-1].key
        return StepList(found[:limit])

    def step(self, run: str, address: str) -> tuple[Step, str]:
        """One step of a run, and the version that `put_step(expect=…)` compares with. Raises NotFound."""
        key = f"step/{run}/{address}"
        found = self.backend.get(key)
        if found is None:
            raise NotFound(f"run {run} has no step {address}")
        return self._open(Step, key, found.value), found.version

    def put_step(self, step: Step, *, expect: str | None = None, durable: bool = False) -> str:
        """Write a step's record as it is now, without secrets. Returns its version.

        With `expect` only if it still has that version ("" if there must be none): otherwise raises Conflict.
        """
        reason = step.reason and replace(step.reason, text=redact(step.reason.text))
        shown = replace(step, name=redact_source(step.name), error=redact(step.error), reason=reason)
        version = self._put(f"step/{step.run}/{step.address}", shown, expect=expect, durable=durable)
        tell_step(shown)
        return version

    def answer(self, run: str, pause: str, value: Any) -> Step:
        """Answer a question a run waits with. The first answer is the answer; the same once more changes nothing.

        Raises NotFound where there is no such question, UsageError for one that has been answered, or for an
        answer it does not take.
        """
        from nbcheckpoint.store.pauses import answer

        return answer(self, run, pause, value)

    def events(self, run: str) -> list[Event]:
        """What happened in a run, in order, as its records tell it."""
        from nbcheckpoint.store.history import events

        return events(self, run)

    def graph(self, run: str) -> Picture:
        """A run's steps and what led to what, laid out as a picture."""
        from nbcheckpoint.store.picture import draw

        return draw(self.run(run), self.steps(run))

    def cancel(self, run: str) -> Run:
        """Call a run off. One that is being worked on stops before its next step; what is finished stays saved."""
        found = self.run(run)
        if found.status == "completed":
            raise UsageError(f"run {run} is complete", hint="nbcheckpoint delete removes it")
        meta = {**found.meta, "cancel": True}
        return self.update_run(run, durable=True, meta=meta, **({} if found.status == "running" else _OFF))

    def fork(self, run: str, *, at: str, edits: Mapping[str, Any] | None = None) -> Run:
        """A new run that has everything of another up to and including the step `at`, a name or an address.

        What comes behind is computed when it is resumed, with `edits` (step -> result) in place of what those steps
        had left, or had failed to leave. Of several steps of a name the last up to there is meant. Questions are asked
        again. Raises NotFound, Untrusted, UsageError.
        """
        from nbcheckpoint.store.forking import fork

        return fork(self, run, at, edits or {})

    # Checkpoints

    def close(self) -> None:
        """Wait for what is being saved, then let go of everything."""
        try:
            self.flush()
        finally:
            open_stores.discard(self)
            self._writer.shutdown()
            self.backend.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Records

    # Upkeep. Each of these is a module of its own; imported when used.

    def pin(self, run: str) -> Run:
        """Keep a run whatever retention says. Raises NotFound, Untrusted."""
        return self._annotate(run, pinned=True)

    def unpin(self, run: str) -> Run:
        """Let retention have a run again."""
        return self._annotate(run, pinned=False)

    def note(self, run: str, text: str) -> Run:
        """Write something beside a run."""
        return self._annotate(run, note=text)

    def _annotate(self, run: str, **changes: Any) -> Run:
        found = self.run(run)
        if not found.trusted:
            # Writing it would seal it with our key, and so vouch for all of it.
            raise Untrusted(f"run {run} does not carry your signature")
        return self.update_run(run, durable=True, **{"updated": found.updated, **changes})

    def delete_run(self, run: str) -> Pruned:
        """Remove a run and what only it used. Raises NotFound."""
        from nbcheckpoint.store.upkeep import delete_run

        return delete_run(self, run)

    def prune(self, policy: Policy | None = None, *, dry_run: bool = False, grace_seconds: float = 3600.0) -> Pruned:
        """Remove what the policy does not keep, and say what and why. Safe while others save; may be killed."""
        from nbcheckpoint.store.upkeep import prune

        return prune(self, policy, dry_run=dry_run, grace_seconds=grace_seconds)

    def verify(self, *, repair: bool = False, progress: Callable[[int, int], object] | None = None) -> Verified:
        """Read everything and say what is not as it was written; `repair` sets that aside."""
        from nbcheckpoint.store.verify import verify

        return verify(self, repair=repair, progress=progress)

    def diff(self, a: str, b: str) -> Diff:
        """What differs between two checkpoints: names, code, inputs. Nothing is unpickled. Raises NotFound."""
        from nbcheckpoint.store.compare import diff

        return diff(self, a, b)

    def preview(self, id: str) -> Preview:
        """What a checkpoint left, for people to look at: text and pictures, nothing unpickled. Raises NotFound."""
        from nbcheckpoint.store.looking import preview

        return preview(self, id)

    def environment(self, run: str) -> Environment:
        """In what surroundings a run was made, and what of that is different here and now. Raises NotFound."""
        from nbcheckpoint.store.surroundings import environment

        return environment(self, run)

    def going(self, runs: Iterable[str]) -> dict[str, Going]:
        """Run -> how far the step it is in has come, for those of which that is known."""
        from nbcheckpoint.store.looking import going

        return going(self, runs)

    def mark(self) -> Mark:
        """Equal as long as no run and no step of a running one has changed. Cheap enough to be asked often."""
        from nbcheckpoint.store.watching import mark

        return mark(self)

    def archive(self, run: str) -> Iterator[bytes]:
        """What `export` writes, piece by piece as it is made. Raises like it, some of it only on the way."""
        from nbcheckpoint.store.archive import pieces

        return pieces(self, run)

    def export(
        self, run: str, file: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
    ) -> Moved:
        """Write a run with all that belongs to it into one file. Raises NotFound, StoreDamaged."""
        from nbcheckpoint.store.archive import export

        return export(self, run, file, progress=progress)

    def import_(
        self,
        file: str | os.PathLike[str] | IO[bytes],
        trust: bool = False,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Moved:
        """Read such a file. What others signed is listed, and not loaded until it is trusted."""
        from nbcheckpoint.store.archive import import_

        return import_(self, file, trust=trust, progress=progress)

    def trust(self, id: str) -> Trusted:
        """Vouch for a run, or a checkpoint, that somebody else signed: from here on it may be loaded."""
        from nbcheckpoint.store.trust import trust

        return trust(self, id)

    def copy_to(self, url: str, *, progress: Callable[[int, int], object] | None = None) -> Copied:
        """Copy everything to another store. May be interrupted and called again."""
        from nbcheckpoint.store.copying import copy_to

        return copy_to(self, url, progress=progress)


_OFF: dict[str, Any] = {"status": "cancelled", "owner": None}


def _after_fork() -> None:
    for store in open_stores:
        store._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def open_store(url: str | os.PathLike[str] | None = None, *, create: bool = True, encrypt: bool | None = None) -> Store:
    """Open the store at a URL or folder; None finds it: environment, nearest `.nbcheckpoint`, project root.

    With `create=False` a folder that is no store raises NotFound instead of becoming one. `encrypt=True` (or
    NBCHECKPOINT_ENCRYPT=1) makes a *new* store an encrypted one; an existing store stays what it is.

    Raises StoreDamaged, StoreTooNew, StoreLocked and other StoreErrors, and UsageError for a URL nobody knows.

    >>> with open_store("checkpoints") as store:
    ...     run = store.begin_run("train.ipynb")
    >>> with open_store("checkpoints", create=False) as store:
    ...     [run.workflow for run in store.runs()]
    ['train.ipynb']
    """
    location = config.store_location(url)
    backend = open_backend(location, create=create)
    try:
        wanted = bool(os.environ.get(config.ENV_ENCRYPT)) if encrypt is None else encrypt
        said = read_format(backend, wanted)
        if said.format > FORMAT:
            backend.read_only = True  # whatever we wrote might be wrong there
        cipher = Cipher(config.encryption_key(create=False)) if said.encrypted else None
        return Store(backend, Signer(config.signing_key()), cipher, version=said.format)
    except Error:
        backend.close()
        raise

"""`step.map`: one step for many items, each saved as it finishes.

Items are told apart by what they are, not by where they stand: reordering, adding and removing some leaves the others
done. What they have in common (the code, what it reads) is identified once; what is saved already is found by one look
at the store. How what they leave is committed is told in `committing.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Any

from nbcheckpoint.engine import aside, context, executors, policy, strands
from nbcheckpoint.engine.arguments import arguments_of, identify, reach_of, result_of
from nbcheckpoint.engine.calling import ASKED, STOPS, Call, Outcome, given_back, is_answered_here
from nbcheckpoint.engine.committing import Committer
from nbcheckpoint.engine.context import Frame, current_store, frame, inside
from nbcheckpoint.engine.effects import drive, drive_async
from nbcheckpoint.engine.identity import is_ordered, moved_generator, obstacle
from nbcheckpoint.engine.journal import Ticket, moments_ago
from nbcheckpoint.engine.progress import Progress
from nbcheckpoint.engine.submitting import came_to_nothing, received
from nbcheckpoint.engine.worker import packed, work
from nbcheckpoint.errors import Conflict, Error, MapFailed, UsageError
from nbcheckpoint.model import Checkpoint, Step
from nbcheckpoint.store.forking import RESULT

if TYPE_CHECKING:
    from nbcheckpoint.engine.step import Spec

_SCAN = 32
"""From so many items on, everything the step has ever saved is read at once instead of looked up one by one."""


def map_items(
    spec: Spec,
    items: Iterable[Any],
    *,
    executor: Executor | None = None,
    concurrency: int | None = None,
    min_success: int | float | None = None,
    on_item_failure: str = "finish",
    progress: bool = True,
    **shared: Any,
) -> Any:
    """`[function(item, **shared) for item in items]`, each saved as it finishes.

    `executor`: where to run them; `concurrency`: how many at once (threads, if there is no executor; by default one
    after the other). `on_item_failure`: `"finish"` lets the others go on, `"stop"` begins no more. Then `MapFailed` is
    raised, unless at least `min_success` (a number, or a share like 0.9) succeeded: the result of a failed one is
    None. Of an async step it is to be awaited.
    """
    if on_item_failure not in ("finish", "stop"):
        raise UsageError(f"on_item_failure is {on_item_failure!r}", hint="finish or stop")
    if concurrency is not None and concurrency < 1:
        raise UsageError(f"concurrency is {concurrency}", hint="give a number from 1 on")
    work = Map(spec, list(items), shared, min_success, stop=on_item_failure == "stop", quiet=not progress)
    if spec.is_async:
        return work.run_async(concurrency or 8)
    return work.run(executor, concurrency)


class Map:
    """One map, from identifying its items to collecting their results."""

    def __init__(
        self,
        spec: Spec,
        items: list[Any],
        shared: dict[str, Any],
        min_success: int | float | None,
        *,
        stop: bool,
        quiet: bool,
    ) -> None:
        self.spec, self.items, self.shared, self.stop = spec, items, shared, stop
        self.needed = _needed(min_success, len(items))
        self.quiet = quiet
        self.results: list[Any] = [None] * len(items)
        self.failures: dict[int, BaseException] = {}
        self.parent = frame()
        self.store = self.parent.journal.store if self.parent is not None else current_store()
        self.here: Frame | None = None
        self.ticket: Ticket | None = None
        self.restored = 0
        self.edited = False
        self._lock = threading.Lock()
        self._noted = time.monotonic()

    # Beginning and end

    def begin(self) -> Collection[int]:
        """Find what is there already; returns the positions of what is not."""
        known: dict[str, Step] = {}
        journal = self.parent.journal if self.parent is not None else None
        if self.parent is not None and journal is not None:
            slot = self.parent.next_slot(self.spec.name, kind="[]")
            address = journal.address(slot, self.parent.address)
            recorded = journal.recorded(slot)
            journal.arrive(slot)
            known = journal.steps_below(address)
            after = self.parent.led_to([self.items, *self.shared.values()])
            meta, checkpoint = {"total": len(self.items), "after": after}, ""
            if recorded is not None and recorded.meta.get("edited"):
                self._put_in_place(recorded)
                meta, checkpoint = {**meta, "edited": True}, recorded.checkpoint
            self.ticket = journal.begin(
                *(slot, address, self.spec.name), kind="map", durable=False, meta=meta, checkpoint=checkpoint
            )
            self.here = Frame(journal, slot, address)
        self.shown = {step.checkpoint for step in known.values()}
        at_the_end = journal is not None and self.policies.granularity == "group"
        self.committer = Committer(self.store, journal, known, at_the_end=at_the_end)
        salt = f"{journal.run_id} {self.here.slot}" if self.spec.scope == "run" and journal and self.here else ""
        self.reached = reach_of(self.spec.function, salt=salt, files=self.spec.files, private=self.store.private_digest)
        left = self._look_up() if not self.edited else []
        self.progress = Progress(self.spec.name, len(self.items), self.restored, quiet=self.quiet)
        return left

    def _put_in_place(self, recorded: Step) -> None:
        """Somebody has put results in the place of what the items came to, in a fork: one for each."""
        found = self.store.restore(recorded.checkpoint)[RESULT]
        if not isinstance(found, (list, tuple)) or len(found) != len(self.items):
            what = f"{len(found)} results" if isinstance(found, (list, tuple)) else f"a {type(found).__name__}"
            raise UsageError(
                f"map {self.spec.name} was edited to {what}, and has {len(self.items)} items",
                hint="fork again with a list of one result for each item, or name one item by its address",
            )
        self.results, self.edited, self.restored = list(found), True, len(found)

    @functools.cached_property
    def policies(self) -> policy.Policies:
        inherited = self.parent.journal.settings if self.parent is not None else {}
        return policy.resolve(self.spec.settings, inherited, side_effects=self.spec.side_effects)

    def _look_up(self) -> list[int]:
        alike: Counter[str] = Counter()
        calls = [self._call(at, alike) for at in range(len(self.items))]
        found = self._saved(call.identity.digest for call in calls if call.identity is not None)
        left: list[int] = []
        alone = strands.is_alone()
        for at, call in enumerate(calls):
            assert call.identity is not None
            there = found.get(call.identity.digest, []) if not call.identity.unidentified else []
            # An item that drew from a seeded generator drew behind those before it.
            usable = (kept for kept in there if (alone and not left) or not is_ordered(kept))
            checkpoint = self._edited(call) or next((kept for kept in usable if not moved_generator(kept)), None)
            if checkpoint is None or not self._restore(at, call, checkpoint):
                left.append(at)
        self.calls = calls
        return left

    def _edited(self, call: Call) -> Checkpoint | None:
        """What somebody has put in the place of an item's result, in a fork."""
        recorded = self.here.journal.recorded(call.slot) if self.here is not None else None
        if recorded is None or not recorded.meta.get("edited"):
            return None
        return self.store.checkpoint(recorded.checkpoint)

    def _saved(self, digests: Iterable[str]) -> dict[str, list[Checkpoint]]:
        """Inputs -> what they have left, of all that may be used if random numbers are as they were."""
        if self.parent is not None and self.parent.journal.is_forced():
            return {}
        wanted = set(digests)
        if len(wanted) < _SCAN:
            candidates = [found for digest in wanted for found in self.store.find(self.reached.key, digest)]
        else:
            candidates = self.store.find(self.reached.key, limit=None)
        expired = moments_ago(self.spec.expire) if self.spec.expire is not None else ""
        since = self.parent.journal.since if self.parent is not None else context.since
        usable: dict[str, list[Checkpoint]] = {}
        for found in candidates:
            own = self.parent is not None and found.run == self.parent.journal.run_id
            own = own or found.id in self.shown or is_answered_here(found)
            there = usable.get(found.inputs_digest, [])
            fits = found.inputs_digest in wanted and all(kept.random for kept in there)
            counts = own or (found.created >= since and not found.meta.get(ASKED))
            if fits and counts and obstacle(found, expired, but_random=True) is None:
                usable[found.inputs_digest] = [*there, found]
        return usable

    def _restore(self, at: int, call: Call, checkpoint: Checkpoint) -> bool:
        try:
            assert call.identity is not None
            values = result_of(self.store, checkpoint, call.identity)
        except Error:
            return False  # computed anew, like one that was never saved
        given_back(checkpoint, values)
        self.results[at] = values[RESULT]
        if self.parent is not None:
            self.parent.asked |= bool(checkpoint.meta.get(ASKED))
            call.show_again(checkpoint)
        elif checkpoint.meta.get(ASKED):
            context.asked.append(checkpoint.meta[ASKED])
        self.committer.restored(call, checkpoint)
        self.restored += 1
        return True

    def _call(self, at: int, alike: Counter[str]) -> Call:
        """The call for one item. What it is says where it stands; of equal ones, `alike` counts them."""
        with inside(self.here):
            call = Call(self.spec, [self.items[at]], self.shared, kind="item", reached=self.reached, at="item")
        call.committer = self.committer
        call.policies = self.policies
        arguments = arguments_of(self.spec.function, call.args, call.kwargs)
        call.identity = identify(self.reached, arguments, self.spec.ignore, private=self.store.private_digest)
        if self.here is not None:
            name = call.identity.digest[:16]
            alike[name] += 1
            call.slot = f"{self.here.slot}/{name}#{alike[name]}"
            self.here.journal.recorded(call.slot)
            call.address = self.here.journal.address(call.slot, self.here.address)
        return call

    def end(self) -> list[Any]:
        self.committer.commit()
        self.progress.close()
        if self.parent is not None and self.here is not None:
            self.parent.asked |= self.here.asked
        done = len(self.items) - len(self.failures)
        failed = done < self.needed
        if self.ticket is not None and self.parent is not None:
            self.parent.journal.end(
                self.ticket,
                "failed" if failed else "completed",
                meta=self._counts(),
                error=f"{len(self.failures)} of {len(self.items)} failed" if failed else "",
            )
            self.parent.made(self.ticket.step.address, self.results)
        self._tell()
        if failed:
            error = MapFailed(self.spec.name, dict(sorted(self.failures.items())), len(self.items))
            raise error from next(iter(error.failures.values()))
        return self.results

    def _tell(self) -> None:
        """What could not be saved, once for all items. Raises it where the policy says so."""
        problem = self.committer.problem
        if problem is not None and self.policies.on_save_error == "fail":
            raise problem
        if problem is not None:
            what = f"{self.committer.lost} of {len(self.items)} items are not saved"
            aside.warn(f"step {self.spec.name}: {what}: {problem}")

    def stopped(self) -> None:
        """Something that is no item's failure ended it: what is done is kept."""
        self.committer.commit()
        self.progress.close()
        if self.ticket is not None and self.parent is not None:
            self.parent.journal.end(self.ticket, "interrupted", meta=self._counts())

    def _counts(self) -> dict[str, Any]:
        left = self.progress.left
        return {
            "done": self.progress.done,
            "total": len(self.items),
            "failed": len(self.failures),
            "restored": self.restored,
            "left": round(left, 1) if left is not None else None,
        }

    # One item

    def ended(self, at: int, error: BaseException | None, outcome: Any = None) -> None:
        with self._lock:
            if error is not None:
                self.failures[at] = error
                if self.calls[at].committer is not None:  # elsewhere, whoever ran it has written it down
                    self.committer.failed(self.calls[at], error)
            else:
                self.results[at] = outcome.value
            self.progress.step(failed=error is not None)
            if self.ticket is not None and self.parent is not None and time.monotonic() - self._noted > 1:
                self._noted = time.monotonic()
                self.parent.journal.again(self.ticket, meta=self._counts())
                self.parent.journal.note()

    def _may_go_on(self) -> bool:
        return not (self.stop and self.failures)

    def _ready(self, at: int) -> Outcome | None:
        """None once it may run; else what it comes to without running."""
        call = self.calls[at]
        while True:
            if call.is_left_out():
                return Outcome(None)
            try:
                call.begin()
            except Conflict:  # a worker that outlived its parent has just written something: it may be the result
                assert call.identity is not None
                there = self._saved([call.identity.digest]).get(call.identity.digest, [])
                found = next((kept for kept in there if not is_ordered(kept) and not moved_generator(kept)), None)
                if found is not None and self._restore(at, call, found):
                    return Outcome(self.results[at])
                continue
            return None

    def _item(self, at: int) -> None:
        try:
            outcome = self._ready(at) or drive(self.calls[at].attempts())
        except STOPS:
            raise
        except Exception as error:
            self.ended(at, error)
        else:
            self.ended(at, None, outcome)

    # Ways to run them

    def run(self, executor: Executor | None, concurrency: int | None) -> list[Any]:
        if executor is not None:
            executors.check(executor, self.store)
        left = self.begin()
        try:
            if executor is None and (concurrency or 1) == 1:
                for at in left:
                    if self._may_go_on():
                        self._item(at)
            elif executor is None:
                with ThreadPoolExecutor(concurrency, thread_name_prefix="nbcheckpoint-map") as pool:
                    self._spread(left, pool, concurrency or 1)
            else:
                self._spread(left, executor, concurrency or 2 * executors.capacity(executor))
        except BaseException:
            self.stopped()
            raise
        return self.end()

    def _spread(self, left: Collection[int], executor: Executor, most: int) -> None:
        """At most so many at once; the next as soon as one is over."""
        start = self._elsewhere if executors.is_elsewhere(executor) else self._beside
        running: set[Future[Any]] = set()
        try:
            for at in left:
                while len(running) >= most:
                    running = _first(running)
                if not self._may_go_on():
                    break
                running.add(start(at, executor))
        finally:
            wait_for(running)  # what has begun is saved, whatever ended the others
        for future in running:
            future.result()

    def _beside(self, at: int, executor: Executor) -> Future[Any]:
        return executor.submit(contextvars.copy_context().run, self._item, at)

    def _elsewhere(self, at: int, executor: Executor) -> Future[Any]:
        """In another process, which saves it and says so itself."""
        call = self.calls[at]
        if self.parent is None:
            raise UsageError("outside of a flow items cannot run in another process", hint="use threads, or a flow")
        call.committer = None
        over: Future[Any] = Future()
        outcome = self._ready(at)
        if outcome is not None:
            self.ended(at, None, outcome)
            over.set_result(None)
            return over

        def came_back(done: Future[Any]) -> None:
            try:
                self._came_back(at, done)
            except BaseException as error:
                over.set_exception(error)
            else:
                over.set_result(None)

        try:
            executor.submit(work, packed(call)).add_done_callback(came_back)
        except BaseException:
            came_to_nothing(call)
            raise
        return over

    def _came_back(self, at: int, done: Future[Any]) -> None:
        try:
            found = received(self.calls[at], done)
        except STOPS:
            raise
        except Exception as error:
            self.ended(at, error)
        else:
            self.ended(at, None, found)

    async def run_async(self, concurrency: int) -> list[Any]:
        left = await asyncio.to_thread(self.begin)
        gate = asyncio.Semaphore(concurrency)

        async def one(at: int) -> None:
            async with gate:
                if not self._may_go_on():
                    return
                try:
                    outcome = await asyncio.to_thread(self._ready, at)
                    outcome = outcome or await drive_async(self.calls[at].attempts())
                except STOPS:
                    raise
                except Exception as error:
                    await asyncio.to_thread(self.ended, at, error)
                else:
                    await asyncio.to_thread(self.ended, at, None, outcome)

        try:
            await asyncio.gather(*(one(at) for at in left))
        except BaseException:
            await asyncio.to_thread(self.stopped)
            raise
        return await asyncio.to_thread(self.end)


def _first(running: set[Future[Any]]) -> set[Future[Any]]:
    """Those still running once one of them is over. Raises what that one raised."""
    done, rest = wait_for(running, return_when="FIRST_COMPLETED")
    for future in done:
        future.result()
    return rest


def _needed(min_success: int | float | None, total: int) -> int:
    if min_success is None:
        return total
    if isinstance(min_success, float) and 0 <= min_success <= 1:
        return -int(-total * min_success // 1)
    if isinstance(min_success, int) and min_success >= 0:
        return min(min_success, total)
    raise UsageError(f"min_success is {min_success!r}", hint="give a number of items, or a share from 0.0 to 1.0")

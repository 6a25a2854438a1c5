"""After a statement: save what it left, or say why not."""

from __future__ import annotations

import time
from typing import Any

from nbcheckpoint.codec import frames
from nbcheckpoint.engine import context, shown
from nbcheckpoint.errors import Error
from nbcheckpoint.fingerprint import explain, files
from nbcheckpoint.model import Checkpoint
from nbcheckpoint.notebook import around, leaves, line
from nbcheckpoint.notebook.cell import Cell, likely_objects, line_of, lines_of, quick_size
from nbcheckpoint.notebook.hooks import Hooks
from nbcheckpoint.notebook.leaves import Running
from nbcheckpoint.units import say_size

QUICK_SECONDS = 0.5
"""Work that is done again sooner than the disk syncs, all in all, may wait for the end of the cell."""
NOT_LOOKED_AT = "nobody had looked at its inputs beforehand, for the sake of speed; next time they will be"
TOO_MANY = "looking at all that its inputs hold would take too long for that: %%checkpointed takes the time"


class LeaveHooks(Hooks):
    """The part of a cell's hooks that is called when a statement has run."""

    def leave(self, number: int, *value: Any) -> Any:
        """It has run. An expression's value passes through, and has yet to be shown."""
        cell = self._cell
        running = cell.running
        if running is not None and running.number == number:
            running.seconds = time.perf_counter() - running.started
            if running.loops is not None:
                running.loops.files.begin_anew()  # such as are left: it has never come to the loop
            running.around_after = around.look() if self._may_be_saved(cell, running) else None
            running.result = value[0] if value else None
            if cell.timed:
                running.recorder.takes_text = False  # the times, which are others next time
        elif cell.passing is not None and cell.passing[0] == number:
            self._passed(cell, *cell.passing[1:])
        if value:
            return value[0]
        self.settle()
        return None

    def settle(self) -> None:
        """If a statement has run and was shown, save what it left."""
        cell = self._cell
        running = cell.running
        if running is None or running.seconds is None:
            return
        try:
            with self._patience.limited():
                self._save(cell, running)
        except KeyboardInterrupt:
            cell.stopped = True  # where the next statement begins, or at the end
        except Exception as error:
            self._not_saved(cell, error)
        finally:
            self._stop_watching(cell)

    def _may_be_saved(self, cell: Cell, running: Running) -> bool:
        """In automatic mode quick statements are not."""
        assert cell.chosen is not None
        assert running.seconds is not None
        resumed = running.loops is not None and running.loops.resumed is not None
        return not cell.chosen.automatic or resumed or running.seconds >= self.pace.min_seconds

    def _save(self, cell: Cell, running: Running) -> None:
        assert running.seconds is not None
        assert cell.chosen is not None
        files.stop(running.watch)
        outputs = running.recorder.stop()
        cell.shown_last = running.number == len(cell.statements) - 1 and not outputs
        loops_ = running.loops
        if loops_ is not None:
            loops_.stop()
        seconds = running.seconds - (loops_.saving_seconds if loops_ is not None else 0.0)
        self.pace.worked += seconds
        if not self._may_be_saved(cell, running):
            quick = line.Done("computed", seconds, running.reason, None, source=running.source, quick=True)
            cell.done.append(quick)
            return
        problem = running.problem or leaves.obstacle(running, running.around_after or around.look())
        problem = problem or ("it was interrupted" if running.interrupted else "")
        if loops_ is None:
            problem = problem or self._too_large(cell, self._bound(running), seconds)
        done = line.Done("computed", seconds, running.reason, None, problem=problem, source=running.source)
        if loops_ is not None:
            done.resumed = loops_.resumed
            done.save_seconds = loops_.saving_seconds
            done.loop_problem = loops_.what_begins_anew if seconds >= 2 * self.pace.min_seconds else ""
        if not problem:
            started = time.perf_counter()
            whole = seconds + (loops_.before_seconds if loops_ is not None else 0.0)
            draft = leaves.draft(running, self.shell.user_ns, self._place(cell, running), whole)
            chosen = cell.chosen.save or cell.chosen.skip
            if whole < QUICK_SECONDS and not chosen and leaves.acts_elsewhere(running, draft, outputs):
                return  # it just runs again
            done.problem = draft.problem or self._too_large(cell, draft.values, whole)
            if draft.problem:
                self._slow[running.identity.code], done.slow = whole, running.identity.code
            if draft.checkpoint is not None and not done.problem:
                cell.waiting_seconds += whole
                defer = cell.waiting_seconds < QUICK_SECONDS
                kept = [] if cell.chosen.no_output else outputs
                store = self.session.store
                with frames.beside(running.counts):
                    done.checkpoint = store.save(draft.checkpoint, draft.values, outputs=kept, defer=defer).checkpoint
                cell.waiting_seconds *= defer
                if defer and any(blob.chunk_size for blob in done.checkpoint.blobs):
                    cell.waiting |= frozenset(draft.values)
                if not defer:
                    shown.all_is_shown({call.run for call in context.called[running.calls_before :]})
                self.pace.saved(done.checkpoint.size, time.perf_counter() - started)
                if loops_ is not None and not done.checkpoint.not_saved:
                    loops_.ended(self.session.forget)
            done.save_seconds += time.perf_counter() - started
        cell.done.append(done)

    def _too_large(self, cell: Cell, values: dict[str, Any], seconds: float) -> str:
        assert cell.chosen is not None
        if not cell.chosen.automatic:
            return ""
        size, objects = sum(map(quick_size, values.values())), sum(map(likely_objects, values.values()))
        if self.pace.is_worth(seconds, size, objects):
            return ""
        much = f"{objects:,} objects" if self.pace.is_worth(seconds, size) else say_size(size)
        return f"saving {much} would take longer than it is worth"

    def _bound(self, running: Running) -> dict[str, Any]:
        """What it has certainly left: finding out what else there is may take long."""
        user_ns = self.shell.user_ns
        names = running.own.writes & user_ns.keys()
        return {name: user_ns[name] for name in names if running.before.get(name) is not user_ns[name]}

    def _passed(self, cell: Cell, key: str, source: str, began: float) -> None:
        """A statement whose inputs nobody had the time to look at has run."""
        seconds = time.perf_counter() - began
        cell.passing = None
        self.pace.worked += seconds
        done = line.Done("computed", seconds, explain.simple("unidentified", ""), None, source=source)
        done.quick = seconds < self.pace.min_seconds
        if not done.quick:
            done.in_vain = key in self._slow
            done.problem = TOO_MANY if done.in_vain else NOT_LOOKED_AT
            self._slow[key], done.slow = seconds, key
        cell.done.append(done)

    def _passed_by(self, cell: Cell, error: BaseException | None) -> None:
        """A cell that was left as it is has run: what its statements took is known of all of them together."""
        assert cell.untouched is not None
        ran = list(zip(cell.statements, cell.untouched, strict=True))
        if error is not None:  # those before the one that failed
            ran = [(node, key) for node, key in ran if node.lineno <= line_of(error, self.shell.user_ns)][:-1]
        seconds = (time.perf_counter() - cell.started) / max(1, len(ran))
        for node, key in ran:
            cell.passing = -1, key, lines_of(cell.raw, node), time.perf_counter() - seconds
            self._passed(cell, *cell.passing[1:])

    def _finish_saving(self, cell: Cell) -> BaseException | None:
        """Save what is left to be saved. Returns why the cell is to fail, if it is."""
        failure: BaseException | None = None
        try:
            self.settle()
            if self.session.opened:
                self._flush(cell)
        except (Error, KeyboardInterrupt) as error:
            failure = error
        if cell.stopped:
            failure = KeyboardInterrupt()
        if cell.not_saved:
            for done in cell.done:
                if done.checkpoint is not None and not self._is_saved(done.checkpoint):
                    done.checkpoint = None
        return failure

    def _is_saved(self, checkpoint: Checkpoint) -> bool:
        try:
            return bool(self.session.store.checkpoint(checkpoint.id))
        except Error:
            return False

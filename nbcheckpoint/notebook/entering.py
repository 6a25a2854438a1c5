"""Before a statement: who is it, has it been done before, and is that what running it would give now?

Found: its values are bound and its outputs shown, and it does not run. Not found: it is watched while it runs.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import glob
import sys
import time
import types
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from nbcheckpoint.codec import frames
from nbcheckpoint.engine import context
from nbcheckpoint.engine.identity import (
    LOOKS_FOR_FILES,
    TIMES_AND_MODES,
    Identity,
    Match,
    identify,
    match,
    never_saved,
    obstacle,
    settings_of,
    texts_in,
)
from nbcheckpoint.engine.journal import moments_ago
from nbcheckpoint.engine.pace import NAMING_SHARE
from nbcheckpoint.errors import Error, NotRestorable, StoreDamaged
from nbcheckpoint.fingerprint import explain, files, rng, settings
from nbcheckpoint.fingerprint.code import Names, certainly_bound, compiled, free_names, names_in
from nbcheckpoint.model import Checkpoint, Reason
from nbcheckpoint.notebook import around, conditions, databases, further, guess, leaves, line, namespace, sharing, weave
from nbcheckpoint.notebook.cell import Cell, lines_of, note_interrupts, paths_in
from nbcheckpoint.notebook.figures import Figures
from nbcheckpoint.notebook.hooks import Cut, Hooks
from nbcheckpoint.notebook.items import names_of
from nbcheckpoint.notebook.leaves import RESULT, Running
from nbcheckpoint.notebook.loops import COUNTED, Loops
from nbcheckpoint.notebook.outputs import Recorder, replay
from nbcheckpoint.whose import home_of, is_user_code, name_of

ALIAS_WALK = 20_000
"""Objects looked at to find other names of what a statement reads: about 20 ms."""
QUICK_WALK = 1000
"""The same before a statement that is likely to be quick."""
GUESS_SHARE = 0.2
"""What is taken to need less than this share of the least time worth saving is not looked at."""
LOOK_SHARE = 0.75
"""Of the time a statement took before, so much may be spent on finding out whether it has to run."""
FIRST_LOOK_SHARE = 0.2
"""The same of one that was never saved: it will have to run, and to be looked at once more when it has."""


class Asked(NamedTuple):
    """A statement that has been looked at."""

    tree: ast.Module
    key: str
    own: Names
    """What its own code mentions."""
    identity: Identity
    turns: int | None
    """How far it goes, if it is a loop for which that is no part of its identity."""
    known: bool
    """Was there ever a checkpoint of this code?"""
    problem: str
    """Why it can be neither restored nor saved, if so."""
    shows: bool
    """Is its value, or one inside of it, shown where it stands now?"""


class EnterHooks(Hooks):
    """The part of a cell's hooks that is called before a statement runs."""

    def _enter(self, cell: Cell, number: int) -> bool:
        """Is it to be run? If not, its values are bound, and what it showed is shown."""
        started = time.perf_counter()
        asked = self._asked(cell, number)
        if asked is None:
            return True
        found = self._found(cell, number, asked)
        loaded: dict[str, Any] = {}
        outputs: list[dict[str, Any]] = []
        if found.checkpoint is not None or found.progress is not None:
            with frames.beside(frames.counts_in(asked.identity.values)):
                loaded, outputs, reason = self._load(found.checkpoint or found.progress, asked.own.writes)
            if reason is not None:
                found = Match(None, reason)
        if found.checkpoint is not None:
            self._restore(cell, found.checkpoint, loaded, outputs, asked)
            seconds = time.perf_counter() - started
            cell.done.append(line.Done("restored", seconds, explain.restored(found.checkpoint), found.checkpoint))
            return False
        running = self._watch(cell, number, asked, found.reason)
        if cell.loops[number] and not asked.problem:
            running.loops = self._loops_of(cell, number, asked)
            running.loops.resume, running.loops.loaded, running.loops.outputs = found.progress, loaded, outputs
        return True

    # Who is it?

    def _asked(self, cell: Cell, number: int) -> Asked | None:
        """Look at it and its inputs. None: it just runs."""
        assert cell.chosen is not None  # set before anything was woven
        node = cell.statements[number]
        if cell.chosen.automatic and weave.is_plain(node):
            self._pass_by(cell, number, "")
            return None
        if self._resizes(node):
            self._let_it_resize(cell, number)
            return None
        tree, key, turns = self._code(cell, number)
        code = compiled(tree)
        own = names_in(code)
        if cell.waiting & own.writes:  # what it binds anew or deletes is to be freed
            self._flush(cell)
        known, thorough, allowance = True, True, None
        if cell.chosen.automatic:
            loop = bool(cell.loops[number]) or weave.goes_through(node)
            known, thorough, allowance = self._allowance(cell, key, loop=loop)
        if not known and not thorough and self._is_quick([node]):
            self._pass_by(cell, number, key)
            return None
        looking = time.thread_time()
        identity = self._identify(cell, tree, code, key, allowance, thorough=thorough)
        if cell.chosen.automatic and not thorough:
            self.pace.looked += time.thread_time() - looking
        if identity.unaffordable:
            self._pass_by(cell, number, key)
            return None
        problem = self._obstacle(node, tree, own, identity)
        return Asked(tree, key, own, identity, turns, known, problem, self._shows(cell, number))

    def _pass_by(self, cell: Cell, number: int, key: str) -> None:
        """It is not worth a look. How long it takes is noted."""
        cell.passing = number, key, lines_of(cell.raw, cell.statements[number]), time.perf_counter()

    def _is_quick(self, nodes: Sequence[ast.stmt]) -> bool:
        return guess.is_quick(nodes, self.shell.user_ns, GUESS_SHARE * self.pace.min_seconds)

    def _resizes(self, node: ast.stmt) -> bool:
        numpy: Any = sys.modules.get("numpy")
        found = [self.shell.user_ns.get(name) for name in weave.resized(node)] if numpy is not None else []
        return any(isinstance(value, numpy.ndarray) for value in found)

    def _let_it_resize(self, cell: Cell, number: int) -> None:
        """NumPy resizes an array in place only if nobody but the user refers to it: so nothing is watched, or waits."""
        source = lines_of(cell.raw, cell.statements[number])
        cell.passing = number, "", source, time.perf_counter()
        if self.session.opened:
            self._flush(cell)
        assert cell.chosen is not None
        if not cell.chosen.automatic:
            why = "it resizes an array in place, which only works as long as nobody else refers to it"
            cell.passing = None
            cell.done.append(line.Done("computed", 0.0, explain.simple("never", ""), None, problem=why, source=source))

    def _allowance(self, cell: Cell, key: str, *, loop: bool) -> tuple[bool, bool, float]:
        """Is there a checkpoint for this code; is it likely to be slow; how long to look at its inputs?"""
        earlier = self.session.store.find(key, limit=1)
        before = max(self._slow.get(key, 0.0), self._slow.get(line.checksum(cell.raw), 0.0))
        took = max(before, earlier[0].seconds if earlier else 0.0)
        allowance = self.pace.allowance(loop=loop)
        if took >= self.pace.min_seconds:
            share = LOOK_SHARE if earlier else FIRST_LOOK_SHARE
            return bool(earlier), True, max(share * took, allowance)
        return bool(earlier), bool(earlier), allowance

    def _identify(
        self, cell: Cell, tree: ast.Module, code: types.CodeType, key: str, allowance: float | None, *, thorough: bool
    ) -> Identity:
        """`allowance`: seconds it may take. Not by the clock on the wall: values are not larger on a busy machine."""
        user_ns = self.shell.user_ns
        assert cell.chosen is not None
        walk = ALIAS_WALK if thorough else QUICK_WALK
        return identify(
            tree,
            code,
            user_ns,
            key=key,
            ignore=cell.chosen.ignore,
            depends=cell.chosen.depends,
            granted=self._is_granted,
            private=self.session.store.private_digest,
            aliases=lambda names, seen: sharing.sharing(names, user_ns, lookers_on=[seen], walk=walk) or set(),
            patched=list(self._patches()),
            provisional=not thorough,
            deadline=time.thread_time() + allowance if allowance is not None else None,
            spare=NAMING_SHARE * (allowance or 0.0),
        )

    def _patches(self) -> Iterator[tuple[str, Any]]:
        """What the user has put into classes of libraries, by the library's name for it."""
        for name, *path in sorted(self._patched):
            owner = self.shell.user_ns.get(name)
            for part in path[:-1]:
                owner = getattr(owner, part, None) if isinstance(owner, (types.ModuleType, type)) else None
            if isinstance(owner, type) and not is_user_code(owner) and path[-1] in vars(owner):
                yield f"{home_of(owner)}.{name_of(owner)}.{path[-1]}", vars(owner)[path[-1]]

    def _is_granted(self, name: str) -> bool:
        """Does IPython or Python itself provide it, and is it still what was provided?"""
        user_ns = self.shell.user_ns
        if name not in user_ns:
            return name in vars(builtins)
        given = self.shell.user_ns_hidden.get(name, user_ns[name])
        return namespace.is_given(name) and given is user_ns[name]

    def _obstacle(self, node: ast.stmt, tree: ast.Module, own: Names, identity: Identity) -> str:
        """Why it is never saved, as far as that can be told from its code and its inputs."""
        free = free_names(tree.body)
        problem = never_saved(identity, self.shell.user_ns, own, {n for n in free if namespace.is_history(n)})
        foreign = weave.foreign_magic(node)
        problem = problem or (f"it runs %{foreign}" if foreign else "") or self._changes_code(node)
        if weave.mentions(node, "__annotations__"):
            problem = problem or "it reads __annotations__, which nobody keeps track of"
        problem = problem or databases.obstacle(identity.mentions, identity.values.values())
        annotates = weave.annotates_anyhow(node)
        return problem or (f"what it says of {annotates} is found out by running it" if annotates else "")

    def _changes_code(self, node: ast.stmt) -> str:
        for name in sorted(weave.changed_roots(node)):
            if isinstance(self.shell.user_ns.get(name), (types.ModuleType, type)):
                return f"it changes {name}"
        return ""

    def _shows(self, cell: Cell, number: int) -> bool:
        """Is the value of this statement, or of one inside of it, shown where it stands now?"""
        node, mode = cell.statements[number], self.shell.ast_node_interactivity
        is_last = number == len(cell.statements) - 1 and cell.ends_with_step
        wanted = {"all": is_last or not cell.timed, "none": False}.get(mode, is_last)
        if not isinstance(node, ast.Expr):
            inside = mode in ("all", "last") and not cell.timed
            return wanted and inside and any(isinstance(inner, ast.Expr) for inner in ast.walk(node))
        quiet = is_last and self.shell.displayhook.quiet()  # by a semicolon
        return wanted and not quiet

    # Has it been done before?

    def _found(self, cell: Cell, number: int, asked: Asked) -> Match:
        """The checkpoint to restore, or the progress of its loops to go on from; or why there is neither."""
        assert cell.chosen is not None
        loops_ = cell.loops[number]
        found = Match(None, explain.simple("never" if asked.problem else "first", ""))
        if (asked.known or asked.identity.unidentified) and not asked.problem:
            found = self._look_up(asked, cell.chosen)
        if found.checkpoint is None and found.progress is None and not asked.problem and not cell.chosen.force:
            found = self._after_a_cut(asked, loops_, cell.chosen) or found
        if found.progress is not None and found.progress.meta.get(COUNTED, 1) != len(loops_):
            why = "its loops were counted in another way when it was cut short"
            return Match(None, explain.simple("damaged", why))
        if asked.shows and found.checkpoint is not None and not found.checkpoint.meta.get("shows"):
            return Match(None, explain.simple("unsaveable", "its value was not shown then, and not kept"))
        return found

    def _look_up(self, asked: Asked, chosen: argparse.Namespace) -> Match:
        if chosen.force:
            return Match(None, explain.simple("forced", "--force"))
        found = match(
            self.session.store,
            asked.identity,
            expired_before=self._expired(chosen),
            holds=lambda condition: conditions.holds(condition, self.shell.user_ns),
            fitting=lambda candidate: further.fitting(candidate, asked.turns),
        )
        if self.since and found.reason.code == "expired":
            found = found._replace(reason=explain.simple("forced", "--fresh"))
        if found.reason.code == "unidentified":
            found = found._replace(reason=_with_remedy(found.reason, chosen))
        return found

    def _expired(self, chosen: argparse.Namespace) -> str:
        """What was saved before that is of no use."""
        return self.since if chosen.expire is None else max(self.since, moments_ago(chosen.expire))

    def _after_a_cut(self, asked: Asked, nodes: Sequence[weave.LoopNode], chosen: argparse.Namespace) -> Match | None:
        """In the kernel in which a loop was interrupted or failed, its inputs are no more what they were when it
        began, because it has changed them. Where nothing else has, running it again means going on with it."""
        identity = asked.identity
        cut = self._cut.get(identity.code)
        try:
            checkpoint = self.session.store.checkpoint(cut.progress) if cut is not None else None
        except Error:
            return None
        if cut is None or checkpoint is None or not checkpoint.trusted:
            return None
        fits = further.fitting(checkpoint, asked.turns)
        if not isinstance(fits, Checkpoint) or fits.progress is None:
            return None
        checkpoint, progress = fits, fits.progress
        if self._left(identity, checkpoint) != cut.left:
            return None
        reason = obstacle(checkpoint, self._expired(chosen), but_random=True, but_settings=True)
        if reason is not None:
            return Match(None, reason)
        then = {item.name: item.digest for item in checkpoint.inputs}
        made = (names_of(nodes[p.loop].node) for p in (*progress.around, progress) if p.by == "position")
        reads: set[str] = set().union(*made)
        if any(then.get(name) != found for name, found in identity.before.items() if name in reads):
            return None  # what it goes through would be made of what it has changed
        return Match(None, explain.simple("interrupted", ""), checkpoint)

    def _remember_cut(self, cell: Cell, running: Running, saved: Checkpoint) -> None:
        tree = running.tree
        identity = self._identify(cell, tree, compiled(tree), running.identity.code, None, thorough=True)
        self._cut[identity.code] = Cut(saved.id, self._left(identity, saved))
        files.note_left(saved.files)

    def _left(self, identity: Identity, progress: Checkpoint) -> tuple[Any, ...]:
        """What a loop that was cut short depends on, but for files, as it is now."""
        user_ns, random = self.shell.user_ns, rng.states()
        drawn = [rng.digest(random.get(item.name)) for item in progress.random]
        others = [conditions.state_of(condition, user_ns) for condition in progress.conditions]
        return identity.digest, drawn, others, settings_of(progress)

    def _load(
        self, checkpoint: Checkpoint | None, bound: Collection[str]
    ) -> tuple[dict[str, Any], list[dict[str, Any]], Reason | None]:
        """Values and outputs of a checkpoint, ready to be bound and shown; or why they cannot be.

        `bound`: names its code binds. What one of them has now does not matter, unless it is read before that.
        """
        assert checkpoint is not None
        user_ns = self.shell.user_ns
        names = {name for name in checkpoint.names if ":" not in name}
        inputs = {item.name for item in checkpoint.inputs}
        changed = (names - (set(bound) - inputs - set(checkpoint.mutated))) & user_ns.keys()
        others = sharing.sharing(changed, user_ns) if changed else set()
        # Who shared it then, and was neither changed nor saved, was left behind: `x = x + [1]`.
        known = names | inputs - set(checkpoint.mutated)
        if others is None or others - known:
            who = ", ".join(sorted((others or set()) - known)) or "other variables"
            return {}, [], explain.simple("shared", f"{who} now shares data with what this changes")
        try:
            values = self.session.store.load(checkpoint.id)
            outputs = self.session.store.outputs(checkpoint)
        except (StoreDamaged, NotRestorable) as error:
            return {}, [], explain.simple("damaged", f"the saved copy cannot be used ({error})")
        failed = {name: why for name, why in values.failed.items() if name != RESULT}
        if failed:
            return {}, [], explain.simple("damaged", "; ".join(f"{name}: {why}" for name, why in failed.items()))
        return values.values, outputs, None

    def _restore(
        self,
        cell: Cell,
        checkpoint: Checkpoint,
        loaded: dict[str, Any],
        outputs: list[dict[str, Any]],
        asked: Asked,
    ) -> None:
        shows = asked.shows
        if leaves.IS_RESULT in checkpoint.meta:
            loaded[RESULT] = self.shell.user_ns[checkpoint.meta[leaves.IS_RESULT]]
        if not shows or cell.timed:
            kept = loaded.pop(RESULT, None)
            cell.kept = kept if shows else None
        self._bind(checkpoint, loaded, asked.own.writes)
        conditions.adopt_calls(checkpoint)
        cell.annotated = frozenset(checkpoint.meta.get(leaves.ANNOTATED, ()))
        shown_here = shows and cell.kept is None
        replay(self.shell, [one for one in outputs if shown_here or one["output_type"] != "execute_result"])

    # It runs

    def _watch(self, cell: Cell, number: int, asked: Asked, reason: Reason) -> Running:
        """Note what is there before it runs."""
        assert cell.chosen is not None
        identity = asked.identity
        watch = files.FileWatch(ignore=[self.session.store.url.removeprefix("file://")])
        watch.exact = bool(TIMES_AND_MODES & identity.mentions.attributes)
        watch.whole_folders = leaves.reads_tables(identity)
        strings = identity.mentions.strings | set(paths_in(identity.values.values()))
        strings |= set(texts_in(identity.values.values())) if watch.whole_folders else set()
        strings |= leaves.quoted_in(strings) if watch.whole_folders else set()
        watch.mention(strings, absent=bool(LOOKS_FOR_FILES & identity.mentions.attributes))
        for pattern in cell.chosen.files:
            watch.mention(glob.glob(pattern, recursive=True))
        cell.running = running = Running(
            number=number,
            source=lines_of(cell.raw, cell.statements[number]),
            tree=asked.tree,
            turns=asked.turns,
            own=asked.own,
            identity=identity,
            reason=reason,
            problem=asked.problem,
            certain=certainly_bound(cell.statements[number]),
            is_expression=isinstance(cell.statements[number], ast.Expr),
            annotates=frozenset(weave.annotations_in(cell.statements[number])),
            before=self.shell.user_ns.copy(),
            counts=frames.counts_in(identity.values),
            modules_before=leaves.modules_in(identity),
            rng_before=rng.states(),
            settings_before=settings.states(),
            around=around.look(),
            logs_to=leaves.logs_to(),
            calls_before=len(context.called),
            asked_before=len(context.asked),
            figures=Figures(),
            watch=watch,
            recorder=Recorder(self.shell),
            shows=asked.shows,
        )
        files.start(watch)
        running.undo = note_interrupts(running, cell.ask_to_stop if self.unattended else None)
        return running

    def _loops_of(self, cell: Cell, number: int, asked: Asked) -> Loops:
        assert cell.chosen is not None
        node, nodes = cell.statements[number], cell.loops[number]
        made = Loops(nodes, node, self.shell.user_ns, self.pace, cell.chosen.every, self.deep, number)
        made.earlier_seconds = self._took_earlier(asked.key, asked.turns)
        return made

    def _took_earlier(self, key: str, turns: int | None) -> float:
        """Seconds such a statement took when it last came to its end, with whatever inputs; a loop that goes further
        takes longer."""
        earlier = self.session.store.find(key, limit=5)
        over = next((found for found in earlier if found.progress is None), None)
        then = over.meta.get(further.TURNS) if over is not None else None
        longer = turns / then if turns is not None and then else 1.0
        return over.seconds * longer if over is not None else 0.0


def _with_remedy(reason: Reason, chosen: argparse.Namespace) -> Reason:
    """And what to say if such an input does not matter: a client, which is the same to whoever asks it."""
    how = "%checkpoint auto --ignore" if chosen.automatic else "--ignore"
    return replace(reason, text=f"{reason.text} · {how} {','.join(reason.details['names'])}, if it does not matter")

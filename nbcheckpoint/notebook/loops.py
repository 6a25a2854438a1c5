"""Loops that go on where they were.

    for x in ITEMS:        ->    for x in (HOOKS.items(n, k, ITEMS)
                                           if HOOKS.starts(n, k) or HOOKS.remakes(n, k) and not HOOKS.skips(n, k, ITEMS)
                                           else HOOKS.rest(n, k)):
    while CONDITION:       ->    while HOOKS.turn(n, k) or CONDITION:

That is the k-th loop of the n-th statement: the statement itself, or loops inside of its `with`, `if` and `try`, or
of another loop's body.
Between two iterations, when Python asks for the next item, the namespace is whole: what the loop has left so far can
be saved like what a statement leaves, together with how far it has come. A loop that was cut short is entered with
everything as it was before it first began (what stands before it in its `with` runs again); its items are made again
and those that are done are skipped; then the saved state is bound. So nothing is unpickled that is still there, and
items stay the objects they are.

Three things could go wrong with that, and are looked after:
- *The items come in another order* (a set of strings in a new process, results as they complete). Where the order
  does not follow from the inputs, a digest of every item gone through is kept, and compared while skipping.
- *Items and body draw random numbers by turns* (a generator that shuffles, a body that drops out). Then items made one
  behind the other are others, in whatever order they come. So the iterator itself is saved, if that is possible.
- *The loop changes what it goes through* (`for row in rows: row["y"] = …`). Then the items made anew are not those of
  the saved state. So the iterator itself is saved, with the state, in one pickle: what they share stays shared.

A loop inside of a loop, whose iterations take long (an epoch of many batches), is saved between its own iterations,
with how far each loop around it has come. To go on, those are entered first, at the item they were at; what their
bodies do before the inner loop is passed by. What the inner loop goes through is made again only if it is certain to
be the same: ordered, and of nothing the statement changes; else its iterator is saved. Where neither is possible, the
loops around it are saved between their iterations, as if there were no other. All of this costs something at every
start of an inner loop, so it is done only while an iteration around it takes long (`deep`), beginning with the first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from nbcheckpoint import bars
from nbcheckpoint.engine.pace import Pace
from nbcheckpoint.engine.trail import PLAIN
from nbcheckpoint.fingerprint.code import free_names, names_in_tree
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Progress
from nbcheckpoint.notebook import further, reentered, sharing
from nbcheckpoint.notebook.items import (
    REENTERED,
    entered_with,
)
from nbcheckpoint.notebook.line import say_where
from nbcheckpoint.notebook.loop import ITEM, ITERATOR, START, Loop, of_loop
from nbcheckpoint.notebook.weave import LoopNode, loop_key, names_entered
from nbcheckpoint.notebook.written import Files, Writer, Written
from nbcheckpoint.store import Saved

if TYPE_CHECKING:
    from nbcheckpoint.notebook.looping import Before


COUNTED = "loops"
"""In the meta of a checkpoint: how many loops of the statement have a number."""


class Loops:
    """The loops of one statement, how far an earlier kernel had come with them, and what has been saved of them."""

    def __init__(
        self,
        nodes: Sequence[LoopNode],
        statement: ast.stmt,
        user_ns: dict[str, Any],
        pace: Pace,
        every: float | int | None,
        deep: set[int],
        number: int,
    ) -> None:
        """`number` is the statement's. `deep` is to have the keys of those whose inner loops are to be watched."""
        deep.difference_update(loop_key(number, which) for which in range(len(nodes)))
        names = names_in_tree(statement)
        writes = names.writes
        self._made_anew = names.reads - free_names([statement])
        """Names that a loop which is all of the statement binds in every iteration before it reads them."""
        self._entered = names_entered(statement)
        self._as_entered: dict[str, str] = {}
        """The names that `with`s around them have bound, and what they had then."""
        self.opened: dict[str, Any] = {}
        """What they have opened and have to open again, as it was found when it was last saved."""
        self._around: list[Any] = []
        """What those were entered with."""
        self.files = Files()
        """The files they write."""
        self._all: list[Loop] = []
        for which, (node, around, heads) in enumerate(nodes):
            outer = self._all[around] if around >= 0 else None
            inside = writes if outer is not None or statement is not node else frozenset()
            made = Loop(which, node, user_ns, inside, pace, every)
            made.heads = {head: entered_with(head, user_ns) for head in heads}
            made.lies_in(outer, deep, loop_key(number, which))
            self._all.append(made)
        self._is_all = bool(nodes) and nodes[0].node is statement and not statement.orelse
        """Is the statement a loop, and nothing else?"""
        self.current: Loop | None = None
        """The one that is running, or ran last."""
        self.resume: Checkpoint | None = None
        """The progress to go on from, until that is done."""
        self.resumed: Checkpoint | None = None
        """The progress it went on from."""
        self.before: Before | None = None
        """Everything as it is as long as nothing of that has been bound."""
        self.loaded: dict[str, Any] = {}
        self.outputs: list[dict[str, Any]] = []
        self.earlier_seconds = 0.0
        """What all of the statement took the last time it came to its end, if it ever did."""
        self.saving_seconds = 0.0
        self.problem = ""
        """Why their progress is not being saved, if it is not."""
        self.inner_problem = ""
        """Why it is saved only between iterations of the outermost one, if that matters."""
        self.saved: Checkpoint | None = None
        """The progress saved last."""
        self._superseded: list[Checkpoint] = []
        self._pending: Future[None] | None = None

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, number: int) -> Loop:
        return self._all[number]

    def drawn_from(self, loop: Loop) -> dict[str, Any]:
        """The random state at the beginning of a loop to go on with: of the generators that were drawn from.

        The others have nothing to do with what was saved. They may be in another state by now, and stay in it.
        """
        moved = {item.name for item in self.resume.random} if self.resume is not None else set()
        start = self.loaded.get(of_loop(START, loop) if self.reenters(loop) is not None else START, {})
        return {name: state for name, state in start.items() if name in moved}

    def resumes(self, loop: Loop) -> Progress | None:
        """How far that loop had come, if it is the one to go on with."""
        progress = self.resume.progress if self.resume is not None else None
        return progress if progress is not None and progress.loop == loop.number else None

    def reenters(self, loop: Loop) -> Progress | None:
        """How far that loop had come, if the one to go on with is inside of it."""
        progress = self.resume.progress if self.resume is not None else None
        return next((p for p in progress.around if p.loop == loop.number), None) if progress is not None else None

    def saved_around(self, loop: Loop, progress: Progress) -> tuple[Any, Progress, Any]:
        """The iterator of a loop around the one to go on with, how far it had come, and the item it is at."""
        return self.loaded[of_loop(ITERATOR, loop)], progress, self.loaded[of_loop(ITEM, loop)]

    def is_as_left(self, name: str, part: Any) -> bool:
        """Is a part of an item that was made again what the body had left of it when it was saved?"""
        if type(part) in PLAIN or name not in self.loaded:
            return True
        return _digest(name, part) == _digest(name, self.loaded[name]) != ""

    def made_anew(self, loop: Loop) -> Collection[str]:
        """Names whose values nobody asks for behind an iteration of that loop, as far as the own code goes."""
        return self._made_anew if self._is_all and not loop.is_inner else ()

    def within(self, manager: Any) -> None:
        """A `with` around them is about to be entered."""
        self.files.within(manager)
        if f"{type(manager).__module__}.{type(manager).__qualname__}" not in REENTERED:
            self._around.append(manager)

    def note_entered(self, user_ns: dict[str, Any]) -> None:
        """The outermost of them begins."""
        there = self._entered & user_ns.keys()
        self._as_entered = {name: _digest(name, user_ns[name]) for name in there}

    def opens_again(self, user_ns: dict[str, Any]) -> bool:
        """Has what stands around the loop to go on with opened again what it had opened?"""
        found = {name: one for name, one in self.loaded.items() if name.startswith(reentered.PREFIX)}
        found = {key.removeprefix(reentered.PREFIX): one for key, one in found.items()}
        written = {name: one for name, one in found.items() if isinstance(one, (Written, Writer))}
        others = found.keys() - written.keys()
        same = all(reentered.is_again(user_ns.get(name), found[name], name) for name in others)
        return same and self.files.are_again(written, user_ns)

    def opener(self, name: str, function: Any, begin_anew: Callable[[], object]) -> Any:
        """What a `with` around them is to call to open what it binds to that name, where it would call `function`."""
        saved = self.loaded.get(reentered.PREFIX + name) if self.resume is not None else None
        return self.files.opener(name, function, saved, begin_anew)

    @property
    def bound_by_with(self) -> set[str]:
        """Names that `with`s around them have bound."""
        return set(self._as_entered)

    def entered(self, wanted: set[str], user_ns: dict[str, Any], reached: Collection[str]) -> tuple[set[str], str]:
        """Names to be saved which the `with`s around them bind anew, to what they have now; or why one cannot be gone
        on with: it would be entered with one object, and left with another in its place."""
        there = {name: user_ns[name] for name in wanted & user_ns.keys()} if self._entered else {}
        again: dict[str, Any] = {name: reentered.opened(name, value, reached) for name, value in there.items()}
        again |= {name: self.files.left(name, there[name]) for name, one in again.items() if one is None}
        self.opened = {reentered.PREFIX + name: one for name, one in again.items() if one is not None}
        bound = {name for name in self._as_entered.keys() & wanted if type(user_ns.get(name)) not in PLAIN}
        same = {name for name, one in again.items() if one is not None}
        same |= {name for name in bound if bars.is_bar(user_ns[name])}
        same |= {name for name in bound - same if _digest(name, user_ns[name]) == self._as_entered[name] != ""}
        changed = sorted(bound - same)
        return same, f"`with … as {changed[0]}` is entered once more to go on" if changed else self.files.unsaved

    def shared_around(self, together: set[str], user_ns: dict[str, Any]) -> str:
        """Why what the `with`s around them hold keeps them from going on, if so."""
        held = [*self._around, *(user_ns[name] for name in self._as_entered.keys() & user_ns.keys() - together)]
        held = [one for one in held if type(one) not in PLAIN]
        there = {name: user_ns[name] for name in together if name in user_ns}
        shared = sharing.sharing((), there, roots=held) if held and there else set()
        if shared is None:
            return "too many objects to tell which variables share them"
        names = ", ".join(sorted(shared & together))
        return f"a `with` around it holds {names}, and is entered once more to go on" if names else ""

    @property
    def counted(self) -> dict[str, int]:
        """What is kept with how far they have come: the numbers they have mean nothing to others."""
        return {COUNTED: len(self._all)}

    def at_the_end(self, turns: int | None) -> dict[str, int]:
        """The same, and how far they went, behind a loop that may be made longer."""
        if turns is None:
            return {}
        loop = self._all[0]
        return {**self.counted, **further.says(turns if loop.is_over else None, loop.left_in)}

    @property
    def before_seconds(self) -> float:
        """Work done by earlier kernels."""
        return self.resumed.seconds if self.resumed is not None else 0.0

    @property
    def what_begins_anew(self) -> str:
        """What would have to be done again from its beginning, and why."""
        if self.problem:
            return f"the loop would begin anew: {self.problem}"
        return f"the loop inside of it would begin anew: {self.inner_problem}" if self.inner_problem else ""

    @property
    def where(self) -> str:
        """`at 37 of 100`, as people count, for whoever runs it again."""
        progress = self.saved.progress if self.saved is not None else None
        return say_where(progress) if progress is not None else "at its beginning"

    def gone_on(self, loop: Loop) -> None:
        """The saved state has been bound."""
        progress = self.resumes(loop)
        assert progress is not None
        loop.done = progress.done
        self.saved = self.resumed = self.resume
        self.files.have_gone_on()
        self.forget()

    def forget(self) -> None:
        """There is nothing to go on from, or not any more."""
        self.resume, self.before, self.loaded, self.outputs = None, None, {}, []
        self.files.begin_anew()

    def begin_anew(self, loop: Loop, start: dict[str, Any]) -> None:
        """It does not go on after all. `start`: the random state before what it goes through was made."""
        self.forget()
        self.saved = self.resumed = loop.rest = None
        loop.done, loop.start = 0, start

    def saved_one(self, saved: Saved, forget: Callable[[Checkpoint], object]) -> None:
        """It has been handed over to be saved. The one before that is kept until this one is certain to be there."""
        if self._pending is not None and self._pending.done() and self._pending.exception() is None:
            for old in self._superseded:
                forget(old)
            self._superseded = []
        if self.saved is not None and not further.went_all_the_way(self.saved):
            self._superseded.append(self.saved)
        self.saved, self._pending = saved.checkpoint, saved.done

    def ended(self, forget: Callable[[Checkpoint], object]) -> None:
        """All of the statement is saved: how far it had come does not matter any more."""
        whole = self.saved is None or further.went_all_the_way(self.saved)
        for old in (*self._superseded, *([self.saved] if self.saved is not None and not whole else [])):
            forget(old)
        self._superseded, self.saved = [], None

    def ring(self) -> None:
        """Save at the next opportunity."""
        if self.current is not None and self.current.chain[0].open:
            self.current.chain[0].ring()

    @property
    def is_saving(self) -> bool:
        """Is the last progress still on its way to the disk?"""
        return self._pending is not None and not self._pending.done()

    def stop(self) -> None:
        for loop in self._all:
            loop.stop()
            loop.let_go()
        self._around = []
        self.files.drop()


def _digest(name: str, value: Any) -> str:
    """What it holds, or nothing if nobody can tell."""
    try:
        return Digester().digest(name, value)
    except Unidentified:
        return ""

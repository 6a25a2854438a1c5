"""Random flows through random lives: crashes between any two calls of the backend, failures, edits, questions, forks.

A flow is a list of statements, rendered as source: calls, branches on results, loops, maps, nested flows, questions,
steps that fail some times, steps with effects. Beside it stands what plain Python makes of the same statements. After
every session:

- a result is that of plain Python with the code as it is now and the answers of this run;
- a body whose checkpoint was there runs again only if its code, what it reads or its arguments are others;
- what has effects and was cut short is asked about first;
- a question that was answered in this run is not asked again;
- attempts, sessions and bytes never go back;
- the status of a run is one that its records support, and no completed step lacks its checkpoint.

NBCHECKPOINT_LONG=1 tries thousands of lives.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import nbcheckpoint as nbc
from nbcheckpoint.engine import context
from nbcheckpoint.errors import MapFailed
from nbcheckpoint.model import Checkpoint, Owner, Run, Step, open_stores
from nbcheckpoint.store import Store, liveness, open_store
from tests.properties.test_store_machine import Crash, Crashing

_serial = itertools.count()
STEPS = range(3)
MOST = 97


@dataclass
class Code:
    """What can be edited between two sessions."""

    statements: list[tuple[Any, ...]]
    bodies: list[int] = field(default_factory=lambda: [3, 5, 7])
    globals: list[int] = field(default_factory=lambda: [1, 2, 4])
    helper: int = 1

    def value(self, step: int, x: int) -> int:
        """What a step returns."""
        return (x * self.bodies[step] + self.globals[step] + x + self.helper) % MOST

    def version(self, step: int) -> tuple[int, ...]:
        return self.bodies[step], self.globals[step], self.helper

    def source(self) -> str:
        lines = [f"HELPER = {self.helper}", f"def helper(x):\n    return x + {self.helper}"]
        for step in STEPS:
            lines.append(f"G{step} = {self.globals[step]}")
            for name, options in ((f"s{step}", "retries=1, backoff=0.0"), (f"e{step}", "side_effects=True")):
                lines.append(f"@nbc.step({options})\ndef {name}(x):\n    ran('{name}', x)")
                lines.append(f"    return (x * {self.bodies[step]} + G{step} + helper(x)) % {MOST}")
            lines.append(f"@nbc.flow\ndef inner{step}(x):\n    return s{step}(s{(step + 1) % 3}(x))")
        lines.append("@nbc.flow\ndef program(x):")
        lines += [f"    {line}" for at, what in enumerate(self.statements) for line in _rendered(at, *what)]
        return "\n".join([*lines, "    return x"])

    def plain(self, x: int, answers: dict[str, int]) -> int:
        """The same without any of this."""
        for at, (kind, step) in enumerate(self.statements):
            if kind in ("call", "effect"):
                x = self.value(step, x)
            elif kind == "branch":
                x = self.value(step, x) if x % 2 else self.value((step + 1) % 3, x)
            elif kind == "loop":
                for _ in range(x % 3):
                    x = self.value(step, x)
            elif kind == "map":
                x = sum(self.value(step, n) for n in range(x % 4)) % MOST
            elif kind == "nested":
                x = self.value(step, self.value((step + 1) % 3, x))
            elif kind == "gate":
                x = (x + answers[f"gate{at}"]) % MOST
        return x


def _rendered(at: int, kind: str, step: int) -> list[str]:
    return {
        "call": [f"x = s{step}(x)"],
        "effect": [f"x = e{step}(x)"],
        "branch": [f"x = s{step}(x) if x % 2 else s{(step + 1) % 3}(x)"],
        "loop": ["for _ in range(x % 3):", f"    x = s{step}(x)"],
        "map": [f"x = sum(s{step}.map(range(x % 4), progress=False)) % {MOST}"],
        "nested": [f"x = inner{step}(x)"],
        "gate": [f"x = (x + nbc.pause('?', name='gate{at}')) % {MOST}"],
    }[kind]


STATEMENT = st.tuples(
    st.sampled_from(["call", "effect", "branch", "loop", "map", "nested", "gate"]), st.sampled_from(STEPS)
)

MACHINE: list[FlowMachine] = []
"""The one at work: bodies find it behind the back of everything that looks for inputs."""


def ran(name: str, x: int) -> None:
    machine: FlowMachine = sys.modules["tests.properties.test_flow_machine"].MACHINE[0]
    machine.ran(name, x)


@dataclass
class Known:
    """What was seen of one run."""

    run: Run
    answers: dict[str, int] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)


class FlowMachine(RuleBasedStateMachine):
    @initialize(statements=st.lists(STATEMENT, min_size=1, max_size=6), seed=st.integers(0, 20))
    def begin(self, statements: list[tuple[Any, ...]], seed: int) -> None:
        MACHINE[:] = [self]
        self.url = f"memory://flows-{next(_serial)}"
        self.code, self.seed = Code(statements), seed
        self.trouble: dict[str, list[type[Exception]]] = {}
        """What will fail, how often, and how."""
        self.known: dict[str, Known] = {}
        self.seen: set[str] = set()
        """Checkpoints there were after the session before."""
        self.saved: set[tuple[Any, ...]] = set()
        """Bodies that need not run again: (name, argument, version of the code)."""
        self.said: list[tuple[str, tuple[Any, ...]]] = []
        self.now = ""
        """The run at work."""
        self.complete = self.forked = False

    # Behind the bodies' backs

    def ran(self, name: str, x: int) -> None:
        here = nbc.current()
        assert here is not None
        body = (name, x, self.code.version(int(name[1])))
        where = (here.run, here.step) if name.startswith("e") else ()
        assert (*where, *body) not in self.saved, f"{body} was saved, and runs again"
        known = self.known.get(here.run)
        before = known.steps.get(here.step) if known is not None else None
        if name.startswith("e") and before is not None and before.status in ("running", "interrupted"):
            asked = [step for step in self.read().steps(here.run, inner=True) if "again" in step.name]
            assert any("answer" in step.meta for step in asked), f"{name} was cut short, and nobody was asked"
        self.said.append((here.step, (*where, *body)))
        errors = self.trouble.get(name)
        if errors:
            raise errors.pop(0)("not now")

    # Sessions

    def read(self) -> Store:
        return open_store(self.url)

    @rule(calls=st.one_of(st.none(), st.integers(0, 80)), by_id=st.booleans())
    def session(self, calls: int | None, by_id: bool) -> None:
        """Run it, or go on with it, in a process that dies before its n-th call of the backend."""
        store = self.read()
        store.backend = Crashing(store.backend)  # type: ignore[assignment]  # stands in for one
        owner = Owner(host=socket.gethostname(), pid=2**22 + next(_serial), started="1", boot=liveness._boot())
        space = {"nbc": nbc, "ran": ran, "__name__": "tests.properties.made"}
        exec(self.code.source(), space)
        self.said = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nbcheckpoint.store.this_process", lambda: owner)
            patch.setattr(context, "_chosen", [store])
            store.backend.calls_left = calls  # type: ignore[attr-defined]
            self._go(space["program"], by_id)
        open_stores.discard(store)  # its process is gone
        self._look()

    def _go(self, flow: Any, by_id: bool) -> None:
        try:
            if (by_id or self.forked) and self.now and self._can_go_on():
                result = flow.resume(self.now)
            else:
                result = flow(self.seed)
        except (Crash, TimeoutError, ValueError, MapFailed):
            return
        except nbc.Paused as paused:
            self._asked(paused.run, paused.pause)
            return
        self.result = result
        self.complete = True

    def _asked(self, run: str, pause: str) -> None:
        assert run not in self.known or pause not in self.known[run].answers, "it was answered, and is asked again"

    def _can_go_on(self) -> bool:
        """Can it be resumed by its id, and is there anything to resume? A complete one returns what it came to then."""
        over = self.known[self.now].run.status == "completed" if self.now in self.known else False
        return not over and any(s.meta.get("flow") and s.checkpoint for s in self.read().steps(self.now))

    def _look(self) -> None:
        """What stands in the store, compared with what stood there."""
        store = self.read()
        runs = store.runs()
        if not runs:
            return
        # Which run it was: calling the flow may go on with an older one than the fork that was made last.
        moved = [r.id for r in runs if r.id not in self.known or self.known[r.id].run.sessions != r.sessions]
        if moved and (self.complete or not self.forked):
            self.now = moved[0]
        for run in runs:
            known = self.known.setdefault(run.id, Known(run))
            steps = {step.address: step for step in store.steps(run.id, inner=True)}
            self._compare(known, run, steps)
            known.run, known.steps = run, steps
        kept = list(store._listed(Checkpoint, store.backend.scan("checkpoint/", limit=None)))
        self._check_records(store, {found.id for found in kept})
        # Only what is new: a step that was edited stands where another version of it has left something.
        addresses = {found.step for found in kept if found.run == self.now and found.id not in self.seen}
        self.seen = {found.id for found in kept}
        if not self.forked:
            self.saved |= {body for address, body in self.said if address in addresses}
        if self.complete:
            self._finished(store)

    def _compare(self, known: Known, run: Run, steps: dict[str, Step]) -> None:
        assert run.sessions >= known.run.sessions
        assert run.bytes >= known.run.bytes
        for address, before in known.steps.items():
            assert steps[address].attempt >= before.attempt, (
                f"{before.name}: {before.attempt}, {steps[address].attempt}"
            )

    def _check_records(self, store: Store, kept: set[str]) -> None:
        for known in self.known.values():
            run, steps = known.run, [step for step in known.steps.values() if not step.meta.get("flow")]
            assert run.status != "running", "its process is gone"
            for step in steps:
                assert not step.checkpoint or step.checkpoint in kept, f"{step.name} names what is not there"
                if step.status in ("completed", "restored") and step.kind in ("call", "item"):
                    assert step.checkpoint, f"{step.name} is {step.status}, and nothing is saved"
            statuses = {step.status for step in steps if not step.meta.get("detached")}
            if run.status == "completed":
                assert statuses <= {"completed", "restored"}, f"complete, with {statuses}"
            if run.status == "paused":
                assert any("pause" in step.meta for step in steps)
            if run.status == "failed":
                assert "failed" in statuses

    def _finished(self, store: Store) -> None:
        """It has a result: is it the right one? The next session begins another run."""
        answers = self.known[self.now].answers
        assert self.result == self.code.plain(self.seed, answers), self.code.source()
        assert store.run(self.now).status == "completed"
        flow = next(step for step in store.steps(self.now) if step.meta.get("flow"))
        assert store.restore(flow.checkpoint)["result"] == self.result
        self.complete = self.forked = False

    # What happens between two sessions

    @rule(value=st.integers(0, 9))
    def answer(self, value: int) -> None:
        store = self.read()
        for step in store.steps(self.now, inner=True) if self.now else ():
            if "pause" in step.meta and "answer" not in step.meta:
                is_gate = step.name.startswith("gate")
                store.answer(self.now, step.name, value if is_gate else "rerun")
                if is_gate:
                    self.known[self.now].answers[step.name] = value

    @rule(
        name=st.sampled_from([f"{kind}{step}" for kind in "se" for step in STEPS]),
        errors=st.lists(st.sampled_from([TimeoutError, ValueError]), min_size=1, max_size=4),
    )
    def something_will_fail(self, name: str, errors: list[type[Exception]]) -> None:
        self.trouble[name] = list(errors)

    @rule(what=st.sampled_from(["body", "global", "helper"]), step=st.sampled_from(STEPS), value=st.integers(1, 4))
    def edit(self, what: str, step: int, value: int) -> None:
        if what == "body":
            self.code.bodies[step] = value
        elif what == "global":
            self.code.globals[step] = value
        else:
            self.code.helper = value

    @rule(at=st.integers(0, 5), statement=STATEMENT)
    def rewrite(self, at: int, statement: tuple[Any, ...]) -> None:
        """Another statement in place of one, or behind the last. Questions stay what they are: they have names."""
        if at >= len(self.code.statements):
            self.code.statements.append(statement)
        else:
            self.code.statements[at] = statement

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        store = self.read()
        done = [s for s in store.steps(self.now) if s.status in ("completed", "restored")] if self.now else []
        done = [step for step in done if step.kind != "pause" and not step.meta.get("flow")]
        if not done:
            return
        made = store.fork(self.now, at=data.draw(st.sampled_from(done)).address)
        self.now, self.forked = made.id, True
        self.known[made.id] = Known(made)
        self.saved.clear()  # a fork computes what comes behind, whatever others have

    def teardown(self) -> None:
        """Whatever happened: from here it comes to its end."""
        if not hasattr(self, "code"):
            return
        self.trouble.clear()
        before = self.now
        for _ in range(40):
            self.session(None, by_id=True)
            if self.now and self.known[self.now].run.status == "completed":
                return
            self.answer(1)
        raise AssertionError(f"{before} comes to no end")


LONG = bool(os.environ.get("NBCHECKPOINT_LONG"))
TestFlowMachine = pytest.mark.slow(FlowMachine.TestCase)
TestFlowMachine.settings = settings(max_examples=3000 if LONG else 100, stateful_step_count=15, deadline=None)

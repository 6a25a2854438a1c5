"""`nbc.Graph`: steps as the nodes of a picture, with edges that decide where to go on.

    g = nbc.Graph("orders", max_iterations=1000)
    g.node("validate", check); g.node("pay", pay); g.edge("validate", "pay", when=lambda s: s["ok"])
    g.entry("validate"); g.exit("pay")
    state = g.run({"id": 7})

A node is given the state and returns the next one; returning nothing means: as I have changed what I was given. It is
always given a copy, so a node that fails half-way, and is tried again, finds the state as it was.

A graph is a flow whose body walks from node to node, so everything about runs is the same. After a node the way on is
decided *before* its completion is written, and stands in the same record: whoever resumes neither skips nor repeats
a node at the boundary. So do the counts, and they go on counting; and the random generators, with the state they were
in when the walk began: with another seed, what was drawn is drawn again.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from nbcheckpoint.engine import aside, context, policy, shown, strands
from nbcheckpoint.engine.arguments import NO_NAMES
from nbcheckpoint.engine.calling import Call, Outcome
from nbcheckpoint.engine.context import Frame
from nbcheckpoint.engine.drawn import drawn_since
from nbcheckpoint.engine.effects import drive
from nbcheckpoint.engine.flow import FlowFunction, FlowSpec, origin_of
from nbcheckpoint.engine.identity import same_random
from nbcheckpoint.engine.step import Spec, StepFunction, step
from nbcheckpoint.engine.watching import StepWatch
from nbcheckpoint.errors import Changed, Error, GraphError, UsageError
from nbcheckpoint.events import emit
from nbcheckpoint.fingerprint import explain, rng
from nbcheckpoint.fingerprint.values import Digester, Unidentified
from nbcheckpoint.model import Checkpoint, Input, Step
from nbcheckpoint.store import Store
from nbcheckpoint.store.forking import RESULT
from nbcheckpoint.store.picture import Edge, Node, Picture, lay_out

When = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Way:
    """One edge: taken if `when` is true of the state."""

    source: str
    target: str
    when: When | None = None
    label: str = ""

    def code(self) -> str:
        """What it asks, to see whether that has changed."""
        if self.when is None:
            return ""
        try:
            return Digester().deep(self.label, self.when)
        except Unidentified:
            return ""


@dataclass
class Graph:
    """Nodes and edges; `run` walks them."""

    name: str
    max_iterations: int = 1000
    store: Store | None = None
    tags: tuple[str, ...] = ()
    nodes: dict[str, StepFunction[Any, Any]] = field(default_factory=dict)
    ways: list[Way] = field(default_factory=list)
    start: str = ""
    exits: set[str] = field(default_factory=set)

    def node(self, name: str, function: Callable[[Any], Any] | None = None, **options: Any) -> Any:
        """Add a node. `options` are those of `step`. Without a function it is a decorator."""
        if function is None:
            return lambda found: self.node(name, found, **options) and found
        if name in self.nodes:
            raise GraphError(f"graph {self.name} has two nodes called {name!r}")
        self.nodes[name] = step(name=name, **{"scope": "run", **options})(function)
        return self

    def edge(self, source: str, target: str, when: When | None = None, *, label: str = "") -> Graph:
        """From one node to another, if `when(state)`. Of several, the first that is true is taken."""
        named = label or getattr(when, "__name__", "").replace("<lambda>", "") if when is not None else label
        self.ways.append(Way(source, target, when, named))
        return self

    def entry(self, name: str) -> Graph:
        """Where it begins."""
        self.start = name
        return self

    def exit(self, *names: str) -> Graph:
        """Where it ends."""
        self.exits.update(names)
        return self

    def validate(self) -> None:
        """Raises GraphError, with everything that is wrong."""
        problems = list(self._problems())
        if problems:
            raise GraphError(f"graph {self.name}: {'; '.join(problems)}", hint="mend it before it is run")

    def _problems(self) -> Any:
        known = self.nodes.keys()
        if not self.nodes:
            yield "it has no nodes"
            return
        if not self.start:
            yield "it has no entry"
        named = {self.start, *self.exits, *(n for way in self.ways for n in (way.source, way.target))} - {""}
        for name in sorted(named - known):
            yield f"there is no node {name!r}"
        if not self.exits:
            yield "it has no exit"
        reached = self._reached()
        for name in sorted(known - reached):
            yield f"nothing leads to {name!r}"
        if self.exits and not self.exits & reached:
            yield "no exit can be reached"
        out = {way.source for way in self.ways}
        for name in sorted(out & self.exits):
            yield f"{name!r} is an exit, and yet edges lead on from it"
        for name in sorted((known & reached) - out - self.exits):
            yield f"nothing leads on from {name!r}, and it is no exit"

    def _reached(self) -> set[str]:
        reached, queue = set(), [self.start]
        while queue:
            name = queue.pop()
            if name not in reached:
                reached.add(name)
                queue += [way.target for way in self.ways if way.source == name]
        return reached

    @property
    def picture(self) -> Picture:
        """The graph itself, before it is run."""
        nodes = [Node(id=name, label=name, kind="node") for name in self.nodes]
        return lay_out(nodes, [Edge(source=w.source, target=w.target, label=w.label) for w in self.ways])

    def _repr_svg_(self) -> str:
        return self.picture._repr_svg_()

    def run(self, state: Any, *, every: int | str = 1, preserve: bool = True, **policies: Any) -> Any:
        """Walk from the entry to an exit; returns the last state.

        `every`: save the state after every so many nodes, or so often (`"30s"`); 0 saves only the last.
        `preserve=False`: a run that came to its end is removed. If the latest run with this state was interrupted,
        failed or is paused, that is continued.
        """
        return self._flow({**_kept(preserve), **policies, "every": every})(state)

    def fresh(self, state: Any, *, every: int | str = 1, preserve: bool = True, **policies: Any) -> Any:
        """A new run, whatever came before."""
        return self._flow({**_kept(preserve), **policies, "every": every}).fresh(state)

    def resume(self, run: str | None = None, *, preserve: bool | None = None, **policies: Any) -> Any:
        """Continue that run behind the last node it finished; a complete one returns its last state.

        `preserve`, `every` and the policies are as they were when it began, unless they are given.
        """
        return self._flow({}).resume(run, **{**_kept(preserve), **policies})

    def _flow(self, policies: Mapping[str, Any]) -> FlowFunction[Any, Any]:
        self.validate()

        def walk(state: Any) -> Any:
            return _Walk(self).go(state)

        first = self.nodes[self.start].spec.function
        edges = [{"source": w.source, "target": w.target, "label": w.label} for w in self.ways]
        spec = FlowSpec(
            function=walk,
            name=self.name,
            settings={},
            tags=self.tags,
            store=self.store,
            kind="graph",
            origin=origin_of(first),
            meta={"graph": {"nodes": list(self.nodes), "edges": edges, "exits": sorted(self.exits)}},
        )
        return FlowFunction(spec).options(**policies)

    def decide(self, node: str, state: Any) -> tuple[str, list[dict[str, Any]]]:
        """(where to go on, what each edge said): "" at an exit. Raises GraphError where there is no way."""
        said: list[dict[str, Any]] = []
        if node in self.exits:
            return "", said
        for way in (way for way in self.ways if way.source == node):
            taken = way.when is None or bool(way.when(state))
            said.append({"target": way.target, "taken": taken, "label": way.label})
            if taken:
                return way.target, said
        hint = "add one without `when`, or make it an exit"
        raise GraphError(f"graph {self.name}: no edge leads on from {node!r}", hint=hint)

    def ways_code(self, node: str) -> str:
        """Identifies the edges that leave a node."""
        told = "".join(f"{way.target} {way.code()};" for way in self.ways if way.source == node)
        return blake3(told.encode()).hexdigest()


def _kept(preserve: bool | None) -> dict[str, str]:
    """As the policy says it."""
    return {} if preserve is None else {"on_success": "keep" if preserve else "delete"}


def node_code(node: StepFunction[Any, Any]) -> str | None:
    """Identifies what a node does, with all that it reads; None where that cannot be told."""
    try:
        return Digester().deep(node.spec.name, node.spec.function)
    except Unidentified:
        return None


def _iteration(visit: Step) -> int:
    return int(visit.meta.get("iteration", 0))


class _Walk:
    """One session of walking."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        here = context.frame()
        if here is None:
            raise UsageError(f"graph {graph.name} is run by its run()")
        self.here: Frame = here
        self.journal = here.journal
        self.visits: Counter[str] = Counter()
        self.iteration = 0
        self.random = rng.states()
        """Generators, as they were when the walk began."""

    def go(self, state: Any) -> Any:
        node, state = self._where(state)
        while node:
            self.journal.check_cancelled()
            self.iteration += 1
            if self.iteration > self.graph.max_iterations:
                raise GraphError(
                    f"graph {self.graph.name} came to no end in {self.graph.max_iterations} iterations",
                    hint="raise max_iterations, and resume it: it goes on where it is",
                )
            if self.visits[node] == 1:
                emit("cycle_detected", run=self.journal.run_id, node=node, iteration=self.iteration)
            self.visits[node] += 1
            state, node = self._visit(node, state)
        emit("graph_completed", run=self.journal.run_id, iterations=self.iteration)
        return state

    def _where(self, state: Any) -> tuple[str, Any]:
        """Where to begin, or to go on: behind the last node whose state was saved."""
        here = self.here.address
        done = [s for s in self.journal.steps_at(here) if s.kind == "node"]
        done.sort(key=_iteration)
        saved = [s for s in self._holding(done) if s.status in ("completed", "restored") and s.checkpoint]
        for last in reversed(saved):
            try:
                found = self.journal.store.restore(last.checkpoint)
            except Error as error:
                aside.warn(f"graph {self.graph.name}: the state after {last.name} is lost: {error}")
                continue
            state = found.pop(RESULT)
            if strands.is_alone():
                for name, generator in found.items():
                    rng.restore(name, generator)
            self._count(done, last)
            self._show_again(saved)
            self._leave_behind(done)
            return self._way_on(last, state), state
        self._leave_behind(done)
        return self.graph.start, state

    def _holding(self, done: Sequence[Step]) -> Sequence[Step]:
        """The visits that are taken as they are; before one it is to start with, whatever their code is by now."""
        slots = [str(s.meta.get("slot")) for s in done]
        if self.journal.start_at in slots:
            self.journal.arrive(self.journal.start_at)
            return done[: slots.index(self.journal.start_at)]
        return [] if self.journal.is_forced() else self._unchanged(done)

    def _show_again(self, saved: Sequence[Step]) -> None:
        """What the visits up to there have shown, where nobody has seen it."""
        store, unseen = self.journal.store, self.journal.unseen
        for visit in saved if unseen else ():
            if _iteration(visit) <= self.iteration:
                shown.again(store, store.checkpoint(visit.checkpoint), unseen)

    def _leave_behind(self, done: Sequence[Step]) -> None:
        """Visits later than where it goes on are made anew, perhaps of other nodes: what they left no longer holds."""
        self.journal.reopen([s for s in done if _iteration(s) > self.iteration and s.status == "completed"])

    def _unchanged(self, done: Sequence[Step]) -> Sequence[Step]:
        """The visits up to the first whose code or random numbers are not what they were: what that has led to no
        longer holds."""
        said = policy.resolve(self.journal.settings).on_change
        for at, visit in enumerate(done):
            node = self.graph.nodes.get(visit.name)
            same = node is None or visit.meta.get("code") in (None, node_code(node)) or visit.meta.get("edited")
            moved = self._reseeded(visit)
            if (same and not moved) or said == "trust":
                continue
            why = explain.changed_random(moved).text if same else f"{visit.name}() changed"
            if said == "strict":
                raise Changed(self.journal.run_id, visit.name, why)
            emit("step_invalidated", run=visit.run, step=visit.address, name=visit.name, reason=why)
            return done[:at]
        return done

    def _reseeded(self, visit: Step) -> str:
        """A generator that was drawn from up to there, and did not begin now as it began then."""
        drawn = visit.meta.get("random", {}).items()
        then = (Input(name=name, digest=digest, type=kind) for name, (digest, kind) in drawn)
        return next((item.name for item in then if not same_random(item, self.random.get(item.name))), "")

    def _count(self, done: Sequence[Step], last: Step) -> None:
        """Counts go on where they were; what was not saved behind the last state is walked again."""
        self.iteration = _iteration(last)
        for found in done:
            if _iteration(found) <= self.iteration:
                self.visits[found.name] += 1
                self.here.next_slot(found.name)
                self.journal.recorded(str(found.meta.get("slot")))

    def _way_on(self, last: Step, state: Any) -> str:
        """As it was decided then, unless the edges are others now."""
        if last.name not in self.graph.nodes:
            raise GraphError(f"graph {self.graph.name} has no node {last.name!r} any more", hint="run it afresh")
        decided = last.meta.get("next")
        same = last.meta.get("ways") == self.graph.ways_code(last.name) and not last.meta.get("edited")
        if same and isinstance(decided, str):
            return decided
        return self.graph.decide(last.name, state)[0]

    def _visit(self, node: str, state: Any) -> tuple[Any, str]:
        call = _NodeCall(self.graph, self.graph.nodes[node].spec, state, self.iteration, self.random)
        outcome = drive(call.visit())
        self.here.made(call.address, outcome.value)
        return outcome.value, call.next


class _NodeCall(Call):
    """One visit of a node: like any call of a step, except that nothing is looked up."""

    def __init__(self, graph: Graph, spec: Spec, state: Any, iteration: int, random: Mapping[str, Any]) -> None:
        """`random`: the generators as they were when the walk began."""
        super().__init__(spec, [state], {}, kind="node")
        self.random, self.moved = random, dict[str, Any]()
        self.graph, self.iteration, self.state, self.next = graph, iteration, state, ""
        self.meta = {"iteration": iteration}

    def visit(self) -> Any:
        assert self.parent is not None
        self.after = self.parent.led_to([self.state])
        if self.is_left_out():
            self.next, _ = self.graph.decide(self.spec.name, self.state)
            return Outcome(self.state)
        self.begin()
        outcome = yield from self.attempts()
        if self.ticket is not None and self.ticket.step.status == "failed":  # and the policy is to go on
            self.next, _ = self.graph.decide(self.spec.name, self.state)
            return Outcome(self.state)
        return outcome

    def prepared(self) -> Sequence[Any]:
        """A copy for every attempt."""
        try:
            given = copy.deepcopy(self.state)
        except Exception as error:  # whatever a state may hold
            self.warn(f"its state cannot be copied ({error}): a node that fails half-way leaves it changed")
            given = copy.copy(self.state)
        self.given = given
        return [given]

    def finish(self, value: Any, seconds: float, watch: StepWatch, here: Frame | None) -> Outcome:
        state = self.given if value is None else value
        self.next, said = self.graph.decide(self.spec.name, state)
        for way in said:
            emit("edge_evaluated", run=self.run, step=self.address, source=self.spec.name, **way)
        drawn, moved = drawn_since(self.random, NO_NAMES, now=watch.random_after)
        self.moved = {name: found for name, found in moved.items() if not rng.is_pristine(name, found)}
        self.meta = {
            **({"random": {item.name: (item.digest, item.type) for item in drawn}} if drawn else {}),
            "iteration": self.iteration,
            "next": self.next,
            "edges": said,
            "ways": self.graph.ways_code(self.spec.name),
            "code": node_code(self.graph.nodes[self.spec.name]),
        }
        return super().finish(state, seconds, watch, here)

    def is_due(self, marked: bool) -> bool:
        return super().is_due(marked) or not self.next  # the last state is always saved

    def save(
        self, value: Any, seconds: float, watch: StepWatch, marks: Mapping[str, Any]
    ) -> tuple[Checkpoint | None, str]:
        code = blake3(f"node {self.graph.name} {self.spec.name}".encode()).hexdigest()
        meta = {"workflow": self.graph.name, "cell": f"{self.run} {self.slot}", "marks": dict(marks)}
        return self.committed(self.draft(code, seconds, meta=meta), {RESULT: value, **self.moved})

"""The flows of the crash matrix: one for every kind of step, each between a step before and a step behind."""

from __future__ import annotations

import sys
from typing import Any

import nbcheckpoint as nbc

ARGUMENTS = (3,)
BIG = 300_000
"""Bytes a result has, so that it does not fit into its record: there are chunks to be put."""


def ran(what: str) -> int:
    """Behind the back of everything that looks for inputs."""
    said: int = sys.modules["tests.flows.crashing_host"].ran(what)
    return said


def hold() -> None:
    sys.modules["tests.flows.crashing_host"].held()


def pool() -> Any:
    return sys.modules["tests.flows.crashing_host"].pool()


@nbc.step
def first(n: int) -> int:
    ran("first")
    return n + 1


@nbc.step
def last(found: Any) -> list[Any]:
    ran("last")
    return [found, "done"]


@nbc.step
def plain(n: int) -> tuple[int, bytes]:
    ran(f"plain {n}")
    hold()
    return n * 10, bytes([n]) * BIG


@nbc.step(side_effects=True)
def charge(n: int) -> int:
    ran(f"charge {n}")
    return n * 10


@nbc.step(retries=5, backoff=0.0)
def flaky(n: int) -> int:
    if ran(f"flaky {n}") < 3:
        raise TimeoutError("not yet")
    return n * 10


@nbc.step
async def later(n: int) -> int:
    ran(f"later {n}")
    return n * 10


@nbc.step
def outside(n: int) -> int:
    """A step with steps inside."""
    ran(f"outside {n}")
    return sum(plain(k)[0] for k in range(n))


@nbc.flow
def call(n: int) -> Any:
    return last(plain(first(n))[0])


@nbc.flow
def nested_step(n: int) -> Any:
    return last(outside(first(n)))


@nbc.flow
def effects(n: int) -> Any:
    return last(charge(first(n)))


@nbc.flow
def map_inline(n: int) -> Any:
    return last([value for value, _ in plain.map(range(first(n)))])


@nbc.flow
def map_threads(n: int) -> Any:
    return last([value for value, _ in plain.map(range(first(n)), concurrency=2)])


@nbc.flow
def map_pool(n: int) -> Any:
    return last([value for value, _ in plain.map([*range(first(n)), 0], executor=pool())])


@nbc.flow
def map_effects(n: int) -> Any:
    return last(charge.map(range(first(n))))


@nbc.flow
def map_flaky(n: int) -> Any:
    return last(flaky.map(range(first(n))))


@nbc.flow
def submit_threads(n: int) -> Any:
    futures = [plain.submit(k) for k in range(first(n))]
    return last([future.result()[0] for future in futures])


@nbc.flow
def submit_pool(n: int) -> Any:
    futures = [plain.submit(k, executor=pool()) for k in range(first(n))]
    return last([future.result()[0] for future in futures])


@nbc.flow
def nested_pool(n: int) -> Any:
    return last(outside.submit(first(n), executor=pool()).result())


@nbc.flow
def effects_pool(n: int) -> Any:
    return last(charge.submit(first(n), executor=pool()).result())


@nbc.flow
def pause(n: int) -> Any:
    found = first(n)
    return last([plain(found)[0], nbc.pause("Go on?", name="gate", choices=["", "yes"])])


@nbc.flow
def inner(n: int) -> int:
    return plain(n)[0] + plain(n + 1)[0]


@nbc.flow
def nested_flow(n: int) -> Any:
    return last(inner(first(n)))


@nbc.flow
def retry(n: int) -> Any:
    return last(flaky(first(n)))


@nbc.flow
def loop(n: int) -> Any:
    state: dict[str, int] = {"sum": first(n)}
    for k in nbc.loop(range(n), name="adding", state=state, every=1):
        ran(f"iteration {k}")
        state["sum"] += k
    return last(state["sum"])


@nbc.flow
async def asynchronous(n: int) -> Any:
    return last(await later(first(n)))


@nbc.flow
async def map_async(n: int) -> Any:
    return last(await later.map(range(first(n))))


def _begin(state: dict[str, Any]) -> dict[str, Any]:
    ran("begin")
    return {**state, "n": state["n"] + 1}


def _again(state: dict[str, Any]) -> dict[str, Any]:
    ran(f"again {state['n']}")
    return {**state, "n": state["n"] + 1, "big": b"x" * BIG}


def _pay(state: dict[str, Any]) -> None:
    ran(f"pay {state['n']}")
    state["paid"] = True


def _made(side_effects: bool) -> nbc.Graph:
    made = nbc.Graph("walk with effects" if side_effects else "walk")
    made.node("begin", _begin).node("again", _again).node("pay", _pay, side_effects=side_effects)
    made.edge("begin", "again")
    made.edge("again", "again", when=lambda s: s["n"] < 6)
    made.edge("again", "pay")
    made.entry("begin").exit("pay")
    return made


class Walk:
    """A graph, called like a flow."""

    def __init__(self, graph: nbc.Graph) -> None:
        self.graph = graph

    def __call__(self, n: int) -> Any:
        return self.shown(self.graph.run({"n": n}))

    def resume(self, run: str) -> Any:
        return self.shown(self.graph.resume(run))

    @staticmethod
    def shown(state: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key != "big"}


@nbc.flow
def graph_inside(n: int) -> Any:
    return last(Walk.shown(_made(False)._flow({"every": 1})({"n": first(n)})))


KINDS: dict[str, Any] = {
    **{
        flow.name: flow
        for flow in (
            *(call, nested_step, effects, map_inline, map_threads, map_pool, map_effects, map_flaky, submit_threads),
            *(submit_pool, nested_pool, effects_pool, pause, nested_flow, retry, loop, asynchronous, map_async),
            graph_inside,
        )
    },
    "node": Walk(_made(False)),
    "node_effects": Walk(_made(True)),
}

"""Every kind of step, killed with SIGKILL in every crash window, and resumed by a new process.

First an uninterrupted run is traced: which windows it passes, how often. Then, for each of these, it is run again in an
empty store, killed there, and resumed until it is over. What must hold each time, read from the outside:

- the result is that of the uninterrupted run;
- no body runs again whose checkpoint was there when the process died;
- every other body runs once more at the most;
- what has effects and had begun is asked about before anything is repeated, and only then;
- attempts, retries and counts go on where they were.

The short form kills each kind in a few of its windows, in all of them together. NBCHECKPOINT_LONG=1 kills in every
window of every kind, at every hit, and resumes by calling again as well as by id.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nbcheckpoint.model import Checkpoint, Run, Step
from nbcheckpoint.store import open_store
from tests.flows import crashing

LONG = bool(os.environ.get("NBCHECKPOINT_LONG"))
pytestmark = [pytest.mark.slow, *([pytest.mark.timeout(0)] if LONG else [])]
ROOT = Path(__file__).parents[2]


class Host:
    """The warm interpreter."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.flows.crashing_host"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    found = Host()
    yield found
    found.close()


class Point(NamedTuple):
    """Where a life is cut short."""

    session: int
    window: str
    hit: int
    victim: str = "self"


class Seen(NamedTuple):
    """What stands in the store, read from outside."""

    run: Run | None
    saved: frozenset[str]
    """Addresses of steps whose checkpoint is there."""
    iterations: int
    """Of the loop, that are saved."""
    steps: dict[str, Step]
    kept: frozenset[str] = frozenset()
    """The checkpoints."""

    @property
    def has_arguments(self) -> bool:
        return any(step.meta.get("flow") and step.checkpoint for step in self.steps.values())


@dataclass
class Life:
    """One run from its beginning to its end, through as many processes as it takes."""

    host: Host
    kind: str
    folder: Path
    cuts: Sequence[Point] = ()
    by_id: bool = False
    traces: list[list[tuple[str, str, str]]] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)
    killed: int = 0

    def live(self) -> Life:
        """Until there is a result. Everything that must hold on the way is asserted here."""
        seen = Seen(None, frozenset(), 0, {})
        for number in range(1, 13):
            cut = next((point for point in self.cuts if point.session == number), None)
            before, must_ask = len(self.said()), self.must_ask(seen)
            answering = "paused" in self.told
            ended = self.session(number, cut, seen)
            assert ended["killed"] or self.told, "the child came to no end"
            self.killed += cut is not None
            now = self.look()
            self.check(seen, now, self.said()[before:])
            if not answering and not ended["killed"]:
                assert ("again" in str(self.told.get("paused"))) == must_ask, f"asks {self.told}, had begun: {must_ask}"
            assert "error" not in self.told or cut is not None, self.told["error"]
            if "result" in self.told and not answering:
                self.check_end(now)
                return self
            seen = now
        raise AssertionError("it comes to no end")

    def session(self, number: int, cut: Point | None, seen: Seen) -> dict[str, Any]:
        environment = {"JUPYTER_DATA_DIR": os.environ["JUPYTER_DATA_DIR"]}
        order: dict[str, Any] = {"kind": self.kind, "folder": str(self.folder), "session": number, "do": "call"}
        if "paused" in self.told:
            run, pause = self.told["paused"]
            value = "rerun" if "again" in pause else ""
            order |= {"do": "answer", "run": run, "pause": pause, "value": value}
        elif seen.run is not None and (seen.run.status == "completed" or (self.by_id and seen.has_arguments)):
            order |= {"do": "resume", "run": seen.run.id}
        if cut is not None:
            order |= {"window": cut.window, "hit": cut.hit, "victim": cut.victim}
        ended = self.host.send(**order, environment=environment)
        told = self.folder / f"told{number}"
        if order["do"] != "answer" or told.exists():  # an answer that was killed is given once more, or is there
            self.told = json.loads(told.read_text()) if told.exists() else {}
        elif any("answer" in step.meta for step in self.look().steps.values()):
            self.told = {}
        lines = (self.folder / f"trace{number}").read_text().splitlines()
        self.traces.append([tuple(line.split("\t")) for line in lines])  # type: ignore[misc]  # three of them
        return ended

    def said(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def look(self) -> Seen:
        with open_store(self.folder / "store") as store:
            runs = store.runs()
            assert len(runs) <= 1, "whatever happens, it is one run"
            if not runs:
                return Seen(None, frozenset(), 0, {})
            kept = list(store._listed(Checkpoint, store.backend.scan("checkpoint/", limit=None)))
            done = [found.progress.done for found in kept if found.progress is not None]
            steps = {step.address: step for step in store.steps(runs[0].id, inner=True)}
            saved = {found.step for found in kept}
            # What a node comes to is not looked up by code and inputs: it counts once it is said to be complete.
            saved -= {a for a, step in steps.items() if step.kind == "node" and step.status == "running"}
            ids = frozenset(found.id for found in kept)
            return Seen(runs[0], frozenset(saved), max(done, default=0), steps, ids)

    def must_ask(self, seen: Seen) -> bool:
        """Had something with effects begun, of which nobody knows how it ended?"""
        answered = {step.name for step in seen.steps.values() if "answer" in step.meta}
        cut = [step for step in seen.steps.values() if step.status in ("running", "interrupted")]
        begun = [step for step in cut if step.name in EFFECTS and step.kind != "map"]
        open = [s for s in begun if s.address not in seen.saved and _question(s) not in answered]
        return "effects" in self.kind and bool(open)

    def check(self, before: Seen, now: Seen, said: list[str]) -> None:
        """Nothing acknowledged is computed again, and nothing counts backwards."""
        for line, times in Counter(said).items():
            address, _, what = line.partition(" ")
            assert not address or address not in before.saved, f"{what} was saved, and runs again"
            iteration = what.removeprefix("iteration ")
            assert iteration == what or int(iteration) >= before.iterations, f"{what} was saved, and runs again"
            assert times == 1 or what.startswith("flaky"), f"{what} runs {times} times in one session"
        for address, step in before.steps.items():
            after = now.steps[address]
            assert after.attempt >= step.attempt, f"{step.name}: attempt {step.attempt}, then {after.attempt}"
            if step.status == "running":
                assert len(after.meta.get("retried", ())) >= len(step.meta.get("retried", ())), "retries start anew"
        if before.run is not None and now.run is not None:
            assert now.run.sessions >= before.run.sessions
            assert now.run.bytes >= before.run.bytes
            assert now.run.computed_seconds >= before.run.computed_seconds

    def check_end(self, seen: Seen) -> None:
        assert seen.run is not None
        assert seen.run.status == "completed"
        for step in seen.steps.values():
            assert step.status in ("completed", "restored"), f"{step.name} is {step.status}"
            assert not step.meta.get("detached"), f"{step.name} is detached"
            if step.kind in ("call", "item", "node"):
                assert step.checkpoint in seen.kept, f"{step.name} has no checkpoint"
        counted = Counter(s.status for s in seen.steps.values() if "." not in s.address and not s.meta.get("flow"))
        assert seen.run.counts == dict(counted), "the run's record counts what is there"


EFFECTS = ("charge", "pay")


def _question(step: Step) -> str:
    asked = f"{step.meta['slot']} again"
    return asked if step.attempt == 1 else f"{asked} after {step.attempt}"


def points(life: Life, sessions: Iterable[int]) -> list[Point]:
    """Where that life could be cut: each window, at the hit that concerns the step in question."""
    found: list[Point] = []
    for session in sessions:
        passed: dict[str, list[tuple[str, str]]] = {}
        for window, label, where in life.traces[session - 1]:
            if window.startswith("event "):
                continue
            passed.setdefault(window, []).append((label, where))
        for window, hits in passed.items():
            inside = [at for at, (label, _) in enumerate(hits) if label.split(" ")[0] not in AROUND]
            chosen = range(len(hits)) if LONG else [inside[len(inside) // 2] if inside else len(hits) - 1]
            for at in chosen:
                victims = ["self"] if hits[at][1] == "parent" else ["self", "both"] if not LONG else VICTIMS
                found += [Point(session, window, at + 1, victim) for victim in victims]
    return found


AROUND = {"first", "last", "", *crashing.KINDS}
VICTIMS = ["self", "parent", "both"]


@pytest.mark.parametrize("kind", list(crashing.KINDS))
def test_killed_in_every_window(host: Host, kind: str, tmp_path: Path) -> None:
    """000-2, 001-5, 003-6, 003-8, 003-19.

    Cut once in every window of an uninterrupted life; and, cut in its last step, in every window of its resuming.
    """
    whole = Life(host, kind, _new(tmp_path)).live()
    ends = [window for window, _, _ in whole.traces[-1] if window == "in the body"]
    final = Point(len(whole.traces), "in the body", len(ends))
    resumed = Life(host, kind, _new(tmp_path), [final]).live()
    cuts = [[point] for point in points(whole, range(1, len(whole.traces) + 1))]
    cuts += [[final, point] for point in points(resumed, range(final.session + 1, len(resumed.traces) + 1))]
    assert {point.window for cut in cuts for point in cut} >= ALWAYS, "a window is never passed: was it renamed?"
    problems = []
    for by_id in (False, True) if LONG else (False,):
        for number, cut in enumerate(cuts if LONG else _some(kind, cuts)):
            life = Life(host, kind, _new(tmp_path), cut, by_id=by_id if LONG else bool(number % 2))
            try:
                assert life.live().told["result"] == whole.told["result"]
                assert life.killed == len(cut)
            except AssertionError as error:
                problems.append(f"{[tuple(point) for point in cut]}: {str(error)[:600]}")
            shutil.rmtree(life.folder)
    record(kind, len(cuts) * (1 + LONG), problems)
    assert not problems, f"{len(problems)}:\n" + "\n".join(problems)


ALWAYS = {
    *("run begun", "intent written", "before the intent", "in the body", "body over", "chunks put"),
    *("checkpoint written", "before the completion", "completion written", "step over", "step written"),
    *("flow body over", "result saved", "before the run's end", "run over"),
    *("before taking over", "taken", "taken over"),
}
"""What every kind of step passes."""
_SOME = 5


def _some(kind: str, cuts: list[list[Point]]) -> list[list[Point]]:
    """The short form: a few of each kind, so that together they come by every window."""
    at = list(crashing.KINDS).index(kind)
    step = max(1, len(cuts) // _SOME)
    return [cuts[(at + n * step) % len(cuts)] for n in range(_SOME)]


def record(kind: str, crashes: int, problems: list[str]) -> None:
    """For whoever runs the long form: it takes a while."""
    told = os.environ.get("NBCHECKPOINT_LONG_LOG")
    if told:
        with open(told, "a") as file:
            print(kind, f"{crashes} crashes, {len(problems)} problems", *problems, sep="\n  ", file=file)


def _new(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


# Workers that outlive whoever sent them


class Orphaned:
    """A run whose process was killed while its worker is in a body, and is held there."""

    def __init__(self, host: Host, kind: str, folder: Path) -> None:
        self.life = Life(host, kind, folder)
        for name in (*FIFOS, "alive"):
            os.mkfifo(folder / name)
        self.fifos = {name: os.open(folder / name, os.O_RDWR) for name in FIFOS}
        self.alive = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
        self.order = {"kind": kind, "folder": str(folder), "fifos": FIFOS, "workers": 1}
        self.order["environment"] = {"JUPYTER_DATA_DIR": os.environ["JUPYTER_DATA_DIR"]}
        kill = {"window": "in the body", "hit": 2, "victim": "parent", "hold": True, "orphans": True}
        ended = host.send(**self.order, **kill, session=1, do="call")
        assert ended["killed"]
        assert self.ran() == 1

    def ran(self) -> int:
        return sum(line.endswith("plain 0") for line in self.life.said())

    def step(self) -> Step:
        found = [s for s in self.life.look().steps.values() if s.name == "plain" and s.kind != "map"]
        return min(found, key=lambda step: step.address)

    def let_go(self) -> None:
        """The body goes on; returns when the worker has come to its end."""
        os.write(self.fifos["body may go on"], b"x")
        os.set_blocking(self.alive, True)
        assert os.read(self.alive, 1) == b"", "nobody has it open for writing any more"

    def resume(self, host: Host, **more: Any) -> Any:
        host.send(**self.order, **more, session=2, do="call")
        return json.loads((self.life.folder / "told2").read_text())

    def events(self, session: int) -> list[str]:
        lines = (self.life.folder / f"trace{session}").read_text().splitlines()
        return [line.split("\t")[0].removeprefix("event ") for line in lines if line.startswith("event ")]


FIFOS = ("body may go on", "window reached", "window may be left")
WITH_WORKERS = {"submit_pool": [[0, 10, 20, 30], "done"], "map_pool": [[0, 10, 20, 30, 0], "done"]}


@pytest.mark.parametrize("kind", WITH_WORKERS)
def test_a_worker_completes_though_nobody_is_there(host: Host, kind: str, tmp_path: Path) -> None:
    """What it has made is found by whoever resumes the run: its body does not run again."""
    orphaned = Orphaned(host, kind, tmp_path)
    orphaned.let_go()
    step = orphaned.step()
    assert step.status == "completed"
    assert orphaned.resume(host) == {"result": WITH_WORKERS[kind]}
    assert orphaned.ran() == 1
    assert orphaned.step() == step
    assert "step_fenced" not in orphaned.events(1)


@pytest.mark.parametrize("kind", WITH_WORKERS)
def test_a_worker_whose_step_was_taken_over_is_fenced(host: Host, kind: str, tmp_path: Path) -> None:
    """000-17, 003-14."""
    orphaned = Orphaned(host, kind, tmp_path)
    assert orphaned.resume(host) == {"result": WITH_WORKERS[kind]}
    step, ran = orphaned.step(), orphaned.ran()
    assert (step.status, step.attempt) == ("completed", 2)
    orphaned.let_go()
    assert "step_fenced" in orphaned.events(1)
    assert orphaned.step() == step, "what was recorded by the other stays"
    assert orphaned.ran() == ran


@pytest.mark.parametrize("kind", WITH_WORKERS)
def test_a_worker_completes_in_the_moment_its_step_is_taken_over(host: Host, kind: str, tmp_path: Path) -> None:
    """Between looking for a result and writing the intent: then that result is taken."""
    orphaned, other = Orphaned(host, kind, tmp_path), Host()
    with ThreadPoolExecutor(1) as thread:
        resumed = thread.submit(orphaned.resume, other, hold_at=["before the intent", "plain"])
        os.read(orphaned.fifos["window reached"], 1)
        orphaned.let_go()
        step = orphaned.step()
        assert step.status == "completed"
        os.write(orphaned.fifos["window may be left"], b"x")
        assert resumed.result() == {"result": WITH_WORKERS[kind]}
    other.close()
    assert orphaned.ran() == 1 + (kind == "map_pool"), "an equal item was not there yet when it was looked for"
    assert orphaned.step().checkpoint == step.checkpoint

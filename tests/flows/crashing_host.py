"""Runs flows that die: forks a child for every session, from an interpreter that has imported everything already.

A child runs one flow of `crashing.py`, or answers a question, or traces. Before it starts, the functions that stand
for crash windows are wrapped; at the chosen hit of the chosen window the child kills itself with SIGKILL, or its
parent, or both. Nothing else knows of it.

One JSON object per line in, one out: see `Session` in `test_crashes.py`.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import os
import pkgutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbcheckpoint as nbc
import nbcheckpoint.backend.disk
import nbcheckpoint.codec
import nbcheckpoint.fingerprint
from nbcheckpoint.engine import context
from nbcheckpoint.events import subscribe

BEFORE, AFTER = "before", "after"
WINDOWS: dict[str, tuple[str, str, str]] = {
    # Every step
    "before the intent": ("engine.calling", "Call.begin", BEFORE),
    "intent written": ("engine.journal", "Journal.begin", AFTER),
    "body over": ("engine.calling", "Call.finish", BEFORE),
    "chunks put": ("store", "Store._stage", AFTER),
    "checkpoint written": ("store", "Store.save", AFTER),
    "before the completion": ("engine.journal", "Journal.end", BEFORE),
    "completion written": ("engine.journal", "Journal.ended", BEFORE),
    "step over": ("engine.journal", "Journal.end", AFTER),
    # The run
    "run begun": ("store", "Store.begin_run", AFTER),
    "flow body over": ("engine.flow", "_Work.complete", BEFORE),
    "result saved": ("engine.flow", "_Work._end", BEFORE),
    "before the run's end": ("engine.journal", "Journal.finish", BEFORE),
    "run over": ("engine.journal", "Journal.finish", AFTER),
    # Resuming
    "before taking over": ("store", "Store.take", BEFORE),
    "taken": ("store", "Store.take", AFTER),
    "taken over": ("engine.flow", "_taken_over", AFTER),
    "found": ("engine.journal", "Journal.restored", BEFORE),
    "restored": ("engine.journal", "Journal.restored", AFTER),
    # Questions
    "question written": ("engine.pause", "_opened", AFTER),
    "step written": ("store", "Store.put_step", AFTER),
    "answer taken": ("engine.pause", "_taken", AFTER),
    # Retries
    "body failed": ("engine.calling", "Call.failed", BEFORE),
    "waiting to try again": ("engine.calling", "Call.failed", AFTER),
    # Maps
    "before a commit": ("engine.committing", "Committer.commit", BEFORE),
    "batch durable": ("store", "Store.flush", AFTER),
    "item recorded": ("engine.committing", "Committer._write", AFTER),
    "committed": ("engine.committing", "Committer.commit", AFTER),
    # Loops
    "before a loop's save": ("engine.loop", "ExplicitLoop._save", BEFORE),
    "loop saved": ("engine.loop", "ExplicitLoop._save", AFTER),
    # Other processes
    "order received": ("engine.worker", "work", BEFORE),
    "order carried out": ("engine.worker", "work", AFTER),
    "came back": ("engine.submitting", "received", BEFORE),
}

LOG = TRACE = -1
"""File descriptors: what a body opens counts as its input, what is open already does not."""
FIFOS: dict[str, int] = {}
ORDER: dict[str, Any] = {}
POOL: list[Any] = []


def ran(what: str) -> int:
    """A body says that it runs. Returns how often that was said."""
    here = nbc.current()
    line = f"{here.step if here else '-'} {what}\n"
    os.write(LOG, line.encode())
    reached("in the body", what)
    size = os.fstat(LOG).st_size
    return os.pread(LOG, size, 0).decode().count(f" {what}\n")


def held() -> None:
    """Wait until the test lets go, where it says that it wants to hold."""
    if ORDER.get("hold"):
        os.read(FIFOS["body may go on"], 1)


def reached(window: str, label: str) -> None:
    """A crash window. The hits of all processes of a session are counted together."""
    where = "parent" if os.getpid() == ORDER["pid"] else "worker"
    os.write(TRACE, f"{window}\t{label}\t{where}\n".encode())
    if ORDER.get("hold_at") == [window, label]:
        ORDER.pop("hold_at")
        os.write(FIFOS["window reached"], b"x")
        os.read(FIFOS["window may be left"], 1)
    if window == "order carried out" and os.getppid() != ORDER["pid"]:
        os._exit(0)  # nobody sends another, and nobody would end it
    if window != ORDER.get("window"):
        return
    said = os.pread(TRACE, os.fstat(TRACE).st_size, 0).decode()
    hits = sum(line.startswith(f"{window}\t") for line in said.splitlines())
    if hits != ORDER["hit"]:
        return
    victim = ORDER.get("victim", "self")
    if victim in ("parent", "both"):
        os.kill(ORDER["pid"], signal.SIGKILL)
    if victim in ("self", "both"):
        os.kill(os.getpid(), signal.SIGKILL)


def label(args: tuple[Any, ...]) -> str:
    """What a call of an engine function is about, as far as one can see."""
    for found in args:
        name = getattr(getattr(found, "spec", None), "name", None) or getattr(found, "_name", None)
        if name:
            return str(name)
    for found in args:
        step = getattr(found, "step", None)
        if getattr(step, "name", None):
            return str(step.name)
        if getattr(found, "name", None):
            return str(found.name)
    words = [found for found in args if isinstance(found, str)]
    return words[-1] if words else ""


def wrap(window: str, module: str, name: str, when: str) -> None:
    """Every function of that name: where it was imported by name, too."""
    home = importlib.import_module(f"nbcheckpoint.{module}")
    owner_name, _, attribute = name.rpartition(".")
    owner = getattr(home, owner_name) if owner_name else home
    real = getattr(owner, attribute)

    @functools.wraps(real)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if when == BEFORE:
            reached(window, label(args))
        try:
            return real(*args, **kwargs)
        finally:
            if when == AFTER:
                reached(window, label(args))

    setattr(owner, attribute, wrapped)
    if not owner_name:
        for found in list(sys.modules.values()):
            if getattr(found, "__name__", "").startswith("nbcheckpoint.") and getattr(found, name, None) is real:
                setattr(found, name, wrapped)


def pool() -> Any:
    """The processes of this session: forked before there is any thread."""
    return POOL[0]


def prepare(order: dict[str, Any]) -> None:
    global LOG, TRACE
    ORDER.update(order, pid=os.getpid())
    folder = Path(order["folder"])
    log, trace = folder / "log", folder / f"trace{order['session']}"
    LOG = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    TRACE = os.open(trace, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    for name in order.get("fifos", ()):
        FIFOS[name] = os.open(folder / name, os.O_RDWR)
    if order.get("orphans"):
        FIFOS["alive"] = os.open(folder / "alive", os.O_WRONLY)
    subscribe(lambda event: os.write(TRACE, f"event {event.type}\t\t\n".encode()))
    if "pool" in order["kind"]:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        POOL.append(ProcessPoolExecutor(order.get("workers", 2), mp_context=multiprocessing.get_context("fork")))
        POOL[0].submit(os.getpid).result()


def session(order: dict[str, Any]) -> None:
    """One child: run, resume or answer; what came of it stands in a file."""
    from tests.flows import crashing

    prepare(order)
    store = nbc.open_store(Path(order["folder"]) / "store")
    context.use(store)
    told: dict[str, Any] = {}
    try:
        if order["do"] == "answer":
            store.answer(order["run"], order["pause"], order["value"])
            told["result"] = "answered"
        else:
            flow = crashing.KINDS[order["kind"]]
            work = flow.resume(order["run"]) if order["do"] == "resume" else flow(*crashing.ARGUMENTS)
            told["result"] = asyncio.run(work) if asyncio.iscoroutine(work) else work
    except nbc.Paused as paused:
        told["paused"] = [paused.run, paused.pause]
    except Exception:
        told["error"] = traceback.format_exc()
    done = Path(order["folder"]) / f"told{order['session']}"
    done.with_suffix(".new").write_text(json.dumps(told))
    done.with_suffix(".new").rename(done)
    if POOL:
        POOL[0].shutdown()
    store.close()


def main() -> None:
    """The warm interpreter. It has no threads, so that it can be forked at any time."""
    from tests.flows import crashing

    assert crashing.KINDS
    warnings.simplefilter("ignore")
    for package in (nbcheckpoint.engine, nbcheckpoint.store, nbcheckpoint.codec, nbcheckpoint.fingerprint):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    for window, (module, name, when) in WINDOWS.items():
        wrap(window, module, name, when)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            os.environ.update(order.get("environment", {}))
            code = 1
            try:
                session(order)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if not order.get("orphans"):
            end(child)
        print(json.dumps({"killed": os.WIFSIGNALED(status), "group": child}), flush=True)


def end(group: int) -> None:
    """Kill the workers of a dead child, which would wait for ever; nothing comes of them any more when this returns."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
    while any(map(_is_of(group), Path("/proc").glob("[0-9]*/stat"))):
        time.sleep(0.001)  # they are nobody's children: there is nothing to wait for but their absence


def _is_of(group: int) -> Callable[[Path], bool]:
    def is_alive(stat: Path) -> bool:
        try:
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            return False  # gone while we looked
        return int(of) == group and state not in ("Z", "X")

    return is_alive


if __name__ == "__main__":
    # Bodies find this module by its name, not as the script it was started as.
    from tests.flows import crashing_host

    crashing_host.main()

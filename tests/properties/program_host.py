"""Runs the kernels of a program: each a forked child with a real IPython shell, looked at when it ends, or killed.

Two hosts with different hash seeds take turns, so that no order of a set survives by accident. A host imports what
the programs need once and forks for every kernel, which takes a few milliseconds instead of a second.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import random
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.faults.ledger import Progress, Tally, no_progress
from tests.properties.describer import ADDRESS, OF_THE_USER, Describer, anywhere, digest, rest_of
from tests.properties.programs import IMPORTS, IMPORTS_OF_THEMES, Process, Program, by_seed, smaller, write

ROOT = Path(__file__).parents[2]


class Seen(NamedTuple):
    """What is there when a kernel has run all its cells."""

    names: dict[str, str]
    shown: list[Any]
    random: tuple[str, ...]
    lines: list[str]
    """Ours, under the cells."""
    files: dict[str, bytes]


class Died(NamedTuple):
    """It did not get that far: killed as it was told to, or, if there is a text, something of ours broke."""

    why: str = ""


ENDLESS = "does not end"
"""A loop that adds to what it goes through: fine, as long as it is so without us too."""
CPU_SECONDS = 5
"""After so much work a program is taken for one that does not end. Most take a tenth of one."""
WAITING_SECONDS = 60
"""One that waits for itself: for a lock it holds."""


class Request(NamedTuple):
    folder: str
    process: Process
    mode: str
    """`plain`, `cells`, `auto` or `clock`."""


# The child: one kernel


def look(user_ns: dict[str, Any], hidden: set[str], outputs: list[Any], lines: list[str]) -> Seen:
    """Everything that could tell one way of running from the other."""
    import numpy as np

    from nbcheckpoint.notebook.namespace import is_user_name

    state = (
        digest(random.getstate()),
        digest([repr(part) for part in np.random.get_state()]),
        digest(np.random.get_state()[1].tolist()),
    )  # type: ignore[index]
    describer = Describer(user_ns)
    names = sorted(name for name in user_ns if is_user_name(name) and name not in hidden)
    described = {name: "-" if name.startswith("u") else describer.describe(user_ns[name]) for name in names}
    described["Out"] = str(
        {number: _earlier(value, user_ns, names, describer) for number, value in user_ns["Out"].items()}
    )
    described["_"] = _earlier(user_ns.get("_"), user_ns, names, describer)
    for module in (sys.modules[name] for name in OF_THE_USER[1:] if name in sys.modules):
        held = sorted((name, value) for name, value in vars(module).items() if not name.startswith("__"))
        described |= {f"{module.__name__}.{name}": describer.describe(value) for name, value in held}
    for name in names:  # what an iterator would still give, when all else has been looked at
        if type(user_ns[name]) not in weakref.ProxyTypes and hasattr(user_ns[name], "__next__"):
            described[name] += f" then {Describer(user_ns).describe(rest_of(user_ns[name]))}"
    files = {path.name: ADDRESS.sub(b"", path.read_bytes()) for path in sorted(Path().glob("*.txt"))}
    described = {name: anywhere(text) for name, text in described.items()}
    return Seen(described, [[tuple(map(anywhere, item)) for item in cell] for cell in outputs], state, lines, files)


def _earlier(value: Any, user_ns: dict[str, Any], names: list[str], describer: Describer) -> str:
    """An earlier result. One that is inside of a variable comes back as a copy of it, by design."""
    known = any(user_ns[name] is value for name in names)
    return (describer if known else Describer(user_ns)).describe(value)


class Stream:
    """A stdout that notes what is written, cell by cell."""

    encoding = "utf-8"

    def __init__(self, name: str, notes: list[Any]) -> None:
        self._name, self._notes = name, notes

    def write(self, text: str) -> int:
        if text and self._notes:
            cell = self._notes[-1]
            if cell and cell[-1][0] == self._name:
                cell[-1] = (self._name, cell[-1][1] + text)
            elif text:
                cell.append((self._name, text))
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def kernel(request: Request) -> Seen:
    """All of it, in a forked child."""
    shell = _shell
    notes: list[Any] = []
    lines: list[str] = []
    os.chdir(request.folder)
    sys.dont_write_bytecode = True  # it goes by the second, and these are quicker
    _start_randomly()
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # or they were modules of the user's, and held everything
    sys.stdout, sys.stderr = Stream("stdout", notes), Stream("stderr", [])  # type: ignore[assignment]

    def publish(data: Any, metadata: Any = None, **_: Any) -> None:
        ours = (metadata or {}).get("nbcheckpoint")
        if ours:
            lines.append(f"{len(notes)} {ours['status']}: {ours['text']}")
        else:
            notes[-1].append(("display", data.get("text/plain")))

    shell.display_pub.publish = publish
    shell.displayhook.write_output_prompt = lambda: None
    shell.displayhook.finish_displayhook = lambda: None
    shell.displayhook.write_format_data = lambda data, md=None: notes[-1].append(("result", data["text/plain"]))
    shell.showtraceback = lambda *args, **kwargs: None
    shell._format_exception_for_storage = lambda *args, **kwargs: {}  # half a second each
    # When Python looks for cycles nobody has any more depends on what else was made; a weak reference tells.
    gc.disable()
    hidden = set(shell.user_ns)
    checkpointer = None
    if request.mode != "plain":
        checkpointer = _load(shell, request.mode, request.process)
    strike = _clock(checkpointer, request.process) if request.mode == "clock" else None
    if request.process.kill or strike is not None:
        _die_after(request.process.kill, request.process.inside, strike)
    for cell in request.process.cells:
        notes.append([])
        text = "\n".join(cell)
        if request.mode == "cells" and text.startswith(("%%time", "%%capture")):
            text = text.replace("\n", "\n%%checkpointed --every 1\n", 1)
        elif request.mode == "cells" and not text.startswith("%%"):
            text = f"%%checkpointed --every 1\n{text}"
        elif not text.startswith("%%"):
            text = "# plain\n" + text
        result = shell.run_cell(text, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is not None and request.process.goes_on:
            result = shell.run_cell(text, store_history=True)
            error = result.error_before_exec or result.error_in_exec
        if error is not None:
            notes[-1].append(("error", type(error).__name__, str(error), _where(error)))
    sys.settrace(None)
    del result, error
    gc.collect()
    seen = look(shell.user_ns, hidden, notes, lines)
    if checkpointer is not None:
        checkpointer.session.close()
    return seen


def _load(shell: Any, mode: str, process: Process) -> Any:
    from nbcheckpoint import trees
    from nbcheckpoint.notebook import auto, loop, magics, options

    checkpointer = magics.load(shell)
    if random.Random(repr(process)).randrange(4):
        trees.WORTH_A_LOOK = 2  # no list here is long
    # However little time they take: loops inside of loops are saved between all of their iterations.
    loop.Loop.inner_every, loop._DEEP_SHARE = 1, 0.0
    if not process.goes_on:
        # A loop that failed goes on when it is run again in its own kernel, which is not what happens without us.
        checkpointer._remember_cut = lambda *_: None  # type: ignore[method-assign]
    if mode == "clock":
        loop.Loop.inner_every, loop._STRETCH = None, 3
    if mode != "cells":
        auto.switch(checkpointer, ["on", "--min-seconds", "0s"])
        checkpointer.pace.overhead = 1e9
        checkpointer.pace.is_worth = lambda *_: True  # nothing here takes long enough
        # The clock decides when a loop is saved; here every turn counts, or it strikes when we say so.
        parse = options.parse

        def parse_eagerly(*args: Any, **kwargs: Any) -> Any:
            chosen = parse(*args, **kwargs)
            chosen.every = 1 if mode == "auto" else 1000.0
            return chosen

        options.parse = parse_eagerly
    return checkpointer


def _start_randomly() -> None:
    """As a process that begins does: with random states of its own, which nobody has seeded."""
    import numpy as np

    from nbcheckpoint.fingerprint import rng

    random.seed()
    np.random.seed()
    rng.MAX_TURNS = 20  # no program draws more often, and counting further takes long
    rng._start.clear()
    rng.watch()
    rng._start["numpy"] = np.random.get_state(legacy=False)["state"]["key"].tobytes()


def _where(error: BaseException) -> list[int]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.lineno or 0 for frame in frames if "ipython-input" in frame.filename or "ipykernel" in frame.filename]


def _clock(checkpointer: Any, process: Process) -> Callable[[], None]:
    """Everything that depends on how long something takes comes out one way or the other, by chance.

    What is returned strikes at about every third of the user's lines: the loop that runs is to be saved between this
    iteration and the next.
    """
    from nbcheckpoint.fingerprint import values
    from nbcheckpoint.notebook import guess, loop

    chance = random.Random(repr(process))
    if chance.randrange(2):
        values.LARGE, values._NAMING_RATE = 16, 1e-9  # arrays are never named before they are changed
    loop._DEEP_SHARE = chance.choice((0.0, 1e9))  # with loops inside of loops watched, or not
    allowance, may_be_saved = checkpointer._allowance, checkpointer._may_be_saved

    def some_allowance(cell: Any, key: str, *, loop: bool) -> tuple[bool, bool, float]:
        known, _, seconds = allowance(cell, key, loop=loop)
        return known, bool(chance.randrange(2)), seconds if chance.randrange(8) else 0.0

    def may_some(cell: Any, running: Any) -> bool:
        resumed = running.loops is not None and running.loops.resumed is not None
        return may_be_saved(cell, running) and (resumed or chance.randrange(3) > 0)

    guess.is_quick = lambda *_: not chance.randrange(3)  # type: ignore[assignment]  # it takes what the other takes
    checkpointer._allowance, checkpointer._may_be_saved = some_allowance, may_some
    checkpointer.pace.is_worth = lambda *_: chance.randrange(5) > 0

    def strike() -> None:
        running = checkpointer._cells[-1].running if checkpointer._cells else None
        if running is not None and running.loops is not None and not chance.randrange(3):
            running.loops.ring()

    return strike


def _die_after(count: int, inside: bool, strike: Callable[[], None] | None = None) -> None:
    """Be killed after so many lines or calls, if any. With `strike`, that is called at each of the user's lines."""
    left = [count]
    package = str(ROOT / "nbcheckpoint" / "")

    def tick() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def trace(frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if inside and name.startswith(package):
            tick()
        if (not inside or strike is not None) and "ipython-input" in name:
            return trace_line
        return None

    def trace_line(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            if not inside:
                tick()
            if strike is not None:
                strike()
        return trace_line

    sys.settrace(trace)


# The host: forks kernels

_shell: Any = None


def _prepare() -> None:
    global _shell
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    _shell = InteractiveShell(config=config, user_module=module, user_ns=module.__dict__)
    _shell.run_cell("pass")
    for name in _needed():
        with contextlib.suppress(ImportError):  # some are made by others
            importlib.import_module(name)
    from nbcheckpoint.notebook import sharing

    list(sharing._user_modules())  # remembers which files are the user's
    from nbcheckpoint.codec import pickle as codec

    codec.load_plugins()


def _needed() -> list[str]:
    """Modules that come to be imported on the way: a kernel that does a bit of everything tells."""
    cells = (
        f"{IMPORTS}\n{IMPORTS_OF_THEMES}",
        "import pandas as pd, numpy as np\nx = [1]",
        "for i in range(3): x.append(i)",
        "f = pd.DataFrame({'x': x})\nf",
    )
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        if not (pid := os.fork()):
            kernel(Request(folder, Process(tuple((cell,) for cell in cells)), "cells"))
            os.write(writing, " ".join(sys.modules).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            told = pipe.read().split()
        os.waitpid(pid, 0)
    return [name for name in told if name not in sys.modules and name.partition(".")[0] not in ("tests", "__mp_main__")]


def serve() -> None:
    """Requests on stdin, answers on stdout."""
    asked, answered = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(2, 1)
    _prepare()
    gc.freeze()
    while header := asked.read(4):
        request: Request = pickle.loads(asked.read(struct.unpack("<I", header)[0]))
        _send(answered, _fork(request))


def _fork(request: Request) -> Seen | Died:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        # With us as well a program has to come to its end some day: most of what is looked at takes a millisecond.
        seconds = CPU_SECONDS if request.mode == "plain" else 4 * CPU_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        try:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(pickle.dumps(tuple(kernel(request))))
        except BaseException:
            with os.fdopen(2, "w") as err:
                err.write(f"{request}\n{traceback.format_exc()}")
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        if not select.select([pipe], [], [], WAITING_SECONDS)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return Died(ENDLESS)
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == 0:
        return Seen(*pickle.loads(told))
    if status == -signal.SIGXCPU:
        return Died(ENDLESS)
    return Died("" if status == -signal.SIGKILL and request.process.kill else f"ended with {status}")


def _send(fd: int, what: Any) -> None:
    data = pickle.dumps(what)
    data = struct.pack("<I", len(data)) + data
    while data:
        data = data[os.write(fd, data) :]


class Host:
    """A process that runs kernels when asked to."""

    def __init__(self, home: Path, hash_seed: int) -> None:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONPATH": str(ROOT),
            "JUPYTER_DATA_DIR": str(home / "jupyter"),
            "IPYTHONDIR": str(home / "ipython"),
            "OPENBLAS_NUM_THREADS": "1",
        }
        code = "from tests.properties import program_host; program_host.serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT
        )

    def run(self, request: Request) -> Seen | Died:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _send(self._process.stdin.fileno(), request)
        header = self._process.stdout.read(4)
        return pickle.loads(self._process.stdout.read(struct.unpack("<I", header)[0]))  # type: ignore[no-any-return]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Hosts:
    """Two of them, taking turns."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._hosts = [Host(home, seed) for seed in (1, 2)]
        self._number = 0
        self.kernels = 0
        self.killed = 0
        self.restored = 0

    def check(self, program: Program) -> str:
        """Where running it with us differs from running it without, or nothing."""
        self._number += 1
        folder = self._home / f"program{self._number}"
        work = folder / "work"
        (work / ".nbcheckpoint").mkdir(parents=True, mode=0o700)
        try:
            for at, process in enumerate(program.processes):
                problem = self._kernel(program, at, process, work, folder / f"plain{at}")
                if problem:
                    return f"kernel {at + 1}{problem}"
        finally:
            shutil.rmtree(folder)
        return ""

    def _kernel(self, program: Program, at: int, process: Process, work: Path, plain: Path) -> str:
        """Without us it begins with the files that are there when it begins with us: an earlier kernel's, too."""
        host = self._hosts[at % 2]
        for path, text in process.files:
            (work / path).parent.mkdir(exist_ok=True)
            (work / path).write_text(text)
        shutil.copytree(work, plain, symlinks=True, ignore=shutil.ignore_patterns(".nbcheckpoint"))
        seen = host.run(Request(str(work), process, program.mode))
        self.kernels += 1
        if isinstance(seen, Died) and seen.why != ENDLESS:
            self.killed += not seen.why
            return f" {seen.why}" if seen.why else ""
        if process.goes_on:
            return ""
        wanted = host.run(Request(str(plain), Process(process.cells), "plain"))
        if isinstance(seen, Died):
            return "" if wanted == seen else f" {seen.why}, but it does without us"
        self.restored += sum(1 for line in seen.lines if " restored" in line or " resumed" in line)
        problem = difference(wanted, seen, program.seeded)
        return f": {problem}\nlines: " + "\n       ".join(seen.lines) if problem else ""

    def compare(self, one: Process, other: Process) -> str:
        """Where two kernels without us differ."""
        ways = [self._hosts[0].run(Request(str(self._home), process, "plain")) for process in (one, other)]
        assert isinstance(ways[1], Seen)
        return difference(ways[0], ways[1], seeded=False)

    def close(self) -> None:
        for host in self._hosts:
            host.close()


def difference(plain: Seen | Died, seen: Seen, seeded: bool) -> str:
    if isinstance(plain, Died):
        return f"without us it {plain.why}"
    broken = [line for line in seen.lines if "fault of nbcheckpoint" in line]
    if broken:
        return broken[0]
    if plain.names.keys() != seen.names.keys():
        return f"names differ: {sorted(plain.names.keys() ^ seen.names.keys())}"
    for name, value in plain.names.items():
        if seen.names[name] != value:
            return f"{name} is\n  {seen.names[name]}\nand without us\n  {value}"
    for at, (mine, theirs) in enumerate(zip(seen.shown, plain.shown, strict=True)):
        if not _same_shown(mine, theirs):
            return f"cell {at + 1} shows {mine}\nand without us {theirs}"
    if plain.files != seen.files:
        return f"files are {seen.files} and without us {plain.files}"
    if seeded and plain.random != seen.random:
        return f"random state differs: {seen.random} and without us {plain.random}"
    return ""


def _same_shown(mine: list[Any], theirs: list[Any]) -> bool:
    """An exception that was kept, and is raised again by who has it, comes back without its traceback: by design."""
    if mine == theirs or not (mine and theirs and mine[-1][0] == theirs[-1][0] == "error"):
        return mine == theirs
    *begun, where = mine[-1]
    *wanted, there = theirs[-1]
    return mine[:-1] == theirs[:-1] and begun == wanted and where == there[: len(where)]


def minimised(hosts: Hosts, program: Program, tries: int = 400) -> Program:
    """The least program found that still differs."""
    progress = True
    while progress:
        progress = False
        for candidate in smaller(program):
            tries -= 1
            if tries < 0:
                return program
            if hosts.check(candidate):
                program, progress = candidate, True
                break
    return program


AT_ONCE = 2
"""Programs that are run at the same time, each by hosts of its own."""


def torture(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    """The long form. A difference is noted with the least program that shows it."""
    tally = Tally("programs")
    noting = threading.Lock()

    def work(first: int) -> None:
        # In memory where there is such a place: what a disk does is the other tests' business.
        shared = "/dev/shm" if os.path.isdir("/dev/shm") else str(place)
        with tempfile.TemporaryDirectory(prefix="programs-", dir=shared) as home:
            hosts = Hosts(Path(home))
            for number in range(first, rounds, AT_ONCE):
                problem = _tried(hosts, seed * 1_000_000 + number)
                with noting:
                    tally.rounds += 1
                    progress(1)
                    if problem:
                        tally.note("wrong", problem)
            hosts.close()
            with noting:
                tally.checked += hosts.kernels

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(work, range(AT_ONCE)))
    return tally.done()


def _tried(hosts: Hosts, seed: int) -> str:
    program = write(by_seed(seed))
    if not hosts.check(program):
        return ""
    least = minimised(hosts, program)
    return f"seed {seed}\n{least}\n{hosts.check(least)}"

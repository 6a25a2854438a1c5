"""Types are met by one thread at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Annotated, Any

import msgspec
import pytest

from nbcheckpoint import typed

MEETING = """
import sys, threading, types, msgspec
from typing import Any
from nbcheckpoint import typed

sys.setswitchinterval(1e-6)
module = types.ModuleType("made")
module.__dict__.update(msgspec=msgspec, Any=Any)
sys.modules["made"] = module
for number in range(400):
    exec(f'''
class Part{number}(msgspec.Struct):
    name: str = ""
    size: int = 0
class Whole{number}(msgspec.Struct):
    parts: "tuple[Part{number}, ...]" = ()
    by_name: "dict[str, Part{number}]" = msgspec.field(default_factory=dict)
    inside: "Whole{number} | None" = None
''', module.__dict__)
    kind, gate, found = getattr(module, f"Whole{number}"), threading.Barrier(3), []

    def meet(way):
        gate.wait()
        found.append(way())

    ways = (
        lambda: typed.decode(b'{"parts": [{"name": "a"}], "inside": {}}', kind),
        lambda: typed.decode('{"parts": [{"name": "a"}], "inside": {}}', kind),
        lambda: typed.convert({"parts": [{"name": "a"}], "inside": {}}, kind),
    )
    threads = [threading.Thread(target=meet, args=(way,)) for way in ways]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert found == [kind(parts=(getattr(module, f"Part{number}")("a"),), inside=kind())] * 3
print("alive")
"""


def test_threads_that_meet_a_type_at_the_same_moment_live() -> None:
    """msgspec by itself ends the process."""
    done = subprocess.run([sys.executable, "-c", MEETING], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]


def test_a_type_without_a_hash_is_understood() -> None:
    class Kind(msgspec.Struct):
        n: int

    kind: Any = Annotated[Kind, []]
    with pytest.raises(TypeError):
        hash(kind)
    assert typed.convert({"n": 1}, kind) == Kind(1)
    with pytest.raises(msgspec.ValidationError):
        typed.convert({"n": "x"}, kind)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_wait_for_a_thread_it_has_not() -> None:
    inside, leave = threading.Event(), threading.Event()

    def meet() -> None:
        with typed._meeting:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=meet)
    thread.start()
    inside.wait()
    pid = os.fork()
    if not pid:
        os._exit(not typed._meeting.acquire(timeout=5))
    status = os.waitpid(pid, 0)[1]
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0

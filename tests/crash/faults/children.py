"""Processes to be frozen, killed and held up, and stores for them to work on."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.codec.sign import Signer
from nbcheckpoint.store import Store
from tests.crash.faults.ledger import Tally, sayer

PATIENCE = 60.0
MINE, THEIRS = b"m" * 32, b"t" * 32
"""Signing keys: whoever runs this keeps his own."""

Say = Callable[[str], None]


def open_store(directory: Path, *, key: bytes = MINE, wait: float = 10.0) -> Store:
    return Store(DiskBackend(directory, wait=wait), Signer(key))


class Child(NamedTuple):
    pid: int
    pipe: int
    """What it says."""
    orders: int
    """What it is told."""

    def hear(self, lines: int) -> list[bytes]:
        """That many lines, or fewer if it ends or stops before."""
        said = b""
        while said.count(b"\n") < lines:
            part = os.read(self.pipe, 1 << 16)
            if not part:
                break
            said += part
        return said.splitlines()

    def heard(self) -> list[bytes]:
        """What it has said already."""
        os.set_blocking(self.pipe, False)
        said = b""
        try:
            while part := os.read(self.pipe, 1 << 16):
                said += part
        except BlockingIOError:
            pass
        os.set_blocking(self.pipe, True)
        return said.splitlines()

    def stopped(self) -> bool:
        """Wait until it is frozen; False if it has ended instead."""
        return os.WIFSTOPPED(os.waitpid(self.pid, os.WUNTRACED)[1])

    def go(self) -> None:
        os.write(self.orders, b".")

    def rest(self, tally: Tally, *, gone: bool = False) -> list[bytes]:
        """All it says until it ends, and what is wrong with that. `gone`: it has been waited for already."""
        said, deadline = b"", time.monotonic() + PATIENCE
        while True:
            if not select.select([self.pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                tally.note("stuck", f"a process, after saying {said[-100:]!r}")
                os.kill(self.pid, signal.SIGKILL)
                break
            part = os.read(self.pipe, 1 << 16)
            if not part:
                break
            said += part
        if not gone:
            os.waitpid(self.pid, 0)
        os.close(self.pipe)
        os.close(self.orders)
        lines = said.splitlines()
        for line in lines:
            if line.startswith(b"unexpected "):
                tally.note("wrong", line.decode())
        return lines


def start(body: Callable[[Say, Callable[[], None]], None]) -> Child:
    """Fork. The child calls `body(say, wait)`; `wait` returns when it is told to go on."""
    reading, writing = os.pipe()
    orders, give = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        os.close(orders)
        return Child(pid, reading, give)
    say = sayer(writing)
    try:
        os.close(reading)
        os.close(give)
        body(say, lambda: os.read(orders, 1) and None)
    except BaseException as error:
        say(f"unexpected {error!r}".replace("\n", " ")[:500])
    finally:
        os._exit(0)


class Interrupting:
    """A backend that does something to its own process before it makes the nth call, of any method or of one."""

    def __init__(self, inner: Any, what: Callable[[], object], *, at: int = 0, method: str = "") -> None:
        self._inner = inner
        self._what = what
        self._left = at
        self._method = method

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or self._method not in ("", name):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._left == 0:
                self._what()
            self._left -= 1
            return found(*args, **kwargs)

        return call


def freeze() -> None:
    """Until somebody thaws us. Sent to this thread: sent to the process, it might get further before it stops."""
    signal.raise_signal(signal.SIGSTOP)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

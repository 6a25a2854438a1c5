"""Forks: of a process whose threads are writing, and of one that dies while its children go on."""

from __future__ import annotations

import faulthandler
import os
import select
import shutil
import signal
import threading
from pathlib import Path

from nbcheckpoint.backend.disk import DiskBackend
from nbcheckpoint.errors import Error
from tests.crash.faults.kill import drain
from tests.crash.faults.ledger import Ledger, Progress, Tally, Work, check_store, no_progress, sayer

PATIENCE = 30.0


def during_writes(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    """Fork again and again while three threads write. Every child reads, saves and ends."""
    tally, ledger, lock = Tally("forks during writes"), Ledger(), threading.Lock()
    backend = DiskBackend(place / "store")
    stop = threading.Event()

    def hear(text: str) -> None:
        with lock:
            ledger.read(iter([text.encode()]))

    def write(number: int) -> None:
        work = Work(backend, hear, seed * 1000 + number)
        while not stop.is_set():
            work.step()

    threads = [threading.Thread(target=write, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(rounds):
            said = _child(backend, 50_000 + number, tally)
            with lock:
                ledger.read(iter(said.splitlines()))
            tally.rounds += 1
            progress(1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    backend.close()
    check_store(place / "store", ledger, tally)
    return tally.done()


def _child(backend: DiskBackend, seed: int, tally: Tally) -> bytes:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            faulthandler.dump_traceback_later(PATIENCE - 5)
            work = Work(backend, sayer(writing), seed)
            work.swap()
            work.number += 1
            work.save()
            backend.scan("k/", limit=3)
            status = 0
        except BaseException as error:
            os.writev(writing, [f"begin unexpected:{type(error).__name__} 0\n".encode()])
        finally:
            os._exit(status)
    os.close(writing)
    fd = os.pidfd_open(pid)
    if not select.select([fd], [], [], PATIENCE)[0]:
        tally.note("stuck", "a child")
        os.kill(pid, signal.SIGKILL)
    os.close(fd)
    os.waitpid(pid, 0)
    return drain(reading)


def orphaned(place: Path, rounds: int, *, seed: int = 1, progress: Progress = no_progress) -> Tally:
    """A process that has the store open forks a worker and is killed; the worker goes on, and others come and go.

    What SQLite remembers about its locks is inherited by the worker, the locks themselves are not.
    """
    tally = Tally("workers that outlive their kernel")
    for number in range(rounds):
        shutil.rmtree(place / "store", ignore_errors=True)
        ledger = Ledger()
        ledger.read(iter(_kernel_dies(place / "store", seed * 1000 + number).splitlines()))
        check_store(place / "store", ledger, tally)
        tally.rounds += 1
        progress(1)
    return tally.done()


def _kernel_dies(directory: Path, seed: int) -> bytes:
    """Returns what the worker and the others said."""
    reading, writing = os.pipe()
    orders, give_orders = os.pipe()
    kernel = os.fork()
    if kernel == 0:
        backend = DiskBackend(directory)
        Work(backend, sayer(writing), seed).save()
        if os.fork() == 0:
            os.close(give_orders)
            _obey(backend, orders, writing, seed + 500)
        os.writev(writing, [b"begin ready 0\n"])
        signal.pause()
    os.close(orders)
    said = b""
    while b"ready" not in said:
        said += os.read(reading, 1 << 16)
    os.write(give_orders, b".")  # the worker opens the store anew
    while said.count(b"worked") < 1:
        said += os.read(reading, 1 << 16)
    os.kill(kernel, signal.SIGKILL)
    os.waitpid(kernel, 0)
    for turn in range(3):  # another kernel comes, works and goes, in turns with the worker
        _visit(directory, writing, seed + 600 + turn)
        os.write(give_orders, b".")
        while said.count(b"worked") < 2 + turn:
            part = os.read(reading, 1 << 16)
            said += part or b"begin unexpected:Silence 0\nworked worked worked worked"
    os.close(give_orders)
    os.close(writing)
    return said + drain(reading)


def _obey(backend: DiskBackend, orders: int, writing: int, seed: int) -> None:
    work = Work(backend, sayer(writing), seed)
    try:
        while os.read(orders, 1):
            for _ in range(20):
                work.step()
            os.writev(writing, [b"begin worked 0\n"])
    except Error as error:
        os.writev(writing, [f"begin unexpected:{type(error).__name__} 0\n".encode() + b"begin worked 0\n" * 5])
    finally:
        os._exit(0)


def _visit(directory: Path, writing: int, seed: int) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            backend = DiskBackend(directory)
            work = Work(backend, sayer(writing), seed)
            for _ in range(20):
                work.step()
            backend.close()
        except BaseException as error:
            os.writev(writing, [f"begin unexpected:{type(error).__name__} 0\n".encode()])
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

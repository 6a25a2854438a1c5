"""The peers: each saves a value in a folder and loads it again, the way its own documentation says.

None of them makes anything durable, checks what it reads, or notices changed code; the ratios are about speed only.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import bench_measure as measure

HELD: dict[int, Any] = {}
"""What `produce` returns: computing costs nothing, so a cached call costs what caching costs."""


def produce(key: int) -> Any:
    """The function the peers cache."""
    return HELD[key]


class Peer(Protocol):
    """Saves the value held under a key, and loads it in a fresh instance of itself."""

    name: str
    note: str

    def save(self, folder: Path, key: int) -> None: ...
    def load(self, folder: Path, key: int) -> Any: ...


class Joblib:
    """joblib.Memory, with or without memory mapping."""

    def __init__(self, mmap_mode: str | None = None) -> None:
        self._mode = mmap_mode
        self.name = "joblib.Memory" + (f" mmap {mmap_mode}" if mmap_mode else "")
        self.note = "not durable"

    def _call(self, folder: Path, key: int) -> Any:
        import joblib  # type: ignore[import-untyped]

        return joblib.Memory(folder, mmap_mode=self._mode, verbose=0).cache(produce)(key)

    def save(self, folder: Path, key: int) -> None:
        self._call(folder, key)

    load = _call


class Diskcache:
    """diskcache as it comes."""

    name = "diskcache as it comes"
    note = "not durable; evicts at 1 GiB"

    def save(self, folder: Path, key: int) -> None:
        import diskcache

        with diskcache.Cache(str(folder)) as cache:
            cache.set(key, HELD[key])

    def load(self, folder: Path, key: int) -> Any:
        import diskcache

        with diskcache.Cache(str(folder)) as cache:
            return cache[key]  # KeyError when it has been evicted


class Dill:
    """dill.dump to a file."""

    name = "dill"
    note = "not durable"

    def save(self, folder: Path, key: int) -> None:
        import dill  # type: ignore[import-untyped]

        with open(folder / f"{key}.dill", "wb") as file:
            dill.dump(HELD[key], file, protocol=5)

    def load(self, folder: Path, key: int) -> Any:
        import dill

        with open(folder / f"{key}.dill", "rb") as file:
            return dill.load(file)


class Pickle:
    """pickle.dumps, written to a file; `durable` adds the fsync."""

    def __init__(self, *, durable: bool) -> None:
        self._durable = durable
        self.name = "pickle + fsync" if durable else "pickle"
        self.note = "" if durable else "not durable"

    def save(self, folder: Path, key: int) -> None:
        with open(folder / f"{key}.pickle", "wb") as file:
            file.write(pickle.dumps(HELD[key], protocol=5))
            file.flush()
            if self._durable:
                os.fsync(file.fileno())

    def load(self, folder: Path, key: int) -> Any:
        return pickle.loads((folder / f"{key}.pickle").read_bytes())


MARIMO_APP = """
import json, sys
import marimo
import bench_peers

app = marimo.App()

@app.cell
def _():
    import time
    import marimo as mo
    import bench_peers
    return bench_peers, mo, time

@app.cell
def _(bench_peers, mo, time):
    started = time.perf_counter()
    with mo.persistent_cache("big", save_path={folder!r}) as cache:
        value = bench_peers.produce(0)
    first = time.perf_counter()
    total = float(value.sum())
    read = time.perf_counter()
    return cache, first, read, started

if __name__ == "__main__":
    import numpy as np
    if sys.argv[1] == "save":
        bench_peers.HELD[0] = np.random.default_rng(0).random({count})
    _, defs = app.run()
    hit = bool(defs["cache"].hit)
    print(json.dumps(dict(first=defs["first"] - defs["started"], read=defs["read"] - defs["started"], hit=hit)))
"""


class Marimo:
    """marimo's persistent cache. It needs the context of a marimo app, so it runs one, in a child process."""

    name = "marimo (child process)"
    note = "not durable; only usable inside a marimo app, so timed within one"

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._script = folder / "app.py"
        self._script.write_text(MARIMO_APP.format(folder=str(folder / "cache"), count=count))

    def run(self, what: str) -> dict[str, Any]:
        answer = measure.child(str(self._script), what)
        if answer["hit"] is not (what == "load"):
            raise RuntimeError(f"marimo: cache hit is {answer['hit']} on {what}")
        return answer


def available(module: str) -> bool:
    """Is the peer installed?"""
    from importlib.util import find_spec

    return find_spec(module) is not None


def write_file(path: Path, data: memoryview, *, fsync: bool) -> None:
    """What every saver must do at least: the bytes into one file, 1 MiB at a time."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for at in range(0, len(data), 1 << 20):
            os.write(fd, data[at : at + (1 << 20)])
        if fsync:
            os.fsync(fd)
    finally:
        os.close(fd)


def timed_save(peer: Peer, folder: Path, key: int) -> float:
    """Seconds to save what is held under `key`."""
    folder.mkdir(parents=True, exist_ok=True)
    measure.settle()
    return measure.timed(lambda: peer.save(folder, key))[0]


def timed_load(peer: Peer, folder: Path, key: int, use: Callable[[Any], Any]) -> float:
    """Seconds to load it and use it; not a number where the peer has lost it."""
    try:
        return measure.timed(lambda: use(peer.load(folder, key)))[0]
    except KeyError:
        return math.nan


if sys.platform == "win32":
    raise SystemExit("the benchmarks need a POSIX system")

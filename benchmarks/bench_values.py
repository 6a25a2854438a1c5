"""Values through the store: one big array, a frame of Python strings, a hundred thousand small objects."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_measure as measure
import bench_peers as peers
import numpy as np

from nbcheckpoint.model import Checkpoint
from nbcheckpoint.store import Store, open_store

OURS = "nbcheckpoint"
DURABLE = "nbcheckpoint, durable"


def draft(run: str = "r", step: str = "000000") -> Checkpoint:
    """A checkpoint as a cell would leave it, before its values are filled in."""
    return Checkpoint(id="", created="", run=run, step=step, name="cell", code="c" * 64, inputs_digest="d" * 64)


class BigArray:
    """One array of random floats, saved, restored, changed a little and saved again, by everyone in turn."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder = folder
        self.array = np.random.default_rng(0).random((megabytes << 20) // 8)
        self.gigabytes = megabytes / 1024
        self._numbers = itertools.count()
        peers.HELD[0] = self.array
        self.durable: list[float] = []
        self.again: dict[str, list[float]] = {"unchanged": [], "unchanged, new process": [], "1 % changed": []}
        self.cpu: dict[str, list[float]] = {"os.write": [], "os.write + fsync": [], OURS: []}
        self.written: list[float] = []
        self.disk: list[float] = []

    def place(self, name: str) -> Path:
        """A fresh folder; what the previous round left under this name is removed, untimed."""
        path = self._folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        measure.settle()
        return path

    # Saving.

    def write(self, *, fsync: bool) -> float:
        path = self.place("raw") / "bytes"
        before = time.process_time()
        seconds, _ = measure.timed(lambda: peers.write_file(path, self.array.data.cast("B"), fsync=fsync))
        self.cpu["os.write + fsync" if fsync else "os.write"].append(time.process_time() - before)
        return seconds

    def save(self) -> float:
        """Returns the time until `save(wait=False)` returned; the time until it counted is kept beside."""
        self.store = open_store(self.place("ours") / "store")
        before = time.process_time()
        seconds, saved = measure.timed(lambda: self.store.save(draft(), {"a": self.array}, wait=False))
        rest, _ = measure.timed(saved.done.result)
        self.cpu[OURS].append(time.process_time() - before)
        self.durable.append(seconds + rest)
        self.id = saved.checkpoint.id
        return seconds

    def save_again(self) -> float:
        """In the same process, unchanged; returns the time with a changed 1 %, also in the same process."""
        self.again["unchanged"].append(self._save_again())
        other = open_store(self.store.url)
        self.again["unchanged, new process"].append(measure.timed(lambda: other.save(draft(), {"a": self.array}))[0])
        other.close()
        begin = random.randrange(1, int(self.array.size * 0.98))
        change = self.array.size // 100
        kept = self.array[begin : begin + change].copy()
        self.array[begin : begin + change] += 1.0
        measure.settle()
        before = measure.allocated(Path(self.store.url))
        seconds = self._save_again()
        self.written.append(self.saved.checkpoint.bytes / (change * 8))
        self.disk.append((measure.allocated(Path(self.store.url)) - before) / (change * 8))
        self.array[begin : begin + change] = kept
        self.again["1 % changed"].append(seconds)
        return seconds

    def _save_again(self) -> float:
        seconds, self.saved = measure.timed(lambda: self.store.save(draft(), {"a": self.array}))
        return seconds

    # Restoring: every contender opens its store anew.

    def restore(self, use: Callable[[Any], Any]) -> float:
        self.store.close()

        def work() -> tuple[Store, Any]:
            store = open_store(self._folder / "ours" / "store")
            return store, use(store.restore(self.id)["a"])

        seconds, (store, _) = measure.timed(work)
        store.close()
        return seconds

    def restore_cold(self) -> float:
        measure.forget_cached(self._folder / "ours")
        return self.restore(np.sum)

    def load_cold(self, peer: peers.Peer, place: str) -> float:
        measure.forget_cached(self._folder / place)
        return peers.timed_load(peer, self._folder / place, 0, np.sum)


def first(array: Any) -> float:
    """Touch one element."""
    return float(array[len(array) // 2])


def big_array(report: measure.Report, folder: Path, *, megabytes: int, rounds: int) -> None:
    big = BigArray(folder, megabytes)
    joblib, copy, readonly = peers.Joblib(), peers.Joblib("c"), peers.Joblib("r")
    simple: list[peers.Peer] = [joblib, peers.Diskcache()]
    if peers.available("dill"):
        simple.append(peers.Dill())
    else:
        report.notes.append("dill is not installed: left out")

    saves: dict[str, measure.Contender] = {
        "os.write": lambda: big.write(fsync=False),
        "os.write + fsync": lambda: big.write(fsync=True),
        OURS: big.save,
    }
    firsts: dict[str, measure.Contender] = {OURS: lambda: big.restore(first)}
    fulls: dict[str, measure.Contender] = {OURS: lambda: big.restore(np.sum)}
    notes: dict[str, str] = {OURS: "save(wait=False) has returned", DURABLE: "the same save, until it counts"}
    for peer in simple:
        saves[peer.name] = lambda peer=peer: peers.timed_save(peer, big.place(peer.name), 0)  # type: ignore[misc]
        notes[peer.name] = peer.note
    for peer, place in [*((p, p.name) for p in simple), (copy, joblib.name), (readonly, joblib.name)]:
        at = folder / place
        firsts[peer.name] = lambda peer=peer, at=at: peers.timed_load(peer, at, 0, first)  # type: ignore[misc]
        fulls[peer.name] = lambda peer=peer, at=at: peers.timed_load(peer, at, 0, np.sum)  # type: ignore[misc]
    marimo_read: list[float] = []
    if peers.available("marimo"):
        _add_marimo(big, saves, firsts, fulls, marimo_read, notes)
    else:
        report.notes.append("marimo is not installed: left out")
    colds: dict[str, measure.Contender] = {
        OURS: big.restore_cold,
        joblib.name: lambda: big.load_cold(joblib, joblib.name),
        copy.name: lambda: big.load_cold(copy, joblib.name),
    }
    changes: dict[str, measure.Contender] = {OURS: big.save_again, joblib.name: lambda: _joblib_again(big, joblib)}

    few = [name for name in saves if name.startswith(("diskcache", "dill", "marimo"))]
    size = f"{big.gigabytes:g} GB array"
    sections = {
        f"save a {size}": saves,
        f"save it again, 1 % changed ({size})": changes,
        f"restore a {size}, to first use (warm)": firsts,
        f"restore a {size}, fully read (warm)": fulls,
        f"restore a {size}, fully read (cold)": colds,
    }
    samples: dict[str, dict[str, list[float]]] = {s: {c: [] for c in cs} for s, cs in sections.items()}
    for number in range(rounds):
        for section, contenders in sections.items():
            for name, contender in contenders.items():
                if number < 3 or name not in few:
                    samples[section][name].append(contender())
    save, change, use, full, _ = sections
    samples[save][DURABLE] = big.durable
    for section in sections:
        report.add(section, samples[section], notes if section == save else {})
    report.add(f"save a {size}: processor time, until durable", big.cpu)
    report.add(f"save it again ({size})", big.again, {"unchanged, new process": "nothing remembered: named by blake3"})
    gb = f"{size}"
    report.judge(f"save a {gb}, durable", report.ratio(save, DURABLE, "os.write + fsync"), "<=", 1.25, "x",
                 "of os.write + fsync")  # fmt: skip
    report.judge(f"save a {gb}, not yet durable", report.ratio(save, OURS, "os.write"), "<=", 1.6, "x", "of os.write")
    report.judge("restore it, to first use", report.ratio(use, joblib.name, OURS), ">=", 100, "x", "faster than joblib")
    report.judge("restore it, fully read", report.ratio(full, joblib.name, OURS), ">=", 5, "x", "faster than joblib")
    report.judge("restore it, fully read", report.ratio(full, OURS, copy.name), "<=", 1.5, "x", "of joblib mmap c")
    report.judge("restore it, fully read", report.ratio(full, OURS, readonly.name), "<=", 1.5, "x", "of joblib mmap r")
    report.judge("save again, 1 % changed", report.ratio(change, joblib.name, OURS), ">=", 8, "x", "faster than joblib")
    if big.gigabytes < 1:
        report.notes.append("below 1 GB, 1 % is a few chunks of 1 MiB: the bytes of the change are mostly rounding")
    report.judge("save again, 1 % changed: bytes", float(np.median(big.written)), "<=", 1.1, "x",
                 f"of the change (on the disk: {np.median(big.disk):.2f}x)")  # fmt: skip
    report.judge("save again, unchanged", float(np.median(big.again["unchanged"])) / big.gigabytes, "<=", 0.1, "s/GB")
    big.store.close()
    peers.HELD.clear()
    shutil.rmtree(folder, ignore_errors=True)


def _joblib_again(big: BigArray, joblib: peers.Joblib) -> float:
    """joblib knows whole values only: a changed one is a new one."""
    peers.HELD[1] = big.array
    measure.settle()
    return peers.timed_save(joblib, big.place("joblib again"), 1)


def _add_marimo(
    big: BigArray,
    saves: dict[str, measure.Contender],
    firsts: dict[str, measure.Contender],
    fulls: dict[str, measure.Contender],
    read: list[float],
    notes: dict[str, str],
) -> None:
    name = peers.Marimo.name
    notes[name] = peers.Marimo.note
    apps: list[peers.Marimo] = []

    def save() -> float:
        apps[:] = [peers.Marimo(big.place("marimo"), big.array.size)]
        return float(apps[0].run("save")["first"])

    def load() -> float:
        answer = apps[0].run("load")
        read.append(answer["read"])
        return float(answer["first"])

    saves[name], firsts[name], fulls[name] = save, load, lambda: read[-1]


class Account:
    """A small object, as users write them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"account {number}"
        self.limits = (number % 7, number / 3)


def make_frame(rows: int) -> Any:
    """Names (all different), cities (few), and numbers; the strings are Python objects."""
    import pandas as pd

    numbers = np.random.default_rng(0).integers(0, 1 << 40, rows)
    cities = [f"city {n}" for n in range(500)]
    return pd.DataFrame(
        {
            "name": pd.Series([f"customer {n}" for n in numbers], dtype=object),
            "city": pd.Series([cities[n % 500] for n in numbers], dtype=object),
            "amount": numbers / 7.0,
        }
    )


def _compare(
    report: measure.Report, section: str, folder: Path, value: Any, contenders: list[peers.Peer], rounds: int
) -> None:
    """Save and load one value by everyone in turn."""
    peers.HELD[0] = value
    names = [peer.name for peer in contenders]
    save: dict[str, list[float]] = {name: [] for name in [*names, OURS, DURABLE]}
    load: dict[str, list[float]] = {name: [] for name in [*names, OURS]}
    for _ in range(rounds):
        for peer in contenders:
            shutil.rmtree(folder, ignore_errors=True)
            save[peer.name].append(peers.timed_save(peer, folder, 0))
            load[peer.name].append(peers.timed_load(peer, folder, 0, type))
        shutil.rmtree(folder, ignore_errors=True)
        measure.settle()
        ours, durable, loaded = _ours(folder / "store", value)
        save[OURS].append(ours)
        save[DURABLE].append(durable)
        load[OURS].append(loaded)
    report.add(f"{section}: save", save)
    report.add(f"{section}: load", load)
    peers.HELD.clear()
    shutil.rmtree(folder, ignore_errors=True)


def _ours(place: Path, value: Any) -> tuple[float, float, float]:
    """Seconds until `save(wait=False)` returned, until it counted, and to restore it."""
    with open_store(place) as store:
        store.save(draft(), {"small": 1})  # the first commit opens the index for writing; that is not this row's
        seconds, saved = measure.timed(lambda: store.save(draft(), {"v": value}, wait=False))
        rest, _ = measure.timed(saved.done.result)
        loaded, _ = measure.timed(lambda: store.restore(saved.checkpoint.id))
    return seconds, seconds + rest, loaded


def frame(report: measure.Report, folder: Path, *, rows: int, rounds: int) -> None:
    section = f"DataFrame, {rows:,} rows with Python strings"
    joblib = peers.Joblib()
    _compare(report, section, folder, make_frame(rows), [joblib, peers.Pickle(durable=False)], rounds)
    save, load = f"{section}: save", f"{section}: load"
    report.judge(save, report.ratio(save, DURABLE, joblib.name), "<=", 1.0, "x", "of joblib (ours durable, theirs not)")
    report.judge(load, report.ratio(load, joblib.name, OURS), ">=", 10, "x", "faster than joblib")


def objects(report: measure.Report, folder: Path, *, rounds: int) -> None:
    plain, durable, joblib = peers.Pickle(durable=False), peers.Pickle(durable=True), peers.Joblib()
    states = {
        "100k instances": [Account(n) for n in range(100_000)],
        "100k dicts": [{"number": n, "name": f"account {n}", "limits": (n % 7, n / 3)} for n in range(100_000)],
    }
    for what, state in states.items():
        _compare(report, what, folder, state, [plain, durable, joblib], max(rounds, 7))
        save, load = f"{what}: save", f"{what}: load"
        report.judge(save, report.ratio(save, DURABLE, durable.name), "<=", 1.3, "x", "of pickle + fsync")
        report.judge(load, report.ratio(load, OURS, plain.name), "<=", 1.3, "x", "of pickle")

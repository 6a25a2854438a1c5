"""Whole processes: peak memory while saving, what loading the extension costs, one restored cell, and `--big`.

Run as a script this file is the child: `python bench_process.py peak 2048 FOLDER`. The parent half is below.

Which memory counts? A second copy of the state would be anonymous or copied private memory, so the peak resident
set of the process (`VmHWM`, reset just before saving) is compared with the resident set just before. The page
cache, which a cgroup would charge to the process as well, is left out: the kernel takes it back when anybody needs
memory. `--big` goes further and *enforces* the limit while saving and restoring, with RLIMIT_DATA: on Linux it
bounds all private writeable memory (heap, anonymous and copy-on-write mappings), and neither the page cache nor
address space that is merely reserved counts, so a second copy fails with MemoryError.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import bench_measure as measure

ME = str(Path(__file__).resolve())

# The child's half. Imports are inside: each child measures a process that has no more than it needs.


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _state(megabytes: int) -> dict[str, Any]:
    """Half of it one array, half of it many."""
    import numpy as np

    draw = np.random.default_rng(0).random
    half = (megabytes << 20) // 16
    return {"big": draw(half), "parts": [draw(half // 64) for _ in range(64)]}


def _child_peak(who: str, megabytes: int, folder: Path) -> dict[str, float]:
    import bench_peers as peers
    import joblib  # type: ignore[import-untyped]  # noqa: F401  # imports are not part of the peak
    from bench_values import draft

    from nbcheckpoint.store import open_store

    size = megabytes << 20
    store = open_store(folder / "store")
    store.save(draft(), {"small": list(range(1000))})
    state = peers.HELD[0] = _state(megabytes)
    before = _reset_peak()
    started = time.perf_counter()
    if who == "joblib":
        peers.Joblib().save(folder / "joblib", 0)
    elif who == "pickle":
        peers.Pickle(durable=False).save(folder, 0)
    else:
        store.save(draft(), state)
    return {"peak": 1 + (_status("VmHWM") - before) / size, "seconds": time.perf_counter() - started}


def _child_extension(load: str) -> dict[str, float]:
    started = time.perf_counter()
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell.instance()
    ready = time.perf_counter()
    if load == "with":
        shell.run_line_magic("load_ext", "nbcheckpoint")
    done = time.perf_counter()
    return {"ipython": ready - started, "extension": done - ready, "all": done - started}


CELL = "%%checkpointed\nx = 1\ny = [1, 2, 3]\nz = {'a': 'b'}\nprint(x)"


def _child_cell(folder: Path) -> dict[str, Any]:
    from IPython.core.interactiveshell import InteractiveShell

    os.environ["NBCHECKPOINT_STORE"] = str(folder / "store")
    os.chdir(folder)
    shell: Any = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "nbcheckpoint")

    def run(source: str) -> float:
        started = time.perf_counter()
        shell.run_cell(source, store_history=True)
        return (time.perf_counter() - started) * 1000

    run("pass")
    first = run(CELL)  # computed by the first child, restored by the others: in a kernel that has restored nothing yet
    empty, restored = [], []
    for _ in range(30):
        shell.run_cell("del x, y, z")
        empty.append(run("pass"))
        restored.append(run(CELL))
    assert shell.user_ns["y"] == [1, 2, 3]
    steps = [s.status for s in _session_steps(folder)]
    return {"first": first, "empty": empty, "restored": restored, "steps": sorted(set(steps))}


def _session_steps(folder: Path) -> list[Any]:
    from nbcheckpoint.store import open_store

    with open_store(folder / "store") as store:
        return store.steps(store.runs(limit=1)[0].id)


def _child_big_save(megabytes: int, folder: Path) -> dict[str, Any]:
    from bench_values import draft

    from nbcheckpoint.store import open_store

    store = open_store(folder / "store")
    store.save(draft(), {"small": 1})
    state = _state(megabytes)
    before = _limit(megabytes)
    started = time.perf_counter()
    saved = store.save(draft(), state)
    seconds = time.perf_counter() - started
    sums = [float(state["big"].sum()), float(sum(part.sum() for part in state["parts"]))]
    peak = 1 + (_status("VmHWM") - before) / (megabytes << 20)
    return {"id": saved.checkpoint.id, "seconds": seconds, "peak": peak, "sums": sums}


def _child_big_restore(megabytes: int, folder: Path, checkpoint: str) -> dict[str, Any]:
    import bench_values  # noqa: F401  # numpy and friends before the limit is set

    from nbcheckpoint.store import open_store

    store = open_store(folder / "store")
    before = _limit(megabytes, live=0)
    started = time.perf_counter()
    state = store.restore(checkpoint)
    first = time.perf_counter() - started
    sums = [float(state["big"].sum()), float(sum(part.sum() for part in state["parts"]))]
    seconds = time.perf_counter() - started
    peak = (_status("VmHWM") - before) / (megabytes << 20)
    state["big"][:] = 0.0  # every page of half of it is copied now, still within the limit
    return {"first": first, "seconds": seconds, "peak": peak, "sums": sums}


def _limit(megabytes: int, *, live: int | None = None) -> int:
    """No more private memory than 1.1x the state from here on (besides what the interpreter has)."""
    import resource

    size = megabytes << 20
    beside = _status("VmData") - (size if live is None else live)
    resource.setrlimit(resource.RLIMIT_DATA, (beside + int(1.1 * size),) * 2)
    try:
        second = bytearray(int(1.1 * size) - (size if live is None else live) + (64 << 20))
    except MemoryError:
        return _reset_peak()
    raise SystemExit(f"the limit does not hold: {len(second)} bytes more were given")


# The parent's half.


def peak_memory(report: measure.Report, folder: Path, *, megabytes: int, rounds: int) -> None:
    samples: dict[str, list[float]] = {"nbcheckpoint": [], "joblib": [], "pickle": []}
    for _ in range(min(rounds, 3)):
        for who, found in samples.items():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            found.append(measure.child(ME, "peak", who, str(megabytes), str(folder))["peak"])
    shutil.rmtree(folder, ignore_errors=True)
    section = f"peak memory while saving {megabytes / 1024:g} GB, as a multiple of the live state"
    report.add(section, samples)
    report.judge("peak memory while saving", report.median(section, "nbcheckpoint"), "<=", 1.1, "x", "the live state")


def extension(report: measure.Report, *, rounds: int) -> None:
    runs = max(rounds, 9)
    measure.child(ME, "extension", "with")
    alone, loaded, cost = [], [], []
    for _ in range(runs):
        alone.append(measure.child(ME, "extension", "without")["all"])
        answer = measure.child(ME, "extension", "with")
        loaded.append(answer["all"])
        cost.append(answer["extension"])
    section = "import nbcheckpoint + %load_ext (child processes)"
    report.add(section, {"IPython alone": alone, "IPython and %load_ext": loaded, "%load_ext by itself": cost})
    report.judge("import + %load_ext", report.median(section, "%load_ext by itself") * 1000, "<=", 150, "ms",
                 "over IPython alone")  # fmt: skip


def restored_cell(report: measure.Report, folder: Path, *, rounds: int) -> None:
    folder.mkdir(parents=True)
    measure.child(ME, "cell", str(folder))
    answers = [measure.child(ME, "cell", str(folder)) for _ in range(rounds)]
    if any("restored" not in answer["steps"] for answer in answers):
        report.notes.append(f"the cell was not restored: {answers[0]['steps']}")
    section = "one cell restored, small values (real InteractiveShell)"
    restored = [ms / 1000 for answer in answers for ms in answer["restored"]]
    first = [answer["first"] / 1000 for answer in answers]
    empty = [ms / 1000 for answer in answers for ms in answer["empty"]]
    report.add(section, {"restored": restored, "first of a new kernel": first, "an empty cell": empty},
               {"first of a new kernel": "opens the store, imports what was lazy"})  # fmt: skip
    report.judge("one cell restored", report.median(section, "restored") * 1000, "<=", 20, "ms", "median")
    report.judge("one cell restored, first of a new kernel", report.median(section, "first of a new kernel") * 1000,
                 "<=", 20, "ms", "stricter than the bar asks")  # fmt: skip
    shutil.rmtree(folder, ignore_errors=True)


def big(report: measure.Report, folder: Path, *, megabytes: int) -> None:
    """10 GB of state through a process limited to 1.1x its live size."""
    folder.mkdir(parents=True)
    saved = measure.child(ME, "big-save", str(megabytes), str(folder))
    restored = measure.child(ME, "big-restore", str(megabytes), str(folder), saved["id"])
    if saved["sums"] != restored["sums"]:
        raise RuntimeError("what was restored is not what was saved")
    section = f"{megabytes / 1024:g} GB of state, limited to 1.1x (RLIMIT_DATA)"
    times = {"saved, durable": [saved["seconds"]], "restored": [restored["first"]], "and read": [restored["seconds"]]}
    report.add(section, times)
    report.judge(f"{section}: saving", saved["peak"], "<=", 1.1, "x", "peak RSS / live state")
    report.judge(f"{section}: restoring", restored["peak"], "<=", 1.1, "x", "peak RSS / live state, all of it read")
    shutil.rmtree(folder, ignore_errors=True)


def main(what: str, *arguments: str) -> dict[str, Any]:
    if what == "peak":
        return _child_peak(arguments[0], int(arguments[1]), Path(arguments[2]))
    if what == "extension":
        return _child_extension(arguments[0])
    if what == "cell":
        return _child_cell(Path(arguments[0]))
    if what == "big-save":
        return _child_big_save(int(arguments[0]), Path(arguments[1]))
    return _child_big_restore(int(arguments[0]), Path(arguments[1]), arguments[2])


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))

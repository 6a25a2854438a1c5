"""Notebooks as people write them, killed with -9 somewhere and run again: everything is as if nothing had happened.

Each file in `everyday/` is a notebook in the percent format: `# %%` begins a cell, `# results:` names the variables
that are compared, `# needs:` a library it is left out without, `# always runs:` why nothing of it can be restored. NBCHECKPOINT_ROUNDS=20 kills each twenty times.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "everyday"
ROUNDS = int(os.environ.get("NBCHECKPOINT_ROUNDS", "1"))
ADDRESS = re.compile(r"\b0x[0-9a-f]+|(?<=ipykernel_)\d+")
"""What is another one every time: places in memory, and the folder that stands for a kernel's cells in warnings."""

DESCRIBE = '''
def _describe(v, met):
    import hashlib, sys
    np, pd = sys.modules.get("numpy"), sys.modules.get("pandas")
    if v is None or isinstance(v, (bool, int, float, str, bytes, complex)):
        return repr(v)
    if id(v) in met:
        return "#%d" % met[id(v)][0]
    met[id(v)] = len(met), v
    if np is not None and isinstance(v, np.ndarray) and v.dtype != object:
        return "array %s %s %s" % (v.dtype, v.shape, hashlib.sha1(np.ascontiguousarray(v).tobytes()).hexdigest())
    if pd is not None and isinstance(v, pd.DataFrame):
        return "frame %s" % [(str(c), str(v[c].dtype), _describe(v[c], met)) for c in v.columns]
    if pd is not None and isinstance(v, (pd.Series, pd.Index)):
        index = _describe(v.index, met) if isinstance(v, pd.Series) else ""
        return "%s %s %s %s" % (type(v).__name__, v.dtype, index, [repr(x) for x in v.tolist()])
    if isinstance(v, dict):
        return "{%s}" % ",".join(_describe(k, met) + ":" + _describe(x, met) for k, x in v.items())
    if isinstance(v, (list, tuple)):
        return "%s[%s]" % (type(v).__name__, ",".join(_describe(x, met) for x in v))
    if isinstance(v, (set, frozenset)):
        return "set" + str(sorted(_describe(x, met) for x in v))
    if type(v).__module__ == "__main__":
        assert getattr(sys.modules["__main__"], type(v).__name__) is type(v)
        return "%s %s" % (type(v).__name__, _describe(dict(vars(v)), met) if not hasattr(v, "value") or callable(v.value) else v)
    return repr(v)
get_ipython().ast_transformers.clear()  # from here on without us
print(_describe((RESULTS,), {}))
'''


class Notebook(NamedTuple):
    name: str
    cells: list[str]
    results: str

    @classmethod
    def read(cls, path: Path) -> Notebook:
        head, *cells = re.split(r"^# %%\n", path.read_text(), flags=re.MULTILINE)
        found = re.search(r"# results: (.+)", head)
        assert found
        return cls(path.stem, cells, found[1])


class Seen(NamedTuple):
    outputs: list[Any]
    results: str
    restored: int


NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel without us for all of them: only the first one waits for pandas."""
    with Kernel(tmp_path_factory.mktemp("plain")) as kernel:
        yield kernel


def test_there_are_enough() -> None:
    assert len(NAMES) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_killed_and_run_again_it_ends_the_same(plain: Kernel, tmp_path: Path, name: str) -> None:
    path = FOLDER / f"{name}.py"
    needs = re.findall(r"# needs: (\w+)", path.read_text())
    if any(importlib.util.find_spec(library) is None for library in needs):
        pytest.skip(f"needs {needs}")
    notebook = Notebook.read(path)
    plain.run("%reset -f\nimport random, sys\nrandom.seed()")
    wanted = look(plain, notebook)
    for turn in range(ROUNDS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with Kernel(folder, notebook=f"{name}.ipynb") as kernel:
            cut(kernel, notebook, random.Random(f"{name} {turn} {os.environ.get('NBCHECKPOINT_SEED', '')}"))
            kernel.start()
            setup(kernel)
            found = look(kernel, notebook)
        assert found.results == wanted.results
        assert found.outputs == wanted.outputs
        assert found.restored or "# always runs:" in path.read_text(), "nothing of it was restored"


def setup(kernel: Kernel) -> None:
    kernel.run("%load_ext nbcheckpoint")
    kernel.run("%checkpoint auto --min-seconds 0s")
    # Nothing here takes so long that it would be worth a save.
    kernel.run("%checkpoint auto off\n__nbcheckpoint__.pace.is_worth = lambda *_: True\n__nbcheckpoint__.pace.overhead = 1e9")
    kernel.run("%checkpoint auto on")


def cut(kernel: Kernel, notebook: Notebook, chance: random.Random) -> None:
    """Run it up to some cell, and kill it at some moment of that."""
    setup(kernel)
    at = chance.randrange(2, len(notebook.cells))
    took = 0.0
    for cell in notebook.cells[:at]:
        began = time.monotonic()
        kernel.run(cell)
        took = time.monotonic() - began
    kernel.client.execute(notebook.cells[at])
    time.sleep(chance.uniform(0, min(0.3, 2 * took)))  # a random moment: nothing waits for it
    kernel.kill()


def look(kernel: Kernel, notebook: Notebook) -> Seen:
    """Run all of it."""
    outputs, restored = [], 0
    for cell in notebook.cells:
        shown = kernel.run(cell)
        outputs.append(without_us(shown))
        restored += shown.status in ("restored", "resumed")
    described = kernel.run(DESCRIBE.replace("RESULTS", notebook.results)).stdout
    return Seen(outputs, described, restored)


def without_us(cell: Cell) -> tuple[Any, ...]:
    shown = [d["data"] for d in cell.displays if "nbcheckpoint" not in d["metadata"]]
    return cell.stdout, steady([r["data"] for r in cell.results]), steady(shown)


def steady(bundles: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{mime: ADDRESS.sub("0x", str(data)) for mime, data in bundle.items()} for bundle in bundles]

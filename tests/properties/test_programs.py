"""Random small notebooks end the same with us and without, however often they are killed and edited on the way.

The long form, with its thousands, is `benchmarks/torture.py programs`; `PROGRAMS=500` makes this one longer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.kernels import Kernel
from tests.properties.program_host import Hosts
from tests.properties.programs import Process, Program, by_seed, write

pytestmark = pytest.mark.slow

PROGRAMS = int(os.environ.get("PROGRAMS", "20"))


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    # In memory where there is such a place: what a disk does is the crash tests' business.
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="programs-", dir=place) as home:
        made = Hosts(Path(home))
        yield made
        made.close()


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return write(lambda below: draw(st.integers(0, below - 1)))


@settings(
    max_examples=PROGRAMS,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(program=programs())
def test_a_program_ends_the_same_however_often_it_is_killed(hosts: Hosts, program: Program) -> None:
    problem = hosts.check(program)
    assert not problem, f"{problem}\n{program}"


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(__file__).parent.glob("found/*.py")))
def test_what_was_found_once_stays_mended(hosts: Hosts, name: str) -> None:
    """Programs that once ended differently, as small as they could be made."""
    text = (Path(__file__).parent / "found" / f"{name}.py").read_text()
    problem = hosts.check(Program.parse(text))
    assert not problem, problem


@pytest.mark.parametrize("seed", [3, 8])
def test_a_real_kernel_agrees(tmp_path: Path, seed: int) -> None:
    """The forked shells stand for kernels: a few programs in the real thing, killed with -9 between two cells."""
    cells = ["\n".join(cell) for cell in write(by_seed(seed)).processes[-1].cells]
    probe = "print({n: repr(v) for n, v in sorted(globals().items()) if n[0] in 'nltds' and n[1:].isdigit()})"
    with Kernel(tmp_path, notebook="plain.ipynb") as plain:
        shown = [plain.collect(plain.client.execute(cell)) for cell in cells]
        wanted = plain.run(probe).stdout
    with Kernel(tmp_path) as kernel:
        for last in (len(cells) // 2, len(cells)):
            kernel.run("%load_ext nbcheckpoint")
            marked = [f"%%checkpointed --every 1\n{cell}" for cell in cells[:last]]
            ours = [kernel.collect(kernel.client.execute(cell)) for cell in marked]
            if last == len(cells):
                assert kernel.run(probe).stdout == wanted
                assert [(c.stdout, c.result, c.error) for c in ours] == [(c.stdout, c.result, c.error) for c in shown]
            else:
                kernel.kill()
                kernel.start()


def test_a_program_that_does_not_end_is_let_go(hosts: Hosts) -> None:
    endless = Process((("l0 = [1]",), ("for n0 in l0: l0.append(n0)",)))
    assert hosts.check(Program((endless,), mode="auto")) == ""


def test_the_hosts_notice_a_difference(hosts: Hosts) -> None:
    """What is looked for can be seen: two programs that are not the same."""
    same = Process((("x = [1]", "y = x"),))
    other = Process((("x = [1]", "y = [1]"),))
    assert hosts.compare(same, same) == ""
    assert hosts.compare(same, other).startswith("y is")

"""The cell that `docs/colab.md` gives is all it takes: what one machine has done, the next one does not do again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nbcheckpoint.store import open_store
from nbcheckpoint.store.survey import survey
from tests.docs.pages import DOCS, blocks, written
from tests.headless import wait_for
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

DRIVE = "/content/drive"
COPY = "train.nbcheckpoint"
SLOW = "import time, uuid\nx = (time.sleep(1.2), uuid.uuid4().hex)[1]\nprint('made', x)"
LOOP = """import time
done = []
for epoch in range(8):
    time.sleep(0.5)
    done.append(epoch)
    print('epoch', epoch)"""
KEEPER = "__import__('nbcheckpoint').notebook.magics._loaded[id(get_ipython())].session._keeper._process.pid"


def first_cell(drive: Path) -> str:
    """As the page has it, but for where the Drive is; what it installs is here already."""
    (found,) = (block.text for block in blocks(written(DOCS / "colab.md")) if DRIVE in block.text)
    lines = found.replace(DRIVE, str(drive)).splitlines()
    assert any(line.startswith("%pip install -q nbcheckpoint") for line in lines)
    return "\n".join(line for line in lines if not line.startswith("%pip"))


@contextmanager
def machine(place: Path, name: str) -> Iterator[Kernel]:
    """A new one, which has nothing but Colab's module that mounts the Drive, and has run the first cell."""
    module = place / "installed" / "google" / "colab" / "drive.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text("import os\ndef mount(at): os.makedirs(at + '/MyDrive', exist_ok=True)\n")
    (place / name / "content").mkdir(parents=True)
    path = os.pathsep.join(filter(None, (str(place / "installed"), os.environ.get("PYTHONPATH"))))
    own = {"HOME": str(place / name), "PYTHONPATH": path, "JUPYTER_DATA_DIR": "", "JPY_SESSION_NAME": ""}
    with Kernel(place / name / "content", env=own) as kernel:
        kernel.run(first_cell(place / "drive"))
        yield kernel


def copied(place: Path) -> int:
    """How many checkpoints are in the copy."""
    folder = place / "drive" / "MyDrive" / COPY
    if not (folder / "cache.db").exists():
        return 0
    with open_store(folder, create=False) as store:
        return len(survey(store).checkpoints)


def test_the_next_machine_has_what_the_last_one_did(tmp_path: Path) -> None:
    """The first one goes at once, with all that runs on it, when what it did has come to the Drive."""
    with machine(tmp_path, "first") as kernel:
        made = kernel.run(SLOW).stdout
        assert made.startswith("made ")
        wait_for(lambda: copied(tmp_path))
        os.kill(int(kernel.run(KEEPER).result), signal.SIGKILL)
        kernel.kill()
    with machine(tmp_path, "second") as kernel:
        restored = kernel.run(SLOW)
        assert restored.line.startswith("restored from")
        assert restored.stdout == made
        assert sorted(os.listdir(kernel.folder)) == [".nbcheckpoint"]


def test_a_loop_goes_on_on_the_next_machine(tmp_path: Path) -> None:
    """What a killed kernel saved last comes to the Drive although the kernel is gone."""
    with machine(tmp_path, "first") as kernel:
        keeper = int(kernel.run(KEEPER).result)
        kernel.start_cell(LOOP, until="epoch 6")
        kernel.kill()
    wait_for(lambda: not Path(f"/proc/{keeper}").exists())
    with machine(tmp_path, "second") as kernel:
        resumed = kernel.run(LOOP)
        assert resumed.line.startswith("resumed: loop continued at "), resumed.line
        assert kernel.run("done").result == str(list(range(8)))


def test_a_drive_that_is_not_there_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    with Kernel(tmp_path, env={"NBCHECKPOINT_COPY": f"{tmp_path}/drive/MyDrive/copy"}) as kernel:
        kernel.run("%load_ext nbcheckpoint")
        told = [display["data"]["text/plain"] for display in kernel.run("%checkpoint auto").displays]
        assert sum("is it mounted?" in line for line in told) == 1
        assert kernel.run(SLOW).status == "computed"
        assert "1 saved" in kernel.run("%checkpoint status").result
    assert not (tmp_path / "drive").exists()

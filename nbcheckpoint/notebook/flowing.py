"""What a notebook adds to flows: progress under the cell, buttons for a question, and a run for cells without a flow.

`nbc.pause` in a plain cell asks in the notebook's own run: answered, and the cell run again, it goes on. A question is
told apart by its name and the cell it stands in.
"""

from __future__ import annotations

import functools
import html
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nbcheckpoint.engine import context, pause, policy, progress, shown
from nbcheckpoint.engine.context import Frame
from nbcheckpoint.engine.journal import Journal
from nbcheckpoint.errors import Error
from nbcheckpoint.model import Pause
from nbcheckpoint.notebook.line import PROGRESS
from nbcheckpoint.notebook.outputs import StepRecorder, replay
from nbcheckpoint.store import Store
from nbcheckpoint.typed import decode
from nbcheckpoint.units import say_duration

if TYPE_CHECKING:
    from nbcheckpoint.notebook.cells import CellCheckpointer

_joined: dict[int, _Joined] = {}


def join(checkpointer: CellCheckpointer) -> None:
    """From here on flows show themselves in this shell."""
    joined = _joined[id(checkpointer)] = _Joined(checkpointer)
    progress.watchers.append(joined.progress)
    pause.openers.append(joined.ask)
    context.ambient.append(joined.frame)
    policy.notebooks.append(joined.policies)
    if getattr(checkpointer.shell, "kernel", None) is not None:  # a terminal shows for ever what it has shown
        shown.recorders.append(joined.recorder.recording)
        shown.players.append(joined.play)
        checkpointer.shell.events.register("post_run_cell", joined.end)
    checkpointer.shell.events.register("pre_run_cell", joined.begin)


def part(checkpointer: CellCheckpointer) -> None:
    joined = _joined.pop(id(checkpointer), None)
    if joined is None:
        return
    checkpointer.shell.events.unregister("pre_run_cell", joined.begin)
    progress.watchers[:] = [found for found in progress.watchers if found != joined.progress]
    pause.openers[:] = [found for found in pause.openers if found != joined.ask]
    context.ambient[:] = [found for found in context.ambient if found != joined.frame]
    policy.notebooks[:] = [found for found in policy.notebooks if found != joined.policies]
    if shown.players and joined.play in shown.players:
        checkpointer.shell.events.unregister("post_run_cell", joined.end)
        shown.recorders.clear()
        shown.players.clear()
        joined.recorder.stop_tapping()


class _Joined:
    """One shell's part."""

    def __init__(self, checkpointer: CellCheckpointer) -> None:
        self._checkpointer = checkpointer
        self._shown = ""
        self._cell = -1
        self._frame: Frame | None = None
        self._policies: tuple[int, dict[str, Any]] | None = None

    def begin(self, info: Any) -> None:
        """A new cell: what the last one has marked is not its matter."""
        context.marks.clear()
        self._shown = ""
        if shown.recorders:
            self.recorder.cell_begins()

    @functools.cached_property
    def recorder(self) -> StepRecorder:
        return StepRecorder(self._checkpointer.shell)

    def play(self, outputs: list[dict[str, Any]]) -> None:
        replay(self._checkpointer.shell, outputs)

    def end(self, result: Any) -> None:
        """The cell is over. One that was stopped has not shown what it was to show."""
        self.recorder.cell_ends()
        if isinstance(result.error_in_exec, KeyboardInterrupt):
            shown.cell_was_cut()
        else:
            shown.all_is_shown()

    def frame(self) -> Frame:
        """Where a pause outside of every flow is asked: in the notebook's run, below the cell that asks."""
        shell, session = self._checkpointer.shell, self._checkpointer.session
        if self._frame is None or self._cell != shell.execution_count:
            self._cell = shell.execution_count
            run = session.run
            journal = Journal(session.store, run, settings={}, steps=session.store.steps(run.id, inner=True))
            name = self._checkpointer.cell_name
            self._frame = Frame(journal, slot=f"cell {name}", address="asked")
        return self._frame

    def policies(self) -> dict[str, Any]:
        """`metadata.nbcheckpoint.policies` of the notebook's file, as it was last saved."""
        notebook = self._checkpointer.session.notebook
        try:
            stamp = notebook.stat().st_mtime_ns
        except OSError:
            return {}
        if self._policies is None or self._policies[0] != stamp:
            self._policies = stamp, _policies_in(notebook)
        return self._policies[1]

    # Progress

    def progress(self, name: str, done: int, total: int, failed: int, left: float | None) -> None:
        """`clean: 37 of 100 · 12 s left`, one display that is updated. Nothing for what is over at once."""
        text = f"{name}: {done:,} of {total:,}" + (f" · {failed:,} failed" if failed else "")
        text += f" · {say_duration(left)} left" if left and done < total else ""
        first = not self._shown
        if first and done >= total:
            return
        self._shown = self._shown or f"nbcheckpoint-{name}-{time.monotonic()}"
        body = f'<progress value="{done}" max="{max(total, 1)}" style="width: 12em"></progress> {html.escape(text)}'
        self._checkpointer.shell.display_pub.publish(
            {"text/plain": text, "text/html": body},
            {PROGRESS: {"done": done, "total": total, "left": left}},
            transient={"display_id": self._shown},
            update=not first,
        )
        if done >= total:
            self._shown = ""

    # Questions

    def ask(self, store: Store, run: str, question: Pause) -> None:
        """Buttons, where widgets are and there are few answers. The line that says how to answer is always there."""
        try:
            self._buttons(store, run, question)
        except Exception:  # no widgets here, or none that work: there are four other ways to answer
            pass

    def _buttons(self, store: Store, run: str, question: Pause) -> None:
        if (
            not question.choices
            or self._checkpointer.unattended
            or len(question.choices) > 8
            or getattr(self._checkpointer.shell, "kernel", None) is None
        ):
            return
        import ipywidgets

        said = ipywidgets.Label(question.prompt)
        buttons = [
            ipywidgets.Button(description=str(choice), tooltip=f"answer {choice!r}") for choice in question.choices
        ]

        def answered(choice: Any) -> None:
            try:
                store.answer(run, question.name, choice)
                said.value = f"answered {choice!r}: run this cell again to go on"
            except Error as error:
                said.value = str(error)
            for button in buttons:
                button.disabled = True

        for button, choice in zip(buttons, question.choices, strict=True):
            button.on_click(lambda _, choice=choice: answered(choice))
        from IPython.display import display

        display(ipywidgets.VBox([said, ipywidgets.HBox(buttons)]))  # type: ignore[no-untyped-call]  # IPython's


def _policies_in(notebook: Path) -> dict[str, Any]:
    """What is no notebook, or says nothing about us, says nothing."""
    try:
        found = decode(notebook.read_bytes(), _Notebook).metadata.nbcheckpoint
    except (OSError, msgspec.MsgspecError):
        return {}
    return dict(found.get("policies") or {})


class _Metadata(msgspec.Struct):
    nbcheckpoint: dict[str, Any] = {}


class _Notebook(msgspec.Struct):
    """As much of a notebook as is asked about: the rest is passed over, not kept."""

    metadata: _Metadata

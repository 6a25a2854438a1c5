"""What a cell shows: recorded while it passes by, replayed on restore.

Nothing is held back: the user sees every output live. Recording taps the three ways out of a cell (the streams,
`display`, and the result of the last expression) for as long as it runs.
"""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nbcheckpoint import patience

MAX_TEXT = 1 << 20
"""Stream text kept per cell. More is cut with a note: nobody reads a megabyte again."""

UPDATE = "update_display_data"
WIDGET = "application/vnd.jupyter.widget-view+json"


class Record:
    """What was shown, in order."""

    def __init__(self) -> None:
        self._outputs: list[dict[str, Any]] = []
        self._room = MAX_TEXT
        self._clear = False
        self.takes_text = True
        """Or is what is printed from here on not its own?"""

    def so_far(self) -> list[dict[str, Any]]:
        """As it is kept: progress bars collapsed to their last state."""
        return [_joined(output) for output in self._outputs]

    @property
    def has_recorded(self) -> bool:
        return bool(self._outputs)

    @property
    def has_results(self) -> bool:
        """Did it show values as results?"""
        return any(output["output_type"] == "execute_result" for output in self._outputs)

    @property
    def live(self) -> bool:
        """Did the cell show something that lives in the kernel and cannot be replayed?"""
        return any(WIDGET in output.get("data", {}) for output in self._outputs)

    @property
    def is_rich(self) -> bool:
        """Did it show more than plain text?"""
        return any(output["output_type"] != "stream" for output in self._outputs)

    def _add(self, output: dict[str, Any]) -> None:
        if self._clear:
            self._outputs.clear()
            self._room = MAX_TEXT
            self._clear = False
        self._outputs.append(output)

    def on_text(self, name: str, text: Any) -> None:
        if not isinstance(text, str) or not text or self._room < 0 or not self.takes_text:
            return
        self._room -= len(text)
        if self._room < 0:
            text = text[: self._room] + "\n… (more was printed than is kept)\n"
        last = self._outputs[-1] if self._outputs and not self._clear else {}
        if last.get("output_type") == "stream" and last["name"] == name:
            last["pieces"].append(text)
        else:
            self._add({"output_type": "stream", "name": name, "pieces": [text]})

    def on_display(self, data: Any, metadata: Any = None, **kwargs: Any) -> None:
        transient = kwargs.get("transient") or {}
        bar = _progress_bar(data)
        if bar is not None:
            self._add({"output_type": "display_data", "bar": bar, "metadata": {}, "display_id": ""})
            return None
        output = {
            "output_type": "display_data",
            "data": _printable(data),
            "metadata": metadata or {},
            "display_id": transient.get("display_id", ""),
        }
        if not kwargs.get("update"):
            return self._add(output)
        mine = [one for one in self._outputs if one.get("display_id") and one["display_id"] == output["display_id"]]
        for earlier in mine:
            earlier.update(data=output["data"], metadata=output["metadata"])
        if not mine:  # of something that was shown before this
            self._outputs.append({**output, "output_type": UPDATE})
        return None

    def on_result(self, format_dict: Any, md_dict: Any = None) -> None:
        self._add({"output_type": "execute_result", "data": _printable(format_dict), "metadata": md_dict or {}})

    def on_clear(self, wait: bool = False) -> None:
        if wait:
            self._clear = True  # cleared when the next output comes
        else:
            self._outputs.clear()
            self._room = MAX_TEXT


class Taps:
    """The ways out of a cell, tapped until `stop`."""

    def __init__(self) -> None:
        self._undo: list[Any] = []
        self._ours = False
        self._inside = threading.local()
        """Has this thread gone through one of them already? Is what it shows kept back? Others may print meanwhile."""

    @property
    def _muted(self) -> bool:
        return getattr(self._inside, "now", False)

    def stop_tapping(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _tap(self, owner: Any, name: str, note: Any, *, in_vain: bool = False) -> None:
        """`in_vain`: nothing comes of what a method of the user's writes while it is called for our sake."""
        original = getattr(owner, name)
        had = name in vars(owner)
        setattr(owner, name, self._tapped(note, original, in_vain))
        self._undo.append(lambda: setattr(owner, name, original) if had else delattr(owner, name))

    def _tapped(self, note: Any, original: Any, in_vain: bool) -> Callable[..., Any]:
        inside = self._inside

        def tapped(*args: Any, **kwargs: Any) -> Any:
            kept = getattr(inside, "kept", None)
            if kept is not None:
                kept.append(lambda: tapped(*args, **kwargs))
                return None
            if in_vain and patience.shared.is_here:
                return len(args[0]) if args and isinstance(args[0], str) else None
            if not self._ours:
                note(*args, **kwargs)
            before, inside.now = self._muted, True
            try:
                return original(*args, **kwargs)
            finally:
                inside.now = before

        return tapped

    @contextmanager
    def keeping_back(self, kept: list[Callable[[], object]]) -> Iterator[None]:
        """What this thread shows meanwhile is neither shown nor noted. Calling what is in the list then does both."""
        self._inside.kept = kept
        try:
            yield
        finally:
            self._inside.kept = None

    def _tap_stream(self, name: str, note: Any) -> None:
        stream = getattr(sys, name)

        def noted(text: Any, *_: Any) -> None:
            if not self._muted:
                note(name, text)

        try:
            self._tap(stream, "write", noted, in_vain=name == "stdout")
        except (AttributeError, TypeError):
            # A terminal's stream takes no attributes: stand in front of it instead.
            setattr(sys, name, _Tee(stream, self._tapped(noted, stream.write, in_vain=False)))
            self._undo.append(lambda: setattr(sys, name, stream))


class Recorder(Record, Taps):
    """Records from construction until `stop`."""

    def __init__(self, shell: Any) -> None:
        Record.__init__(self)
        Taps.__init__(self)
        self._tap_stream("stdout", self.on_text)
        self._tap_stream("stderr", self.on_text)
        self._tap(shell.display_pub, "publish", self.on_display)
        self._tap(shell.display_pub, "clear_output", self.on_clear)
        self._tap(shell.displayhook, "write_format_data", self.on_result)
        # In a terminal these write to stdout what is recorded as a result already.
        self._tap(shell.displayhook, "write_output_prompt", lambda: None)
        self._tap(shell.displayhook, "finish_displayhook", lambda: None)
        self.has_shown_error = False
        """Has it shown a traceback and gone on, as where the `__repr__` of its value raises? That is not recorded."""
        self._tap(shell, "_showtraceback", self._on_traceback)
        self.has_asked = False
        """Has it asked somebody for something to be typed, by `input` or `getpass`, wherever that is called?"""
        if hasattr(getattr(shell, "kernel", None), "_input_request"):
            self._tap(shell.kernel, "_input_request", self._on_question)

    def _on_traceback(self, *_: Any) -> None:
        self.has_shown_error = True

    def _on_question(self, *_: Any, **__: Any) -> None:
        self.has_asked = True

    def stop(self) -> list[dict[str, Any]]:
        """Stop recording: what was shown."""
        self.stop_tapping()
        return self.so_far()

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """What is shown meanwhile is ours, not the cell's."""
        self._ours = True
        try:
            yield
        finally:
            self._ours = False


class StepRecorder(Taps):
    """Records by context what bodies show, several at once if need be: those inside of others are part of them.

    It is put on when a cell begins and taken off when it ends, as IPython does with its own: in between others come
    and go on top of it.
    """

    def __init__(self, shell: Any) -> None:
        super().__init__()
        self._shell = shell
        self._cells = 0
        self._now: ContextVar[tuple[Record, ...]] = ContextVar("nbcheckpoint_records", default=())

    def cell_begins(self) -> None:
        self._cells += 1
        if self._cells > 1:
            return  # a cell inside of a cell
        publisher = self._shell.display_pub
        self._tap_stream("stdout", lambda name, text: self._tell("on_text", name, text))
        self._tap_stream("stderr", lambda name, text: self._tell("on_text", name, text))
        self._tap(publisher, "publish", lambda *args, **kwargs: self._tell("on_display", *args, **kwargs))
        self._tap(publisher, "clear_output", lambda *args, **kwargs: self._tell("on_clear", *args, **kwargs))

    def cell_ends(self) -> None:
        self._cells = max(0, self._cells - 1)
        if not self._cells:
            self.stop_tapping()

    def _tell(self, what: str, *args: Any, **kwargs: Any) -> None:
        for record in self._now.get():
            getattr(record, what)(*args, **kwargs)

    @contextmanager
    def recording(self) -> Iterator[Any]:
        """Gives what tells, later, what was shown in here: nothing, if that was alive."""
        record = Record()
        token = self._now.set((*self._now.get(), record))
        try:
            yield lambda: [] if record.live else record.so_far()
        finally:
            self._now.reset(token)


def _progress_bar(data: Any) -> Any:
    """The bar of `tqdm.notebook`, if that is what is shown: a live widget of which only the last state matters."""
    view = data.get(WIDGET) if isinstance(data, dict) else None
    widgets = sys.modules.get("ipywidgets.widgets.widget")
    if not isinstance(view, dict) or widgets is None:
        return None
    widget = getattr(widgets, "_instances", {}).get(view.get("model_id"))
    return widget if type(widget).__module__ == "tqdm.notebook" else None


def _joined(output: dict[str, Any]) -> dict[str, Any]:
    """As it is kept. A piece of stream is joined once, when asked for: adding text to text takes quadratic time."""
    if "bar" in output:
        rest = {key: value for key, value in output.items() if key != "bar"}
        return {**rest, "data": {"text/plain": repr(output["bar"])}}
    if "pieces" not in output:
        return dict(output)
    output["pieces"] = ["".join(output["pieces"])]
    return {"output_type": "stream", "name": output["name"], "text": collapse(output["pieces"][0])}


class _Tee:
    def __init__(self, stream: Any, write: Callable[[str], Any]) -> None:
        self._stream = stream
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def collapse(text: str) -> str:
    """Each line as it stood at last: what a carriage return overwrote is gone.

    One at the very end stays: what comes next is to overwrite the line.
    """
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    last = "\r" if lines[-1].endswith("\r") else ""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines) + last


def replay(shell: Any, outputs: list[dict[str, Any]]) -> None:
    """Show recorded outputs again, the way they came."""
    with patience.shared.outside():
        _replay(shell, outputs)


def _replay(shell: Any, outputs: list[dict[str, Any]]) -> None:
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            stream = sys.stderr if output["name"] == "stderr" else sys.stdout
            stream.write(output["text"])
            stream.flush()
        elif kind in ("display_data", UPDATE):
            transient = {"display_id": output["display_id"]} if output.get("display_id") else {}
            update = kind == UPDATE
            shell.display_pub.publish(output["data"], output["metadata"], transient=transient, update=update)
        elif kind == "execute_result":
            hook = shell.displayhook
            hook.start_displayhook()
            hook.write_output_prompt()
            hook.write_format_data(output["data"], output["metadata"])
            hook.finish_displayhook()


def beyond(outputs: list[dict[str, Any]], shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of recorded outputs is left to be shown when the first of them have just been shown anew.

    All of them, if that was something else.
    """
    if not shown:
        return outputs
    *whole, last = shown
    then = outputs[len(whole)] if len(outputs) > len(whole) else {}
    if outputs[: len(whole)] != whole:
        return outputs
    after = outputs[len(shown) :]
    if then == last:
        return after
    is_text = last["output_type"] == then.get("output_type") == "stream" and last["name"] == then["name"]
    if not is_text or not then["text"].startswith(last["text"]):
        return outputs
    return [{**then, "text": then["text"].removeprefix(last["text"])}, *after]


def _printable(data: Any) -> dict[str, Any]:
    """A mime bundle as JSON can say it: images as base64, as notebooks have them."""
    return {
        mime: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for mime, value in dict(data).items()
    }

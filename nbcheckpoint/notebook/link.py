"""How a page talks to its kernel, without ipywidgets. Two ways, the same words, the same answers.

*Silent execution*, which waits until the kernel is idle: an `execute_request` with no code, `silent` and one user
expression,

    __import__("nbcheckpoint.notebook.link", fromlist=["ask"]).ask("plan", "{}")

whose `application/json` is the answer. It loads the extension where it is not loaded, prints nothing and never fails.

*A comm*: the target `nbcheckpoint`, registered by `%load_ext nbcheckpoint`. A message `{"id", "ask", "args"}` is
answered by `{"id", "answer"}`; the message that opens it may ask already. Where the front end and the kernel have
subshells it is answered while a cell runs, in another thread.

| ask | args | answer |
|---|---|---|
| `status` | | `loaded busy automatic store workflow run names`: what is known without looking at any value |
| `auto` | `on` | `automatic text` |
| `plan` | `auto` | as `%checkpoint plan`; each statement with `cell_id` and `stale` |
| `restore` | `target names dry_run` | as `%checkpoint restore`; with `dry_run` only the `changes` it would make |
| `resume` | `run` | as `%checkpoint resume` |
| `forget` | `names` | `names` left: a resume begins without what a restore has bound |
| `word` | `line` | the records that `%checkpoint LINE` shows |
| `runs` | `text` | `runs more workflow`: the newest, are there older ones, and by which name this notebook's go |
| `steps` | `run` | `run steps more`: the first, with those that steps consist of; do others follow |
| `preview` | `checkpoint` | `values outputs source`, to look at |
| `answer` | `run pause value` | `run` |
| `delete` | `run` | what was removed |

The last five are about the store alone, as the server's routes of these names are; they are for pages without a
server of ours, and are answered while a cell runs, too.

A refusal is `{"message", "hint"}`, as it is everywhere else.

Invariants: while a cell runs nothing is planned, restored or resumed for anybody else: its variables are its own. And
while something is restored, a cell waits. Both are one lock, which a running cell holds.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from nbcheckpoint.errors import Error, NotFound, UsageError
from nbcheckpoint.notebook.answer import untouched_random, warm_up

if TYPE_CHECKING:
    from nbcheckpoint.notebook.cells import CellCheckpointer
    from nbcheckpoint.store import Store

TARGET = "nbcheckpoint"
MOST_RUNS = 200
MOST_STEPS = 2000


class Reply:
    """An answer. Its only face is `application/json`."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def _repr_json_(self) -> dict[str, Any]:
        return self.data


def ask(word: str, args: str = "{}") -> Reply:
    """Answer a question of the page's, given as JSON. Never raises."""
    from IPython.core.getipython import get_ipython

    from nbcheckpoint.notebook.magics import load

    try:
        given = json.loads(args)
    except ValueError as error:
        return Reply(_refusal(UsageError(f"the arguments are not JSON: {error}")))
    return Reply(link_of(load(get_ipython())).answer(word, given))


class Link:
    """One kernel's end."""

    def __init__(self, checkpointer: CellCheckpointer) -> None:
        self._checkpointer = checkpointer
        self._idle = threading.RLock()
        """Held by the cell that runs, and by whoever changes the namespace meanwhile."""
        self._depth = 0

    # What IPython calls

    def pre_run_cell(self, info: Any) -> None:
        self._idle.acquire()
        self._depth += 1

    def post_run_cell(self, result: Any) -> None:
        empty = result is not None and not (result.info.raw_cell or "").strip()
        if self._depth and not empty:  # nobody says that an empty cell begins
            self._depth -= 1
            self._idle.release()

    # What a page asks

    def opened(self, comm: Any, message: dict[str, Any]) -> None:
        comm.on_msg(lambda sent: self._reply(comm, sent))
        if message["content"]["data"]:
            self._reply(comm, message)

    def _reply(self, comm: Any, message: dict[str, Any]) -> None:
        data = message["content"]["data"]
        given = data if isinstance(data, dict) else {}
        comm.send({"id": given.get("id"), "answer": self.answer(given.get("ask"), given.get("args") or {})})

    def answer(self, word: object, args: object) -> dict[str, Any]:
        """The answer or the refusal, as plain data. Never raises."""
        try:
            if not isinstance(word, str) or word not in WORDS:
                raise UsageError(f"nothing is called {word!r:.80}", hint=f"one of: {', '.join(WORDS)}")
            if not isinstance(args, dict):
                raise UsageError(f"the arguments of {word} are not an object")
            told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(WORDS[word](self, args)))
            return told
        except Error as error:
            return _refusal(error)
        except Exception as error:
            return _refusal(Error(f"a fault of nbcheckpoint: {type(error).__name__}: {error}"))

    @contextmanager
    def _alone(self) -> Iterator[CellCheckpointer]:
        """No cell runs, and none begins meanwhile. Raises UsageError where one runs."""
        if not self._idle.acquire(blocking=False):
            raise UsageError("a cell is running", hint="ask again when it is over")
        try:
            yield self._checkpointer
        finally:
            self._idle.release()

    @contextmanager
    def _looking(self) -> Iterator[CellCheckpointer]:
        """The same, for what only looks: the random state is put back as it was. Under a cell that draws, that would
        make it draw the same numbers again; and a restore brings a state of its own."""
        with self._alone() as checkpointer, untouched_random():
            yield checkpointer

    def status(self, args: dict[str, Any]) -> dict[str, Any]:
        checkpointer = self._checkpointer
        session, shell = checkpointer.session, checkpointer.shell
        told = {"loaded": True, "busy": True, "automatic": checkpointer.automatic, "store": session.location}
        hidden = getattr(shell, "user_ns_hidden", {})
        names = [name for name in list(shell.user_ns) if not name.startswith("_") and name not in hidden]
        run = session.begun
        try:
            with self._looking():
                told |= {"busy": False}
                run = _latest(checkpointer)
        except UsageError:
            pass  # while a cell runs, the store is asked by others
        told |= {"workflow": session.workflow, "names": names}
        return {**told, "run": run.to_dict() if run is not None else None}

    def auto(self, args: dict[str, Any]) -> dict[str, Any]:
        from nbcheckpoint.notebook.auto import switch

        on = _flag(args, "on", True)
        try:
            with self._looking() as checkpointer:
                text = switch(checkpointer, ["on" if on else "off"])
        except UsageError:
            self._checkpointer.automatic, text = on, "from the next cell on"
        return {"automatic": on, "text": text}

    def plan(self, args: dict[str, Any]) -> Any:
        from nbcheckpoint.notebook.history import existing_store
        from nbcheckpoint.notebook.plan import plan

        with self._looking() as checkpointer:
            session, shell = checkpointer.session, checkpointer.shell
            auto = _flag(args, "auto", checkpointer.automatic)
            return plan(session, existing_store(session), shell.user_ns, shell.transform_cell, auto=auto).data

    def restore(self, args: dict[str, Any]) -> Any:
        from nbcheckpoint.notebook.foretell import changes
        from nbcheckpoint.notebook.timetravel import restore

        target, names = _text(args, "target"), _names(args)
        if not target:
            raise UsageError("no target", hint="give the id of a run or a checkpoint")
        if _flag(args, "dry_run", False):
            with self._looking() as checkpointer:
                return changes(checkpointer, target, names)
        with self._alone() as checkpointer:
            warm_up()
            return restore(checkpointer, target, names, run=False).data

    def resume(self, args: dict[str, Any]) -> Any:
        from nbcheckpoint.notebook.timetravel import resume

        with self._alone() as checkpointer:
            warm_up()
            return resume(checkpointer, target=_text(args, "run")).data

    def forget(self, args: dict[str, Any]) -> dict[str, Any]:
        with self._alone() as checkpointer:
            for name in _names(args) or ():
                checkpointer.shell.user_ns.pop(name, None)
        return {"names": self.status({})["names"]}

    @contextmanager
    def _reading(self) -> Iterator[Store]:
        """The store, opened once more: whatever this kernel does with its own meanwhile."""
        from nbcheckpoint.store import open_store

        session = self._checkpointer.session
        try:
            with self._looking():
                if session.opened:
                    session.store.flush()
        except UsageError:
            pass  # what the running cell has not saved yet is not there yet
        if session.location == "memory://" and session.opened:
            yield session.store  # has no name to open it by
        else:
            with open_store(session.location, create=False) as store:
                yield store

    def runs(self, args: dict[str, Any]) -> Any:
        with self._reading() as store:
            found = store.runs(text=_text(args, "text") or None, limit=MOST_RUNS + 1)
            told = {"runs": [run.to_dict() for run in found[:MOST_RUNS]], "more": len(found) > MOST_RUNS}
            return {**told, "workflow": self._checkpointer.session.workflow}

    def steps(self, args: dict[str, Any]) -> Any:
        with self._reading() as store:
            run = store.run(_text(args, "run"))
            steps = store.steps(run.id, inner=True, limit=MOST_STEPS + 1)
            told = {"steps": [step.to_dict() for step in steps[:MOST_STEPS]], "more": len(steps) > MOST_STEPS}
            return {"run": run.to_dict(), **told}

    def preview(self, args: dict[str, Any]) -> Any:
        with self._reading() as store:
            return store.preview(_text(args, "checkpoint")).to_dict()

    def answer_pause(self, args: dict[str, Any]) -> Any:
        with self._reading() as store:
            step = store.answer(_text(args, "run"), _text(args, "pause"), args.get("value"))
            return {"run": store.run(step.run).to_dict()}

    def delete(self, args: dict[str, Any]) -> Any:
        with self._reading() as store:
            return store.delete_run(_text(args, "run")).to_dict()

    def word(self, args: dict[str, Any]) -> Any:
        from nbcheckpoint.notebook import words
        from nbcheckpoint.notebook.magics import EXTRA

        with self._alone() as checkpointer:
            answer = words.answer(checkpointer, _text(args, "line"), EXTRA)
        data = getattr(answer, "data", None)
        return data if isinstance(data, dict) else {"records": data}


WORDS: dict[str, Callable[[Link, dict[str, Any]], Any]] = {
    "status": Link.status,
    "auto": Link.auto,
    "plan": Link.plan,
    "restore": Link.restore,
    "resume": Link.resume,
    "forget": Link.forget,
    "word": Link.word,
    "runs": Link.runs,
    "steps": Link.steps,
    "preview": Link.preview,
    "answer": Link.answer_pause,
    "delete": Link.delete,
}

_links: dict[int, Link] = {}


def link_of(checkpointer: CellCheckpointer) -> Link:
    """This kernel's end."""
    return _links[id(checkpointer)]


def join(checkpointer: CellCheckpointer) -> None:
    """Be there for the page, as far as there is one."""
    link = _links[id(checkpointer)] = Link(checkpointer)
    shell = checkpointer.shell
    shell.events.register("pre_run_cell", link.pre_run_cell)
    shell.events.register("post_run_cell", link.post_run_cell)
    manager = _comm_manager(shell)
    if manager is not None:
        manager.register_target(TARGET, link.opened)


def part(checkpointer: CellCheckpointer) -> None:
    link = _links.pop(id(checkpointer))
    shell = checkpointer.shell
    shell.events.unregister("pre_run_cell", link.pre_run_cell)
    shell.events.unregister("post_run_cell", link.post_run_cell)
    manager = _comm_manager(shell)
    if manager is not None:
        manager.unregister_target(TARGET, link.opened)


def _comm_manager(shell: Any) -> Any:
    """A kernel has one, plain IPython has none."""
    return getattr(getattr(shell, "kernel", None), "comm_manager", None)


def _latest(checkpointer: CellCheckpointer) -> Any:
    from nbcheckpoint.notebook.history import existing_store, latest_run

    session = checkpointer.session
    try:
        return latest_run(session, existing_store(session))
    except NotFound:
        return None


def _refusal(error: Error) -> dict[str, Any]:
    from nbcheckpoint.notebook.words import in_notebook

    return {"message": in_notebook(str(error)), "hint": in_notebook(error.hint)}


def _flag(args: dict[str, Any], name: str, otherwise: bool) -> bool:
    found = args.get(name, otherwise)
    if not isinstance(found, bool):
        raise UsageError(f"{name} is {found!r:.80}", hint="give true or false")
    return found


def _text(args: dict[str, Any], name: str) -> str:
    found = args.get(name) or ""
    if not isinstance(found, str):
        raise UsageError(f"{name} is {found!r:.80}", hint="give a text")
    return found


def _names(args: dict[str, Any]) -> list[str] | None:
    found = args.get("names")
    if found is not None and not (isinstance(found, list) and all(isinstance(name, str) for name in found)):
        raise UsageError(f"names is {found!r:.80}", hint="give a list of names")
    return found

"""`@nbc.step`: a function whose result outlives the process.

    @nbc.step(retries=3, expire="7d")
    def load(path): ...

A call is looked up by its code and inputs, as a cell's statement is; `calling.py` says how one is carried out. Inside
of a flow all of it is part of the flow's run; outside, a step is a memo that survives.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, overload

from nbcheckpoint.engine import context, policy
from nbcheckpoint.engine.calling import Call
from nbcheckpoint.engine.effects import drive, drive_async
from nbcheckpoint.engine.retry import RetryOn
from nbcheckpoint.errors import UsageError
from nbcheckpoint.units import parse_age

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from nbcheckpoint.engine.submitting import Submitted

P = ParamSpec("P")
T = TypeVar("T")
Scope = Literal["store", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What `@step` was told."""

    function: Callable[..., Any]
    name: str
    retries: int = 0
    backoff: float = 1.0
    retry_on: RetryOn | None = None
    timeout: float | None = None
    expire: float | None = None
    ignore: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    scope: Scope = "store"
    side_effects: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


class StepFunction(Generic[P, T]):
    """A function whose results are saved. Call it like the function it was made from."""

    def __init__(self, spec: Spec) -> None:
        functools.update_wrapper(self, spec.function)
        self.spec = spec

    @property
    def __nbcheckpoint_code__(self) -> Callable[..., Any]:
        return self.spec.function

    @property
    def __nbcheckpoint_files__(self) -> Sequence[str]:
        return self.spec.files

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        protocol = Call(self.spec, args, kwargs).protocol()
        found: T = drive_async(protocol) if self.spec.is_async else drive(protocol)  # type: ignore[assignment]  # then T is a coroutine
        return found

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A step may be a method: the instance is an argument like any other."""
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<step {self.spec.name}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By name, like the function it stands for."""
        return str(self.spec.function.__qualname__)

    def options(self, **changes: Any) -> StepFunction[P, T]:
        """The same step with other settings: those of `step`, or policies."""
        return StepFunction(_changed(self.spec, changes))

    def submit(self, *args: Any, executor: Executor | None = None, priority: int = 0, **kwargs: Any) -> Submitted:
        """Run it beside others, as soon as the results among its arguments are there.

        Returns a future. Futures of other steps may be arguments, or stand in a list or dict that is one.
        `speculative=True`: nothing of it is saved until the future's `confirm()`.
        """
        from nbcheckpoint.engine.submitting import submit

        return submit(self.spec, args, kwargs, executor=executor, priority=priority)

    def map(self, items: Any, **options: Any) -> Any:
        """Run it for every item, each saved as it finishes: see `nbcheckpoint.engine.mapping.map_items`."""
        from nbcheckpoint.engine.mapping import map_items

        return map_items(self.spec, items, **options)


def _changed(spec: Spec, changes: Mapping[str, Any]) -> Spec:
    own = {name: value for name, value in changes.items() if name not in policy.NAMES}
    settings = {**spec.settings, **{name: value for name, value in changes.items() if name in policy.NAMES}}
    try:
        return _spec(spec.function, replace(spec, settings=settings), own)
    except TypeError as error:
        raise UsageError(f"step {spec.name}: {error}") from error


def _spec(function: Callable[..., Any], base: Spec | None, options: Mapping[str, Any]) -> Spec:
    given = dict(options)
    if isinstance(given.get("expire"), str):
        given["expire"] = parse_age(given["expire"])
    if isinstance(given.get("timeout"), str):
        given["timeout"] = parse_age(given["timeout"])
    for name in ("ignore", "files"):
        if isinstance(given.get(name), str):
            given[name] = (given[name],)
    made = replace(base, **given) if base is not None else Spec(function=function, **given)
    policy.checked(made.settings, f"step {made.name}: ")
    if made.scope not in ("store", "run"):
        raise UsageError(f"step {made.name}: scope is {made.scope!r}", hint="store or run")
    _check(made)
    return made


def _check(made: Spec) -> None:
    """What would otherwise come up when something has failed already. Raises UsageError."""
    said = made.retry_on
    problem = ""
    if type(made.retries) is not int or made.retries < 0:
        problem = f"retries is {made.retries!r}"
    elif made.timeout is not None and not made.timeout > 0:
        problem = f"timeout is {made.timeout!r}"
    elif not made.backoff >= 0:
        problem = f"backoff is {made.backoff!r}"
    elif made.expire is not None and not made.expire >= 0:
        problem = f"expire is {made.expire!r}"
    elif said is not None and not callable(said) and not (isinstance(said, tuple) and all(map(_is_error, said))):
        problem = f"retry_on is {said!r}"
    if problem:
        raise UsageError(f"step {made.name}: {problem}", hint="help(nbcheckpoint.step) says what it takes")


def _is_error(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException)


@overload
def step(function: Callable[P, T], /) -> StepFunction[P, T]: ...
@overload
def step(
    *,
    name: str | None = None,
    retries: int = 0,
    backoff: float = 1.0,
    retry_on: RetryOn | None = None,
    timeout: float | str | None = None,
    expire: str | float | None = None,
    ignore: Sequence[str] = (),
    files: Sequence[str] = (),
    scope: Scope | None = None,
    side_effects: bool = False,
    **policies: Any,
) -> Callable[[Callable[P, T]], StepFunction[P, T]]: ...
def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A function whose results are saved: called again with the same code and inputs, it is not run again.

    `retries`, `backoff`, `retry_on`: try again after errors of these types (or for which this function is true),
    waiting longer each time; by default timeouts, connections, and HTTP 429 and 5xx. `timeout`: seconds, or `"5m"`.
    `expire="7d"`: results older than that do not count. `ignore`: arguments that do not count. `files`: patterns of
    files that do, besides those it opens. `scope="run"`: each call of a run is its own; `"store"`, the default: the
    same code and inputs anywhere are. `side_effects=True`: an attempt that was cut short is not repeated without
    asking, and the scope is the run. Everything else is a policy (`on_failure`, `on_interrupted`, …).
    """
    if function is not None:
        return _decorated(function, options)
    return functools.partial(_decorated, options=options)


def _decorated(function: Callable[..., Any], options: Mapping[str, Any]) -> StepFunction[Any, Any]:
    if not callable(function):
        raise UsageError(f"step: {function!r} is not a function", hint="put @step above a def")
    if isinstance(function, StepFunction):
        return function.options(**options)
    given = dict(options)
    settings = {name: given.pop(name) for name in tuple(given) if name in policy.NAMES}
    given["name"] = given.get("name") or getattr(function, "__name__", type(function).__name__)
    if given.get("scope") is None:
        given["scope"] = "run" if given.get("side_effects") else "store"
    try:
        return StepFunction(_spec(function, None, {**given, "settings": settings}))
    except TypeError as error:
        raise UsageError(
            f"step {given['name']}: {error}", hint="help(nbcheckpoint.step) lists what it takes"
        ) from error


def mark(**meta: Any) -> None:
    """Say something about the step that is running: it stands with the checkpoint it will leave, and can be looked for.

    It is written when the step completes: a step that fails has marked nothing.
    """
    here = context.frame()
    if here is None and not context.ambient:
        raise UsageError("mark is for use inside of a step", hint="call it in a function with @step above it")
    (here.marks if here is not None else context.marks).update(meta)

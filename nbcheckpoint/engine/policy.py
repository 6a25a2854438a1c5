"""What to do when something is interrupted, fails, cannot be saved or has changed. Pure: layers in, one answer out.

Each setting is looked for in layers, nearest first: the call, the step, the flow, the notebook's metadata, the
project's configuration (`[tool.nbcheckpoint]` in pyproject.toml), the environment (`NBCHECKPOINT_ON_FAILURE` and so
on), the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from nbcheckpoint import config
from nbcheckpoint.errors import UsageError
from nbcheckpoint.units import parse_age, parse_size

OnInterrupted = Literal["rerun", "ask", "skip", "fail"]
OnFailure = Literal["pause", "continue", "rollback"]
OnSaveError = Literal["warn", "fail"]
OnChange = Literal["invalidate", "strict", "trust"]
OnSuccess = Literal["keep", "delete"]
Granularity = Literal["step", "group", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The settings of one step or flow."""

    on_interrupted: OnInterrupted = "rerun"
    """A step was running when its process died. Of a step with `side_effects`, `ask` is the default."""
    on_failure: OnFailure = "pause"
    """`pause`: everything stays, and the error says how to go on. `continue`: the step's result is None. `rollback`:
    the run and what only it had saved are removed."""
    on_save_error: OnSaveError = "warn"
    """`warn`: the value stays live, and the step is not counted as saved."""
    on_change: OnChange = "invalidate"
    """Code differs from what a resumed run had. `strict`: stop. `trust`: take what was saved for the same arguments."""
    on_success: OnSuccess = "keep"
    every: int | str = 1
    """Save every so many steps, or so often (`"30s"`); 0 saves none. The end of a run is always saved."""
    granularity: Granularity = "step"
    """`group`: the members of a map are saved together. `manual`: only steps that call `mark`."""
    warn_size: int | str = "1GB"


NAMES = tuple(field.name for field in fields(Policies))
_CHOICES: dict[str, tuple[str, ...]] = {
    "on_interrupted": get_args(OnInterrupted),
    "on_failure": get_args(OnFailure),
    "on_save_error": get_args(OnSaveError),
    "on_change": get_args(OnChange),
    "on_success": get_args(OnSuccess),
    "granularity": get_args(Granularity),
}

notebooks: list[Callable[[], Mapping[str, Any]]] = []
"""What the notebook's own metadata say. Filled in by whoever runs in one."""


def checked(settings: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """The settings, if each is one there is, with a value it takes. Raises UsageError."""
    for name, value in settings.items():
        if name not in NAMES:
            raise UsageError(f"{where}there is no setting {name!r}", hint=f"there are: {', '.join(NAMES)}")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise UsageError(f"{where}{name} is {value!r}", hint=f"one of: {', '.join(_CHOICES[name])}")
        if name == "every":
            interval(value)
        if name == "warn_size":
            size(value)
    return dict(settings)


def resolve(*layers: Mapping[str, Any], side_effects: bool = False) -> Policies:
    """Each setting from the first layer that has it, then from the notebook, the project and the environment."""
    found: dict[str, Any] = {"on_interrupted": "ask"} if side_effects else {}
    ambient = (*(said() for said in notebooks), config.project_settings(), environment())
    for layer in reversed((*layers, *ambient)):
        found.update({name: value for name, value in checked(layer).items() if value is not None})
    return Policies(**found)


def environment() -> dict[str, Any]:
    """`NBCHECKPOINT_ON_FAILURE=continue` and so on."""
    said = {name: os.environ.get(f"NBCHECKPOINT_{name.upper()}") for name in NAMES}
    return checked({name: value for name, value in said.items() if value}, "in the environment ")


def interval(every: int | str) -> tuple[int, float]:
    """(steps, seconds) between two saves: one of them is zero; both are where nothing is saved."""
    if isinstance(every, bool) or not isinstance(every, (int, str)) or (isinstance(every, int) and every < 0):
        raise UsageError(f"every is {every!r}", hint='give a number of steps, a time like "30s", or 0 for never')
    if isinstance(every, int) or every.isdigit():
        return int(every), 0.0
    return 0, parse_age(every)


def size(limit: int | str) -> int:
    return limit if isinstance(limit, int) else parse_size(limit)

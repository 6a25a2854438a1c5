"""Options of well-known libraries: as inputs and as effects of a step, like random generators.

`np.seterr(all="raise")` decides whether a later step fails, `pd.set_option` what it shows. Nothing of that is in a
variable. So the options that are not at their default are read before a step; they have to be the same for its result
to be used again; and those it changed are saved with what it leaves, and put back with it.

Options of *display* count only for steps that show more than plain text or leave text behind: nobody wants a model
trained again because a table is to be shown with more rows. What was printed is shown again as it was printed.

Reading all of them takes some 50 microseconds, and imports nothing: what is not loaded is at its default.
"""

from __future__ import annotations

import decimal
import locale
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from blake3 import blake3

PREFIX = "set:"
"""No identifier contains a colon, so these never clash with a variable."""
DISPLAY = frozenset({"set:numpy display", "set:pandas display", "set:polars display", "set:matplotlib"})

_PRINTING = {
    "edgeitems": 3,
    "threshold": 1000,
    "floatmode": "maxprec",
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "formatter": None,
    "legacy": False,
    "override_repr": None,
}
_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_TORCH = {"grad": True, "dtype": "torch.float32", "deterministic": False, "precision": "highest"}
_POLARS = {
    "set_fmt_float": "mixed",
    "set_float_precision": None,
    "set_thousands_separator": "",
    "set_decimal_separator": ".",
    "set_trim_decimal_zeros": False,
}
_NOT_SHOWN = frozenset({"POLARS_ENGINE_AFFINITY", "POLARS_VERBOSE", "POLARS_WARN_UNSTABLE"})
"""Options of polars that do not change what is shown."""
_SHOWN = ("display.", "styler.", "plotting.")
_CATEGORIES = ("LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY")
_recursion = sys.getrecursionlimit()

State = Mapping[str, Any]


class Setting(NamedTuple):
    """One library's options, or one kind of them."""

    name: str
    read: Callable[[], State]
    """Those that are not at their default. Empty if the library is not loaded."""
    put: Callable[[State], None]
    """Make them what they were, all others at their default."""
    is_input: bool = True
    """Can a result depend on them?"""


def states() -> dict[str, State]:
    """All that are not at their default, by name."""
    return {PREFIX + s.name: state for s in _SETTINGS if (state := s.read())}


def digest(state: State | None) -> str:
    """The identity of a state, one for everything at its default. A function among them is never what it was."""
    if not state:
        return "default"
    return blake3(repr(sorted(state.items())).encode("utf-8", "surrogatepass")).hexdigest()


def counts(name: str) -> bool:
    """Can a result depend on it?"""
    return _BY_NAME[name].is_input


def moved(before: Mapping[str, State], after: Mapping[str, State]) -> dict[str, State]:
    """Those that are not what they were, as they are now."""
    names = sorted(before.keys() | after.keys())
    return {name: after.get(name, {}) for name in names if before.get(name, {}) != after.get(name, {})}


def restore(name: str, state: State) -> None:
    """Put them back. A library that is not loaded is loaded: the step that set them had it."""
    if name in _BY_NAME:
        _BY_NAME[name].put(state)


# One by one


def _other(now: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in now.items() if key in default and _differs(value, default[key])}


def _differs(one: Any, other: Any) -> bool:
    try:
        return one is not other and bool(one != other)
    except Exception:  # a comparison of some library's that cannot be made
        return True


def _loaded(name: str) -> Any:
    return sys.modules.get(name)


def _read_printing() -> State:
    numpy = _loaded("numpy")
    return _other(numpy.get_printoptions(), _PRINTING) if hasattr(numpy, "get_printoptions") else {}


def _put_printing(state: State) -> None:
    import numpy

    there = numpy.get_printoptions().keys()  # before 2.1 there are fewer
    numpy.set_printoptions(**{**{name: value for name, value in _PRINTING.items() if name in there}, **state})


def _read_errors() -> State:
    numpy = _loaded("numpy")
    return _other(numpy.geterr(), _ERRORS) if hasattr(numpy, "geterr") else {}


def _put_errors(state: State) -> None:
    import numpy

    numpy.seterr(**{**_ERRORS, **state})


def _pandas(shown: bool) -> Iterator[tuple[str, Any, Any]]:
    config = _loaded("pandas._config.config")
    defaults = getattr(config, "_registered_options", {})
    stack: list[tuple[str, Any]] = [("", getattr(config, "_global_config", {}))]
    while stack:
        path, found = stack.pop()
        if isinstance(found, dict):
            stack.extend((f"{path}.{key}" if path else key, value) for key, value in found.items())
        elif path in defaults and path.startswith(_SHOWN) is shown:
            yield path, found, defaults[path].defval


def _read_pandas(shown: bool) -> Callable[[], State]:
    return lambda: {path: now for path, now, default in _pandas(shown) if _differs(now, default)}


def _put_pandas(shown: bool) -> Callable[[State], None]:
    def put(state: State) -> None:
        import pandas

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some are deprecated
            for path, now, default in list(_pandas(shown)):
                wanted = state.get(path, default)
                if _differs(now, wanted):
                    pandas.set_option(path, wanted)

    return put


def _read_matplotlib() -> State:
    matplotlib = _loaded("matplotlib")
    now, default = getattr(matplotlib, "rcParams", {}), getattr(matplotlib, "rcParamsOrig", {})
    # Past its own access, which loads backends.
    return {
        key: value
        for key, value in dict.items(now)
        if "backend" not in key and "interactive" not in key and _differs(value, dict.get(default, key))
    }


def _put_matplotlib(state: State) -> None:
    import matplotlib

    now, default = cast("dict[str, Any]", matplotlib.rcParams), cast("dict[str, Any]", matplotlib.rcParamsOrig)
    for key in _read_matplotlib().keys() - state.keys():
        dict.__setitem__(now, key, dict.get(default, key))
    for key, value in state.items():
        dict.__setitem__(now, key, value)


def _read_polars() -> State:
    config: Any = getattr(_loaded("polars"), "Config", None)
    if not hasattr(config, "state"):
        return {}
    now = config.state(if_set=True)
    return {name: value for name, value in now.items() if _differs(value, _POLARS.get(name)) and name not in _NOT_SHOWN}


def _put_polars(state: State) -> None:
    """Those that are not in the environment, which is not put back."""
    import polars

    for name, default in _POLARS.items():
        if hasattr(polars.Config, name):
            getattr(polars.Config, name)(state.get(name, default))


def _read_sklearn() -> State:
    config = _loaded("sklearn._config")
    return _other(config.get_config(), config._global_config) if hasattr(config, "_global_config") else {}


def _put_sklearn(state: State) -> None:
    config: Any = import_module("sklearn._config")
    config.set_config(**{**config._global_config, **state})


def _read_torch() -> State:
    torch = _loaded("torch")
    if not hasattr(torch, "are_deterministic_algorithms_enabled"):  # not loaded, or still being
        return {}
    now = {
        "grad": torch.is_grad_enabled(),
        "dtype": str(torch.get_default_dtype()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
    }
    return _other(now, _TORCH)


def _put_torch(state: State) -> None:
    torch: Any = import_module("torch")
    wanted = {**_TORCH, **state}
    torch.set_grad_enabled(wanted["grad"])
    torch.set_default_dtype(getattr(torch, wanted["dtype"].removeprefix("torch.")))
    torch.use_deterministic_algorithms(wanted["deterministic"])
    torch.set_float32_matmul_precision(wanted["precision"])


def _read_decimal() -> State:
    return _other(_context(decimal.getcontext()), _context(decimal.DefaultContext))


def _context(context: decimal.Context) -> dict[str, Any]:
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    traps = sorted(signal.__name__ for signal, on in context.traps.items() if on)
    return {**{name: getattr(context, name) for name in names}, "traps": traps}


def _put_decimal(state: State) -> None:
    whole = {**_context(decimal.DefaultContext), **state}
    traps = {getattr(decimal, name) for name in whole.pop("traps")}
    context = decimal.getcontext()
    for name, value in whole.items():
        setattr(context, name, value)
    for signal in context.traps:
        context.traps[signal] = signal in traps


def _read_locale() -> State:
    now = {name: locale.setlocale(getattr(locale, name)) for name in _CATEGORIES if hasattr(locale, name)}
    return {name: value for name, value in now.items() if value != "C"}


def _put_locale(state: State) -> None:
    for name in _CATEGORIES:
        if hasattr(locale, name):
            locale.setlocale(getattr(locale, name), state.get(name, "C"))


def _read_recursion() -> State:
    now = sys.getrecursionlimit()
    return {"limit": now} if now != _recursion else {}


def _put_recursion(state: State) -> None:
    sys.setrecursionlimit(state.get("limit", _recursion))


def _read_logging() -> State:
    levels = {name: at for name, known in logging.root.manager.loggerDict.items() if (at := getattr(known, "level", 0))}
    if logging.root.level != logging.WARNING:
        levels[""] = logging.root.level
    return {**levels, "\0": logging.root.manager.disable} if logging.root.manager.disable else levels


def _put_logging(state: State) -> None:
    logging.disable(state.get("\0", 0))
    for name, level in {"": logging.WARNING, **state}.items():
        if name != "\0":
            logging.getLogger(name or None).setLevel(level)


def _read_warnings() -> State:
    """The filters, in order: one that is asked later comes later."""
    return {str(at): found for at, found in enumerate(warnings.filters)}


def _put_warnings(state: State) -> None:
    wanted = list(state.values())
    # Those that something imported since has added stay, behind.
    warnings.filters[:] = [*wanted, *(one for one in warnings.filters if one not in wanted)]  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]  # so that what was decided by the old ones is forgotten


def _read_strict() -> State:
    """Warnings that are errors."""
    strict = [repr(found[:4]) for found in warnings.filters if found[0] == "error"]
    return {"error": strict} if strict else {}


_SETTINGS = (
    Setting("numpy display", _read_printing, _put_printing),
    Setting("numpy", _read_errors, _put_errors),
    Setting("pandas display", _read_pandas(True), _put_pandas(True)),
    Setting("pandas", _read_pandas(False), _put_pandas(False)),
    Setting("matplotlib", _read_matplotlib, _put_matplotlib),
    Setting("polars display", _read_polars, _put_polars),
    Setting("sklearn", _read_sklearn, _put_sklearn),
    Setting("torch", _read_torch, _put_torch),
    Setting("decimal", _read_decimal, _put_decimal),
    Setting("locale", _read_locale, _put_locale),
    Setting("recursion", _read_recursion, _put_recursion, is_input=False),
    Setting("logging", _read_logging, _put_logging, is_input=False),
    Setting("warnings", _read_warnings, _put_warnings, is_input=False),
    Setting("warnings as errors", _read_strict, lambda _: None),
)
_BY_NAME = {PREFIX + setting.name: setting for setting in _SETTINGS}

"""Objects that refuse to be pickled, though they are nothing but what they hold.

patsy's do so for the time being, and whoever has one cannot be saved: no model that was given a formula. What
statsmodels does instead, it makes the design anew where it is loaded, from names that mean something else there.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from nbcheckpoint import bases
from nbcheckpoint.whose import package_of

_PICKLES = ("__getstate__", "__reduce__")
_WITH_DESIGN = "statsmodels.base.data"
Reducer = Callable[[Any], Any]


def reducers() -> dict[type, Reducer]:
    """For exactly these types. Each returns what `__reduce_ex__` would."""
    if "patsy" not in sys.modules and _WITH_DESIGN not in sys.modules:
        return {}
    return _of(*(name for name in list(sys.modules) if name.startswith("patsy.") or name == _WITH_DESIGN))


def shown() -> dict[type, Reducer]:
    """The same for who only looks: nothing needs to be made again."""
    return dict.fromkeys(reducers(), _show)


def refuses(kind: Any) -> bool:
    """Does it say so, and nothing else?"""
    own = (vars(cls) for cls in type.mro(kind) if package_of(cls) == "patsy")
    return any(name in members for members in own for name in _PICKLES)


@lru_cache(maxsize=8)
def _of(*loaded: str) -> dict[type, Reducer]:
    there = (found for name in loaded for found in list(vars(sys.modules[name]).values()) if isinstance(found, type))
    model: Any = getattr(sys.modules.get(_WITH_DESIGN), "ModelData", ())
    return {kind: _reduce for kind in there if refuses(kind) or issubclass(kind, model)}


def reduce_array(array: Any) -> Any:
    """What is in it. Its attributes are another matter."""
    kind: Any = type(array)
    return (sys.modules["numpy"].ndarray if refuses(kind) else kind).__reduce__(array)


def _reduce(obj: Any) -> Any:
    if bases.is_array(obj):
        return reduce_array(obj)
    return copyreg.__newobj__, (type(obj),), vars(obj), None, None, _fill  # type: ignore[attr-defined]


def _show(obj: Any) -> Any:
    return _reduce(obj)[:3]


def _fill(obj: Any, attributes: dict[str, Any]) -> None:
    vars(obj).update(attributes)

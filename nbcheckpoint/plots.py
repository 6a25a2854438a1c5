"""Figures of plotly on their way into a pickle or a digest: what they are made from, and which part is of which figure.

Their own pickles turn arrays into what a browser is sent, put properties into another order, and take every part of a
figure for one that stands alone: what was done to it would not be seen in the figure any more.
"""

from __future__ import annotations

import pickle
import sys
from functools import lru_cache
from typing import Any

from nbcheckpoint.whose import package_of


def is_plot(kind: Any) -> bool:
    """A figure, or a part of one?"""
    return "plotly.basedatatypes" in sys.modules and _is_plot(kind)


@lru_cache(maxsize=4096)
def _is_plot(kind: Any) -> bool:
    base: Any = sys.modules["plotly.basedatatypes"]
    if any(package_of(cls) == "traitlets" for cls in type.mro(kind)):
        return False  # a widget is a conversation
    return getattr(kind, "__reduce__", None) in (base.BaseFigure.__reduce__, base.BasePlotlyType.__reduce__)


def reduce_plot(obj: Any) -> Any:
    """What `__reduce_ex__` would return. Raises PicklingError if it is a part that its figure has lost."""
    if isinstance(obj, sys.modules["plotly.basedatatypes"].BaseFigure):
        props = {"data": obj._data, "layout": obj._layout, "frames": [frame._props for frame in obj._frame_objs]}
        return _make_figure, (type(obj), {**props, "_grid_str": obj._grid_str, "_grid_ref": obj._grid_ref})
    if obj._parent is None:
        return _make_part, (type(obj), obj._props)
    return _part_of, (obj._parent, *_place(obj, obj._parent))


def is_rule(kind: type) -> bool:
    """What says which properties there may be: all figures refer to it, and nothing of theirs is in there."""
    return package_of(kind) == "_plotly_utils"


def _make_figure(kind: Any, props: dict[str, Any]) -> Any:
    made = kind(_copied(props))
    _arrange(made._data, props["data"])
    _arrange(made._layout, props["layout"])
    _arrange([frame._props for frame in made._frame_objs], props["frames"])
    return made


def _make_part(kind: Any, props: dict[str, Any]) -> Any:
    made = kind(_copied(props))
    _arrange(made._props, props)
    return made


def _part_of(parent: Any, name: str, at: int | None) -> Any:
    return parent[name] if at is None else parent[name][at]


def _place(part: Any, parent: Any) -> tuple[str, int | None]:
    if isinstance(parent, sys.modules["plotly.basedatatypes"].BaseFigure):
        single, many = {"layout": parent._layout_obj}, {"data": parent._data_objs}
    else:
        single, many = parent._compound_props, parent._compound_array_props
    alone = ((name, None) for name, found in single.items() if found is part)
    listed = ((name, at) for name, parts in many.items() for at, found in enumerate(parts or ()) if found is part)
    place: tuple[str, int | None] | None = next(alone, None) or next(listed, None)
    if place is None:
        raise pickle.PicklingError("a part of a figure that has another one in its place")
    return place


def _copied(props: Any) -> Any:
    """For who makes something of it, and takes things out of it and puts them back meanwhile."""
    if isinstance(props, dict):
        return {name: _copied(inside) for name, inside in props.items()}
    return [_copied(inside) for inside in props] if type(props) is list else props


def _arrange(made: Any, like: Any) -> None:
    """The same properties in the same order, and no others."""
    if isinstance(made, dict) and isinstance(like, dict):
        there = dict(made)
        made.clear()
        made.update((name, there[name] if name in there else _copied(like[name])) for name in like)
        for name, inside in made.items():
            _arrange(inside, like[name])
    elif isinstance(made, (list, tuple)) and isinstance(like, (list, tuple)):
        for one, other in zip(made, like, strict=False):
            _arrange(one, other)

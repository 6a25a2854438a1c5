"""What libraries keep inside of their objects that says nothing about them.

It is made from all the rest when it is first asked for, is a number that is another one in every process, or memory
that nobody has written to. Two objects that differ in nothing else are equal, and one that was asked something is what
it was. Each of these was looked up in the library: where it comes from, and that nothing it answers depends on it.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Any

from nbcheckpoint.whose import home_of, name_of

_DERIVED = {
    "statsmodels.genmod.generalized_linear_model.GLM": {"_tmp_like_exog"},
    "pydantic.fields.ModelPrivateAttr": {"_default_factory_takes_validated_data"},
    "pydantic._internal._decorators.Decorator": {"cls_ref"},
}
"""Attributes by the class that has them, and all that are made from it."""
_ANY_ORDER = frozenset({"statsmodels.tsa.statespace.mlemodel.MLEResults"})
"""Classes that set attributes in the order of a set of their names: that follows the hash seed."""


@lru_cache(maxsize=4096)
def has_derived(kind: Any) -> bool:
    """Is there anything about its instances that is of no consequence?"""
    return bool(derived(kind)) or not _ANY_ORDER.isdisjoint(_homes(kind))


@lru_cache(maxsize=4096)
def derived(kind: Any) -> frozenset[str]:
    """Attributes of its instances that are of no consequence."""
    return frozenset().union(*(_DERIVED.get(home, ()) for home in _homes(kind)))


def _homes(kind: Any) -> list[str]:
    return [f"{home_of(cls)}.{name_of(cls)}" for cls in type.mro(kind)[:-1]]


def without_derived(obj: Any) -> tuple[Any, ...]:
    """What pickle would write of it, without those."""
    function, args, state, items, pairs = (*obj.__reduce_ex__(5), None, None, None)[:5]
    kind: Any = type(obj)
    out = derived(kind)
    parts = state if isinstance(state, tuple) else (state,)
    kept = [
        {n: v for n, v in sorted(part.items()) if n not in out} if isinstance(part, dict) else part for part in parts
    ]
    return function, args, kept, list(items or ()), list(pairs or ())


def members_of(flags: type[enum.Flag]) -> dict[Any, Any]:
    """Those of a class of flags that have a name. Combinations of them are kept there from when they are first made."""
    known = flags._value2member_map_
    return {value: one for value, one in known.items() if flags._member_map_.get(str(one._name_)) is one}

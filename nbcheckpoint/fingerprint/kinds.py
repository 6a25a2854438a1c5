"""What kind of thing a value is, as far as that matters to who looks at it."""

from __future__ import annotations

import copyreg
import enum
import sys
import types
from typing import Any

from nbcheckpoint import bases, tensors, unpickled
from nbcheckpoint.whose import home_of, is_user_code, name_of, package_of


def is_mutable(kind: type) -> bool:
    """Does it matter which of two equal objects of this type one has?

    Hashable by value means immutable by convention; unhashable, or hashed by identity, means it may change.
    """
    # Not `kind.__hash__`: a class may answer attribute access with code of its own (mocks make new mocks).
    for cls in type.mro(kind):
        if "__hash__" in cls.__dict__:
            return cls.__dict__["__hash__"] is None or cls is object or _is_changeable(kind, cls)
    return True


def _is_changeable(kind: type, hashed: type) -> bool:
    """A class of the user's with a hash of its own, or of what it was made from, whose attributes can be set all the
    same."""
    if home_of(hashed) == "torch":
        return tensors.is_tensor(kind)
    if bases.is_of_rows(kind):
        return True
    if issubclass(kind, (tuple, str, bytes, int, float, enum.Enum)):
        return False
    if not is_user_code(hashed):
        return unpickled.loses_attributes(kind)
    parameters = kind.__dict__.get("__dataclass_params__")
    return not getattr(parameters, "frozen", False)


def is_replaced(obj: Any) -> bool:
    """A class of the notebook's whose name another one has got, be it the same code run again? Its instances are no
    instances of that."""
    if not isinstance(obj, type) or home_of(obj) != "__main__":
        return False
    found: Any = sys.modules.get("__main__")
    for part in name_of(obj).split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return isinstance(found, type) and found is not obj


def writes_its_pickles(kind: type) -> bool:
    """Has the user written what its pickles hold?"""
    if package_of(kind) in ("builtins", "numpy", "pandas"):
        return False
    if kind in copyreg.dispatch_table and is_user_code(kind):
        return True
    own = ("__getstate__", "__reduce__", "__reduce_ex__")
    return any(name in vars(cls) for cls in type.mro(kind)[:-1] if is_user_code(cls) for name in own)


def is_offered(method: types.MethodType) -> bool:
    """Does a library offer it as a function? What it is bound to is the library's own: `multiprocessing.Pool`."""
    of = type(method.__self__)
    module = sys.modules.get(package_of(of))
    return module is not None and not is_user_code(of) and vars(module).get(method.__name__) == method


def is_of_its_class(method: types.MethodType) -> bool:
    """Would its name, looked up where it is bound to, give it again? That is how pickle writes it."""
    of, name = method.__self__, getattr(method.__func__, "__name__", "")
    if name in getattr(of, "__dict__", {}) and not isinstance(of, type):
        return False
    found = next(
        (vars(cls)[name] for cls in type.mro(of if isinstance(of, type) else type(of)) if name in vars(cls)), None
    )
    return getattr(found, "__func__", found) is method.__func__


def is_unread(obj: Any) -> bool:
    """A table of polars that is only a plan, and begins with files? Or one of Arrow's that is only their names?"""
    arrow: Any = sys.modules.get("pyarrow.dataset")
    if arrow is not None and isinstance(obj, (arrow.FileSystemDataset, arrow.UnionDataset, arrow.Fragment)):
        return True
    polars: Any = sys.modules.get("polars")
    kind: Any = getattr(polars, "LazyFrame", None)
    return kind is not None and isinstance(obj, kind) and "SCAN" in obj.explain(optimized=False)


def is_copy_on_write(obj: Any) -> bool:
    if package_of(type(obj)) != "pandas":
        return False
    pandas = sys.modules["pandas"]
    if not isinstance(obj, (pandas.DataFrame, pandas.Series)):
        return False
    return int(pandas.__version__.partition(".")[0]) >= 3

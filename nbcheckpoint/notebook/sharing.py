"""Which variables share objects.

There are two ways to tell. Walking from every variable to all it leads to is always possible, and takes the longer the
more objects there are in the notebook. Mostly it need not be done: what a statement has made is referred to by its name
and by nothing else, and that can be seen from the objects themselves. Python counts the references to each of them;
where all are accounted for, by each other, by names and by whoever is known to look on, no other variable can lead
there. Those are the sums Python's collector of cycles does, and they rest on the same ground: no object shows it more
references than it holds. One that shows fewer, or does not count, leaves a doubt; then everything is walked through.

From pandas 3 on, frames and columns that lie in the same memory behave as if they did not: who is about to write and is
not alone copies it first. Such memory is *lent*, and makes nobody share anything, but for those who have it otherwise:
an array that looks into a frame.

A function, a class or a member of an enum that is found by its name is saved as that name, so what hangs on it (a list
for all instances, a default) is not saved along: an instance does not share it. Whoever holds such a list itself does,
with the class.
"""

from __future__ import annotations

import enum
import gc
import logging
import operator
import sys
import types
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, compress, islice
from typing import Any, NamedTuple

from nbcheckpoint import bars, bases, constants, loggers, over, plots, tensors, trees, unpickled
from nbcheckpoint.codec.faithful import held_as
from nbcheckpoint.codec.pickle import is_live
from nbcheckpoint.fingerprint.kinds import is_mutable
from nbcheckpoint.notebook.namespace import is_user_name
from nbcheckpoint.whose import home_of, is_user_code, package_of

_CODE = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType),
    *(property, classmethod, staticmethod, types.MemberDescriptorType, types.GetSetDescriptorType),
    enum.Enum,  # a member is its class's
)
_IMMUTABLE = (str, bytes, int, float, complex, bool, type(None), range, slice, type(...), types.TracebackType)
"""A traceback leads to all there is, by way of who called whom; it is not saved, so nothing is shared by way of it."""
MAX_WALK = 2_000_000
"""Objects looked at before sharing is taken for granted: about five seconds."""
_WALK_SECONDS = 2.5e-6
_PLAIN = frozenset(_IMMUTABLE)
_PLAIN_SHARE = 16
"""So many strings or numbers in one container are passed in the time one object is looked at."""
_MAX_COUNTED = 10_000
"""Objects whose references are counted before walking seems quicker."""
_CONTAINERS = frozenset({list, set, frozenset})
"""Not tuples: those inside of an iterator may have a hole where something is over, and who looks there is gone."""
_BUILTIN = frozenset({list, tuple, dict})
"""Nobody can refer to these weakly."""
_UNCOUNTED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType, logging.Logger)
"""What is on the stacks of the first may be shown and not be counted, from Python 3.14 on. The last is everybody's."""


class Lent(NamedTuple):
    """Memory of frames and columns."""

    memory: Any
    among: set[int]
    """Which of those groups that keep count of each other have it."""


class Reached(NamedTuple):
    """What some values lead to, by id. Holds it while comparing."""

    found: dict[int, Any]
    """Every mutable object."""
    lent: dict[int, Lent]

    def objects(self) -> list[Any]:
        return [*self.found.values(), *(lent.memory for lent in self.lent.values())]


def walk_within(seconds: float) -> int:
    """How many objects can be looked at in that time? What takes no time is always done."""
    return max(MAX_WALK // 40, min(MAX_WALK, int(seconds / _WALK_SECONDS)))


def sharing(
    names: Iterable[str],
    namespace: dict[str, Any],
    *,
    roots: Iterable[Any] = (),
    lookers_on: Sequence[dict[Any, Any]] = (),
    private: bool = False,
    walk: int = MAX_WALK,
) -> set[str] | None:
    """The other names whose values share a mutable object with one of these, or with a root that has no name.

    None if that is too much to tell. `lookers_on` refer to values and are nobody's variables. If the roots are
    `private`, no variable leads to them, but maybe to what they hold.
    """
    wanted = set(names)
    roots = list(roots)
    if private or not roots:
        told = _told_by_counts(wanted, namespace, roots, lookers_on)
        if told is not None:
            return told
    return _told_by_walking(wanted, namespace, roots, [walk])


def _told_by_walking(
    wanted: set[str], namespace: dict[str, Any], roots: list[Any], budget: list[int]
) -> set[str] | None:
    mine = _reachable([*roots, *(namespace[name] for name in wanted if name in namespace)], budget, saved=True)
    if mine is None or not mine.found:
        return None if mine is None else set()
    touches = tensors.touching(mine.objects())
    found = set()
    for name, value in (*namespace.copy().items(), *_user_modules()):
        if name in wanted or not is_user_name(name) or type(value) in _PLAIN:
            continue
        theirs = _reachable([value], budget)
        if theirs is None:
            return None
        if _share(mine, theirs) or touches(theirs.objects()):
            found.add(name)
    return found


def _share(mine: Reached, theirs: Reached) -> bool:
    if not mine.found.keys().isdisjoint(theirs.lent.keys()):
        return True
    common = mine.found.keys() & theirs.found.keys()
    if common and not common <= _of_libraries([mine.found[key] for key in common]):
        return True
    if not mine.lent.keys().isdisjoint(theirs.found.keys()):
        return True
    both = [(mine.lent[key], theirs.lent[key]) for key in mine.lent.keys() & theirs.lent.keys()]
    # Of those who do not keep count of each other, one would write and the other see it.
    return any(a.among != b.among for a, b in both if a.among and b.among and _is_array(a.memory))


def _of_libraries(objects: Collection[Any]) -> set[int]:
    """Those that some library has among its own, and what they lead to: they are everybody's."""
    some = any(constants.of_package(package_of(kind)) for kind in set(map(type, objects)))
    own = [obj for obj in objects if constants.is_of_library(obj)] if some else []
    reached = _reachable(own, [MAX_WALK]) if own else None
    return set(reached.found) if reached is not None else set()


def _told_by_counts(
    wanted: set[str], namespace: dict[str, Any], roots: list[Any], lookers_on: Sequence[dict[Any, Any]]
) -> set[str] | None:
    """What walking would find; or None, where the counts leave a doubt."""
    probe: list[Any] = []  # nothing but this variable refers to it: what is counted besides is counted of all of them
    met, inside, kept = _counted([probe, *roots, *(namespace[name] for name in wanted if name in namespace)])
    results = namespace.get("Out")
    holders = {id(one): one for one in (namespace, *lookers_on, results) if type(one) is dict}
    if met is None or not holders.keys().isdisjoint(met):
        return None
    if len(met) == 1:
        return set()  # the probe: there is nothing that could be shared
    if _is_looked_on(wanted, namespace, holders):
        return None  # who looks on, and is a variable too, leads to all of it
    counts = dict(zip(met, map(sys.getrefcount, met.values()), strict=True))
    kept.clear()
    always = counts.pop(id(probe)) - 1
    for root in roots:
        counts.pop(id(root), None)
    by_name = (id(holder.get(name)) for holder in holders.values() for name in wanted)
    if _explained(counts, always, inside, by_name):
        return set()  # nobody else refers to any of it
    # A list first, which is made in one go: a thread may be binding names.
    in_holders = chain.from_iterable(list(map(id, list(holder.values()))) for holder in holders.values())
    if not _explained(counts, always, inside, in_holders):
        return None
    names, ids = _names_and_ids(namespace)
    holding = compress(zip(names, ids, strict=True), map(counts.__contains__, ids))
    others = {name: met[key] for name, key in holding if name not in wanted and is_user_name(name)}
    return set(others) if all(is_mutable(type(value)) for value in others.values()) else None


def _is_looked_on(wanted: set[str], namespace: dict[str, Any], holders: dict[int, Any]) -> bool:
    """Is another variable one of those who hold values? Asked after every statement, so in one go if it is not."""
    looking_on = sum(map(holders.__contains__, map(id, list(namespace.values()))))
    if looking_on == sum(id(namespace.get(name)) in holders for name in ("Out", "_oh")):
        return False
    names, ids = _names_and_ids(namespace)
    return any(n not in wanted and is_user_name(n) for n in compress(names, map(holders.__contains__, ids)))


def _explained(counts: dict[int, int], always: int, inside: Counter[int], held: Iterable[int]) -> bool:
    """Are these all references there are: from inside, and by those who hold them?"""
    found = Counter(filter(counts.__contains__, held))
    return all(count - always == inside[key] + found[key] for key, count in counts.items())


def _names_and_ids(namespace: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Without the values themselves: who holds them is counted. There may be thousands, so no line is run for each."""
    there = namespace.copy()  # a thread may be binding names
    return list(there), list(map(id, there.values()))


def _counted(values: list[Any]) -> tuple[dict[int, Any] | None, Counter[int], list[dict[int, Any]]]:
    """id -> object for everything reachable as data through which something mutable can be reached, but for what is
    known to be held once; how often they refer to each other; and what must be held while they are counted.

    None: there is something whose references do not tell. The list is used up."""
    met: dict[int, Any] = {}
    kept: list[dict[int, Any]] = []
    edges: list[int] = []
    passed = _everybodys()
    weak: list[int] = []
    most = _MAX_COUNTED
    obj = held = tree = None
    while values:
        obj = values.pop()
        if type(obj) in _PLAIN or id(obj) in met or id(obj) in passed:
            continue
        if type(obj) in weakref.ProxyTypes:
            return None, Counter(), kept
        builtin = type(obj) in _BUILTIN
        tree = trees.inside(obj) if builtin and len(obj) >= trees.WORTH_A_LOOK else None
        if tree is not None and all(map(tree.keys().isdisjoint, (met, *kept))):
            kept.append(tree)
            if _are_held_once(tree):
                met[id(obj)] = obj
                edges.append(id(obj))  # the tree refers to it, too
            else:
                met.update(tree)
                edges += chain(tree, islice(tree, 1, None))  # the first one is held by whoever led here
            continue
        if not builtin and isinstance(obj, _IMMUTABLE):
            continue
        if not builtin and isinstance(obj, _CODE):
            if next(_made_at_run_time(obj), None) is not None:
                return None, Counter(), kept
            passed[id(obj)] = obj
            if not _is_found_by_name(obj):
                values.extend(_held_by(obj))
            continue
        held = list(_not_plain(inside(obj))) if builtin else _refers_to(obj)
        most -= 1 + len(held) if held is not None else 0
        if held is None or most < 0:
            return None, Counter(), kept
        if not builtin and isinstance(obj, weakref.ref):
            values.append(obj())
        elif not held and not is_mutable(type(obj)):
            continue
        met[id(obj)] = obj
        if held:
            edges.extend(map(id, held))
            values.extend(held)
        if not builtin:
            weak.extend(map(id, weakref.getweakrefs(obj)))
    obj = held = tree = None  # they would count as well
    return (met if met.keys() >= set(weak) else None), Counter(edges), kept


def _are_held_once(tree: dict[int, Any]) -> bool:
    """Does nothing but the tree refer to what is below its root?"""
    return {_HELD_ONCE}.issuperset(map(sys.getrefcount, islice(tree.values(), 1, None)))


def _counted_once() -> int:
    """The references that Python counts of what stands in one container, and in a dict as a tree is."""
    tree: dict[int, Any] = {0: [[]]}
    tree[1] = tree[0][0]
    return list(map(sys.getrefcount, tree.values()))[1]


_HELD_ONCE = _counted_once()


def _refers_to(obj: Any) -> list[Any] | None:
    """What it refers to, as often as it does, but for strings and numbers; None: who knows."""
    if over.is_sealed(type(obj)) or plots.is_rule(type(obj)):
        return []
    tensor = tensors.kind()
    if isinstance(obj, _UNCOUNTED) or bars.is_bar(obj) or (tensor is not None and isinstance(obj, tensor)):
        return None
    if package_of(type(obj)) == "torch":
        return None  # its memory is held by tensors without a word to Python
    of_array = _in_array(obj) if _is_array(obj) or bases.is_row(obj) else ()
    return [*of_array, *_not_plain(inside(obj))] if of_array is not None else None


def _in_array(obj: Any) -> Collection[Any] | None:
    """What the collector does not see: it does not look into arrays. Asked of NumPy itself: a subclass may say of its
    base, and a proxy of all of it, what is not its own, and what is counted twice would account for somebody else."""
    array: Any = sys.modules["numpy"].ndarray
    if bases.is_row(obj):
        return [obj.base]
    if not issubclass(type(obj), array):
        return None
    kind, base = array.dtype.__get__(obj), array.base.__get__(obj)
    if (kind.hasobject and kind.kind != "O") or (
        base is not None and not _is_array(base) and _is_array(bases.base_of(obj))
    ):
        return None
    if base is not None:
        return [base]
    return _not_plain(array.tolist(array.ravel(obj))) if kind.hasobject else ()


def inside(obj: Any) -> Collection[Any]:
    """What the collector sees in it. Most containers show it themselves, without a copy. A frame, to which a generator
    leads before Python 3.11, does not count its globals, which is everything."""
    if type(obj) in _CONTAINERS:
        return obj  # type: ignore[no-any-return]  # one of those
    if type(obj) is types.FrameType:
        return [part for part in gc.get_referents(obj) if part is not obj.f_globals and part is not obj.f_builtins]
    return gc.get_referents(obj) or _gone_through(obj)


def _gone_through(obj: Any) -> Collection[Any]:
    """The arrays one of NumPy's iterators goes through, of which it shows nothing to the collector."""
    numpy: Any = sys.modules.get("numpy")
    if not hasattr(numpy, "nditer"):
        return ()
    if type(obj) is numpy.flatiter:
        return (obj.base,)
    if type(obj) is numpy.broadcast:
        return obj.iters  # type: ignore[no-any-return]  # a tuple
    try:
        return obj.operands if type(obj) is numpy.nditer else ()
    except ValueError:  # it is closed
        return ()


_judged: dict[str, tuple[Any, bool]] = {}
"""Modules by name, and whether they are the user's: there are thousands, and they hardly ever change."""
_there: list[Any] = []
"""All modules there were at the last look."""
_own: list[tuple[str, types.ModuleType]] = []


def _user_modules() -> list[tuple[str, types.ModuleType]]:
    """Modules of the user's: they hold objects whether or not the notebook has a name for them."""
    global _there, _own
    there = list(sys.modules.values())
    if len(there) != len(_there) or any(map(operator.is_not, there, _there)):
        _there, _own = there, list(_judge())
    return _own


def _judge() -> Iterator[tuple[str, types.ModuleType]]:
    for name, module in list(sys.modules.items()):
        known = _judged.get(name)
        if known is None or known[0] is not module:
            own = isinstance(module, types.ModuleType) and name != "__main__" and is_user_code(module)
            known = _judged[name] = (module, own)
        if known[1]:
            yield f"module {name}", module


def _reachable(values: list[Any], budget: list[int], *, saved: bool = False) -> Reached | None:
    """Everything reachable as data, or all of that which would be `saved` with it; None if that is too much."""
    found: dict[int, Any] = {}
    lent: dict[int, Lent] = {}
    passed = _everybodys()
    tensor, lenders = tensors.kind(), _lenders()
    ordinary: dict[type, bool | None] = {}
    stack = list(values)
    while stack:
        obj = stack.pop()
        kind = type(obj)
        changes = ordinary[kind] if kind in ordinary else ordinary.setdefault(kind, _changes(kind, lenders))
        if changes is not None:
            if id(obj) in found or id(obj) in passed:
                continue
            length = _length(obj)
            tree = trees.inside(obj) if kind in _BUILTIN and length >= trees.WORTH_A_LOOK else None
            budget[0] -= 1 + (length if tree is None else len(tree)) // _PLAIN_SHARE
            if budget[0] < 0:
                return None
            if tree is not None:
                found.update((key, part) for key, part in tree.items() if type(part) is not tuple)
                continue
            (found if changes else passed)[id(obj)] = obj
            stack.extend(_not_plain(inside(obj)))
            continue
        if type(obj) in weakref.ProxyTypes:
            found[id(obj)] = obj
            stack.append(unpickled.behind(obj))
            continue
        if isinstance(obj, _IMMUTABLE) or id(obj) in found or id(obj) in passed or plots.is_rule(type(obj)):
            continue
        budget[0] -= 1 + _length(obj) // _PLAIN_SHARE
        if budget[0] < 0:
            return None
        if isinstance(obj, _CODE):
            passed[id(obj)] = obj
            found.update((id(part), part) for part in _made_at_run_time(obj))
            if not (_is_of_its_module(obj) or (saved and _is_found_by_name(obj))):
                stack.extend(_held_by(obj))
            continue
        if isinstance(obj, logging.Logger):
            passed[id(obj)] = obj
            stack.extend(loggers.fills(obj))
            continue
        (found if is_mutable(type(obj)) else passed)[id(obj)] = obj
        if over.is_sealed(type(obj)):
            continue
        if bars.is_bar(obj):  # it shows itself by all that the kernel has
            stack.append(obj.iterable)
            continue
        if issubclass(type(obj), lenders):
            stack.extend(_inside_lent(obj, lent, budget))
            continue
        if _is_array(obj):
            # The collector does not look into arrays.
            stack.extend(_not_plain(obj.ravel().tolist()) if obj.dtype.kind == "O" else ())
        if _is_array(obj) or bases.is_row(obj):
            stack.append(bases.base_of(obj))
        stack.extend(_not_plain(inside(obj)))
        if isinstance(obj, weakref.ref):
            stack.append(obj())
        if tensor is not None and isinstance(obj, tensor):
            stack.extend(tensors.parts(obj))
    return Reached(found, lent)


def _changes(kind: type, lenders: tuple[type, ...]) -> bool | None:
    """Can one of that class change, if the collector of cycles shows all there is to see in it? Else None."""
    special: tuple[Any, ...] = (*_IMMUTABLE, *_CODE, *lenders, logging.Logger, weakref.ref, *weakref.ProxyTypes)
    if issubclass(kind, special) or any("__class__" in vars(cls) for cls in type.mro(kind)[:-1]):
        return None
    if package_of(kind) in ("tqdm", "torch", "numpy") or over.is_sealed(kind) or plots.is_rule(kind):
        return None
    tensor = tensors.kind()
    known = tensor is not None and issubclass(kind, tensor)
    return None if known or bases.is_of_rows(kind) or _is_array_kind(kind) else is_mutable(kind)


def _everybodys() -> dict[int, Any]:
    """Generators of random numbers a library has for all; and where the process writes to, which in a kernel leads to
    all it has."""
    written_to = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    streams = (one for one in written_to if one is not None and not loggers.is_users(one))
    return {id(found): found for found in (*(found for _, found in unpickled.global_generators()), *streams)}


def _lenders() -> tuple[type, ...]:
    """Parts of frames and columns, and indexes, if there is a pandas that copies on writing."""
    pandas: Any = sys.modules.get("pandas")
    if not hasattr(pandas, "Index") or int(pandas.__version__.partition(".")[0]) < 3:
        return ()
    return pandas.core.internals.blocks.Block, pandas.Index


def _inside_lent(part: Any, lent: dict[int, Lent], budget: list[int]) -> Iterator[Any]:
    """Take note of the memory of such a part. What is in there as objects is everybody's who has it."""
    among = {id(part.refs)} if hasattr(part, "mgr_locs") else set()  # nobody writes to an index
    stack = [part.values] if among else gc.get_referents(part)
    met: set[int] = set()
    while stack:
        obj = stack.pop()
        if isinstance(obj, (*_IMMUTABLE, *_CODE, weakref.ref)) or id(obj) in met or _keeps_count(obj):
            continue
        met.add(id(obj))
        budget[0] -= 1 + _length(obj) // _PLAIN_SHARE
        lent.setdefault(id(obj), Lent(obj, set())).among.update(among)
        if _is_array(obj):
            yield from _not_plain(obj.ravel().tolist()) if obj.dtype.kind == "O" else ()
            stack.append(bases.base_of(obj))
        stack.extend(_not_plain(inside(obj)))


def _keeps_count(obj: Any) -> bool:
    """The count of those who have some memory leads to all of them."""
    return type(obj).__name__ == "BlockValuesRefs" or hasattr(type(obj), "construct_array_type")  # or is a dtype


def _made_at_run_time(obj: Any) -> Iterator[Any]:
    """A lambda or inner function, which no definition makes again, and the variables it shares with others; or a class
    that is no longer found by its name: all who have it have to get the same one back."""
    if isinstance(obj, type):
        if is_user_code(obj) and not is_live(obj):
            yield obj
        return
    if isinstance(obj, types.FunctionType) and "<" in obj.__qualname__ and is_user_code(obj):
        yield obj
        yield from (c for n, c in zip(obj.__code__.co_freevars, obj.__closure__ or (), strict=True) if n != "__class__")


def _length(obj: Any) -> int:
    """How many objects it holds directly, as far as that is a matter of looking."""
    if type(obj) in (list, tuple, dict, set, frozenset):
        return len(obj)
    return int(obj.size) if _is_array(obj) and obj.dtype.kind == "O" else 0


def _not_plain(items: Collection[Any]) -> Collection[Any]:
    """What is held by a container, or nothing if that is strings and numbers only."""
    return () if _PLAIN.issuperset(map(type, items)) else items


def _held_by(obj: Any) -> Iterator[Any]:
    """The data that hangs on code: not its globals, which is everything."""
    if isinstance(obj, types.FunctionType):
        yield from (cell.cell_contents for cell in obj.__closure__ or () if _filled(cell))
        yield from obj.__defaults__ or ()
        yield from (obj.__kwdefaults__ or {}).values()
        yield from vars(obj).values()
    elif isinstance(obj, (types.BuiltinFunctionType, types.MethodType)):
        yield obj.__self__
    elif isinstance(obj, (type, types.ModuleType)) and is_user_code(obj) and not _is_notebook(obj):
        yield from obj.__bases__ if isinstance(obj, type) else ()
        yield from (value for name, value in vars(obj).items() if not name.startswith("__"))
    elif isinstance(obj, enum.Enum):
        yield from vars(obj).values()


def _is_found_by_name(obj: Any) -> bool:
    obj = type(obj) if isinstance(obj, enum.Enum) else obj
    return _is_of_its_module(obj) or (isinstance(obj, (type, types.FunctionType)) and is_live(obj))


def _is_of_its_module(obj: Any) -> bool:
    """A library's own function, under another name than it says? What it holds is the library's, too."""
    return type(obj) is types.FunctionType and not is_live(obj) and held_as(obj) is not None


def _is_notebook(obj: type | types.ModuleType) -> bool:
    return isinstance(obj, types.ModuleType) and home_of(obj) == "__main__"


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # asking is the only way to know
    except ValueError:
        return False
    return True


def _is_array(obj: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


def _is_array_kind(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.ndarray)


def closed(
    names: set[str], namespace: dict[str, Any], lookers_on: Sequence[dict[Any, Any]] = (), walk: int = MAX_WALK
) -> set[str] | None:
    """The names and all that share objects with them, and all that share with those."""
    together = {name for name in names if name in namespace}
    while True:
        more = sharing(together, namespace, lookers_on=lookers_on, walk=walk)
        if more is None:
            return None
        if more <= together:
            return together
        together |= more

"""Is there a checkpoint for this code with these inputs? And if not, why not.

A step's code and the values it reads are identified before it runs, because running may change them. What it
turns out to depend on besides (files it opened, random numbers it drew) is known only afterwards: it is kept
with the checkpoint and compared when the checkpoint is about to be used.

Names can be read without standing in the code: `df.query("a > @k")`, `%time y = k`. So every word inside a constant
string that is a variable counts as read; where a library is at work that reads names in expressions it is given, so
does every word in the texts among the inputs. Code that could read anything at all (`eval`, `globals`) is never saved.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import gc
import itertools
import os
import secrets
import sys
import time
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from blake3 import blake3
from msgspec.structs import replace

from nbcheckpoint import trees, unpickled
from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.fingerprint import explain, rng, settings, tables
from nbcheckpoint.fingerprint.code import Names, digest_tree, free_names, free_words, names_in, words_in, words_said_by
from nbcheckpoint.fingerprint.files import begun_again, grown_by, unchanged
from nbcheckpoint.fingerprint.reach import code_of, imported_by, reach, reads_of
from nbcheckpoint.fingerprint.values import (
    HASH_SEED,
    Digester,
    Unaffordable,
    Unidentified,
    likely_seconds,
    reads_data,
)
from nbcheckpoint.model import Checkpoint, Input, Reason
from nbcheckpoint.store import Store
from nbcheckpoint.store.saving import definition_digest
from nbcheckpoint.whose import is_user_code, is_user_module, name_of, package_of

_ANYTHING = frozenset({"eval", "exec", "globals", "locals", "vars", "__import__", "compile", "breakpoint"})
_OUTSIDE = frozenset({"eval", "exec", "globals", "breakpoint"})
"""Of those, what reads more than it is given inside of a function too."""
_ANYWHERE = frozenset({"f_globals", "f_locals", "__globals__", "user_ns", "user_global_ns", "__subclasses__"})
"""Attributes that lead to whatever there is."""
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "expandvars"})
_FOLDER = frozenset({"getcwd", "cwd", "abspath", "resolve", "realpath", "chdir"})
LOOKS_FOR_FILES = frozenset(
    {"exists", "is_file", "is_dir", "isfile", "isdir", "stat", "getsize", "getmtime", "glob", "iglob", "rglob"}
    | {"lexists", "lstat", "getctime", "getatime", "access", "islink", "is_symlink", "samefile"}
)
_LOCAL_TIME = frozenset(
    {
        "localtime",
        "mktime",
        "ctime",
        "asctime",
        "strftime",
        "fromtimestamp",
        "timestamp",
        "astimezone",
        "tzname",
        "timezone",
        "tzlocal",
    }
)
_OF_THE_USER = {"expanduser": "HOME", "home": "HOME", "which": "PATH", "gettempdir": "TMPDIR"}
"""Functions of the standard library that look at a variable of the environment, and which."""
_COMMAND_LINE = frozenset({"argv", "orig_argv", "parse_args", "parse_known_args"})
TIMES_AND_MODES = frozenset(
    {"getmtime", "getctime", "getatime", "st_mode", "st_ino", "st_nlink", "st_uid", "st_gid"}
    | {f"st_{what}time{unit}" for what in "mca" for unit in ("", "_ns")}
)
"""Who asks for these of a file depends on more than what is in it."""
_environment = dict(os.environ)
"""As it was when we came."""
_QUERIES = frozenset({"query", "eval", "sql", "from_formula"})
"""Methods that are given expressions with names in them."""
_EXPRESSIONS = frozenset(
    {"bambi", "duckdb", "formulae", "formulaic", "linearmodels", "numexpr", "patsy", "plotnine", "pyfixest"}
    | {"statsmodels"}
)
"""Packages that look up names in the variables of whoever calls them: `smf.ols("y ~ helper(x)", df)`."""
_TEXT_OF_CODE = frozenset({"getsource", "getsourcelines", "getcomments"})
_BY_NAME = frozenset({"getattr", "attrgetter", "methodcaller"})
_WITH_ACCESSORS = {
    "pandas": ("DataFrame", "Series", "Index"),
    "polars": ("DataFrame", "LazyFrame", "Series", "Expr"),
    "xarray": ("Dataset", "DataArray", "DataTree"),
}
"""Classes that can be given attributes whose value is made by a class of the user's."""
_TEXT_DEPTH, _MOST_TEXTS = 12, 10_000


class Identity(NamedTuple):
    """What a step is, as far as it can be known before it runs."""

    code: str
    inputs: tuple[Input, ...]
    before: dict[str, str]
    """Label -> digest of everything that is looked at again afterwards, ignored inputs included."""
    values: dict[str, Any]
    """The same, live."""
    code_inside: dict[int, tuple[str, Any]]
    """Code met inside of values, by object: its digest, and itself."""
    mentions: Names
    """Everything the code and what it reaches mention, methods of its inputs included."""
    unidentified: tuple[str, ...]
    """Sentences about inputs that could not be identified: with any of these the step just runs."""
    digest: str
    tokens: frozenset[str] = frozenset()
    """Labels of inputs whose digests mean something in this process only, until `firm`."""
    unnamed: frozenset[str] = frozenset()
    """What is instead of names in those digests."""
    held: tuple[Any, ...] = ()
    """What those digests need to stay comparable."""
    noted: Mapping[str, tables.Noted] = MappingProxyType({})
    """Those inputs that can be put together again as they were."""
    unaffordable: bool = False
    """There was no time to look at all inputs."""
    inside: str = ""
    """What code inside of its inputs does whose result cannot be known."""
    direct: Names | None = None
    """What the code itself mentions, and the functions and classes it names."""


def code_key(tree: ast.Module, own_text: str | None = None, salt: str = "") -> str:
    """The identity of a step's own code. `own_text` stands for it instead of its tree."""
    body = digest_tree(tree) if own_text is None else blake3(own_text.encode()).hexdigest()
    return blake3(f"{body} {salt}".encode()).hexdigest()


def identify(
    tree: ast.Module,
    code: types.CodeType,
    namespace: dict[str, Any],
    *,
    key: str,
    ignore: Collection[str] = (),
    depends: Collection[str] = (),
    granted: Callable[[str], bool],
    private: Callable[[str], str],
    aliases: Callable[[set[str], dict[str, Any]], set[str]],
    patched: Sequence[tuple[str, Any]] = (),
    provisional: bool = False,
    deadline: float | None = None,
    spare: float = 0.0,
) -> Identity:
    """Code and inputs of a step about to run in `namespace`.

    `key` is its `code_key`. Changes of what is to be `ignore`d do not count. `granted` names are nobody's input.
    `private` gives the identity of something secret.
    `patched` is what the user has put into libraries, with labels: anything may depend on that.
    `aliases` names the other variables that share objects with some: a step that changes an object changes them too.
    It is told who refers to those objects just for looking at them.
    For `provisional`, `deadline` and `spare` see `Digester`.
    """
    names = names_in(code)
    said = free_names(tree.body) | set(depends) | free_words(tree.body) & namespace.keys()
    direct = {name for name in said if not granted(name)}
    gone = sorted(name for name in direct if _is_gone(namespace.get(name)))
    if gone:  # whoever asks what that is gets an error
        inputs = tuple(Input(name=name, type="weakproxy") for name in gone)
        why = tuple(f"input {name} cannot be identified (what it passed for is gone)" for name in gone)
        return Identity(key, inputs, {}, {}, {}, names, why, secrets.token_hex(32))
    values, mentions = _by_name(names, reach(reads_of(code, namespace, direct)), code, namespace, granted)
    values = reach([*values.items(), *patched, *_own_builtins(mentions, namespace), *_own_accessors(mentions)])
    if deadline is not None and time.thread_time() + sum(map(likely_seconds, values.values())) > deadline:
        return Identity(key, (), {}, values, {}, mentions, (), secrets.token_hex(32), unaffordable=True)
    values = dict(_counting(values, ignore))
    with trees.remembered():
        # A module of the user's may be among them: what shares with that is found again when something is to be saved.
        sharing = aliases({label for label in values if label in namespace}, values) & namespace.keys()
        values |= {name: namespace[name] for name in sharing}
        digester = Digester(provisional=provisional, deadline=deadline, spare=spare)
        looked, unidentified, tokens = look(digester, values, ignore)
    named, mentions = mentions, together([mentions, *(mentioned(found) for found, _ in digester.code)])
    hidden = dict(_read_inside(code, digester.code, mentions, values, namespace, granted)) if digester.code else {}
    if hidden:
        values = dict(_counting(reach([*values.items(), *hidden.items()]), ignore))
        digester = Digester(provisional=provisional, deadline=deadline, spare=spare)
        looked, unidentified, tokens = look(digester, values, ignore)
    inputs = tuple(item for item in looked if item.name not in ignore) + tuple(surroundings(mentions, values, private))
    return Identity(
        code=key,
        inputs=inputs,
        before={item.name: item.digest for item in looked},
        values=values,
        code_inside=digester.code_inside(),
        mentions=mentions,
        unidentified=unidentified,
        digest=secrets.token_hex(32) if unidentified or tokens else digest_inputs(inputs),
        tokens=tokens,
        unnamed=frozenset(digester.tokens),
        held=tuple(digester.held),
        noted=_noted(tokens, values) if "resize" not in mentions.attributes else {},
        unaffordable=digester.gave_up,
        inside=_unknowable(digester.code),
        direct=named,
    )


def _is_gone(value: Any) -> bool:
    """Is it a weak proxy of nothing?"""
    return type(value) in weakref.ProxyTypes and unpickled.behind(value) is None


def _noted(labels: Iterable[str], values: dict[str, Any]) -> dict[str, tables.Noted]:
    found = {label: tables.note(values[label]) for label in labels}
    return {label: noted for label, noted in found.items() if noted is not None}


def _counting(values: dict[str, Any], ignore: Collection[str]) -> Iterator[tuple[str, Any]]:
    """All but what is to be ignored and cannot be compared: a connection. Nobody could say whether it has changed, and
    it is not to be saved."""
    for label, value in values.items():
        try:
            if label in ignore:
                Digester().digest(label, value)
        except Unidentified:
            continue
        yield label, value


def _by_name(
    names: Names,
    values: dict[str, Any],
    code: types.CodeType,
    namespace: dict[str, Any],
    granted: Callable[[str], bool],
) -> tuple[dict[str, Any], Names]:
    """What is read, with what is read by names in texts; and all that this mentions. What a text leads to may have
    texts of its own, so it goes on until nothing is new."""
    while True:
        brought = [found for value in values.values() for found in code_of(value)]
        mentions = together([names, *(mentioned(found) for found, _, _ in brought)])
        # Those of the step itself are among what it reads, as far as it does not bind them before it says them.
        words = words_in(_said_of_types(values.values())).union(*(words_said_by(found) for found, _, _ in brought))
        found: list[tuple[str, Any]] = []
        if reads_expressions(mentions, values.values()):
            texts = frozenset(texts_in(values.values()))
            words |= words_in(texts)
            told = mentions.strings.union(texts, _said_of_types(values.values()))
            found += _of_modules(told, [(own, its) for own, its, _ in brought], namespace)
        more = {name for name in words & namespace.keys() - values.keys() if not granted(name)}
        reached = reach([*values.items(), *reads_of(code, namespace, more), *found])
        if reached.keys() == values.keys():
            return values, mentions
        values = reached


def _of_modules(
    texts: Collection[str], brought: Sequence[tuple[types.CodeType, dict[str, Any]]], namespace: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """What is read by a function of a module that hands an expression on: its names are looked up in that module."""
    for code, own in brought:
        if own is not namespace:
            for name, value in reads_of(code, own, variables_in(texts, own)):
                yield f"{own.get('__name__')}.{name}", value


def _said_of_types(values: Iterable[Any]) -> Iterator[str]:
    """Annotations that are texts, of functions and classes of the user's: names in them are looked up by whoever asks
    what they mean, as pydantic does."""
    for value in values:
        if isinstance(value, (type, types.FunctionType)) and is_user_code(value):
            of = type.mro(value) if isinstance(value, type) else [value]
            notes = [
                vars(one).get("__annotations__", {}) if isinstance(one, type) else one.__annotations__ for one in of
            ]
            told = (found for found in notes if isinstance(found, dict))  # those of C have a descriptor there
            yield from (note for found in told for note in found.values() if type(note) is str)


def reads_expressions(mentions: Names, values: Iterable[Any]) -> bool:
    """May it look up names that stand in texts it is given?"""
    return bool(_QUERIES & (mentions.attributes | mentions.reads)) or any(_from(v) in _EXPRESSIONS for v in values)


def _from(value: Any) -> str:
    """The package of a module, a function, a class, or that of anything else."""
    says = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
    return package_of(value if isinstance(value, says) else type(value))


def _read_inside(
    code: types.CodeType,
    inside: Sequence[tuple[types.CodeType, dict[str, Any]]],
    mentions: Names,
    values: dict[str, Any],
    namespace: dict[str, Any],
    granted: Callable[[str], bool],
) -> Iterator[tuple[str, Any]]:
    """What code inside of the inputs reads that is in no namespace of its own, and not among them yet."""
    words: set[str] = set()
    found: list[tuple[str, Any]] = []
    read = [own[name] for part, own in inside for name in names_in(part).reads & own.keys()]
    if reads_expressions(mentions, [*values.values(), *read]):
        texts = frozenset(texts_in(values.values())).union(*(names_in(part).strings for part, _ in inside))
        words = variables_in(texts, namespace)
        found += _of_modules(texts | mentions.strings, inside, namespace)
    more = {name for name in words if not granted(name)}
    found += (*reads_of(code, namespace, more), *_own_builtins(mentions, namespace), *_own_accessors(mentions))
    yield from (item for item in found if item[0] not in values)


def _unknowable(code: Sequence[tuple[types.CodeType, dict[str, Any]]]) -> str:
    """Why nobody can tell what a method or function inside of an input reads, if so. Of what it may do at all, only
    what leads out of it: an object with a method for every purpose must not make all that is done with it unknown."""
    for found, namespace in code:
        names = names_in(found)
        anything = sorted(_OUTSIDE & names.reads - namespace.keys()) + sorted(_ANYWHERE & names.attributes)
        if anything:
            return f"{found.co_name}() uses {anything[0]}: what that reads cannot be known"
        if "getattr" in names.reads and any(_is_own_module(namespace.get(name)) for name in names.reads):
            return f"{found.co_name}() uses getattr() and a module of yours: what it reads there cannot be known"
        late = _imports_late(names, namespace) or _by_string(names, namespace.values())
        if late:
            return f"{found.co_name}() {late}"
    return ""


def _imports_late(names: Names, namespace: dict[str, Any]) -> str:
    """What is imported the first time is made while it runs; what is loaded already is an input like others."""
    for name in sorted(names.imports):
        if name == "__main__":
            return "looks into __main__: what it reads there cannot be known"
        if is_user_module(name) and not any(imported_by(name, namespace)):
            return f"imports {name.strip('.') or 'a module'} while it runs: import it at the top"
    return ""


def _imports_late_of(values: Iterable[Any]) -> str:
    """The same of the functions and classes among values."""
    found = (_imports_late(names_in(code), namespace) for value in values for code, namespace, _ in code_of(value))
    return next(filter(None, found), "")


def _by_string(names: Names, values: Iterable[Any]) -> str:
    """Modules can be had by a name that is in no code."""
    if "import_module" in names.attributes:
        return "uses import_module(): what that reads cannot be known"
    if "modules" in names.attributes and any(value is sys for value in values):
        return "looks into sys.modules: what it reads there cannot be known"
    return ""


def _is_own_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and is_user_code(value)


def digest_inputs(inputs: Sequence[Input]) -> str:
    joined = "\n".join(f"{item.name}={item.digest}" for item in inputs)
    return blake3(joined.encode()).hexdigest()


def firm(identity: Identity, changed: Collection[str]) -> tuple[Identity, str]:
    """With digests that mean the same everywhere, taken now, after the step; or why that is too late.

    `changed` are the inputs that are not what they were: of those only what was known before counts.
    """
    if not identity.tokens:
        return identity, ""
    were = {label: _named_late(identity, label) for label in sorted(identity.tokens & set(changed))}
    late = next((label for label, found in were.items() if not found), "")
    if late:
        return identity, f"{late} was too large to be looked at before it was changed: %%checkpointed takes the time"
    looked, _, _ = look(Digester(), identity.values, ())
    now = {item.name: item.digest for item in looked if item.name not in changed} | were
    inputs = tuple(replace(item, digest=now.get(item.name, item.digest)) for item in identity.inputs)
    return identity._replace(inputs=inputs, digest=digest_inputs(inputs)), ""


def _named_late(identity: Identity, label: str) -> str:
    """The digest of an input before it was changed; nothing if the memory it had then is not what it was. Nor if
    anything else had a part in its digest: then the token would be another one, too."""
    noted = identity.noted.get(label)
    if noted is None:
        return ""
    value = tables.put_together(noted)
    same = Digester(provisional=True, unnamed=identity.unnamed).digest(label, value) == identity.before[label]
    return Digester().digest(label, value) if same else ""


def look_again(identity: Identity) -> tuple[tuple[Input, ...], bool]:
    """The inputs as they are now, and whether code inside of them is what it was."""
    digester = Digester(provisional=bool(identity.tokens), unnamed=identity.unnamed)
    looked, _, _ = look(digester, identity.values, ())
    now = digester.code_inside()
    # What has been taken out (an iterator that is over lets go of its function) may have changed what it reads.
    same = all(
        now[key][0] == found if key in now else not reads_data(code)
        for key, (found, code) in identity.code_inside.items()
    )
    return looked, same


def look(
    digester: Digester, values: dict[str, Any], ignore: Collection[str]
) -> tuple[tuple[Input, ...], tuple[str, ...], frozenset[str]]:
    """Every value's identity as it is now, what has none, and what has a token. In the order of labels, because what
    they share counts."""
    inputs, unidentified, tokens = [], [], set()
    for label, value in sorted(values.items()):
        before = len(digester.tokens)
        try:
            found = digester.digest(label, value)
        except Unidentified as problem:
            found = ""
            digester.gave_up |= isinstance(problem, Unaffordable)
            if label not in ignore:
                unidentified.append(f"input {problem.label.strip()} cannot be identified ({problem.why})")
        if len(digester.tokens) > before:
            tokens.add(label)
        kind = "function" if isinstance(value, types.FunctionType) else type_name(value)
        kind = "type" if isinstance(value, type) else kind
        inputs.append(Input(name=label, digest=found, type=kind, preview=shape_of(value) or preview(value, label)))
    return tuple(inputs), tuple(unidentified), frozenset(tokens)


def mentioned(code: types.CodeType) -> Names:
    """What it mentions that matters to others. A `__hash__` is there for dicts and sets, which are the same whatever it
    gives; that it asks for another hash says nothing about what is done with its class."""
    names = names_in(code)
    if code.co_name != "__hash__":
        return names
    return names._replace(reads=names.reads - {"hash"}, attributes=names.attributes - {"__hash__"})


def together(names: Sequence[Names]) -> Names:
    return Names(*(frozenset().union(*parts) for parts in zip(*names, strict=True)))


def variables_in(strings: Iterable[str], namespace: dict[str, Any]) -> set[str]:
    """Words inside of constant strings that are variables."""
    return words_in(strings) & namespace.keys()


def texts_in(values: Iterable[Any]) -> Iterator[str]:
    """Strings among values and near inside of them: any may be part of an expression that names are read in."""
    level = {id(value): value for value in values}
    seen: set[int] = set()
    for _ in range(_TEXT_DEPTH):
        yield from (value for value in level.values() if type(value) is str)
        seen |= level.keys()
        inside = (part for value in level.values() for part in _near(value) if id(part) not in seen)
        level = {id(part): part for part in itertools.islice(inside, _MOST_TEXTS)}


def _near(value: Any) -> Iterable[Any]:
    if isinstance(value, types.FunctionType):
        held = (value.__defaults__, value.__kwdefaults__, value.__closure__)
        return [part for some in held if some for part in gc.get_referents(some)]
    if isinstance(value, type):
        return vars(value).values() if is_user_code(value) else ()
    return () if isinstance(value, types.ModuleType) else gc.get_referents(value)


def surroundings(mentions: Names, values: dict[str, Any], private: Callable[[str], str]) -> Iterator[Input]:
    """What code reads from around it: environment variables it can name, the working directory, the seed of hashes.

    The values of environment variables are nobody's business: only their private digest is kept.
    """
    named: set[str] = set()
    if _ENVIRONMENT & (mentions.attributes | mentions.reads):
        strings = mentions.strings | {value for value in values.values() if type(value) is str}
        named = {name for name in strings if name in os.environ or (name.isidentifier() and name.isupper())}
        # A name may be put together while it runs. What the notebook itself has set is the most likely to matter, and
        # what begins like one of the strings at hand: `APP_`, or is it in capitals: `"app_mode".upper()`.
        begins = tuple(text.upper() for text in strings if len(text) > 2)
        named |= {name for name, value in os.environ.items() if _environment.get(name) != value}
        named |= {name for name in os.environ if name.upper().startswith(begins)}
    named |= {name for function, name in _OF_THE_USER.items() if function in mentions.attributes}
    if _LOCAL_TIME & (mentions.attributes | mentions.reads):
        named.add("TZ")
    for name in sorted(named):
        value = os.environ.get(name)
        found = private(f"{name}={value}") if value is not None else "-"
        yield Input(name=name, digest=found, type="environment")
    if _COMMAND_LINE & mentions.attributes:
        yield Input(name="the command line", digest=blake3(repr(_command_line()).encode()).hexdigest(), type="process")
    if _hashes(mentions, values):
        yield Input(name="the seed of hash()", digest=blake3(b"%d" % HASH_SEED).hexdigest(), type="process")
    if _FOLDER & (mentions.attributes | mentions.reads):
        yield Input(name="the working directory", digest=blake3(os.fsencode(os.getcwd())).hexdigest(), type="folder")


def _command_line() -> Sequence[str]:
    """The kernel's own says nothing but where its sockets are, and they are elsewhere next time."""
    return () if sys.argv and os.path.basename(sys.argv[0]) == "ipykernel_launcher.py" else sys.argv


def _hashes(mentions: Names, values: dict[str, Any]) -> bool:
    """Is a hash asked for, by the name it has? As a value, by any other, it is known to be what it is."""
    of_module = "hash" in mentions.attributes and any(value is builtins for value in values.values())
    return ("hash" in mentions.reads and "hash" not in values) or of_module or "__hash__" in mentions.attributes


def _own_builtins(mentions: Names, namespace: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Builtins that are the user's."""
    for name in sorted(mentions.reads & vars(builtins).keys() - namespace.keys()):
        found = vars(builtins)[name]
        if isinstance(found, (types.FunctionType, type)) and is_user_code(found):
            yield f"builtins.{name}", found


def _own_accessors(mentions: Names) -> Iterator[tuple[str, Any]]:
    """What the user has registered with pandas and its like: `df.name` leads there, and no variable has to."""
    by_name = _BY_NAME & (mentions.attributes | mentions.reads)
    for package, kinds in _WITH_ACCESSORS.items():
        module = sys.modules.get(package)
        for kind in filter(None, (getattr(module, name, None) for name in kinds)):
            there = vars(kind).keys() if by_name else vars(kind).keys() & mentions.attributes
            for name in sorted(there):
                found = getattr(kind, name, None)
                if isinstance(found, type) and is_user_code(found):
                    yield f"{package}.{name_of(kind)}.{name}", found


def never_saved(identity: Identity, namespace: dict[str, Any], own: Names, history: Collection[str]) -> str:
    """Why such a step is always run, if it is: what it reads or does cannot be known or brought back."""
    direct = identity.direct or identity.mentions
    reads = direct.reads
    anything = sorted((_ANYTHING & reads & vars(builtins).keys()) - namespace.keys())
    if anything:
        return f"it uses {anything[0]}(): what that reads cannot be known"
    anywhere = sorted(_ANYWHERE & direct.attributes)
    if anywhere:
        return f"it uses {anywhere[0]}: what that reads cannot be known"
    if "id" in reads and "id" not in namespace:
        return "it uses id(): that is another number next time"
    modules = [value for value in identity.values.values() if isinstance(value, types.ModuleType)]
    if gc in modules and {"get_objects", "get_referrers"} & direct.attributes:
        return "it asks the garbage collector what there is"
    if _TEXT_OF_CODE & (direct.attributes | reads):
        return "it reads the text of code: comments count there, and nowhere else"
    if atexit in modules and "register" in direct.attributes:
        return "it says what is to be done when the kernel ends"
    if "getattr" in reads and any(map(is_user_code, modules)):
        return "it uses getattr() and a module of yours: what it reads there cannot be known"
    if {"setattr", "delattr"} & own.reads and modules:
        return "it may change a module"
    if "__main__" in reads or "__main__" in direct.strings:
        return "it looks into __main__: what it reads there cannot be known"
    late = sorted(name for name in own.imports if is_user_module(name))
    if late:
        return f"{late[0].strip('.') or 'a module'} is imported while it runs: import it at the top"
    late_inside = _imports_late_of(identity.values.values()) or _by_string(direct, identity.values.values())
    if late_inside:
        return f"it {late_inside}"
    if "input" in reads and "input" not in namespace:
        return "it asks for input"
    if history:
        return f"it reads {sorted(history)[0]}: earlier results are not tracked"
    if identity.inside:
        return identity.inside
    if "get_ipython" in own.reads and {"system", "getoutput", "run_cell", "run_cell_magic"} & own.attributes:
        return "it runs a shell command or another cell"
    return ""


class Match(NamedTuple):
    checkpoint: Checkpoint | None
    reason: Reason
    progress: Checkpoint | None = None
    """How far the same step, a loop, had come when it was cut short."""


def match(
    store: Store,
    identity: Identity,
    *,
    expired_before: str = "",
    holds: Callable[[Input], bool] = lambda _: True,
    fitting: Callable[[Checkpoint], Checkpoint | Reason] = lambda candidate: candidate,
) -> Match:
    """The checkpoint to restore from, or the reason why there is none. `holds`: is this condition met? `fitting`: what
    is it to this step, which may not be all of what it was to its own?"""
    if identity.unidentified:
        return Match(None, explain.unidentified(identity.unidentified, identity.inputs))
    reason: Reason | None = None
    progress: Checkpoint | None = None
    for candidate in store.find(identity.code, identity.digest):
        why = obstacle(candidate, expired_before)
        unmet = [item for item in candidate.conditions if why is None and not holds(item)]
        if unmet:
            why = explain.changed_inputs(unmet, [replace(item, digest="") for item in unmet])
        found = fitting(candidate) if why is None else why
        if isinstance(found, Checkpoint) and found.progress is None:
            return Match(found, explain.restored(found))
        if isinstance(found, Checkpoint):
            progress = found if progress is None or _done(found) > _done(progress) else progress
        else:
            why = found
        reason = reason or why
        if candidate.progress is None and why is not None and _is_of_its_own(why, candidate):
            break  # it came to its end: how far it was before that is over, and would leave the file as it is
    if progress is not None:
        logs = [(file.path, grown_by(file)) for file in progress.files if file.appended]
        again = [(file.path, file.size - file.kept) for file in progress.files if begun_again(file)]
        return Match(None, explain.going_on([(path, size) for path, size in logs if size > 0], again), progress)
    return Match(None, reason or _nearest(store.find(identity.code, limit=1), identity.inputs))


def _done(candidate: Checkpoint) -> int:
    """Turns of its outermost loop."""
    assert candidate.progress is not None
    return (*candidate.progress.around, candidate.progress)[0].done


def _is_of_its_own(why: Reason, candidate: Checkpoint) -> bool:
    """Is the obstacle a file that the step itself has written?"""
    return why.code == "file" and any(file.written for file in candidate.files if file.path == why.details.get("path"))


def _nearest(earlier: Sequence[Checkpoint], inputs: Sequence[Input]) -> Reason:
    if not earlier:
        return explain.simple("first", "")
    return explain.changed_inputs(earlier[0].inputs, inputs)


def obstacle(
    candidate: Checkpoint, expired_before: str, *, but_random: bool = False, but_settings: bool = False
) -> Reason | None:
    """What, besides code and inputs, keeps this checkpoint from being used; `but_random`, and random numbers;
    `but_settings`, and options."""
    lost = [item.name for item in candidate.not_saved if is_missed(item.name) or candidate.progress is not None]
    if lost:
        names = ", ".join(lost)
        return explain.simple("unsaveable", f"{names} could not be saved", names=names)
    if candidate.created < expired_before:
        return explain.simple("expired", "the saved copy has expired")
    for definition in candidate.definitions:
        if not definition.digest or definition_digest(definition.name) != definition.digest:
            return explain.simple("input", f"{definition.name} is not what it was", names=[definition.name])
    moved = "" if but_random else moved_generator(candidate)
    if moved:
        return explain.changed_random(moved)
    changed = "" if but_settings else changed_setting(candidate)
    if changed:
        return explain.changed_setting(changed)
    if candidate.folder and candidate.folder != os.getcwd():
        return explain.simple("file", "the working directory is another one", path=candidate.folder)
    for file in candidate.files:
        if not unchanged(file):
            return explain.changed_file(file, exists=os.path.exists(file.path))
    return None


def is_missed(name: str) -> bool:
    """Is a value that could not be saved one that a step cannot do without?"""
    return ":" not in name or name.startswith(settings.PREFIX)


def settings_now() -> tuple[Input, ...]:
    """Options any result may depend on, unless they are at their default: those of display are not among them."""
    found = {name: state for name, state in settings.states().items() if _always_counts(name)}
    return tuple(Input(name=name, digest=settings.digest(state)) for name, state in sorted(found.items()))


def _always_counts(name: str) -> bool:
    return settings.counts(name) and name not in settings.DISPLAY


def changed_setting(candidate: Checkpoint) -> str:
    """The name of options that are not what they were, or nothing."""
    then = {item.name: item.digest for item in candidate.settings}
    return next((name for name, now in settings_of(candidate).items() if now != then.get(name, "default")), "")


def settings_of(candidate: Checkpoint) -> dict[str, str]:
    """The options its result may depend on, as they are now."""
    now = settings.states()
    names = {*(item.name for item in candidate.settings), *filter(_always_counts, now)}
    return {name: settings.digest(now.get(name)) for name in sorted(names)}


def is_ordered(candidate: Checkpoint) -> bool:
    """Did it draw behind somebody, or leave a generator for whoever draws next? Numbers nobody seeded have no order."""
    return any(item.type != rng.PRISTINE for item in candidate.random) or any(
        name.startswith(rng.PREFIX) for name in candidate.names
    )


def moved_generator(candidate: Checkpoint) -> str:
    """The name of a random generator it drew from that is not where it was, or nothing."""
    now = rng.states() if candidate.random else {}
    moved = (drawn.name for drawn in candidate.random if not same_random(drawn, now.get(drawn.name)))
    return next(moved, "")


def same_random(then: Input, now: Any) -> bool:
    """Same state; or an accident then and an accident now."""
    if now is not None and rng.digest(now) == then.digest:
        return True
    return then.type == rng.PRISTINE and (now is None or rng.is_pristine(then.name, now))

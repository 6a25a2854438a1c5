"""Is there a checkpoint for this code with these inputs? And if not, why not.

A step's code and the values it reads are identified before it runs, because running may change them. What it
turns out to depend on besides (files it opened, random numbers it drew) is known only afterwards: it is kept
with the checkpoint and compared when the checkpoint is about to be used.

Names can be read without standing in the code: `df.query("a > @k")`, `%time y = k`. So every word inside a constant
string that is a variable counts as read. Code that could read anything at all (`eval`, `globals`) is never saved.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import secrets
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from blake3 import blake3

from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.fingerprint import explain, rng
from nbcheckpoint.fingerprint.code import Names, digest_tree, free_names, is_user_code, is_user_module, names_in
from nbcheckpoint.fingerprint.files import unchanged
from nbcheckpoint.fingerprint.values import Digester, Unidentified, code_of, reach, reads_of
from nbcheckpoint.model import Checkpoint, Input, Reason
from nbcheckpoint.store import Store, definition_digest

_ANYTHING = frozenset({"eval", "exec", "globals", "locals", "vars", "__import__", "compile", "breakpoint"})
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "expandvars"})
_FOLDER = frozenset({"getcwd", "cwd", "abspath", "resolve", "realpath", "chdir"})
LOOKS_FOR_FILES = frozenset(
    {"exists", "is_file", "is_dir", "isfile", "isdir", "stat", "getsize", "getmtime", "glob", "iglob", "rglob"}
)
_WORD = re.compile(r"[^\W\d]\w*")
_LONGEST_STRING = 10_000


class Identity(NamedTuple):
    """What a step is, as far as it can be known before it runs."""

    code: str
    inputs: tuple[Input, ...]
    before: dict[str, str]
    """Label -> digest of everything that is looked at again afterwards, ignored inputs included."""
    values: dict[str, Any]
    """The same, live."""
    code_inside: dict[int, str]
    """Code met inside of values, by object."""
    mentions: Names
    """Everything the code and what it reaches mention."""
    unidentified: tuple[str, ...]
    """Sentences about inputs that could not be identified: with any of these the step just runs."""
    digest: str


def identify(
    tree: ast.Module,
    code: types.CodeType,
    namespace: dict[str, Any],
    *,
    own_text: str | None = None,
    salt: str = "",
    ignore: Collection[str] = (),
    depends: Collection[str] = (),
    builtin: Collection[str] = (),
    private: Callable[[str], str],
    aliases: Callable[[set[str]], set[str]],
) -> Identity:
    """Code and inputs of a step about to run in `namespace`.

    `own_text` stands for the code instead of its tree. `builtin` names are taken for granted. `private` gives the
    identity of something secret. `aliases` names the other variables that share objects with some: a step that
    changes an object changes them too.
    """
    names = names_in(code)
    direct = (free_names(tree.body) | set(depends) | _words(names.strings, namespace)) - set(builtin)
    values = reach(reads_of(code, namespace, direct))
    mentions = _together([names, *(names_in(found) for v in values.values() for found, _, _ in code_of(v))])
    more = _words(mentions.strings, namespace) - set(builtin) - values.keys()
    values = reach([*values.items(), *reads_of(code, namespace, more)])
    values |= {name: namespace[name] for name in aliases({label for label in values if label in namespace})}
    digester = Digester()
    looked, unidentified = _look(digester, values, ignore)
    inputs = tuple(item for item in looked if item.name not in ignore) + tuple(_surroundings(mentions, values, private))
    body = digest_tree(tree) if own_text is None else blake3(own_text.encode()).hexdigest()
    joined = "\n".join(f"{item.name}={item.digest}" for item in inputs)
    return Identity(
        code=blake3(f"{body} {salt}".encode()).hexdigest(),
        inputs=inputs,
        before={item.name: item.digest for item in looked},
        values=values,
        code_inside=digester.code_inside(),
        mentions=mentions,
        unidentified=unidentified,
        digest=secrets.token_hex(32) if unidentified else blake3(joined.encode()).hexdigest(),
    )


def look_again(identity: Identity) -> tuple[tuple[Input, ...], bool]:
    """The inputs as they are now, and whether code inside of them is what it was."""
    digester = Digester()
    looked, _ = _look(digester, identity.values, ())
    now = digester.code_inside()
    same = all(now.get(key, found) == found for key, found in identity.code_inside.items())
    return looked, same


def _look(
    digester: Digester, values: dict[str, Any], ignore: Collection[str]
) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    """Every value's identity as it is now. In the order of labels, because what they share counts."""
    inputs, unidentified = [], []
    for label, value in sorted(values.items()):
        try:
            found = digester.digest(label, value)
        except Unidentified as problem:
            found = ""
            if label not in ignore:
                unidentified.append(f"input {problem.label} cannot be identified ({problem.why})")
        kind = "function" if isinstance(value, types.FunctionType) else type_name(value)
        kind = "type" if isinstance(value, type) else kind
        inputs.append(Input(name=label, digest=found, type=kind, preview=shape_of(value) or preview(value)))
    return tuple(inputs), tuple(unidentified)


def _together(names: Sequence[Names]) -> Names:
    return Names(*(frozenset().union(*parts) for parts in zip(*names, strict=True)))


def _words(strings: Collection[str], namespace: dict[str, Any]) -> set[str]:
    """Words inside of constant strings that are variables."""
    short = (text for text in strings if len(text) <= _LONGEST_STRING)
    return {word for text in short for word in _WORD.findall(text) if word in namespace}


def _surroundings(mentions: Names, values: dict[str, Any], private: Callable[[str], str]) -> Iterator[Input]:
    """What code reads from around it: environment variables it can name, the working directory.

    The values of environment variables are nobody's business: only their private digest is kept.
    """
    if _ENVIRONMENT & (mentions.attributes | mentions.reads):
        strings = mentions.strings | {value for value in values.values() if type(value) is str}
        for name in sorted(strings):
            if name.isidentifier() and (name in os.environ or name.isupper()):
                value = os.environ.get(name)
                found = private(f"{name}={value}") if value is not None else "-"
                yield Input(name=name, digest=found, type="environment")
    if _FOLDER & (mentions.attributes | mentions.reads):
        yield Input(name="the working directory", digest=blake3(os.getcwd().encode()).hexdigest(), type="folder")


def never_saved(identity: Identity, namespace: dict[str, Any], own: Names, history: Collection[str]) -> str:
    """Why such a step is always run, if it is: what it reads or does cannot be known or brought back."""
    reads = identity.mentions.reads
    anything = sorted((_ANYTHING & reads & vars(builtins).keys()) - namespace.keys())
    if anything:
        return f"it uses {anything[0]}(): what that reads cannot be known"
    if "id" in reads and "id" not in namespace:
        return "it uses id(): that is another number next time"
    modules = [value for value in identity.values.values() if isinstance(value, types.ModuleType)]
    if "getattr" in reads and any(map(is_user_code, modules)):
        return "it uses getattr() and a module of yours: what it reads there cannot be known"
    if {"setattr", "delattr"} & own.reads and modules:
        return "it may change a module"
    if "__main__" in reads or "__main__" in identity.mentions.strings:
        return "it looks into __main__: what it reads there cannot be known"
    inside = sorted(name for name in identity.mentions.imports if is_user_module(name))
    if inside:
        return f"{inside[0] or 'a module'} is imported while it runs: import it at the top"
    if "input" in reads and "input" not in namespace:
        return "it asks for input"
    if history:
        return f"it reads {sorted(history)[0]}: earlier results are not tracked"
    if "get_ipython" in own.reads and {"system", "getoutput", "run_cell", "run_cell_magic"} & own.attributes:
        return "it runs a shell command or another cell"
    return ""


class Match(NamedTuple):
    checkpoint: Checkpoint | None
    reason: Reason


def match(store: Store, identity: Identity, *, expired_before: str = "") -> Match:
    """The checkpoint to restore from, or the reason why there is none."""
    if identity.unidentified:
        return Match(None, explain.simple("unidentified", "; ".join(identity.unidentified)))
    reason: Reason | None = None
    for candidate in store.find(identity.code, identity.digest):
        reason = _obstacle(candidate, expired_before)
        if reason is None:
            return Match(candidate, explain.restored(candidate))
    return Match(None, reason or _nearest(store.find(identity.code, limit=1), identity.inputs))


def _nearest(earlier: Sequence[Checkpoint], inputs: Sequence[Input]) -> Reason:
    if not earlier:
        return explain.simple("first", "")
    return explain.changed_inputs(earlier[0].inputs, inputs)


def _obstacle(candidate: Checkpoint, expired_before: str) -> Reason | None:
    """What, besides code and inputs, keeps this checkpoint from being used."""
    lost = [item.name for item in candidate.not_saved if ":" not in item.name]
    if lost:
        names = ", ".join(lost)
        return explain.simple("unsaveable", f"{names} could not be saved", names=names)
    if candidate.created < expired_before:
        return explain.simple("expired", "the saved copy has expired")
    for definition in candidate.definitions:
        if not definition.digest or definition_digest(definition.name) != definition.digest:
            return explain.simple("input", f"{definition.name} is not what it was", names=[definition.name])
    now = rng.states() if candidate.random else {}
    for drawn in candidate.random:
        if not _same_random(drawn, now.get(drawn.name)):
            return explain.changed_random(drawn.name)
    if candidate.folder and candidate.folder != os.getcwd():
        return explain.simple("file", "the working directory is another one", path=candidate.folder)
    for file in candidate.files:
        if not unchanged(file):
            return explain.changed_file(file, exists=os.path.exists(file.path))
    return None


def _same_random(then: Input, now: Any) -> bool:
    """Same state; or an accident then and an accident now."""
    if now is not None and rng.digest(now) == then.digest:
        return True
    return then.type == rng.PRISTINE and (now is None or rng.is_pristine(then.name, now))

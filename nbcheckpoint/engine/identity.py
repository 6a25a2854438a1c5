"""Is there a checkpoint for this code with these inputs? And if not, why not.

A step's code and the values it reads are identified before it runs, because running may change them. What it
turns out to depend on besides (files it opened, random numbers it drew) is known only afterwards: it is kept
with the checkpoint and compared when the checkpoint is about to be used.
"""

from __future__ import annotations

import ast
import os
import secrets
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from blake3 import blake3

from nbcheckpoint.codec.preview import preview, shape_of, type_name
from nbcheckpoint.fingerprint import explain, rng
from nbcheckpoint.fingerprint.code import digest_tree, free_names, names_in
from nbcheckpoint.fingerprint.files import unchanged
from nbcheckpoint.fingerprint.values import Digester, Unidentified, code_of, reach, reads_of
from nbcheckpoint.model import Checkpoint, Input, Reason
from nbcheckpoint.store import Store

CodeMode = Literal["ast", "text", "ignore"]


class Identity(NamedTuple):
    """What a step is, as far as it can be known before it runs."""

    code: str
    inputs: tuple[Input, ...]
    values: dict[str, Any]
    """The live inputs by label, to be looked at again when the step is done."""
    strings: frozenset[str]
    unidentified: tuple[str, ...]
    """Sentences about the inputs that could not be identified: with any of these the step just runs."""

    @property
    def digest(self) -> str:
        if self.unidentified:
            return secrets.token_hex(32)  # equal to nothing, itself included
        joined = "\n".join(f"{item.name}={item.digest}" for item in self.inputs)
        return blake3(joined.encode()).hexdigest()


def identify(
    tree: ast.Module,
    code: types.CodeType,
    namespace: dict[str, Any],
    *,
    source: str = "",
    mode: CodeMode = "ast",
    name: str = "",
    ignore: Collection[str] = (),
    depends: Collection[str] = (),
    builtin: Collection[str] = (),
    private: Callable[[str], str],
) -> Identity:
    """Code and inputs of a step about to run in `namespace`. `builtin` names are taken for granted.

    `private` gives the identity of something secret.
    """
    free = free_names(tree.body) - set(builtin)
    reads = list(reads_of(code, namespace, free))
    reads += [(label, namespace[label]) for label in depends if label in namespace]
    values = {label: value for label, value in reach(reads).items() if label not in {*ignore, *builtin}}
    inputs, unidentified = look_at(values)
    if mode == "ast":
        body = digest_tree(tree)
    else:
        body = blake3((source if mode == "text" else f"ignore {name}").encode()).hexdigest()
    mentions = [names_in(found) for found in (code, *(c for v in values.values() for c, _, _ in code_of(v)))]
    strings = frozenset().union(*(m.strings for m in mentions), (v for v in values.values() if type(v) is str))
    if any(_ENVIRONMENT & (m.attributes | m.reads) for m in mentions):
        inputs += tuple(_environment(strings, private))
    return Identity(body, inputs, values, strings, unidentified)


_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "expandvars"})


def _environment(strings: Collection[str], private: Callable[[str], str]) -> Iterator[Input]:
    """The variables that code which looks at the environment can name. Their values are nobody's business."""
    for name in sorted(strings):
        if name.isidentifier() and (name in os.environ or name.isupper()):
            value = os.environ.get(name)
            yield Input(name=name, digest=private(f"{name}={value}") if value is not None else "-", type="environment")


def look_at(values: dict[str, Any]) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    """Every value's identity as it is now. In the order of labels, because what they share counts."""
    digester = Digester()
    inputs, unidentified = [], []
    for label, value in sorted(values.items()):
        try:
            found = digester.digest(label, value)
        except Unidentified as problem:
            found = ""
            unidentified.append(f"input {problem.label} cannot be identified ({problem.why})")
        kind = "function" if isinstance(value, types.FunctionType) else type_name(value)
        inputs.append(Input(name=label, digest=found, type=kind, preview=shape_of(value) or preview(value)))
    return tuple(inputs), tuple(unidentified)


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
    if candidate.not_saved:
        names = ", ".join(item.name for item in candidate.not_saved)
        return explain.simple("unsaveable", f"{names} could not be saved", names=names)
    if candidate.created < expired_before:
        return explain.simple("expired", "the saved copy has expired")
    now = rng.states() if candidate.random else {}
    for drawn in candidate.random:
        if not _same_random(drawn, now.get(drawn.name)):
            return explain.changed_random(drawn.name)
    for file in candidate.files:
        if not unchanged(file):
            return explain.changed_file(file, exists=os.path.exists(file.path))
    return None


def _same_random(then: Input, now: Any) -> bool:
    """Same state; or an accident then and an accident now."""
    if now is not None and rng.digest(now) == then.digest:
        return True
    return then.type == rng.PRISTINE and (now is None or rng.is_pristine(then.name, now))

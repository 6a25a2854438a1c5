"""Frames, columns and arrays that lie in the same memory: what is saved together behaves afterwards as it would have.

A random program makes some out of each other and forgets some; what is left is saved and restored; then both, the live
ones and the restored ones, are written to in the same way.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbcheckpoint.model import Checkpoint
from nbcheckpoint.store import open_store

pytestmark = pytest.mark.skipif(
    int(pd.__version__.partition(".")[0]) < 3, reason="before pandas 3, columns write back to frames they came from"
)
MODULES = {"pd": pd, "np": np}
START = (
    "s = pd.Series([1., 2, 3, 4])",
    "df = pd.DataFrame({'x': [1., 2, 3], 'y': [4., 5, 6], 'z': ['a', 'b', 'c']})",
    "when = pd.Series(pd.date_range('2020', periods=4))",
    "words = pd.Series(list('abcd'), dtype=object)",
    "counts = pd.Series([1, None, 3], dtype='Int64')",
    "sorts = pd.Series(list('abca'), dtype='category')",
)
OF_COLUMNS = (
    *("{0}[:2]", "{0}.iloc[1:]", "{0}.rename('q')", "{0}.to_frame()", "{0}", "{0}.copy(deep=False)"),
    *("{0}.array", "{0}.values", "{0}.to_numpy()", "{0}.to_numpy()[:2]", "np.asarray({0})", "[{0}]", "{0}[::2]"),
    *("{0}.reset_index(drop=True)", "pd.Index({0})", "pd.DataFrame({{'a': {0}, 'b': {0}}})", "{0}.index"),
)
OF_FRAMES = (
    *("{0}[{0}.columns[0]]", "{0}.iloc[:2]", "{0}[{0}.columns[:1]]", "{0}.rename(columns=str)", "{0}.to_numpy()"),
    *("{0}[[{0}.columns[0]]].to_numpy()", "{0}[{0}.columns[0]].to_numpy()", "{0}.copy(deep=False)", "{0}.T"),
    *("{0}.reset_index()", "{0}.loc[:, {0}.columns[-1]]", "{0}.index", "{0}.set_index({0}.columns[0])"),
    *("{0}.iloc[::2]", "{0}.iloc[:2, :1]", "{{'held': {0}.iloc[1:]}}"),
)
OF_ARRAYS = (
    *("{0}[:2]", "{0}.T", "{0}.reshape(-1)", "pd.Series({0}.reshape(-1))", "pd.Series({0}.reshape(-1), copy=False)"),
    *("pd.DataFrame({0}.reshape(-1, 1), copy=False)", "pd.Index({0}.reshape(-1), copy=False)", "{0}[::-1]"),
)
WRITES: dict[type, tuple[str, ...]] = {
    pd.Series: ("{0}.iloc[0] = {1}", "{0}.iloc[-1:] = {1}", "{0}.array[0] = {1}", "{0}.loc[{0}.index[0]] = {1}"),
    pd.DataFrame: (
        *("{0}.iloc[0, 0] = {1}", "{0}.loc[1, {0}.columns[-1]] = {1}", "{0}[{0}.columns[0]] *= 2"),
        *("{0}.values[0, 0] = {1}", "{0}.insert(0, 'n', {1})"),
    ),
    np.ndarray: ("{0}.reshape(-1)[0] = {1}", "{0}.flags.writeable = True", "{0}[-1:] = {1}"),
    pd.api.extensions.ExtensionArray: ("{0}[0] = {1}", "{0}[:1] = {1}"),
}


def make(chance: random.Random) -> tuple[dict[str, Any], list[str]]:
    """Some variables, and how they came to be."""
    there: dict[str, Any] = {}
    program: list[str] = []
    for text in chance.sample(START, 2):
        execute(text, there)
        program.append(text)
    for number in range(chance.randint(1, 5)):
        of = chance.choice(list(there))
        kinds = ((pd.Series, OF_COLUMNS), (pd.DataFrame, OF_FRAMES), (np.ndarray, OF_ARRAYS))
        texts = next((texts for kind, texts in kinds if isinstance(there[of], kind)), ())
        text = f"v{number} = {chance.choice(texts).format(of)}" if texts else "pass"
        if execute(text, there) == "done":
            program.append(text)
    kept = [name for name in there if chance.random() < 0.8] or list(there)
    return {name: there[name] for name in kept}, [*program, f"keep {kept}"]


def writes(chance: random.Random, there: dict[str, Any]) -> list[str]:
    texts = []
    for _ in range(chance.randint(1, 5)):
        name = chance.choice(list(there))
        value = chance.choice((chance.randint(50, 99), float(chance.randint(50, 99)), "'b'", "pd.Timestamp('2021')"))
        fitting = next((texts for kind, texts in WRITES.items() if isinstance(there[name], kind)), ())
        forget = not fitting or chance.random() < 0.2
        texts.append(f"{name} = None" if forget else chance.choice(fitting).format(name, value))
    return texts


def execute(text: str, there: dict[str, Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(text, MODULES, there)
        except Exception as error:  # whatever pandas thinks of it: both have to think the same
            return type(error).__name__
    return "done"


def restored(values: dict[str, Any]) -> dict[str, Any] | None:
    """None if some of it says that it cannot be saved."""
    draft = Checkpoint(id="", created="", run="", step="", code="0" * 64)
    with open_store("memory://") as store:
        saved = store.save(draft, values).checkpoint
        return None if saved.not_saved else store.load(saved.id).values


def after(texts: list[str], there: dict[str, Any]) -> list[str]:
    done = [execute(text, there) for text in texts]
    return [*done, *(f"{name}: {there[name]!r}" for name in sorted(there))]


@pytest.mark.parametrize("seed", range(0, 1500, 300))
def test_what_shares_memory_behaves_after_a_restore_as_it_would_have(seed: int) -> None:
    compared = 0
    for number in range(seed, seed + 300):
        chance = random.Random(number)
        there, program = make(chance)
        texts = writes(chance, there)
        found = restored(there)
        if found is not None:
            compared += 1
            assert after(texts, found) == after(texts, there), (number, program, texts)
    assert compared > 280

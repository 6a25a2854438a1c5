"""What identifies a cell, and which names it reads from before it."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

from nbcheckpoint.fingerprint.code import digest_tree, free_names, free_words, words_said_by
from nbcheckpoint.whose import is_user_code, is_user_module


def tree(source: str) -> str:
    return digest_tree(ast.parse(source))


@pytest.mark.parametrize(
    ("one", "two"),
    [("x=1", "x = 1  # one"), ("f(a,\n  b)", "f(a, b)"), ("x = 'a'", 'x = "a"'), ("if a: b", "if a:\n    b\n\n")],
)
def test_layout_is_not_code(one: str, two: str) -> None:
    assert tree(one) == tree(two)


def test_code_is_code() -> None:
    sources = [
        "x=1",
        "x=1.0",
        "x=True",
        "x=None",
        "x",
        "y=1",
        "x=')'",
        "x='('",
        "x=[]",
        "x=()",
        "x={}",
        "x+=1",
        "x='.id='",
    ]
    sources += ["x=-1", "x=b''", "x=''", "f()", "f(x)", "f(x=1)", "f(*x)", "f(**x)", "x=1\ny", "if x: y", "while x: y"]
    sources += [
        "for x in y: z",
        "f'{x}'",
        "f'{x!r}'",
        "f'{x:3}'",
        "lambda: x",
        "lambda x: x",
        "await x",
        "del x",
        "...",
    ]
    assert len({tree(source) for source in sources}) == len(sources)


def test_a_very_deep_expression_is_no_problem() -> None:
    assert tree("x = " + " + ".join(["1"] * 900))


@pytest.mark.parametrize(
    ("source", "free"),
    [
        ("y = x", "x"),
        ("x = 1\ny = x", ""),
        ("x += 1", "x"),
        ("x = x + 1", "x"),
        ("import m\nm.f()", ""),
        ("for i in r: print(i)", "print r"),
        ("for i in r: pass\nprint(i)", "i print r"),
        ("while c: c = f()", "c f"),
        ("if c: x = 1\nprint(x)", "c print x"),
        ("if c: x = 1\nelse: x = 2\nprint(x)", "c print"),
        ("with o() as f: x = f.read()\nx", "o x"),
        ("try: x = 1\nexcept E as e: print(e)\nx", "E print x"),
        ("def f(): return x\nx = 1", "x"),
        ("class A:\n    y = z", "__name__ z"),
        ("[i for i in r if i > t]", "r t"),
        ("lambda v: v + w", "w"),
        ("x = 1\ndel x\nx", "x"),
        ("a[i] = b", "a b i"),
        ("x.y = 1", "x"),
        ("print(f'{v}')", "print v"),
        ("x: int = y", "int y"),
    ],
)
def test_free_names(source: str, free: str) -> None:
    own = {"__name__", "__annotations__"}  # Python's, not the user's
    assert free_names(ast.parse(source).body) - own == set(free.split()) - own


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("for i in r:\n    print('i', f'k {i}')", "k"),
        ("for i in r('i'):\n    pass", "i"),
        ("for i in r:\n    loss = f('loss')\n    print(loss=loss)", "loss"),
        ("for i in r:\n    loss = f(i)\n    print('loss of', i)", "of"),
        ("while (n := f()):\n    df.query('a > @n')", "a n"),
        ("if c:\n    k = 1\ndf.query('@k')", "k"),
        ("k = 1\ndel k\ndf.query('@k')", "k"),
    ],
)
def test_words_that_the_step_binds_before_it_says_them_are_no_names_from_before(source: str, said: str) -> None:
    assert free_words(ast.parse(source).body) == set(said.split())


def test_words_in_a_function_that_its_parameters_have_are_no_names_around_it() -> None:
    def logs(epoch: int, *, of: int) -> object:
        return f"epoch {epoch} of {of}, the loss", lambda: "epoch or what"

    def runs(k: int) -> None:
        get_ipython().run_line_magic("time", "k")  # type: ignore[name-defined]  # noqa: F821

    assert words_said_by(logs.__code__) - {"test", "locals", "logs", "lambda"} == {"the", "loss", "epoch", "or", "what"}
    assert "k" in words_said_by(runs.__code__)


@pytest.mark.parametrize(("folder", "theirs"), [("work", True), ("env/lib/python3/site-packages", False)])
def test_what_is_installed_in_another_environment_is_no_code_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, theirs: bool
) -> None:
    """As where one environment is laid on top of another: the path leads there."""
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "found_there.py").write_text("def helper(): return 1\n")
    monkeypatch.syspath_prepend(tmp_path / folder)
    module = importlib.import_module("found_there")
    try:
        assert is_user_module("found_there") is theirs
        assert is_user_code(module.helper) is theirs
    finally:
        del sys.modules["found_there"]

"""Every route is guarded twice: who are you, and may you?

Either guard alone refuses a stranger today, so asking a server cannot tell whether one of them went missing.
"""

from __future__ import annotations

import ast
from pathlib import Path

import nbcheckpoint

METHODS = {"get", "head", "post", "put", "patch", "delete"}
SERVER = Path(nbcheckpoint.__file__).parent / "server"


def test_every_method_of_every_handler_is_authenticated_and_authorised() -> None:
    methods = [
        method
        for file in SERVER.glob("*.py")
        for cls in ast.walk(ast.parse(file.read_text()))
        if isinstance(cls, ast.ClassDef) and any("Handler" in ast.unparse(base) for base in cls.bases)
        for method in cls.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name in METHODS
    ]
    assert {method.name for method in methods} == {"get", "post", "delete"}
    for method in methods:
        guards = [ast.unparse(decorator) for decorator in method.decorator_list]
        assert guards[:2] == ["web.authenticated", "authorized"], f"{method.name} in line {method.lineno}: {guards}"


def test_nothing_in_the_server_can_unpickle() -> None:
    """It never asks the store for values, only for records; what does is called by other names."""
    forbidden = {"pickle", "cloudpickle", "restore", "load", "loads", "trust"}
    for file in SERVER.glob("*.py"):
        used = {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, (ast.Attribute, ast.Name))
        }
        assert not used & forbidden, f"{file.name}: {used & forbidden}"

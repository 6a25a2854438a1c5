"""Every route is guarded twice: who are you, and may you?

Either guard alone refuses a stranger today, so asking a server cannot tell whether one of them went missing.
"""

from __future__ import annotations

import ast
from pathlib import Path

import nbcheckpoint

METHODS = {"get", "head", "post", "put", "patch", "delete"}


def test_every_method_of_every_route_is_authenticated_and_authorised() -> None:
    tree = ast.parse((Path(nbcheckpoint.__file__).parent / "server" / "routes.py").read_text())
    methods = [
        method
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name in METHODS
    ]
    assert methods
    for method in methods:
        guards = [ast.unparse(decorator) for decorator in method.decorator_list]
        assert guards[:2] == ["web.authenticated", "authorized"], f"{method.name} in line {method.lineno}: {guards}"

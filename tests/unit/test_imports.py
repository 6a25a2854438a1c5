"""What importing costs, and what it must not bring along."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("jupyterlab", "jupyter_server", "pandas", "numpy", "tornado", "diskcache", "IPython", "rich", "click")


def _modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    return set(subprocess.check_output([sys.executable, "-c", code], text=True).split())


@pytest.mark.parametrize("statement", ["import nbcheckpoint", "from nbcheckpoint.store import open_store"])
def test_importing_is_light(statement: str) -> None:
    loaded = _modules_after(statement)
    assert "nbcheckpoint" in loaded
    assert not loaded & set(HEAVY)


def test_a_notebook_is_run_without_a_grammar_of_addresses() -> None:
    """jsonschema builds one where it finds the package for it, and that takes a second."""
    statement = "from nbcheckpoint.cli.headless import _load_nbformat; _load_nbformat()"
    assert "nbformat" in _modules_after(statement)
    assert not _modules_after(statement) & {"rfc3987_syntax", "lark"}
    assert "rfc3987_syntax" in _modules_after(f"{statement}; import rfc3987_syntax"), "who wants it can have it"


def test_public_names_are_sorted_and_exist() -> None:
    import nbcheckpoint

    assert nbcheckpoint.__all__ == sorted(nbcheckpoint.__all__)
    for name in nbcheckpoint.__all__:
        assert getattr(nbcheckpoint, name) is not None


def test_every_error_has_a_docstring_and_is_in_the_tree() -> None:
    from nbcheckpoint import errors

    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert len(classes) > 10
    for cls in classes:
        assert cls.__doc__
        assert cls.__name__ in (errors.__doc__ or "")
        assert issubclass(cls, errors.Error)

"""Where things are and what is set: argument > environment > default, one place for all of it."""

from __future__ import annotations

import os
import secrets
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from nbcheckpoint.errors import StoreError, UsageError
from nbcheckpoint.naming import give_name
from nbcheckpoint.units import parse_size

STORE_NAME = ".nbcheckpoint"
ENV_STORE = "NBCHECKPOINT_STORE"
PROJECT_MARKS = (".git", "pyproject.toml", "setup.py")


def find_store(start: Path) -> Path | None:
    """The nearest `.nbcheckpoint` folder at or above `start`, found as git finds `.git`; None where there is none.

    >>> project = Path(os.curdir).resolve() / "project"
    >>> (project / "notebooks").mkdir(parents=True)
    >>> (project / ".nbcheckpoint").mkdir()
    >>> find_store(project / "notebooks") == project / ".nbcheckpoint"
    True
    """
    for folder in (start, *start.parents):
        candidate = folder / STORE_NAME
        if candidate.is_dir():
            return candidate
    return None


def store_location(argument: str | os.PathLike[str] | None = None, start: Path | None = None) -> str:
    """The store to use: argument, environment, nearest existing one, else a new one at the project's root."""
    if argument is not None:
        return os.fspath(argument)
    if os.environ.get(ENV_STORE):
        return os.environ[ENV_STORE]
    try:
        start = (start or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise UsageError("the working directory is gone", hint="cd to one that is there") from error
    return str(find_store(start) or project_root(start) / STORE_NAME)


def project_root(start: Path) -> Path:
    """The nearest folder at or above `start` that looks like a project's root, else `start` itself."""
    home = Path.home()
    for folder in (start, *start.parents):
        if folder == home:
            break
        if any((folder / mark).exists() for mark in PROJECT_MARKS):
            return folder
    return start


def data_dir() -> Path:
    """The user's Jupyter data directory. The rules are Jupyter's; asking Jupyter would import it."""
    if os.environ.get("JUPYTER_DATA_DIR"):
        return Path(os.environ["JUPYTER_DATA_DIR"])
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Jupyter"
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or home) / "jupyter"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "jupyter"


def project_settings() -> dict[str, Any]:
    """`[tool.nbcheckpoint]` of the project's pyproject.toml; nothing where there is none, or no way to read it."""
    file = project_root(Path.cwd().resolve()) / "pyproject.toml"
    try:
        stamp = file.stat().st_mtime_ns
    except OSError:
        return {}
    return dict(_read_settings(file, stamp))


@lru_cache(maxsize=8)
def _read_settings(file: Path, stamp: int) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib  # whoever has a pyproject.toml usually has this one
        except ImportError:
            return {}
    try:
        found = tomllib.loads(file.read_text()).get("tool", {}).get("nbcheckpoint", {})
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    return {name.replace("-", "_"): value for name, value in found.items()}


ENV_COPY = "NBCHECKPOINT_COPY"


def copy_location() -> str:
    """The second place, where a copy of the store is kept; empty where there is none."""
    return os.environ.get(ENV_COPY) or ""


ENV_WARN_SIZE = "NBCHECKPOINT_WARN_SIZE"


def warn_size() -> int:
    """Checkpoints larger than this get a word in the line under the cell; 0 turns that off."""
    try:
        return parse_size(os.environ.get(ENV_WARN_SIZE) or "1GB")
    except UsageError as error:
        raise UsageError(f"{ENV_WARN_SIZE}: {error}", hint=error.hint) from error


ENV_ON_SAVE_ERROR = "NBCHECKPOINT_ON_SAVE_ERROR"
OnSaveError = Literal["warn", "fail"]


def on_save_error() -> OnSaveError:
    """What happens to a cell that could not be saved. `warn`: one line says so, and its values stay live. `fail`: it
    fails, at the statement that could not be saved, whose values stay live too."""
    chosen = os.environ.get(ENV_ON_SAVE_ERROR) or "warn"
    if chosen not in get_args(OnSaveError):
        raise UsageError(f"{ENV_ON_SAVE_ERROR} is {chosen!r}", hint="set it to warn or fail")
    return cast(OnSaveError, chosen)


ENV_ENCRYPT = "NBCHECKPOINT_ENCRYPT"


def signing_key() -> bytes:
    """The user's key, made on first use. It lives outside every store, so a copied store is not trusted."""
    return _user_key("signing_key")


def encryption_key(*, create: bool) -> bytes:
    """The user's other key. Made for a new encrypted store only: a new key cannot open an old one."""
    path = data_dir() / "nbcheckpoint" / "encryption_key"
    if not create and not path.exists():
        raise StoreError("this store is encrypted, and your encryption key is not here", hint=f"put it back at {path}")
    return _user_key("encryption_key")


def _user_key(name: str) -> bytes:
    path = data_dir() / "nbcheckpoint" / name
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = _create_key(path)
    except OSError as error:
        raise StoreError(f"cannot read your key: {error.strerror}", hint=f"look at {path}") from error
    if len(key) != 32:
        raise StoreError(f"your {name.replace('_', ' ')} is damaged", hint=f"restore {path} from a backup")
    return key


def _create_key(path: Path) -> bytes:
    """Several processes may get here at once: the key is complete before it has its name, and one wins."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = secrets.token_bytes(32)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.fchmod(handle, 0o600) if hasattr(os, "fchmod") else None
            os.write(handle, key)
            os.fsync(handle)
        finally:
            os.close(handle)
        try:
            give_name(draft, path)
        except FileExistsError:
            key = path.read_bytes()
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create your key: {error.strerror}", hint=f"is {path.parent} writeable?") from error
    return key

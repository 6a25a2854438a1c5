"""What a run was made with: versions, machine, commit. Shown where it differs later; never part of a key."""

from __future__ import annotations

import platform
import sys
from pathlib import Path


def snapshot() -> dict[str, str]:
    """Name -> version, of everything that is loaded and says so. No value of an environment variable, no user name."""
    found = {"python": platform.python_version(), "host": platform.node(), "system": platform.platform(terse=True)}
    found["prefix"] = sys.prefix  # where to look later for what is installed then
    for name, module in sorted(sys.modules.copy().items()):
        # Not getattr: some modules answer that with a warning.
        version = vars(module).get("__version__") if "." not in name and hasattr(module, "__dict__") else None
        if isinstance(version, str) and name not in sys.stdlib_module_names and not name.startswith("_"):
            found[name] = version[:40]
    commit = git_commit(Path.cwd())
    return {**found, "commit": commit} if commit else found


def git_commit(start: Path) -> str:
    """The commit that is checked out, read from git's own files; "" outside of a repository."""
    for folder in (start, *start.parents):
        head = folder / ".git" / "HEAD"
        try:
            text = head.read_text().strip()
        except OSError:
            continue
        if not text.startswith("ref: "):
            return text[:40]
        return _resolved(folder / ".git", text.removeprefix("ref: "))
    return ""


def _resolved(git: Path, reference: str) -> str:
    try:
        return (git / reference).read_text().strip()[:40]
    except OSError:
        pass  # packed
    try:
        lines = (git / "packed-refs").read_text().splitlines()
    except OSError:
        return ""
    return next((line[:40] for line in lines if line.endswith(f" {reference}")), "")

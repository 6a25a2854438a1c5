"""A real Jupyter server in a world of its own, and a Chromium to look at it with.

Home, configuration, keys and runtime files are temporary, so that nothing of the developer's gets in and
nothing of the test's gets out.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import nbformat
from playwright.sync_api import Browser, sync_playwright

TOKEN = "a-token-for-tests"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Jupyter:
    """A running server: where it is, what it serves, and what it said."""

    root: Path
    environment: dict[str, str]
    url: str = ""
    log: list[str] = field(default_factory=list)

    def address(self, path: str, **query: str) -> str:
        parts = "&".join(f"{name}={quote(value)}" for name, value in {"token": TOKEN, **query}.items())
        return f"{self.url}{quote(path)}?{parts}"

    def write_notebook(self, path: str, *cells: str) -> str:
        """A notebook of code cells; one that begins with # and a space is Markdown."""
        v4 = nbformat.v4
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        notebook = v4.new_notebook(
            cells=[v4.new_markdown_cell(text) if text.startswith("# ") else v4.new_code_cell(text) for text in cells],
            metadata={
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                "language_info": {"name": "python"},
            },
        )
        nbformat.write(notebook, file)
        return path


@contextmanager
def serving(application: str, *arguments: str, root: Path, home: Path) -> Iterator[Jupyter]:
    """`python -m application`, until the end of the block. Raises RuntimeError if it does not start."""
    server = Jupyter(root.resolve(), environment(home))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", application, "--no-browser", "--ip=127.0.0.1", "--port=0"),
            *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={server.root}", "--allow-root"),
            # Lets a test wait for the kernel's connection, which no page shows.
            *("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"),
            *arguments,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=server.environment,
        cwd=server.root,
    )
    try:
        server.url = _address(process, server.log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment(home: Path) -> dict[str, str]:
    """The environment of a user who has never used Jupyter."""
    places = {
        "HOME": home,
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "IPYTHONDIR": home / "ipython",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
    }
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    news = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    ours = ("JUPYTER", "IPYTHON", "NBCHECKPOINT")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {name: str(place) for name, place in places.items()} | {"TZ": "UTC"}


def _address(process: subprocess.Popen[str], log: list[str]) -> str:
    """The address the server says it runs at. Its log is read on, for it would stop once the pipe is full."""
    found: list[str] = []
    known = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line)
            address = re.search(r"http://127\.0\.0\.1:\d+/", line)
            if address and not found:
                found.append(address[0])
                known.set()
        known.set()

    threading.Thread(target=read, name="jupyter-log", daemon=True).start()
    if not known.wait(90) or not found:
        raise RuntimeError("the Jupyter server did not start:\n" + "".join(log))
    _wait_until_accepting(found[0], process, log)
    return found[0]


def _wait_until_accepting(url: str, process: subprocess.Popen[str], log: list[str]) -> None:
    """The server says its address a moment before it listens there."""
    parts = urlsplit(url)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((parts.hostname, parts.port), timeout=5).close()
            return
        except ConnectionRefusedError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the Jupyter server does not answer:\n" + "".join(log)) from None
            time.sleep(0.02)


def find_chromium() -> str | None:
    """The system's Chromium: $CHROMIUM, or the first of the usual names."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


@contextmanager
def chromium(executable: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, headless=True, args=CHROMIUM_FLAGS, timeout=60_000
        )
        yield browser
        browser.close()

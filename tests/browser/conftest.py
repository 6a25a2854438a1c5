"""A real Jupyter server, and a real Chromium looking at it.

Every server lives in a world of its own (home, configuration, keys, runtime files), so that nothing of the
developer's gets in and nothing of the test's gets out. On no page may our code end in an uncaught error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from nbcheckpoint.store import Store, open_store

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
TOKEN = "a-token-for-tests"
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

    url: str
    root: Path
    environment: dict[str, str]
    log: list[str] = field(default_factory=list)

    def address(self, path: str, **query: str) -> str:
        parts = "&".join(f"{name}={quote(value)}" for name, value in {"token": TOKEN, **query}.items())
        return f"{self.url}{quote(path)}?{parts}"

    def write_notebook(self, path: str, *cells: str) -> str:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                "language_info": {"name": "python"},
            },
        )
        nbformat.write(notebook, file)
        return path

    def store(self, folder: str) -> Store:
        """The store in a folder of the root, opened under the server's own key."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JUPYTER_DATA_DIR", self.environment["JUPYTER_DATA_DIR"])
            return open_store(self.root / folder / ".nbcheckpoint", create=True)


def _environment(home: Path) -> dict[str, str]:
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
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "NBCHECKPOINT"))}
    return kept | {name: str(place) for name, place in places.items()} | {"TZ": "UTC"}


@pytest.fixture(scope="session")
def start_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Jupyter]]:
    """Starts servers; all of them are ended with the session."""
    running: list[subprocess.Popen[str]] = []

    def start(application: str, *arguments: str) -> Jupyter:
        root = tmp_path_factory.mktemp("root").resolve()
        server = Jupyter("", root, _environment(tmp_path_factory.mktemp("home")))
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", application, "--no-browser", "--ip=127.0.0.1", "--port=0"),
                *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}", "--allow-root"),
                # Lets a test wait for the kernel's connection, which no page shows.
                *("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"),
                *arguments,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=server.environment,
            cwd=root,
        )
        running.append(process)
        server.url = _wait_for_address(process, server.log)
        return server

    yield start
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_address(process: subprocess.Popen[str], log: list[str]) -> str:
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
        pytest.fail("the Jupyter server did not start:\n" + "".join(log))
    return found[0]


@pytest.fixture(scope="session")
def lab(start_jupyter: Callable[..., Jupyter]) -> Jupyter:
    server = start_jupyter("jupyterlab")
    _require_built_extension()
    return server


def _require_built_extension() -> None:
    import nbcheckpoint

    built = Path(nbcheckpoint.__file__).parent / "labextension" / "package.json"
    installed = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "nbcheckpoint" / "package.json"
    if not (built.exists() or installed.exists()):
        pytest.fail("the lab extension is not built: (cd labextension && npm ci && npm run build)")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    executable = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        problem = f"no Chromium found (looked for {', '.join(names)} and at $CHROMIUM)"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(problem + "; the browser tests must run in CI")
        pytest.skip(problem)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=executable, headless=True, args=CHROMIUM_FLAGS, timeout=60_000
        )
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1400, "height": 900}, locale="en-GB", timezone_id="UTC")
    made.set_default_timeout(45_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page on which our code may not throw. A picture is taken of each one, as the test left it."""
    made = context.new_page()
    errors: list[str] = []
    # Notebook 7.6 throws one of its own while it starts (reading 'schema'), with us or without us.
    made.on("pageerror", lambda error: errors.append(error.stack or str(error)))
    yield made
    ARTIFACTS.mkdir(exist_ok=True)
    made.screenshot(path=ARTIFACTS / f"{re.sub(r'[^a-zA-Z0-9]+', '-', request.node.name)}.png", timeout=20_000)
    assert [error for error in errors if "/extensions/nbcheckpoint/" in error] == []


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    """A folder of the test's own, so that its store is its own too."""
    name: Any = request.node.name
    return re.sub(r"[^a-zA-Z0-9]+", "-", str(name))

"""Servers and pages for the browser tests. On no page may our code end in an uncaught error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page

import nbcheckpoint
from tests.browser.jupyter import CHROMIUM_NAMES, Jupyter, chromium, find_chromium, serving
from tests.browser.pages import clear_desk, open_in_lab

ARTIFACTS = Path(__file__).parents[1] / "artifacts"


@pytest.fixture(scope="session")
def start_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Jupyter]]:
    """Starts servers; all of them end with the session."""
    _require_built_extension()
    with ExitStack() as servers:

        def start(application: str, *arguments: str) -> Jupyter:
            root, home = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("home")
            return servers.enter_context(serving(application, *arguments, root=root, home=home))

        yield start


def _require_built_extension() -> None:
    built = Path(nbcheckpoint.__file__).parent / "labextension" / "package.json"
    installed = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "nbcheckpoint" / "package.json"
    if not (built.exists() or installed.exists()):
        pytest.fail("the lab extension is not built: (cd labextension && npm ci && npm run build)")


@pytest.fixture(scope="session")
def lab(start_jupyter: Callable[..., Jupyter]) -> Jupyter:
    return start_jupyter("jupyterlab")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        problem = f"no Chromium found (looked for {', '.join(CHROMIUM_NAMES)} and at $CHROMIUM)"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"{problem}; in CI the browser tests must run")
        pytest.skip(problem)
    with chromium(executable) as launched:
        yield launched


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1400, "height": 900}, locale="en-GB", timezone_id="UTC")
    made.set_default_timeout(45_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of the test's own, on which our code may not throw. A picture is taken of it, as the test left it."""
    made = context.new_page()
    errors = _watched(made)
    yield made
    _look(made, request)
    made.close()
    assert errors == []


@pytest.fixture(scope="module")
def desk(context: BrowserContext, lab: Jupyter) -> Page:
    """One JupyterLab for all tests of a module: loading it takes longer than most of them."""
    made = context.new_page()
    open_in_lab(made, lab)
    return made


@pytest.fixture
def tidy(desk: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The module's JupyterLab with nothing open in it."""
    errors = _watched(desk)
    yield desk
    _look(desk, request)
    clear_desk(desk)
    assert errors == []


def _watched(page: Page) -> list[str]:
    """What our code throws on a page from here on."""
    errors: list[str] = []

    def note(error: Error) -> None:
        # Notebook 7.6 throws one of its own while it starts (reading 'schema'), with us or without us.
        if "/extensions/nbcheckpoint/" in (error.stack or ""):
            errors.append(error.stack or str(error))

    page.on("pageerror", note)
    return errors


def _look(page: Page, request: pytest.FixtureRequest) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{_slug(request)}.png", timeout=20_000)


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    """A folder of the test's own, so that its store is its own too; of each attempt's own, where there are several."""
    attempt = getattr(request.node, "execution_count", 1)
    return _slug(request) + (f"-{attempt}" if attempt > 1 else "")


def _slug(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)

"""Notebook 7 takes the same extension: the panel, the commands and the badge."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.jupyter import Jupyter
from tests.browser.pages import cell, choose, run_all, runs, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(start_jupyter: Callable[..., Jupyter]) -> Jupyter:
    return start_jupyter("notebook")


def test_the_panel_and_the_badge_are_there(page: Page, server: Jupyter, folder: str) -> None:
    path = server.write_notebook(
        f"{folder}/slow.ipynb", "%load_ext nbcheckpoint", "%%checkpointed\nanswer = 6 * 7\nprint(answer)"
    )
    page.goto(server.address(f"notebooks/{path}"))
    wait_until_idle(page)
    run_all(page)
    expect(cell(page, 1).locator(".jp-OutputArea")).to_contain_text("computed")
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-computed"))
    choose(page, "View", "Show checkpoints")
    panel = page.locator("#nbcheckpoint-sidebar")
    expect(panel).to_be_visible()
    expect(runs(panel, "mine")).to_contain_text("slow.ipynb")


def test_the_page_with_the_files_bears_us(page: Page, server: Jupyter) -> None:
    """It has neither notebooks nor a place on the left that is open; nothing of ours may need them."""
    page.goto(server.address("tree"))
    expect(page.locator(".jp-DirListing").first).to_be_visible()
    page.wait_for_function("() => window.jupyterapp.hasPlugin('nbcheckpoint:plugin')")
    page.wait_for_function("() => window.jupyterapp.isPluginActivated('nbcheckpoint:plugin')")

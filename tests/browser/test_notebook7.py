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


def test_a_killed_notebook_is_resumed_from_its_banner(page: Page, server: Jupyter, folder: str) -> None:
    path = server.write_notebook(
        f"{folder}/train.ipynb",
        "%load_ext nbcheckpoint\nimport os, signal",
        "%%checkpointed\nanswer = 6 * 7\nprint('the answer is', answer)",
        "%%checkpointed\nfirst = not os.path.exists('killed')\nopen('killed', 'w').close()\n"
        "if first: os.kill(os.getpid(), signal.SIGKILL)",
        "answer + 1",
    )
    page.goto(server.address(f"notebooks/{path}"))
    wait_until_idle(page)
    toggle = page.locator("[data-command='nbcheckpoint:toggle-auto']")
    expect(toggle.first).to_be_visible()
    run_all(page)
    # Without a reload: the page learns of the death, and the banner comes by itself.
    banner = page.get_by_role("region", name="Interrupted run of this notebook")
    expect(banner).to_contain_text("cut short")
    wait_until_idle(page)
    while page.locator(".jp-Dialog").count():
        page.locator(".jp-Dialog button").last.click()
    banner.get_by_role("button", name="Resume").click()
    expect(cell(page, 3).locator(".jp-OutputArea")).to_contain_text("43")
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-restored"))
    expect(banner).to_be_hidden()


def test_the_page_with_the_files_bears_us(page: Page, server: Jupyter) -> None:
    """It has neither notebooks nor a place on the left that is open; nothing of ours may need them."""
    page.goto(server.address("tree"))
    expect(page.locator(".jp-DirListing").first).to_be_visible()
    page.wait_for_function("() => window.jupyterapp.hasPlugin('nbcheckpoint:plugin')")
    page.wait_for_function("() => window.jupyterapp.isPluginActivated('nbcheckpoint:plugin')")

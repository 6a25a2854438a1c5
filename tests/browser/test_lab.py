"""JupyterLab: what a user sees of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from nbcheckpoint.model import Reason, Step
from tests.browser.conftest import ARTIFACTS
from tests.browser.jupyter import Jupyter
from tests.browser.pages import cell, open_in_lab, restart_kernel, run_all, section, sidebar, store_in

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

HOSTILE = "<img src=x onerror=window.__pwned=1>"


def test_an_empty_panel_teaches(page: Page, lab: Jupyter, folder: str) -> None:
    open_in_lab(page, lab, lab.write_notebook(f"{folder}/new.ipynb", "1 + 1"))
    panel = sidebar(page)
    expect(panel).to_contain_text("%load_ext nbcheckpoint")
    expect(panel).to_contain_text("%%checkpointed")


def test_runs_are_listed_live_with_their_facts(page: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/train.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        run = store.begin_run("train.ipynb")
        store.update_run(run.id, counts={"completed": 2, "restored": 3}, bytes=432_000_000, spared_seconds=724)
        store.begin_run("other/eda.ipynb")
        open_in_lab(page, lab, path)
        panel = sidebar(page)
        mine = section(panel, "This notebook").get_by_role("treeitem")
        expect(mine).to_have_count(1)
        expect(mine).to_have_attribute("data-status", "running")
        for fact in ("train.ipynb", "Running", "2 computed", "3 restored", "432 MB saved", "12m 04s spared"):
            expect(mine).to_contain_text(fact)
        expect(section(panel, "All notebooks").get_by_role("treeitem")).to_have_count(2)
        # Live: nobody touches the page while the store changes.
        store.update_run(run.id, status="failed", owner=None)
        expect(mine).to_have_attribute("data-status", "failed")
        expect(mine).to_contain_text("Failed")
        panel.locator("input[type=search]").fill("eda")
        expect(section(panel, "All notebooks").get_by_role("treeitem")).to_have_count(1)
        expect(mine).to_have_count(0)


def test_a_run_opens_to_its_steps_by_keyboard(page: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/train.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        run = store.begin_run("train.ipynb")
        reason = Reason(code="changed", text="helper clean() changed")
        store.put_step(Step(run=run.id, address="000000", name="load", status="restored", seconds=0.041))
        store.put_step(Step(run=run.id, address="000001", name="fit", status="completed", seconds=724, reason=reason))
        store.put_step(Step(run=run.id, address="000002", name="plot", status="failed", error="ValueError: no data"))
    open_in_lab(page, lab, path)
    panel = sidebar(page)
    row = section(panel, "This notebook").locator(".nbc-Run")
    row.focus()
    page.keyboard.press("ArrowRight")
    expect(row).to_have_attribute("aria-expanded", "true")
    steps = row.locator(".nbc-Step")
    expect(steps).to_have_count(3)
    expect(steps.nth(0)).to_contain_text(re.compile("load.*41 ms.*restored"))
    expect(steps.nth(1)).to_contain_text(re.compile("fit.*12m 04s.*computed.*helper clean\\(\\) changed"))
    expect(steps.nth(2)).to_contain_text("ValueError: no data")
    page.keyboard.press("ArrowDown")
    expect(steps.nth(0)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(row).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(steps).to_have_count(0)


def test_names_from_a_store_are_text_and_never_run(page: Page, lab: Jupyter, folder: str) -> None:
    """A shared store is written by others: what they call their runs must not become markup."""
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        run = store.begin_run(HOSTILE, note=HOSTILE)
        reason = Reason(code="x", text=HOSTILE)
        store.put_step(Step(run=run.id, address="000000", name=HOSTILE, status="failed", error=HOSTILE, reason=reason))
    open_in_lab(page, lab, path)
    panel = sidebar(page)
    row = section(panel, "All notebooks").locator(".nbc-Run")
    expect(row).to_contain_text(HOSTILE)
    row.locator(".nbc-Run-row").click()
    expect(row.locator(".nbc-Step")).to_contain_text(HOSTILE)
    expect(panel.locator("img")).to_have_count(0)
    assert page.evaluate("window.__pwned") is None


def test_the_palette_shows_the_panel(page: Page, lab: Jupyter) -> None:
    open_in_lab(page, lab)
    page.keyboard.press("Control+Shift+C")
    page.locator("#modal-command-palette input").fill("show checkpoints")
    page.locator(".lm-CommandPalette-item", has_text="Show checkpoints").click()
    expect(page.locator("#nbcheckpoint-sidebar")).to_be_visible()


def test_a_server_without_the_extension_says_what_to_do(page: Page, start_jupyter: Callable[..., Jupyter]) -> None:
    server = start_jupyter("jupyterlab", "--ServerApp.jpserver_extensions={'nbcheckpoint': False}")
    open_in_lab(page, server)
    panel = sidebar(page)
    expect(panel.get_by_role("alert")).to_contain_text("does not know nbcheckpoint")
    expect(panel.get_by_role("alert")).to_contain_text("jupyter server extension enable nbcheckpoint")


def test_a_cell_computed_once_is_restored_in_a_new_kernel(page: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(
        f"{folder}/slow.ipynb",
        "%load_ext nbcheckpoint",
        "%%checkpointed\nimport time\nstart = time.monotonic()\nwhile time.monotonic() - start < 0.5:\n"
        "    pass\nanswer = 6 * 7\nprint('the answer is', answer)",
        "answer + 1",
    )
    open_in_lab(page, lab, path)
    run_all(page)
    output = cell(page, 1).locator(".jp-OutputArea")
    expect(output).to_contain_text("computed")
    expect(output).to_contain_text("the answer is 42")
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-computed"))

    restart_kernel(page)
    run_all(page)
    expect(output).to_contain_text("restored from")
    expect(output).to_contain_text("the answer is 42")
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-restored"))
    expect(cell(page, 1).locator(".jp-InputPrompt")).to_have_attribute("title", re.compile("restored from"))
    expect(cell(page, 2).locator(".jp-OutputArea")).to_contain_text("43")

    runs = section(sidebar(page), "This notebook").locator(".nbc-Run")
    expect(runs.first).to_have_attribute("data-status", "running")
    expect(runs.first).to_contain_text("slow.ipynb")
    expect(runs.first).to_contain_text("1 restored")

    page.screenshot(path=ARTIFACTS / "restored.png")

    # The badge comes from the file, not from the kernel: it is there again after a reload.
    page.keyboard.press("Control+s")
    expect(page.locator(".lm-DockPanel-tabBar .jp-mod-dirty")).to_have_count(0)
    open_in_lab(page, lab, path)
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-restored"))

"""What a notebook itself shows: badges, automatic mode, the banner. All of it outlives a kernel and a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from nbcheckpoint.model import Step
from tests.browser.jupyter import Jupyter
from tests.browser.pages import (
    cell,
    choose,
    evaluated,
    open_in_lab,
    open_notebook,
    press_in,
    run_all,
    run_cell,
    save,
    set_source,
    sidebar,
    store_in,
    wait_until_idle,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

AUTO = ".jp-NotebookPanel:not(.lm-mod-hidden) [data-command='nbcheckpoint:toggle-auto']"


def test_a_cell_is_converted_and_back_from_its_toolbar(tidy: Page, lab: Jupyter, folder: str) -> None:
    open_notebook(tidy, lab.write_notebook(f"{folder}/a.ipynb", "x = 1", "y = 2"), kernel=False)
    cell(tidy, 1).click()
    button = cell(tidy, 1).locator("[data-command='nbcheckpoint:convert-cell']")
    button.click()
    expect(cell(tidy, 1).locator(".cm-content")).to_contain_text("%%checkpointed")
    button.click()
    expect(cell(tidy, 1).locator(".cm-content")).to_have_text("y = 2")


def test_the_menus_have_what_the_buttons_have(tidy: Page, lab: Jupyter, folder: str) -> None:
    open_notebook(tidy, lab.write_notebook(f"{folder}/a.ipynb", "x = 1"), kernel=False)
    cell(tidy, 0).click()
    source = cell(tidy, 0).locator(".cm-content")
    choose(tidy, "Run", "Convert cell to checkpointed")
    expect(source).to_contain_text("%%checkpointed")
    choose(tidy, "Run", "Convert to a plain cell")
    expect(source).to_have_text("x = 1")
    choose(tidy, "Run", "Automatic checkpoints")
    expect(tidy.locator("#jp-main-statusbar")).to_contain_text("Checkpoints: auto")
    choose(tidy, "Run", "Automatic checkpoints")
    expect(tidy.locator("#jp-main-statusbar")).not_to_contain_text("Checkpoints: auto")
    if tidy.locator("#nbcheckpoint-sidebar").is_visible():
        tidy.keyboard.press("Control+b")
    expect(tidy.locator("#nbcheckpoint-sidebar")).to_be_hidden()
    choose(tidy, "View", "Show checkpoints")
    expect(tidy.locator("#nbcheckpoint-sidebar")).to_be_visible()


def test_badges_say_failed_and_out_of_date_with_the_reason(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(
        f"{folder}/a.ipynb",
        "%load_ext nbcheckpoint\ndef helper(n):\n    return n + 1",
        "%%checkpointed\ntotal = sum(helper(n) for n in range(10))\nprint(total)",
        "%%checkpointed\nraise ValueError('no data')",
    )
    open_notebook(tidy, path)
    run_all(tidy)
    badge = cell(tidy, 2).locator(".nbc-Badge")
    expect(cell(tidy, 2)).to_have_class(re.compile("nbc-mod-failed"))
    expect(badge).to_have_attribute("aria-label", "failed: ValueError: no data")
    expect(cell(tidy, 1)).to_have_class(re.compile("nbc-mod-computed"))
    # Another cell is edited and run: what depends on it is out of date, though its own code is what it was.
    set_source(tidy, 0, "%load_ext nbcheckpoint\ndef helper(n):\n    return n + 2")
    run_cell(tidy, 0)
    save(tidy)
    expect(cell(tidy, 1)).to_have_class(re.compile("nbc-mod-stale"))
    expect(cell(tidy, 1).locator(".nbc-Badge")).to_have_attribute("aria-label", re.compile("out of date: .*helper"))
    expect(tidy.locator("#jp-main-statusbar")).to_contain_text("1 failed · 1 out of date")
    run_cell(tidy, 1)
    expect(cell(tidy, 1)).to_have_class(re.compile("nbc-mod-computed"))
    # A click on it leads to the run.
    cell(tidy, 1).locator(".nbc-Badge").click()
    expect(sidebar(tidy).get_by_role("tab", name="Steps")).to_be_visible()


def test_automatic_mode_is_kept_and_is_there_before_the_first_cell(tidy: Page, lab: Jupyter, folder: str) -> None:
    """Also with Restart and Run All, which leaves no moment between a kernel's start and its first cell."""
    path = lab.write_notebook(
        f"{folder}/a.ipynb", "import time\ndef slow():\n    time.sleep(1.1)\n    return 7", "x = slow()", "x + 1"
    )
    open_notebook(tidy, path)
    tidy.locator(AUTO).click()
    run_all(tidy)
    expect(cell(tidy, 1)).to_have_class(re.compile("nbc-mod-computed"))
    save(tidy)
    assert '"auto": true' in (lab.root / path).read_text()
    choose(tidy, "Kernel", "Restart Kernel and Run All Cells…")
    tidy.locator(".jp-Dialog button", has_text="Restart").click()
    expect(cell(tidy, 1)).to_have_class(re.compile("nbc-mod-restored"))
    expect(cell(tidy, 2).locator(".jp-OutputArea")).to_contain_text("8")
    expect(tidy.locator("#jp-main-statusbar")).to_contain_text("Checkpoints: auto · 1 restored")
    tidy.locator(AUTO).click()
    assert evaluated(tidy, "get_ipython().run_line_magic('checkpoint', 'config') is None") == "False"
    save(tidy)
    assert "nbcheckpoint" not in (lab.root / path).read_text().partition('"metadata": {\n  "kernelspec"')[2]


def interrupted(lab: Jupyter, folder: str) -> str:
    """A notebook whose last kernel died in its second cell."""
    path = lab.write_notebook(f"{folder}/a.ipynb", "x = 1", "y = 2")
    with store_in(lab, folder) as store:
        run = store.begin_run("a.ipynb")
        store.put_step(Step(run=run.id, address="000000", name="x = 1", status="completed", seconds=60))
        meta = {"done": 37, "total": 100}
        store.put_step(Step(run=run.id, address="000001", name="for epoch in …", status="running", meta=meta))
        store.update_run(run.id, status="interrupted", owner=None, computed_seconds=724.0, bytes=412_000_000)
    return path


def test_the_banner_comes_and_goes_with_its_setting(page: Page, lab: Jupyter, folder: str) -> None:
    path = interrupted(lab, folder)
    open_in_lab(page, lab, path)
    banner = page.get_by_role("region", name="Interrupted run of this notebook")
    expect(banner).to_be_visible()

    def switch() -> None:
        show = "() => { void window.jupyterapp.commands.execute('settingeditor:open', { query: 'Checkpoints' }) }"
        page.evaluate(show)
        box = page.get_by_label("Offer to resume")
        now = box.is_checked()
        box.click()
        expect(box).to_be_checked(checked=not now)
        open_notebook(page, path, kernel=False)

    switch()
    expect(banner).to_be_hidden()
    page.reload()
    wait_until_idle(page)
    expect(sidebar(page).locator(".nbc-Run").first).to_be_visible()
    expect(banner).to_be_hidden()
    switch()
    expect(banner).to_be_visible()


def test_the_banner_offers_and_never_acts(page: Page, lab: Jupyter, folder: str) -> None:
    path = interrupted(lab, folder)
    open_in_lab(page, lab, path)
    banner = page.get_by_role("region", name="Interrupted run of this notebook")
    expect(banner).to_contain_text(re.compile(r"cut short .* in “for epoch in …” \(37 of 100\)"))
    expect(banner).to_contain_text("1 cell was finished, 12m 04s of work")
    expect(banner).to_contain_text("Restoring takes about 1.0 s (412 MB)")
    assert evaluated(page, "'x' in globals() or 'nbcheckpoint' in __import__('sys').modules") == "False"
    press_in(banner, "Choose…")
    expect(sidebar(page).locator(".nbc-Step").nth(1)).to_contain_text("37 of 100")
    press_in(banner, "Ignore")
    expect(banner).to_be_hidden()
    page.reload()
    wait_until_idle(page)
    expect(sidebar(page).locator(".nbc-Run").first).to_be_visible()
    expect(banner).to_be_hidden()

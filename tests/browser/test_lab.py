"""The panel in JupyterLab: what a user sees of a store, and that nothing in it becomes more than text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from nbcheckpoint.model import Reason, Step
from tests.browser.jupyter import Jupyter
from tests.browser.pages import (
    cell,
    open_in_lab,
    open_notebook,
    restart_kernel,
    run_all,
    runs,
    sidebar,
    store_in,
    tab,
    wait_until_idle,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_an_empty_panel_teaches(tidy: Page, lab: Jupyter, folder: str) -> None:
    open_notebook(tidy, lab.write_notebook(f"{folder}/new.ipynb", "1 + 1"), kernel=False)
    panel = sidebar(tidy)
    expect(panel).to_contain_text("%load_ext nbcheckpoint")
    expect(panel).to_contain_text("%%checkpointed")


def test_runs_are_listed_live_with_their_facts(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/train.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        run = store.begin_run("train.ipynb")
        store.update_run(run.id, counts={"completed": 2, "restored": 3}, bytes=432_000_000, spared_seconds=724)
        store.begin_run("other/eda.ipynb")
        open_notebook(tidy, path, kernel=False)
        panel = sidebar(tidy)
        mine = runs(panel, "mine")
        expect(mine).to_have_count(1)
        expect(mine).to_have_attribute("data-status", "running")
        for fact in ("train.ipynb", "Running", "2 computed", "3 restored", "432 MB saved", "12m 04s spared"):
            expect(mine).to_contain_text(fact)
        expect(runs(panel, "all")).to_have_count(2)
        # Live: nobody touches the page while the store changes.
        store.put_step(
            Step(
                run=run.id,
                address="000000",
                name="train",
                status="running",
                meta={"done": 37, "total": 100, "left": 63.0},
            )
        )
        expect(mine).to_contain_text("37 of 100, about 1m 03s left")
        expect(mine.locator("progress")).to_have_attribute("value", "0.37")
        store.update_run(run.id, status="failed", owner=None)
        expect(mine).to_have_attribute("data-status", "failed")


def test_runs_are_found_by_text_status_and_tag(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/train.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        for name, status, tags in (
            ("train.ipynb", "failed", ("baseline",)),
            ("train.ipynb", "completed", ()),
            ("eda.ipynb", "completed", ("baseline", "slow")),
        ):
            run = store.begin_run(name, tags=tags)
            store.update_run(run.id, status=status, owner=None)
    open_notebook(tidy, path, kernel=False)
    panel = sidebar(tidy)
    everything = runs(panel, "all")
    expect(everything).to_have_count(3)
    panel.get_by_label("Status").select_option(label="Completed")
    expect(everything).to_have_count(2)
    panel.get_by_label("Tag").select_option("baseline")
    expect(everything).to_have_count(1)
    expect(everything).to_contain_text("eda.ipynb")
    expect(panel).to_contain_text("No run of it matches.")
    panel.get_by_label("Status").select_option("")
    panel.get_by_label("Tag").select_option("")
    panel.locator("input[type=search]").fill("eda")
    expect(everything).to_have_count(1)
    panel.locator("input[type=search]").fill("")
    expect(everything).to_have_count(3)


def test_a_run_opens_to_its_parts_by_keyboard(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/train.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        run = store.begin_run("train.ipynb", meta={"environment": {"host": "elsewhere", "python": "3.1.4"}})
        reason = Reason(code="changed", text="helper clean() changed")
        store.put_step(Step(run=run.id, address="000000", name="load", status="restored", seconds=0.041))
        for at in range(3):
            inner = Step(run=run.id, address=f"000000.{at:03d}", name=f"item {at}", kind="item", status="restored")
            store.put_step(inner)
        store.put_step(Step(run=run.id, address="000001", name="fit", status="completed", seconds=724, reason=reason))
        store.put_step(Step(run=run.id, address="000002", name="plot", status="failed", error="ValueError: no data"))
    open_notebook(tidy, path, kernel=False)
    panel = sidebar(tidy)
    expect(runs(panel, "mine")).to_have_count(1)
    panel.get_by_role("listbox", name="Runs").focus()
    tidy.keyboard.press("Enter")
    steps = panel.locator(".nbc-Step")
    expect(steps).to_have_count(3)
    expect(steps.nth(0)).to_contain_text(re.compile("load.*41 ms.*restored.*3 restored inside"))
    expect(steps.nth(1)).to_contain_text(re.compile("fit.*12m 04s.*computed.*helper clean\\(\\) changed"))
    expect(steps.nth(2)).to_contain_text("ValueError: no data")
    # By keyboard into the tree: what is inside unfolds and folds again.
    panel.get_by_role("tree", name="Steps").focus()
    tidy.keyboard.press("ArrowDown")
    tidy.keyboard.press("ArrowRight")
    expect(steps).to_have_count(6)
    tidy.keyboard.press("ArrowRight")
    expect(panel.get_by_role("region", name="Chosen step")).to_contain_text("item 0")
    tidy.keyboard.press("ArrowLeft")
    tidy.keyboard.press("ArrowLeft")
    expect(steps).to_have_count(3)
    panel.get_by_role("tab", name="Steps").focus()
    tidy.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tabpanel", name="Variables")).to_contain_text("No step of this run has saved anything")
    tidy.keyboard.press("ArrowRight")
    graph = panel.get_by_role("tabpanel", name="Graph")
    expect(graph.get_by_role("button", name=re.compile("^fit, computed"))).to_be_visible()
    tidy.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tabpanel", name="Events").locator(".nbc-Event").first).to_contain_text("run started")
    tidy.keyboard.press("ArrowRight")
    environment = panel.get_by_role("tabpanel", name="Environment")
    expect(environment).to_contain_text("1 thing is different now")
    expect(environment.get_by_role("row", name=re.compile("^host elsewhere ."))).to_be_visible()
    expect(environment.get_by_role("row", name="python 3.1.4 not known here")).to_be_visible()
    panel.locator(".nbc-Back").click()
    expect(runs(panel, "mine")).to_have_count(1)
    expect(panel.get_by_role("listbox", name="Runs")).to_be_focused()


def test_ten_thousand_steps_are_not_drawn_at_once(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/many.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        run = store.begin_run("many.ipynb")
        store.put_step(Step(run=run.id, address="000000", name="map", kind="map", status="completed"))
        for at in range(10_000):
            address = f"000000.{at:06d}"
            store.put_step(Step(run=run.id, address=address, name=f"item {at}", kind="item", status="completed"))
        store.update_run(run.id, status="completed", owner=None)
    open_notebook(tidy, path, kernel=False)
    panel = sidebar(tidy)
    runs(panel, "mine").click()
    expect(panel.locator(".nbc-Step")).to_contain_text("10,000 computed inside")
    panel.get_by_role("tree", name="Steps").focus()
    tidy.keyboard.press("ArrowDown")
    tidy.keyboard.press("ArrowRight")
    expect(panel.locator(".nbc-Step").nth(1)).to_contain_text("item 0")
    tidy.keyboard.press("End")
    expect(panel.locator(".nbc-Step").last).to_contain_text("item 9999")
    assert panel.locator(".nbc-Step").count() < 100


def test_the_palette_shows_the_panel(page: Page, lab: Jupyter) -> None:
    open_in_lab(page, lab)
    page.keyboard.press("Control+Shift+C")
    page.locator("#modal-command-palette input").fill("show checkpoints")
    page.locator(".lm-CommandPalette-item", has_text="Show checkpoints").click()
    expect(page.locator("#nbcheckpoint-sidebar")).to_be_visible()


def test_a_server_without_the_extension_says_what_to_do(page: Page, start_jupyter: Callable[..., Jupyter]) -> None:
    server = start_jupyter("jupyterlab", "--ServerApp.jpserver_extensions={'nbcheckpoint': False}")
    open_in_lab(page, server, server.write_notebook("a.ipynb", "1 + 1"))
    panel = sidebar(page)
    expect(panel.get_by_role("alert")).to_contain_text("does not know nbcheckpoint")
    expect(panel.get_by_role("alert")).to_contain_text("jupyter server extension enable nbcheckpoint")


def test_a_cell_computed_once_is_restored_in_a_new_kernel(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(
        f"{folder}/slow.ipynb",
        "%load_ext nbcheckpoint",
        "%%checkpointed\nimport time\nstart = time.monotonic()\nwhile time.monotonic() - start < 0.5:\n"
        "    pass\nanswer = 6 * 7\nprint('the answer is', answer)",
        "answer + 1",
    )
    open_notebook(tidy, path)
    run_all(tidy)
    output = cell(tidy, 1).locator(".jp-OutputArea")
    expect(output).to_contain_text("computed")
    expect(output).to_contain_text("the answer is 42")
    expect(cell(tidy, 1)).to_have_class(re.compile("nbc-mod-computed"))

    restart_kernel(tidy)
    run_all(tidy)
    expect(output).to_contain_text("restored from")
    expect(output).to_contain_text("the answer is 42")
    expect(cell(tidy, 1)).to_have_class(re.compile("nbc-mod-restored"))
    expect(cell(tidy, 1).locator(".nbc-Badge")).to_have_attribute("aria-label", re.compile("restored from"))
    expect(cell(tidy, 2).locator(".jp-OutputArea")).to_contain_text("43")

    panel = sidebar(tidy)
    mine = runs(panel, "mine")
    expect(mine.first).to_have_attribute("data-status", "running")
    expect(mine.first).to_contain_text("1 restored")
    mine.first.click()
    variables = tab(panel, "Variables")
    expect(variables.get_by_role("row", name=re.compile("answer"))).to_contain_text("42")
    expect(variables).to_contain_text("the answer is 42")


def test_a_badge_is_there_again_after_a_reload(page: Page, lab: Jupyter, folder: str) -> None:
    """It comes from the file, not from the kernel."""
    path = lab.write_notebook(f"{folder}/a.ipynb", "%load_ext nbcheckpoint", "%%checkpointed\nx = 6 * 7")
    open_in_lab(page, lab, path)
    run_all(page)
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-computed"))
    page.keyboard.press("Control+s")
    expect(page.locator(".lm-DockPanel-tabBar .jp-mod-dirty")).to_have_count(0)
    page.reload()
    wait_until_idle(page)
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-computed"))
    expect(cell(page, 1).locator(".nbc-Badge")).to_be_visible()
    # Its code is edited: what the badge said does not hold any more.
    cell(page, 1).locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" + 1")
    expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-stale"))
    expect(cell(page, 1).locator(".nbc-Badge")).to_have_attribute("aria-label", re.compile("code has changed"))

"""`%checkpoint panel` in a real browser: by mouse, by keyboard, dark and light, and after its kernel is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import nbcheckpoint
from nbcheckpoint.model import Step
from tests.browser.conftest import ARTIFACTS
from tests.browser.jupyter import Jupyter
from tests.browser.looks import THEMES, violations, wear
from tests.browser.pages import cell, open_in_lab, restart_kernel, run_all, store_in, wait_until_idle
from tests.stores import draft

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

HOSTILE = "<img src=x onerror=window.__pwned=1><script>window.__pwned=1</script>"
OUTPUTS = [
    {"output_type": "stream", "name": "stdout", "text": HOSTILE},
    {"output_type": "display_data", "data": {"text/html": HOSTILE, "text/plain": f"table {HOSTILE}"}, "metadata": {}},
]
CELLS = (
    "%load_ext nbcheckpoint",
    f"%%checkpointed\nx = [1, 2, 3]\nword = {HOSTILE!r}",
    "x = 'overwritten'",
    "%checkpoint panel",
    "print('x is', x)",
)


def hostile_runs(server: Jupyter, folder: str) -> str:
    """What somebody left there: a run that waits for an answer, with markup in every text. Returns its id."""
    with store_in(server, folder) as store:
        run = store.begin_run(f"evil{HOSTILE}.ipynb", note=HOSTILE)
        asked = {"pause": {"name": "gate", "prompt": f"Go on? {HOSTILE}", "choices": ["yes", "no"]}}
        made = draft(run=run.id, source=HOSTILE, name=HOSTILE)
        left = store.save(made, {"word": HOSTILE}, outputs=OUTPUTS).checkpoint.id
        first = Step(run=run.id, address="000000", name=HOSTILE, status="failed", error=HOSTILE, checkpoint=left)
        store.put_step(first)
        store.put_step(Step(run=run.id, address="000001", name="gate", kind="pause", status="paused", meta=asked))
        store.update_run(run.id, status="paused", owner=None)
        return run.id


def panel_in(page: Page) -> Locator:
    return cell(page, 3).locator(".nbcp")


def run_named(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("listbox", name="Runs").get_by_role("option").filter(has_text=name)


def look_at_hostile_step(panel: Locator) -> None:
    """Its name, its error, its code, its variable and its outputs, all of them as they were written."""
    step = panel.get_by_role("listbox", name="Steps").get_by_role("option").first
    expect(step.locator(".nbcp-name")).to_have_text(HOSTILE)
    expect(step).to_contain_text(HOSTILE)
    step.click()
    preview = panel.locator(".nbcp-preview")
    expect(preview.locator("pre")).to_have_text([HOSTILE, HOSTILE, f"table {HOSTILE}"])
    expect(preview.locator("td").last).to_contain_text("<img src=x onerror")  # the preview leaves out its middle


def assert_nothing_ran(page: Page) -> None:
    assert page.evaluate("() => window.__pwned ?? null") is None


def test_look_restore_answer_delete_and_survive_a_restart(page: Page, lab: Jupyter, folder: str) -> None:
    evil = hostile_runs(lab, folder)
    open_in_lab(page, lab, lab.write_notebook(f"{folder}/work.ipynb", *CELLS))
    run_all(page)
    expect(cell(page, 4)).to_contain_text("x is overwritten")
    panel = panel_in(page)
    expect(run_named(panel, "work.ipynb")).to_have_count(1)

    # Steps, and what one of them left.
    run_named(panel, "work.ipynb").click()
    steps = panel.get_by_role("listbox", name="Steps").get_by_role("option")
    expect(steps.first).to_be_visible()
    steps.filter(has_text="restored").or_(steps.filter(has_text="completed")).nth(1).click()
    expect(panel.locator(".nbcp-preview td", has_text="[1, 2, 3]")).to_be_visible()
    panel.scroll_into_view_if_needed()

    # Restore: first what would change, then it does.
    panel.get_by_role("button", name="Restore…", exact=True).click()
    dialog = panel.locator(".nbcp-dialog")
    expect(dialog.locator("tr", has_text="overwritten")).to_contain_text("replaced")
    # In every theme, with a run, a step, its preview and a question in sight.
    found: list[str] = []
    for theme in reversed(THEMES):
        wear(page, theme)
        found += violations(page, ".nbcp")
        page.screenshot(path=ARTIFACTS / f"panel-{theme.replace(' ', '-').lower()}.png")
    assert found == []
    dialog.get_by_role("button", name="Restore").click()
    expect(panel.get_by_role("status")).to_contain_text("Restored: ")
    cell(page, 4).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(cell(page, 4)).to_contain_text("x is [1, 2, 3]")

    # A question somebody's run waits with, and then the run goes.
    run_named(panel, "evil").click()
    expect(panel.locator(".nbcp-question")).to_contain_text(HOSTILE)
    look_at_hostile_step(panel)
    panel.get_by_role("button", name="yes").click()
    expect(panel.get_by_role("status")).to_have_text("Answered gate.")
    expect(panel.locator(".nbcp-question")).to_have_count(0)
    with store_in(lab, folder) as store:
        assert store.steps(evil)[1].meta["answer"]["value"] == "yes"
        panel.get_by_role("button", name="Delete…").click()
        expect(panel.locator(".nbcp-dialog")).to_contain_text(evil)
        assert len(store.runs()) == 2, "deleted without a question"
        panel.locator(".nbcp-dialog").get_by_role("button", name="Delete").click()
        expect(panel.get_by_role("status")).to_have_text(f"Deleted {evil}.")
        assert [run.workflow for run in store.runs()] == ["work.ipynb"]
    expect(run_named(panel, "evil")).to_have_count(0)
    assert_nothing_ran(page)

    # The view stays when its kernel goes: it says so, and what to do.
    restart_kernel(page)
    expect(panel.get_by_role("status")).to_have_text(
        "The kernel was restarted. Run this cell again to have the panel back."
    )
    page.screenshot(path=ARTIFACTS / "panel-restarted.png")


def test_all_of_it_by_keyboard_in_a_dark_theme(page: Page, lab: Jupyter, folder: str) -> None:
    hostile_runs(lab, folder)
    open_in_lab(page, lab, lab.write_notebook(f"{folder}/work.ipynb", *CELLS))
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    run_all(page)
    panel = panel_in(page)
    expect(run_named(panel, "work.ipynb")).to_have_count(1)
    panel.get_by_role("searchbox").focus()
    page.keyboard.type("work")
    expect(run_named(panel, "evil")).to_have_count(0)
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    expect(run_named(panel, "evil")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(panel.get_by_role("button", name="Refresh")).to_be_focused()
    page.keyboard.press("Tab")
    expect(run_named(panel, "work.ipynb")).to_be_focused()  # the newest comes first
    page.keyboard.press("ArrowDown")
    expect(run_named(panel, "evil")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    steps = panel.get_by_role("listbox", name="Steps").get_by_role("option")
    expect(steps.first).to_be_visible()
    page.keyboard.press("Tab")
    expect(panel.get_by_role("button", name="Restore…", exact=True)).to_be_focused()
    expect(panel.get_by_role("button", name="Delete…", exact=True)).to_be_disabled()  # it is running
    # The question takes the focus, with Cancel first, and gives it back.
    page.keyboard.press("Enter")
    dialog = panel.get_by_role("alertdialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(dialog.get_by_role("button", name="Restore")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(panel.get_by_role("button", name="Restore…", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(steps.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(panel.locator(".nbcp-preview td", has_text="[1, 2, 3]")).to_be_visible()
    back = page.evaluate("() => getComputedStyle(document.querySelector('.nbcp')).backgroundColor")
    assert sum(map(int, back.removeprefix("rgb(").removesuffix(")").split(","))) < 200, f"not dark: {back}"
    assert_nothing_ran(page)


def test_the_same_in_notebook_7(page: Page, start_jupyter: Callable[..., Jupyter], folder: str) -> None:
    """With a run that has more steps than the panel takes at once: it says so."""
    server = start_jupyter("notebook")
    hostile_runs(server, folder)
    few = "\n__import__('nbcheckpoint.notebook.link', fromlist=['link']).MOST_STEPS = 1"
    path = server.write_notebook(f"{folder}/work.ipynb", CELLS[0] + few, *CELLS[1:])
    page.goto(server.address(f"notebooks/{path}"))
    wait_until_idle(page)
    run_all(page)
    panel = panel_in(page)
    run_named(panel, "evil").click()
    look_at_hostile_step(panel)
    expect(panel).to_contain_text("These are the first 1 steps. nbcheckpoint show")
    assert violations(page, ".nbcp") == []
    assert_nothing_ran(page)


def test_where_no_kernel_answers_the_runs_there_were_are_shown(page: Page) -> None:
    """A notebook that somebody else reads, with the widgets it was saved with. Nothing is on the other end."""
    facts = {"status": "completed", "updated": "2026-11-16T09:41:40.000Z", "pinned": True}
    first = [{"id": "a", "workflow": "train.ipynb", "note": HOSTILE, **facts}]
    page.clock.install()
    page.set_content("<div id=here></div>")
    page.evaluate(
        """async ([source, first]) => {
            const module = new Blob([source], { type: 'text/javascript' });
            const { default: widget } = await import(URL.createObjectURL(module));
            const model = { get: name => ({ first })[name], on() {}, off() {}, send() {} };
            widget.render({ model, el: document.getElementById('here') });
        }""",
        [(Path(nbcheckpoint.__file__).parent / "widget" / "panel.js").read_text(), first],
    )
    panel = page.locator(".nbcp")
    expect(run_named(panel, "train.ipynb")).to_contain_text(HOSTILE)
    page.clock.run_for(5000)
    expect(panel.get_by_role("status")).to_contain_text("these are the runs there were when the cell ran")
    assert_nothing_ran(page)

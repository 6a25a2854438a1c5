"""How it looks, in the light, the dark and the high-contrast theme, and to those who cannot see it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from nbcheckpoint.model import Reason, Step
from tests.browser.conftest import ARTIFACTS
from tests.browser.jupyter import Jupyter
from tests.browser.looks import THEMES, violations, wear
from tests.browser.pages import dialog, open_notebook, press_in, runs, sidebar, store_in, tab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def everything(page: Page, lab: Jupyter, folder: str) -> Locator:
    """A store in which every status, a note, a tag, a pause and an error occur."""
    path = lab.write_notebook(f"{folder}/train.ipynb", "model = train(data)")
    with store_in(lab, folder) as store:
        for status in ("completed", "failed", "running", "cancelled", "paused", "interrupted"):
            run = store.begin_run("train.ipynb" if status != "failed" else "etl/nightly.ipynb", tags=("baseline",))
            step = Step(run=run.id, address="000000", name="df = load()", status="restored", seconds=0.04)
            store.put_step(step)
            reason = Reason(code="changed", text="helper clean() changed")
            store.put_step(
                Step(run=run.id, address="000001", name="fit", status="completed", seconds=724, reason=reason)
            )
            error = "ValueError: shapes do not match"
            store.put_step(Step(run=run.id, address="000002", name="plot", status="failed", error=error))
            pause = {"name": "gate", "prompt": "Go on?", "choices": ["yes", "no"], "schema": None, "default": None}
            meta = {"pause": pause}
            store.put_step(Step(run=run.id, address="000003", name="gate", kind="pause", status="paused", meta=meta))
            meta = {"done": 37, "total": 100, "left": 60.0}
            store.put_step(Step(run=run.id, address="000004", name="for epoch", status="running", meta=meta))
            owner = {} if status == "running" else {"owner": None}
            counts = {"completed": 1, "restored": 1, "failed": 1}
            store.update_run(run.id, status=status, note="a note", counts=counts, bytes=4_200_000, **owner)
    open_notebook(page, path, kernel=False)
    return sidebar(page)


def test_every_theme_and_no_serious_violation(tidy: Page, lab: Jupyter, folder: str) -> None:
    panel = everything(tidy, lab, folder)
    ours = ("#nbcheckpoint-sidebar", ".nbc-Banner")
    expect(runs(panel, "mine").first).to_be_visible()
    expect(tidy.locator(".nbc-Banner")).to_be_visible()
    found: list[str] = []
    for theme in THEMES:
        wear(tidy, theme)
        found += violations(tidy, *ours)
        tidy.screenshot(path=ARTIFACTS / f"list-{theme.replace(' ', '-').lower()}.png")
        runs(panel, "mine").first.click()
        for name in ("Steps", "Variables", "Graph", "Events", "Environment"):
            tab(panel, name)
            if name == "Steps":
                panel.locator(".nbc-Step").nth(1).click()
            expect(panel.get_by_text("Loading…")).to_have_count(0)
            found += violations(tidy, *ours)
            if name in ("Steps", "Graph"):
                tidy.screenshot(path=ARTIFACTS / f"{name.lower()}-{theme.replace(' ', '-').lower()}.png")
        panel.get_by_role("button", name="Delete…").click()
        expect(dialog(tidy)).to_be_visible()
        found += violations(tidy, ".jp-Dialog .nbc-Form")
        press_in(dialog(tidy), "Cancel")
        panel.locator(".nbc-Back").click()
    wear(tidy, THEMES[0])
    assert found == []


def test_everything_is_reached_by_keyboard(tidy: Page, lab: Jupyter, folder: str) -> None:
    """From the filter to the list, into a run, through its actions and tabs, and back."""
    panel = everything(tidy, lab, folder)
    expect(runs(panel, "mine").first).to_be_visible()
    panel.locator("input[type=search]").focus()
    reached = []
    for _ in range(4):
        tidy.keyboard.press("Tab")
        reached.append(tidy.evaluate("() => document.activeElement.getAttribute('aria-label')"))
    assert reached[:3] == ["Status", "Tag", "Runs"]
    panel.get_by_role("listbox", name="Runs").focus()
    tidy.keyboard.press("Enter")
    expect(panel.locator(".nbc-Back")).to_be_focused()
    names = []
    for _ in range(14):
        tidy.keyboard.press("Tab")
        names.append(
            tidy.evaluate(
                """() => {
                    const node = document.activeElement;
                    return node.getAttribute('aria-label') || node.title || node.textContent;
                }"""
            )
        )
    said = " | ".join(names)
    for wanted in ("Restore the variables", "Pin", "Write a note", "Export", "Delete", "yes", "no", "Steps"):
        assert wanted in said, f"{wanted} is not reached: {said}"

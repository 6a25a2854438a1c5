"""How it looks, in the light, the dark and the high-contrast theme, and to those who cannot see it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from nbcheckpoint.model import Reason, Step
from tests.browser.conftest import ARTIFACTS
from tests.browser.jupyter import Jupyter
from tests.browser.looks import THEMES, violations, wear
from tests.browser.pages import dialog, open_notebook, press_in, runs, sidebar, store_in, tab
from tests.stores import draft

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


HIDDEN = """panel => [...panel.querySelectorAll('*')].filter(node => {
    // Three dots, or a bar to scroll with, say that there is more.
    for (let around = node; around !== panel; around = around.parentElement) {
        const { textOverflow, overflowX } = getComputedStyle(around);
        if (textOverflow === 'ellipsis' || ['auto', 'scroll'].includes(overflowX)) {
            return false;
        }
    }
    const { right, width } = node.getBoundingClientRect();
    const isCut = getComputedStyle(node).overflowX === 'hidden' && node.scrollWidth > node.clientWidth + 1;
    return width > 1 && (isCut || right > panel.getBoundingClientRect().right + 1);
}).map(node => `${node.className}: ${node.textContent.slice(0, 60)}`)"""
"""What is cut at the edge of the panel without a mark that there is more."""


def test_nothing_is_cut_without_a_mark_in_a_narrow_panel(tidy: Page, lab: Jupyter, folder: str) -> None:
    """Long names, names that run from right to left, huge numbers, long answers to choose from."""
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    names = ("a_name_that_nobody_reads_in_one_go_" * 4, "מחברת האימון של המודל הגדול ביותר " * 3)
    prompt = "Train on it? " * 20
    choices = ["no, never, under no circumstances whatsoever, not even then", 0]
    pause = {"name": "gate", "prompt": prompt, "choices": choices, "schema": None, "default": None}
    far = {"done": 999_999, "total": 1_000_000, "left": 9e8, "inside": [[123_456, 1_000_000]]}
    with store_in(lab, folder) as store:
        for workflow in ("a.ipynb", *(f"{name}/{name}.ipynb" for name in names)):
            run = store.begin_run(workflow, tags=names, note=" ".join(names))
            reason = Reason(code="changed", text=" ".join(names))
            for at, name in enumerate(names):
                step = Step(run=run.id, address=f"{at:06d}", name=name, status="failed", error=name, reason=reason)
                store.put_step(replace(step, seconds=9e9, bytes=10**15))
            store.put_step(Step(run=run.id, address="000002", name="for", status="running", meta=far))
            meta = {"pause": pause}
            store.put_step(Step(run=run.id, address="000003", name="gate", kind="pause", status="paused", meta=meta))
            saved = store.save(draft(run=run.id, source=names[0]), {"x": names[0] * 9, "ש": 7**99, names[0][:60]: 1})
            store.put_step(Step(run=run.id, address="000004", name="end", checkpoint=saved.checkpoint.id))
            store.update_run(run.id, counts={"completed": 10**9, "restored": 10**9}, bytes=10**15, spared_seconds=9e9)
    open_notebook(tidy, path, kernel=False)
    panel = sidebar(tidy)
    expect(runs(panel, "all")).to_have_count(3)
    narrow(tidy, 240)
    assert panel.evaluate(HIDDEN) == []
    runs(panel, "mine").first.click()
    for name in ("Steps", "Variables", "Events", "Environment"):
        tab(panel, name)
        if name == "Steps":
            panel.locator(".nbc-Step").first.click()
        expect(panel.get_by_text("Loading…")).to_have_count(0)
        tidy.screenshot(path=ARTIFACTS / f"narrow-{name.lower()}.png")
        assert panel.evaluate(HIDDEN) == [], name
    narrow(tidy, 330)


def narrow(page: Page, width: int) -> None:
    """Draw the edge of the sidebar to where it is so wide."""
    panel = page.locator("#nbcheckpoint-sidebar")
    handle = page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:not(.lm-mod-hidden)").first
    box, left = handle.bounding_box(), panel.bounding_box()
    assert box is not None
    assert left is not None
    page.mouse.move(box["x"] + 1, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(left["x"] + width, box["y"] + 300, steps=5)
    page.mouse.up()
    page.wait_for_function(
        "width => Math.abs(document.querySelector('#nbcheckpoint-sidebar').clientWidth - width) < 20", arg=width
    )


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
    # A run's head is there before its steps, and with them its gate and its first tab.
    expect(panel.get_by_role("button", name="yes")).to_be_visible()
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

"""What happens behind a page's back: in another browser, in a kernel nobody watches, in the files of the store."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from nbcheckpoint.model import Step
from nbcheckpoint.store import Store
from tests.browser.conftest import ARTIFACTS
from tests.browser.jupyter import Jupyter
from tests.browser.pages import (
    cell,
    dialog,
    evaluated,
    in_menu,
    open_in_lab,
    open_notebook,
    press_in,
    run_all,
    run_cell,
    runs,
    save,
    set_source,
    sidebar,
    store_in,
)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture
def other(browser: Browser, lab: Jupyter) -> Iterator[Page]:
    """The browser of somebody else: no cookie, no storage and no connection in common with the first."""
    with somebody(browser) as page:
        open_in_lab(page, lab)
        yield page


def planted(store: Store, *, status: str = "completed") -> str:
    run = store.begin_run("a.ipynb")
    store.update_run(run.id, status=status, owner=None)
    return run.id


def waiting(store: Store) -> str:
    """A run that waits at a gate."""
    run = planted(store, status="paused")
    pause = {"name": "gate", "prompt": "Go on?", "choices": ["yes", "no"], "schema": None, "default": None}
    store.put_step(Step(run=run, address="000000", name="gate", kind="pause", status="paused", meta={"pause": pause}))
    return run


def row(panel: Locator, run: str) -> Locator:
    return panel.locator(f".nbc-Run[data-place=mine][data-run='{run}']")


def asks(panel: Locator) -> Locator:
    return panel.get_by_role("region", name="It waits for an answer")


@contextmanager
def somebody(browser: Browser) -> Iterator[Page]:
    """A browser that is closed at the end of the block, as if its window were: nothing is asked, nothing is saved."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(45_000)
    yield context.new_page()
    context.close()


@contextmanager
def behind(page: Page) -> Iterator[None]:
    """A page whose news are late: what it does still arrives, what it hears waits for the end of the block."""
    held: list[Route] = []
    is_late = True

    def pass_on(route: Route) -> None:
        if is_late and route.request.method == "GET":
            held.append(route)
        else:
            route.continue_()

    address = re.compile("/nbcheckpoint/api/")
    page.route(address, pass_on)
    yield
    is_late = False
    for route in held:
        route.continue_()
    page.unroute(address)


def test_two_browsers_show_one_truth_and_cannot_undo_each_other(
    tidy: Page, other: Page, lab: Jupyter, folder: str
) -> None:
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        gate, gate_too, kept, gone, gone_too = waiting(store), waiting(store), *(planted(store) for _ in range(3))
    here, there = (opened(page, path) for page in (tidy, other))
    for run in (gate, gate_too, kept, gone, gone_too):
        expect(row(there, run)).to_have_attribute("data-status", row(here, run).get_attribute("data-status") or "")

    # What one does, the other sees, and nobody touches it: a pin, an answer, a deletion.
    in_menu(tidy, row(here, kept), "Pin")
    expect(row(there, kept)).to_have_attribute("data-pinned", "true")
    in_menu(other, row(there, gone), "Delete…")
    press_in(dialog(other), "Delete")
    expect(row(here, gone)).to_have_count(0)
    for panel in (here, there):
        row(panel, gate).click()
        expect(asks(panel)).to_be_visible()
    asks(here).get_by_role("button", name="yes").click()
    expect(asks(there)).to_have_count(0)
    expect(there.locator(".nbc-Step")).to_have_attribute("data-status", "completed")
    for panel in (here, there):
        panel.locator(".nbc-Back").click()

    # One does not know yet what the other has done: it is told, and what was done stays.
    row(there, gate_too).click()
    expect(asks(there)).to_be_visible()
    with behind(other):
        row(here, gate_too).click()
        asks(here).get_by_role("button", name="yes").click()
        expect(asks(here)).to_have_count(0)
        here.locator(".nbc-Back").click()
        in_menu(tidy, row(here, gone_too), "Delete…")
        press_in(dialog(tidy), "Delete")
        expect(row(here, gone_too)).to_have_count(0)

        asks(there).get_by_role("button", name="no").click()
        refused(other, "Cannot answer", "already")
        there.locator(".nbc-Back").click()
        in_menu(other, row(there, gone_too), "Pin")
        refused(other, "Cannot pin", gone_too)
        in_menu(other, row(there, gone_too), "Delete…")
        press_in(dialog(other), "Delete")
        refused(other, "Cannot delete", gone_too)
    expect(row(there, gone_too)).to_have_count(0)
    expect(row(there, kept)).to_have_count(1)
    with store_in(lab, folder) as store:
        assert {run.id for run in store.runs()} == {gate, gate_too, kept}
        assert store.run(kept).pinned
        assert [store.steps(run)[0].meta["answer"]["value"] for run in (gate, gate_too)] == ["yes", "yes"]


def opened(page: Page, path: str) -> Locator:
    open_notebook(page, path, kernel=False)
    return sidebar(page)


def refused(page: Page, title: str, why: str) -> None:
    """A dialog says that it cannot be done, why, and what to do; it is closed."""
    expect(dialog(page)).to_contain_text(title)
    expect(dialog(page).locator(".nbc-Problem-message")).to_contain_text(why)
    expect(dialog(page).locator(".nbc-Problem-hint")).to_be_visible()
    press_in(dialog(page), "Close")
    expect(dialog(page)).to_have_count(0)


def test_a_run_that_somebody_else_deletes_while_it_is_open(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        kept, gone = planted(store), waiting(store)
        panel = opened(tidy, path)
        row(panel, gone).click()
        expect(asks(panel)).to_be_visible()
        store.delete_run(gone)
        expect(panel.get_by_role("alert")).to_contain_text(f"no run {gone}")
        expect(panel.locator(".nbc-Problem-hint")).to_be_visible()
        # Nothing is left of it that could be clicked.
        expect(asks(panel)).to_have_count(0)
        expect(panel.get_by_role("button", name="Delete…")).to_have_count(0)
        panel.locator(".nbc-Back").click()
        expect(row(panel, kept)).to_have_count(1)
        expect(row(panel, gone)).to_have_count(0)


WATCHED = (
    # Through descriptors, which nobody follows: a second run finds the same inputs.
    """%load_ext nbcheckpoint
import os, select
os.dup2(os.open("word", os.O_RDONLY | os.O_NONBLOCK), 200)

def wait_for_word():
    select.select([200], [], [])""",
    "%%checkpointed load\ndata = [1, 2, 3, 4]\nprint('loaded')",
    "%%checkpointed train\nwait_for_word()\ntotal = sum(data)\nprint('total', total)",
    "%%checkpointed report\nresult = total * 10\nprint('result', result)",
)


def test_a_run_goes_on_without_a_browser(browser: Browser, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/a.ipynb", *WATCHED)
    word = lab.root / folder / "word"
    os.mkfifo(word)
    with somebody(browser) as page:
        open_in_lab(page, lab, path)
        run_all(page)
        expect(cell(page, 1)).to_have_class(re.compile("nbc-mod-computed"))
        expect(cell(page, 2).locator(".jp-InputPrompt")).to_have_text("[*]:")
        save(page)
    with store_in(lab, folder) as store:
        (run,) = store.runs()
        until(lambda: standing(store, run.id) == {"load": "completed", "train": "running"})
        word.write_text("go on")  # nobody is there to see it
        until(lambda: standing(store, run.id).get("report") == "completed")
    with somebody(browser) as page:
        open_in_lab(page, lab, path)
        panel = sidebar(page)
        runs(panel, "mine").click()
        steps = panel.locator(".nbc-Step")
        expect(steps).to_have_count(3)
        for at in range(3):
            expect(steps.nth(at)).to_have_attribute("data-status", "completed")
        assert evaluated(page, "result") == "100"
        for at in (1, 2, 3):
            expect(cell(page, at)).to_have_class(re.compile("nbc-mod-computed"))
        unseen = cell(page, 2).locator(".nbc-Badge")
        expect(unseen).to_have_attribute("aria-label", re.compile("while no page was open; run the cell"))
        page.screenshot(path=ARTIFACTS / "reopened.png")
        # What the kernel ran is not what the cell says any more: nothing is claimed about that.
        set_source(page, 2, "%%checkpointed train\ntotal = 0")
        expect(unseen).to_have_count(0)
        set_source(page, 2, WATCHED[2])
        expect(unseen).to_be_visible()
        # What it printed while nobody was there is had back, not computed anew: the word was said once.
        run_cell(page, 2)
        run_cell(page, 3)
        expect(cell(page, 2)).to_have_class(re.compile("nbc-mod-restored"))
        expect(cell(page, 2).locator(".jp-OutputArea")).to_contain_text("total 10")
        expect(cell(page, 3).locator(".jp-OutputArea")).to_contain_text("result 100")


def standing(store: Store, run: str) -> dict[str, str]:
    return {step.name: step.status for step in store.steps(run)}


def until(done: Callable[[], bool]) -> None:
    for _ in range(900):
        if done():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen")


def test_a_damaged_store_says_what_to_do_and_nothing_is_lost(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        planted(store)
    index = lab.root / folder / ".nbcheckpoint" / "cache.db"
    sound = index.read_bytes()
    index.write_bytes(b"This is not an index. " * 1000)
    spoilt = index.read_bytes()
    panel = opened(tidy, path)
    alert = panel.get_by_role("alert")
    expect(alert).to_contain_text("not a database")
    expect(alert).to_contain_text("nbcheckpoint verify --repair")
    expect(panel.locator(".nbc-Run")).to_have_count(0)
    tidy.screenshot(path=ARTIFACTS / "damaged-store.png")
    panel.get_by_role("button", name="Verify").click()
    expect(dialog(tidy)).to_contain_text("not a database")
    expect(dialog(tidy)).to_contain_text("If you have a copy of the store, put that back instead")
    tidy.screenshot(path=ARTIFACTS / "damaged-store-verified.png")
    press_in(dialog(tidy), "Cancel")
    assert index.read_bytes() == spoilt, "looking at it changes nothing"
    # From a backup, say. The page finds out by itself.
    index.write_bytes(sound)
    expect(runs(panel, "mine")).to_have_count(1)
    expect(alert).to_have_count(0)
    # Without a backup it is made usable again, and nothing is thrown away.
    index.write_bytes(spoilt)
    expect(alert).to_contain_text("not a database")
    panel.get_by_role("button", name="Verify").click()
    press_in(dialog(tidy), "Repair")
    expect(dialog(tidy)).to_contain_text("nothing of it could be read")
    press_in(dialog(tidy), "Close")
    expect(alert).to_have_count(0)
    expect(panel).to_contain_text("Nothing saved here yet")
    kept = (lab.root / folder / ".nbcheckpoint" / "quarantine").rglob("cache.db")
    assert [file.read_bytes() for file in kept] == [spoilt]
    with store_in(lab, folder) as store:
        planted(store)
        expect(runs(panel, "mine")).to_have_count(1)


def test_a_busy_store_is_shown_and_says_so_where_it_is_to_be_changed(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        planted(store)
    index = lab.root / folder / ".nbcheckpoint" / "cache.db"
    with closing(sqlite3.connect(index, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # somebody writes, and does not come to an end
        panel = opened(tidy, path)
        row = runs(panel, "mine")
        expect(row).to_have_count(1)
        in_menu(tidy, row, "Pin")
        refused(tidy, "Cannot pin", "locked")
        expect(row).to_have_attribute("data-pinned", "false")
        other.execute("ROLLBACK")
    in_menu(tidy, row, "Pin")
    expect(row).to_have_attribute("data-pinned", "true")


def test_a_store_of_a_later_version_says_what_to_do_and_nothing_is_touched(
    tidy: Page, lab: Jupyter, folder: str
) -> None:
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        planted(store)
    index = lab.root / folder / ".nbcheckpoint" / "cache.db"
    set_format(index, 99)
    panel = opened(tidy, path)
    alert = panel.get_by_role("alert")
    expect(alert).to_contain_text("format 99")
    expect(alert).to_contain_text("upgrade nbcheckpoint")
    set_format(index, 1)
    expect(runs(panel, "mine")).to_have_count(1)
    expect(alert).to_have_count(0)


def set_format(index: Path, version: int) -> None:
    with closing(sqlite3.connect(index)) as connection, connection:
        connection.execute("UPDATE nbcheckpoint SET value = ? WHERE name = 'format'", (version,))

"""Everything that can be done with a run, by mouse, with a real store and a real kernel behind it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from nbcheckpoint.model import Checkpoint, Step, new_checkpoint_id, utc_now
from nbcheckpoint.store import open_store
from tests.browser.jupyter import Jupyter
from tests.browser.pages import (
    cell,
    dialog,
    evaluated,
    in_menu,
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

CELLS = (
    "%load_ext nbcheckpoint",
    "%%checkpointed load\nfactor = 2\ndata = [factor * n for n in range(5)]\nprint('loaded')",
    "%%checkpointed train\ntotal = sum(data)\nprint('total', total)",
    "total = -1\nprint('spoilt')",
)


def trained(page: Page, lab: Jupyter, folder: str) -> Locator:
    """A notebook that has been run, and the panel with its run opened."""
    open_notebook(page, lab.write_notebook(f"{folder}/train.ipynb", *CELLS))
    run_all(page)
    expect(cell(page, 3).locator(".jp-OutputArea")).to_contain_text("spoilt")
    panel = sidebar(page)
    runs(panel, "mine").first.click()
    expect(panel.locator(".nbc-Step")).to_have_count(2)
    return panel


def step(panel: Locator, name: str) -> Locator:
    return panel.locator(".nbc-Step", has_text=name)


def test_restore_here_says_what_will_change_and_does_it(tidy: Page, lab: Jupyter, folder: str) -> None:
    panel = trained(tidy, lab, folder)
    assert evaluated(tidy, "total") == "-1"
    step(panel, "train").click()
    panel.get_by_role("button", name="Restore here…").click()
    row = dialog(tidy).get_by_role("row", name=re.compile("^total"))
    expect(row).to_contain_text("is replaced")
    expect(row).to_contain_text("-1")
    expect(row).to_contain_text("20")
    press_in(dialog(tidy), "Cancel")
    assert evaluated(tidy, "total") == "-1"
    panel.get_by_role("button", name="Restore here…").click()
    press_in(dialog(tidy), "Restore")
    expect(tidy.get_by_text("Restored:", exact=False).first).to_be_visible()
    assert evaluated(tidy, "total") == "20"


def test_run_from_here_goes_back_first(tidy: Page, lab: Jupyter, folder: str) -> None:
    panel = trained(tidy, lab, folder)
    run_cell(tidy, 3)
    evaluated(tidy, "data.clear()")
    step(panel, "train").click()
    panel.get_by_role("button", name="Run from here…").click()
    expect(dialog(tidy)).to_contain_text("then it and all cells below it run")
    expect(dialog(tidy).get_by_role("row", name=re.compile("^data"))).to_contain_text("is replaced")
    press_in(dialog(tidy), "Run from here")
    expect(cell(tidy, 2)).to_have_class(re.compile("nbc-mod-restored"))
    expect(cell(tidy, 3).locator(".jp-InputPrompt")).to_contain_text(re.compile(r"\d"))
    assert evaluated(tidy, "sum(data)") == "20"


def test_diff_shows_code_and_variables_side_by_side(tidy: Page, lab: Jupyter, folder: str) -> None:
    panel = trained(tidy, lab, folder)
    set_source(tidy, 2, "%%checkpointed train\ntotal = sum(data) * 10\nprint('total', total)")
    run_cell(tidy, 2)
    expect(step(panel, "train")).to_have_count(2)
    # The statement that sets it: what it was before is offered first.
    step(panel, "train").last.locator(".nbc-Caret").click()
    panel.locator(".nbc-Step", has_text="train, statement 1").last.click()
    panel.get_by_role("button", name="Diff with…").click()
    expect(dialog(tidy).locator("select option").first).to_contain_text("train, statement 1")
    press_in(dialog(tidy), "Show the difference")
    changed = dialog(tidy).locator(".nbc-Sides [data-kind=changed] td")
    expect(changed.nth(0)).to_have_text("total = sum(data)")
    expect(changed.nth(1)).to_have_text("total = sum(data) * 10")
    expect(dialog(tidy).get_by_role("row", name=re.compile("^total changed"))).to_contain_text("200")


def test_a_cell_is_compared_with_all_its_statements(tidy: Page, lab: Jupyter, folder: str) -> None:
    """The one that changed is not the last."""
    panel = trained(tidy, lab, folder)
    set_source(tidy, 2, "%%checkpointed train\ntotal = sum(data) * 10\nprint('total', total)")
    run_cell(tidy, 2)
    expect(step(panel, "train")).to_have_count(2)
    step(panel, "train").last.click()
    panel.get_by_role("button", name="Diff with…").click()
    press_in(dialog(tidy), "Show the difference")
    sides = dialog(tidy).locator(".nbc-Sides")
    expect(sides.locator("[data-kind=changed] td")).to_have_text(["total = sum(data)", "total = sum(data) * 10"])
    expect(sides).to_contain_text("print('total', total)")
    expect(dialog(tidy).get_by_role("row", name=re.compile("^total changed"))).to_contain_text("200")


def planted(lab: Jupyter, folder: str, **fields: Any) -> str:
    with store_in(lab, folder) as store:
        run = store.begin_run("a.ipynb")
        store.update_run(run.id, **{"status": "completed", "owner": None, **fields})
        return run.id


def opened(page: Page, lab: Jupyter, folder: str) -> Locator:
    open_notebook(page, lab.write_notebook(f"{folder}/a.ipynb", "1 + 1"), kernel=False)
    return sidebar(page)


def test_a_gate_is_answered_with_the_very_choice(tidy: Page, lab: Jupyter, folder: str) -> None:
    run = planted(lab, folder, status="paused", kind="flow")
    pause = {"name": "gate", "prompt": "Train on 8 parts?", "choices": ["yes", 0], "schema": None, "default": None}
    with store_in(lab, folder) as store:
        store.put_step(
            Step(run=run, address="000000", name="gate", kind="pause", status="paused", meta={"pause": pause})
        )
    panel = opened(tidy, lab, folder)
    runs(panel, "mine").click()
    question = panel.get_by_role("region", name="It waits for an answer")
    expect(question).to_contain_text("Train on 8 parts?")
    question.get_by_role("button", name="0", exact=True).click()
    expect(question).to_have_count(0)
    with store_in(lab, folder) as store:
        (answered,) = store.steps(run)
        assert answered.status == "completed"
        assert answered.meta["answer"]["value"] == 0


def test_pin_note_and_delete_from_the_menu_of_a_run(tidy: Page, lab: Jupyter, folder: str) -> None:
    keep, gone = planted(lab, folder), planted(lab, folder)
    panel = opened(tidy, lab, folder)
    row = panel.locator(f".nbc-Run[data-place=mine][data-run='{keep}']")
    in_menu(tidy, row, "Pin")
    expect(row).to_have_attribute("data-pinned", "true")
    in_menu(tidy, row, "Write a note…")
    dialog(tidy).locator("input").fill("the good one")
    press_in(dialog(tidy), "Save")
    expect(row).to_contain_text("the good one")
    in_menu(tidy, row, "Unpin")
    expect(row).to_have_attribute("data-pinned", "false")
    # By keyboard to the other one, and to its menu.
    other = panel.locator(f".nbc-Run[data-place=mine][data-run='{gone}']")
    panel.get_by_role("listbox", name="Runs").focus()
    tidy.keyboard.press("Home")
    tidy.keyboard.press("Shift+F10")
    tidy.locator(".lm-Menu-item", has_text="Delete…").click()
    expect(dialog(tidy)).to_contain_text("This cannot be undone")
    press_in(dialog(tidy), "Cancel")
    expect(other).to_have_count(1)
    in_menu(tidy, other, "Delete…")
    press_in(dialog(tidy), "Delete")
    expect(other).to_have_count(0)
    with store_in(lab, folder) as store:
        assert [(run.id, run.note, run.pinned) for run in store.runs()] == [(keep, "the good one", False)]


def ask_to_prune(page: Page, panel: Locator) -> None:
    """Until the dialog has put the cursor where it wants it: what is typed before that may end up there."""
    panel.get_by_role("button", name="Prune").click()
    expect(dialog(page).get_by_label("Remove what is older than")).to_be_focused()


def test_prune_shows_what_would_go_first(tidy: Page, lab: Jupyter, folder: str) -> None:
    for _ in range(4):
        planted(lab, folder)
    panel = opened(tidy, lab, folder)
    expect(runs(panel, "mine")).to_have_count(4)
    ask_to_prune(tidy, panel)
    dialog(tidy).get_by_label("Runs to keep of each notebook").fill("1")
    press_in(dialog(tidy), "Look what would go")
    expect(dialog(tidy)).to_contain_text("3 runs and 0 checkpoints go")
    press_in(dialog(tidy), "Cancel")
    expect(runs(panel, "mine")).to_have_count(4)
    ask_to_prune(tidy, panel)
    dialog(tidy).get_by_label("Remove what is older than").fill("a while")
    press_in(dialog(tidy), "Look what would go")
    expect(dialog(tidy).get_by_role("alert")).to_be_visible()
    press_in(dialog(tidy), "Close")
    ask_to_prune(tidy, panel)
    dialog(tidy).get_by_label("Runs to keep of each notebook").fill("1")
    press_in(dialog(tidy), "Look what would go")
    press_in(dialog(tidy), "Remove")
    expect(runs(panel, "mine")).to_have_count(1)


def test_verify_finds_damage_and_offers_to_repair_it(tidy: Page, lab: Jupyter, folder: str) -> None:
    run = planted(lab, folder)
    panel = opened(tidy, lab, folder)
    expect(runs(panel, "mine")).to_have_count(1)
    panel.get_by_role("button", name="Verify").click()
    expect(dialog(tidy)).to_contain_text("all sound")
    press_in(dialog(tidy), "Close")
    with store_in(lab, folder) as store:
        draft = Checkpoint(id="", run=run, step="000000", code="0" * 64, created=utc_now())
        store.save(replace(draft, id=new_checkpoint_id(draft.code, "")), {"blob": os.urandom(300_000)})
    files = (lab.root / folder / ".nbcheckpoint").rglob("*")
    chunk = max(
        (file for file in files if file.is_file() and "cache.db" not in file.name), key=lambda f: f.stat().st_size
    )
    damaged = bytearray(chunk.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    chunk.chmod(0o600)
    chunk.write_bytes(damaged)
    panel.get_by_role("button", name="Verify").click()
    expect(dialog(tidy)).to_contain_text("Not all of it is sound")
    press_in(dialog(tidy), "Repair")
    expect(dialog(tidy)).to_contain_text("set aside")
    press_in(dialog(tidy), "Close")
    panel.get_by_role("button", name="Verify").click()
    expect(dialog(tidy)).to_contain_text("all sound")


def test_what_is_exported_can_be_imported_and_is_not_trusted(tidy: Page, lab: Jupyter, folder: str) -> None:
    """Somebody else made it: the archive is signed with another key."""
    elsewhere = lab.root.parent / f"{folder}-elsewhere"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(elsewhere / "data"))
        with open_store(elsewhere / ".nbcheckpoint", create=True) as store:
            foreign = store.begin_run("theirs.ipynb", note="from afar")
            store.update_run(foreign.id, status="completed", owner=None)
            store.export(foreign.id, elsewhere / "theirs.zip")
    run = planted(lab, folder)
    panel = opened(tidy, lab, folder)
    with tidy.expect_download() as download:
        in_menu(tidy, panel.locator(f".nbc-Run[data-place=mine][data-run='{run}']"), "Export")
    assert Path(download.value.path()).read_bytes()[:2] == b"PK"
    with tidy.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Import").click()
    chooser.value.set_files(elsewhere / "theirs.zip")
    theirs = runs(panel, "all").filter(has_text="theirs.ipynb")
    expect(theirs).to_contain_text("untrusted")
    expect(theirs).to_contain_text("from afar")
    theirs.click()
    expect(panel.get_by_role("button", name="Restore the variables")).to_be_disabled()
    # What is no archive is refused with what to do.
    panel.locator(".nbc-Back").click()
    with tidy.expect_file_chooser() as chooser:
        panel.get_by_role("button", name="Import").click()
    chooser.value.set_files({"name": "a.zip", "mimeType": "application/zip", "buffer": b"no archive"})
    expect(dialog(tidy).get_by_role("alert")).to_be_visible()


def test_resume_from_the_panel_opens_the_notebook_and_runs_on(tidy: Page, lab: Jupyter, folder: str) -> None:
    panel = trained(tidy, lab, folder)
    save(tidy)
    # Now: between two notebooks there is another store in front, and then the run is closed by itself.
    panel.locator(".nbc-Back").click()
    tidy.evaluate("async () => { await window.jupyterapp.shell.currentWidget.sessionContext.shutdown() }")
    tidy.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")
    open_notebook(tidy, lab.write_notebook(f"{folder}/other.ipynb", "1"), kernel=False)
    row = runs(panel, "all").filter(has_text="train.ipynb")
    expect(row).to_have_attribute("data-status", "completed")
    in_menu(tidy, row, "Resume the run")
    expect(cell(tidy, 2)).to_have_class(re.compile("nbc-mod-restored"))
    expect(cell(tidy, 3).locator(".jp-OutputArea")).to_contain_text("spoilt")
    assert evaluated(tidy, "total") == "-1"
    # In a kernel that has variables it asks, because they would be lost.
    panel.locator(".nbc-Run[data-place=mine]").last.click()
    panel.get_by_role("button", name="Resume").click()
    expect(dialog(tidy)).to_contain_text("The variables this kernel has now are lost")
    press_in(dialog(tidy), "Cancel")
    assert evaluated(tidy, "total") == "-1"


def test_a_notebook_that_is_renamed_has_its_runs_under_the_old_name(tidy: Page, lab: Jupyter, folder: str) -> None:
    run = planted(lab, folder, status="interrupted")
    panel = opened(tidy, lab, folder)
    expect(runs(panel, "mine")).to_have_count(1)
    expect(tidy.locator(".nbc-Banner")).to_be_visible()
    tidy.evaluate("() => { void window.jupyterapp.shell.currentWidget.context.rename('b.ipynb') }")
    expect(panel).to_contain_text("No runs yet.")
    expect(runs(panel, "mine")).to_have_count(0)
    expect(tidy.locator(".nbc-Banner")).to_be_hidden()
    in_menu(tidy, panel.locator(f".nbc-Run[data-place=all][data-run='{run}']"), "Resume the run")
    expect(dialog(tidy).get_by_role("alert")).to_contain_text("If it was moved, open it where it is now")
    press_in(dialog(tidy), "Close")


def test_a_refusal_is_a_sentence_with_what_to_do(tidy: Page, lab: Jupyter, folder: str) -> None:
    """The notebook is gone, the kernel is busy: nothing happens, and the user is told why."""
    panel = trained(tidy, lab, folder)
    set_source(tidy, 3, "import time\nwhile True:\n    time.sleep(0.05)")
    run_cell(tidy, 3, wait=False)
    expect(cell(tidy, 3).locator(".jp-InputPrompt")).to_have_text("[*]:")
    step(panel, "train").click()
    panel.get_by_role("button", name="Restore here…").click()
    expect(dialog(tidy).get_by_role("alert")).to_contain_text("The kernel is busy")
    expect(dialog(tidy).get_by_role("alert")).to_contain_text("Wait until it is done")
    press_in(dialog(tidy), "Close")
    planted(lab, folder, workflow="gone.ipynb", status="interrupted")
    panel.locator(".nbc-Back").click()
    in_menu(tidy, runs(panel, "all").filter(has_text="gone.ipynb"), "Resume the run")
    expect(dialog(tidy).get_by_role("alert")).to_contain_text(re.compile("There is no notebook .*gone.ipynb any more"))

"""A shared store is written by others: whatever they put into it is shown as text, in every place that shows it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from nbcheckpoint.model import Reason, Step
from tests.browser.jupyter import Jupyter
from tests.browser.pages import cell, open_notebook, run_all, runs, sidebar, store_in, tab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

HOSTILE = "<img src=x onerror=window.__pwned=1><script>window.__pwned=1</script>"

OUTPUTS = f"""%%checkpointed
from IPython.display import HTML, display
text = {HOSTILE!r}
print(text)
display(HTML(text))
text"""


def test_nothing_from_a_store_becomes_markup(tidy: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/a.ipynb", "1 + 1")
    with store_in(lab, folder) as store:
        meta = {"environment": {"python": HOSTILE, HOSTILE: HOSTILE}}
        run = store.begin_run(HOSTILE, note=HOSTILE, tags=(HOSTILE,), meta=meta)
        reason = Reason(code="x", text=HOSTILE)
        store.put_step(Step(run=run.id, address="000000", name=HOSTILE, status="failed", error=HOSTILE, reason=reason))
        pause = {"name": HOSTILE, "prompt": HOSTILE, "choices": [HOSTILE], "schema": None, "default": None}
        paused = Step(run=run.id, address="000001", name=HOSTILE, kind="pause", status="paused", meta={"pause": pause})
        store.put_step(paused)
        store.update_run(run.id, status="paused", owner=None)
    open_notebook(tidy, path, kernel=False)
    panel = sidebar(tidy)
    row = runs(panel, "all")
    expect(row).to_contain_text(HOSTILE)
    row.click()
    expect(panel.locator(".nbc-Step").first).to_contain_text(HOSTILE)
    expect(panel.get_by_role("region", name="It waits for an answer")).to_contain_text(HOSTILE)
    for name in ("Steps", "Graph", "Events", "Environment"):
        shown = tab(panel, name)
        expect(shown).to_contain_text("<img")
        expect(panel.locator("img, script")).to_have_count(0)
    panel.get_by_role("button", name="Delete…").click()
    expect(tidy.locator(".jp-Dialog")).to_contain_text(HOSTILE)
    expect(tidy.locator(".jp-Dialog img")).to_have_count(0)
    assert tidy.evaluate("window.__pwned") is None


def test_what_a_cell_showed_is_text_in_the_panel(tidy: Page, lab: Jupyter, folder: str) -> None:
    """In the notebook the user's own outputs may run what they like; from the store nothing does."""
    path = lab.write_notebook(f"{folder}/shown.ipynb", "%load_ext nbcheckpoint", OUTPUTS)
    open_notebook(tidy, path)
    run_all(tidy)
    expect(cell(tidy, 1).locator(".jp-OutputArea")).to_contain_text("computed")
    # The picture fails when its request comes back: not later than here, or it would look like the panel's doing.
    tidy.wait_for_function("[...document.querySelectorAll('.jp-OutputArea img')].every(image => image.complete)")
    tidy.evaluate("() => { window.jupyterapp.shell.currentWidget.context.model.dirty = false }")
    tidy.evaluate("() => { window.jupyterapp.shell.currentWidget.dispose() }")
    tidy.evaluate("() => { delete window.__pwned }")
    open_notebook(tidy, lab.write_notebook(f"{folder}/other.ipynb", "1"), kernel=False)
    panel = sidebar(tidy)
    runs(panel, "all").first.click()
    shown = tab(panel, "Variables")
    expect(shown).to_contain_text("window.__pwned")
    expect(panel.locator("img, script")).to_have_count(0)
    assert tidy.evaluate("window.__pwned") is None

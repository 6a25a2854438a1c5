"""The whole story by mouse: a kernel dies in the middle of a training, and the notebook goes on with two clicks."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ARTIFACTS
from tests.browser.jupyter import Jupyter
from tests.browser.pages import cell, open_in_lab, restart_kernel, run_all, runs, sidebar, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = (
    """import os, random, time
# Through a descriptor, which nobody follows: the first run and the second differ in nothing that counts as an input.
os.dup2(os.open("tally.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 200)

def load():
    time.sleep(1.2)
    return [random.random() for _ in range(1000)]

def one_epoch(epoch, weights):
    time.sleep(0.1)
    os.write(200, b"%d %d\\n" % (epoch, os.getpid()))
    return [w + random.gauss(0, 1) for w in weights]""",
    "random.seed(7)\nweights = [0.0] * 3",
    "data = load()\nprint('loaded', len(data))",
    "for epoch in range(40):\n    weights = one_epoch(epoch, weights)",
    "print('weights', [round(w, 6) for w in weights], 'next', random.random())",
)

EPOCH_SECONDS = 0.1  # the sleep above


def tally(lab: Jupyter, folder: str) -> list[tuple[int, int]]:
    """(epoch, process) of every epoch that was computed, in order."""
    file = lab.root / folder / "tally.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(epoch), int(pid)) for epoch, pid in (line.split() for line in lines)]


def test_kill_reload_restore_resume_finish(page: Page, lab: Jupyter, folder: str) -> None:
    path = lab.write_notebook(f"{folder}/train.ipynb", *CELLS)
    open_in_lab(page, lab, path)
    # Automatic mode, by its button in the toolbar: kept in the notebook.
    button = page.locator(".jp-NotebookPanel-toolbar [data-command='nbcheckpoint:toggle-auto']")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Control+s")
    run_all(page)
    until(page, lambda: len(tally(lab, folder)) >= 30)
    page.keyboard.press("Control+s")
    expect(page.locator(".lm-DockPanel-tabBar .jp-mod-dirty")).to_have_count(0)
    killed = tally(lab, folder)[0][1]
    os.kill(killed, signal.SIGKILL)

    reloaded = time.monotonic()
    page.reload()
    banner = page.get_by_role("region", name="Interrupted run of this notebook")
    expect(banner).to_contain_text("cut short")
    expect(banner).to_contain_text("for epoch in range(40)")
    page.screenshot(path=ARTIFACTS / "story-banner.png")
    wait_until_idle(page)
    banner.get_by_role("button", name="Restore").click()
    expect(banner).to_contain_text(re.compile("Restored: .*data"))
    page.screenshot(path=ARTIFACTS / "story-restored.png")
    banner.get_by_role("button", name="Resume").click()
    expect(cell(page, 4).locator(".jp-OutputArea")).to_contain_text("weights")
    tell_ui_time(time.monotonic() - reloaded, sum(pid != killed for _, pid in tally(lab, folder)))
    expect(banner).to_be_hidden()
    expect(cell(page, 2)).to_have_class(re.compile("nbc-mod-restored"))
    expect(cell(page, 3)).to_have_class(re.compile("nbc-mod-resumed"))
    expect(cell(page, 3).locator(".nbc-Badge")).to_contain_text(re.compile(r"^\d+/40$"))
    mine = runs(sidebar(page), "mine")
    expect(mine.first).to_have_attribute("data-status", "running")
    mine.first.click()
    steps = sidebar(page).locator(".nbc-Step", has_text="for epoch in range(40)")
    expect(steps.first).to_have_attribute("data-status", "interrupted")  # what the killed kernel was at
    expect(steps.last).to_have_attribute("data-status", "completed")
    page.screenshot(path=ARTIFACTS / "story-resumed.png")
    resumed = cell(page, 4).locator(".jp-OutputArea").inner_text()
    epochs = [epoch for epoch, _ in tally(lab, folder)]
    assert sorted(set(epochs)) == list(range(40))
    assert epochs.count(0) == 1, "the loop did not begin anew"

    # The same notebook in one go, without us, in a kernel of its own.
    button.click()
    restart_kernel(page)
    run_all(page)
    expect(cell(page, 3)).not_to_have_class(re.compile("nbc-Cell"))
    until(page, lambda: [epoch for epoch, _ in tally(lab, folder)][-40:] == list(range(40)))
    expect(cell(page, 4).locator(".jp-OutputArea")).to_have_text(resumed)


def tell_ui_time(seconds: float, epochs: int) -> None:
    """How long a person waited besides for the notebook's own work. Told, not judged: that depends on the machine."""
    own = epochs * EPOCH_SECONDS
    told = f"{seconds:.1f} s from the reload to the result, {own:.1f} s of it in {epochs} epochs"
    told += f": {seconds - own:.1f} s of UI time"
    (ARTIFACTS / "story-ui-time.txt").write_text(f"{told}\n")
    print(told)


def until(page: Page, done: Callable[[], bool]) -> None:
    """Until something has happened outside of the page, which must not stand still meanwhile."""
    for _ in range(900):
        if done():
            return
        page.wait_for_timeout(50)
    pytest.fail("it did not happen")

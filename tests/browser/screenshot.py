"""Takes the README's picture: `python -m tests.browser.screenshot`, from the root of the repository.

The notebook in it is really run, its kernel really restarted, and run again. Only the runs of other notebooks
are written into the store by hand: waiting for a nightly job takes a night.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, expect

from nbcheckpoint.model import RunStatus
from nbcheckpoint.store import Store
from tests.browser.jupyter import Jupyter, chromium, find_chromium, serving
from tests.browser.pages import cell, open_in_lab, restart_kernel, run_all, runs, sidebar, store_in

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "sidebar.png"

CELLS = (
    "# Demand forecast\nThree years of receipts, fitted hour by hour.",
    "%load_ext nbcheckpoint\nimport numpy as np, pandas as pd",
    """%%checkpointed load
rng = np.random.default_rng(7)
hours = pd.date_range("2023-01-01", "2025-12-31", freq="h")
units = [rng.poisson(0.67, 3600).sum() for _ in hours]  # every second of every hour
hourly = pd.DataFrame({"units": units}, index=hours)
hourly.describe().T.round(1)""",
    """%%checkpointed train
X = np.column_stack([np.cos(hourly.index.hour / 24 * k * np.pi) for k in range(40)])
y, weights = hourly.units.to_numpy(copy=True), np.zeros(X.shape[1])
for epoch in range(1, 5):
    for _ in range(400):
        error = X @ weights - y
        weights -= 0.01 * X.T @ error / len(y)
    print(f"epoch {epoch}   error {np.abs(error).mean():.2f}")""",
    'f"{len(y):,} hours, all still here"',
)


def main() -> int:
    executable = find_chromium()
    if executable is None:
        print("no Chromium found", file=sys.stderr)
        return 1
    with (
        TemporaryDirectory() as scratch,
        serving("jupyterlab", root=_made(scratch, "shop"), home=_made(scratch, "home")) as server,
        store_in(server, "") as store,
        chromium(executable) as browser,
    ):
        _other_runs(store)
        page = browser.new_page(
            viewport={"width": 1360, "height": 880},
            device_scale_factor=2,
            locale="en-GB",
            timezone_id="UTC",
            reduced_motion="reduce",
        )
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        _play(page, server)
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURE)
    print(PICTURE)
    return 0


def _made(scratch: str, name: str) -> Path:
    folder = Path(scratch) / name
    folder.mkdir()
    return folder


def _other_runs(store: Store) -> None:
    def put(workflow: str, status: RunStatus, minutes: float, **facts: Any) -> None:
        when = datetime.now(timezone.utc) - timedelta(minutes=minutes)
        updated = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        run = store.begin_run(workflow)
        store.update_run(run.id, status=status, owner=None, created=updated, updated=updated, **facts)

    put("reports/weekly.ipynb", "completed", 26 * 60, counts={"completed": 3, "restored": 9}, spared_seconds=2460)
    put("etl/nightly.ipynb", "interrupted", 7 * 60, counts={"completed": 14}, bytes=3_800_000_000)
    put("churn/features.ipynb", "failed", 52, counts={"completed": 4, "restored": 2, "failed": 1}, bytes=96_000_000)


def _play(page: Page, server: Jupyter) -> None:
    open_in_lab(page, server, server.write_notebook("forecast/train.ipynb", *CELLS))
    run_all(page)
    expect(cell(page, 2).locator(".jp-OutputArea")).to_contain_text("computed")
    expect(cell(page, 3).locator(".jp-OutputArea")).to_contain_text("still here")
    restart_kernel(page)
    run_all(page)
    expect(cell(page, 2).locator(".jp-OutputArea")).to_contain_text("restored from")
    expect(cell(page, 3).locator(".jp-OutputArea")).to_contain_text("still here")
    page.keyboard.press("Control+s")
    expect(page.locator(".lm-DockPanel-tabBar .jp-mod-dirty")).to_have_count(0)

    panel = sidebar(page)
    page.evaluate("window.jupyterapp.shell.expandLeft?.()")
    _widen_sidebar(page, 330)
    expect(runs(panel, "mine")).to_have_count(2)
    page.evaluate("() => document.activeElement.blur()")
    page.locator(".jp-WindowedPanel-outer").first.evaluate("panel => panel.scrollTo(0, 0)")
    page.mouse.move(900, 840)
    expect(page.locator(".jp-toast, .Toastify__toast")).to_have_count(0)


def _widen_sidebar(page: Page, width: int) -> None:
    handle = page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:not(.lm-mod-hidden)").first
    box = handle.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 1, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(width + 40, box["y"] + 200, steps=5)
    page.mouse.up()


if __name__ == "__main__":
    sys.exit(main())

"""The panel on a store of 100,000 runs: how soon the list is there, and how smoothly it scrolls.

    python benchmarks/sidebar.py [--runs 100000]

A real JupyterLab in a real Chromium, headless and without a graphics card, so a desktop does better. What counts:
first paint of the list below 500 ms after the server has answered, scrolling at 30 frames a second or more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench_records import fill_runs
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.jupyter import chromium, find_chromium, serving
from tests.browser.pages import open_in_lab, sidebar, store_in

PAINT_MS = 500.0
FRAMES = 30.0

WATCH = """() => {
    window.__painted = new Promise(resolve => {
        const look = () => document.querySelector('.nbc-Run')
            ? requestAnimationFrame(() => resolve(performance.now()))
            : requestAnimationFrame(look);
        look();
    });
}"""

PAINTED = """async () => {
    const painted = await window.__painted;
    const asked = performance.getEntriesByType('resource').filter(entry => /nbcheckpoint.api.runs/.test(entry.name));
    const first = asked[0];
    return { afterAnswer: painted - first.responseEnd, server: first.responseEnd - first.requestStart };
}"""

SCROLL = """async by => {
    const list = document.querySelector('.nbc-Windowed');
    const frames = [];
    let last = performance.now();
    const began = last;
    while (performance.now() - began < 4000) {
        await new Promise(resolve => requestAnimationFrame(resolve));
        const now = performance.now();
        frames.push(now - last);
        last = now;
        list.scrollTop += by;
    }
    frames.sort((a, b) => a - b);
    const sum = frames.reduce((all, one) => all + one, 0);
    const rows = document.querySelectorAll('.nbc-Row').length;
    return { frames: frames.length, perSecond: 1000 * frames.length / sum,
             p95: frames[Math.floor(frames.length * 0.95)], worst: frames[frames.length - 1], rows };
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100_000)
    chosen = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        print("no Chromium found", file=sys.stderr)
        return 1
    with TemporaryDirectory() as scratch:
        places = [Path(scratch) / name for name in ("root", "home")]
        for place in places:
            place.mkdir()
        with serving("jupyterlab", root=places[0], home=places[1]) as server, chromium(executable) as browser:
            with store_in(server, "") as store:
                fill_runs(store, chosen.runs)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.set_default_timeout(120_000)
            open_in_lab(page, server)
            return tell(measured(page), chosen.runs)


def measured(page: Page) -> dict[str, Any]:
    page.evaluate(WATCH)
    panel = sidebar(page)
    expect(panel.locator(".nbc-Run").first).to_be_visible()
    paint: dict[str, Any] = page.evaluate(PAINTED)
    still: dict[str, Any] = page.evaluate(SCROLL, 0)
    scroll: dict[str, Any] = page.evaluate(SCROLL, 200)
    return {**paint, **scroll, "still": still["perSecond"]}


def tell(found: dict[str, Any], runs: int) -> int:
    print(f"{runs:,} runs")
    print(f"first page from the server            {found['server']:8.0f} ms")
    print(f"first paint after the server answered {found['afterAnswer']:8.0f} ms   (at most {PAINT_MS:.0f})")
    print(f"the page at rest                      {found['still']:8.1f} frames/s   (what this machine can do now)")
    print(f"scrolling                             {found['perSecond']:8.1f} frames/s   (at least {FRAMES:.0f})")
    print(f"  95 % of frames within               {found['p95']:8.1f} ms, the worst {found['worst']:.0f} ms")
    print(f"  rows in the page at the end         {found['rows']:8d}")
    return 0 if found["afterAnswer"] <= PAINT_MS and found["perSecond"] >= FRAMES else 1


if __name__ == "__main__":
    sys.exit(main())

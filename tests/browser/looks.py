"""What the tests look with: themes, and axe for those who cannot see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")


def violations(page: Page, *selectors: str) -> list[str]:
    """What axe finds to be serious or worse in these parts of a page."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text())
    found: list[dict[str, Any]] = page.evaluate(
        """async selectors => {
            const late = new Promise((_, reject) => setTimeout(() => reject(new Error('axe did not end')), 30000));
            const context = { include: selectors.filter(one => document.querySelector(one)).map(one => [one]) };
            return (await Promise.race([window.axe.run(context), late])).violations;
        }""",
        list(selectors),
    )
    return [
        f"{item['id']}: {node['target']} {node['failureSummary']}"
        for item in found
        if item["impact"] in ("serious", "critical")
        for node in item["nodes"]
    ]


def wear(page: Page, theme: str) -> None:
    page.evaluate("theme => { void window.jupyterapp.commands.execute('apputils:change-theme', { theme }) }", theme)
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
    # Changing a theme fades a splash in and out over everything.
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)

"""What a person does in JupyterLab and Notebook 7, by the words they see; and what others leave in a store."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from nbcheckpoint.store import Store, open_store
from tests.browser.jupyter import Jupyter

expect.set_options(timeout=45_000)


def store_in(server: Jupyter, folder: str) -> Store:
    """The store in a folder of the server's root, opened under the server's own key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", server.environment["JUPYTER_DATA_DIR"])
        return open_store(server.root / folder / ".nbcheckpoint", create=True)


def open_in_lab(page: Page, server: Jupyter, path: str = "") -> None:
    """Open a notebook (or nothing) in a workspace nobody has used."""
    where = f"lab/workspaces/{uuid4().hex[:8]}" + (f"/tree/{path}" if path else "")
    page.goto(server.address(where, reset=""))
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)
    if path:
        wait_until_idle(page)
    else:
        expect(page.locator(".jp-Launcher")).to_be_visible()


def wait_until_idle(page: Page) -> None:
    """Until the notebook in front has a kernel that is connected and waits.

    The page shows `idle` before there is a connection, and what is run then is not run at all.
    """
    page.wait_for_function(
        """() => {
            const session = window.jupyterapp?.shell.currentWidget?.context?.sessionContext;
            const kernel = session?.session?.kernel;
            return session?.isReady && kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
        }"""
    )


def choose(page: Page, menu: str, entry: str) -> None:
    """Choose an entry of a menu of the menu bar."""
    page.locator(".lm-MenuBar-item", has_text=re.compile(f"^{menu}$")).click()
    page.locator(".lm-Menu-item", has_text=re.compile(f"^{re.escape(entry)}")).first.click()


def run_all(page: Page) -> None:
    choose(page, "Run", "Run All Cells")


def restart_kernel(page: Page) -> None:
    choose(page, "Kernel", "Restart Kernel…")
    page.locator(".jp-Dialog button", has_text="Restart").click()
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    wait_until_idle(page)


def sidebar(page: Page) -> Locator:
    """The panel, opened by its tab if need be."""
    panel = page.locator("#nbcheckpoint-sidebar")
    if not panel.is_visible():
        page.locator(".jp-SideBar .lm-TabBar-tab[title='Checkpoints'], [data-id='nbcheckpoint-sidebar']").first.click()
    expect(panel).to_be_visible()
    return panel


def cell(page: Page, index: int) -> Locator:
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").nth(index)


def runs(panel: Locator, place: str) -> Locator:
    """The runs in sight: `mine` are those of the notebook in front, `all` is everything."""
    return panel.locator(f".nbc-Run[data-place={place}]")


def tab(panel: Locator, name: str) -> Locator:
    """Choose a tab of an opened run; returns what is behind it."""
    panel.get_by_role("tab", name=name, exact=True).click()
    return panel.get_by_role("tabpanel", name=name, exact=True)


def dialog(page: Page) -> Locator:
    return page.locator(".jp-Dialog")


def in_menu(page: Page, row: Locator, entry: str) -> None:
    """Choose an entry of the menu that the right mouse button opens."""
    row.click(button="right")
    page.locator(".lm-Menu-item", has_text=re.compile(f"^{re.escape(entry)}")).click()


def open_notebook(page: Page, path: str, *, kernel: bool = True) -> None:
    """Open a notebook in a JupyterLab that is there already."""
    page.evaluate("path => { void window.jupyterapp.commands.execute('docmanager:open', { path }) }", path)
    page.wait_for_function(
        """path => {
            const context = window.jupyterapp.shell.currentWidget?.context;
            return context?.path === path && context.isReady;
        }""",
        arg=path,
    )
    if kernel:
        wait_until_idle(page)


def press_in(where: Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def save(page: Page) -> None:
    """Save the notebook in front, and wait until it is."""
    page.evaluate("() => { void window.jupyterapp.commands.execute('docmanager:save') }")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")


def set_source(page: Page, index: int, source: str) -> None:
    """What a cell of the notebook in front says from now on."""
    page.evaluate(
        """([index, source]) => {
            const { content } = window.jupyterapp.shell.currentWidget;
            content.widgets[index].model.sharedModel.setSource(source);
        }""",
        [index, source],
    )


def run_cell(page: Page, index: int, *, wait: bool = True) -> None:
    """Run one cell of the notebook in front."""
    page.evaluate(
        """index => {
            window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
            void window.jupyterapp.commands.execute('notebook:run-cell');
        }""",
        index,
    )
    if wait:
        expect(cell(page, index).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))
        wait_until_idle(page)


def evaluated(page: Page, expression: str) -> str:
    """What an expression is in the kernel of the notebook in front, as text."""
    wait_until_idle(page)
    return str(
        page.evaluate(
            """async expression => {
                const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
                const user_expressions = { it: expression };
                const future = kernel.requestExecute({ code: '', silent: true, user_expressions });
                const late = new Promise((_, reject) => setTimeout(() => reject(new Error('no answer')), 20000));
                const { it } = (await Promise.race([future.done, late])).content.user_expressions;
                return it.data?.['text/plain'] ?? it.evalue;
            }""",
            expression,
        )
    )


def clear_desk(page: Page) -> None:
    """Close everything that is open, kernels included, without asking."""
    while page.locator(".jp-Dialog").count():
        page.locator(".jp-Dialog button").last.focus()
        page.keyboard.press("Escape")
    if page.locator("#nbcheckpoint-sidebar .nbc-Back").is_visible():
        page.locator("#nbcheckpoint-sidebar .nbc-Back").click()
    page.evaluate(
        """async () => {
            for (const widget of [...window.jupyterapp.shell.widgets('main')]) {
                if (widget.context) {
                    widget.context.model.dirty = false;
                    const done = widget.sessionContext.shutdown().catch(() => undefined);
                    await Promise.race([done, new Promise(resolve => setTimeout(resolve, 5000))]);
                    widget.dispose();
                }
            }
        }"""
    )

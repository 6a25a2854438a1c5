/**
 * What is done to an open notebook: have it in front with a kernel that waits, and run its cells.
 *
 * Resuming means running the cells in order from the top in a kernel without variables. What is saved is restored as it
 * is reached, definitions and quick statements run, and the loop that was cut short goes on: every cell finds what it
 * would find if nothing had happened. Binding values first and running some cells afterwards could not promise that.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Refusal } from './problem';

/**
 * Where a notebook's settings are in its metadata.
 */
const METADATA = 'nbcheckpoint';

/**
 * Is automatic mode on for a notebook? Kept in the notebook, so that it goes with it.
 */
export function isAutomatic(panel: NotebookPanel): boolean {
  const ours: unknown = panel.content.model?.getMetadata(METADATA);
  return (ours as { auto?: unknown } | undefined)?.auto === true;
}

/**
 * Keep in the notebook whether automatic mode is on.
 */
export function setAutomatic(panel: NotebookPanel, on: boolean): void {
  const model = panel.content.model;
  const ours: unknown = model?.getMetadata(METADATA);
  const others = typeof ours === 'object' && ours !== null ? ours : {};
  if (on) {
    model?.setMetadata(METADATA, { ...others, auto: true });
  } else {
    const { auto: _, ...rest } = others as Record<string, unknown>;
    if (Object.keys(rest).length > 0) {
      model?.setMetadata(METADATA, rest);
    } else {
      model?.deleteMetadata(METADATA);
    }
  }
}

/**
 * The path of a run's notebook, from the path and the name of one in the same store; null where it lies outside of what
 * the server shows. Pure.
 */
export function pathOf(
  workflow: string,
  here: { path: string; workflow: string | null }
): string | null {
  const { path, workflow: name } = here;
  if (!path || !name) {
    return workflow;
  }
  if (path.endsWith(name)) {
    return path.slice(0, path.length - name.length) + workflow;
  }
  // The store lies above the server's root: what is above it is not shown.
  const above = name.endsWith(path)
    ? name.slice(0, name.length - path.length)
    : null;
  return above !== null && workflow.startsWith(above)
    ? workflow.slice(above.length)
    : null;
}

/**
 * See to it that a notebook has a kernel that waits.
 */
export async function haveKernel(
  session: ISessionContext,
  trans: TranslationBundle
): Promise<void> {
  await session.ready;
  const status = session.session?.kernel?.status;
  if (!session.session?.kernel) {
    const needsChoice = await session.startKernel();
    if (needsChoice) {
      throw new Refusal(
        trans.__('The notebook has no kernel.'),
        trans.__('Choose one in the Kernel menu.')
      );
    }
  } else if (status === 'dead') {
    await session.restartKernel();
  } else if (status === 'busy') {
    throw new Refusal(
      trans.__('The kernel is busy.'),
      trans.__('Wait until it is done, or interrupt it.')
    );
  }
  await untilIdle(session, trans);
}

/**
 * Until the kernel is connected and waits; not for ever.
 */
export function untilIdle(
  session: ISessionContext,
  trans: TranslationBundle,
  patience = 60_000
): Promise<void> {
  const isIdle = (): boolean => {
    const kernel = session.session?.kernel;
    return (
      kernel?.connectionStatus === 'connected' && kernel.status === 'idle'
    );
  };
  return new Promise((resolve, reject) => {
    const end = (): void => {
      window.clearTimeout(timer);
      session.statusChanged.disconnect(look);
      session.connectionStatusChanged.disconnect(look);
      session.kernelChanged.disconnect(look);
    };
    const look = (): void => {
      if (isIdle()) {
        end();
        resolve();
      }
    };
    const timer = window.setTimeout(() => {
      end();
      reject(
        new Refusal(
          trans.__('The kernel does not answer.'),
          trans.__('Restart it in the Kernel menu, and try again.')
        )
      );
    }, patience);
    session.statusChanged.connect(look);
    session.connectionStatusChanged.connect(look);
    session.kernelChanged.connect(look);
    look();
  });
}

/**
 * Run all cells from the top, with the one in sight where the real work begins.
 */
export async function runFromTop(
  panel: NotebookPanel,
  stopped: string
): Promise<void> {
  const at = cellIndex(panel, stopped);
  const done = NotebookActions.runAll(panel.content, panel.sessionContext);
  if (at >= 0) {
    await panel.content.scrollToItem(at, 'center').catch(() => undefined);
  }
  await done;
}

/**
 * Run a cell and all below it.
 */
export async function runFrom(
  panel: NotebookPanel,
  cell: string
): Promise<void> {
  const at = cellIndex(panel, cell);
  panel.content.activeCellIndex = at;
  await NotebookActions.runCells(
    panel.content,
    panel.content.widgets.slice(at),
    panel.sessionContext
  );
}

/**
 * Where a cell is by its id; -1 if it is not there any more.
 */
export function cellIndex(panel: NotebookPanel, id: string): number {
  return id
    ? panel.content.widgets.findIndex(cell => cell.model.id === id)
    : -1;
}

const MARK = '%%checkpointed';

/**
 * Whether a cell's source begins with our magic. Pure.
 */
export function isCheckpointed(source: string): boolean {
  return /^\s*%%checkpointed\b/.test(source);
}

/**
 * Put our magic into the first line of a cell, or take it out again. Undone like any other edit.
 */
export function toggleCheckpointed(cell: CodeCell): void {
  const source = cell.model.sharedModel.getSource();
  cell.model.sharedModel.setSource(converted(source));
}

/**
 * The source of a cell with the magic in its first line; without it, if it is there. Pure.
 */
export function converted(source: string): string {
  return isCheckpointed(source)
    ? source.replace(/^\s*%%checkpointed\b[^\n]*\n?/, '')
    : `${MARK}\n${source}`;
}

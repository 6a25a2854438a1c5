/**
 * What is done to an open notebook: have it in front with a kernel that waits, and run its cells.
 *
 * Resuming means running the cells in order from the top in a kernel without variables. What is saved is restored as it
 * is reached, definitions and quick statements run, and the loop that was cut short goes on: every cell finds what it
 * would find if nothing had happened. Binding values first and running some cells afterwards could not promise that.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { cellIndex } from './document';
import { MOMENT, busy, untilIdle } from './kernel';
import { Refusal } from './problem';

/**
 * How long a kernel may take to start, in milliseconds.
 */
const PATIENCE = 60_000;

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
    await untilIdle(session, MOMENT, busy(trans));
  }
  await untilIdle(
    session,
    PATIENCE,
    new Refusal(
      trans.__('The kernel does not answer.'),
      trans.__('Restart it in the Kernel menu, and try again.')
    )
  );
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

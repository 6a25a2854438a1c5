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
import { Refusal } from './problem';

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
    return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
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

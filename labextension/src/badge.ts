/**
 * A mark on each cell that was computed or restored.
 *
 * The kernel leaves one line under a checkpointed cell, a display of its own whose metadata says
 * `{"nbcheckpoint": {"status": …}}`. That is all the badge goes by, so it is right while a cell runs, after a reload, and in
 * a file somebody sent: no message to the kernel, no state of its own. Clearing the outputs clears it.
 */

import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

/**
 * What a badge can say.
 */
export type BadgeStatus =
  'computed' | 'restored' | 'resumed' | 'stale' | 'failed';

/**
 * What a cell's outputs say about it.
 */
export interface IBadge {
  readonly status: BadgeStatus;

  /**
   * The line under the cell, if it has one.
   */
  readonly text: string;
}

const STATUSES: ReadonlyArray<BadgeStatus> = [
  'computed',
  'restored',
  'resumed',
  'stale',
  'failed'
];

/**
 * Read a cell's outputs. The last of our lines counts: it is the one that was written when all was over.
 */
export function readBadge(outputs: ReadonlyArray<IOutput>): IBadge | null {
  for (const output of [...outputs].reverse()) {
    const ours = record(record(output.metadata)?.nbcheckpoint);
    const status = STATUSES.find(known => known === ours?.status);
    if (status) {
      const line = record(output.data)?.['text/plain'];
      const lines = Array.isArray(line) ? line.join('') : line;
      return { status, text: typeof lines === 'string' ? lines.trim() : '' };
    }
  }
  return null;
}

function record(value: unknown): Record<string, unknown> | null {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)
    : null;
}

/**
 * Keeps the badges of one notebook right for as long as it is open.
 */
export class NotebookBadges implements IDisposable {
  constructor(panel: NotebookPanel, trans: TranslationBundle) {
    this._panel = panel;
    this._trans = trans;
    panel.content.modelChanged.connect(this._follow, this);
    panel.disposed.connect(this.dispose, this);
    this._follow();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    for (const cell of this._watched) {
      if (!cell.isDisposed) {
        mark(cell, null, this._trans);
      }
    }
    this._watched.clear();
    Signal.clearData(this);
  }

  private _follow(): void {
    this._panel.content.model?.cells.changed.connect(this._watch, this);
    this._watch();
  }

  /**
   * Look after the cells that are new.
   */
  private _watch(): void {
    if (this._isDisposed) {
      return;
    }
    for (const cell of this._panel.content.widgets) {
      if (cell instanceof CodeCell && !this._watched.has(cell)) {
        this._watched.add(cell);
        const update = (): void => this._update(cell);
        cell.model.outputs.changed.connect(update, this);
        cell.disposed.connect(() => this._watched.delete(cell), this);
        update();
      }
    }
  }

  private _update(cell: CodeCell): void {
    if (!this._isDisposed && !cell.isDisposed) {
      mark(cell, readBadge(cellOutputs(cell.model)), this._trans);
    }
  }

  private readonly _panel: NotebookPanel;
  private readonly _trans: TranslationBundle;
  private readonly _watched = new Set<CodeCell>();
  private _isDisposed = false;
}

function cellOutputs(model: ICodeCellModel): IOutput[] {
  return model.outputs.toJSON();
}

/**
 * Put a badge on a cell, or take it away.
 */
function mark(
  cell: Cell,
  badge: IBadge | null,
  trans: TranslationBundle
): void {
  cell.toggleClass('nbc-Cell', badge !== null);
  for (const status of STATUSES) {
    cell.toggleClass(`nbc-mod-${status}`, badge?.status === status);
  }
  const title = badge ? badge.text || word(badge.status, trans) : '';
  // A cell far below the fold has no prompt yet.
  void cell.ready.then(() => {
    const prompt = cell.inputArea?.promptNode;
    if (prompt && title) {
      prompt.title = title;
    } else {
      prompt?.removeAttribute('title');
    }
  });
}

function word(status: BadgeStatus, trans: TranslationBundle): string {
  const words: Record<BadgeStatus, string> = {
    computed: trans.__('computed and saved'),
    restored: trans.__('restored'),
    resumed: trans.__('restored in part'),
    stale: trans.__('out of date'),
    failed: trans.__('failed')
  };
  return words[status];
}

/**
 * A mark on each cell that was computed, restored, cut short, or is out of date.
 *
 * The kernel leaves one line under a checkpointed cell, a display of its own whose metadata says
 * `{"nbcheckpoint": {"status": …}}`. That is what the badge goes by, so it is right while a cell runs, after a reload, and
 * in a file somebody sent: no message to the kernel, no state of its own. Clearing the outputs clears it. What only a
 * kernel can tell (an input has changed) is added when somebody knows, and goes when the cell is run.
 */

import type { ICodeCellModel } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  caretRightIcon,
  checkIcon,
  closeIcon,
  fastForwardIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { crc32 } from './crc';
import { maybe, number, text } from './decode';
import { isAutomatic, isCheckpointed } from './document';
import type { IStep } from './tokens';

/**
 * What a badge can say.
 */
export type BadgeStatus =
  'computed' | 'restored' | 'resumed' | 'stale' | 'failed';

/**
 * What is known about a cell.
 */
export interface IBadge {
  readonly status: BadgeStatus;

  /**
   * The line under the cell, if it has one.
   */
  readonly text: string;

  /**
   * The checkpoint it left or came from.
   */
  readonly checkpoint: string;

  /**
   * `37/100`, where a loop went on.
   */
  readonly at: string;

  /**
   * The checksum of the source it belongs to, where the kernel has told.
   */
  readonly code: string;
}

const STATUSES: ReadonlyArray<BadgeStatus> = [
  'computed',
  'restored',
  'resumed',
  'stale',
  'failed'
];

const ICONS = {
  computed: checkIcon,
  restored: refreshIcon,
  resumed: fastForwardIcon,
  stale: caretRightIcon,
  failed: closeIcon
};

/**
 * Read a cell's outputs. The last of our lines counts: it is the one that was written when all was over. Pure.
 */
export function readBadge(outputs: ReadonlyArray<IOutput>): IBadge | null {
  for (const output of [...outputs].reverse()) {
    const ours = maybe(maybe(output.metadata).nbcheckpoint);
    const status = STATUSES.find(known => known === ours.status);
    if (status) {
      const line = maybe(output.data)['text/plain'];
      const said = text(Array.isArray(line) ? line.join('') : line).trim();
      return {
        status,
        text: said,
        checkpoint: text(ours.checkpoint),
        at: place(ours, said),
        code: text(ours.code)
      };
    }
  }
  return null;
}

/**
 * Where a loop went on: as the metadata say it, else as the line does.
 */
function place(ours: Record<string, unknown>, line: string): string {
  if (number(ours.done)) {
    return ours.total
      ? `${number(ours.done)}/${number(ours.total)}`
      : String(number(ours.done));
  }
  const found =
    /loop continued at (\d[\d,]*\d|\d)(?: of (\d[\d,]*\d|\d))?/.exec(line);
  return found ? [found[1], found[2]].filter(Boolean).join('/') : '';
}

/**
 * What the badge of a cell says, all in all. Pure.
 *
 * @param isOurs Whether the cell is one that is checkpointed.
 * @param stale Why it is out of date, as the kernel says.
 */
export function judge(
  outputs: ReadonlyArray<IOutput>,
  source: string,
  isOurs: boolean,
  stale: string,
  trans: TranslationBundle
): IBadge | null {
  const badge = readBadge(outputs);
  const error = outputs.find(output => output.output_type === 'error');
  if (error && (badge || isOurs)) {
    const { ename, evalue } = error as { ename?: unknown; evalue?: unknown };
    return {
      status: 'failed',
      text: [text(ename), text(evalue)].filter(Boolean).join(': '),
      checkpoint: badge?.checkpoint ?? '',
      at: '',
      code: ''
    };
  }
  if (badge && badge.status !== 'failed') {
    const changed = badge.code !== '' && badge.code !== crc32(source);
    const why = changed ? trans.__('its code has changed since') : stale;
    return why ? { ...badge, status: 'stale', text: why } : badge;
  }
  return badge;
}

/**
 * Cell id -> what became of it, as its run has it: for cells that ended while no page was there to take their output.
 * Pure.
 *
 * @param steps The outer ones, in their order.
 */
export function unseenBadges(
  steps: ReadonlyArray<IStep>,
  trans: TranslationBundle
): Map<string, IBadge> {
  const texts = {
    completed: trans.__(
      'computed and saved while no page was open; run the cell to see its output'
    ),
    restored: trans.__(
      'restored while no page was open; run the cell to see its output'
    )
  };
  const found = new Map<string, IBadge>();
  for (const { cell, status, code, checkpoint } of steps) {
    found.delete(cell);
    if (cell && code && checkpoint) {
      if (status === 'completed' || status === 'restored') {
        found.set(cell, {
          status: status === 'completed' ? 'computed' : 'restored',
          text: texts[status],
          checkpoint,
          at: '',
          code
        });
      }
    }
  }
  return found;
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

  /**
   * Emitted when any of them has changed.
   */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /**
   * Somebody wants to know more about the checkpoint of a cell.
   */
  get asked(): ISignal<this, string> {
    return this._asked;
  }

  /**
   * Status -> how many cells have it.
   */
  get counts(): Readonly<Partial<Record<BadgeStatus, number>>> {
    const counts: Partial<Record<BadgeStatus, number>> = {};
    for (const badge of this._badges.values()) {
      counts[badge.status] = (counts[badge.status] ?? 0) + 1;
    }
    return counts;
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
        unmark(cell);
      }
    }
    this._watched.clear();
    this._badges.clear();
    Signal.clearData(this);
  }

  /**
   * What a kernel knows: the id of each cell that is out of date, and why.
   */
  setStale(stale: ReadonlyMap<string, string>): void {
    this._stale = stale;
    this._watched.forEach(cell => this._update(cell));
  }

  /**
   * What a run knows: the id of each cell that has ended in it, and what became of it.
   */
  setUnseen(unseen: ReadonlyMap<string, IBadge>): void {
    this._unseen = unseen;
    this._watched.forEach(cell => this._update(cell));
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
        cell.model.outputs.changed.connect(() => {
          this._runs(cell);
          update();
        }, this);
        cell.model.contentChanged.connect(update, this);
        cell.disposed.connect(() => {
          this._watched.delete(cell);
          this._badges.delete(cell);
          this._changed.emit();
        }, this);
        update();
      }
    }
  }

  /**
   * A cell that is run is not what it was: what was known about it does not count any more.
   */
  private _runs(cell: CodeCell): void {
    if (this._stale.has(cell.model.id)) {
      const rest = new Map(this._stale);
      rest.delete(cell.model.id);
      this._stale = rest;
    }
    if (this._unseen.has(cell.model.id)) {
      const rest = new Map(this._unseen);
      rest.delete(cell.model.id);
      this._unseen = rest;
    }
  }

  private _update(cell: CodeCell): void {
    if (this._isDisposed || cell.isDisposed) {
      return;
    }
    const source = cell.model.sharedModel.getSource();
    const badge =
      judge(
        cellOutputs(cell.model),
        source,
        isCheckpointed(source) || isAutomatic(this._panel),
        this._stale.get(cell.model.id) ?? '',
        this._trans
      ) ?? this._left(cell, source);
    const before = this._badges.get(cell);
    if (JSON.stringify(before ?? null) === JSON.stringify(badge)) {
      return;
    }
    if (badge) {
      this._badges.set(cell, badge);
      mark(cell, badge, this._trans, () => this._asked.emit(badge.checkpoint));
    } else {
      this._badges.delete(cell);
      unmark(cell);
    }
    this._changed.emit();
  }

  /**
   * What the run knows of a cell that has nothing to show for it, as long as its code is what was run.
   */
  private _left(cell: CodeCell, source: string): IBadge | null {
    const unseen = this._unseen.get(cell.model.id);
    const isEmpty = cell.model.outputs.length === 0;
    return unseen && isEmpty && unseen.code === crc32(source) ? unseen : null;
  }

  private readonly _panel: NotebookPanel;
  private readonly _trans: TranslationBundle;
  private readonly _watched = new Set<CodeCell>();
  private readonly _badges = new Map<CodeCell, IBadge>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _asked = new Signal<this, string>(this);
  private _stale: ReadonlyMap<string, string> = new Map();
  private _unseen: ReadonlyMap<string, IBadge> = new Map();
  private _isDisposed = false;
}

function cellOutputs(model: ICodeCellModel): IOutput[] {
  return model.outputs.toJSON();
}

/**
 * Put a badge on a cell.
 */
function mark(
  cell: CodeCell,
  badge: IBadge,
  trans: TranslationBundle,
  ask: () => void
): void {
  unmark(cell);
  cell.addClass('nbc-Cell');
  cell.addClass(`nbc-mod-${badge.status}`);
  const node = document.createElement('button');
  node.className = 'nbc-Badge';
  // Reached from the notebook's own commands; in the order of Tab every cell would take two more keys.
  node.tabIndex = -1;
  const said = sayBadge(badge, trans);
  node.title = said;
  node.setAttribute('aria-label', said);
  node.addEventListener('click', ask);
  ICONS[badge.status].element({ container: node, tag: 'span' });
  if (badge.at) {
    const at = node.appendChild(document.createElement('span'));
    at.className = 'nbc-Badge-at';
    at.textContent = badge.at;
  }
  // A cell far below the fold has no input area yet.
  void cell.ready.then(() => {
    const isCurrent = cell.hasClass(`nbc-mod-${badge.status}`);
    if (!cell.isDisposed && isCurrent) {
      old(cell).forEach(other => other.remove());
      cell.inputArea?.node.prepend(node);
    }
  });
}

function unmark(cell: CodeCell): void {
  cell.removeClass('nbc-Cell');
  STATUSES.forEach(status => cell.removeClass(`nbc-mod-${status}`));
  old(cell).forEach(node => node.remove());
}

function old(cell: CodeCell): Element[] {
  return [...(cell.inputArea?.node.querySelectorAll('.nbc-Badge') ?? [])];
}

/**
 * A badge in words. Pure.
 */
export function sayBadge(badge: IBadge, trans: TranslationBundle): string {
  switch (badge.status) {
    case 'stale':
      return trans.__('out of date: %1', badge.text);
    case 'failed':
      return badge.text
        ? trans.__('failed: %1', badge.text)
        : trans.__('failed');
    case 'resumed':
      return badge.text || trans.__('resumed at %1', badge.at);
    case 'restored':
      return badge.text || trans.__('restored');
    case 'computed':
      return badge.text || trans.__('computed and saved');
  }
}

/**
 * Cell id -> why it is out of date, from a plan's statements. Pure.
 */
export function staleCells(statements: unknown): Map<string, string> {
  const found = new Map<string, string>();
  for (const item of Array.isArray(statements) ? statements : []) {
    const { cell_id, stale, reason } = maybe(item);
    const id = text(cell_id);
    if (id && stale === true && !found.has(id)) {
      found.set(id, text(reason));
    }
  }
  return found;
}

/**
 * What each open notebook has of ours: its mode, its badges, its banner. Made when it opens, gone when it closes.
 */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { Automatic } from './automatic';
import { NotebookBadges, staleCells, unseenBadges } from './badge';
import type { NotebookBanner } from './banner';
import { ask } from './kernel';
import type { IStep } from './tokens';

/**
 * What one notebook has.
 */
export interface IOurs {
  readonly automatic: Automatic;
  readonly badges: NotebookBadges;
  readonly banner: NotebookBanner;
}

export class Notebooks implements IDisposable {
  constructor(
    tracker: INotebookTracker,
    private readonly _options: Notebooks.IOptions
  ) {
    tracker.forEach(panel => this._add(panel));
    tracker.widgetAdded.connect((_, panel) => this._add(panel), this);
    tracker.currentChanged.connect(() => this._changed.emit(), this);
  }

  /**
   * Emitted when anything about any of them has changed, and when another one is in front.
   */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /**
   * The checkpoint somebody wants to know more about.
   */
  get asked(): ISignal<this, string> {
    return this._asked;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  of(panel: NotebookPanel): IOurs | null {
    return this._ours.get(panel) ?? null;
  }

  private _add(panel: NotebookPanel): void {
    const { trans, banner } = this._options;
    const automatic = new Automatic(panel, trans);
    const badges = new NotebookBadges(panel, trans);
    automatic.changed.connect(() => this._changed.emit(), this);
    badges.changed.connect(() => this._changed.emit(), this);
    badges.asked.connect((_, checkpoint) => this._asked.emit(checkpoint), this);
    this._ours.set(panel, { automatic, badges, banner: banner(panel) });
    panel.context.saveState.connect((_, state) => {
      if (state === 'completed') {
        void this._lookForStale(panel, badges);
      }
    }, this);
    panel.disposed.connect(() => this._ours.delete(panel), this);
    void panel.context.ready.then(() => this._lookForUnseen(panel, badges));
  }

  /**
   * What has ended while no page was there. A kernel that is still at it is looked at again when it is done: what it says
   * to the page that has gone does not come here.
   */
  private async _lookForUnseen(
    panel: NotebookPanel,
    badges: NotebookBadges
  ): Promise<void> {
    let steps: ReadonlyArray<IStep>;
    try {
      steps = await this._options.steps(panel);
    } catch (error) {
      // No server extension, no store: then there is nothing to know. The sidebar says what is wrong.
      console.debug('nbcheckpoint: no steps', error);
      return;
    }
    if (panel.isDisposed) {
      return;
    }
    badges.setUnseen(unseenBadges(steps, this._options.trans));
    if (steps.some(step => step.status === 'running')) {
      const session = panel.sessionContext;
      const onStatus = (_: unknown, status: string): void => {
        if (status === 'idle') {
          session.statusChanged.disconnect(onStatus);
          void this._lookForUnseen(panel, badges);
        }
      };
      session.statusChanged.connect(onStatus);
    }
  }

  /**
   * What would have to run again though it was saved, as the kernel sees it. Asked when the notebook was saved, because
   * that is what the kernel reads, and only while it has nothing else to do.
   */
  private async _lookForStale(
    panel: NotebookPanel,
    badges: NotebookBadges
  ): Promise<void> {
    const kernel = panel.sessionContext.session?.kernel;
    const isPython = panel.content.codeMimetype.includes('python');
    const has = Object.keys(badges.counts).length > 0;
    if (!this._options.lookForStale() || kernel?.status !== 'idle') {
      return;
    }
    if (has && isPython) {
      try {
        const { trans } = this._options;
        const plan = await ask(panel.sessionContext, 'plan', {}, trans);
        badges.setStale(staleCells(plan.statements));
      } catch (error) {
        // Nobody asked, so nobody is told: the badges stay what they were.
        console.debug('nbcheckpoint: no plan', error);
      }
    }
  }

  private readonly _ours = new Map<NotebookPanel, IOurs>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _asked = new Signal<this, string>(this);
  private _isDisposed = false;
}

export namespace Notebooks {
  /**
   * What they are made with.
   */
  export interface IOptions {
    trans: TranslationBundle;

    banner: (panel: NotebookPanel) => NotebookBanner;
    lookForStale: () => boolean;

    /**
     * The outer steps of the run a notebook's kernel is at, if it is at one.
     */
    steps: (panel: NotebookPanel) => Promise<ReadonlyArray<IStep>>;
  }
}

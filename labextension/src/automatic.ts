/**
 * Automatic mode: kept in the notebook, applied whenever its kernel starts.
 *
 * A kernel is told right before the first cell that is sent to it: requests are answered in order, so no cell can slip
 * through between the start of a kernel and its first word from us, however the cell is run.
 */

import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { tell } from './kernel';
import { isAutomatic, setAutomatic } from './document';
import { explain } from './problem';

/**
 * Looks after one notebook.
 */
export class Automatic implements IDisposable {
  constructor(panel: NotebookPanel, trans: TranslationBundle) {
    this._panel = panel;
    this._trans = trans;
    panel.sessionContext.statusChanged.connect(this._onStatus, this);
    panel.sessionContext.kernelChanged.connect(this._forget, this);
    NotebookActions.executionScheduled.connect(this._onScheduled, this);
    panel.content.modelChanged.connect(this._follow, this);
    panel.disposed.connect(this.dispose, this);
    this._follow();
  }

  /**
   * Emitted when it is switched, by whomever.
   */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  get on(): boolean {
    return isAutomatic(this._panel);
  }
  set on(on: boolean) {
    setAutomatic(this._panel, on);
    const kernel = this._panel.sessionContext.session?.kernel;
    if (kernel?.status === 'idle') {
      void this._send(kernel, on);
    } else {
      this._forget();
    }
  }

  private _follow(): void {
    this._panel.content.model?.metadataChanged.connect(
      () => this._changed.emit(),
      this
    );
    this._changed.emit();
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (['restarting', 'autorestarting', 'dead', 'starting'].includes(status)) {
      this._forget();
    }
  }

  private _forget(): void {
    this._told = null;
  }

  private _onScheduled(_: unknown, args: { notebook: unknown }): void {
    const kernel = this._panel.sessionContext.session?.kernel;
    const wanted = this.on;
    if (args.notebook === this._panel.content && kernel) {
      // A kernel nobody has told anything is off.
      if (wanted !== (this._told ?? false)) {
        void this._send(kernel, wanted);
      }
    }
  }

  private async _send(
    kernel: Kernel.IKernelConnection,
    on: boolean
  ): Promise<void> {
    this._told = on;
    try {
      await tell(kernel, 'auto', { on }, this._trans);
    } catch (error) {
      if (on && !this._isDisposed) {
        const { message, hint } = explain(error, this._trans);
        Notification.warning(
          this._trans.__(
            'Nothing is saved automatically. %1 %2',
            message,
            hint
          ),
          { autoClose: false }
        );
      }
    }
  }

  private readonly _panel: NotebookPanel;
  private readonly _trans: TranslationBundle;
  private readonly _changed = new Signal<this, void>(this);

  /**
   * What the kernel was last told; null for one that has just started.
   */
  private _told: boolean | null = null;
  private _isDisposed = false;
}

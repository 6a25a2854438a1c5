/**
 * The banner above a notebook whose last run was cut short: what was done, how much can be had back, how long that takes.
 * It offers; it never acts by itself.
 */

import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Kernel, ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import { checkpointIcon } from './icons';
import { sayOffer } from './offer';
import { explain } from './problem';
import { Api } from './request';
import type { Restorer } from './restorer';
import { sayRestored } from './restored';
import type { IProblem, IRun, IStep } from './tokens';

const IGNORED = 'nbcheckpoint:ignored';

/**
 * So many runs are remembered as ignored.
 */
const REMEMBERED = 100;

/**
 * What the banner has to offer.
 */
interface IOffer {
  readonly run: IRun;
  readonly steps: ReadonlyArray<IStep>;
}

/**
 * Looks after one notebook.
 */
export class NotebookBanner extends ReactWidget {
  constructor(private readonly _options: NotebookBanner.IOptions) {
    super();
    this.addClass('nbc-Banner');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute(
      'aria-label',
      _options.trans.__('Interrupted run of this notebook')
    );
    this.hide();
    const { panel } = _options;
    panel.contentHeader.addWidget(this);
    panel.sessionContext.statusChanged.connect(this._onStatus, this);
    panel.context.pathChanged.connect(() => void this.look(), this);
    NotebookActions.executed.connect(this._onExecuted, this);
    void panel.context.ready.then(() => this.look());
  }

  /**
   * Look whether there is something to offer.
   */
  async look(): Promise<void> {
    const question = ++this._question;
    let offer: IOffer | null = null;
    try {
      offer = await this._find();
    } catch (error) {
      // No server extension, no store: then there is nothing to offer. The sidebar says what is wrong.
      console.debug('nbcheckpoint: no banner', error);
    }
    if (question === this._question && !this.isDisposed && !this._isBusy) {
      this._show(offer);
    }
  }

  protected override render(): JSX.Element | null {
    const { trans } = this._options;
    const offer = this._offer;
    if (!offer) {
      return null;
    }
    const button = (
      label: string,
      act: () => void,
      isMain = false
    ): JSX.Element => (
      <button
        className={`jp-mod-styled ${isMain ? 'jp-mod-accept' : 'jp-mod-reject'}`}
        disabled={this._isBusy}
        onClick={act}
      >
        {label}
      </button>
    );
    const isPaused = offer.run.status === 'paused';
    return (
      <div className="nbc-Banner-content" ref={this._measure}>
        <checkpointIcon.react className="nbc-Banner-icon" tag="span" />
        <div className="nbc-Banner-text" role="status">
          {this._problem ? (
            <>
              <strong>{this._problem.message}</strong> {this._problem.hint}
            </>
          ) : (
            this._said || sayOffer(offer.run, offer.steps, Date.now(), trans)
          )}
        </div>
        <div className="nbc-Buttons">
          {isPaused
            ? button(trans.__('Answer…'), () => this._choose(), true)
            : button(trans.__('Resume'), () => void this._resume(), true)}
          {!isPaused &&
            !this._said &&
            button(trans.__('Restore'), () => void this._restore())}
          {!isPaused && button(trans.__('Choose…'), () => this._choose())}
          {button(this._said ? trans.__('Close') : trans.__('Ignore'), () =>
            this._ignore()
          )}
        </div>
      </div>
    );
  }

  private async _find(): Promise<IOffer | null> {
    const { settings, panel, localPath, isWanted } = this._options;
    if (!(await isWanted())) {
      return null;
    }
    const api = new Api(settings, localPath(panel.context.path));
    const workflow = (await api.runs({ limit: 1 }))?.list.workflow;
    if (!workflow) {
      return null;
    }
    const run = (await api.runs({ workflow, limit: 1 }))?.list.runs[0];
    if (
      !run ||
      !run.trusted ||
      !['interrupted', 'paused'].includes(run.status) ||
      ignored().includes(run.id)
    ) {
      return null;
    }
    this._api = api;
    return { run, steps: (await api.run(run.id)).steps };
  }

  private async _resume(): Promise<void> {
    const { panel, restorer } = this._options;
    const offer = this._offer;
    await this._do(async () => {
      if (offer && this._api) {
        const resumed = restorer.resume(panel, offer.run, this._api, () =>
          this._show(null)
        );
        await resumed;
      }
    });
    await this.look();
  }

  private async _restore(): Promise<void> {
    const { panel, restorer, trans } = this._options;
    await this._do(async () => {
      if (this._offer) {
        this._said = trans.__('Restoring…');
        this.update();
        const found = await restorer.bringBack(panel, this._offer.run);
        this._said = trans.__(
          '%1 Resume runs the cells that are left.',
          sayRestored(found, trans)
        );
      }
    });
  }

  private _choose(): void {
    if (this._offer) {
      this._options.choose(this._offer.run);
    }
  }

  private _ignore(): void {
    const run = this._offer?.run;
    this._show(null);
    if (run && !this._said) {
      ignore(run.id);
    }
  }

  private async _do(work: () => Promise<void>): Promise<void> {
    this._isBusy = true;
    this._problem = null;
    this.update();
    try {
      await work();
    } catch (error) {
      this._said = '';
      this._problem = explain(error, this._options.trans);
      this.show();
    }
    this._isBusy = false;
    this.update();
  }

  private _show(offer: IOffer | null): void {
    if (offer?.run.id !== this._offer?.run.id) {
      this._said = '';
      this._problem = null;
    }
    // What was told after a restore stays until it is closed, though the run goes on by then.
    if (offer || !this._said || this._isBusy) {
      this._offer = offer;
    }
    this.setHidden(!this._offer);
    this.update();
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (['autorestarting', 'restarting', 'dead'].includes(status)) {
      this._said = '';
      void this.look();
    }
  }

  private _onExecuted(_: unknown, args: { notebook: unknown }): void {
    // Somebody goes on by hand: then there is nothing to offer any more.
    if (args.notebook === this._options.panel.content && this.isVisible) {
      this._said = '';
      void this.look();
    }
  }

  override dispose(): void {
    this._observer.disconnect();
    super.dispose();
  }

  /**
   * The place above a notebook has the height its widgets ask for; this one depends on how its text breaks.
   */
  private readonly _measure = (content: HTMLElement | null): void => {
    this._observer.disconnect();
    if (content) {
      this._observer.observe(content);
    }
  };

  private readonly _observer = new ResizeObserver(([entry]) => {
    const height = (entry.target as HTMLElement).offsetHeight;
    this.node.style.minHeight = `${height}px`;
    this.parent?.fit();
  });

  private _offer: IOffer | null = null;
  private _api: Api | null = null;
  private _problem: IProblem | null = null;
  private _said = '';
  private _isBusy = false;
  private _question = 0;
}

export namespace NotebookBanner {
  /**
   * What a banner needs.
   */
  export interface IOptions {
    panel: NotebookPanel;
    settings: ServerConnection.ISettings;
    localPath: (path: string) => string;

    /**
     * Whether the user wants one at all.
     */
    isWanted: () => Promise<boolean>;
    restorer: Restorer;

    /**
     * Show the run, so that the user can choose.
     */
    choose: (run: IRun) => void;
    trans: TranslationBundle;
  }
}

/**
 * The runs the user does not want to hear about, also after a reload. Kept in the browser, and at once: the workspace is
 * saved a while later, and a reload may come before that.
 */
function ignored(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(IGNORED) ?? '[]');
    return Array.isArray(kept)
      ? kept.filter((id): id is string => typeof id === 'string')
      : [];
  } catch {
    return []; // a browser that keeps nothing
  }
}

function ignore(id: string): void {
  try {
    const ids = [id, ...ignored()].slice(0, REMEMBERED);
    localStorage.setItem(IGNORED, JSON.stringify(ids));
  } catch {
    // A browser that keeps nothing: the banner comes back with the next reload.
  }
}

/**
 * The model behind the sidebar: what the server last said, kept fresh while somebody looks.
 *
 * Theory of operation. One `Poll` asks for the list; the server answers 304 while nothing changed, and then nothing is
 * emitted. The store is read, never the kernel: a busy kernel cannot answer, and asking would make it look idle.
 * Answers may overtake each other (a refresh while a poll is under way, another notebook in front), so only the latest
 * question's answer counts.
 */

import { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { nullTranslator } from '@jupyterlab/translation';
import { Poll } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { RequestError, fetchRuns, fetchSteps } from './request';
import type {
  ICheckpointModel,
  IProblem,
  IRun,
  IRunList,
  IStep
} from './tokens';

const PAGE = 50;

/**
 * The most the server lists at once.
 */
const MOST = 1000;

/**
 * The steps of one run, and which state of the run they belong to.
 */
interface IKnownSteps {
  version: string;
  result: ReadonlyArray<IStep> | IProblem | undefined;
}

/**
 * Runs and steps, as the server last told them.
 */
export class CheckpointModel implements ICheckpointModel {
  constructor(options: CheckpointModel.IOptions = {}) {
    this._settings = options.serverSettings ?? ServerConnection.makeSettings();
    this._trans = options.trans ?? nullTranslator.load('nbcheckpoint');
    this._poll = new Poll({
      auto: false,
      name: 'nbcheckpoint:runs',
      factory: () => this._update(),
      frequency: { interval: 3000, backoff: true, max: 60 * 1000 },
      standby: () => (this._active ? 'when-hidden' : true)
    });
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get list(): IRunList | null {
    return this._list;
  }

  get problem(): IProblem | null {
    return this._problem;
  }

  get path(): string {
    return this._path;
  }
  set path(path: string) {
    if (path === this._path) {
      return;
    }
    this._path = path;
    this._limit = PAGE;
    void this._askAnew();
  }

  get filter(): string {
    return this._filter;
  }
  set filter(filter: string) {
    if (filter !== this._filter) {
      this._filter = filter;
      this._changed.emit();
    }
  }

  get active(): boolean {
    return this._active;
  }
  set active(active: boolean) {
    if (active === this._active) {
      return;
    }
    this._active = active;
    if (active) {
      void this.refresh();
    }
  }

  get refreshSeconds(): number {
    return this._poll.frequency.interval / 1000;
  }
  set refreshSeconds(seconds: number) {
    const interval = Math.max(1, seconds) * 1000;
    this._poll.frequency = {
      interval,
      backoff: true,
      max: Math.max(interval, 60 * 1000)
    };
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._poll.dispose();
    Signal.clearData(this);
  }

  async refresh(): Promise<void> {
    // Nobody looking means no poll, and the next look asks anyway.
    if (this._isDisposed || !this._active) {
      return;
    }
    await this._poll.refresh();
    await this._poll.tick.catch(() => undefined);
  }

  async showOlder(): Promise<void> {
    this._limit = Math.min(this._limit + PAGE, MOST);
    await this._askAnew();
  }

  isExpanded(id: string, place: string): boolean {
    return this._expanded.has(`${place}/${id}`);
  }

  async toggle(id: string, place: string): Promise<void> {
    const key = `${place}/${id}`;
    if (!this._expanded.delete(key)) {
      this._expanded.add(key);
    }
    this._changed.emit();
    await this._updateSteps();
  }

  steps(id: string): ReadonlyArray<IStep> | IProblem | undefined {
    return this._steps.get(id)?.result;
  }

  /**
   * Ask another question, without waiting for the answer to the last one: unlike `refresh`, which does nothing while one
   * is on its way.
   */
  private async _askAnew(): Promise<void> {
    if (this._isDisposed || !this._active) {
      return;
    }
    await this._poll.schedule({ interval: Poll.IMMEDIATE, phase: 'refreshed' });
    await this._poll.tick.catch(() => undefined);
  }

  /**
   * Ask for the list. Rejects when that fails, so that the poll backs off.
   */
  private async _update(): Promise<void> {
    const question = ++this._question;
    const { _path: path, _limit: limit } = this;
    // The tag stands for one question only: another page size or notebook is another question.
    const subject = `${limit}:${path}`;
    const etag = subject === this._subject ? this._etag : null;
    try {
      const answer = await fetchRuns(this._settings, { path, limit }, etag);
      if (question !== this._question || this._isDisposed) {
        return;
      }
      const recovered = this._problem !== null;
      this._problem = null;
      if (answer) {
        this._list = answer.list;
        this._etag = answer.etag;
        this._subject = subject;
      }
      if (answer || recovered) {
        this._changed.emit();
      }
    } catch (error) {
      if (question === this._question && !this._isDisposed) {
        this._problem = this._explain(error);
        this._changed.emit();
      }
      throw error;
    }
    await this._updateSteps();
  }

  /**
   * Ask for the steps of those expanded runs that have changed since.
   */
  private async _updateSteps(): Promise<void> {
    const shown = new Set(
      [...this._expanded].map(key => key.slice(key.indexOf('/') + 1))
    );
    for (const id of [...this._steps.keys()]) {
      if (!shown.has(id)) {
        this._steps.delete(id);
      }
    }
    const runs = (this._list?.runs ?? []).filter(run => shown.has(run.id));
    await Promise.all(runs.map(run => this._updateStepsOf(run)));
  }

  private async _updateStepsOf(run: IRun): Promise<void> {
    const version = JSON.stringify([run.updated, run.status, run.steps]);
    const known = this._steps.get(run.id);
    if (known?.version === version) {
      return;
    }
    // What is known stays on the screen until there is something newer.
    const asked: IKnownSteps = { version, result: known?.result };
    this._steps.set(run.id, asked);
    try {
      asked.result = await fetchSteps(this._settings, run.id, this._path);
    } catch (error) {
      asked.result = this._explain(error);
      asked.version = '';
    }
    if (this._steps.get(run.id) === asked && !this._isDisposed) {
      this._changed.emit();
    }
  }

  private _explain(error: unknown): IProblem {
    const trans = this._trans;
    if (error instanceof RequestError) {
      return error.isMissing
        ? {
            message: trans.__('This server does not know nbcheckpoint.'),
            hint: trans.__(
              'Install nbcheckpoint where the Jupyter server runs, then restart the server. If it is installed: jupyter server extension enable nbcheckpoint'
            )
          }
        : error;
    }
    if (error instanceof ServerConnection.NetworkError) {
      return {
        message: trans.__('The Jupyter server cannot be reached.'),
        hint: trans.__('The list comes back by itself once it is there again.')
      };
    }
    return {
      message: error instanceof Error ? error.message : String(error),
      hint: trans.__(
        'Is the page older than the server? Reload it to find out.'
      )
    };
  }

  private readonly _settings: ServerConnection.ISettings;
  private readonly _trans: TranslationBundle;
  private readonly _poll: Poll;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _expanded = new Set<string>();
  private readonly _steps = new Map<string, IKnownSteps>();
  private _list: IRunList | null = null;
  private _problem: IProblem | null = null;
  private _path = '';
  private _filter = '';
  private _limit = PAGE;
  private _etag: string | null = null;
  private _subject = '';
  private _question = 0;
  private _active = false;
  private _isDisposed = false;
}

/**
 * The namespace of the model's options.
 */
export namespace CheckpointModel {
  /**
   * Options to create a model by.
   */
  export interface IOptions {
    serverSettings?: ServerConnection.ISettings;
    trans?: TranslationBundle;
  }
}

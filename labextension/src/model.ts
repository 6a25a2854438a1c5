/**
 * The model behind the sidebar: what the server last said, kept fresh while somebody looks.
 *
 * Theory of operation. One `Poll` asks for the list. Between two questions it waits at the server until the store has
 * changed; a server that cannot tell is asked every few seconds, and answers 304 while nothing changed. Only news are
 * emitted. The store is read, never the kernel: a busy kernel cannot answer, and asking would make it look idle.
 * Answers may overtake each other (a refresh while a poll is under way, another notebook in front), so only the latest
 * question's answer counts.
 */

import { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { nullTranslator } from '@jupyterlab/translation';
import type { IPoll } from '@lumino/polling';
import { Poll } from '@lumino/polling';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { merge, replaced, without } from './pages';
import { explain } from './problem';
import { Api, RequestError } from './request';
import { RunModel } from './runmodel';
import type {
  ICheckpointModel,
  IFilter,
  IProblem,
  IRun,
  IRunList,
  IRunModel
} from './tokens';

const FIRST_PAGE = 100;
const NEXT_PAGE = 500;

/**
 * So many of the notebook's own runs at first: the list of all others should not begin below the fold.
 */
const MINE = 5;
const MORE_OF_MINE = 50;

/**
 * How long one question may wait at the server.
 */
const WAIT_SECONDS = 10;

/**
 * The least time between two answers of a store that changes all the time.
 */
const LEAST = 300;

export const NO_FILTER: IFilter = { text: '', status: '', tag: '' };

/**
 * One list, and the tag of its first page.
 */
interface IKnown {
  list: IRunList;
  etag: string | null;
}

/**
 * Runs and steps, as the server last told them.
 */
export class CheckpointModel implements ICheckpointModel {
  constructor(options: CheckpointModel.IOptions = {}) {
    this._settings = options.serverSettings ?? ServerConnection.makeSettings();
    this._trans = options.trans ?? nullTranslator.load('nbcheckpoint');
    this._api = new Api(this._settings);
    this._poll = new Poll({
      auto: false,
      name: 'nbcheckpoint:runs',
      factory: state => this._tick(state),
      frequency: { interval: LEAST, backoff: true, max: 60 * 1000 },
      standby: () => (this._active ? 'when-hidden' : true)
    });
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get list(): IRunList | null {
    return this._all?.list ?? null;
  }

  get mine(): IRunList | null {
    return this._mine?.list ?? null;
  }

  get problem(): IProblem | null {
    return this._problem;
  }

  get opened(): IRunModel | null {
    return this._opened;
  }

  get api(): Api {
    return this._api;
  }

  get path(): string {
    return this._api.path;
  }
  set path(path: string) {
    if (path === this._api.path) {
      return;
    }
    this._api = new Api(this._settings, path);
    this._token = '';
    this._askOther();
  }

  get filter(): IFilter {
    return this._filter;
  }
  set filter(filter: IFilter) {
    if (JSON.stringify(filter) !== JSON.stringify(this._filter)) {
      this._filter = filter;
      this._askOther();
    }
  }

  get step(): string {
    return this._step;
  }
  set step(step: string) {
    if (step !== this._step) {
      this._step = step;
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
    } else {
      this._waiting?.abort();
    }
  }

  get refreshSeconds(): number {
    return this._seconds;
  }
  set refreshSeconds(seconds: number) {
    this._seconds = Math.max(1, seconds);
    this._setPace();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._waiting?.abort();
    this._opened?.dispose();
    this._poll.dispose();
    Signal.clearData(this);
  }

  async refresh(): Promise<void> {
    // Nobody looking means no poll, and the next look asks anyway.
    if (this._isDisposed || !this._active) {
      return;
    }
    this._waiting?.abort();
    await this._poll.schedule({ interval: Poll.IMMEDIATE, phase: 'refreshed' });
    await this._poll.tick.catch(() => undefined);
  }

  async loadMore(which: 'all' | 'mine' = 'all'): Promise<void> {
    const known = which === 'all' ? this._all : this._mine;
    const before = known?.list.next;
    if (!known || !before || this._loading.has(which)) {
      return;
    }
    this._loading.add(which);
    try {
      const answer = await this._api.runs({
        ...this._filter,
        before,
        limit: which === 'all' ? NEXT_PAGE : MORE_OF_MINE,
        workflow: which === 'all' ? undefined : (known.list.workflow ?? '')
      });
      // Another question may have been asked since: then this page belongs to nothing.
      if (answer && known === (which === 'all' ? this._all : this._mine)) {
        known.list = merge(known.list, answer.list, before);
      }
    } catch (error) {
      this._problem = explain(error, this._trans);
    } finally {
      this._loading.delete(which);
    }
    if (!this._isDisposed) {
      this._changed.emit();
    }
  }

  open(id: string, step = ''): void {
    this._step = step;
    if (this._opened?.id !== id) {
      this._opened?.dispose();
      const known = this._known(id);
      this._opened = new RunModel({ api: this._api, id, known }, this._trans);
      this._opened.changed.connect(() => this._changed.emit(), this);
      void this._opened.refresh();
    }
    this._changed.emit();
  }

  close(): void {
    this._opened?.dispose();
    this._opened = null;
    this._step = '';
    this._changed.emit();
  }

  put(run: IRun): void {
    for (const known of [this._all, this._mine]) {
      if (known) {
        known.list = replaced(known.list, run) ?? known.list;
        known.etag = null;
      }
    }
    this._changed.emit();
    void this._opened?.refresh();
  }

  drop(id: string): void {
    for (const known of [this._all, this._mine]) {
      if (known) {
        known.list = without(known.list, id) ?? known.list;
        known.etag = null;
      }
    }
    if (this._opened?.id === id) {
      this.close();
    }
    this._changed.emit();
  }

  private _known(id: string): IRun | null {
    const lists = [this._all?.list.runs ?? [], this._mine?.list.runs ?? []];
    return lists.flat().find(run => run.id === id) ?? null;
  }

  /**
   * Ask another question. What answered the last one stays on the screen until there is an answer.
   */
  private _askOther(): void {
    this._question += 1;
    this._isOther = true;
    this._changed.emit();
    void this.refresh();
  }

  private async _tick(
    state: IPoll.State<unknown, unknown, string>
  ): Promise<void> {
    const now = state.phase === 'refreshed' || state.phase === 'started';
    try {
      if (this._canWait && (!this._token || !(now || this._problem))) {
        await this._wait();
      }
    } finally {
      if (this._active && !this._isDisposed) {
        await this._update();
      }
    }
  }

  /**
   * Wait until the store has changed, but not for ever: that a kernel has died changes nothing in a store.
   */
  private async _wait(): Promise<void> {
    const waiting = (this._waiting = new AbortController());
    const api = this._api;
    try {
      const token = await api.wait(this._token, WAIT_SECONDS, waiting.signal);
      if (api === this._api) {
        this._token = token;
      }
    } catch (error) {
      if (waiting.signal.aborted || this._isDisposed) {
        return;
      }
      if (error instanceof RequestError && error.isMissing) {
        this._canWait = false;
        this._setPace();
      }
      this._token = '';
    } finally {
      if (this._waiting === waiting) {
        this._waiting = null;
      }
    }
  }

  /**
   * Ask for the list. Rejects when that fails, so that the poll backs off.
   */
  private async _update(): Promise<void> {
    const question = ++this._question;
    const isOther = this._isOther;
    try {
      const all = await this._first(isOther ? null : this._all, {});
      const workflow = all.list.workflow;
      const known = isOther || !workflow ? null : this._mine;
      const mine = workflow
        ? await this._first(known, { workflow, limit: MINE })
        : null;
      if (question !== this._question || this._isDisposed) {
        return;
      }
      const news =
        all !== this._all || mine !== this._mine || this._problem !== null;
      if (this._all && this._all.list.store !== all.list.store) {
        this.close(); // a run of another store
      }
      this._all = all;
      this._mine = mine;
      this._problem = null;
      this._isOther = false;
      if (news) {
        this._changed.emit();
      }
    } catch (error) {
      if (question === this._question && !this._isDisposed) {
        this._problem = explain(error, this._trans);
        this._changed.emit();
      }
      throw error;
    }
    await this._opened?.refresh();
  }

  /**
   * The first page of a list, put into what is known of it; the very same if there is nothing new.
   */
  private async _first(
    known: IKnown | null,
    query: { workflow?: string; limit?: number }
  ): Promise<IKnown> {
    const answer = await this._api.runs(
      { limit: FIRST_PAGE, ...this._filter, ...query },
      known?.etag ?? null
    );
    if (!answer) {
      return known!;
    }
    const list = merge(known?.list ?? null, answer.list);
    return { list, etag: answer.etag };
  }

  private _setPace(): void {
    const interval = this._canWait ? LEAST : this._seconds * 1000;
    this._poll.frequency = {
      interval,
      backoff: true,
      max: Math.max(interval, 60 * 1000)
    };
  }

  private readonly _settings: ServerConnection.ISettings;
  private readonly _trans: TranslationBundle;
  private readonly _poll: Poll;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _loading = new Set<string>();
  private _api: Api;
  private _all: IKnown | null = null;
  private _mine: IKnown | null = null;
  private _opened: RunModel | null = null;
  private _problem: IProblem | null = null;
  private _filter = NO_FILTER;
  private _step = '';
  private _seconds = 3;
  private _token = '';
  private _canWait = true;
  private _waiting: AbortController | null = null;
  private _isOther = true;
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

/**
 * One run somebody has opened: its steps, and the parts that are asked for when they are looked at.
 *
 * A run may be written while it is shown. Steps that have ended do not change, so only those from the first unfinished one
 * on are asked for again.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { explain } from './problem';
import type { Api } from './request';
import { RequestError } from './request';
import type {
  ILeft,
  IParts,
  IPreview,
  IProblem,
  IRun,
  IRunModel,
  IState,
  IStep,
  IValue
} from './tokens';

const PAGE = 1000;

/**
 * So many checkpoints are looked at for the variables after a step.
 */
const MOST_LOOKED_AT = 300;

/**
 * What is known of a part, and which state of the run it belongs to.
 */
interface IKnownPart {
  version: string;
  result: IParts[keyof IParts] | IProblem | undefined;
}

export class RunModel implements IRunModel {
  constructor(
    options: { api: Api; id: string; known: IRun | null },
    trans: TranslationBundle
  ) {
    this._api = options.api;
    this.id = options.id;
    this._run = options.known;
    this._trans = trans;
  }

  readonly id: string;

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get run(): IRun | null {
    return this._run;
  }

  get problem(): IProblem | null {
    return this._problem;
  }

  get steps(): ReadonlyArray<IStep> {
    return this._steps;
  }

  get loading(): boolean {
    return this._isLoading;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  part<K extends keyof IParts>(name: K): IParts[K] | IProblem | undefined {
    const known = this._parts.get(name);
    if (known?.version !== this._version) {
      void this._ask(name, known);
    }
    return this._parts.get(name)?.result as IParts[K] | IProblem | undefined;
  }

  preview(checkpoint: string): IPreview | IProblem | undefined {
    if (!this._previews.has(checkpoint)) {
      this._previews.set(checkpoint, undefined);
      const keep = (result: IPreview | IProblem): void => {
        this._previews.set(checkpoint, result);
        this._tell();
      };
      this._api
        .preview(checkpoint)
        .then(keep, error => keep(explain(error, this._trans)));
    }
    return this._previews.get(checkpoint);
  }

  state(address: string): IState {
    const ids = checkpointsUpTo(this._steps, address);
    const recent = ids.slice(-MOST_LOOKED_AT);
    const missing = recent.filter(id => !this._left.has(id));
    if (missing.length > 0) {
      void this._look(missing);
    }
    const left = recent.map(id => this._left.get(id));
    return {
      values: stateAfter(left.filter(item => item !== undefined)),
      isPartial: left.some(item => !item) || recent.length < ids.length
    };
  }

  async refresh(): Promise<void> {
    if (this._isLoading || this._isDisposed) {
      return;
    }
    this._isLoading = true;
    try {
      await this._load();
      this._problem = null;
    } catch (error) {
      this._problem = explain(error, this._trans);
      if (error instanceof RequestError && error.isGone) {
        // Somebody has deleted it: nothing is left to be shown, and nothing can be done with it.
        this._run = null;
        this._steps = [];
        this._version = '';
      }
    }
    this._isLoading = false;
    this._tell();
  }

  private async _load(): Promise<void> {
    const { run, steps } = await this._api.run(this.id);
    const version = JSON.stringify(run) + steps.length;
    if (version === this._version && run.status !== 'running') {
      return;
    }
    this._run = run;
    this._version = version;
    if (this._steps.length === 0) {
      // The outer ones at once; inner ones may be many.
      this._steps = asSeen(run, steps);
      this._tell();
    }
    this._steps = asSeen(run, await this._all(steps));
  }

  /**
   * All steps, inner ones too.
   */
  private async _all(outer: IStep[]): Promise<IStep[]> {
    const known = new Map<string, IStep>();
    const from = this._complete ? settled(this._steps) : 0;
    this._steps.slice(0, from).forEach(step => known.set(step.address, step));
    outer.forEach(step => known.set(step.address, step));
    let after: string | null = from ? this._steps[from - 1].address : '';
    try {
      while (after !== null) {
        const page = await this._api.steps(this.id, after, PAGE);
        page.steps.forEach(step => known.set(step.address, step));
        after = page.next;
      }
      this._complete = true;
    } catch (error) {
      // A server that is older than this page knows outer steps only.
      if (!(error instanceof RequestError && error.isMissing)) {
        throw error;
      }
    }
    return [...known.values()].sort((a, b) =>
      a.address < b.address ? -1 : a.address > b.address ? 1 : 0
    );
  }

  private async _ask(
    name: keyof IParts,
    known: IKnownPart | undefined
  ): Promise<void> {
    // What is known stays on the screen until there is something newer.
    const asked: IKnownPart = {
      version: this._version,
      result: known?.result
    };
    this._parts.set(name, asked);
    try {
      asked.result = await this._api[name](this.id);
    } catch (error) {
      asked.result = explain(error, this._trans);
    }
    this._tell();
  }

  /**
   * Ask what these checkpoints hold, a few at a time; tell when all of them are here.
   */
  private async _look(ids: string[]): Promise<void> {
    ids.forEach(id => this._left.set(id, undefined));
    const next = async (): Promise<void> => {
      for (let id = ids.pop(); id; id = ids.pop()) {
        // One that cannot be had leaves a gap, and the view says so.
        this._left.set(id, await this._api.left(id).catch(() => undefined));
      }
    };
    await Promise.all([next(), next(), next(), next()]);
    this._tell();
  }

  private _tell(): void {
    if (!this._isDisposed) {
      this._changed.emit();
    }
  }

  private readonly _api: Api;
  private readonly _trans: TranslationBundle;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _parts = new Map<keyof IParts, IKnownPart>();
  private readonly _previews = new Map<
    string,
    IPreview | IProblem | undefined
  >();
  private readonly _left = new Map<string, ILeft | undefined>();
  private _run: IRun | null;
  private _problem: IProblem | null = null;
  private _steps: ReadonlyArray<IStep> = [];
  private _version = '';
  private _complete = false;
  private _isLoading = false;
  private _isDisposed = false;
}

/**
 * How many steps at the beginning have all ended: those need not be asked for again. Pure.
 */
export function settled(steps: ReadonlyArray<IStep>): number {
  const open = steps.findIndex(step =>
    ['running', 'pending', 'paused'].includes(step.status)
  );
  return open < 0 ? steps.length : open;
}

/**
 * The checkpoints of the steps up to one, each once, in order. Pure.
 */
export function checkpointsUpTo(
  steps: ReadonlyArray<IStep>,
  address: string
): string[] {
  // A cell stands before its statements, but its checkpoint is what the last of them left.
  const isUpTo = (step: IStep): boolean =>
    step.address <= address || step.address.startsWith(`${address}.`);
  const inner = steps.filter(step => step.checkpoint && isUpTo(step));
  const outer = new Set(inner.map(step => parent(step.address)));
  return [
    ...new Set(
      inner
        .filter(step => !outer.has(step.address))
        .map(step => step.checkpoint)
    )
  ];
}

function parent(address: string): string {
  return address.slice(0, Math.max(0, address.lastIndexOf('.')));
}

/**
 * The variables after these, in order: a later value takes the place of an earlier one. Pure.
 */
export function stateAfter(left: ReadonlyArray<ILeft>): IValue[] {
  const found = new Map<string, IValue>();
  for (const { values, deleted } of left) {
    deleted.forEach(name => found.delete(name));
    // What has a colon in its name is no variable: random state, the cell's result.
    for (const value of values.filter(item => !item.name.includes(':'))) {
      found.set(value.name, value);
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Steps as they stand: what was running when its kernel died was cut short, whatever its record says, and also when
 * another kernel has gone on with the run since. Pure.
 */
export function asSeen(run: IRun, steps: ReadonlyArray<IStep>): IStep[] {
  const isOver = run.status !== 'running' && run.status !== 'paused';
  const cut = new Set<string>();
  return steps.map(step => {
    const isOld = step.session > 0 && step.session < run.sessions;
    const isCut = isOver || isOld || cut.has(parent(step.address));
    if (step.status !== 'running' || !isCut) {
      return step;
    }
    cut.add(step.address);
    const progress = step.progress && { ...step.progress, left: null };
    return { ...step, status: 'interrupted', progress };
  });
}

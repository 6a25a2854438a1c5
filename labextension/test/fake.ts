import { Signal } from '@lumino/signaling';
import { vi } from 'vitest';
import {
  decodeEnvironment,
  decodeEvents,
  decodeGraph,
  decodePreview,
  decodeRuns,
  decodeSteps
} from '../src/decode';
import { NO_FILTER } from '../src/model';
import type { Api } from '../src/request';
import type {
  IActions,
  ICheckpointModel,
  IFilter,
  IParts,
  IPreview,
  IProblem,
  IRun,
  IRunList,
  IRunModel,
  IState,
  IStep
} from '../src/tokens';
import { wire } from './wire';

export const RUNS = decodeRuns(wire('runs'));
export const STEPS = decodeSteps(wire('run'));

/**
 * An opened run that is told what to say.
 */
export class FakeRun implements IRunModel {
  constructor(run: IRun) {
    this.run = run;
    this.id = run.id;
  }

  readonly changed = new Signal<this, void>(this);
  readonly id: string;
  run: IRun | null;
  problem: IProblem | null = null;
  steps: ReadonlyArray<IStep> = STEPS;
  loading = false;
  isDisposed = false;
  preview_: IPreview | IProblem | undefined = decodePreview(wire('preview'));
  parts: Partial<Record<keyof IParts, unknown>> = {
    events: decodeEvents(wire('events')),
    graph: decodeGraph(wire('graph')),
    environment: decodeEnvironment(wire('environment'))
  };

  part<K extends keyof IParts>(name: K): IParts[K] | IProblem | undefined {
    return this.parts[name] as IParts[K] | IProblem | undefined;
  }

  preview(): IPreview | IProblem | undefined {
    return this.preview_;
  }

  state(): IState {
    const values =
      this.preview_ && 'values' in this.preview_ ? this.preview_.values : [];
    return { values, isPartial: false };
  }

  refresh(): Promise<void> {
    return Promise.resolve();
  }

  dispose(): void {
    this.isDisposed = true;
  }
}

/**
 * A model that is told what to say.
 */
export class FakeModel implements ICheckpointModel {
  readonly changed = new Signal<this, void>(this);
  list: IRunList | null = RUNS;
  mine: IRunList | null = { ...RUNS, runs: RUNS.runs.slice(0, 2), next: null };
  problem: IProblem | null = null;
  opened: FakeRun | null = null;
  path = '';
  filter: IFilter = NO_FILTER;
  active = false;
  refreshSeconds = 3;
  isDisposed = false;
  readonly api = null as unknown as Api;
  refresh = vi.fn(() => Promise.resolve());
  loadMore = vi.fn(() => Promise.resolve());
  put = vi.fn();
  drop = vi.fn();

  get step(): string {
    return this._step;
  }
  set step(step: string) {
    this._step = step;
    this.changed.emit();
  }

  open(id: string): void {
    const run = this.list!.runs.find(item => item.id === id)!;
    this.opened = new FakeRun(run);
    this.changed.emit();
  }

  close(): void {
    this.opened = null;
    this.changed.emit();
  }

  dispose(): void {
    this.isDisposed = true;
  }

  private _step = '';
}

/**
 * Actions that only remember that they were wanted.
 */
export function fakeActions(): {
  [K in keyof IActions]: ReturnType<typeof vi.fn>;
} {
  const names: (keyof IActions)[] = [
    'resume',
    'restore',
    'runFrom',
    'diff',
    'answer',
    'pin',
    'note',
    'delete',
    'export',
    'import',
    'prune',
    'verify'
  ];
  return Object.fromEntries(
    names.map(name => [name, vi.fn(() => Promise.resolve())])
  ) as { [K in keyof IActions]: ReturnType<typeof vi.fn> };
}

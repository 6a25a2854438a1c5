/**
 * What the other parts agree on: the records, and the model the views look at.
 */

import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type {
  IEnvironment,
  IEvent,
  IFilter,
  IGraph,
  IPause,
  IPreview,
  IProblem,
  IRun,
  IRunList,
  IState,
  IStep
} from './records';
import type { Api } from './request';

export type * from './records';

/**
 * The parts of a run that are asked for when somebody wants to see them.
 */
export interface IParts {
  readonly events: ReadonlyArray<IEvent>;
  readonly graph: IGraph;
  readonly environment: IEnvironment;
}

/**
 * One run somebody has opened.
 */
export interface IRunModel extends IDisposable {
  readonly changed: ISignal<IRunModel, void>;
  readonly id: string;

  /**
   * Null until it is here.
   */
  readonly run: IRun | null;
  readonly problem: IProblem | null;

  /**
   * In the order of execution, inner ones behind the one they belong to.
   */
  readonly steps: ReadonlyArray<IStep>;

  /**
   * Whether there are steps still on their way.
   */
  readonly loading: boolean;

  /**
   * A part of it; undefined until it is here. Looking asks for it.
   */
  part<K extends keyof IParts>(name: K): IParts[K] | IProblem | undefined;

  /**
   * What a checkpoint holds; undefined until it is here. Looking asks for it.
   */
  preview(checkpoint: string): IPreview | IProblem | undefined;

  /**
   * The variables after a step, as far as they are here. Looking asks for them.
   */
  state(address: string): IState;

  /**
   * Ask again for what may have changed.
   */
  refresh(): Promise<void>;
}

/**
 * What the views look at. It holds no widgets and knows no shell.
 */
export interface ICheckpointModel extends IDisposable {
  /**
   * Emitted whenever anything below has changed.
   */
  readonly changed: ISignal<ICheckpointModel, void>;

  /**
   * The server's store, as seen from the notebook in front.
   */
  readonly api: Api;

  /**
   * All runs that match, as far as they are here; null before the first answer.
   */
  readonly list: IRunList | null;

  /**
   * Those of the notebook in front; null where there is none.
   */
  readonly mine: IRunList | null;

  /**
   * What went wrong with the latest request; null when it went well.
   */
  readonly problem: IProblem | null;

  /**
   * The notebook the list is about, as the file browser names it; empty for none.
   */
  path: string;

  /**
   * Only runs that match are shown.
   */
  filter: IFilter;

  /**
   * Whether anybody looks. Nothing is asked while nobody does.
   */
  active: boolean;

  /**
   * Seconds between two looks at a store that cannot tell when it has changed.
   */
  refreshSeconds: number;

  /**
   * The run that is open; null while the list is shown.
   */
  readonly opened: IRunModel | null;

  /**
   * Ask now instead of at the next change.
   */
  refresh(): Promise<void>;

  /**
   * Have one page more of all runs, or of the notebook's own.
   */
  loadMore(which?: 'all' | 'mine'): Promise<void>;

  /**
   * Open a run; with a step, that one is shown.
   */
  open(id: string, step?: string): void;

  /**
   * Back to the list.
   */
  close(): void;

  /**
   * Which step of the opened run is chosen: its address, or nothing.
   */
  step: string;

  /**
   * Take a run as somebody has just changed it, before the store tells.
   */
  put(run: IRun): void;

  /**
   * Take a run out that has just been deleted.
   */
  drop(id: string): void;
}

/**
 * The token to get the model by.
 */
export const ICheckpointModel = new Token<ICheckpointModel>(
  'nbcheckpoint:ICheckpointModel',
  'The runs and steps nbcheckpoint has saved, as the sidebar shows them.'
);

/**
 * What can be done with runs. Every one of them tells the user what came of it, also what went wrong.
 */
export interface IActions {
  /**
   * Open the notebook, have a kernel, and run on from where the run stopped.
   */
  resume(run: IRun): Promise<void>;

  /**
   * Bind the variables as they were after a step, or at the end of the run; says beforehand what will change.
   */
  restore(run: IRun, step?: IStep): Promise<void>;

  /**
   * Go back to before a step's cell, and run from it on.
   */
  runFrom(run: IRun, step: IStep): Promise<void>;

  /**
   * What differs between a step and another one, chosen from a list.
   */
  diff(run: IRun, step: IStep): Promise<void>;

  answer(run: IRun, pause: IPause, value: unknown): Promise<void>;
  pin(run: IRun, pinned: boolean): Promise<void>;
  note(run: IRun): Promise<void>;
  delete(run: IRun): Promise<void>;
  export(run: IRun): Promise<void>;
  import(): Promise<void>;
  prune(): Promise<void>;
  verify(): Promise<void>;
}

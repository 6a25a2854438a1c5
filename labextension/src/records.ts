/**
 * The records as the server sends them.
 *
 * They mirror `nbcheckpoint/model.py`; `tests/data/wire/*.json` holds both sides to it.
 */

/**
 * How a run stands.
 */
export type RunStatus =
  'running' | 'paused' | 'interrupted' | 'failed' | 'completed' | 'cancelled';

/**
 * How a step stands.
 */
export type StepStatus =
  | 'pending'
  | 'running'
  | 'completed'
  | 'restored'
  | 'failed'
  | 'interrupted'
  | 'paused'
  | 'skipped';

/**
 * One execution of a notebook, flow or graph.
 */
export interface IRun {
  readonly id: string;

  /**
   * Notebook path relative to the store's parent, or the flow's name.
   */
  readonly workflow: string;

  readonly kind: string;
  readonly status: RunStatus;

  /**
   * UTC, ISO 8601.
   */
  readonly created: string;
  readonly updated: string;

  readonly note: string;
  readonly tags: ReadonlyArray<string>;
  readonly pinned: boolean;
  readonly sessions: number;

  /**
   * Step status -> how many steps have it.
   */
  readonly steps: Readonly<Record<string, number>>;

  readonly bytes: number;
  readonly computedSeconds: number;
  readonly sparedSeconds: number;

  /**
   * Whether its signature stands under the user's own key.
   */
  readonly trusted: boolean;

  /**
   * How far the step has come that it is at, if it runs and the server says so.
   */
  readonly progress: IProgress | null;
}

/**
 * One unit of work of a run.
 */
export interface IStep {
  /**
   * Its place in the run; unique there.
   */
  readonly address: string;
  readonly name: string;
  readonly kind: string;
  readonly status: StepStatus;

  /**
   * UTC, ISO 8601; empty for a step that has not begun.
   */
  readonly started: string;
  readonly seconds: number;
  readonly attempt: number;
  readonly bytes: number;

  /**
   * Why it was restored or computed, as one sentence; empty where there is none.
   */
  readonly reason: string;
  readonly error: string;

  /**
   * The checkpoint it left or was restored from; empty for none.
   */
  readonly checkpoint: string;

  /**
   * The id of its cell, where there is one.
   */
  readonly cell: string;

  /**
   * Which of the run's processes was at it, from 1; 0 where that is not known.
   */
  readonly session: number;

  /**
   * The checksum of its cell's source, where the kernel has told.
   */
  readonly code: string;

  /**
   * How far it has come, for a loop that runs.
   */
  readonly progress: IProgress | null;

  /**
   * What it waits for, if it is a pause.
   */
  readonly pause: IPause | null;
}

/**
 * How far a loop has come.
 */
export interface IProgress {
  readonly done: number;

  /**
   * Of how many; 0 where nobody knows.
   */
  readonly total: number;

  /**
   * Seconds it will still take, as far as can be told.
   */
  readonly left: number | null;

  /**
   * How far the loops inside of the iteration it is in have come, and of how many, the outermost first.
   */
  readonly inside: ReadonlyArray<readonly [number, number]>;
}

/**
 * A question a run waits with.
 */
export interface IPause {
  readonly name: string;
  readonly prompt: string;

  /**
   * What may be answered; null for anything.
   */
  readonly choices: ReadonlyArray<unknown> | null;
  readonly default: unknown;
}

/**
 * One saved name, as it looked when it was saved.
 */
export interface IValue {
  readonly name: string;
  readonly type: string;
  readonly size: number;
  readonly shape: string;
  readonly preview: string;
}

/**
 * What a cell showed: text, or a picture as base64.
 */
export interface IShown {
  readonly kind: 'text' | 'error' | 'image/png';
  readonly text: string;
}

/**
 * What a checkpoint holds, as far as it can be looked at without loading it.
 */
export interface IPreview {
  readonly values: ReadonlyArray<IValue>;
  readonly outputs: ReadonlyArray<IShown>;
  readonly source: string;
}

/**
 * What a step left, without what it showed.
 */
export interface ILeft {
  readonly values: ReadonlyArray<IValue>;
  readonly deleted: ReadonlyArray<string>;
}

/**
 * The variables as they were after a step.
 */
export interface IState {
  readonly values: ReadonlyArray<IValue>;

  /**
   * Whether some are still on their way, or too far back to be asked for.
   */
  readonly isPartial: boolean;
}

/**
 * A fact that happened.
 */
export interface IEvent {
  readonly type: string;
  readonly time: string;
  readonly step: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * A run as a picture, laid out by the server.
 */
export interface IGraph {
  readonly nodes: ReadonlyArray<IGraphNode>;
  readonly edges: ReadonlyArray<IGraphEdge>;
  readonly width: number;
  readonly height: number;
}

export interface IGraphNode {
  readonly id: string;
  readonly label: string;
  readonly kind: string;
  readonly status: StepStatus;
  readonly seconds: number;
  readonly address: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly critical: boolean;
}

export interface IGraphEdge {
  readonly source: string;
  readonly target: string;
  readonly label: string;
  readonly points: ReadonlyArray<readonly [number, number]>;
}

/**
 * Where a run was made, and what is different here and now.
 */
export interface IEnvironment {
  readonly then: Readonly<Record<string, string>>;

  /**
   * What could be looked up now. A run of another machine, or of an environment that is gone, has little here.
   */
  readonly now: Readonly<Record<string, string>>;
  readonly differs: ReadonlyArray<IChangedFact>;
}

export interface IChangedFact {
  readonly name: string;
  readonly then: string;
  readonly now: string;
}

/**
 * What differs between two checkpoints.
 */
export interface IDiff {
  readonly values: ReadonlyArray<IDifference>;
  readonly inputs: ReadonlyArray<IDifference>;

  /**
   * A unified diff, line by line; empty where the sources are equal.
   */
  readonly code: ReadonlyArray<string>;
  readonly sameCode: boolean;
}

export interface IDifference {
  readonly name: string;
  readonly change: 'added' | 'removed' | 'changed' | 'maybe';
  readonly before: string;
  readonly after: string;
}

/**
 * What pruning removed, or would remove.
 */
export interface IPruned {
  readonly runs: number;
  readonly checkpoints: number;
  readonly bytes: number;
  readonly notes: ReadonlyArray<string>;
}

/**
 * What reading everything came to.
 */
export interface IVerified {
  readonly records: number;
  readonly chunks: number;
  readonly bytes: number;
  readonly problems: ReadonlyArray<string>;

  /**
   * Whether the index itself is damaged: what it does not tell any more cannot be found again.
   */
  readonly isIndexDamaged: boolean;
  readonly clean: boolean;

  /**
   * Whole sentences: what else was done.
   */
  readonly notes: ReadonlyArray<string>;
}

/**
 * A page of runs, newest first.
 */
export interface IRunList {
  readonly runs: ReadonlyArray<IRun>;

  /**
   * The store they are in; null as long as there is none.
   */
  readonly store: string | null;

  /**
   * The name by which runs of the notebook asked about go in that store.
   */
  readonly workflow: string | null;

  /**
   * From where the next page goes on; null on the last page.
   */
  readonly next: string | null;
}

/**
 * Which runs are asked for.
 */
export interface IFilter {
  readonly text: string;
  readonly status: RunStatus | '';
  readonly tag: string;
}

/**
 * Why something could not be had, and what to do about it.
 */
export interface IProblem {
  readonly message: string;
  readonly hint: string;
}

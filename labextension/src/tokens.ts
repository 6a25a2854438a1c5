/**
 * What the other parts agree on: the records as the server sends them, and the model the views look at.
 *
 * The records mirror `nbcheckpoint/model.py`; `tests/data/wire/*.json` holds both sides to it.
 */

import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

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
 * Why the list could not be had, and what to do about it.
 */
export interface IProblem {
  readonly message: string;
  readonly hint: string;
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
   * The list as last received; null before the first answer.
   */
  readonly list: IRunList | null;

  /**
   * What went wrong with the latest request; null when it went well.
   */
  readonly problem: IProblem | null;

  /**
   * The notebook the list is about, as the file browser names it; empty for none.
   */
  path: string;

  /**
   * Only runs containing this text are shown.
   */
  filter: string;

  /**
   * Whether anybody looks. Nothing is polled while nobody does.
   */
  active: boolean;

  /**
   * Seconds between two looks at the store.
   */
  refreshSeconds: number;

  /**
   * Ask now instead of at the next tick.
   */
  refresh(): Promise<void>;

  /**
   * Show one page more.
   */
  showOlder(): Promise<void>;

  /**
   * Whether the steps of a run are shown in that place of the view.
   */
  isExpanded(id: string, place: string): boolean;

  /**
   * Show or hide the steps of a run in that place of the view.
   */
  toggle(id: string, place: string): Promise<void>;

  /**
   * The steps of an expanded run; undefined until they are here, a problem when they cannot be had.
   */
  steps(id: string): ReadonlyArray<IStep> | IProblem | undefined;
}

/**
 * The token to get the model by.
 */
export const ICheckpointModel = new Token<ICheckpointModel>(
  'nbcheckpoint:ICheckpointModel',
  'The runs and steps nbcheckpoint has saved, as the sidebar shows them.'
);

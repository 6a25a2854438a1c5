/**
 * Which runs are shown, and in which order. Pure: the list in, what the view draws out.
 */

import type { IRun, IRunList, RunStatus } from './tokens';

/**
 * Runs of one status.
 */
export interface IGroup {
  readonly status: RunStatus;
  readonly runs: ReadonlyArray<IRun>;
}

/**
 * What the view draws.
 */
export interface IArrangement {
  /**
   * Runs of the notebook in front, newest first; null when there is no notebook.
   */
  readonly mine: ReadonlyArray<IRun> | null;

  /**
   * All runs, by status; within one, newest first.
   */
  readonly groups: ReadonlyArray<IGroup>;

  /**
   * How many runs there are in the groups.
   */
  readonly count: number;
}

/**
 * What moves comes first, then what waits for somebody, then what is done.
 */
const ORDER: ReadonlyArray<RunStatus> = [
  'running',
  'paused',
  'interrupted',
  'failed',
  'completed',
  'cancelled'
];

/**
 * Arrange a list.
 *
 * @param filter Only runs that contain each of its words, in whatever case.
 */
export function arrange(list: IRunList, filter: string): IArrangement {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = list.runs.filter(run => contains(run, words));
  return {
    mine: list.workflow
      ? shown.filter(run => run.workflow === list.workflow)
      : null,
    groups: ORDER.map(status => ({
      status,
      runs: shown.filter(run => run.status === status)
    })).filter(group => group.runs.length > 0),
    count: shown.length
  };
}

function contains(run: IRun, words: string[]): boolean {
  const text = [run.workflow, run.status, run.note, run.id]
    .join('\n')
    .toLowerCase();
  return words.every(word => text.includes(word));
}

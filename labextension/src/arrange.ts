/**
 * Which rows the list of runs has, and in which order. Pure: the lists in, what the view draws out.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import { ago, duration, grouped, runStatus, sayProgress, size } from './format';
import type { IFilter, IRun, IRunList, RunStatus } from './tokens';
import type { IRow } from './windowing';

/**
 * Where in the list a run stands: among those of the notebook in front, or among all.
 */
export type Place = 'mine' | 'all';

export interface IRunRow extends IRow {
  readonly kind: 'run';
  readonly run: IRun;
  readonly place: Place;
  readonly aria: { 'aria-label': string };
}

export interface ITitleRow extends IRow {
  readonly kind: 'section' | 'group';
  readonly label: string;
  readonly count: string;
}

export interface ITextRow extends IRow {
  readonly kind: 'quiet' | 'more';
  readonly label: string;
}

export type ListRow = IRunRow | ITitleRow | ITextRow;

/**
 * What moves comes first, then what waits for somebody, then what is done.
 */
export const STATUSES: ReadonlyArray<RunStatus> = [
  'running',
  'paused',
  'interrupted',
  'failed',
  'completed',
  'cancelled'
];

/**
 * All rows: this notebook's runs newest first, then all runs by status.
 */
export function arrange(
  mine: IRunList | null,
  all: IRunList,
  filter: IFilter,
  trans: TranslationBundle
): ListRow[] {
  const rows: ListRow[] = [];
  if (mine) {
    rows.push(title('section', trans.__('This notebook'), counted(mine)));
    rows.push(...mine.runs.map(run => runRow(run, 'mine', trans)));
    if (mine.runs.length === 0) {
      rows.push({
        kind: 'quiet',
        key: 'mine-none',
        lines: 1,
        isItem: false,
        label: isFiltered(filter)
          ? trans.__('No run of it matches.')
          : trans.__('No runs yet.')
      });
    }
    if (mine.next) {
      rows.push({
        kind: 'more',
        key: 'mine-more',
        lines: 1,
        isItem: true,
        label: trans.__('Show older runs of this notebook')
      });
    }
  }
  rows.push(title('section', trans.__('All notebooks'), counted(all)));
  for (const status of STATUSES) {
    const runs = all.runs.filter(run => run.status === status);
    if (runs.length > 0) {
      const count = counted({ ...all, runs });
      rows.push(title('group', runStatus(status, trans), count));
      rows.push(...runs.map(run => runRow(run, 'all', trans)));
    }
  }
  if (all.runs.length === 0) {
    rows.push({
      kind: 'quiet',
      key: 'all-none',
      lines: 1,
      isItem: false,
      label: trans.__('No run matches.')
    });
  }
  return rows;
}

/**
 * Is anything left out?
 */
export function isFiltered(filter: IFilter): boolean {
  return Boolean(filter.text || filter.status || filter.tag);
}

/**
 * Every tag there is among the runs, in alphabetical order.
 */
export function tagsOf(lists: ReadonlyArray<IRunList | null>): string[] {
  const tags = lists.flatMap(list => list?.runs.flatMap(run => run.tags) ?? []);
  return [...new Set(tags)].sort();
}

function counted(list: IRunList): string {
  return `${grouped(list.runs.length)}${list.next ? '+' : ''}`;
}

function title(
  kind: 'section' | 'group',
  label: string,
  count: string
): ITitleRow {
  return {
    kind,
    key: `${kind}-${label}`,
    lines: kind === 'section' ? 1.2 : 1,
    isItem: false,
    label,
    count
  };
}

function runRow(run: IRun, place: Place, trans: TranslationBundle): IRunRow {
  const now = Date.now();
  return {
    kind: 'run',
    key: `${place}/${run.id}`,
    lines:
      2 +
      Number(Boolean(run.note || run.tags.length > 0)) +
      Number(Boolean(run.progress)),
    isItem: true,
    run,
    place,
    aria: {
      'aria-label': [
        run.workflow,
        runStatus(run.status, trans),
        ago(run.updated, now, trans),
        run.progress ? sayProgress(run.progress, trans) : '',
        run.pinned ? trans.__('pinned') : '',
        ...runFacts(run, trans),
        run.note
      ]
        .filter(Boolean)
        .join(', ')
    }
  };
}

/**
 * What a run came to, in a few words each; what there is none of is left out.
 */
export function runFacts(run: IRun, trans: TranslationBundle): string[] {
  const computed = run.steps.completed ?? 0;
  const restored = run.steps.restored ?? 0;
  const facts = [];
  if (computed) {
    facts.push(trans.__('%1 computed', grouped(computed)));
  }
  if (restored) {
    facts.push(trans.__('%1 restored', grouped(restored)));
  }
  if (run.bytes) {
    facts.push(trans.__('%1 saved', size(run.bytes)));
  }
  if (run.sparedSeconds >= 0.05) {
    facts.push(trans.__('%1 spared', duration(run.sparedSeconds)));
  }
  if (!run.trusted) {
    facts.push(trans.__('untrusted'));
  }
  return facts;
}

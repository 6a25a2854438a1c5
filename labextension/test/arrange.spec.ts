import { nullTranslator } from '@jupyterlab/translation';
import { describe, expect, it } from 'vitest';
import type { ListRow } from '../src/arrange';
import { arrange, tagsOf } from '../src/arrange';
import { decodeRuns } from '../src/decode';
import { NO_FILTER } from '../src/model';
import { wire } from './wire';

const trans = nullTranslator.load('nbcheckpoint');
const list = decodeRuns(wire('runs'));
const mine = { ...list, runs: list.runs.slice(0, 2), next: null };

function say(rows: ListRow[]): string[] {
  return rows.map(row =>
    row.kind === 'run' ? `${row.place} ${row.run.status}` : row.label
  );
}

describe('arrange', () => {
  it('puts the runs of the notebook in front first, then all by status', () => {
    expect(say(arrange(mine, list, NO_FILTER, trans))).toEqual([
      'This notebook',
      'mine running',
      'mine interrupted',
      'All notebooks',
      'Running',
      'all running',
      'Interrupted',
      'all interrupted',
      'Failed',
      'all failed'
    ]);
  });

  it('groups by what moves, what waits, what is done', () => {
    const done = { ...list.runs[0], id: '1', status: 'completed' as const };
    const paused = { ...list.runs[0], id: '2', status: 'paused' as const };
    const all = { ...list, runs: [done, ...list.runs, paused] };
    const groups = arrange(null, all, NO_FILTER, trans)
      .filter(row => row.kind === 'group')
      .map(row => (row.kind === 'group' ? row.label : ''));
    expect(groups).toEqual([
      'Running',
      'Paused',
      'Interrupted',
      'Failed',
      'Completed'
    ]);
  });

  it('says that a notebook never ran, or that nothing matches', () => {
    const none = { ...mine, runs: [] };
    expect(say(arrange(none, list, NO_FILTER, trans))[1]).toBe('No runs yet.');
    const filter = { ...NO_FILTER, text: 'x' };
    expect(say(arrange(none, none, filter, trans))).toEqual([
      'This notebook',
      'No run of it matches.',
      'All notebooks',
      'No run matches.'
    ]);
  });

  it('offers older runs of the notebook where there are some', () => {
    const more = arrange({ ...mine, next: 'x' }, list, NO_FILTER, trans);
    expect(more[3]).toMatchObject({ kind: 'more', isItem: true });
  });

  it('gives every row a key of its own', () => {
    const rows = arrange(mine, list, NO_FILTER, trans);
    expect(new Set(rows.map(row => row.key)).size).toBe(rows.length);
  });
});

it('tagsOf collects what there is, once', () => {
  expect(tagsOf([list, mine, null])).toEqual(['baseline']);
});

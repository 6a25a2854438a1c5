import { describe, expect, it } from 'vitest';
import { arrange } from '../src/arrange';
import { decodeRuns } from '../src/request';
import { wire } from './wire';

const list = decodeRuns(wire('runs'));

describe('arrange', () => {
  it('puts the runs of the notebook in front by themselves, newest first', () => {
    const { mine } = arrange(list, '');
    expect(mine?.map(run => run.status)).toEqual(['running', 'interrupted']);
  });

  it('has no such section without a notebook', () => {
    expect(arrange({ ...list, workflow: null }, '').mine).toBeNull();
  });

  it('has an empty one for a notebook that never ran', () => {
    expect(arrange({ ...list, workflow: 'new.ipynb' }, '').mine).toEqual([]);
  });

  it('groups all runs by status: what moves, what waits, what is done', () => {
    const done = { ...list.runs[0], id: '1', status: 'completed' as const };
    const paused = { ...list.runs[0], id: '2', status: 'paused' as const };
    const arranged = arrange(
      { ...list, runs: [done, ...list.runs, paused] },
      ''
    );
    expect(arranged.groups.map(group => group.status)).toEqual([
      'running',
      'paused',
      'interrupted',
      'failed',
      'completed'
    ]);
    expect(arranged.count).toBe(5);
  });

  it.each([
    ['TRAIN', 2],
    ['train running', 1],
    ['new features', 1],
    ['failed', 1],
    ['a1b2c3', 1],
    ['onerror', 1],
    ['   ', 3],
    ['nothing like it', 0]
  ])('filters by "%s" to %d', (filter, count) => {
    const arranged = arrange(list, filter);
    expect(arranged.count).toBe(count);
    expect(arranged.groups.flatMap(group => group.runs)).toHaveLength(count);
  });
});

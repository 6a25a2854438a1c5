import { describe, expect, it } from 'vitest';
import type { IRow } from '../src/windowing';
import { moved, offsets, rowAt } from '../src/windowing';

function row(key: string, lines = 2, isItem = true): IRow {
  return { key, lines, isItem };
}

describe('offsets and rowAt', () => {
  const found = offsets([row('a'), row('b', 1), row('c', 3)], 10);

  it('add up', () => {
    expect([...found]).toEqual([0, 26, 42, 78]);
  });

  it.each([
    [-5, 0],
    [0, 0],
    [25.9, 0],
    [26, 1],
    [41, 1],
    [42, 2],
    [1000, 2]
  ])('at %d is row %d', (height, index) => {
    expect(rowAt(found, height)).toBe(index);
  });

  it('bear an empty list', () => {
    expect(rowAt(offsets([], 10), 100)).toBe(0);
  });

  it('find among a hundred thousand as surely', () => {
    const rows = Array.from({ length: 100_000 }, (_, i) => row(String(i)));
    const all = offsets(rows, 18);
    for (const index of [0, 1, 49_999, 99_999]) {
      expect(rowAt(all, all[index] + 1)).toBe(index);
    }
  });
});

describe('moved', () => {
  const rows = [
    row('title', 1, false),
    row('a'),
    row('more', 1, false),
    row('b'),
    row('c')
  ];

  it.each([
    [1, 'ArrowDown', 3],
    [3, 'ArrowUp', 1],
    [1, 'ArrowUp', 1],
    [4, 'ArrowDown', 4],
    [-1, 'ArrowDown', 1],
    [-1, 'ArrowUp', 1],
    [4, 'Home', 1],
    [1, 'End', 4],
    [1, 'PageDown', 4],
    [4, 'PageUp', 1],
    [3, 'x', 3]
  ])('from %d by %s to %d, over what is no item', (from, key, to) => {
    expect(moved(rows, from, key, 3)).toBe(to);
  });
});

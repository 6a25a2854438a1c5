import { nullTranslator } from '@jupyterlab/translation';
import { describe, expect, it } from 'vitest';
import {
  ago,
  duration,
  exactTime,
  partOf,
  sayProgress,
  shortStore,
  size,
  splitPath
} from '../src/format';

const trans = nullTranslator.load('nbcheckpoint');

describe('duration', () => {
  it.each([
    [0, '0 ms'],
    [-1, '0 ms'],
    [NaN, '0 ms'],
    [0.0004, '1 ms'],
    [0.041, '41 ms'],
    [0.9994, '999 ms'],
    [0.9996, '1.0 s'],
    [3.24, '3.2 s'],
    [59.94, '59.9 s'],
    [59.96, '1m 00s'],
    [724, '12m 04s'],
    [3599.6, '1h 00m'],
    [7620, '2h 07m'],
    [86400, '1d 00h'],
    [273600, '3d 04h']
  ])('reads %d seconds as %s', (seconds, text) => {
    expect(duration(seconds)).toBe(text);
  });
});

describe('progress', () => {
  it.each([
    [{ done: 37, total: 100, left: null, inside: [] }, '37 of 100', 0.37],
    [{ done: 37, total: 0, left: null, inside: [] }, '37 done', 0],
    [
      { done: 1000000, total: 2000000, left: 63, inside: [] },
      '1,000,000 of 2,000,000, about 1m 03s left',
      0.5
    ],
    [
      { done: 2, total: 10, left: null, inside: [[21, 100] as const] },
      '2 of 10, inside 21 of 100',
      0.221
    ],
    [
      {
        done: 0,
        total: 2,
        left: 5,
        inside: [[1, 2] as const, [7, 0] as const]
      },
      '0 of 2, inside 1 of 2, inside 7 done, about 5.0 s left',
      0.25
    ]
  ])('reads %o', (progress, said, part) => {
    expect(sayProgress(progress, trans)).toBe(said);
    expect(partOf(progress)).toBeCloseTo(part);
  });
});

describe('size', () => {
  it.each([
    [0, '0 B'],
    [-5, '0 B'],
    [812, '812 B'],
    [999, '999 B'],
    [999.6, '1.0 kB'],
    [4200, '4.2 kB'],
    [9960, '10 kB'],
    [999_499, '999 kB'],
    [999_500, '1.0 MB'],
    [432_013_312, '432 MB'],
    [2e18, '2000 PB']
  ])('reads %d bytes as %s', (bytes, text) => {
    expect(size(bytes)).toBe(text);
  });
});

describe('ago', () => {
  const now = Date.parse('2026-11-16T12:00:00.000Z');
  it.each([
    ['2026-11-16T12:00:30.000Z', 'just now'],
    ['2026-11-16T11:59:56.000Z', 'just now'],
    ['2026-11-16T11:59:20.000Z', '40 s ago'],
    ['2026-11-16T11:59:00.001Z', '59 s ago'],
    ['2026-11-16T11:58:00.000Z', '2 min ago'],
    ['2026-11-16T11:00:01.000Z', '59 min ago'],
    ['2026-11-16T09:00:00.000Z', '3 h ago'],
    ['2026-11-15T12:00:00.000Z', '1 day ago'],
    ['2026-11-01T12:00:00.000Z', '15 days ago'],
    ['no time', '']
  ])('reads %s as "%s"', (iso, text) => {
    expect(ago(iso, now, trans)).toBe(text);
  });

  it('gives the date once days would no longer say much', () => {
    expect(ago('2025-01-02T12:00:00.000Z', now, trans)).toContain('2025');
  });
});

it('exactTime is empty for what is no time', () => {
  expect(exactTime('')).toBe('');
  expect(exactTime('2026-11-16T12:00:00.000Z')).toContain('2026');
});

describe('splitPath', () => {
  it.each([
    ['a.ipynb', '', 'a.ipynb'],
    ['x/y/a.ipynb', 'x/y/', 'a.ipynb'],
    ['flow/', '', 'flow/'],
    ['', '', '']
  ])('splits "%s"', (path, folder, name) => {
    expect(splitPath(path)).toEqual({ folder, name });
  });
});

describe('shortStore', () => {
  it.each([
    ['/home/ada/shop/.nbcheckpoint', '/home/ada/shop', '.nbcheckpoint'],
    ['/home/ada/shop/x/.nbcheckpoint', '/home/ada/shop', 'x/.nbcheckpoint'],
    ['/home/ada/shop/x/.nbcheckpoint', '~/shop', 'x/.nbcheckpoint'],
    ['/home/ada/.nbcheckpoint', '/home/ada/shop', '/home/ada/.nbcheckpoint'],
    ['/home/ada/shop2/.nbc', '/home/ada/shop', '/home/ada/shop2/.nbc'],
    ['/srv/home/ada/.nbc', '/home/ada', '/srv/home/ada/.nbc'],
    ['redis://cache/0', '/', 'redis://cache/0'],
    ['/srv/.nbcheckpoint', '', '/srv/.nbcheckpoint']
  ])('shows %s below %s as %s', (store, root, text) => {
    expect(shortStore(store, root)).toBe(text);
  });
});

import { leftBy } from '../src/actions';
import { nullTranslator } from '@jupyterlab/translation';
import { describe, expect, it } from 'vitest';
import { sayOffer } from '../src/offer';
import { decodeRuns, decodeSteps } from '../src/decode';
import { expression, read } from '../src/kernel';
import { converted, pathOf } from '../src/document';
import { staleCells } from '../src/badge';
import { merge, without } from '../src/pages';
import { sayData } from '../src/parts';
import { readAnswer } from '../src/pauses';
import { changesOf, restored, sayRestored } from '../src/restored';
import { asSeen, checkpointsUpTo, settled, stateAfter } from '../src/runmodel';
import { sides } from '../src/sides';
import { sayStanding } from '../src/status';
import type { IRun, IRunList, IStep, IValue } from '../src/tokens';
import { stepRows } from '../src/tree';
import { wire } from './wire';

const trans = nullTranslator.load('nbcheckpoint');
const RUNS = decodeRuns(wire('runs'));
const STEPS = decodeSteps(wire('run'));

function runs(ids: string[], next: string | null = null): IRunList {
  const made = ids.map((id): IRun => ({ ...RUNS.runs[0], id }));
  return { runs: made, store: 's', workflow: null, next };
}

function ids(list: IRunList | null): string {
  return list!.runs.map(run => run.id).join('');
}

describe('merge', () => {
  it('takes the first page as it is', () => {
    expect(merge(null, runs(['9', '8'], '8'))).toMatchObject({ next: '8' });
  });

  it('adds a page at the end', () => {
    const known = runs(['9', '8'], '8');
    expect(ids(merge(known, runs(['7', '6'], '6'), '8'))).toBe('9876');
  });

  it('puts what is new in front, and keeps what the page does not speak for', () => {
    const known = runs(['9', '8', '7', '6'], '6');
    const now = merge(known, runs(['b', 'a', '9'], '9'));
    expect(ids(now)).toBe('ba9876');
    expect(now.next).toBe('6');
  });

  it('lets go of what is gone', () => {
    const known = runs(['9', '8', '7', '6'], '6');
    expect(ids(merge(known, runs(['9', '7'], '7')))).toBe('976');
    expect(ids(merge(known, runs(['9', '7'])))).toBe('97');
    expect(merge(known, runs(['9'])).next).toBeNull();
    expect(ids(without(known, '8'))).toBe('976');
  });

  it('keeps the very run that has not changed', () => {
    const known = runs(['9']);
    expect(merge(known, runs(['9'])).runs[0]).toBe(known.runs[0]);
  });
});

describe('stepRows', () => {
  function step(address: string, status: IStep['status'] = 'completed'): IStep {
    return { ...STEPS[0], address, name: address, status };
  }
  const steps = [
    step('1'),
    step('1.0'),
    step('1.1', 'failed'),
    step('1.1.5'),
    step('2'),
    step('3.7')
  ];
  const shown = (open: string[]): string[] =>
    stepRows(steps, new Set(open), item => item.name).map(
      row => `${row.level}:${row.key}`
    );

  it('folds what is inside, with counts', () => {
    expect(shown([])).toEqual(['1:1', '1:2', '1:3.7']);
    const [first, second] = stepRows(steps, new Set(), item => item.name);
    expect(first).toMatchObject({
      isOpen: false,
      inside: { completed: 1, failed: 1 }
    });
    expect(first.aria['aria-expanded']).toBe(false);
    expect(second.isOpen).toBeNull();
  });

  it('opens level by level', () => {
    expect(shown(['1'])).toEqual(['1:1', '2:1.0', '2:1.1', '1:2', '1:3.7']);
    expect(shown(['1', '1.1'])).toContain('3:1.1.5');
    expect(shown(['1.1'])).toEqual(['1:1', '1:2', '1:3.7']);
  });

  it('takes 10,000 steps in its stride', () => {
    const many = Array.from({ length: 10_000 }, (_, i) =>
      step(`1.${String(i).padStart(6, '0')}`)
    );
    expect(
      stepRows([step('1'), ...many], new Set(['1']), () => '')
    ).toHaveLength(10_001);
  });
});

it('settled ends at the first step that may still change', () => {
  const at = (status: IStep['status']): IStep => ({ ...STEPS[0], status });
  expect(settled([])).toBe(0);
  expect(settled([at('completed'), at('failed')])).toBe(2);
  expect(settled([at('completed'), at('running'), at('failed')])).toBe(1);
});

describe('sides', () => {
  it('puts what was removed beside what was added', () => {
    const rows = sides([
      '--- a',
      '+++ b',
      '@@ -1,3 +1,3 @@',
      ' x = 1',
      '-y = 2',
      '-z = 3',
      '+y = 4',
      ' w',
      '@@ -9 +9 @@',
      '--- no file name',
      '+new'
    ]);
    expect(rows).toEqual([
      { left: 'x = 1', right: 'x = 1', kind: 'same' },
      { left: 'y = 2', right: 'y = 4', kind: 'changed' },
      { left: 'z = 3', right: null, kind: 'changed' },
      { left: 'w', right: 'w', kind: 'same' },
      { left: '@@ -9 +9 @@', right: '@@ -9 +9 @@', kind: 'gap' },
      { left: '-- no file name', right: 'new', kind: 'changed' }
    ]);
  });
});

describe('pathOf', () => {
  it.each([
    ['b.ipynb', 'x/y/a.ipynb', 'y/a.ipynb', 'x/b.ipynb'],
    ['y/b.ipynb', 'x/y/a.ipynb', 'y/a.ipynb', 'x/y/b.ipynb'],
    ['b.ipynb', 'a.ipynb', 'a.ipynb', 'b.ipynb'],
    ['root/b.ipynb', 'a.ipynb', 'root/a.ipynb', 'b.ipynb'],
    ['other/b.ipynb', 'a.ipynb', 'root/a.ipynb', null],
    ['b.ipynb', '', null, 'b.ipynb']
  ])('%s beside %s (%s) is %s', (workflow, path, name, found) => {
    expect(pathOf(workflow, { path, workflow: name })).toBe(found);
  });
});

it('converting a cell to checkpointed and back leaves it as it was', () => {
  const source = 'x = 1\nx';
  expect(converted(source)).toBe(`%%checkpointed\n${source}`);
  expect(converted(converted(source))).toBe(source);
  expect(converted('%%checkpointed train --every 3\nx')).toBe('x');
});

describe('the kernel link', () => {
  it('sends arguments as text, never as code', () => {
    const hostile = `'); import os; os.system("x") # ä \n "`;
    const sent = expression('restore', { target: hostile });
    const [, argument] = /ask\("restore", (".*")\)$/.exec(sent)!;
    expect(argument).toMatch(/^[\x20-\x7e]*$/);
    expect(JSON.parse(JSON.parse(argument) as string)).toEqual({
      target: hostile
    });
  });

  it('reads an answer, and a refusal as one', () => {
    const content = (data: unknown): unknown => ({
      user_expressions: {
        nbcheckpoint: { status: 'ok', data: { 'application/json': data } }
      }
    });
    expect(read(content({ automatic: true }), trans)).toEqual({
      automatic: true
    });
    expect(() => read(content({ message: 'no', hint: 'do' }), trans)).toThrow(
      'no'
    );
  });

  it.each([
    [{ status: 'error', ename: 'ModuleNotFoundError' }, 'does not know'],
    [{ status: 'error', ename: 'X', evalue: 'broken' }, 'broken'],
    [undefined, 'did not answer']
  ])('says what is wrong with %j', (answer, message) => {
    const content = { user_expressions: { nbcheckpoint: answer } };
    expect(() => read(content, trans)).toThrow(message);
  });
});

describe('what restoring came to', () => {
  it('names what came back and what did not', () => {
    const found = restored({
      bound: { model: 'c1', X: 'c1' },
      not_bound: { con: 'cannot be pickled' },
      cautions: ['careful']
    });
    expect(sayRestored(found, trans)).toBe(
      'Restored: model, X. Not restored: con (cannot be pickled). careful'
    );
    expect(sayRestored(restored({}), trans)).toBe('No variable came back.');
  });

  it('bears an answer that is none', () => {
    expect(changesOf({ changes: 'x' })).toEqual([]);
    expect(changesOf({ changes: [null] })).toHaveLength(1);
  });
});

describe('the banner', () => {
  const run: IRun = { ...RUNS.runs[1], bytes: 8e8, computedSeconds: 724 };
  const now = Date.parse(run.updated) + 120_000;

  it('says what, how much and how long', () => {
    const steps: IStep[] = [
      STEPS[0],
      STEPS[1],
      {
        ...STEPS[2],
        name: 'for epoch in range(100)',
        status: 'interrupted',
        progress: { done: 37, total: 100, left: 60, inside: [] }
      }
    ];
    expect(sayOffer(run, steps, now, trans)).toBe(
      'The last run was cut short 2 min ago in “for epoch in range(100)” (37 of 100). ' +
        '2 cells were finished, 12m 04s of work. Restoring takes about 2.0 s (800 MB).'
    );
  });

  it('passes on what a paused run asks', () => {
    const pause = { name: 'g', prompt: 'Go on?', choices: null, default: null };
    const steps: IStep[] = [{ ...STEPS[0], status: 'paused', pause }];
    expect(sayOffer({ ...run, status: 'paused' }, steps, now, trans)).toContain(
      'Go on?'
    );
  });
});

it('an answer typed in is JSON where it is that, else text', () => {
  expect(readAnswer('3')).toBe(3);
  expect(readAnswer('yes')).toBe('yes');
  expect(readAnswer('')).toBe('');
  expect(readAnswer('"3"')).toBe('3');
});

it('the status bar says the mode, and what became of the cells', () => {
  expect(sayStanding({ auto: true, counts: {} }, trans)).toBe(
    'Checkpoints: auto'
  );
  const counts = { restored: 2, stale: 1 };
  expect(sayStanding({ auto: false, counts }, trans)).toBe(
    'Checkpoints: manual · 1 out of date · 2 restored'
  );
});

it('a plan tells which cells are out of date, once each', () => {
  const found = staleCells([
    { cell_id: 'a', stale: true, reason: 'input df changed' },
    { cell_id: 'a', stale: true, reason: 'later' },
    { cell_id: 'b', stale: false, reason: 'nothing is saved' },
    { stale: true, reason: 'no cell' }
  ]);
  expect([...found]).toEqual([['a', 'input df changed']]);
  expect(staleCells(undefined).size).toBe(0);
});

describe('the variables after a step', () => {
  const step = (address: string, checkpoint: string): IStep => ({
    ...STEPS[0],
    address,
    checkpoint
  });
  const value = (name: string, preview: string): IValue => ({
    name,
    preview,
    type: 'int',
    size: 1,
    shape: ''
  });

  it('come from all checkpoints up to it, each once, a cell’s in the order of its statements', () => {
    const steps = [
      step('1', 'b'),
      step('1.0', 'a'),
      step('1.1', 'b'),
      step('2', ''),
      step('3', 'c')
    ];
    expect(checkpointsUpTo(steps, '1.0')).toEqual(['a']);
    expect(checkpointsUpTo(steps, '1')).toEqual(['a', 'b']);
    expect(checkpointsUpTo(steps, '3')).toEqual(['a', 'b', 'c']);
  });

  it('are the latest, without what was deleted and what is none', () => {
    const found = stateAfter([
      { values: [value('x', '1'), value('y', '2')], deleted: [] },
      { values: [value('x', '3'), value('rng:numpy', '')], deleted: ['y'] }
    ]);
    expect(found.map(item => `${item.name}=${item.preview}`)).toEqual(['x=3']);
  });
});

it('what was running when its kernel died was cut short', () => {
  const running: IStep = { ...STEPS[0], status: 'running' };
  const seen = (status: IRun['status']): string =>
    asSeen({ ...RUNS.runs[0], status }, [running])[0].status;
  expect(seen('interrupted')).toBe('interrupted');
  expect(seen('running')).toBe('running');
});

it('what an earlier kernel was at was cut short, though the run goes on in another', () => {
  const at = (address: string, session: number): IStep => ({
    ...STEPS[0],
    status: 'running',
    address,
    session
  });
  const run: IRun = { ...RUNS.runs[0], status: 'running', sessions: 2 };
  const steps = [at('0', 1), at('0.000', 0), at('1', 2), at('2', 0)];
  expect(asSeen(run, steps).map(step => step.status)).toEqual([
    'interrupted',
    'interrupted',
    'running',
    'running'
  ]);
});

it('a cell left what its statements left, a statement only its own', () => {
  const made = (address: string, kind: string, checkpoint: string): IStep => ({
    ...STEPS[0],
    address,
    kind,
    checkpoint
  });
  const cell = made('1', 'cell', 'b');
  const steps = [
    made('0', 'cell', 'x'),
    cell,
    made('1.000', 'statement', 'a'),
    made('1.001', 'statement', ''),
    made('1.002', 'loop', 'b'),
    made('1.002.0', 'item', 'i')
  ];
  expect(leftBy(cell, steps)).toBe('a,b');
  expect(leftBy(steps[2], steps)).toBe('a');
  expect(leftBy(made('2', 'map', 'm'), [made('2.0', 'item', 'i')])).toBe('m');
});

it('tells an event by the name of its step, where it has one', () => {
  const event = { type: 'step_failed', time: '', step: '000004.002' };
  const data = { name: 'fit', error: 'no data', seconds: null };
  expect(sayData({ ...event, data })).toBe('fit · error: no data');
  expect(sayData({ ...event, data: {} })).toBe('000004.002');
});

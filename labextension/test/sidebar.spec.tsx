import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { act } from 'react';
import type { Root } from 'react-dom/client';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { decodeRuns, decodeSteps } from '../src/request';
import { Sidebar } from '../src/sidebar';
import type {
  ICheckpointModel,
  IProblem,
  IRunList,
  IStep
} from '../src/tokens';
import { wire } from './wire';

const RUNS = decodeRuns(wire('runs'));
const STEPS = decodeSteps(wire('run'));
const HOSTILE = '<img src=x onerror=window.__pwned=1>';

/**
 * A model that is told what to say.
 */
class FakeModel implements ICheckpointModel {
  readonly changed = new Signal<this, void>(this);
  list: IRunList | null = RUNS;
  problem: IProblem | null = null;
  path = '';
  filter = '';
  active = false;
  refreshSeconds = 3;
  isDisposed = false;
  stepsOf: ReadonlyArray<IStep> | IProblem | undefined = STEPS;
  refresh = vi.fn(() => Promise.resolve());
  showOlder = vi.fn(() => Promise.resolve());

  isExpanded(id: string, place: string): boolean {
    return this._expanded.has(`${place}/${id}`);
  }

  toggle(id: string, place: string): Promise<void> {
    const key = `${place}/${id}`;
    if (!this._expanded.delete(key)) {
      this._expanded.add(key);
    }
    this.changed.emit();
    return Promise.resolve();
  }

  steps(): ReadonlyArray<IStep> | IProblem | undefined {
    return this.stepsOf;
  }

  dispose(): void {
    this.isDisposed = true;
  }

  private readonly _expanded = new Set<string>();
}

let model: FakeModel;
let host: HTMLElement;
let root: Root;

function draw(): void {
  act(() => {
    root.render(
      <Sidebar model={model} trans={nullTranslator.load('nbcheckpoint')} />
    );
  });
}

function all(selector: string): HTMLElement[] {
  return [...host.querySelectorAll<HTMLElement>(selector)];
}

function section(label: string): HTMLElement {
  return all('.nbc-Section').find(
    element => element.getAttribute('aria-label') === label
  )!;
}

function press(key: string): boolean {
  const event = new KeyboardEvent('keydown', {
    key,
    bubbles: true,
    cancelable: true
  });
  act(() => {
    document.activeElement!.dispatchEvent(event);
  });
  return event.defaultPrevented;
}

/**
 * The row that has the focus, by its name.
 */
function focused(): string | undefined {
  return (document.activeElement as HTMLElement).dataset.row;
}

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['Date', 'setInterval', 'clearInterval'],
    now: Date.parse('2026-11-16T09:43:40.000Z')
  });
  model = new FakeModel();
  host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
  vi.useRealTimers();
});

describe('the list', () => {
  it('shows the runs of this notebook first, then all of them by status', () => {
    draw();
    const labels = all('.nbc-Section').map(s => s.getAttribute('aria-label'));
    expect(labels).toEqual(['This notebook', 'All notebooks']);
    expect(
      section('This notebook').querySelectorAll('[role="treeitem"]')
    ).toHaveLength(2);
    const groups = [
      ...section('All notebooks').querySelectorAll('.nbc-Group')
    ].map(group => group.getAttribute('aria-label'));
    expect(groups).toEqual(['Running', 'Interrupted', 'Failed']);
  });

  it('says of a run what it came to', () => {
    draw();
    const row = section('This notebook').querySelector('.nbc-Run')!;
    expect(row.getAttribute('data-status')).toBe('running');
    expect(row.querySelector('.nbc-Run-name')!.textContent).toBe(
      'analysis/train.ipynb'
    );
    expect(row.querySelector('time')!.textContent).toBe('2 min ago');
    expect(row.querySelector('time')!.title).toContain('2026');
    expect(
      [...row.querySelectorAll('.nbc-Facts > span')].map(
        fact => fact.textContent
      )
    ).toEqual([
      'Running',
      '2 computed',
      '3 restored',
      '432 MB saved',
      '12m 04s spared'
    ]);
    expect(row.getAttribute('aria-label')).toContain('Running, 2 min ago');
  });

  it('shows what others wrote as text, whatever it is', () => {
    model.stepsOf = [
      { ...STEPS[0], name: HOSTILE, reason: HOSTILE, error: HOSTILE }
    ];
    model.list = {
      ...RUNS,
      store: HOSTILE,
      runs: [{ ...RUNS.runs[2], note: HOSTILE }]
    };
    void model.toggle(RUNS.runs[2].id, 'all');
    draw();
    expect(host.querySelector('img')).toBeNull();
    expect(host.textContent.split(HOSTILE).length - 1).toBe(6);
  });

  it('marks a run that does not carry the user’s own signature', () => {
    draw();
    const row = section('All notebooks').querySelector(
      '[data-status="failed"]'
    )!;
    expect(row.textContent).toContain('untrusted');
  });

  it('keeps relative times true while nothing else changes', () => {
    draw();
    act(() => {
      vi.advanceTimersByTime(5 * 60 * 1000);
    });
    expect(host.querySelector('time')!.textContent).toBe('7 min ago');
  });

  it('filters as the model says', () => {
    draw();
    act(() => {
      model.filter = 'interrupted';
      model.changed.emit();
    });
    expect(all('.nbc-Run')).toHaveLength(2);
    act(() => {
      model.filter = 'no such thing';
      model.changed.emit();
    });
    expect(all('.nbc-Run')).toHaveLength(0);
    expect(host.textContent).toContain('No run matches.');
  });

  it('offers older runs where there are some', () => {
    draw();
    all('.nbc-More')[0].click();
    expect(model.showOlder).toHaveBeenCalledTimes(1);
    act(() => {
      model.list = { ...RUNS, next: null };
      model.changed.emit();
    });
    expect(all('.nbc-More')).toHaveLength(0);
  });
});

describe('steps', () => {
  it('open below the run that was clicked, and only there', () => {
    draw();
    act(() => all('.nbc-Run-row')[0].click());
    expect(all('.nbc-Step')).toHaveLength(3);
    expect(all('.nbc-Run[aria-expanded="true"]')).toHaveLength(1);
    const [restored, computed, failed] = all('.nbc-Step').map(
      step => step.textContent
    );
    expect(restored).toContain('restored');
    expect(restored).toContain('code and inputs are the same');
    expect(computed).toContain('41.5 s');
    expect(computed).toContain('helper clean() changed');
    expect(failed).toContain('attempt 2');
    expect(failed).toContain('ValueError: shapes do not match');
    act(() => all('.nbc-Step')[0].click());
    expect(all('.nbc-Step')).toHaveLength(3);
    act(() => all('.nbc-Run-row')[0].click());
    expect(all('.nbc-Step')).toHaveLength(0);
  });

  it('that run say how long they have been at it', () => {
    model.stepsOf = [
      { ...STEPS[0], status: 'running', started: '2026-11-16T09:42:10.000Z' },
      { ...STEPS[1], status: 'pending', started: '', seconds: 0 }
    ];
    void model.toggle(RUNS.runs[0].id, 'mine');
    draw();
    const times = (): (string | null)[] =>
      all('.nbc-Step-time').map(time => time.textContent);
    expect(times()).toEqual(['1m 30s', '']);
    act(() => {
      vi.advanceTimersByTime(60_000);
    });
    expect(times()).toEqual(['2m 30s', '']);
  });

  it.each([
    [undefined, 'Loading…'],
    [[], 'No steps yet.'],
    [{ message: 'gone', hint: 'refresh' }, 'gone refresh']
  ])('that are %j say so', (steps, text) => {
    model.stepsOf = steps;
    void model.toggle(RUNS.runs[0].id, 'mine');
    draw();
    expect(host.textContent).toContain(text);
    // A click on that text is no click on the run.
    act(() => host.querySelector<HTMLElement>('.nbc-Run .nbc-Quiet')!.click());
    expect(model.isExpanded(RUNS.runs[0].id, 'mine')).toBe(true);
  });
});

describe('the keyboard', () => {
  const [first, second] = RUNS.runs.map(run => run.id);

  it('has one row in the order of Tab', () => {
    draw();
    expect(all('[role="treeitem"][tabindex="0"]')).toHaveLength(1);
    act(() => all('[role="treeitem"]')[2].focus());
    const reachable = all('[role="treeitem"][tabindex="0"]');
    expect(reachable).toEqual([document.activeElement]);
  });

  it('moves over all rows, opens, enters, leaves and closes', () => {
    draw();
    act(() => all('[role="treeitem"]')[0].focus());
    expect(press('ArrowDown')).toBe(true);
    expect(focused()).toBe(`mine/${second}`);
    press('ArrowDown');
    expect(focused()).toBe(`all/${first}`);
    press('ArrowUp');
    expect(focused()).toBe(`mine/${second}`);
    press('ArrowUp');
    press('ArrowUp');
    expect(focused()).toBe(`mine/${first}`);
    press('ArrowRight');
    expect(all('.nbc-Step')).toHaveLength(3);
    expect(focused()).toBe(`mine/${first}`);
    press('ArrowRight');
    expect(focused()).toBe(`mine/${first}#0001`);
    press('ArrowDown');
    expect(focused()).toBe(`mine/${first}#0002`);
    press('ArrowLeft');
    expect(focused()).toBe(`mine/${first}`);
    press('ArrowLeft');
    expect(all('.nbc-Step')).toHaveLength(0);
    press('Enter');
    expect(all('.nbc-Step')).toHaveLength(3);
    press(' ');
    expect(all('.nbc-Step')).toHaveLength(0);
    press('End');
    expect(focused()).toBe(`all/${RUNS.runs[2].id}`);
    press('Home');
    expect(focused()).toBe(`mine/${first}`);
  });

  it('leaves other keys to the application', () => {
    draw();
    act(() => all('[role="treeitem"]')[0].focus());
    expect(press('s')).toBe(false);
  });

  it('still has a row to go to after the one in focus is gone', () => {
    draw();
    act(() => all('[role="treeitem"]')[0].focus());
    act(() => {
      model.list = { ...RUNS, runs: RUNS.runs.slice(1) };
      model.changed.emit();
    });
    expect(all('[role="treeitem"][tabindex="0"]')).toHaveLength(1);
  });
});

describe('with nothing to list', () => {
  it('waits for the first answer', () => {
    model.list = null;
    draw();
    expect(host.querySelector('[role="status"]')).not.toBeNull();
  });

  it('teaches how to save something', () => {
    model.list = { runs: [], store: null, workflow: null, next: null };
    draw();
    expect(host.textContent).toContain('%load_ext nbcheckpoint');
    expect(host.textContent).toContain('%%checkpointed');
  });

  it('says what is wrong and what to do, and does not teach then', () => {
    model.list = { runs: [], store: null, workflow: null, next: null };
    model.problem = { message: 'the store is locked', hint: 'try again' };
    draw();
    const alert = host.querySelector('[role="alert"]')!;
    expect(alert.textContent).toBe('the store is lockedtry again');
    expect(host.textContent).not.toContain('%load_ext');
  });

  it('keeps showing the last list under a problem', () => {
    model.problem = { message: 'away', hint: '' };
    draw();
    expect(all('.nbc-Run').length).toBeGreaterThan(0);
  });

  it('can be asked to look again', () => {
    draw();
    all('.nbc-Header button, .nbc-Header jp-button')[0].click();
    expect(model.refresh).toHaveBeenCalled();
  });
});

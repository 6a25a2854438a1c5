import { nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';
import { act } from 'react';
import type { Root } from 'react-dom/client';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Sidebar } from '../src/sidebar';
import { FakeModel, RUNS, STEPS, fakeActions } from './fake';

const HOSTILE = '<img src=x onerror=window.__pwned=1>';

let model: FakeModel;
let actions: ReturnType<typeof fakeActions>;
let host: HTMLElement;
let root: Root;

function draw(): void {
  act(() => {
    root.render(
      <Sidebar
        model={model}
        actions={actions}
        trans={nullTranslator.load('nbcheckpoint')}
      />
    );
  });
}

function all(selector: string): HTMLElement[] {
  return [...host.querySelectorAll<HTMLElement>(selector)];
}

function tell(change: () => void): void {
  act(() => {
    change();
    model.changed.emit();
  });
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

function active(): string | undefined {
  return all('.nbc-Row[data-active="true"]')[0]?.dataset.key;
}

function tab(name: string): void {
  act(() => all(`[data-tab=${name}]`)[0].click());
}

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['Date', 'setInterval', 'clearInterval'],
    now: Date.parse('2026-11-16T09:43:40.000Z')
  });
  model = new FakeModel();
  actions = fakeActions();
  host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
  vi.useRealTimers();
});

describe('the list', () => {
  it('says of a run what it came to', () => {
    draw();
    const row = all('.nbc-Run[data-place=mine]')[0];
    expect(row.dataset.status).toBe('running');
    expect(row.querySelector('.nbc-Run-name')!.textContent).toBe(
      'analysis/train.ipynb'
    );
    expect(row.querySelector('time')!.textContent).toBe('2 min ago');
    expect(row.querySelector('.nbc-Facts')!.textContent).toBe(
      'Running2 computed3 restored432 MB saved12m 04s spared'
    );
    expect(all('[role=option]')[0].getAttribute('aria-label')).toContain(
      'Running, 2 min ago'
    );
  });

  it('shows what others wrote as text, whatever it is', () => {
    const hostile = {
      ...RUNS.runs[2],
      note: HOSTILE,
      tags: [HOSTILE]
    };
    model.list = { ...RUNS, store: HOSTILE, runs: [hostile] };
    draw();
    expect(all('img')).toHaveLength(0);
    // Name, tag, note, the choice of tags, the store.
    expect(host.textContent.split(HOSTILE).length - 1).toBe(5);
  });

  it('keeps relative times true while nothing else changes', () => {
    draw();
    act(() => {
      vi.advanceTimersByTime(5 * 60 * 1000);
    });
    expect(all('time')[0].textContent).toBe('7 min ago');
  });

  it('asks for what the filters say', () => {
    draw();
    const choose = (label: string, value: string): void => {
      const select = all(`select[aria-label=${label}]`)[0] as HTMLSelectElement;
      act(() => {
        select.value = value;
        select.dispatchEvent(new Event('change', { bubbles: true }));
      });
    };
    choose('Status', 'failed');
    choose('Tag', 'baseline');
    expect(model.filter).toEqual({
      text: '',
      status: 'failed',
      tag: 'baseline'
    });
  });

  it('is drawn only as far as it is in sight', () => {
    const runs = Array.from({ length: 5000 }, (_, i) => ({
      ...RUNS.runs[0],
      id: `r${i}`
    }));
    model.list = { ...RUNS, runs };
    draw();
    expect(all('.nbc-Run').length).toBeLessThan(60);
    expect(
      parseFloat(all('.nbc-Windowed-all')[0].style.height)
    ).toBeGreaterThan(5000 * 30);
  });
});

describe('the keyboard', () => {
  const [first, second, third] = RUNS.runs.map(run => run.id);

  it('moves over all runs, and opens one', () => {
    draw();
    all('.nbc-Windowed')[0].focus();
    expect(active()).toBe(`mine/${first}`);
    expect(press('ArrowDown')).toBe(true);
    expect(active()).toBe(`mine/${second}`);
    press('ArrowDown');
    expect(active()).toBe(`all/${first}`);
    press('End');
    expect(active()).toBe(`all/${third}`);
    press('Home');
    expect(active()).toBe(`mine/${first}`);
    press('Enter');
    expect(model.opened?.id).toBe(first);
  });

  it('opens the menu of the active run', () => {
    draw();
    const asked = vi.fn<(run: string | undefined) => void>();
    host.addEventListener('contextmenu', event =>
      asked((event.target as HTMLElement).dataset.run)
    );
    all('.nbc-Windowed')[0].focus();
    press('ArrowDown');
    press('ContextMenu');
    expect(asked).toHaveBeenCalledWith(second);
  });

  it('leaves other keys to the application', () => {
    draw();
    all('.nbc-Windowed')[0].focus();
    expect(press('s')).toBe(false);
  });

  it('says which row is active to those who cannot see it', () => {
    draw();
    const list = all('.nbc-Windowed')[0];
    const id = list.getAttribute('aria-activedescendant')!;
    expect(document.getElementById(id)?.getAttribute('aria-selected')).toBe(
      'true'
    );
  });
});

describe('an opened run', () => {
  beforeEach(() => {
    model.open(RUNS.runs[0].id);
  });

  it('shows its steps, with reasons and errors', () => {
    draw();
    const [restored, computed, failed] = all('.nbc-Step').map(
      step => step.textContent
    );
    expect(restored).toContain('code and inputs are the same');
    expect(computed).toContain('41.5 s');
    expect(failed).toContain('attempt 2');
    expect(failed).toContain('ValueError: shapes do not match');
  });

  it('folds what is inside, and opens it', () => {
    const inner = { ...STEPS[0], address: '0001.000', name: 'inner' };
    model.opened!.steps = [STEPS[0], inner, STEPS[1]];
    draw();
    expect(all('.nbc-Step')).toHaveLength(2);
    expect(all('.nbc-Step')[0].textContent).toContain('1 restored inside');
    act(() => all('.nbc-Caret[data-open]')[0].click());
    expect(all('.nbc-Step')).toHaveLength(3);
  });

  it('offers for a step what can be done with it', () => {
    draw();
    tell(() => {
      model.step = '0001';
    });
    const buttons = all('.nbc-Chosen button');
    expect(buttons.map(button => button.textContent)).toEqual([
      'Restore here…',
      'Run from here…',
      'Diff with…'
    ]);
    buttons.forEach(button => act(() => button.click()));
    expect(actions.restore).toHaveBeenCalledWith(RUNS.runs[0], STEPS[0]);
    expect(actions.runFrom).toHaveBeenCalledTimes(1);
    expect(actions.diff).toHaveBeenCalledTimes(1);
  });

  it('says of running steps how long they have been at it', () => {
    model.opened!.steps = [
      { ...STEPS[0], status: 'running', started: '2026-11-16T09:42:10.000Z' }
    ];
    draw();
    expect(all('.nbc-Step-time')[0].textContent).toBe('1m 30s');
    act(() => {
      vi.advanceTimersByTime(60_000);
    });
    expect(all('.nbc-Step-time')[0].textContent).toBe('2m 30s');
  });

  it('shows variables, code and outputs as text and pictures', () => {
    draw();
    tab('variables');
    expect(host.textContent).toContain('Ridge(alpha=0.1)');
    expect(host.textContent).toContain('5,000,000 × 3');
    expect(host.textContent).toContain('<b>not HTML</b>');
    expect(host.querySelector('b')).toBeNull();
    expect(all('img')).toHaveLength(1);
    expect(all('img')[0].getAttribute('src')).toMatch(
      /^data:image\/png;base64,/
    );
  });

  it('draws its graph', () => {
    draw();
    tab('graph');
    const [node] = all('.nbc-Node');
    expect(node.getAttribute('aria-label')).toContain('df = load()');
    act(() => {
      node.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    });
    expect(model.step).toBe('0001');
  });

  it('lists its events and what is different now', () => {
    draw();
    tab('events');
    expect(all('.nbc-Event')).toHaveLength(6);
    expect(host.textContent).toContain('pause opened');
    tab('environment');
    expect(all('[data-differs=true]').length).toBeGreaterThan(0);
  });

  it('moves between tabs with arrow keys', () => {
    draw();
    all('[data-tab=steps]')[0].focus();
    press('ArrowRight');
    expect(document.activeElement!.textContent).toBe('Variables');
    press('ArrowLeft');
    press('ArrowLeft');
    expect(document.activeElement!.textContent).toBe('Environment');
  });

  it('shows what others wrote as text in every tab', () => {
    const opened = model.opened!;
    const bad = { ...STEPS[0], name: HOSTILE, reason: HOSTILE, error: HOSTILE };
    opened.run = { ...RUNS.runs[0], workflow: HOSTILE, note: HOSTILE };
    opened.steps = [
      bad,
      {
        ...bad,
        address: '0009',
        status: 'paused',
        pause: {
          name: HOSTILE,
          prompt: HOSTILE,
          choices: [HOSTILE],
          default: 1
        }
      }
    ];
    opened.preview_ = {
      values: [
        {
          name: HOSTILE,
          type: HOSTILE,
          size: 1,
          shape: HOSTILE,
          preview: HOSTILE
        }
      ],
      outputs: [{ kind: 'text', text: HOSTILE }],
      source: HOSTILE
    };
    opened.parts = {
      events: [
        { type: HOSTILE, time: HOSTILE, step: HOSTILE, data: { x: HOSTILE } }
      ],
      environment: {
        then: { [HOSTILE]: HOSTILE },
        now: {},
        differs: [{ name: HOSTILE, then: HOSTILE, now: HOSTILE }]
      },
      graph: {
        nodes: [
          {
            id: HOSTILE,
            label: HOSTILE,
            kind: '',
            status: 'failed',
            seconds: 1,
            address: '0001',
            x: 0,
            y: 0,
            width: 900,
            height: 9,
            critical: false
          }
        ],
        edges: [],
        width: 9,
        height: 9
      }
    };
    draw();
    for (const name of [
      'steps',
      'variables',
      'graph',
      'events',
      'environment'
    ]) {
      tab(name);
      expect(host.querySelector('img')).toBeNull();
      expect(host.textContent).toContain(HOSTILE);
    }
  });

  it('asks what a paused run asks, and passes the very choice on', () => {
    const pause = {
      name: 'gate',
      prompt: 'Go on?',
      choices: ['yes', 0],
      default: null
    };
    model.opened!.steps = [{ ...STEPS[0], status: 'paused', pause }];
    draw();
    const [yes, zero] = all('.nbc-Pause button');
    expect(yes.textContent).toBe('yes');
    act(() => zero.click());
    expect(actions.answer).toHaveBeenCalledWith(RUNS.runs[0], pause, 0);
  });

  it.each([
    ['events', undefined, 'Loading…'],
    ['graph', { message: 'gone', hint: 'refresh' }, 'gone'],
    ['environment', { message: 'gone', hint: 'refresh' }, 'refresh']
  ] as const)('says how it stands with %s', (part, result, text) => {
    model.opened!.parts[part] = result;
    draw();
    tab(part);
    expect(host.textContent).toContain(text);
  });

  it('goes back to the list, and the focus with it', () => {
    draw();
    const back = all('.nbc-Back button, .nbc-Back')[0];
    back.focus();
    act(() => model.close());
    expect(all('.nbc-Tab')).toHaveLength(0);
    expect(document.activeElement).toBe(all('.nbc-Windowed')[0]);
  });
});

describe('with nothing to list', () => {
  const NONE = { runs: [], store: null, workflow: null, next: null };

  it('waits for the first answer', () => {
    model.list = null;
    draw();
    expect(host.querySelector('[role="status"]')).not.toBeNull();
  });

  it('teaches how to save something', () => {
    model.list = NONE;
    draw();
    expect(host.textContent).toContain('%load_ext nbcheckpoint');
    expect(host.textContent).toContain('%%checkpointed');
  });

  it('says what is wrong and what to do, and does not teach then', () => {
    model.list = NONE;
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
});

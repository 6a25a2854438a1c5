import { afterEach, describe, expect, it, vi } from 'vitest';
import { CheckpointModel } from '../src/model';
import type { IFakeServer } from './server';
import { serverThat } from './server';
import { wire } from './wire';

interface IWireRuns {
  runs: { id: string; updated: string }[];
}

const RUNS = wire('runs') as IWireRuns;
const FIRST = RUNS.runs[0].id;

let models: CheckpointModel[] = [];

function modelOf(server: IFakeServer, path = ''): CheckpointModel {
  const model = new CheckpointModel({ serverSettings: server.settings });
  models.push(model);
  model.path = path;
  return model;
}

/**
 * Look, and wait for what there is to see.
 */
async function look(model: CheckpointModel): Promise<void> {
  model.active = true;
  await vi.waitFor(() => expect(model.list ?? model.problem).not.toBeNull());
}

function count(server: IFakeServer, end: string): number {
  return server.requests.filter(r => new URL(r.url).pathname.endsWith(end))
    .length;
}

/**
 * A server that answers as ours does, tags included.
 */
function ours(state: { runs?: unknown; run?: unknown } = {}): IFakeServer {
  const bodies: string[] = [];
  return serverThat(request => {
    if (!new URL(request.url).pathname.endsWith('/runs')) {
      return Response.json(state.run ?? wire('run'));
    }
    const body = JSON.stringify(state.runs ?? RUNS);
    if (!bodies.includes(body)) {
      bodies.push(body);
    }
    const etag = `"${bodies.indexOf(body)}"`;
    return request.headers.get('If-None-Match') === etag
      ? new Response(null, { status: 304 })
      : new Response(body, { headers: { ETag: etag } });
  });
}

afterEach(() => {
  models.forEach(model => model.dispose());
  models = [];
  vi.useRealTimers();
});

describe('looking', () => {
  it('asks nothing while nobody looks', async () => {
    const server = ours();
    const model = modelOf(server, 'a.ipynb');
    await model.refresh();
    model.path = 'b.ipynb';
    expect(server.requests).toHaveLength(0);
    await look(model);
    expect(model.list?.runs).toHaveLength(3);
    const url = new URL(server.requests[0].url);
    expect(url.searchParams.get('path')).toBe('b.ipynb');
  });

  it('asks again every few seconds, and stops when nobody looks any more', async () => {
    vi.useFakeTimers();
    const server = ours();
    const model = modelOf(server);
    model.refreshSeconds = 2;
    model.active = true;
    await vi.advanceTimersByTimeAsync(7000);
    const asked = server.requests.length;
    expect(asked).toBeGreaterThanOrEqual(3);
    expect(asked).toBeLessThanOrEqual(5);
    model.active = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.requests).toHaveLength(asked);
  });

  it('is quiet while the store is idle', async () => {
    const server = ours();
    const model = modelOf(server);
    await look(model);
    const before = model.list;
    const changed = vi.fn();
    model.changed.connect(changed);
    await model.refresh();
    expect(count(server, '/runs')).toBe(2);
    expect(server.requests[1].headers.get('If-None-Match')).toBeTruthy();
    expect(changed).not.toHaveBeenCalled();
    expect(model.list).toBe(before);
  });

  it('asks about another notebook without the tag of the first', async () => {
    const server = ours();
    const model = modelOf(server, 'a.ipynb');
    await look(model);
    model.path = 'b.ipynb';
    await vi.waitFor(() => expect(server.requests).toHaveLength(2));
    expect(server.requests[1].headers.get('If-None-Match')).toBeNull();
  });

  it('keeps the answer to the latest question, whichever comes last', async () => {
    const waiting = new Map<string | null, (body: unknown) => void>();
    const server = serverThat(
      request =>
        new Promise(resolve => {
          waiting.set(new URL(request.url).searchParams.get('path'), body =>
            resolve(Response.json(body))
          );
        })
    );
    const model = modelOf(server, 'slow.ipynb');
    model.active = true;
    await vi.waitFor(() => expect(waiting.has('slow.ipynb')).toBe(true));
    model.path = 'quick.ipynb';
    await vi.waitFor(() => expect(waiting.has('quick.ipynb')).toBe(true));
    waiting.get('quick.ipynb')!({ runs: [], workflow: 'quick.ipynb' });
    await vi.waitFor(() => expect(model.list?.workflow).toBe('quick.ipynb'));
    waiting.get('slow.ipynb')!({ runs: [], workflow: 'slow.ipynb' });
    // One turn of the event loop: everything the late answer sets off has happened by then.
    await new Promise(resolve => setTimeout(resolve, 0));
    expect(model.list?.workflow).toBe('quick.ipynb');
  });

  it('shows a page more when asked, up to what the server gives', async () => {
    const server = ours();
    const model = modelOf(server);
    await look(model);
    for (let i = 0; i < 30; i++) {
      await model.showOlder();
    }
    const limits = server.requests.map(r =>
      Number(new URL(r.url).searchParams.get('limit'))
    );
    expect(limits[0]).toBe(50);
    expect(limits[1]).toBe(100);
    expect(Math.max(...limits)).toBe(1000);
  });

  it('tells when the filter changes, and only then', () => {
    const model = modelOf(ours());
    const changed = vi.fn();
    model.changed.connect(changed);
    model.filter = 'x';
    model.filter = 'x';
    expect(changed).toHaveBeenCalledTimes(1);
  });
});

describe('steps', () => {
  it('are fetched when a run is opened, and for that place only', async () => {
    const server = ours();
    const model = modelOf(server, 'a.ipynb');
    await look(model);
    await model.toggle(FIRST, 'mine');
    expect(model.isExpanded(FIRST, 'mine')).toBe(true);
    expect(model.isExpanded(FIRST, 'all')).toBe(false);
    expect(model.steps(FIRST)).toHaveLength(3);
    expect(count(server, FIRST)).toBe(1);
    const url = new URL(server.requests.at(-1)!.url);
    expect(url.searchParams.get('path')).toBe('a.ipynb');
  });

  it('are not asked for again until the run moves', async () => {
    const state: { runs?: IWireRuns } = {};
    const server = ours(state);
    const model = modelOf(server);
    await look(model);
    await model.toggle(FIRST, 'all');
    await model.refresh();
    expect(count(server, FIRST)).toBe(1);
    const moved = structuredClone(RUNS);
    moved.runs[0].updated = '2026-11-16T10:00:00.000Z';
    state.runs = moved;
    await model.refresh();
    await vi.waitFor(() => expect(count(server, FIRST)).toBe(2));
  });

  it('are forgotten when the run is closed in every place', async () => {
    const model = modelOf(ours());
    await look(model);
    await model.toggle(FIRST, 'mine');
    await model.toggle(FIRST, 'all');
    await model.toggle(FIRST, 'mine');
    expect(model.steps(FIRST)).toHaveLength(3);
    await model.toggle(FIRST, 'all');
    expect(model.steps(FIRST)).toBeUndefined();
  });

  it('say so when they cannot be had', async () => {
    const server = serverThat(request =>
      new URL(request.url).pathname.endsWith('/runs')
        ? Response.json(RUNS)
        : Response.json({ message: 'gone', hint: 'refresh' }, { status: 404 })
    );
    const model = modelOf(server);
    await look(model);
    await model.toggle(FIRST, 'all');
    expect(model.steps(FIRST)).toMatchObject({
      message: 'gone',
      hint: 'refresh'
    });
  });
});

describe('problems', () => {
  it('says what to do when the server has no such extension', async () => {
    const model = modelOf(serverThat(() => new Response('', { status: 404 })));
    await look(model);
    expect(model.problem?.message).toContain('does not know nbcheckpoint');
    expect(model.problem?.hint).toContain('jupyter server extension enable');
  });

  it('passes on what the server says', async () => {
    const model = modelOf(
      serverThat(() => Response.json(wire('refusal'), { status: 503 }))
    );
    await look(model);
    expect(model.problem).toMatchObject(wire('refusal') as object);
  });

  it('says when the server is away, keeps what it had, and recovers', async () => {
    let away = false;
    const answering = ours();
    const server = serverThat(request => {
      if (away) {
        throw new TypeError('fetch failed');
      }
      return answering.settings.fetch(request);
    });
    const model = modelOf(server);
    await look(model);
    away = true;
    await model.refresh();
    expect(model.problem?.message).toContain('cannot be reached');
    expect(model.list?.runs).toHaveLength(3);
    away = false;
    const changed = vi.fn();
    model.changed.connect(changed);
    await model.refresh();
    expect(model.problem).toBeNull();
    expect(changed).toHaveBeenCalled();
  });

  it('does not take a page for a list', async () => {
    const model = modelOf(serverThat(() => Response.json({ hello: 1 })));
    await look(model);
    expect(model.problem?.hint).toContain('Reload');
  });
});

it('a disposed model neither asks nor tells', async () => {
  const server = ours();
  const model = modelOf(server);
  await look(model);
  const asked = server.requests.length;
  model.dispose();
  model.dispose();
  await model.refresh();
  expect(model.isDisposed).toBe(true);
  expect(server.requests).toHaveLength(asked);
});

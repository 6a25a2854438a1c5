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
    const name = new URL(request.url).pathname.split('/').pop()!;
    if (name === 'wait') {
      // A server that is older than the page: it cannot tell when something changes.
      return new Response('', { status: 404 });
    }
    if (name !== 'runs') {
      const known = ['steps', 'events', 'graph', 'environment'];
      return Response.json(
        known.includes(name) ? lastPage(wire(name)) : (state.run ?? wire('run'))
      );
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

function lastPage(body: unknown): unknown {
  return { ...(body as object), next: null };
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
    for (const request of server.requests) {
      expect(new URL(request.url).searchParams.get('path')).toBe('b.ipynb');
    }
  });

  it('asks again every few seconds, and stops when nobody looks any more', async () => {
    vi.useFakeTimers();
    const server = ours();
    const model = modelOf(server);
    model.refreshSeconds = 2;
    model.active = true;
    await vi.advanceTimersByTimeAsync(7000);
    const asked = count(server, '/runs');
    // Two questions each time: all runs, and the notebook's own.
    expect(asked).toBeGreaterThanOrEqual(6);
    expect(asked).toBeLessThanOrEqual(10);
    model.active = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(count(server, '/runs')).toBe(asked);
  });

  it('is quiet while the store is idle', async () => {
    const server = ours();
    const model = modelOf(server);
    await look(model);
    const before = model.list;
    const changed = vi.fn();
    model.changed.connect(changed);
    const asked = count(server, '/runs');
    await model.refresh();
    expect(count(server, '/runs')).toBe(2 * asked);
    expect(server.requests.at(-1)!.headers.get('If-None-Match')).toBeTruthy();
    expect(changed).not.toHaveBeenCalled();
    expect(model.list).toBe(before);
  });

  it('asks about another notebook without the tag of the first', async () => {
    const server = ours();
    const model = modelOf(server, 'a.ipynb');
    await look(model);
    model.path = 'b.ipynb';
    const about = (path: string): Request[] =>
      server.requests.filter(
        r => new URL(r.url).searchParams.get('path') === path
      );
    await vi.waitFor(() => expect(about('b.ipynb')).not.toHaveLength(0));
    expect(about('b.ipynb')[0].headers.get('If-None-Match')).toBeNull();
  });

  it('keeps the answer to the latest question, whichever comes last', async () => {
    const waiting = new Map<string | null, (body: unknown) => void>();
    const server = serverThat(request =>
      new URL(request.url).pathname.endsWith('/wait')
        ? new Response('', { status: 404 })
        : new Promise(resolve => {
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
    waiting.get('quick.ipynb')!({ runs: [], workflow: null, store: 'quick' });
    await vi.waitFor(() => expect(model.list?.store).toBe('quick'));
    waiting.get('slow.ipynb')!({ runs: [], workflow: null, store: 'slow' });
    // One turn of the event loop: everything the late answer sets off has happened by then.
    await new Promise(resolve => setTimeout(resolve, 0));
    expect(model.list?.store).toBe('quick');
  });

  it('goes on where the last page ended, and keeps what it has when it looks again', async () => {
    const server = serverThat(request => {
      const { pathname, searchParams } = new URL(request.url);
      if (pathname.endsWith('/wait')) {
        return new Response('', { status: 404 });
      }
      const before = searchParams.get('before');
      const body = before
        ? { runs: [{ ...RUNS.runs[2], id: '2020' }], next: null }
        : { ...RUNS, workflow: null };
      return Response.json(body);
    });
    const model = modelOf(server);
    await look(model);
    await model.loadMore();
    expect(model.list?.runs).toHaveLength(4);
    expect(model.list?.next).toBeNull();
    await model.loadMore();
    expect(server.requests.filter(r => r.url.includes('before='))).toHaveLength(
      1
    );
    await model.refresh();
    expect(model.list?.runs).toHaveLength(4);
  });

  it('asks for the notebook’s own runs by themselves', async () => {
    const server = ours();
    const model = modelOf(server, 'a.ipynb');
    await look(model);
    expect(model.mine?.runs).toHaveLength(3);
    const asked = server.requests.map(r => new URL(r.url).searchParams);
    expect(asked.map(query => query.get('workflow')).filter(Boolean)).toEqual([
      'analysis/train.ipynb'
    ]);
  });

  it('asks anew when the filter changes, and only then', async () => {
    const server = ours();
    const model = modelOf(server);
    await look(model);
    const asked = count(server, '/runs');
    model.filter = { ...model.filter };
    expect(count(server, '/runs')).toBe(asked);
    model.filter = { text: 'x', status: 'failed', tag: 't' };
    await vi.waitFor(() =>
      expect(count(server, '/runs')).toBeGreaterThan(asked)
    );
    const query = new URL(server.requests.at(-1)!.url).searchParams;
    expect([query.get('text'), query.get('status'), query.get('tag')]).toEqual([
      'x',
      'failed',
      't'
    ]);
  });

  it('waits at the server for the store to change', async () => {
    let change: (() => void) | undefined;
    let token = 'one';
    const server = serverThat(request => {
      const { pathname, searchParams } = new URL(request.url);
      if (!pathname.endsWith('/wait')) {
        return Response.json({ ...RUNS, workflow: null, store: token });
      }
      return searchParams.get('since') === token
        ? new Promise(resolve => {
            change = () => {
              token = 'two';
              resolve(Response.json({ token }));
            };
          })
        : Response.json({ token });
    });
    const model = modelOf(server);
    await look(model);
    await vi.waitFor(() => expect(change).toBeDefined());
    const asked = count(server, '/runs');
    change!();
    await vi.waitFor(() => expect(model.list?.store).toBe('two'));
    expect(count(server, '/runs')).toBe(asked + 1);
  });

  it('takes what somebody has just changed before the store tells', async () => {
    const model = modelOf(ours());
    await look(model);
    model.put({ ...model.list!.runs[1], note: 'mine' });
    expect(model.list?.runs[1].note).toBe('mine');
    model.drop(FIRST);
    expect(model.list?.runs).toHaveLength(2);
  });
});

describe('an opened run', () => {
  it('shows what the list knows at once, then its steps, inner ones too', async () => {
    const server = ours();
    const model = modelOf(server, 'a.ipynb');
    await look(model);
    model.open(FIRST);
    expect(model.opened?.run?.id).toBe(FIRST);
    await vi.waitFor(() => expect(model.opened?.steps).toHaveLength(4));
    expect(model.opened?.steps.map(step => step.address)).toContain('0002.000');
  });

  it('asks for parts only when they are looked at, and once', async () => {
    const server = ours();
    const model = modelOf(server);
    await look(model);
    model.open(FIRST);
    await vi.waitFor(() => expect(model.opened?.loading).toBe(false));
    expect(count(server, '/events')).toBe(0);
    model.opened!.part('events');
    model.opened!.part('events');
    await vi.waitFor(() =>
      expect(model.opened!.part('events')).toHaveLength(6)
    );
    expect(count(server, '/events')).toBe(1);
  });

  it('says so when somebody has deleted it, and offers nothing more to do with it', async () => {
    const server = serverThat(request => {
      const { pathname } = new URL(request.url);
      return pathname.endsWith('/runs')
        ? Response.json({ ...RUNS, workflow: null })
        : Response.json({ message: 'gone', hint: 'refresh' }, { status: 404 });
    });
    const model = modelOf(server);
    await look(model);
    model.open(FIRST);
    await vi.waitFor(() =>
      expect(model.opened?.problem).toMatchObject({
        message: 'gone',
        hint: 'refresh'
      })
    );
    expect(model.opened?.run).toBeNull();
  });

  it('is closed when another store comes in front', async () => {
    const server = serverThat(request => {
      const { pathname, searchParams } = new URL(request.url);
      return pathname.endsWith('/runs')
        ? Response.json({
            ...RUNS,
            workflow: null,
            store: searchParams.get('path')
          })
        : new Response('', { status: 404 });
    });
    const model = modelOf(server, 'a.ipynb');
    await look(model);
    model.open(FIRST);
    model.path = 'other/b.ipynb';
    await vi.waitFor(() => expect(model.opened).toBeNull());
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

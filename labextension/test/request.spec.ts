import { ServerConnection } from '@jupyterlab/services';
import { describe, expect, it } from 'vitest';
import {
  decodeDiff,
  decodeEnvironment,
  decodeEvents,
  decodeGraph,
  decodePreview,
  decodePruned,
  decodeRuns,
  decodeSteps,
  decodeVerified
} from '../src/decode';
import { Api, RequestError } from '../src/request';
import type { IFakeServer } from './server';
import { serverThat } from './server';
import { wire } from './wire';

function api(server: IFakeServer, path = ''): Api {
  return new Api(server.settings, path);
}

describe('decoding what the server sends', () => {
  it('reads the list', () => {
    const list = decodeRuns(wire('runs'));
    expect(list.workflow).toBe('analysis/train.ipynb');
    expect(list.store).toBe('/home/ada/project/.nbcheckpoint');
    expect(list.next).toBe(list.runs[2].id);
    expect(list.runs.map(run => run.status)).toEqual([
      'running',
      'interrupted',
      'failed'
    ]);
    expect(list.runs[0]).toEqual({
      id: '20261116T093012345-a1b2c3',
      workflow: 'analysis/train.ipynb',
      kind: 'notebook',
      status: 'running',
      created: '2026-11-16T09:30:12.345Z',
      updated: '2026-11-16T09:41:40.000Z',
      note: '',
      tags: [],
      pinned: false,
      sessions: 2,
      steps: { completed: 2, restored: 3, running: 1 },
      bytes: 432013312,
      computedSeconds: 41.5,
      sparedSeconds: 724.2,
      trusted: true,
      progress: { done: 37, total: 100, left: 25.2, inside: [[21, 50]] }
    });
    expect(list.runs[1]).toMatchObject({
      pinned: true,
      note: 'before the new features',
      tags: ['baseline']
    });
    expect(list.runs[2].trusted).toBe(false);
  });

  it('reads the steps of a run', () => {
    const steps = decodeSteps(wire('run'));
    expect(steps.map(step => step.status)).toEqual([
      'restored',
      'completed',
      'failed'
    ]);
    expect(steps[1]).toEqual({
      address: '0002',
      name: 'train',
      kind: 'loop',
      status: 'completed',
      started: '2026-11-16T09:30:14.000Z',
      seconds: 41.5,
      session: 0,
      code: '',
      attempt: 1,
      bytes: 432013312,
      reason: 'helper clean() changed',
      error: '',
      checkpoint: '',
      cell: 'c0ffee02',
      progress: null,
      pause: null
    });
    expect(steps[2]).toMatchObject({
      attempt: 2,
      reason: '',
      error: 'ValueError: shapes do not match'
    });
  });

  it('reads every other answer', () => {
    expect(decodeSteps(wire('steps'))[2]).toMatchObject({
      address: '0002.000',
      progress: { done: 37, total: 100, left: 25.2 }
    });
    expect(decodeEvents(wire('events'))[4]).toMatchObject({
      type: 'pause_opened',
      step: '0003',
      data: { name: 'gate' }
    });
    const graph = decodeGraph(wire('graph'));
    expect(graph.nodes[1]).toMatchObject({ label: 'train', critical: true });
    expect(graph.edges[0].points).toEqual([
      [48, 44],
      [48, 80]
    ]);
    const preview = decodePreview(wire('preview'));
    expect(preview.values.map(value => value.name)).toEqual(['model', 'df']);
    expect(preview.outputs.map(shown => shown.kind)).toEqual([
      'text',
      'text',
      'image/png',
      'error'
    ]);
    expect(preview.outputs[2].text).toMatch(/^iVBOR/);
    expect(decodeDiff(wire('diff')).values[1]).toMatchObject({
      name: 'tmp',
      change: 'removed'
    });
    expect(decodeEnvironment(wire('environment')).differs[0]).toHaveProperty(
      'now'
    );
    expect(decodePruned(wire('pruned'))).toHaveProperty('runs');
    expect(decodeVerified(wire('verified')).problems.join()).not.toBe('');
  });

  it('reads a pause with what may be answered', () => {
    const pause = { name: 'gate', prompt: 'Go on?', choices: ['yes', 'no'] };
    const [step] = decodeSteps({
      steps: [{ kind: 'pause', status: 'paused', meta: { pause } }]
    });
    expect(step.pause).toEqual({ ...pause, default: null });
  });

  it('bears fields that are missing, new or of another type', () => {
    const { runs } = decodeRuns({
      runs: [{ id: 'x', steps: null, bytes: '9', status: 'levitating', new: 1 }]
    });
    expect(runs[0]).toMatchObject({
      id: 'x',
      steps: {},
      bytes: 0,
      status: 'interrupted',
      trusted: true
    });
  });

  it.each([null, [], 'runs', {}, { runs: {} }])(
    'refuses %j as a list of runs',
    body => {
      expect(() => decodeRuns(body)).toThrow(TypeError);
    }
  );
});

describe('changing something', () => {
  it.each<[string, (server: Api) => Promise<unknown>, string, string, unknown]>(
    [
      ['pin', a => a.pin('r', true), 'POST', 'runs/r/pin', {}],
      ['unpin', a => a.pin('r', false), 'POST', 'runs/r/unpin', {}],
      ['note', a => a.note('r', ''), 'POST', 'runs/r/note', { text: '' }],
      [
        'answer',
        a => a.answer('r', 'gate', ''),
        'POST',
        'runs/r/answer',
        { pause: 'gate', value: '' }
      ]
    ]
  )('%s is one request', async (_, act, method, address, body) => {
    const server = serverThat(() => Response.json(wire('changed')));
    await act(api(server, 'a.ipynb'));
    const [request] = server.requests;
    expect(request.method).toBe(method);
    expect(new URL(request.url).pathname).toBe(
      `/base/nbcheckpoint/api/${address}`
    );
    expect(new URL(request.url).searchParams.get('path')).toBe('a.ipynb');
    expect(await request.json()).toEqual(body);
  });

  it('delete names the run and nothing else', async () => {
    const server = serverThat(() => Response.json(wire('pruned')));
    await api(server).delete('r/../x');
    expect(server.requests[0].method).toBe('DELETE');
    expect(new URL(server.requests[0].url).pathname).toBe(
      '/base/nbcheckpoint/api/runs/r%2F..%2Fx'
    );
  });

  it('export takes the name the server gives', async () => {
    const named = { 'Content-Disposition': 'attachment; filename="a.zip"' };
    const server = serverThat(() => new Response('PK', { headers: named }));
    const { data, name } = await api(server).export('r');
    expect([await data.text(), name]).toEqual(['PK', 'a.zip']);
  });
});

describe('asking', () => {
  it('goes to our address below the base URL, for the notebook and page asked about', async () => {
    const server = serverThat(() => Response.json(wire('runs')));
    await api(server, 'ä b/c&d.ipynb').runs({ limit: 50 });
    const url = new URL(server.requests[0].url);
    expect(url.pathname).toBe('/base/nbcheckpoint/api/runs');
    expect([...url.searchParams]).toEqual([
      ['path', 'ä b/c&d.ipynb'],
      ['limit', '50']
    ]);
  });

  it('leaves out what is not asked for', async () => {
    const server = serverThat(() => Response.json(wire('runs')));
    await api(server).runs({ text: '', tag: '' });
    expect(new URL(server.requests[0].url).search).toBe('');
  });

  it('hands the tag back, and understands "as before"', async () => {
    const server = serverThat(request =>
      request.headers.get('If-None-Match') === '"one"'
        ? new Response(null, { status: 304 })
        : Response.json(wire('runs'), { headers: { ETag: '"one"' } })
    );
    const first = await api(server).runs({});
    expect(first?.etag).toBe('"one"');
    expect(first?.list.runs).toHaveLength(3);
    expect(await api(server).runs({}, first!.etag)).toBeNull();
    expect(await api(server).runs({}, null)).not.toBeNull();
  });

  it('asks for a run by its id, whatever is in it', async () => {
    const server = serverThat(() => Response.json(wire('run')));
    await api(server, 'a.ipynb').run('../x?y');
    const url = new URL(server.requests[0].url);
    expect(url.pathname).toBe('/base/nbcheckpoint/api/runs/..%2Fx%3Fy');
    expect(url.searchParams.get('path')).toBe('a.ipynb');
  });

  it('passes a refusal on in the words of the server', async () => {
    const server = serverThat(() =>
      Response.json(wire('refusal'), { status: 400 })
    );
    const error = await api(server)
      .runs({})
      .catch(e => e as unknown);
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({
      ...(wire('refusal') as object),
      status: 400
    });
    expect((error as RequestError).isMissing).toBe(false);
  });

  it('can tell an unknown run from a server without our extension', async () => {
    const body = { message: 'no run x', hint: 'list them' };
    const ours = serverThat(() => Response.json(body, { status: 404 }));
    const theirs = serverThat(
      () => new Response('<html>404</html>', { status: 404 })
    );
    const asked = [ours, theirs].map(server =>
      api(server)
        .run('x')
        .catch(error => (error as RequestError).isMissing)
    );
    expect(await Promise.all(asked)).toEqual([false, true]);
  });

  it('lets a network failure be one', async () => {
    const server = serverThat(() => {
      throw new TypeError('fetch failed');
    });
    await expect(api(server).runs({})).rejects.toBeInstanceOf(
      ServerConnection.NetworkError
    );
  });
});

import { ServerConnection } from '@jupyterlab/services';
import { describe, expect, it } from 'vitest';
import {
  RequestError,
  decodeRuns,
  decodeSteps,
  fetchRuns,
  fetchSteps
} from '../src/request';
import { serverThat } from './server';
import { wire } from './wire';

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
      pinned: false,
      sessions: 2,
      steps: { completed: 2, restored: 3, running: 1 },
      bytes: 432013312,
      computedSeconds: 41.5,
      sparedSeconds: 724.2,
      trusted: true
    });
    expect(list.runs[1]).toMatchObject({
      pinned: true,
      note: 'before the new features'
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
      attempt: 1,
      bytes: 432013312,
      reason: 'helper clean() changed',
      error: ''
    });
    expect(steps[2]).toMatchObject({
      attempt: 2,
      reason: '',
      error: 'ValueError: shapes do not match'
    });
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

describe('asking', () => {
  it('goes to our address below the base URL, for the notebook and page asked about', async () => {
    const server = serverThat(() => Response.json(wire('runs')));
    await fetchRuns(server.settings, { path: 'ä b/c&d.ipynb', limit: 50 });
    const url = new URL(server.requests[0].url);
    expect(url.pathname).toBe('/base/nbcheckpoint/api/runs');
    expect([...url.searchParams]).toEqual([
      ['path', 'ä b/c&d.ipynb'],
      ['limit', '50']
    ]);
  });

  it('leaves out what is not asked for', async () => {
    const server = serverThat(() => Response.json(wire('runs')));
    await fetchRuns(server.settings, { path: '' });
    expect(new URL(server.requests[0].url).search).toBe('');
  });

  it('hands the tag back, and understands "as before"', async () => {
    const server = serverThat(request =>
      request.headers.get('If-None-Match') === '"one"'
        ? new Response(null, { status: 304 })
        : Response.json(wire('runs'), { headers: { ETag: '"one"' } })
    );
    const first = await fetchRuns(server.settings, {});
    expect(first?.etag).toBe('"one"');
    expect(first?.list.runs).toHaveLength(3);
    expect(await fetchRuns(server.settings, {}, first!.etag)).toBeNull();
    expect(await fetchRuns(server.settings, {}, null)).not.toBeNull();
  });

  it('asks for a run by its id, whatever is in it', async () => {
    const server = serverThat(() => Response.json(wire('run')));
    await fetchSteps(server.settings, '../x?y', 'a.ipynb');
    const url = new URL(server.requests[0].url);
    expect(url.pathname).toBe('/base/nbcheckpoint/api/runs/..%2Fx%3Fy');
    expect(url.searchParams.get('path')).toBe('a.ipynb');
  });

  it('passes a refusal on in the words of the server', async () => {
    const server = serverThat(() =>
      Response.json(wire('refusal'), { status: 400 })
    );
    const error = await fetchRuns(server.settings, {}).catch(e => e as unknown);
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
      fetchSteps(server.settings, 'x', '').catch(
        error => (error as RequestError).isMissing
      )
    );
    expect(await Promise.all(asked)).toEqual([false, true]);
  });

  it('lets a network failure be one', async () => {
    const server = serverThat(() => {
      throw new TypeError('fetch failed');
    });
    await expect(fetchRuns(server.settings, {})).rejects.toBeInstanceOf(
      ServerConnection.NetworkError
    );
  });
});

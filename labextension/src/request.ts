/**
 * Asking the server extension. One method for each route; every one takes the notebook on whose behalf is asked, because
 * that decides the store.
 */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import {
  decodeDiff,
  decodeEnvironment,
  decodeEvents,
  decodeGraph,
  decodeLeft,
  decodePreview,
  decodePruned,
  decodeRun,
  decodeRuns,
  decodeSteps,
  decodeVerified,
  fields,
  text
} from './decode';
import type { Fields } from './decode';
import type {
  IDiff,
  IEnvironment,
  IEvent,
  IFilter,
  IGraph,
  ILeft,
  IPreview,
  IProblem,
  IPruned,
  IRun,
  IRunList,
  IStep,
  IVerified
} from './tokens';

const API = 'nbcheckpoint/api';

/**
 * A refusal by the server, in its own words.
 */
export class RequestError extends Error implements IProblem {
  constructor(
    message: string,
    readonly status: number,
    readonly hint: string
  ) {
    super(message);
    this.name = 'RequestError';
  }

  /**
   * Whether the server does not know our routes at all.
   *
   * Our own "not found" carries a hint; the server's page for unknown addresses does not.
   */
  get isMissing(): boolean {
    return this.status === 404 && !this.hint;
  }

  /**
   * Whether what was asked about is not in the store, or not any more.
   */
  get isGone(): boolean {
    return this.status === 404 && !this.isMissing;
  }
}

/**
 * What can be asked of the list.
 */
export interface IRunsQuery extends Partial<IFilter> {
  limit?: number;
  before?: string;
  workflow?: string;
}

/**
 * A list together with the tag that lets the server say "as before".
 */
export interface ITaggedList {
  list: IRunList;
  etag: string | null;
}

/**
 * A page of steps.
 */
export interface IStepPage {
  steps: IStep[];

  /**
   * From where the next page goes on; null on the last one.
   */
  next: string | null;
}

/**
 * What is kept when the store is pruned.
 */
export interface IPruneOptions {
  older_than: string;
  keep: number;
}

type Query = Record<string, string | number | undefined>;

/**
 * The server's store, as seen from one notebook.
 */
export class Api {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    readonly path: string = ''
  ) {}

  /**
   * A page of runs, or null when it is what `etag` stands for.
   */
  async runs(
    query: IRunsQuery,
    etag: string | null = null
  ): Promise<ITaggedList | null> {
    const response = await this._request('runs', { ...query }, etag);
    if (response.status === 304) {
      return null;
    }
    const list = decodeRuns(await response.json());
    return { list, etag: response.headers.get('ETag') };
  }

  /**
   * One run with its outer steps.
   */
  async run(id: string): Promise<{ run: IRun; steps: IStep[] }> {
    const body = await this._get(runAddress(id));
    return { run: decodeRun(fields(body).run), steps: decodeSteps(body) };
  }

  /**
   * A page of all its steps, inner ones too.
   */
  async steps(id: string, after: string, limit: number): Promise<IStepPage> {
    const body = await this._get(runAddress(id, 'steps'), {
      inner: 1,
      after,
      limit
    });
    return { steps: decodeSteps(body), next: text(fields(body).next) || null };
  }

  async events(id: string): Promise<IEvent[]> {
    return decodeEvents(await this._get(runAddress(id, 'events')));
  }

  async graph(id: string): Promise<IGraph> {
    return decodeGraph(await this._get(runAddress(id, 'graph')));
  }

  async environment(id: string): Promise<IEnvironment> {
    return decodeEnvironment(await this._get(runAddress(id, 'environment')));
  }

  async preview(checkpoint: string): Promise<IPreview> {
    const id = encodeURIComponent(checkpoint);
    return decodePreview(await this._get(`checkpoints/${id}/preview`));
  }

  async left(checkpoint: string): Promise<ILeft> {
    const id = encodeURIComponent(checkpoint);
    return decodeLeft(await this._get(`checkpoints/${id}`));
  }

  async diff(a: string, b: string): Promise<IDiff> {
    return decodeDiff(await this._get('diff', { a, b }));
  }

  /**
   * Something that changes when the store does; comes when it is not `since` any more, or after so many seconds.
   */
  async wait(
    since: string,
    seconds: number,
    signal?: AbortSignal
  ): Promise<string> {
    const query = { since, seconds: since ? seconds : undefined };
    const response = await this._request('wait', query, null, { signal });
    return text(fields(await response.json()).token);
  }

  async answer(id: string, pause: string, value: unknown): Promise<IRun> {
    return this._changeRun(id, 'answer', { pause, value });
  }

  async pin(id: string, pinned: boolean): Promise<IRun> {
    return this._changeRun(id, pinned ? 'pin' : 'unpin', {});
  }

  async note(id: string, note: string): Promise<IRun> {
    return this._changeRun(id, 'note', { text: note });
  }

  async delete(id: string): Promise<void> {
    await this._request(runAddress(id), {}, null, { method: 'DELETE' });
  }

  async prune(dryRun: boolean, options: IPruneOptions): Promise<IPruned> {
    return decodePruned(
      await this._post('prune', { dry_run: dryRun, ...options })
    );
  }

  async verify(repair: boolean): Promise<IVerified> {
    return decodeVerified(await this._post('verify', { repair }));
  }

  /**
   * A run in one file, and what that is called.
   */
  async export(id: string): Promise<{ data: Blob; name: string }> {
    const response = await this._request(runAddress(id, 'export'), {}, null);
    const header = response.headers.get('Content-Disposition') ?? '';
    const name = /filename="?([^";]+)"?/.exec(header)?.[1];
    return { data: await response.blob(), name: name ?? `${id}.zip` };
  }

  async import(archive: Blob): Promise<void> {
    await this._request('import', {}, null, {
      method: 'POST',
      body: archive,
      headers: { 'Content-Type': 'application/zip' }
    });
  }

  private async _changeRun(
    id: string,
    verb: string,
    body: Fields
  ): Promise<IRun> {
    return decodeRun(fields(await this._post(runAddress(id, verb), body)).run);
  }

  private async _get(address: string, query: Query = {}): Promise<unknown> {
    return (await this._request(address, query, null)).json();
  }

  private async _post(address: string, body: Fields): Promise<unknown> {
    const response = await this._request(address, {}, null, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' }
    });
    return response.json();
  }

  private async _request(
    address: string,
    query: Query,
    etag: string | null,
    init: RequestInit = {}
  ): Promise<Response> {
    const url = new URL(URLExt.join(this._settings.baseUrl, API, address));
    for (const [name, value] of Object.entries({ path: this.path, ...query })) {
      if (value !== undefined && value !== '') {
        url.searchParams.set(name, String(value));
      }
    }
    const response = await ServerConnection.makeRequest(
      url.href,
      {
        // Not `no-store`: that would make the address new each time. With a tag of our own the browser keeps out of it.
        cache: 'no-cache',
        ...init,
        headers: {
          ...(etag ? { 'If-None-Match': etag } : {}),
          ...init.headers
        }
      },
      this._settings
    );
    if (!response.ok && response.status !== 304) {
      throw await refusal(response);
    }
    return response;
  }
}

function runAddress(id: string, verb = ''): string {
  return URLExt.join('runs', encodeURIComponent(id), verb);
}

async function refusal(response: Response): Promise<RequestError> {
  let body: Fields = {};
  try {
    body = fields(await response.json());
  } catch {
    // Not JSON, so not from us: the status alone has to do.
  }
  return new RequestError(
    text(body.message) || `${response.status} ${response.statusText}`,
    response.status,
    text(body.hint)
  );
}

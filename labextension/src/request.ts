/**
 * Asking the server extension, and reading its answers.
 *
 * What comes back is decoded field by field: a server of another version may add fields or leave some out, and a view
 * must never meet `undefined` where it expects a number.
 */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type {
  IProblem,
  IRun,
  IRunList,
  IStep,
  RunStatus,
  StepStatus
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
}

/**
 * What can be asked of the list.
 */
export interface IRunsQuery {
  /**
   * The notebook on whose behalf is asked; it decides the store.
   */
  path?: string;
  limit?: number;
  before?: string;
}

/**
 * A list together with the tag that lets the server say "as before".
 */
export interface ITaggedList {
  list: IRunList;
  etag: string | null;
}

/**
 * Fetch a page of runs.
 *
 * @returns null when it is what `etag` stands for.
 */
export async function fetchRuns(
  settings: ServerConnection.ISettings,
  query: IRunsQuery,
  etag: string | null = null
): Promise<ITaggedList | null> {
  const response = await request(settings, 'runs', { ...query }, etag);
  if (response.status === 304) {
    return null;
  }
  const list = decodeRuns(await response.json());
  return { list, etag: response.headers.get('ETag') };
}

/**
 * Fetch the steps of one run.
 */
export async function fetchSteps(
  settings: ServerConnection.ISettings,
  id: string,
  path: string
): Promise<IStep[]> {
  const response = await request(
    settings,
    `runs/${encodeURIComponent(id)}`,
    { path },
    null
  );
  return decodeSteps(await response.json());
}

async function request(
  settings: ServerConnection.ISettings,
  address: string,
  query: Record<string, string | number | undefined>,
  etag: string | null
): Promise<Response> {
  const url = new URL(URLExt.join(settings.baseUrl, API, address));
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') {
      url.searchParams.set(name, String(value));
    }
  }
  const response = await ServerConnection.makeRequest(
    url.href,
    {
      // Not `no-store`: that would make the address new each time. With a tag of our own the browser keeps out of it.
      cache: 'no-cache',
      headers: etag ? { 'If-None-Match': etag } : {}
    },
    settings
  );
  if (!response.ok && response.status !== 304) {
    throw await refusal(response);
  }
  return response;
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

type Fields = Record<string, unknown>;

const RUN_STATUSES: ReadonlySet<string> = new Set<RunStatus>([
  'running',
  'paused',
  'interrupted',
  'failed',
  'completed',
  'cancelled'
]);

const STEP_STATUSES: ReadonlySet<string> = new Set<StepStatus>([
  'pending',
  'running',
  'completed',
  'restored',
  'failed',
  'interrupted',
  'paused',
  'skipped'
]);

/**
 * Read the answer of `GET runs`.
 *
 * @throws when it is not one.
 */
export function decodeRuns(body: unknown): IRunList {
  const { runs, store, workflow, next } = fields(body);
  return {
    runs: list(runs, 'runs').map(decodeRun),
    store: text(store) || null,
    workflow: text(workflow) || null,
    next: text(next) || null
  };
}

/**
 * Read the answer of `GET runs/{id}`.
 *
 * @throws when it is not one.
 */
export function decodeSteps(body: unknown): IStep[] {
  return list(fields(body).steps, 'steps').map(decodeStep);
}

function decodeRun(body: unknown): IRun {
  const run = fields(body);
  return {
    id: text(run.id),
    workflow: text(run.workflow),
    kind: text(run.kind) || 'notebook',
    status: word<RunStatus>(run.status, RUN_STATUSES, 'interrupted'),
    created: text(run.created),
    updated: text(run.updated) || text(run.created),
    note: text(run.note),
    pinned: run.pinned === true,
    sessions: number(run.sessions) || 1,
    steps: counts(run.steps),
    bytes: number(run.bytes),
    computedSeconds: number(run.computed_seconds),
    sparedSeconds: number(run.spared_seconds),
    trusted: run.trusted !== false
  };
}

function decodeStep(body: unknown): IStep {
  const step = fields(body);
  const reason = step.reason ? fields(step.reason) : {};
  return {
    address: text(step.address),
    name: text(step.name),
    kind: text(step.kind) || 'cell',
    status: word<StepStatus>(step.status, STEP_STATUSES, 'pending'),
    started: text(step.started),
    seconds: number(step.seconds),
    attempt: number(step.attempt) || 1,
    bytes: number(step.bytes),
    reason: text(reason.text),
    error: text(step.error)
  };
}

function fields(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new TypeError('The server sent something other than a record.');
  }
  return value as Fields;
}

function list(value: unknown, name: string): unknown[] {
  if (!Array.isArray(value)) {
    throw new TypeError(`The server sent no list of ${name}.`);
  }
  return value;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function number(value: unknown): number {
  return typeof value === 'number' && isFinite(value) ? value : 0;
}

function word<T extends string>(
  value: unknown,
  known: ReadonlySet<string>,
  otherwise: T
): T {
  return known.has(text(value)) ? (value as T) : otherwise;
}

function counts(value: unknown): Record<string, number> {
  const entries = value ? Object.entries(fields(value)) : [];
  return Object.fromEntries(
    entries.map(([name, count]) => [name, number(count)])
  );
}

/**
 * Reading what the server sends.
 *
 * Field by field: a server of another version may add fields or leave some out, and a view must never meet `undefined`
 * where it expects a number.
 */

import type {
  IChangedFact,
  IDiff,
  IDifference,
  IEnvironment,
  IEvent,
  IGraph,
  IGraphEdge,
  IGraphNode,
  ILeft,
  IPause,
  IPreview,
  IProgress,
  IPruned,
  IRun,
  IRunList,
  IShown,
  IStep,
  IValue,
  IVerified,
  RunStatus,
  StepStatus
} from './tokens';

/**
 * A record nobody has looked at yet.
 */
export type Fields = Record<string, unknown>;

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

/**
 * Read one run.
 */
export function decodeRun(body: unknown): IRun {
  const run = fields(body);
  return {
    id: text(run.id),
    workflow: text(run.workflow),
    kind: text(run.kind) || 'notebook',
    status: word<RunStatus>(run.status, RUN_STATUSES, 'interrupted'),
    created: text(run.created),
    updated: text(run.updated) || text(run.created),
    note: text(run.note),
    tags: texts(run.tags),
    pinned: run.pinned === true,
    sessions: number(run.sessions) || 1,
    steps: counts(run.steps),
    bytes: number(run.bytes),
    computedSeconds: number(run.computed_seconds),
    sparedSeconds: number(run.spared_seconds),
    trusted: run.trusted !== false,
    progress: decodeProgress(maybe(run.progress))
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
    error: text(step.error),
    checkpoint: text(step.checkpoint),
    cell: text(step.cell),
    session: number(maybe(step.meta).session),
    code: text(maybe(step.meta).code),
    progress: decodeProgress(maybe(step.meta)),
    pause: decodePause(maybe(maybe(step.meta).pause))
  };
}

function decodeProgress(meta: Fields): IProgress | null {
  return typeof meta.done === 'number'
    ? {
        done: number(meta.done),
        total: number(meta.total),
        left: typeof meta.left === 'number' ? meta.left : null,
        inside: pairs(meta.inside)
      }
    : null;
}

function decodePause(pause: Fields): IPause | null {
  return text(pause.name)
    ? {
        name: text(pause.name),
        prompt: text(pause.prompt),
        choices: Array.isArray(pause.choices) ? pause.choices : null,
        default: pause.default ?? null
      }
    : null;
}

/**
 * Read the answer of `GET runs/{id}/events`.
 */
export function decodeEvents(body: unknown): IEvent[] {
  return list(fields(body).events, 'events').map(item => {
    const event = fields(item);
    return {
      type: text(event.type),
      time: text(event.time),
      step: text(event.step),
      data: maybe(event.data)
    };
  });
}

/**
 * Read the answer of `GET runs/{id}/graph`.
 */
export function decodeGraph(body: unknown): IGraph {
  const { nodes, edges, width, height } = fields(body);
  return {
    nodes: list(nodes, 'nodes').map(decodeNode),
    edges: list(edges, 'edges').map(decodeEdge),
    width: number(width),
    height: number(height)
  };
}

function decodeNode(body: unknown): IGraphNode {
  const node = fields(body);
  return {
    id: text(node.id),
    label: text(node.label),
    kind: text(node.kind),
    status: word<StepStatus>(node.status, STEP_STATUSES, 'pending'),
    seconds: number(node.seconds),
    address: text(node.address),
    x: number(node.x),
    y: number(node.y),
    width: number(node.width),
    height: number(node.height),
    critical: node.critical === true
  };
}

function decodeEdge(body: unknown): IGraphEdge {
  const edge = fields(body);
  return {
    source: text(edge.source),
    target: text(edge.target),
    label: text(edge.label),
    points: pairs(edge.points)
  };
}

/**
 * Read the answer of `GET runs/{id}/environment`.
 */
export function decodeEnvironment(body: unknown): IEnvironment {
  const { then, now, differs } = fields(body);
  const told = (facts: unknown): Record<string, string> =>
    Object.fromEntries(
      Object.entries(maybe(facts)).map(([name, value]) => [name, said(value)])
    );
  return {
    then: told(then),
    now: told(now),
    differs: list(differs, 'differences').map((item): IChangedFact => {
      const fact = fields(item);
      return {
        name: text(fact.name),
        then: said(fact.then),
        now: said(fact.now)
      };
    })
  };
}

/**
 * Read the answer of `GET checkpoints/{id}/preview`.
 */
export function decodePreview(body: unknown): IPreview {
  const { values, outputs, source } = fields(body);
  return {
    values: list(values, 'values').map(decodeValue),
    outputs: list(outputs, 'outputs').map(decodeShown),
    source: text(source)
  };
}

/**
 * Read the answer of `GET checkpoints/{id}`.
 */
export function decodeLeft(body: unknown): ILeft {
  const { values, deleted } = fields(fields(body).checkpoint);
  return {
    values: list(values, 'values').map(decodeValue),
    deleted: texts(deleted)
  };
}

function decodeValue(body: unknown): IValue {
  const value = fields(body);
  return {
    name: text(value.name),
    type: text(value.type),
    size: number(value.size),
    shape: text(value.shape),
    preview: text(value.preview)
  };
}

function decodeShown(body: unknown): IShown {
  const shown = fields(body);
  return shown.kind === 'image/png'
    ? { kind: 'image/png', text: text(shown.data) }
    : {
        kind: shown.kind === 'error' ? 'error' : 'text',
        text: text(shown.text)
      };
}

/**
 * Read the answer of `GET diff`.
 */
export function decodeDiff(body: unknown): IDiff {
  const { values, inputs, code, same_code } = fields(body);
  return {
    values: list(values, 'values').map(decodeDifference),
    inputs: list(inputs, 'inputs').map(decodeDifference),
    code: texts(code),
    sameCode: same_code !== false
  };
}

function decodeDifference(body: unknown): IDifference {
  const row = fields(body);
  return {
    name: text(row.name),
    change: word<IDifference['change']>(
      row.change,
      new Set(['added', 'removed', 'changed', 'maybe']),
      'maybe'
    ),
    before: text(row.before),
    after: text(row.after)
  };
}

/**
 * Read the answer of `POST prune`.
 */
export function decodePruned(body: unknown): IPruned {
  const pruned = fields(body);
  return {
    runs: Array.isArray(pruned.runs) ? pruned.runs.length : 0,
    checkpoints: Array.isArray(pruned.checkpoints)
      ? pruned.checkpoints.length
      : 0,
    bytes: number(pruned.bytes),
    notes: texts(pruned.notes)
  };
}

/**
 * Read the answer of `POST verify`.
 */
export function decodeVerified(body: unknown): IVerified {
  const found = fields(body);
  const problems = Array.isArray(found.problems)
    ? found.problems.map(maybe)
    : [];
  return {
    records: number(found.records),
    chunks: number(found.chunks),
    bytes: number(found.bytes),
    problems: problems.map(problem => text(problem.text)),
    isIndexDamaged: problems.some(problem => problem.kind === 'index'),
    clean: found.clean !== false,
    notes: texts(found.notes)
  };
}

/**
 * A record, or a complaint.
 */
export function fields(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new TypeError('The server sent something other than a record.');
  }
  return value as Fields;
}

/**
 * A record, or an empty one.
 */
export function maybe(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Fields)
    : {};
}

function list(value: unknown, name: string): unknown[] {
  if (!Array.isArray(value)) {
    throw new TypeError(`The server sent no list of ${name}.`);
  }
  return value;
}

/**
 * A text, or an empty one.
 */
export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function texts(value: unknown): string[] {
  return Array.isArray(value)
    ? value.filter((item): item is string => typeof item === 'string')
    : [];
}

function pairs(value: unknown): (readonly [number, number])[] {
  return (Array.isArray(value) ? (value as unknown[]) : [])
    .filter((item): item is unknown[] => Array.isArray(item))
    .map(item => [number(item[0]), number(item[1])] as const);
}

/**
 * Whatever it is, as text.
 */
export function said(value: unknown): string {
  return typeof value === 'string'
    ? value
    : value === null || value === undefined
      ? ''
      : JSON.stringify(value);
}

/**
 * A number, or 0.
 */
export function number(value: unknown): number {
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

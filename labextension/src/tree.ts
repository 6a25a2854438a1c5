/**
 * Steps as a tree: a cell with its statements, a loop with its iterations, a map with its items. Pure.
 *
 * The tree is in the addresses: `000004.002` belongs to `000004`. What has something inside is folded, and says how much,
 * until somebody opens it.
 */

import type { IStep, StepStatus } from './tokens';
import type { IRow } from './windowing';

export interface IStepRow extends IRow {
  readonly step: IStep;

  /**
   * From 1.
   */
  readonly level: number;

  /**
   * Whether its inner steps are shown; null if it has none.
   */
  readonly isOpen: boolean | null;

  /**
   * Status -> how many of the steps inside have it.
   */
  readonly inside: Readonly<Partial<Record<StepStatus, number>>>;
  readonly aria: {
    'aria-level': number;
    'aria-expanded'?: boolean;
    'aria-label': string;
  };
}

/**
 * The rows to show.
 *
 * @param steps In the order of their addresses.
 * @param open The addresses of those that are opened.
 * @param say A step in one sentence.
 */
export function stepRows(
  steps: ReadonlyArray<IStep>,
  open: ReadonlySet<string>,
  say: (step: IStep) => string
): IStepRow[] {
  const rows: IStepRow[] = [];
  const above: { step: IStep; inside: IStepRow['inside'] }[] = [];
  // Counted while going through once: ten thousand steps are not searched for each of them.
  const inside = new Map<string, Partial<Record<StepStatus, number>>>();
  for (const step of steps) {
    while (above.length > 0 && !isInside(step, above[above.length - 1].step)) {
      above.pop();
    }
    const mine = {};
    inside.set(step.address, mine);
    const parent = above[above.length - 1];
    if (parent) {
      const counts = inside.get(parent.step.address)!;
      counts[step.status] = (counts[step.status] ?? 0) + 1;
    }
    if (above.every(outer => open.has(outer.step.address))) {
      rows.push(row(step, above.length + 1, mine, say(step)));
    }
    above.push({ step, inside: mine });
  }
  return rows.map(item => opened(item, open));
}

function isInside(step: IStep, outer: IStep): boolean {
  return step.address.startsWith(`${outer.address}.`);
}

function row(
  step: IStep,
  level: number,
  inside: IStepRow['inside'],
  label: string
): IStepRow {
  return {
    key: step.address,
    lines: step.error ? 3 : 2,
    isItem: true,
    step,
    level,
    isOpen: null,
    inside,
    aria: { 'aria-level': level, 'aria-label': label }
  };
}

/**
 * Only at the end is it known whether there was anything inside.
 */
function opened(item: IStepRow, open: ReadonlySet<string>): IStepRow {
  if (Object.keys(item.inside).length === 0) {
    return item;
  }
  const isOpen = open.has(item.step.address);
  return { ...item, isOpen, aria: { ...item.aria, 'aria-expanded': isOpen } };
}

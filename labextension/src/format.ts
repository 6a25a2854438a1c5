/**
 * How times, durations and sizes read. Pure, and the same words as the line under a cell.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { IProgress, IStep, RunStatus, StepStatus } from './tokens';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * A duration: `41 ms`, `3.2 s`, `12m 04s`, `2h 07m`, `3d 04h`.
 */
export function duration(seconds: number): string {
  if (!(seconds > 0)) {
    return '0 ms';
  }
  // The limits are where rounding would reach the next unit: never "1000 ms", never "60.0 s".
  if (seconds < 0.9995) {
    return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  }
  if (seconds < 59.95) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  if (whole < HOUR) {
    return `${Math.floor(whole / MINUTE)}m ${twoDigits(whole % MINUTE)}s`;
  }
  const minutes = Math.floor(whole / MINUTE);
  if (whole < DAY) {
    return `${Math.floor(minutes / 60)}h ${twoDigits(minutes % 60)}m`;
  }
  const hours = Math.floor(whole / HOUR);
  return `${Math.floor(hours / 24)}d ${twoDigits(hours % 24)}h`;
}

function twoDigits(n: number): string {
  return String(n).padStart(2, '0');
}

/**
 * A whole number, readable also when it is large: `1,000,000`, as under a cell.
 */
export function grouped(count: number): string {
  return count.toLocaleString('en');
}

/**
 * A number of bytes, in powers of 1000: `812 B`, `4.2 kB`, `412 MB`.
 */
export function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let value = Math.max(0, bytes);
  let unit = 0;
  // 999.5 would be rounded to "1000": it belongs to the next unit.
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit > 0 && value < 9.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/**
 * How long ago something was. What lies in the future (two machines, two clocks) was just now.
 */
export function ago(
  iso: string,
  now: number,
  trans: TranslationBundle
): string {
  const then = Date.parse(iso);
  if (isNaN(then)) {
    return '';
  }
  const seconds = (now - then) / 1000;
  if (seconds < 5) {
    return trans.__('just now');
  }
  if (seconds < MINUTE) {
    return trans.__('%1 s ago', Math.floor(seconds));
  }
  if (seconds < HOUR) {
    return trans.__('%1 min ago', Math.floor(seconds / MINUTE));
  }
  if (seconds < DAY) {
    return trans.__('%1 h ago', Math.floor(seconds / HOUR));
  }
  const days = Math.floor(seconds / DAY);
  if (days < 30) {
    return trans._n('%1 day ago', '%1 days ago', days);
  }
  return new Date(then).toLocaleDateString();
}

/**
 * The exact time, in the reader's own zone.
 */
export function exactTime(iso: string): string {
  const then = Date.parse(iso);
  return isNaN(then)
    ? ''
    : new Date(then).toLocaleString(undefined, {
        dateStyle: 'medium',
        timeStyle: 'medium'
      });
}

/**
 * A run's status, as a word for people.
 */
export function runStatus(status: RunStatus, trans: TranslationBundle): string {
  const words: Record<RunStatus, string> = {
    running: trans.__('Running'),
    paused: trans.__('Paused'),
    interrupted: trans.__('Interrupted'),
    failed: trans.__('Failed'),
    completed: trans.__('Completed'),
    cancelled: trans.__('Cancelled')
  };
  return words[status];
}

/**
 * A step's status, as a word for people. A step that was completed by running is "computed", as under its cell.
 */
export function stepStatus(
  status: StepStatus,
  trans: TranslationBundle
): string {
  const words: Record<StepStatus, string> = {
    pending: trans.__('pending'),
    running: trans.__('running'),
    completed: trans.__('computed'),
    restored: trans.__('restored'),
    failed: trans.__('failed'),
    interrupted: trans.__('interrupted'),
    paused: trans.__('paused'),
    skipped: trans.__('skipped')
  };
  return words[status];
}

/**
 * A path's last part and what comes before it, so that the view can give way in the right place.
 */
export function splitPath(path: string): { folder: string; name: string } {
  const end = path.lastIndexOf('/') + 1;
  // A name that ends in a slash is all name: nothing of it may get lost.
  return end === path.length
    ? { folder: '', name: path }
    : { folder: path.slice(0, end), name: path.slice(end) };
}

/**
 * Where a store is, as seen from the server's root: what lies above it is the same for everything on the page.
 *
 * @param root The root as the server tells it, where the home directory may be written `~`.
 */
export function shortStore(store: string, root: string): string {
  const end = root.startsWith('~') ? root.slice(1) : root;
  const at = end.length > 1 ? store.indexOf(`${end}/`) : -1;
  const isBelow = at === 0 || (at > 0 && end !== root);
  return isBelow ? store.slice(at + end.length + 1) : store;
}

/**
 * `37 of 100`, `2 of 10, inside 21 of 50`, and how long the rest may take.
 */
export function sayProgress(
  progress: IProgress,
  trans: TranslationBundle
): string {
  const { done, total, left, inside } = progress;
  const say = (so: number, many: number): string =>
    many
      ? trans.__('%1 of %2', grouped(so), grouped(many))
      : trans.__('%1 done', grouped(so));
  const where = inside.reduce(
    (said, [so, many]) => trans.__('%1, inside %2', said, say(so, many)),
    say(done, total)
  );
  return left ? trans.__('%1, about %2 left', where, duration(left)) : where;
}

/**
 * How much of it is done, from 0 to 1, with what is done of the iteration it is in; 0 where nobody knows.
 */
export function partOf({ done, total, inside }: IProgress): number {
  return [[done, total], ...inside].reduceRight(
    (part, [so, many]) => (many > 0 ? Math.min(1, (so + part) / many) : 0),
    0
  );
}

/**
 * What a step is called. The statements of a cell have its name, so their number goes with it.
 */
export function stepName(step: IStep, trans: TranslationBundle): string {
  const at = /\.(\d+)$/.exec(step.address);
  return step.kind === 'statement' && at
    ? trans.__('%1, statement %2', step.name, Number(at[1]) + 1)
    : step.name;
}

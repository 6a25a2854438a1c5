/**
 * What the banner says. Pure.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import { ago, duration, sayProgress, size } from './format';
import type { IRun, IStep } from './tokens';

/**
 * Bytes that are read back in a second on an ordinary disk: only for a guess.
 */
const RATE = 4e8;

/**
 * What was cut short and what can be had back, in a few sentences. Pure.
 */
export function sayOffer(
  run: IRun,
  steps: ReadonlyArray<IStep>,
  now: number,
  trans: TranslationBundle
): string {
  const when = ago(run.updated, now, trans);
  const pause = steps.find(step => step.status === 'paused')?.pause;
  if (run.status === 'paused') {
    return trans.__(
      'The last run waits for an answer: %1',
      pause?.prompt || pause?.name || ''
    );
  }
  const ended = ['completed', 'restored', 'skipped'];
  const stopped = [...steps]
    .reverse()
    .find(step => !ended.includes(step.status));
  const done = steps.filter(step => ended.includes(step.status)).length;
  const parts = [
    stopped
      ? trans.__('The last run was cut short %1 in “%2”', when, stopped.name) +
        (stopped.progress
          ? ` (${sayProgress({ ...stopped.progress, left: null }, trans)}).`
          : '.')
      : trans.__('The kernel of the last run ended %1.', when)
  ];
  const work = run.computedSeconds + run.sparedSeconds;
  if (work >= 0.05) {
    parts.push(
      trans._n(
        '%1 cell was finished, %2 of work.',
        '%1 cells were finished, %2 of work.',
        done,
        duration(work)
      )
    );
  }
  const seconds = Math.max(1, run.bytes / RATE);
  parts.push(
    run.bytes
      ? trans.__(
          'Restoring takes about %1 (%2).',
          duration(Math.round(seconds)),
          size(run.bytes)
        )
      : trans.__('Restoring takes about %1.', duration(Math.round(seconds)))
  );
  return parts.join(' ');
}

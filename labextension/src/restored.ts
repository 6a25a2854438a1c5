/**
 * What restoring did, or would do, as the kernel tells it. Pure.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Fields } from './decode';
import { maybe, said, text } from './decode';

/**
 * What restoring did.
 */
export interface IRestored {
  readonly bound: ReadonlyArray<string>;

  /**
   * Name -> why it is not there.
   */
  readonly missing: Readonly<Record<string, string>>;
  readonly cautions: ReadonlyArray<string>;
}

/**
 * One variable, and what restoring would do to it.
 */
export interface IChange {
  readonly name: string;
  readonly now: string;
  readonly then: string;
  readonly change: string;
}

/**
 * Read what `restore` and `resume` answer. Pure.
 */
export function restored(answer: Fields): IRestored {
  const cautions = Array.isArray(answer.cautions) ? answer.cautions : [];
  return {
    bound: Object.keys(maybe(answer.bound)),
    missing: Object.fromEntries(
      Object.entries(maybe(answer.not_bound)).map(([name, why]) => [
        name,
        said(why)
      ])
    ),
    cautions: cautions.map(said)
  };
}

/**
 * Read what a dry run of `restore` answers. Pure.
 */
export function changesOf(answer: Fields): IChange[] {
  const rows = Array.isArray(answer.changes) ? answer.changes : [];
  return rows.map(row => {
    const { name, now, then, change } = maybe(row);
    return {
      name: text(name),
      now: text(now),
      then: text(then),
      change: text(change)
    };
  });
}

/**
 * What came back and what did not, as a sentence. Pure.
 */
export function sayRestored(
  found: IRestored,
  trans: TranslationBundle
): string {
  const named = found.bound.slice(0, 6).join(', ');
  const more = found.bound.length - 6;
  const parts = [
    found.bound.length === 0
      ? trans.__('No variable came back.')
      : more > 0
        ? trans.__('Restored: %1 and %2 more.', named, more)
        : trans.__('Restored: %1.', named)
  ];
  const missing = Object.entries(found.missing);
  if (missing.length > 0) {
    parts.push(
      trans.__(
        'Not restored: %1.',
        missing.map(([name, why]) => `${name} (${why})`).join('; ')
      )
    );
  }
  return [...parts, ...found.cautions].join(' ');
}

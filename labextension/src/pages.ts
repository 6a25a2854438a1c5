/**
 * Runs come in pages, and change while one looks. Pure: what is known and a page in, what is known then out.
 *
 * Ids sort by the time they were made, so a page speaks for all ids from where it was asked for down to its last: what is
 * known in that stretch and not on the page is gone.
 */

import type { IRun, IRunList } from './tokens';

/**
 * Put a page into what is known.
 *
 * @param before From where the page was asked for; nothing for the first.
 */
export function merge(
  known: IRunList | null,
  page: IRunList,
  before = ''
): IRunList {
  if (!known) {
    return page;
  }
  const lowest = page.next ? page.runs[page.runs.length - 1].id : '';
  const above = before ? known.runs.filter(run => run.id >= before) : [];
  const below = lowest ? known.runs.filter(run => run.id < lowest) : [];
  return {
    ...page,
    runs: [...above, ...page.runs.map(run => same(known, run)), ...below],
    // What lies below had its own end; without anything below, the page's end is the end.
    next: below.length > 0 ? known.next : page.next
  };
}

/**
 * What is known without one run.
 */
export function without(known: IRunList | null, id: string): IRunList | null {
  return known && { ...known, runs: known.runs.filter(run => run.id !== id) };
}

/**
 * What is known with one run as it is now.
 */
export function replaced(known: IRunList | null, now: IRun): IRunList | null {
  return (
    known && {
      ...known,
      runs: known.runs.map(run => (run.id === now.id ? now : run))
    }
  );
}

/**
 * The very object that is known, if nothing about the run has changed: then its row need not be drawn again.
 */
function same(known: IRunList, run: IRun): IRun {
  const before = known.runs.find(other => other.id === run.id);
  return before && JSON.stringify(before) === JSON.stringify(run)
    ? before
    : run;
}

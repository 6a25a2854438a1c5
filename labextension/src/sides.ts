/**
 * A unified diff as two columns. Pure.
 */

/**
 * One line of the picture; a side that has nothing there is null.
 */
export interface ISides {
  readonly left: string | null;
  readonly right: string | null;
  readonly kind: 'same' | 'changed' | 'gap';
}

/**
 * Put what was removed beside what was added in its place.
 */
export function sides(unified: ReadonlyArray<string>): ISides[] {
  const rows: ISides[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  const flush = (): void => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      rows.push({
        left: removed[i] ?? null,
        right: added[i] ?? null,
        kind: 'changed'
      });
    }
    removed = [];
    added = [];
  };
  // The two lines of file names stand before the first stretch; later a line may well begin with "---" itself.
  const start = unified.findIndex(line => line.startsWith('@@'));
  for (const line of unified.slice(Math.max(0, start))) {
    const rest = line.slice(1);
    if (line.startsWith('-')) {
      removed.push(rest);
    } else if (line.startsWith('+')) {
      added.push(rest);
    } else {
      flush();
      rows.push(
        line.startsWith('@@')
          ? { left: line, right: line, kind: 'gap' }
          : { left: rest, right: rest, kind: 'same' }
      );
    }
  }
  flush();
  // The first stretch begins where the picture does.
  return rows[0]?.kind === 'gap' ? rows.slice(1) : rows;
}

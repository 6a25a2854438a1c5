/**
 * Long lists: only the rows in sight are drawn.
 *
 * Every row says beforehand how high it is, so nothing is measured and nothing jumps. When rows come or go above what is
 * in sight, the list stays where the reader was. The list itself has the focus, and says which row is active: a row that
 * is scrolled away, and with it taken out of the page, cannot lose it.
 */

import * as React from 'react';

/**
 * What every row has.
 */
export interface IRow {
  readonly key: string;

  /**
   * Lines of text it takes.
   */
  readonly lines: number;

  /**
   * Whether it can be the active one.
   */
  readonly isItem: boolean;
}

/**
 * Space above and below the lines of a row.
 */
const PADDING = 6;

/**
 * Rows drawn beyond either edge, so that a quick scroll shows no gap.
 */
const BEYOND = 8;

/**
 * Where each row begins, and at the end where the last one ends. Pure.
 */
export function offsets(
  rows: ReadonlyArray<IRow>,
  lineHeight: number
): Float64Array {
  const found = new Float64Array(rows.length + 1);
  rows.forEach((row, i) => {
    found[i + 1] = found[i] + row.lines * lineHeight + PADDING;
  });
  return found;
}

/**
 * The row at a height. Pure.
 */
export function rowAt(found: Float64Array, height: number): number {
  let low = 0;
  let high = found.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (found[middle] <= height) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return Math.max(0, low);
}

/**
 * Where a key leads. Pure.
 *
 * @returns The row to go to; `from` itself where the key leads nowhere.
 */
export function moved(
  rows: ReadonlyArray<IRow>,
  from: number,
  key: string,
  page: number
): number {
  const go = (start: number, step: number): number => {
    for (let i = start; i >= 0 && i < rows.length; i += step) {
      if (rows[i].isItem) {
        return i;
      }
    }
    return from;
  };
  const jump = (to: number, step: number): number => {
    const found = go(Math.min(rows.length - 1, Math.max(0, to)), step);
    return found === from ? go(to, -step) : found;
  };
  switch (key) {
    case 'ArrowDown':
      return go(from + 1, 1);
    case 'ArrowUp':
      return from < 0 ? go(0, 1) : go(from - 1, -1);
    case 'PageDown':
      return jump(from + page, 1);
    case 'PageUp':
      return jump(from - page, -1);
    case 'Home':
      return go(0, 1);
    case 'End':
      return go(rows.length - 1, -1);
    default:
      return from;
  }
}

/**
 * A list or tree of rows.
 */
export function Windowed<R extends IRow>(props: {
  role: 'listbox' | 'tree' | 'list';
  label: string;
  rows: ReadonlyArray<R>;

  /**
   * The key of the active row.
   */
  active: string;
  onActive: (row: R) => void;

  /**
   * A key was pressed that does not move. Says whether it meant something.
   */
  onKey?: (event: React.KeyboardEvent, row: R | undefined) => boolean;

  /**
   * The end is near.
   */
  onEnd?: () => void;

  /**
   * Draws a row. While it is the same function, rows that are the same are not drawn again: scrolling draws only those
   * that come into sight.
   */
  draw: (row: R) => JSX.Element;
}): JSX.Element {
  const { role, label, rows, active, draw, onEnd } = props;
  const node = React.useRef<HTMLDivElement>(null);
  const [top, setTop] = React.useState(0);
  const { height, lineHeight } = useSize(node);
  const found = React.useMemo(
    () => offsets(rows, lineHeight),
    [rows, lineHeight]
  );
  useAnchor(node, rows, found);
  const id = React.useId();
  const index = rows.findIndex(row => row.key === active);

  const first = Math.max(0, rowAt(found, top) - BEYOND);
  const last = Math.min(rows.length - 1, rowAt(found, top + height) + BEYOND);
  const isNearEnd = found[rows.length] - top - height < 2 * height;
  React.useEffect(() => {
    if (isNearEnd && height > 0) {
      onEnd?.();
    }
  }, [isNearEnd, height, rows, onEnd]);

  const reveal = (i: number): void => {
    const scrolled = node.current;
    if (scrolled && i >= 0) {
      const [start, end] = [found[i], found[i + 1]];
      if (start < scrolled.scrollTop) {
        scrolled.scrollTop = start;
      } else if (end > scrolled.scrollTop + height) {
        scrolled.scrollTop = end - height;
      }
    }
  };
  // Somebody else may choose a row; one that is chosen by hand is in sight already.
  React.useLayoutEffect(() => reveal(index), [active]); // eslint-disable-line react-hooks/exhaustive-deps

  const onKeyDown = (event: React.KeyboardEvent<HTMLDivElement>): void => {
    const asksForMenu =
      event.key === 'ContextMenu' || (event.shiftKey && event.key === 'F10');
    if (asksForMenu) {
      openMenu(node.current?.querySelector('[data-active="true"]'));
    } else if (event.altKey || event.ctrlKey || event.metaKey) {
      return;
    } else {
      const page = Math.max(1, Math.floor(height / (3 * lineHeight)));
      const to = moved(rows, index, event.key, page);
      if (to !== index) {
        props.onActive(rows[to]);
      } else if (!MOVES.has(event.key)) {
        if (!props.onKey?.(event, rows[index])) {
          return;
        }
      }
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const drawn = [];
  for (let i = first; i <= last; i++) {
    drawn.push(
      <div
        key={rows[i].key}
        id={`${id}-${i}`}
        className="nbc-Row"
        data-key={rows[i].key}
        data-active={i === index}
        role={rows[i].isItem ? ITEM[role] : 'presentation'}
        {...(rows[i].isItem ? itemProps(rows, i, role, i === index) : {})}
        style={{
          height: found[i + 1] - found[i],
          transform: `translateY(${found[i]}px)`
        }}
      >
        <Drawn row={rows[i]} draw={draw} />
      </div>
    );
  }
  return (
    // The role is given by whoever uses it, and each of them takes keys.

    <div
      ref={node}
      className="nbc-Windowed"
      role={role}
      aria-label={label}
      aria-activedescendant={
        index >= first && index <= last ? `${id}-${index}` : undefined
      }

      tabIndex={0}
      onScroll={event => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
      onMouseDown={event => {
        const row = rowOf(event.target, rows);
        if (row?.isItem) {
          props.onActive(row);
        }
      }}
    >
      <div
        className="nbc-Windowed-all"
        role="presentation"
        style={{ height: found[rows.length] }}
      >
        {drawn}
      </div>
    </div>
  );
}

const Drawn = React.memo(function Drawn<R>(props: {
  row: R;
  draw: (row: R) => JSX.Element;
}): JSX.Element {
  return props.draw(props.row);
}) as <R>(props: { row: R; draw: (row: R) => JSX.Element }) => JSX.Element;

const MOVES: ReadonlySet<string> = new Set([
  'ArrowDown',
  'ArrowUp',
  'PageDown',
  'PageUp',
  'Home',
  'End'
]);

const ITEM = { listbox: 'option', tree: 'treeitem', list: 'listitem' } as const;

/**
 * What a row says about itself to those who cannot see it.
 */
function itemProps(
  rows: ReadonlyArray<IRow>,
  index: number,
  role: keyof typeof ITEM,
  isActive: boolean
): React.HTMLAttributes<HTMLElement> {
  const row = rows[index] as IRow & {
    readonly aria?: React.AriaAttributes;
  };
  return {
    ...(role === 'list' ? {} : { 'aria-selected': isActive }),
    'aria-posinset': index + 1,
    'aria-setsize': rows.length,
    ...row.aria
  };
}

function rowOf<R extends IRow>(
  target: EventTarget,
  rows: ReadonlyArray<R>
): R | undefined {
  const key =
    target instanceof Element
      ? target.closest<HTMLElement>('.nbc-Row')?.dataset.key
      : undefined;
  return rows.find(row => row.key === key);
}

/**
 * The menu that the right mouse button opens, for those who have none.
 */
function openMenu(row: Element | null | undefined): void {
  const inner = row?.firstElementChild ?? row;
  if (inner) {
    const { left, bottom } = inner.getBoundingClientRect();
    inner.dispatchEvent(
      new MouseEvent('contextmenu', {
        bubbles: true,
        cancelable: true,
        clientX: left + 24,
        clientY: bottom
      })
    );
  }
}

/**
 * How much there is to see, and how high a line is; both change with the reader's wishes.
 */
function useSize(node: React.RefObject<HTMLElement>): {
  height: number;
  lineHeight: number;
} {
  const [size, setSize] = React.useState({ height: 600, lineHeight: 18 });
  React.useLayoutEffect(() => {
    const measured = node.current;
    if (!measured) {
      return;
    }
    const measure = (): void => {
      const font = parseFloat(getComputedStyle(measured).fontSize) || 13;
      const next = {
        height: measured.clientHeight,
        lineHeight: Math.round(font * 1.4)
      };
      setSize(old =>
        old.height === next.height && old.lineHeight === next.lineHeight
          ? old
          : next
      );
    };
    const observer = new ResizeObserver(measure);
    observer.observe(measured);
    measure();
    return () => observer.disconnect();
  }, [node]);
  return size;
}

/**
 * Keep the first row in sight where it is when others come or go above it. At the very top the newest stay in sight.
 */
function useAnchor(
  node: React.RefObject<HTMLElement>,
  rows: ReadonlyArray<IRow>,
  found: Float64Array
): void {
  const before = React.useRef({ rows, found });
  React.useLayoutEffect(() => {
    const old = before.current;
    before.current = { rows, found };
    const scrolled = node.current;
    if (!scrolled || old.rows === rows || scrolled.scrollTop === 0) {
      return;
    }
    const first = rowAt(old.found, scrolled.scrollTop);
    const now = rows.findIndex(row => row.key === old.rows[first]?.key);
    if (now >= 0 && found[now] !== old.found[first]) {
      scrolled.scrollTop += found[now] - old.found[first];
    }
  }, [node, rows, found]);
}

/**
 * A notebook as a document: what it says about itself, its cells by their id, and our magic in their first line.
 */

import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

/**
 * Where a notebook's settings are in its metadata.
 */
const METADATA = 'nbcheckpoint';

/**
 * Is automatic mode on for a notebook? Kept in the notebook, so that it goes with it.
 */
export function isAutomatic(panel: NotebookPanel): boolean {
  const ours: unknown = panel.content.model?.getMetadata(METADATA);
  return (ours as { auto?: unknown } | undefined)?.auto === true;
}

/**
 * Keep in the notebook whether automatic mode is on.
 */
export function setAutomatic(panel: NotebookPanel, on: boolean): void {
  const model = panel.content.model;
  const ours: unknown = model?.getMetadata(METADATA);
  const others = typeof ours === 'object' && ours !== null ? ours : {};
  if (on) {
    model?.setMetadata(METADATA, { ...others, auto: true });
  } else {
    const rest = Object.fromEntries(
      Object.entries(others).filter(([name]) => name !== 'auto')
    );
    if (Object.keys(rest).length > 0) {
      model?.setMetadata(METADATA, rest);
    } else {
      model?.deleteMetadata(METADATA);
    }
  }
}

/**
 * The path of a run's notebook, from the path and the name of one in the same store; null where it lies outside of what
 * the server shows. Pure.
 */
export function pathOf(
  workflow: string,
  here: { path: string; workflow: string | null }
): string | null {
  const { path, workflow: name } = here;
  if (!path || !name) {
    return workflow;
  }
  if (path.endsWith(name)) {
    return path.slice(0, path.length - name.length) + workflow;
  }
  // The store lies above the server's root: what is above it is not shown.
  const above = name.endsWith(path)
    ? name.slice(0, name.length - path.length)
    : null;
  return above !== null && workflow.startsWith(above)
    ? workflow.slice(above.length)
    : null;
}

/**
 * Where a cell is by its id; -1 if it is not there any more.
 */
export function cellIndex(panel: NotebookPanel, id: string): number {
  return id
    ? panel.content.widgets.findIndex(cell => cell.model.id === id)
    : -1;
}

const MARK = '%%checkpointed';

/**
 * Whether a cell's source begins with our magic. Pure.
 */
export function isCheckpointed(source: string): boolean {
  return /^\s*%%checkpointed\b/.test(source);
}

/**
 * Put our magic into the first line of a cell, or take it out again. Undone like any other edit.
 */
export function toggleCheckpointed(cell: CodeCell): void {
  const source = cell.model.sharedModel.getSource();
  cell.model.sharedModel.setSource(converted(source));
}

/**
 * The source of a cell with the magic in its first line; without it, if it is there. Pure.
 */
export function converted(source: string): string {
  return isCheckpointed(source)
    ? source.replace(/^\s*%%checkpointed\b[^\n]*\n?/, '')
    : `${MARK}\n${source}`;
}

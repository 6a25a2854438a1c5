/**
 * The tree of runs and their steps.
 *
 * It is one ARIA tree: arrow keys move over all visible rows, right opens, left closes, Home and End jump. Names, notes,
 * reasons and errors come out of notebooks, so they are only ever drawn as text.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import { caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { IArrangement } from './arrange';
import { ago, duration, exactTime, runStatus, size, splitPath } from './format';
import { StepRows } from './steps';
import type { ICheckpointModel, IRun } from './tokens';

/**
 * How often "2 min ago" is looked at again.
 */
const TICK = 10 * 1000;

/**
 * What each row gets to know.
 */
export interface ITreeContext {
  model: ICheckpointModel;
  trans: TranslationBundle;

  /**
   * The time relative times are relative to.
   */
  now: number;

  /**
   * The row the Tab key reaches; the others are reached from it by arrow keys.
   */
  current: string;
}

/**
 * All sections.
 */
export function RunTree(props: {
  model: ICheckpointModel;
  arrangement: IArrangement;
  trans: TranslationBundle;
}): JSX.Element {
  const { model, arrangement, trans } = props;
  const { mine, groups, count } = arrangement;
  const [focused, setFocused] = React.useState('');
  const now = useNow(TICK);
  const rows = [
    ...(mine ?? []).map(run => rowKey('mine', run)),
    ...groups.flatMap(group => group.runs.map(run => rowKey('all', run)))
  ];
  const isThere = rows.some(
    key => focused === key || focused.startsWith(`${key}#`)
  );
  const toggle = (row: HTMLElement | null): void => {
    const { run, place } = row?.dataset ?? {};
    if (run && place) {
      void model.toggle(run, place);
    }
  };
  const context: ITreeContext = {
    model,
    trans,
    now,
    current: isThere ? focused : (rows[0] ?? '')
  };

  return (
    <div
      className="nbc-Tree"
      role="tree"
      aria-label={trans.__('Runs')}
      // Reached through its rows, one of which is always in the order of Tab.
      tabIndex={-1}
      onClick={event => {
        const row = event.target as Element;
        if (row.closest('.nbc-Run-row')) {
          toggle(rowOf(row));
        }
      }}
      onKeyDown={event => onKeyDown(event, toggle)}
      onFocus={event => setFocused(rowOf(event.target)?.dataset.row ?? '')}
    >
      {mine && (
        <Section label={trans.__('This notebook')} count={mine.length}>
          {mine.length > 0 ? (
            mine.map(run => (
              <RunRow key={run.id} run={run} place="mine" {...context} />
            ))
          ) : (
            <p className="nbc-Quiet" role="none">
              {model.filter
                ? trans.__('No run of it matches.')
                : trans.__('No runs yet.')}
            </p>
          )}
        </Section>
      )}
      <Section label={trans.__('All notebooks')} count={count}>
        {groups.map(group => (
          <div
            key={group.status}
            className="nbc-Group"
            role="group"
            aria-label={runStatus(group.status, trans)}
          >
            <div className="nbc-Group-title" role="none">
              {runStatus(group.status, trans)}
              <span className="nbc-Count">{group.runs.length}</span>
            </div>
            {group.runs.map(run => (
              <RunRow key={run.id} run={run} place="all" {...context} />
            ))}
          </div>
        ))}
        {count === 0 && (
          <p className="nbc-Quiet" role="none">
            {trans.__('No run matches.')}
          </p>
        )}
      </Section>
    </div>
  );
}

function Section(
  props: React.PropsWithChildren<{ label: string; count: number }>
): JSX.Element {
  return (
    <div className="nbc-Section" role="group" aria-label={props.label}>
      <div className="nbc-Section-title" role="none">
        {props.label}
        <span className="nbc-Count">{props.count}</span>
      </div>
      {props.children}
    </div>
  );
}

function RunRow(
  props: ITreeContext & { run: IRun; place: string }
): JSX.Element {
  const { model, trans, now, current, run, place } = props;
  // In the groups, the status is what the group is called.
  const isGrouped = place === 'all';
  const expanded = model.isExpanded(run.id, place);
  const key = rowKey(place, run);
  const { folder, name } = splitPath(run.workflow);
  const status = runStatus(run.status, trans);
  const age = ago(run.updated, now, trans);
  const facts = runFacts(run, trans);
  return (
    <div
      className="nbc-Run"
      role="treeitem"
      aria-level={1}
      aria-expanded={expanded}
      aria-selected={current === key}
      aria-label={[run.workflow, status, age, ...facts].join(', ')}
      data-row={key}
      data-status={run.status}
      data-run={run.id}
      data-place={place}
      tabIndex={current === key ? 0 : -1}
    >
      <div className="nbc-Run-row" title={run.workflow}>
        <caretRightIcon.react className="nbc-Caret" tag="span" />
        <span className="nbc-Dot" title={status} />
        <span className="nbc-Run-name">
          {folder && <span className="nbc-Run-folder">{folder}</span>}
          <span className="nbc-Run-file">{name}</span>
        </span>
        <time
          className="nbc-Run-time"
          dateTime={run.updated}
          title={exactTime(run.updated)}
        >
          {age}
        </time>
        <span className="nbc-Facts">
          {!isGrouped && <span className="nbc-Status">{status}</span>}
          {facts.map(fact => (
            <span key={fact} className="nbc-Fact">
              {fact}
            </span>
          ))}
        </span>
        {run.note && <span className="nbc-Run-note">{run.note}</span>}
      </div>
      {expanded && <StepRows {...props} row={key} />}
    </div>
  );
}

/**
 * What a run came to, in a few words each; what there is none of is left out.
 */
export function runFacts(run: IRun, trans: TranslationBundle): string[] {
  const computed = run.steps.completed ?? 0;
  const restored = run.steps.restored ?? 0;
  const facts = [];
  if (computed) {
    facts.push(trans.__('%1 computed', computed));
  }
  if (restored) {
    facts.push(trans.__('%1 restored', restored));
  }
  if (run.bytes) {
    facts.push(trans.__('%1 saved', size(run.bytes)));
  }
  if (run.sparedSeconds >= 0.05) {
    facts.push(trans.__('%1 spared', duration(run.sparedSeconds)));
  }
  if (!run.trusted) {
    facts.push(trans.__('untrusted'));
  }
  return facts;
}

function rowKey(place: string, run: IRun): string {
  return `${place}/${run.id}`;
}

/**
 * Now, and again every so often.
 */
function useNow(every: number): number {
  const [now, setNow] = React.useState(() => Date.now());
  React.useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), every);
    return () => window.clearInterval(timer);
  }, [every]);
  // A fresh list may be newer than the last tick: its runs did not start in the future.
  return Math.max(now, Date.now());
}

function rowOf(target: EventTarget): HTMLElement | null {
  return target instanceof Element
    ? target.closest<HTMLElement>('[role="treeitem"]')
    : null;
}

function onKeyDown(
  event: React.KeyboardEvent<HTMLElement>,
  toggle: (row: HTMLElement) => void
): void {
  const row = rowOf(event.target);
  if (!row || event.altKey || event.ctrlKey || event.metaKey) {
    return;
  }
  const rows = [
    ...event.currentTarget.querySelectorAll<HTMLElement>('[role="treeitem"]')
  ];
  const index = rows.indexOf(row);
  const opened = row.getAttribute('aria-expanded');
  switch (event.key) {
    case 'ArrowDown':
      rows[index + 1]?.focus();
      break;
    case 'ArrowUp':
      rows[index - 1]?.focus();
      break;
    case 'Home':
      rows[0].focus();
      break;
    case 'End':
      rows[rows.length - 1].focus();
      break;
    case 'ArrowRight':
      if (opened === 'false') {
        toggle(row);
      } else if (opened === 'true' && row.contains(rows[index + 1] ?? null)) {
        rows[index + 1].focus();
      }
      break;
    case 'ArrowLeft':
      if (opened === 'true') {
        toggle(row);
      } else {
        rowOf(row.parentElement ?? row)?.focus();
      }
      break;
    case 'Enter':
    case ' ':
      toggle(row);
      break;
    default:
      return;
  }
  event.preventDefault();
  event.stopPropagation();
}

/**
 * The list of runs.
 *
 * Arrow keys move, Enter opens, the menu key shows what can be done. Names, notes, tags, reasons and errors come out of
 * notebooks and out of other people's archives, so they are only ever drawn as text.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import { lockIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { IRunRow, ListRow } from './arrange';
import { arrange, runFacts } from './arrange';
import { ago, exactTime, runStatus } from './format';
import { Progress, Remarks, Workflow } from './note';
import type { ICheckpointModel, IRunList } from './tokens';
import { Windowed } from './windowing';

/**
 * How often "2 min ago" is looked at again.
 */
const TICK = 10 * 1000;

/**
 * The list, or lists: this notebook's, and all.
 */
export function RunList(props: {
  model: ICheckpointModel;
  list: IRunList;
  trans: TranslationBundle;
}): JSX.Element {
  const { model, list, trans } = props;
  const { mine, filter } = model;
  const [active, setActive] = React.useState('');
  const now = useNow(TICK);
  const rows = React.useMemo(
    () => arrange(mine, list, filter, trans),
    [mine, list, filter, trans]
  );
  const current = rows.some(row => row.key === active)
    ? active
    : (rows.find(row => row.isItem)?.key ?? '');
  const onEnd = React.useCallback(() => void model.loadMore('all'), [model]);
  const act = React.useCallback(
    (row: ListRow | undefined): boolean => {
      if (row?.kind === 'run') {
        model.open(row.run.id);
      } else if (row?.kind === 'more') {
        void model.loadMore('mine');
      }
      return row?.isItem === true;
    },
    [model]
  );
  const draw = React.useCallback(
    (row: ListRow) => <Row row={row} now={now} trans={trans} act={act} />,
    [now, trans, act]
  );
  return (
    <Windowed
      role="listbox"
      label={trans.__('Runs')}
      rows={rows}
      active={current}
      onActive={row => setActive(row.key)}
      onKey={(event, row) =>
        ['Enter', ' ', 'ArrowRight'].includes(event.key) && act(row)
      }
      onEnd={list.next ? onEnd : undefined}
      draw={draw}
    />
  );
}

function Row(props: {
  row: ListRow;
  now: number;
  trans: TranslationBundle;
  act: (row: ListRow) => void;
}): JSX.Element {
  const { row, act } = props;
  switch (row.kind) {
    case 'run':
      return <RunRow {...props} row={row} />;
    case 'more':
      // Keys are the list's business.
      return (
        // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions
        <div className="nbc-More" onClick={() => act(row)}>
          {row.label}
        </div>
      );
    case 'quiet':
      return <p className="nbc-Quiet">{row.label}</p>;
    default:
      return (
        <div
          className={
            row.kind === 'section' ? 'nbc-Section-title' : 'nbc-Group-title'
          }
        >
          {row.label}
          <span className="nbc-Count">{row.count}</span>
        </div>
      );
  }
}

function RunRow(props: {
  row: IRunRow;
  now: number;
  trans: TranslationBundle;
  act: (row: ListRow) => void;
}): JSX.Element {
  const { row, now, trans, act } = props;
  const { run, place } = row;
  const status = runStatus(run.status, trans);
  return (
    // Keys are the list's business.
    // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions
    <div
      className="nbc-Run"
      data-run={run.id}
      data-place={place}
      data-status={run.status}
      data-pinned={run.pinned}
      title={run.workflow}
      onClick={() => act(row)}
    >
      <span className="nbc-Dot" title={status} />
      <span className="nbc-Run-name">
        <Workflow path={run.workflow} />
        {run.pinned && (
          <lockIcon.react
            className="nbc-Pin"
            tag="span"
            title={trans.__('Pinned: never pruned')}
          />
        )}
      </span>
      <time
        className="nbc-Run-time"
        dateTime={run.updated}
        title={exactTime(run.updated)}
      >
        {ago(run.updated, now, trans)}
      </time>
      <span className="nbc-Facts">
        {/* In the groups, the status is what the group is called. */}
        {place === 'mine' && <span className="nbc-Status">{status}</span>}
        {runFacts(run, trans).map(fact => (
          <span key={fact} className="nbc-Fact">
            {fact}
          </span>
        ))}
      </span>
      {run.progress && <Progress progress={run.progress} trans={trans} />}
      <Remarks run={run} />
    </div>
  );
}

/**
 * Now, and again every so often.
 */
export function useNow(every: number): number {
  const [now, setNow] = React.useState(() => Date.now());
  React.useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), every);
    return () => window.clearInterval(timer);
  }, [every]);
  // A fresh list may be newer than the last tick: its runs did not start in the future.
  const second = Math.floor(Date.now() / 1000) * 1000;
  return Math.max(now, second);
}

/**
 * The steps of an opened run, and what can be done with the one that is chosen.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import { caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import {
  duration,
  exactTime,
  grouped,
  sayProgress,
  size,
  stepName,
  stepStatus
} from './format';
import { useNow } from './runs';
import type {
  IActions,
  ICheckpointModel,
  IRun,
  IRunModel,
  IStep
} from './tokens';
import type { IStepRow } from './tree';
import { stepRows } from './tree';
import { Windowed } from './windowing';

/**
 * What the parts of an opened run get to know.
 */
export interface IRunProps {
  model: ICheckpointModel;
  opened: IRunModel;
  run: IRun;
  actions: IActions;
  trans: TranslationBundle;
}

/**
 * The tree of steps, and below it the one that is chosen.
 */
export function Steps(props: IRunProps): JSX.Element {
  const { model, opened, trans } = props;
  const { steps } = opened;
  const [open, setOpen] = React.useState<ReadonlySet<string>>(new Set());
  const now = useNow(1000);
  const rows = React.useMemo(
    () => stepRows(steps, open, step => sayStep(step, trans)),
    [steps, open, trans]
  );
  const toggle = React.useCallback((row: IStepRow): void => {
    setOpen(before => {
      const next = new Set(before);
      if (!next.delete(row.step.address)) {
        next.add(row.step.address);
      }
      return next;
    });
  }, []);
  const draw = React.useCallback(
    (row: IStepRow) => (
      <StepRow row={row} now={now} trans={trans} toggle={toggle} />
    ),
    [now, trans, toggle]
  );
  if (steps.length === 0) {
    return (
      <p className="nbc-Quiet" role="status">
        {opened.loading ? trans.__('Loading…') : trans.__('No steps yet.')}
      </p>
    );
  }
  const chosen = steps.find(step => step.address === model.step);
  return (
    <>
      <Windowed
        role="tree"
        label={trans.__('Steps')}
        rows={rows}
        active={rows.some(row => row.key === model.step) ? model.step : ''}
        onActive={row => {
          model.step = row.key;
        }}
        onKey={(event, row) => onKey(event.key, row, rows, toggle, model)}
        draw={draw}
      />
      {chosen && <Chosen {...props} step={chosen} />}
    </>
  );
}

/**
 * As in any tree: right opens or goes in, left closes or goes out.
 */
function onKey(
  key: string,
  row: IStepRow | undefined,
  rows: ReadonlyArray<IStepRow>,
  toggle: (row: IStepRow) => void,
  model: ICheckpointModel
): boolean {
  const index = rows.findIndex(other => other.key === row?.key);
  const outer = rows
    .slice(0, Math.max(0, index))
    .reverse()
    .find(other => other.level < (row?.level ?? 0));
  if (!row) {
    return false;
  } else if (key === 'Enter' || key === ' ') {
    if (row.isOpen !== null) {
      toggle(row);
    }
  } else if (key === 'ArrowRight' && row.isOpen === false) {
    toggle(row);
  } else if (key === 'ArrowRight' && row.isOpen) {
    model.step = rows[index + 1].key;
  } else if (key === 'ArrowLeft' && row.isOpen) {
    toggle(row);
  } else if (key === 'ArrowLeft' && outer) {
    model.step = outer.key;
  } else {
    return false;
  }
  return true;
}

function StepRow(props: {
  row: IStepRow;
  now: number;
  trans: TranslationBundle;
  toggle: (row: IStepRow) => void;
}): JSX.Element {
  const { row, now, trans, toggle } = props;
  const { step } = row;
  return (
    <div
      className="nbc-Step"
      data-status={step.status}
      data-address={step.address}
      data-checkpoint={step.checkpoint}
      style={{ paddingLeft: 4 + (row.level - 1) * 14 }}
    >
      {row.isOpen !== null ? (
        // Keys are the tree's business.
        // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions
        <span
          className="nbc-Caret"
          data-open={row.isOpen}
          onClick={() => toggle(row)}
        >
          <caretRightIcon.react tag="span" />
        </span>
      ) : (
        <span className="nbc-Caret" />
      )}
      <span className="nbc-Dot" />
      <span className="nbc-Step-name" dir="auto" title={stepName(step, trans)}>
        {stepName(step, trans)}
      </span>
      <span className="nbc-Step-time">{took(step, now)}</span>
      <span className="nbc-Facts">
        <span className="nbc-Status">{stepStatus(step.status, trans)}</span>
        {stepFacts(step, trans).map(fact => (
          <span key={fact} className="nbc-Fact">
            {fact}
          </span>
        ))}
        {row.isOpen !== null && (
          <span className="nbc-Fact">{sayInside(row.inside, trans)}</span>
        )}
        {step.reason && (
          <span className="nbc-Fact" title={step.reason}>
            {step.reason}
          </span>
        )}
      </span>
      {step.error && (
        <span className="nbc-Step-error" title={step.error}>
          {step.error}
        </span>
      )}
    </div>
  );
}

/**
 * All about one step, in full, and what can be done with it.
 */
function Chosen(props: IRunProps & { step: IStep }): JSX.Element {
  const { run, actions, trans, step } = props;
  const button = (label: string, act: () => void): JSX.Element => (
    <button className="jp-mod-styled jp-mod-minimal" onClick={act}>
      {label}
    </button>
  );
  return (
    <section
      className="nbc-Chosen"
      aria-label={trans.__('Chosen step')}
      data-status={step.status}
    >
      <p className="nbc-Chosen-name" dir="auto">
        {stepName(step, trans)}
      </p>
      <p>
        <span className="nbc-Status">{stepStatus(step.status, trans)}</span>
        {step.started && ` · ${exactTime(step.started)}`}
        {step.reason && ` · ${step.reason}`}
      </p>
      {step.error && <p className="nbc-Step-error">{step.error}</p>}
      <div className="nbc-Buttons">
        {step.checkpoint &&
          button(
            trans.__('Restore here…'),
            () => void actions.restore(run, step)
          )}
        {step.cell &&
          run.kind === 'notebook' &&
          button(
            trans.__('Run from here…'),
            () => void actions.runFrom(run, step)
          )}
        {step.checkpoint &&
          button(trans.__('Diff with…'), () => void actions.diff(run, step))}
      </div>
    </section>
  );
}

/**
 * A step in one sentence, for those who hear it.
 */
export function sayStep(step: IStep, trans: TranslationBundle): string {
  return [
    stepName(step, trans),
    stepStatus(step.status, trans),
    ...stepFacts(step, trans),
    step.reason,
    step.error
  ]
    .filter(Boolean)
    .join(', ');
}

/**
 * How many steps are inside, and how they stand.
 */
export function sayInside(
  inside: IStepRow['inside'],
  trans: TranslationBundle
): string {
  const counts = Object.entries(inside) as [IStep['status'], number][];
  const all = counts.reduce((sum, [, count]) => sum + count, 0);
  const parts = counts.map(
    ([status, count]) => `${grouped(count)} ${stepStatus(status, trans)}`
  );
  return counts.length === 1
    ? trans.__('%1 inside', parts[0])
    : trans.__('%1 inside: %2', grouped(all), parts.join(', '));
}

/**
 * How long a step took, or has been taking so far; nothing for one that has not begun.
 */
export function took(step: IStep, now: number): string {
  const begun = Date.parse(step.started);
  if (step.status === 'running' && !isNaN(begun)) {
    return duration(Math.max(0, Math.round((now - begun) / 1000)));
  }
  return step.seconds ? duration(step.seconds) : '';
}

/**
 * What a step came to besides its duration.
 */
export function stepFacts(step: IStep, trans: TranslationBundle): string[] {
  const facts = [];
  if (step.progress) {
    facts.push(sayProgress(step.progress, trans));
  }
  if (step.bytes) {
    facts.push(trans.__('%1 saved', size(step.bytes)));
  }
  if (step.attempt > 1) {
    facts.push(trans.__('attempt %1', step.attempt));
  }
  return facts;
}

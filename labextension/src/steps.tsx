/**
 * The steps of an opened run.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { duration, size, stepStatus } from './format';
import type { ITreeContext } from './runs';
import type { IRun, IStep } from './tokens';

/**
 * All steps of a run, or what stands in their way.
 */
export function StepRows(
  props: ITreeContext & { run: IRun; row: string }
): JSX.Element {
  const { model, trans, now, current, run, row } = props;
  const steps = model.steps(run.id);
  if (!steps) {
    return <p className="nbc-Quiet">{trans.__('Loading…')}</p>;
  }
  if ('message' in steps) {
    return (
      <p className="nbc-Quiet nbc-mod-error" role="alert">
        {steps.message} {steps.hint}
      </p>
    );
  }
  if (steps.length === 0) {
    return <p className="nbc-Quiet">{trans.__('No steps yet.')}</p>;
  }
  return (
    <div className="nbc-Steps" role="group">
      {steps.map(step => (
        <StepRow
          key={step.address}
          step={step}
          row={`${row}#${step.address}`}
          current={current}
          now={now}
          trans={trans}
        />
      ))}
    </div>
  );
}

function StepRow(props: {
  step: IStep;
  row: string;
  current: string;
  now: number;
  trans: TranslationBundle;
}): JSX.Element {
  const { step, row, current, now, trans } = props;
  const status = stepStatus(step.status, trans);
  const facts = stepFacts(step, trans);
  return (
    <div
      className="nbc-Step"
      role="treeitem"
      aria-level={2}
      aria-selected={current === row}
      aria-label={[step.name, status, ...facts, step.reason, step.error]
        .filter(Boolean)
        .join(', ')}
      data-row={row}
      data-status={step.status}
      tabIndex={current === row ? 0 : -1}
    >
      <span className="nbc-Dot" />
      <span className="nbc-Step-name" title={step.name}>
        {step.name}
      </span>
      <span className="nbc-Step-time">{took(step, now)}</span>
      <span className="nbc-Facts">
        <span className="nbc-Status">{status}</span>
        {facts.map(fact => (
          <span key={fact} className="nbc-Fact">
            {fact}
          </span>
        ))}
        {step.reason && (
          <span className="nbc-Fact nbc-mod-wrap">{step.reason}</span>
        )}
      </span>
      {step.error && <span className="nbc-Step-error">{step.error}</span>}
    </div>
  );
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
  if (step.bytes) {
    facts.push(trans.__('%1 saved', size(step.bytes)));
  }
  if (step.attempt > 1) {
    facts.push(trans.__('attempt %1', step.attempt));
  }
  return facts;
}

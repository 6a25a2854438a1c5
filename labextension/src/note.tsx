/**
 * Small things that are shown in several places.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { partOf, sayProgress } from './format';
import type { IProblem, IProgress } from './tokens';

/**
 * What went wrong, and what to do about it.
 */
export function ProblemNote({ problem }: { problem: IProblem }): JSX.Element {
  return (
    <div className="nbc-Problem" role="alert">
      <p className="nbc-Problem-message">{problem.message}</p>
      {problem.hint && <p className="nbc-Problem-hint">{problem.hint}</p>}
    </div>
  );
}

/**
 * How far it has come, as a bar and in words.
 */
export function Progress(props: {
  progress: IProgress;
  trans: TranslationBundle;
}): JSX.Element {
  const { progress, trans } = props;
  const said = sayProgress(progress, trans);
  return (
    <span className="nbc-Progress">
      {progress.total > 0 && (
        <progress value={partOf(progress)} max={1} aria-label={said} />
      )}
      <span className="nbc-Fact">{said}</span>
    </span>
  );
}

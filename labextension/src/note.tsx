/**
 * What went wrong, and what to do about it.
 */

import * as React from 'react';
import type { IProblem } from './tokens';

export function ProblemNote({ problem }: { problem: IProblem }): JSX.Element {
  return (
    <div className="nbc-Problem" role="alert">
      <p className="nbc-Problem-message">{problem.message}</p>
      {problem.hint && <p className="nbc-Problem-hint">{problem.hint}</p>}
    </div>
  );
}

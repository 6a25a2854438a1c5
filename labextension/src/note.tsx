/**
 * Small things that are shown in several places.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { partOf, sayProgress, splitPath } from './format';
import type { IProblem, IProgress, IRun } from './tokens';

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

/**
 * What a run is of: the folder may be cut short, the file is what it is known by.
 */
export function Workflow({ path }: { path: string }): JSX.Element {
  const { folder, name } = splitPath(path);
  return (
    <>
      {folder && (
        <span className="nbc-Run-folder" dir="auto">
          {folder}
        </span>
      )}
      <span className="nbc-Run-file" dir="auto">
        {name}
      </span>
    </>
  );
}

/**
 * What people have written on a run: its tags and its note.
 */
export function Remarks({ run }: { run: IRun }): JSX.Element | null {
  if (!run.note && run.tags.length === 0) {
    return null;
  }
  return (
    <span className="nbc-Run-note">
      {run.tags.map(tag => (
        <span key={tag} className="nbc-Tag" dir="auto">
          {tag}
        </span>
      ))}
      <bdi>{run.note}</bdi>
    </span>
  );
}

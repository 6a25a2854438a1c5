/**
 * Two checkpoints side by side: their code, what they read, what they left.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { sides } from './sides';
import type { IDiff, IDifference } from './tokens';

export function DiffView(props: {
  diff: IDiff;
  before: string;
  after: string;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, before, after, trans } = props;
  const isSame =
    diff.code.length === 0 &&
    diff.sameCode &&
    diff.values.length === 0 &&
    diff.inputs.length === 0;
  return (
    <div className="nbc-Diff">
      {isSame && <p className="nbc-Lead">{trans.__('No difference.')}</p>}
      {!diff.sameCode && diff.code.length === 0 && (
        <p className="nbc-Lead">
          {trans.__(
            'The code is the same, but something it calls has changed.'
          )}
        </p>
      )}
      {diff.code.length > 0 && (
        <table className="nbc-Sides">
          <caption>{trans.__('Code')}</caption>
          <thead>
            <tr>
              <th scope="col">{before}</th>
              <th scope="col">{after}</th>
            </tr>
          </thead>
          <tbody>
            {sides(diff.code).map((row, index) => (
              <tr key={index} data-kind={row.kind}>
                <td data-side={row.left === null ? 'none' : 'left'}>
                  {row.kind === 'gap' ? '…' : row.left}
                </td>
                <td data-side={row.right === null ? 'none' : 'right'}>
                  {row.kind === 'gap' ? '…' : row.right}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <Differences
        caption={trans.__('Variables')}
        rows={diff.values}
        {...{ before, after, trans }}
      />
      <Differences
        caption={trans.__('Inputs')}
        rows={diff.inputs}
        {...{ before, after, trans }}
      />
    </div>
  );
}

function Differences(props: {
  caption: string;
  rows: ReadonlyArray<IDifference>;
  before: string;
  after: string;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { caption, rows, before, after, trans } = props;
  const words = {
    added: trans.__('added'),
    removed: trans.__('removed'),
    changed: trans.__('changed'),
    maybe: trans.__('perhaps changed')
  };
  if (rows.length === 0) {
    return null;
  }
  return (
    <table className="nbc-Table">
      <caption>{caption}</caption>
      <thead>
        <tr>
          <th scope="col">{trans.__('Name')}</th>
          <th scope="col">{trans.__('Change')}</th>
          <th scope="col">{before}</th>
          <th scope="col">{after}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(row => (
          <tr key={row.name} data-change={row.change}>
            <th scope="row">{row.name}</th>
            <td>{words[row.change]}</td>
            <td>{row.before}</td>
            <td>{row.after}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/**
 * What a step left: names with their previews, its code, and what it showed. Made when it was saved, so looking loads
 * nothing. Text is text here, whatever it looks like, and a picture is a picture.
 */

import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';
import { duration, size, stepName, stepStatus } from './format';
import { ProblemNote } from './note';
import { isProblem } from './problem';
import type { IRunProps } from './steps';
import type { IPreview, IShown, IState } from './tokens';

export function Variables(props: IRunProps): JSX.Element {
  const { model, opened, trans } = props;
  const saved = opened.steps.filter(step => step.checkpoint);
  if (saved.length === 0) {
    return (
      <p className="nbc-Quiet" role="status">
        {trans.__('No step of this run has saved anything yet.')}
      </p>
    );
  }
  const chosen =
    saved.find(step => step.address === model.step) ?? saved[saved.length - 1];
  const preview = opened.preview(chosen.checkpoint);
  return (
    <div className="nbc-Variables">
      <label className="nbc-Variables-step">
        {trans.__('After step')}
        <HTMLSelect
          value={chosen.address}
          onChange={event => {
            model.step = event.target.value;
          }}
        >
          {saved.map((step, index) => (
            <option key={step.address} value={step.address}>
              {`${index + 1}. ${stepName(step, trans)} (${stepStatus(step.status, trans)}${step.seconds ? `, ${duration(step.seconds)}` : ''})`}
            </option>
          ))}
        </HTMLSelect>
      </label>
      <Values
        state={opened.state(chosen.address)}
        here={
          preview && !isProblem(preview)
            ? new Set(preview.values.map(value => value.name))
            : new Set()
        }
        trans={trans}
      />
      {!preview ? (
        <p className="nbc-Quiet" role="status">
          {trans.__('Loading…')}
        </p>
      ) : isProblem(preview) ? (
        <ProblemNote problem={preview} />
      ) : (
        <Preview preview={preview} trans={trans} />
      )}
    </div>
  );
}

/**
 * All variables after the step; those it set itself stand out.
 */
function Values(props: {
  state: IState;
  here: ReadonlySet<string>;
  trans: IRunProps['trans'];
}): JSX.Element {
  const { state, here, trans } = props;
  // What is small has its bytes among those of others; a column for nothing takes room from the values.
  const hasSizes = state.values.some(value => value.size > 0);
  return (
    <table className="nbc-Table">
      <caption>{trans.__('Variables after it')}</caption>
      <thead>
        <tr>
          <th scope="col">{trans.__('Name')}</th>
          <th scope="col">{trans.__('Value')}</th>
          {hasSizes && <th scope="col">{trans.__('Size')}</th>}
        </tr>
      </thead>
      <tbody>
        {state.values.map(value => (
          <tr key={value.name} data-here={here.has(value.name)}>
            <th
              scope="row"
              title={here.has(value.name) ? trans.__('Set by this step') : ''}
            >
              <bdi>{value.name}</bdi>
            </th>
            <td>
              <span className="nbc-Type">
                {[value.type, value.shape].filter(Boolean).join(' ')}
              </span>
              {value.preview && <code>{value.preview}</code>}
            </td>
            {hasSizes && <td>{value.size ? size(value.size) : ''}</td>}
          </tr>
        ))}
        {(state.isPartial || state.values.length === 0) && (
          <tr>
            <td colSpan={hasSizes ? 3 : 2}>
              {state.isPartial
                ? trans.__('Some are not here (yet).')
                : trans.__('No variables.')}
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function Preview(props: {
  preview: IPreview;
  trans: IRunProps['trans'];
}): JSX.Element {
  const { preview, trans } = props;
  return (
    <>
      {preview.source && (
        <>
          <h4>{trans.__('Its code')}</h4>
          <pre className="nbc-Code">{preview.source}</pre>
        </>
      )}
      {preview.outputs.length > 0 && <h4>{trans.__('What it showed')}</h4>}
      {preview.outputs.map((shown, index) => (
        <Shown key={index} shown={shown} trans={trans} />
      ))}
    </>
  );
}

function Shown(props: {
  shown: IShown;
  trans: IRunProps['trans'];
}): JSX.Element {
  const { shown, trans } = props;
  return shown.kind === 'image/png' ? (
    <img
      className="nbc-Shown"
      alt={trans.__('A picture the step showed')}
      src={`data:image/png;base64,${shown.text}`}
    />
  ) : (
    <pre className={`nbc-Code nbc-mod-${shown.kind}`}>{shown.text}</pre>
  );
}

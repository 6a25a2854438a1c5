/**
 * What is asked before something is done, and what is told afterwards.
 */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect, ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import { ProblemNote } from './note';
import { explain } from './problem';

/**
 * A dialog's body that is asked for what was filled in.
 */
class Form<T> extends ReactWidget implements Dialog.IBodyWidget<T> {
  constructor(
    private _value: T,
    private readonly _draw: (value: T, set: (value: T) => void) => JSX.Element
  ) {
    super();
    this.addClass('nbc-Form');
  }

  getValue(): T {
    return this._value;
  }

  protected override render(): JSX.Element {
    return this._draw(this._value, value => {
      this._value = value;
      this.update();
    });
  }
}

/**
 * Ask something that is filled in. Null when the user would rather not.
 */
export async function fillIn<T>(options: {
  title: string;
  accept: string;
  value: T;
  draw: (value: T, set: (value: T) => void) => JSX.Element;
  trans: TranslationBundle;
}): Promise<T | null> {
  const { title, accept, value, draw, trans } = options;
  const result = await showDialog<T>({
    title,
    body: new Form(value, draw),
    focusNodeSelector: 'input, select, textarea',
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: accept })
    ]
  });
  return result.button.accept ? result.value : null;
}

/**
 * Ask whether to go on.
 */
export async function confirm(options: {
  title: string;
  body: JSX.Element;
  accept: string;
  warn?: boolean;
  trans: TranslationBundle;
}): Promise<boolean> {
  const { title, body, accept, warn, trans } = options;
  const make = warn ? Dialog.warnButton : Dialog.okButton;
  const result = await showDialog({
    title,
    body: ReactWidget.create(<div className="nbc-Form">{body}</div>),
    // What loses something is not what Enter does.
    defaultButton: warn ? 0 : 1,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      make({ label: accept })
    ]
  });
  return result.button.accept;
}

/**
 * Show something that only has to be read.
 */
export async function show(
  title: string,
  body: JSX.Element,
  trans: TranslationBundle
): Promise<void> {
  await showDialog({
    title,
    body: ReactWidget.create(
      <div className="nbc-Form nbc-mod-wide">{body}</div>
    ),
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

/**
 * Do something; what goes wrong is told, as a sentence with what to do about it.
 */
export async function telling(
  title: string,
  work: () => Promise<void>,
  trans: TranslationBundle
): Promise<void> {
  try {
    await work();
  } catch (error) {
    await show(title, <ProblemNote problem={explain(error, trans)} />, trans);
  }
}

/**
 * A field of a form with what it is called.
 */
export function Field(
  props: React.PropsWithChildren<{ label: string; hint?: string }>
): JSX.Element {
  return (
    <label className="nbc-Field">
      <span>{props.label}</span>
      {props.children}
      {props.hint && <small>{props.hint}</small>}
    </label>
  );
}

/**
 * One of several.
 */
export function Choice(props: {
  label: string;
  value: string;
  options: ReadonlyArray<{ value: string; label: string }>;
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <Field label={props.label}>
      <HTMLSelect
        value={props.value}
        onChange={event => props.onChange(event.target.value)}
      >
        {props.options.map(option => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </HTMLSelect>
    </Field>
  );
}

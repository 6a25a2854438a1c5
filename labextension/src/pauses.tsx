/**
 * Questions a run waits with, and where they are answered.
 */

import * as React from 'react';
import { said } from './decode';
import type { IRunProps } from './steps';
import type { IPause } from './tokens';

/**
 * Every open question of a run.
 */
export function Pauses(props: IRunProps): JSX.Element {
  const open = props.opened.steps.filter(
    step => step.status === 'paused' && step.pause
  );
  return (
    <>
      {open.map(step => (
        <Question key={step.address} {...props} pause={step.pause!} />
      ))}
    </>
  );
}

function Question(props: IRunProps & { pause: IPause }): JSX.Element {
  const { run, actions, trans, pause } = props;
  const answer = (value: unknown): void =>
    void actions.answer(run, pause, value);
  return (
    <section
      className="nbc-Pause"
      aria-label={trans.__('It waits for an answer')}
    >
      <p className="nbc-Pause-prompt">{pause.prompt || pause.name}</p>
      {pause.choices ? (
        <div className="nbc-Buttons">
          {pause.choices.map((choice, index) => (
            <button
              key={index}
              className="jp-mod-styled"
              onClick={() => answer(choice)}
            >
              {said(choice)}
            </button>
          ))}
        </div>
      ) : (
        <FreeAnswer pause={pause} answer={answer} trans={trans} />
      )}
    </section>
  );
}

function FreeAnswer(props: {
  pause: IPause;
  answer: (value: unknown) => void;
  trans: IRunProps['trans'];
}): JSX.Element {
  const { pause, answer, trans } = props;
  const [text, setText] = React.useState(said(pause.default));
  return (
    <form
      className="nbc-Buttons"
      onSubmit={event => {
        event.preventDefault();
        answer(readAnswer(text));
      }}
    >
      <input
        className="jp-mod-styled"
        aria-label={trans.__('Answer to %1', pause.name)}
        value={text}
        onChange={event => setText(event.target.value)}
      />
      <button className="jp-mod-styled" type="submit">
        {trans.__('Answer')}
      </button>
    </form>
  );
}

/**
 * What was typed, as a value: JSON where it is that, else the text itself. An empty answer is one, too.
 */
export function readAnswer(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

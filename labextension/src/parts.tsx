/**
 * What happened in a run, and where it was made.
 */

import * as React from 'react';
import { said } from './decode';
import { exactTime } from './format';
import { ProblemNote } from './note';
import { isProblem } from './problem';
import type { IRunProps } from './steps';
import type { IEvent } from './tokens';
import type { IRow } from './windowing';
import { Windowed } from './windowing';

interface IEventRow extends IRow {
  readonly event: IEvent;
}

/**
 * Every event, the oldest first.
 */
export function Events({ opened, trans }: IRunProps): JSX.Element {
  const events = opened.part('events');
  const [active, setActive] = React.useState('');
  const rows = React.useMemo(
    () =>
      events && !isProblem(events)
        ? events.map((event, index): IEventRow => ({
            key: String(index),
            lines: 2,
            isItem: true,
            event
          }))
        : [],
    [events]
  );
  if (!events) {
    return (
      <p className="nbc-Quiet" role="status">
        {trans.__('Loading…')}
      </p>
    );
  }
  if (isProblem(events)) {
    return <ProblemNote problem={events} />;
  }
  if (events.length === 0) {
    return <p className="nbc-Quiet">{trans.__('No events yet.')}</p>;
  }
  return (
    <Windowed
      role="list"
      label={trans.__('Events')}
      rows={rows}
      active={active}
      onActive={row => setActive(row.key)}
      draw={({ event }) => (
        <div className="nbc-Event" data-type={event.type}>
          <span className="nbc-Event-type">
            {event.type.replace(/_/g, ' ')}
          </span>
          <time
            className="nbc-Run-time"
            dateTime={event.time}
            title={exactTime(event.time)}
          >
            {clock(event.time)}
          </time>
          <span className="nbc-Event-data" title={sayData(event)}>
            {sayData(event)}
          </span>
        </div>
      )}
    />
  );
}

function clock(iso: string): string {
  const then = Date.parse(iso);
  return isNaN(then) ? '' : new Date(then).toLocaleTimeString();
}

/**
 * What an event is about, by the name of its step where it has one, and what else it tells.
 */
export function sayData(event: IEvent): string {
  const { name, ...others } = event.data;
  const facts = Object.entries(others)
    .filter(([, value]) => said(value) !== '')
    .map(([fact, value]) => `${fact}: ${said(value)}`);
  return [said(name) || event.step, ...facts].filter(Boolean).join(' · ');
}

/**
 * Where it was made, and what is different now.
 */
export function Environment({ opened, trans }: IRunProps): JSX.Element {
  const environment = opened.part('environment');
  if (!environment) {
    return (
      <p className="nbc-Quiet" role="status">
        {trans.__('Loading…')}
      </p>
    );
  }
  if (isProblem(environment)) {
    return <ProblemNote problem={environment} />;
  }
  const differs = new Map(environment.differs.map(fact => [fact.name, fact]));
  const names = [
    ...new Set([...differs.keys(), ...Object.keys(environment.then)])
  ];
  if (names.length === 0) {
    return (
      <p className="nbc-Quiet">
        {trans.__('It was not written down where this run was made.')}
      </p>
    );
  }
  const isKnown = (name: string): boolean =>
    differs.has(name) || name in environment.now;
  return (
    <div className="nbc-Environment">
      <p className="nbc-Lead">
        {differs.size === 0
          ? names.every(isKnown)
            ? trans.__('Nothing is different now.')
            : trans.__('Nothing is known to be different now.')
          : trans._n(
              '%1 thing is different now.',
              '%1 things are different now.',
              differs.size
            )}
      </p>
      <table className="nbc-Table">
        <caption>{trans.__('Environment')}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('What')}</th>
            <th scope="col">{trans.__('Then')}</th>
            <th scope="col">{trans.__('Now')}</th>
          </tr>
        </thead>
        <tbody>
          {names.map(name => {
            const fact = differs.get(name);
            return (
              <tr key={name} data-differs={fact !== undefined}>
                <th scope="row">{name}</th>
                <td>{fact?.then ?? environment.then[name]}</td>
                <td>
                  {fact
                    ? fact.now || trans.__('none')
                    : isKnown(name)
                      ? trans.__('same')
                      : trans.__('not known here')}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

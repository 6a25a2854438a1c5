/**
 * One run, opened: what it is, what can be done with it, and its parts behind tabs.
 */

import {
  ToolbarButtonComponent,
  caretLeftIcon,
  deleteIcon,
  downloadIcon,
  editIcon,
  fastForwardIcon,
  lockIcon,
  undoIcon
} from '@jupyterlab/ui-components';
import * as React from 'react';
import { runFacts } from './arrange';
import { ago, exactTime, runStatus } from './format';
import { Graph } from './graph';
import { Environment, Events } from './parts';
import { Pauses } from './pauses';
import { ProblemNote, Progress, Remarks, Workflow } from './note';
import { useNow } from './runs';
import type { IRunProps } from './steps';
import { Steps } from './steps';
import { Variables } from './variables';

type Tab = 'steps' | 'variables' | 'graph' | 'events' | 'environment';

/**
 * The whole view.
 */
export function RunView(props: Omit<IRunProps, 'run'>): JSX.Element {
  const { model, opened, trans } = props;
  const { run, problem } = opened;
  return (
    <div className="nbc-RunView" data-status={run?.status}>
      <div className="nbc-RunView-bar">
        <ToolbarButtonComponent
          className="nbc-Back"
          icon={caretLeftIcon}
          tooltip={trans.__('Back to all runs')}
          onClick={() => model.close()}
        />
        {run && <Actions {...props} run={run} />}
      </div>
      {problem && <ProblemNote problem={problem} />}
      {run && (
        <>
          <About {...props} run={run} />
          <Pauses {...props} run={run} />
          <Tabs {...props} run={run} />
        </>
      )}
      {!run && !problem && (
        <p className="nbc-Quiet" role="status">
          {trans.__('Loading…')}
        </p>
      )}
    </div>
  );
}

function Actions({ run, actions, trans }: IRunProps): JSX.Element {
  const isOurs = run.kind === 'notebook';
  return (
    <div
      className="nbc-Actions"
      role="toolbar"
      aria-label={trans.__('What can be done with this run')}
    >
      {isOurs && (
        <ToolbarButtonComponent
          icon={fastForwardIcon}
          tooltip={trans.__('Resume: run on from where it stopped')}
          enabled={run.status !== 'running' && run.trusted}
          onClick={() => void actions.resume(run)}
        />
      )}
      {isOurs && (
        <ToolbarButtonComponent
          icon={undoIcon}
          tooltip={trans.__('Restore the variables it had at its end…')}
          enabled={run.trusted}
          onClick={() => void actions.restore(run)}
        />
      )}
      <ToolbarButtonComponent
        icon={lockIcon}
        pressed={run.pinned}
        tooltip={trans.__('Pin: never prune it')}
        pressedTooltip={trans.__('Unpin: let it be pruned')}
        onClick={() => void actions.pin(run, !run.pinned)}
      />
      <ToolbarButtonComponent
        icon={editIcon}
        tooltip={trans.__('Write a note…')}
        onClick={() => void actions.note(run)}
      />
      <ToolbarButtonComponent
        icon={downloadIcon}
        tooltip={trans.__('Export it as a file')}
        onClick={() => void actions.export(run)}
      />
      <ToolbarButtonComponent
        icon={deleteIcon}
        tooltip={trans.__('Delete…')}
        onClick={() => void actions.delete(run)}
      />
    </div>
  );
}

function About({ run, opened, trans }: IRunProps): JSX.Element {
  const now = useNow(10_000);
  // The last of them, as in the list: what it is at, rather than what is around that.
  const current = [...opened.steps]
    .reverse()
    .find(step => step.status === 'running' && step.progress)?.progress;
  return (
    <div className="nbc-About" title={`${run.workflow} · ${run.id}`}>
      <h3 className="nbc-About-name">
        <Workflow path={run.workflow} />
      </h3>
      <div className="nbc-Facts">
        <span className="nbc-Status">{runStatus(run.status, trans)}</span>
        <time
          className="nbc-Fact"
          dateTime={run.updated}
          title={exactTime(run.updated)}
        >
          {ago(run.updated, now, trans)}
        </time>
        {runFacts(run, trans).map(fact => (
          <span key={fact} className="nbc-Fact">
            {fact}
          </span>
        ))}
      </div>
      {run.status === 'running' && current && (
        <Progress progress={current} trans={trans} />
      )}
      <Remarks run={run} />
    </div>
  );
}

function Tabs(props: IRunProps): JSX.Element {
  const { trans } = props;
  const [tab, setTab] = React.useState<Tab>('steps');
  const id = React.useId();
  const node = React.useRef<HTMLDivElement>(null);
  const tabs: [Tab, string][] = [
    ['steps', trans.__('Steps')],
    ['variables', trans.__('Variables')],
    ['graph', trans.__('Graph')],
    ['events', trans.__('Events')],
    ['environment', trans.__('Environment')]
  ];
  const views: Record<Tab, (all: IRunProps) => JSX.Element> = {
    steps: Steps,
    variables: Variables,
    graph: Graph,
    events: Events,
    environment: Environment
  };
  const View = views[tab];
  const onKeyDown = (event: React.KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const at = tabs.findIndex(([name]) => name === tab) + step;
      const [next] = tabs[(at + tabs.length) % tabs.length];
      setTab(next);
      node.current?.querySelector<HTMLElement>(`[data-tab=${next}]`)?.focus();
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    <>
      {/* The keys of a row of tabs are handled where they all are. */}
      {/* eslint-disable-next-line jsx-a11y/interactive-supports-focus */}
      <div
        ref={node}
        className="nbc-Tabs"
        role="tablist"
        aria-label={trans.__('Parts of the run')}
        onKeyDown={onKeyDown}
      >
        {tabs.map(([name, label]) => (
          <button
            key={name}
            id={`${id}-${name}`}
            data-tab={name}
            className="nbc-Tab"
            role="tab"
            aria-selected={tab === name}
            aria-controls={`${id}-panel`}
            tabIndex={tab === name ? 0 : -1}
            title={label}
            onClick={() => setTab(name)}
          >
            {label}
          </button>
        ))}
      </div>
      <div
        id={`${id}-panel`}
        className="nbc-TabPanel"
        role="tabpanel"
        aria-labelledby={`${id}-${tab}`}
      >
        <View {...props} />
      </div>
    </>
  );
}

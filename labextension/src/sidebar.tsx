/**
 * The panel on the left: its frame, its filters, and what it says when there is nothing to list.
 */

import { PageConfig } from '@jupyterlab/coreutils';
import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { nullTranslator } from '@jupyterlab/translation';
import {
  HTMLSelect,
  ReactWidget,
  ToolbarButtonComponent,
  UseSignal,
  cleaningIcon,
  codeCheckIcon,
  fileUploadIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';
import { STATUSES, isFiltered, tagsOf } from './arrange';
import { grouped, runStatus, shortStore } from './format';
import { checkpointIcon } from './icons';
import { ProblemNote } from './note';
import { RunView } from './run';
import { RunList } from './runs';
import type { IActions, ICheckpointModel, IRunList, RunStatus } from './tokens';

/**
 * So long nothing is typed before it is looked for.
 */
const PAUSE = 150;

/**
 * The sidebar widget. It tells the model whether anybody looks.
 */
export class CheckpointSidebar extends ReactWidget {
  constructor(
    model: ICheckpointModel,
    actions: IActions,
    translator?: ITranslator
  ) {
    super();
    this._model = model;
    this._actions = actions;
    this._trans = (translator ?? nullTranslator).load('nbcheckpoint');
    this.id = 'nbcheckpoint-sidebar';
    this.addClass('nbc-Sidebar');
    this.title.icon = checkpointIcon;
    this.title.caption = this._trans.__('Checkpoints');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this._trans.__('Checkpoints'));
  }

  protected override render(): JSX.Element {
    return (
      <Sidebar
        model={this._model}
        actions={this._actions}
        trans={this._trans}
      />
    );
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this._model.active = this.isVisible;
  }

  protected override onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._model.active = true;
  }

  protected override onAfterHide(msg: Message): void {
    super.onAfterHide(msg);
    this._model.active = false;
  }

  protected override onBeforeDetach(msg: Message): void {
    this._model.active = false;
    super.onBeforeDetach(msg);
  }

  protected override onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    this.node
      .querySelector<HTMLElement>('.nbc-Back, .nbc-Windowed, input')
      ?.focus();
  }

  private readonly _model: ICheckpointModel;
  private readonly _actions: IActions;
  private readonly _trans: TranslationBundle;
}

/**
 * The parts every piece of the view needs.
 */
export interface IViewProps {
  model: ICheckpointModel;
  actions: IActions;
  trans: TranslationBundle;
}

/**
 * The whole panel: the list, or the run that is open.
 */
export function Sidebar(props: IViewProps): JSX.Element {
  const { model } = props;
  return (
    <UseSignal signal={model.changed}>{() => <Current {...props} />}</UseSignal>
  );
}

function Current(props: IViewProps): JSX.Element {
  const { model } = props;
  const node = React.useRef<HTMLDivElement>(null);
  const opened = model.opened;
  const id = opened?.id ?? '';
  const wasOpen = React.useRef(id);
  React.useEffect(() => {
    // What had the focus is gone with the view it was in: it goes to the first thing of the one that has come.
    const { activeElement, body } = document;
    if (wasOpen.current !== id && (activeElement ?? body) === body) {
      node.current
        ?.querySelector<HTMLElement>('.nbc-Back, .nbc-Windowed')
        ?.focus();
    }
    wasOpen.current = id;
  }, [id]);
  return (
    <div ref={node} className="nbc-Current">
      {opened ? (
        <RunView key={id} {...props} opened={opened} />
      ) : (
        <Overview {...props} />
      )}
    </div>
  );
}

function Overview(props: IViewProps): JSX.Element {
  const { model, actions, trans } = props;
  return (
    <>
      <header className="nbc-Header">
        <h2 className="nbc-Header-title">{trans.__('Checkpoints')}</h2>
        <div
          className="nbc-Actions"
          role="toolbar"
          aria-label={trans.__('What can be done with the store')}
        >
          <ToolbarButtonComponent
            icon={fileUploadIcon}
            tooltip={trans.__('Import a run from a file…')}
            onClick={() => void actions.import()}
          />
          <ToolbarButtonComponent
            icon={codeCheckIcon}
            tooltip={trans.__('Verify: read everything, say what is damaged')}
            onClick={() => void actions.verify()}
          />
          <ToolbarButtonComponent
            icon={cleaningIcon}
            tooltip={trans.__('Prune: remove what is old…')}
            onClick={() => void actions.prune()}
          />
          <ToolbarButtonComponent
            icon={refreshIcon}
            tooltip={trans.__('Refresh checkpoints')}
            onClick={() => void model.refresh()}
          />
        </div>
      </header>
      <Filters {...props} />
      <Content {...props} />
    </>
  );
}

function Filters({ model, trans }: IViewProps): JSX.Element {
  const { filter } = model;
  const tags = tagsOf([model.list, model.mine]);
  if (filter.tag && !tags.includes(filter.tag)) {
    tags.push(filter.tag);
  }
  return (
    <div className="nbc-Filter" role="search">
      <Search
        value={filter.text}
        label={trans.__('Filter runs')}
        onChange={text => {
          model.filter = { ...model.filter, text };
        }}
      />
      <div className="nbc-Filter-choices">
        <HTMLSelect
          aria-label={trans.__('Status')}
          value={filter.status}
          onChange={event => {
            const status = event.target.value as RunStatus | '';
            model.filter = { ...model.filter, status };
          }}
        >
          <option value="">{trans.__('Any status')}</option>
          {STATUSES.map(status => (
            <option key={status} value={status}>
              {runStatus(status, trans)}
            </option>
          ))}
        </HTMLSelect>
        {tags.length > 0 && (
          <HTMLSelect
            aria-label={trans.__('Tag')}
            value={filter.tag}
            onChange={event => {
              model.filter = { ...model.filter, tag: event.target.value };
            }}
          >
            <option value="">{trans.__('Any tag')}</option>
            {tags.map(tag => (
              <option key={tag} value={tag}>
                {tag}
              </option>
            ))}
          </HTMLSelect>
        )}
      </div>
    </div>
  );
}

/**
 * A field whose text is passed on when the typing pauses: every question goes to the server.
 */
function Search(props: {
  value: string;
  label: string;
  onChange: (text: string) => void;
}): JSX.Element {
  const { label, onChange } = props;
  const [text, setText] = React.useState(props.value);
  const timer = React.useRef(0);
  React.useEffect(() => () => window.clearTimeout(timer.current), []);
  return (
    <input
      type="search"
      className="nbc-Search"
      placeholder={label}
      aria-label={label}
      value={text}
      onChange={event => {
        const typed = event.target.value;
        setText(typed);
        window.clearTimeout(timer.current);
        timer.current = window.setTimeout(() => onChange(typed.trim()), PAUSE);
      }}
    />
  );
}

function Content({ model, trans }: IViewProps): JSX.Element {
  const { list, problem, filter } = model;
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      <div className="nbc-Content">
        {!list && !problem && (
          <p className="nbc-Quiet" role="status">
            {trans.__('Looking into the store…')}
          </p>
        )}
        {list &&
          (list.runs.length > 0 || isFiltered(filter) ? (
            <RunList model={model} list={list} trans={trans} />
          ) : (
            !problem && <Empty trans={trans} />
          ))}
      </div>
      {list?.store && <Footer list={list} store={list.store} trans={trans} />}
    </>
  );
}

/**
 * Nothing saved yet: the moment to say how it is done.
 */
function Empty({ trans }: { trans: TranslationBundle }): JSX.Element {
  return (
    <div className="nbc-Empty">
      <checkpointIcon.react className="nbc-Empty-icon" tag="div" width="40px" />
      <p className="nbc-Empty-lead">{trans.__('Nothing saved here yet.')}</p>
      <p>
        {trans.__(
          'Load the extension once, then mark a slow cell. Its variables and outputs are saved when it is done, and restored instead of computed when it runs again, also in a new kernel.'
        )}
      </p>
      <pre className="nbc-Empty-code">
        <code>{'%load_ext nbcheckpoint'}</code>
      </pre>
      <pre className="nbc-Empty-code">
        <code>{'%%checkpointed\nmodel = train(data)'}</code>
      </pre>
      <p>
        {trans.__('Or save every slow statement of every cell:')}{' '}
        <code>%checkpoint auto</code>
      </p>
    </div>
  );
}

function Footer(props: {
  list: IRunList;
  store: string;
  trans: TranslationBundle;
}): JSX.Element {
  const { list, store, trans } = props;
  const count = list.next
    ? trans.__('%1 newest runs', grouped(list.runs.length))
    : trans._n(
        '%2 run',
        '%2 runs',
        list.runs.length,
        grouped(list.runs.length)
      );
  return (
    <footer className="nbc-Footer" title={trans.__('Store: %1', store)}>
      <span>{count}</span>
      {/* Shortened on the left: the end of a path says more than its beginning. */}
      <span className="nbc-Footer-store">
        <bdi>{shortStore(store, PageConfig.getOption('serverRoot'))}</bdi>
      </span>
    </footer>
  );
}

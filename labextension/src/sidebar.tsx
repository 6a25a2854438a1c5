/**
 * The panel on the left: its frame, and what it says when there is nothing to list.
 */

import { PageConfig } from '@jupyterlab/coreutils';
import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { nullTranslator } from '@jupyterlab/translation';
import {
  FilterBox,
  ReactWidget,
  ToolbarButtonComponent,
  UseSignal,
  refreshIcon
} from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';
import { arrange } from './arrange';
import { shortStore } from './format';
import { checkpointIcon } from './icons';
import { RunTree } from './runs';
import type { ICheckpointModel, IProblem, IRunList } from './tokens';

/**
 * The sidebar widget. It tells the model whether anybody looks.
 */
export class CheckpointSidebar extends ReactWidget {
  constructor(model: ICheckpointModel, translator?: ITranslator) {
    super();
    this._model = model;
    this._trans = (translator ?? nullTranslator).load('nbcheckpoint');
    this.id = 'nbcheckpoint-sidebar';
    this.addClass('nbc-Sidebar');
    this.title.icon = checkpointIcon;
    this.title.caption = this._trans.__('Checkpoints');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this._trans.__('Checkpoints'));
  }

  protected override render(): JSX.Element {
    return <Sidebar model={this._model} trans={this._trans} />;
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
      .querySelector<HTMLElement>('[role="treeitem"][tabindex="0"], button')
      ?.focus();
  }

  private readonly _model: ICheckpointModel;
  private readonly _trans: TranslationBundle;
}

/**
 * The parts every piece of the view needs.
 */
export interface IViewProps {
  model: ICheckpointModel;
  trans: TranslationBundle;
}

/**
 * The whole panel.
 */
export function Sidebar({ model, trans }: IViewProps): JSX.Element {
  return (
    <>
      <header className="nbc-Header">
        <h2 className="nbc-Header-title">{trans.__('Checkpoints')}</h2>
        <ToolbarButtonComponent
          icon={refreshIcon}
          tooltip={trans.__('Refresh checkpoints')}
          onClick={() => void model.refresh()}
        />
      </header>
      <div className="nbc-Filter">
        <FilterBox
          placeholder={trans.__('Filter runs')}
          updateFilter={(_, query) => {
            model.filter = query ?? '';
          }}
          useFuzzyFilter={false}
          caseSensitive={false}
        />
      </div>
      <UseSignal signal={model.changed}>
        {() => <Content model={model} trans={trans} />}
      </UseSignal>
    </>
  );
}

function Content({ model, trans }: IViewProps): JSX.Element {
  const { list, problem, filter } = model;
  return (
    <>
      <div className="nbc-Content">
        {problem && <Problem problem={problem} />}
        {!list && !problem && (
          <p className="nbc-Quiet" role="status">
            {trans.__('Looking into the store…')}
          </p>
        )}
        {list &&
          (list.runs.length > 0 ? (
            <RunTree
              model={model}
              arrangement={arrange(list, filter)}
              trans={trans}
            />
          ) : (
            !problem && <Empty trans={trans} />
          ))}
        {list?.next && (
          <button
            className="nbc-More jp-mod-styled jp-mod-minimal"
            onClick={() => void model.showOlder()}
          >
            {trans.__('Show older runs')}
          </button>
        )}
      </div>
      {list?.store && <Footer list={list} store={list.store} trans={trans} />}
    </>
  );
}

/**
 * What went wrong, and what to do about it.
 */
export function Problem({ problem }: { problem: IProblem }): JSX.Element {
  return (
    <div className="nbc-Problem" role="alert">
      <p className="nbc-Problem-message">{problem.message}</p>
      {problem.hint && <p className="nbc-Problem-hint">{problem.hint}</p>}
    </div>
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
    ? trans.__('%1 newest runs', list.runs.length)
    : trans._n('%1 run', '%1 runs', list.runs.length);
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

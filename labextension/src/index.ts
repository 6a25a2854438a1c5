/**
 * The plugins. Everything the host may lack is optional, so that they start in Notebook 7 as well.
 */

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { NotebookBadges } from './badge';
import { addCommands } from './commands';
import { CheckpointModel } from './model';
import { CheckpointSidebar } from './sidebar';
import { ICheckpointModel } from './tokens';

export { ICheckpointModel } from './tokens';
export type { IProblem, IRun, IRunList, IStep } from './tokens';

const SIDEBAR = 'nbcheckpoint:plugin';

/**
 * The model: what the server knows, about the notebook in front.
 */
const model: JupyterFrontEndPlugin<ICheckpointModel> = {
  id: 'nbcheckpoint:model',
  description: 'Keeps what nbcheckpoint has saved, as the server tells it.',
  autoStart: true,
  provides: ICheckpointModel,
  optional: [INotebookTracker, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker | null,
    translator: ITranslator | null
  ): ICheckpointModel => {
    const checkpoints = new CheckpointModel({
      serverSettings: app.serviceManager.serverSettings,
      trans: (translator ?? nullTranslator).load('nbcheckpoint')
    });
    if (tracker) {
      const follow = (): void => {
        checkpoints.path = app.serviceManager.contents.localPath(
          tracker.currentWidget?.context.path ?? ''
        );
      };
      tracker.currentChanged.connect(follow);
      tracker.widgetAdded.connect((_, panel) => {
        panel.context.pathChanged.connect(follow);
      });
      follow();
      // Not the truth, only a hint that there may be news: the truth is in the store.
      NotebookActions.executed.connect(() => void checkpoints.refresh());
    }
    return checkpoints;
  }
};

/**
 * The panel on the left, and the commands.
 */
const sidebar: JupyterFrontEndPlugin<void> = {
  id: SIDEBAR,
  description: 'Lists what nbcheckpoint has saved in the left sidebar.',
  autoStart: true,
  requires: [ICheckpointModel],
  optional: [ICommandPalette, ILayoutRestorer, ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    checkpoints: ICheckpointModel,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    const panel = new CheckpointSidebar(checkpoints, translator ?? undefined);
    const trans = (translator ?? nullTranslator).load('nbcheckpoint');
    app.shell.add(panel, 'left', { rank: 650, type: 'Checkpoints' });
    restorer?.add(panel, panel.id);
    const added = addCommands(app, checkpoints, panel, palette, trans);
    panel.disposed.connect(() => added.dispose());
    void settings?.load(SIDEBAR).then(
      loaded => {
        const apply = (): void => {
          checkpoints.refreshSeconds = loaded.get('refreshSeconds')
            .composite as number;
        };
        loaded.changed.connect(apply);
        apply();
      },
      reason => console.error(`No settings for ${SIDEBAR}`, reason)
    );
  }
};

/**
 * The badges on cells.
 */
const badges: JupyterFrontEndPlugin<void> = {
  id: 'nbcheckpoint:badges',
  description: 'Marks cells that nbcheckpoint computed or restored.',
  autoStart: true,
  optional: [INotebookTracker, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    tracker: INotebookTracker | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('nbcheckpoint');
    tracker?.forEach(panel => void new NotebookBadges(panel, trans));
    tracker?.widgetAdded.connect(
      (_, panel) => void new NotebookBadges(panel, trans)
    );
  }
};

export default [model, sidebar, badges];

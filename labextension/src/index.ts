/**
 * The plugins. Everything the host may lack is optional, so that they start in Notebook 7 as well.
 */

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Opener } from './actions';
import { Actions } from './actions';
import { NotebookBanner } from './banner';
import { addCommands } from './commands';
import { telling } from './dialogs';
import { CheckpointModel } from './model';
import { Notebooks } from './notebooks';
import { Refusal } from './problem';
import { Api } from './request';
import { Restorer } from './restorer';
import { CheckpointSidebar } from './sidebar';
import { StatusItem } from './status';
import { ICheckpointModel } from './tokens';
import type { IStep } from './tokens';

export { ICheckpointModel } from './tokens';
export type { IProblem, IRun, IRunList, IStep } from './tokens';

const PLUGIN = 'nbcheckpoint:plugin';

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
 * What the user has set.
 */
interface ISettings {
  banner: boolean;
  lookForStale: boolean;
}

/**
 * The panel on the left, the commands, and what each notebook has of ours.
 */
const main: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'Shows what nbcheckpoint has saved, and goes on with it.',
  autoStart: true,
  requires: [ICheckpointModel],
  optional: [
    INotebookTracker,
    ICommandPalette,
    ILayoutRestorer,
    ISettingRegistry,
    IStatusBar,
    ITranslator
  ],
  activate: (
    app: JupyterFrontEnd,
    checkpoints: ICheckpointModel,
    tracker: INotebookTracker | null,
    palette: ICommandPalette | null,
    layout: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('nbcheckpoint');
    const restorer = new Restorer(trans);
    const open = opener(app, tracker, trans);
    const actions = new Actions(checkpoints, open, restorer, trans);
    const sidebar = new CheckpointSidebar(
      checkpoints,
      actions,
      translator ?? undefined
    );
    app.shell.add(sidebar, 'left', { rank: 650, type: 'Checkpoints' });
    layout?.add(sidebar, sidebar.id);
    const wanted: ISettings = { banner: true, lookForStale: true };
    // A notebook that is open from the beginning waits for what the user has set.
    const settled = follow(registry, checkpoints, wanted, () =>
      tracker?.forEach(panel => void notebooks?.of(panel)?.banner.look())
    );
    const banner = (panel: NotebookPanel): NotebookBanner =>
      new NotebookBanner({
        panel,
        settings: app.serviceManager.serverSettings,
        localPath: path => app.serviceManager.contents.localPath(path),
        isWanted: async () => (await settled, wanted.banner),
        restorer,
        choose: run => {
          app.shell.activateById(sidebar.id);
          checkpoints.open(run.id);
        },
        trans
      });
    const notebooks = tracker
      ? new Notebooks(tracker, {
          trans,
          banner,
          lookForStale: () => wanted.lookForStale,
          steps: panel =>
            stepsNow(
              new Api(
                app.serviceManager.serverSettings,
                app.serviceManager.contents.localPath(panel.context.path)
              )
            )
        })
      : null;
    notebooks?.asked.connect((_, checkpoint) => {
      app.shell.activateById(sidebar.id);
      void telling(
        trans.__('Cannot show it'),
        () => showCheckpoint(checkpoints, checkpoint),
        trans
      );
    });
    const added = addCommands({
      app,
      model: checkpoints,
      actions,
      sidebar,
      notebooks,
      tracker,
      palette,
      trans
    });
    sidebar.disposed.connect(() => added.dispose());
    if (statusBar && notebooks && tracker) {
      const item = new StatusItem(
        () => {
          const panel = tracker.currentWidget;
          const ours = panel && notebooks.of(panel);
          return ours
            ? { auto: ours.automatic.on, counts: ours.badges.counts }
            : null;
        },
        () => app.shell.activateById(sidebar.id),
        trans
      );
      notebooks.changed.connect(() => item.update());
      statusBar.registerStatusItem('nbcheckpoint:status', {
        item,
        align: 'right',
        rank: 50,
        isActive: () => tracker.currentWidget !== null,
        activeStateChanged: notebooks.changed
      });
    }
  }
};

/**
 * Opens notebooks, or finds those that are open.
 */
function opener(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  trans: TranslationBundle
): Opener {
  return async path => {
    const find = (): NotebookPanel | undefined =>
      tracker?.find(
        panel =>
          app.serviceManager.contents.localPath(panel.context.path) === path
      );
    let panel = find();
    if (!panel) {
      try {
        await app.serviceManager.contents.get(path, { content: false });
      } catch {
        throw new Refusal(
          trans.__('There is no notebook %1 any more.', path),
          trans.__('If it was moved, open it where it is now and run it there.')
        );
      }
      await app.commands.execute('docmanager:open', {
        path,
        factory: 'Notebook'
      });
      panel = find();
    }
    if (panel) {
      app.shell.activateById(panel.id);
      await panel.context.ready;
    }
    return panel ?? null;
  };
}

/**
 * The outer steps of the run a notebook's kernel is at; none if it is at none.
 */
async function stepsNow(api: Api): Promise<ReadonlyArray<IStep>> {
  const workflow = (await api.runs({ limit: 1 }))?.list.workflow;
  const run = workflow
    ? (await api.runs({ workflow, limit: 1 }))?.list.runs[0]
    : undefined;
  return run?.status === 'running' && run.trusted
    ? (await api.run(run.id)).steps
    : [];
}

/**
 * Open the run and step that left a checkpoint.
 */
async function showCheckpoint(
  checkpoints: ICheckpointModel,
  id: string
): Promise<void> {
  await checkpoints.refresh();
  const run = checkpoints.mine?.runs[0];
  if (run) {
    const { steps } = await checkpoints.api.run(run.id);
    const step = steps.find(item => id && item.checkpoint === id);
    checkpoints.open(run.id, step?.address);
  }
}

/**
 * Follow what the user sets.
 */
async function follow(
  registry: ISettingRegistry | null,
  checkpoints: ICheckpointModel,
  wanted: ISettings,
  onChange: () => void
): Promise<void> {
  try {
    const loaded = await registry?.load(PLUGIN);
    const apply = (): void => {
      const get = (name: string): unknown => loaded?.get(name).composite;
      checkpoints.refreshSeconds = get('refreshSeconds') as number;
      wanted.banner = get('banner') as boolean;
      wanted.lookForStale = get('lookForStale') as boolean;
    };
    if (loaded) {
      loaded.changed.connect(() => {
        apply();
        onChange();
      });
      apply();
    }
  } catch (reason) {
    console.error(`No settings for ${PLUGIN}`, reason);
  }
}

export default [model, main];

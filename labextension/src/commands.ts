/**
 * The commands, as the palette, the menus and the toolbars offer them.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  cleaningIcon,
  codeCheckIcon,
  deleteIcon,
  downloadIcon,
  editIcon,
  fastForwardIcon,
  fileUploadIcon,
  lockIcon,
  refreshIcon,
  undoIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import { DisposableSet } from '@lumino/disposable';
import type { Widget } from '@lumino/widgets';
import { checkpointIcon } from './icons';
import { isAutomatic, isCheckpointed, toggleCheckpointed } from './document';
import type { Notebooks } from './notebooks';
import type { IActions, ICheckpointModel, IRun } from './tokens';

/**
 * The ids of our commands.
 */
export namespace CommandIDs {
  export const show = 'nbcheckpoint:show';
  export const refresh = 'nbcheckpoint:refresh';
  export const open = 'nbcheckpoint:open';
  export const resume = 'nbcheckpoint:resume';
  export const restore = 'nbcheckpoint:restore';
  export const pin = 'nbcheckpoint:pin';
  export const note = 'nbcheckpoint:note';
  export const remove = 'nbcheckpoint:delete';
  export const exportRun = 'nbcheckpoint:export';
  export const importRun = 'nbcheckpoint:import';
  export const prune = 'nbcheckpoint:prune';
  export const verify = 'nbcheckpoint:verify';
  export const toggleAuto = 'nbcheckpoint:toggle-auto';
  export const convertCell = 'nbcheckpoint:convert-cell';
}

/**
 * What the commands work on.
 */
export interface ICommandContext {
  app: JupyterFrontEnd;
  model: ICheckpointModel;
  actions: IActions;
  sidebar: Widget;
  notebooks: Notebooks | null;
  tracker: INotebookTracker | null;
  palette: ICommandPalette | null;
  trans: TranslationBundle;
}

const NO_ARGUMENTS = { args: { type: 'object' as const, properties: {} } };
const RUN_ARGUMENT = {
  args: {
    type: 'object' as const,
    properties: {
      run: { type: 'string' as const, description: 'The id of the run' }
    }
  }
};

/**
 * Add our commands to an application.
 */
export function addCommands(context: ICommandContext): IDisposable {
  const { app, palette, trans } = context;
  const added = new DisposableSet();
  const add = (id: string, options: CommandRegistry.ICommandOptions): void => {
    added.add(app.commands.addCommand(id, options));
  };
  addStoreCommands(context, add);
  addRunCommands(context, add);
  addNotebookCommands(context, add);
  const category = trans.__('Checkpoints');
  const offered = [
    CommandIDs.show,
    CommandIDs.refresh,
    CommandIDs.resume,
    CommandIDs.restore,
    CommandIDs.toggleAuto,
    CommandIDs.convertCell,
    CommandIDs.importRun,
    CommandIDs.prune,
    CommandIDs.verify
  ];
  for (const command of palette ? offered : []) {
    added.add(palette!.addItem({ command, category }));
  }
  return added;
}

type Add = (id: string, options: CommandRegistry.ICommandOptions) => void;

function addStoreCommands(context: ICommandContext, add: Add): void {
  const { app, model, actions, sidebar, trans } = context;
  add(CommandIDs.show, {
    label: trans.__('Show checkpoints'),
    caption: trans.__('Show what nbcheckpoint has saved'),
    icon: checkpointIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => {
      app.shell.activateById(sidebar.id);
    }
  });
  add(CommandIDs.refresh, {
    label: trans.__('Refresh checkpoints'),
    caption: trans.__('Look into the store now'),
    icon: refreshIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => model.refresh()
  });
  add(CommandIDs.importRun, {
    label: trans.__('Import a run…'),
    caption: trans.__('Import a run from a file; it is not trusted at first'),
    icon: fileUploadIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => actions.import()
  });
  add(CommandIDs.prune, {
    label: trans.__('Prune checkpoints…'),
    caption: trans.__('Remove what is old; asks before anything goes'),
    icon: cleaningIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => actions.prune()
  });
  add(CommandIDs.verify, {
    label: trans.__('Verify checkpoints'),
    caption: trans.__('Read everything and say what is damaged'),
    icon: codeCheckIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => actions.verify()
  });
}

function addRunCommands(context: ICommandContext, add: Add): void {
  const { app, model, actions, trans } = context;
  const about = (
    id: string,
    options: {
      label: string | ((run: IRun | null) => string);
      caption: string;
      icon?: typeof refreshIcon;
      fits?: (run: IRun) => boolean;
      execute: (run: IRun) => Promise<void> | void;
    }
  ): void => {
    const { label, caption, icon, fits, execute } = options;
    const find = (args: object): IRun | null => runOf(app, model, args);
    add(id, {
      label: args => (typeof label === 'string' ? label : label(find(args))),
      caption,
      icon,
      describedBy: RUN_ARGUMENT,
      isEnabled: args => {
        const run = find(args);
        return run !== null && (fits?.(run) ?? true);
      },
      execute: args => {
        const run = find(args);
        return run ? execute(run) : undefined;
      }
    });
  };
  about(CommandIDs.open, {
    label: trans.__('Show its steps'),
    caption: trans.__('Open the run'),
    icon: checkpointIcon,
    execute: run => model.open(run.id)
  });
  about(CommandIDs.resume, {
    label: trans.__('Resume the run'),
    caption: trans.__('Run on from where it stopped'),
    icon: fastForwardIcon,
    fits: run =>
      run.kind === 'notebook' && run.status !== 'running' && run.trusted,
    execute: run => actions.resume(run)
  });
  about(CommandIDs.restore, {
    label: trans.__('Restore the variables of the run…'),
    caption: trans.__('Bind what it had at its end; nothing runs'),
    icon: undoIcon,
    fits: run => run.kind === 'notebook' && run.trusted,
    execute: run => actions.restore(run)
  });
  about(CommandIDs.pin, {
    label: run => (run?.pinned ? trans.__('Unpin') : trans.__('Pin')),
    caption: trans.__('A pinned run is never pruned'),
    icon: lockIcon,
    execute: run => actions.pin(run, !run.pinned)
  });
  about(CommandIDs.note, {
    label: trans.__('Write a note…'),
    caption: trans.__('Write something beside the run'),
    icon: editIcon,
    execute: run => actions.note(run)
  });
  about(CommandIDs.exportRun, {
    label: trans.__('Export'),
    caption: trans.__('The run as one file'),
    icon: downloadIcon,
    execute: run => actions.export(run)
  });
  about(CommandIDs.remove, {
    label: trans.__('Delete…'),
    caption: trans.__('The run, and what no other uses'),
    icon: deleteIcon,
    execute: run => actions.delete(run)
  });
}

function addNotebookCommands(context: ICommandContext, add: Add): void {
  const { app, tracker, notebooks, trans } = context;
  const current = (): ReturnType<Notebooks['of']> => {
    const panel = tracker?.currentWidget;
    return panel ? (notebooks?.of(panel) ?? null) : null;
  };
  add(CommandIDs.toggleAuto, {
    label: trans.__('Automatic checkpoints'),
    caption: () =>
      tracker?.currentWidget && isAutomatic(tracker.currentWidget)
        ? trans.__(
            'Every slow statement and loop is saved. Click to switch off'
          )
        : trans.__('Save every slow statement and loop of this notebook'),
    icon: checkpointIcon,
    isToggleable: true,
    isToggled: () =>
      Boolean(tracker?.currentWidget && isAutomatic(tracker.currentWidget)),
    isEnabled: () => current() !== null,
    describedBy: NO_ARGUMENTS,
    execute: () => {
      const automatic = current()?.automatic;
      if (automatic) {
        automatic.on = !automatic.on;
      }
    }
  });
  notebooks?.changed.connect(() =>
    app.commands.notifyCommandChanged(CommandIDs.toggleAuto)
  );
  const code = (): CodeCell | null => {
    const cell = tracker?.activeCell;
    return cell instanceof CodeCell ? cell : null;
  };
  add(CommandIDs.convertCell, {
    label: () =>
      isCheckpointed(code()?.model.sharedModel.getSource() ?? '')
        ? trans.__('Convert to a plain cell')
        : trans.__('Convert cell to checkpointed'),
    caption: trans.__(
      'Put %1 into its first line, or take it out',
      '%%checkpointed'
    ),
    icon: checkpointIcon,
    isEnabled: () => code() !== null,
    isVisible: () => code() !== null,
    describedBy: NO_ARGUMENTS,
    execute: () => {
      const cell = code();
      if (cell) {
        toggleCheckpointed(cell);
        app.commands.notifyCommandChanged(CommandIDs.convertCell);
      }
    }
  });
  tracker?.activeCellChanged.connect(() =>
    app.commands.notifyCommandChanged(CommandIDs.convertCell)
  );
}

/**
 * The run a command is about: the one named, the one under the menu, the one that is open, else the notebook's last.
 */
function runOf(
  app: JupyterFrontEnd,
  model: ICheckpointModel,
  args: object
): IRun | null {
  const named = (args as { run?: unknown }).run;
  const hit = app.contextMenuHitTest(
    node => node.dataset.run !== undefined && node.isConnected
  );
  const id = typeof named === 'string' ? named : hit?.dataset.run;
  if (!id) {
    return model.opened?.run ?? model.mine?.runs[0] ?? null;
  }
  const known = [...(model.mine?.runs ?? []), ...(model.list?.runs ?? [])];
  return known.find(run => run.id === id) ?? null;
}

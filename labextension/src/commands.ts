/**
 * The commands, as the palette and the toolbar offer them.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { refreshIcon } from '@jupyterlab/ui-components';
import type { IDisposable } from '@lumino/disposable';
import { DisposableSet } from '@lumino/disposable';
import type { Widget } from '@lumino/widgets';
import { checkpointIcon } from './icons';
import type { ICheckpointModel } from './tokens';

/**
 * The ids of our commands.
 */
export namespace CommandIDs {
  export const show = 'nbcheckpoint:show';
  export const refresh = 'nbcheckpoint:refresh';
}

/**
 * Add our commands to an application.
 */
export function addCommands(
  app: JupyterFrontEnd,
  model: ICheckpointModel,
  sidebar: Widget,
  palette: ICommandPalette | null,
  trans: TranslationBundle
): IDisposable {
  const added = new DisposableSet();
  const noArguments = { args: { type: 'object' as const, properties: {} } };

  added.add(
    app.commands.addCommand(CommandIDs.show, {
      label: trans.__('Show checkpoints'),
      caption: trans.__('Show what nbcheckpoint has saved'),
      icon: checkpointIcon,
      describedBy: noArguments,
      execute: () => {
        app.shell.activateById(sidebar.id);
      }
    })
  );
  added.add(
    app.commands.addCommand(CommandIDs.refresh, {
      label: trans.__('Refresh checkpoints'),
      caption: trans.__('Look into the store now'),
      icon: refreshIcon,
      describedBy: noArguments,
      execute: () => model.refresh()
    })
  );

  const category = trans.__('Checkpoints');
  for (const command of [CommandIDs.show, CommandIDs.refresh]) {
    if (palette) {
      added.add(palette.addItem({ command, category }));
    }
  }
  return added;
}

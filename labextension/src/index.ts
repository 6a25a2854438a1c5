import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbcheckpoint:plugin',
  description: 'Lists the runs and steps nbcheckpoint has saved.',
  autoStart: true,
  activate: (_: JupyterFrontEnd) => undefined
};

export default plugin;

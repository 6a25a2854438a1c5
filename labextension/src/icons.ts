/**
 * Our own icon.
 */

import { LabIcon } from '@jupyterlab/ui-components';
import checkpointSvg from '../style/icons/checkpoint.svg';

export const checkpointIcon = new LabIcon({
  name: 'nbcheckpoint:checkpoint',
  svgstr: checkpointSvg
});

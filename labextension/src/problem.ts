/**
 * What went wrong, as a sentence and what to do about it.
 */

import { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { RequestError } from './request';
import type { IProblem } from './tokens';

/**
 * Something that was refused for a reason a person can do something about.
 */
export class Refusal extends Error implements IProblem {
  constructor(
    message: string,
    readonly hint: string
  ) {
    super(message);
    this.name = 'Refusal';
  }
}

/**
 * Say what an error means.
 */
export function explain(error: unknown, trans: TranslationBundle): IProblem {
  if (error instanceof RequestError && error.isMissing) {
    return {
      message: trans.__('This server does not know nbcheckpoint.'),
      hint: trans.__(
        'Install nbcheckpoint where the Jupyter server runs, then restart the server. If it is installed: jupyter server extension enable nbcheckpoint'
      )
    };
  }
  if (error instanceof RequestError || error instanceof Refusal) {
    return { message: error.message, hint: error.hint };
  }
  if (error instanceof ServerConnection.NetworkError) {
    return {
      message: trans.__('The Jupyter server cannot be reached.'),
      hint: trans.__('The list comes back by itself once it is there again.')
    };
  }
  return {
    message: error instanceof Error ? error.message : String(error),
    hint: trans.__('Is the page older than the server? Reload it to find out.')
  };
}

/**
 * Is it what went wrong, rather than what was asked for?
 */
export function isProblem(value: object): value is IProblem {
  return 'message' in value && 'hint' in value;
}

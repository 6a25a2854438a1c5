/**
 * Asking the kernel of a notebook, without ipywidgets and without a mark in the notebook.
 *
 * One silent request with one expression, only while the kernel waits. While it is busy there is the store: a question to
 * a busy kernel would either wait behind the cell or, on a subshell, make page and server believe that it is idle.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Fields } from './decode';
import { fields, maybe, text } from './decode';
import { Refusal } from './problem';

/**
 * What can be asked.
 */
export type Word = 'status' | 'auto' | 'plan' | 'resume' | 'restore' | 'forget';

const NAME = 'nbcheckpoint';

/**
 * So long a kernel may be busy with what nobody sees, in milliseconds: one that has just started answers other questions
 * first.
 */
export const MOMENT = 3000;

/**
 * The expression that asks. The arguments go as JSON inside a Python text: what is in them is never code.
 */
export function expression(word: Word, options: Fields): string {
  // JSON twice: a JSON text is also a Python one, as long as it is ASCII.
  const ascii = JSON.stringify(JSON.stringify(options)).replace(
    /[\u007f-\uffff]/g,
    letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
  );
  return `__import__("nbcheckpoint.notebook.link", fromlist=["ask"]).ask(${JSON.stringify(word)}, ${ascii})`;
}

/**
 * Ask the kernel of a notebook, if it has nothing to do.
 *
 * @throws Refusal with what to do.
 */
export async function ask(
  session: ISessionContext,
  word: Word,
  options: Fields,
  trans: TranslationBundle
): Promise<Fields> {
  return tell(await idle(session, trans), word, options, trans);
}

/**
 * Ask a kernel, behind whatever it was asked to do before.
 *
 * @throws Refusal with what to do.
 */
export async function tell(
  kernel: Kernel.IKernelConnection,
  word: Word,
  options: Fields,
  trans: TranslationBundle
): Promise<Fields> {
  const future = kernel.requestExecute(
    {
      code: '',
      silent: true,
      store_history: false,
      allow_stdin: false,
      stop_on_error: false,
      user_expressions: { [NAME]: expression(word, options) }
    },
    true
  );
  let reply: KernelMessage.IExecuteReplyMsg;
  try {
    reply = await future.done;
  } catch {
    throw new Refusal(
      trans.__('The kernel ended before it could answer.'),
      trans.__('Start it again and repeat what you did.')
    );
  }
  return read(reply.content, trans);
}

/**
 * The kernel, if it has nothing to do.
 */
async function idle(
  session: ISessionContext,
  trans: TranslationBundle
): Promise<Kernel.IKernelConnection> {
  await session.ready;
  const kernel = session.session?.kernel;
  if (!kernel) {
    throw new Refusal(
      trans.__('The notebook has no kernel.'),
      trans.__('Choose one in the Kernel menu.')
    );
  }
  await untilIdle(session, MOMENT, busy(trans));
  return session.session?.kernel ?? kernel;
}

/**
 * Until the kernel is connected and waits; not for ever.
 *
 * @param patience In milliseconds.
 * @param late What is thrown after that.
 */
export function untilIdle(
  session: ISessionContext,
  patience: number,
  late: Refusal
): Promise<void> {
  const isIdle = (): boolean => {
    const kernel = session.session?.kernel;
    return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
  };
  return new Promise((resolve, reject) => {
    const end = (): void => {
      window.clearTimeout(timer);
      session.statusChanged.disconnect(look);
      session.connectionStatusChanged.disconnect(look);
      session.kernelChanged.disconnect(look);
    };
    const look = (): void => {
      if (isIdle()) {
        end();
        resolve();
      }
    };
    const timer = window.setTimeout(() => {
      end();
      reject(late);
    }, patience);
    session.statusChanged.connect(look);
    session.connectionStatusChanged.connect(look);
    session.kernelChanged.connect(look);
    look();
  });
}

/**
 * Why not now.
 */
export function busy(trans: TranslationBundle): Refusal {
  return new Refusal(
    trans.__('The kernel is busy.'),
    trans.__('Wait until it is done, or interrupt it.')
  );
}

/**
 * Read what came back.
 */
export function read(content: unknown, trans: TranslationBundle): Fields {
  const answer = maybe(maybe(maybe(content).user_expressions)[NAME]);
  if (answer.status !== 'ok') {
    const missing = /ModuleNotFoundError|ImportError/.test(text(answer.ename));
    throw missing
      ? new Refusal(
          trans.__('The kernel does not know nbcheckpoint.'),
          trans.__('Install it where the kernel runs: pip install nbcheckpoint')
        )
      : new Refusal(
          text(answer.evalue) || trans.__('The kernel did not answer.'),
          trans.__('Is it a Python kernel? Restart it, and try again.')
        );
  }
  const body = fields(maybe(answer.data)['application/json']);
  if (typeof body.message === 'string' && 'hint' in body) {
    throw new Refusal(body.message, text(body.hint));
  }
  return body;
}

/**
 * Resume, restore and run from here, in the kernel of an open notebook.
 */

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type { Fields } from './decode';
import { maybe, said } from './decode';
import { confirm } from './dialogs';
import { ask } from './kernel';
import { cellIndex, isAutomatic } from './document';
import { haveKernel, runFrom, runFromTop } from './running';
import { Refusal } from './problem';
import type { Api } from './request';
import type { IRestored } from './restored';
import { changesOf, restored, sayRestored } from './restored';
import type { IRun, IStep } from './tokens';

const LONG_ENOUGH = 8000;

export class Restorer {
  constructor(private readonly _trans: TranslationBundle) {}

  /**
   * Run on from where a run stopped.
   *
   * @param onStart Called when the cells begin to run: nothing is asked from there on.
   */
  async resume(
    panel: NotebookPanel,
    run: IRun,
    api: Api,
    onStart?: () => void
  ): Promise<void> {
    const trans = this._trans;
    const { sessionContext } = panel;
    await haveKernel(sessionContext, trans);
    const { steps } = await api.run(run.id);
    const stopped = [...steps].reverse().find(step => step.cell);
    if (!(await this._fresh(panel))) {
      return;
    }
    await this.prepare(panel);
    this._bound.delete(panel);
    onStart?.();
    await runFromTop(panel, stopped?.cell ?? '');
  }

  /**
   * Bind the variables as they were after a run or checkpoint, after saying what that changes.
   */
  async restore(panel: NotebookPanel, target: string): Promise<void> {
    const trans = this._trans;
    await haveKernel(panel.sessionContext, trans);
    const preview = await this._ask(panel, 'restore', {
      target,
      dry_run: true
    });
    const sure = await confirm({
      title: trans.__('Restore these variables?'),
      body: this._preview(preview),
      accept: trans.__('Restore'),
      warn: changesOf(preview).some(row => row.change === 'replaced'),
      trans
    });
    if (sure) {
      this.tell(restored(await this._ask(panel, 'restore', { target })));
    }
  }

  /**
   * Bind what the last run left, in a kernel that has nothing of it yet. Nothing runs.
   */
  async bringBack(panel: NotebookPanel, run: IRun): Promise<IRestored> {
    await haveKernel(panel.sessionContext, this._trans);
    const found = restored(await this._ask(panel, 'resume', { run: run.id }));
    this._bound.set(panel, found.bound);
    return found;
  }

  /**
   * Go back to what was there before a step's cell, and run from that cell on.
   */
  async runFrom(
    panel: NotebookPanel,
    run: IRun,
    step: IStep,
    api: Api
  ): Promise<void> {
    const trans = this._trans;
    if (cellIndex(panel, step.cell) < 0) {
      throw new Refusal(
        trans.__('The cell of this step is not in the notebook any more.'),
        trans.__('Choose another step, or Resume.')
      );
    }
    await haveKernel(panel.sessionContext, trans);
    const before = await stateBefore(api, run, step);
    const names = await this._names(panel);
    if (names.length === 0) {
      await this.prepare(panel);
      await runFromTop(panel, step.cell);
      return;
    }
    const preview = before
      ? await this._ask(panel, 'restore', { target: before, dry_run: true })
      : {};
    const sure = await confirm({
      title: trans.__('Run from here?'),
      body: (
        <>
          <p>
            {trans.__(
              'The variables become what they were before this cell, then it and all cells below it run.'
            )}
          </p>
          {this._preview(preview)}
        </>
      ),
      accept: trans.__('Run from here'),
      warn: changesOf(preview).some(row => row.change === 'replaced'),
      trans
    });
    if (sure) {
      if (before) {
        await this._ask(panel, 'restore', { target: before });
      }
      await this.prepare(panel);
      await runFrom(panel, step.cell);
    }
  }

  /**
   * Switch the kernel to what the notebook says about automatic mode.
   */
  async prepare(panel: NotebookPanel): Promise<void> {
    if (isAutomatic(panel)) {
      await this._ask(panel, 'auto', { on: true });
    }
  }

  /**
   * Say what restoring came to.
   */
  tell(found: IRestored): void {
    const said = sayRestored(found, this._trans);
    const missing = Object.keys(found.missing).length > 0;
    Notification.emit(said, missing ? 'warning' : 'success', {
      autoClose: LONG_ENOUGH
    });
  }

  /**
   * Make sure that the kernel has no variables. What only a restore has bound may go; about anything else the user is
   * asked.
   *
   * @returns Whether to go on.
   */
  private async _fresh(panel: NotebookPanel): Promise<boolean> {
    const trans = this._trans;
    const names = await this._names(panel);
    const bound = new Set(this._bound.get(panel) ?? []);
    if (names.length === 0) {
      return true;
    }
    if (names.every(name => bound.has(name))) {
      await this._ask(panel, 'forget', { names });
      return true;
    }
    const result = await showDialog({
      title: trans.__('Restart the kernel?'),
      body: trans.__(
        'To resume, the notebook runs from its top in a kernel without variables; what is saved is restored on the way. The variables this kernel has now are lost.'
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: trans.__('Restart and resume') })
      ]
    });
    if (!result.button.accept) {
      return false;
    }
    await panel.sessionContext.restartKernel();
    await haveKernel(panel.sessionContext, trans);
    return true;
  }

  private async _names(panel: NotebookPanel): Promise<string[]> {
    const { names } = await this._ask(panel, 'status', {});
    return Array.isArray(names)
      ? names.filter((name): name is string => typeof name === 'string')
      : [];
  }

  private _ask(
    panel: NotebookPanel,
    word: Parameters<typeof ask>[1],
    options: Fields
  ): Promise<Fields> {
    return ask(panel.sessionContext, word, options, this._trans);
  }

  private _preview(preview: Fields): JSX.Element {
    const trans = this._trans;
    const changes = changesOf(preview).filter(row => row.change !== 'same');
    const words: Record<string, string> = {
      new: trans.__('comes back'),
      replaced: trans.__('is replaced'),
      deleted: trans.__('is deleted')
    };
    const missing = Object.entries(maybe(preview.not_bound));
    return (
      <>
        {changes.length === 0 ? (
          <p>{trans.__('No variable changes.')}</p>
        ) : (
          <table className="nbc-Table">
            <caption>{trans.__('What will change')}</caption>
            <thead>
              <tr>
                <th scope="col">{trans.__('Name')}</th>
                <th scope="col">{trans.__('Change')}</th>
                <th scope="col">{trans.__('Now')}</th>
                <th scope="col">{trans.__('Then')}</th>
              </tr>
            </thead>
            <tbody>
              {changes.map(row => (
                <tr key={row.name} data-change={row.change}>
                  <th scope="row">{row.name}</th>
                  <td>{words[row.change] ?? row.change}</td>
                  <td>{row.now}</td>
                  <td>{row.then}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {missing.map(([name, why]) => (
          <p key={name}>
            {trans.__('%1 cannot come back: %2', name, said(why))}
          </p>
        ))}
      </>
    );
  }

  /**
   * What restoring has bound in a kernel in which nothing else was done.
   */
  private readonly _bound = new WeakMap<NotebookPanel, ReadonlyArray<string>>();
}

/**
 * The last checkpoint before a step's cell; nothing if there is none.
 */
async function stateBefore(api: Api, run: IRun, step: IStep): Promise<string> {
  const { steps } = await api.run(run.id);
  const cell = step.address.split('.')[0];
  const before = steps.filter(
    other => other.address < cell && other.checkpoint
  );
  return before[before.length - 1]?.checkpoint ?? '';
}

/**
 * What can be done with runs and with the store: ask where something would be lost, do it, tell what came of it.
 */

import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { Choice, Field, confirm, fillIn, show, telling } from './dialogs';
import { DiffView } from './diff';
import { exactTime, size, stepName } from './format';
import { pathOf } from './document';
import { Refusal } from './problem';
import type { IPruneOptions } from './request';
import type { Restorer } from './restorer';
import type {
  IActions,
  ICheckpointModel,
  IPause,
  IRun,
  IStep,
  IVerified
} from './tokens';

const LONG_ENOUGH = 5000;

/**
 * Of how many earlier runs the steps are offered to compare with.
 */
const COMPARED = 5;

/**
 * So many statements of a cell are compared; the server takes no more.
 */
const MOST_JOINED = 200;

/**
 * Opens notebooks. Null where they open in another window.
 */
export type Opener = (path: string) => Promise<NotebookPanel | null>;

export class Actions implements IActions {
  constructor(
    private readonly _model: ICheckpointModel,
    private readonly _open: Opener,
    private readonly _restorer: Restorer,
    private readonly _trans: TranslationBundle
  ) {}

  resume(run: IRun): Promise<void> {
    return this._do(this._trans.__('Cannot resume'), async () => {
      await this._restorer.resume(
        await this._notebook(run),
        run,
        this._model.api
      );
    });
  }

  restore(run: IRun, step?: IStep): Promise<void> {
    return this._do(this._trans.__('Cannot restore'), async () => {
      const panel = await this._notebook(run);
      await this._restorer.restore(panel, step?.checkpoint || run.id);
    });
  }

  runFrom(run: IRun, step: IStep): Promise<void> {
    return this._do(this._trans.__('Cannot run from here'), async () => {
      const panel = await this._notebook(run);
      await this._restorer.runFrom(panel, run, step, this._model.api);
    });
  }

  diff(run: IRun, step: IStep): Promise<void> {
    const trans = this._trans;
    return this._do(trans.__('Cannot compare'), async () => {
      const mine = leftBy(step, this._model.opened?.steps ?? []);
      const options = await this._others(run, step, mine);
      if (options.length === 0) {
        throw new Refusal(
          trans.__('There is nothing to compare it with.'),
          trans.__('Run the notebook once more, or choose another step.')
        );
      }
      const other = await fillIn({
        title: trans.__('Diff with…'),
        accept: trans.__('Show the difference'),
        value: options[0].value,
        draw: (value, set) => (
          <Choice
            label={trans.__('Compare “%1” with', stepName(step, trans))}
            value={value}
            options={options}
            onChange={set}
          />
        ),
        trans
      });
      if (other) {
        const diff = await this._model.api.diff(other, mine);
        const label =
          options.find(option => option.value === other)?.label ?? '';
        const view = (
          <DiffView
            diff={diff}
            before={label}
            after={`${stepName(step, trans)}, ${exactTime(step.started)}`}
            trans={trans}
          />
        );
        await show(trans.__('Difference'), view, trans);
      }
    });
  }

  answer(run: IRun, pause: IPause, value: unknown): Promise<void> {
    const trans = this._trans;
    return this._do(trans.__('Cannot answer'), async () => {
      this._model.put(await this._model.api.answer(run.id, pause.name, value));
      Notification.success(
        trans.__('Answered. Resume the run to let it go on.'),
        { autoClose: LONG_ENOUGH }
      );
    });
  }

  pin(run: IRun, pinned: boolean): Promise<void> {
    return this._do(this._trans.__('Cannot pin'), async () => {
      this._model.put(await this._model.api.pin(run.id, pinned));
    });
  }

  note(run: IRun): Promise<void> {
    const trans = this._trans;
    return this._do(trans.__('Cannot write the note'), async () => {
      const note = await fillIn({
        title: trans.__('Note'),
        accept: trans.__('Save'),
        value: run.note,
        draw: (value, set) => (
          <Field label={trans.__('What should be known about this run')}>
            <input
              className="jp-mod-styled"
              value={value}
              maxLength={1000}
              onChange={event => set(event.target.value)}
            />
          </Field>
        ),
        trans
      });
      if (note !== null) {
        this._model.put(await this._model.api.note(run.id, note));
      }
    });
  }

  delete(run: IRun): Promise<void> {
    const trans = this._trans;
    return this._do(trans.__('Cannot delete'), async () => {
      const sure = await confirm({
        title: trans.__('Delete this run?'),
        body: (
          <>
            <p>
              <strong>{run.workflow}</strong> · {exactTime(run.created)}
            </p>
            <p>
              {trans.__(
                'Its checkpoints go with it, except those another run uses. This cannot be undone; Export keeps a copy.'
              )}
            </p>
          </>
        ),
        accept: trans.__('Delete'),
        warn: true,
        trans
      });
      if (sure) {
        await this._model.api.delete(run.id);
        this._model.drop(run.id);
        await this._model.refresh();
      }
    });
  }

  export(run: IRun): Promise<void> {
    return this._do(this._trans.__('Cannot export'), async () => {
      const { data, name } = await this._model.api.export(run.id);
      const link = document.createElement('a');
      link.href = URL.createObjectURL(data);
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  import(): Promise<void> {
    const trans = this._trans;
    return this._do(trans.__('Cannot import'), async () => {
      const file = await chooseFile('.zip');
      if (file) {
        await this._model.api.import(file);
        await this._model.refresh();
        Notification.info(
          trans.__(
            'Imported. It can be looked at; it is loaded only after you trust it: nbcheckpoint trust'
          ),
          { autoClose: LONG_ENOUGH }
        );
      }
    });
  }

  prune(): Promise<void> {
    const trans = this._trans;
    return this._do(trans.__('Cannot prune'), async () => {
      const options = await fillIn({
        title: trans.__('Prune'),
        accept: trans.__('Look what would go'),
        value: { older_than: '30d', keep: 10 },
        draw: (value, set) => this._pruneForm(value, set),
        trans
      });
      if (!options) {
        return;
      }
      const would = await this._model.api.prune(true, options);
      if (would.runs + would.checkpoints === 0) {
        const nothing = <p>{trans.__('There is nothing to remove.')}</p>;
        return show(trans.__('Prune'), nothing, trans);
      }
      const sure = await confirm({
        title: trans.__('Remove this?'),
        body: (
          <>
            <p>
              {trans.__(
                '%1 runs and %2 checkpoints go, %3 in all. This cannot be undone.',
                would.runs,
                would.checkpoints,
                size(would.bytes)
              )}
            </p>
            {would.notes.map(note => (
              <p key={note}>{note}</p>
            ))}
          </>
        ),
        accept: trans.__('Remove'),
        warn: true,
        trans
      });
      if (sure) {
        const gone = await this._model.api.prune(false, options);
        await this._model.refresh();
        Notification.success(
          trans.__(
            '%1 runs and %2 checkpoints removed.',
            gone.runs,
            gone.checkpoints
          ),
          { autoClose: LONG_ENOUGH }
        );
      }
    });
  }

  verify(): Promise<void> {
    const trans = this._trans;
    return this._do(trans.__('Cannot verify'), async () => {
      const found = await this._model.api.verify(false);
      if (found.clean) {
        return show(
          trans.__('Verified'),
          <p>{trans.__('%1: all sound.', sayLooked(found, trans))}</p>,
          trans
        );
      }
      const repair = await confirm({
        title: trans.__('Not all of it is sound'),
        body: (
          <>
            {found.records > 0 && <p>{sayLooked(found, trans)}</p>}
            <ul>
              {found.problems.map((problem, index) => (
                <li key={index}>{problem}</li>
              ))}
            </ul>
            <p>
              {found.isIndexDamaged
                ? trans.__(
                    'Repairing makes a new index of what can still be read. Runs of which nothing can be read are not listed any more, and what they held is computed again when it is needed. The old index is kept in the folder “quarantine” of the store. If you have a copy of the store, put that back instead.'
                  )
                : trans.__(
                    'Repairing sets the damaged parts aside; what they held is computed again when it is needed.'
                  )}
            </p>
          </>
        ),
        accept: trans.__('Repair'),
        warn: true,
        trans
      });
      if (repair) {
        const done = await this._model.api.verify(true);
        await this._model.refresh();
        const told = (
          <>
            <p>{trans.__('The damaged parts are set aside.')}</p>
            {done.notes.map(note => (
              <p key={note}>{sentence(note)}</p>
            ))}
          </>
        );
        await show(trans.__('Repaired'), told, trans);
      }
    });
  }

  private _pruneForm(
    value: IPruneOptions,
    set: (value: IPruneOptions) => void
  ): JSX.Element {
    const trans = this._trans;
    return (
      <>
        <p>
          {trans.__(
            'The latest run of each notebook, its last complete one and pinned ones always stay.'
          )}
        </p>
        <Field
          label={trans.__('Remove what is older than')}
          hint={trans.__('For example 7d or 12h')}
        >
          <input
            className="jp-mod-styled"
            value={value.older_than}
            onChange={event =>
              set({ ...value, older_than: event.target.value })
            }
          />
        </Field>
        <Field label={trans.__('Runs to keep of each notebook')}>
          <input
            className="jp-mod-styled"
            type="number"
            min={0}
            value={value.keep}
            onChange={event =>
              set({ ...value, keep: Math.max(0, Number(event.target.value)) })
            }
          />
        </Field>
      </>
    );
  }

  /**
   * The steps a step can be compared with: the same one at other times first, then the others.
   */
  private async _others(
    run: IRun,
    step: IStep,
    mine: string
  ): Promise<{ value: string; label: string }[]> {
    const { api } = this._model;
    const trans = this._trans;
    const { workflow } = run;
    const latest = (await api.runs({ workflow, limit: COMPARED }))?.list.runs;
    const others = (latest ?? []).filter(other => other.id !== run.id);
    const found = new Map<string, { label: string; isSame: boolean }>();
    for (const other of [run, ...others]) {
      const { steps } = await api.steps(other.id, '', 1000);
      for (const item of [...steps].reverse()) {
        const isSame = isSamePlace(item, step);
        const fits = item.kind === step.kind && (isSame || other === run);
        const left = leftBy(item, steps);
        if (left && fits && !found.has(left)) {
          const label = trans.__(
            '%1, %2',
            stepName(item, trans),
            exactTime(item.started || other.created)
          );
          found.set(left, { label, isSame });
        }
      }
    }
    found.delete(mine);
    return [...found]
      .map(([value, { label, isSame }]) => ({ value, label, isSame }))
      .sort((a, b) => Number(b.isSame) - Number(a.isSame));
  }

  /**
   * The notebook of a run, opened.
   */
  private async _notebook(run: IRun): Promise<NotebookPanel> {
    const trans = this._trans;
    // Asked anew: the list shown may still be that of the notebook before.
    const api = this._model.api;
    const here = await api.runs({ limit: 1 });
    const path = pathOf(run.workflow, {
      path: api.path,
      workflow: here?.list.workflow ?? null
    });
    if (run.kind !== 'notebook' || path === null) {
      throw new Refusal(
        trans.__('This run is not of a notebook that can be opened here.'),
        trans.__(
          'Resume it where it was started: nbcheckpoint resume %1',
          run.id
        )
      );
    }
    const panel = await this._open(path);
    if (!panel) {
      throw new Refusal(
        trans.__('The notebook opens in a window of its own.'),
        trans.__('Choose the run there.')
      );
    }
    return panel;
  }

  private _do(title: string, work: () => Promise<void>): Promise<void> {
    return telling(title, work, this._trans);
  }
}

/**
 * What the command line says, as a sentence.
 */
function sentence(note: string): string {
  return `${note.charAt(0).toUpperCase()}${note.slice(1)}.`;
}

function sayLooked(found: IVerified, trans: TranslationBundle): string {
  return trans.__(
    '%1 records and %2 chunks read (%3)',
    found.records,
    found.chunks,
    size(found.bytes)
  );
}

/**
 * The checkpoints a step left, in one word as the server takes them: a cell's are those of its statements. Its own is
 * only that of the last of them.
 */
export function leftBy(step: IStep, steps: ReadonlyArray<IStep>): string {
  const inside = steps.filter(
    item =>
      step.kind === 'cell' &&
      item.checkpoint &&
      item.address.slice(0, item.address.lastIndexOf('.')) === step.address
  );
  return (inside.length > 0 ? inside : [step])
    .map(item => item.checkpoint)
    .slice(-MOST_JOINED)
    .join(',');
}

/**
 * Is it the same statement of the same cell, at another time?
 */
function isSamePlace(a: IStep, b: IStep): boolean {
  const place = (step: IStep): string =>
    step.address.includes('.')
      ? step.address.slice(step.address.indexOf('.'))
      : '';
  const isSameCell = a.cell && b.cell ? a.cell === b.cell : a.name === b.name;
  return isSameCell && place(a) === place(b);
}

/**
 * Let the user choose a file; null if they would rather not.
 */
function chooseFile(accept: string): Promise<File | null> {
  const input = document.createElement('input');
  input.type = 'file';
  input.accept = accept;
  return new Promise(resolve => {
    input.addEventListener('change', () => resolve(input.files?.[0] ?? null));
    input.addEventListener('cancel', () => resolve(null));
    input.click();
  });
}

/**
 * The item in the status bar: is everything slow saved, and what became of the cells of the notebook in front.
 */

import { TextItem } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { BadgeStatus } from './badge';

/**
 * What the item says something about; null without a notebook.
 */
export interface IStanding {
  readonly auto: boolean;
  readonly counts: Readonly<Partial<Record<BadgeStatus, number>>>;
}

export class StatusItem extends ReactWidget {
  constructor(
    private readonly _standing: () => IStanding | null,
    private readonly _open: () => void,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('nbc-StatusItem');
  }

  protected override render(): JSX.Element | null {
    const standing = this._standing();
    if (!standing) {
      return null;
    }
    const trans = this._trans;
    return (
      <TextItem
        role="button"
        tabIndex={0}
        source={sayStanding(standing, trans)}
        title={trans.__('Show checkpoints')}
        onClick={this._open}
        onKeyDown={event => {
          if (event.key === 'Enter' || event.key === ' ') {
            this._open();
          }
        }}
      />
    );
  }
}

/**
 * A notebook's standing in a few words. Pure.
 */
export function sayStanding(
  standing: IStanding,
  trans: TranslationBundle
): string {
  const { auto, counts } = standing;
  const words: [BadgeStatus, string][] = [
    ['failed', trans.__('failed')],
    ['stale', trans.__('out of date')],
    ['resumed', trans.__('resumed')],
    ['restored', trans.__('restored')],
    ['computed', trans.__('computed')]
  ];
  const parts = words
    .filter(([status]) => counts[status])
    .map(([status, word]) => `${counts[status]} ${word}`);
  const mode = auto
    ? trans.__('Checkpoints: auto')
    : trans.__('Checkpoints: manual');
  return [mode, ...parts].join(' · ');
}

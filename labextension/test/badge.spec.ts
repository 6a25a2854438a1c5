import type { IOutput } from '@jupyterlab/nbformat';
import { describe, expect, it } from 'vitest';
import { nullTranslator } from '@jupyterlab/translation';
import { judge, readBadge, sayBadge, unseenBadges } from '../src/badge';
import { crc32 } from '../src/crc';
import type { IStep } from '../src/tokens';
import { STEPS } from './fake';

const trans = nullTranslator.load('nbcheckpoint');

function line(status: unknown, text: unknown = 'a line'): IOutput {
  return {
    output_type: 'display_data',
    data: { 'text/plain': text },
    metadata: { nbcheckpoint: { status } }
  } as IOutput;
}

const printed: IOutput = {
  output_type: 'stream',
  name: 'stdout',
  text: 'restored'
};

describe('readBadge', () => {
  it.each(['computed', 'restored', 'stale', 'failed'])(
    'reads "%s" from the metadata of our line',
    status => {
      expect(readBadge([printed, line(status), printed])).toMatchObject({
        status,
        text: 'a line'
      });
    }
  );

  it('goes by the last of our lines', () => {
    const outputs = [line('restored'), line('computed')];
    expect(readBadge(outputs)?.status).toBe('computed');
  });

  it('joins text that was saved as lines', () => {
    expect(readBadge([line('computed', ['a\n', 'b\n'])])?.text).toBe('a\nb');
  });

  it('has no text where there is none', () => {
    expect(readBadge([line('computed', 5)])?.text).toBe('');
    expect(
      readBadge([
        {
          output_type: 'display_data',
          metadata: { nbcheckpoint: { status: 'computed' } }
        }
      ])?.text
    ).toBe('');
  });

  it('is not taken in by what the user prints or by words it does not know', () => {
    expect(readBadge([])).toBeNull();
    expect(readBadge([printed])).toBeNull();
    expect(readBadge([line('note')])).toBeNull();
    expect(readBadge([line('constructor')])).toBeNull();
    expect(readBadge([line(null)])).toBeNull();
    expect(
      readBadge([
        { output_type: 'display_data', metadata: { nbcheckpoint: 'restored' } }
      ])
    ).toBeNull();
  });
});

describe('where a loop went on', () => {
  const text =
    'resumed: loop continued at 37 of 100, spared 2h 41m · computed 4h';

  it('is read from the metadata', () => {
    const output = line('resumed', text);
    (output.metadata as { nbcheckpoint: object }).nbcheckpoint = {
      status: 'resumed',
      done: 5,
      total: 9
    };
    expect(readBadge([output])?.at).toBe('5/9');
  });

  it('is read from the line where the metadata do not say', () => {
    expect(readBadge([line('resumed', text)])?.at).toBe('37/100');
    expect(
      readBadge([line('resumed', 'resumed: loop continued at 1,200, x')])?.at
    ).toBe('1,200');
    expect(readBadge([line('computed')])?.at).toBe('');
  });
});

describe('judge', () => {
  const withCode = (code: string): IOutput => ({
    ...line('computed'),
    metadata: { nbcheckpoint: { status: 'computed', code } }
  });
  const error: IOutput = {
    output_type: 'error',
    ename: 'ValueError',
    evalue: 'no',
    traceback: []
  };

  it('knows the checksum every zip file has', () => {
    expect(crc32('123456789')).toBe('cbf43926');
    expect(crc32('ä')).toBe('70b5f183');
  });

  it('sees that the code has changed since, also after a reload', () => {
    const outputs = [withCode(crc32('x = 1'))];
    expect(judge(outputs, 'x = 1', true, '', trans)?.status).toBe('computed');
    expect(judge(outputs, 'x = 2', true, '', trans)).toMatchObject({
      status: 'stale',
      text: 'its code has changed since'
    });
  });

  it('passes on what the kernel says', () => {
    const badge = judge(
      [line('restored')],
      '',
      true,
      'input df changed',
      trans
    );
    expect(sayBadge(badge!, trans)).toBe('out of date: input df changed');
  });

  it('calls a checkpointed cell with an error failed, and no other', () => {
    expect(judge([error], 'x', true, '', trans)).toMatchObject({
      status: 'failed',
      text: 'ValueError: no'
    });
    expect(judge([error], 'x', false, '', trans)).toBeNull();
  });
});

it('what a cell came to while no page was open is what its last step came to', () => {
  const ended = (
    cell: string,
    status: IStep['status'],
    more: Partial<IStep> = {}
  ): IStep => ({
    ...STEPS[0],
    cell,
    status,
    code: 'c0de',
    checkpoint: 'k',
    ...more
  });
  const found = unseenBadges(
    [
      ended('a', 'completed'),
      ended('b', 'restored'),
      ended('c', 'completed'),
      ended('c', 'running', { checkpoint: '' }),
      ended('d', 'completed', { checkpoint: '' }),
      ended('e', 'completed', { code: '' }),
      ended('', 'completed')
    ],
    trans
  );
  expect([...found].map(([cell, badge]) => `${cell} ${badge.status}`)).toEqual([
    'a computed',
    'b restored'
  ]);
  expect(found.get('a')?.text).toContain('run the cell to see its output');
});

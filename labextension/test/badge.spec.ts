import type { IOutput } from '@jupyterlab/nbformat';
import { describe, expect, it } from 'vitest';
import { readBadge } from '../src/badge';

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
      expect(readBadge([printed, line(status), printed])).toEqual({
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

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

/**
 * One of the answers both sides are held to: `tests/data/wire/` at the root of the repository.
 */
export function wire(name: string): unknown {
  const file = resolve(__dirname, '../../tests/data/wire', `${name}.json`);
  return JSON.parse(readFileSync(file, 'utf-8'));
}

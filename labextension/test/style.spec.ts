import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const css = readFileSync(resolve(__dirname, '../style/base.css'), 'utf-8');
const rules = css.replace(/\/\*.*?\*\//gs, '');

describe('the style sheet', () => {
  it('takes every colour from the theme', () => {
    const colours = [
      ...rules.matchAll(/(?:color|background|border[\w-]*|outline):([^;]+);/g)
    ]
      .map(([, value]) => value.trim())
      .filter(
        value =>
          !/^((\d+px solid )?transparent|none|inherit|collapse|\d+%?)$/.test(
            value
          )
      );
    expect(colours.length).toBeGreaterThan(20);
    for (const value of colours) {
      expect(value).toMatch(/var\(--(jp|nbc)-|^-?\d+px$|^\d+px$|^50%$/);
    }
    expect(rules).not.toMatch(/#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(/i);
  });

  it('touches nothing that is not ours', () => {
    const selectors = [...rules.matchAll(/([^{}]+)\{/g)]
      .flatMap(([, list]) => list.split(','))
      .map(selector => selector.trim())
      .filter(
        selector =>
          selector && !selector.startsWith('@') && !/^\d+%$/.test(selector)
      );
    expect(selectors.length).toBeGreaterThan(40);
    for (const selector of selectors) {
      expect(selector).toMatch(/^\.nbc-/);
    }
  });
});

import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [
    {
      // The bundler hands an SVG over as text; so do the tests.
      name: 'svg-as-text',
      enforce: 'pre',
      load(id) {
        return id.endsWith('.svg')
          ? `export default ${JSON.stringify(readFileSync(id, 'utf-8'))}`
          : undefined;
      }
    }
  ],
  test: {
    environment: 'jsdom',
    include: ['test/**/*.spec.{ts,tsx}'],
    setupFiles: ['test/setup.ts'],
    css: false,
    restoreMocks: true,
    // JupyterLab's packages are ES modules in all but name, so they have to go through the transformer.
    server: { deps: { inline: [/@jupyterlab\//, /@jupyter\//, /@lumino\//] } }
  }
});

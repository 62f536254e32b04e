import { resolve } from 'node:path';
import { executeNotebooks, requireNotebooks } from './lib/execute.mjs';
import { notebookFiles } from './lib/notebook-inputs.mjs';
import { setUp } from './lib/setup.mjs';
import { runMain } from './lib/step.mjs';
import { storeExecuted } from './lib/store-executed.mjs';

await runMain(async () => {
  const setup = await setUp('run');
  const named = process.argv.slice(2).map((path) => resolve(path));
  const notebooks = named.length > 0 ? named : notebookFiles();
  requireNotebooks(notebooks);
  return storeExecuted(notebooks, (path) => executeNotebooks(setup, [path], { inPlace: true }));
});

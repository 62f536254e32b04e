import { resolve } from 'node:path';
import { executeNotebooks } from './lib/execute.mjs';
import { notebookFiles, storeNotebook } from './lib/notebook-inputs.mjs';
import { setUp } from './lib/setup.mjs';
import { runMain } from './lib/step.mjs';

await runMain(async () => {
  const setup = await setUp('run');
  const named = process.argv.slice(2).map((path) => resolve(path));
  const notebooks = named.length > 0 ? named : notebookFiles();
  const status = await executeNotebooks(setup, notebooks, { inPlace: true });
  if (status === 0) for (const notebook of notebooks) storeNotebook(notebook);
  return status;
});

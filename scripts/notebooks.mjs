import { resolve } from 'node:path';
import { fromBuild } from './lib/from-build.mjs';
import { notebookFiles, whyNotHere } from './lib/notebook-inputs.mjs';
import { setUp } from './lib/setup.mjs';
import { runMain } from './lib/step.mjs';
import { storeExecuted } from './lib/store-executed.mjs';

await runMain(async () => {
  const setup = await setUp('run');
  const { executeNotebooks, requireNotebooks } = fromBuild('cli/lab/execute');
  const named = process.argv.slice(2).map((path) => resolve(path));
  const wanted = named.length > 0 ? named : notebookFiles();
  requireNotebooks(wanted);
  const notebooks = wanted.filter((path) => {
    const why = whyNotHere(path, setup.env);
    if (why !== undefined) process.stderr.write(`${path} keeps its stored outputs: ${why}\n`);
    return why === undefined;
  });
  return storeExecuted(notebooks, (path) => executeNotebooks(setup, [path], { inPlace: true }));
});

import { join } from 'node:path';
import { filesBelow } from './lib/build.mjs';
import { executeNotebooks } from './lib/execute.mjs';
import { root } from './lib/places.mjs';
import { setUp } from './lib/setup.mjs';
import { runMain } from './lib/step.mjs';

await runMain(async () => {
  const setup = await setUp('run');
  const named = process.argv.slice(2);
  const all = filesBelow(join(root, 'notebooks')).filter(
    (file) => file.endsWith('.ipynb') && !file.includes('.ipynb_checkpoints'),
  );
  return executeNotebooks(setup, named.length > 0 ? named : all, { inPlace: true });
});

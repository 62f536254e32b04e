import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fromBuild } from './lib/from-build.mjs';
import { notebookFiles, whyNotHere } from './lib/notebook-inputs.mjs';
import { englishPath, isChinese, storePair } from './lib/notebook-pair.mjs';
import { setUp } from './lib/setup.mjs';
import { runMain, StepError } from './lib/step.mjs';
import { storeExecuted } from './lib/store-executed.mjs';
import { writeTutorial } from './lib/tutorial.mjs';

await runMain(async () => {
  const named = process.argv.slice(2).map((path) => resolve(path));
  const absent = named.filter((path) => !existsSync(path));
  if (absent.length > 0)
    throw new StepError(`No such notebook: ${absent.join(', ')}`, 'name one that exists');
  // A Chinese notebook is not executed: it gets the code cells and outputs of the English one.
  for (const path of named.filter(isChinese)) storePair(englishPath(path));
  const wanted = named.length > 0 ? named.filter((path) => !isChinese(path)) : notebookFiles();
  if (wanted.length === 0) return 0;
  const prepared = await setUp('run');
  // Stored errors have English text only, whatever the locale of the developer is.
  const setup = { ...prepared, env: { ...prepared.env, SHARDLAB_LANG: 'en', SHARDLAB_HISTORY: '0' } };
  const { executeNotebooks } = fromBuild('cli/lab/execute');
  const notebooks = wanted.filter((path) => {
    const why = whyNotHere(path, setup.env);
    if (why !== undefined) process.stderr.write(`${path} keeps its stored outputs: ${why}\n`);
    return why === undefined;
  });
  try {
    return await storeExecuted(notebooks, (path) =>
      executeNotebooks(setup, [path], { inPlace: true }, { isMeasured: true }),
    );
  } finally {
    writeTutorial();
  }
});

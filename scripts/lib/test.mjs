import { parseArgs } from 'node:util';
import { runBiome } from './biome.mjs';
import { runTests, smokeFiles, testFiles } from './run-tests.mjs';
import { setUp } from './setup.mjs';
import { runMain, step, UsageError } from './step.mjs';
import { runTorchTests } from './torch-tests.mjs';

const HELP = `npm test [-- options] [TEXT…]   set up what is missing, build, lint, run the tests
  In a clean clone, all tests run; with a change in the work tree, those that the change reaches, and a smoke of a minute.
  TEXT          run only the tests whose path contains a TEXT
  --all         run all tests
  --since REF   run the tests that the change since REF reaches (a commit, a branch), and the smoke
  --fast        skip *.slow.test.ts
  --long        run every case of each file, and also *.long.test.ts; then run the tests of --torch
  --torch       only run the Python package's tests and *.torch.test.ts, with PyTorch; with --fast, only its smoke of a minute
  --golden      write the golden files again
  --no-lint     skip the linter
  --no-python   set up no Python (tests that need Python are skipped and say so)`;

/** The main function of `npm test`. */
export function main() {
  return runMain(async () => {
    const { values, positionals } = readOptions();
    if (values.help) {
      process.stdout.write(`${HELP}\n`);
      return 0;
    }
    const { env } = await setUp('test', { withPython: !values['no-python'] });
    const torch = { fast: values.fast, only: positionals };
    if (values.torch) return runTorchTests(env, torch);
    if (!values['no-lint']) await step('lint', runBiome);
    const { files, changed } = await chosenFiles(values, positionals);
    const cases = values.long ? {} : { SHARDLAB_TEST_CASES: 'some' };
    const status = await runTests(
      files,
      {
        ...env,
        ...cases,
        ...(changed && { SHARDLAB_TEST_CHANGED: changed.join('\n') }),
        ...(values.golden && { SHARDLAB_GOLDEN: '1' }),
      },
      { long: values.long },
    );
    // With TEXT arguments, only TypeScript tests run here; `--torch TEXT` runs tests with PyTorch.
    if (!values.long || positionals.length > 0) return status;
    return (await runTorchTests(env, torch)) || status;
  });
}

/**
 * The test files that the options name; without options, those that the change in the work tree reaches, and the files that
 * changed.
 */
async function chosenFiles({ fast, long, golden, all, since }, only) {
  const files = testFiles({ fast, long, only });
  const isUsual = !fast && !long && !golden && only.length === 0;
  if (all || (since === undefined && !isUsual)) return { files };
  return step('tests', async (say) => {
    // It needs TypeScript, which a fresh clone has only after the set-up.
    const { chooseTests } = await import('./reach/choose.mjs');
    const { tests, changed, why } = chooseTests(files, since);
    say(tests === undefined ? `all: ${why}` : `${why}; and the smoke`);
    return tests === undefined
      ? { files }
      : { files: [...new Set([...tests, ...smokeFiles(files)])], changed };
  });
}

function readOptions() {
  const flags = ['help', 'all', 'fast', 'long', 'torch', 'golden', 'no-lint', 'no-python'];
  const options = Object.fromEntries(flags.map((name) => [name, { type: 'boolean' }]));
  try {
    return parseArgs({ allowPositionals: true, options: { ...options, since: { type: 'string' } } });
  } catch (error) {
    throw new UsageError(error.message, HELP);
  }
}

import { parseArgs } from 'node:util';
import { runBiome } from './biome.mjs';
import { runTests, testFiles } from './run-tests.mjs';
import { setUp } from './setup.mjs';
import { runMain, step, UsageError } from './step.mjs';
import { runTorchTests } from './torch-tests.mjs';

const HELP = `npm test [-- options] [TEXT…]   set up what is missing, build, lint, run the tests (only those whose path contains a TEXT)
  --fast        skip *.slow.test.ts
  --long        run every case of each file, and also *.long.test.ts; then run the tests of --torch
  --torch       only run the Python package's tests and *.torch.test.ts, with PyTorch; --fast skips the slow ones
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
    const files = testFiles({ fast: values.fast, long: values.long, only: positionals });
    const cases = values.long ? {} : { SHARDLAB_TEST_CASES: 'some' };
    const status = await runTests(
      files,
      {
        ...env,
        ...cases,
        ...(values.golden && { SHARDLAB_GOLDEN: '1' }),
      },
      { long: values.long },
    );
    // With TEXT arguments, only TypeScript tests run here; `--torch TEXT` runs tests with PyTorch.
    if (!values.long || positionals.length > 0) return status;
    return (await runTorchTests(env, torch)) || status;
  });
}

function readOptions() {
  const flags = ['help', 'fast', 'long', 'torch', 'golden', 'no-lint', 'no-python'];
  try {
    return parseArgs({
      allowPositionals: true,
      options: Object.fromEntries(flags.map((name) => [name, { type: 'boolean' }])),
    });
  } catch (error) {
    throw new UsageError(error.message, HELP);
  }
}

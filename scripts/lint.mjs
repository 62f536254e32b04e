import { runBiome } from './lib/biome.mjs';
import { ensureBuild } from './lib/build.mjs';
import { checkDataLines } from './lib/data-lines.mjs';
import { runTests, testFiles } from './lib/run-tests.mjs';
import { runMain, step } from './lib/step.mjs';

await runMain(async () => {
  await step('build', ensureBuild);
  await step('lint', (say) => runBiome(say, process.argv.slice(2)));
  await step('data', checkDataLines);
  return runTests(
    testFiles({ only: ['test/project/layers', 'test/project/flats', 'test/project/sizes'] }),
    process.env,
  );
});

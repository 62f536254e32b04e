import { join } from 'node:path';
import { root } from './places.mjs';
import { capture } from './run.mjs';
import { StepError } from './step.mjs';

/** Runs Biome's linter and format check on the clone; warnings count as errors. */
export async function runBiome(say, paths = ['.']) {
  const biome = join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome');
  const args = [biome, 'check', '--error-on-warnings', '--max-diagnostics=60', ...paths];
  const result = await capture(process.execPath, args, { cwd: root });
  if (result.code === 0) return say(result.stdout.trim().split('\n')[0]?.toLowerCase() ?? 'clean');
  throw new StepError(
    `${result.stdout}${result.stderr}`.trim() || result.missing.message,
    '`npm run format` corrects what Biome can correct',
  );
}

import { join } from 'node:path';
import { root } from './lib/places.mjs';
import { passThrough } from './lib/run.mjs';
import { setUp } from './lib/setup.mjs';
import { runMain } from './lib/step.mjs';

// Fits the constants of src/planner/calibration.ts again and prints them. It writes no file.
await runMain(async () => {
  const { env } = await setUp('test');
  const program = join(root, 'build', 'test', 'bench', 'calibrate.js');
  return passThrough(process.execPath, [program, ...process.argv.slice(2)], { env });
});

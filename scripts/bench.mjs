import { join } from 'node:path';
import { root } from './lib/places.mjs';
import { passThrough } from './lib/run.mjs';
import { setUp } from './lib/setup.mjs';
import { runMain } from './lib/step.mjs';

await runMain(async () => {
  const { env } = await setUp('test');
  const command = join(root, 'build', 'src', 'cli', 'main.js');
  return passThrough(process.execPath, [command, 'bench', ...process.argv.slice(2)], { env });
});

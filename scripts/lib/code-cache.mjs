import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from './places.mjs';

/** Saves the compiled code with which ranks and kernels start; without this cache, a rank needs a third more time to start. */
export async function ensureCodeCache(say) {
  const require = createRequire(import.meta.url);
  const { hasCodeCache, saveCodeCache } = require(
    join(root, 'build', 'src', 'core', 'code-cache', 'save.js'),
  );
  // The cache contains paths, so a clone that was moved needs a new cache.
  const build = `${readFileSync(join(root, 'build', '.inputs'), 'utf8')} ${root}`;
  if (hasCodeCache(build)) return say('up to date');
  say((await saveCodeCache(build)) ? 'saved' : 'could not be saved; ranks will start more slowly');
}

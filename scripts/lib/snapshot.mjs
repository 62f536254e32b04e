import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from './places.mjs';

/** Saves the heap snapshot from which kernels start their compiler; without the snapshot, kernels start about a second later. */
export async function ensureSnapshot(say) {
  const require = createRequire(import.meta.url);
  const compiler = join(root, 'build', 'kernel', 'compiler', 'snapshot.js');
  const { buildCompilerSnapshot, hasSnapshot, snapshotPlace } = require(compiler);
  const place = snapshotPlace(root);
  if (hasSnapshot(place)) return say('up to date');
  say((await buildCompilerSnapshot(place)) ? 'saved' : 'could not be saved; kernels will start more slowly');
}
